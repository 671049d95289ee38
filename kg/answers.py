"""Answer sets as of a day, and standings over all days.

Both come from one query, ``queries/kg/answers.rq``: an answer set asks it for one day, the standings for every day on
which a fact can change. What the query cannot know is added here, when its rows are read: which holders are one entity
(the identity table), and so which of an entity's statements speaks for it.
"""

import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

import pyoxigraph as ox

from kg.errors import UsageError
from kg.identity import Identity
from kg.store import Graph, Row, Term, boolean, integer, select
from kg.terms import WD, EndKind, Rule, Standing, Status, Validity, fact_iri, label_of, short

BEFORE_ALL_DAYS = -99_999_999
"""A day before every day a snapshot can name."""

FACTS_AT_ONCE: Final = 1000
"""How many facts' answer sets are asked for by one query: its text stays under half a megabyte."""


class Holder(NamedTuple):
    """What one entity is to a fact on one day.

    Of an entity with several statements (two terms of one person) the statement that counts most on that day speaks.
    """

    entity: str  # "Q42", or the IRI where no Wikidata id is known
    iri: str  # as the snapshot names it
    label: str
    standing: Standing
    certain: bool  # the standing is the same for every choice of days inside the spans
    validity: Validity
    superseded: bool  # valid on the day, but another one started later
    start: tuple[int, int] | None  # earliest and latest first day; None where the snapshot has none
    end: tuple[int, int] | None  # earliest and latest end (the first day no longer held); None: open or unknown
    end_kind: EndKind
    team_class: str | None
    statement: str
    acting: bool = False  # only stands in


class AnswerSet(NamedTuple):
    """All holders of one fact as one snapshot lets them stand on one day."""

    fact: str  # "Q38/P35"
    subject: str
    property: str
    office: str | None
    as_of: int
    snapshot: str
    status: Status
    open_order: bool  # several holders are up-to-date: a tie, or precision leaves their order open
    holders: tuple[Holder, ...]  # up-to-date first, then outdated and later ones, latest start first

    @builtins.property  # a field of this class is called property
    def up_to_date(self) -> tuple[Holder, ...]:
        """The holders that count as the right answer."""
        return tuple(h for h in self.holders if h.standing is Standing.UP_TO_DATE)


class StandingRow(NamedTuple):
    """The standing of an entity over a stretch of days on which nothing changes."""

    fact: str
    entity: str
    rule: Rule
    from_day: int
    to_day: int | None  # the first day it no longer holds; None: for ever
    standing: Standing
    certain: bool
    validity: Validity
    superseded: bool
    statement: str
    start_day: int | None  # earliest first day of the statement
    end_day: int | None  # latest end of the statement


class CoverageRow(NamedTuple):
    """What the snapshot knows of a fact over a stretch of days."""

    fact: str
    rule: Rule
    from_day: int
    to_day: int | None
    status: Status


class NameRow(NamedTuple):
    """A name the snapshot has for an entity that holds a fact in some statement, whatever its rank."""

    fact: str
    entity: str
    name: str
    kind: str  # "label" or "alias"
    first_day: int | None  # earliest first day over the entity's statements of this fact
    last_day: int | None  # latest end; None: open
    team_class: str | None


class Fact(NamedTuple):
    """A fact of a snapshot."""

    fact: str  # "Q38/P35"
    iri: str
    subject: str
    property: str
    property_label: str
    office: str | None
    whole: bool  # False: the snapshot holds only an extract of its history


def facts(graph: Graph, identity: Identity, wanted: Sequence[str] | None = None) -> dict[str, Fact]:
    """Return the facts of a snapshot by id, sorted by id; of ``wanted`` ids those that it has."""
    bound: list[Sequence[Term]] = [[None]] if wanted is None else _fact_nodes(identity, wanted)
    rows = select(graph, "facts", "?fact", bound)
    found = [_fact(row, identity) for row in rows]
    return {fact.fact: fact for fact in sorted(found)}


def _fact_nodes(identity: Identity, wanted: Sequence[str]) -> list[Sequence[Term]]:
    """Return the nodes that facts of these ids may have: a subject may stand under several IRIs."""
    iris: dict[str, list[str]] = defaultdict(list)
    for iri, entity in identity.entities.items():
        iris[entity].append(iri)
    found = set()
    for subject, _, prop in (name.rpartition("/") for name in wanted):
        own = subject if ":" in subject else WD + subject
        found |= {fact_iri(iri, prop) for iri in (own, *iris[subject])}
    return [[ox.NamedNode(iri)] for iri in sorted(found)]


