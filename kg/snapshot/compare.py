"""What changed between two snapshots, and by which clock: the world's or Wikidata's.

Editors reuse a statement's id for another person and give an old fact a new one, so statements can be paired by what
they say (fact, entity, start, end, rank) or by their id; either way each change tells what became of the id.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from kg.dates import Day, Span
from kg.snapshot.changed import Side, between
from kg.snapshot.files import Packed, Snapshot
from kg.snapshot.reading import Statement
from kg.terms import EndKind


class ChangeKind(StrEnum):
    """What happened to a statement between two snapshots."""

    ADDED = "added"
    REMOVED = "removed"
    HOLDER = "changed holder"  # by id only: the id now says something else
    END = "changed end"
    START = "changed start"
    RANK = "changed rank"
    LABEL = "label only"
    ID = "id only"  # by id, or where asked for: the same content under a new id
    NOT_COVERED = "not covered"  # one side lacks it, and that side does not hold the whole history


class Clock(StrEnum):
    """By which clock a change came."""

    WORLD = "world"  # its event lies after the older snapshot's day
    WIKIDATA = "wikidata"  # the older snapshot could have had it: a correction or a late entry
    UNKNOWN = "unknown"  # the dates leave both open, or there are none


class IdFate(StrEnum):
    """What became of a statement's id in Wikidata."""

    SAME = "same"
    REPLACED = "replaced"  # the content goes on under a new id
    REUSED = "reused"  # the id says something else on the other side
    NEW = "new"
    GONE = "gone"


class By(StrEnum):
    """What tells that two statements are one."""

    CONTENT = "content"
    ID = "id"


class Change(NamedTuple):
    """One difference; ``before`` is the older snapshot's statement, ``after`` the newer one's.

    A statement with two differences, such as a corrected start and a new end, gives two changes.
    """

    kind: ChangeKind
    fact: str  # "Q38/P35"
    subject: str
    entity: str
    label: str
    before: Statement | None
    after: Statement | None
    clock: Clock | None = None  # None where it is not known to be a change: "not covered", "id only"
    id: IdFate | None = None  # None where a side has no ids of Wikidata

    @property
    def start(self) -> Span:
        """The start of the statement, the newer one's where there are two; before all days where it has none."""
        shown = self.after or self.before
        return shown.start if shown and shown.start else (-99_999_999, -99_999_999)


Entity = Callable[[str], str]
"""Tells which entity an IRI means: `kg.identity.Identity.entity`."""

_NOBODY, _SOMEBODY = "no value", "unknown value"


def diff(a: Snapshot, b: Snapshot, entity: Entity, by: By = By.CONTENT, ids: bool = False) -> list[Change]:
    """Return what changed from the older snapshot ``a`` to the newer ``b``, sorted by fact, holder and start.

    A statement that only one of them has is *not covered* where the other one holds only an extract of the fact, lacks
    the fact, or leaves out teams of its class; it is then no correction. A statement that starts after ``a`` is added
    even where ``a`` holds an extract of the fact.

    Args:
        a: the older snapshot.
        b: the newer one.
        entity: says which IRIs are one entity.
        by: ``CONTENT`` pairs what says the same, whatever its id; ``ID`` first pairs what has the same id.
        ids: list as *id only* what says the same under a new id; by id it always is.

    Raises:
        SnapshotError: one of them cannot be read.
    """
    old, new = _sides(a, b, entity)
    before, after = by_fact(old.statements, entity), by_fact(new.statements, entity)
    reading = _Reading(entity, by, min(a.date, b.date), old.ids, new.ids)
    changes: list[Change] = []
    for fact in sorted(before.keys() | after.keys()):
        changes += reading.fact(fact, _Side(a, before.get(fact)), _Side(b, after.get(fact)))
    if not ids and by is By.CONTENT:
        changes = [change for change in changes if change.kind is not ChangeKind.ID]
    return sorted(changes, key=lambda change: (change.fact, change.label, change.start, change.kind))


def _sides(a: Snapshot, b: Snapshot, entity: Entity) -> tuple[Side, Side]:
    """Return what both say; within one series, what they say of the facts that differ."""
    if isinstance(a, Packed) and isinstance(b, Packed) and a.series.folder == b.series.folder:
        return between(max(a.series, b.series, key=lambda series: len(series.segments)), (a.place, b.place), entity)
    old, new = a.statements(), b.statements()
    return Side(old, _ids(old)), Side(new, _ids(new))


