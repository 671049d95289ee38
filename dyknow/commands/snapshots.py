"""Commands of the snapshots: take, list, show, verify."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from dyknow.commands.common import (
    DAY,
    Group,
    Places,
    describe,
    emit,
    example,
    format_option,
    note,
    places,
    show,
)
from dyknow.tables import Format, Listing, as_json
from kg import snapshot
from kg.dates import Day
from kg.errors import DyknowError
from kg.snapshot import Snapshot
from kg.sources import published, table

SOURCES: Final = {"table": table.read, "published": published.read}
"""Where a snapshot can be taken from."""


@click.group("snapshot", cls=Group)
def snapshots() -> None:
    """Dated copies of the graph: take, list, show, verify, compare.

    A snapshot is a folder DATE/ with sorted N-Triples and a manifest. It is never changed and never overwritten; the
    same facts give the same bytes. Two ship with dyknow.
    """


@snapshots.command(epilog=example("dyknow snapshot take --source table examples/facts.csv --date 2024-01-31"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--source",
    type=click.Choice(list(SOURCES)),
    required=True,
    help="What FILE is: `table`, a CSV table of facts (see examples/facts.csv); `published`, one of the study's files.",
)
@click.option(
    "--date",
    type=DAY,
    metavar="DATE",
    help="The day the facts show, as 2024-01-31, or `today`. It becomes the snapshot's name.",
)
@click.option("--known", metavar="TEXT", help="How the date is known, where it is not a plain day.")
@places("snapshots")
def take(file: Path, source: str, date: Day | None, known: str | None, places: Places) -> None:
    """Freeze the statements of FILE as a snapshot.

    It is written beside its place and renamed there, so it is whole or absent.
    """
    taken = snapshot.take(SOURCES[source](file), places.snapshots, date, known)
    counts = taken.manifest["counts"]
    note(f"Took snapshot {describe(taken)}: {counts['facts']} facts, {counts['statements']} statements.")
    emit(f"{taken.path}\n")


@snapshots.command("list", epilog=example("dyknow snapshot list"))
@format_option
@places("snapshots")
def list_snapshots(form: Format, places: Places) -> None:
    """List all snapshots, your own and those that ship, by date."""
    columns = ("snapshot", "source", "facts", "statements", "triples", "digest", "known", "path")
    rows = [
        (
            one.id,
            one.manifest["source"]["name"],
            *(one.manifest["counts"][key] for key in columns[2:5]),
            one.digest if form != "table" else one.digest[:12],
            one.known,
            str(one.path),
        )
        for one in places.find()
    ]
    show(Listing(columns, rows) if form != "table" else Listing(columns[:-1], [row[:-1] for row in rows]), form)


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
        emit(as_json(chosen.manifest))
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

    Digests, order and counts are worked out anew. Exit code 1 where one is damaged.
    """
    damaged = 0
    for chosen in [places.named(name) for name in names] if names else places.find():
        problems = snapshot.verify(chosen)
        damaged += bool(problems)
        emit(f"{chosen.id}: {'whole' if not problems else ' '.join(problems)}\n")
    if damaged:
        raise DyknowError(
            f"{damaged} snapshot{'s are' if damaged > 1 else ' is'} damaged.", hint="Take or fetch it again."
        )
