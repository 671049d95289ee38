"""The date a model answers from, estimated by likelihood from the validity of the entities it names.

The world gives, for each day, the probability that an entity leads a fact: 1 while its standing is certain, a straight
line from 0 to 1 over a span inside which precision hides the day of a change (interval censoring, the day uniform in
the span). A model whose newest knowledge is of day D answers each fact as the world stood a lag before D, the lag being
exponential. A share of its answers runs ahead (elections and transfers are known before the day of office), a share is
stale (a lag of years) and a share random (any holder of the fact, alike):

    P(e | D) = (1 - ahead - stale - random) E W_e(D - L) + ahead E W_e(D + A) + stale E W_e(D - S) + random / holders

with L ~ Exp(lag), A ~ Exp(90 days) and S ~ Exp(5 years).

Facts are clusters: of n answers that name somebody a fact has n / (1 + 0.7 (n - 1)) votes, one for one answer and never
more than 1.43 (a composite likelihood, its weights those of n answers correlated by 0.7). The nuisances lag, ahead,
stale and random are integrated out over a grid that is even in their logarithms (an integrated likelihood: Berger,
Liseo and Wolpert 1999, Statistical Science 14:1-28), and the interval is the shortest that holds 95 % of what
remains, as a function of D alone. ``docs/method.md`` says why, and how often it holds the truth.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb

from dyknow.results import run_sql
from dyknow.timeline import as_date, as_day, base
from kg.dates import Day
from kg.errors import UsageError
from kg.resources import query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVEL: Final = 0.95
STEP: Final = 7
"""Days between two dates that are tried."""
CORRELATION: Final = 0.7
"""How much the answers to the phrasings of one fact say the same, beside what the date makes them say."""
WORLD_YEARS: Final = 40
"""How far back the world is known to the estimate; what led then has led ever since."""
REACH_YEARS: Final = 25
"""How far before the snapshot a model may answer from."""

LAGS: Final = (6.0, 15.0, 40.0, 110.0, 300.0, 800.0, 2100.0)
"""Mean lags that are tried, in days."""
AHEAD: Final = (0.02, 0.07, 0.25)
"""Shares of answers that run ahead, of those to facts whose next holder is about to come."""
STALE: Final = (0.01, 0.05, 0.25)
RANDOM: Final = (0.005, 0.03, 0.15)
AHEAD_DAYS: Final = 90.0
"""Mean days from the news that somebody will come to the day of office; between a vote and an office lie two or three
months, between a transfer's announcement and the transfer weeks."""
STALE_DAYS: Final = 1826.0
"""Mean lag of stale answers: among the earlier holders of a fact their share falls from one to the one before."""

_COARSE: Final = 8  # steps between two dates of the first pass
_NEGLIGIBLE: Final = 12.0  # natural logarithm of how much less likely a date is than the likeliest to be passed over


class KnowledgeDate(NamedTuple):
    """The date a run answers from, with its 95 % interval."""

    run: str
    day: Day  # the likeliest
    lower: Day
    upper: Day
    lag: float  # mean lag of its answers behind that day, in days (mean over the integrated likelihood, of logarithms)
    ahead: float  # share of answers that would name a successor before the day of office
    stale: float  # share of answers from years before
    random: float  # share of answers that name anyone
    n_facts: int  # facts that vote
    n_answers: int  # answers they were asked for that name a holder
    log_likelihood: float  # integrated, at the likeliest day
    snapshot: str
    at_end: bool  # the interval reaches the snapshot's day: the model may know what the snapshot does not

    @property
    def leak(self) -> float:
        """The share of answers that do not follow the date."""
        return self.ahead + self.stale + self.random


