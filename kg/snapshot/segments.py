"""One file of a series: the lines that a snapshot added, in compressed chunks, and what it says of earlier lines.

A segment is written once, from front to back, and never changed::

    MAGIC · blocks, one after another · index · trailer

A block is one Zstandard frame. The index, JSON in a frame of its own, says where each block lies, its CRC-32, and what
the segment as a whole holds. The trailer says where the index lies, its SHA-256, and the SHA-256 of all that stands
before that digest, so that a flipped byte is found wherever it is.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import zstandard

from kg.errors import SnapshotError

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

FORMAT: Final = 1
SUFFIX: Final = ".segment"
MAGIC: Final = b"dyknow-segment\r\n\x1a\n"  # the line ends show whether something took it for a text
CHUNK: Final = 1 << 20
"""Bytes of lines that are compressed together: what a reader holds of a segment at a time."""

LEVEL: Final = 15
"""Of Zstandard: beyond it, writing gets ten times slower for a tenth of the size (measured on the shipped ones)."""

_TRAILER: Final = struct.Struct("<QQ32s32s")
_PLACE: Final = _TRAILER.size + len(MAGIC)


class Block(NamedTuple):
    """Where a block lies in its file.

    Attributes:
        offset: Bytes from the start of the file.
        length: Its compressed bytes.
        crc: CRC-32 of those.
        size: Its bytes when unpacked.
    """

    offset: int
    length: int
    crc: int
    size: int


class Chunk(NamedTuple):
    """A block of lines: how many, and the first and last of them."""

    block: Block
    lines: int
    first: bytes
    last: bytes


class Writer:
    """Writes one segment into a file that is open and empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._offset = 0
        self._waiting: list[bytes] = []
        self._size = 0
        self._chunks: list[Chunk] = []
        self._write(MAGIC)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._offset += len(data)

    def add(self, lines: Sequence[bytes]) -> None:
        """Take further lines, without their ends; they go on where the last ones stopped, in order."""
        for line in lines:
            self._waiting.append(line)
            self._size += len(line) + 1
            if self._size >= CHUNK:
                self._flush()

    def _flush(self) -> None:
        lines = self._waiting
        if lines:
            block = self.block(b"\n".join(lines) + b"\n")
            self._chunks.append(Chunk(block, len(lines), lines[0], lines[-1]))
            self._waiting, self._size = [], 0

    def block(self, data: bytes, like: bytes = b"") -> Block:
        """Write a block and return its place; ``like`` is what its reader will have and it may be described by."""
        packed = _compressor(data, like).compress(data)
        block = Block(self._offset, len(packed), zlib.crc32(packed), len(data))
        self._write(packed)
        return block

    def numbers(self, values: "Numbers") -> Block:
        """Write ascending numbers: the steps between them, all their low bytes first, for those are alike."""
        import numpy as np  # noqa: PLC0415  # a tenth of a second that no other command needs to wait

        steps = np.diff(values, prepend=0).astype("<u8")
        return self.block(steps.view("u1").reshape(-1, 8).T.tobytes())

    def close(self, about: Mapping[str, Any]) -> str:
        """Write the lines still waiting, the index and the trailer; return the SHA-256 that the trailer states."""
        self._flush()
        chunks = [(*chunk.block, chunk.lines, chunk.first.decode(), chunk.last.decode()) for chunk in self._chunks]
        index = json.dumps({"format": FORMAT, **about, "chunks": chunks}, ensure_ascii=False).encode()
        packed = zstandard.ZstdCompressor(level=LEVEL).compress(index)
        place = self._offset
        self._write(packed)
        self._write(struct.pack("<QQ", place, len(packed)) + hashlib.sha256(packed).digest())
        whole = self._digest
        self._file.write(whole.digest() + MAGIC)
        return whole.hexdigest()


def _compressor(data: bytes, like: bytes) -> zstandard.ZstdCompressor:
    if not like:
        return zstandard.ZstdCompressor(level=LEVEL)
    level = zstandard.ZstdCompressionParameters.from_level(LEVEL, source_size=len(data), dict_size=len(like))
    return zstandard.ZstdCompressor(compression_params=level, dict_data=_dictionary(like))


