"""What in a snapshot deserves a doubt: a wrong answer set may be Wikidata's fault.

Nothing is mended and nothing is left out of an answer set for a doubt; it is a place to look. Lists of teams are spared
where they are right to be odd: a player on loan has two clubs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from kg.dates import Day, Span, format_span, split_day
from kg.snapshot.compare import Entity, by_fact
from kg.snapshot.files import Snapshot
from kg.snapshot.reading import Statement
from kg.terms import WD, EndKind

OVERLAP_DAYS: Final = 31
"""Two holders may share as many days at a hand-over; a caretaker's month is usual."""

GAP_DAYS: Final = 92
"""Days that nobody needs to hold a fact between two holders; elections and searches take a quarter of a year."""

SPANNED: Final = 3
"""As many successive holders under one other make a list look like two offices."""

NAMED: Final = 5
"""As many holders are named in one doubt."""

LONGEST_YEARS: Final = 80
"""Nobody has held an office longer (Sobhuza II: 82 years, as a child for the first ones)."""


class DoubtKind(StrEnum):
    """Why a statement or a fact deserves a doubt, the graver first."""

    REVERSED = "reversed"  # it ends before it starts
    SEVERAL_OPEN = "several open"
    SUPERSEDED = "superseded"  # open, though a later one began
    ENDED = "ended elsewhere"  # open, though a neighbour has its end
    TWO_OFFICES = "two offices"  # one holder beside many successive others, as a monarch beside governors-general
    DEAD = "dead"  # held after the holder's death
    NOT_HUMAN = "not human"
    FUTURE = "future"  # it starts after the snapshot
    LONG = "very long"
    TWICE = "twice"  # the same statement two times
    NO_START = "no start"
    OVERLAP = "overlap"
    RANK = "former best"  # best rank on a former holder
    DEPRECATED = "deprecated only"  # the only holder of some days is deprecated
    ORDER = "order"  # "replaces" or "replaced by" contradicts the dates
    GAP = "gap"
    NEIGHBOUR = "not in neighbour"  # the whole history of a neighbour snapshot lacks the holder


class Doubt(NamedTuple):
    """One doubt; the detail says what was found, in words."""

    kind: DoubtKind
    fact: str  # "Q38/P35"
    subject: str
    property: str
    holder: str | None  # None where it is about the fact
    detail: str
    statement: str | None  # IRI
    link: str | None  # where Wikidata shows the fact; None where the subject's id is not known


def doubts(snapshot: Snapshot, entity: Entity, neighbours: Sequence[Snapshot] = ()) -> list[Doubt]:
    """Return what in a snapshot deserves a doubt, sorted by kind, fact and holder.

    What needs the holders' classes and days of death, or the qualifiers "replaces" and "replaced by", is found in
    snapshots that hold Wikidata's own triples.

    Args:
        snapshot: the snapshot.
        entity: says which IRIs are one entity: `kg.identity.Identity.entity`.
        neighbours: other snapshots to hold it against, such as the one before and the one after.

    Raises:
        SnapshotError: one of them cannot be read.
    """
    statements = snapshot.statements()
    labels = {entity(one.holder): one.label for one in statements if one.holder and one.label}
    humans = _of_humans(statements)
    others = [_Neighbour(other, by_fact(other.statements(), entity)) for other in neighbours]
    found: list[Doubt] = []
    for fact, own in by_fact(statements, entity).items():
        looked_at = _Fact(fact, own, snapshot, entity, labels, own[0].property in humans, others)
        for check in _CHECKS:
            found += check(looked_at)
    kinds = list(DoubtKind)
    return sorted(found, key=lambda doubt: (kinds.index(doubt.kind), doubt.subject, doubt.fact, doubt.detail))


class _Neighbour(NamedTuple):
    snapshot: Snapshot
    facts: Mapping[str, Sequence[Statement]]


def _of_humans(statements: Iterable[Statement]) -> set[str]:
    """Return the properties most of whose holders, where their class is known, are human."""
    humans, known = Counter[str](), Counter[str]()
    for statement in statements:
        known[statement.property] += bool(statement.instance_of)
        humans[statement.property] += _HUMAN in statement.instance_of
    return {prop for prop, count in known.items() if 2 * humans[prop] > count}


_HUMAN: Final = WD + "Q5"


