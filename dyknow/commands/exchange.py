"""Commands that exchange data with other tools: import what they answered, export what they are to ask."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import orjson

from dyknow import benchmark as benchmarks
from dyknow import exports, named, named_edits, outputs, published, published_edits, resultsfile
from dyknow.commands.asking import find_run, note_year
from dyknow.commands.common import (
    Group,
    Places,
    as_of_option,
    command,
    describe,
    emit,
    example,
    known_at_option,
    note,
    note_smaller,
    places,
    rule_option,
)
from dyknow.commands.judging import results_of
from dyknow.commands.targets import NEW_FOLDER, Target
from dyknow.exports import Sheet
from dyknow.journal import read_run
from dyknow.outputs import ImportedRun
from dyknow.rows import release
from dyknow.tables import as_csv
from kg import answers as answer_sets
from kg import identity
from kg.dates import Day
from kg.errors import RunError, UsageError
from kg.resources import query
from kg.store import open_store
from kg.terms import Rule

_benchmark_option = click.option(
    "--benchmark",
    "file",
    type=click.Path(path_type=Path),
    help="The questions of this file, TOML or Parquet; without it the study's 390.",
)
_prefix_option = click.option("--prefix", is_flag=True, help='Put "Answer with the name only" before every question.')

# Import

_IMPORT_HELP: Final = """Bring in answers that were given elsewhere, as runs.

    Answers are joined to questions by id, and kept word for word. A question the benchmark has not, and one that is
    answered twice, are errors that name file and line. What was imported before is left alone.

    \b
    PATH is one of
      a folder of the study   countries_byGDP_answers.json and so on, or a clone
                              of it; its labels become the judge `published`
      its outputs after       editing/METHOD/MODEL with *_analysis.json, or all
      editing                 below editing/, with datasets/MODEL.json
      samples_*.jsonl         of lm-evaluation-harness (--log_samples), or a
                              folder; `dyknow export lm-eval` makes the task
      .eval or .json          a log of Inspect, or a folder of them; `dyknow
                              export inspect` makes the task
      a .csv or .jsonl table  a header or keys of these names:
                              question  Q38/P35#1; or fact and phrasing
                              text      the answer; null where there is none
                              sample    0, 1, 2 where there are several
                              prompt    what was asked; else our words
                              model     its name; several become several runs
                              `dyknow export questions` lacks only text
      named.csv               figures without texts, of `dyknow export named`
      edits.csv and so on     the same of edited models, of `export edits`
