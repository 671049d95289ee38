"""How up-to-dateness rises or falls with popularity: one figure a run, and the outer bins against each other.

The figure is the slope of the least-squares line of "up-to-date" (0 or 1, the soft constraint) on log10(1 + sitelinks):
by how many points the rate is higher for each tenfold of popularity. It needs no bins. Its interval is the bootstrap's
over facts (Efron, 1979), its test that of Cochran (1954) and Armitage (1955) for a trend in proportions with the same
scores. The difference of the outer bins has Newcombe's interval for two independent proportions (1998, method 10).
"""

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from dyknow.analysis import Scores
from dyknow.parts import by_parts, parts
from dyknow.resultsfile import run_sql
from dyknow.strata import in_order
from dyknow.tabulation import ANSWERS_AT_ONCE, Asked, kept_verdicts
from kg.resources import query

if TYPE_CHECKING:
    from dyknow.statistics import Interval

ENOUGH: Final = 20
"""Facts from which a bin is held against another."""

_NORMAL: Final = 1.959963984540054
"""The quantile of the normal distribution that leaves 2.5 % on either side."""


class Kind(NamedTuple):
    """Facts of one popularity, and how many of them are up-to-date."""

    sitelinks: int
    popularity: str  # the bin
    n: int
    up_to_date: int


class Trend(NamedTuple):
    """How a run's up-to-dateness goes with popularity, over n facts whose popularity is known; rates in points."""

    run: str
    n: int
    per_tenfold: float | None  # None where all are equally popular
    per_tenfold_interval: "Interval | None"  # None also where fewer than five facts are, or are not, up-to-date
    p: float | None  # Cochran and Armitage, two-sided; not corrected for the number of runs
    low: str | None  # the bin of the least popular, of the bins of ``ENOUGH`` facts; None where these are not two
    high: str | None
    low_n: int
    high_n: int
    difference: float | None  # the rate of the high bin less that of the low one
    difference_interval: "Interval | None"


def trends_of(connection: duckdb.DuckDBPyConnection, scores: Scores, known_at: str | None = None) -> list[Trend]:
    """Return the trends that belong to tables: none where they are not split by popularity.

    Raises:
        QueryError: as for `trends`.
        TooLarge: as for `trends`.
    """
    if scores.split != "popularity":
        return []
    asked = Asked(scores.as_of, known_at, scores.judge, scores.rule)
    return trends(connection, asked, {row.run for row in scores.table1})


def trends(connection: duckdb.DuckDBPyConnection, asked: Asked, runs: Collection[str]) -> list[Trend]:
    """Return the trend of each of these runs that knows how popular its facts are, by run.

    Raises:
        QueryError: the snapshot is not there, or the judge judged for another day.
        TooLarge: one run by itself does not fit in memory.
    """

    def made(part: list[str]) -> list[Trend]:
        with kept_verdicts(connection, part, asked):
            rows = run_sql(connection, query("dyknow/popular.sql"), {**asked.values, "runs": part}).rows
        return [trend(run, [Kind(*row[1:]) for row in own]) for run, own in groupby(rows, key=lambda row: row[0])]

    found = by_parts(parts(connection, runs, ANSWERS_AT_ONCE), made)
    return sorted((one for own in found for one in own), key=lambda one: one.run)


def trend(run: str, kinds: Sequence[Kind]) -> Trend:
    """Return the trend over facts, given how many are of each popularity."""
    n = sum(kind.n for kind in kinds)
    slope, p = _slope(kinds)
    totals = {name: _total(kinds, name) for name in in_order(list({kind.popularity for kind in kinds}))}
    names = [name for name, (count, _) in totals.items() if count >= ENOUGH]
    several = len(names) > 1
    low, high = (totals[names[place]] if several else (0, 0) for place in (0, -1))
    return Trend(
        run,
        n,
        None if slope is None else 100 * slope,
        None if slope is None else _bounds(kinds),
        p,
        names[0] if several else None,
        names[-1] if several else None,
        low[0],
        high[0],
        100 * (high[1] / high[0] - low[1] / low[0]) if several else None,
        _newcombe(low, high) if several else None,
    )


