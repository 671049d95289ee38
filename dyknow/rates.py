"""What each fact adds to a rate, and the intervals that follow: facts are drawn anew, their answers go with them.

The module loads numpy, as the statistics do.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from dyknow.resultsfile import run_sql
from dyknow.statistics import LEVEL, Floats, Interval, bootstrap, bootstrap_of_kinds
from kg.resources import query

Key = tuple[str, str, str]
"""A run, a domain or "all", and a measure."""

MANY: Final = 5_000
"""With more facts than these, those that count alike are drawn together."""

RATED: Final = ("up-to-date", "outdated", "irrelevant")
"""Verdicts that stand in a rate."""


class FactRow(NamedTuple):
    """What one fact of a run adds to Tables 1, 5 and 2; None where it is in none of their n."""

    run: str
    domain: str
    fact: str
    verdict: str | None  # under the soft constraint
    surely: bool | None
    possibly: bool | None
    averaged_up_to_date: float | None
    averaged_outdated: float | None
    averaged_irrelevant: float | None
    averaged_surely: float | None
    averaged_possibly: float | None
    inconsistent: bool | None

    @property
    def table1(self) -> tuple[float | None, ...]:
        """What it adds to each of ``MEASURES`` in Table 1."""
        if self.verdict not in RATED:
            return (None,) * len(MEASURES)
        right = self.verdict == "up-to-date"
        return (float(right), float(self.verdict == "outdated"), float(self.verdict == "irrelevant"),
                float(right and bool(self.surely)), float(bool(self.possibly)))  # fmt: skip

    @property
    def table5(self) -> tuple[float | None, ...]:
        """What it adds to the same measures in Table 5."""
        return (self.averaged_up_to_date, self.averaged_outdated, self.averaged_irrelevant, self.averaged_surely,
                self.averaged_possibly)  # fmt: skip


MEASURES: Final = ("up_to_date", "outdated", "irrelevant", "up_to_date_lower", "up_to_date_upper")
"""The rates of Tables 1 and 5."""

TABLE_MEASURES: Final = (*(f"{table} {name}" for table in "15" for name in MEASURES), "2 inconsistent")
"""The rates of Tables 1, 5 and 2, each after its table."""


def fact_rows(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Collection[str] | None = None,
    split: str = "domain",
) -> list[FactRow]:
    """Return what every fact of every run, or of the named ones, adds to the tables as of a day (or "release").

    Split by another part than the domain (see ``dyknow.strata.PARTS``), that stands in its place.

    Raises:
        QueryError: the snapshot is not there, or the judge judged for another day.
    """
    of_runs = None if runs is None else list(runs)
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule, "split": split, "runs": of_runs}
    return [FactRow(*row) for row in run_sql(connection, query("dyknow/fact_rates.sql"), values).rows]


def table_intervals(
    rows: Iterable[FactRow], level: float = LEVEL, facts: Collection[str] | None = None
) -> dict[Key, Interval]:
    """Return the intervals of Tables 1, 5 and 2, in per cent; measures are named as in ``TABLE_MEASURES``.

    Args:
        rows: What each fact adds.
        level: The intervals' level.
        facts: What to draw from, where the rows are of some of the runs only; None: the facts of the rows.
    """
    return intervals(TABLE_MEASURES, map(_added, rows), level, facts)


def _added(row: FactRow) -> tuple[Any, ...]:
    unsure = None if row.inconsistent is None else float(row.inconsistent)
    return (row.run, row.domain, row.fact, *row.table1, *row.table5, unsure)


def asked_facts(connection: duckdb.DuckDBPyConnection, runs: Collection[str]) -> list[str]:
    """Return the facts that some of these runs were asked for, each once and in order: what intervals draw from."""
    statement = "SELECT DISTINCT fact FROM responses WHERE list_contains(CAST($runs AS VARCHAR[]), run) ORDER BY fact"
    return [fact for (fact,) in run_sql(connection, statement, {"runs": list(runs)}).rows]


def tables_intervals(
    connection: duckdb.DuckDBPyConnection, facts: Collection[str], asked: Mapping[str, Any]
) -> dict[Key, Interval]:
    """Return the intervals of Tables 1, 5 and 2 of some runs.

    Args:
        connection: The results.
        facts: What to draw from: those of all runs that stand side by side.
        asked: as_of, known_at, judge, rule, split and the list of runs, as for `fact_rows`.

    Raises:
        QueryError: as for `fact_rows`.
    """
    every = query("dyknow/fact_rates.sql")

    def added(row: Sequence[Any]) -> Sequence[Any]:
        return _added(FactRow._make(row))

    return intervals_of(connection, every, asked, TABLE_MEASURES, facts=facts, added=added)


def intervals_of(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    values: Mapping[str, Any],
    measures: Sequence[str],
    *,
    facts: Collection[str],
    added: Callable[[Sequence[Any]], Sequence[Any]] = tuple,
) -> dict[Key, Interval]:
    """Return the intervals of what a statement returns of each fact; DuckDB counts those alike where there are many.

    Args:
        connection: The results.
        statement: It returns run, domain and fact, and what the fact adds.
        values: What is bound to it.
        measures: As for `intervals`.
        facts: What to draw from: those of all runs that stand side by side.
        added: Turns a row into one of `intervals`.

    Raises:
        QueryError: the statement is refused.
    """
    if len(facts) <= MANY:
        return intervals(measures, map(added, run_sql(connection, statement, values).rows), facts=facts)
    counted = (
        f"SELECT f.* REPLACE (min(f.fact) AS fact), count(*) AS times FROM ({statement.rstrip().rstrip(';')}) AS f"
        " GROUP BY ALL ORDER BY run, min(f.fact)"
    )
    kinds = ((added(row), times) for *row, times in run_sql(connection, counted, values).rows)
    return _of_kinds(measures, kinds, len(facts), LEVEL)


def intervals(
    measures: Sequence[str],
    rows: Iterable[Sequence[Any]],
    level: float = LEVEL,
    facts: Collection[str] | None = None,
) -> dict[Key, Interval]:
    """Return the interval of the mean of each measure, in per cent, by run and domain and over all domains.

    All share their resamples, so that what is compared between runs is compared on the same facts.

    Args:
        measures: Names of what the rows hold.
        rows: Run, domain and fact, then for each measure what the fact adds, 0 to 1, or None where it does not count.
        level: The intervals' level.
        facts: What to draw from; None: the facts of the rows. Equal facts give equal resamples, whatever the rows.

    Returns:
        An interval for every run, domain and measure of which a fact counts.
    """
    rows = list(rows)
    facts = {row[2] for row in rows} if facts is None else facts
    if len(facts) > MANY:
        return _of_kinds(measures, ((row, 1) for row in rows), len(facts), level)
    keys, hits, counted = _columns(measures, rows, sorted(facts))
    if not keys:
        return {}
    bounds = 100 * bootstrap(hits, counted, level=level)
    return {
        key: Interval(float(lower), float(upper))
        for key, lower, upper in zip(keys, *bounds, strict=True)
        if not math.isnan(lower)
    }


def _of_kinds(
    measures: Sequence[str], rows: Iterable[tuple[Sequence[Any], int]], facts: int, level: float
) -> dict[Key, Interval]:
    """Return the same intervals, with facts that count alike drawn together: what is drawn for each key is its own.

    Args:
        measures: As for `intervals`.
        rows: Likewise, each with how many facts add the same to the same run and domain.
        facts: How many there are to draw from.
        level: Likewise.
    """
    kinds: dict[tuple[str, str], Counter[tuple[float | None, ...]]] = defaultdict(Counter)
    for (run, domain, _, *values), times in rows:
        kinds[run, domain][tuple(values)] += times
        kinds[run, "all"][tuple(values)] += times
    found = {}
    for (run, domain), own in kinds.items():
        added = np.array(list(own), dtype=np.float64).reshape(len(own), len(measures))  # None becomes nan
        counted, often = (~np.isnan(added)).astype(np.float64), np.array(list(own.values()), dtype=np.float64)
        bounds = 100 * bootstrap_of_kinds(np.nan_to_num(added), counted, often, facts, level=level)
        for measure, lower, upper in zip(measures, *bounds, strict=True):
            if not math.isnan(lower):
                found[run, domain, measure] = Interval(float(lower), float(upper))
    return found


def _columns(
    measures: Sequence[str], rows: Sequence[Sequence[Any]], facts: Sequence[str]
) -> tuple[list[Key], Floats, Floats]:
    """Return the columns' keys, and hits and counts of shape (facts, columns)."""
    runs = sorted({row[0] for row in rows})
    domains = ["all", *sorted({row[1] for row in rows})]
    places = [{name: at for at, name in enumerate(names)} for names in (runs, domains, facts)]
    added = np.full((len(facts), len(runs), len(domains), len(measures)), np.nan)
    for run, domain, fact, *values in rows:
        own = [np.nan if value is None else value for value in values]
        added[places[2][fact], places[0][run], [0, places[1][domain]]] = own
    flat = added.reshape(len(facts), len(runs) * len(domains) * len(measures))
    counted = ~np.isnan(flat)
    keys = [(run, domain, measure) for run in runs for domain in domains for measure in measures]
    return keys, np.nan_to_num(flat), counted.astype(np.float64)
