"""Snapshots as folders, and inside a series: taken, found, chosen, packed."""

import gzip
import hashlib
import heapq
import io
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kg.dates import Day, format_day, parse_day
from kg.errors import SnapshotError, UsageError
from kg.resources import shipped_snapshots
from kg.snapshot import manifest as manifests
from kg.snapshot.appending import append, mend
from kg.snapshot.beside import exists, take_away, written_beside
from kg.snapshot.reading import Statement, read_graph
from kg.snapshot.segments import SUFFIX
from kg.snapshot.series import FOLDER, Series, open_series, survey_series
from kg.snapshot.triples import ntriples
from kg.sources import Row, Source

_STATEMENTS: Final = "statements.nt.gz"
PARTS: Final = (_STATEMENTS, manifests.NAME)
"""The files in a snapshot's folder."""

_LINES: Final = 10_000
_BLOCK: Final = 1 << 20
_IS_DATE: Final = re.compile(r"-?\d{4,}-\d\d-\d\d")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk.

    Attributes:
        id: Its date, which is its name: "2023-12-18".
        path: Its folder.
        manifest: What its manifest says; the checksum has been checked.
    """

    id: str
    path: Path
    manifest: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the uncompressed N-Triples."""
        return str(self.manifest["statements"]["digest"])

    @property
    def date(self) -> Day:
        """The day it shows."""
        return parse_day(self.id)

    @property
    def known(self) -> str | None:
        """How its date is known, where that is not a plain day."""
        known = self.manifest["known"]
        return None if known is None else str(known)

    @property
    def dropped(self) -> frozenset[str]:
        """Team classes which its source leaves out; that such a team is missing says nothing."""
        return frozenset(self.manifest["source"]["dropped"])

    @property
    def statements_path(self) -> Path:
        """The gzipped N-Triples."""
        return self.path / _STATEMENTS

    def read_statements(self) -> bytes:
        """Return the uncompressed N-Triples.

        Raises:
            SnapshotError: they are missing, damaged, or not the ones the manifest names.
        """
        try:
            data = gzip.decompress(self.statements_path.read_bytes())
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise SnapshotError(
                f"{self.statements_path} cannot be read: {error}", hint=f"dyknow snapshot verify {self.id}"
            ) from error
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise SnapshotError(
                f"{self.statements_path} does not have the digest its manifest names.", hint="Take or fetch it again."
            )
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the uncompressed N-Triples in pieces, so that they need not be in memory as a whole.

        Raises:
            SnapshotError: as `read_statements`; what is wrong may show only after the last piece.
        """
        digest = hashlib.sha256()
        try:
            with gzip.open(self.statements_path) as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
                    yield block
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise SnapshotError(
                f"{self.statements_path} cannot be read: {error}", hint=f"dyknow snapshot verify {self.id}"
            ) from error
        if digest.hexdigest() != self.digest:
            raise SnapshotError(
                f"{self.statements_path} does not have the digest its manifest names.", hint="Take or fetch it again."
            )

    def statements(self) -> list[Statement]:
        """Return its statements, sorted by fact, holder and start.

        Raises:
            SnapshotError: as `read_statements`.
        """
        return read_graph(self.read_statements())


@dataclass(frozen=True)
class Packed(Snapshot):
    """A snapshot inside a series; its path is its segment, and its lines come from that one and those before it.

    Attributes:
        series: Where it lies.
    """

    series: Series

    @property
    def place(self) -> int:
        """Which of the series' snapshots it is, counted from 0."""
        return self.series.place(self.id)

    @property
    def changes(self) -> tuple[int, int, int]:
        """How many lines the series had not before, how many left it, and how many came back."""
        return self.series.changes(self.place)

    def blocks(self) -> Iterator[bytes]:
        """Yield the N-Triples in pieces; see `Snapshot.blocks`."""
        return self.series.blocks(self.place)

    def read_statements(self) -> bytes:
        """Return the N-Triples.

        Raises:
            SnapshotError: a segment is damaged.
        """
        return b"".join(self.blocks())


