"""Commands that bring a model up to date, and measure how well: plan, edit, curve, refresh."""

from pathlib import Path

import click

from dyknow.align import jobs as jobs_
from dyknow.align import methods, requests
from dyknow.align.base import Operation
from dyknow.commands.asking import find_run
from dyknow.commands.common import (
    DayType,
    Group,
    Places,
    as_of_option,
    example,
    format_option,
    iso,
    judge_option,
    known_at_option,
    note,
    places,
    rule_option,
    show,
)
from dyknow.commands.edit_jobs import benchmark_of, editable, job_of, perform, planned
from dyknow.commands.edit_options import Chosen, edit_options, operation_option
from dyknow.commands.edit_reports import report
from dyknow.commands.edit_scores import show_edits
from dyknow.commands.judging import results_of
from dyknow.commands.targets import NEW_FILE, NEW_FOLDER
from dyknow.tables import Format, Listing
from kg import identity
from kg.answers import AnswerSet, answers
from kg.dates import Day
from kg.errors import UsageError
from kg.store import open_store

METHOD_HELP = "METHOD is one of: " + "; ".join(f"{name}, {row.about}" for name, row in methods.METHODS.items()) + "."


@click.group("align", cls=Group)
def align() -> None:
    """Bring a model's outdated facts up to date, and measure how well.

    `plan` shows what a run gets wrong, `edit` edits the run's model and asks it again, `curve` does so for growing
    numbers of edits, `refresh` moves a model from one day to a later one. An edited model is a run like any other.
    """


