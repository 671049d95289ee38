"""Commands that put it all together: ask, score and report."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import click
import duckdb

from dyknow import analysis
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
    judge_option,
    known_at_option,
    note,
    places,
    rule_option,
    split_option,
    width,
)
from dyknow.commands.judging import known_runs, results_of
from dyknow.commands.options import MODEL_HELP, Asking, asking_options
from dyknow.commands.targets import NEW_FOLDER, Target
from dyknow.damage import survey
from dyknow.published import LABELLED_ON
from dyknow.report.data import Data, Source
from dyknow.report.drawing import bundle, there
from dyknow.report.formats import FIGURES, Figure, csv, markdown, picture
from dyknow.report.gather import gather, tables
from dyknow.report.page import render
from dyknow.report.words import unanswered
from dyknow.tables import (
    Format,
    Shift,
    as_json,
    draw,
    footnotes,
    score_csv,
    score_json,
    shift_table,
    shifts,
    table1,
    table2,
    table5,
)
from dyknow.trends import Trend, trends_of
from dyknow.trendtables import trend_csv, trend_text, with_trends
from kg.dates import Day
from kg.errors import UsageError
from kg.snapshot import Snapshot


class Judged(NamedTuple):
    """Runs judged for several days."""

    days: tuple[str, ...]
    scores: tuple[analysis.Scores, ...]
    trends: tuple[list[Trend], ...]  # of each day; empty where tables are not split by popularity
    shifts: tuple[Shift, ...]
    data: Data


def judge_runs(
    places: Places,
    days: Sequence[str],
    rule: str,
    runs: Sequence[str] | None,
    known_at: str | None = None,
    *,
    split: str = "domain",
) -> Judged:
    """Judge runs for several days.

    Args:
        places: where everything is.
        days: ISO dates.
        rule: who is right.
        runs: their names; None for all.
        known_at: the snapshot to believe; None for each day's own.
        split: what the tables are split by.
    """
    snapshots = places.find()
    with results_of(places, runs) as connection:
        scores = tuple(analysis.score(connection, day, known_at, rule=rule, runs=runs, split=split) for day in days)
        trends = tuple(trends_of(connection, one, known_at) for one in scores)
        shifts = tuple(_shifts(connection, scores, rule))
        data = gather(connection, _sources(snapshots), days, known_at, rule=rule, runs=runs, records=_records(places))
    _note_unanswered(data)
    return Judged(tuple(days), scores, trends, shifts, data)


def _note_unanswered(data: Data) -> None:
    if words := unanswered(data):
        note(words)


def _shifts(connection: duckdb.DuckDBPyConnection, scores: Sequence[analysis.Scores], rule: str) -> Iterator[Shift]:
    """Yield what changed for each run from the first day to the last."""
    first, last = scores[0], scores[-1]
    for rate in first.table1 if first.as_of != last.as_of else ():
        if rate.domain == "all":
            yield shifts(rate, analysis.changes(connection, rate.run, first.as_of, last.as_of, rule=rule))


def _sources(snapshots: Sequence[Snapshot]) -> list[Source]:
    return [
        Source(one.id, one.date, one.digest, str(one.manifest["source"]["description"]), one.known) for one in snapshots
    ]


def _records(places: Places) -> dict[str, dict[str, Any]]:
    return {run.id: run.info for run in survey(places.runs).runs}


_PAGE: Final = Target(parents=True)

output_option = click.option(
    "-o",
    "--output",
    type=_PAGE,
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
@split_option("domain", "What the tables are split by: see `dyknow score`.")
@click.option("--alone", is_flag=True, help="Leave the other runs out.")
@asking_options
@output_option
@format_option
@places("snapshots", "runs", "database")
def evaluate(
    model: str,
    as_of: tuple[Day, ...],
    rule: str,
    split: str,
    alone: bool,
    asking: Asking,
    output: Path,
    form: Format,
    places: Places,
) -> None:
    """Ask a model, score it, report."""
    run = ask(model, asking, places)
    note("Judging ...")
    judged = judge_runs(places, iso(as_of), rule, [run.id] if alone else None, split=split)
    both = list(zip(judged.scores, judged.trends, strict=True))
    if form == "table":
        emit(tables_text(judged))
    elif form == "json":
        emit(as_json([with_trends(score_json(one), found) for one, found in both]))
    else:
        several = len(both) > 1
        emit(score_csv(judged.scores) + "".join(trend_csv(found, one, dated=several) for one, found in both))
    note(f"Wrote {_page(judged.data, output)} (open it in a browser).")


Form = Literal["html", "md", "svg", "png", "csv"]


@command(
    epilog=example(
        "dyknow report --as-of 2023-12-18 --as-of 2025-11-30",
        "dyknow report --run gpt2-xl --format svg --figure timeline -o timeline.svg",
    )
)
@as_of_option(multiple=True, required=False)
@known_at_option
@judge_option
@rule_option
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Form)),
    default="html",
    show_default=True,
    help="html: a page with everything; md: sentences and tables; csv: the rates of every date, one figure a line; svg "
    "or png: the figures as files.",
)
@click.option("--figure", type=click.Choice(FIGURES), help="Of the figures, this one alone (svg and png).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write: a file, or for several figures a folder. Without it report.html, standard output for md and "
    "csv, the folder figures.",
)
@places("snapshots", "runs", "database")
def report(
    as_of: tuple[Day, ...],
    known_at: str | None,
    judge: str,
    rule: str,
    names: tuple[str, ...],
    form: Form,
    figure: Figure | None,
    output: Path | None,
    places: Places,
) -> None:
    """Write one page of all runs, with a slider for the date.

    It shows how up to date each model is with 95 % intervals, from which day it
    answers, what changed between the dates, every answer with its verdict and
    why, and one fact as lanes of its holders. Without --as-of, the dates of all
    snapshots; the page opens at the last. It needs no network, shows on a phone,
    and prints.
    """
    chosen = known_runs(places, names)
    if figure and form not in ("svg", "png"):
        raise UsageError(f"--figure does not go with --format {form}.", hint="Add --format svg or --format png.")
    _check_output(form, figure, output)
    snapshots = places.find()
    days = iso(as_of) or ([LABELLED_ON] if judge == "published" else [one.id for one in snapshots])
    with results_of(places, chosen) as connection:
        data = gather(
            connection,
            _sources(snapshots),
            days,
            known_at,
            judge=judge,
            rule=rule,
            runs=chosen,
            records=_records(places),
        )
    _note_unanswered(data)
    for path in _written(data, form, figure, output):
        emit(f"{path}\n")


def _check_output(form: Form, figure: Figure | None, output: Path | None) -> None:
    """Look before the work whether the report can be written.

    Raises:
        UsageError: it cannot.
    """
    pictures = form in ("svg", "png")
    written = output or (Path() if pictures and figure else Path("figures") if pictures else Path("report.html"))
    if output is None and form in ("md", "csv"):
        return
    target = NEW_FOLDER if pictures and (output is None or not figure) else _PAGE
    if problem := target.problem(written):
        raise UsageError(problem, hint="-o names where the report goes.")


def _written(data: Data, form: Form, figure: Figure | None, output: Path | None) -> Iterator[Path]:
    """Write a report and yield the files."""
    if form in ("svg", "png"):
        yield from _pictures(data, form, figure, output)
    elif form == "html":
        yield _page(data, output or Path("report.html"))
    else:
        text = (markdown if form == "md" else csv)(data, tables(data, note))
        if output is None:
            emit(text)
        else:
            yield _file(output, text.encode())


def _pictures(data: Data, form: Literal["svg", "png"], figure: Figure | None, output: Path | None) -> Iterator[Path]:
    found = tables(data, note)
    for name in (figure,) if figure else FIGURES:
        if name != "years" or data.spreads:
            alone = output if figure else None
            path = alone or (Path() if figure else output or Path("figures")) / f"{name}.{form}"
            yield _file(path, picture(name, form, data, found))


def tables_text(judged: Judged) -> str:
    """Return each table for all days, one below the other, so that a model's figures stand close together."""
    wide = width(), colour()
    first, *others = ([draw(build(scores), *wide) for scores in judged.scores] for build in (table1, table5, table2))
    below = [
        trend_text(found, one, *wide, explained=one is judged.scores[-1])
        for found, one in zip(judged.trends, judged.scores, strict=True)
    ]
    parts = [*first, *filter(None, below), *(part for own in others for part in own)]
    if judged.shifts:
        parts.append(draw(shift_table(judged.shifts, judged.days[0], judged.days[-1]), *wide))
    notes = dict.fromkeys(line for scores in judged.scores for line in footnotes(scores).splitlines(keepends=True))
    return "\n".join([*parts, "".join(notes)])


def _page(data: Data, output: Path) -> Path:
    """Write the page; without what draws charts it has none, and says so."""
    page = render(data, tables(data, note), bundle() if there() else None)
    return _file(output, page.encode())


def _file(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