def _dictionary(like: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(like, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


@dataclass(frozen=True)
class Segment:
    """A segment on disk, its index read and checked.

    Attributes:
        path: The file.
        index: What its index says.
        sha256: What its trailer says of the whole file; `problems` compares.
    """

    path: Path
    index: Mapping[str, Any]
    sha256: str

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Its blocks of lines, in order."""
        return tuple(
            Chunk(Block(*numbers), lines, first.encode(), last.encode())
            for *numbers, lines, first, last in self.index["chunks"]
        )

    def lines(self, chunk: Chunk) -> list[bytes]:
        """Return the lines of a chunk, without their ends.

        Raises:
            SnapshotError: the chunk is damaged.
        """
        lines = self.read(chunk.block).split(b"\n")
        lines.pop()  # behind the last line's end
        return lines

    def numbers(self, name: str) -> "Numbers":
        """Return the ascending numbers of a block that the index names.

        Raises:
            SnapshotError: the block is damaged.
        """
        import numpy as np  # noqa: PLC0415  # as above

        block = Block(*self.index[name])
        if not block.size:
            return np.zeros(0, dtype=np.int64)
        planes = np.frombuffer(self.read(block), dtype="u1").reshape(8, -1)
        return np.cumsum(np.ascontiguousarray(planes.T).view("<u8").ravel().astype(np.int64))

    def read(self, block: Block, like: bytes = b"") -> bytes:
        """Return the unpacked bytes of a block; ``like`` is what it was written with.

        Raises:
            SnapshotError: the file is missing, or the block is damaged.
        """
        packed = self._packed(block)
        try:
            unpacker = zstandard.ZstdDecompressor(
                dict_data=_dictionary(like) if like else None, max_window_size=1 << zstandard.WINDOWLOG_MAX
            )
            return unpacker.decompress(packed, max_output_size=block.size)
        except zstandard.ZstdError as error:
            raise _damaged(self.path, f"cannot be unpacked at byte {block.offset}: {error}") from error

    def _packed(self, block: Block) -> bytes:
        """Return the compressed bytes of a block, which have been checked."""
        try:
            with self.path.open("rb") as file:
                file.seek(block.offset)
                packed = file.read(block.length)
        except OSError as error:
            raise _damaged(self.path, f"cannot be read: {error}") from error
        if (found := zlib.crc32(packed)) != block.crc:
            where = f"{block.offset} to {block.offset + block.length}"
            raise _damaged(self.path, f"is damaged in bytes {where}: CRC-32 {found:08x}, written as {block.crc:08x}")
        return packed

    def problems(self, listed: str | None) -> Iterator[str]:
        """Yield what is wrong with the file as a whole, one sentence each; ``listed`` is the SHA-256 a list has of it.

        Every byte of the file is read.
        """
        try:
            own, whole = digests(self.path)
        except OSError as error:
            yield f"{self.path} cannot be read: {error}."
            return
        if own != self.sha256:
            yield f"{self.path} is damaged: its SHA-256 is {own}, its trailer says {self.sha256}."
            own_blocks = [Block(*self.index[name]) for name in ("left", "back", "manifest")]
            for block in sorted([*own_blocks, *(chunk.block for chunk in self.chunks)]):
                try:
                    self._packed(block)
                except SnapshotError as error:
                    yield error.message
        elif listed not in (None, whole):
            yield f"{self.path} has the SHA-256 {whole}, the list of its series says {listed}."


def digests(path: Path) -> tuple[str, str]:
    """Return the SHA-256 of a segment up to where its trailer states it, and that of the whole file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = path.stat().st_size - digest.digest_size - len(MAGIC)
        while left > 0 and (data := file.read(min(left, CHUNK))):
            digest.update(data)
            left -= len(data)
        own = digest.hexdigest()
        digest.update(file.read())
    return own, digest.hexdigest()


def open_segment(path: Path) -> Segment:
    """Return the segment of a file, whose index has been checked.

    Raises:
        SnapshotError: it is missing, cut off, or its index is damaged.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            size = file.seek(0, 2)
            file.seek(max(0, size - _PLACE))
            tail = file.read()
            if size < len(MAGIC) + _PLACE or not head == tail[-len(MAGIC) :] == MAGIC:
                raise _damaged(path, "is no segment of a series, or is cut off: its magic bytes are wrong")
            place, length, index_digest, whole = _TRAILER.unpack(tail[: _TRAILER.size])
            file.seek(min(place, size))
            packed = file.read(min(length, size))
    except OSError as error:
        raise _damaged(path, f"cannot be read: {error}") from error
    if hashlib.sha256(packed).digest() != index_digest:
        raise _damaged(path, f"is damaged: the SHA-256 of its index is not {index_digest.hex()}, as its trailer says")
    index = json.loads(zstandard.ZstdDecompressor().decompress(packed))
    if index["format"] != FORMAT:
        raise SnapshotError(f"{path} is of format {index['format']}.", hint="A newer dyknow wrote it; update.")
    return Segment(path, index, whole.hex())


def _damaged(path: Path, problem: str) -> SnapshotError:
    return SnapshotError(f"{path} {problem}.", hint="dyknow snapshot verify; then fetch the file again.")
