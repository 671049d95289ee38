"""Commands about runs: settings, samples, check, resumption."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from dyknow import beliefs, journal
from dyknow.benchmark import Question
from dyknow.cli import cli
from dyknow.commands.common import Places
from dyknow.commands.options import Asking, asked_with, recorded, settle
from dyknow.journal import read_run, responses
from dyknow.models.likelihood import Likelihoods, Scored
from dyknow.verify import verify

SCRIPT = """
[answers]
"Q38/P6" = ["Giorgia Meloni", "Mario Draghi"]
"Q38/P35" = "Sergio Mattarella"
[errors]
"Q36/P6#1" = "no connection"
"""

BENCH = """
name = "two"
[[group]]
name = "g"
domain = "countries"
facts = [
  { subject = "Italy", entity = "Q38", property = "P6" },
  { subject = "Italy", entity = "Q38", property = "P35", mention = "Italia" },
]
[group.phrasings]
1 = "{subject} is led by"
2 = "Head of {subject}:"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "two.toml").write_text(BENCH, encoding="utf-8")
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def run(*words: str, run_id: str = "r") -> Result:
    return call("run", "scripted:script.toml", "--benchmark", "two.toml", "--run-id", run_id, *words)


def change(folder: Path, **values: Any) -> None:  # noqa: ANN401
    about = orjson.loads((folder / "run.json").read_bytes()) | values
    (folder / "run.json").write_bytes(orjson.dumps(about))


# Samples


