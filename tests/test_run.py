import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from dyknow import benchmark, journal, provenance
from dyknow.benchmark import Question
from dyknow.journal import RunInfo, find_runs, judgments, read_run, responses
from dyknow.models.base import Answer, Asked
from dyknow.models.scripted import Script, Scripted
from dyknow.run import Progress, run_model
from kg.errors import ModelError, RunError, UsageError

REPO = Path(__file__).resolve().parents[1]
STUDY = benchmark.load()
QUESTIONS = STUDY.questions()[:10]


class Listening(Scripted):
    """Remembers what it was asked."""

    def __init__(self, script: Script | None = None, name: str = "scripted", fails_after: int | None = None) -> None:
        super().__init__(script or Script({"*": "Nobody"}, {}), name)
        self.heard: list[str] = []
        self.fails_after = fails_after

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        for batch in super().generate(questions, batch_size, sample):
            if self.fails_after is not None and len(self.heard) >= self.fails_after:
                raise MemoryError("out of memory")
            self.heard += [item.question.id for item in batch]
            yield batch


def ticking() -> Callable[[], datetime]:
    """Return a clock that moves on by a second with every look."""
    now = datetime(2024, 1, 1, tzinfo=UTC)

    def clock() -> datetime:
        nonlocal now
        now += timedelta(seconds=1)
        return now

    return clock


def ask(model: Scripted, folder: Path, **settings: Any) -> RunInfo:  # noqa: ANN401
    given: dict[str, Any] = {"benchmark": STUDY, "clock": ticking(), "batch_size": 3} | settings
    return run_model(model, given.pop("questions", QUESTIONS), folder, **given)


def lines_of(done: RunInfo) -> Path:
    return done.path / "responses.jsonl"


def test_a_run_records_what_was_asked_of_what(tmp_path: Path) -> None:
    done = ask(Listening(), tmp_path, title="Nobody", release_year=2020, command="dyknow run x", seed=7)
    info = json.loads((done.path / "run.json").read_text())
    assert done.state == "done"
    assert info["id"] == done.path.name
    assert info["kind"] == "asked"
    assert info["benchmark"] == {"name": "dyknow", "digest": STUDY.digest}
    assert info["prompts_digest"] == benchmark.prompts_digest(QUESTIONS)
    assert (info["title"], info["release_year"], info["command"], info["seed"]) == ("Nobody", 2020, "dyknow run x", 7)
    assert info["prefixed"] is False
    assert info["sampling"] == {"method": "scripted"}
    assert {"python", "dyknow"} <= info["packages"].keys() or "python" in info["packages"]
    assert info["started"] == "2024-01-01T00:00:01.000Z"
    assert info["ended"] > info["started"]
    assert info["tokens"] == 10
    assert info["prompt_tokens"] == sum(len(question.text.split()) for question in QUESTIONS)
    assert [leg["asked"] for leg in info["legs"]] == [10]


def test_a_row_has_every_field_and_sorted_keys(tmp_path: Path) -> None:
    lines = lines_of(ask(Listening(), tmp_path)).read_bytes().splitlines()
    row = json.loads(lines[0])
    assert list(row) == sorted(row)
    question = QUESTIONS[0]
    assert row | {"seconds": 0, "time": ""} == {
        "question": question.id, "fact": "Q38/P35", "domain": "countries", "subject": "Italy", "phrasing": "1",
        "counted": True, "sample": 0, "prompt": question.text, "text": "Nobody", "status": "ok",
        "finish_reason": "stop", "prompt_tokens": 6, "tokens": 1, "seconds": 0, "attempt": 1, "time": "", "error": None,
        "raw": None, "logprob": None, "ids_digest": None, "server": None, "model": None,
    }  # fmt: skip
    assert len(lines) == 10


