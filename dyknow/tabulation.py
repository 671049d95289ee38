"""The rows of Tables 1, 5 and 2, worked out some runs at a time, so that they fit in memory however many there are.

The verdicts of a part are worked out once and kept while the macros of the tables are asked for them; the rows are
those of the macros, in their order.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from dyknow.parts import Made, by_parts, parts
from dyknow.resultsfile import run_sql
from kg.resources import query

if TYPE_CHECKING:
    from dyknow.statistics import Interval

TABLES: Final = ("table1", "table5", "table2")

ANSWERS_AT_ONCE: Final = 2_000_000
"""As in ``dyknow.parts``; their verdicts were seen to take 1.5 kB each."""

_PLACES: Final = {"table1": 4, "table5": 4, "table2": 6}  # of the column domain


class Asked(NamedTuple):
    """What verdicts are asked for, as the macros have it."""

    as_of: str  # a day, or "release"
    known_at: str | None = None
    judge: str = "match"
    rule: str = "latest"

    @property
    def values(self) -> dict[str, Any]:
        """What is bound to the statements."""
        return self._asdict()


class Tabulated(NamedTuple):
    """Rows of the tables and the intervals of what stands in them."""

    rows: dict[str, list[tuple[Any, ...]]]  # by table, as its macro gives them
    intervals: "dict[tuple[str, str, str], Interval]"  # by run, domain and measure; empty where none were asked for


def tabulated(
    connection: duckdb.DuckDBPyConnection, asked: Asked, runs: Collection[str], split: str, *, intervals: bool
) -> Tabulated:
    """Return the rows of the tables of some runs, and their intervals if they are wanted.

    Args:
        connection: the results.
        asked: what verdicts.
        runs: the runs; those that have no verdicts, as of release, have no rows.
        split: what the tables are split by.
        intervals: whether to draw them, which takes about as long again.

    Raises:
        QueryError: the snapshot is not there, or the judge judged for another day.
        TooLarge: one run by itself does not fit in memory.
    """
    facts = _facts(connection, runs) if intervals else []

    def made(part: list[str]) -> Tabulated:
        with kept_verdicts(connection, part, asked):
            rows = {name: _rows(connection, name, asked, split) for name in TABLES}
            bounds = _intervals(connection, facts, {**asked.values, "split": split, "runs": part}) if intervals else {}
        return Tabulated(rows, bounds)

    found = Tabulated({name: [] for name in TABLES}, {})
    for own in by_parts(parts(connection, runs, ANSWERS_AT_ONCE), made):
        found.intervals.update(own.intervals)
        for name in TABLES:
            found.rows[name].extend(own.rows[name])
    for name in TABLES:
        found.rows[name].sort(key=_of_macro(_PLACES[name]))
    return found


def _rows(connection: duckdb.DuckDBPyConnection, table: str, asked: Asked, split: str) -> list[tuple[Any, ...]]:
    by = "all" if (table, split) == ("table2", "domain") else split
    call = f"FROM {table}($as_of, known_at := $known_at, judge := $judge, rule := $rule, split := $split)"
    return run_sql(connection, call, {**asked.values, "split": by}).rows


def _of_macro(place: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return the key of the macros' order: the oldest models first, those of no known year last."""
    return lambda row: (row[2] is None, row[2], row[0], row[place])


def _facts(connection: duckdb.DuckDBPyConnection, runs: Collection[str]) -> list[str]:
    from dyknow.rates import asked_facts  # noqa: PLC0415 -- numpy takes a tenth of a second, which others need not wait

    return asked_facts(connection, runs)


def _intervals(
    connection: duckdb.DuckDBPyConnection, facts: Collection[str], values: dict[str, Any]
) -> "dict[tuple[str, str, str], Interval]":
    from dyknow.rates import tables_intervals  # noqa: PLC0415 -- as above

    return tables_intervals(connection, facts, values)


@contextmanager
def kept_verdicts(connection: duckdb.DuckDBPyConnection, runs: Collection[str], asked: Asked) -> Iterator[None]:
    """Work out the verdicts of some runs once, for all tables that are asked for while this lasts.

    Until then the macro ``verdicts``, and with it every macro of a table, knows these verdicts and no others on this
    connection, whatever day it is asked for.

    Args:
        connection: the results; what is kept stands in its temporary schema.
        runs: the runs.
        asked: what verdicts.

    Raises:
        QueryError: there are no such verdicts.
    """
    run_sql(connection, query("dyknow/kept_verdicts.sql"), {**asked.values, "runs": list(runs)})
    try:
        run_sql(connection, query("dyknow/verdicts_kept.sql"))
        yield
    finally:
        run_sql(connection, "DROP MACRO TABLE IF EXISTS temp.verdicts")
        run_sql(connection, "DROP TABLE IF EXISTS temp.kept_verdicts")


def by_runs(connection: duckdb.DuckDBPyConnection, runs: Collection[str], work: Callable[[], Made]) -> Iterator[Made]:
    """Yield what comes of asking for all runs, done for some of these runs at a time: the macros know no others then.

    Args:
        connection: the results; while it is asked, a table in its temporary schema stands in the place of their runs.
        runs: the runs.
        work: asks.

    Raises:
        TooLarge: a run by itself does not fit in memory.
    """

    def made(part: list[str]) -> Made:
        run_sql(connection, query("dyknow/kept_runs.sql"), {"runs": part})
        try:
            return work()
        finally:
            run_sql(connection, "DROP TABLE temp.runs")

    return by_parts(parts(connection, runs, ANSWERS_AT_ONCE), made)
