"""How up to date models are on what is little known and on what is famous, where a benchmark tells of popularity."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import duckdb

from dyknow.analysis import Rates, score
from dyknow.resultsfile import run_sql
from dyknow.strata import arranged
from dyknow.trends import Trend, trends_of


class Popular(NamedTuple):
    """One run on one day: its rates in each bin of popularity, the least popular first, and their trend."""

    run: str
    bins: tuple[Rates, ...]  # by a fact's best phrasing, with intervals; of those bins in which a fact counts
    trend: Trend | None


def read(
    connection: duckdb.DuckDBPyConnection,
    days: Sequence[str],
    known_at: str | None,
    *,
    judge: str,
    rule: str,
    runs: Sequence[str],
) -> Mapping[str, tuple[Popular, ...]]:
    """Return rates by popularity for each day, of the runs whose benchmarks tell of it; nothing where none does."""
    told = {row[0] for row in run_sql(connection, "SELECT DISTINCT run FROM strata WHERE sitelinks IS NOT NULL").rows}
    if not (chosen := [run for run in runs if run in told]):
        return {}
    found = {}
    for day in dict.fromkeys(days):
        scores = score(connection, day, known_at, judge=judge, rule=rule, runs=chosen, split="popularity")
        trends = {one.run: one for one in trends_of(connection, scores, known_at)}
        rows = [row for row in arranged(scores.table1) if row.n and row.domain != "all"]
        own = {run: tuple(row for row in rows if row.run == run) for run in chosen}
        found[day] = tuple(Popular(run, bins, trends.get(run)) for run, bins in own.items() if bins)
    return {day: own for day, own in found.items() if own}
