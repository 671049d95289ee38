"""Writes docs/cli.md out of the commands' own help, and docs/sql.md out of the tables' own comments.

``python -m dyknow.docs > docs/cli.md`` and ``python -m dyknow.docs sql > docs/sql.md``; ``make docs`` does both.
"""

import sys
from collections.abc import Iterator

import click
import duckdb

from dyknow.cli import cli
from kg.resources import query

WIDTH = 88
HELP: list[str] = cli.context_settings["help_option_names"]  # commands inherit them when they are really called

HEAD = """\
# The command line

This page is `--help` itself, written by `make docs`; a test fails when it is stale.
"""


Path = tuple[str, ...]
"""The words that call a command."""


def commands(command: click.Command = cli, path: Path = ("dyknow",)) -> Iterator[tuple[Path, click.Command]]:
    """Yield every command with the words that call it, a group before its commands."""
    yield path, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from commands(command.commands[name], (*path, name))


def page() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(_section(path, command) for path, command in commands())


def _section(path: Path, command: click.Command) -> str:
    context: click.Context | None = None
    for name in path[:-1]:
        context = click.Context(click.Group(name), info_name=name, parent=context, help_option_names=HELP)
    settings = dict(command.context_settings) | {"terminal_width": WIDTH, "max_content_width": WIDTH}
    own = click.Context(command, info_name=path[-1], parent=context, **settings)
    return f"\n## {' '.join(path)}\n\n```text\n{command.get_help(own).rstrip()}\n```\n"


SQL_HEAD = """\
# The tables of results.duckdb

Written by `make docs` out of the comments in the file itself; a test fails when it is stale. `dyknow sql "..."` asks
them, and so does any DuckDB client, read-only. The file is a cache: it can be deleted at any time.

The macros `verdicts`, `soft`, `table1`, `table5`, `table2` and `samples` take
`(as_of, known_at := NULL, judge := 'match', rule := 'latest')`, for example `FROM table1('2023-12-18')`. Where several
answers to each question were drawn, `soft`, `table1` and `table2` judge one of them, `sample := 0`. `beliefs` and
`mass`, of models whose holders were scored by likelihood, take `(as_of, known_at := NULL, rule := 'latest')`.

For `as_of` all of them take `'release'`, too: each run is then judged as of the day its model came out. `moments`, with
`(as_of, known_at := NULL, rule := 'latest')`, tells that day and the snapshot of each run. `since_release`, with the
options of `table1`, counts what was outdated on that day and what has become outdated from then until `as_of`.

Of all dates at once, by one snapshot (`spanning(known_at := NULL)` names it): `timeline(days)` gives the rates of
`table1` and `table5` for a list of days, as in `FROM timeline([20190101, 20200101])`; `intervals()` from when to when
each fact of each run has which verdict; `said()` whom the answers name. They take
`(known_at := NULL, judge := 'match', rule := 'latest', sample := 0)`, `said` without the rule.
"""


def sql_page() -> str:
    """Return the page of tables and their columns as Markdown."""
    with duckdb.connect() as connection:
        connection.execute(query("dyknow/schema.sql"))
        tables = connection.execute("SELECT table_name, comment FROM duckdb_tables() ORDER BY table_oid").fetchall()
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() ORDER BY table_oid, column_index"
        ).fetchall()
    parts = [SQL_HEAD]
    for table, about in tables:
        rows = "".join(f"| {name} | {kind} | {text} |\n" for of, name, kind, text in columns if of == table)
        parts.append(f"\n## {table}\n\n{about}\n\n| column | type | |\n|---|---|---|\n{rows}")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(sql_page() if sys.argv[1:] == ["sql"] else page())