@dataclass(frozen=True)
class _Fact:
    """A fact with all that the checks look at."""

    id: str
    statements: Sequence[Statement]
    snapshot: Snapshot
    entity: Entity
    labels: Mapping[str, str]
    of_humans: bool
    neighbours: Sequence[_Neighbour]

    @property
    def day(self) -> Day:
        return self.snapshot.date

    @property
    def is_team(self) -> bool:
        return self.statements[0].property == "P54"

    @property
    def whole(self) -> bool:
        return all(one.whole for one in self.statements)

    @cached_property
    def asked(self) -> list[Statement]:
        """The statements that can be an answer: without deprecated ones and national teams."""
        return [one for one in self.statements if one.rank != "DeprecatedRank" and one.team_class != "national"]

    @cached_property
    def dated(self) -> list[Statement]:
        """Those of them that have a start, by start."""
        return sorted((one for one in self.asked if one.start), key=lambda one: (one.start, one.end or _ENDLESS))

    @cached_property
    def pairs(self) -> list[tuple[Statement, Statement]]:
        """Pairs of holders who surely held it at one time for longer than a hand-over, the earlier one first.

        Where there are very many, as in a list of members, not all of them.
        """
        found: list[tuple[Statement, Statement]] = []
        lasting = [one for one in self.dated if not one.acting]
        for index, one in enumerate(lasting):
            for other in lasting[index + 1 :]:
                if len(found) > self._many:
                    return found
                if self.who(one) != self.who(other) and _shared(one, other, self.day) > OVERLAP_DAYS:
                    found.append((one, other))
        return found

    @property
    def _many(self) -> int:
        return 2 * max(len(self.dated), NAMED)

    @property
    def is_shared(self) -> bool:
        """Whether several hold it as a rule, so that two at one time are no wonder."""
        return len(self.pairs) > self._many

    def who(self, statement: Statement) -> str:
        """Return the entity a statement is about."""
        return self.entity(statement.holder) if statement.holder else "no value"

    def label(self, entity: str) -> str:
        return self.labels.get(entity, entity)

    def doubt(self, kind: DoubtKind, detail: str, statement: Statement | None = None) -> Doubt:
        first = self.statements[0]
        holder = None if statement is None else statement.name
        link = _link(self.entity(first.subject), first.property)
        iri = None if statement is None else statement.iri
        return Doubt(kind, self.id, first.subject_label, first.property, holder, detail, iri, link)

    def about(self, kind: DoubtKind, statement: Statement, why: str = "") -> Doubt:
        """Return a doubt about one statement: holder, tenure and why."""
        return self.doubt(kind, _describe(statement) + (f": {why}" if why else ""), statement)


_ENDLESS: Final = (99_999_999, 99_999_999)


def _describe(statement: Statement) -> str:
    return f"{statement.name} {statement.tenure}"


def _link(entity: str, prop: str) -> str | None:
    return f"https://www.wikidata.org/wiki/{entity}#{prop}" if entity.startswith("Q") else None


# Days


def _count(day: Day) -> int:
    """Number the days, so that they can be subtracted; years start in March so that the leap day comes last."""
    year, month, number = split_day(day)
    year -= month < 3
    months = (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * months + 2) // 5 + number


def _surely(statement: Statement, day: Day) -> tuple[Day, Day] | None:
    """Return the days a statement holds for every choice of days inside its spans; open ones hold on ``day``."""
    if statement.start is None or statement.end_kind is EndKind.UNKNOWN:
        return None
    return statement.start[1], statement.end[0] if statement.end else max(day, statement.start[1])


def _perhaps(statement: Statement) -> tuple[Day, Day]:
    """Return the days a statement holds for some choice of days inside its spans."""
    first = statement.start[0] if statement.start else -_ENDLESS[0]
    return first, (statement.end or _ENDLESS)[1]


def _shared(one: Statement, other: Statement, day: Day) -> int:
    """Return how many days two statements surely share."""
    first, second = _surely(one, day), _surely(other, day)
    if first is None or second is None:
        return 0
    return _count(min(first[1], second[1])) - _count(max(first[0], second[0]))


def _began_later(one: Statement, other: Statement) -> bool:
    """Tell whether ``one`` surely began after ``other``."""
    return bool(one.start and other.start and one.start[0] > other.start[1])


# The checks. Each takes a fact and yields its doubts.


def _bounds(fact: _Fact) -> Iterator[Doubt]:
    for one in fact.statements:
        if one.start is None:
            yield fact.about(DoubtKind.NO_START, one)
            continue
        if one.end and one.end[1] < one.start[0]:
            yield fact.about(DoubtKind.REVERSED, one)
        if one.start[0] > fact.day:
            yield fact.about(DoubtKind.FUTURE, one)
        surely = _surely(one, fact.day)
        if surely and surely[1] - surely[0] > LONGEST_YEARS * 10000:
            yield fact.about(DoubtKind.LONG, one, f"over {LONGEST_YEARS} years")


def _twice(fact: _Fact) -> Iterator[Doubt]:
    seen = Counter((fact.who(one), one.start, one.end, one.end_kind) for one in fact.statements)
    for (_, *bounds), number in seen.items():
        if number > 1:
            same = next(one for one in fact.statements if [one.start, one.end, one.end_kind] == bounds)
            yield fact.about(DoubtKind.TWICE, same, f"{number} times")


