"""A run in parts: who asks what, what may be merged, and that the whole is what one process would have made."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import duckdb
import orjson
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from dyknow import benchmark, journal
from dyknow.cli import cli
from dyknow.journal import read_run, responses
from dyknow.shards import Shard, parse
from dyknow.verify import verify
from kg.errors import UsageError

REPO: Final = Path(__file__).resolve().parents[1]
STUDY: Final = benchmark.load()
TIMES: Final = {"time", "seconds"}
SCRIPT: Final = """
default = "Nobody"
seconds = {seconds}
[answers]
"Q38/P6" = ["Giorgia Meloni", "Mario Draghi"]
"Q38/P35" = "Sergio Mattarella"
[errors]
"Q38/P6#2" = "no connection"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.toml").write_text(SCRIPT.format(seconds=0), encoding="utf-8")
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def run(*words: str, run_id: str = "r", limit: int = 20) -> Result:
    return call("run", "scripted:script.toml", "--limit", str(limit), "--run-id", run_id, *words)


def parts(*numbers: int, of: int = 3, words: tuple[str, ...] = ()) -> None:
    for number in numbers:
        run("--shard", f"{number}/{of}", *words)


def rows(folder: Path) -> list[dict[str, Any]]:
    found = map(orjson.loads, (folder / "responses.jsonl").read_bytes().splitlines())
    return [{key: value for key, value in row.items() if key not in TIMES} for row in found]


# Who asks what


@given(st.lists(st.sampled_from(STUDY.facts), min_size=1, max_size=40, unique=True), st.data())
def test_parts_are_even_whole_in_facts_and_the_same_in_any_order(
    facts: list[benchmark.Fact], data: st.DataObject
) -> None:
    bench = replace(STUDY, facts=tuple(facts))
    questions = bench.questions()
    of = data.draw(st.integers(1, len(facts)))
    found = [Shard(number, of).select(questions) for number in range(1, of + 1)]
    assert sorted(one.id for part in found for one in part) == sorted(one.id for one in questions)
    assert max(map(len, found)) - min(map(len, found)) <= 3  # one fact's phrasings
    parts_of_facts = Counter(fact for part in found for fact in {one.fact.id for one in part})
    assert set(parts_of_facts.values()) == {1}
    for number, part in enumerate(found, start=1):
        mixed = data.draw(st.permutations(questions))
        assert set(Shard(number, of).select(mixed)) == set(part)
        assert part == [one for one in questions if one in set(part)]  # in the order of the benchmark


def test_facts_of_uneven_phrasings_make_even_parts() -> None:
    facts = STUDY.facts[:6]
    sizes = dict(zip((fact.id for fact in facts), (3, 1, 1, 1, 3, 3), strict=True))
    questions = [one for fact in facts for one in STUDY.questions() if one.fact == fact]
    some = [one for one in questions if int(one.phrasing) <= sizes[one.fact.id]]
    sizes_of_parts = [len(Shard(number, 2).select(some)) for number in (1, 2)]
    assert sum(sizes_of_parts) == 12
    assert max(sizes_of_parts) - min(sizes_of_parts) <= 3


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "a/b", "1", "1/4/2", "-1/4"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no part"):
        parse(text)


def test_more_parts_than_facts_are_refused(here: Path) -> None:
    result = run("--shard", "1/9", limit=20)
    assert (result.exit_code, "7 facts do not make 9 parts" in result.stderr) == (2, True)
    assert not (here / "runs").exists()


# A part knows that it is one


def test_a_part_says_so_and_goes_on_as_the_same_part(here: Path) -> None:
    assert run("--shard", "2/3").exit_code == 0
    one = read_run(here / "runs" / "r.2-of-3")
    assert (one.part, one.info["shard"]["run"], one.info["shard"]["questions"]) == ("2/3", "r", 20)
    assert verify(one).problem is None
    file = one.path / "responses.jsonl"
    kept = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(kept[:2]) + kept[2][:9])
    (one.path / "run.json").write_bytes(orjson.dumps(one.info | {"ended": None}))
    assert call("runs", "resume", "r.2-of-3").exit_code == 0
    assert [row["question"] for row in rows(one.path)] == [orjson.loads(line)["question"] for line in kept]
    listed = json.loads(call("runs", "list", "--format", "json").stdout)
    assert [(row["run"], row["part"]) for row in listed] == [("r.2-of-3", "2/3")]


