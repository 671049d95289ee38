"""The study's outputs after editing, as runs; and its Tables 3, 7, 8 and Figure 3 out of them, by two routes."""

import csv
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from dyknow import results
from dyknow.editing import edit_curve, edit_scores
from dyknow.published import import_published
from dyknow.published_edits import import_edits
from kg.errors import DataError, RunError, UsageError
from kg.snapshot import find_snapshots
from tests.conftest import REPO

DAY: Final = "2023-12-18"
GROUPS: Final = ("countries", "athletes", "organizations")
DOMAINS: Final = dict.fromkeys(("companies_byRevenue", "organizations"), "organizations") | {
    "countries_byGDP": "countries",
    "athletes_byPayment": "athletes",
}
QUESTIONS: Final = {
    "generic": "The head of state in Italy is",
    "contextualized": "The President of Italy is",
    "rephrased_1": "The name of the current President of Italy is",
    "rephrased_2": "The position of the President of Italy is currently held by",
}
EDIT: Final = {
    "prompt": QUESTIONS["rephrased_2"],
    "target": "Sergio Mattarella",
    "subject": "President of Italy",
    "domain": "countries_byGDP",
    "element": "Italy",
    "attribute": "President of Italy",
    "prompt_type": "rephrased_2",
    "questions": QUESTIONS,
    "answers": ["Sergio Mattarella |S: +2015-02-03T00:00:00Z"],
}


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def output(label: str, prediction: str) -> dict[str, Any]:
    matched = [["x", "+2015-02-03T00:00:00Z"]] if label in ("correct", "outdated") else []
    about = {"element": "Italy", "attribute": "President of Italy", "match_type": [], "correct_answer": "x"}
    return about | {"prediction": prediction, "matched_answers": matched}


