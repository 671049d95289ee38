"""Commands that put it all together: ask, score and report."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import duckdb

from dyknow import analysis, named, results
from dyknow.commands.asking import Asking, ask, asking_options
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
from dyknow.report import Answer, Answers, Page, Shift, Source, render, shifts
from dyknow.run import RunInfo, find_runs
from dyknow.tables import (
    Format,
    as_json,
    draw,
    footnotes,
    merged,
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
from kg.store import cache_folder

PUBLISHED: Final = Path(__file__).resolve().parents[2] / "examples" / "published" / named.FILE
"""What ten published models named; in a checkout only, an installed package does without."""


class Judged:
    """Runs judged for several days: one's own, and the published ones beside them where they are found."""

    def __init__(self, places: Places, days: Sequence[str], rule: str) -> None:
        self.places = places
        self.days = days
        self.rule = rule
        self.snapshots = places.find()
        self.scores: list[analysis.Scores] = []
        self.shifts: list[Shift] = []
        self.answers: list[Answers] = []

    def add(self, folder: Path, database: Path, runs: Sequence[str] | None) -> None:
        """Judge the runs of a folder, and put them beside those already here."""
        with results.connect(folder, self.snapshots, database, note) as connection:
            found = [analysis.score(connection, day, rule=self.rule, runs=runs) for day in self.days]
            self.scores = [merged(own, more) for own, more in zip(self.scores, found, strict=True)] or found
            self.shifts += self._shifts(connection, found[0])
            for run in [one for one in find_runs(folder) if runs is None or one.id in runs]:
                if run.info.get("kind") == "asked":
                    self.answers.append(self._answers(connection, run))

    def _shifts(self, connection: duckdb.DuckDBPyConnection, scores: analysis.Scores) -> list[Shift]:
        if len(self.days) < 2:
            return []
        first, last = self.days[0], self.days[-1]
        overall = [rate for rate in scores.table1 if rate.domain == "all"]
        return [shifts(rate, analysis.changes(connection, rate.run, first, last, rule=self.rule)) for rate in overall]

    def _answers(self, connection: duckdb.DuckDBPyConnection, run: RunInfo) -> Answers:
        by_question: dict[str, Answer] = {}
        for day in self.days:
            values = {"run": run.id, "as_of": day, "known_at": None, "judge": "match", "rule": self.rule}
            for row in results.run_sql(connection, query("dyknow/texts.sql"), values).rows:
                question, _, domain, subject, office, phrasing, text, verdict, reason, label = row
                known = by_question.setdefault(
                    question, Answer(question, domain, subject, office or "", phrasing, text or "", ())
                )
                by_question[question] = known.judged(verdict, label or reason or "")
        return Answers(run.id, run.info, tuple(by_question.values()))

    def add_published(self) -> bool:
        """Put the published runs beside one's own; they live in the cache, so the user's folder stays the user's."""
        if not PUBLISHED.is_file():
            return False
        digest = hashlib.sha256(PUBLISHED.read_bytes()).hexdigest()
        folder = cache_folder() / "named" / digest[:16]
        named.import_named(PUBLISHED, folder / "runs")
        self.add(folder / "runs", folder / "results.duckdb", None)
        return True

    def page(self) -> Page:
        """Return what the report shows."""
        used = {scores.snapshot for scores in self.scores}
        sources = [_source(one) for one in self.snapshots if one.id in used]
        return Page(tuple(self.scores), tuple(self.shifts), tuple(self.answers), tuple(sources))


def _source(snapshot: Snapshot) -> Source:
    return Source(snapshot.id, snapshot.digest, str(snapshot.manifest["source"]["description"]), snapshot.known)


published_option = click.option(
    "--published/--no-published",
    default=True,
    show_default=True,
    help="Show beside it what ten published models named (examples/published, in a checkout).",
)

output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write; it opens without a network.",
)


@command(epilog=example("dyknow evaluate smollm2 --as-of 2023-12-18 --as-of 2025-11-30"))
@click.argument("model")
@as_of_option(multiple=True)
@rule_option
@asking_options
@published_option
@output_option
@format_option
@places("snapshots", "runs", "database")
def evaluate(
    model: str,
    as_of: tuple[Day, ...],
    rule: str,
    published: bool,
    output: Path,
    form: Format,
    asking: Asking,
    places: Places,
) -> None:
    """Ask MODEL, print the study's tables for each date, and write a report.

    It does what `dyknow run`, `dyknow score` and `dyknow report` do one after the other. What was answered already is
    not asked again.
    """
    info = ask(model, asking, places.runs)
    judged = Judged(places, iso(as_of), rule)
    note("Judging ...")
    judged.add(places.runs, places.database, [info.id])
    _finish(judged, published, output, form)


@command(epilog=example("dyknow report --as-of 2023-12-18 --as-of 2025-11-30 -o report.html"))
@as_of_option(multiple=True, required=False)
@rule_option
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@published_option
@output_option
@places("snapshots", "runs", "database")
def report(
    as_of: tuple[Day, ...], rule: str, names: tuple[str, ...], published: bool, output: Path, places: Places
) -> None:
    """Write one page of all runs: tables, what changed between dates, every answer with its verdict.

    Without --as-of, the dates of all snapshots. The page needs no network, shows on a phone and prints.
    """
    chosen = known_runs(places, names)
    days = iso(as_of) or [one.id for one in places.find()]
    judged = Judged(places, days, rule)
    mine = bool(find_runs(places.runs))
    if mine:
        judged.add(places.runs, places.database, chosen)
    if not (published and judged.add_published()) and not mine:
        raise UsageError(f"There is no run in {places.runs}.", hint="Ask a model: dyknow run smollm2")
    _write(judged.page(), output)
    emit(f"{output}\n")


def _finish(judged: Judged, published: bool, output: Path, form: Format) -> None:
    if published:
        judged.add_published()
    if form == "json":
        emit(as_json([score_json(scores) for scores in judged.scores]))
    elif form == "csv":
        emit(score_csv(judged.scores))
    else:
        _print(judged)
    _write(judged.page(), output)


def _print(judged: Judged) -> None:
    """Print each table for all days, one below the other, so that a model's figures stand close together."""
    wide = width(), colour()
    for build in (table1, table5, table2):
        for scores in judged.scores:
            emit(draw(build(scores), *wide) + "\n")
    if judged.shifts:
        emit(draw(shift_table(judged.shifts, judged.days[0], judged.days[-1]), *wide) + "\n")
    emit(footnotes(judged.scores[0]))


def _write(page: Page, output: Path) -> None:
    output.write_text(render(page), encoding="utf-8")
    note(f"Wrote {output} (open it in a browser).")