def tally(changes: Iterable[Change]) -> dict[Clock | None, Counter[ChangeKind]]:
    """Count changes by clock and kind, the clocks in their order; those without a clock stand last, under None."""
    listed = list(changes)
    clocks: tuple[Clock | None, ...] = (*Clock, None)
    found = {clock: Counter(change.kind for change in listed if change.clock is clock) for clock in clocks}
    return {clock: counts for clock, counts in found.items() if counts}


class _Side(NamedTuple):
    """One snapshot's statements of a fact; None where it lacks the fact."""

    snapshot: Snapshot
    statements: Sequence[Statement] | None

    def lacks(self, statement: Statement) -> bool:
        """Tell whether the snapshot may lack a statement without denying it."""
        if not self.statements or statement.team_class in self.snapshot.dropped:
            return True
        return not all(own.whole for own in self.statements)


def by_fact(statements: Iterable[Statement], entity: Entity) -> dict[str, list[Statement]]:
    """Return statements by the id of their fact, ``Q38/P35``, in their order."""
    found: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        found[f"{entity(statement.subject)}/{statement.property}"].append(statement)
    return found


def _ids(statements: Iterable[Statement]) -> frozenset[str]:
    return frozenset(name for statement in statements if (name := statement.wikidata_id))


class _Reading(NamedTuple):
    """Reads the differences of two snapshots, fact by fact."""

    entity: Entity
    by: By
    day: Day  # the older snapshot's
    old_ids: frozenset[str]
    new_ids: frozenset[str]

    def fact(self, fact: str, a: _Side, b: _Side) -> Iterator[Change]:
        old, new = list(a.statements or ()), list(b.statements or ())
        for before, after in self._pairs(old, new):
            for kind in self._differences(before, after):
                yield self._change(fact, kind, before, after)
        for statement in old:
            kind = ChangeKind.NOT_COVERED if b.lacks(statement) else ChangeKind.REMOVED
            yield self._change(fact, kind, statement, None)
        for statement in new:
            # What starts after the older snapshot it could not have.
            news = bool(a.statements) and statement.start is not None and statement.start[0] > a.snapshot.date
            kind = ChangeKind.NOT_COVERED if a.lacks(statement) and not news else ChangeKind.ADDED
            yield self._change(fact, kind, None, statement)

    def _pairs(self, old: list[Statement], new: list[Statement]) -> Iterator[tuple[Statement, Statement]]:
        """Pair statements from the closest likeness to the loosest; whoever is paired leaves the lists."""
        if self.by is By.ID:
            yield from _pair(old, new, lambda s: s.iri)
        likeness: list[Callable[[Statement], object]] = [
            lambda s: (self.who(s), s.start, s.end, s.end_kind, s.rank),
            lambda s: (self.who(s), s.start, s.end, s.end_kind),
            lambda s: (self.who(s), s.start),
            lambda s: (self.who(s), s.end, s.end_kind),
        ]
        for key in likeness:
            yield from _pair(old, new, key)
        yield from _pair_overlapping(old, new, self.who)

    def who(self, statement: Statement) -> str:
        """Return the entity a statement is about; one unknown value is like another."""
        if statement.holder is None:
            return _NOBODY
        return _SOMEBODY if statement.holder_unknown else self.entity(statement.holder)

    def _differences(self, before: Statement, after: Statement) -> Iterator[ChangeKind]:
        if self.who(before) != self.who(after):
            yield ChangeKind.HOLDER
            return
        differs = {
            ChangeKind.START: (before.start, before.start_kind) != (after.start, after.start_kind),
            ChangeKind.END: (before.end, before.end_kind) != (after.end, after.end_kind),
            ChangeKind.RANK: before.rank != after.rank,
        }
        found = [kind for kind, is_so in differs.items() if is_so]
        if not found and before.label != after.label:
            found = [ChangeKind.LABEL]
        if not found and before.wikidata_id and after.wikidata_id and before.iri != after.iri:
            found = [ChangeKind.ID]
        yield from found

    def _change(self, fact: str, kind: ChangeKind, before: Statement | None, after: Statement | None) -> Change:
        shown = after or before
        assert shown is not None
        who = self.who(shown)
        clock = _clock(kind, before, after, self.day)
        return Change(kind, fact, shown.subject_label, who, shown.name, before, after, clock, self._fate(before, after))

    def _fate(self, before: Statement | None, after: Statement | None) -> IdFate | None:
        old, new = before and before.wikidata_id, after and after.wikidata_id
        if before and after:
            if not old or not new:
                return None
            if old == new:
                return IdFate.SAME if self.who(before) == self.who(after) else IdFate.REUSED
            return IdFate.REUSED if old in self.new_ids or new in self.old_ids else IdFate.REPLACED
        if old and self.new_ids:
            return IdFate.REUSED if old in self.new_ids else IdFate.GONE
        if new and self.old_ids:
            return IdFate.REUSED if new in self.old_ids else IdFate.NEW
        return None