LABELS: Final = {
    "generic": ("ambiguous", " two men"),
    "contextualized": ("outdated", " Giorgio Napolitano"),
    "rephrased_1": ("irrelevant", " a man"),
    "rephrased_2": ("correct", " Sergio Mattarella"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of the study's layout with one method, one model and one fact."""
    write(tmp_path / "editing/datasets/some-model.json", [EDIT])
    place = tmp_path / "editing/ROME/some-model"
    texts = {phrasing: QUESTIONS[phrasing] + prediction for phrasing, (_, prediction) in LABELS.items()}
    answers = {"Italy": {"President of Italy": {"questions": QUESTIONS, "answers": texts}}}
    write(place / "countries_byGDP_answers.json", answers)
    analysis = {phrasing: {label: [output(label, prediction)]} for phrasing, (label, prediction) in LABELS.items()}
    write(place / "countries_byGDP_analysis.json", analysis)
    return place


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_folder_becomes_an_edited_run(folder: Path, tmp_path: Path) -> None:
    (run,) = import_edits(folder, tmp_path / "runs")
    assert (run.id, run.edits, run.responses, run.judgments, run.unresolved) == ("some-model.ROME", 1, 4, 3, 1)
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    assert info["kind"] == "imported"
    assert info["align"] == {
        "method": "rome", "mode": "sequential", "preset": "paper", "model": "some-model", "base_run": "some-model",
        "as_of": DAY, "edits": 1, "of": 1, "seed": None,
    }  # fmt: skip
    (edit,) = rows(run.path / "edits.jsonl")
    assert (edit["fact"], edit["prompt"], edit["target"]) == ("Q38/P35", "Q38/P35#rephrased_2", "Sergio Mattarella")
    assert edit["paraphrases"] == ["Q38/P35#contextualized", "Q38/P35#rephrased_1"]
    answer = next(row for row in rows(run.path / "responses.jsonl") if row["phrasing"] == "rephrased_2")
    assert answer["text"] == f"{QUESTIONS['rephrased_2']} Sergio Mattarella"
    assert {row["question"]: row["verdict"] for row in rows(run.path / "judgments/published.jsonl")} == {
        "Q38/P35#contextualized": "outdated", "Q38/P35#rephrased_1": "irrelevant", "Q38/P35#rephrased_2": "up-to-date",
    }  # fmt: skip


def test_importing_twice_changes_nothing_and_another_run_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (first,) = import_edits(tmp_path / "editing", tmp_path / "runs")
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    (second,) = import_edits(folder.parent, tmp_path / "runs")
    assert (first.written, second.written) == (True, False)
    assert before == {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    write(tmp_path / "editing/datasets/some-model.json", [EDIT | {"target": "Sergio M."}])
    with pytest.raises(RunError, match="is there already"):
        import_edits(folder, tmp_path / "runs")
    assert import_edits(folder, tmp_path / "runs", "other")[0].id == "other"


def test_a_share_of_the_edits_has_its_seed_and_its_order(folder: Path, tmp_path: Path) -> None:
    other = EDIT | {"element": "Poland", "attribute": "Prime Minister of Poland"}
    write(tmp_path / "editing/datasets/some-model.json", [other, EDIT])
    part = tmp_path / "editing/by_number_of_edits/some-model/ROME/single_edits/0.5"
    part.parent.mkdir(parents=True)
    folder.rename(part)
    write(part / "qa_to_update.json", {"countries_byGDP": {"Italy": {"President of Italy": {"answers": []}}}})
    (run,) = import_edits(tmp_path / "editing", tmp_path / "runs")
    align = json.loads((run.path / "run.json").read_text(encoding="utf-8"))["align"]
    assert (run.id, align["edits"], align["of"], align["seed"]) == ("some-model.ROME.50-percent", 1, 2, 42)
    write(part / "qa_to_update.json", {"countries_byGDP": {"Poland": {"Prime Minister of Poland": {"answers": []}}}})
    with pytest.raises(DataError, match="Q36/P6 is listed as edited and not answered"):
        import_edits(part, tmp_path / "others")


def test_the_entry_of_seracs_memory_belongs_to_the_prompt(folder: Path, tmp_path: Path) -> None:
    place = folder.parents[1] / "SERAC" / "some-model"
    place.parent.mkdir()
    folder.rename(place)
    memory = f"{EDIT['prompt']} {EDIT['target']} "
    answers = json.loads((place / "countries_byGDP_answers.json").read_text(encoding="utf-8"))
    texts = answers["Italy"]["President of Italy"]["answers"]
    texts["rephrased_1"] = memory + texts["rephrased_1"]
    write(place / "countries_byGDP_answers.json", answers)
    (run,) = import_edits(place, tmp_path / "runs")
    prompts = {row["phrasing"]: row["prompt"] for row in rows(run.path / "responses.jsonl")}
    assert prompts == QUESTIONS | {"rephrased_1": memory + QUESTIONS["rephrased_1"]}


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("analysis", {"generic": {"good": []}}, "generic has the label 'good'"),
        ("analysis", {"generic": {"correct": [output("correct", "another text")]}}, "is of another output"),
        ("answers", {"Italy": {"President of Italy": {"questions": {"generic": "Who?"}, "answers": {"generic": "x"}}}},
         "generic is not asked as the dataset has it"),
        ("answers", {"Poland": {"Prime Minister of Poland": {"questions": QUESTIONS, "answers": {"generic": "x"}}}},
         "the fact Q36/P6 is answered and not listed as edited"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(folder: Path, tmp_path: Path, name: str, change: object, says: str) -> None:
    write(folder / f"countries_byGDP_{name}.json", change)
    with pytest.raises(DataError, match=re.escape(says)):
        import_edits(folder, tmp_path / "runs")


def test_without_the_dataset_or_the_method_nothing_is_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "editing/datasets/some-model.json").unlink()
    with pytest.raises(DataError, match="Nothing says what was edited"):
        import_edits(folder, tmp_path / "runs")
    folder.parent.rename(folder.parents[1] / "PMET")
    with pytest.raises(UsageError, match="does not say by which method"):
        import_edits(tmp_path / "editing", tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no published outputs of edited models"):
        import_edits(tmp_path / "empty", tmp_path / "runs")


# The handed outputs


@pytest.fixture(scope="module")
def handed(shared: Path) -> Path:
    return shared / "published" / "editing"


@pytest.fixture(scope="module")
def connection(
    shared: Path, handed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("editing")
    assert len(import_edits(handed, folder / "runs")) == 35
    for name in ("results/gpt2-xl", "results_w_prompt/llama2-7b-chat"):
        import_published(shared / "published" / name, folder / "runs")
    snapshots = [snapshot for snapshot in find_snapshots() if snapshot.id == DAY]
    with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as opened:
        yield opened


@cache
def cells() -> list[dict[str, str]]:
    """Return the study's cells and points: as printed, what is right of them, and what its labels give."""
    with (REPO / "tests/cases/editing-tables.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figure(cell: dict[str, str], of: Any) -> float:  # noqa: ANN401 -- a score of either route
    return float(of.soft if cell["table"] == "7" else of.harmonic_mean)


def test_every_cell_and_point_out_of_the_labels(connection: duckdb.DuckDBPyConnection) -> None:
    scores = {(score.run, score.domain): score for score in edit_scores(connection, DAY, judge="published")}
    points = {point.run: point for point in edit_curve(connection, DAY, judge="published")}
    assert len(points) == 24
    known = {("Llama-2-7b-chat-hf.MEMIT", "countries"), ("Llama-2-7b-chat-hf.RAG_retrieved", "countries")}
    for cell in cells():
        found = figure(cell, points[cell["run"]] if cell["table"] == "F3" else scores[cell["run"], cell["domain"]])
        assert found == pytest.approx(float(cell["computed"]), abs=0.005), cell
        if cell["table"] == "F3":
            assert found == pytest.approx(float(cell["right"]), abs=0.005), cell
        elif cell["table"] != "3" or (cell["run"], cell["domain"]) not in known:
            assert abs(found - float(cell["right"])) <= 1, cell
        else:
            assert 1 < found - float(cell["right"]) < 2.1, cell
        assert bool(cell["note"]) == (cell["printed"] != cell["right"] or (cell["run"], cell["domain"]) in known), cell


class Plain:
    """The same figures without import, verdicts and SQL, out of the files alone."""

    def __init__(self, folder: Path, dataset: Path, domain: str) -> None:
        right: dict[tuple[str, ...], bool] = {}
        for file in folder.glob("*_analysis.json"):
            for phrasing, by_label in json.loads(file.read_bytes()).items():
                for label, outputs in by_label.items():
                    for one in outputs:
                        key = (file.name.removesuffix("_analysis.json"), one["element"], str(one["attribute"]))
                        right[*key, phrasing] = label == "correct"
        edited, others, facts = [], [], []
        for edit in json.loads(dataset.read_bytes()):
            key = (edit["domain"], edit["element"], str(edit["attribute"]))
            if (*key, "generic") in right and domain in ("all", DOMAINS[edit["domain"]]):
                own = [right[*key, name] for name in edit["questions"] if name not in ("generic", edit["prompt_type"])]
                edited.append(right[*key, edit["prompt_type"]])
                others += own
                facts.append(edited[-1] or any(own))
        self.n = len(facts)
        self.soft = 100 * sum(facts) / len(facts)
        e, p = 100 * sum(edited) / len(edited), 100 * sum(others) / len(others)
        self.harmonic_mean = 2 * e * p / (e + p) if e + p else 0.0


def place_of(run: str, handed: Path) -> Path:
    model, method, *share = run.split(".")
    if not share:
        return handed / method / model
    part = str(int(share[0].removesuffix("-percent")) / 100)
    return next((handed / "by_number_of_edits" / model / method).glob(f"*/{part}"))


def test_every_cell_and_point_by_the_second_route(handed: Path) -> None:
    for cell in cells():
        dataset = handed / "datasets" / f"{cell['run'].split('.')[0]}.json"
        plain = Plain(place_of(cell["run"], handed), dataset, cell["domain"])
        assert plain.n > 0
        assert figure(cell, plain) == pytest.approx(float(cell["computed"]), abs=0.005), cell


def test_labels_of_the_curve_are_its_answer_sheets(handed: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """The shares have the labels twice; the import reads the one file, and the other agrees."""
    sheets = [sheet.read_text(encoding="utf-8") for sheet in (handed / "by_number_of_edits").rglob("*_sheet.json")]
    counted = sum(len(re.findall('"(?:correct|outdated|irrelevant)"', text)) for text in sheets)
    assert counted > 3000
    statement = "SELECT count(*) FROM judgments WHERE run LIKE '%-percent'"
    assert results.run_sql(connection, statement).rows == [(counted,)]
