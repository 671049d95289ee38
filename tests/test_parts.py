"""Runs in parts: what comes of each part by itself is what comes of all at once."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dyknow import parts, tablefiles, timeline
from dyknow.resultsfile import TooLarge
from dyknow.tablefiles import Wanted

DAYS = [20150101, 20190101, 20210101, 20231218]


@pytest.fixture(scope="module")
def connection(small: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(small / "results.duckdb"), read_only=True) as opened:
        yield opened


def counted(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    return dict(connection.execute("SELECT run, count(*) FROM responses GROUP BY run ORDER BY run").fetchall())


@pytest.mark.parametrize("most", [1, 12, 40, 10**9])
def test_every_run_is_in_one_part_and_no_part_is_too_large(connection: duckdb.DuckDBPyConnection, most: int) -> None:
    answers = counted(connection)
    found = parts.parts(connection, most=most)
    assert [run for part in found for run in part] == sorted(answers)
    assert len(answers) > 3
    assert all(len(part) == 1 or sum(answers[run] for run in part) <= most for part in found)
    assert len(found) == {1: len(answers), 10**9: 1}.get(most, len(found))


def test_only_the_runs_asked_for(connection: duckdb.DuckDBPyConnection) -> None:
    one, *_, other = sorted(counted(connection))
    assert parts.parts(connection, [other, one]) == [[one, other]]
    assert parts.parts(connection, []) == []


def test_parts_are_smaller_under_a_smaller_limit(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MEMORY", 1)  # byte: whatever the machine has is more
    whole = parts.parts(connection, most=40)
    assert 1 < len(whole) < len(counted(connection))
    connection.execute("SET memory_limit = '100MiB'")
    monkeypatch.setattr(parts, "MEMORY", 10_000 * 1024**2)
    assert parts.parts(connection, most=4000) == whole
    connection.execute("SET memory_limit = '9999TB'")  # which it tells in PiB
    assert len(parts.parts(connection, most=1_000_000)) == 1
    connection.execute("RESET memory_limit")


def test_a_part_that_does_not_fit_is_halved() -> None:
    tried = []

    def work(part: list[str]) -> str:
        tried.append("".join(part))
        if len(part) > 2:
            raise TooLarge("Out of Memory Error: 1 GB.")
        return "".join(part)

    assert list(parts.by_parts([["a", "b"], ["c", "d", "e", "f", "g"]], work)) == ["ab", "cd", "e", "fg"]
    assert tried == ["ab", "cdefg", "cd", "efg", "e", "fg"]


def test_a_run_that_does_not_fit_by_itself_is_named() -> None:
    def work(part: list[str]) -> str:
        raise TooLarge("Out of Memory Error: 1 GB.")

    with pytest.raises(TooLarge, match=r"The run b by itself does not fit: Out of Memory Error: 1 GB\.") as caught:
        list(parts.by_parts([["b", "c"]], work))
    assert "--memory-limit" in str(caught.value.hint)


def test_a_sweep_in_parts_is_the_sweep(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    def swept() -> list[timeline.Swept]:
        return timeline.rates(connection, DAYS, constraints=["soft", "average"])

    whole = swept()
    assert whole[0].n.any()
    monkeypatch.setattr(timeline, "parts", lambda of, runs: parts.parts(of, runs, 1))
    for one, other in zip(whole, swept(), strict=True):
        assert one[:2] == other[:2]
        for column, same in zip(one[2:], other[2:], strict=True):
            # Means are summed by threads in any order.
            assert np.allclose(column, same, rtol=0, atol=1e-9, equal_nan=True)


def test_an_export_in_parts_has_the_same_bytes(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Wanted(days=("2023-12-18",))
    whole = tablefiles.write(connection, tmp_path / "whole", "parquet", wanted)
    monkeypatch.setattr(tablefiles, "ANSWERS_AT_ONCE", 1)
    divided = tablefiles.write(connection, tmp_path / "parts", "parquet", wanted)
    assert len(whole) > 20
    assert [path.read_bytes() for path in whole] == [path.read_bytes() for path in divided]