"""


@command(
    "import",
    epilog=example(
        "dyknow import DyKnow/models_output",
        "dyknow import editing/ROME/gpt2-xl",
        "dyknow import examples/published",
        "dyknow import examples/editing",
        "dyknow import results/ --format lm-eval",
        "dyknow import logs/2026-01-05T10-00-00_dyknow.eval",
        "dyknow import answers.csv --title 'My model' --year 2025",
    ),
    help=_IMPORT_HELP,
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", *outputs.NAMES]),
    default="auto",
    show_default=True,
    help="What PATH holds; `auto` looks, and says what it recognised.",
)
@click.option("--run-id", metavar="NAME", help="The run's name, where PATH holds one; without it one is made.")
@_benchmark_option
@click.option("--title", metavar="TEXT", help="The model's name as tables print it.")
@click.option("--year", type=int, help="The year the model came out, for the tables.")
@places("runs")
def import_(
    path: Path, form: str, run_id: str | None, file: Path | None, title: str | None, year: int | None, places: Places
) -> None:
    """Bring in answers that were given elsewhere."""
    chosen = outputs.recognise(path) if form == "auto" else next(name for name in outputs.NAMES if name == form)
    if form == "auto":
        note(f"{path} holds {outputs.NAMES[chosen]}.")
    if chosen in ("study", "edits", "named", "named-edits"):
        if file or title or year:
            raise UsageError(f"{outputs.NAMES[chosen]}: these name questions and models themselves.")
        importers = {"study": _import_published, "edits": _import_edits, "named": _import_named}
        importers["named-edits"] = _import_named_edits
        importers[chosen](path, run_id, places)
        return
    bench = benchmarks.load(file)
    about: dict[str, Any] = {"run_id": run_id, "title": title, "year": year}
    for one in outputs.import_outputs(path, chosen, places.runs, bench, **about):
        note(f"{one.id}: {_counts(one)}")
        known = release(read_run(one.path))
        if known.released and known.release_known == "day":
            note_year(year, known.released, known.release_source)
        emit(f"{one.path}\n")


def _counts(one: ImportedRun) -> str:
    """Say what became of the answers of one model in one file."""
    if not one.written:
        return "there already"
    parts = [f"{one.answers} answers from {one.source}"]
    if one.errors:
        parts.append(f"{one.errors} without a text")
    if one.missing:
        parts.append(f"{one.missing} further phrasings of the same facts not there")
    if one.passed_over:
        parts.append(f"passed over: {', '.join(one.passed_over)}")
    return "; ".join(parts)


def _import_named(path: Path, run_id: str | None, places: Places) -> None:
    if run_id:
        raise UsageError("A table of figures names its runs itself.", hint="Leave --run-id out.")
    for folder in named.import_named(path, places.runs):
        emit(f"{folder}\n")


def _import_named_edits(path: Path, run_id: str | None, places: Places) -> None:
    if run_id:
        raise UsageError("Tables of edited models name their runs themselves.", hint="Leave --run-id out.")
    for folder in named_edits.import_edits(path, places.runs):
        emit(f"{folder}\n")


def _import_published(path: Path, run_id: str | None, places: Places) -> None:
    for one in published.import_published(path, places.runs, run_id):
        left = f", {one.orphans} labels without an output left out" if one.orphans else ""
        made = f"{one.responses} answers, {one.judgments} labels{left}" if one.written else "there already"
        note(f"{one.id}: {made}")
        emit(f"{one.path}\n")


def _import_edits(path: Path, run_id: str | None, places: Places) -> None:
    for one in published_edits.import_edits(path, places.runs, run_id):
        left = f", {one.unresolved} left open" if one.unresolved else ""
        made = f"{one.edits} edits, {one.responses} answers, {one.judgments} labels{left}"
        note(f"{one.id}: {made if one.written else 'there already'}")
        emit(f"{one.path}\n")


# Export


@click.group("export", cls=Group)
def export() -> None:
    """Take questions or results elsewhere: a list, a task for another tool, tables as CSV, figures without texts."""


@export.command(
    "questions", epilog=example("dyknow export questions --format csv", "dyknow export questions --format jsonl")
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    show_default=True,
    help="CSV with a header, or a JSON object a line.",
)
@_benchmark_option
@_prefix_option
def export_questions(form: str, file: Path | None, prefix: bool) -> None:
    """Write every question to standard output, for whatever asks them.

    Put the answers into a further column `text`, and `dyknow import` reads the table.
    """
    rows = exports.question_rows(benchmarks.load(file).questions(prefix))
    if form == "csv":
        emit(as_csv(exports.QUESTION_COLUMNS, [list(row.values()) for row in rows]))
    else:
        emit(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode())


_out_option = click.option(
    "--out", type=NEW_FOLDER, required=True, help="The folder of the task; made where it is missing."
)


@export.command("lm-eval", epilog=example("dyknow export lm-eval --as-of 2023-12-18 --out tasks/"))
@as_of_option()
@known_at_option
@rule_option
@_benchmark_option
@_prefix_option
@_out_option
@places("snapshots")
def export_lm_eval(out: Path, places: Places, **asked: Any) -> None:  # noqa: ANN401 -- options, for _sheet
    """Write a task with which lm-evaluation-harness asks the questions, as of a day.

    The folder's README.md has the command. The number it prints compares the first line of an answer with the labels of
    the holders; `dyknow import` reads its samples, and finds whom each answer names.
    """
    _task(exports.lm_eval_files(_sheet(places, **asked)), out)


@export.command("inspect", epilog=example("dyknow export inspect --as-of 2023-12-18 --out tasks/"))
@as_of_option()
@known_at_option
@rule_option
@_benchmark_option
@_prefix_option
@_out_option
@places("snapshots")
def export_inspect(out: Path, places: Places, **asked: Any) -> None:  # noqa: ANN401 -- options, for _sheet
    """Write a task with which Inspect asks the questions, as of a day.

    The folder's README.md has the command. The score it prints looks for the label of a holder anywhere in an answer;
    `dyknow import` reads its logs, and finds whom each answer names.
    """
    _task(exports.inspect_files(_sheet(places, **asked)), out)


def _sheet(places: Places, as_of: Day, known_at: str | None, rule: str, file: Path | None, prefix: bool) -> Sheet:
    """Return the questions of a day, and say what their answers rest on."""
    chosen, bench = places.snapshot(as_of, known_at), benchmarks.load(file)
    same = identity.with_redirects(identity.load(), [chosen])
    sets = answer_sets.answers(open_store(chosen), same, as_of, None, Rule(rule))
    asked = exports.sheet(bench, sets, chosen, rule, prefix=prefix)
    left = f"; {asked.left_out} of facts without a known holder left out" if asked.left_out else ""
    note(f"As snapshot {describe(chosen)} has it: {len(asked.rows)} questions{left}.")
    note_smaller(places, chosen.id, as_of, known_at)
    return asked


def _task(files: Mapping[str, str], out: Path) -> None:
    for path in exports.write(files, out):
        emit(f"{path}\n")


@export.command("named", epilog=example("dyknow export named examples/published/named.csv"))
@click.argument("file", type=Target(parents=True))
@click.option("--run", "wanted", multiple=True, metavar="RUN", help="Only this run. Give it again for further ones.")
@places("snapshots", "runs", "database")
def export_named(file: Path, wanted: tuple[str, ...], places: Places) -> None:
    """Write whom each imported answer names, without its text, as a table that `dyknow import` reads.

    For texts that may not be shared: run, fact, phrasing, and the entity named, or none and why.
    """
    for name in wanted:
        find_run(name, places.runs)
    with results_of(places, wanted or None) as connection:
        table = resultsfile.run_sql(connection, query("dyknow/named.sql"))
    rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    count = named.write((row for row in rows if not wanted or row["run"] in wanted), file)
    if not count:
        raise RunError(f"No imported run in {places.runs} has answers.", hint="Bring some in: dyknow import PATH")
    note(f"Wrote {count} rows.")
    emit(f"{file}\n")


@export.command("edits", epilog=example("dyknow export edits examples/editing"))
@click.argument("folder", type=NEW_FOLDER)
@places("snapshots", "runs", "database")
def export_edits(folder: Path, places: Places) -> None:
    """Write what imported runs of edited models named and how it was labelled, without texts, as tables into FOLDER.

    For texts that may not be shared: runs.csv, edits.csv and answers.csv, which `dyknow import FOLDER` reads.
    """
    with results_of(places) as connection:
        count = named_edits.write(connection, folder)
    note(f"Wrote {count} answers.")
    for name in named_edits.FILES:
        emit(f"{folder / name}\n")
