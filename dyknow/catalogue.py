"""What can be asked of results.duckdb: its tables, views and macros with their own descriptions, and worked examples.

Everything here is read from the files under ``queries/dyknow``: a header is ``-- What it is.``, ``-- In:``, ``-- Out:``
and, of views and macros, ``-- E.g.`` with a statement that runs.
"""

import re
from typing import Final, Literal, NamedTuple

import duckdb

from dyknow.results import MACROS, TABLES, VIEWS
from kg.resources import query

EXAMPLES: Final = (
    "wrong-everywhere", "former-still-named", "who-knows-the-present", "changed-verdicts", "snapshots-differ", "age",
    "best-by-domain", "best-month", "ahead-of-a-day", "one-fact", "contradictions", "names-nobody", "hangs-on-a-date",
    "judges-disagree", "failed-edits",
)  # fmt: skip
"""Files under ``queries/dyknow/examples``, in the order they are read in."""

_SIGNATURE: Final = re.compile(r"^CREATE OR REPLACE (?:MACRO|VIEW) (.+?) AS", re.MULTILINE)


class Entry(NamedTuple):
    """A view or a macro."""

    name: str
    kind: Literal["view", "macro"]
    signature: str  # as it is called; of a view its name
    about: str  # what it is, In and Out, line by line
    example: str


class Example(NamedTuple):
    """A question that people have, and the statement that answers it."""

    title: str
    about: str
    statement: str  # without a semicolon


def views() -> list[Entry]:
    """Return the views, in the order they are made in."""
    return [_entry(name, "view") for name in VIEWS]


def macros() -> list[Entry]:
    """Return the table macros, in the order they are made in."""
    return [_entry(name, "macro") for name in MACROS]


def examples() -> list[Example]:
    """Return the worked examples."""
    return [_example(name) for name in EXAMPLES]


def find(name: str) -> Entry | None:
    """Return the view or macro of a name, if there is one."""
    return next((entry for entry in (*views(), *macros()) if entry.name == name), None)


def names() -> tuple[str, ...]:
    """Return the names of all tables, views and macros, those most asked for first."""
    return (*VIEWS, *MACROS, *TABLES)


def tables() -> list[tuple[str, str]]:
    """Return each table and what it holds, in the order of the schema."""
    with duckdb.connect() as connection:
        connection.execute(query("dyknow/schema.sql"))
        return connection.execute("SELECT table_name, comment FROM duckdb_tables() ORDER BY table_oid").fetchall()


def columns() -> list[tuple[str, str, str, str]]:
    """Return each table's columns: table, name, type and what it says."""
    with duckdb.connect() as connection:
        connection.execute(query("dyknow/schema.sql"))
        return connection.execute(
            "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() ORDER BY table_oid, column_index"
        ).fetchall()


def _header(name: str) -> tuple[list[str], str]:
    """Return the lines of a file's header, without their dashes, and the statement below."""
    lines = query(f"dyknow/{name}.sql").splitlines()
    size = next(place for place, line in enumerate(lines) if not line.startswith("--"))
    return [line.removeprefix("--").removeprefix(" ") for line in lines[:size]], "\n".join(lines[size:])


def _entry(name: str, kind: Literal["view", "macro"]) -> Entry:
    header, statement = _header(name)
    signature = _SIGNATURE.search(statement)
    shown = [line.removeprefix("E.g. ") for line in header if line.startswith("E.g. ")]
    about = "\n".join(line for line in header if not line.startswith("E.g. "))
    return Entry(name, kind, signature.group(1) if signature else name, about, "".join(shown))


def _example(name: str) -> Example:
    header, statement = _header(f"examples/{name}")
    return Example(header[0], "\n".join(header[1:]), statement.rstrip().removesuffix(";"))