def _pair(
    old: list[Statement], new: list[Statement], key: Callable[[Statement], object]
) -> Iterator[tuple[Statement, Statement]]:
    """Take the statements of equal key out of both lists, in order, and yield them; an equal id goes first."""
    for likeness in (lambda s: (key(s), s.iri), key):
        waiting: dict[object, list[Statement]] = defaultdict(list)
        for statement in new:
            waiting[likeness(statement)].append(statement)
        pairs = [(one, waiting[likeness(one)].pop(0)) for one in old if waiting[likeness(one)]]
        for before, after in pairs:
            old.remove(before)
            new.remove(after)
            yield before, after


def _pair_overlapping(
    old: list[Statement], new: list[Statement], who: Callable[[Statement], str]
) -> Iterator[tuple[Statement, Statement]]:
    """Pair what is left of one holder where the two tenures share a day: both bounds were changed."""
    for before in list(old):
        for after in new:
            if who(before) == who(after) and _overlap(before, after):
                old.remove(before)
                new.remove(after)
                yield before, after
                break


def _overlap(one: Statement, other: Statement) -> bool:
    def first(statement: Statement) -> Day:
        return statement.start[0] if statement.start else -99_999_999

    def last(statement: Statement) -> Day:
        return statement.end[1] if statement.end else 99_999_999

    return first(one) <= last(other) and first(other) <= last(one)


def _clock(kind: ChangeKind, before: Statement | None, after: Statement | None, day: Day) -> Clock | None:
    """Tell by which clock a change came, seen from the older snapshot's day."""
    if kind in (ChangeKind.NOT_COVERED, ChangeKind.ID):
        return None
    if kind is ChangeKind.REMOVED:
        # A plan that came to nothing may be either clock's; what had begun, or had ended, was no plan.
        return Clock.WIKIDATA if before and _is_past(before.start or before.end, day) else Clock.UNKNOWN
    if before and after and kind is not ChangeKind.HOLDER:
        return _pair_clock(kind, before, after, day)
    return _entry_clock(after, day)


def _pair_clock(kind: ChangeKind, before: Statement, after: Statement, day: Day) -> Clock:
    if kind is ChangeKind.START:
        return _bound_clock(before.start, after.start, day)
    if kind is ChangeKind.END or (kind is ChangeKind.RANK and _follows_end(before, after)):
        return _end_clock(before, after, day)
    return Clock.WIKIDATA  # labels and ranks have no date; both are Wikidata's own doing


def _entry_clock(entry: Statement | None, day: Day) -> Clock:
    """Tell by which clock a statement came that was not there before."""
    if entry is None:
        return Clock.UNKNOWN
    if entry.start is None:
        return Clock.WIKIDATA if _is_past(entry.end, day) else Clock.UNKNOWN
    return _when(entry.start, day)


def _follows_end(before: Statement, after: Statement) -> bool:
    """Tell whether a statement lost its best rank because it got an end."""
    return (before.rank, after.rank) == ("PreferredRank", "NormalRank") and before.is_open and after.end is not None


def _end_clock(before: Statement, after: Statement, day: Day) -> Clock:
    """Tell by which clock an end was set, moved or taken away."""
    if before.end_kind is EndKind.UNKNOWN:
        return Clock.WIKIDATA  # it had ended by the older snapshot; whatever is said now could have been said then
    if after.end_kind is EndKind.UNKNOWN:
        return Clock.WORLD if before.start and before.start[0] > day else Clock.UNKNOWN
    if before.is_open and after.is_open:
        return Clock.WIKIDATA  # "no end" and "no value" say one thing
    return _bound_clock(before.end, after.end, day)


def _bound_clock(before: Span | None, after: Span | None, day: Day) -> Clock:
    """Tell by which clock a bound was set (None before), moved or taken away (None after)."""
    if _is_past(before, day):
        return Clock.WIKIDATA  # what lay in the past already was wrong already
    if after is None:
        return Clock.UNKNOWN
    if before is not None and before[0] <= day < before[1]:
        # The older snapshot's day lies inside its own span: an end "in 2019" of 2019 may have been a plan.
        return Clock.WIKIDATA if _is_past(after, day) else Clock.UNKNOWN
    return _when(after, day)


def _when(event: Span, day: Day) -> Clock:
    if event[0] > day:
        return Clock.WORLD
    return Clock.WIKIDATA if event[1] <= day else Clock.UNKNOWN


def _is_past(event: Span | None, day: Day) -> bool:
    return event is not None and event[1] <= day