class World(NamedTuple):
    """Who leads each fact when, week by week: T weeks, H pairs of a fact and a holder."""

    snapshot: str
    days: tuple[Day, ...]  # [T]
    holders: Mapping[tuple[str, str], int]  # (fact, entity) -> row
    facts: tuple[str, ...]  # [H], the fact of each row
    leading: "Array"  # [H, T], probability that the holder leads; of each fact they add up to 1 once anyone has led
    coming: "Array"  # [H, T], probability that it leads an exponential time of 90 days later
    stale: "Array"  # [H, T], probability that it led an exponential time of five years before
    random: "Array"  # [H], one over the number of holders of the fact


class Answers(NamedTuple):
    """What one run's answers come to: N rows of the world, each with its share of its fact's votes."""

    rows: "NDArray[np.intp]"  # [N]
    weights: "Array"  # [N]
    n_facts: int
    n_answers: int


def world(connection: duckdb.DuckDBPyConnection, known_at: str | None = None, rule: str = "latest") -> World:
    """Return who leads each fact when, as one snapshot has it.

    Raises:
        QueryError: there is no such snapshot.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    snapshot = base(connection, known_at)
    last = as_date(snapshot.day).toordinal()
    ordinals = np.arange(last - round(WORLD_YEARS * 365.25) // STEP * STEP, last + 1, STEP)
    values = {"known_at": snapshot.snapshot, "rule": rule}
    stretches: dict[tuple[str, str], list[tuple[int, int | None, int | None]]] = defaultdict(list)
    for fact, entity, *stretch in run_sql(connection, query("dyknow/leading.sql"), values).rows:
        stretches[fact, entity].append((stretch[0], stretch[1], stretch[2]))
    holders = {pair: row for row, pair in enumerate(stretches)}
    leading = np.array([_leads(own, ordinals) for own in stretches.values()]).reshape(len(holders), len(ordinals))
    facts = tuple(fact for fact, _ in holders)
    _, of = np.unique(np.array(facts), return_inverse=True)
    leading = _shares(_held(leading, of), of)
    days = tuple(as_day(date.fromordinal(int(day))) for day in ordinals)
    coming = lagged(leading[:, ::-1], [AHEAD_DAYS])[0, :, ::-1]
    stale = lagged(leading, [STALE_DAYS])[0]
    return World(snapshot.snapshot, days, holders, facts, leading, coming, stale, 1.0 / np.bincount(of)[of])


def _leads(stretches: Sequence[tuple[int, int | None, int | None]], ordinals: "NDArray[np.int64]") -> "Array":
    """Return the probability that one holder leads, on each day.

    A stretch on which it leads for some choices of days is a line up where it leads surely after it, a line down where
    it led surely before it, and else one half.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    found = np.zeros(len(ordinals))
    merged = _merged(stretches)
    for place, (first, last, leads) in enumerate(merged):
        before = merged[place - 1][2] if place else 0
        after = merged[place + 1][2] if place + 1 < len(merged) else 0
        inside = (ordinals >= first) & (ordinals < last)
        if leads is None and before != after:
            share = (ordinals[inside] - first + 0.5) / (last - first)
            found[inside] = share if after else 1 - share
        else:
            found[inside] = 0.5 if leads is None else leads
    return found


def _merged(stretches: Sequence[tuple[int, int | None, int | None]]) -> list[tuple[int, int, int | None]]:
    """Return stretches with days as ordinals, and equal neighbours as one."""
    merged: list[tuple[int, int, int | None]] = []
    for from_day, to_day, leads in stretches:
        first, last = _ordinal(from_day, 0), _ordinal(to_day, 10**7)
        if merged and merged[-1][1:] == (first, leads):
            merged[-1] = (merged[-1][0], last, leads)
        else:
            merged.append((first, last, leads))
    return merged


def _ordinal(day: int | None, otherwise: int) -> int:
    """Return a day's number, with 1 for day 1 of year 1; of days beyond the years 1 to 9999 the given one."""
    if day is None or day >= 99_991_231:
        return 10**7
    return as_date(day).toordinal() if day > 10_000 else otherwise


