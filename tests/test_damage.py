"""A damaged run keeps nobody from the others: it is left out, named with file and line, and the command ends with 1."""

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow import results
from dyknow.cli import cli
from dyknow.damage import Damaged
from dyknow.named import import_named
from kg.errors import RunError
from kg.snapshot import find_snapshots
from tests.journals import write_judgments, write_run
from tests.test_report import PUBLISHED

SAID = {"Q36/P6#1": "Mateusz Morawiecki", "Q36/P6#2": "Donald Tusk"}


def _answers(folder: Path) -> Path:
    file = folder / "responses.jsonl"
    file.write_bytes(file.read_bytes() + b'{"question": torn\n')
    return file


def _judgments(folder: Path) -> Path:
    write_judgments(folder, {"Q36/P6#1": "outdated"})
    file = folder / "judgments" / "published.jsonl"
    file.write_bytes(file.read_bytes() * 2 + b"[]\n")
    return file


def _closed(folder: Path) -> Path:
    file = folder / "responses.jsonl"
    file.rename(folder / "responses.jsonl.1.gz")  # which it is not
    return folder / "responses.jsonl.1.gz"


def _record(folder: Path) -> Path:
    (folder / "run.json").write_bytes(b"{")
    return folder / "run.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results whose standings can be taken over."""
    folder = tmp_path_factory.mktemp("made")
    results.connect(folder / "runs", find_snapshots(), folder / "results.duckdb").close()
    return folder / "results.duckdb"


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made, tmp_path)
    for name in ("good", "lost"):
        write_run(tmp_path / "runs", name, SAID)
    return Path("runs")


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("harm", "line"), [(_answers, ", line 3"), (_judgments, ", line 3"), (_closed, ""), (_record, "")]
)
def test_the_others_are_scored_and_the_damaged_one_is_named(
    runs: Path, harm: Callable[[Path], Path], line: str
) -> None:
    file = harm(runs / "lost")
    words = ("score", "--as-of", "2023-12-18", "--known-at", "2023-12-18", "--format", "csv")
    for _ in range(2):  # made, and found made
        done = call(*words)
        assert done.exit_code == 1
        assert {row["run"] for row in _rows(done.stdout)} == {"good"}
        assert f"The run lost is left out: {file}{line}" in done.stderr
        assert ("backup" if harm is _closed else "ask again") in done.stderr
    alone = call(*words, "--run", "good")
    assert alone.exit_code == 0
    assert "lost is left out" in alone.stderr
    refused = call(*words, "--run", "lost")
    assert refused.exit_code == 1
    assert str(file) in refused.stderr
    assert not refused.stdout
    with pytest.raises(RunError, match=str(file)):
        results.connect(runs, find_snapshots(), Path("results.duckdb"))


def test_mended_it_is_there_again(runs: Path) -> None:
    whole = (runs / "lost" / "responses.jsonl").read_bytes()
    _answers(runs / "lost")
    told: list[Damaged] = []
    database = Path("results.duckdb")
    results.connect(runs, find_snapshots(), database, left_out=told.append).close()
    assert [one.id for one in told] == ["lost"]
    (runs / "lost" / "responses.jsonl").write_bytes(whole)
    with results.connect(runs, find_snapshots(), database, left_out=told.append) as connection:
        assert connection.execute("SELECT run FROM runs ORDER BY run").fetchall() == [("good",), ("lost",)]
    assert len(told) == 1


@pytest.mark.parametrize("harm", [_answers, _record])
def test_listings_show_the_rest_and_mark_it(runs: Path, harm: Callable[[Path], Path]) -> None:
    file = harm(runs / "lost")
    done = call("runs", "list", "--format", "csv")
    assert done.exit_code == 1
    assert [(row["run"], row["state"]) for row in _rows(done.stdout)] == [("good", "done"), ("lost", "damaged")]
    assert str(file) in done.stderr
    assert call("runs", "show", "good").exit_code == 0
    assert call("runs", "show", "lost", "--answers").exit_code == 1


def test_a_report_of_the_others_is_written(runs: Path) -> None:
    _answers(runs / "lost")
    done = call("report", "--as-of", "2023-12-18", "--known-at", "2023-12-18", "--format", "csv")
    assert done.exit_code == 1
    assert {row["run"] for row in _rows(done.stdout)} == {"good"}
    assert "The run lost is left out" in done.stderr


def test_a_damaged_run_without_texts_says_which_line(runs: Path) -> None:
    import_named(PUBLISHED, runs)
    file = runs / "gpt2-xl" / "named.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], b"torn\n", *lines[5:]]))
    done = call("runs", "list", "--format", "csv")
    assert f"{file}, line 5 is damaged" in done.stderr
    assert {"t5-3b", "gpt2-xl"} <= {row["run"] for row in _rows(done.stdout)}
    (runs / "gpt2-xl" / "run.json").write_bytes(b"[]")
    checked = call("runs", "verify", "t5-3b")
    assert (checked.exit_code, checked.stdout) == (0, "t5-3b: whole, done, 520 answers\n")
    shutil.rmtree(runs / "good")  # which say no more than tests of tables need
    shutil.rmtree(runs / "lost")
    checked = call("runs", "verify")
    assert checked.exit_code == 1
    assert "gpt2-xl: runs/gpt2-xl/run.json is no record of a run" in checked.stdout
    assert "t5-3b: whole" in checked.stdout
