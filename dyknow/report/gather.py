"""Gathers what a report shows from the results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from dyknow import knowledge, timeline
from dyknow.analysis import Mass, mass
from dyknow.report import data as shown
from dyknow.report import popularity
from dyknow.report.data import Data, Known, Model, Rows, Source, Spread
from dyknow.report.days import iso, stops
from dyknow.report.rates import Figures, figures
from dyknow.resultsfile import run_sql
from kg.errors import QueryError, UsageError
from kg.resources import query

Progress = Callable[[str], None]


def gather(
    connection: duckdb.DuckDBPyConnection,
    snapshots: Sequence[Source],
    days: Sequence[str],
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    records: Mapping[str, Mapping[str, Any]] | None = None,
) -> Data:
    """Return what a report shows.

    Args:
        connection: the results.
        snapshots: all there are, by date.
        days: the days asked about, ISO; the page opens at the last.
        known_at: the one snapshot to believe.
        judge: who reads the answers; for another than the matcher the days asked about are the only stops.
        rule: 'latest' or 'study'.
        runs: names of runs; None for all.
        records: what each run says of itself.

    A run without a single answer is shown among the beliefs alone.

    Raises:
        UsageError: there is no such run or snapshot, or none of the runs has an answer.
        QueryError: the judge did not judge for these days.
    """
    chosen = _snapshots(connection, snapshots, days, known_at)
    spanning = timeline.base(connection, known_at).snapshot
    models, silent = _told_apart(_models(connection, runs, spanning, records or {}, judge=judge, rule=rule), connection)
    names, scored = [model.run for model in models], [model.run for model in (*models, *silent)]
    facts, answers, histories = shown.read(connection, names, chosen, rule)
    every = stops(models, days, [source.id for source in chosen])
    if judge != "match":
        every = tuple(sorted(set(days)))
        answers = shown.judged(connection, answers, names, every, known_at=known_at, judge=judge, rule=rule)
    values = {"as_of": days[-1], "known_at": known_at, "judge": judge, "rule": rule}
    return Data(
        models=tuple(models),
        facts=facts,
        answers=answers,
        histories=histories,
        days=tuple(days),
        stops=every,
        known_at=known_at,
        judge=judge,
        rule=rule,
        silent=tuple(silent),
        masses={day: found for day in days if (found := _masses(connection, day, known_at, rule, scored))},
        spreads=_spreads(connection, spanning, judge, names),
        popular=popularity.read(connection, days, known_at, judge=judge, rule=rule, runs=names),
        alignment=_alignment(connection, values, runs),
    )


def tables(data: Data, progress: Progress | None = None) -> list[Figures]:
    """Return the rates by each snapshot."""
    if progress and len(data.answers) * len(data.stops) > 100_000:
        progress(f"Working out {len(data.stops)} dates ...")
    return [figures(data, place) for place in range(len(data.histories))]


def _snapshots(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Source], days: Sequence[str], known_at: str | None
) -> list[Source]:
    """Return the snapshots the page needs: those the days rest on, the one with the whole histories, and the newest."""
    if known_at is not None:
        wanted = {known_at}
        if known_at not in {source.id for source in snapshots}:
            known = ", ".join(source.id for source in snapshots)
            raise UsageError(f"There is no snapshot {known_at}.", hint=f"Snapshots: {known}.")
    else:
        newest = snapshots[-1].id
        wanted = {next((source.id for source in snapshots if source.id >= day), newest) for day in days}
        wanted |= {timeline.base(connection).snapshot, newest}
    return [source for source in snapshots if source.id in wanted]


def _models(
    connection: duckdb.DuckDBPyConnection, runs: Sequence[str] | None, snapshot: str,
    records: Mapping[str, Mapping[str, Any]], *, judge: str, rule: str,
) -> list[Model]:  # fmt: skip
    found = shown.models_of(connection, runs)
    names = [model.run for model in found]
    try:
        known = {one.run: one for one in knowledge.estimates(connection, snapshot, judge=judge, rule=rule, runs=names)}
    except QueryError:  # a judge who gives verdicts and names nobody
        known = {}
    return [
        replace(model, info=records.get(model.run, {}), known=_known(known.get(model.run)))
        for model in found
    ]  # fmt: skip


def _told_apart(
    models: Sequence[Model], connection: duckdb.DuckDBPyConnection
) -> tuple[list[Model], list[Model]]:  # fmt: skip
    """Return the models of runs with answers, and those of runs without any."""
    statement = "SELECT DISTINCT run FROM responses WHERE status <> 'unanswered'"
    answered = {row[0] for row in run_sql(connection, statement).rows}
    found = [model for model in models if model.run in answered]
    if models and not found:
        raise UsageError(
            f"No answer is there to report on: {', '.join(model.run for model in models)}.",
            hint="What holders were scored by likelihood shows: dyknow score --as-of today --table beliefs",
        )
    return found, [model for model in models if model.run not in answered]


def _known(one: knowledge.KnowledgeDate | None) -> Known | None:
    return Known(iso(one.day), iso(one.lower), iso(one.upper)) if one else None


def _masses(
    connection: duckdb.DuckDBPyConnection, day: str, known_at: str | None, rule: str, runs: Sequence[str]
) -> list[Mass]:
    scored = {row[0] for row in run_sql(connection, "SELECT DISTINCT run FROM likelihoods").rows} & set(runs)
    if not scored:
        return []
    try:
        return mass(connection, day, known_at, rule=rule, runs=sorted(scored))
    except UsageError:  # scored holders of facts that are not covered on that day
        return []


def _spreads(
    connection: duckdb.DuckDBPyConnection, snapshot: str, judge: str, runs: Sequence[str]
) -> tuple[Spread, ...]:
    found = timeline.years(connection, snapshot, judge=judge, runs=runs)
    order = {run: place for place, run in enumerate(runs)}
    boxes = [
        Spread(one.run, one.n, one.minimum, one.lower, one.median, one.upper, one.maximum)
        for one in found
        if one.domain == timeline.ALL
    ]
    return tuple(sorted(boxes, key=lambda box: order[box.run]))


def _alignment(
    connection: duckdb.DuckDBPyConnection, values: Mapping[str, Any], runs: Sequence[str] | None
) -> Rows | None:
    """Return what edits and retrieval achieved, where any run is of a model that was brought up to date."""
    edited = [str(run) for (run,) in run_sql(connection, "SELECT DISTINCT run FROM edits ORDER BY run").rows]
    wanted = [run for run in edited if runs is None or run in runs]
    if not wanted:
        return None
    table = run_sql(connection, query("dyknow/report_edits.sql"), {**values, "runs": wanted})
    return Rows(table.columns, tuple(table.rows))
