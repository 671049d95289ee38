"""Many snapshots stored once: every line of a series stands in one file, with the snapshots in which it stood.

A series is a folder with one `segment <kg.snapshot.segments>` for each snapshot, named by its date. A segment holds
the lines that no earlier snapshot had, sorted, and the numbers of the earlier lines that left with this snapshot or
came back with it. A line's number is its place in the series, so a line is known from the snapshot of its segment, or
of the segment that calls it back, until the one that says it left.

Appending writes one new file beside and renames it; no file is changed. Each segment names the digest of the
one before it, and ``SHA256SUMS`` lists them all, as ``sha256sum --check`` reads it.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kg.dates import Day, parse_day
from kg.errors import SnapshotError, UsageError
from kg.snapshot.segments import SUFFIX, Block, Chunk, Segment, open_segment

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

FOLDER: Final = "series"
"""The name of a series in a folder of snapshots."""

SUMS: Final = "SHA256SUMS"


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
        like = self.manifest(before_place(place)) if place else b""
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
        runs = [run_of(segment, mask) for segment in self.segments[: place + 1]]
        for parts in side_by_side(runs):
            lines = [line for part in parts.values() for line in part.lines]
            lines.sort()  # sorted runs one behind the other, which this merges
            lines.append(b"")
            block = b"\n".join(lines)
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
        for parts in side_by_side([run_of(segment) for segment in self.segments]):
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
        listed, found = listed_sums(self.folder), []
        for number, segment in enumerate(self.segments[:stop]):
            if number not in self._checked:
                own = list(segment.problems(listed.get(segment.path.name)))
                # A crash may fall between a segment and the list, so the newest may be missing from it.
                if segment.path.name not in listed and number < len(self.segments) - 1:
                    own.append(f"{self.folder / SUMS} does not list {segment.path.name}.")
                self._checked[number] = own
            found += self._checked[number]
        return found


def before_place(place: int) -> int:
    """Return the snapshot that describes another's manifest: its number without the lowest bit."""
    return place & (place - 1)


class Opened(NamedTuple):
    """What of a series can be opened.

    Attributes:
        series: Its snapshots up to the first that cannot be read; None where there is none.
        damaged: What stands in the way of each of the others, by date.
    """

    series: Series | None
    damaged: Mapping[str, SnapshotError]


def open_series(folder: Path) -> Series | None:
    """Return the series in a folder; None where it has none.

    Raises:
        SnapshotError: a segment is missing, of another series, or its index is damaged.
    """
    opened = survey_series(folder)
    for error in opened.damaged.values():
        raise error
    return opened.series


def survey_series(folder: Path) -> Opened:
    """Return what of the series in a folder can be opened; where a segment cannot, nothing later can be read."""
    listed = listed_sums(folder)  # first, for another process may be appending: a segment is there before it is listed
    paths = [path for path in folder.iterdir() if path.suffix == SUFFIX] if folder.is_dir() else []
    damaged = {
        name.removesuffix(SUFFIX): _missing(folder / name, f"{folder / SUMS} lists it")
        for name in listed
        if folder / name not in paths
    }
    named = {path: day for path in paths if (day := _day(path)) is not None}
    for path in paths:
        if path not in named:
            hint = "Move it away."
            damaged[path.stem] = SnapshotError(f"{path} is no segment of a series: its name is no date.", hint=hint)
    segments: list[Segment] = []
    stop: Path | None = None
    for path in sorted(named, key=named.__getitem__):
        try:
            if stop is not None:
                raise SnapshotError(f"{path} cannot be read without {stop}.", hint="See what is said of that file.")
            segment = open_segment(path)
            _check_link(segments[-1] if segments else None, segment)
            segments.append(segment)
        except SnapshotError as error:
            damaged[path.stem] = error
            stop = stop or path
    return Opened(Series(folder, tuple(segments)) if segments else None, damaged)


def _day(path: Path) -> Day | None:
    try:
        return parse_day(path.stem)
    except UsageError:
        return None


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


def listed_sums(folder: Path) -> dict[str, str]:
    """Return the digests in the list of a series, by file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}


# Lines side by side


Run = Iterator[Lines]
"""Ascending lines in pieces that are not empty."""


def run_of(segment: Segment, mask: "Mask | None" = None) -> Run:
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


def side_by_side(runs: Sequence[Run]) -> Iterator[dict[int, Lines]]:
    """Yield what the runs have up to one bound after another, by the number of the run; of each at most a piece."""
    heads = [head for number, run in enumerate(runs) if (head := _Head(number, run)).fill()]
    while heads:
        bound = min(head.last for head in heads)
        yield {head.number: part for head in heads if (part := head.take(bound)).lines}
        heads = [head for head in heads if head.fill()]
