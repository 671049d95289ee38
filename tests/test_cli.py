"""The command line: what reaches which stream, with which exit code."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from dyknow.commands import graph
from kg import answers

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def test_alone_it_shows_the_way() -> None:
    result = call()
    assert result.exit_code == 0
    assert "dyknow answers --as-of" in result.stdout


@pytest.mark.parametrize("known_at", ["2023-12-18", "2025-11-30"])
@pytest.mark.parametrize(("day", "holder"), [("2023-12-18", "Donald Tusk"), ("2023-12-12", "Mateusz Morawiecki")])
def test_who_heads_the_polish_government(day: str, holder: str, known_at: str) -> None:
    result = call("answers", "--as-of", day, "--known-at", known_at, "--subject", "poland", "--format", "json")
    [answer] = [one for one in json.loads(result.stdout) if one["property"] == "P6"]
    assert [one["holder"] for one in answer["holders"] if one["standing"] == "up-to-date"] == [holder]
    assert answer["snapshot"] == known_at


def test_a_subject_is_found_by_its_id_too() -> None:
    by_id = call("answers", "--as-of", "2024-06-01", "--subject", "Q35", "--format", "csv")
    assert by_id.stdout == call("answers", "--as-of", "2024-06-01", "--subject", "DENMARK", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(by_id.stdout)))
    assert "Frederik X of Denmark" in {row["holder"] for row in rows if row["standing"] == "up-to-date"}


@pytest.mark.parametrize("form", ["csv", "json", "table"])
def test_answer_sets_that_come_in_batches_print_as_one_text(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("answers", "--as-of", "2023-12-18", "--format", form)
    once = call(*words)
    monkeypatch.setattr(answers, "FACTS_AT_ONCE", 13)
    monkeypatch.setattr(graph, "_AT_ONCE", 5)
    parts = call(*words)
    assert (parts.exit_code, parts.stdout) == (0, once.stdout)
    assert len(once.stdout.splitlines()) > 130
    last = parts.stderr.splitlines()[-1].split()
    assert ("answer sets:", last[-3], last[-1]) == (" ".join(last[:2]), last[-1], last[-3]), "how far it has come"


def test_a_day_before_the_record_is_not_a_vacancy() -> None:
    result = call("answers", "--as-of", "2010-01-01", "--known-at", "2025-11-30", "--subject", "South Korea")
    assert "not covered" in result.stdout
    assert "vacancy" not in result.stdout


def test_today_is_a_day() -> None:
    assert call("answers", "--as-of", "today", "--subject", "Italy").exit_code == 0


WRONG = [
    (("answers", "--as-of", "2023-13-40"), 2, "no day"),
    (("answers", "--as-of", "2023-12-18", "--subject", "Polnad"), 2, "Did you mean 'Poland'?"),
    (("answers", "--as-of", "2023-12-18", "--known-at", "2020-01-01"), 2, "2023-12-18"),
    (("answer",), 2, "Did you mean 'answers'?"),
    (("sparql", "SELECT nonsense {"), 1, "refused"),
    (("sparql", "DELETE WHERE { ?s ?p ?o }"), 1, "refused"),
    (("score", "--as-of", "2023-12-18"), 2, "dyknow run"),
    (("snapshot", "show", "2023-12-19"), 2, "Did you mean '2023-12-18'?"),
    (("runs", "show", "nobody"), 2, "dyknow runs list"),
    (("import", "nowhere"), 2, "nowhere"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words)[:40] for words, *_ in WRONG])
def test_an_error_is_a_sentence_and_the_next_step(words: tuple[str, ...], code: int, said: str) -> None:
    result = call(*words)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert not result.stdout


def test_debug_shows_where_an_error_comes_from() -> None:
    assert "Traceback" in call("answers", "--as-of", "2023-12-18", "--subject", "Polnad", "--debug").stderr


def test_the_figures_of_published_models_fit_80_columns_and_name_their_snapshot() -> None:
    assert call("import", str(REPO / "examples" / "published")).exit_code == 0
    shown = call("score", "--as-of", "2023-12-18")
    assert shown.exit_code == 0
    assert "snapshot 2023-12-18" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100
    rows = list(csv.DictReader(io.StringIO(call("score", "--as-of", "2025-11-30", "--format", "csv").stdout)))
    assert list(rows[0]) == ["table", "run", "domain", "measure", "n", "value", "lower", "upper"]
    assert {row["table"] for row in rows} == {"1", "2", "5"}


def test_a_model_is_asked_scored_and_explained(elsewhere: Path) -> None:
    script = elsewhere / "answers.csv"
    script.write_text("question,text,error\nQ36/P6,Mateusz Morawiecki.,\n", encoding="utf-8")
    bench = elsewhere / "one.toml"
    bench.write_text(
        'name = "one"\n[[group]]\nname = "g"\ndomain = "countries"\nproperty = "P6"\n'
        'facts = [{ subject = "Poland", entity = "Q36" }]\n[group.phrasings]\n1 = "{subject} is led by"\n',
        encoding="utf-8",
    )
    words = ("evaluate", f"scripted:{script}", "--benchmark", str(bench), "--run-id", "one", "--as-of")
    result = call(*words, "2023-12-12", "--as-of", "2023-12-18", "--format", "json")
    assert result.exit_code == 0, result.output
    before, after = json.loads(result.stdout)
    assert [row["up_to_date"] for row in before["table1"] if row["run"] == "one"] == [100.0, 100.0]
    assert [row["outdated"] for row in after["table1"] if row["run"] == "one"] == [100.0, 100.0]
    assert "Mateusz Morawiecki" in (elsewhere / "report.html").read_text(encoding="utf-8")
    why = json.loads(call("why", "one", "Q36/P6#1", "--as-of", "2023-12-18", "--format", "json").stdout)
    assert (why["verdict"], why["label"], why["up_to_date"]) == ("outdated", "Mateusz Morawiecki", ["Donald Tusk"])


def test_a_closed_pipe_makes_no_noise(elsewhere: Path) -> None:
    command = f"{sys.executable} -m dyknow.cli answers --as-of 2023-12-18 --format csv | head -1"
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, cwd=elsewhere, env=environment
    )
    assert done.stdout.startswith("fact,")
    assert "Traceback" not in done.stderr
