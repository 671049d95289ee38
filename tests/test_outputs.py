"""Answers from elsewhere: every format is read by question id, and judged as a run of our own would be."""

import csv
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from dyknow import benchmark, journal
from dyknow.cli import cli
from dyknow.outputs import Format, import_outputs, recognise
from dyknow.verify import verify
from kg.errors import DataError, RunError, UsageError

BENCH = benchmark.load()
PROMPTS = {question.id: question.text for question in BENCH.questions()}
TEXTS = {
    "Q38/P6#2": " Mario Draghi, an economist",
    "Q38/P35#1": "Sergio Mattarella",
    "Q36/P6#1": "Donald Tusk.",
    "Q36/P6#3": "I do not know.",
    "Q38/P6#1": "\n\nGiorgia Meloni\nShe",
}


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path: Path, texts: Mapping[str, str] = TEXTS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([("question", "text"), *texts.items()])
    return path


def sample(question: str, *texts: str, filter: str = "none") -> dict[str, Any]:
    return {
        "doc_id": 0,
        "doc": {"question": question, "prompt": PROMPTS.get(question)},
        "target": "['x']",
        "arguments": {"gen_args_0": {"arg_0": PROMPTS.get(question, "?"), "arg_1": {"until": []}}},
        "resps": [list(texts)],
        "filtered_resps": ["x"],
        "filter": filter,
    }


def lm_eval(folder: Path, texts: Mapping[str, str] = TEXTS, model: str = "owner/name", task: str = "dyknow") -> Path:
    stamp = "2026-01-05T10-00-00.123456"
    own = folder / model.replace("/", "__")
    own.mkdir(parents=True, exist_ok=True)
    (own / f"results_{stamp}.json").write_text(json.dumps({"model_name": model, "lm_eval_version": "0.4.13"}))
    return lines(own / f"samples_{task}_{stamp}.jsonl", [sample(q, text) for q, text in texts.items()])


def entry(question: str, content: object, epoch: int = 1, reason: str = "stop", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    choice = {"message": {"role": "assistant", "content": content}, "stop_reason": reason}
    usage = {"input_tokens": 8, "output_tokens": 3, "total_tokens": 11}
    prompt = PROMPTS.get(question)
    return {
        "id": question,
        "epoch": epoch,
        "input": prompt,
        "messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": content}],
        "output": {"model": "m", "choices": [choice], "usage": usage, "time": 0.5},
        "metadata": {"question": question},
    } | more


def log(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    header = {"model": "mockllm/model", "task": "dyknow", "packages": {"inspect_ai": "0.3.285"}}
    return {"version": 2, "status": "success", "eval": header, "samples": list(samples)}


def inspect_json(path: Path, texts: Mapping[str, str] = TEXTS) -> Path:
    path.write_text(json.dumps(log([entry(*pair) for pair in texts.items()])), encoding="utf-8")
    return path


def inspect_eval(path: Path, samples: Sequence[Mapping[str, Any]], *, header: str = "header.json") -> Path:
    whole = log(samples)
    own = whole.pop("samples")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in own:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        archive.writestr("summaries.json", "[]")
        archive.writestr(header, json.dumps(whole))
    return path


def inspect_zstd(path: Path, samples: Sequence[Mapping[str, Any]]) -> Path:
    """Write an .eval file as newer releases of Inspect do; zipfile cannot before Python 3.14."""
    whole = log(samples)
    members = {f"samples/{one['id']}_epoch_1.json": one for one in whole.pop("samples")} | {"header.json": whole}
    body, directory = b"", b""
    for name, value in members.items():
        content, encoded = json.dumps(value).encode(), name.encode()
        packed = zstandard.ZstdCompressor().compress(content)
        common = (20, 0, 93, 0, 33, zlib.crc32(content), len(packed), len(content), len(encoded), 0)
        directory += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, *common, 0, 0, 0, 0, len(body)) + encoded
        body += struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", *common) + encoded + packed
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def texts_of(run: Path) -> dict[str, str | None]:
    return {row["question"]: row["text"] for row in journal.responses(run)}


def bring(path: Path, form: Format, tmp_path: Path, **more: Any) -> Path:  # noqa: ANN401
    (run,) = import_outputs(path, form, tmp_path / "runs", BENCH, **more)
    return run.path


def call(tmp_path: Path, *arguments: str) -> Result:
    places = {
        "DYKNOW_RUNS": tmp_path / "runs",
        "DYKNOW_DATABASE": tmp_path / "results.duckdb",
        "DYKNOW_SNAPSHOTS": tmp_path / "snapshots",
    }
    return CliRunner().invoke(cli, arguments, env={key: str(value) for key, value in places.items()})


# Every format


