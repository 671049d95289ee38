"""Where a command is to write is looked at before it works."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from tests.journals import write_run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs", "one", {"Q36/P6#1": "Donald Tusk"})
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


DAY = ("--as-of", "2023-12-18")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "-o", "folder"), "folder is a folder; name a file in it"),
        (("report", "-o", "file/report.html"), "file is a file, so there can be no"),
        (("report", "--format", "md", "-o", "folder"), "folder is a folder"),
        (("report", "--format", "svg", "-o", "file"), "file is a file, where a folder is to be"),
        (("report", "--format", "svg", "--figure", "bars", "-o", "folder"), "folder is a folder"),
        (("evaluate", "scripted:no", *DAY, "-o", "folder"), "folder is a folder"),
        (("judge", "export", "--out", "folder"), "folder is a folder"),
        (("judge", "export", "--out", "missing/table.csv"), "There is no folder missing"),
        (("align", "plan", "one", *DAY, "--out", "folder"), "folder is a folder"),
        (("align", "edit", "rome", "one", *DAY, "--delta", "file"), "file is a file, where a folder"),
        (("export", "lm-eval", *DAY, "--out", "file"), "file is a file, where a folder"),
        (("export", "results", "--out", "file/deep"), "file is a file, so there can be no"),
        (("export", "named", "folder"), "folder is a folder"),
        (("export", "edits", "file"), "file is a file, where a folder"),
        (("benchmark", "paraphrase", "scripted:no", "--out", "folder"), "folder is a folder"),
        (("benchmark", "adopt", "review.toml", "--out", "missing/mine.toml"), "There is no folder missing"),
        (("benchmark", "resolve", "--out", "folder"), "folder is a folder"),
    ],
)
def test_it_is_refused_before_anything_is_done(here: Path, words: tuple[str, ...], says: str) -> None:
    done = call(*words)
    assert done.exit_code == 2, done.output
    assert says in " ".join(done.stderr.split())
    assert not (here / "results.duckdb").exists()
    assert not done.stdout