def _open(fact: _Fact) -> Iterator[Doubt]:
    begun = [one for one in fact.asked if not (one.start and one.start[0] > fact.day)]
    still = sorted((one for one in begun if one.is_open and one.holder), key=lambda one: one.start or (0, 0))
    if len({fact.who(one) for one in still}) > 1:
        more = f" and {len(still) - NAMED} more" if len(still) > NAMED else ""
        yield fact.doubt(DoubtKind.SEVERAL_OPEN, ", ".join(map(_describe, still[:NAMED])) + more)
    followers = [one for one in fact.dated if one.start and one.start[0] <= fact.day and not one.acting]
    for one in still if not fact.is_shared else ():
        first = next((o for o in followers if _began_later(o, one) and fact.who(o) != fact.who(one)), None)
        if first is not None:
            yield fact.about(DoubtKind.SUPERSEDED, one, f"{first.name} began {_start(first)}")


def _start(statement: Statement) -> str:
    return format_span(*statement.start) if statement.start else ""


def _overlaps(fact: _Fact) -> Iterator[Doubt]:
    """Yield holders at one time; one beside many others is one doubt, and so is a fact that many hold."""
    if fact.is_team:
        return
    if fact.is_shared:
        yield fact.doubt(DoubtKind.OVERLAP, f"several of the {len(fact.dated)} hold it at one time, nearly always")
        return
    beside: dict[str, list[Statement]] = defaultdict(list)
    for one, other in fact.pairs:
        beside[one.iri].append(other)
        beside[other.iri].append(one)
    over: set[str] = set()
    for one in fact.dated:
        alone = {other.iri for other in beside[one.iri]}
        successive = [o for o in beside[one.iri] if not alone & {p.iri for p in beside[o.iri]}]
        if len({fact.who(o) for o in successive}) >= SPANNED:
            over.add(one.iri)
            why = f"at one time with {len(successive)} others, from {_describe(successive[0])}"
            yield fact.about(DoubtKind.TWO_OFFICES, one, f"{why} to {_describe(successive[-1])}")
    for one, other in fact.pairs:
        # An open one that a later one follows is a doubt of its own.
        if not {one.iri, other.iri} & over and not (one.is_open and _began_later(other, one)):
            days = _shared(one, other, fact.day)
            yield fact.about(DoubtKind.OVERLAP, one, f"{days} days with {_describe(other)}")


def _gaps(fact: _Fact) -> Iterator[Doubt]:
    if not fact.dated:
        return
    undated = [one for one in fact.asked if not one.start]
    last, until = fact.dated[0], _perhaps(fact.dated[0])[1]
    for one in fact.dated[1:]:
        first, end = _perhaps(one)
        days = _count(first) - _count(until)
        if fact.whole and days > GAP_DAYS and not _may_fill(undated, until):
            yield fact.doubt(DoubtKind.GAP, f"{days} days between {_describe(last)} and {_describe(one)}", one)
        if end > until:
            last, until = one, end
    if _count(fact.day) - _count(until) > GAP_DAYS and not _may_fill(undated, until):
        yield fact.doubt(DoubtKind.GAP, f"nobody after {_describe(last)}", last)


def _may_fill(undated: Iterable[Statement], gap: Day) -> bool:
    """Tell whether a statement without a start may fill a gap that begins on a day."""
    return any(one.end is None or one.end[1] > gap for one in undated)


def _ranks(fact: _Fact) -> Iterator[Doubt]:
    for one in fact.statements:
        surely = _surely(one, fact.day)
        if one.rank != "DeprecatedRank" or surely is None:
            continue
        if not any(_touch(surely, _perhaps(other)) for other in fact.asked):
            yield fact.about(DoubtKind.DEPRECATED, one)
    best = [one for one in fact.asked if one.rank == "PreferredRank"]
    now = [one for one in fact.asked if one.start and one.start[1] <= fact.day and _holds(one, fact.day)]
    if best and now and all(one.end and one.end[1] <= fact.day for one in best):
        yield fact.about(DoubtKind.RANK, best[-1], f"now {_describe(now[-1])}")


