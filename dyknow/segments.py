"""The bytes of a journal: segments that are closed and compressed, and a file that is still appended to.

``responses.jsonl`` is appended to until it is closed; then it is ``responses.jsonl.1.gz``, which is never changed, and
what is appended later begins a new ``responses.jsonl``, to be closed as ``responses.jsonl.2.gz``. A journal is its
segments in this order and the open file last. ``zcat`` and DuckDB read a closed one like any other.

A line counts once its newline is on disk. What stands after the last newline of the open file is a line that a killed
process did not finish: readers leave it out, and the next writer cuts it off.
"""

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, NamedTuple

from kg.errors import RunError

_LEVEL: Final = 6
_PIECE: Final = 1 << 20  # bytes read at a time

Opener = Callable[[Path], IO[bytes]]


class Segment(NamedTuple):
    """A file of a journal."""

    path: Path
    number: int | None  # from 1 on; None: it is still appended to

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return self.path.suffix == ".gz"


class Closed(NamedTuple):
    """What closing a journal came to, in bytes."""

    before: int
    after: int

    def __str__(self) -> str:
        """Return it in words.

        >>> str(Closed(4_200_000, 300_000)), str(Closed(0, 0))
        ('4.2 MB became 0.3 MB', 'nothing was open')
        """
        if not self.before:
            return "nothing was open"
        return f"{self.before / 1e6:.1f} MB became {self.after / 1e6:.1f} MB"


def segments(path: Path) -> list[Segment]:
    """Return the files of a journal in their order; none where there is no journal.

    Of a segment that a killed process did not finish compressing both forms may be there, with equal content: the plain
    one is taken.
    """
    pattern = re.compile(rf"{re.escape(path.name)}\.(?P<number>[1-9]\d*)(?P<packed>\.gz)?")
    closed: dict[int, Path] = {}
    names = sorted(one.name for one in path.parent.iterdir()) if path.parent.is_dir() else []
    for name in names:
        found = pattern.fullmatch(name)
        if found and (found["packed"] is None or int(found["number"]) not in closed):
            closed[int(found["number"])] = path.with_name(name)
    open_file = [Segment(path, None)] if path.name in names else []
    return [Segment(closed[number], number) for number in sorted(closed)] + open_file


def exists(path: Path) -> bool:
    """Say whether there is a journal with anything in it."""
    return any(one.path.stat().st_size for one in segments(path))


def lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a journal, with their newlines; none where it is absent.

    Raises:
        RunError: a closed segment is damaged.
    """
    with ExitStack() as stack:
        for segment, stream in _open_all(path, stack):
            for line in _checked(segment, stream):
                if line.endswith(b"\n"):
                    yield line


def digest(path: Path) -> str:
    """Return the SHA-256 of a journal's content, which closing leaves as it is; of nothing where it is absent.

    Raises:
        RunError: a closed segment is damaged.
    """
    found = hashlib.sha256()
    with ExitStack() as stack:
        for segment, stream in _open_all(path, stack):
            for piece in _checked(segment, stream, lambda: stream.read(_PIECE)):  # noqa: B023 -- read before the next
                found.update(piece)
    return found.hexdigest()


def _open_all(path: Path, stack: ExitStack) -> list[tuple[Segment, IO[bytes]]]:
    """Open all files of a journal, as they stand at one moment: it may be closed meanwhile."""
    while True:
        listed = segments(path)
        with ExitStack() as opened:
            try:
                streams = [opened.enter_context(_open(segment)) for segment in listed]
            except FileNotFoundError:
                continue
            if segments(path) == listed:
                stack.enter_context(opened.pop_all())
                return list(zip(listed, streams, strict=True))


def _open(segment: Segment) -> IO[bytes]:
    if segment.packed:
        return BufferedReader(gzip.open(segment.path, "rb"), _PIECE)
    return segment.path.open("rb", buffering=_PIECE)


def _checked(segment: Segment, stream: IO[bytes], read: Callable[[], bytes] | None = None) -> Iterator[bytes]:
    """Yield what a stream gives, line by line or as ``read`` has it."""
    try:
        yield from stream if read is None else iter(read, b"")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        hint = "Take it from a backup; what stands in the other files of the run is whole."
        raise RunError(f"{segment.path} is damaged: {error}.", hint=hint) from error


# Writing


def torn(path: Path) -> bool:
    """Say whether a journal ends in a line that a killed process did not finish."""
    return path.is_file() and _whole(path) < path.stat().st_size


def cut_torn_line(path: Path) -> None:
    """Cut off what stands after the last newline: a line that a killed process did not finish."""
    if not torn(path):
        return
    with path.open("r+b") as stream:
        stream.truncate(_whole(path))
        os.fsync(stream.fileno())


def _whole(path: Path) -> int:
    """Return how many bytes of a file stand up to its last newline; read from the end, for files grow long."""
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _PIECE)
            stream.seek(start)
            found = stream.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def close(path: Path) -> Closed:
    """Close what is open of a journal, so that it takes less room and no line can be appended to it.

    The caller holds the journal for writing. Killed at any moment, it loses nothing, and the next call finishes it:
    the open file first gets the name of a segment, and only then is compressed beside.

    Raises:
        RunError: the disk refuses.
    """
    try:
        cut_torn_line(path)
        if path.is_file() and path.stat().st_size:
            number = max((one.number or 0 for one in segments(path)), default=0) + 1
            path.rename(path.with_name(f"{path.name}.{number}"))
            sync_folder(path.parent)
        plain = [one.path for one in segments(path) if one.number and not one.packed]
        sizes = [(one.stat().st_size, _compress(one)) for one in plain]
    except OSError as error:
        raise RunError(f"{path} cannot be closed: {error.strerror}.", hint="The same command goes on.") from error
    return Closed(sum(before for before, _ in sizes), sum(after for _, after in sizes))


def _compress(plain: Path) -> int:
    """Put the compressed form of a segment in its place, and return how many bytes it has."""
    packed = plain.with_name(f"{plain.name}.gz")
    beside = packed.with_name(f"{packed.name}.new")
    with plain.open("rb") as source, beside.open("wb") as target:
        # Without name and time in its head equal journals have equal bytes.
        with gzip.GzipFile("", "wb", _LEVEL, target, mtime=0) as stream:
            while piece := source.read(_PIECE):
                stream.write(piece)
        target.flush()
        os.fsync(target.fileno())
    beside.replace(packed)
    sync_folder(packed.parent)
    plain.unlink()
    sync_folder(packed.parent)
    return packed.stat().st_size


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on disk, too: fsync of a file alone does not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