def _fact(row: Row, identity: Identity) -> Fact:
    subject, prop = str(row["subject"]), short(str(row["property"]))
    return Fact(
        fact=f"{identity.entity(subject)}/{prop}",
        iri=str(row["fact"]),
        subject=str(row.get("subjectLabel", label_of(subject))),
        property=prop,
        property_label=str(row.get("propertyLabel", prop)),
        office=None if "office" not in row else str(row["office"]),
        whole=str(row["history"]).endswith(":Full"),
    )


def answers(
    graph: Graph,
    identity: Identity,
    as_of: int,
    wanted: Sequence[str] | None = None,
    rule: Rule = Rule.LATEST,
    *,
    acting: bool = True,
) -> list[AnswerSet]:
    """Return the answer set of every fact as of a day, sorted by fact.

    Args:
        graph: a snapshot's store, or any engine that holds the same triples.
        identity: says which IRIs are one entity.
        as_of: the day, YYYYMMDD.
        wanted: fact ids; None asks for all.
        rule: which holder counts as up-to-date.
        acting: whether holders who only stand in are answers; without them they are listed as not asked.

    Raises:
        UsageError: a wanted fact is not in the snapshot.
    """
    known = facts(graph, identity, wanted)
    chosen = [known[name] for name in _checked(known, wanted, graph.name)]
    return list(each(graph, identity, as_of, chosen, rule, acting=acting, every=wanted is None))


def each(
    graph: Graph,
    identity: Identity,
    as_of: int,
    chosen: Sequence[Fact],
    rule: Rule = Rule.LATEST,
    *,
    acting: bool = True,
    every: bool = False,
) -> Iterator[AnswerSet]:
    """Yield the answer sets of facts as of a day, in their order, as `answers` returns them.

    At no time are those of more than `FACTS_AT_ONCE` facts in memory.

    Args:
        graph: a snapshot's store, or any engine that holds the same triples.
        identity: says which IRIs are one entity.
        as_of: the day, YYYYMMDD.
        chosen: facts of that graph, as `facts` gives them.
        rule: which holder counts as up-to-date.
        acting: whether holders who only stand in are answers.
        every: the facts are all that the graph has, which a query can say in fewer words.

    Raises:
        QueryError, SourceError: the engine fails.
    """
    alone = every and len(chosen) <= FACTS_AT_ONCE
    for start in range(0, len(chosen), FACTS_AT_ONCE):
        batch = chosen[start : start + FACTS_AT_ONCE]
        nodes = [None] if alone else [ox.NamedNode(fact.iri) for fact in batch]
        bound: list[Sequence[Term]] = [[node, integer(as_of), boolean(acting)] for node in nodes]
        by_fact = defaultdict(list)
        for row in select(graph, "answers", "?fact ?asOf ?withActing", bound):
            by_fact[str(row["fact"])].append(row)
        labels = _labels(graph, {str(row["holder"]) for rows in by_fact.values() for row in rows if "holder" in row})
        reading = _Reading(graph.name, identity, labels, rule)
        for fact in batch:
            yield reading.answer_set(fact, by_fact[fact.iri], as_of)


def _checked(known: Mapping[str, Fact], wanted: Sequence[str] | None, snapshot: str) -> list[str]:
    names = list(known if wanted is None else wanted)
    for name in names:
        if name not in known:
            raise UsageError(
                f"The fact {name} is not in snapshot {snapshot}.", hint="dyknow benchmark show lists facts."
            )
    return names


def _labels(graph: Graph, holders: Iterable[str]) -> dict[str, str]:
    """Return the label of each holder that has one."""
    bound = [[ox.NamedNode(holder)] for holder in sorted(holders)]
    rows = select(graph, "holder-labels", "?holder", bound) if bound else []  # not every engine takes an empty block
    # Sorted, so that of several labels of one holder the same one is taken on every engine.
    return dict(sorted((str(row["holder"]), str(row["name"])) for row in rows))


_RANK = {Standing.UP_TO_DATE: 0, Standing.OUTDATED: 1, Standing.LATER: 2, Standing.NOT_ASKED: 3}
_VALIDITY = {Validity.CERTAIN: 0, Validity.POSSIBLE: 1, Validity.NO: 2}


