"""The study's tables for every stop of the slider at once, with their intervals.

Verdicts of all answers at all stops are one array of codes; the page's script computes the same from the same data, and
the macros of results.duckdb are the third route to the same figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from dyknow.report.data import Answer, Data, Given, Holder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]
    Floats = NDArray[np.float64]

MISSING, NOT_COVERED, UP, UP_OPEN, OUT, OUT_OPEN, LATER, IRRELEVANT = range(8)
"""Codes of verdicts. OPEN: precision leaves the standing open; what is OUT_OPEN may be the right answer after all."""

INCOMPLETE: Final = MISSING
"""What a fact is of which a phrasing has no answer that counts, and none is up-to-date."""

MEASURES: Final = ("up_to_date", "outdated", "irrelevant")

_UNKNOWN: Final = ("before the first record", "not in this snapshot")
_GIVEN: Final = {
    "up-to-date": UP, "outdated": OUT, "later": LATER, "irrelevant": IRRELEVANT, "not covered": NOT_COVERED,
}  # fmt: skip


class Rate(NamedTuple):
    """A cell of a table: rates of one run in one domain, in per cent of n facts, with 95 % intervals."""

    n: int
    up_to_date: float | None
    outdated: float | None
    irrelevant: float | None
    lower: float | None  # up-to-date by certain standings only
    upper: float | None  # up-to-date if every doubt is decided for the answer
    intervals: tuple[tuple[float, float] | None, ...] = (None, None, None)  # of the three rates


class Inconsistent(NamedTuple):
    """A row of Table 2, in per cent of n facts."""

    n: int
    value: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Tables:
    """All tables for all stops, by one snapshot.

    Attributes:
        hits: Shape (2 tables, 5 measures, facts, runs, stops): up-to-date, outdated, irrelevant, surely and possibly
            up-to-date; from 0 to 1.
        counted: Shape (2 tables, facts, runs, stops): 1 where the fact stands in the denominator.
        split: Shape (2, facts, runs, stops): of Table 2, whether a fact's answers differ, and whether it counts.
        verdicts: Shape (facts, runs, stops): codes under the soft constraint; -1 where the run was not asked.
    """

    hits: "Floats"
    counted: "Floats"
    split: "Floats"
    verdicts: "Codes"


def codes(data: Data, place: int) -> "Codes":
    """Return the verdict of every answer at every stop by one snapshot, shape (answers, stops)."""
    import numpy as np  # noqa: PLC0415

    days = np.array([int(stop.replace("-", "")) for stop in data.stops])
    history = data.histories[place]
    covered = [_covered(cover, days) for cover in history.coverage]
    standing = [{holder.entity: _standing(holder, days) for holder in holders} for holders in history.holders]
    found = np.empty((len(data.answers), len(days)), dtype=np.int8)
    for row, answer in zip(found, data.answers, strict=True):
        if answer.given:
            row[:] = [_given(given) for given in answer.given]
            continue
        row[:] = _code(answer, place, standing[answer.fact])
        row[~covered[answer.fact]] = NOT_COVERED
    return found


def _given(given: Given | None) -> int:
    if given is None:
        return MISSING
    code = _GIVEN.get(given.verdict, MISSING)
    return UP_OPEN if code == UP and not given.certain else code


def _code(answer: Answer, place: int, standing: "dict[str, Codes]") -> "Codes | int":
    """Return the verdicts of an answer by the standing of whom it names, coverage aside."""
    named = answer.named[place]
    if answer.status == "refused":
        return IRRELEVANT
    if answer.status != "ok" or named is None or named.reason is None:
        return MISSING
    return standing.get(named.entity, IRRELEVANT) if named.entity is not None else IRRELEVANT


def _covered(cover: Sequence[tuple[int, int | None, str]], days: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    import numpy as np  # noqa: PLC0415

    found = np.zeros(len(days), dtype=bool)
    for first, last, status in cover:
        found |= (days >= first) & ((last is None) | (days < (last or 0))) & (status not in _UNKNOWN)
    return found


def _standing(holder: Holder, days: "NDArray[np.int64]") -> "Codes":
    import numpy as np  # noqa: PLC0415

    found = np.full(len(days), IRRELEVANT, dtype=np.int8)
    for step in holder.steps:
        within = (days >= step.from_day) & ((step.to_day is None) | (days < (step.to_day or 0)))
        found[within] = step_code(step.standing, step.certain, step.start)
    return found


def step_code(standing: str, certain: bool, start: int | None) -> int:
    """Return the code of a standing; who has no start cannot have been the latest to start."""
    if standing == "up-to-date":
        return UP if certain else UP_OPEN
    if standing == "outdated":
        return OUT if certain or start is None else OUT_OPEN
    return LATER if standing == "later" else IRRELEVANT


def tables(data: Data, place: int) -> Tables:
    """Return all tables for all stops by one snapshot."""
    import numpy as np  # noqa: PLC0415

    found = codes(data, place)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, answer in enumerate(data.answers):
        groups.setdefault((answer.fact, answer.run), []).append(index)
    shape = (len(data.facts), len(data.models), len(data.stops))
    hits, counted = np.zeros((2, 5, *shape)), np.zeros((2, *shape))
    split, verdicts = np.zeros((2, *shape)), np.full(shape, -1, dtype=np.int8)
    for (fact, run), rows in groups.items():
        own = [data.answers[row] for row in rows]
        asked = [row for row, answer in zip(rows, own, strict=True) if answer.counted]
        firsts = [row for row in asked if data.answers[row].sample == 0]
        if firsts:
            verdict = verdicts[fact, run] = soft(found[firsts])
            hits[0, :, fact, run], counted[0, fact, run] = _soft_hits(verdict, found[firsts])
        if asked:
            hits[1, :, fact, run], counted[1, fact, run] = _average(found[asked])
        zeroth = [row for row, answer in zip(rows, own, strict=True) if answer.sample == 0]
        split[:, fact, run] = _split(data, place, zeroth, found[zeroth])
    return Tables(hits, counted, split, verdicts)


def soft(found: "Codes") -> "Codes":
    """Return the verdicts of a fact under the soft constraint from those of its phrasings, shape (phrasings, stops)."""
    import numpy as np  # noqa: PLC0415

    def has(*wanted: int) -> "NDArray[np.bool_]":
        return np.asarray(np.isin(found, wanted).any(axis=0))

    conditions = [has(NOT_COVERED), has(UP), has(UP_OPEN), has(MISSING), has(OUT_OPEN), has(OUT)]
    verdicts = [NOT_COVERED, UP, UP_OPEN, INCOMPLETE, OUT_OPEN, OUT]
    return np.select(conditions, verdicts, IRRELEVANT).astype(np.int8)


def _soft_hits(verdict: "Codes", found: "Codes") -> "tuple[Floats, Floats]":
    import numpy as np  # noqa: PLC0415

    counts = (verdict != NOT_COVERED) & (verdict != INCOMPLETE)
    possible = counts & np.isin(found, (UP, UP_OPEN, OUT_OPEN)).any(axis=0)
    up, out = np.isin(verdict, (UP, UP_OPEN)), np.isin(verdict, (OUT, OUT_OPEN))
    hits = np.stack([up, out, verdict == IRRELEVANT, verdict == UP, possible])
    return hits.astype(float), counts.astype(float)


def _average(found: "Codes") -> "tuple[Floats, Floats]":
    """Return what of a fact's answers is what; a fact counts once, however many of its answers do."""
    import numpy as np  # noqa: PLC0415

    rated = (found != MISSING) & (found != NOT_COVERED)
    n = rated.sum(axis=0)
    kinds = ((UP, UP_OPEN), (OUT, OUT_OPEN), (LATER, IRRELEVANT), (UP,), (UP, UP_OPEN, OUT_OPEN))
    sums = np.stack([np.isin(found, kind).sum(axis=0) for kind in kinds]).astype(float)
    return np.divide(sums, n, out=np.zeros_like(sums), where=n > 0), (n > 0).astype(float)