def test_samples_need_a_temperature() -> None:
    result = run("--samples", "3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "At temperature 0 all 3 samples of a question are the same text." in result.stderr
    assert "--temperature 0.7" in result.stderr


def test_samples_are_asked_and_scored(here: Path) -> None:
    assert run("--samples", "4", "--temperature", "0.7", "--seed", "5").exit_code == 0
    rows = responses(here / "runs" / "r")
    assert len(rows) == 16
    assert [row["text"] for row in rows if row["question"] == "Q38/P6#1"] == ["Giorgia Meloni", "Mario Draghi"] * 2
    assert read_run(here / "runs" / "r").info["seed"] == 5
    result = call("score", "--as-of", "2023-12-18", "--table", "samples", "--format", "json")
    assert result.exit_code == 0, result.output
    found = {row["fact"]: row for row in json.loads(result.stdout)}
    assert found["Q38/P6"] | {"most_named": ""} == {
        "run": "r", "domain": "countries", "fact": "Q38/P6", "subject": "Italy", "n": 8, "up_to_date": 50.0,
        "outdated": 50.0, "other": 0.0, "self_consistency": 50.0, "most_named": "",
    }  # fmt: skip
    assert (found["Q38/P35"]["up_to_date"], found["Q38/P35"]["self_consistency"]) == (100.0, 100.0)
    shown = call("runs", "show", "r", "--answers").stdout
    assert "Q38/P6#2 3" in shown


def test_without_samples_there_is_no_table_of_them() -> None:
    assert run().exit_code == 0
    result = call("score", "--as-of", "2023-12-18", "--table", "samples")
    assert result.exit_code == 2
    assert "No run has several answers to a question." in result.stderr


# Settings


def test_an_option_goes_before_the_file_and_the_file_before_the_preset(here: Path) -> None:
    file = here / "settings.toml"
    file.write_text('style = "chat"\nprefix = true\nyear = 2001\ntemperature = 0.5\nreleased = 2001-02-03\n')
    known = settle("gpt2-xl", Asking())
    assert (known.options.style, known.year, known.given) == ("auto", 2019, {})  # style is left to the loader
    assert known.released == {"day": "2019-11-05", "source": "OpenAI, 'GPT-2: 1.5B release', 5 November 2019"}
    by_file = settle("gpt2-xl", Asking(settings=file))
    assert (by_file.options.style, by_file.options.temperature, by_file.prefix) == ("chat", 0.5, True)
    assert (by_file.year, by_file.released) == (2001, {"day": "2001-02-03", "source": str(file)})
    given = settle("gpt2-xl", Asking(settings=file, prefix=False, year=1999, options={"style": "completion"}))
    assert (given.options.style, given.options.temperature, given.prefix) == ("completion", 0.5, False)
    assert given.year == 1999


def test_every_option_reaches_the_model_and_survives_the_record(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Asking] = []

    def ask(_model: str, asking: Asking, _places: Places) -> Any:  # noqa: ANN401
        seen.append(asking)
        return _done(here)

    monkeypatch.setattr("dyknow.commands.asking.ask", ask)
    words = (
        "--style instruct --template Q:{question} --architecture causal --bos --max-new-tokens 9 --stop . --stop \\n"
        " --temperature 0.5 --top-p 0.9 --seed 3 --device cpu --dtype float16 --quantised 4bit --revision main --pickled"
        " --base-url http://me:word@a/v1 --base-url http://b/v1 --concurrency 7 --deadline 5 --api-key-env KEY"
    )
    assert run().exit_code == 0
    assert call("run", "openai:m", *words.split(" ")).exit_code == 0
    assert dict(seen[1].options) == {
        "style": "instruct", "template": "Q:{question}", "architecture": "causal", "bos": True, "max_new_tokens": 9,
        "stop": (".", "\n"), "temperature": 0.5, "top_p": 0.9, "seed": 3, "device": "cpu", "dtype": "float16",
        "quantised": "4bit", "revision": "main", "pickled": True,
        "base_urls": ("http://me:word@a/v1", "http://b/v1"), "concurrency": 7, "deadline_s": 5.0, "api_key_env": "KEY",
    }  # fmt: skip
    record = recorded("openai:m", seen[1], settle("openai:m", seen[1]))
    model, asking = asked_with(orjson.loads(orjson.dumps(record)), "r", 1, "generate")
    assert model == "openai:m"
    assert asking.options == {**seen[1].options, "base_urls": ("http://a/v1", "http://b/v1")}


def _done(here: Path) -> Any:  # noqa: ANN401
    folder = here / "runs" / "made"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text('{"id": "made"}')
    return read_run(folder)


def test_no_password_reaches_the_record(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["dyknow", "run", "x", "--base-url", "https://me:geheim@host/v1"])
    assert run("--base-url", "https://me:geheim@host/v1").exit_code == 0
    text = (here / "runs" / "r" / "run.json").read_text()
    assert "geheim" not in text
    assert "https://host/v1" in text


def test_what_a_run_cost_by_ones_own_prices(here: Path) -> None:
    assert run().exit_code == 0
    prices = here / "prices.toml"
    words = ("runs", "show", "r", "--prices", str(prices), "--format", "json")
    prices.write_text(
        '[script]\ninput = 1000.0\noutput = 0.0\ncurrency = "EUR"\nsource = "a letter"\ndate = 2024-01-31\n'
    )
    tokens = read_run(here / "runs" / "r").info["prompt_tokens"]
    assert json.loads(call(*words).stdout)["cost"] == f"{tokens / 1000:.4f} EUR (by a letter of 2024-01-31)"
    prices.write_text(prices.read_text().replace("[script]", "[other]"))
    result = call(*words)
    assert (result.exit_code, "has no price for script" in result.stderr) == (1, True)


# Resume


def test_a_run_goes_on_with_its_settings_from_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--samples", "2", "--temperature", "1", "--batch-size", "2").exit_code == 0
    folder = here / "runs" / "r"
    lines = (folder / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "responses.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:20])
    change(folder, ended=None)
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    result = call("runs", "resume", "r", "--runs", str(here / "runs"))
    assert result.exit_code == 0, result.output
    done = read_run(folder)
    assert (done.state, done.info["answered"], len(done.info["legs"])) == ("done", 8, 2)
    assert (folder / "responses.jsonl").read_bytes().startswith(b"".join(lines[:3]))
    before = (folder / "run.json").read_bytes()
    assert call("runs", "resume", "r", "--runs", str(here / "runs")).exit_code == 0
    assert (folder / "run.json").read_bytes() == before


def test_what_failed_is_asked_again_by_resume(here: Path) -> None:
    words = ("run", "scripted:script.toml", "--run-id", "r", "--limit", "20")
    assert call(*words).exit_code == 1
    result = call("runs", "resume", "r")
    assert (result.exit_code, "have no answer" in result.stderr) == (1, True)
    assert {row["attempt"] for row in responses(here / "runs" / "r") if row["status"] == "error"} == {2}


def test_a_model_that_has_changed_is_refused(here: Path) -> None:
    assert run().exit_code == 0
    change(here / "runs" / "r", ended=None)
    (here / "script.toml").write_text('default = "x"\n')
    result = call("runs", "resume", "r")
    assert result.exit_code == 1
    assert "The run r was made with another model (files)." in result.stderr


def test_a_run_that_cannot_be_rebuilt_says_what_to_type(here: Path) -> None:
    assert run().exit_code == 0
    change(here / "runs" / "r", asking=None, command="dyknow run smollm2")
    result = call("runs", "resume", "r")
    assert (result.exit_code, "Type: dyknow run smollm2 --run-id r" in result.stderr) == (1, True)
    change(here / "runs" / "r", kind="imported")
    assert "was imported" in call("runs", "resume", "r").stderr
    assert call("runs", "resume", "nobody").exit_code == 2


# Verify


def problem(here: Path) -> str | None:
    return verify(read_run(here / "runs" / "r")).problem


def test_a_whole_run(here: Path) -> None:
    assert run("--samples", "2", "--temperature", "1").exit_code == 0
    result = call("runs", "verify")
    assert (result.exit_code, result.stdout) == (0, "r: whole, done, 8 answers\n")
    with (here / "runs" / "r" / "responses.jsonl").open("ab") as stream:
        stream.write(b'{"question": "Q3')
    assert "a torn last line" in call("runs", "verify", "r").stdout


def test_an_interrupted_run_is_whole_and_says_what_is_missing(here: Path) -> None:
    assert run().exit_code == 0
    file = here / "runs" / "r" / "responses.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:1]))
    change(here / "runs" / "r", ended=None, answered=0)
    assert call("runs", "verify").stdout == "r: whole, interrupted, 1 answers (3 missing)\n"


def test_damage_is_found(here: Path) -> None:
    assert run().exit_code == 0
    folder = here / "runs" / "r"
    files = {file: file.read_bytes() for file in folder.iterdir()}
    lines = folder / "responses.jsonl"
    first = files[lines].splitlines(keepends=True)[0]
    about = orjson.loads(files[folder / "run.json"])

    def put_back() -> None:
        for file, content in files.items():
            file.write_bytes(content)

    italy = files[folder / "questions.jsonl"].replace(b"Italia", b"Italy")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: lines.write_bytes(files[lines] + first), "line 5: Q38/P6#1 was answered before"),
        (lambda: lines.write_bytes(files[lines].replace(b"Q38/P35#1", b"Q38/P35#9")), "none of the questions"),
        (lambda: lines.write_bytes(first), "counts 4 answers and the journal holds 1"),
        (lambda: lines.write_bytes(files[lines].replace(b'"tokens":2', b'"tokens":3', 1)), "counts 8 tokens"),
        (lambda: lines.write_bytes(b"{}\n" + files[lines]), "line 1 is damaged"),
        (lambda: change(folder, sampling={"method": "greedy"}), "do not have the digest"),
        (lambda: change(folder, legs=about["legs"] * 2), "do not add up to the 4 lines"),
        (lambda: (folder / "questions.jsonl").write_bytes(italy), "its questions do not have the digest"),
    ]
    for damage, words in cases:
        put_back()
        assert problem(here) is None
        damage()
        assert words in str(problem(here))
        assert call("runs", "verify").exit_code == 1