class _Reading(NamedTuple):
    """Reads the rows of ``answers.rq`` for one snapshot and rule."""

    snapshot: str
    identity: Identity
    labels: Mapping[str, str]
    rule: Rule

    def standing(self, row: Row) -> Standing:
        return Standing(str(row["standing" if self.rule is Rule.LATEST else "study"]))

    def answer_set(self, fact: Fact, rows: Sequence[Row], as_of: int) -> AnswerSet:
        holders = self._holders(rows)
        return AnswerSet(
            fact=fact.fact,
            subject=fact.subject,
            property=fact.property,
            office=fact.office,
            as_of=as_of,
            snapshot=self.snapshot,
            status=self._status(fact, rows),
            open_order=sum(h.standing is Standing.UP_TO_DATE for h in holders) > 1,
            holders=tuple(sorted(holders, key=_order)),
        )

    def _holders(self, rows: Sequence[Row]) -> list[Holder]:
        """Return one holder an entity: of its statements the one that counts most speaks for it."""
        by_entity: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if not row["noValue"]:
                by_entity[self.identity.entity(str(row["holder"]))].append(row)
        return [self._holder(entity, own, rows) for entity, own in by_entity.items()]

    def _leading(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if self.standing(row) is Standing.UP_TO_DATE]

    def _holder(self, entity: str, rows: Sequence[Row], every: Sequence[Row]) -> Holder:
        row = min(rows, key=self._speaks_first)
        standing, iri = self.standing(row), str(row["holder"])
        return Holder(
            entity=entity,
            iri=iri,
            label=self.labels.get(iri, label_of(iri)),
            standing=standing,
            certain=self._is_certain(standing, rows, row, every),
            validity=Validity(str(row["validity"])),
            superseded=bool(row["superseded"]) and standing is Standing.OUTDATED,
            start=_span(row, "s1", "s2"),
            end=_span(row, "e1", "e2"),
            end_kind=EndKind(str(row["endKind"])),
            team_class=None if "class" not in row else str(row["class"]),
            statement=str(row["statement"]),
            acting=bool(row.get("acting")),
        )

    def _speaks_first(self, row: Row) -> tuple[int, int, int, str]:
        validity = _VALIDITY[Validity(str(row["validity"]))]
        return _RANK[self.standing(row)], validity, -int(row.get("s1", BEFORE_ALL_DAYS)), str(row["statement"])

    def _is_certain(self, standing: Standing, rows: Sequence[Row], row: Row, every: Sequence[Row]) -> bool:
        """Tell whether an entity's standing is the same for every choice of days inside the spans.

        Up-to-date is certain when a statement that surely holds (rule "study": surely began) leads alone, or in a tie
        on one known day. Outdated is certain when the entity surely began and no choice of days lets it lead.
        """
        if standing is Standing.OUTDATED:
            return any(r["begunSurely"] for r in rows) and not any(self._could_lead(r, every) for r in rows)
        if standing is not Standing.UP_TO_DATE:
            return True
        own = {str(r["statement"]) for r in rows}
        rivals = [r for r in self._leading(every) if str(r["statement"]) not in own]
        tied = all(r.get("s1") == r.get("s2") == row.get("s1") == row.get("s2") is not None for r in rivals)
        sure = row["validity"] == Validity.CERTAIN if self.rule is Rule.LATEST else bool(row["begunSurely"])
        return sure and tied

    def _could_lead(self, row: Row, every: Sequence[Row]) -> bool:
        """Tell whether some choice of days makes a statement that does not lead the latest one."""
        if self.rule is Rule.LATEST:
            return bool(row["couldLead"])
        last = int(row.get("s2", BEFORE_ALL_DAYS))
        asked = (r for r in every if self.standing(r) is not Standing.NOT_ASKED)
        return not any(r["begunSurely"] and int(r.get("s1", BEFORE_ALL_DAYS)) > last for r in asked)

    def _status(self, fact: Fact, rows: Sequence[Row]) -> Status:
        """Say what the snapshot knows of a fact on a day that has, or has not, an up-to-date holder."""
        leading = self._leading(rows)
        if leading:  # "no value" may be what leads: nobody holds the office, and the snapshot says so
            return Status.VACANCY if all(row["noValue"] for row in leading) else Status.ANSWERED
        standings = {self.standing(row) for row in rows} - {Standing.NOT_ASKED}
        if not standings:
            return Status.NOT_IN_SNAPSHOT
        if standings == {Standing.LATER}:
            return Status.BEFORE_FIRST_RECORD
        # A gap between the terms an extract holds may be full of terms it left out.
        return Status.NOT_IN_SNAPSHOT if Standing.LATER in standings and not fact.whole else Status.VACANCY


def _order(holder: Holder) -> tuple[int, int, str, str]:
    """Order holders: up-to-date, outdated, later, not asked; the latest start first."""
    start = holder.start[0] if holder.start else BEFORE_ALL_DAYS
    return _RANK[holder.standing], -start, holder.label, holder.entity


def _span(row: Row, first: str, last: str) -> tuple[int, int] | None:
    return (int(row[first]), int(row[last])) if first in row and last in row else None


class Timeline(NamedTuple):
    """All that a snapshot says of its facts over all days."""

    standings: list[StandingRow]
    coverage: list[CoverageRow]


