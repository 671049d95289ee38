"""Statements in Wikidata's RDF, whatever brought them, as the rows of a snapshot.

RDF is what the sources have in common: documents and dumps are turned into it, the query service speaks it. A row is
read from its triples alone, so that equal triples give equal snapshots.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kg.dates import Day, Time, time_from_rdf
from kg.errors import DataError
from kg.sources import Row, Source, Triple
from kg.sources.entity import Entity, Named
from kg.sources.rdf import StatementRdf, statements
from kg.sources.rdfvalues import language_literal
from kg.sources.reviewed import property_labels, team_classes
from kg.terms import (
    ACTING,
    CAPACITIES,
    OWL_SAME_AS,
    PQ,
    PQV,
    PS,
    RDF_TYPE,
    RDFS_LABEL,
    SKOS_ALT,
    UNKNOWN,
    WD,
    WDNO,
    WDT,
    WIKIBASE,
    XSD,
    EndKind,
)

OFFICES: Final = {"P35": "P1906", "P6": "P1313"}
"""The property that names the office which a property's holders hold."""

REGIONS: Final = ("P17", "P27")
"""The properties that say where a subject belongs: country, citizenship."""

ABOUT_SUBJECTS: Final = ("P31", *REGIONS)
"""What a snapshot keeps of its subjects beside the wanted properties: the items of the best statements."""

_RANKS: Final = {"NormalRank": "normal", "PreferredRank": "preferred", "DeprecatedRank": "deprecated"}
_TERM: Final = re.compile(r'<([^<>]*)>|"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?')
_ITEM: Final = re.compile(r"[QP][1-9]\d*")


@dataclass(frozen=True)
class Subject:
    """One subject as a source has it.

    Attributes:
        asked: The id it was asked for by; another one where that is a redirect.
        id: The id its statements stand under.
        label: Text and language.
        statements: Those of the wanted properties, and of those that name their offices.
        revision: The revision they come from, where it is known.
        modified: When that revision was made, where it is known.
        sitelinks: On how many sites it has a page, where that is known.
        items: Its class, country and citizenship: property and item.
    """

    asked: str
    id: str
    label: tuple[str, str] | None
    statements: Sequence[StatementRdf]
    revision: int | None = None
    modified: str | None = None
    sitelinks: int | None = None
    items: tuple[tuple[str, str], ...] = ()


def needed(properties: Iterable[str]) -> frozenset[str]:
    """Return the properties to fetch for the wanted ones: these, and those that name their offices."""
    wanted = frozenset(properties)
    return wanted | {OFFICES[prop] for prop in wanted if prop in OFFICES}


def subject(entity: Entity, properties: Collection[str]) -> Subject:
    """Return an entity document as a subject, with what `needed` says of the wanted properties."""
    found = statements(entity, needed(properties))
    items = tuple((prop, item) for prop in ABOUT_SUBJECTS for item in entity.best_items(prop))
    about = (entity.label, found, entity.revision, entity.modified, entity.sitelinks, items)
    return Subject(entity.asked, entity.id, *about)


class _Bound(NamedTuple):
    """A start or an end as a statement has it."""

    time: Time | None
    unknown: bool


class _Read:
    """The triples of one statement by node and predicate."""

    def __init__(self, statement: StatementRdf) -> None:
        self.statement = statement
        self._objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        for node, predicate, value in statement.triples:
            self._objects[node[1:-1], predicate[1:-1]].append(_plain(value))

    def all(self, predicate: str, node: str | None = None) -> list[str]:
        return self._objects.get((node or self.statement.node, predicate), [])

    def one(self, predicate: str, node: str | None = None) -> str | None:
        return min(self.all(predicate, node), default=None)

    @property
    def rank(self) -> str:
        return _RANKS.get((self.one(WIKIBASE + "rank") or "").removeprefix(WIKIBASE), "normal")

    def bound(self, prop: str) -> _Bound:
        """Return the time of a qualifier; several times are one that may be any of them."""
        times = [time for node in self.all(PQV + prop) if (time := self._time(node))]
        unknown = any(value.startswith(UNKNOWN) for value in self.all(PQ + prop))
        if not times:
            return _Bound(None, unknown)
        first = min(times, key=lambda time: (time.span, time.text))
        span = first.span[0], max(time.span[1] for time in times)
        return _Bound(replace(first, span=span), False)

    def _time(self, node: str) -> Time | None:
        value, precision = self.one(WIKIBASE + "timeValue", node), self.one(WIKIBASE + "timePrecision", node)
        calendar = self.one(WIKIBASE + "timeCalendarModel", node)
        if value is None or precision is None or calendar is None:
            return None
        try:
            return time_from_rdf(value, int(precision), calendar)
        except (DataError, ValueError):
            return None  # a day that is none; the triples keep what Wikidata says

    def ends(self) -> tuple[Time | None, EndKind]:
        bound = self.bound("P582")
        if bound.time is not None:
            return bound.time, EndKind.KNOWN
        if bound.unknown:
            return None, EndKind.UNKNOWN
        return None, EndKind.NO_VALUE if WDNO + "P582" in self.all(RDF_TYPE) else EndKind.OPEN

    @property
    def acting(self) -> bool:
        return any(value in ACTING for prop in CAPACITIES for value in self.all(PQ + prop))

    def value(self) -> str | None:
        """Return the IRI of the main value; None for "no value"; raises where it is no entity."""
        prop = self.statement.property
        if value := self.one(PS + prop):
            return value
        if WDNO + prop in self.all(RDF_TYPE):
            return None
        raise DataError(f"The statement {self.statement.node} has no value.")


