"""A small snapshot of one's own that is taken for its date alone is named beside the larger shipped one."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from tests.journals import write_run

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smaller")
    facts = EXAMPLES / "facts.csv"
    done = call(folder, "snapshot", "take", "--source", "table", str(facts), "--date", "2024-06-30")
    assert done.exit_code == 0, done.output
    write_run(folder / "runs", "one", {"Q36/P6#1": "Donald Tusk"})
    return folder


def call(folder: Path, *words: str) -> Result:
    places = {"DYKNOW_SNAPSHOTS": "snapshots", "DYKNOW_RUNS": "runs", "DYKNOW_DATABASE": "results.duckdb"}
    env = {name: str(folder / place) for name, place in places.items()}
    return CliRunner().invoke(cli, words, env=env)


SAID = "has 5 facts; the shipped one, 2025-11-30, has 139: --known-at 2025-11-30 takes that."


@pytest.mark.parametrize("words", [("answers",), ("score", "--table", "study")])
def test_both_are_named(made: Path, words: tuple[str, ...]) -> None:
    small = call(made, *words, "--as-of", "2024-01-01")
    assert small.exit_code == 0, small.output
    assert SAID in small.stderr
    assert "Snapshot 2024-06-30 of " in small.stderr
    for chosen in (("2024-01-01", "--known-at", "2024-06-30"), ("2024-12-31",), ("2023-12-01",)):
        assert "the shipped one" not in call(made, *words, "--as-of", *chosen).stderr
