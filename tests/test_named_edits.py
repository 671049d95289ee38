"""Edited runs without texts: the example that ships gives the study's tables, and export and import are each other's end."""

import csv
import shutil
from pathlib import Path

import pytest

from dyknow import named_edits, results, resultsfile
from dyknow.editing import edit_curve, edit_scores, write_edits
from kg.errors import DataError, RunError
from kg.snapshot import Snapshot, find_snapshots
from tests.conftest import REPO
from tests.journals import write_judgments, write_run
from tests.test_editing import REQUESTS, TEXTS, write_edited

DAY = "2023-12-18"
EXAMPLE = REPO / "examples" / "editing"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    assert len(named_edits.import_edits(EXAMPLE, folder / "runs")) == 35
    results.connect(folder / "runs", chosen(), folder / "results.duckdb").close()
    return folder


@pytest.fixture
def database(example: Path, tmp_path: Path) -> Path:
    """Return a results file of other runs, whose standings need not be made again."""
    return Path(shutil.copy(example / "results.duckdb", tmp_path / "results.duckdb"))


def test_the_example_gives_the_studys_cells(example: Path) -> None:
    assert sum(file.stat().st_size for file in EXAMPLE.iterdir()) < 300_000
    with (REPO / "tests/cases/editing-tables.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    with results.connect(example / "runs", chosen(), example / "results.duckdb") as connection:
        scores = {(score.run, score.domain): score for score in edit_scores(connection, DAY, judge="published")}
        points = {point.run: point for point in edit_curve(connection, DAY, judge="published")}
        ours = edit_scores(connection, DAY)
    for cell in cells:
        score = scores[cell["run"], cell["domain"]]
        found = score.soft if cell["table"] == "7" else score.harmonic_mean
        assert found == pytest.approx(float(cell["computed"]), abs=0.005), cell
        if cell["table"] == "F3":
            assert points[cell["run"]].harmonic_mean == found
    assert {(score.run, score.domain, score.n) for score in ours} == {(*key, one.n) for key, one in scores.items()}


def chosen() -> list[Snapshot]:
    return [snapshot for snapshot in find_snapshots() if snapshot.id == DAY]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_judgments(write_edited(folder, "edited", TEXTS, REQUESTS), {"Q36/P6#1": "up-to-date", "Q38/P6#3": "outdated"})
    write_edited(folder, "edited-1", TEXTS, REQUESTS[1:2], seed=None)
    write_run(folder, "base", TEXTS)
    return folder


def test_what_was_exported_is_imported_again(runs: Path, tmp_path: Path, database: Path) -> None:
    with results.connect(runs, chosen(), database) as connection:
        assert named_edits.write(connection, tmp_path / "out") == 12
        before = [
            edit_scores(connection, DAY, judge="match"),
            resultsfile.run_sql(connection, "FROM edits ORDER BY ALL").rows,
        ]
    named_edits.import_edits(tmp_path / "out", tmp_path / "again")
    assert {path.name for path in (tmp_path / "again").iterdir()} == {"edited", "edited-1"}
    with results.connect(tmp_path / "again", chosen(), database) as connection:
        assert before == [
            edit_scores(connection, DAY, judge="match"),
            resultsfile.run_sql(connection, "FROM edits ORDER BY ALL").rows,
        ]
        labels = resultsfile.run_sql(connection, "SELECT run, question, verdict FROM judgments ORDER BY ALL").rows
    assert labels == [("edited", "Q36/P6#1", "up-to-date"), ("edited", "Q38/P6#3", "outdated")]


def test_runs_with_texts_are_left_and_others_refused(runs: Path, tmp_path: Path, database: Path) -> None:
    with results.connect(runs, chosen(), database) as connection:
        named_edits.write(connection, tmp_path / "out")
    journal = (runs / "edited" / "responses.jsonl").read_bytes()
    named_edits.import_edits(tmp_path / "out", runs)
    assert (runs / "edited" / "responses.jsonl").read_bytes() == journal
    assert not (runs / "edited" / "named.jsonl").exists()
    asked = (runs / "edited" / "run.json").read_text().replace('"imported"', '"asked"')
    (runs / "edited" / "run.json").write_text(asked)
    with pytest.raises(RunError, match="edited is there already and is no import"):
        named_edits.import_edits(tmp_path / "out", runs)


def test_two_targets_of_one_model_cannot_be_exported(runs: Path, tmp_path: Path, database: Path) -> None:
    write_edits(runs / "edited-1", [REQUESTS[0]])
    changed = (runs / "edited-1" / "edits.jsonl").read_text().replace("Donald Tusk", "Mateusz Morawiecki")
    (runs / "edited-1" / "edits.jsonl").write_text(changed)
    with (
        results.connect(runs, chosen(), database) as connection,
        pytest.raises(RunError, match="edit the same fact differently"),
    ):
        named_edits.write(connection, tmp_path / "out")


def test_tables_that_do_not_fit_are_named(tmp_path: Path) -> None:
    for file in EXAMPLE.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    edits = (tmp_path / "edits.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "edits.csv").write_text("".join(edits[:-1]), encoding="utf-8")
    with pytest.raises(DataError, match="the tables do not fit together for the run"):
        named_edits.import_edits(tmp_path, tmp_path / "runs")
    (tmp_path / "edits.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(DataError, match="the header is not model,fact"):
        named_edits.import_edits(tmp_path, tmp_path / "runs")
