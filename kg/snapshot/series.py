"""Many snapshots stored once: every line of a series stands in one file, with the snapshots in which it stood.

A series is a folder with one `segment <kg.snapshot.segments>` for each snapshot, named by its date. A segment holds
the lines that no earlier snapshot had, sorted, and the numbers of the earlier lines that left with this snapshot or
came back with it. A line's number is its place in the series, so a line is known from the snapshot of its segment, or
of the segment that calls it back, until the one that says it left.

Appending writes one new file beside and renames it; no file is changed. Each segment names the digest of the
one before it, and ``SHA256SUMS`` lists them all, as ``sha256sum --check`` reads it.
"""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kg.dates import parse_day
from kg.errors import SnapshotError, UsageError
from kg.snapshot.segments import SUFFIX, Block, Chunk, Segment, Writer, digests, open_segment

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

FOLDER: Final = "series"
"""The name of a series in a folder of snapshots."""

SUMS: Final = "SHA256SUMS"
_LOCK: Final = ".lock"


class Lines(NamedTuple):
    """Lines of one segment in order, and their numbers in the series."""

    lines: Sequence[bytes]
    numbers: "Numbers"


class Known(NamedTuple):
    """An interval of snapshots: the first in which a line stood, and the first after it in which it did not.

    ``until`` is None where it stands in the newest.
    """

    since: str
    until: str | None


