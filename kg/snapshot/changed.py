"""What two snapshots of a series say of the facts that differ; what both have alike is unpacked, but not parsed.

Which lines differ the series knows without reading any. From such a line the way to its fact goes by its subject: that
is the fact itself, one of its statements, or the subject or a holder of one.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from kg.snapshot.reading import Statement, read_graphs
from kg.snapshot.segments import Chunk
from kg.snapshot.series import Series
from kg.terms import DY, FACT, PQ, PQV, PS, SKOS_ALT, WDS, WIKIBASE, P

if TYPE_CHECKING:
    import numpy as np

    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_FACTS: Final = f"<{FACT}".encode(), f"<{FACT[:-1]};".encode()
"""The first subject that can be a fact, and the first after all facts."""

_HOLDER: Final = re.compile(rb"> <%bP\d+> (<[^>]*>) \.$" % re.escape(PS.encode()), re.MULTILINE)
"""A statement's line from the end of its subject; what begins with fixed bytes is found ten times faster."""

_WDS: Final = f"<{WDS}".encode()
_SUBJECT, _PROPERTY, _STATEMENT = (f"<{DY}{name}>".encode() for name in ("subject", "property", "statement"))

_UNREAD: Final = tuple(
    start.encode()
    for start in (
        f"<{WIKIBASE}sitelinks> ",
        f"<{SKOS_ALT}> ",
        f"<{P}P",
        f"<{PQV}",
        *(f"<{PQ}{bound}> " for bound in ("P580", "P582")),
        f"<{DY}dayAfterEnd> ",
    )
)
"""How predicates begin from which `kg.snapshot.reading` reads no statement; they are half of all lines, or more."""


class Side(NamedTuple):
    """What one snapshot says.

    Attributes:
        statements: Those of the facts that differ, sorted by fact, holder and start.
        ids: Wikidata's ids of all its statements.
    """

    statements: list[Statement]
    ids: frozenset[str]


def between(series: Series, places: tuple[int, int], entity: Callable[[str], str]) -> tuple[Side, Side]:
    """Return what two snapshots of a series say of the facts that are not alike in both.

    Args:
        series: where they lie.
        places: which two they are, counted from 0.
        entity: says which IRIs are one entity; a fact of one entity under two names differs as a whole.

    Raises:
        SnapshotError: a segment is damaged.
    """
    masks = _masks(series, places)
    ways = _Ways()
    for segment, chunk, first in series.chunks(masks[0] | masks[1]):
        ways.read(segment.read(chunk.block), chunk, [mask[first : first + chunk.lines] for mask in masks])
    wanted = ways.wanted(entity)
    ordered = sorted(wanted)
    shared: list[bytes] = []
    own: tuple[list[bytes], list[bytes]] = [], []
    for segment, chunk, first in series.chunks(masks[0] | masks[1]):
        if subjects := _within(ordered, chunk):
            found = segment.lines(chunk)
            one, other = (mask[first : first + chunk.lines].tolist() for mask in masks)
            for number in _picked(found, subjects, wanted):
                if one[number]:
                    (shared if other[number] else own[0]).append(found[number])
                elif other[number]:
                    own[1].append(found[number])
    sides = read_graphs(*(b"\n".join(lines) for lines in (shared, *own)))
    older, newer = (
        Side(statements, frozenset(iri[len(_WDS) : -1].decode() for iri in ids))
        for statements, ids in zip(sides, ways.ids, strict=True)
    )
    return older, newer


def _masks(series: Series, places: tuple[int, int]) -> tuple["Mask", "Mask"]:
    """Return which lines stand in both snapshots, each as long as the longer."""
    import numpy as np  # noqa: PLC0415  # a tenth of a second that no other command needs to wait

    one, other = (series.standing(place) for place in places)
    length = max(len(one), len(other))
    return np.pad(one, (0, length - len(one))), np.pad(other, (0, length - len(other)))


def _within(wanted: Sequence[bytes], chunk: Chunk) -> Sequence[bytes]:
    """Return the subjects that a chunk may have lines of."""
    first, last = (line.partition(b" ")[0] for line in (chunk.first, chunk.last))
    return wanted[bisect_left(wanted, first) : bisect_left(wanted, last + b"\0")]


