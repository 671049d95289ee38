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
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

import duckdb

from dyknow.strata import checked
from dyknow.timeline import ALL, Base, as_date, as_day, base
from dyknow.world import LAGS, STEP, Answers, World, answers_of, fetched, lagged, worlds
from kg.dates import Day
from kg.errors import UsageError
from kg.resources import query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVEL: Final = 0.95
REACH_YEARS: Final = 25
"""How far before the snapshot a model may answer from."""

AHEAD: Final = (0.02, 0.07, 0.25)
"""Shares of answers that run ahead, of those to facts whose next holder is about to come."""
STALE: Final = (0.01, 0.05, 0.25)
RANDOM: Final = (0.005, 0.03, 0.15)


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
    curves = lagged(known.leading[answers.rows]) if curves is None else curves
    coarse = _coarse(len(known.days))
    weeks = _near(_log_likelihoods(known, answers, curves, coarse), coarse, len(known.days))
    return _surface(weeks, _log_likelihoods(known, answers, curves, weeks))


def _reach(count: int) -> "NDArray[np.intp]":
    """Return the weeks that a model may answer from."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    return np.arange(count - min(count, round(REACH_YEARS * 365.25) // STEP), count)


def _coarse(count: int) -> "NDArray[np.intp]":
    """Return the weeks of the first pass."""
    return _reach(count)[::-_COARSE][::-1]


def _near(first: "Array", coarse: "NDArray[np.intp]", count: int) -> "NDArray[np.intp]":
    """Return the weeks of the second pass: those near a week that was likely in the first."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    likely, reach = coarse[_total(first) > _total(first).max() - _NEGLIGIBLE], _reach(count)
    return np.unique(np.clip(likely[:, None] + np.arange(-_COARSE, _COARSE + 1), reach[0], reach[-1]))


def _surface(weeks: "NDArray[np.intp]", cube: "Array") -> Surface:
    """Return what the log-likelihoods at each lag, share ahead, stale and random, and week come to."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

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
    reading = _Reading(known_at, judge, rule, runs)
    found = _estimates(connection, reading, "domain", lambda of: ALL if domain in (None, of) else None)
    return [one for _, one in found]


class OfPart(NamedTuple):
    """The date that the answers of a run about one part of its facts come from."""

    part: str
    known: KnowledgeDate


def estimates_of_parts(
    connection: duckdb.DuckDBPyConnection,
    split: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
) -> list[OfPart]:
    """Return the date that each run answers from about each part of its facts, by run and part.

    Args:
        connection: The results.
        split: "domain", or one of ``dyknow.strata.PARTS``.
        known_at: The snapshot; None as for `dyknow.timeline.base`.
        judge: Who reads the answers.
        rule: Who is right.
        runs: The runs wanted; None: all.

    Raises:
        UsageError: there is no such split.
        QueryError: as for `estimate`.
    """
    found = _estimates(connection, _Reading(known_at, judge, rule, runs), checked(split), lambda of: of)
    return [OfPart(*pair) for pair in found]


class _Reading(NamedTuple):
    """Whose reading of which runs an estimate rests on."""

    known_at: str | None
    judge: str
    rule: str
    runs: Sequence[str] | None


def _estimates(
    connection: duckdb.DuckDBPyConnection, reading: _Reading, split: str, part_of: Callable[[str], str | None]
) -> list[tuple[str, KnowledgeDate]]:
    """Return parts and dates, by run and part: ``part_of`` makes a part of a domain or the like, or None of none."""
    known_at, judge, rule, runs = reading
    snapshot = base(connection, known_at)
    named: dict[tuple[str, str], _Named] = defaultdict(_Named)
    values = {"known_at": snapshot.snapshot, "judge": judge, "split": split}
    for name, of, fact, entity, times in fetched(connection, query("dyknow/named_entities.sql"), values):
        part = part_of(of)
        if (runs is None or name in runs) and part is not None:
            named[name, part].add(fact, entity, times)
    parts = _Parts(connection, snapshot.snapshot, rule)
    for known in parts:
        for own in named.values():
            own.pass_first(known)
    for known in parts:
        for own in named.values():
            own.pass_again(known)
    return [(part, own.estimate(snapshot, name)) for (name, part), own in named.items() if own.n_answers]


class _Parts:
    """The world by parts, to be gone through twice; where one part is the whole it is made once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, known_at: str, rule: str) -> None:
        self._read = partial(worlds, connection, known_at, rule)
        self._only: World | None = None

    def __iter__(self) -> Iterator[World]:
        if self._only:
            yield self._only
            return
        parts = self._read()
        first = next(parts)
        yield first
        second = next(parts, None)
        if second is None:
            self._only = first
            return
        del first
        yield second
        yield from parts


