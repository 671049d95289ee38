"""The lines of a dump: which of them can hold what is wanted, and what is kept of those."""

import gc
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from kg.errors import DataError
from kg.sources import dumptext
from kg.sources.dumptext import AGAIN, BOM, Block, too_long
from kg.sources.entity import Entity, read_entities

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


class Found(NamedTuple):
    """What one block holds."""

    kept: bytes
    entities: int
    taken: int
    marks: Sequence[Sequence[int]]  # brackets: code, place in the text, entities of the block before it
    size: int  # bytes of the lines
    revision: int


OPEN: Final = ord("[")
CLOSE: Final = ord("]")
_LEFT: Final = ord("{")
_RIGHT: Final = ord("}")
_COMMA: Final = ord(",")


class Scanner:
    """Finds the wanted entities among lines."""

    def __init__(self, wanted: Wanted, name: str) -> None:
        self.wanted, self.name = wanted, name
        self.subjects = None if wanted.subjects is None else frozenset(one.encode() for one in wanted.subjects)
        numbers = "|".join(sorted(re.escape(prop.removeprefix("P")) for prop in wanted.properties))
        self.states = re.compile(rf'"P(?:{numbers})"\s*:\s*\['.encode())
        kept = "|".join(sorted(re.escape(prop.removeprefix("P")) for prop in wanted.properties | wanted.extra))
        self.keeps = re.compile(rf'"P(?:{kept})"\s*:\s*\[\s*(?!{{"snaktype":)'.encode())

    def work(self, block: Block) -> Found:
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

    def scan(self, text: bytes, offset: int) -> Found:
        """Return what lines hold, the first of which starts at this place of the dump."""
        if b"\0" in text:
            place = offset + text.index(b"\0")
            raise DataError(f"{self.name} has a zero byte at byte {place} of its text.", hint=AGAIN)
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
        return Found(b"".join(taken), entities, len(taken), marks, len(text), revision)

    def _line(self, text: bytes, start: int, stop: int, offset: int) -> int:
        """Return what a line is: a brace for an entity, a bracket for itself, 0 for a blank one."""
        if stop - start > 2 and text[start] == _LEFT:
            last = text[stop - 1]
            if last == _RIGHT or (last == _COMMA and text[stop - 2] == _RIGHT):
                return _LEFT
        line = text[start:stop]
        line = (line.removeprefix(BOM) if offset + start == 0 else line).strip()
        if line in (b"", b"[", b"]"):
            return line[0] if line else 0
        if line.startswith(b"{") and line.endswith((b"}", b"},")):
            return _LEFT
        if stop == len(text) and line.startswith(b"{"):
            raise self._wrong(offset + start, "is cut off")
        raise self._wrong(offset + start, "is not one entity")

    def _wrong(self, place: int, what: str) -> DataError:
        return DataError(f"{self.name}: the line at byte {place} of its text {what}.", hint=AGAIN)

    def _names_subject(self, text: bytes, start: int, stop: int) -> bool:
        head = _HEAD.match(text, start, stop)
        return head is None or self.subjects is None or head[1] in self.subjects

    def _take(self, line: bytes, place: int) -> tuple[bytes, int]:
        """Return an entity, trimmed, as a line, and its revision; an empty line where it is not wanted."""
        where = f"{self.name}, byte {place} of its text,"
        line = line.removeprefix(BOM).strip().removesuffix(b",")
        try:
            found = list(read_entities(self._document(line, where), (), where))
        except DataError as error:
            raise DataError(error.message, hint=error.hint or AGAIN) from None
        kept = [entity for entity in found if self._wants(entity)]
        lines = [orjson.dumps(_trimmed(entity, self.wanted)) + b"\n" for entity in kept]
        return b"".join(lines), max((entity.revision or 0 for entity in kept), default=0)

    def _document(self, line: bytes, where: str) -> object:
        """Return what a line holds, at least as far as it is kept."""
        if (short := self._shortened(line)) is not None:
            with suppress(orjson.JSONDecodeError):
                document: object = orjson.loads(short)
                return document
        return parsed(line, where)

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
        links = line.rfind(_LINKS)
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
        sites = _sites(line[links + len(_LINKS) : end])
        if sites is None:
            return None
        parts = (line[:descriptions], line[aliases:claims], b",".join(kept), sites, line[end:])
        return b'%b%b,"claims":{%b},"sitelinks":%d%b' % parts

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
            while parts[-1] and not parts[-1].endswith(b"\n") and (more := file.readline(dumptext.LONGEST)):
                parts.append(more)
                if len(more) == dumptext.LONGEST:
                    raise too_long(self.name, start)
        return b"".join(parts), max(start - 1, 0) + first


_LINKS: Final = b'},"sitelinks":'


def _sites(links: bytes) -> int | None:
    """Return how many sites an item's sitelinks name; None: they are not written as Wikidata's dumps write them."""
    count = links.count(b'":{"site":"')
    return count if count == links.count(b'":{') and (count or links in (b"{}", b"[]")) else None


def parsed(line: bytes, where: str) -> object:
    """Return a line as JSON; raise DataError where it is none."""
    try:
        document: object = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where} is no JSON: {error}.", hint=AGAIN) from None
    return document


def _trimmed(entity: Entity, wanted: Wanted) -> dict[str, Any]:
    """Return what is kept of an entity, in the document's order."""
    document = entity.document
    languages = {"en", "mul", *(entity.label or ())[1:]}
    kept = {key: document[key] for key in ("type", "id", "lastrevid", "modified") if key in document}
    kept["labels"] = _only(document.get("labels"), languages)
    kept["aliases"] = _only(document.get("aliases"), ("en", "mul"))
    if entity.sitelinks is not None:
        kept["sitelinks"] = entity.sitelinks
    kept["claims"] = _only(document.get("claims"), wanted.properties | wanted.extra)
    return kept


def _only(members: object, keys: Collection[str]) -> dict[str, Any]:
    return {key: members[key] for key in members if key in keys} if isinstance(members, Mapping) else {}
