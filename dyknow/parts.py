"""Runs in parts, so that what is asked of each run by itself fits in memory, however many runs there are."""

from collections.abc import Sequence
from typing import Final

import duckdb

from dyknow.resultsfile import run_sql
from kg.resources import query

ANSWERS_AT_ONCE: Final = 3_000_000
"""With what is said of each, so many answers fit into two or three gigabytes."""


def parts(
    connection: duckdb.DuckDBPyConnection, runs: Sequence[str] | None = None, most: int = ANSWERS_AT_ONCE
) -> list[list[str]]:
    """Return runs, by name, in parts of so many answers; a run is never divided, however many it has.

    Args:
        connection: the results.
        runs: the runs wanted; None: all.
        most: how many answers a part has at most, where it is more than one run.
    """
    found: list[list[str]] = []
    size = 0
    for run, answers in run_sql(connection, query("dyknow/answers_of_runs.sql")).rows:
        if runs is not None and run not in runs:
            continue
        if not found or size + answers > most:
            found.append([])
            size = 0
        found[-1].append(run)
        size += answers
    return found
