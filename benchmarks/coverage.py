"""How often the 95 % interval of the date a model answers from holds the truth: models made up with a known one.

``python -m benchmarks.coverage`` prints it: the draws of each case are made from the shipped answer set of 2023-12-18,
first as the estimate supposes, then against what it supposes.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyknow import results
from dyknow.knowledge import estimate_from
from dyknow.timeline import as_date, as_day
from dyknow.world import STEP, Answers, World, answers_of, lagged, world
from kg.snapshot import find_snapshots

SNAPSHOT = "2023-12-18"


@dataclass(frozen=True)
class Model:
    """A made-up model.

    Attributes:
        day: The date it answers from, or the first of the dates that it is drawn from.
        until: The last of them; 0: it is that date alone.
        lag: Mean lag of its answers, in days.
        ahead: Share of its answers that are as of 90 days later, on average.
        stale: Share that are as of five years before, on average.
        random: Share that name anyone.
        lags: Mean lags of the domains, instead of the one: what the estimate does not suppose.
        mislabelled: Share of its answers whose name is read as another holder's.
        silent: Share of facts it names nobody for.
        repeats: Share of further phrasings that get the answer of the first one; the others are drawn anew. With 0.9
            two phrasings agree in 0.9 to 0.99 of the facts, as they do for most of the ten published models.
    """

    day: int
    until: int = 0
    lag: float = 90.0
    ahead: float = 0.05
    stale: float = 0.03
    random: float = 0.02
    lags: tuple[float, ...] = ()
    mislabelled: float = 0.0
    silent: float = 0.1
    repeats: float = 0.9


LEVELS: dict[str, dict[str, Any]] = {
    "sharp": {"lag": 25.0, "ahead": 0.05, "stale": 0.02, "random": 0.01},
    "middling": {"lag": 250.0, "ahead": 0.1, "stale": 0.05, "random": 0.03},
    "dull": {"lag": 700.0, "ahead": 0.1, "stale": 0.15, "random": 0.1},
}
SPANS = ((20190101, 20191231), (20210101, 20211231), (20220701, 20230630))
DAYS = (20190115, 20210915, 20230315)
WRONG: dict[str, dict[str, Any]] = {
    "10 % wrong labels": {"mislabelled": 0.1},
    "20 % wrong labels": {"mislabelled": 0.2},
    "lag by domain: 30, 250, 700 days": {"lags": (30.0, 250.0, 700.0)},
    "nobody known before the day of office": {"ahead": 0.0},
    "phrasings drawn one by one": {"repeats": 0.0},
    "phrasings all the same": {"repeats": 1.0},
}


@cache
def shipped() -> World:
    """Return the world of the shipped snapshot."""
    snapshots = [snapshot for snapshot in find_snapshots() if snapshot.id == SNAPSHOT]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as connection:
            return world(connection, SNAPSHOT)


_DOMAINS = {"P35": 0, "P6": 0, "P54": 1}


class Maker:
    """Draws what made-up models answer: each answer's kind and lag are drawn, and who led then is looked up."""

    def __init__(self, known: World, seed: int) -> None:
        self.known = known
        self.draw = np.random.default_rng(seed)
        facts = np.array(known.facts)
        self.names = sorted(set(known.facts))
        self.rows = [np.flatnonzero(facts == fact) for fact in self.names]
        self.domains = [_DOMAINS.get(fact.split("/")[-1], 2) for fact in self.names]
        self.first = as_date(known.days[0]).toordinal()

    def day(self, model: Model) -> int:
        """Return the date of one draw of a model."""
        first, last = (as_date(day).toordinal() for day in (model.day, model.until or model.day))
        return as_day(date.fromordinal(int(self.draw.integers(first, last + 1))))

    def answers(self, model: Model) -> Answers:
        """Return the answers of three phrasings of each fact."""
        named: dict[tuple[str, str], int] = {}
        pairs = list(self.known.holders)
        for place, own in enumerate(self.rows):
            if self.draw.random() < model.silent:
                continue
            first = self._answer(model, own, place)
            for phrasing in range(3):
                row = first if phrasing == 0 or self.draw.random() < model.repeats else self._answer(model, own, place)
                named[pairs[row]] = named.get(pairs[row], 0) + 1
        return answers_of(self.known, [(fact, entity, times) for (fact, entity), times in named.items()])

    def _answer(self, model: Model, own: NDArray[np.intp], place: int) -> int:
        row = self._named(model, own, place)
        if self.draw.random() < model.mislabelled:
            return int(self.draw.choice(own))
        return row

    def _named(self, model: Model, own: NDArray[np.intp], place: int) -> int:
        kind = self.draw.random()
        if kind < model.random:
            return int(self.draw.choice(own))
        kind -= model.random
        lag = model.lags[self.domains[place]] if model.lags else model.lag
        if kind < model.ahead:
            behind = -self.draw.exponential(90.0)
        elif kind < model.ahead + model.stale:
            behind = self.draw.exponential(1826.0)
        else:
            behind = self.draw.exponential(lag)
        week = (as_date(model.day).toordinal() - behind - self.first) / STEP
        week = min(max(round(week), 0), self.known.leading.shape[1] - 1)
        chances = self.known.leading[own, week]
        if not chances.sum():  # before anybody the snapshot knows
            return int(self.draw.choice(own))
        return int(self.draw.choice(own, p=chances / chances.sum()))


@dataclass(frozen=True)
class Coverage:
    """How the estimates of many draws stand to the truth."""

    held: float  # per cent of draws whose interval holds it
    before: float  # per cent whose interval lies wholly before it
    bias: float  # median of estimate minus truth, in days
    width: float  # median width of the intervals, in days


def coverage(model: Model, draws: int, seed: int = 0) -> Coverage:
    """Return how often the interval holds the date of a made-up model."""
    known = shipped()
    maker, curves = Maker(known, seed), _curves()
    found = []
    for _ in range(draws):
        truth = maker.day(model)
        answers = maker.answers(replace(model, day=truth))
        one = estimate_from(known, answers, curves=curves[:, answers.rows])
        found.append([(as_date(day) - as_date(truth)).days for day in (one.lower, one.day, one.upper)])
    lower, best, upper = np.array(found).T
    return Coverage(
        held=float(100 * ((lower <= 0) & (upper >= 0)).mean()),
        before=float(100 * (upper < 0).mean()),
        bias=float(np.median(best)),
        width=float(np.median(upper - lower)),
    )


@cache
def _curves() -> NDArray[np.float64]:
    return lagged(shipped().leading)


def cases() -> Iterator[tuple[str, Model]]:
    """Yield the models as the estimate supposes them, then those against it."""
    for first, last in SPANS:
        for name, level in LEVELS.items():
            yield f"{as_date(first)} to {as_date(last)}, {name}", Model(first, last, **level)
    for day in DAYS:
        yield f"{as_date(day)}, middling", Model(day, **LEVELS["middling"])
    for name, change in WRONG.items():
        yield f"2021, middling, {name}", replace(Model(20210101, 20211231, **LEVELS["middling"]), **change)


def main(draws: int = 500, only: str = "") -> None:
    """Print the coverage of every case whose name has a text in it."""
    print(f"Coverage of the 95 % interval of the knowledge date, {draws} models a case")
    print(f"{'':54}held %  before %  bias d  width d")
    for name, model in cases():
        if only in name:
            one = coverage(model, draws)
            print(f"{name:54}{one.held:6.1f}{one.before:10.1f}{one.bias:8.0f}{one.width:9.0f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, *sys.argv[2:3])
