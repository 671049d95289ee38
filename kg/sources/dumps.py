"""Wikidata's JSON dumps, streamed on all cores: only lines that can hold a wanted property are parsed.

A dump is a JSON array with one entity a line, plain or compressed as .gz, .bz2 or .zst, in one stream or many; its
first bytes say which, not its name. Lines without the array's brackets are read too (a change stream, ``jq -c``).

What counts as whole: no compressed stream ends early or fails its checksum; every line is an object from brace to
brace; an array ends with its ``]`` and nothing follows. Without brackets the last line must be a whole object; that
such a file was cut exactly between two lines cannot be seen, so ``Extracted.array`` says which of the two it was.
Anything else is a ``DataError`` that names the byte, and nothing is written. What is not parsed, other lines and the
other statements of an item, is checked no further; in a compressed dump the checksums vouch for it.

The work is spread over processes that share nothing: each gets blocks of whole lines through a pipe (of a plain file
only their place, and reads them itself) and sends back the trimmed entities. No block is handed out while too many
before it are unwritten, so memory does not grow with the dump.
"""

import fcntl
import gc
import io
import os
import queue
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

import orjson

from kg.errors import DataError, DyknowError, UsageError
from kg.sources.entity import Entity, read_entities

_BLOCK: Final = 1 << 20  # bytes of text handed out at once; more would not stay in a core's cache
_FEED: Final = 64 << 10  # compressed bytes inflated at once; a piece of text is then about one megabyte
_LONGEST: Final = 128 << 20  # bytes of one line; Wikidata's largest entities have about five million
_AHEAD: Final = 4  # blocks handed out or waiting to be written, per worker
_MOST_WORKERS: Final = 8  # beyond them disk or decompression is the limit, and only memory grows
_FEW_CORES: Final = 6  # so many undo bzip2 more slowly than one reads the text
_SMALL: Final = 4 << 20  # bytes of a file that is read before other processes have started
_BOM: Final = b"\xef\xbb\xbf"
_AGAIN: Final = "Download it again and compare its checksum with the one published beside it."
_TOP: Final = 400  # bytes within which an item says what it is
_TAIL: Final = 120  # and, at its end, which revision
# Scalar members may stand before the id: {"type":"item","id":"Q31",... in dumps, more of them in change streams.
_HEAD: Final = re.compile(rb'\{\s*(?:"\w+"\s*:\s*(?:"[^"\\]*"|-?\d+)\s*,\s*)*?"id"\s*:\s*"([^"\\]*)"')


@dataclass(frozen=True)
class Wanted:
    """What is kept of a dump.

    Attributes:
        properties: Entities with a statement of one of these are kept ("P6"), with those statements.
        subjects: Where given, the entities with these ids are kept instead, whatever they state: one that states
            nothing wanted is in the dump all the same.
        extra: Statements that are kept too, but not looked for: offices, class, death.
    """

    properties: frozenset[str] = frozenset()
    subjects: frozenset[str] | None = None
    extra: frozenset[str] = frozenset(("P31", "P570", "P1313", "P1906"))


class Progress(NamedTuple):
    """How far the reading of a dump has come."""

    bytes_read: int  # of the file as it stands, compressed or not
    bytes_total: int
    entities: int  # seen
    kept: int
    seconds: float  # since the start
    bytes_per_second: float
    seconds_left: float | None  # None: not yet known


class Extracted(NamedTuple):
    """What was read of a dump, and that it was whole."""

    entities: int  # kept
    lines: int  # entities seen
    bytes_read: int  # of the file as it stands
    bytes_text: int  # decompressed
    array: bool  # a JSON array; False: one object a line, whose end cannot be known
    revision: int | None  # the greatest revision among the kept, where they say it


Report = Callable[[Progress], None]