def every_format(folder: Path) -> list[tuple[Path, Format]]:
    entries = [entry(*pair) for pair in TEXTS.items()]
    return [
        (table(folder / "answers.csv"), "table"),
        (lines(folder / "answers.jsonl", [{"question": q, "text": t} for q, t in TEXTS.items()]), "table"),
        (lm_eval(folder / "harness"), "lm-eval"),
        (inspect_json(folder / "log.json"), "inspect"),
        (inspect_eval(folder / "log.eval", entries), "inspect"),
        (inspect_zstd(folder / "newer.eval", entries), "inspect"),
    ]


def test_every_format_is_recognised_and_gives_the_same_texts(tmp_path: Path) -> None:
    for path, form in every_format(tmp_path):
        assert recognise(path) == form
        run = bring(path, form, tmp_path)
        assert texts_of(run) == TEXTS
        assert {row["prompt"] for row in journal.responses(run)} == {PROMPTS[question] for question in TEXTS}
        read = journal.read_run(run)
        assert (read.info["kind"], read.info["format"], read.state, read.samples) == ("imported", form, "done", 1)
        assert verify(read).problem is None


def test_the_verdicts_are_those_of_asking(tmp_path: Path) -> None:
    script = io.StringIO()
    csv.writer(script).writerows([("question", "text", "error"), *((q, t, "") for q, t in TEXTS.items())])
    (tmp_path / "script.csv").write_text(script.getvalue(), encoding="utf-8", newline="")
    asked = call(tmp_path, "run", f"scripted:{tmp_path / 'script.csv'}", "--run-id", "asked")
    assert asked.exit_code == 1  # what the script does not name has no answer
    for number, (path, _) in enumerate(every_format(tmp_path)):
        assert call(tmp_path, "import", str(path), "--run-id", f"imported{number}").exit_code == 0
    sql = "SELECT run, question, verdict, entity FROM verdicts('2023-12-18') ORDER BY ALL"
    done = call(tmp_path, "sql", sql, "--format", "csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    by_run: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        if row["question"] in TEXTS:
            by_run.setdefault(row["run"], {})[row["question"]] = row["verdict"], row["entity"]
    assert len(by_run) == 7
    assert {one["Q38/P35#1"][0] for one in by_run.values()} == {"up-to-date"}
    assert {one["Q38/P6#2"][0] for one in by_run.values()} == {"outdated"}
    assert all(one == by_run["asked"] for one in by_run.values())


def test_a_command_says_what_it_recognised_and_score_gives_the_tables(tmp_path: Path) -> None:
    path = table(tmp_path / "answers.csv")
    done = call(tmp_path, "import", str(path), "--title", "Mine", "--year", "2025")
    assert "holds a table of answers" in done.stderr and "5 answers from" in done.stderr
    assert "4 further phrasings of the same facts not there" in done.stderr
    assert "Mine" in call(tmp_path, "score", "--as-of", "2023-12-18").stdout
    assert "whole, done, 5 answers" in call(tmp_path, "runs", "verify").stdout
    assert "there already" in call(tmp_path, "import", str(path), "--title", "Mine", "--year", "2025").stderr
    assert call(tmp_path, "import", str(path), "--format", "lm-eval").exit_code == 1


def test_what_is_not_known_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "other.json").write_text("{}")
    for path in (tmp_path / "notes.txt", tmp_path / "other.json", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=path.name):
            recognise(path)
    lm_eval(tmp_path)
    inspect_json(tmp_path / "log.json")
    with pytest.raises(UsageError, match="both"):
        recognise(tmp_path)


# Nothing is overwritten


def test_the_same_file_is_the_same_run_and_another_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "answers.csv")
    run = bring(path, "table", tmp_path, run_id="mine")
    before = {file: file.read_bytes() for file in run.iterdir()}
    (again,) = import_outputs(path, "table", tmp_path / "runs", BENCH, run_id="mine")
    assert not again.written
    table(path, TEXTS | {"Q38/P35#1": "Mattarella"})
    with pytest.raises(RunError, match="mine is there already"):
        bring(path, "table", tmp_path, run_id="mine")
    assert {file: file.read_bytes() for file in run.iterdir()} == before
    assert [one.name for one in (tmp_path / "runs").iterdir()] == ["mine"]


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    path = lines(tmp_path / "two.jsonl", [{"question": "Q38/P6#1", "text": "x", "model": "a"}])
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"question": "Q38/P6#9", "text": "x", "model": "b"}\n')
    with pytest.raises(DataError, match=r"two.jsonl, line 2: the benchmark dyknow has no question 'Q38/P6#9'"):
        bring(path, "table", tmp_path)
    assert not (tmp_path / "runs").exists()


# Tables


