import json
from pathlib import Path
from typing import Any

import pytest

from dyknow.published import import_published
from kg.errors import DataError, RunError, UsageError

OUTPUT = {"questions": {"generic": "The head of state in Italy is", "contextualized": "The President of Italy is"}}


def write(folder: Path, name: str, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def answers(*texts: str | None) -> dict[str, Any]:
    phrasings = ["generic", "contextualized"][: len(texts)]
    return OUTPUT | {"answers": dict(zip(phrasings, texts, strict=True))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "results" / "some-model"
    italy = {"President of Italy": answers("a man", "Sergio Mattarella")}
    write(
        source, "countries_byGDP_answers.json", {"Italy": italy, "Poland": {"Prime Minister of Poland": answers("x")}}
    )
    labels = {"Italy": {"President of Italy": {"contextualized": "correct", "generic": "irrelevant"}}}
    write(source, "countries_byGDP_answer_sheet.json", labels)
    dates = {"Italy": {"President of Italy": {"contextualized": "+2015-02-03T00:00:00Z"}}}
    write(source, "countries_byGDP_dates.json", dates)
    return source


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_folder_becomes_a_run(folder: Path, tmp_path: Path) -> None:
    (run,) = import_published(folder, tmp_path / "runs")
    assert (run.id, run.responses, run.judgments, run.orphans, run.written) == ("some-model", 3, 2, 0, True)
    generic, contextualized, poland = rows(run.path / "responses.jsonl")
    assert contextualized["question"] == "Q38/P35#contextualized"
    assert contextualized["fact"] == "Q38/P35"
    assert contextualized["prompt"] == "The President of Italy is"
    assert contextualized["text"] == "Sergio Mattarella"
    assert (generic["counted"], contextualized["counted"]) == (False, True)
    assert poland["question"] == "Q36/P6#generic"
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    assert (info["kind"], info["title"], info["prefixed"]) == ("imported", "some-model", False)


def test_labels_are_joined_by_key(folder: Path, tmp_path: Path) -> None:
    (run,) = import_published(folder, tmp_path / "runs")
    found = {row["question"]: (row["verdict"], row["start"]) for row in rows(run.path / "judgments/published.jsonl")}
    assert found == {
        "Q38/P35#contextualized": ("up-to-date", "+2015-02-03T00:00:00Z"),
        "Q38/P35#generic": ("irrelevant", None),
    }


def test_a_label_without_an_output_is_counted_and_left_out(folder: Path, tmp_path: Path) -> None:
    labels = {"Italy": {"President of Italy": {"generic": "correct"}}, "Atlantis": {"King": {"generic": "correct"}}}
    write(folder, "countries_byGDP_answer_sheet.json", labels)
    write(folder, "countries_byGDP_dates.json", {})
    (run,) = import_published(folder, tmp_path / "runs")
    assert (run.judgments, run.orphans) == (1, 1)


def test_importing_twice_changes_nothing(folder: Path, tmp_path: Path) -> None:
    (first,) = import_published(folder, tmp_path / "runs")
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    (second,) = import_published(folder, tmp_path / "runs")
    assert not second.written
    assert before == {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["some-model"]


def test_another_run_of_that_name_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    import_published(folder, tmp_path / "runs")
    write(folder, "countries_byGDP_answers.json", {"Italy": {"President of Italy": answers("b", "c")}})
    with pytest.raises(RunError, match=r"some-model is there already, and its run\.json differs"):
        import_published(folder, tmp_path / "runs")
    (other,) = import_published(folder, tmp_path / "runs", "another")
    assert other.path.name == "another"


def test_a_parent_imports_every_model_below(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "clone/models_output/results_w_prompt/b", "organizations_answers.json", {})
    write(tmp_path / "clone/models_output/results/a", "organizations_answers.json", {})
    write(tmp_path / "clone/editing/ROME/a", "organizations_answers.json", {})
    assert [run.id for run in import_published(tmp_path / "clone", tmp_path / "runs")] == ["a", "b"]
    assert [run.id for run in import_published(folder.parent, tmp_path / "runs")] == ["some-model"]


def test_an_output_that_is_null_is_an_error_and_no_empty_answer(folder: Path, tmp_path: Path) -> None:
    write(folder, "countries_byGDP_answers.json", {"Italy": {"President of Italy": answers(None)}})
    (run,) = import_published(folder, tmp_path / "runs")
    assert [(row["status"], row["text"]) for row in rows(run.path / "responses.jsonl")] == [("error", None)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("countries_byGDP_answers.json", "{", "countries_byGDP_answers.json is not JSON"),
        ("countries_byGDP_answers.json", "[1]", "holds list where"),
        ("countries_byGDP_answers.json", '{"Italy": 1, "Italy": 2}', "the key 'Italy' twice"),
        ("countries_byGDP_answers.json", {"Italy": {}}, "'Italy' has neither answers nor posts"),
        ("countries_byGDP_answers.json", {"Italy": {"Pope": answers("x")}}, "'Italy' has the post 'Pope'"),
        (
            "countries_byGDP_answers.json",
            {"Italy": {"President of Italy": {"answers": {"generic": 7}, "questions": {"generic": "x"}}}},
            "the answer of Italy / President of Italy / generic is 7",
        ),
        (
            "countries_byGDP_answers.json",
            {"Italy": {"President of Italy": {"answers": {"rephrased_9": "x"}, "questions": {}}}},
            "Italy / President of Italy / rephrased_9 has an answer and no question",
        ),
        (
            "countries_byGDP_answer_sheet.json",
            {"Italy": {"President of Italy": {"generic": "maybe"}}},
            "Italy / President of Italy / generic is labelled 'maybe'",
        ),
    ],
)
def test_a_malformed_file_is_named_with_the_key(
    folder: Path, tmp_path: Path, name: str, content: object, says: str
) -> None:
    write(folder, name, content)
    with pytest.raises(DataError, match=says):
        import_published(folder, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_results_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no published results"):
        import_published(tmp_path, tmp_path / "runs")
    with pytest.raises(UsageError, match="There is no folder"):
        import_published(tmp_path / "nowhere", tmp_path / "runs")


def test_the_handed_results(shared: Path, tmp_path: Path) -> None:
    runs = import_published(shared / "published", tmp_path)
    assert len(runs) == 10
    assert {(run.responses, run.judgments, run.orphans) for run in runs} == {(520, 520, 0)}
    for run in runs:
        found = rows(run.path / "responses.jsonl")
        assert len({row["question"] for row in found}) == 520
        assert len({row["fact"] for row in found}) == 130
        assert sum(row["counted"] for row in found) == 390
        info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
        assert info["prefixed"] is (shared / "published/results_w_prompt" / run.id).is_dir()
        assert info["release_year"] is not None
