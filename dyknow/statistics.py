"""Intervals and tests that respect the data: a fact's phrasings and samples are one cluster.

Facts are what is drawn, so facts are what is drawn again: each resample takes as many facts as there are, with
replacement, and with a fact all of its answers. Sources: Efron, "Bootstrap methods: another look at the jackknife",
1979 (percentile interval; Efron & Tibshirani, 1993, chapter 13); Clopper & Pearson, 1934 (exact bounds where hits or
misses are few: unlike Wilson's, 1927, they never hold the truth less often than they say); McNemar, 1947 (exact form);
Holm, 1979.

The module loads numpy: import it inside functions where the command line's start would feel it.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS: Final = 2000
"""Resamples; their own error in a bound is about a tenth of the interval's half-width."""
LEVEL: Final = 0.95
FEW: Final = 5
"""Below so many facts' worth of hits, or of misses, resampled facts say too little about the rest."""

_CELLS: Final = 4_000_000  # numbers held at once: 32 MB


class Interval(NamedTuple):
    """Both bounds of an interval, in the unit of what it is about."""

    lower: float
    upper: float


class Difference(NamedTuple):
    """The second of two shares less the first, on the same facts."""

    value: float
    lower: float
    upper: float
    p: float  # two-sided: how sure the resamples are of its sign