def _plain(term: str) -> str:
    """Return the IRI or the lexical form of a term; escapes matter to none that is read here."""
    match = _TERM.fullmatch(term)
    if match is None:
        raise DataError(f"{term!r} is no term.")
    return match[1] if match[1] is not None else match[2]


def _item(iri: str | None) -> str | None:
    """Return the id of an entity's IRI."""
    name = (iri or "").removeprefix(WD)
    return name if iri and iri.startswith(WD) and _ITEM.fullmatch(name) else None


def value_ids(subjects: Iterable[Subject]) -> set[str]:
    """Return the ids of all that a snapshot must know more of.

    They are holders, offices, the subjects' countries, and properties without a known label.
    """
    found = set()
    for one in subjects:
        found |= {item for prop, item in one.items if prop in REGIONS}
        for statement in one.statements:
            values = (value for _, predicate, value in statement.triples if predicate == f"<{PS}{statement.property}>")
            found |= {name for value in values if (name := _item(_plain(value)))}
            found |= {statement.property} - property_labels().keys() - set(OFFICES.values())
    return found


def office(one: Subject, prop: str, day: Day) -> str | None:
    """Return the id of the office that a property's holders hold on a day, as the subject itself says.

    Of several the preferred one counts, then the one that began last.
    """
    found = []
    for statement in one.statements:
        if statement.property != OFFICES.get(prop):
            continue
        read = _Read(statement)
        start, (end, kind) = read.bound("P580").time, read.ends()
        gone = kind is EndKind.UNKNOWN or (end is not None and end.span[1] <= day)
        if read.rank == "deprecated" or gone or (start is not None and start.span[0] > day):
            continue
        if item := _item(read.one(PS + statement.property)):
            found.append((read.rank == "preferred", start.span[0] if start else -99_999_999, item))
    return max(found)[2] if found else None


