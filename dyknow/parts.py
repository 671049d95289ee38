"""Runs in parts, so that what is asked of each run by itself fits in memory, however many runs there are."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

import duckdb

from dyknow.resultsfile import TooLarge, run_sql
from kg.resources import query

ANSWERS_AT_ONCE: Final = 3_000_000
"""With what is said of each, so many answers fit into two or three gigabytes."""

MEMORY: Final = 4_000_000_000
"""DuckDB's limit that such numbers are made for, in bytes; under a smaller one parts are smaller in proportion."""

Made = TypeVar("Made")


def parts(
    connection: duckdb.DuckDBPyConnection, runs: Collection[str] | None = None, most: int = ANSWERS_AT_ONCE
) -> list[list[str]]:
    """Return runs, by name, in parts of so many answers; a run is never divided, however many it has.

    Args:
        connection: the results.
        runs: the runs wanted; None: all.
        most: how many answers a part has at most, where it is more than one run and DuckDB may hold `MEMORY`.
    """
    most = int(most * min(1.0, _limit(connection) / MEMORY))
    wanted = None if runs is None else {*runs}
    found: list[list[str]] = []
    size = 0
    for run, answers in run_sql(connection, query("dyknow/answers_of_runs.sql")).rows:
        if wanted is not None and run not in wanted:
            continue
        if not found or size + answers > most:
            found.append([])
            size = 0
        found[-1].append(run)
        size += answers
    return found


def by_parts(found: Collection[list[str]], work: Callable[[list[str]], Made]) -> Iterator[Made]:
    """Yield what comes of each part; one that does not fit in memory is halved, and what was begun of it is lost.

    How much memory a part takes depends on how DuckDB goes about it, which nobody can tell beforehand.

    Raises:
        TooLarge: a run by itself does not fit.
    """
    for part in found:
        try:
            made = work(part)
        except TooLarge as error:
            if len(part) == 1:
                raise TooLarge(f"The run {part[0]} by itself does not fit: {error.message}", hint=_ONE) from error
            middle = len(part) // 2
            yield from by_parts([part[:middle], part[middle:]], work)
        else:
            yield made


_ONE: Final = "Give DuckDB more with --memory-limit, as 8GB or 80%, and room on a disk to spill to (DYKNOW_SPILL)."

_UNITS: Final[Mapping[str, float]] = {
    name: 1024**power for power, name in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
}


def _limit(connection: duckdb.DuckDBPyConnection) -> float:
    """Return how many bytes DuckDB may hold, which it tells as "3.7 GiB"."""
    [(told,)] = run_sql(connection, "SELECT current_setting('memory_limit')").rows
    number, unit = str(told).split()
    return float(number) * _UNITS[unit]