def _touch(one: tuple[Day, Day], other: tuple[Day, Day]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _holds(statement: Statement, day: Day) -> bool:
    return statement.is_open or bool(statement.end and statement.end[0] > day)


def _people(fact: _Fact) -> Iterator[Doubt]:
    for one in fact.asked if fact.of_humans else ():
        if one.instance_of and _HUMAN not in one.instance_of:
            classes = ", ".join(fact.label(fact.entity(name)) for name in one.instance_of)
            yield fact.about(DoubtKind.NOT_HUMAN, one, f"is a {classes}")
    for one in fact.asked:
        if one.died and (after := _after_death(one, fact.day)):
            yield fact.about(DoubtKind.DEAD, one, f"died {format_span(*one.died)}, {after}")


def _after_death(statement: Statement, day: Day) -> str | None:
    assert statement.died is not None
    died = statement.died[1]
    if statement.start and statement.start[0] > died:
        return "before it began"
    if statement.end and _count(statement.end[0]) - _count(died) > 1:
        return "before it ended"
    return "yet it is open" if statement.is_open and died <= day else None


def _succession(fact: _Fact) -> Iterator[Doubt]:
    """Hold "replaces" and "replaced by" against the order of the starts; they are no more than a warning."""
    told: set[tuple[str, str]] = set()  # (predecessor, successor): both of them say so, and once is enough
    for index, one in enumerate(fact.dated):
        near = _nearest(fact, one, fact.dated[index + 1 :], onwards=True) if one.replaced_by else []
        if named := _contradicted(fact, one.replaced_by, near):
            told |= {(fact.who(one), name) for name in named}
            detail = f"replaced by {_names(fact, named)}, but {_describe(near[0])} comes next"
            yield fact.about(DoubtKind.ORDER, one, detail)
    for index, one in enumerate(fact.dated):
        near = _nearest(fact, one, fact.dated[:index][::-1], onwards=False) if one.replaces else []
        named = _contradicted(fact, one.replaces, near)
        if named and not {(name, fact.who(one)) for name in named} & told:
            detail = f"replaces {_names(fact, named)}, but {_describe(near[0])} came before"
            yield fact.about(DoubtKind.ORDER, one, detail)


def _contradicted(fact: _Fact, said: Iterable[str], near: Sequence[Statement]) -> set[str]:
    """Return whom a qualifier names, where none of them stands next by date."""
    named = {fact.entity(iri) for iri in said if iri.startswith(WD)}
    return named if near and not named & {fact.who(other) for other in near} else set()


def _names(fact: _Fact, entities: Iterable[str]) -> str:
    return ", ".join(sorted(fact.label(entity) for entity in entities))


def _nearest(fact: _Fact, one: Statement, further: Sequence[Statement], onwards: bool) -> list[Statement]:
    """Return who stands next to a statement by date: one, all whose order is not sure, and the next not acting."""
    rest = [o for o in further if fact.who(o) != fact.who(one)]
    near = [o for o in rest if not (_began_later(o, rest[0]) if onwards else _began_later(rest[0], o))]
    return near + [o for o in rest if not o.acting][:1]


def _against_neighbours(fact: _Fact) -> Iterator[Doubt]:
    for neighbour in fact.neighbours:
        theirs = neighbour.facts.get(fact.id, ())
        yield from _ended_there(fact, neighbour.snapshot, theirs)
        if theirs and fact.whole and all(other.whole for other in theirs):
            yield from _not_there(fact, neighbour.snapshot, theirs)


def _ended_there(fact: _Fact, there: Snapshot, theirs: Sequence[Statement]) -> Iterator[Doubt]:
    ended: dict[str, list[Statement]] = defaultdict(list)
    for other in theirs:
        if other.start and other.end and other.end[1] <= fact.day and other.rank != "DeprecatedRank":
            ended[fact.who(other)].append(other)
    for one in fact.asked:
        # The same term of office: its start may have been made more precise.
        same = [o for o in ended[fact.who(one)] if o.start and one.start and _meet(o.start, one.start)]
        if one.is_open and same and (end := same[0].end):
            yield fact.about(DoubtKind.ENDED, one, f"ended {format_span(*end)} by snapshot {there.id}")


def _meet(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _not_there(fact: _Fact, there: Snapshot, theirs: Sequence[Statement]) -> Iterator[Doubt]:
    known = {fact.who(one) for one in theirs} | {one.label for one in theirs if one.label}
    for one in fact.asked:
        # What began after the neighbour's day it could not have.
        could = there.date > fact.day or bool(one.start and one.start[1] <= there.date)
        dropped = one.team_class in there.dropped
        if one.holder and could and not dropped and not {fact.who(one), one.label} & known:
            yield fact.about(DoubtKind.NEIGHBOUR, one, f"not in snapshot {there.id}")


_CHECKS: Final[tuple[Callable[[_Fact], Iterator[Doubt]], ...]] = (
    _bounds,
    _twice,
    _open,
    _overlaps,
    _gaps,
    _ranks,
    _people,
    _succession,
    _against_neighbours,
)


def neighbours(snapshots: Sequence[Snapshot], snapshot: Snapshot) -> list[Snapshot]:
    """Return the snapshot before and the one after, where there are such, by date."""
    ordered = sorted(snapshots, key=lambda one: one.date)
    before = [one for one in ordered if one.date < snapshot.date]
    after = [one for one in ordered if one.date > snapshot.date]
    return before[-1:] + after[:1]
