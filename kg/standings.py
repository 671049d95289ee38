"""Standings over all days by one sweep a fact, for snapshots of any size.

`kg.answers.timeline` asks ``queries/kg/answers.rq`` anew for every day on which a fact can change, which takes time in
the square of its statements. Here the statements of a fact are read once, and its days passed in order: a day touches
only the statements that begin or end on it and those that it makes the latest, or no longer the latest. The rows are
those of the query, to the last column; the tests hold both against each other.
"""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

import pyoxigraph as ox

from kg.answers import BEFORE_ALL_DAYS, CoverageRow, Fact, StandingRow, Timeline
from kg.dates import Day
from kg.identity import Identity
from kg.store import Graph, Row, select
from kg.terms import EndKind, Rule, Standing, Status, Validity

FACTS_AT_ONCE: Final = 2000
"""How many facts' statements are read by one query."""

# Order keys of statements without a first day; the same in answers.rq.
_NO_START: Final = -9_999_999_999
_NO_START_PREFERRED: Final = -9_999_999_998

# What a day makes of a statement, in bits.
_BEGUN, _VALID, _SURE, _BEGUN_SURELY = 1, 2, 4, 8

_RANK: Final = {Standing.UP_TO_DATE: 0, Standing.OUTDATED: 1, Standing.LATER: 2, Standing.NOT_ASKED: 3}
_VALIDITY: Final = (Validity.CERTAIN, Validity.POSSIBLE, Validity.NO)


class Term(NamedTuple):
    """A statement of a fact that is not deprecated."""

    statement: str
    entity: str | None  # None: "no value"
    asked: bool  # False: a national team where the fact asks for the club
    preferred: bool
    s1: Day | None  # earliest first day
    s2: Day | None
    e1: Day | None  # earliest end, the first day no longer held
    e2: Day | None
    after: Day | None  # the day after a day-precise end
    end_kind: EndKind


class FactTimeline(NamedTuple):
    """What a snapshot says of one fact over all days."""

    standings: list[StandingRow]  # by entity, rule and day
    coverage: list[CoverageRow]  # by rule and day


def timeline(graph: Graph, identity: Identity, known: Iterable[Fact]) -> Iterator[FactTimeline]:
    """Yield the standings and the coverage of each fact, in the order of the facts.

    At no time are the statements of more than `FACTS_AT_ONCE` facts in memory.

    Args:
        graph: a snapshot's store, or any engine that holds the same triples.
        identity: says which IRIs are one entity.
        known: facts of that graph, as `kg.answers.facts` gives them.

    Raises:
        QueryError, SourceError: the engine fails.
    """
    left = iter(known)
    while batch := list(islice(left, FACTS_AT_ONCE)):
        terms = _terms(graph, identity, batch)
        for fact in batch:
            yield swept(fact, terms[fact.iri])


def whole(parts: Iterable[FactTimeline]) -> Timeline:
    """Return the timelines of facts as one, which holds all rows in memory."""
    found = Timeline([], [])
    for part in parts:
        found.standings.extend(part.standings)
        found.coverage.extend(part.coverage)
    return found


def _terms(graph: Graph, identity: Identity, batch: Sequence[Fact]) -> dict[str, list[Term]]:
    found: dict[str, list[Term]] = defaultdict(list)
    for row in select(graph, "terms", "?fact", [[ox.NamedNode(fact.iri)] for fact in batch]):
        found[str(row["fact"])].append(_term(row, identity))
    return found


def _term(row: Row, identity: Identity) -> Term:
    return Term(
        statement=str(row["statement"]),
        entity=identity.entity(str(row["holder"])) if "holder" in row else None,
        asked=not row["national"],
        preferred=bool(row["preferred"]),
        s1=_day(row, "s1"),
        s2=_day(row, "s2"),
        e1=_day(row, "e1"),
        e2=_day(row, "e2"),
        after=_day(row, "after"),
        end_kind=EndKind(str(row["endKind"])),
    )


def _day(row: Row, name: str) -> Day | None:
    return int(row[name]) if name in row else None


def swept(fact: Fact, terms: Sequence[Term]) -> FactTimeline:
    """Return the standings and the coverage of a fact from all its statements that are not deprecated."""
    changes = _changes(terms)
    sweeps = [_Sweep(fact, terms, rule) for rule in Rule]
    for sweep in sweeps:
        for day in sorted(changes):
            sweep.step(day, changes[day])
    standings = [row for sweep in sweeps for row in sweep.standings()]
    return FactTimeline(
        sorted(standings, key=lambda row: row[:4]), [row for sweep in sweeps for row in sweep.coverage()]
    )