def _split(data: Data, place: int, rows: Sequence[int], found: "Codes") -> "Floats":
    """Return whether a fact's counted answers differ, and whether it counts in Table 2."""
    import numpy as np  # noqa: PLC0415

    answers = [data.answers[row] for row in rows]
    counted = np.array([answer.counted for answer in answers], dtype=bool)
    if counted.sum() < 2:
        return np.zeros((2, found.shape[1]))
    relevant = np.isin(found, (UP, UP_OPEN, OUT, OUT_OPEN))
    missing = np.isin(found, (MISSING, NOT_COVERED))
    counts = relevant.any(axis=0) & ~missing[counted].any(axis=0)
    said = np.where(relevant, _entities(data, place, answers), 0)[counted]
    return np.stack([counts & (said != said[0]).any(axis=0), counts]).astype(float)


def _entities(data: Data, place: int, answers: Sequence[Answer]) -> "NDArray[np.int64]":
    """Return a number for what "the same answer" compares, shape (answers, 1) or (answers, stops)."""
    import numpy as np  # noqa: PLC0415

    numbers: dict[str, int] = {}

    def number(name: str | None) -> int:
        return numbers.setdefault(name or "unknown", len(numbers) + 1)

    if answers[0].given:
        return np.array([[number(given.answer if given else None) for given in a.given] for a in answers])
    found = (answer.named[place] for answer in answers)
    return np.array([[number(named.entity if named else None)] for named in found])


