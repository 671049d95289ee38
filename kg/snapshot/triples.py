"""The rows of a source as the triples of a snapshot: Wikidata's statement model and our own bounds beside it."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import pyoxigraph as ox

from kg.dates import Time, next_day
from kg.errors import DataError
from kg.sources import Row, Triple
from kg.terms import (
    DY,
    PQ,
    PQV,
    PS,
    RDF_TYPE,
    RDFS_LABEL,
    SKOS_ALT,
    STATEMENT,
    WD,
    WDNO,
    WDT,
    WIKIBASE,
    XSD,
    EndKind,
    P,
    entity_iri,
    fact_iri,
    holder_iri,
    unknown_iri,
)

RANKS: Final = {"normal": "NormalRank", "preferred": "PreferredRank", "deprecated": "DeprecatedRank"}
TEAM_CLASSES: Final = ("club", "national", "racing")


def ntriples(rows: Sequence[Row], further: Sequence[Triple] = ()) -> bytes:
    """Return the rows, and further triples, as sorted N-Triples without repetition; their order leaves no trace.

    Raises:
        DataError: a row is malformed.
    """
    lines = {f"{subject} {predicate} {value} .\n" for subject, predicate, value in _triples(in_order(rows))}
    lines |= {f"{subject} {predicate} {value} .\n" for subject, predicate, value in further}
    return "".join(sorted(lines)).encode()


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Return the rows ordered by what they say."""
    return sorted(rows, key=_row_order)


def _row_order(row: Row) -> tuple[str, ...]:
    times = (time and f"{time.text}/{time.precision}/{time.calendar}" for time in (row.start, row.end, row.point))
    names = (row.subject_id, row.subject, row.property, row.holder_id, row.holder, row.office)
    flags = (row.end_kind, row.rank, str(row.start_unknown), str(row.holder_unknown))
    return (*(part or "" for part in (*names, *times)), *flags, row.statement or "", *row.aliases)


Triples = Iterator[Triple]


def _iri(value: str) -> str:
    return str(ox.NamedNode(value))


def _text(value: str) -> str:
    return str(ox.Literal(value))


def _english(value: str) -> str:
    return str(ox.Literal(value, language="en"))


def _typed(value: object, datatype: str) -> str:
    return str(ox.Literal(str(value), datatype=ox.NamedNode(XSD + datatype)))


_TYPE: Final = _iri(RDF_TYPE)


def row_fact(row: Row) -> str:
    """Return the IRI of the fact a row belongs to."""
    return fact_iri(subject_iri(row), row.property)


def subject_iri(row: Row) -> str:
    """Return the IRI of a row's subject."""
    return WD + row.subject_id if row.subject_id else entity_iri(row.subject)


def field_triples(row: Row, statement: str) -> Triples:
    """Yield Wikidata's model of the statement of this IRI, made of the fields of a row."""
    return _field_triples(row, statement, _iri(statement), _value_iri(row, statement))


def _value_iri(row: Row, statement: str) -> str | None:
    """Return the IRI of a row's main value; None for "no value"."""
    if row.holder_unknown:
        return unknown_iri(statement)
    if row.holder is None:
        return None
    return WD + row.holder_id if row.holder_id else holder_iri(row.subject, row.property, row.holder)


def _triples(rows: Sequence[Row]) -> Triples:
    """Yield the triples of ordered rows; may yield one twice."""
    seen: Counter[str] = Counter()
    by_fact: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        _check(row)
        fact = row_fact(row)
        by_fact[fact].append(row)
        yield from _statement_triples(row, fact, row.statement or _name(row, fact, seen))
    for fact, own in by_fact.items():
        yield from _fact_triples(fact, own)


def _name(row: Row, fact: str, seen: Counter[str]) -> str:
    """Name a statement without a Wikidata id by what it says; a changed end leaves the name as it is."""
    start = f"{row.start.text}/{row.start.precision}" if row.start else ""
    name = f"{fact}|{row.holder_id or _value_iri(row, STATEMENT)}|{start}"
    seen[name] += 1
    return STATEMENT + hashlib.sha1(f"{name}|{seen[name]}".encode(), usedforsecurity=False).hexdigest()


def _check(row: Row) -> None:
    """Refuse a row that would make malformed triples."""
    where = f"{row.subject!r}, {row.property}, {row.holder!r}"
    if not re.fullmatch(r"P[1-9]\d*", row.property):
        raise DataError(f"The property {row.property!r} of {where} is not like P35.")
    for name in (row.subject_id, row.holder_id, row.instance_of):
        if name is not None and not re.fullmatch(r"Q[1-9]\d*", name):
            raise DataError(f"The id {name!r} in {where} is not like Q38.")
    if row.rank not in RANKS:
        raise DataError(f"The rank {row.rank!r} of {where} is unknown.", hint=f"Ranks: {', '.join(RANKS)}.")
    if row.team_class not in (None, *TEAM_CLASSES):
        raise DataError(
            f"The team class {row.team_class!r} of {where} is unknown.", hint=f"Classes: {', '.join(TEAM_CLASSES)}."
        )
    if (row.end is not None) != (row.end_kind is EndKind.KNOWN):
        raise DataError(f"{where} has the end {row.end} and the end kind {row.end_kind.value!r}.")