def _changes(terms: Sequence[Term]) -> dict[Day, list[tuple[int, int]]]:
    """Return for each day, the one before all days too, which statements it changes and to what bits."""
    starts = {term.s1 for term in terms if term.s1 is not None and term.s1 == term.s2}
    changes: dict[Day, list[tuple[int, int]]] = {BEFORE_ALL_DAYS: []}
    for number, term in enumerate(terms):
        hands_over = term.after is not None and term.after in starts
        before = 0
        for day in sorted({BEFORE_ALL_DAYS, term.s1, term.s2, term.e1, term.e2, term.after} - {None}):  # type: ignore[type-var]
            bits = _bits(term, day, hands_over and day == term.e2)  # type: ignore[arg-type]
            if bits != before or day == BEFORE_ALL_DAYS:
                changes.setdefault(day, []).append((number, bits))  # type: ignore[arg-type]
            before = bits
    return changes


def _bits(term: Term, day: Day, goes: bool) -> int:
    """Return what a day makes of a statement, as answers.rq has it.

    Args:
        term: the statement.
        day: the day.
        goes: by hand-over the day, a day-precise end, still belongs to the one who goes.
    """
    begun = term.s1 is None or term.s1 <= day
    valid = begun and (goes or term.e2 is None or day < term.e2)
    begun_surely = (term.s2 is not None and term.s2 <= day) or (term.e2 is not None and term.e2 <= day)
    sure = (
        term.s2 is not None
        and term.s2 <= day
        and term.end_kind is not EndKind.UNKNOWN
        and (goes or term.e1 is None or day < term.e1)
    )
    return _BEGUN * begun | _VALID * valid | _SURE * sure | _BEGUN_SURELY * begun_surely


class _Greatest:
    """The greatest key among members that come and go."""

    def __init__(self, lowest: int) -> None:
        self._lowest = lowest
        self._heap: list[tuple[int, int]] = []
        self._members: set[int] = set()

    def put(self, member: int, key: int, is_in: bool) -> None:
        """Let a member come, go, or stay as it is."""
        if is_in and member not in self._members:
            self._members.add(member)
            heappush(self._heap, (-key, member))
        elif not is_in:
            self._members.discard(member)

    def value(self) -> int:
        """Return the greatest key; the lowest of all where there is no member."""
        while self._heap and self._heap[0][1] not in self._members:
            heappop(self._heap)
        return max(self._lowest, -self._heap[0][0]) if self._heap else self._lowest


class _Band:
    """Members in the order of their keys."""

    def __init__(self) -> None:
        self._ordered: list[tuple[int, int]] = []
        self.members: set[int] = set()

    def put(self, member: int, key: int, is_in: bool) -> None:
        """Let a member come, go, or stay as it is."""
        if is_in and member not in self.members:
            self.members.add(member)
            insort(self._ordered, (key, member))
        elif not is_in and member in self.members:
            self.members.remove(member)
            del self._ordered[bisect_left(self._ordered, (key, member))]

    def between(self, one: int, other: int) -> list[int]:
        """Return the members from the lower of two keys up to, and without, the higher one."""
        if one == other:
            return []
        low, high = min(one, other), max(one, other)
        return [
            member
            for _, member in self._ordered[bisect_left(self._ordered, (low,)) : bisect_left(self._ordered, (high,))]
        ]


class _Value(NamedTuple):
    """What an entity is to a fact on a day; the columns of a `StandingRow` without its days."""

    standing: Standing
    certain: bool
    validity: Validity
    superseded: bool
    statement: str
    start_day: Day | None
    end_day: Day | None


