"""Writes docs/cli.md out of the commands' own help: ``python -m dyknow.docs > docs/cli.md``."""

import sys
from collections.abc import Iterator

import click

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


if __name__ == "__main__":
    sys.stdout.write(page())
