"""A dump cut into splits that are read apart from each other, as the tasks of a cluster do, and put together again.

Plain text may be cut at any byte and bzip2 at its blocks; gzip and zstd have no place to begin but the first, so such a
dump is one split. A line belongs to the split in which it begins: each reads past its end to the end of its last line,
and all but the first pass over the line they begin within. What the splits give, put together in their order, is what
one process reads, and a dump is whole by the same rules: of bzip2 every bit from the first block to the last checksum
lies in a block that was undone, and every checksum is compared.
"""

import bz2
import socket
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

from kg.errors import DataError
from kg.sources import dumptext
from kg.sources.dumplines import Found, Scanner, Wanted
from kg.sources.dumptext import BLOCK, Block, blocks_of, cut_off, damaged, kind_of, too_long

LEAST: Final = 1 << 20  # bytes of a split; less costs more to hand out than to read
MOST: Final = 32 << 20  # compressed, that is some 500 MB of text
ROUND: Final = 256 << 20  # bytes of the splits of all tasks at a time: what is kept of them is held together


class Split(NamedTuple):
    """A part of a file."""

    start: int  # bytes
    end: int
    kind: Literal["plain", "bzip2", "whole"]


class Part(NamedTuple):
    """Whole lines of a split."""

    block: Block  # its places count from the split's; those of the text are known when all before it has been read
    seals: tuple[int, ...]  # checksums of the bzip2 blocks undone for it; ~ one of a stream, at its end


class Answer(NamedTuple):
    """What a task tells of some lines."""

    block: Block  # without the lines, unless they are wrong
    found: Found | None  # None: the lines are wrong
    seals: tuple[int, ...]
    trouble: tuple[str, str | None] | None = None  # message and hint: the file cannot be read on