# Likelihoods


def scored(_model: Any, asked: Sequence[tuple[Question, Sequence[str]]], _rows: int) -> Iterator[Likelihoods]:  # noqa: ANN401
    """Hold shorter names likelier."""
    for question, labels in asked:
        yield Likelihoods(question, f"<s>{question.text}", [Scored(label, -len(label), 2) for label in labels])


def likelihoods(*words: str) -> Result:
    return run("--ask", "loglik", *words)


def test_holders_are_scored_once_and_stand_beside_the_answers(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def counting(model: Any, asked: Sequence[tuple[Question, Sequence[str]]], rows: int) -> Iterator[Likelihoods]:  # noqa: ANN401
        calls.append([question.id for question, _ in asked])
        yield from scored(model, asked, rows)

    monkeypatch.setattr(beliefs, "score_all", counting)
    assert likelihoods().exit_code == 0
    folder = here / "runs" / "r"
    one = read_run(folder)
    assert (one.state, one.info["likelihoods"]["scored"], responses(folder)) == ("done", 4, [])
    [row, *_] = journal.likelihoods(folder)
    assert (row["question"], row["prompt"], row["subject"]) == ("Q38/P35#1", "<s>Italia is led by", "Italy")
    assert {"entity", "label", "logprob", "tokens"} == set(row["scores"][0])
    assert "Sergio Mattarella" in {score["label"] for score in row["scores"]}
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert likelihoods().exit_code == 0
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert len(calls) == 1
    result = call("score", "--as-of", "2023-12-18", "--table", "beliefs", "--format", "json")
    [everything, _] = json.loads(result.stdout)
    assert (everything["domain"], everything["n"]) == ("all", 2)
    assert everything["up_to_date"] + everything["outdated"] + everything["later"] == pytest.approx(100, abs=0.2)
    assert "No run has scored" in call("score", "--as-of", "0044-03-15", "--table", "beliefs").stderr
    assert run().exit_code == 0  # the answers of the same settings are the same run
    assert verify(read_run(folder)).problem is None
    file = folder / "likelihoods.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    change(folder, likelihoods={"ended": None})
    assert call("runs", "resume", "r").exit_code == 0
    assert calls[1] == [json.loads(lines[3])["question"]]
    assert len(file.read_bytes().splitlines()) == 4


def test_a_scoring_that_breaks_off_keeps_what_it_has(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(model: Any, asked: Sequence[tuple[Question, Sequence[str]]], rows: int) -> Iterator[Likelihoods]:  # noqa: ANN401
        yield next(scored(model, asked, rows))
        raise MemoryError("out of memory")

    monkeypatch.setattr(beliefs, "score_all", breaking)
    result = likelihoods()
    assert (result.exit_code, "out of memory" in result.stderr) == (1, True)
    one = read_run(here / "runs" / "r")
    assert (one.state, one.info["likelihoods"]["scored"]) == ("interrupted", 1)


def test_a_model_that_tells_no_likelihoods_is_refused() -> None:
    result = likelihoods()
    assert (result.exit_code, "tells no likelihoods" in result.stderr) == (1, True)


def test_facts_that_no_snapshot_knows_cannot_be_scored(here: Path) -> None:
    (here / "two.toml").write_text(BENCH.replace("Q38", "Q999999"))
    result = likelihoods()
    assert (result.exit_code, "No snapshot knows a holder" in result.stderr) == (2, True)


# --- what is given and changes nothing


def test_a_run_that_has_ended_says_what_it_does_not_take_over(here: Path) -> None:
    assert "changed nothing" not in run("--limit", "2", "--title", "Old").stderr
    before = (here / "runs" / "r" / "run.json").read_bytes()
    again = run("--limit", "2", "--title", "New", "--year", "1999", "--temperature", "0.5")
    assert again.exit_code == 0
    assert "Run r had ended and stays as it was: --title, --year, --temperature changed nothing." in again.stderr
    assert (here / "runs" / "r" / "run.json").read_bytes() == before
    assert "changed nothing" not in run("--limit", "2", "--title", "Old").stderr


def test_a_year_beside_a_known_day_is_said(here: Path) -> None:
    (here / "how.toml").write_text("released = 2019-11-05\n", encoding="utf-8")
    done = run("--limit", "2", "--settings", "how.toml", "--year", "2021")
    assert "2019-11-05 (how.toml), by which --as-of release goes" in done.stderr
    assert "by which" not in run("--limit", "2", "--settings", "how.toml", "--year", "2019", run_id="s").stderr
