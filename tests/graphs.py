"""Small graphs for tests: a table of statements as the triples a snapshot would hold."""

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pyoxigraph as ox

from kg.store import Row, _value
from kg.terms import DY, PS, RDF_TYPE, RDFS_LABEL, WD, WIKIBASE, fact_iri, holder_iri
from kg.terms import entity_iri as subject_iri


class Span(NamedTuple):
    """Earliest and latest day of a bound, and the day after where it is day-precise."""

    first: int
    last: int
    after: int | None


def span(text: str) -> Span:
    """Read "2015", "2015-03" or "2015-03-04"; days of a month are counted by hand, apart from our own dates."""
    parts = [int(part) for part in text.split("-")]
    year, month, day = (*parts, 0, 0)[:3]
    if not month:
        return Span(year * 10000 + 101, year * 10000 + 1231, None)
    days = 31 - (month in {4, 6, 9, 11}) - (month == 2) * (3 - (year % 4 == 0))
    if not day:
        return Span(year * 10000 + month * 100 + 1, year * 10000 + month * 100 + days, None)
    this = year * 10000 + month * 100 + day
    if day < days:
        return Span(this, this, this + 1)
    return Span(this, this, (year + 1) * 10000 + 101 if month == 12 else year * 10000 + (month + 1) * 100 + 1)


def triples(table: str, subject: str = "Land", prop: str = "P35", history: str = "Full") -> bytes:
    """Return N-Triples for a CSV of holder,start,end,end_kind,rank,team_class; an empty holder is "no value"."""
    fact, place = ox.NamedNode(fact_iri(subject_iri(subject), prop)), ox.NamedNode(subject_iri(subject))
    found = {
        _t(fact, RDF_TYPE, ox.NamedNode(DY + "Fact")),
        _t(fact, DY + "subject", place),
        _t(fact, DY + "property", ox.NamedNode(WD + prop)),
        _t(fact, DY + "history", ox.NamedNode(DY + history)),
        _t(place, RDFS_LABEL, ox.Literal(subject, language="en")),
        _t(ox.NamedNode(WD + prop), WIKIBASE + "statementProperty", ox.NamedNode(PS + prop)),
    }
    for number, row in enumerate(csv.DictReader(io.StringIO(table))):
        found |= _statement(fact, subject, prop, number, row)
    return ("\n".join(sorted(f"{triple} ." for triple in found)) + "\n").encode()


def _t(subject: ox.NamedNode, predicate: str, value: ox.NamedNode | ox.Literal) -> ox.Triple:
    return ox.Triple(subject, ox.NamedNode(predicate), value)


def _statement(fact: ox.NamedNode, subject: str, prop: str, number: int, row: dict[str, str]) -> set[ox.Triple]:
    node = ox.NamedNode(f"urn:dyknow:statement:{quote(subject, safe='')}-{number}")
    kind = row.get("end_kind") or ("known" if row["end"] else "open")
    rank = ox.NamedNode(WIKIBASE + (row.get("rank") or "Normal") + "Rank")
    found = {
        _t(fact, DY + "statement", node),
        _t(node, WIKIBASE + "rank", rank),
        _t(node, DY + "endKind", ox.Literal(kind)),
    }
    for name, text in (("start", row["start"]), ("end", row["end"])):
        if text:
            first, last, after = span(text)
            found |= {
                _t(node, f"{DY}{name}Earliest", ox.Literal(first)),
                _t(node, f"{DY}{name}Latest", ox.Literal(last)),
            }
            if name == "end" and after:
                found.add(_t(node, DY + "dayAfterEnd", ox.Literal(after)))
    if row["holder"]:
        holder = ox.NamedNode(holder_iri(subject, prop, row["holder"]))
        found |= {_t(node, PS + prop, holder), _t(holder, RDFS_LABEL, ox.Literal(row["holder"], language="en"))}
        if row.get("team_class"):
            found.add(_t(holder, DY + "teamClass", ox.Literal(row["team_class"])))
    return found


class MemoryGraph:
    """Triples in an Oxigraph store in memory."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._store = ox.Store()
        self._store.load(data, format=ox.RdfFormat.N_TRIPLES)

    def rows(self, text: str) -> Iterator[Row]:
        result = self._store.query(text)
        assert isinstance(result, ox.QuerySolutions)
        names = [variable.value for variable in result.variables]
        for solution in result:
            yield {n: _value(term) for n in names if (term := solution[n]) is not None}
