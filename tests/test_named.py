"""Figures without texts: what goes out comes in again, and says the same."""

from pathlib import Path

import pytest

from dyknow import named
from kg.errors import DataError, RunError

ROW = {
    "run": "small", "title": "Small", "release_year": 2020, "prefixed": "true", "fact": "Q38/P35", "domain": "countries",
    "subject": "Italy", "phrasing": "1", "counted": "true", "entity": "Q3956186", "label": "Sergio Mattarella",
    "reason": "matched",
}  # fmt: skip


def table(path: Path, **changed: str) -> Path:
    named.write([ROW | changed], path)
    return path


def test_what_goes_out_comes_in_again(tmp_path: Path) -> None:
    [folder] = named.import_named(table(tmp_path / named.FILE), tmp_path / "runs")
    [row] = named.rows(folder)
    assert (row["question"], row["entity"], row["counted"], row["status"]) == ("Q38/P35#1", "Q3956186", True, "ok")


def test_a_newer_table_replaces_what_an_older_one_gave(tmp_path: Path) -> None:
    named.import_named(table(tmp_path / "a.csv"), tmp_path / "runs")
    [folder] = named.import_named(table(tmp_path / "b.csv", entity="", label="", reason="refusal"), tmp_path / "runs")
    assert [row["reason"] for row in named.rows(folder)] == ["refusal"]


@pytest.mark.parametrize("kind", ["imported", "asked"])
def test_a_run_with_texts_is_never_replaced(tmp_path: Path, kind: str) -> None:
    record = tmp_path / "runs" / "small" / "run.json"
    record.parent.mkdir(parents=True)
    record.write_text(f'{{"id": "small", "kind": "{kind}"}}', encoding="utf-8")
    if kind == "imported":
        named.import_named(table(tmp_path / "a.csv"), tmp_path / "runs")
    else:
        with pytest.raises(RunError, match="small"):
            named.import_named(table(tmp_path / "a.csv"), tmp_path / "runs")
    assert sorted(path.name for path in record.parent.iterdir()) == ["run.json"]


def test_a_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("run,entity\nsmall,Q1\n", encoding="utf-8")
    with pytest.raises(DataError, match="header"):
        named.import_named(tmp_path / "a.csv", tmp_path / "runs")
    with pytest.raises(DataError, match="no file"):
        named.import_named(tmp_path / "b.csv", tmp_path / "runs")
