"""The statements of a snapshot read back from its triples, without a store."""

import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyoxigraph as ox

from kg.dates import Day, Span, days_in_month, format_span, join_day, parse_day, split_day
from kg.errors import SnapshotError, UsageError
from kg.terms import (
    ACTING,
    CAPACITIES,
    DY,
    PQ,
    PS,
    RDF_TYPE,
    RDFS_LABEL,
    UNKNOWN,
    WDS,
    WDT,
    WIKIBASE,
    EndKind,
    label_of,
    short,
)


@dataclass(frozen=True)
class Statement:
    """A statement as a snapshot holds it.

    What stands below ``end_kind`` is in Wikidata's own triples, so a snapshot that was taken from labels has none of
    it.
    """

    fact: str
    subject: str
    subject_label: str
    property: str
    whole: bool
    iri: str
    holder: str | None  # IRI; None for "no value"
    label: str | None
    team_class: str | None
    rank: str
    start: Span | None
    end: Span | None
    end_kind: EndKind
    start_kind: str = "known"  # "known", "missing" or "unknown value"
    replaces: tuple[str, ...] = ()  # IRIs, P1365
    replaced_by: tuple[str, ...] = ()  # IRIs, P1366
    acting: bool = False
    instance_of: tuple[str, ...] = ()  # IRIs, the holder's P31
    died: Span | None = None  # the holder's P570, all its values together

    @builtins.property  # a field of this class is called property
    def wikidata_id(self) -> str | None:
        """Its id in Wikidata as the RDF writes it, ``Q31-42cc4f87…``; None where the snapshot was taken from labels."""
        return self.iri.removeprefix(WDS) if self.iri.startswith(WDS) else None

    @builtins.property
    def holder_unknown(self) -> bool:
        """Whether it says that somebody holds the fact, and that nobody knows who."""
        return self.holder is not None and self.holder.startswith(UNKNOWN)

    @builtins.property
    def name(self) -> str:
        """What a reader calls the holder: its label, else its id, "no value" or "unknown value"."""
        if self.holder is None:
            return "no value"
        return "unknown value" if self.holder_unknown else self.label or label_of(self.holder)

    @builtins.property
    def is_open(self) -> bool:
        """Whether it has no end, or says that there is none yet."""
        return self.end_kind in (EndKind.OPEN, EndKind.NO_VALUE)

    @builtins.property
    def tenure(self) -> str:
        """Its bounds as a reader writes them: "2014-10-11–2019", "2014–" while it is open, "?" for an unknown bound."""
        if self.start_kind == "missing" and self.end_kind is EndKind.OPEN:
            return "undated"
        start = format_span(*self.start) if self.start else "?" if self.start_kind == "unknown value" else ""
        ends = {EndKind.OPEN: "", EndKind.NO_VALUE: "(no value)", EndKind.UNKNOWN: "?"}
        return f"{start}–{format_span(*self.end) if self.end else ends.get(self.end_kind, '')}"


def read_graph(data: bytes) -> list[Statement]:
    """Return the statements of N-Triples, sorted by fact, holder and start.

    Raises:
        SnapshotError: the bytes are not N-Triples.
    """
    return _in_order(_Graph(data))


def read_graphs(shared: bytes, *own: bytes) -> list[list[Statement]]:
    """Return the statements of graphs that have some N-Triples in common, and each its own; those are parsed once.

    Raises:
        SnapshotError: the bytes are not N-Triples.
    """
    common = _Graph(shared)
    return [_in_order(_Graph(data, common)) for data in own]


def _in_order(graph: "_Graph") -> list[Statement]:
    statements = [statement for fact in graph.of_type(DY + "Fact") for statement in _statements(graph, fact)]
    return sorted(statements, key=lambda s: (s.fact, s.label or "", s.holder or "", s.start or (0, 0), s.iri))


class _Graph:
    """Triples by subject and predicate, as plain strings; those of another graph are in it, too."""

    def __init__(self, data: bytes, like: "_Graph | None" = None) -> None:
        self._objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._types: dict[str, list[str]] = defaultdict(list)
        if like:
            self._objects.update({key: [*values] for key, values in like._objects.items()})
            self._types.update({key: [*values] for key, values in like._types.items()})
        try:
            for quad in ox.parse(data, format=ox.RdfFormat.N_TRIPLES):
                subject, value = _plain(quad.subject), _plain(quad.object)
                self._objects[subject, quad.predicate.value].append(value)
                if quad.predicate.value == RDF_TYPE:
                    self._types[value].append(subject)
        except SyntaxError as error:
            raise SnapshotError(f"The statements are not N-Triples: {error}") from error

    def of_type(self, name: str) -> Iterable[str]:
        return self._types.get(name, ())

    def all(self, subject: str, predicate: str) -> Sequence[str]:
        return self._objects.get((subject, predicate), ())

    def one(self, subject: str, predicate: str) -> str | None:
        return min(self.all(subject, predicate), default=None)

    def span(self, subject: str, name: str) -> Span | None:
        first, last = self.one(subject, f"{DY}{name}Earliest"), self.one(subject, f"{DY}{name}Latest")
        return None if first is None or last is None else (int(first), int(last))


def _plain(term: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> str:
    return str(term) if isinstance(term, ox.Triple) else term.value


def _statements(graph: _Graph, fact: str) -> Iterator[Statement]:
    subject, prop = graph.one(fact, DY + "subject") or "", short(graph.one(fact, DY + "property") or "")
    for iri in graph.all(fact, DY + "statement"):
        holder = graph.one(iri, PS + prop)
        yield Statement(
            fact=fact,
            subject=subject,
            subject_label=graph.one(subject, RDFS_LABEL) or short(subject),
            property=prop,
            whole=graph.one(fact, DY + "history") == DY + "Full",
            iri=iri,
            holder=holder,
            label=graph.one(holder, RDFS_LABEL) if holder else None,
            team_class=graph.one(holder, DY + "teamClass") if holder else None,
            rank=(graph.one(iri, WIKIBASE + "rank") or "").removeprefix(WIKIBASE),
            start=graph.span(iri, "start"),
            end=graph.span(iri, "end"),
            end_kind=EndKind(graph.one(iri, DY + "endKind") or "open"),
            start_kind=graph.one(iri, DY + "startKind") or "known",
            replaces=_sorted(graph.all(iri, PQ + "P1365")),
            replaced_by=_sorted(graph.all(iri, PQ + "P1366")),
            acting=any(value in ACTING for prop in CAPACITIES for value in graph.all(iri, PQ + prop)),
            instance_of=_sorted(graph.all(holder, WDT + "P31")) if holder else (),
            died=_died(graph.all(holder, WDT + "P570")) if holder else None,
        )


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _died(values: Iterable[str]) -> Span | None:
    """Return the days a holder can have died on: from the first value's first to the last one's last."""
    spans = [span for value in values if (span := _day_span(value)) is not None]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def _day_span(text: str) -> Span | None:
    """Return the days that an xsd:dateTime without its precision can mean.

    A year is written as its 1 January and a month as its first day, so these two are read as wide as they may be.
    """
    try:
        day: Day = parse_day(text.partition("T")[0])
    except UsageError:
        return None  # an unknown value, or a day that is none: it decides nothing
    year, month, number = split_day(day)
    if number != 1:
        return day, day
    return day, join_day(year, 12, 31) if month == 1 else join_day(year, month, days_in_month(year, month))
