"""Rephrasings: a model proposes, the file for review is only added to, a person decides, a benchmark adopts."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from dyknow import benchmark, paraphrase
from dyknow.benchmark import Benchmark
from dyknow.cli import cli
from dyknow.models.scripted import Script, Scripted
from dyknow.paraphrase import Row, adopt, fault, instruction, lines, propose, review, templates
from kg.errors import DataError, UsageError

BENCH = """\
# Two groups; this comment stays.
name = "two"

[[group]]
name = "heads"   # of states
domain = "countries"
facts = [
  { subject = "Italy", entity = "Q38", property = "P35", office = "President of Italy" },
  { subject = "France", entity = "Q142", property = "P35", office = "President of the French Republic", mention = "French Republic" },
]

[group.phrasings]
1 = "The current {office} is"
2 = "Currently in office as {office} is"

[[group]]
name = "singers"
domain = "people"
property = "P451"
facts = [ { subject = "Taylor Swift", entity = "Q26876" } ]

[group.phrasings]
a = "The person {subject} lives with is"
"""

HEADS = """\
Sure! Here are four rephrasings:

1. "{office} at present is ___"
2. The current {office} is:
3) The current president is
4. **{office} of {subject} is**
5. {office} and again {office} is
6. The {officer} is
7. {office} AT PRESENT is
"""

ANSWERS = {
    "paraphrase/heads#1": HEADS,
    "paraphrase/heads#2": "1. {office} now is\n2. {office} at present is",
    "paraphrase/singers": "",
}


@pytest.fixture
def bench(tmp_path: Path) -> Benchmark:
    (tmp_path / "bench.toml").write_text(BENCH, encoding="utf-8")
    return benchmark.load(tmp_path / "bench.toml")


@pytest.fixture
def file(bench: Benchmark, tmp_path: Path) -> Path:
    assert propose(Scripted(Script(ANSWERS, {})), bench, tmp_path / "review.toml", count=7).errors == ()
    return tmp_path / "review.toml"


def marked(path: Path, proposed: str, status: str, final: str = "", day: str = '"2024-05-01"') -> None:
    """Review a row as a person would, in an editor."""
    before, row = path.read_text(encoding="utf-8").split(f'proposed = "{proposed}"', 1)
    first, rest = row.split("\nmodel = ", 1)
    first = f'\nstatus = "{status}"\nreviewer = "Ann Other"\ndate = {day}\nfinal = "{final}"'
    path.write_text(f'{before}proposed = "{proposed}"{first}\nmodel = {rest}', encoding="utf-8")


def test_proposals_are_checked_and_the_broken_say_why(file: Path) -> None:
    found = [(row.key, row.proposed, row.status, row.reason) for row in review(file)]
    assert found == [
        ("1", "{office} at present is", "proposed", ""),
        ("1", "The current {office} is:", "broken", "says the same as phrasing 1"),
        ("1", "The current president is", "broken", "neither {subject} nor {office} stands in it"),
        ("1", "{office} of {subject} is", "broken", "{subject} is not in the original"),
        ("1", "{office} and again {office} is", "broken", "{office} stands there twice"),
        ("1", "The {officer} is", "broken", "{officer} is no placeholder"),
        ("1", "{office} AT PRESENT is", "broken", "says the same as another proposal"),
        ("2", "{office} now is", "proposed", ""),
        ("2", "{office} at present is", "broken", "says the same as another proposal"),
        ("a", "", "broken", "the answer holds no rephrasing"),
    ]


def test_a_row_keeps_model_prompt_and_the_whole_answer(file: Path, bench: Benchmark) -> None:
    row = review(file)[0]
    assert (row.model, row.original, row.raw, len(row.settings)) == ("scripted", "The current {office} is", HEADS, 64)
    assert row.prompt == instruction(templates(bench)[0], 7, cued=True)
    assert "Copy {office} into every rephrasing" in row.prompt
    assert "President of Italy" in row.prompt
    assert row.prompt.endswith("\n1.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Who leads {subject} is", "{office} is gone"),
        ("{office is", "neither {subject} nor {office} stands in it"),
        ("the current {office}  is.", "says the same as phrasing 1"),
        ("At the head as {office} is", None),
        ("The name of the person in office is {office}.", "ends with {office}, so that no name can follow"),
        ("Who is now {office}?", None),
    ],
)
def test_faults(bench: Benchmark, text: str, why: str | None) -> None:
    assert fault(text, templates(bench)[0], {"the current {office} is": "phrasing 1"}) == why


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("1. One {subject}\n2. Two {subject}", ["One {subject}", "Two {subject}"]),
        ("- One {subject}\n* Two {subject}", ["One {subject}", "Two {subject}"]),
        ("(1) “One {subject} is …”\n\n(2) Two", ["One {subject} is", "Two"]),
        ("**1.** One {subject} is [name].", ["One {subject} is"]),
        ("Of course:\nOne {subject}\nTwo", ["One {subject}", "Two"]),
        ("1. 1. One", ["One"]),
        ("", []),
        ("1.\n2.", []),
    ],
)
def test_lines_of_an_answer(answer: str, found: list[str]) -> None:
    assert lines(answer) == found


def test_an_answer_that_goes_on_with_a_list_begins_inside_it() -> None:
    assert lines(" One {subject}\n2. Two", cued=True) == ["One {subject}", "Two"]


def test_what_was_answered_is_not_asked_again_and_no_byte_changes(file: Path, bench: Benchmark) -> None:
    marked(file, "{office} now is", "dropped")
    before = file.read_bytes()
    silent = Scripted(Script({}, {}))  # the same record, and no answer to anything
    assert propose(silent, bench, file, count=7) == ((), 3, ())
    assert file.read_bytes() == before
    again = propose(Scripted(Script({"*": "1. {office} now is\n2. As {office} acts"}, {}), "other"), bench, file)
    assert file.read_bytes().startswith(before)
    assert [(row.key, row.status, row.reason) for row in again.rows] == [
        ("1", "broken", "says the same as a dropped proposal"),
        ("1", "proposed", ""),
        ("2", "broken", "says the same as a dropped proposal"),
        ("2", "broken", "says the same as another proposal"),
        ("a", "broken", "{subject} is gone"),
        ("a", "broken", "{subject} is gone"),
    ]


def test_errors_are_told_and_asked_again(bench: Benchmark, tmp_path: Path) -> None:
    file = tmp_path / "review.toml"
    failing = Scripted(Script({"*": "1. At the head as {office} is"}, {"paraphrase/heads#2": "no connection"}))
    assert propose(failing, bench, file, groups=["heads"]).errors == (("heads#2", "no connection"),)
    mended = propose(Scripted(Script({"*": "1. {office} is now"}, {})), bench, file, groups=["heads"])
    assert [(row.key, row.proposed) for row in mended.rows] == [("2", "{office} is now")]
    assert mended.known == 1


@given(st.text(), st.text())
def test_any_answer_is_kept_to_the_letter(prompt: str, raw: str) -> None:
    row = Row("g", "1", "o", "p", "proposed", "", "", "", "", "m", "s", prompt, raw)
    [read] = tomllib.loads(paraphrase._block(row))["paraphrase"]
    assert Row(**{"reason": "", **read}) == row


def test_a_benchmark_adopts_what_was_kept_or_changed(file: Path, bench: Benchmark, tmp_path: Path) -> None:
    marked(file, "{office} at present is", "kept", day="2024-05-01")
    marked(file, "The current president is", "changed", "At the head as {office} is")
    marked(file, "{office} now is", "dropped")
    added = adopt(tmp_path / "bench.toml", file, tmp_path / "mine.toml")
    assert added == [
        ("heads", "3", "{office} at present is"),
        ("heads", "4", "At the head as {office} is"),
    ]
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    new = [line for line in text.splitlines() if line not in BENCH.splitlines()]
    assert new == [
        '3 = "{office} at present is" # 1 rephrased by scripted; kept by Ann Other, 2024-05-01',
        '4 = "At the head as {office} is" # 1 rephrased by scripted; changed by Ann Other, 2024-05-01',
    ]
    assert [line for line in BENCH.splitlines() if line not in text.splitlines()] == []
    mine = benchmark.load(tmp_path / "mine.toml")
    assert len(mine.questions()) == len(bench.questions()) + 4
    assert [q.text for q in mine.questions() if q.id == "Q38/P35#4"] == ["At the head as President of Italy is"]
    assert adopt(tmp_path / "mine.toml", file, tmp_path / "mine.toml") == []
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("status", "final", "day", "message"),
    [
        ("kept", "another text", '"2024-05-01"', r"review\.toml, line \d+: the rephrasing is kept, and 'final'"),
        ("changed", "", '"2024-05-01"', "does not say into what"),
        ("kept", "", '"yesterday"', "'date' is 'yesterday', which is no day"),
        ("keep", "", '"2024-05-01"', "'status' is 'keep'"),
    ],
)
def test_a_review_that_does_not_say_enough(file: Path, status: str, final: str, day: str, message: str) -> None:
    marked(file, "{office} now is", status, final, day)
    with pytest.raises(DataError, match=message):
        review(file)


def test_what_cannot_be_asked_is_not_adopted(file: Path, tmp_path: Path) -> None:
    marked(file, "The {officer} is", "kept")
    with pytest.raises(DataError, match=r"'The \{officer\} is' cannot be asked: \{officer\} is no placeholder"):
        adopt(tmp_path / "bench.toml", file, tmp_path / "mine.toml")
    assert not (tmp_path / "mine.toml").exists()


def test_a_review_of_another_benchmark_is_refused(file: Path, tmp_path: Path) -> None:
    marked(file, "{office} now is", "kept")
    with pytest.raises(DataError, match="phrasing 2 of the group heads is not 'Currently"):
        adopt(None, file, tmp_path / "mine.toml")


def test_an_unknown_group(bench: Benchmark) -> None:
    with pytest.raises(UsageError, match="two has no group 'head'") as caught:
        templates(bench, ["head"])
    assert caught.value.hint == "Did you mean 'heads'?"


# The commands


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, ["benchmark", *words], prog_name="dyknow")


def test_from_model_to_benchmark_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.toml").write_text('default = "1. Presently {office} is\\n2. Nobody"', encoding="utf-8")
    words = ("paraphrase", "scripted:script.toml", "--group", "countries", "--format", "csv")
    first = call(*words)
    assert first.exit_code == 0, first.output
    assert first.stdout.splitlines()[:3] == [
        "group,key,status,rephrasing,reason",
        "countries,1,proposed,Presently {office} is,",
        "countries,1,broken,Nobody,neither {subject} nor {office} stands in it",
    ]
    assert "paraphrases.toml: 1 proposed, 5 broken, added." in first.stderr
    again = call(*words)
    assert (again.exit_code, again.stdout) == (0, "group,key,status,rephrasing,reason\n")
    assert "3 phrasings were answered before" in again.stderr
    marked(Path("paraphrases.toml"), "Presently {office} is", "dropped")
    assert call("adopt", "paraphrases.toml").exit_code == 2
    done = call("adopt", "paraphrases.toml", "--out", "mine.toml")
    assert (done.exit_code, done.stdout) == (0, "mine.toml\n")
    assert "0 phrasings added; 0 of 6 rephrasings wait for review." in done.stderr
    assert Path("mine.toml").read_bytes() == benchmark.STUDY.read_bytes()


def test_a_failing_model_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.toml").write_text('[errors]\n"paraphrase/drivers#2" = "no connection"\n', encoding="utf-8")
    found = call("paraphrase", "scripted:script.toml", "--group", "drivers")
    assert found.exit_code == 1
    assert "3 phrasings have no answer; drivers#1: the script has no answer" in found.stderr
