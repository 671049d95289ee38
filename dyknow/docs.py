"""Writes docs/cli.md out of the commands' own help, and docs/sql.md out of the tables' own comments.

``python -m dyknow.docs > docs/cli.md`` and ``python -m dyknow.docs sql > docs/sql.md``; ``make docs`` does both.
"""

import sys
from collections.abc import Iterator

import click

from dyknow import catalogue
from dyknow.cli import cli

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
# The results in SQL

Written by `make docs` out of the comments of the tables, views and macros themselves; tests run every example.
`dyknow sql "..."` asks them, alone it opens a prompt, and `--file` runs a file; so does any DuckDB client from 1.0 on,
read-only. `results.duckdb` is a cache: it can be deleted at any time. `dyknow export results` writes its tables as
Parquet or CSV.

* **Macros** are called like tables, most of them with a date: `FROM table1('2023-12-18')`. They take `(as_of,
  known_at := NULL, judge := 'match', rule := 'latest')`, where what follows `:=` may be left out. An `as_of` of
  `'release'` judges each run as of the day its model came out. Where several answers to each question were drawn, those
  that take a `sample` judge that one of them. Of all dates at once, by one snapshot, tell `timeline`, `intervals` and
  `said`.
* **Views** need no date: they show the answers as read, or are judged as of the newest snapshot's day or of release.
* **Tables** hold what macros and views are made of. Days are integers, YYYYMMDD, and stretches of days half-open.

## What people ask
"""


def sql_page() -> str:
    """Return the page of examples, views, macros and tables as Markdown."""
    parts = [SQL_HEAD]
    parts += [f"\n### {one.title}\n\n{_about(one.about)}{_sql(one.statement)}" for one in catalogue.examples()]
    parts.append("\n## Views\n")
    parts += [_entry(entry) for entry in catalogue.views()]
    parts.append("\n## Macros\n")
    parts += [_entry(entry) for entry in catalogue.macros()]
    parts.append("\n## Tables\n")
    columns = catalogue.columns()
    for table, about in catalogue.tables():
        rows = "".join(f"| {name} | {kind} | {text} |\n" for of, name, kind, text in columns if of == table)
        parts.append(f"\n### {table}\n\n{about}\n\n| column | type | |\n|---|---|---|\n{rows}")
    return "".join(parts)


def _about(about: str) -> str:
    """Return what an example gives, as a sentence."""
    said = " ".join(about.split()).partition("Out: ")[2]
    return f"Gives {said}\n\n"


def _sql(statement: str) -> str:
    return f"```sql\n{statement}\n```\n"


def _entry(entry: catalogue.Entry) -> str:
    return f"\n### {entry.name}\n\n```text\n{entry.signature}\n\n{entry.about}\n```\n\n{_sql(entry.example)}"


if __name__ == "__main__":
    sys.stdout.write(sql_page() if sys.argv[1:] == ["sql"] else page())
