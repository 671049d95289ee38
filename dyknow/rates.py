"""What each fact adds to a rate, and the intervals that follow: facts are drawn anew, their answers go with them.

The module loads numpy, as the statistics do.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
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
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule, "split": split}
    rows = run_sql(connection, query("dyknow/fact_rates.sql"), values).rows
    return [FactRow(*row) for row in rows if runs is None or row[0] in runs]


def table_intervals(rows: Iterable[FactRow], level: float = LEVEL) -> dict[Key, Interval]:
    """Return the intervals of Tables 1, 5 and 2, in per cent; measures are named as in ``TABLE_MEASURES``."""

    def added() -> Iterable[tuple[Any, ...]]:
        for row in rows:
            unsure = None if row.inconsistent is None else float(row.inconsistent)
            yield (row.run, row.domain, row.fact, *row.table1, *row.table5, unsure)

    return intervals(TABLE_MEASURES, added(), level)


def intervals(measures: Sequence[str], rows: Iterable[Sequence[Any]], level: float = LEVEL) -> dict[Key, Interval]:
    """Return the interval of the mean of each measure, in per cent, by run and domain and over all domains.

    All share their resamples, so that what is compared between runs is compared on the same facts.

    Args:
        measures: Names of what the rows hold.
        rows: Run, domain and fact, then for each measure what the fact adds, 0 to 1, or None where it does not count.
        level: The intervals' level.

    Returns:
        An interval for every run, domain and measure of which a fact counts.
    """
    rows = list(rows)
    if len({row[2] for row in rows}) > MANY:
        return _of_many(measures, rows, level)
    keys, hits, counted = _columns(measures, rows)
    if not keys:
        return {}
    bounds = 100 * bootstrap(hits, counted, level=level)
    return {
        key: Interval(float(lower), float(upper))
        for key, lower, upper in zip(keys, *bounds, strict=True)
        if not math.isnan(lower)
    }


def _of_many(measures: Sequence[str], rows: Sequence[Sequence[Any]], level: float) -> dict[Key, Interval]:
    """Return the same intervals, with facts that count alike drawn together: what is drawn for each key is its own."""
    facts = len({row[2] for row in rows})
    kinds: dict[tuple[str, str], Counter[tuple[float | None, ...]]] = defaultdict(Counter)
    for run, domain, _, *values in rows:
        kinds[run, domain][tuple(values)] += 1
        kinds[run, "all"][tuple(values)] += 1
    found = {}
    for (run, domain), own in kinds.items():
        added = np.array(list(own), dtype=np.float64).reshape(len(own), len(measures))  # None becomes nan
        counted, times = (~np.isnan(added)).astype(np.float64), np.array(list(own.values()), dtype=np.float64)
        bounds = 100 * bootstrap_of_kinds(np.nan_to_num(added), counted, times, facts, level=level)
        for measure, lower, upper in zip(measures, *bounds, strict=True):
            if not math.isnan(lower):
                found[run, domain, measure] = Interval(float(lower), float(upper))
    return found


def _columns(measures: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[Key], Floats, Floats]:
    """Return the columns' keys, and hits and counts of shape (facts, columns)."""
    runs, facts = (sorted({row[at] for row in rows}) for at in (0, 2))
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
