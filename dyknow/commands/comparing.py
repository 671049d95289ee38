"""Commands that hold snapshots against each other and against themselves."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from dyknow.commands.common import (
    Places,
    colour,
    command,
    describe,
    emit,
    example,
    format_option,
    nearest,
    note,
    places,
    show,
    width,
)
from dyknow.tables import Format, Listing, cell, draw, printable
from kg import identity, snapshot
from kg.dates import Span, format_day
from kg.errors import UsageError
from kg.snapshot import Change, ChangeKind, Snapshot, Statement
from kg.snapshot.compare import By, Clock, IdFate, tally
from kg.snapshot.doubts import Doubt, DoubtKind, doubts, neighbours
from kg.terms import short

Found = TypeVar("Found", Change, Doubt)

_subject_option = click.option(
    "--subject", metavar="NAME", help="Only this subject, by its English label in any case, or its Q-id."
)


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


# Two snapshots


@command(
    epilog=example(
        "dyknow snapshot diff 2023-12-18 2025-11-30 --subject Poland",
        "dyknow snapshot diff 2023-12-18 2025-11-30 --clock wikidata --format csv",
    )
)
@click.argument("before", metavar="OLDER")
@click.argument("after", metavar="NEWER")
@_subject_option
@click.option(
    "--clock",
    type=click.Choice([clock.value for clock in Clock]),
    help="Only what the `world` changed since OLDER, what `wikidata` corrected or entered late, or what the dates "
    "leave open (`unknown`).",
)
@click.option(
    "--by",
    type=click.Choice([by.value for by in By]),
    default=By.CONTENT.value,
    show_default=True,
    help="What makes two statements one: what they say (`content`), or their id in Wikidata (`id`), which editors "
    "reuse for others and replace.",
)
@format_option
@places("snapshots")
def diff(
    before: str, after: str, subject: str | None, clock: str | None, by: str, form: Format, places: Places
) -> None:
    """Show what changed from one snapshot to another, and by which clock.

    What the world changed lies after the day of OLDER; what Wikidata corrected or entered late OLDER could have had. A
    statement that only one side has is `not covered` where the other side holds only an extract of that fact: its
    absence there says nothing. The id of a statement is the same, new, gone, replaced (its content goes on under a new
    one) or reused (it says something else on the other side).
    """
    older, newer = places.named(before), places.named(after)
    if older.date > newer.date:
        raise UsageError(
            f"Snapshot {older.id} is not older than {newer.id}.", hint=f"dyknow snapshot diff {newer.id} {older.id}"
        )
    same = identity.with_redirects(identity.load(), [older, newer])
    changes = snapshot.diff(older, newer, same.entity, By(by), ids=True)
    changes = _of_subject(changes, subject, [older, newer], "Nothing changed for")
    renamed = sum(change.kind is ChangeKind.ID for change in changes) if by == By.CONTENT else 0
    changes = [c for c in changes if by == By.ID or c.kind is not ChangeKind.ID]
    changes = [c for c in changes if clock is None or c.clock == clock]
    note(f"From snapshot {describe(older)} to {describe(newer)}: {_number(len(changes), 'difference')}.")
    for line in _summary(changes, renamed):
        note(line)
    if form == "table":
        _show_by_clock(changes, older, subject is not None)
    else:
        show(Listing(_COLUMNS, [_change_row(change) for change in changes]), form)


def _of_subject(found: list[Found], subject: str | None, snapshots: Iterable[Snapshot], nothing: str) -> list[Found]:
    """Return what is about a subject, named by its label or its id; all where none is named.

    Raises:
        UsageError: nothing is, and no snapshot knows the subject.
    """
    if subject is None:
        return found
    name = subject.casefold()
    own = [one for one in found if name in (one.subject.casefold(), one.fact.split("/")[0].casefold())]
    if own:
        return own
    statements = [one for snapshot in snapshots for one in snapshot.statements()]
    labels = {one.subject_label for one in statements}
    if name not in {known.casefold() for known in labels | {short(one.subject) for one in statements}}:
        raise UsageError(f"{nothing} a subject {subject!r}.", hint=nearest(subject, labels, "dyknow benchmark show"))
    return own


def _summary(changes: Sequence[Change], renamed: int) -> Iterator[str]:
    """Yield one line a clock: how many changes of each kind."""
    for clock, counts in tally(changes).items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda item: item[0]))
        yield f"  {clock}: {kinds}" if clock else f"  {kinds}"
    if renamed:
        yield f"  {renamed} more say the same under a new id; --by id lists them."


_HEADINGS: Final[dict[Clock | None, str]] = {
    Clock.WORLD: "The world changed, after {day}",
    Clock.WIKIDATA: "Wikidata corrected or entered late: {day} could have had it",
    Clock.UNKNOWN: "The world or Wikidata: the dates leave it open",
    None: "No change that can be told: not covered by one of the two, or only the id is new",
}


def _show_by_clock(changes: Sequence[Change], older: Snapshot, one_subject: bool) -> None:
    """Write one table for each clock, its changes by fact and time."""
    first = True
    for clock, heading in _HEADINGS.items():
        own = sorted((c for c in changes if c.clock is clock), key=lambda c: (c.subject, c.fact, c.start, c.label))
        if own:
            title = Text(heading.format(day=format_day(older.date)), style="bold")
            emit(("" if first else "\n") + draw(Group(title, _clock_table(own, one_subject)), width(), colour()))
            first = False


def _clock_table(changes: Sequence[Change], one_subject: bool) -> Table:
    ids = any(change.id in (IdFate.REPLACED, IdFate.REUSED) for change in changes)
    rows = [_clock_row(change, one_subject, ids) for change in changes]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("change", "fact", "holder", *(("id",) if ids else ()), "before", "after"):
        # Names may be broken anywhere, kinds and dates nowhere.
        table.add_column(column, no_wrap=column not in ("fact", "holder"), overflow="fold")
    room = _TENURE if width() < _WIDE else 2 * _TENURE
    for *names, old, new in rows:
        table.add_row(*map(cell, names), _filled(old, room), _filled(new, room))
    return table


_TENURE: Final = len("2015-08-06–2025-08-06")
_WIDE: Final = 120


def _filled(text: str | None, room: int) -> Text:
    """Return a text as a cell, broken between words where it is longer than a tenure."""
    return Text("\n".join(textwrap.wrap(printable(text or ""), room, break_long_words=False)))


def _clock_row(change: Change, one_subject: bool, ids: bool) -> tuple[str | None, ...]:
    prop = change.fact.rsplit("/", 1)[-1]
    fact = prop if one_subject else f"{change.subject} {prop}"
    fate = (change.id and change.id.value,) if ids else ()
    return (change.kind.value, fact, change.label, *fate, *_seen(change))


def _seen(change: Change) -> tuple[str | None, str | None]:
    """Return before and after as the table shows them: what the kind of change is about."""
    if change.kind is ChangeKind.LABEL:
        return _name(change.before), _name(change.after)
    if change.kind is ChangeKind.HOLDER:
        return _with_holder(change.before), _with_holder(change.after)
    return _tenure(change.before), _tenure(change.after)


def _with_holder(statement: Statement | None) -> str | None:
    return None if statement is None else f"{statement.name} {_tenure(statement)}"


def _name(statement: Statement | None) -> str | None:
    return None if statement is None else statement.name


def _tenure(statement: Statement | None) -> str | None:
    if statement is None:
        return None
    rank = statement.rank.removesuffix("Rank").lower()
    return statement.tenure if rank == "normal" else f"{statement.tenure} {rank}"


_PARTS: Final = (
    *("statement", "holder", "start_earliest", "start_latest", "end_earliest", "end_latest"),
    *("end_kind", "rank"),
)
_COLUMNS: Final = (
    *("change", "clock", "id", "fact", "subject", "entity", "holder", "before", "after"),
    *(f"{side}_{part}" for side in ("before", "after") for part in _PARTS),
)


def _change_row(change: Change) -> tuple[object, ...]:
    """Return a change with all that both statements say, under the columns of JSON and CSV."""
    return (
        change.kind.value,
        change.clock and change.clock.value,
        change.id and change.id.value,
        *(change.fact, change.subject, change.entity, change.label),
        *(_tenure(change.before), _tenure(change.after)),
        *_parts(change.before),
        *_parts(change.after),
    )


def _parts(statement: Statement | None) -> tuple[str | None, ...]:
    if statement is None:
        return (None,) * len(_PARTS)
    bounds = (*_days(statement.start), *_days(statement.end))
    return (statement.iri, statement.name, *bounds, statement.end_kind.value, statement.rank)


def _days(span: Span | None) -> tuple[str | None, str | None]:
    return (None, None) if span is None else (format_day(span[0]), format_day(span[1]))


# One snapshot


def _word(kind: DoubtKind) -> str:
    """Return a kind of doubt as the command line takes it, in one word."""
    return kind.value.replace(" ", "-")


@command(epilog=example("dyknow snapshot check 2025-11-30", "dyknow snapshot check 2023-12-18 --kind ended-elsewhere"))
@click.argument("name", metavar="DATE")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([_word(kind) for kind in DoubtKind]),
    metavar="KIND",
    multiple=True,
    help=f"Only this kind of doubt; give it again for further kinds. Kinds: {', '.join(map(_word, DoubtKind))}.",
)
@_subject_option
@format_option
@places("snapshots")
def check(name: str, kinds: tuple[str, ...], subject: str | None, form: Format, places: Places) -> None:
    """List what in a snapshot deserves a doubt, with links to look it up.

    An answer set may be wrong because Wikidata is, or was: two open holders, an end before the start, a holder who had
    left or died, two offices in one list, a holder whom the snapshot before or after lacks. A doubt changes nothing and
    is no error. Classes, days of death and `replaces` are known where the snapshot holds Wikidata's own triples.
    """
    chosen = places.named(name)
    there = places.survey()
    for damaged in there.damaged:
        note(f"{damaged.error.message} It is no neighbour to compare with.")
    beside = neighbours(there.snapshots, chosen)
    same = identity.with_redirects(identity.load(), [chosen, *beside])
    found = doubts(chosen, same.entity, beside)
    found = _of_subject(found, subject, [chosen], "There are no doubts about")
    found = [doubt for doubt in found if not kinds or _word(doubt.kind) in kinds]
    facts = _number(len({doubt.fact for doubt in found}), "fact")
    held = f", beside {' and '.join(one.id for one in beside)}" if beside else ""
    note(f"Snapshot {describe(chosen)}{held}: {_number(len(found), 'doubt')} about {facts}.")
    if found:
        counts = ((kind, sum(doubt.kind is kind for doubt in found)) for kind in DoubtKind)
        note("  " + ", ".join(f"{count} {kind}" for kind, count in counts if count))
    if form != "table":
        show(Listing(Doubt._fields, [(doubt.kind.value, *doubt[1:]) for doubt in found]), form)
    elif found:
        emit(draw(_doubt_table(found), width(), colour()))


def _doubt_table(found: Sequence[Doubt]) -> Group:
    """Return the doubts fact by fact, the gravest first, under the fact's name and its address."""
    by_fact: dict[str, list[Doubt]] = defaultdict(list)
    for doubt in found:
        by_fact[doubt.fact].append(doubt)
    parts: list[Text | Table] = []
    for own in by_fact.values():
        parts.append(
            Text.assemble((printable(f"{own[0].subject} {own[0].property}"), "bold"), f"  {own[0].link or ''}")
        )
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(width=max(len(kind) for kind in DoubtKind) + 2, no_wrap=True)
        table.add_column(overflow="fold")
        for doubt in own:
            table.add_row(f"  {doubt.kind}", cell(doubt.detail))
        parts.append(table)
    return Group(*parts)


@command(epilog=example("dyknow snapshot redirects 2025-11-30 --format csv"))
@click.argument("name", metavar="DATE")
@format_option
@places("snapshots")
def redirects(name: str, form: Format, places: Places) -> None:
    """Offer the items that Wikidata has merged as rows of the identity table, to review.

    Commands that read this snapshot follow its redirects without them; a reviewed row makes one hold for every
    snapshot, and one that says otherwise overrides it. CSV is the table's own format.
    """
    chosen = places.named(name)
    rows = identity.offered(identity.load(), chosen)
    note(f"Snapshot {describe(chosen)}: {_number(len(rows), 'row')} for the identity table.")
    show(Listing(identity.COLUMNS, rows), form)
