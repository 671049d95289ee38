"""``results.duckdb`` as it is asked: opened within limits of memory, read-only, and with errors of ours."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from kg.errors import QueryError, UsageError

_SANDBOX: Final = (
    "SET temp_directory = ''",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%|[kmgt]i?b)", re.IGNORECASE)
_TABLES: Final = "dyknow sql 'SHOW ALL TABLES' lists tables and columns."
_MORE: Final = (
    "Give DuckDB more with --memory-limit, as 8GB or 80%, or ask about fewer runs: WHERE run IN ('NAME', …) behind a"
    " macro reads those alone. dyknow score and dyknow timeline go through all runs, some at a time."
)


class TooLarge(QueryError):
    """A statement needs more memory than DuckDB may take."""


class Limits(NamedTuple):
    """What DuckDB may take of a machine."""

    memory: str = "50%"  # of the machine's, or an amount such as "4GB"; the names of holders lie in memory beside it
    spill: Path | None = None  # folder for what does not fit; None: $DYKNOW_SPILL, else beside the results


class Table(NamedTuple):
    """What a SQL statement returns."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def open_results(database: Path, limits: Limits = Limits()) -> duckdb.DuckDBPyConnection:  # noqa: B008 -- a constant
    """Open the file read-only, as "results", in an instance of its own.

    ``duckdb.connect(database)`` would share the instance that an earlier connection of this process still holds open,
    and so go on reading the file that has since been replaced.

    Raises:
        QueryError: there is no such file, or it is no results file.
        UsageError: a limit is no amount of memory.
    """
    connection = limited(database, limits)
    try:
        connection.execute(f"ATTACH '{quoted(database)}' AS results (READ_ONLY)")
        connection.execute("USE results")
    except duckdb.OutOfMemoryException as error:
        connection.close()
        raise too_little(limits, f"read {database}") from error
    except duckdb.Error as error:
        connection.close()
        raise QueryError(f"{database} cannot be read: {error}", hint="dyknow score makes it anew.") from error
    return connection


def limited(database: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own to nothing yet, which keeps to the limits.

    What does not fit in memory is spilt into a folder that no other connection has; it goes with the connection.

    Raises:
        UsageError: a limit is no amount of memory.
    """
    amount = _AMOUNT.fullmatch(limits.memory.strip())
    if amount is None or not 0 < float(amount[1]) <= (100 if amount[2] == "%" else float("inf")):
        raise _no_amount(limits)
    chosen = limits.spill or os.environ.get("DYKNOW_SPILL")
    if chosen:
        Path(chosen).mkdir(parents=True, exist_ok=True)
    spill = Path(chosen or database.parent) / f".{database.name}-spill-{secrets.token_hex(4)}"
    connection = duckdb.connect()
    try:
        connection.execute(f"SET memory_limit = '{amount[0]}'")
    except duckdb.Error as error:  # more than any machine has
        connection.close()
        raise _no_amount(limits) from error
    connection.execute(f"SET temp_directory = '{quoted(spill)}'")
    return connection


def _no_amount(limits: Limits) -> UsageError:
    return UsageError(f"{limits.memory!r} is no amount of memory.", hint="Write it as 4GB, or 50%.")


def too_little(limits: Limits, what: str) -> UsageError:
    """Return what to say where the memory allowed does not suffice for something."""
    return UsageError(f"{limits.memory} of memory do not suffice to {what}.", hint=_MORE)


def query_readonly(database: Path, statement: str, parameters: Mapping[str, Any] | None = None) -> Table:
    """Run one SQL statement that can neither write, nor reach files or the network.

    Raises:
        QueryError: the statement is malformed, or tries what it must not; or there is no such file.
    """
    with open_readonly(database) as connection:
        return run_sql(connection, statement, parameters)


def open_readonly(database: Path, limits: Limits = Limits()) -> duckdb.DuckDBPyConnection:  # noqa: B008 -- a constant
    """Return a connection whose statements can neither write, nor reach files, the network or Python's variables.

    Nor do they spill: a statement could write to whatever folder DuckDB may spill to.

    Raises:
        QueryError: there is no such file, or it is no results file.
        UsageError: a limit is no amount of memory.
    """
    connection = open_results(database, limits)
    for setting in _SANDBOX:
        connection.execute(setting)
    return connection


def run_sql(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, Any] | None = None
) -> Table:
    """Run a statement and return its rows.

    Raises:
        QueryError: DuckDB refused it.
    """
    try:
        cursor = connection.execute(statement, parameters) if parameters else connection.execute(statement)
        if cursor is None:  # DuckDB's answer to a text without a statement
            raise QueryError("There is no statement.", hint=_TABLES)
        columns = tuple(column[0] for column in cursor.description or ())
        return Table(columns, cursor.fetchall() if columns else [])
    except duckdb.Error as error:
        raise refused(error) from error


def refused(error: duckdb.Error) -> QueryError:
    """Return what DuckDB says of a statement as an error of ours."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return TooLarge(str(error).strip().splitlines()[0], hint=_MORE)
    message = str(error).removeprefix("Invalid Input Error: ").strip()
    judged = message.startswith("The judge ")  # what the macros say of a judge who cannot tell
    return QueryError(message, hint="dyknow judge list tells who has judged what." if judged else _TABLES)


def quoted(path: Path) -> str:
    """Return a path for the inside of a string of SQL, where no value can be bound."""
    return str(path).replace("'", "''")
