"""Who leads each fact when, week by week, as one snapshot has it: the world in which answers are dated.

A holder's curve is long, and there may be a million holders: the world can be read in parts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from dyknow.resultsfile import refused
from dyknow.timeline import Base, as_date, as_day, base
from kg.dates import Day
from kg.resources import query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STEP: Final = 7
"""Days between two dates that are tried."""
CORRELATION: Final = 0.7
"""How much the answers to the phrasings of one fact say the same, beside what the date makes them say."""
WORLD_YEARS: Final = 40
"""How far back the world is known to the estimate; what led then has led ever since."""
LAGS: Final = (6.0, 15.0, 40.0, 110.0, 300.0, 800.0, 2100.0)
"""Mean lags that are tried, in days."""
AHEAD_DAYS: Final = 90.0
"""Mean days from the news that somebody will come to the day of office; between a vote and an office lie two or three
months, between a transfer's announcement and the transfer weeks."""
STALE_DAYS: Final = 1826.0
"""Mean lag of stale answers: among the earlier holders of a fact their share falls from one to the one before."""
HOLDERS_AT_ONCE: Final = 3_000
"""How many holders' curves are in memory at once, some 500 megabytes with what is made of them."""


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
    """Return who leads each fact when, as one snapshot has it; takes 70 kilobytes of memory a holder.

    Raises:
        QueryError: there is no such snapshot.
    """
    snapshot = base(connection, known_at)
    everyone = dict(_stretches(connection, snapshot, rule))
    return _world(snapshot, everyone)


def worlds(
    connection: duckdb.DuckDBPyConnection,
    known_at: str | None = None,
    rule: str = "latest",
    most: int = HOLDERS_AT_ONCE,
) -> Iterator[World]:
    """Yield the world by parts, each with all holders of some facts, in the order of the facts; at least one part.

    Until the last part has been read nothing else may be asked of the connection.

    Args:
        connection: the results.
        known_at: the one snapshot; None as for `dyknow.timeline.base`.
        rule: "latest" or "study".
        most: a part has so many holders, and those that are left of its last fact.

    Raises:
        QueryError: there is no such snapshot.
    """
    snapshot = base(connection, known_at)
    part: dict[tuple[str, str], list[_Stretch]] = {}
    for _, own in groupby(_stretches(connection, snapshot, rule), key=lambda pair: pair[0][0]):
        if len(part) >= most:
            yield _world(snapshot, part)
            part = {}
        part.update(own)
    yield _world(snapshot, part)


_Stretch = tuple[int, int | None, int | None]
"""First day, first day no longer, and whether a holder leads; None: for some choices of days."""


def _stretches(
    connection: duckdb.DuckDBPyConnection, snapshot: Base, rule: str
) -> Iterator[tuple[tuple[str, str], list[_Stretch]]]:
    """Yield the stretches of each fact and holder, in their order."""
    values = {"known_at": snapshot.snapshot, "rule": rule}
    rows = fetched(connection, query("dyknow/leading.sql"), values)
    for pair, own in groupby(rows, key=lambda row: (row[0], row[1])):
        yield pair, [(row[2], row[3], row[4]) for row in own]


def fetched(
    connection: duckdb.DuckDBPyConnection, statement: str, values: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a statement, of which there may be many; nothing else may be asked of the connection meanwhile.

    Raises:
        QueryError: DuckDB refused it.
    """
    try:
        cursor = connection.execute(statement, values)
        while rows := cursor.fetchmany(10_000):
            yield from rows
    except duckdb.Error as error:
        raise refused(error) from error


def _world(snapshot: Base, stretches: Mapping[tuple[str, str], Sequence[_Stretch]]) -> World:
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    last = as_date(snapshot.day).toordinal()
    ordinals = np.arange(last - round(WORLD_YEARS * 365.25) // STEP * STEP, last + 1, STEP)
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