def test_a_table_may_name_fact_and_phrasing_samples_prompts_and_models(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"fact": "Q38/P6", "phrasing": 1, "text": "b", "sample": 1, "prompt": "Who?", "model": "one", "note": "x"},
        {"fact": "Q38/P6", "phrasing": "1", "text": "a", "sample": "0", "model": "one"},
        {"question": "Q38/P6#1", "text": None, "model": "gpt2-xl"},
    ]
    one, other = import_outputs(lines(tmp_path / "t.jsonl", rows), "table", tmp_path / "runs", BENCH)
    found = journal.responses(one.path)
    assert [(row["sample"], row["text"], row["prompt"]) for row in found] == [
        (0, "a", PROMPTS["Q38/P6#1"]),
        (1, "b", "Who?"),
    ]
    assert journal.read_run(one.path).samples == 2
    assert one.passed_over == ("note",)
    assert (other.answers, other.errors) == (0, 1)
    info = journal.read_run(other.path).info
    assert info["released"]["day"] == "2019-11-05"
    with pytest.raises(UsageError, match="2 runs"):
        import_outputs(tmp_path / "t.jsonl", "table", tmp_path / "runs", BENCH, run_id="mine")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("question,text\nQ38/P6#1,a\nQ38/P6#1,b\n", r"t.csv, line 3: Q38/P6#1 .* before, at .*t.csv, line 2"),
        ("question,text\nQ38/P6#01,a\n", "line 2: the benchmark dyknow has no question 'Q38/P6#01'"),
        ("question,answer\nQ38/P6#1,a\n", "line 2: there is no column 'text'"),
        ("text\na\n", "line 2: no question is named"),
        ("question,text\nQ38/P6#1\n", "line 2: the row has not the 2 cells"),
        ("question,text\nQ38/P6#1,a,b\n", "line 2: the row has not the 2 cells"),
        ("question,text,sample\nQ38/P6#1,a,-1\n", "line 2: the sample is '-1'"),
        ("question,fact,phrasing,text\nQ38/P6#1,Q38/P6,2,a\n", "line 2: the question is 'Q38/P6#1', and fact"),
        ('question,text\nQ38/P6#1,"a"b\n', "line 2: "),
        # A cell may go over several lines; what is wrong is found where its row begins.
        ('question,text\nQ38/P6#1,"a\nb"\n\nQ38/P6#01,"c\nd"\n', "line 5: the benchmark dyknow has no question"),
        ('question,text\nQ38/P6#1,"a\nb",c\n', "line 2: the row has not the 2 cells"),
        ('question,text\nQ38/P6#1,a\nQ38/P6#2,"b\nc\n', "line 3: "),
        ("question,text\n", "holds no answer"),
        (b"question,text\nQ38/P6#1,\xff\n", "is not UTF-8"),
    ],
)
def test_a_malformed_table_is_named_with_the_line(tmp_path: Path, content: str | bytes, says: str) -> None:
    (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=says):
        bring(tmp_path / "t.csv", "table", tmp_path)