class _Named:
    """Whom the answers of one run name, and how likely that is, added up over the parts of the world."""

    def __init__(self) -> None:
        self._by_fact: dict[str, list[tuple[int, tuple[str, str, int]]]] = defaultdict(list)
        self._count = self._n_facts = self.n_answers = 0
        self._days: tuple[Day, ...] = ()
        self._first: Array | float = 0.0
        self._cube: Array | float = 0.0
        self._weeks: NDArray[np.intp] | None = None

    def add(self, fact: str, entity: str, times: int) -> None:
        """Add that so many answers name an entity."""
        self._by_fact[fact].append((self._count, (fact, entity, times)))
        self._count += 1

    def _of(self, known: World) -> Answers:
        numbered = [one for fact in dict.fromkeys(known.facts) for one in self._by_fact.get(fact, ())]
        return answers_of(known, [row for _, row in sorted(numbered)])

    def pass_first(self, known: World) -> None:
        """Try every eighth week on a part of the world."""
        answers = self._of(known)
        self._days = known.days
        if len(answers.rows):
            self._n_facts += answers.n_facts
            self.n_answers += answers.n_answers
            curves = lagged(known.leading[answers.rows])
            self._first = self._first + _log_likelihoods(known, answers, curves, _coarse(len(known.days)))

    def pass_again(self, known: World) -> None:
        """Try the weeks near a likely one on a part of the world, once all parts have been through the first pass."""
        answers = self._of(known)
        if len(answers.rows):
            if self._weeks is None:
                count = len(known.days)
                self._weeks = _near(self._first, _coarse(count), count)  # type: ignore[arg-type]  # a sum by now
            curves = lagged(known.leading[answers.rows])
            self._cube = self._cube + _log_likelihoods(known, answers, curves, self._weeks)

    def estimate(self, snapshot: Base, run: str) -> KnowledgeDate:
        """Return the date, after both passes."""
        assert self._weeks is not None
        found = _surface(self._weeks, self._cube)  # type: ignore[arg-type]  # a sum by now
        return _date(found, self._days, snapshot.snapshot, run, (self._n_facts, self.n_answers))


def estimate_from(known: World, answers: Answers, run: str = "", curves: "Array | None" = None) -> KnowledgeDate:
    """Return the date that answers come from, with its 95 % interval."""
    found = surface(known, answers, curves)
    return _date(found, known.days, known.snapshot, run, (answers.n_facts, answers.n_answers))


def _date(found: Surface, days: Sequence[Day], snapshot: str, run: str, counted: tuple[int, int]) -> KnowledgeDate:
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    lower, upper = interval(np.array([as_date(days[week]).toordinal() for week in found.weeks]), found.shares)
    last = as_date(days[-1]).toordinal()
    best = int(found.log_likelihood.argmax())
    return KnowledgeDate(
        run,
        days[found.weeks[best]],
        as_day(date.fromordinal(round(lower))),
        as_day(date.fromordinal(min(round(upper), last))),
        found.lag,
        found.ahead,
        found.stale,
        found.random,
        n_facts=counted[0],
        n_answers=counted[1],
        log_likelihood=float(found.log_likelihood[best]),
        snapshot=snapshot,
        at_end=upper > last - STEP / 2,
    )
