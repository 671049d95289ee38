"""Commands for judges side by side: who has judged, tables and forms for people, agreement, and a model as a judge."""

import dataclasses
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import duckdb

from dyknow import adjudication, doubts, resultsfile
from dyknow import judges as judges_
from dyknow.adjudication import Judgment, judge_name
from dyknow.commands import form as forms
from dyknow.commands.agreeing import show_agreement, show_disagreements, show_pairs
from dyknow.commands.asking import Meter
from dyknow.commands.common import (
    DAY,
    Group,
    Places,
    emit,
    example,
    format_option,
    judge_option,
    known_at_option,
    note,
    places,
    show,
)
from dyknow.commands.judging import known_runs, results_of
from dyknow.commands.options import MODEL_HELP, Asking, model_options, settle
from dyknow.commands.targets import NEW_FILE
from dyknow.doubts import DOUBTFUL, Response
from dyknow.judges import Key
from dyknow.published import LABELLED_ON
from dyknow.run import stamp
from dyknow.tables import Format, Listing
from kg.dates import format_day
from kg.errors import RunError, UsageError
from kg.resources import query


@click.group(cls=Group)
def judge() -> None:
    """Judges side by side: our matcher, published labels, people, models.

    Whoever says whom an answer names can be asked about any date: `dyknow score --judge NAME`.
    """


_runs_option = click.option(
    "--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones."
)


_as_of_labelled = click.option(
    "--as-of",
    type=DAY,
    default=LABELLED_ON,
    show_default=True,
    metavar="DATE",
    help="The day that verdicts are for, as 2023-12-18, or `today`.",
)


@judge.command("list", epilog=example("dyknow judge list", "dyknow judge list --run gpt2-xl --format csv"))
@_runs_option
@format_option
@places("snapshots", "runs", "database")
def list_judges(names: tuple[str, ...], form: Format, places: Places) -> None:
    """List who has judged which run beside our own matcher.

    `named` counts judgments that say whom an answer names, or that it names none of the fact's holders: they hold for
    any day. `verdicts` hold for the days given alone. `open` ones leave it unclear, or could not be read.
    """
    chosen = known_runs(places, names)
    with results_of(places, chosen) as connection:
        rows = resultsfile.run_sql(connection, query("dyknow/judges.sql")).rows
    kept = [row for row in rows if chosen is None or row[0] in chosen]
    columns = ("run", "judge", "named", "verdicts", "open", "day", "latest")
    show(Listing(columns, [(*row[:5], _days(row[2], row[5]), row[6]) for row in kept]), form)
    if not kept:
        note("Nobody has judged yet but our matcher. See: dyknow judge export --help")


def _days(named: int, days: str | None) -> str:
    return ", ".join(filter(None, ("any" if named else "", days)))


@judge.command(
    "export",
    epilog=example(
        "dyknow judge export --limit 50 --judge anna --out doubtful.csv",
        "dyknow judge export --run gpt2-xl --judge anna --form",
    ),
)
@_runs_option
@_as_of_labelled
@known_at_option
@click.option("--judge", "name", metavar="NAME", help="Who is to judge: what NAME has judged already is left out.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N.")
@click.option(
    "--doubtful/--all",
    default=True,
    show_default=True,
    help=f"Only what our matcher reads with a doubt of at least {DOUBTFUL}, or everything; the most doubtful first.",
)
@click.option("--out", type=NEW_FILE, metavar="FILE", help="Write the table there.")
@click.option("--form", "as_form", is_flag=True, help="Ask here in the terminal, and keep each answer at once.")
@click.option("--by", metavar="TEXT", help="Who answers the form, to be kept with each answer.")
@places("snapshots", "runs", "database")
def export(
    names: tuple[str, ...],
    as_of: int,
    known_at: str | None,
    name: str | None,
    limit: int | None,
    doubtful: bool,
    out: Path | None,
    as_form: bool,
    by: str | None,
    places: Places,
) -> None:
    """Give out answers for a person to judge, the doubtful ones first.

    The table is CSV. Write into `entity` whom the text names (a name of `candidates`, or none, or unclear); or, if you
    cannot say whom, into `verdict` what it is on the day of `as_of`. `dyknow judge import` takes it back. What makes an
    answer doubtful stands in docs/method.md. The form shows neither our reading nor anybody else's.
    """
    if name is not None:
        judge_name(name)
    elif as_form:
        raise UsageError("A form is filled in under a name.", hint="Say whose: --judge anna")
    if out is not None and not as_form:
        _check_new(out)
    chosen = known_runs(places, names)
    with results_of(places) as connection:
        found = doubts.responses(
            connection, format_day(as_of), known_at, chosen, leave_out=() if name is None else (name,)
        )
        holders = doubts.holders(connection)
    waiting = _waiting(found, places, name, DOUBTFUL if doubtful else 0.0)
    kept = waiting[:limit]
    of = f"{len(kept)} of {len(waiting)}{' doubtful' if doubtful else ''} answers"
    if as_form and name is not None:
        judge_ = name
        given = forms.fill(kept, holders, lambda said: _save(places, judge_, [said]), by)
        note(f"{given} of {len(kept)} judged. What was answered is kept; the same command goes on.")
        return
    text = adjudication.table(kept, holders)
    if out is None:
        emit(text)
        note(f"{of}.")
    else:
        out.write_text(text, encoding="utf-8")
        note(f"{of}: {out}. Filled in, it goes back with: dyknow judge import {out} --judge NAME")


