"""The statements of a snapshot read back from its triples, without a store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyoxigraph as ox

from kg.dates import Span
from kg.errors import SnapshotError
from kg.terms import DY, PS, RDF_TYPE, RDFS_LABEL, WIKIBASE, EndKind, short


@dataclass(frozen=True)
class Statement:
    """A statement as a snapshot holds it."""

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


def read_graph(data: bytes) -> list[Statement]:
    """Return the statements of N-Triples, sorted by fact, holder and start.

    Raises:
        SnapshotError: the bytes are not N-Triples.
    """
    graph = _Graph(data)
    statements = [statement for fact in graph.of_type(DY + "Fact") for statement in _statements(graph, fact)]
    return sorted(statements, key=lambda s: (s.fact, s.label or "", s.holder or "", s.start or (0, 0), s.iri))


class _Graph:
    """Triples by subject and predicate, as plain strings."""

    def __init__(self, data: bytes) -> None:
        self._objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._types: dict[str, list[str]] = defaultdict(list)
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
        )