def source(
    subjects: Sequence[Subject],
    names: Mapping[str, Named],
    wanted: Mapping[str, Collection[str]],
    day: Day,
    *,
    name: str,
    description: str,
    notes: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Source:
    """Return the wanted statements of subjects as the rows of a snapshot.

    Args:
        subjects: as a source has them.
        names: what it has of the entities in `value_ids`, by the id that statements use.
        wanted: properties by the id a subject was asked for by.
        day: the day the snapshot shows; it decides the title of an office.
        name: short name of the source, for the manifest.
        description: one sentence of it.
        notes: further sentences.
        provenance: further fields.
    """
    reading = _Reading(names, day)
    rows, skipped, odd, twice = [], 0, 0, 0
    seen: dict[str, StatementRdf] = {}
    for one in sorted(subjects, key=lambda s: (s.id, s.asked)):
        for statement in one.statements:
            if statement.property not in wanted[one.asked]:
                continue
            if statement.node in seen:
                twice += seen[statement.node].triples != statement.triples
            else:
                seen[statement.node] = statement
                row = reading.row(one, statement)
                rows += [row] if row else []
                skipped += row is None
                odd += bool(statement.problems)
    if skipped:
        notes = [*notes, f"{skipped} statements whose value is no entity were left out."]
    if twice:
        notes = [*notes, f"{twice} statements were left out because an earlier one has the same id."]
    if odd:
        notes = [*notes, f"{odd} statements have a value that could not be read, or a day that is none and was mended."]
    if unknown := sorted(
        {row.holder_id for row in rows if row.property == "P54" and row.team_class is None and row.holder_id}
    ):
        shown = ", ".join(unknown[:20]) + (" …" if len(unknown) > 20 else "")
        notes = [*notes, f"{len(unknown)} teams are of a class that kg/data/team-classes.csv does not know: {shown}"]
    return Source(
        rows,
        name,
        description,
        date=day,
        notes=tuple(notes),
        provenance={**_provenance(subjects, names), **(provenance or {})},
        triples=(
            *((f"<{WD}{asked}>", f"<{OWL_SAME_AS}>", f"<{WD}{now}>") for asked, now in _redirects(subjects, names)),
            *(triple for one in subjects for triple in _about_subject(one, names)),
        ),
    )


def _about_subject(one: Subject, names: Mapping[str, Named]) -> Iterator[Triple]:
    """Yield how popular a subject is, what it is and where it belongs, as far as the source knows."""
    node = f"<{WD}{one.id}>"
    if one.sitelinks is not None:
        yield node, f"<{WIKIBASE}sitelinks>", f'"{one.sitelinks}"^^<{XSD}integer>'
    for prop, item in one.items:
        yield node, f"<{WDT}{prop}>", f"<{WD}{item}>"
        if prop in REGIONS and (region := names.get(item)):
            yield from _label(item, region.label)


def _provenance(subjects: Sequence[Subject], names: Mapping[str, Named]) -> dict[str, Any]:
    entities = {one.id: {"revision": one.revision, "modified": one.modified} for one in subjects}
    return {"entities": dict(sorted(entities.items())), "redirects": dict(_redirects(subjects, names))}


def _redirects(subjects: Sequence[Subject], names: Mapping[str, Named]) -> list[tuple[str, str]]:
    """Return the ids that lead to another one, each with it, sorted."""
    pairs = [(one.asked, one.id) for one in subjects] + [(one.asked, one.id) for one in names.values()]
    return sorted({(asked, now) for asked, now in pairs if asked != now})


@dataclass(frozen=True)
class _Reading:
    """Makes rows of statements."""

    names: Mapping[str, Named]
    day: Day

    def row(self, one: Subject, statement: StatementRdf) -> Row | None:
        """Return the row of a statement; None where its value is no entity."""
        read, prop = _Read(statement), statement.property
        try:
            value = read.value()
        except DataError:
            return None
        item, unknown = _item(value), value is not None and value.startswith(UNKNOWN)
        if not unknown and value is not None and (item is None or not item.startswith("Q")):
            return None
        holder, start, (end, kind) = self.names.get(item or ""), read.bound("P580"), read.ends()
        return Row(
            subject=one.label[0] if one.label else one.id,
            subject_id=one.id,
            property=prop,
            property_label=self._property_label(prop),
            holder=None if value is None or unknown else holder.label[0] if holder and holder.label else item,
            holder_id=item,
            holder_unknown=unknown,
            office=self._office(one, prop),
            start=start.time,
            start_unknown=start.unknown,
            end=end,
            end_kind=kind,
            point=read.bound("P585").time,
            rank=read.rank,
            team_class=_team_class(holder) if prop == "P54" and holder else None,
            statement=statement.node,
            acting=read.acting,
            triples=(*statement.triples, *_label(one.id, one.label), *_named(holder)),
        )

    def _office(self, one: Subject, prop: str) -> str | None:
        named = self.names.get(office(one, prop, self.day) or "")
        return named.label[0] if named and named.label else None

    def _property_label(self, prop: str) -> str | None:
        named = self.names.get(prop)
        return property_labels().get(prop) or (named.label[0] if named and named.label else None)


def _team_class(team: Named) -> str | None:
    """Return the class of a team by its P31; a national team is one whatever else it is."""
    classes = {team_classes()[item] for item in team.instance_of if item in team_classes()}
    return next((name for name in ("national", "racing", "club") if name in classes), None)


def _label(item: str, label: tuple[str, str] | None) -> list[Triple]:
    return [(f"<{WD}{item}>", f"<{RDFS_LABEL}>", language_literal(*label))] if label else []


def _named(one: Named | None) -> list[Triple]:
    """Return the triples of what a snapshot says of a value."""
    if one is None:
        return []
    node = f"<{WD}{one.asked}>"
    found = _label(one.asked, one.label)
    found += [(node, f"<{SKOS_ALT}>", language_literal(text, language)) for text, language in one.aliases]
    found += [(node, f"<{WDT}P31>", f"<{WD}{item}>") for item in one.instance_of]
    found += [(node, f"<{WDT}P570>", f'"{lexical}"^^<{XSD}dateTime>') for lexical in one.died]
    return found
