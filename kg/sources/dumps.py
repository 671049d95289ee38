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

import os
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

import orjson

from kg.errors import DataError, UsageError
from kg.processes import cores
from kg.sources.dumplines import CLOSE, OPEN, Found, Scanner, Wanted, parsed
from kg.sources.dumptext import AGAIN, Block, blocks_of
from kg.sources.dumpworkers import spread
from kg.sources.entity import Entity, read_entities

_MOST_WORKERS: Final = 8  # beyond them disk or decompression is the limit, and only memory grows
_FEW_CORES: Final = 6  # so many undo bzip2 more slowly than one reads the text
_SMALL: Final = 4 << 20  # bytes of a file that is read before other processes have started


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
Reader = Callable[[Path, Wanted], Generator[tuple[Block, Found]]]
"""Reads a dump: yields the places of its blocks in the text, and what they hold, in the dump's order."""


def extract(
    path: Path,
    wanted: Wanted,
    out: Path,
    *,
    workers: int | None = None,
    reader: Reader | None = None,
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
        reader: what reads in their stead, e.g. `kg.sources.spark.reader`.
        progress: called a few times a second, and at the end.
        clock: seconds from any start.

    Raises:
        UsageError: nothing is asked for.
        DataError: the dump is cut off, damaged, or none; ``out`` is then as it was.
        DyknowError: a process that read was ended from outside.
    """
    with _beside(out) as file:
        return _read(path, wanted, reader or processes(workers), _Meter(progress, clock), file.write)


def entities(out: Path) -> Iterator[Entity]:
    """Yield the entities of a file that ``extract`` wrote, in its order; one that the dump holds twice comes twice.

    Raises:
        DataError: a line is no entity.
    """
    with out.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield from read_entities(parsed(line, f"{out}, line {number},"), (), f"{out}, line {number},")


def named_in(
    path: Path,
    ids: Collection[str],
    *,
    extra: Collection[str] = ("P31", "P570"),
    workers: int | None = None,
    reader: Reader | None = None,
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
        reader: as for ``extract``.
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
    _read(path, wanted, reader or processes(workers), _Meter(progress, clock), kept.append)
    lines = (line for part in kept for line in part.splitlines())
    return {entity.id: entity for line in lines for entity in read_entities(orjson.loads(line), (), str(path))}


# Reading as a whole: blocks go out, findings come back in the dump's order.


def _read(path: Path, wanted: Wanted, reader: Reader, meter: "_Meter", sink: Callable[[bytes], object]) -> Extracted:
    if not wanted.properties and not wanted.subjects:
        raise UsageError("Nothing is asked for of the dump.", hint="Name a property, e.g. P6, or a subject.")
    before = _stat(path)
    shape, text, taken, revision = _Shape(str(path)), 0, 0, 0
    with closing(reader(path, wanted)) as findings:
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
    return 1 if inflates_by_itself and cores() <= _FEW_CORES else min(cores(), _MOST_WORKERS)


def processes(workers: int | None) -> Reader:
    """Return what reads a dump with so many processes of this machine; None: as `extract` has it."""
    return lambda path, wanted: _findings(path, wanted, workers or _workers(path, path.stat().st_size))


def _findings(path: Path, wanted: Wanted, workers: int) -> Generator[tuple[Block, Found]]:
    with path.open("rb") as file, closing(blocks_of(file, path)) as blocks:
        if workers == 1:
            scanner = Scanner(wanted, str(path))
            for block in blocks:
                yield block, scanner.work(block)
        else:
            with closing(spread(path, wanted, workers, blocks)) as findings:
                yield from findings


@dataclass
class _Shape:
    """Follows the brackets of a dump, and says at its end whether it was whole."""

    name: str
    entities: int = 0
    array: bool | None = None  # None: nothing but blanks so far
    closed: bool = False

    def add(self, found: Found) -> None:
        before = 0
        for code, place, count in found.marks:
            self._more(count - before, place)
            before = count
            if code == OPEN and self.array is None:
                self.array = True
            elif code == CLOSE and self.array and not self.closed:
                self.closed = True
            else:
                raise DataError(f"{self.name} has a bracket at byte {place} where none belongs.", hint=AGAIN)
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
            raise DataError(f"{self.name} is empty: it holds {size} bytes of text and no entity.", hint=AGAIN)
        if self.array and not self.closed:
            raise DataError(f"{self.name} is cut off: its text ends at byte {size} without the last ].", hint=AGAIN)


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