class _Leaders:
    """The statements that lead: those that began on the latest day of all, or may have.

    Those whose first day is known begin on one and the same day. The others may have begun earlier or later.
    """

    def __init__(self, terms: Sequence[Term], owner: Sequence[Hashable]) -> None:
        self.members: set[int] = set()
        self._is_open = [term.s1 is None or term.s1 != term.s2 for term in terms]
        self._owner = owner
        self._of: Counter[Hashable] = Counter()
        self._open_of: Counter[Hashable] = Counter()

    def put(self, number: int, leads: bool) -> bool:
        """Let a statement lead or not, and tell whether that is new."""
        if leads == (number in self.members):
            return False
        (self.members.add if leads else self.members.remove)(number)
        for counter in (self._of, self._open_of) if self._is_open[number] else (self._of,):
            counter[self._owner[number]] += 1 if leads else -1
            if not counter[self._owner[number]]:
                del counter[self._owner[number]]
        return True

    def form(self) -> tuple[bool, int]:
        """Return all that `is_tied` depends on, save what an owner's own statements change."""
        return len(self._of) == 1, min(len(self._open_of), 2)

    def owners(self) -> Iterable[Hashable]:
        """Return whose statements lead."""
        return self._of.keys()

    def is_tied(self, number: int) -> bool:
        """Tell whether one that leads surely does: alone, or with others that began on the same known day."""
        if len(self._of) == 1:
            return True
        others_open = len(self._open_of) - (self._owner[number] in self._open_of)
        return not self._is_open[number] and not others_open

    def has_value(self) -> bool:
        """Tell whether any of them names somebody."""
        return any(isinstance(owner, str) for owner in self._of)