def _fact_triples(fact: str, rows: Sequence[Row]) -> Triples:
    node, row, prop = _iri(fact), rows[0], rows[0].property
    subject = _iri(subject_iri(row))
    whole = all(row.whole for row in rows)
    yield node, _TYPE, _iri(DY + "Fact")
    yield node, _iri(DY + "subject"), subject
    yield node, _iri(DY + "property"), _iri(WD + prop)
    yield node, _iri(DY + "history"), _iri(DY + ("Full" if whole else "Extract"))
    if office := next((row.office for row in rows if row.office), None):
        yield node, _iri(DY + "office"), _english(office)
    if not row.triples:
        yield subject, _iri(RDFS_LABEL), _english(row.subject)
    yield _iri(WD + prop), _TYPE, _iri(WIKIBASE + "Property")
    yield _iri(WD + prop), _iri(WIKIBASE + "claim"), _iri(P + prop)
    yield _iri(WD + prop), _iri(WIKIBASE + "statementProperty"), _iri(PS + prop)
    if label := next((row.property_label for row in rows if row.property_label), None):
        yield _iri(WD + prop), _iri(RDFS_LABEL), _english(label)


def _statement_triples(row: Row, fact: str, statement: str) -> Triples:
    node, value = _iri(statement), _value_iri(row, statement)
    yield _iri(fact), _iri(DY + "statement"), node
    yield from _bound_triples(row, node)
    if value is not None and row.team_class is not None:
        yield _iri(value), _iri(DY + "teamClass"), _text(row.team_class)
    yield from row.triples or _field_triples(row, statement, node, value)


def _field_triples(row: Row, statement: str, node: str, value: str | None) -> Triples:
    """Yield Wikidata's model of a statement, made of the fields of a row whose source has no RDF."""
    yield _iri(subject_iri(row)), _iri(P + row.property), node
    yield node, _TYPE, _iri(WIKIBASE + "Statement")
    yield node, _iri(WIKIBASE + "rank"), _iri(WIKIBASE + RANKS[row.rank])
    if value is None:
        yield node, _TYPE, _iri(WDNO + row.property)
    else:
        yield node, _iri(PS + row.property), _iri(value)
        yield from _holder_triples(row, _iri(value))
    for prop, time in (("P580", row.start), ("P582", row.end), ("P585", row.point)):
        if time is not None:
            yield from _time_triples(node, prop, time)
    if row.end_kind is EndKind.NO_VALUE:
        yield node, _TYPE, _iri(WDNO + "P582")
    elif row.end_kind is EndKind.UNKNOWN:
        yield node, _iri(PQ + "P582"), _iri(unknown_iri(statement, "P582"))
    if row.start_unknown:
        yield node, _iri(PQ + "P580"), _iri(unknown_iri(statement, "P580"))


def _holder_triples(row: Row, value: str) -> Triples:
    if row.holder is not None:
        yield value, _iri(RDFS_LABEL), _english(row.holder)
    for alias in row.aliases:
        yield value, _iri(SKOS_ALT), _english(alias)
    if row.instance_of is not None:
        yield value, _iri(WDT + "P31"), _iri(WD + row.instance_of)


def _bound_triples(row: Row, node: str) -> Triples:
    """Yield our own bounds: integers, because RDF libraries disagree on dates beyond the years 1 to 9999."""
    start_kind = "known" if row.start else "unknown value" if row.start_unknown else "missing"
    yield node, _iri(DY + "startKind"), _text(start_kind)
    yield node, _iri(DY + "endKind"), _text(row.end_kind.value)
    for name, time in (("start", row.start), ("end", row.end)):
        if time is not None:
            yield node, _iri(f"{DY}{name}Earliest"), _typed(time.span[0], "integer")
            yield node, _iri(f"{DY}{name}Latest"), _typed(time.span[1], "integer")
    if row.acting:
        yield node, _iri(DY + "acting"), _typed("true", "boolean")
    if row.end is not None and row.end.is_day:
        yield node, _iri(DY + "dayAfterEnd"), _typed(next_day(row.end.span[0]), "integer")


def _time_triples(node: str, prop: str, time: Time) -> Triples:
    value = _iri(time.node)
    yield node, _iri(PQ + prop), _typed(time.rdf, "dateTime")
    yield node, _iri(PQV + prop), value
    yield value, _TYPE, _iri(WIKIBASE + "TimeValue")
    yield value, _iri(WIKIBASE + "timeValue"), _typed(time.rdf, "dateTime")
    yield value, _iri(WIKIBASE + "timePrecision"), _typed(time.precision, "integer")
    yield value, _iri(WIKIBASE + "timeTimezone"), _typed(time.timezone, "integer")
    yield value, _iri(WIKIBASE + "timeCalendarModel"), _iri(time.calendar)