def test_the_same_command_is_the_same_run_and_asks_nothing(tmp_path: Path) -> None:
    first = ask(Listening(), tmp_path)
    before = {file.name: file.read_bytes() for file in first.path.iterdir()}
    again = Listening()
    assert ask(again, tmp_path, batch_size=7).id == first.id
    assert again.heard == []
    assert {file.name: file.read_bytes() for file in first.path.iterdir()} == before


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    class Other(Listening):
        change: dict[str, Any]

        def info(self) -> dict[str, Any]:
            return super().info() | self.change

    ids = [ask(Listening(), tmp_path).id]
    changes: list[dict[str, Any]] = [
        {"files": {"a": "1"}}, {"revision": "abc"}, {"dtype": "bfloat16"}, {"style": "chat"},
        {"sampling": {"method": "scripted", "temperature": 0.7}},
        {"sampling": {"method": "scripted", "stop": ["\n"]}}, {"template": "Q: {question}"}, {"bos": True},
    ]  # fmt: skip
    for change in changes:
        model = Other()
        model.change = change
        ids.append(ask(model, tmp_path).id)
        assert len(model.heard) == 10  # never another model's answers
    ids.append(ask(Listening(name="b"), tmp_path).id)
    ids.append(ask(Listening(), tmp_path, questions=STUDY.questions(prefix=True)[:10]).id)
    ids.append(ask(Listening(), tmp_path, questions=QUESTIONS[:9]).id)
    assert len(set(ids)) == len(ids)
    model = Other()
    for seed in (1, 2):
        ids.append(ask(Listening(), tmp_path, seed=seed).id)
    assert len(set(ids)) == len(ids)
    model.change = {"device": "cuda:0"}  # an interrupted run may go on elsewhere
    assert ask(model, tmp_path).id == ids[0]


def test_a_name_with_other_settings_is_refused(tmp_path: Path) -> None:
    ask(Listening(), tmp_path, run_id="mine")
    with pytest.raises(RunError, match="The run mine was made with another model"):
        ask(Listening(name="b"), tmp_path, run_id="mine")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    if name:
        with pytest.raises(UsageError):
            ask(Listening(), tmp_path, run_id=name)
    assert list(tmp_path.iterdir()) == []


def test_a_model_s_name_of_odd_characters_makes_a_file_name(tmp_path: Path) -> None:
    assert ask(Listening(name="../Größe 7b/"), tmp_path).path.parent == tmp_path


def test_what_is_finished_before_a_failure_stays(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="scripted failed: MemoryError: out of memory"):
        ask(Listening(fails_after=6), tmp_path)
    (half,) = find_runs(tmp_path)
    assert half.state == "interrupted"
    assert len(responses(half.path)) == 6
    assert half.info["legs"][0]["error"] == "MemoryError: out of memory"
    model = Listening()
    done = ask(model, tmp_path)
    assert model.heard == [question.id for question in QUESTIONS[6:]]
    assert [leg["asked"] for leg in done.info["legs"]] == [6, 4]
    assert done.info["tokens"] == 10  # both legs
    assert done.info["started"] == half.info["started"]


def test_errors_are_asked_again_and_answers_never(tmp_path: Path) -> None:
    failing = {QUESTIONS[1].id: "no connection", QUESTIONS[4].id: "no connection"}
    first = ask(Listening(Script({"*": "Nobody"}, failing)), tmp_path, run_id="r")
    assert first.state == "with errors"
    assert first.info["errors"] == 2
    (row, _) = (row for row in responses(first.path) if row["status"] == "error")
    assert (row["status"], row["text"], row["error"], row["attempt"]) == ("error", None, "no connection", 1)
    model = Listening()
    done = ask(model, tmp_path, run_id="r")
    assert model.heard == sorted(failing, key=[q.id for q in QUESTIONS].index)
    assert (done.state, done.info["errors"], done.info["answered"]) == ("done", 0, 10)
    assert [row["attempt"] for row in responses(done.path)].count(2) == 2
    assert len(lines_of(done).read_bytes().splitlines()) == 12  # nothing is ever taken out


