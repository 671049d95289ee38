"""The command that finds the Wikidata ids of a benchmark's subjects."""

import sys
from pathlib import Path

import click

from dyknow import benchmark as benchmarks
from dyknow import resolve as resolving
from dyknow.commands.common import command, emit, example, format_option, note, show
from dyknow.commands.mirroring import Mirroring, mirroring
from dyknow.commands.targets import NEW_FILE
from dyknow.resolve import Choice
from dyknow.tables import Format, Listing
from kg.errors import UsageError
from kg.sources.wikidata import Wikidata


@command(epilog=example("dyknow benchmark resolve", "dyknow benchmark resolve --subject Mitsubishi --class Q891723"))
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--subject", metavar="NAME", help="Only this subject, by its label as the benchmark has it.")
@click.option("--class", "wanted_class", metavar="Q5", help="List items of this class (P31) first: Q5 is a human.")
@click.option("--limit", type=click.IntRange(1, 50), default=7, show_default=True, help="How many items to list.")
@click.option("--accept", metavar="Q…", help="Pin this id for --subject without asking, and without the network.")
@click.option(
    "--out",
    type=NEW_FILE,
    metavar="PATH",
    help="Where the benchmark with the pinned ids goes. [default: FILE itself; the study's own stays as it is]",
)
@mirroring
@format_option
def resolve(
    file: Path | None,
    subject: str | None,
    wanted_class: str | None,
    limit: int,
    accept: str | None,
    out: Path | None,
    how: Mirroring,
    form: Format,
) -> None:
    """Find the Wikidata ids of subjects that have none, and pin those you accept.

    Items are looked up by label and listed with description, class and the number of statements they have of the
    wanted property. On a terminal you are asked which one it is; nothing is chosen for you. A pinned id is written
    into the benchmark file and marked as yours; facts then go by it, so that runs made before keep the old name.
    """
    missing = resolving.unresolved(benchmarks.load(file))
    if subject is not None and subject not in missing:
        raise UsageError(
            f"{subject!r} is no subject without an id.", hint=f"There are: {', '.join(missing) or 'none'}."
        )
    target = out or file
    if accept is not None:
        if subject is None or target is None:
            raise UsageError("--accept needs --subject, and --out where no FILE is given.")
        _write(file, target, {subject: accept})
        return
    chosen = {label: own for label, own in missing.items() if subject in (None, label)}
    if not chosen:
        note("Every subject has an id.")
        return
    with how.web(None) as web:
        wikidata = Wikidata(web, how.site)
        found = {label: resolving.choices(wikidata, label, own, wanted_class, limit) for label, own in chosen.items()}
    show(_listing(found), form)
    accepted = _ask(found) if target is not None and sys.stdin.isatty() and form == "table" else {}
    if accepted and target is not None:
        _write(file, target, accepted)
    else:
        note("Nothing was pinned. Pin one: dyknow benchmark resolve --subject NAME --accept Q… --out FILE.toml")


def _listing(found: dict[str, list[Choice]]) -> Listing:
    rows: list[tuple[object, ...]] = []
    for label, own in found.items():
        rows += [
            (label, one.id, one.label, one.description, ", ".join(one.classes) or None, one.statements) for one in own
        ]
        rows += [] if own else [(label, None, None, "nothing found under this label", None, None)]
    return Listing(("subject", "item", "label", "description", "class", "statements"), rows)


def _ask(found: dict[str, list[Choice]]) -> dict[str, str]:
    """Ask for each subject which item it is; an empty answer leaves it as it is."""
    accepted = {}
    for label, own in found.items():
        known = [one.id for one in own]
        answer = click.prompt(f"{label} is (Q…, empty: leave it)", default="", show_default=False, err=True).strip()
        while answer and answer not in known:
            answer = click.prompt(f"One of {', '.join(known)}, or empty", default="", show_default=False, err=True)
        if answer:
            accepted[label] = answer
    return accepted


def _write(file: Path | None, target: Path, accepted: dict[str, str]) -> None:
    resolving.pin(file or benchmarks.STUDY, target, accepted)
    benchmarks.load(target)
    note("; ".join(f"{label} is {item}" for label, item in accepted.items()) + ".")
    emit(f"{target}\n")
