"""Which facts are to be edited, out of verdicts; a second route reads the answer sets."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dyknow import benchmark, results
from dyknow.align import requests
from kg import identity
from kg.answers import answers
from kg.errors import DataError, UsageError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from tests.journals import write_run

TEXTS = {
    "Q38/P6#1": "Mario Draghi",
    "Q38/P6#2": "Giuseppe Conte",
    "Q38/P6#3": "Giuseppe Conte",
    "Q36/P6#1": "Donald Tusk",
    "Q36/P6#2": "Mateusz Morawiecki",
    "Q36/P6#3": "somebody",
    "Q11571/P54#1": "a footballer",
    "Q11571/P54#2": "a club",
    "Q11571/P54#3": "football",
}


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return next(one for one in find_snapshots() if one.id == "2023-12-18")


@pytest.fixture(scope="module")
def connection(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("requests")
    write_run(folder / "runs", "alpha", TEXTS)
    with results.connect(folder / "runs", [snapshot], folder / "results.duckdb") as opened:
        yield opened


def test_an_outdated_fact_is_to_be_updated(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> None:
    (found,) = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18")
    (right,) = answers(open_store(snapshot), identity.load(), 20231218, ["Q38/P6"])
    assert (found.fact, found.operation, found.subject, found.domain) == ("Q38/P6", "update", "Italy", "countries")
    assert found.accepted == tuple(holder.label for holder in right.up_to_date) == ("Giorgia Meloni",)
    assert (found.target, found.target_entity) == (right.up_to_date[0].label, right.up_to_date[0].entity)
    assert found.before == "Giuseppe Conte"  # named twice, Draghi once
    assert found.prompt.question == "Q38/P6#1"
    assert [one.question for one in found.paraphrases] == ["Q38/P6#2", "Q38/P6#3"]
    for wording in (found.prompt, *found.paraphrases):
        assert "Italy" in wording.subject.of(wording.text) != "Italy"  # the office, as the study edits it


def test_another_day_is_another_edit_set(connection: duckdb.DuckDBPyConnection) -> None:
    found = requests.plan(connection, "alpha", benchmark.load(), "2023-12-12")
    assert [one.fact for one in found] == ["Q38/P6"]  # Morawiecki was right then
    found = requests.plan(connection, "alpha", benchmark.load(), "2020-01-01", operation="delete")
    assert [one.fact for one in found] == ["Q38/P6", "Q36/P6"]


def test_a_fact_never_known_is_added(connection: duckdb.DuckDBPyConnection) -> None:
    (found,) = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", operation="add")
    assert (found.fact, found.before, found.target) == ("Q11571/P54", None, "Al-Nassr")
    # The first phrasing begins with the subject.
    assert found.prompt.question == "Q11571/P54#2"


def test_a_deletion_asks_for_unknown(connection: duckdb.DuckDBPyConnection) -> None:
    found = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", operation="delete")
    assert {one.fact: (one.before, one.target, one.target_entity) for one in found} == {
        "Q38/P6": ("Giuseppe Conte", "unknown", None),
        "Q36/P6": ("Donald Tusk", "unknown", None),
    }


def test_a_wording_can_be_named(connection: duckdb.DuckDBPyConnection) -> None:
    (found,) = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", wording="3")
    assert found.prompt.question == "Q38/P6#3"
    with pytest.raises(UsageError, match="no phrasing 9"):
        requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", wording="9")


def test_nothing_to_do_is_said(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="no fact that is outdated as of 1990-01-01"):
        requests.plan(connection, "alpha", benchmark.load(), "1990-01-01")


def test_requests_survive_their_file(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    found = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", operation="delete")
    requests.save(found, tmp_path / "requests.jsonl")
    assert requests.load(tmp_path / "requests.jsonl") == found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"target":"unknown"', '"target":" "', "the target of Q38/P6 is empty"),
        ('"subject":[', '"subject":[-9,', "is no request"),
        ('"subject":[12,', '"subject":[900,', "does not lie in"),
        ('"operation":"delete"', '"operation":"forget"', "is no operation"),
        ("{", "[", "is no request"),
        ('"fact":"Q36/P6"', '"fact":"Q38/P6"', "stands there twice"),
    ],
)
def test_what_is_no_request_is_refused(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, old: str, new: str, message: str
) -> None:
    found = requests.plan(connection, "alpha", benchmark.load(), "2023-12-18", operation="delete")
    path = tmp_path / "requests.jsonl"
    requests.save(found, path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        requests.load(path)