def splits_of(path: Path, tasks: int, *, least: int = LEAST, most: int = MOST) -> list[Split]:
    """Return the splits of a dump, some for each of so many tasks at a time.

    Raises:
        DataError: it cannot be read, or is no dump.
    """
    try:
        with path.open("rb") as file:
            kind = kind_of(file, path)
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", hint="Is the path right?") from None
    if kind not in ("plain", "bzip2"):
        return [Split(0, size, "whole")]
    step = max(min(-(-size // (4 * tasks)), most, ROUND // tasks), least)
    return [
        Split(start, min(start + step, size), "bzip2" if kind == "bzip2" else "plain") for start in range(0, size, step)
    ]


def answers(splits: Iterable[Split], path: Path, wanted: Wanted) -> Iterator[Answer]:
    """Yield what splits hold, block by block; trouble is told and not raised, for it must reach another machine."""
    scanner = Scanner(wanted, str(path))
    for split in splits:
        try:
            for block, seals in read_split(path, split):
                try:
                    found = scanner.work(block)
                except DataError:
                    # Its place in the text is not known here: who puts the answers together finds the fault again.
                    yield Answer(block, None, seals)
                    return
                yield Answer(block._replace(lines=None), found, seals)
        except DataError as error:
            yield Answer(Block(0, 0, None, split.start), None, (), (error.message, error.hint))
            return
        except OSError as error:
            message = f"{path} cannot be read on {socket.gethostname()}: {error.strerror}."
            hint = "Every machine that reads must see the dump under this path."
            yield Answer(Block(0, 0, None, split.start), None, (), (message, hint))
            return


def joined(told: Iterable[Answer], path: Path, wanted: Wanted) -> Generator[tuple[Block, Found]]:
    """Yield what all splits hold, in the dump's order, with places that count from the start of its text.

    Args:
        told: the answers of all splits, in their order.
        path: the dump.
        wanted: what the answers are to.

    Raises:
        DataError: the dump is damaged.
    """
    start, chain = 0, _Chain(str(path))
    for block, found, seals, trouble in told:
        if trouble is not None:
            raise DataError(trouble[0], hint=trouble[1])
        chain.add(seals, block.position)
        if found is None:
            found = Scanner(wanted, str(path)).scan(block.lines or b"", start)  # noqa: PLW2901 -- raises, as a rule
        marks = [(code, place - block.start + start, count) for code, place, count in found.marks]
        yield Block(start, start + found.size, None, block.position), found._replace(marks=marks)
        start += found.size


@dataclass
class _Chain:
    """Compares the checksum of each bzip2 stream with those of its blocks."""

    name: str
    value: int = 0

    def add(self, seals: Iterable[int], position: int) -> None:
        for seal in seals:
            if seal >= 0:
                self.value = ((self.value << 1 | self.value >> 31) & 0xFFFFFFFF) ^ seal
            elif self.value != ~seal:
                raise damaged(self.name, position, ValueError("the checksum of a stream differs"))
            else:
                self.value = 0


# Lines of one split


class _Piece(NamedTuple):
    """Some text."""

    text: bytes
    position: int  # in the file, after it
    own: bool  # False: it belongs to the next split, but for the end of the last line
    seals: tuple[int, ...] = ()


def read_split(path: Path, split: Split) -> Generator[Part]:
    """Yield the lines that begin in a split.

    Raises:
        DataError: the split is damaged, or the file ends within it.
        OSError: the file is not there.
    """
    with path.open("rb") as file:
        if split.kind == "whole":
            for block in blocks_of(file, path):
                yield Part(block, ())
        elif split.kind == "bzip2":
            yield from _lines(_Bzip2(file, str(path), split).pieces(), split, str(path))
        else:
            yield from _lines(_plain(file, split), split, str(path))


def _lines(pieces: Iterator[_Piece], split: Split, name: str) -> Generator[Part]:
    place, inside = split.start, split.start == 0  # whether a line of this split has begun
    held: list[bytes] = []
    seals: list[int] = []
    size = position = 0
    for piece in pieces:
        text, position, own = piece.text, piece.position, piece.own
        if not own and not inside:
            break
        if not inside:
            begin = text.find(b"\n") + 1
            inside, text = bool(begin), text[begin:] if begin else b""
        end = 0 if own else text.find(b"\n") + 1
        held.append(text[:end] if end else text)
        size += len(held[-1])
        seals += piece.seals if own else ()
        if size > BLOCK + dumptext.LONGEST:
            raise too_long(name, place)
        if end:
            break
        if own and size >= BLOCK and (end := text.rfind(b"\n") + 1):
            held[-1], rest = text[:end], text[end:]
            lines = b"".join(held)
            yield Part(Block(place, place + len(lines), lines, position), tuple(seals))
            place, held, size, seals = place + len(lines), [rest], len(rest), []
    lines = b"".join(held)
    if lines or seals:
        yield Part(Block(place, place + len(lines), lines, position), tuple(seals))


def _plain(file: IO[bytes], split: Split) -> Iterator[_Piece]:
    place = split.start
    file.seek(place)
    while place < split.end and (text := file.read(min(BLOCK, split.end - place))):
        place += len(text)
        yield _Piece(text, place, True)
    while text := file.read(64 << 10):
        place += len(text)
        yield _Piece(text, place, False)


# bzip2: a stream is "BZh9", then blocks, then an end with the checksum of all. Blocks begin at any bit.


_BITS: Final = 48
_OPENS: Final = 0x314159265359  # a block, whose checksum follows in 32 bits
_ENDS: Final = 0x177245385090  # a stream, likewise
_FAR: Final = 4 << 20  # bytes from one mark to the next; a block has at most 900 kB before it is compressed
_CHUNK: Final = 1 << 20
_FALSE: Final = 3  # marks in a row that chance may have put into a block; in all of Wikidata there should be none
_HEADERS: Final = tuple(b"BZh%d" % level for level in range(1, 10))


class _Mark(NamedTuple):
    bit: int  # of the file, where it begins
    ends: bool


@dataclass
class _Marks:
    """Finds the marks of blocks and ends, and gives the bits between them."""

    file: IO[bytes]
    base: int  # the place in the file of the first byte held
    data: bytes = b""
    looked: int = 0  # how many of the bytes held have been looked at
    ready: list[_Mark] = field(default_factory=list)  # found, latest first
    whole: bool = False  # the file has been read to its end

    def __post_init__(self) -> None:
        self.file.seek(self.base)

    def next(self, until: int) -> _Mark | None:
        """Return the next mark; None where none begins before a byte of the file."""
        while not self.ready and not self.whole and self.base + self.looked < until:
            self._more()
        return self.ready.pop() if self.ready and self.ready[-1].bit < 8 * until else None

    def _more(self) -> None:
        chunk = self.file.read(_CHUNK)
        self.whole = not chunk
        self.data += chunk
        self.ready = sorted(
            (mark for ends in (False, True) for shift in range(8) for mark in self._at(shift, ends)), reverse=True
        )
        self.looked = max(len(self.data) - 6, self.looked)

    def _at(self, shift: int, ends: bool) -> Iterator[_Mark]:
        """Yield the marks that begin at a bit of some byte: of their seven bytes, five are known wholly."""
        sought = (_ENDS if ends else _OPENS) << (8 - shift)
        mask = ((1 << _BITS) - 1) << (8 - shift)
        core = sought.to_bytes(7)[1:6]
        place = self.data.find(core, self.looked + 1)
        while place > 0 and place + 6 <= len(self.data):
            if int.from_bytes(self.data[place - 1 : place + 6]) & mask == sought:
                yield _Mark(8 * (self.base + place - 1) + shift, ends)
            place = self.data.find(core, place + 1)

    def bits(self, start: int, end: int) -> int:
        """Return the bits of the file from one to another, fewer where it ends before."""
        first = start // 8 - self.base
        held = self.data[first : -(-end // 8) - self.base]
        spare = 8 * len(held) - start % 8 - (end - start)
        value = int.from_bytes(held) & ((1 << (8 * len(held) - start % 8)) - 1)
        return value >> spare if spare >= 0 else value

    def text(self, start: int, end: int) -> bytes:
        """Return bytes of the file that are held."""
        return self.data[start - self.base : end - self.base]

    def forget(self, bit: int) -> None:
        """Let go of what lies before a bit."""
        spare = max(min(bit // 8 - self.base, self.looked), 0)
        self.base, self.data, self.looked = self.base + spare, self.data[spare:], self.looked - spare


@dataclass
class _Bzip2:
    """Undoes the blocks that begin in a split, then those after it."""

    file: IO[bytes]
    name: str
    split: Split

    def pieces(self) -> Iterator[_Piece]:
        self.marks = _Marks(self.file, self.split.start)
        mark = self.marks.next(self.split.end)
        if self.split.start == 0 and (mark is None or mark.bit != 32):
            raise (
                self._end() if mark is None else damaged(self.name, mark.bit // 8, ValueError("no block at its start"))
            )
        while mark is not None:
            own = mark.bit < 8 * self.split.end
            self.marks.forget(mark.bit)
            after, text, seal = self._end_of_stream(mark) if mark.ends else self._block(mark)
            position = self._size() if after is None else after.bit // 8
            yield _Piece(text, position, own, (seal,))
            mark = after

    def _size(self) -> int:
        return self.marks.base + len(self.marks.data)

    def _end(self) -> DataError:
        """Return the error for a file that ends, or has something else, where a mark should be."""
        if self.marks.whole:
            return cut_off(self.name, self._size())
        return damaged(self.name, self._size(), ValueError("no block begins there"))

    def _block(self, mark: _Mark) -> tuple[_Mark, bytes, int]:
        """Return the mark after a block, its text and its checksum."""
        start, end = mark.bit, mark.bit
        seal = self.marks.bits(start + _BITS, start + _BITS + 32)
        for _ in range(_FALSE):
            after = self.marks.next(end // 8 + _FAR)
            if after is None:
                raise self._end()
            end = after.bit
            # A stream of this block alone, whose checksum is the block's: it is undone only where it ends right there.
            bits = (self.marks.bits(start, end) << 80) | (_ENDS << 32) | seal
            count = end - start + 80
            stream = bz2.BZ2Decompressor()
            try:
                text = stream.decompress(b"BZh9" + (bits << -count % 8).to_bytes(-(-count // 8)))
            except OSError:
                continue
            if stream.eof:
                return after, text, seal
        raise damaged(self.name, end // 8, ValueError("a block does not have its checksum, or ends elsewhere"))

    def _end_of_stream(self, mark: _Mark) -> tuple[_Mark | None, bytes, int]:
        """Return the first mark of the next stream, no text, and the turned checksum of this one."""
        end = mark.bit + _BITS + 32
        after = self.marks.next(end // 8 + _FAR)
        if after is None and not self.marks.whole:
            raise self._end()
        if end > 8 * self._size():
            raise cut_off(self.name, self._size())
        # What stands before the next stream, or before the end of the file: zeros, as tapes have them, and its header.
        rest = self.marks.text(-(-end // 8), self._size() if after is None else after.bit // 8).lstrip(b"\0")
        if after is None and rest and len(rest) < 14 and b"BZh".startswith(rest[:3]):
            raise cut_off(self.name, self._size())
        if rest if after is None else rest not in _HEADERS or after.bit % 8:
            raise damaged(self.name, self._size(), ValueError(f"no stream begins with {rest[:4]!r}"))
        return after, b"", ~self.marks.bits(mark.bit + _BITS, end)