def _check_new(out: Path) -> None:
    """Refuse to write over a file: it may be a table that somebody has filled in."""
    if out.is_file():
        hint = "If it is filled in, import it first; then delete it, or write to another file."
        raise UsageError(f"There is a file {out} already.", hint=hint)


def _waiting(found: Iterable[Response], places: Places, name: str | None, least: float) -> list[Response]:
    """Return the responses of at least a doubt that a judge has not judged yet; a failed attempt is none."""
    kept = [one for one in found if one.doubt >= least]
    done: set[Key] = set()
    for run in {one.run for one in kept} if name else ():
        done |= adjudication.judged_by(places.runs, run, name or "").keys()
    return [one for one in kept if one.key not in done]


def _save(places: Places, name: str, judgments: list[Judgment]) -> int:
    done = adjudication.record(places.runs, name, judgments, stamp(datetime.now(tz=UTC)))
    if done.displaced:
        some = ", ".join(done.displaced[:_SOME]) + (" ..." if len(done.displaced) > _SOME else "")
        note(
            f"{len(done.displaced)} names that {name} had given stand no more, for a verdict alone was said later; it"
            f" holds for its day only: {some}. Say the name again where it is still right."
        )
    return done.new


_SOME: Final = 3
"""Answers that a remark names."""


@judge.command(
    "import",
    epilog=example(
        "dyknow judge import doubtful.csv --judge anna",
        "dyknow judge import labels.jsonl --judge gold",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--judge", "name", required=True, metavar="NAME", help="Under which name they are kept.")
@click.option(
    "--as-of",
    type=DAY,
    metavar="DATE",
    help=f"The day that verdicts without a name are for, where FILE does not say; of labels files else {LABELLED_ON}.",
)
@click.option("--by", metavar="TEXT", help="Who judged, to be kept with each judgment.")
@click.option("--lenient", is_flag=True, help="Of a name that no holder has keep only the verdict beside it.")
@places("snapshots", "runs", "database")
def import_judgments(file: Path, name: str, as_of: int | None, by: str | None, lenient: bool, places: Places) -> None:
    """Take in judgments, as further lines beside the runs.

    FILE is the table of `dyknow judge export` filled in (or any CSV with run, question and entity or verdict), JSON
    lines with the same names, or a labels file as `dyknow judge agreement` reads it. All rows are checked before any is
    written. A judge's later word counts; what was said already is not written again.
    """
    judge_name(name)
    if not file.is_file():
        raise UsageError(f"There is no file {file}.", hint="Make one: dyknow judge export --out FILE")
    with results_of(places) as connection:
        rows = resultsfile.run_sql(connection, "SELECT run, question, sample, text FROM responses").rows
        known = {(run, question, sample): text for run, question, sample, text in rows}
        day = None if as_of is None else format_day(as_of)
        found = adjudication.read_judgments(file, known, doubts.holders(connection), day, by, lenient=lenient)
    new = _save(places, name, list(found.judgments))
    emit(f"{new} judgments of {name} added, {len(found.judgments) - new} known already.\n")
    for count, what in (
        (found.blank, "rows say nothing yet"),
        (found.elsewhere, "labels are of runs that are not here"),
        (found.lenient, "rows name somebody that no holder is: at most their verdict was kept"),
    ):
        if count:
            note(f"{count} {what}.")


@judge.command(
    "agreement",
    epilog=example(
        "dyknow judge agreement labels.jsonl",
        "dyknow judge agreement match published",
        "dyknow judge agreement match anna gpt-4o --as-of 2024-06-01",
        "dyknow judge agreement labels.jsonl --disagreements --format csv",
    ),
)
@click.argument("sides", nargs=-1, required=True, metavar="LABELS|JUDGE...")
@_as_of_labelled
@known_at_option
@judge_option
@_runs_option
@click.option("--disagreements", is_flag=True, help="List every answer on which the two verdicts differ.")
@format_option
@places("snapshots", "runs", "database")
def judge_agreement(
    sides: tuple[str, ...],
    as_of: int,
    known_at: str | None,
    judge: str,
    names: tuple[str, ...],
    disagreements: bool,
    form: Format,
    places: Places,
) -> None:
    """Compare judges: --judge with the labels of a file, or those that are named with each other.

    LABELS has one JSON object a line: model (the run), domain, subject, attribute, template (the phrasing), label
    (correct, outdated, irrelevant or unclear), entity, and read (false: do not rely on the entity). Of two judges the
    second is what the first is measured by. Intervals are of 95 %: facts are drawn anew, with all answers to them.
    """
    day, chosen = format_day(as_of), known_runs(places, names)
    is_file = len(sides) == 1 and (Path(sides[0]).exists() or Path(sides[0]).suffix == ".jsonl")
    labels = judges_.read_labels(Path(sides[0])) if is_file else None
    named = (judge,) if is_file else sides if len(sides) > 1 else (judge, sides[0])
    if len(set(named)) < len(named):
        raise UsageError(f"The judge {named[0]} agrees with itself.", hint="Name two: match published")
    with results_of(places) as connection:
        snapshot = resultsfile.run_sql(
            connection, "SELECT any_value(snapshot) FROM moments($day, known_at := $known_at)", _moment(day, known_at)
        ).rows[0][0]
        read = {name: judges_.readings_of(connection, name, day, known_at, chosen) for name in named}
        known = resultsfile.run_sql(connection, query("dyknow/entities.sql")).rows
    note(f"As of {day}, snapshot {snapshot}: {', '.join(named)}{f' against {sides[0]}' if is_file else ''}.")
    if len(named) > 2:
        show_pairs({name: readings for name, (readings, _) in read.items()}, form)
        return
    ours, said = read[named[0]]
    if labels is None:
        theirs = read[named[1]][0]
    else:
        theirs = judges_.readings(labels, {(fact, label): entity for fact, label, entity in known})
        theirs = {key: one for key, one in theirs.items() if chosen is None or key[0] in chosen}
    measured = judges_.agreement(ours, theirs)
    if not measured.agree.n:
        raise UsageError(f"No answer of the runs in {places.runs} is judged by both.", hint="dyknow judge list")
    if disagreements:
        show_disagreements(measured, said, {(f, e): label for f, label, e in known}, form)
    else:
        show_agreement(measured, form)


def _moment(day: str, known_at: str | None) -> dict[str, Any]:
    return {"day": day, "known_at": known_at}


@judge.command(
    "ask",
    epilog=example(
        "dyknow judge ask openai:gpt-4o --run gpt2-xl --limit 100",
        "dyknow judge ask vllm:NAME --run gpt2-xl --judge qwen --all",
    ),
    help=f"""Let a model read answers: whom does each name?

    It is given the question, the answer and a numbered list of the fact's holders, and asked for a number. Prompt and
    raw answer are kept beside the run. What is no number of the list is unjudged. The same command goes on where an
    interrupted one stopped and asks nothing twice. The answer is quoted as data, but a model may still be swayed by
    what it reads: compare it with others (`dyknow judge agreement`) first.

    {MODEL_HELP}""",
)
@click.argument("model")
@click.option("--run", "names", metavar="RUN", multiple=True, required=True, help="The run to judge. Repeatable.")
@click.option(
    "--judge", "name", metavar="NAME", help="Under which name it is kept; without it one made of the model's."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N.")
@click.option(
    "--doubtful/--all",
    default=False,
    show_default=True,
    help=f"Only what our matcher reads with a doubt of at least {DOUBTFUL}, or everything; the most doubtful first.",
)
@click.option(
    "--batch-size", type=click.IntRange(min=1), default=32, show_default=True, help="Answers judged at a time."
)
@model_options
@places("snapshots", "runs", "database")
def ask(
    model: str,
    names: tuple[str, ...],
    name: str | None,
    doubtful: bool,
    asking: Asking,
    places: Places,
) -> None:
    """Ask a model."""
    from dyknow import llm_judge  # noqa: PLC0415 -- other commands need no models
    from dyknow.models import load_model  # noqa: PLC0415

    known_runs(places, names)
    chosen = settle(model, asking)
    options = chosen.options
    if "max_new_tokens" not in chosen.given:
        options = dataclasses.replace(options, max_new_tokens=llm_judge.TOKENS)
    note(f"Loading {model} ...")
    loaded = load_model(model, options)
    judge_ = judge_name(name or safe_name(loaded.name))
    with results_of(places) as connection:
        # Our own reading decides the order alone, and other judges' do not: the order must not change as they judge.
        found = doubts.responses(connection, LABELLED_ON, runs=names, leave_out=_judges(connection))
        holders = doubts.holders(connection)
    wanted = [one for one in found if one.doubt >= (DOUBTFUL if doubtful else 0.0) and one.fact in holders][
        : asking.limit
    ]
    done = llm_judge.ask(
        loaded, [llm_judge.task(one, holders[one.fact]) for one in wanted], places.runs, judge_,
        clock=lambda: datetime.now(tz=UTC), batch_size=asking.batch_size, progress=Meter(),
    )  # fmt: skip
    emit(f"{judge_}: {done.judged - done.errors} answers judged, {done.known} were before.\n")
    if done.unparsable:
        note(f"{done.unparsable} of them are unjudged: what {loaded.name} said is no number of the list.")
    if done.errors:
        raise RunError(f"{done.errors} answers could not be judged.", hint="The same command asks again.")


def safe_name(name: str) -> str:
    """Return a model's name as that of a judge."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"


def _judges(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [str(row[0]) for row in resultsfile.run_sql(connection, "SELECT DISTINCT judge FROM judgments").rows]