def _held(leading: "Array", of: "NDArray[np.intp]") -> "Array":
    """Let whoever led last go on through the weeks in which nobody leads: that is what there is to know then."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    totals = np.zeros((of.max() + 1, leading.shape[1])) if len(of) else np.zeros((0, leading.shape[1]))
    np.add.at(totals, of, leading)
    weeks = np.where(totals > 0, np.arange(leading.shape[1]), 0)
    latest = np.maximum.accumulate(weeks, axis=1)
    return np.take_along_axis(leading, latest[of], axis=1)


def _shares(values: "Array", of: "NDArray[np.intp]") -> "Array":
    """Divide by the sum over each fact, where that is not 0."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    totals = np.zeros((of.max() + 1 if len(of) else 0, values.shape[1]))
    np.add.at(totals, of, values)
    return np.divide(values, totals[of], out=np.zeros_like(values), where=totals[of] > 0)


def lagged(leading: "Array", lags: Sequence[float] = LAGS) -> "Array":
    """Return who led an exponential lag before each week: the mean of a holder's curve over the lag, [lags, N, T]."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    keep = np.exp(-STEP / np.array(lags))[:, None]  # the lag is longer than one more step with this probability
    found = np.empty((len(lags), *leading.shape))
    state = np.broadcast_to(leading[:, 0], found.shape[:2])
    for week in range(leading.shape[1]):
        state = keep * state + (1 - keep) * leading[:, week]
        found[:, :, week] = state
    return found


class Surface(NamedTuple):
    """The integrated likelihood of D, and what the nuisances are on average."""

    weeks: "NDArray[np.intp]"  # the places in the world's days that were tried
    log_likelihood: "Array"  # of each
    shares: "Array"  # of each, adding up to 1
    lag: float
    ahead: float
    stale: float
    random: float


def surface(known: World, answers: Answers, curves: "Array | None" = None) -> Surface:
    """Return how likely each date is, the nuisances integrated out.

    The weeks are tried in two passes: every eighth, then all those near a likely one.

    Args:
        known: the world.
        answers: the answers of one run.
        curves: ``lagged`` of the world's rows that the answers name, in their order; made here where not given.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    curves = lagged(known.leading[answers.rows]) if curves is None else curves
    count = len(known.days)
    reach = np.arange(count - min(count, round(REACH_YEARS * 365.25) // STEP), count)
    coarse = reach[::-_COARSE][::-1]
    first = _log_likelihoods(known, answers, curves, coarse)
    likely = coarse[_total(first) > _total(first).max() - _NEGLIGIBLE]
    weeks = np.unique(np.clip(likely[:, None] + np.arange(-_COARSE, _COARSE + 1), reach[0], reach[-1]))
    cube = _log_likelihoods(known, answers, curves, weeks)
    by_week = _total(cube)
    greatest = cube.max()
    mass = np.exp(cube - greatest)
    mass /= mass.sum()
    of_lag, *of_shares = (mass.sum(axis=tuple(a for a in range(5) if a != axis)) for axis in range(4))
    ahead, stale, random = (
        float(own @ np.array(grid)) for own, grid in zip(of_shares, (AHEAD, STALE, RANDOM), strict=True)
    )
    return Surface(
        weeks,
        by_week,
        mass.sum(axis=(0, 1, 2, 3)),
        float(np.exp(of_lag @ np.log(LAGS))),
        ahead,
        stale,
        random,
    )


def _total(cube: "Array") -> "Array":
    """Return the logarithm of the likelihood averaged over the nuisances."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    flat = cube.reshape(-1, cube.shape[-1])
    greatest = flat.max(axis=0)
    return greatest + np.log(np.exp(flat - greatest).mean(axis=0))  # type: ignore[no-any-return]


def _log_likelihoods(known: World, answers: Answers, curves: "Array", weeks: "NDArray[np.intp]") -> "Array":
    """Return the composite log-likelihood at each lag, share ahead, stale and random, and week."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    lead, at = curves[:, :, weeks], np.ix_(answers.rows, weeks)
    coming, old, anyone = known.coming[at], known.stale[at], known.random[answers.rows, None]
    found = np.empty((len(LAGS), len(AHEAD), len(STALE), len(RANDOM), len(weeks)))
    for (h, ahead), (i, stale), (j, chance) in product(enumerate(AHEAD), enumerate(STALE), enumerate(RANDOM)):
        mixed = (1 - ahead - stale - chance) * lead + (ahead * coming + stale * old + chance * anyone)
        found[:, h, i, j] = np.einsum("lnt,n->lt", np.log(mixed), answers.weights)
    return found


def interval(days: "Array", shares: "Array", level: float = LEVEL) -> tuple[float, float]:
    """Return the shortest span of days that holds so much of a distribution; a share lies even around its day."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    edges = np.concatenate([[days[0] - STEP / 2], days + STEP / 2])
    total = np.concatenate([[0.0], np.cumsum(shares)])
    begins = np.linspace(0, 1 - level, 101)  # how much lies before it
    lower, upper = np.interp(begins, total, edges), np.interp(begins + level, total, edges)
    shortest = int((upper - lower).argmin())
    return float(lower[shortest]), float(upper[shortest])


def answers_of(known: World, named: Sequence[tuple[str, str, int]]) -> Answers:
    """Return the answers of one run as rows of the world; those that name who is not asked for are left out.

    Args:
        known: the world.
        named: facts, entities and how many answers name them.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    kept = [
        (known.holders[fact, entity], fact, times) for fact, entity, times in named if (fact, entity) in known.holders
    ]
    votes: dict[str, int] = defaultdict(int)
    for _, fact, times in kept:
        votes[fact] += times
    rows = np.array([row for row, _, _ in kept], dtype=np.intp)
    weights = np.array([times / (1 + CORRELATION * (votes[fact] - 1)) for _, fact, times in kept], dtype=np.float64)
    return Answers(rows, weights, len(votes), sum(votes.values()))


def estimate(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    domain: str | None = None,
) -> KnowledgeDate:
    """Return the date a run answers from, with its 95 % interval.

    Raises:
        UsageError: too few of its answers name a holder.
        QueryError: there is no such snapshot, or the judge names nobody.
    """
    found = estimates(connection, known_at, judge=judge, rule=rule, runs=[run], domain=domain)
    if not found:
        raise UsageError(f"No answer of the run {run} names a holder.", hint="dyknow runs list shows what it answered.")
    return found[0]


def estimates(
    connection: duckdb.DuckDBPyConnection,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    domain: str | None = None,
) -> list[KnowledgeDate]:
    """Return the date each run answers from, of those runs of which an answer names a holder, by run.

    Raises:
        QueryError: as for `estimate`.
    """
    known = world(connection, known_at, rule)
    values = {"known_at": known.snapshot, "judge": judge}
    named: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for name, of, fact, entity, times in run_sql(connection, query("dyknow/named_entities.sql"), values).rows:
        if (runs is None or name in runs) and domain in (None, of):
            named[name].append((fact, entity, times))
    made = ((name, answers_of(known, own)) for name, own in named.items())
    return [estimate_from(known, answers, name) for name, answers in made if len(answers.rows)]


def estimate_from(known: World, answers: Answers, run: str = "", curves: "Array | None" = None) -> KnowledgeDate:
    """Return the date that answers come from, with its 95 % interval."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    found = surface(known, answers, curves)
    lower, upper = interval(np.array([as_date(known.days[week]).toordinal() for week in found.weeks]), found.shares)
    last = as_date(known.days[-1]).toordinal()
    best = int(found.log_likelihood.argmax())
    return KnowledgeDate(
        run,
        known.days[found.weeks[best]],
        as_day(date.fromordinal(round(lower))),
        as_day(date.fromordinal(min(round(upper), last))),
        found.lag,
        found.ahead,
        found.stale,
        found.random,
        n_facts=answers.n_facts,
        n_answers=answers.n_answers,
        log_likelihood=float(found.log_likelihood[best]),
        snapshot=known.snapshot,
        at_end=upper > last - STEP / 2,
    )