def test_tables_leave_parts_out_and_say_so(here: Path) -> None:
    parts(1, 2)
    score = ("score", "--as-of", "2023-12-18", "--format", "csv")
    result = call(*score)
    assert (result.exit_code, "There are only parts of runs" in result.stderr) == (2, True)
    assert "dyknow runs merge r" in result.stderr
    assert run(run_id="other").exit_code == 1  # with an error
    result = call(*score)
    assert (result.exit_code, "The parts of r are left out" in result.stderr) == (0, True)
    assert {line.split(",")[1] for line in result.stdout.splitlines()[1:]} == {"other"}
    result = call(*score, "--run", "r.1-of-3")
    assert (result.exit_code, "r.1-of-3 is part 1/3 of a run" in result.stderr) == (2, True)


# Merging


def test_the_parts_merged_are_the_whole(here: Path) -> None:
    words = ("--samples", "2", "--temperature", "1", "--batch-size", "4")
    parts(3, 1, 2, words=words)
    before = {file: file.read_bytes() for file in (here / "runs").rglob("*.json*")}
    result = call("runs", "merge", "r")
    assert (result.exit_code, result.stdout) == (0, "runs/r\n"), result.output
    assert {file: file.read_bytes() for file in before} == before
    run(*words, run_id="whole")
    merged, whole = (read_run(here / "runs" / name) for name in ("r", "whole"))
    assert rows(merged.path) == rows(whole.path)
    assert len(rows(merged.path)) == 40
    assert (merged.path / "questions.jsonl").read_bytes() == (whole.path / "questions.jsonl").read_bytes()
    own = {"id", "command", "started", "ended", "legs", "merged"}
    assert {k: v for k, v in merged.info.items() if k not in own} == {
        k: v for k, v in whole.info.items() if k not in own
    }
    assert (merged.state, merged.part, verify(merged)) == (whole.state, None, verify(whole))
    again = call("runs", "merge", "r")
    assert (again.exit_code, "there already" in again.stderr) == (0, True)


def test_a_merged_run_goes_on_like_another(here: Path) -> None:
    parts(1, 2, 3)
    merged = call("runs", "merge", "r.1-of-3", "r.2-of-3", "r.3-of-3")
    assert "1 questions have no answer but an error: dyknow runs resume r" in merged.stderr
    assert read_run(here / "runs" / "r").state == "with errors"
    assert call("runs", "resume", "r").exit_code == 1  # the script fails once more
    [error] = [row for row in responses(here / "runs" / "r") if row["status"] == "error"]
    assert (error["question"], error["attempt"]) == ("Q38/P6#2", 2)
    assert verify(read_run(here / "runs" / "r")).problem is None


def test_failed_questions_of_a_part_are_told_where_others_lack(here: Path) -> None:
    parts(1, 2)
    half = call("runs", "merge", "r", "--partial")
    failed = next(name for name in ("r.1-of-3", "r.2-of-3") if read_run(here / "runs" / name).info["errors"])
    assert f"1 questions have no answer but an error: dyknow runs resume {failed}, then merge" in half.stderr


def test_a_hole_is_named(here: Path) -> None:
    parts(1, 3)
    result = call("runs", "merge", "r")
    assert (result.exit_code, "Of r the part 2/3 is missing." in result.stderr) == (1, True)
    assert "--shard 2/3" in result.stderr
    assert not (here / "runs" / "r").exists()
    parts(2)
    file = here / "runs" / "r.3-of-3" / "responses.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-2]))
    result = call("runs", "merge", "r")
    assert (result.exit_code, "The part r.3-of-3 has 2 of 6 answers still to ask for." in result.stderr) == (1, True)
    assert "dyknow runs resume r.3-of-3" in result.stderr


def test_what_is_there_is_merged_when_asked_for(here: Path) -> None:
    parts(1, 3)
    file = here / "runs" / "r.3-of-3" / "responses.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    result = call("runs", "merge", "r", "--partial")
    assert result.exit_code == 0, result.output
    assert "Of r the part 2/3 is missing." in result.stderr
    assert "1 of 6 answers still to ask for" in result.stderr
    made = read_run(here / "runs" / "r.partial")
    asked = {row["question"] for row in journal.questions(made.path) if row["asked"]}
    assert (made.info["questions"], len(asked), made.info["answered"]) == (14, 14, 13 - made.info["errors"])
    found = verify(made)
    assert (found.problem, found.counts["missing"], made.state) == (None, 1, "interrupted")
    assert made.info["merged"]["lacks"][0] == "Of r the part 2/3 is missing."
    assert call("score", "--as-of", "2023-12-18").exit_code == 0
    result = call("runs", "resume", "r.partial")
    assert (result.exit_code, "merged without some questions" in result.stderr) == (1, True)