def extract(
    path: Path,
    wanted: Wanted,
    out: Path,
    *,
    workers: int | None = None,
    progress: Report | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Extracted:
    """Write the wanted entities of a dump, trimmed, one JSON object a line in the dump's order.

    A trimmed entity has its id, revision, the label that ``Entity.label`` would choose, English aliases and those for
    all languages, and the statements asked for. The file is written beside ``out`` and takes its place when the dump
    has been read to its end; the same dump gives the same bytes whatever the number of workers.

    Args:
        path: the dump.
        wanted: what is kept.
        out: the file to write; its folder is made where it is missing.
        workers: processes that read; None: one for each core, one alone for a small file.
        progress: called a few times a second, and at the end.
        clock: seconds from any start.

    Raises:
        UsageError: nothing is asked for.
        DataError: the dump is cut off, damaged, or none; ``out`` is then as it was.
        DyknowError: a process that read was ended from outside.
    """
    with _beside(out) as file:
        return _read(path, wanted, workers, _Meter(progress, clock), file.write)


def entities(out: Path) -> Iterator[Entity]:
    """Yield the entities of a file that ``extract`` wrote, in its order; one that the dump holds twice comes twice.

    Raises:
        DataError: a line is no entity.
    """
    with out.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield from read_entities(_parsed(line, f"{out}, line {number},"), (), f"{out}, line {number},")


def named_in(
    path: Path,
    ids: Collection[str],
    *,
    extra: Collection[str] = ("P31", "P570"),
    workers: int | None = None,
    progress: Report | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Entity]:
    """Return the entities with these ids, trimmed to label, aliases and the extra statements; absent ones are left out.

    It is the second pass over a dump, for holders, offices and properties that the first one has met. What is returned
    is held in memory. A dump holds no redirects: an id that was merged into another is absent.

    Args:
        path: the dump.
        ids: of the wanted entities.
        extra: properties whose statements are kept.
        workers: as for ``extract``.
        progress: as for ``extract``.
        clock: as for ``extract``.

    Raises:
        DataError: the dump is cut off, damaged, or none.
        DyknowError: a process that read was ended from outside.
    """
    if not ids:
        return {}
    kept: list[bytes] = []
    wanted = Wanted(subjects=frozenset(ids), extra=frozenset(extra))
    _read(path, wanted, workers, _Meter(progress, clock), kept.append)
    lines = (line for part in kept for line in part.splitlines())
    return {entity.id: entity for line in lines for entity in read_entities(orjson.loads(line), (), str(path))}


# Reading as a whole: blocks go out, findings come back in the dump's order.


class _Block(NamedTuple):
    """A part of the text, to be read by one process."""

    start: int  # in the text
    end: int
    lines: bytes | None  # whole lines; None: the lines of a plain file that start here
    position: int  # in the file, once it is read


class _Found(NamedTuple):
    """What one block holds."""

    kept: bytes
    entities: int
    taken: int
    marks: Sequence[Sequence[int]]  # brackets: code, place in the text, entities of the block before it
    size: int  # bytes of the lines
    revision: int


def _read(
    path: Path, wanted: Wanted, workers: int | None, meter: "_Meter", sink: Callable[[bytes], object]
) -> Extracted:
    if not wanted.properties and not wanted.subjects:
        raise UsageError("Nothing is asked for of the dump.", hint="Name a property, e.g. P6, or a subject.")
    before = _stat(path)
    count = workers or _workers(path, before.st_size)
    shape, text, taken, revision = _Shape(str(path)), 0, 0, 0
    with closing(_findings(path, wanted, count)) as findings:
        for block, found in findings:
            shape.add(found)
            sink(found.kept)
            text, taken, revision = text + found.size, taken + found.taken, max(revision, found.revision)
            meter.report(block.position, before.st_size, shape.entities, taken)
    after = _stat(path)
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise DataError(f"{path} changed while it was read.", hint="Wait until its download has ended.")
    shape.close(text)
    meter.report(before.st_size, before.st_size, shape.entities, taken, last=True)
    return Extracted(taken, shape.entities, before.st_size, text, bool(shape.array), revision or None)


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", hint="Is the path right?") from None


def _workers(path: Path, size: int) -> int:
    if size < _SMALL:
        return 1
    with path.open("rb") as file:
        inflates_by_itself = file.read(3) == b"BZh"
    # Threads that undo bzip2 need no interpreter and take all cores; what they give, one process reads beside them.
    return 1 if inflates_by_itself and _cores() <= _FEW_CORES else min(_cores(), _MOST_WORKERS)


def _cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _findings(path: Path, wanted: Wanted, workers: int) -> Generator[tuple[_Block, _Found]]:
    with path.open("rb") as file, closing(_blocks(file, path)) as blocks:
        if workers == 1:
            scanner = _Scanner(wanted, str(path))
            for block in blocks:
                yield block, scanner.work(block)
        else:
            with closing(_spread(path, wanted, workers, blocks)) as findings:
                yield from findings


@dataclass
class _Shape:
    """Follows the brackets of a dump, and says at its end whether it was whole."""

    name: str
    entities: int = 0
    array: bool | None = None  # None: nothing but blanks so far
    closed: bool = False

    def add(self, found: _Found) -> None:
        before = 0
        for code, place, count in found.marks:
            self._more(count - before, place)
            before = count
            if code == _OPEN and self.array is None:
                self.array = True
            elif code == _CLOSE and self.array and not self.closed:
                self.closed = True
            else:
                raise DataError(f"{self.name} has a bracket at byte {place} where none belongs.", hint=_AGAIN)
        self._more(found.entities - before, None)

    def _more(self, count: int, place: int | None) -> None:
        if count and self.closed:
            where = "" if place is None else f" before byte {place}"
            raise DataError(f"{self.name} goes on{where} after the end of its array.", hint="Is it two dumps in one?")
        if count and self.array is None:
            self.array = False
        self.entities += count

    def close(self, size: int) -> None:
        if self.array is None:
            raise DataError(f"{self.name} is empty: it holds {size} bytes of text and no entity.", hint=_AGAIN)
        if self.array and not self.closed:
            raise DataError(f"{self.name} is cut off: its text ends at byte {size} without the last ].", hint=_AGAIN)


@dataclass
class _Meter:
    """Turns bytes into rate and time left."""

    progress: Report | None
    clock: Callable[[], float]
    start: float = field(init=False)
    told: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.told = self.clock()

    def report(self, read: int, total: int, entities: int, kept: int, *, last: bool = False) -> None:
        now = self.clock()
        if self.progress is None or (now - self.told < 0.2 and not last):
            return
        self.told, seconds = now, now - self.start
        rate = read / seconds if seconds > 0 else 0.0
        left = (total - read) / rate if rate else None
        self.progress(Progress(read, total, entities, kept, seconds, rate, left))


@contextmanager
def _beside(out: Path) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of ``out`` when all went well, and vanishes otherwise."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


# Text: a file becomes blocks of whole lines.


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _blocks(file: IO[bytes], path: Path) -> Generator[_Block]:
    """Yield the parts of a dump; what kind of file it is its first bytes say."""
    start = file.read(4)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return _cut(_gzip(file, str(path)), str(path))
    if start.startswith(b"BZh"):
        return _cut(_bzip2(file, path), str(path))
    if start == b"\x28\xb5\x2f\xfd" or (start[1:] == b"\x2a\x4d\x18" and start[0] >> 4 == 5):  # or a skippable frame
        return _cut(_zstd(file, str(path)), str(path))
    if start[:1] not in b" \t\r\n[{" and not start.startswith(_BOM):
        raise DataError(f"{path} is no dump: it starts with {start!r}.", hint="Give a .json, .gz, .bz2 or .zst file.")
    return _ranges(path.stat().st_size)


def _ranges(size: int) -> Generator[_Block]:
    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        yield _Block(start, end, None, end)


def _cut(pieces: Generator[tuple[bytes, int]], name: str) -> Generator[_Block]:
    """Put pieces of text together to blocks that end with a line."""
    held: list[bytes] = []
    start = size = position = 0
    with closing(pieces):
        for piece, position in pieces:
            held.append(piece)
            size += len(piece)
            if size < _BLOCK or (end := piece.rfind(b"\n") + 1) == 0:
                if size > _BLOCK + _LONGEST:
                    raise _too_long(name, start)
                continue
            held[-1], rest = piece[:end], piece[end:]
            yield _Block(start, start + size - len(rest), b"".join(held), position)
            start, size, held = start + size - len(rest), len(rest), [rest]
    if size:
        yield _Block(start, start + size, b"".join(held), position)


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
                raise _cut_off(name, file.tell())
            try:
                piece = stream.decompress(data)
            except error as reason:
                raise _damaged(name, file.tell(), reason) from None
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

    reader = rapidgzip.IndexedBzip2File(str(path), parallelization=_cores())
    try:
        while piece := reader.read(1 << 20):
            yield piece, reader.tell_compressed() // 8
        end = -(-reader.tell_compressed() // 8)
    except (RuntimeError, ValueError, ArithmeticError, LookupError) as reason:
        if "End of file" in str(reason):
            raise _cut_off(str(path), path.stat().st_size) from None
        raise _damaged(str(path), reader.tell_compressed() // 8, reason) from None
    finally:
        reader.close()
    _check_rest(file, str(path), end)


def _check_rest(file: IO[bytes], name: str, end: int) -> None:
    """Refuse what the reader of .bz2 passes over after the last stream it knows: it may be a damaged one."""
    import bz2  # noqa: PLC0415

    file.seek(end)
    if any(piece for piece, _ in _streams(file, name, bz2.BZ2Decompressor, OSError)):
        raise _damaged(name, end, ValueError("a stream was passed over"))


def _cut_off(name: str, place: int) -> DataError:
    return DataError(f"{name} is cut off: it ends at byte {place} inside its compressed stream.", hint=_AGAIN)


def _damaged(name: str, place: int, reason: Exception) -> DataError:
    return DataError(f"{name} is damaged before byte {place}: {reason}.", hint=_AGAIN)


def _too_long(name: str, place: int) -> DataError:
    return DataError(
        f"{name} has a line of more than {_LONGEST >> 20} MB at byte {place} of its text.",
        hint="A dump has one entity a line; jq -c '.[]' writes a JSON array so.",
    )


# Lines: what one process does with a block.

_OPEN: Final = ord("[")
_CLOSE: Final = ord("]")
_LEFT: Final = ord("{")
_RIGHT: Final = ord("}")
_COMMA: Final = ord(",")


class _Scanner:
    """Finds the wanted entities among lines."""

    def __init__(self, wanted: Wanted, name: str) -> None:
        self.wanted, self.name = wanted, name
        self.subjects = None if wanted.subjects is None else frozenset(one.encode() for one in wanted.subjects)
        numbers = "|".join(sorted(re.escape(prop.removeprefix("P")) for prop in wanted.properties))
        self.states = re.compile(rf'"P(?:{numbers})"\s*:\s*\['.encode())
        kept = "|".join(sorted(re.escape(prop.removeprefix("P")) for prop in wanted.properties | wanted.extra))
        self.keeps = re.compile(rf'"P(?:{kept})"\s*:\s*\[\s*(?!{{"snaktype":)'.encode())

    def work(self, block: _Block) -> _Found:
        """Return what a block holds; the collector only costs time here, for parsed JSON has no cycles."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            if block.lines is not None:
                return self.scan(block.lines, block.start)
            return self.scan(*self._lines(block.start, block.end))
        finally:
            if collecting:
                gc.enable()

    def scan(self, text: bytes, offset: int) -> _Found:
        """Return what lines hold, the first of which starts at this place of the dump."""
        if b"\0" in text:
            place = offset + text.index(b"\0")
            raise DataError(f"{self.name} has a zero byte at byte {place} of its text.", hint=_AGAIN)
        kept: list[bytes] = []
        marks: list[tuple[int, int, int]] = []
        entities = revision = start = 0
        hit = -1  # the next place that looks like a wanted statement
        while start < len(text):
            end = text.find(b"\n", start)
            stop = len(text) if end < 0 else end
            if code := self._line(text, start, stop, offset):
                if code != _LEFT:
                    marks.append((code, offset + start, entities))
                else:
                    entities += 1
                    if self.subjects is None and hit < start:
                        found = self.states.search(text, start)
                        hit = found.start() if found else len(text)
                    looks = hit < stop if self.subjects is None else self._names_subject(text, start, stop)
                    if looks or end < 0:  # the last line may be cut off where a brace happens to stand
                        line, number = self._take(text[start:stop], offset + start)
                        kept.append(line)
                        revision = max(revision, number)
            start = stop + 1
        taken = [line for line in kept if line]
        return _Found(b"".join(taken), entities, len(taken), marks, len(text), revision)

    def _line(self, text: bytes, start: int, stop: int, offset: int) -> int:
        """Return what a line is: a brace for an entity, a bracket for itself, 0 for a blank one."""
        if stop - start > 2 and text[start] == _LEFT:
            last = text[stop - 1]
            if last == _RIGHT or (last == _COMMA and text[stop - 2] == _RIGHT):
                return _LEFT
        line = text[start:stop]
        line = (line.removeprefix(_BOM) if offset + start == 0 else line).strip()
        if line in (b"", b"[", b"]"):
            return line[0] if line else 0
        if line.startswith(b"{") and line.endswith((b"}", b"},")):
            return _LEFT
        if stop == len(text) and line.startswith(b"{"):
            raise self._wrong(offset + start, "is cut off")
        raise self._wrong(offset + start, "is not one entity")

    def _wrong(self, place: int, what: str) -> DataError:
        return DataError(f"{self.name}: the line at byte {place} of its text {what}.", hint=_AGAIN)

    def _names_subject(self, text: bytes, start: int, stop: int) -> bool:
        head = _HEAD.match(text, start, stop)
        return head is None or self.subjects is None or head[1] in self.subjects

    def _take(self, line: bytes, place: int) -> tuple[bytes, int]:
        """Return an entity, trimmed, as a line, and its revision; an empty line where it is not wanted."""
        where = f"{self.name}, byte {place} of its text,"
        line = line.removeprefix(_BOM).strip().removesuffix(b",")
        try:
            found = list(read_entities(self._document(line, where), (), where))
        except DataError as error:
            raise DataError(error.message, hint=error.hint or _AGAIN) from None
        kept = [entity for entity in found if self._wants(entity)]
        lines = [orjson.dumps(_trimmed(entity, self.wanted)) + b"\n" for entity in kept]
        return b"".join(lines), max((entity.revision or 0 for entity in kept), default=0)

    def _document(self, line: bytes, where: str) -> object:
        """Return what a line holds, at least as far as it is kept."""
        if (short := self._shortened(line)) is not None:
            with suppress(orjson.JSONDecodeError):
                document: object = orjson.loads(short)
                return document
        return _parsed(line, where)

    def _shortened(self, line: bytes) -> bytes | None:
        """Return an item as Wikidata's dumps write it without most of what is not kept; None: not written so.

        Nine tenths of a large item are statements of other properties, and parsing is most of the work. No string
        can look like one of the members that are sought, for its quotes are escaped; that a list of wanted statements
        is written in another way is seen.
        """
        labels = line.find(b'"labels":', 0, _TOP)
        descriptions = line.find(b',"descriptions":', labels)
        aliases = line.find(b',"aliases":', descriptions)
        claims = line.find(b',"claims":{', aliases)
        links = line.rfind(b'},"sitelinks":')
        end = line.rfind(b',"lastrevid":', max(len(line) - _TAIL, 0))
        if end < 0 and line.endswith((b"}}}", b'"sitelinks":{}}', b'"sitelinks":[]}')):  # before 2019
            end = len(line) - 1
        if not 0 < labels < descriptions < aliases < claims < links < end:
            return None
        kept = []
        for found in self.keeps.finditer(line, claims, links):
            if not line.startswith(b'{"mainsnak":', found.end()):
                return None
            following = line.find(b'":[{"mainsnak":', found.end(), links)
            kept.append(line[found.start() : links if following < 0 else line.rfind(b',"', found.end(), following)])
        return b'%b%b,"claims":{%b}%b' % (line[:descriptions], line[aliases:claims], b",".join(kept), line[end:])

    def _wants(self, entity: Entity) -> bool:
        if self.wanted.subjects is not None:
            return entity.id in self.wanted.subjects
        return any(entity.claims(prop) for prop in self.wanted.properties)

    def _lines(self, start: int, end: int) -> tuple[bytes, int]:
        """Return the lines of a plain file that start in a range, and where the first of them does."""
        with Path(self.name).open("rb") as file:
            file.seek(max(start - 1, 0))
            text = file.read(end - max(start - 1, 0))
            first = text.find(b"\n") + 1 if start else 0
            if start and not first:
                return b"", start
            parts = [text[first:]]
            while parts[-1] and not parts[-1].endswith(b"\n") and (more := file.readline(_LONGEST)):
                parts.append(more)
                if len(more) == _LONGEST:
                    raise _too_long(self.name, start)
        return b"".join(parts), max(start - 1, 0) + first


def _parsed(line: bytes, where: str) -> object:
    try:
        document: object = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where} is no JSON: {error}.", hint=_AGAIN) from None
    return document


def _trimmed(entity: Entity, wanted: Wanted) -> dict[str, Any]:
    """Return what is kept of an entity, in the document's order."""
    document = entity.document
    languages = {"en", "mul", *(entity.label or ())[1:]}
    kept = {key: document[key] for key in ("type", "id", "lastrevid", "modified") if key in document}
    kept["labels"] = _only(document.get("labels"), languages)
    kept["aliases"] = _only(document.get("aliases"), ("en", "mul"))
    kept["claims"] = _only(document.get("claims"), wanted.properties | wanted.extra)
    return kept


def _only(members: object, keys: Collection[str]) -> dict[str, Any]:
    return {key: members[key] for key in members if key in keys} if isinstance(members, Mapping) else {}


# Processes: each end of the pipes.

_FRAME: Final = struct.Struct("<IQ")


class _Worker:
    """A process that reads blocks; a thread waits for its answers and hands them on."""

    def __init__(self, setup: Mapping[str, Any], answers: "queue.SimpleQueue[tuple[_Worker, _Answer | None]]") -> None:
        # A fresh interpreter, not a fork: threads of decompressors and of the caller would be torn.
        self.process = subprocess.Popen(
            (sys.executable, "-c", "from kg.sources import dumps; dumps._serve()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # an interrupt from the keyboard is for the caller, who then ends this one
        )
        self.number = -1  # the block it reads
        self._answers = answers
        _widen(self._stdin.fileno())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.send(setup, b"")

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, header: object, body: bytes) -> bool:
        """Hand something over; False: the process is gone."""
        try:
            _send(self._stdin, header, body)
        except BrokenPipeError:
            return False
        return True

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):  # closed under it when the reading is given up
            while (answer := _receive(self.process.stdout)) is not None:
                self._answers.put((self, answer))
        self._answers.put((self, None))

    def end(self) -> None:
        """End the process, whatever it does: it holds nothing that could be torn."""
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class _Answer(NamedTuple):
    header: Any
    body: bytes


def _spread(path: Path, wanted: Wanted, workers: int, blocks: Iterator[_Block]) -> Generator[tuple[_Block, _Found]]:
    """Yield what the blocks hold, in their order, read by several processes."""
    setup = {
        "name": str(path),
        "properties": sorted(wanted.properties),
        "subjects": None if wanted.subjects is None else sorted(wanted.subjects),
        "extra": sorted(wanted.extra),
    }
    answers: queue.SimpleQueue[tuple[_Worker, _Answer | None]] = queue.SimpleQueue()
    pool: list[_Worker] = []
    given: dict[int, _Block] = {}
    found: dict[int, _Answer] = {}
    due = 0
    try:
        pool.extend(_Worker(setup, answers) for _ in range(workers))
        idle = list(pool)

        def collect() -> None:
            worker, answer = answers.get()
            if answer is None:
                raise _gone(worker, path)
            found[worker.number] = answer
            idle.append(worker)

        for number, block in enumerate(blocks):
            while not idle or number - due >= _AHEAD * workers:
                collect()
                while due in found:
                    yield given.pop(due), _answered(found.pop(due))
                    due += 1
            worker = idle.pop()
            worker.number, given[number] = number, block._replace(lines=None)
            if not worker.send((block.start, block.end, block.lines is None), block.lines or b""):
                raise _gone(worker, path)
        while given:
            while due not in found:
                collect()
            yield given.pop(due), _answered(found.pop(due))
            due += 1
    finally:
        for worker in pool:
            worker.end()


def _answered(answer: _Answer) -> _Found:
    if isinstance(answer.header, Mapping):
        raise DataError(answer.header["message"], hint=answer.header["hint"])
    return _Found(answer.body, *answer.header)


def _gone(worker: _Worker, path: Path) -> DyknowError:
    code = worker.process.wait()
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return DyknowError(
        f"A process that read {path} ended {how}.", hint="Was memory short? Run it again; nothing was written."
    )


def _serve() -> None:
    """Read blocks until no more come: what a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    _widen(target.fileno())
    setup = _receive(source)
    if setup is None:
        return
    subjects, sets = setup.header["subjects"], (frozenset(setup.header[key]) for key in ("properties", "extra"))
    properties, extra = sets
    wanted = Wanted(properties, None if subjects is None else frozenset(subjects), extra)
    scanner = _Scanner(wanted, setup.header["name"])
    gc.disable()
    while (order := _receive(source)) is not None:
        start, end, plain = order.header
        try:
            kept, *rest = scanner.work(_Block(start, end, None if plain else order.body, 0))
        except DataError as error:
            _send(target, {"message": error.message, "hint": error.hint}, b"")
        else:
            _send(target, rest, kept)
        target.flush()


def _send(stream: IO[bytes], header: object, body: bytes) -> None:
    packed = orjson.dumps(header)
    for part in (_FRAME.pack(len(packed), len(body)) + packed, body):
        rest = memoryview(part)
        while rest:
            rest = rest[stream.write(rest) :]


def _receive(stream: IO[bytes]) -> _Answer | None:
    """Return the next message; None: the other end is gone, perhaps within one."""
    frame = _exactly(stream, _FRAME.size)
    if frame is None:
        return None
    sizes = _FRAME.unpack(frame)
    header, body = (_exactly(stream, size) for size in sizes)
    return None if header is None or body is None else _Answer(orjson.loads(header), body)


def _exactly(stream: IO[bytes], size: int) -> bytes | None:
    if isinstance(stream, io.BufferedReader):
        whole = stream.read(size)
        return whole if len(whole) == size else None
    buffer, done = bytearray(size), 0
    view = memoryview(buffer)
    while done < size:
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            return None
        done += count
    return bytes(buffer)


def _widen(pipe: int) -> None:
    """Let a pipe hold a megabyte where the system can: fewer turns between the processes."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