def test_a_line_torn_at_any_byte_is_asked_again_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some four hundred runs: all but git and the disk is quick.
    monkeypatch.setattr(provenance, "code", lambda: provenance.Code(None, None))
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    done = ask(Listening(), tmp_path, run_id="r", batch_size=1)
    whole = lines_of(done).read_bytes()
    start = whole.rfind(b"\n", 0, -1) + 1
    last = json.loads(whole[start:])["question"]
    for cut in range(start, len(whole)):
        lines_of(done).write_bytes(whole[:cut])
        assert len(responses(done.path)) == 9
        model = Listening()
        ask(model, tmp_path, run_id="r")
        assert model.heard == [last]
        assert len(responses(done.path)) == 10
        assert len(lines_of(done).read_bytes().splitlines()) == 10


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    done = ask(Listening(), tmp_path)
    lines = lines_of(done).read_bytes().splitlines(keepends=True)
    for damage in (b"{\n", b"[]\n", b'{"question": 1}\n', b'{"question": "a"}\n', b"\n"):
        lines_of(done).write_bytes(b"".join([*lines[:4], damage, *lines[5:]]))
        with pytest.raises(RunError, match=r"responses\.jsonl, line 5 is damaged"):
            responses(done.path)


CHILD = """
import sys, os
from datetime import UTC, datetime
from pathlib import Path
from dyknow import benchmark
from dyknow.models.scripted import Script, Scripted
from dyknow.run import run_model

class Slow(Scripted):
    def generate(self, questions, batch_size, sample=0):
        for batch in super().generate(questions, batch_size, sample):
            with open(sys.argv[2], "a") as heard:
                heard.writelines(item.question.id + "\\n" for item in batch)
            yield batch

study = benchmark.load()
model = Slow(Script({"*": "Nobody"}, {}, float(sys.argv[3])))
done = run_model(model, study.questions()[:60], Path(sys.argv[1]), benchmark=study,
                 clock=lambda: datetime.now(UTC), batch_size=4)
"""