@align.command(
    "plan",
    epilog=example(
        "dyknow align plan smollm2 --as-of 2023-12-18",
        "dyknow align plan gpt2-xl --as-of 2023-12-18 --out edits.jsonl",
    ),
)
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@judge_option
@rule_option
@operation_option
@click.option("--wording", metavar="KEY", help="The phrasing to edit. Else the first with words before the subject.")
@click.option("--out", type=NEW_FILE, help="Write the requests there, for --requests.")
@format_option
@places("snapshots", "runs", "database")
def plan(
    name: str,
    as_of: Day,
    known_at: str | None,
    judge: str,
    rule: str,
    operation: Operation,
    wording: str | None,
    out: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Show which facts a run gets wrong, and what should be answered instead.

    Of the study's countries the office is the edited subject ("Prime Minister of Italy"), else the subject itself.
    """
    run = find_run(name, places.runs)
    found = planned(run, as_of, known_at, places, judge=judge, rule=rule, operation=operation, wording=wording)
    if out is not None:
        requests.save(found, out)
        note(f"Wrote {len(found)} requests to {out}.")
    columns = ("fact", "subject", "answered", "should be", "edited question")
    rows = [
        (one.fact, one.prompt.subject.of(one.prompt.text), one.before, one.target, one.prompt.text) for one in found
    ]
    if form != "table":
        show(
            Listing(
                (*columns[:4], "question", "operation"),
                [(*row[:4], one.prompt.question, one.operation) for row, one in zip(rows, found, strict=True)],
            ),
            form,
        )
        return
    show(
        Listing(
            columns[1:4], [row[1:4] for row in rows], f"{len(found)} facts to {operation}, as of {iso([as_of])[0]}"
        ),
        form,
    )


@align.command(
    "edit",
    epilog=example(
        "dyknow align edit rome smollm2 --as-of 2023-12-18",
        "dyknow align edit memit smollm2 --as-of 2023-12-18 --preset paper --limit 10",
        "dyknow align edit rag smollm2 --as-of 2023-12-18 --set mode=gold",
    ),
    help=f"""Edit the facts that RUN gets wrong, and ask the edited model for them again.

    The model of RUN is loaded as it was asked, edited by METHOD, watched for collapse on unrelated prompts, asked, and
    put back. The answers are a run of their own, scored beside all others; with --all the whole benchmark is asked, so
    that side effects on other facts are seen, too (`dyknow run align:METHOD/RUN` does the same).

    {METHOD_HELP}""",
)
@click.argument("method", metavar="METHOD")
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@edit_options
@click.option("--all", "whole", is_flag=True, help="Ask the whole benchmark, not only what was edited.")
@click.option("--delta", type=NEW_FOLDER, help="Save the change of the weights in this folder.")
@format_option
@places("snapshots", "runs", "database")
def edit(
    method: str,
    name: str,
    as_of: Day,
    known_at: str | None,
    chosen: Chosen,
    whole: bool,
    delta: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Edit a model and ask it again."""
    methods.method(method)
    run = editable(name, places)
    job = job_of(method, run, as_of, known_at, chosen, places)
    done = perform([job], as_of, chosen, places, whole=whole, delta=delta)
    report(done, as_of, known_at, form, places)


@align.command(
    "curve",
    epilog=example(
        "dyknow align curve rome smollm2 --as-of 2023-12-18",
        "dyknow align curve memit smollm2 --as-of 2023-12-18 --at 10 --seeds 3",
    ),
)
@click.argument("method", metavar="METHOD")
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@edit_options
@click.option(
    "--at",
    "counts",
    multiple=True,
    default=("25%", "50%", "75%", "100%"),
    show_default=True,
    help="A number of edits, or a share of all. Give it again for further ones.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many shuffles.")
@format_option
@places("snapshots", "runs", "database")
def curve(
    method: str,
    name: str,
    as_of: Day,
    known_at: str | None,
    chosen: Chosen,
    counts: tuple[str, ...],
    seeds: int,
    form: Format,
    places: Places,
) -> None:
    """Edit growing numbers of facts, each time in fresh weights, and show what becomes of the edits.

    The sets of one seed grow: each holds the smaller ones. Points that were measured before are not measured again.
    """
    methods.method(method)
    run = editable(name, places)
    whole = job_of(method, run, as_of, known_at, chosen._replace(limit=None), places)
    numbers = [_count(text, len(whole.requests)) for text in counts]
    jobs = jobs_.curve(whole, numbers, range(chosen.seed, chosen.seed + seeds))
    done = perform(jobs, as_of, chosen, places, whole=False)
    with results_of(places, [one.id for one in done]) as connection:
        show_edits(connection, "curve", iso([as_of])[0], known_at, "match", "latest", [one.id for one in done], form)


def _count(text: str, total: int) -> int:
    """Return a number of edits.

    >>> _count("25%", 48), _count("10", 48)
    (12, 10)
    """
    try:
        found = round(float(text[:-1]) / 100 * total) if text.endswith("%") else int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number of edits.", hint="Write 10, or 25%.") from None
    return max(1, found)


@align.command(
    "refresh",
    epilog=example("dyknow align refresh smollm2 --from 2023-12-18 --to 2025-11-30"),
)
@click.argument("name", metavar="RUN")
@click.option(
    "--from", "first", type=DayType(), required=True, help="The day the model is up to date on, more or less."
)
@click.option("--to", "last", type=DayType(), required=True, help="The later day it is moved to.")
@click.option("--method", default="memit", show_default=True, help="Which method edits.")
@edit_options
@click.option("--all", "whole", is_flag=True, help="Ask the whole benchmark, not only what was edited.")
@click.option("--delta", type=NEW_FOLDER, help="Save the change of the weights in this folder.")
@format_option
@places("snapshots", "runs", "database")
def refresh(
    name: str,
    first: Day,
    last: Day,
    method: str,
    chosen: Chosen,
    whole: bool,
    delta: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Move a model from one day to a later one, by editing what changed in the world in between.

    What is edited are the facts whose up-to-date holder on the later day is another than on the earlier one, whether
    or not the model knew the old one.
    """
    methods.method(method)
    run = editable(name, places)
    before, after = (_answers(day, places) for day in (first, last))
    found = requests.changed(benchmark_of(run), before, after, prefix=bool(run.info.get("prefixed")))
    job = job_of(method, run, last, None, chosen, places, found=found, since=first)
    done = perform([job], last, chosen, places, whole=whole, delta=delta)
    report(done, last, None, form, places)


def _answers(day: Day, places: Places) -> list[AnswerSet]:
    return answers(open_store(places.snapshot(day, None)), identity.load(), day)
