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
from kg.snapshot.beside import exists, written_beside
from kg.snapshot.reading import Statement, read_graph
from kg.snapshot.segments import SUFFIX
from kg.snapshot.series import FOLDER, Series, open_series, survey_series
from kg.snapshot.triples import ntriples
from kg.sources import Row, Source

STATEMENTS: Final = "statements.nt.gz"
"""The triples in a snapshot's folder."""

PARTS: Final = (STATEMENTS, manifests.NAME)
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
        return self.path / STATEMENTS

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
    return in_series(series) if series else []


def survey_packed(folder: Path) -> tuple[list[Packed], list[Damaged]]:
    """Return the snapshots that a folder of snapshots has in a series, those that cannot be opened apart."""
    place = folder / FOLDER
    opened = survey_series(place)
    damaged = [Damaged(name, place / (name + SUFFIX), error) for name, error in opened.damaged.items()]
    return in_series(opened.series) if opened.series else [], damaged


def in_series(series: Series) -> list[Packed]:
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
        return in_series(series)[series.place(path.name)]
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


def survey(folder: Path | None = None, only: str | None = None) -> Survey:
    """Return the snapshots of a folder (default: `local_folder`) and the shipped ones, the damaged ones apart.

    Manifests are read, no statements; whether these are whole, `verify` tells.

    Args:
        folder: where they lie.
        only: the date of those to look at; None takes all.
    """
    found: dict[str, Snapshot] = {}
    damaged: dict[str, Damaged] = {}
    for place in (folder or local_folder(), shipped_snapshots()):
        for one in _of_folder(place, only):
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


def dates(folder: Path | None = None) -> list[str]:
    """Return the dates of all snapshots, whether whole or damaged; of those in folders nothing is read."""
    found = set()
    for place in (folder or local_folder(), shipped_snapshots()):
        found |= {path.name for path in _folders(place)}
        found |= {one.id for part in survey_packed(place) for one in part}
    return sorted(found, key=by_day)


def by_day(name: str) -> tuple[Day, str]:
    """Return what sorts the names of snapshots; a damaged one may be named by no date, and comes first."""
    return (parse_day(name) if _IS_DATE.fullmatch(name) else 0), name


def _folders(folder: Path) -> list[Path]:
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if _IS_DATE.fullmatch(path.name) and path.is_dir()]


def _of_folder(folder: Path, only: str | None) -> Iterator[Snapshot | Damaged]:
    """Yield the snapshots of one folder, those in folders of their own first."""
    for path in _folders(folder):
        if only in (None, path.name):
            try:
                yield load(path)
            except SnapshotError as error:
                yield Damaged(path.name, path, error)
    for part in survey_packed(folder):
        yield from (one for one in part if only in (None, one.id))


def choose(snapshots: Sequence[Snapshot], as_of: Day, known_at: str | None = None) -> Snapshot:
    """Return the snapshot to read: the one of ``known_at``, else the oldest not before ``as_of``, else the newest.

    Raises:
        UsageError: there is none of that date.
        SnapshotError: there are none at all.
    """
    by_id = {one.id: one for one in snapshots}
    return by_id[_chosen(sorted(by_id, key=by_day), as_of, known_at)]


def find(folder: Path | None, as_of: Day, known_at: str | None = None) -> Snapshot:
    """Return the snapshot to read out of a folder (default: `local_folder`) and the shipped ones, as `choose`.

    The others are not read, so that one among sixty is found at once, and a damaged one stops nobody.

    Raises:
        UsageError: there is none of that date.
        SnapshotError: there are none at all, or it is damaged.
    """
    found = survey(folder, _chosen(dates(folder), as_of, known_at))
    for one in found.damaged:
        raise one.error
    return found.snapshots[0]


def _chosen(there: Sequence[str], as_of: Day, known_at: str | None) -> str:
    """Return which of the dates, in order, is the one to read."""
    if not there:
        raise SnapshotError("There are no snapshots.", hint="Take one: dyknow snapshot take")
    if known_at is not None and known_at not in there:
        raise UsageError(f"There is no snapshot {known_at!r}.", hint=f"There are: {', '.join(there)}.")
    return known_at or next((name for name in there if by_day(name)[0] >= as_of), there[-1])


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
        write(beside / STATEMENTS, packed)
        write(beside / manifests.NAME, manifests.render(manifest))
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
        written = _merge(sorted_parts, beside / STATEMENTS)
        manifest = manifests.assemble(source, tally, written, known)
        write(beside / manifests.NAME, manifests.render(manifest))
    return Snapshot(target.name, target, manifest)


def _merge(parts: Sequence[Path], path: Path) -> manifests.Written:
    """Write the lines of sorted files as one sorted, gzipped file without repetition."""
    digest, lines, length = hashlib.sha256(), 0, 0
    with ExitStack() as opened, path.open("wb") as file, gzipped(file) as packed:
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


def write(path: Path, data: bytes) -> None:
    """Write a file that is on disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _gzip(data: bytes) -> bytes:
    """Compress without name and time, so that the same bytes stay the same."""
    packed = io.BytesIO()
    with gzipped(packed) as file:
        file.write(data)
    return packed.getvalue()


def gzipped(file: IO[bytes]) -> gzip.GzipFile:
    """Return a file that compresses what is written, the same bytes to the same bytes."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0)
