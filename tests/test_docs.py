"""The docs are the program's: the page of commands is current, every option has help, the README's commands run."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dyknow import docs
from dyknow.cli import cli

REPO = Path(__file__).resolve().parents[1]
COMMANDS = list(docs.commands())
README = (REPO / "README.md").read_text(encoding="utf-8")


def shown() -> list[tuple[str, list[str]]]:
    """Return the commands the README shows, each with the lines it says they print (none: not said)."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def test_the_page_of_commands_is_current() -> None:
    page = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == docs.page(), "write it anew: make docs"


def test_the_page_of_tables_is_current_and_every_column_has_a_comment() -> None:
    page = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
    assert page == docs.sql_page(), "write it anew: make docs"
    assert "None" not in page


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_and_option_has_help(path: docs.Path, command: click.Command) -> None:
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{' '.join(path)} {parameter.opts[0]}"


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_has_an_example_that_parses(path: docs.Path, command: click.Command) -> None:
    if isinstance(command, click.Group):
        return
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("dyknow ")]
    assert lines, " ".join(path)
    for line in lines:
        words = shlex.split(line)
        assert tuple(words[: len(path)]) == path
        command.make_context(path[-1], words[len(path) :])


def test_the_commands_the_readme_shows_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert len(shown()) > 10
    for line, printed in shown():
        result = CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="dyknow")
        assert result.exit_code == 0, f"{line}\n{result.output}"
        assert printed in ([], result.stdout.splitlines()), line
    [table] = re.findall(r"```text\n(Table 1 .*?)```", README, flags=re.DOTALL)
    score = CliRunner().invoke(cli, ["score", "--as-of", "2025-11-30"], prog_name="dyknow").stdout.splitlines()
    assert [line for line in table.splitlines()[:-1] if line not in score] == [], "the last row is the demo's own"