def start(tmp_path: Path, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(tmp_path / "runs"), str(tmp_path / "heard"), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_rows(tmp_path: Path, count: int) -> Path:
    for _ in range(2000):
        for file in (tmp_path / "runs").glob("*/responses.jsonl"):
            if len(file.read_bytes().splitlines()) >= count:
                return file.parent
        time.sleep(0.01)
    raise AssertionError("the run did not get going")


def test_kill_9_loses_nothing_that_was_on_disk(tmp_path: Path) -> None:
    for rows in (8, 24):
        with start(tmp_path, 0.02) as child:
            folder = wait_for_rows(tmp_path, rows)
            child.send_signal(signal.SIGKILL)
        assert read_run(folder).state == "interrupted"
    on_disk = {row["question"] for row in responses(folder)}
    (tmp_path / "heard").unlink()
    with start(tmp_path, 0) as child:
        child.communicate()
    assert child.returncode == 0
    heard = (tmp_path / "heard").read_text().split()
    assert len(heard) == 60 - len(on_disk)
    assert not on_disk & set(heard)
    (done,) = find_runs(tmp_path / "runs")
    rows_on_disk = [orjson.loads(line) for line in lines_of(done).read_bytes().splitlines()]
    assert len(rows_on_disk) == len(responses(done.path)) == 60
    assert done.state == "done"
    assert len(done.info["legs"]) == 3
    assert sum(leg["asked"] for leg in done.info["legs"]) == done.info["tokens"] == 60
    assert [leg["ended"] is None for leg in done.info["legs"]] == [True, True, False]


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with start(tmp_path, 0.05) as child:
        folder = wait_for_rows(tmp_path, 4)
        assert read_run(folder).state == "running"
        with start(tmp_path, 0) as second:
            _, trouble = second.communicate()
        assert second.returncode != 0
        assert f"is being written by process {child.pid}".encode() in trouble
        assert len(responses(folder)) < 60  # readers are not locked out
        child.kill()


def test_a_lock_left_by_a_dead_process_keeps_nobody_out(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / "lock").write_text("1\n")
    assert ask(Listening(), tmp_path, run_id="r").state == "done"


def test_progress_tells_rate_and_time_left(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with pytest.raises(ModelError):
        ask(Listening(fails_after=6), tmp_path)
    ask(Listening(Script({"*": "x"}, {QUESTIONS[9].id: "down"})), tmp_path, progress=seen.append)
    assert [(step.done, step.total, step.errors, step.asked) for step in seen] == [
        (6, 10, 0, 0),
        (9, 10, 0, 3),
        (9, 10, 1, 4),
    ]
    assert seen[0].rate is None
    assert seen[1].rate == pytest.approx(3 / seen[1].seconds)
    assert seen[1].left == pytest.approx(seen[1].seconds / 3)


def test_nothing_to_ask_and_twice_the_same_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no question"):
        ask(Listening(), tmp_path, questions=())
    with pytest.raises(UsageError, match="Q38/P35#1 is asked twice"):
        ask(Listening(), tmp_path, questions=QUESTIONS[:1] * 2)
    with pytest.raises(UsageError, match="batch of 0"):
        ask(Listening(), tmp_path, batch_size=0)


def test_a_model_that_leaves_questions_out_is_found(tmp_path: Path) -> None:
    class Lazy(Listening):
        def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
            return super().generate(questions[:-1], batch_size)

    with pytest.raises(ModelError, match="answered 9 of 10"):
        ask(Lazy(), tmp_path)
    assert find_runs(tmp_path)[0].state == "interrupted"


def test_interrupting_closes_the_account(tmp_path: Path) -> None:
    def stop(step: Progress) -> None:
        if step.asked == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(Listening(), tmp_path, progress=stop)
    (half,) = find_runs(tmp_path)
    assert half.info["ended"] is None
    assert half.info["legs"][0]["asked"] == 3
    assert half.info["legs"][0]["error"] == "interrupted"


def test_answers_without_a_record_are_not_written_over(tmp_path: Path) -> None:
    done = ask(Listening(), tmp_path, run_id="r")
    (done.path / "run.json").unlink()
    with pytest.raises(RunError, match=r"has answers without a run\.json"):
        ask(Listening(), tmp_path, run_id="r")


def test_readers(tmp_path: Path) -> None:
    assert find_runs(tmp_path / "none") == []
    with pytest.raises(RunError, match="There is no run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        read_run(tmp_path)
    (tmp_path / "judgments").mkdir()
    row = {"question": "Q38/P35#1", "sample": 0, "judge": "published", "verdict": "outdated"}
    (tmp_path / "judgments" / "published.jsonl").write_text(json.dumps(row) + '\n{"question": "to')
    assert judgments(tmp_path) == [row]
    assert judgments(tmp_path / "none") == []


def test_the_last_good_row_counts() -> None:
    rows = [
        {"question": "a", "sample": 0, "status": "ok", "n": 1},
        {"question": "a", "sample": 0, "status": "ok", "n": 2},
        {"question": "a", "sample": 0, "status": "error", "n": 3},
        {"question": "a", "sample": 1, "status": "error", "n": 4},
        {"question": "a", "sample": 1, "status": "error", "n": 5},
    ]
    assert [row["n"] for row in journal.effective(rows)] == [2, 5]


def test_the_commit_is_that_of_the_checkout_the_code_runs_from() -> None:
    done = subprocess.run(["git", "-C", str(REPO), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert provenance.code().commit == (done.stdout.strip() if done.returncode == 0 else None)


# Samples


class Drawn(Listening):
    """Another text for each sample."""

    def info(self) -> dict[str, Any]:
        return super().info() | {"sampling": {"method": "random", "temperature": 0.7, "seed": 0}}

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        for batch in super().generate(questions, batch_size, sample):
            self.heard[-len(batch) :] = [f"{item.question.id} {sample}" for item in batch]
            yield [Asked(item.question, item.answer._replace(text=f"number {sample}")) for item in batch]


def test_every_sample_is_stored(tmp_path: Path) -> None:
    done = ask(Drawn(), tmp_path, samples=3)
    rows = responses(done.path)
    assert [(row["question"], row["sample"]) for row in rows] == sorted((q.id, n) for q in QUESTIONS for n in range(3))
    assert {(row["sample"], row["text"]) for row in rows} == {(n, f"number {n}") for n in range(3)}
    assert {row["attempt"] for row in rows} == {1}
    assert (done.samples, done.info["answered"], done.info["questions"]) == (3, 30, 10)


def test_samples_go_on_where_they_stopped_and_may_become_more(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="out of memory"):
        ask(Drawn(fails_after=13), tmp_path, samples=2)
    [half] = find_runs(tmp_path)
    model = Drawn()
    first = ask(model, tmp_path, samples=2)
    assert len(model.heard) == 20 - half.info["answered"]
    assert {heard[-1] for heard in model.heard} == {"1"}
    before = lines_of(first).read_bytes()
    fewer, more = Drawn(), Drawn()
    assert ask(fewer, tmp_path, samples=1).id == first.id
    assert fewer.heard == []
    grown = ask(more, tmp_path, samples=3)
    assert (grown.id, grown.samples) == (first.id, 3)
    assert more.heard == [f"{question.id} 2" for question in QUESTIONS]
    assert lines_of(grown).read_bytes().startswith(before)
    assert grown.info["tokens"] == 30


def test_a_greedy_model_has_one_sample(tmp_path: Path) -> None:
    class Greedy(Listening):
        def info(self) -> dict[str, Any]:
            return super().info() | {"sampling": {"method": "greedy"}}

    with pytest.raises(UsageError, match="the same text 2 times"):
        ask(Greedy(), tmp_path, samples=2)
    with pytest.raises(UsageError, match="0 samples"):
        ask(Drawn(), tmp_path, samples=0)
    assert list(tmp_path.iterdir()) == []


# What an answer came with


class Served(Listening):
    """A server that answers one at a time, declines the first question and thinks before each answer."""

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        for (item,) in super().generate(questions, 1, sample):
            refused = item.question == QUESTIONS[0]
            text, reason = ("", "content_filter") if refused else ("Nobody", "stop")
            about = Answer(text, reason, item.answer.prompt, 6, 9, None, refused, f"<think>Hm.</think>{text}", -1.5)
            yield [Asked(item.question, about._replace(ids_digest="ab", seconds=0.25, server="http://one/v1"))]


def test_what_an_answer_came_with_is_kept_and_a_refusal_stands(tmp_path: Path) -> None:
    done = ask(Served(), tmp_path)
    rows = {row["question"]: row for row in responses(done.path)}
    refused, answered = rows[QUESTIONS[0].id], rows[QUESTIONS[1].id]
    assert (refused["status"], refused["text"], refused["finish_reason"]) == ("refused", "", "content_filter")
    assert answered["raw"] == "<think>Hm.</think>Nobody"
    came_with = [answered[key] for key in ("logprob", "ids_digest", "seconds", "server")]
    assert came_with == [-1.5, "ab", 0.25, "http://one/v1"]
    assert (done.state, done.info["answered"], done.info["refused"]) == ("done", 10, 1)
    again = Served()
    ask(again, tmp_path)
    assert again.heard == []


def test_each_yielded_list_is_on_disk_before_the_next_is_asked(tmp_path: Path) -> None:
    found: list[int] = []

    class Looking(Served):
        def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
            for batch in super().generate(questions, batch_size, sample):
                yield batch
                [file] = tmp_path.glob("*/responses.jsonl")
                found.append(len(file.read_bytes().splitlines()))

    ask(Looking(), tmp_path)
    assert found == list(range(1, 11))


def test_an_answer_nobody_asked_for_is_refused(tmp_path: Path) -> None:
    class Doubling(Listening):
        def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
            for batch in super().generate(questions, batch_size, sample):
                yield batch + batch[:1]

    with pytest.raises(ModelError, match=r"answered Q38/P35#1, which it was not asked, or not twice"):
        ask(Doubling(), tmp_path)


def test_what_was_to_be_asked_is_recorded_with_what_the_facts_lack(tmp_path: Path) -> None:
    done = ask(Listening(), tmp_path)  # three facts and the first phrasing of a fourth
    listed = journal.questions(done.path)
    assert [row["question"] for row in listed if row["asked"]] == sorted(question.id for question in QUESTIONS)
    assert len([row for row in listed if not row["asked"]]) == 2
    assert {row["fact"] for row in listed} == {question.fact.id for question in QUESTIONS}
