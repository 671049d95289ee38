"""The commands of `dyknow align`: a run's outdated facts are edited, asked again and measured.

The model reads what a text method puts before a question; what is edited, and what comes of it, are real facts.
"""

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dyknow.benchmark import Question
from dyknow.cli import cli
from dyknow.models.base import Answer, Asked
from kg.errors import ModelError
from tests.journals import write_run
from tests.text_methods import Bag

BENCHMARK = """
name = "small"
[[group]]
name = "governments"
domain = "countries"
property = "P6"
facts = [
  { subject = "Italy", entity = "Q38" }, { subject = "Poland", entity = "Q36" },
  { subject = "Germany", entity = "Q183" }, { subject = "Spain", entity = "Q29" },
  { subject = "Canada", entity = "Q16" }, { subject = "France", entity = "Q142" },
]
[group.phrasings]
1 = "The government of {subject} is led by"
2 = "The head of government of {subject} is"
3 = "These days {subject} has as its head of government"

[[group]]
name = "clubs"
domain = "athletes"
property = "P54"
facts = [{ subject = "Lionel Messi", entity = "Q615" }, { subject = "Cristiano Ronaldo", entity = "Q11571" }]
[group.phrasings]
1 = "The club of {subject} is"
2 = "The footballer {subject} plays for"
3 = "At present the team of {subject} is"
"""

# As of 2023-12-18 the first two and Messi's club are outdated.
SAID = {
    "Q38/P6": "Mario Draghi",
    "Q36/P6": "Mateusz Morawiecki",
    "Q183/P6": "Olaf Scholz",
    "Q29/P6": "Pedro Sánchez",
    "Q16/P6": "Justin Trudeau",
    "Q142/P6": "somebody",
    "Q615/P54": "Paris Saint-Germain F.C.",
    "Q11571/P54": "Al-Nassr",
}
OUTDATED = ["Q38/P6", "Q36/P6", "Q615/P54"]


class Reader:
    """A model that answers from what is before a question, where that says it; else from what it knows."""

    name = "reader"

    def __init__(self, fail_after: int | None = None, blank: bool = False) -> None:
        self.asked: list[str] = []
        self.fail_after = fail_after
        self.blank = blank

    def info(self) -> dict[str, Any]:
        return {"name": self.name, "files": {}, "device": None, "style": "completion", "sampling": {"method": "read"}}

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        for question in questions:
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise ModelError("The power is off.")
            self.asked.append(question.text)
            yield [Asked(question, Answer(self._read(question), "stop", question.text, 1, 1))]

    def _read(self, question: Question) -> str:
        before, _, last = question.text.rpartition("\n")
        told = re.findall(r"^New Fact: (.*)$", before, re.MULTILINE)
        told += [line for line in before.split("\n") if not line.startswith(("New Fact:", "Prompt:"))]
        subject = question.fact.subject_label
        for line in told[::-1]:
            found = re.search(r"\b(?:is led by|as its head of government|plays for|is) (.*?)\.?$", line)
            if subject and subject in line and subject in last and found:
                return found[1]
        return SAID.get(question.fact.id, f"something about {question.text}")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ask the reader once, as the run "base", and judge it: each test begins with a copy."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        _move(patch, folder)
        patch.setattr("dyknow.models.load_model", lambda name, options: Reader())
        (folder / "small.toml").write_text(BENCHMARK, encoding="utf-8")
        asked = call("run", "reader", "--benchmark", "small.toml", "--run-id", "base", "--title", "Reader")
        assert asked.exit_code == 0, asked.output
        assert call("score", "--as-of", "2023-12-18").exit_code == 0
    return folder