class _Sweep:
    """Passes the days of a fact in order, under one rule.

    A statement is a number, its place among the terms. Its owner is whom it speaks for; of "no value" that number.
    """

    def __init__(self, fact: Fact, terms: Sequence[Term], rule: Rule) -> None:
        self._fact, self._terms, self._rule = fact, terms, rule
        self._owner: list[Hashable] = [i if term.entity is None else term.entity for i, term in enumerate(terms)]
        self._own: dict[Hashable, list[int]] = defaultdict(list)
        for number, owner in enumerate(self._owner):
            self._own[owner].append(number)
        none = [_NO_START_PREFERRED if term.preferred else _NO_START for term in terms]
        self._key = [n if term.s1 is None else term.s1 for term, n in zip(terms, none, strict=True)]
        self._last_key = [n if term.s2 is None else term.s2 for term, n in zip(terms, none, strict=True)]
        self._bits = [0] * len(terms)
        self._asked = sum(term.asked for term in terms)
        self._begun = 0  # of those asked
        self._valid, self._latest_valid = _Band(), _Greatest(_NO_START)
        # Who may lead: the valid ones or, by the study's rule, all that began. The latest of them does.
        self._running, self._latest = self._valid, self._latest_valid
        # Who would lead for some choice of days: whoever is as late as the latest that surely does.
        self._surest, self._doubted = _Greatest(_NO_START), self._valid
        if rule is Rule.STUDY:
            self._running, self._latest = _Band(), _Greatest(_NO_START)
            self._surest, self._doubted = _Greatest(BEFORE_ALL_DAYS), _Band()
            for number, term in enumerate(terms):
                self._doubted.put(number, _last(term), True)
        self._leaders = _Leaders(terms, self._owner)
        self._open: dict[Hashable, tuple[Day, _Value]] = {}
        self._rows: list[StandingRow] = []
        self._statuses: list[tuple[Day, Status]] = []

    def step(self, day: Day, changed: Sequence[tuple[int, int]]) -> None:
        """Pass a day; the days must be given in order, and on the first one all statements."""
        latest, valid, surest = self._thresholds()
        leading = self._leaders.form()
        for number, bits in changed:
            self._change(number, bits)
        touched = {number for number, _ in changed}
        now = self._thresholds()
        touched.update(self._running.between(latest, now[0]), self._valid.between(valid, now[1]))
        for number in touched:
            self._leaders.put(number, number in self._running.members and self._last_key[number] >= now[0])
        # Whom a surer one overtakes, or sets free: where it has surely begun, that makes a standing certain or not.
        doubted = self._doubted.between(surest, now[2])
        touched.update(number for number in doubted if self._has_surely_begun(self._own[self._owner[number]]))
        owners = {self._owner[number] for number in touched}
        if self._leaders.form() != leading:
            owners.update(self._leaders.owners())
        for owner in owners:
            if isinstance(owner, str):
                self._put(owner, day)
        status = self._status()
        if not self._statuses or self._statuses[-1][1] != status:
            self._statuses.append((day, status))

    def _thresholds(self) -> tuple[int, int, int]:
        return self._latest.value(), self._latest_valid.value(), self._surest.value()

    def _change(self, number: int, bits: int) -> None:
        """Let a statement begin or end."""
        term = self._terms[number]
        if term.asked:
            self._begun += bool(bits & _BEGUN) - bool(self._bits[number] & _BEGUN)
            key, last_key = self._key[number], self._last_key[number]
            self._valid.put(number, last_key, bool(bits & _VALID))
            self._latest_valid.put(number, key, bool(bits & _VALID))
            if self._rule is Rule.LATEST:
                self._surest.put(number, key, bool(bits & _SURE))
            else:
                self._running.put(number, last_key, bool(bits & _BEGUN))
                self._latest.put(number, key, bool(bits & _BEGUN))
                self._surest.put(number, max(key, BEFORE_ALL_DAYS), bool(bits & _BEGUN_SURELY))
        self._bits[number] = bits

    def _put(self, owner: str, day: Day) -> None:
        """Write down what an entity is from a day on, where that is new."""
        value = self._value(owner)
        before = self._open.get(owner)
        if before is None or before[1] != value:
            self._close(owner, day)
            self._open[owner] = day, value

    def _close(self, owner: str, day: Day | None) -> None:
        if owner in self._open:
            since, value = self._open[owner]
            self._rows.append(StandingRow(self._fact.fact, owner, self._rule, since, day, *value))

    def _value(self, owner: str) -> _Value:
        """Return what an entity is: of its statements the one that counts most on the day speaks for it."""
        own = self._own[owner]
        number = own[0] if len(own) == 1 else min(own, key=self._speaks_first)
        term, standing = self._terms[number], self._standing(number)
        return _Value(
            standing=standing,
            certain=self._is_certain(standing, number, own),
            validity=_VALIDITY[self._doubt(number)],
            superseded=standing is Standing.OUTDATED and self._is_superseded(number),
            statement=term.statement,
            start_day=None if term.s2 is None else term.s1,
            end_day=None if term.e1 is None else term.e2,
        )

    def _speaks_first(self, number: int) -> tuple[int, int, int, str]:
        term = self._terms[number]
        start = BEFORE_ALL_DAYS if term.s1 is None else term.s1
        return _RANK[self._standing(number)], self._doubt(number), -start, term.statement

    def _standing(self, number: int) -> Standing:
        if not self._terms[number].asked:
            return Standing.NOT_ASKED
        if not self._bits[number] & _BEGUN:
            return Standing.LATER
        return Standing.UP_TO_DATE if number in self._leaders.members else Standing.OUTDATED

    def _doubt(self, number: int) -> int:
        """Return 0 where the statement holds for every choice of days, 1 for some, 2 for none."""
        bits = self._bits[number]
        return 0 if bits & _SURE else 1 if bits & _VALID else 2

    def _is_superseded(self, number: int) -> bool:
        return number in self._valid.members and self._last_key[number] < self._latest_valid.value()

    def _is_certain(self, standing: Standing, number: int, own: Sequence[int]) -> bool:
        """Tell whether a standing is the same for every choice of days; `kg.answers` says when that is so."""
        if standing is Standing.OUTDATED:
            return self._has_surely_begun(own) and not any(self._could_lead(n) for n in own)
        if standing is Standing.UP_TO_DATE:
            return bool(
                self._bits[number] & (_SURE if self._rule is Rule.LATEST else _BEGUN_SURELY)
            ) and self._leaders.is_tied(number)
        return True

    def _has_surely_begun(self, own: Sequence[int]) -> bool:
        return any(self._bits[number] & _BEGUN_SURELY for number in own)

    def _could_lead(self, number: int) -> bool:
        if self._rule is Rule.LATEST:
            return number in self._running.members and self._last_key[number] >= self._surest.value()
        return self._surest.value() <= _last(self._terms[number])

    def _status(self) -> Status:
        """Say what the snapshot knows of the fact on the day; as `kg.answers` has it."""
        if self._leaders.members:
            return Status.ANSWERED if self._leaders.has_value() else Status.VACANCY
        if not self._asked:
            return Status.NOT_IN_SNAPSHOT
        if not self._begun:
            return Status.BEFORE_FIRST_RECORD
        return Status.NOT_IN_SNAPSHOT if self._begun < self._asked and not self._fact.whole else Status.VACANCY

    def standings(self) -> Iterator[StandingRow]:
        """Yield the stretches of every entity, once the last day is passed; the last ones hold for ever."""
        for owner in self._open:
            self._close(str(owner), None)
        yield from self._rows

    def coverage(self) -> Iterator[CoverageRow]:
        """Yield the stretches of what is known of the fact, in order."""
        ends = [day for day, _ in self._statuses[1:]] + [None]
        for (day, status), end in zip(self._statuses, ends, strict=True):
            yield CoverageRow(self._fact.fact, self._rule, day, end, status)


def _last(term: Term) -> Day:
    return BEFORE_ALL_DAYS if term.s2 is None else term.s2