def timeline(graph: Graph, identity: Identity) -> Timeline:
    """Return the standings and the coverage of every fact over all days, sorted.

    The query for answer sets is asked for the day before all days and for every day on which a fact can change; equal
    neighbours are then one row.
    """
    known = {fact.iri: fact for fact in facts(graph, identity).values()}
    changes: dict[str, set[int]] = {iri: {BEFORE_ALL_DAYS} for iri in known}
    for row in select(graph, "days", "?fact", [[None]]):
        changes[str(row["fact"])].add(int(row["day"]))
    bound: list[Sequence[Term]] = [
        [ox.NamedNode(iri), integer(day), boolean(True)] for iri in sorted(changes) for day in sorted(changes[iri])
    ]
    rows: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in select(graph, "answers", "?fact ?asOf ?withActing", bound):
        rows[str(row["fact"]), int(row["asOf"])].append(row)
    labels = _labels(graph, {str(row["holder"]) for own in rows.values() for row in own if "holder" in row})
    standings: list[StandingRow] = []
    coverage: list[CoverageRow] = []
    for rule in Rule:
        reading = _Reading(graph.name, identity, labels, rule)
        for iri, fact in known.items():
            sets = [reading.answer_set(fact, rows[iri, day], day) for day in sorted(changes[iri])]
            standings += _standings(sets, rule)
            coverage += _coverage(sets, rule)
    return Timeline(sorted(standings, key=lambda r: r[:4]), sorted(coverage))


def _standings(sets: Sequence[AnswerSet], rule: Rule) -> Iterator[StandingRow]:
    """Yield the stretches of equal standing of each entity."""
    daily: dict[str, list[tuple[int, StandingRow]]] = defaultdict(list)
    for answer_set in sets:
        for holder in answer_set.holders:
            daily[holder.entity].append((answer_set.as_of, _row_of(holder, answer_set.fact, rule)))
    for stretch in daily.values():
        yield from _stretches(stretch)


def _row_of(holder: Holder, fact: str, rule: Rule) -> StandingRow:
    """Return the standing of a holder with its days still open."""
    return StandingRow(
        fact=fact,
        entity=holder.entity,
        rule=rule,
        from_day=0,
        to_day=None,
        standing=holder.standing,
        certain=holder.certain,
        validity=holder.validity,
        superseded=holder.superseded,
        statement=holder.statement,
        start_day=holder.start[0] if holder.start else None,
        end_day=holder.end[1] if holder.end else None,
    )


def _stretches(daily: Iterable[tuple[int, StandingRow]]) -> Iterator[StandingRow]:
    """Merge equal neighbours; each stretch ends where the next one begins."""
    runs = [next(group) for _, group in groupby(daily, key=lambda pair: pair[1])]
    ends = [day for day, _ in runs[1:]] + [None]
    for (day, row), end in zip(runs, ends, strict=True):
        yield row._replace(from_day=day, to_day=end)


def _coverage(sets: Sequence[AnswerSet], rule: Rule) -> Iterator[CoverageRow]:
    runs = [next(group) for _, group in groupby(sets, key=lambda s: s.status)]
    for this, after in pairwise([*runs, None]):
        if this is not None:
            yield CoverageRow(this.fact, rule, this.as_of, after.as_of if after else None, this.status)


def names(graph: Graph, identity: Identity, of: Iterable[Fact] | None = None) -> list[NameRow]:
    """Return every name of every entity that holds a fact in some statement, sorted; None: of all facts."""
    known = {fact.iri: fact.fact for fact in (facts(graph, identity).values() if of is None else of)}
    bound: list[Sequence[Term]] = [[None]] if of is None else [[ox.NamedNode(iri)] for iri in known]
    bounds: dict[tuple[str, str, str, str, str | None], list[Row]] = defaultdict(list)
    for row in select(graph, "names", "?fact", bound):
        team = None if "class" not in row else str(row["class"])
        entity = identity.entity(str(row["holder"]))
        bounds[known[str(row["fact"])], entity, str(row["name"]), str(row["kind"]), team].append(row)
    found = [
        NameRow(fact, entity, name, kind, _first(rows), _last(rows), team)
        for (fact, entity, name, kind, team), rows in bounds.items()
    ]
    return sorted(found, key=lambda row: row[:4])


def _first(rows: Sequence[Row]) -> int | None:
    days = [int(row["s1"]) for row in rows if "s1" in row]
    return min(days) if len(days) == len(rows) else None


def _last(rows: Sequence[Row]) -> int | None:
    days = [int(row["e2"]) for row in rows if "e2" in row]
    return max(days) if len(days) == len(rows) else None