def test_an_overlap_is_named(here: Path) -> None:
    parts(1, 2, 3)
    run("--shard", "1/2", run_id="r")
    result = call("runs", "merge", "r")
    assert result.exit_code == 1
    assert "Both r.1-of-2 (1/2) and r.1-of-3 (1/3) ask " in result.stderr.replace("\n", " ")
    assert not (here / "runs" / "r").exists()


def test_parts_of_other_settings_are_refused(here: Path) -> None:
    parts(1, 2)
    (here / "script.toml").write_text('default = "x"\n', encoding="utf-8")
    parts(3)
    result = call("runs", "merge", "r")
    assert (result.exit_code, "r.2-of-3 was made" in result.stderr) == (1, False)
    assert "The part r.3-of-3 was made with another model (files) than r.1-of-3." in result.stderr
    run("--shard", "3/3", run_id="s", limit=23)
    result = call("runs", "merge", "r.1-of-3", "s")
    assert "another model (files), set of questions than r.1-of-3" in result.stderr.replace("\n", " ")


def test_a_name_that_is_taken_or_unknown_is_refused(here: Path) -> None:
    parts(1, 2, 3)
    run(limit=9)
    result = call("runs", "merge", "r")
    assert (result.exit_code, "The run r is there already, and its responses.jsonl differs." in result.stderr) == (
        1,
        True,
    )
    assert call("runs", "merge", "r", "--run-id", "s").exit_code == 0
    assert call("runs", "merge", "nobody").exit_code == 2
    result = call("runs", "merge", "s")
    assert (result.exit_code, "The run s is no part of another." in result.stderr) == (2, True)


def test_a_part_that_is_being_written_is_not_merged(here: Path) -> None:
    parts(1, 2, 3)
    with journal.locked(here / "runs" / "r.2-of-3"):
        result = call("runs", "merge", "r")
    assert (result.exit_code, "r.2-of-3 is being written by process" in result.stderr) == (1, True)


# Processes


def start(here: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dyknow.cli", "run", "scripted:script.toml", "--run-id", "r", "--batch-size", "2"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.Popen(
        [*command, *words], cwd=here, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def export(here: Path, name: str) -> list[tuple[Any, ...]]:
    """Return what a run exports, without its name and times."""
    out = here / f"tables-{name}"
    result = call("export", "results", "--out", str(out), "--run", name, "--as-of", "2023-12-18")
    assert result.exit_code == 0, result.output
    found = []
    for file in sorted(out.rglob("*.parquet")):
        columns = [row[0] for row in duckdb.execute(f"DESCRIBE FROM '{file}'").fetchall()]
        kept = [column for column in columns if column not in {"run", "title", *TIMES}]
        picked = ", ".join(f'"{column}"' for column in kept)
        rows_ = duckdb.execute(f"SELECT {picked} FROM '{file}'").fetchall()
        found += [(file.relative_to(out).parts[0], *row) for row in rows_]
    return found


def test_four_processes_one_killed_and_resumed_are_the_unsharded_run(here: Path) -> None:
    (here / "script.toml").write_text(SCRIPT.format(seconds=0.02), encoding="utf-8")
    limit = ("--limit", "120")
    children = {number: start(here, *limit, "--shard", f"{number}/4") for number in range(1, 5)}
    victim = here / "runs" / "r.3-of-4" / "responses.jsonl"
    for _ in range(6000):
        if victim.is_file() and len(victim.read_bytes().splitlines()) >= 8:
            break
        time.sleep(0.01)
    children[3].send_signal(signal.SIGKILL)
    for child in children.values():
        child.wait()
    half = read_run(victim.parent)
    assert half.state == "interrupted"
    refused = call("runs", "merge", "r")
    assert (refused.exit_code, "The part r.3-of-4 has" in refused.stderr) == (1, True)
    assert start(here, *limit, "--shard", "3/4").wait() == 0
    assert len(read_run(victim.parent).info["legs"]) == 2
    assert call("runs", "merge", "r").exit_code == 0
    run(run_id="whole", limit=120)
    assert rows(here / "runs" / "r") == rows(here / "runs" / "whole")
    assert len({row["question"] for row in rows(here / "runs" / "r")}) == 120
    exported = export(here, "r")
    assert exported == export(here, "whole")
    assert len(exported) > 240


@pytest.mark.parametrize("part", ["0/3", "4/3", "x", ""])
def test_what_is_no_part_is_said_in_a_sentence(part: str) -> None:
    done = CliRunner().invoke(cli, ["run", "scripted:examples/answers.toml", "--shard", part])
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ") and "is no part" in done.stderr