class Damaged(NamedTuple):
    """A snapshot that cannot be opened.

    Attributes:
        id: Its date.
        path: Its folder or segment.
        error: Why not, and the next step.
    """

    id: str
    path: Path
    error: SnapshotError


def packed(folder: Path) -> list[Packed]:
    """Return the snapshots that a folder of snapshots has in a series, by date.

    Raises:
        SnapshotError: a segment is missing, or its index is damaged.
    """
    series = open_series(folder / FOLDER)
    return _in_series(series) if series else []


def survey_packed(folder: Path) -> tuple[list[Packed], list[Damaged]]:
    """Return the snapshots that a folder of snapshots has in a series, those that cannot be opened apart."""
    place = folder / FOLDER
    opened = survey_series(place)
    damaged = [Damaged(name, place / (name + SUFFIX), error) for name, error in opened.damaged.items()]
    return _in_series(opened.series) if opened.series else [], damaged


def _in_series(series: Series) -> list[Packed]:
    """Return the snapshots of a series; what grows with their facts is read when it is asked for."""
    return [
        Packed(
            series.dates[place],
            segment.path,
            manifests.Partly(series.about(place), partial(_whole, series, place)),
            series,
        )
        for place, segment in enumerate(series.segments)
    ]


def _whole(series: Series, place: int) -> dict[str, Any]:
    return manifests.parse(series.manifest(place), series.segments[place].path)


def _segment(path: Path) -> Path:
    """Return where a series would have the snapshot that is not in a folder of its own."""
    return path.parent / FOLDER / (path.name + SUFFIX)


def whereabouts(folder: Path, day: Day) -> Path | None:
    """Return where snapshots have that of a day, a folder of its own or a segment; None where they have none."""
    path = folder / format_day(day)
    return next((found for found in (path, _segment(path)) if found.exists()), None)


def local_folder() -> Path:
    """Return the folder for snapshots: ``$DYKNOW_SNAPSHOTS``, else ``snapshots`` where the call is made."""
    return Path(os.environ.get("DYKNOW_SNAPSHOTS") or "snapshots")


def load(path: Path) -> Snapshot:
    """Return the snapshot in a folder ``DATE``; where there is no such folder, that of the series beside it.

    Raises:
        SnapshotError: there is none, or its manifest is damaged.
    """
    if not path.exists() and _segment(path).exists() and (series := open_series(path.parent / FOLDER)):
        return _in_series(series)[series.place(path.name)]
    return Snapshot(path.name, path, manifests.read(path))


class Survey(NamedTuple):
    """The snapshots there are, by date: those that can be opened, and those that cannot."""

    snapshots: list[Snapshot]
    damaged: list[Damaged]


def find_snapshots(folder: Path | None = None) -> list[Snapshot]:
    """Return the snapshots of a folder (default: `local_folder`) and the shipped ones, by date.

    Raises:
        SnapshotError: one is damaged, or a local snapshot and a shipped one of the same date differ.
    """
    found = survey(folder)
    for one in found.damaged:
        raise one.error
    return found.snapshots


def survey(folder: Path | None = None) -> Survey:
    """Return the snapshots of a folder (default: `local_folder`) and the shipped ones, the damaged ones apart.

    Manifests are read, no statements; whether these are whole, `verify` tells.
    """
    found: dict[str, Snapshot] = {}
    damaged: dict[str, Damaged] = {}
    for place in (folder or local_folder(), shipped_snapshots()):
        for one in _of_folder(place):
            if isinstance(one, Damaged):
                damaged.setdefault(one.id, one)
                continue
            first = found.setdefault(one.id, one)
            if first.digest != one.digest:
                message = f"{first.path} and {one.path} are two different snapshots of one date."
                twice = SnapshotError(message, hint=f"Move {first.path} away.")
                damaged.setdefault(one.id, Damaged(one.id, first.path, twice))
    whole = [one for one in found.values() if one.id not in damaged]
    return Survey(sorted(whole, key=lambda one: one.date), [damaged[name] for name in sorted(damaged, key=by_day)])


def by_day(name: str) -> tuple[Day, str]:
    """Return what sorts the names of snapshots; a damaged one may be named by no date, and comes first."""
    return (parse_day(name) if _IS_DATE.fullmatch(name) else 0), name