def _picked(lines: Sequence[bytes], subjects: Sequence[bytes], wanted: AbstractSet[bytes]) -> list[int]:
    """Return the places of the lines, in sorted ones, whose subject is wanted; few subjects are searched for."""
    if len(subjects) * 8 > len(lines):
        parts = (line.partition(b" ") for line in lines)
        return [
            number
            for number, (subject, _, rest) in enumerate(parts)
            if subject in wanted and not rest.startswith(_UNREAD)
        ]
    at, picked = 0, []
    for subject in subjects:
        start = bisect_left(lines, subject + b" ", lo=at)
        at = bisect_left(lines, subject + b"!", lo=start)  # the sign after a space
        behind = len(subject) + 1
        picked += [number for number in range(start, at) if not lines[number].startswith(_UNREAD, behind)]
    return picked


@dataclass
class _Fact:
    subject: str = ""
    property: str = ""
    statements: list[bytes] = field(default_factory=list)


class _Ways:
    """The ways from lines that differ to their facts; what stands in either snapshot is a way."""

    def __init__(self) -> None:
        self.ids: tuple[set[bytes], set[bytes]] = set(), set()
        self._differ: set[bytes] = set()
        self._holders: list[tuple[bytes, bytes]] = []
        self._facts: dict[bytes, _Fact] = {}

    def read(self, data: bytes, chunk: Chunk, masks: Sequence["Mask"]) -> None:
        """Read a chunk of lines, of which two masks tell in which of the snapshots they stand."""
        differs = masks[0] ^ masks[1]
        # A dead line is a way too many, which costs a little and harms nothing.
        self._holders += [
            (data[data.rfind(b"\n", 0, found.start()) + 1 : found.start() + 1], found[1])
            for found in _HOLDER.finditer(data)
        ]
        has_facts = chunk.last >= _FACTS[0] and chunk.first < _FACTS[1]
        lines = data.split(b"\n") if has_facts or differs.any() else []
        for line in compress(lines, differs.tolist()):
            subject, _, rest = line.partition(b" ")
            if not rest.startswith(_UNREAD):
                self._differ.add(subject)
        if has_facts:
            start, end = (bisect_left(lines, bound, hi=chunk.lines) for bound in _FACTS)
            for line, *stands in zip(lines[start:end], *(mask[start:end].tolist() for mask in masks), strict=True):
                if any(stands):
                    self._fact(line, stands)

    def _fact(self, line: bytes, stands: Sequence[bool]) -> None:
        name, predicate, rest = line.split(b" ", 2)
        value = rest[:-2]
        fact = self._facts.setdefault(name, _Fact())
        if predicate == _STATEMENT:
            fact.statements.append(value)
            if value.startswith(_WDS):
                for there, ids in zip(stands, self.ids, strict=True):
                    if there:
                        ids.add(value)
        elif predicate == _SUBJECT:
            fact.subject = value[1:-1].decode()
        elif predicate == _PROPERTY:
            fact.property = value.decode()

    def wanted(self, entity: Callable[[str], str]) -> set[bytes]:
        """Return the subjects of all lines that belong to facts that differ."""
        differ = self._differ
        changed = differ | {statement for statement, holder in self._holders if holder in differ}
        keys = {name: (entity(fact.subject), fact.property) for name, fact in self._facts.items()}
        # Two facts of the graph can be one, under two names of its subject; they are compared together.
        differing = {
            keys[name]
            for name, fact in self._facts.items()
            if name in differ or f"<{fact.subject}>".encode() in differ or not changed.isdisjoint(fact.statements)
        }
        own = {name: fact for name, fact in self._facts.items() if keys[name] in differing}
        statements = {statement for fact in own.values() for statement in fact.statements}
        subjects = {f"<{fact.subject}>".encode() for fact in own.values()}
        holders = {holder for statement, holder in self._holders if statement in statements}
        return own.keys() | statements | subjects | holders
