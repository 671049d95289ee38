"""How results are made of runs of any length: in parts, within limits, and without reading again what has not changed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import orjson
import pytest

from dyknow import digests, results, resultsfile
from dyknow.digests import run_digest
from dyknow.journal import RunInfo, content, read_run, whole_runs
from dyknow.rows import response_rows
from kg.errors import QueryError, UsageError
from tests.journals import FACTS

STATUS = ("ok", "ok", "refused", "error")


def write_drawn(folder: Path, run: str, seed: int) -> None:
    """Write a run of two samples that was asked again and again, in any order, and not to the end."""
    draw = random.Random(seed)
    folder = folder / run
    folder.mkdir(parents=True)
    about = {
        "id": run,
        "kind": "asked",
        "model": {"name": run},
        "samples": 2,
        "legs": [{}],
        "benchmark": {"digest": ""},
    }
    (folder / "run.json").write_bytes(orjson.dumps(about))
    asked = [
        {"question": f"{fact}#{n}", "fact": fact, "domain": domain, "subject": subject, "phrasing": str(n), "counted": True}
        for fact, (domain, subject) in FACTS.items()
        for n in (1, 2, 3)
    ]  # fmt: skip
    write_lines(folder / "questions.jsonl", asked)
    told = [
        {
            **draw.choice(asked),
            "sample": draw.randrange(2),
            "status": draw.choice(STATUS),
            "prompt": "?",
            "text": f"{n}",
        }
        for n in range(60)
    ]
    write_lines(folder / "responses.jsonl", told)


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed, run in enumerate(("alpha", "beta", "gamma")):
        write_drawn(tmp_path / "runs", run, seed)
    return tmp_path / "runs"


COLUMNS = ("run", "question", "sample", "status", "text", "response_digest")


@pytest.mark.parametrize(("size", "staged"), [(1, 1), (700, 100_000), (64_000_000, 20)])
def test_the_lines_that_count_are_found_whatever_the_parts(
    runs: Path, tmp_path: Path, size: int, staged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_FILE_BYTES", size)
    monkeypatch.setattr(results, "_STAGED_ROWS", staged)
    expected = [tuple(row.get(name) for name in COLUMNS) for run in whole_runs(runs) for row in response_rows(run)]
    assert {row[3] for row in expected} == {*STATUS, "unanswered"}
    with results.connect(runs, [], tmp_path / "results.duckdb") as connection:
        assert connection.sql(f"SELECT {', '.join(COLUMNS)} FROM responses").fetchall() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.duckdb", "runs"]


# Limits


def test_what_is_asked_keeps_to_the_limits_and_spills_beside(runs: Path, tmp_path: Path) -> None:
    limits = resultsfile.Limits("64MB", tmp_path / "spill")
    with results.connect(runs, [], tmp_path / "results.duckdb", limits=limits) as connection:
        sorting = (
            "SELECT max(text) FROM (SELECT sha256(CAST(n AS VARCHAR)) AS text FROM range(1500000) AS _(n) ORDER BY 1"
        )
        connection.execute(f"{sorting} OFFSET 10)")
        [(spilt,)] = connection.execute("SELECT count(*) FROM glob(?)", [f"{tmp_path}/spill/*/*"]).fetchall()
        [(limit,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert limit.startswith("61")  # MiB
    assert spilt
    assert list((tmp_path / "spill").iterdir()) == []


def test_too_little_memory_is_said_with_the_way_out(runs: Path, tmp_path: Path) -> None:
    database = tmp_path / "results.duckdb"
    results.connect(runs, [], database).close()
    with (
        pytest.raises((UsageError, QueryError)) as raised,
        resultsfile.open_results(database, resultsfile.Limits("1KB", tmp_path / "none")) as connection,
    ):
        resultsfile.run_sql(connection, "SELECT count(DISTINCT a.range) FROM range(50000000) a")
    assert "--memory-limit" in (raised.value.hint or "")


def test_too_little_memory_to_make_them_is_said_too(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3KB of memory do not suffice to make") as raised:
        results.connect(runs, [], tmp_path / "results.duckdb", limits=resultsfile.Limits("3KB"))
    assert "--memory-limit" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "memory", ["much", "'; DROP TABLE x; --", "-1GB", "0%", "101%", "4", "99999999999999999999999GB"]
)
def test_what_is_no_amount_of_memory(memory: str, runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no amount of memory"):
        results.connect(runs, [], tmp_path / "results.duckdb", limits=resultsfile.Limits(memory))


def test_two_connections_do_not_share_what_they_spill(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "results.duckdb"
    with results.connect(runs, [], path) as one, resultsfile.open_results(path) as other:
        assert spill_of(one) != spill_of(other)


def spill_of(connection: duckdb.DuckDBPyConnection) -> str:
    [(folder,)] = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    return str(folder)


# Digests


@pytest.fixture
def run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> RunInfo:
    monkeypatch.setattr(digests, "SMALL_BYTES", 0)
    return read_run(runs / "alpha")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the runs that were read, as they are."""
    told: list[Path] = []

    def telling(path: Path) -> Iterator[tuple[str, str]]:
        told.append(path)
        return content(path)

    monkeypatch.setattr(digests, "content", telling)
    return told


def test_what_has_not_changed_is_read_once(
    run: RunInfo, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    first = run_digest(run, tmp_path)
    assert run_digest(run, tmp_path) == first
    assert len(reads) == 1
    journal = run.path / "responses.jsonl"
    said, text = journal.stat(), journal.read_bytes()
    journal.write_bytes(text[:-3] + b"!" + text[-2:])  # of the same length, and the old time put back
    os.utime(journal, ns=(said.st_atime_ns, said.st_mtime_ns))
    assert run_digest(run, tmp_path) != first
    assert len(reads) == 2


def test_what_has_only_just_changed_is_read_again(run: RunInfo, tmp_path: Path, reads: list[Path]) -> None:
    first = run_digest(run, tmp_path)
    assert run_digest(run, tmp_path) == first
    assert len(reads) == 2  # a later write in the same tick of the clock would not show


def test_a_change_while_it_is_read_is_not_kept(run: RunInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**18))
    read = digests._read

    def changing(one: RunInfo) -> str:
        digest = read(one)
        with (one.path / "responses.jsonl").open("ab") as journal:
            journal.write(b'{"question": "late"}\n')
        return digest

    monkeypatch.setattr(digests, "_read", changing)
    first = run_digest(run, tmp_path)
    monkeypatch.setattr(digests, "_read", read)
    assert run_digest(run, tmp_path) != first


@pytest.mark.parametrize("damaged", [b"", b"{}", b'{"states": [], "digest": 7}', b"[]"])
def test_a_damaged_note_is_written_anew(
    damaged: bytes, run: RunInfo, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    first = run_digest(run, tmp_path)
    [note] = (tmp_path / "runs").glob("*.json")
    note.write_bytes(damaged)
    assert [run_digest(run, tmp_path), run_digest(run, tmp_path)] == [first, first]
    assert len(reads) == 2


def test_small_runs_are_always_read(runs: Path, tmp_path: Path, reads: list[Path]) -> None:
    assert len({run_digest(run, tmp_path) for run in whole_runs(runs) * 2}) == 3
    assert len(reads) == 6
    assert not list((tmp_path / "runs").glob("*.json"))