def _of_folder(folder: Path) -> Iterator[Snapshot | Damaged]:
    """Yield the snapshots of one folder, those in folders of their own first."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _IS_DATE.fullmatch(path.name) and path.is_dir():
            try:
                yield load(path)
            except SnapshotError as error:
                yield Damaged(path.name, path, error)
    yield from chain(*survey_packed(folder))


def choose(
    snapshots: Sequence[Snapshot], as_of: Day, known_at: str | None = None, damaged: Sequence[Damaged] = ()
) -> Snapshot:
    """Return the snapshot to read: the one of ``known_at``, else the oldest not before ``as_of``, else the newest.

    Raises:
        UsageError: there is none of that date.
        SnapshotError: there are none at all, or it is one of the damaged.
    """
    there: list[Snapshot | Damaged] = [*snapshots, *damaged]
    every = {one.id: one for one in sorted(there, key=lambda one: by_day(one.id))}
    if not every:
        raise SnapshotError("There are no snapshots.", hint="Take one: dyknow snapshot take")
    if known_at is not None and known_at not in every:
        raise UsageError(f"There is no snapshot {known_at!r}.", hint=f"There are: {', '.join(every)}.")
    later = (name for name in every if by_day(name)[0] >= as_of)
    chosen = every[known_at or next(later, [*every][-1])]
    if isinstance(chosen, Damaged):
        raise chosen.error
    return chosen


def take(source: Source, folder: Path, date: Day | None = None, known: str | None = None) -> Snapshot:
    """Freeze the rows of a source as ``folder/DATE``.

    Args:
        source: the statements.
        folder: where snapshots live; made where it is not there.
        date: the day the snapshot shows; None takes the source's.
        known: how the date is known; None takes the source's.

    Raises:
        UsageError: neither names a date.
        DataError: a row is malformed.
        SnapshotError: the folder already has a snapshot of that date; it is left as it is.
    """
    target, day = _target(source, folder, date)
    data = ntriples(source.rows, source.triples)
    packed = _gzip(data)
    manifest = manifests.build(source, day=day, known=known or source.known, data=data, packed=packed)
    with written_beside(target) as beside:
        _write(beside / _STATEMENTS, packed)
        _write(beside / manifests.NAME, manifests.render(manifest))
    return Snapshot(target.name, target, manifest)


def take_in_parts(
    source: Source,
    parts: Iterable[Sequence[Row]],
    folder: Path,
    date: Day | None = None,
    known: str | None = None,
) -> Snapshot:
    """Freeze rows that come in parts as ``folder/DATE``, holding one part in memory: the same bytes as `take`.

    Args:
        source: what a manifest says of them, and triples of no single statement; its own rows are not looked at.
        parts: the rows, all those of a fact in one part.
        folder: as in `take`, like the two below. It needs room for the uncompressed triples until they are merged.
        date: the day the snapshot shows.
        known: how the date is known.

    Raises:
        UsageError: neither names a date.
        DataError: a row is malformed, or a fact comes in two parts.
        SnapshotError: the folder already has a snapshot of that date; it is left as it is.
    """
    target, day = _target(source, folder, date)
    tally = manifests.Tally(day)
    with written_beside(target) as beside, tempfile.TemporaryDirectory(prefix="parts-", dir=beside) as spilled:
        sorted_parts = []
        for number, rows in enumerate(chain(parts, [()])):
            tally.add(rows)
            sorted_parts.append(Path(spilled) / str(number))
            sorted_parts[-1].write_bytes(ntriples(rows, () if rows else source.triples))
        written = _merge(sorted_parts, beside / _STATEMENTS)
        manifest = manifests.assemble(source, tally, written, known)
        _write(beside / manifests.NAME, manifests.render(manifest))
    return Snapshot(target.name, target, manifest)


def _merge(parts: Sequence[Path], path: Path) -> manifests.Written:
    """Write the lines of sorted files as one sorted, gzipped file without repetition."""
    digest, lines, length = hashlib.sha256(), 0, 0
    with ExitStack() as opened, path.open("wb") as file, _packing(file) as packed:
        merged = heapq.merge(*(opened.enter_context(part.open("rb")) for part in parts))
        distinct = (line for line, _ in groupby(merged))
        while block := list(islice(distinct, _LINES)):
            data = b"".join(block)
            lines, length = lines + len(block), length + len(data)
            digest.update(data)
            packed.write(data)
    with path.open("rb+") as whole:
        file_digest = hashlib.file_digest(whole, "sha256")
        os.fsync(whole.fileno())
    return manifests.Written(lines, length, digest.hexdigest(), file_digest.hexdigest())


def _target(source: Source, folder: Path, date: Day | None) -> tuple[Path, Day]:
    """Return where a snapshot goes, and the day it shows."""
    if (day := source.date if date is None else date) is None:
        raise UsageError("The source does not say which day it shows.", hint="Give the date.")
    if there := whereabouts(folder, day):
        raise exists(there)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / format_day(day), day


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _gzip(data: bytes) -> bytes:
    """Compress without name and time, so that the same bytes stay the same."""
    packed = io.BytesIO()
    with _packing(packed) as file:
        file.write(data)
    return packed.getvalue()


def _packing(file: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0)


def pack(snapshot: Snapshot, folder: Path) -> Packed:
    """Append a snapshot to the series of a folder of snapshots, and return it as it lies there.

    What it was packed from stays; `drop` takes it away. It is read back, so it is there byte for byte.

    Raises:
        SnapshotError: the series has another one of that date, or goes beyond it, or one of them is damaged.
    """
    place = folder / FOLDER
    series = open_series(place)
    if series is None or snapshot.id not in series.dates:
        series = append(
            place,
            snapshot.id,
            snapshot.blocks(),
            manifest=manifests.render(snapshot.manifest),
            about={key: snapshot.manifest[key] for key in manifests.QUICK},
            digest=snapshot.digest,
        )
    else:
        mend(place)  # a killed process may have left it out of the list
    done = _in_series(series)[series.place(snapshot.id)]
    if done.digest != snapshot.digest or done.manifest["checksum"] != snapshot.manifest["checksum"]:
        raise SnapshotError(
            f"{done.path} and {snapshot.path} are two different snapshots of one date.",
            hint=f"Move {snapshot.path} away.",
        )
    return done


def drop(snapshot: Snapshot, packed: Packed) -> None:
    """Take away the folder of a snapshot that a series has too.

    Raises:
        SnapshotError: they are two different ones, the folder's is damaged, or it holds other files, too.
    """
    if isinstance(snapshot, Packed) or snapshot.digest != packed.digest:
        raise SnapshotError(f"{packed.path} does not hold {snapshot.path}.", hint="Nothing was taken away.")
    foreign = sorted({path.name for path in snapshot.path.iterdir()} - {*PARTS})
    if foreign:
        hint = "It is packed, and its folder stays. Move that file away, or leave folders with --keep."
        raise SnapshotError(f"{snapshot.path} also holds {foreign[0]}, which is no part of a snapshot.", hint=hint)
    for _ in snapshot.blocks():  # raises where they are not what the manifest names
        pass
    take_away(snapshot.path)


def unpack(packed: Packed, folder: Path) -> Snapshot:
    """Write a snapshot of a series as ``folder/DATE``, and return it; the series stays as it is.

    Where another zlib compresses to other bytes than those its manifest knows, the manifest names the new ones.

    Raises:
        SnapshotError: the folder is there already, or the series is damaged.
    """
    target = folder / packed.id
    if target.exists():
        raise exists(target)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = dict(packed.manifest)
    with written_beside(target) as beside:
        with (beside / _STATEMENTS).open("wb") as file:
            with _packing(file) as stream:
                stream.writelines(packed.blocks())
            os.fsync(file.fileno())
        with (beside / _STATEMENTS).open("rb") as file:
            file_digest = hashlib.file_digest(file, "sha256").hexdigest()
        if file_digest != manifest["statements"]["file_digest"]:
            manifest = manifests.renewed(manifest, file_digest)
        _write(beside / manifests.NAME, manifests.render(manifest))
    return Snapshot(target.name, target, manifest)