@dataclass(frozen=True)
class Series:
    """The snapshots of a series, their segments opened and their order checked.

    Attributes:
        folder: Where it lies.
        segments: One for each snapshot, by date.
    """

    folder: Path
    segments: tuple[Segment, ...]
    _checked: dict[int, list[str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dates(self) -> list[str]:
        """The snapshots, by date."""
        return [str(segment.index["date"]) for segment in self.segments]

    def place(self, date: str) -> int:
        """Return which of its snapshots is of a date, counted from 0.

        Raises:
            UsageError: none is.
        """
        if date not in self.dates:
            raise UsageError(f"{self.folder} has no snapshot {date!r}.", hint="See: dyknow snapshot list")
        return self.dates.index(date)

    def about(self, place: int) -> Mapping[str, Any]:
        """Return what was kept of a snapshot's manifest for a quick look."""
        about: Mapping[str, Any] = self.segments[place].index["about"]
        return about

    def changes(self, place: int) -> tuple[int, int, int]:
        """Return how many lines a snapshot brought that the series had not, how many left with it, how many came back.

        Raises:
            SnapshotError: its segment is damaged.
        """
        segment = self.segments[place]
        return segment.index["added"], len(segment.numbers("left")), len(segment.numbers("back"))

    def manifest(self, place: int) -> bytes:
        """Return a snapshot's manifest, byte for byte.

        Each is described by an earlier one; the steps grow, so that few are read on the way.

        Raises:
            SnapshotError: a segment is damaged.
        """
        like = self.manifest(_before(place)) if place else b""
        segment = self.segments[place]
        return segment.read(Block(*segment.index["manifest"]), like)

    def standing(self, place: int) -> "Mask":
        """Return which lines stand in a snapshot, by number; as long as the series was when it was appended.

        Raises:
            SnapshotError: a segment is damaged.
        """
        import numpy as np  # noqa: PLC0415  # a tenth of a second that no other command needs to wait

        last = self.segments[place].index
        mask = np.zeros(last["first"] + last["added"], dtype=np.bool_)
        for segment in self.segments[: place + 1]:
            first = segment.index["first"]
            mask[first : first + segment.index["added"]] = True
            mask[segment.numbers("left")] = False
            mask[segment.numbers("back")] = True
        return mask

    def chunks(self, mask: "Mask") -> Iterator[tuple[Segment, Chunk, int]]:
        """Yield the chunks that hold a line of the mask, segment by segment, each with its first line's number."""
        for segment in self.segments:
            first = segment.index["first"]
            for chunk in segment.chunks if first < len(mask) else ():
                if mask[first : first + chunk.lines].any():
                    yield segment, chunk, first
                first += chunk.lines

    def blocks(self, place: int) -> Iterator[bytes]:
        """Yield a snapshot's N-Triples in pieces of whole lines, at most a chunk of each segment at a time.

        Raises:
            SnapshotError: a segment is damaged; or, after the last piece, the whole has not the digest it should have.
        """
        digest, mask = hashlib.sha256(), self.standing(place)
        runs = [_run(segment, mask) for segment in self.segments[: place + 1]]
        for parts in _side_by_side(runs):
            lines = sorted([line for part in parts.values() for line in part.lines])
            block = b"\n".join(lines) + b"\n"
            digest.update(block)
            yield block
        if digest.hexdigest() != (stated := self.segments[place].index["digest"]):
            raise SnapshotError(
                f"{self.folder} gives {self.dates[place]} with the SHA-256 {digest.hexdigest()}, not {stated}.",
                hint="dyknow snapshot verify",
            )

    def intervals(self) -> Iterator[tuple[bytes, tuple[Known, ...]]]:
        """Yield every line of the series once, sorted, with the intervals of snapshots in which it stood.

        Raises:
            SnapshotError: a segment is damaged.
        """
        events: dict[int, list[str]] = {}
        for date, segment in zip(self.dates, self.segments, strict=True):
            for name in ("left", "back"):
                for number in segment.numbers(name).tolist():
                    events.setdefault(number, []).append(date)
        for parts in _side_by_side([_run(segment) for segment in self.segments]):
            for line, number, run in sorted(
                (line, number, run)
                for run, part in parts.items()
                for line, number in zip(part.lines, part.numbers.tolist(), strict=True)
            ):
                bounds: list[str | None] = [self.dates[run], *events.get(number, ()), None]
                yield line, tuple(Known(str(a), b) for a, b in zip(bounds[::2], bounds[1::2], strict=False))

    def problems(self, place: int | None = None) -> list[str]:
        """Return what is wrong with the files of the snapshots up to one, all of them where none is named."""
        stop = len(self.segments) if place is None else place + 1
        listed, found = _sums(self.folder), []
        for number, segment in enumerate(self.segments[:stop]):
            if number not in self._checked:
                own = list(segment.problems(listed.get(segment.path.name)))
                # A crash may fall between a segment and the list, so the newest may be missing from it.
                if segment.path.name not in listed and number < len(self.segments) - 1:
                    own.append(f"{self.folder / SUMS} does not list {segment.path.name}.")
                self._checked[number] = own
            found += self._checked[number]
        return found


def _before(place: int) -> int:
    """Return the snapshot that describes another's manifest: its number without the lowest bit."""
    return place & (place - 1)


def open_series(folder: Path) -> Series | None:
    """Return the series in a folder; None where it has none.

    Raises:
        SnapshotError: a segment is missing, of another series, or its index is damaged.
    """
    listed = _sums(folder)  # first, for another process may be appending: a segment is there before it is listed
    paths = [path for path in folder.iterdir() if path.suffix == SUFFIX] if folder.is_dir() else []
    for name in listed:
        if folder / name not in paths:
            raise _missing(folder / name, f"{folder / SUMS} lists it")
    if not paths:
        return None
    segments = tuple(open_segment(path) for path in sorted(paths, key=lambda path: parse_day(path.stem)))
    before: Segment | None = None
    for segment in segments:
        _check_link(before, segment)
        before = segment
    return Series(folder, segments)


def _check_link(before: Segment | None, segment: Segment) -> None:
    """Raise where a segment does not follow the one before it."""
    path, named = segment.path, segment.index["previous"]
    if segment.index["date"] != path.stem:
        raise SnapshotError(f"{path} is of {segment.index['date']}.", hint="Give the file its own name again.")
    found = {"date": before.index["date"], "sha256": before.sha256} if before else None
    if found == named:
        return
    if before is None or (named and named["date"] != before.index["date"]):
        raise _missing(path.with_name(named["date"] + SUFFIX), f"{path.name} follows it")
    raise SnapshotError(
        f"{path} follows {named and named['sha256']}, and {before.path} is {before.sha256}.",
        hint="One of them is damaged or of another series; fetch it again.",
    )


def _missing(path: Path, why: str) -> SnapshotError:
    return SnapshotError(f"{path} is missing: {why}.", hint="Fetch it again; what is later cannot be read without it.")


def _sums(folder: Path) -> dict[str, str]:
    """Return the digests in the list of a series, by file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}


# Lines side by side


Run = Iterator[Lines]
"""Ascending lines in pieces that are not empty."""


def _run(segment: Segment, mask: "Mask | None" = None) -> Run:
    """Yield a segment's lines chunk by chunk, those of the mask alone where there is one."""
    import numpy as np  # noqa: PLC0415  # as above

    first: int = segment.index["first"]
    for chunk in segment.chunks:
        numbers = np.arange(first, first + chunk.lines)
        first += chunk.lines
        own = None if mask is None else mask[numbers[0] : first]
        if own is None or own.all():
            yield Lines(segment.lines(chunk), numbers)
        elif own.any():
            yield Lines(list(compress(segment.lines(chunk), own.tolist())), numbers[own])


class _Head:
    """Where the reading of a run stands."""

    def __init__(self, number: int, run: Run) -> None:
        self.number, self._run = number, run
        self._piece: Lines | None = None
        self._at = 0

    def fill(self) -> bool:
        """Go on to the next piece where this one is read; tell whether there is one."""
        if self._piece is None or self._at == len(self._piece.lines):
            self._piece, self._at = next(self._run, None), 0
        return self._piece is not None

    @property
    def last(self) -> bytes:
        assert self._piece is not None
        return self._piece.lines[-1]

    def take(self, bound: bytes) -> Lines:
        """Return the lines up to a bound."""
        assert self._piece is not None
        start = self._at
        self._at = bisect_right(self._piece.lines, bound, lo=start)
        return Lines(self._piece.lines[start : self._at], self._piece.numbers[start : self._at])


def _side_by_side(runs: Sequence[Run]) -> Iterator[dict[int, Lines]]:
    """Yield what the runs have up to one bound after another, by the number of the run; of each at most a piece."""
    heads = [head for number, run in enumerate(runs) if (head := _Head(number, run)).fill()]
    while heads:
        bound = min(head.last for head in heads)
        yield {head.number: part for head in heads if (part := head.take(bound)).lines}
        heads = [head for head in heads if head.fill()]


# Appending


def append(
    folder: Path, date: str, blocks: Iterable[bytes], *, manifest: bytes, about: Mapping[str, Any], digest: str
) -> Series:
    """Add a snapshot to the series in a folder, which is made where it is not there, and return the series.

    The new segment is read back, and gets its name only where the snapshot comes out of it byte for byte.

    Args:
        folder: the folder of the series.
        date: the snapshot's.
        blocks: its N-Triples, in pieces that may end anywhere.
        manifest: the bytes of its manifest.
        about: what of the manifest is to be had at a quick look.
        digest: SHA-256 of the N-Triples.

    Raises:
        SnapshotError: the series has a snapshot of that day or a later one, is damaged or being written, or the lines
            are not sorted or not those of the digest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        series = open_series(folder) or Series(folder, ())
        if series.segments and parse_day(series.dates[-1]) >= parse_day(date):
            raise SnapshotError(
                f"{folder} goes to {series.dates[-1]} already; {date} cannot be appended.",
                hint="Leave it a folder of its own, or unpack the series, move it away and pack all anew.",
            )
        for abandoned in folder.glob(".*-beside"):
            abandoned.unlink()  # by a process that died, for this one holds the lock
        path = folder / f".{date}-beside"
        try:
            with path.open("wb") as file:
                written = _Appending(series, Writer(file))
                written.take(_new_lines(blocks, f"Snapshot {date}"))
                written.close(date, manifest, about, digest)
                file.flush()
                os.fsync(file.fileno())
            _read_back(Series(folder, (*series.segments, open_segment(path))), manifest)
            path.rename(folder / (date + SUFFIX))  # no file has that name: the lock is held and the date is new
        finally:
            path.unlink(missing_ok=True)
        _write_sums(folder, [known + SUFFIX for known in (*series.dates, date)])
        return Series(folder, (*series.segments, open_segment(folder / (date + SUFFIX))))


def _read_back(series: Series, manifest: bytes) -> None:
    """Raise where the newest snapshot does not come out as it went in."""
    place = len(series.segments) - 1
    for _ in series.blocks(place):
        pass  # the digest is compared at the end
    if series.manifest(place) != manifest:
        raise SnapshotError(f"{series.folder} gives back another manifest.", hint="Please report this.")


class _Appending:
    """Sorts the lines of a new snapshot into those a series has and those it has not."""

    def __init__(self, series: Series, writer: Writer) -> None:
        import numpy as np  # noqa: PLC0415  # as above

        self._series, self._writer = series, writer
        self._mask = series.standing(len(series.segments) - 1) if series.segments else np.zeros(0, dtype=np.bool_)
        self._left: list[Numbers] = []
        self._back: list[Numbers] = []
        self._added = 0

    def take(self, lines: Run) -> None:
        """Read the lines of the new snapshot, in order, beside those of the series."""
        import numpy as np  # noqa: PLC0415  # as above

        runs = [_run(segment) for segment in self._series.segments]
        for parts in _side_by_side([*runs, lines]):
            new = parts.pop(len(runs), None)
            left = set(new.lines if new else ())
            for part in parts.values():
                stands = np.fromiter(map(left.__contains__, part.lines), np.bool_, len(part.lines))
                stood = self._mask[part.numbers]
                self._left.append(part.numbers[stood & ~stands])
                self._back.append(part.numbers[stands & ~stood])
                left.difference_update(part.lines)
            self._added += len(left)
            self._writer.add(sorted(left))

    def close(self, date: str, manifest: bytes, about: Mapping[str, Any], digest: str) -> None:
        """Write what is known of the earlier lines, and the manifest."""
        segments = self._series.segments
        left, back = _joined(self._left), _joined(self._back)
        like = self._series.manifest(_before(len(segments))) if segments else b""
        self._writer.close(
            {
                "date": date,
                "previous": {"date": segments[-1].index["date"], "sha256": segments[-1].sha256} if segments else None,
                "first": len(self._mask),
                "added": self._added,
                "lines": int(self._mask.sum()) + self._added - len(left) + len(back),
                "left": self._writer.numbers(left),
                "back": self._writer.numbers(back),
                "manifest": self._writer.block(manifest, like),
                "digest": digest,
                "about": about,
            }
        )


def _joined(parts: Sequence["Numbers"]) -> "Numbers":
    import numpy as np  # noqa: PLC0415  # as above

    joined = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    joined.sort()
    return joined


def _new_lines(blocks: Iterable[bytes], what: str) -> Run:
    """Yield the lines of a snapshot in pieces.

    Raises:
        SnapshotError: they are not sorted and distinct, or the last one has no end.
    """
    import numpy as np  # noqa: PLC0415  # as above

    rest, before = b"", b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        if not lines:
            continue
        if not before < lines[0] or not all(map(lt, lines, lines[1:])):
            raise SnapshotError(f"{what}: its lines are not sorted or not distinct.", hint="dyknow snapshot verify")
        before = lines[-1]
        yield Lines(lines, np.zeros(len(lines), dtype=np.int64))
    if rest:
        raise SnapshotError(f"{what}: its last line has no end.", hint="dyknow snapshot verify")


def _write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the list of digests beside and put it in the place of the old one; known digests are kept."""
    known = _sums(folder)
    lines = [f"{known.get(name) or digests(folder / name)[1]}  {name}\n" for name in names]
    beside = folder / f".{SUMS}-beside"
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / SUMS)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the names, too, are on disk before anybody drops what was packed
    finally:
        os.close(descriptor)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a series for writing; the kernel drops the lock of a dead process.

    Raises:
        SnapshotError: another process holds it.
    """
    import fcntl  # noqa: PLC0415  # POSIX only; reading a series must work anywhere

    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SnapshotError(f"{folder} is being written by another process.", hint="Wait for it.") from error
        yield