def _move(patch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        patch.delenv(name, raising=False)
    patch.chdir(folder)


@pytest.fixture
def reader(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Put the reader in the place of every model that is loaded; it has been asked as the run "base"."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    _move(monkeypatch, tmp_path)
    found = Reader()
    monkeypatch.setattr("dyknow.models.load_model", lambda name, options: found)
    for module in ("ike", "rag", "serac"):
        monkeypatch.setattr(f"dyknow.align.{module}.load_embedder", lambda name: Bag())
    return found


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def edit(method: str, *words: str) -> Result:
    return call("align", "edit", method, "base", "--as-of", "2023-12-18", *words)


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("runs", name, "run.json").read_text(encoding="utf-8"))
    return found


def lines(name: str, file: str) -> list[dict[str, Any]]:
    text = Path("runs", name, file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def table1(run: str) -> Mapping[str, float]:
    shown = json.loads(call("score", "--as-of", "2023-12-18", "--format", "json").stdout)
    rows = shown["table1"] if isinstance(shown, dict) else shown[0]["table1"]
    return {row["domain"]: row["up_to_date"] for row in rows if row["run"] == run}


# Plan


def test_a_plan_lists_what_is_outdated_and_what_is_right(reader: Reader) -> None:
    shown = call("align", "plan", "base", "--as-of", "2023-12-18")
    assert shown.exit_code == 0, shown.output
    assert "3 facts to update, as of 2023-12-18" in shown.stdout
    assert re.search(r"Italy +Mario Draghi +Giorgia Meloni", shown.stdout)
    rows = list(csv.DictReader(io.StringIO(call("align", "plan", "base", "--as-of", "2023-12-18", "--format", "csv").stdout)))  # fmt: skip
    assert [row["fact"] for row in rows] == OUTDATED
    assert {row["operation"] for row in rows} == {"update"}


def test_a_plan_that_was_saved_can_be_edited(reader: Reader) -> None:
    assert call("align", "plan", "base", "--as-of", "2023-12-18", "--out", "plan.jsonl").exit_code == 0
    kept = Path("plan.jsonl").read_text(encoding="utf-8").splitlines()[:1]
    Path("plan.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    done = edit("ike", "--requests", "plan.jsonl", "--set", "k=2", "--format", "json")
    assert done.exit_code == 0, done.output
    [folder] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    assert [line["fact"] for line in lines(folder, "edits.jsonl")] == ["Q38/P6"]


# Edit


def test_an_edited_model_is_a_run_with_its_edits_beside_it(reader: Reader) -> None:
    done = edit("ike", "--set", "k=2")
    assert done.exit_code == 0, done.output
    assert re.search(r"countries +2 +100.0 +100.0 +100.0‡ +100.0‡", done.stdout)
    [folder] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    align = record(folder)["align"]
    wanted = {"method": "ike", "base_run": "base", "as_of": "2023-12-18", "edits": 3, "of": 3, "seed": None}
    assert {key: align[key] for key in wanted} == wanted
    assert (align["mode"], record(folder)["title"]) == ("given", "Reader + ike (given)")
    assert [line["fact"] for line in lines(folder, "edits.jsonl")] == OUTDATED
    assert {line["target"] for line in lines(folder, "edits.jsonl")} == {"Giorgia Meloni", "Donald Tusk", "Inter Miami CF"}  # fmt: skip
    asked = {line["question"] for line in lines(folder, "responses.jsonl")}
    assert asked == {f"{fact}#{number}" for fact in OUTDATED for number in (1, 2, 3)}
    measured = align["measures"]
    assert (measured["probes"], measured["exact"], measured["neighbours"]) == (40, 1.0, 5)
    assert (measured["mirrored"], measured["kl"]) == (2, None)
    right = {line["text"] for line in lines(folder, "responses.jsonl") if line["fact"] == "Q38/P6"}
    assert right == {"Giorgia Meloni"}


def test_what_was_edited_is_not_edited_again(reader: Reader) -> None:
    assert edit("ike", "--set", "k=2").exit_code == 0
    asked = len(reader.asked)
    again = edit("ike", "--set", "k=2")
    assert again.exit_code == 0, again.output
    assert "is there already" in again.stderr
    assert len(reader.asked) == asked


def test_an_edited_run_that_was_killed_goes_on(reader: Reader) -> None:
    assert edit("ike", "--set", "k=2", "--all").exit_code == 0
    whole = {name: lines(name, "responses.jsonl") for name in (one.name for one in Path("runs").iterdir())}
    [name] = [one for one in whole if one != "base"]
    shutil.rmtree(Path("runs", name))
    reader.fail_after, reader.asked[:] = len(reader.asked) - 10, []
    stopped = edit("ike", "--set", "k=2", "--all")
    assert stopped.exit_code == 1
    assert "The power is off." in stopped.stderr
    before = lines(name, "responses.jsonl")
    assert 0 < len(before) < 24
    reader.fail_after = None
    assert edit("ike", "--set", "k=2", "--all").exit_code == 0
    after = lines(name, "responses.jsonl")
    assert after[: len(before)] == before
    assert {row["question"]: row["text"] for row in after} == {row["question"]: row["text"] for row in whole[name]}


def test_everything_is_in_json_and_in_csv(reader: Reader) -> None:
    found = json.loads(edit("rag", "--set", "mode=gold", "--all", "--format", "json").stdout)
    assert set(found) == {"edits", "beside", "side_effects"}
    assert {row["domain"] for row in found["edits"]} == {"countries", "athletes", "all"}
    [beside] = found["beside"]
    assert beside["retrieval"]["all"]["questions"] == 9
    assert set(beside["retrieval"]["all"]) == {"questions", "recall@1", "recall@3", "recall@10", "mrr"}
    assert beside["document_tokens"]["documents"] >= beside["document_tokens"]["least"] > 0
    rows = list(csv.DictReader(io.StringIO(edit("rag", "--set", "mode=gold", "--all", "--format", "csv").stdout)))
    values = {(row["table"], row["group"], row["measure"]): row["value"] for row in rows}
    for row in found["edits"]:
        assert float(values["edits", row["domain"], "efficacy"]) == row["efficacy"]
    assert float(values["beside", "retrieval all", "mrr"]) == beside["retrieval"]["all"]["mrr"]
    assert sum(row["facts"] for row in found["side_effects"]) == 8


def test_search_and_lengths_are_shown(reader: Reader) -> None:
    shown = edit("rag", "--set", "mode=retrieved").stdout
    assert re.search(r"facts +questions recall@1 recall@3 recall@10 mrr\nathletes +3 ", shown)
    assert re.search(r"documents +least +lower +median +upper +most\n *\d+ ", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_documents_of_ones_own_are_shown(reader: Reader) -> None:
    said = "The government of Italy is led by Giorgia Meloni.\n"
    Path("mine.txt").write_text(said, encoding="utf-8")
    done = edit("rag", "--documents", "mine.txt", "--set", "mode=retrieved", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["beside"][0]["document_tokens"]["documents"] == 1
    assert found["beside"][0]["retrieval"]["countries"]["recall@1"] == 0.5  # nothing is told of Poland


def test_side_effects_are_seen_by_two_routes(reader: Reader) -> None:
    # A method that tells every question the same document breaks what was right.
    Path("mine.txt").write_text("These days Spain has as its head of government Mariano Rajoy.\n", encoding="utf-8")
    done = edit("rag", "--documents", "mine.txt", "--set", "mode=retrieved", "--all", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    told = {(row["role"], row["verdict_before"], row["verdict_after"]): row["facts"] for row in found["side_effects"]}
    assert told["same class", "up-to-date", "outdated"] == 1
    assert told["edited", "outdated", "outdated"] == 3
    [name] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    rows = json.loads(call("compare", "base", name, "--as-of", "2023-12-18", "--format", "json").stdout)
    assert rows  # before and after side by side
    statement = f"SELECT role, verdict_before, verdict_after, facts FROM side_effects('{name}', '2023-12-18')"
    by_sql = json.loads(call("sql", statement, "--format", "json").stdout)
    assert {(row["role"], row["verdict_before"], row["verdict_after"]): row["facts"] for row in by_sql} == told
    beside = found["beside"][0]
    texts = {line["question"]: line["text"] for line in lines("base", "responses.jsonl")}
    after = {line["question"]: line["text"] for line in lines(name, "responses.jsonl")}
    assert beside["neighbours"] == 5
    changed = {question.partition("#")[0] for question in after if after[question] != texts[question]}
    assert beside["neighbours_exact"] == pytest.approx(1 - len(changed - set(OUTDATED)) / 5)


# Operations


def test_what_the_model_never_had_is_added(reader: Reader) -> None:
    done = edit("ike", "--set", "k=2", "--operation", "add", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {(row["domain"], row["n"], row["efficacy"]) for row in found["edits"]} == {("countries", 1, 100.0), ("all", 1, 100.0)}  # fmt: skip
    [name] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    assert [(line["fact"], line["operation"], line["target"]) for line in lines(name, "edits.jsonl")] == [("Q142/P6", "add", "Élisabeth Borne")]  # fmt: skip


def test_what_is_deleted_is_right_where_nobody_known_is_named(reader: Reader) -> None:
    done = edit("ike", "--set", "k=2", "--operation", "delete", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    [every] = [row for row in found["edits"] if row["domain"] == "all"]
    assert (every["n"], every["efficacy"], every["paraphrase"]) == (7, 100.0, 100.0)  # all but the one never known
    control = json.loads(edit("none", "--operation", "delete", "--format", "json").stdout)
    [every] = [row for row in control["edits"] if row["domain"] == "all"]
    assert (every["n"], every["efficacy"]) == (7, 0.0)
    [name] = [one.name for one in Path("runs").iterdir() if "ike" in one.name]
    assert {line["text"] for line in lines(name, "responses.jsonl")} == {"unknown"}


# Curve, refresh, run


def test_a_curve_takes_growing_sets_and_does_not_measure_twice(reader: Reader) -> None:
    words = ("align", "curve", "ike", "base", "--as-of", "2023-12-18", "--at", "1", "--at", "67%", "--at", "100%")
    done = call(*words, "--set", "k=2", "--format", "json")
    assert done.exit_code == 0, done.output
    assert [(row["edits"], row["of"], row["efficacy"]) for row in json.loads(done.stdout)] == [(1, 3, 100.0), (2, 3, 100.0), (3, 3, 100.0)]  # fmt: skip
    asked = len(reader.asked)
    again = call(*words, "--set", "k=2", "--format", "json")
    assert again.stdout == done.stdout
    assert len(reader.asked) == asked


def test_a_model_is_moved_to_a_later_day(reader: Reader) -> None:
    done = call("align", "refresh", "base", "--from", "2023-12-12", "--to", "2023-12-18", "--method", "ike", "--set", "k=2", "--format", "json")  # fmt: skip
    assert done.exit_code == 0, done.output
    [name] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    assert "2023-12-12-2023-12-18" in name
    [edited] = lines(name, "edits.jsonl")  # Tusk followed Morawiecki on the 13th
    assert (edited["fact"], edited["before"], edited["target"]) == ("Q36/P6", "Mateusz Morawiecki", "Donald Tusk")
    [every] = [row for row in json.loads(done.stdout)["edits"] if row["domain"] == "all"]
    assert every["efficacy"] == 100.0


def test_an_edited_model_is_asked_like_any_other(reader: Reader) -> None:
    done = call("run", "align:none/base@2023-12-18")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == "runs/base_none-2023-12-18"
    whole = {line["question"]: line["text"] for line in lines("base_none-2023-12-18", "responses.jsonl")}
    assert whole == {line["question"]: line["text"] for line in lines("base", "responses.jsonl")}
    asked = len(reader.asked)
    # Without a day, that of the run which is there.
    assert call("run", "align:none/base").stdout == done.stdout
    assert len(reader.asked) == asked
    assert table1("base_none-2023-12-18") == table1("base") != {}
    timeline = call("timeline", "--format", "csv")
    assert "base_none-2023-12-18" in timeline.stdout
    shown = call("report", "--as-of", "2023-12-18", "--output", "page.html")
    assert shown.exit_code == 0, shown.output
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Reader + none" in page


def test_an_edited_model_without_a_day_or_a_run_is_of_the_newest_snapshot(reader: Reader) -> None:
    assert call("run", "align:none/base").stdout.strip() == "runs/base_none-2025-11-30"


# Refusals


REFUSED = [
    (("align", "edit", "roem", "base"), 2, "There is no method 'roem'.", "Did you mean 'rome'?"),
    (("align", "edit", "rome", "bose"), 2, "There is no run 'bose'", "Did you mean 'base'?"),
    (("align", "edit", "ike", "base", "--preset", "best"), 2, "'best' is not one of", ""),
    (("align", "edit", "ike", "base", "--set", "shots=3"), 1, "IKE has no option 'shots'.", ""),
    (("align", "edit", "ike", "base", "--set", "k"), 2, "--set k has no value.", "Write --set layer=5"),
    (("align", "edit", "ike", "base", "--delta", "here"), 2, "ike changes no weights", "Leave --delta out."),
    (("align", "edit", "rome", "base"), 1, "weights", ""),
    (("align", "edit", "ft", "base"), 1, "weights", ""),
    (("align", "edit", "ike", "base", "--requests", "nowhere.jsonl"), 1, "nowhere.jsonl cannot be read", "align plan"),
    (("align", "edit", "ike", "taken"), 1, "no model that could be edited", "dyknow run MODEL"),
    (("align", "edit", "rag", "base", "--documents", "empty"), 1, "There are no documents in empty.", ".txt"),
]


@pytest.mark.parametrize(("words", "code", "said", "hint"), REFUSED, ids=[" ".join(row[0][2:]) for row in REFUSED])
def test_a_refusal_is_a_sentence(reader: Reader, words: tuple[str, ...], code: int, said: str, hint: str) -> None:
    Path("empty").mkdir()
    write_run(Path("runs"), "taken", {"Q38/P6#1": "Mario Draghi"})
    result = call(*words, "--as-of", "2023-12-18")
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.output
    assert not result.stdout
    assert {one.name for one in Path("runs").iterdir()} == {"base", "taken"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("align:ike", "names no edited model"),
        ("align:ikea/base", "There is no method 'ikea'"),
        ("align:ike/bose", "no run"),
    ],
)
def test_a_name_of_no_edited_model_is_refused(reader: Reader, name: str, said: str) -> None:
    result = call("run", name)
    assert result.exit_code == 2
    assert said in result.stderr


def test_options_of_asking_say_nothing_of_an_edited_model(reader: Reader) -> None:
    result = call("run", "align:none/base@2023-12-18", "--style", "chat")
    assert result.exit_code == 2
    assert "asked as its run was" in result.stderr


def test_an_edited_model_is_not_edited_again(reader: Reader) -> None:
    assert edit("none").exit_code == 0
    [name] = [one.name for one in Path("runs").iterdir() if one.name != "base"]
    result = call("align", "edit", "ike", name, "--as-of", "2023-12-18")
    assert result.exit_code == 1
    assert "is of an edited model" in result.stderr


def test_a_run_of_other_edits_is_not_overwritten(reader: Reader) -> None:
    assert edit("none").exit_code == 0
    [folder] = [one for one in Path("runs").iterdir() if one.name != "base"]
    kept = (folder / "edits.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "edits.jsonl").write_text("\n".join(kept[:2]) + "\n", encoding="utf-8")
    result = edit("none")
    assert result.exit_code == 1
    assert "was made with another set of requests" in result.stderr