# Rates


def members(data: Data) -> "dict[str, NDArray[np.int64]]":
    """Return the places of the facts of every domain, and of "all"."""
    import numpy as np  # noqa: PLC0415

    domains = np.array([fact.domain for fact in data.facts])
    return {**{name: np.flatnonzero(domains == name) for name in data.domains()}, "all": np.arange(len(domains))}


@dataclass(frozen=True)
class Figures:
    """The rates of all stops by one snapshot.

    Attributes:
        rates: By domain, shape (2 tables, 5 measures, runs, stops), per cent; nan where n is 0.
        n: By domain, shape (2 tables, runs, stops).
        bounds: By domain, shape (2 tables, 3 measures, runs, stops, 2), per cent; nan where n is 0.
        inconsistent: Shape (4, runs, stops): value, n, lower, upper.
    """

    rates: "dict[str, Floats]"
    n: "dict[str, Floats]"
    bounds: "dict[str, Floats]"
    inconsistent: "Floats"

    def rate(self, table: int, domain: str, run: int, stop: int) -> Rate:
        """Return a cell of Table 1 (0) or 5 (1)."""
        up, outdated, irrelevant, lower, upper = map(_number, self.rates[domain][table, :, run, stop])
        bounds = self.bounds[domain][table, :, run, stop]
        intervals = tuple(None if isnan(low) else (float(low), float(high)) for low, high in bounds)
        return Rate(int(self.n[domain][table, run, stop]), up, outdated, irrelevant, lower, upper, intervals)

    def inconsistency(self, run: int, stop: int) -> Inconsistent:
        """Return a row of Table 2."""
        value, n, low, high = (float(number) for number in self.inconsistent[:, run, stop])
        return Inconsistent(int(n), _number(value), None if isnan(low) else (low, high))


def _number(value: float) -> float | None:
    """Return a rate without the dust that adding up thirds leaves, so that halves are rounded alike everywhere."""
    return None if isnan(value) else round(float(value), 9)


def figures(data: Data, place: int) -> Figures:
    """Return the rates of all stops by one snapshot, with 95 % intervals: bootstrapped over facts."""
    import numpy as np  # noqa: PLC0415

    found = tables(data, place)
    rates, ns, bounds = {}, {}, {}
    with np.errstate(invalid="ignore"):
        for name, facts in members(data).items():
            n = found.counted[:, facts].sum(axis=1)
            rates[name] = 100 * found.hits[:, :, facts].sum(axis=2) / np.where(n == 0, np.nan, n)[:, None]
            ns[name] = n
            within = np.isin(np.arange(len(data.facts)), facts)[:, None, None]
            bounds[name] = _bounds(data, found.hits[:, :3] * within, (found.counted * within)[:, None])
        differ, counts = found.split.sum(axis=1)
        shares = 100 * differ / np.where(counts == 0, np.nan, counts)
    low_high = _bounds(data, found.split[0][None, None], found.split[1][None, None])[0, 0]
    return Figures(rates, ns, bounds, np.stack([shares, counts, low_high[..., 0], low_high[..., 1]]))


def _bounds(data: Data, hits: "Floats", counted: "Floats") -> "Floats":
    """Return intervals in per cent of shares whose axis 2 is the facts; columns that are alike are drawn once.

    Facts go by their ids, those of other domains among them, so that the resamples are those of ``dyknow.rates``.
    """
    import numpy as np  # noqa: PLC0415

    from dyknow.statistics import bootstrap  # noqa: PLC0415

    counted = np.broadcast_to(counted, hits.shape)
    facts = hits.shape[2]
    order = sorted(range(facts), key=lambda place: data.facts[place].id)
    columns = [np.moveaxis(values, 2, 0).reshape(facts, -1)[order] for values in (hits, counted)]
    packed = np.ascontiguousarray(np.concatenate(columns).T)
    rows = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, back = np.unique(rows, return_index=True, return_inverse=True)
    found = 100 * bootstrap(columns[0][:, first], columns[1][:, first])[:, back.ravel()]
    return np.moveaxis(found.reshape(2, *hits.shape[:2], *hits.shape[3:]), 0, -1)
