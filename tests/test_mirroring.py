"""The commands that fetch from Wikidata, against a server on this machine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow import benchmark as benchmarks
from dyknow import resolve as resolving
from dyknow.cli import cli
from dyknow.commands import mirroring
from kg.errors import UsageError
from tests.wikidata_server import FakeWikidata, Fault, Version, corpus


@pytest.fixture(scope="module")
def documents(shared: Path) -> Mapping[str, Sequence[Version]]:
    return corpus(shared)


@pytest.fixture
def wikidata(documents: Mapping[str, Sequence[Version]], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWikidata]:
    monkeypatch.setattr(mirroring, "now", lambda: datetime(2026, 11, 30, 12, tzinfo=UTC))
    with FakeWikidata(documents, synthetic=True) as server:
        yield server


def call(folder: Path, server: FakeWikidata | str, *words: str) -> Result:
    site = server if isinstance(server, str) else server.url
    return CliRunner().invoke(cli, ["snapshot", *words, "--site", site, "--snapshots", str(folder)])


def test_a_snapshot_of_today_and_of_a_past_day(wikidata: FakeWikidata, tmp_path: Path) -> None:
    words = ("--subject", "Q31,Q586", "--property", "P6,P35")
    today = call(tmp_path, wikidata, "take", "--date", "2026-11-30", *words)
    assert (today.exit_code, today.stdout) == (0, f"{tmp_path / '2026-11-30'}\n"), today.output
    past = call(tmp_path, wikidata, "take", "--date", "2019-06-30", *words)
    assert past.exit_code == 0, past.output
    told = json.loads((tmp_path / "2026-11-30" / "manifest.json").read_text())["provenance"]
    assert told["instant"] == "2026-11-30T12:00:00Z"
    assert sorted(told["entities"]) == ["Q31", "Q586"]
    result = CliRunner().invoke(
        cli,
        ["answers", "--as-of", "2019-06-30", "--known-at", "2019-06-30", "--subject", "Q31", "--format", "json",
         "--snapshots", str(tmp_path)],
    )  # fmt: skip
    [head, government] = sorted(json.loads(result.stdout), key=lambda one: str(one["property"]))
    assert government["holders"][0]["entity"] == "Q950958"  # Charles Michel, as Wikidata knew in 2018
    assert (head["status"], head["holders"][0]["entity"]) == ("answered", "Q155004")  # Philippe


def test_what_the_world_changed_and_what_wikidata_corrected_between_the_two_dumps(
    wikidata: FakeWikidata, documents: Mapping[str, Sequence[Version]], tmp_path: Path
) -> None:
    both = ",".join(name for name, versions in documents.items() if len(versions) > 1 and name.startswith("Q"))
    for day in ("2018-12-31", "2021-06-30"):
        taken = call(tmp_path, wikidata, "take", "--date", day, "--subject", both, "--property", "P6,P35")
        assert taken.exit_code == 0, taken.output
    result = CliRunner().invoke(
        cli, ["snapshot", "diff", "2018-12-31", "2021-06-30", "--format", "json", "--snapshots", str(tmp_path)]
    )
    changes = json.loads(result.stdout)
    seen = {(one["fact"], one["entity"], one["change"], one["clock"]) for one in changes}
    for expected in (
        ("Q31/P6", "Q18434995", "added", "world"),  # Belgium: Sophie Wilmès on 2019-10-27
        ("Q31/P6", "Q950958", "changed end", "world"),  # after Charles Michel
        ("Q31/P6", "Q476596", "added", "world"),  # and before Alexander De Croo
        ("Q155/P35", "Q10304982", "added", "world"),  # Brazil: Jair Bolsonaro
        ("Q155/P35", "Q463533", "changed end", "world"),  # after Michel Temer
        ("Q148/P35", "Q17132", "added", "wikidata"),  # China: one statement with two terms became two statements
        ("Q586/P6", "Q990401", "added", "world"),  # Bonn: a new mayor on 2020-11-01
        ("Q586/P6", "Q20971243", "changed end", "world"),
        ("Q912/P6", "Q26845654", "changed end", "wikidata"),  # Mali: an end of 2017 that was not known in 2018
        ("Q912/P6", "Q2398472", "added", "wikidata"),
        ("Q912/P6", "no value", "added", "world"),  # five days of 2019 without a head of government
        ("Q912/P6", "Q30005153", "added", "world"),
        ("Q801/P6", "Q39318", "added", "world"),  # Israel on 2021-06-13
        ("Q801/P6", "Q43723", "changed end", "world"),
    ):
        assert expected in seen, sorted(seen)
    [wilmes] = [one for one in changes if (one["fact"], one["entity"]) == ("Q31/P6", "Q18434995")]
    assert wilmes["id"] == "reused"  # her statement has the id that was her predecessor's
    unchanged = {one["entity"] for one in changes if one["fact"] == "Q586/P6"}
    assert unchanged == {"Q990401", "Q20971243"}


def test_a_history_is_one_command_and_goes_on(wikidata: FakeWikidata, tmp_path: Path) -> None:
    words = (
        "history",
        "--from",
        "2018-01",
        "--to",
        "2021-12",
        "--every",
        "year",
        "--subject",
        "Q31",
        "--property",
        "P6",
    )
    planned = call(tmp_path, wikidata, *words, "--plan")
    assert planned.exit_code == 0
    assert "4 snapshots of 1 subjects. To fetch: 2 revisions" in " ".join(planned.stderr.split())
    assert not [path for path in tmp_path.iterdir() if path.name != ".responses"]
    done = call(tmp_path, wikidata, *words, "--format", "json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["snapshot"] for row in rows] == ["2018-01-01", "2019-01-01", "2020-01-01", "2021-01-01"]
    assert rows[0]["statements"] == rows[0]["facts"] == 1 or rows[0]["statements"] > 0
    (tmp_path / "2020-01-01" / "manifest.json").unlink()
    (tmp_path / "2020-01-01" / "statements.nt.gz").unlink()
    (tmp_path / "2020-01-01").rmdir()
    sent = len(wikidata.requests)
    again = call(tmp_path, wikidata, *words)
    assert again.exit_code == 0, again.output
    assert "3 are there already" in again.stderr
    assert all("revision" not in one.params for one in wikidata.requests[sent:])
    assert call(tmp_path, wikidata, *words).exit_code == 1


def test_without_a_network_one_sentence_says_what_is_there_instead_and_nothing_changes(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    result = call(folder, "http://127.0.0.1:9", "take", "--date", "today", "--subject", "Q31", "--property", "P6")
    assert result.exit_code == 1
    said = result.stderr.strip().splitlines()[-2:]
    assert "127.0.0.1:9" in result.stderr and "cannot be reached" in result.stderr
    assert "nothing was changed, and there are the snapshots 2023-12-18, 2025-11-30 instead." in " ".join(said)
    assert not folder.exists() or not list(folder.iterdir())


def test_what_was_fetched_before_a_fault_is_kept_and_the_same_command_goes_on(
    wikidata: FakeWikidata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("take", "--date", "2026-11-30", "--subject", "Q31,Q586", "--property", "P6")
    wikidata.faults = [Fault("html", 4, forever=True)]
    monkeypatch.setattr(mirroring, "Web", _impatient)
    broken = call(tmp_path, wikidata, *words)
    assert (broken.exit_code, "3 responses are kept for the next try" in broken.stderr) == (1, True), broken.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".responses"]
    wikidata.faults.clear()
    sent = len(wikidata.requests)
    monkeypatch.setattr(mirroring, "now", lambda: datetime(2026, 11, 30, 13, tzinfo=UTC))
    assert call(tmp_path, wikidata, *words).exit_code == 0
    told = json.loads((tmp_path / "2026-11-30" / "manifest.json").read_text())["provenance"]
    assert told["instant"] == "2026-11-30T12:00:00Z"  # the interrupted command's
    asked = [one.path for one in wikidata.requests[sent:]]
    assert len(asked) == 2, asked  # one document and one batch of labels


def _impatient(*arguments, **named):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN003, ANN202
    from kg.sources.web import Web  # noqa: PLC0415

    made = Web(*arguments, **named)
    made.sleep = lambda _: None
    return made


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("take",), "The date is missing"),
        (("take", "x.csv"), "FILE is given, and the source is not"),
        (("take", "--source", "table"), "FILE is missing"),
        (("take", "x.json", "--source", "wikidata"), "FILE is given"),
        (("take", "--date", "2027-01-01", "--subject", "Q31", "--property", "P6"), "lies in the future"),
        (("take", "--date", "today", "--subject", "Poland"), "'Poland' is not like Q38"),
        (("take", "--date", "today", "--subject", "Q1", "--property", ""), "has no such facts"),
        (("take", "--date", "2020-01-01", "--source", "query"), "shows the present only"),
        (("history", "--from", "2020-01", "--to", "2019-01"), "Turn them round"),
        (("history", "--from", "January"), "is not a date"),
        (("take", "--date", "today", "--subject", ",", "--property", "P6"), "names nothing"),
        (("take", "--date", "1800-01-01", "--subject", "Q31", "--property", "P6"), "before Wikidata began"),
    ],
)
def test_wrong_calls(words: tuple[str, ...], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirroring, "now", lambda: datetime(2026, 11, 30, 12, tzinfo=UTC))
    result = call(tmp_path, "http://127.0.0.1:9", *words)
    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr
    assert not list(tmp_path.iterdir())


def test_a_day_without_any_of_the_wanted_has_no_snapshot(wikidata: FakeWikidata, tmp_path: Path) -> None:
    words = ("--subject", "Q31", "--property", "P6")
    taken = call(tmp_path, wikidata, "take", "--date", "2013-01-01", *words)
    assert (taken.exit_code, "no snapshot was taken" in taken.stderr) == (1, True), taken.output
    done = call(tmp_path, wikidata, "history", "--from", "2013-01", "--to", "2019-01", "--every", "year", *words)
    assert (done.exit_code, "they have no snapshot" in done.stderr) == (0, True), done.output
    assert not (tmp_path / "2013-01-01").exists() and (tmp_path / "2019-01-01").exists()


def test_a_folder_that_is_a_file_is_said_in_a_sentence(wikidata: FakeWikidata, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call(tmp_path / "file", wikidata, "take", "--date", "2019-06-30", "--subject", "Q31", "--property", "P6")
    assert (result.exit_code, "file" in result.stderr, result.exception.__class__) == (1, True, SystemExit), (
        result.output
    )


def test_a_dump_is_a_source(shared: Path, tmp_path: Path) -> None:
    dump = shared / "wikidata" / "dumps" / "2021-06-slice.json.gz"
    result = CliRunner().invoke(
        cli,
        ["snapshot", "take", str(dump), "--source", "dump", "--date", "2021-06-14", "--property", "P6,P35",
         "--workers", "1", "--snapshots", str(tmp_path)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "2021-06-14" / "manifest.json").read_text())
    assert manifest["counts"]["statements"] == 194
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(dump.read_bytes()[:500_000])
    broken = CliRunner().invoke(
        cli,
        ["snapshot", "take", str(cut), "--source", "dump", "--date", "2021-06-15", "--property", "P6",
         "--snapshots", str(tmp_path)],
    )  # fmt: skip
    assert broken.exit_code == 1
    assert not (tmp_path / "2021-06-15").exists()


def test_wanted_are_the_benchmarks_facts_kept_to_what_is_named() -> None:
    every = mirroring.wanted(None, None, None)
    assert len(every) == 95 and every["Q38"] == ("P35", "P6")
    assert mirroring.wanted("Q38", None, None) == {"Q38": ("P35", "P6")}
    assert set(mirroring.wanted(None, "P35", None).values()) == {("P35",)}
    assert mirroring.wanted("Q5", "P31", None) == {"Q5": ("P31",)}
    with pytest.raises(UsageError):
        mirroring.wanted("Q5", None, None)


# Ids of subjects

NAMESAKES = {
    "Q10": {"id": "Q10", "type": "item", "labels": {"en": {"language": "en", "value": "Carlos Sainz Jr."}},
            "descriptions": {"en": {"language": "en", "value": "the son"}}, "claims": {}},
    "Q11": {"id": "Q11", "type": "item", "labels": {"en": {"language": "en", "value": "Carlos Sainz Jr. (book)"}},
            "descriptions": {"en": {"language": "en", "value": "a book"}}, "claims": {}},
}  # fmt: skip


@pytest.fixture
def namesakes() -> Iterator[FakeWikidata]:
    documents = {name: [(1, "2020-01-01T00:00:00Z", document)] for name, document in NAMESAKES.items()}
    with FakeWikidata(documents) as server:
        yield server


def test_candidates_are_shown_and_nothing_is_chosen(namesakes: FakeWikidata) -> None:
    result = CliRunner().invoke(
        cli, ["benchmark", "resolve", "--subject", "Carlos Sainz Jr.", "--site", namesakes.url, "--format", "json"]
    )
    assert result.exit_code == 0, result.output
    assert [(row["item"], row["description"]) for row in json.loads(result.stdout)] == [
        ("Q10", "the son"),
        ("Q11", "a book"),
    ]
    assert "Nothing was pinned" in result.stderr


def test_a_pinned_id_goes_into_the_file_and_leaves_the_rest_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    words = ["benchmark", "resolve", "--subject", "Carlos Sainz Jr.", "--accept", "Q10", "--out", str(out)]
    result = CliRunner().invoke(cli, words)
    assert (result.exit_code, result.stdout) == (0, f"{out}\n"), result.output
    bench = benchmarks.load(out)
    [fact] = [fact for fact in bench.facts if fact.subject_label == "Carlos Sainz Jr."]
    assert (fact.id, fact.confidence) == ("Q10/P54", "pinned")
    assert len(bench.facts) == 130
    before = benchmarks.STUDY.read_text(encoding="utf-8").splitlines()
    after = out.read_text(encoding="utf-8").splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


@pytest.mark.parametrize(("label", "item"), [("Nobody at all", "Q10"), ("Italy", "Q10"), ("Carlos Sainz Jr.", "P10")])
def test_a_wrong_pin_changes_nothing(label: str, item: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        resolving.pin(benchmarks.STUDY, tmp_path / "mine.toml", {label: item})
    assert not list(tmp_path.iterdir())


def test_the_subjects_without_an_id() -> None:
    assert sorted(resolving.unresolved(benchmarks.load())) == ["Carlos Sainz Jr.", "Cencora, Inc.", "Mitsubishi"]
