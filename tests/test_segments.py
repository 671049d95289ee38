"""Journals on disk: closed, gone on with, killed at any step, damaged."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from click.testing import CliRunner, Result

from dyknow import journal, segments
from dyknow.cli import cli
from dyknow.journal import JOURNAL, read_run, responses
from dyknow.verify import verify
from kg.errors import RunError
from tests.test_runs import BENCH


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.toml").write_text('default = "Nobody"\n', encoding="utf-8")
    (tmp_path / "two.toml").write_text(BENCH, encoding="utf-8")
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def run(*words: str) -> Result:
    about = ("--benchmark", "two.toml", "--run-id", "r", "--temperature", "1")
    return call("run", "scripted:script.toml", *about, *words)


def row(number: int) -> dict[str, Any]:
    return {"question": f"Q{number}/P6#1", "sample": 0, "status": "ok", "text": f"number {number}"}


def numbers(path: Path) -> list[str]:
    return [found["text"].removeprefix("number ") for found in journal.rows(path, "status")]


# Segments


def test_a_closed_journal_reads_as_before_and_goes_on_in_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    assert (segments.close(path), segments.segments(path)) == (segments.Closed(0, 0), [])
    journal.append(path, [row(1), row(2)])
    content, digest = path.read_bytes(), segments.digest(path)
    assert segments.close(path).before == len(content)
    first = tmp_path / "responses.jsonl.1.gz"
    assert (gzip.decompress(first.read_bytes()), path.exists()) == (content, False)
    assert (segments.digest(path), numbers(path), segments.exists(path)) == (digest, ["1", "2"], True)
    closed = first.read_bytes()
    journal.append(path, [row(3)])
    assert numbers(path) == ["1", "2", "3"]
    assert segments.close(path).before == len(journal.line_of(row(3)))
    assert first.read_bytes() == closed  # never written anew
    assert segments.close(path) == segments.Closed(0, 0)
    journal.append(path, [row(4)])
    assert (numbers(path), len(segments.segments(path))) == (["1", "2", "3", "4"], 3)
    again = tmp_path / "again.jsonl"
    again.write_bytes(content)
    segments.close(again)
    assert (tmp_path / "again.jsonl.1.gz").read_bytes() == closed  # neither name nor time of day in it


def test_the_tenth_segment_comes_after_the_ninth(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    for number in range(12):
        journal.append(path, [row(number)])
        segments.close(path)
    assert numbers(path) == [str(number) for number in range(12)]


def test_a_journal_of_a_like_name_is_another(tmp_path: Path) -> None:
    (tmp_path / "judgments").mkdir()
    for judge in ("gpt-4", "gpt-4.1", "gpt-4.1.jsonl"):
        path = tmp_path / "judgments" / f"{judge}.jsonl"
        journal.append(path, [{"question": "q", "judge": judge}])
        segments.close(path)
        journal.append(path, [{"question": "p", "judge": judge}])
    found = [(one["judge"], one["question"]) for one in journal.judgments(tmp_path)]
    assert sorted(found) == [(judge, name) for judge in ("gpt-4", "gpt-4.1", "gpt-4.1.jsonl") for name in "pq"]


@pytest.mark.parametrize("size", [2, 7, 1 << 20])
def test_a_torn_line_is_left_out_and_cut_off_on_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(segments, "_PIECE", size)
    path = tmp_path / JOURNAL
    journal.append(path, [row(1), row(2)])
    whole = path.read_bytes()
    assert not segments.torn(path)
    path.write_bytes(whole + b'{"question": "Q3')
    assert (segments.torn(path), numbers(path)) == (True, ["1", "2"])
    segments.close(path)
    assert gzip.decompress((tmp_path / f"{JOURNAL}.1.gz").read_bytes()) == whole
    path.write_bytes(b'{"torn')
    segments.cut_torn_line(path)
    assert (path.read_bytes(), segments.close(path)) == (b"", segments.Closed(0, 0))


class Killed(BaseException):
    """The process ends here."""


def test_a_closing_killed_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    seen = set()
    for step in range(1, 60):
        path = tmp_path / str(step) / JOURNAL
        path.parent.mkdir()
        journal.append(path, [row(1)])
        segments.close(path)
        journal.append(path, [row(2), row(3)])
        done = _closed_but_for_a_kill(path, step)
        seen.add(tuple(sorted(file.name for file in path.parent.iterdir())))
        assert numbers(path) == ["1", "2", "3"]
        journal.append(path, [row(4)])
        segments.close(path)
        assert numbers(path) == ["1", "2", "3", "4"]
        assert all(one.packed for one in segments.segments(path))
        if done:
            break
    assert done
    assert len(seen) == 5  # open, renamed, half compressed, both forms, closed


def _closed_but_for_a_kill(path: Path, step: int) -> bool:
    """Close a journal until the so-manyeth thing done to a file, and say whether that was more than there are."""
    left = step

    def stepping(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return function(*arguments, **named)

        return stepped

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "replace", "unlink", "open"):
            patch.setattr(Path, name, stepping(getattr(Path, name)))
        patch.setattr(os, "fsync", stepping(os.fsync))
        try:
            segments.close(path)
        except Killed:
            return False
    return True


def test_a_reader_that_meets_a_closing_reads_every_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / JOURNAL
    journal.append(path, [row(1), row(2)])
    list_files, moments = segments.segments, iter([True, False, True])

    def closing(one: Path) -> list[segments.Segment]:
        found = list_files(one)
        if next(moments, False):  # between the look at the folder and the opening of its files
            monkeypatch.setattr(segments, "segments", list_files)
            segments.close(path)
            journal.append(path, [row(len(numbers(path)) + 1)])
            monkeypatch.setattr(segments, "segments", closing)
        return found

    monkeypatch.setattr(segments, "segments", closing)
    assert numbers(path) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
        lambda whole: whole[:20] + bytes([whole[20] ^ 255]) + whole[21:],
        lambda whole: b"no gzip at all",
    ],
)
def test_a_damaged_segment_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / JOURNAL
    journal.append(path, [row(number) for number in range(50)])
    segments.close(path)
    file = tmp_path / f"{JOURNAL}.1.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RunError, match=r"responses\.jsonl\.1\.gz is damaged"):
        journal.rows(path, "status")
    with pytest.raises(RunError, match="is damaged"):
        segments.digest(path)


def test_other_programs_read_a_closed_journal(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal.append(path, [row(1), row(2)])
    segments.close(path)
    journal.append(path, [row(3)])
    read = f"SELECT text FROM read_json('{path}*', format = 'newline_delimited') ORDER BY ALL"
    assert duckdb.execute(read).fetchall() == [("number 1",), ("number 2",), ("number 3",)]


# Runs


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name != "lock")


def test_a_run_is_closed_and_everything_reads_it(here: Path) -> None:
    assert run("--samples", "2").exit_code == 0
    score = ("score", "--as-of", "2023-12-18", "--format", "csv")
    tables = call(*score).stdout
    (here / "runs" / "r" / "judgments").mkdir()
    judged = {"question": "Q38/P6#1", "judge": "me", "verdict": "outdated"}
    journal.append(here / "runs" / "r" / "judgments" / "me.jsonl", [judged])
    one = read_run(here / "runs" / "r")
    before, listed = responses(one.path), journal.questions(one.path)
    content = list(journal.content(one.path))
    result = call("runs", "close", "r")
    assert (result.exit_code, result.stdout) == (0, "r: 0.0 MB became 0.0 MB\n"), result.output
    assert files(one.path) == ["judgments", "questions.jsonl.1.gz", "responses.jsonl.1.gz", "run.json"]
    assert files(one.path / "judgments") == ["me.jsonl.1.gz", "me.lock"]
    assert (responses(one.path), journal.questions(one.path)) == (before, listed)
    assert journal.judgments(one.path) == [judged]
    assert list(journal.content(one.path)) == content
    assert verify(one).problem is None
    assert call(*score).stdout == tables != ""
    assert "Nobody" in call("runs", "show", "r", "--answers").stdout
    assert call("runs", "close", "r").stdout == "r: nothing was open\n"
    closed = (one.path / "responses.jsonl.1.gz").read_bytes()
    assert run("--samples", "2").exit_code == 0  # nothing to ask
    assert files(one.path)[-1] == "run.json"
    assert run("--samples", "3").exit_code == 0
    assert len(journal.rows(one.path / JOURNAL, "status")) == 12
    assert len((one.path / "responses.jsonl").read_bytes().splitlines()) == 4
    assert (one.path / "responses.jsonl.1.gz").read_bytes() == closed
    assert verify(read_run(one.path)) == verify(read_run(one.path))._replace(problem=None, counts={"ok": 12})


def test_a_run_closes_itself_when_asked_and_only_at_its_end(here: Path) -> None:
    assert run("--close").exit_code == 0
    assert files(here / "runs" / "r") == ["questions.jsonl.1.gz", "responses.jsonl.1.gz", "run.json"]
    (here / "script.toml").write_text('[errors]\n"Q38/P6" = "no"\n[answers]\n"Q38/P35" = "x"\n', encoding="utf-8")
    assert run("--close", "--run-id", "s").exit_code == 1
    assert (here / "runs" / "s" / "responses.jsonl").is_file()


def test_what_is_not_closed(here: Path) -> None:
    assert run().exit_code == 0
    folder = here / "runs" / "r"
    about = orjson.loads((folder / "run.json").read_bytes())
    cases = [
        ({"ended": None}, "has not ended"),
        ({"kind": "imported"}, "was imported, and its files stay as they came"),
    ]
    for changed, words in cases:
        (folder / "run.json").write_bytes(orjson.dumps(about | changed))
        result = call("runs", "close", "r")
        assert (result.exit_code, words in result.stderr) == (1, True)
    assert (folder / "responses.jsonl").is_file()
