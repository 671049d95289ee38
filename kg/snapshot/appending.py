"""Appending to a series: one new segment beside, read back, renamed, listed; and what a killed process left of it."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from operator import lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kg.dates import parse_day
from kg.errors import SnapshotError
from kg.snapshot.segments import SUFFIX, Writer, digests, open_segment
from kg.snapshot.series import SUMS, Lines, Run, Series, before_place, listed_sums, open_series, run_of, side_by_side

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

_LOCK: Final = ".lock"


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
    with locked(folder):
        series = open_series(folder) or Series(folder, ())
        if series.segments and parse_day(series.dates[-1]) >= parse_day(date):
            raise SnapshotError(
                f"{folder} goes to {series.dates[-1]} already; {date} cannot be appended.",
                hint="Leave it a folder of its own, or unpack the series, move it away and pack all anew.",
            )
        for abandoned in _beside(folder):
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

        runs = [run_of(segment) for segment in self._series.segments]
        for parts in side_by_side([*runs, lines]):
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
        like = self._series.manifest(before_place(len(segments))) if segments else b""
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
    known = listed_sums(folder)
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


def mend(folder: Path) -> list[str]:
    """Finish or undo what a killed process left of an appending, and return what was done, a sentence each.

    Nothing is done where another process is appending, or a segment is damaged.
    """
    said: list[str] = []
    with suppress(SnapshotError), locked(folder) if folder.is_dir() else nullcontext():
        for path in _beside(folder):
            path.unlink()
            said.append(f"{path} was half a file, left by a killed command; it is removed.")
        series = open_series(folder)
        if series and (unlisted := _unlisted(series)):
            _write_sums(folder, [date + SUFFIX for date in series.dates])
            said.append(f"{folder / SUMS} did not list {unlisted} yet; now it does.")
    return said


def half_done(folder: Path) -> list[str]:
    """Return what `mend` would do something about, a sentence each."""
    said: list[str] = []
    with suppress(SnapshotError), locked(folder) if folder.is_dir() else nullcontext():
        said += [f"{path} is half a file, left by a killed command." for path in _beside(folder)]
        series = open_series(folder)
        if series and (unlisted := _unlisted(series)):
            said.append(f"{folder / SUMS} does not list {unlisted}, whose packing was interrupted.")
    return said


def _beside(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*-beside"))


def _unlisted(series: Series) -> str | None:
    """Return the newest segment where the list of digests has not got it."""
    newest = series.segments[-1].path.name
    return None if newest in listed_sums(series.folder) else newest


@contextmanager
def locked(folder: Path) -> Iterator[None]:
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
