"""Commands that put it all together: ask, score and report."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import duckdb

from dyknow import analysis, results
from dyknow.commands.asking import ask
from dyknow.commands.common import (
    Places,
    as_of_option,
    colour,
    command,
    emit,
    example,
    format_option,
    iso,
    note,
    places,
    rule_option,
    width,
)
from dyknow.commands.judging import known_runs
from dyknow.commands.options import MODEL_HELP, Asking, asking_options
from dyknow.journal import RunInfo, find_runs, read_run
from dyknow.report import Answer, Answers, Page, Shift, Source, render, shifts
from dyknow.tables import (
    Format,
    as_json,
    draw,
    footnotes,
    score_csv,
    score_json,
    shift_table,
    table1,
    table2,
    table5,
)
from kg.dates import Day
from kg.errors import UsageError
from kg.resources import query
from kg.snapshot import Snapshot


class Judged(NamedTuple):
    """Runs judged for several days."""

    days: tuple[str, ...]
    scores: tuple[analysis.Scores, ...]
    shifts: tuple[Shift, ...]
    page: Page


def judge_runs(
    places: Places, days: Sequence[str], rule: str, runs: Sequence[str] | None, shown: Sequence[str]
) -> Judged:
    """Judge runs for several days.

    Args:
        places: where everything is.
        days: ISO dates.
        rule: who is right.
        runs: their names; None for all.
        shown: the runs whose answers the page shows one by one.
    """
    snapshots = places.find()
    with results.connect(places.runs, snapshots, places.database, note) as connection:
        scores = tuple(analysis.score(connection, day, rule=rule, runs=runs) for day in days)
        shifts = tuple(_shifts(connection, scores, rule))
        answers = tuple(_answers(connection, read_run(places.runs / run), days, rule) for run in shown)
    used = {one.snapshot for one in scores}
    sources = tuple(_source(one) for one in snapshots if one.id in used)
    return Judged(tuple(days), scores, shifts, Page(scores, shifts, answers, sources))


def _shifts(connection: duckdb.DuckDBPyConnection, scores: Sequence[analysis.Scores], rule: str) -> Iterator[Shift]:
    """Yield what changed for each run from the first day to the last."""
    first, last = scores[0], scores[-1]
    for rate in first.table1 if first.as_of != last.as_of else ():
        if rate.domain == "all":
            yield shifts(rate, analysis.changes(connection, rate.run, first.as_of, last.as_of, rule=rule))


def _answers(connection: duckdb.DuckDBPyConnection, run: RunInfo, days: Sequence[str], rule: str) -> Answers:
    by_question: dict[str, Answer] = {}
    for day in days:
        values = {"run": run.id, "as_of": day, "known_at": None, "judge": "match", "rule": rule}
        for row in results.run_sql(connection, query("dyknow/texts.sql"), values).rows:
            question, _, domain, subject, office, phrasing, text, verdict, reason, label = row
            new = Answer(question, domain, subject, office or "", phrasing, text or "", ())
            by_question[question] = by_question.get(question, new).judged(verdict, label or reason or "")
    return Answers(run.id, run.info, tuple(by_question.values()))


def _source(snapshot: Snapshot) -> Source:
    return Source(snapshot.id, snapshot.digest, str(snapshot.manifest["source"]["description"]), snapshot.known)


output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write; it opens without a network.",
)


@command(
    epilog=example("dyknow evaluate smollm2 --as-of 2023-12-18 --as-of 2025-11-30"),
    help=f"""Ask MODEL, print the study's tables for each date, and write a report.

    It does what `dyknow run`, `dyknow score` and `dyknow report` do one after the other. What was answered already is
    not asked again. The other runs of the folder stand beside it.

    {MODEL_HELP}""",
)
@click.argument("model")
@as_of_option(multiple=True)
@rule_option
@click.option("--alone", is_flag=True, help="Leave the other runs out.")
@asking_options
@output_option
@format_option
@places("snapshots", "runs", "database")
def evaluate(
    model: str,
    as_of: tuple[Day, ...],
    rule: str,
    alone: bool,
    asking: Asking,
    output: Path,
    form: Format,
    places: Places,
) -> None:
    """Ask a model, score it, report."""
    run = ask(model, asking, places)
    note("Judging ...")
    judged = judge_runs(places, iso(as_of), rule, [run.id] if alone else None, [run.id])
    if form == "table":
        emit(tables_text(judged))
    else:
        emit(as_json([score_json(one) for one in judged.scores]) if form == "json" else score_csv(judged.scores))
    _write(judged.page, output)


@command(epilog=example("dyknow report --as-of 2023-12-18 --as-of 2025-11-30 -o report.html"))
@as_of_option(multiple=True, required=False)
@rule_option
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@output_option
@places("snapshots", "runs", "database")
def report(as_of: tuple[Day, ...], rule: str, names: tuple[str, ...], output: Path, places: Places) -> None:
    """Write one page of all runs: tables, what changed between dates, every answer with its verdict.

    Without --as-of, the dates of all snapshots. Answers are shown one by one for the runs that were asked here; name
    imported ones with --run to see theirs. The page needs no network, shows on a phone and prints.
    """
    chosen = known_runs(places, names)
    found = find_runs(places.runs)
    if not found:
        raise UsageError(f"There is no run in {places.runs}.", hint="Ask a model: dyknow run smollm2")
    shown = chosen or [run.id for run in found if run.info.get("kind") == "asked"]
    days = iso(as_of) or [one.id for one in places.find()]
    _write(judge_runs(places, days, rule, chosen, shown).page, output)
    emit(f"{output}\n")


def tables_text(judged: Judged) -> str:
    """Return each table for all days, one below the other, so that a model's figures stand close together."""
    wide = width(), colour()
    parts = [draw(build(scores), *wide) for build in (table1, table5, table2) for scores in judged.scores]
    if judged.shifts:
        parts.append(draw(shift_table(judged.shifts, judged.days[0], judged.days[-1]), *wide))
    notes = dict.fromkeys(line for scores in judged.scores for line in footnotes(scores).splitlines(keepends=True))
    return "\n".join([*parts, "".join(notes)])


def _write(page: Page, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(render(page), encoding="utf-8")
    note(f"Wrote {output} (open it in a browser).")
