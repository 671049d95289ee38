"""The text of a dump, plain or compressed: a file becomes blocks of whole lines."""

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple, Protocol

from kg.errors import DataError
from kg.processes import cores

BLOCK: Final = 1 << 20  # bytes of text handed out at once; more would not stay in a core's cache
_FEED: Final = 64 << 10  # compressed bytes inflated at once; a piece of text is then about one megabyte
LONGEST: Final = 128 << 20  # bytes of one line; Wikidata's largest entities have about five million
BOM: Final = b"\xef\xbb\xbf"
AGAIN: Final = "Download it again and compare its checksum with the one published beside it."


class Block(NamedTuple):
    """A part of the text, to be read by one process."""

    start: int  # in the text
    end: int
    lines: bytes | None  # whole lines; None: the lines of a plain file that start here
    position: int  # in the file, once it is read


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


Kind = Literal["gzip", "bzip2", "zstd", "plain"]


def kind_of(file: IO[bytes], path: Path) -> Kind:
    """Return what kind of file a dump is, which its first bytes say.

    Raises:
        DataError: it is none.
    """
    start = file.read(4)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"BZh"):
        return "bzip2"
    if start == b"\x28\xb5\x2f\xfd" or (start[1:] == b"\x2a\x4d\x18" and start[0] >> 4 == 5):  # or a skippable frame
        return "zstd"
    if start[:1] not in b" \t\r\n[{" and not start.startswith(BOM):
        raise DataError(f"{path} is no dump: it starts with {start!r}.", hint="Give a .json, .gz, .bz2 or .zst file.")
    return "plain"


def blocks_of(file: IO[bytes], path: Path) -> Generator[Block]:
    """Yield the parts of a dump, of whatever kind."""
    kind = kind_of(file, path)
    if kind == "gzip":
        return _cut(_gzip(file, str(path)), str(path))
    if kind == "bzip2":
        return _cut(_bzip2(file, path), str(path))
    if kind == "zstd":
        return _cut(_zstd(file, str(path)), str(path))
    return _ranges(path.stat().st_size)


def _ranges(size: int) -> Generator[Block]:
    for start in range(0, size, BLOCK):
        end = min(start + BLOCK, size)
        yield Block(start, end, None, end)


def _cut(pieces: Generator[tuple[bytes, int]], name: str) -> Generator[Block]:
    """Put pieces of text together to blocks that end with a line."""
    held: list[bytes] = []
    start = size = position = 0
    with closing(pieces):
        for piece, position in pieces:
            held.append(piece)
            size += len(piece)
            if size < BLOCK or (end := piece.rfind(b"\n") + 1) == 0:
                if size > BLOCK + LONGEST:
                    raise too_long(name, start)
                continue
            held[-1], rest = piece[:end], piece[end:]
            yield Block(start, start + size - len(rest), b"".join(held), position)
            start, size, held = start + size - len(rest), len(rest), [rest]
    if size:
        yield Block(start, start + size, b"".join(held), position)


def _gzip(file: IO[bytes], name: str) -> Generator[tuple[bytes, int]]:
    # Twice as fast as zlib, and unlike rapidgzip it tells a stream that is cut off.
    from isal import igzip_lib  # noqa: PLC0415  # only .gz needs it

    def inflater() -> _Inflater:
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)

    return _streams(file, name, inflater, igzip_lib.error)  # type: ignore[arg-type]  # the stub has an instance


def _zstd(file: IO[bytes], name: str) -> Generator[tuple[bytes, int]]:
    import zstandard  # noqa: PLC0415  # only .zst needs it

    return _streams(file, name, zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)


def _streams(
    file: IO[bytes], name: str, inflater: Callable[[], _Inflater], error: type[Exception]
) -> Generator[tuple[bytes, int]]:
    """Yield the text of one compressed stream after the other, with the place reached in the file."""
    data = _unpadded(file, b"")
    while data:
        stream = inflater()
        while not stream.eof:
            if not data:
                raise cut_off(name, file.tell())
            try:
                piece = stream.decompress(data)
            except error as reason:
                raise damaged(name, file.tell(), reason) from None
            yield piece, file.tell()
            data = b"" if stream.eof else file.read(_FEED)
        data = _unpadded(file, stream.unused_data)


def _unpadded(file: IO[bytes], data: bytes) -> bytes:
    """Return what follows in a file, without the zeros that tapes and some downloaders put after a stream."""
    while not (data := data.lstrip(b"\0")) and (more := file.read(_FEED)):
        data = more
    return data


def _bzip2(file: IO[bytes], path: Path) -> Generator[tuple[bytes, int]]:
    import rapidgzip  # type: ignore[import-not-found]  # noqa: PLC0415  # only .bz2 needs it

    reader = rapidgzip.IndexedBzip2File(str(path), parallelization=cores())
    try:
        while piece := reader.read(1 << 20):
            yield piece, reader.tell_compressed() // 8
        end = -(-reader.tell_compressed() // 8)
    except (RuntimeError, ValueError, ArithmeticError, LookupError) as reason:
        if "End of file" in str(reason):
            raise cut_off(str(path), path.stat().st_size) from None
        raise damaged(str(path), reader.tell_compressed() // 8, reason) from None
    finally:
        reader.close()
    _check_rest(file, str(path), end)


def _check_rest(file: IO[bytes], name: str, end: int) -> None:
    """Refuse what the reader of .bz2 passes over after the last stream it knows: it may be a damaged one."""
    import bz2  # noqa: PLC0415

    file.seek(end)
    if any(piece for piece, _ in _streams(file, name, bz2.BZ2Decompressor, OSError)):
        raise damaged(name, end, ValueError("a stream was passed over"))


def cut_off(name: str, place: int) -> DataError:
    """Return the error for a compressed file that ends too early."""
    return DataError(f"{name} is cut off: it ends at byte {place} inside its compressed stream.", hint=AGAIN)


def damaged(name: str, place: int, reason: Exception) -> DataError:
    """Return the error for a compressed file that cannot be undone, or fails its checksum."""
    return DataError(f"{name} is damaged before byte {place}: {reason}.", hint=AGAIN)


def too_long(name: str, place: int) -> DataError:
    """Return the error for a line that nothing of Wikidata is as long as."""
    return DataError(
        f"{name} has a line of more than {LONGEST >> 20} MB at byte {place} of its text.",
        hint="A dump has one entity a line; jq -c '.[]' writes a JSON array so.",
    )
