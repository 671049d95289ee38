"""What changed between two snapshots, by what the statements say and not by their ids.

Editors reuse a statement's id for another person and give an old fact a new one, so statements are paired by fact,
entity, start, end and rank.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from kg.dates import Span
from kg.snapshot.files import Snapshot
from kg.snapshot.reading import Statement


class ChangeKind(StrEnum):
    """What happened to a statement between two snapshots."""

    ADDED = "added"
    REMOVED = "removed"
    END = "changed end"
    START = "changed start"
    RANK = "changed rank"
    LABEL = "label only"
    NOT_COVERED = "not covered"  # one side lacks it, and that side does not hold the whole history


class Change(NamedTuple):
    """One difference; ``before`` is the older snapshot's statement, ``after`` the newer one's."""

    kind: ChangeKind
    fact: str  # "Q38/P35"
    subject: str
    entity: str
    label: str
    before: Statement | None
    after: Statement | None

    @property
    def start(self) -> Span:
        """The start of the statement, the newer one's where there are two; before all days where it has none."""
        shown = self.after or self.before
        return shown.start if shown and shown.start else (-99_999_999, -99_999_999)


Entity = Callable[[str], str]
"""Tells which entity an IRI means: `kg.identity.Identity.entity`."""

_NOBODY = "no value"


def diff(a: Snapshot, b: Snapshot, entity: Entity) -> list[Change]:
    """Return what changed from the older snapshot ``a`` to the newer ``b``, by fact, holder and start.

    A statement that only one of them has is *not covered* where the other one holds only an extract of the fact, lacks
    the fact, or leaves out teams of its class; it is then no correction. A statement that starts after ``a`` is added
    even where ``a`` holds an extract of the fact.

    Raises:
        SnapshotError: one of them cannot be read.
    """
    before, after = (_by_fact(snapshot.statements(), entity) for snapshot in (a, b))
    changes: list[Change] = []
    for fact in sorted(before.keys() | after.keys()):
        changes += _fact_changes(_Side(a, before.get(fact)), _Side(b, after.get(fact)), fact, entity)
    return sorted(changes, key=lambda change: (change.fact, change.label, change.start, change.kind))


class _Side(NamedTuple):
    """One snapshot's statements of a fact; None where it lacks the fact."""

    snapshot: Snapshot
    statements: Sequence[Statement] | None

    def lacks(self, statement: Statement) -> bool:
        """Tell whether the snapshot may lack a statement without denying it."""
        if not self.statements or statement.team_class in self.snapshot.dropped:
            return True
        return not all(own.whole for own in self.statements)


def _by_fact(statements: Sequence[Statement], entity: Entity) -> dict[str, list[Statement]]:
    found: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        found[f"{entity(statement.subject)}/{statement.property}"].append(statement)
    return found


def _fact_changes(a: _Side, b: _Side, fact: str, entity: Entity) -> Iterator[Change]:
    def who(statement: Statement) -> str:
        return entity(statement.holder) if statement.holder else _NOBODY

    def change(kind: ChangeKind, shown: Statement, before: Statement | None, after: Statement | None) -> Change:
        return Change(kind, fact, shown.subject_label, who(shown), shown.label or _NOBODY, before, after)

    # From the closest likeness to the loosest; whoever is paired leaves the lists.
    likeness: list[tuple[ChangeKind, Callable[[Statement], object]]] = [
        (ChangeKind.LABEL, lambda s: (who(s), s.start, s.end, s.end_kind, s.rank)),
        (ChangeKind.RANK, lambda s: (who(s), s.start, s.end, s.end_kind)),
        (ChangeKind.END, lambda s: (who(s), s.start)),
        (ChangeKind.START, lambda s: (who(s), s.end, s.end_kind)),
    ]
    old, new = list(a.statements or ()), list(b.statements or ())
    for kind, key in likeness:
        for before, after in _pair(old, new, key):
            if kind is not ChangeKind.LABEL or before.label != after.label:
                yield change(kind, after, before, after)
    for statement in old:
        kind = ChangeKind.NOT_COVERED if b.lacks(statement) else ChangeKind.REMOVED
        yield change(kind, statement, statement, None)
    for statement in new:
        # What starts after the older snapshot it could not have.
        news = bool(a.statements) and statement.start is not None and statement.start[0] > a.snapshot.date
        kind = ChangeKind.NOT_COVERED if a.lacks(statement) and not news else ChangeKind.ADDED
        yield change(kind, statement, None, statement)


def _pair(
    old: list[Statement], new: list[Statement], key: Callable[[Statement], object]
) -> list[tuple[Statement, Statement]]:
    """Take the statements of equal key out of both lists, in order, and return them."""
    waiting: dict[object, list[Statement]] = defaultdict(list)
    for statement in new:
        waiting[key(statement)].append(statement)
    pairs = [(statement, waiting[key(statement)].pop(0)) for statement in old if waiting[key(statement)]]
    for before, after in pairs:
        old.remove(before)
        new.remove(after)
    return pairs