def test_a_line_that_breaks_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"question": "Q38/P6#1", "text": "a"}\n{"question": "Q38/')
    with pytest.raises(DataError, match=r"t.jsonl, line 2 is not JSON"):
        bring(tmp_path / "t.jsonl", "table", tmp_path)


def test_an_empty_cell_is_an_empty_answer_and_a_mark_of_order_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffquestion,text,sample\nQ38/P6#1,,\n", encoding="utf-8")
    assert texts_of(bring(tmp_path / "t.csv", "table", tmp_path)) == {"Q38/P6#1": ""}


def test_thoughts_are_kept_and_not_scored(tmp_path: Path) -> None:
    texts = {"Q38/P6#1": "<think>Draghi?</think>\n\nGiorgia Meloni", "Q38/P6#2": "<think>Is it"}
    rows = journal.responses(bring(table(tmp_path / "t.csv", texts), "table", tmp_path))
    assert [(row["text"], row["raw"]) for row in rows] == [
        ("Giorgia Meloni", texts["Q38/P6#1"]),
        ("", texts["Q38/P6#2"]),
    ]


# Logs


def test_samples_name_their_model_and_filters_repeat_nothing(tmp_path: Path) -> None:
    path = lm_eval(tmp_path / "out")
    lines(path, [sample("Q38/P6#1", "a", "b", filter=name) for name in ("first-line", "none")])
    run = bring(tmp_path / "out", "lm-eval", tmp_path)
    assert [(row["sample"], row["text"]) for row in journal.responses(run)] == [(0, "a"), (1, "b")]
    info = journal.read_run(run).info
    assert (info["model"]["name"], run.name.rpartition("-")[0]) == ("owner/name", "owner-name")
    assert info["origin"] == {"tool": "lm-eval", "version": "0.4.13", "task": "dyknow"}


def test_samples_of_other_tasks_are_passed_over_in_a_folder(tmp_path: Path) -> None:
    other = lm_eval(tmp_path / "out", {}, task="squad")
    lines(other, [sample("Where is it?", "there")])
    third = lm_eval(tmp_path / "out", {}, task="mmlu")
    lines(third, [{"doc": {"choices": ["a", "b"]}, "resps": [[["-1.5", "False"]]]}])
    with pytest.raises(UsageError, match="no answers to questions of dyknow"):
        bring(tmp_path / "out", "lm-eval", tmp_path)
    lm_eval(tmp_path / "out")
    assert texts_of(bring(tmp_path / "out", "lm-eval", tmp_path)) == TEXTS
    with pytest.raises(DataError, match=r"line 1: the benchmark dyknow has no question 'Where is it\?'"):
        bring(other, "lm-eval", tmp_path)


def test_samples_without_texts_are_named(tmp_path: Path) -> None:
    path = lm_eval(tmp_path)
    lines(path, [sample("Q38/P6#1", "a") | {"resps": [[["-1.5", "False"]]]}])
    with pytest.raises(DataError, match=r"line 1: 'resps' holds no generated text"):
        bring(path, "lm-eval", tmp_path)
    lines(path, [sample("Q38/P6#1", "a") | {"doc": {"text": "x"}}])
    with pytest.raises(DataError, match="line 1: 'doc' names no question"):
        bring(path, "lm-eval", tmp_path)
    older = sample("Q38/P6#1", "a") | {"arguments": [["Older:", {"until": []}]]}
    assert journal.responses(bring(lines(path, [older]), "lm-eval", tmp_path))[0]["prompt"] == "Older:"


def test_inspect_tells_epochs_refusals_errors_and_thoughts(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Meloni"}]
    samples = [
        entry("Q38/P6#1", parts),
        entry("Q38/P6#1", "no", epoch=2, reason="content_filter"),
        entry("Q38/P6#2", "cut", reason="max_tokens"),
        entry("Q38/P6#2", "x", epoch=2, error={"message": "no connection"}),
        entry("Q38/P6#3", "attachment://abc", attachments={"abc": "Long"}),
        entry("Q36/P6#1", "x", output={"choices": []}),
    ]
    rows = journal.responses(bring(inspect_eval(tmp_path / "l.eval", samples), "inspect", tmp_path))
    found = {(row["question"], row["sample"]): row for row in rows}
    said = {key: (row["text"], row["status"], row["finish_reason"]) for key, row in found.items()}
    assert said == {
        ("Q38/P6#1", 0): ("Meloni", "ok", "stop"),
        ("Q38/P6#1", 1): ("no", "refused", "content_filter"),
        ("Q38/P6#2", 0): ("cut", "ok", "length"),
        ("Q38/P6#2", 1): (None, "error", "stop"),
        ("Q38/P6#3", 0): ("Long", "ok", "stop"),
        ("Q36/P6#1", 0): (None, "error", None),
    }
    assert found["Q38/P6#1", 0]["raw"] == "<think>Hm.</think>Meloni"
    assert found["Q38/P6#2", 1]["error"] == "no connection"
    assert (found["Q38/P6#2", 0]["prompt_tokens"], found["Q38/P6#2", 0]["seconds"]) == (8, 0.5)


def test_a_log_that_was_cut_off_gives_what_it_holds(tmp_path: Path) -> None:
    path = inspect_eval(tmp_path / "l.eval", [entry("Q38/P6#1", "x")], header="_journal/start.json")
    assert texts_of(bring(path, "inspect", tmp_path)) == {"Q38/P6#1": "x"}


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    path = inspect_zstd(tmp_path / "l.eval", [entry("Q38/P6#1", "x")])
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"l\.eval"):
        bring(path, "inspect", tmp_path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"l\.eval cannot be read"):
        bring(path, "inspect", tmp_path)


def test_a_year_beside_a_known_day_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("question,text,model\nQ38/P6#1,Meloni,gpt2-xl\n", encoding="utf-8")
    runs = ("--runs", str(tmp_path / "runs"))
    said = CliRunner().invoke(cli, ["import", str(tmp_path / "t.csv"), "--year", "2021", "--run-id", "a", *runs])
    assert said.exit_code == 0, said.output
    assert "--year 2021 stands beside the model's name" in said.stderr
    assert "2019-11-05" in said.stderr
    same = CliRunner().invoke(cli, ["import", str(tmp_path / "t.csv"), "--year", "2019", "--run-id", "b", *runs])
    assert "--year" not in same.stderr