def _total(kinds: Iterable[Kind], name: str) -> tuple[int, int]:
    own = [kind for kind in kinds if kind.popularity == name]
    return sum(kind.n for kind in own), sum(kind.up_to_date for kind in own)


def _slope(kinds: Sequence[Kind]) -> tuple[float | None, float | None]:
    """Return the slope and the p of the test for a trend; None where all facts are alike in popularity."""
    n, hits = sum(kind.n for kind in kinds), sum(kind.up_to_date for kind in kinds)
    scores = [math.log10(1 + kind.sitelinks) for kind in kinds]
    mean, rate = math.fsum(kind.n * x for kind, x in zip(kinds, scores, strict=True)) / n, hits / n
    spread = math.fsum(kind.n * (x - mean) ** 2 for kind, x in zip(kinds, scores, strict=True))
    if len(kinds) < 2 or spread <= 0:
        return None, None
    together = math.fsum(kind.up_to_date * (x - mean) for kind, x in zip(kinds, scores, strict=True))
    # The test's statistic is n times the square of the correlation, and chi-squared with one degree of freedom.
    varies = rate * (1 - rate)
    p = math.erfc(math.sqrt(together**2 / (spread * varies) / 2)) if varies else 1.0
    return together / spread, p


def _bounds(kinds: Sequence[Kind]) -> "Interval | None":
    """Return the bootstrap's interval of the slope, in points; facts that are alike are drawn together."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    from dyknow.statistics import DRAWS, FEW, LEVEL, Interval  # noqa: PLC0415 -- as above

    hits, n = (np.array([getattr(kind, name) for kind in kinds], dtype=np.float64) for name in ("up_to_date", "n"))
    if min(hits.sum(), (n - hits).sum()) < FEW:
        return None
    x = np.log10(1 + np.array([kind.sitelinks for kind in kinds], dtype=np.float64))
    generator = np.random.default_rng(0)
    chances = np.concatenate([hits, n - hits]) / n.sum()
    drawn = generator.multinomial(int(n.sum()), chances, size=DRAWS).astype(np.float64)  # (draws, 2 kinds)
    right, every = drawn[:, : len(x)], drawn[:, : len(x)] + drawn[:, len(x) :]
    mean = every @ x / n.sum()
    spread = every @ x**2 - n.sum() * mean**2
    together = right @ x - right.sum(axis=1) * mean
    slopes = 100 * together[spread > 1e-9] / spread[spread > 1e-9]
    lower, upper = np.quantile(slopes, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(lower), float(upper))


def _newcombe(low: tuple[int, int], high: tuple[int, int]) -> "Interval":
    """Return the interval of the difference of two rates, each of n facts and hits, in points."""
    from dyknow.statistics import Interval  # noqa: PLC0415 -- as above

    (a, a_least, a_most), (b, b_least, b_most) = _wilson(*high), _wilson(*low)
    below, above = math.hypot(a - a_least, b_most - b), math.hypot(a_most - a, b - b_least)
    return Interval(100 * (a - b - below), 100 * (a - b + above))


def _wilson(n: int, hits: int) -> tuple[float, float, float]:
    """Return a rate and the bounds of its score interval (Wilson, 1927)."""
    rate, z = hits / n, _NORMAL
    middle, half = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return rate, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def trend_row(one: Trend) -> dict[str, Any]:
    """Return a trend for JSON, figures rounded: points with one decimal, p with six digits that count."""
    values = one._asdict()
    for name in ("per_tenfold", "difference"):
        interval = values[f"{name}_interval"]
        values[name] = None if values[name] is None else round(values[name], 1)
        values[f"{name}_interval"] = None if interval is None else [round(bound, 1) for bound in interval]
    return values | {"p": None if one.p is None else float(f"{one.p:.6g}")}