def resamples(facts: int, draws: int = DRAWS, seed: int = 0) -> Iterator[Floats]:
    """Yield how often each fact is drawn, in blocks of shape (some draws, facts); each row adds up to ``facts``.

    Equal arguments give equal numbers, so two callers share their resamples.
    """
    generator = np.random.default_rng(seed)
    at_once = max(1, min(draws, _CELLS // max(1, facts)))
    for first in range(0, draws, at_once):
        rows = min(at_once, draws - first)
        drawn = generator.integers(facts, size=(rows, facts)) + facts * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * facts).reshape(rows, facts).astype(np.float64)


def bootstrap(
    hits: Floats,
    counted: Floats,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
    *,
    alike: bool = True,
) -> Floats:
    """Return the percentile interval of many shares, sum(hits) / sum(counted), over facts drawn with replacement.

    Where hits or misses amount to fewer than five facts, the interval is no narrower than Clopper and Pearson's exact
    one with the counted facts as n (hits rounded down for its lower and up for its upper bound): resamples of a share
    of 0 or 100 per cent do not vary at all.

    Args:
        hits: Shape (F, K): how much of each fact is a hit for each of K shares, from 0 to what is counted of it.
        counted: Shape (F, K): how much of the fact counts; 0 where it stands in no denominator.
        draws: How many resamples, shared by all columns.
        seed: Equal seeds give equal intervals.
        level: The interval's level.
        alike: What is counted of one fact rises and falls together, as a model's knowledge does, so that the exact
            interval has as many trials as facts. Readers' slips do not: then it has as many as there is counted.

    Returns:
        Shape (2, K): lower and upper bounds, from 0 to 1; nan where nothing is counted.
    """
    hits, counted = (np.asarray(values, dtype=np.float64) for values in (hits, counted))
    facts, columns = hits.shape
    found = np.full((2, columns), np.nan)
    at_once = max(1, _CELLS // (2 * max(draws, facts)))
    for first in range(0, columns if facts else 0, at_once):
        part = slice(first, first + at_once)
        found[:, part] = _quantiles(_shares(hits[:, part], counted[:, part], draws, seed), level)
    trials = np.count_nonzero(counted, axis=0) if alike else counted.sum(axis=0)
    return _no_narrower(found, hits, counted, trials, level)


def bootstrap_of_kinds(
    hits: Floats,
    counted: Floats,
    times: Floats,
    facts: int,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
) -> Floats:
    """Return the same intervals for many facts that are of few kinds, in the time the kinds take.

    Facts that count alike can be exchanged in a resample, so how often each kind is drawn is multinomial, and no fact
    need be drawn by itself.

    Args:
        hits: Shape (U, K): as for ``bootstrap``, of one fact of each kind.
        counted: Shape (U, K): likewise.
        times: Shape (U,): how many facts are of each kind.
        facts: How many facts there are to draw from; those of no kind here count for nothing.
        draws: How many resamples.
        seed: Equal seeds give equal intervals.
        level: The interval's level.

    Returns:
        Shape (2, K): as for ``bootstrap``.
    """
    generator = np.random.default_rng(seed)
    chances = np.append(times, facts - times.sum()) / facts
    both = np.concatenate([hits, counted], axis=1)
    at_once = max(1, _CELLS // len(chances))
    sizes = [min(at_once, draws - first) for first in range(0, draws, at_once)]
    sums = np.concatenate([generator.multinomial(facts, chances, size=size)[:, :-1] @ both for size in sizes])
    every = hits * times[:, None], counted * times[:, None]
    trials = ((counted > 0) * times[:, None]).sum(axis=0)
    return _no_narrower(_quantiles(_ratios(sums), level), *every, trials, level)


def _shares(hits: Floats, counted: Floats, draws: int, seed: int) -> Floats:
    """Return the shares of each resample, shape (draws, K); nan where a resample has nothing that counts."""
    both = np.concatenate([hits, counted], axis=1)
    sums = np.concatenate([weights @ both for weights in resamples(len(hits), draws, seed)])
    return _ratios(sums)


def _ratios(sums: Floats) -> Floats:
    """Return the first half of the columns by the second half; nan where there is nothing to divide by."""
    above, below = np.split(sums, 2, axis=1)
    shares: Floats = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return shares


def _quantiles(values: Floats, level: float) -> Floats:
    """Return the two quantiles of each column, shape (2, K), of what is a number in it; nan where nothing is."""
    tails = ((1 - level) / 2, (1 + level) / 2)
    missing = np.isnan(values)
    found: Floats = np.quantile(values, tails, axis=0)
    for column in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
        found[:, column] = np.quantile(values[~missing[:, column], column], tails)
    return found


def _no_narrower(found: Floats, hits: Floats, counted: Floats, facts: Floats, level: float) -> Floats:
    """Return intervals widened to the exact ones of so many trials where hits or misses are few."""
    below = counted.sum(axis=0)
    worth = np.divide(hits.sum(axis=0) * facts, below, out=np.zeros_like(below), where=below > 0)
    for column in np.flatnonzero((facts > 0) & (np.minimum(worth, facts - worth) < FEW)):
        lower, upper = clopper_pearson(float(worth[column]), int(facts[column]), level)
        found[0, column] = min(found[0, column], lower)
        found[1, column] = max(found[1, column], upper)
    return found


def clopper_pearson(hits: float, n: int, level: float = LEVEL) -> Interval:
    """Return the exact interval of a share of n; a fraction of a hit is rounded outwards.

    >>> [round(bound, 4) for bound in clopper_pearson(0, 28)]
    [0.0, 0.1234]
    """
    tail = (1 - level) / 2
    least, most = _outwards(hits)
    return Interval(1 - _upper(n - least, n, tail), _upper(most, n, tail))


def _outwards(hits: float) -> tuple[int, int]:
    near = round(hits)
    if abs(hits - near) < 1e-9:  # thirds do not add up exactly
        return near, near
    return int(hits), int(hits) + 1


@lru_cache(maxsize=4096)
def _upper(hits: int, n: int, tail: float) -> float:
    """Return the share under which at most so many hits of n have a probability of ``tail``."""
    if hits >= n:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(hits, n, middle) > tail else (low, middle)
    return high


def _at_most(hits: int, n: int, share: float) -> float:
    """Return the probability of at most so many hits of n; the shorter of both tails is added up."""
    if 2 * hits > n:
        return 1.0 - _at_most(n - hits - 1, n, 1.0 - share) if hits < n else 1.0
    ways = math.lgamma(n + 1)
    logs = (
        ways - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(share) + (n - k) * math.log1p(-share)
        for k in range(hits + 1)
    )
    return math.fsum(map(math.exp, logs))


def paired_bootstrap(
    first: Floats,
    second: Floats,
    counted: Floats,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
) -> list[Difference | None]:
    """Return how far the second of two shares of the same facts lies above the first, column by column.

    Args:
        first: Shape (F, K): hits of the first, as for ``bootstrap``.
        second: Hits of the second.
        counted: What counts of each fact, for both.
        draws: How many resamples; both are resampled alike.
        seed: Equal seeds give equal intervals.
        level: The interval's level.

    Returns:
        One a column: the difference, its percentile interval, and p: twice the smaller share of resamples (one added to
        each count) on either side of 0. Where the resamples do not vary, as when the two never differ, the interval
        reaches as far as Clopper and Pearson's does for none of the n facts. None where nothing is counted.
    """
    first, second, counted = (np.asarray(values, dtype=np.float64) for values in (first, second, counted))
    gain = second - first
    at_once = max(1, _CELLS // (2 * max(draws, len(gain))))
    found: list[Difference | None] = []
    for start in range(0, gain.shape[1], at_once):
        part = slice(start, start + at_once)
        found += _differences(gain[:, part], counted[:, part], draws, seed, level)
    return found


def _differences(gain: Floats, counted: Floats, draws: int, seed: int, level: float) -> list[Difference | None]:
    if not len(gain):
        return [None] * gain.shape[1]
    drawn = _shares(gain, counted, draws, seed)
    bounds = _quantiles(drawn, level)
    facts, below = np.count_nonzero(counted, axis=0), counted.sum(axis=0)
    found: list[Difference | None] = []
    for column, n in enumerate(facts):
        if not n:
            found.append(None)
            continue
        value = float(gain[:, column].sum() / below[column])
        lower, upper = (float(bound) for bound in bounds[:, column])
        if lower == upper:
            room = _upper(0, int(n), (1 - level) / 2)
            lower, upper = max(-1.0, value - room), min(1.0, value + room)
        kept = drawn[~np.isnan(drawn[:, column]), column]
        side = min(np.count_nonzero(kept <= 0), np.count_nonzero(kept >= 0))
        found.append(Difference(value, lower, upper, min(1.0, 2 * (int(side) + 1) / (len(kept) + 1))))
    return found


def mcnemar(b: int, c: int) -> float:
    """Return the exact two-sided p of McNemar's test: b facts for the first alone, c for the second alone.

    It is the probability that a fair coin falls at least so unevenly in b + c throws.

    >>> mcnemar(0, 5), mcnemar(3, 3)
    (0.0625, 1.0)
    """
    n = b + c
    term = total = 1
    for k in range(min(b, c)):
        term = term * (n - k) // (k + 1)
        total += term
    return float(min(1.0, 2 * total / 2**n))


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    found = [1.0] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        found[index] = largest
    return found
