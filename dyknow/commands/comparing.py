"""Commands that hold snapshots against each other and against themselves."""

import click

from dyknow.commands.common import Places, command, describe, example, format_option, nearest, note, places, show
from dyknow.tables import Format, Listing
from kg import identity, snapshot
from kg.dates import Span, format_span
from kg.errors import UsageError
from kg.snapshot import Change, Statement


@command(epilog=example("dyknow snapshot diff 2023-12-18 2025-11-30 --subject Poland"))
@click.argument("before", metavar="OLDER")
@click.argument("after", metavar="NEWER")
@click.option("--subject", metavar="NAME", help="Only this subject, by its English label in any case.")
@format_option
@places("snapshots")
def diff(before: str, after: str, subject: str | None, form: Format, places: Places) -> None:
    """Show what changed from one snapshot to another.

    Statements are paired by what they say. One that only one side has is `not covered` where the other side holds only
    an extract of that fact: its absence there says nothing.
    """
    older, newer = places.named(before), places.named(after)
    changes = snapshot.diff(older, newer, identity.load().entity)
    if subject is not None:
        labels = sorted({change.subject for change in changes})
        changes = [change for change in changes if change.subject.casefold() == subject.casefold()]
        if not changes and subject.casefold() not in {label.casefold() for label in labels}:
            hint = nearest(subject, labels, "dyknow benchmark show")
            raise UsageError(f"Nothing changed for a subject {subject!r}.", hint=hint)
    note(f"From snapshot {describe(older)} to {describe(newer)}: {len(changes)} differences.")
    columns = ("change", "fact", "subject", "entity", "holder", "before", "after")
    rows = [_change_row(change) for change in changes]
    if form == "table":
        brief = [
            (kind, f"{whom} {fact.rsplit('/', 1)[-1]}", holder, old, new)
            for kind, fact, whom, _, holder, old, new in rows
        ]
        show(Listing(("change", "fact", "holder", "before", "after"), brief), form)
    else:
        show(Listing(columns, rows), form)


def _change_row(change: Change) -> tuple[str, str, str, str, str, str | None, str | None]:
    before, after = _tenure(change.before), _tenure(change.after)
    return change.kind.value, change.fact, change.subject, change.entity, change.label, before, after


def _tenure(statement: Statement | None) -> str | None:
    if statement is None:
        return None
    rank = "" if statement.rank == "NormalRank" else f" {statement.rank}"
    return f"{_span(statement.start)}–{_span(statement.end)}{rank}"


def _span(span: Span | None) -> str:
    return "" if span is None else format_span(*span)
