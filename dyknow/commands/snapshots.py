"""Commands of the snapshots: take, history, list, show, verify."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from dyknow.commands.common import (
    DAY,
    Group,
    Places,
    describe,
    duration,
    emit,
    example,
    format_option,
    note,
    places,
    show,
    tidied,
)
from dyknow.commands.dumping import Dumping, dumping
from dyknow.commands.mirroring import (
    MONTH,
    WORK,
    DumpMeter,
    Mirroring,
    StepMeter,
    ids,
    instants,
    mirroring,
    unbroken,
    wanted,
    what,
)
from dyknow.tables import Format, Listing, as_json
from kg import identity, snapshot
from kg.dates import Day, format_day
from kg.errors import DyknowError, SnapshotError, SourceError, UsageError
from kg.snapshot import ChangeKind, Clock, Damaged, Snapshot, by_day
from kg.sources import Source, published, table
from kg.sources.fetch import STEPS, Plan, days_of, end_of, from_dump, from_query_service, mirror, plan
from kg.sources.queryservice import QueryService
from kg.sources.wikidata import Wikidata

LIVE: Final = ("wikidata", "query")
"""Sources that are asked over the network."""

FILES: Final[Mapping[str, Callable[[Any], Source]]] = {"table": table.read, "published": published.read}
"""Sources that are files, and what reads them whole."""


@click.group("snapshot", cls=Group)
def snapshots() -> None:
    """Dated copies of the graph: take, list, show, verify, compare.

    A snapshot is a folder DATE/ with sorted N-Triples and a manifest. It is never changed and never overwritten; the
    same facts give the same bytes. Two ship with dyknow.
    """


@snapshots.command(
    epilog=example(
        "dyknow snapshot take --date today",
        "dyknow snapshot take --date 2019-06-30 --property P6",
        "dyknow snapshot take all.gz --source dump --date 2021-06-14 --property P6",
        "dyknow snapshot take all.bz2 --source dump --engine spark --date 2021-06-14",
        "dyknow snapshot take examples/facts.csv --source table --date 2024-01-31",
    )
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--source",
    type=click.Choice((*LIVE, "dump", *FILES)),
    help="`wikidata`, its entity documents as they stood on the day (default without FILE); `query`, its query "
    "service, for today; `dump`, FILE is a JSON dump (.json, .gz, .bz2, .zst); `table`, FILE is a CSV table of facts; "
    "`published`, FILE is one of the study's.",
)
@click.option(
    "--date",
    type=DAY,
    metavar="DATE",
    help="The day to show, as 2024-01-31, or `today`. It becomes the snapshot's name; for a dump it is in its name.",
)
@click.option("--known", metavar="TEXT", help="How the date is known, where it is not a plain day.")
@what
@dumping
@mirroring
@places("snapshots")
def take(
    file: Path | None,
    source: str | None,
    date: Day | None,
    known: str | None,
    subjects: str | None,
    properties: str | None,
    benchmark_file: Path | None,
    dump: Dumping,
    how: Mirroring,
    places: Places,
) -> None:
    """Take a snapshot: of Wikidata as it stood on a day, of its query service, of a dump, or of a table.

    Without FILE every subject's last revision of that day is fetched, and the holders' labels. What is wanted are the
    benchmark's facts, or those of --subject and --property. What was fetched is kept beside the snapshots, so that an
    interrupted command goes on where it was. The snapshot is written beside its place and renamed: whole or absent.
    """
    kind = source or ("wikidata" if file is None else None)
    if kind is None or (file is None) == (kind not in LIVE):
        raise UsageError(
            f"{'FILE is missing' if file is None else 'FILE is given'}, and the source is {kind or 'not'}.",
            hint="With FILE give --source dump, table or published; without it wikidata or query.",
        )
    dump.check(kind)
    tidied(places)
    if kind in FILES:
        made = FILES[kind](file)
    else:
        if date is None:
            raise UsageError("The date is missing.", hint="Give --date 2024-01-31, or --date today.")
        free(places.snapshots, [date])
        asked = (subjects, properties, benchmark_file)
        made = _dumped(file, date, asked, dump) if file else _fetched(kind, date, asked, how, places)
    if not made.rows:
        raise SourceError("None of the wanted statements was there; no snapshot was taken.", hint="Is the date right?")
    _taken(snapshot.take(made, places.snapshots, date, known))


def free(folder: Path, days: Sequence[Day]) -> list[Day]:
    """Return those of the days that have no snapshot yet.

    Raises:
        SnapshotError: none is left.
    """
    left = [day for day in days if not snapshot.whereabouts(folder, day)]
    if not left:
        there = snapshot.whereabouts(folder, days[0])
        which = f"{there} exists" if len(days) == 1 else f"All {len(days)} snapshots exist"
        raise SnapshotError(f"{which}; a snapshot is never overwritten.", hint="Choose another date or folder.")
    return left


def _taken(taken: Snapshot) -> None:
    counts = taken.manifest["counts"]
    note(f"Took snapshot {describe(taken)}: {counts['facts']} facts, {counts['statements']} statements.")
    emit(f"{taken.path}\n")


Asked = tuple[str | None, str | None, Path | None]
"""The options that say what is wanted: subjects, properties, benchmark."""


def _fetched(kind: str, day: Day, asked: Asked, how: Mirroring, places: Places) -> Source:
    """Return what Wikidata, or its query service, has of a day."""
    work, facts, meter = places.snapshots / WORK, wanted(*asked), StepMeter()
    with unbroken(places, work), how.web(work) as web:
        moment = instants([day], work)
        if kind == "query":
            if moment[day] == end_of(day):
                raise UsageError("The query service shows the present only.", hint="Give --date today.")
            service = QueryService(web, how.service, format_day(day))
            return from_query_service(service, facts, day, moment[day], meter)
        wikidata = Wikidata(web, how.site)
        chosen = plan(wikidata, facts, moment, format_day(day), meter)
        return next(mirror(wikidata, chosen, format_day(day), meter))


def _dumped(file: Path, day: Day, asked: Asked, how: Dumping) -> Source:
    """Return what a dump has: with --property alone of every entity, else of the wanted facts."""
    subjects, properties, benchmark_file = asked
    every = properties is not None and subjects is None and benchmark_file is None
    named = ids(properties, "P"), None if every else wanted(*asked)
    with tempfile.TemporaryDirectory(prefix="dyknow-") as work, how.started() as engine:
        made = from_dump(file, *named, day, Path(work), reader=engine.reader, progress=DumpMeter())
        engine.keep(made)
    return made


@snapshots.command(
    epilog=example(
        "dyknow snapshot history --from 2018-01 --to 2023-12 --every month",
        "dyknow snapshot history --from 2018-01 --every quarter --property P6 --plan",
    )
)
@click.option("--from", "first", required=True, type=MONTH, metavar="DATE", help="The first day; a month is its first.")
@click.option("--to", "last", default="today", type=MONTH, metavar="DATE", help="No day after this. [default: today]")
@click.option("--every", type=click.Choice(STEPS), default="month", show_default=True, help="How far they are apart.")
@click.option("--plan", "only_plan", is_flag=True, help="Only tell what would be fetched, and how long it would take.")
@what
@mirroring
@format_option
@places("snapshots")
def history(
    first: Day,
    last: Day,
    every: str,
    only_plan: bool,
    subjects: str | None,
    properties: str | None,
    benchmark_file: Path | None,
    how: Mirroring,
    form: Format,
    places: Places,
) -> None:
    """Take a snapshot of Wikidata for every month, or week, or year, between two days.

    Which revisions stood on those days is looked up once, and every revision is fetched once, however many snapshots
    show it. Interrupted, the same command goes on. At the end a table tells what changed from each to the next.
    """
    days = days_of(first, last, every)
    if not days:
        raise UsageError(f"There is no day from {format_day(first)} to {format_day(last)}.", hint="Turn them round.")
    if not only_plan:
        tidied(places)
    left, work, meter = free(places.snapshots, days), places.snapshots / WORK, StepMeter()
    scope = f"history {format_day(first)} {format_day(last)} {every}"
    with unbroken(places, work), how.web(work) as web:
        wikidata = Wikidata(web, how.site)
        began = time.monotonic()
        chosen = plan(wikidata, wanted(subjects, properties, benchmark_file), instants(left, work), scope, meter)
        note(_plan_line(chosen, len(days) - len(left), (time.monotonic() - began) / max(1, web.sent), web.sent))
        if only_plan:
            return
        found = list(mirror(wikidata, chosen, scope, meter))
        taken = [snapshot.take(one, places.snapshots) for one in found if one.rows]
    note(f"Took {len(taken)} snapshots in {places.snapshots}.")
    if len(taken) < len(found):
        note(f"On {len(found) - len(taken)} days none of the wanted statements was there; they have no snapshot.")
    there = {one.id: one for one in places.find()}
    show(_months([there[format_day(day)] for day in days if format_day(day) in there]), form)


def _plan_line(chosen: Plan, there: int, pace: float, sent: int) -> str:
    """Say what a history will fetch and, at the pace of the requests so far, how long that takes."""
    time_needed = f", about {duration(chosen.documents * pace)} at the pace so far" if sent else ""
    already = f"; {there} are there already" if there else ""
    return (
        f"{len(chosen.instants)} snapshots of {len(chosen.wanted)} subjects{already}. To fetch: "
        f"{chosen.documents} revisions, each once{time_needed}, then the holders' labels, 50 a request. "
        "What was fetched before is not fetched again."
    )


def _months(found: Sequence[Snapshot]) -> Listing:
    """Return what changed from each snapshot to the next."""
    columns = ("snapshot", "facts", "statements", "documents", "began", "ended", "corrected", "unclear", "labels")
    rows: list[tuple[object, ...]] = []
    for older, newer in zip([None, *found], found, strict=False):
        counts = newer.manifest["counts"]
        changed = (None,) * 6 if older is None else _changed(older, newer)
        rows.append((newer.id, counts["facts"], counts["statements"], *changed))
    return Listing(columns, rows)


def _changed(older: Snapshot, newer: Snapshot) -> tuple[int, ...]:
    """Count new documents, then changes: begun and ended in the world, corrected by Wikidata, unclear which, labels."""
    before, after = (_revisions(one) for one in (older, newer))
    documents = sum(before.get(item) != revision for item, revision in after.items())
    same = identity.with_redirects(identity.load(), [older, newer])
    changes = snapshot.diff(older, newer, same.entity)
    began = sum(one.clock is Clock.WORLD and one.kind is ChangeKind.ADDED for one in changes)
    clocks = Counter(one.clock for one in changes if one.kind is not ChangeKind.LABEL)
    labels = sum(one.kind is ChangeKind.LABEL for one in changes)
    return documents, began, clocks[Clock.WORLD] - began, clocks[Clock.WIKIDATA], clocks[Clock.UNKNOWN], labels


def _revisions(one: Snapshot) -> dict[str, object]:
    entities = one.manifest.get("provenance", {}).get("entities", {})
    return {item: entry["revision"] for item, entry in entities.items()}


@snapshots.command("list", epilog=example("dyknow snapshot list", "dyknow snapshot list --format csv"))
@format_option
@places("snapshots")
def list_snapshots(form: Format, places: Places) -> None:
    """List all snapshots by date, your own and those that ship with dyknow.

    JSON and CSV also give the path, which is a segment for those in a series, and what is wrong with a damaged one.
    Statements are not read; whether they are whole, `dyknow snapshot verify` tells. Exit code 1 where one is damaged.
    """
    columns = ("snapshot", "source", "facts", "statements", "triples", "digest", "known", "path", "damage")
    there = places.survey()
    rows: list[tuple[object, ...]] = [
        (
            one.id,
            one.manifest["source"]["name"],
            *(one.manifest["counts"][key] for key in columns[2:5]),
            one.digest if form != "table" else one.digest[:12],
            one.known,
            str(one.path),
            None,
        )
        for one in there.snapshots
    ]
    marked = "DAMAGED" if form == "table" else None
    rows += [(one.id, marked, *[None] * 5, str(one.path), one.error.message) for one in there.damaged]
    rows.sort(key=lambda row: by_day(str(row[0])))
    show(Listing(columns, rows) if form != "table" else Listing(columns[:-2], [row[:-2] for row in rows]), form)
    _untidy(places)
    _complain(there.damaged)


def _untidy(places: Places) -> None:
    """Say what killed commands left."""
    if found := snapshot.untidy(places.snapshots):
        note("\n".join([*found, "The next dyknow snapshot pack or take cleans that up."]))


def _complain(damaged: Sequence[Damaged]) -> None:
    """Say what is wrong with the damaged snapshots, and fail where there are any.

    Raises:
        SnapshotError: there are.
    """
    for one in damaged[:-1]:
        note(f"{one.error.message} {one.error.hint or ''}".rstrip())
    if damaged:
        raise damaged[-1].error


@snapshots.command("show", epilog=example("dyknow snapshot show 2025-11-30"))
@click.argument("name", metavar="DATE")
@format_option
@places("snapshots")
def show_snapshot(name: str, form: Format, places: Places) -> None:
    """Show what a snapshot's manifest says.

    Source, licence, counts, digests, notes, and how many facts it holds only an extract of. JSON gives the manifest.
    """
    chosen = places.named(name)
    if form == "json":
        emit(as_json(dict(chosen.manifest)))
        return
    show(Listing(("what", "value"), list(_manifest_rows(chosen))), form)


def _manifest_rows(chosen: Snapshot) -> Iterator[tuple[str, object]]:
    manifest = chosen.manifest
    yield "date", chosen.id
    if chosen.known:
        yield "known", chosen.known
    yield "source", f"{manifest['source']['name']}: {manifest['source']['description']}"
    if chosen.dropped:
        yield "left out by the source", f"{', '.join(sorted(chosen.dropped))} teams"
    for key in ("facts", "statements", "triples"):
        yield key, manifest["counts"][key]
    yield "by property", ", ".join(f"{name} {count}" for name, count in manifest["counts"]["properties"].items())
    extracts = sum(entry["history"] == "extract" for entry in manifest["coverage"].values())
    yield "extracts", f"{extracts} facts have only a part of their history"
    yield "flags", f"{len(manifest['flags'])} (see --format json)"
    yield "licence", manifest["licence"]
    yield "tool", manifest["tool"]
    yield "digest", chosen.digest
    yield "path", str(chosen.path)
    for text in manifest["notes"]:
        yield "note", text


@snapshots.command(epilog=example("dyknow snapshot verify", "dyknow snapshot verify 2023-12-18"))
@click.argument("names", metavar="[DATE]...", nargs=-1)
@places("snapshots")
def verify(names: tuple[str, ...], places: Places) -> None:
    """Check snapshots byte by byte: all of them, or those named.

    Digests, order and counts are worked out anew. In a series the files before a snapshot's own are checked, too, for
    its lines stand there. Exit code 1 where one is damaged.
    """
    there = snapshot.Survey([places.named(name) for name in names], []) if names else places.survey()
    every: list[Snapshot | Damaged] = [*there.snapshots, *there.damaged]
    damaged = 0
    for chosen in sorted(every, key=lambda one: by_day(one.id)):
        wrong = [chosen.error.message] if isinstance(chosen, Damaged) else snapshot.verify(chosen)
        damaged += bool(wrong)
        emit(f"{chosen.id}: {'whole' if not wrong else ' '.join(wrong)}\n")
    _untidy(places)
    if damaged:
        raise DyknowError(
            f"{damaged} snapshot{'s are' if damaged > 1 else ' is'} damaged.", hint="Take or fetch it again."
        )
