"""The harness of docs/scale.md: what it watches, what it makes of the figures, and how it compares runs."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from benchmarks import shards
from benchmarks.scale import Measured, _watched, draw, exponents, read, run_step, steep, table, triples_table
from dyknow.journal import JOURNAL, RunInfo, replace_rows

SPENDS = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(200 << 20); sum(range(9 * 10**6))'])"
)


def test_a_child_counts_with_its_seconds_and_its_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", SPENDS])
    found = _watched(process, "made up", 1, 0.0)
    assert found.rc == 0
    assert found.seconds > 0.1
    assert found.peak_mib > 200


def test_a_step_that_fails_says_so_and_is_in_no_table(tmp_path: Path) -> None:
    found = run_step("verify", tmp_path, 10)
    assert found.rc != 0
    assert "2025-12-01" in (tmp_path / "verify.txt").read_text()
    assert "| verify | – | – |" in table([found, Measured("run", 10, 1.0, 1.0, 1.0)])


def test_the_newest_figures_count_and_growth_is_between_neighbouring_sizes() -> None:
    figures = [
        Measured("run", 100, 99.0, 99.0, 9.0),
        Measured("run", 10, 1.0, 1.0, 5.0),
        Measured("run", 100, 10.0, 10.0, 5.0),
        Measured("run", 1000, 400.0, 400.0, 5.0),
    ]
    assert "| run | 1.0 | 5 | 10.0 | 5 | 400.0 | 5 | 1.00 | 1.60 |" in table(figures)
    assert [round(slope, 2) for *_, slope in exponents(figures[1:])] == [1.0, pytest.approx(1.6)]


def test_no_figures_yet(tmp_path: Path) -> None:
    assert read(tmp_path / "figures.jsonl") == []


def test_what_grows_too_fast_is_named_and_triples_have_a_table_of_their_own() -> None:
    figures = [
        Measured("take", 10, 1.0, 1.0, 5.0, triples=2000),
        Measured("take", 100, 15.0, 15.0, 6.0, triples=20000),
        Measured("run", 10, 1.0, 1.0, 5.0),
        Measured("run", 100, 10.0, 10.0, 5.0),
        Measured("take", 1000, 150.0, 150.0, 7.0, triples=200000),
    ]
    assert steep(figures) == ["take from 10 to 100 facts: 1.18"]
    assert "| take | 1.0 | 5 | 15.0 | 6 | 1.18 |" in table(figures), "a size of triples alone is in the other table"
    assert triples_table(figures).splitlines()[2:] == [
        "| 2,000 | 10 | 1.0 | 5 | – | – | – | – | – |",
        "| 20,000 | 100 | 15.0 | 6 | – | – | – | – | 1.18 |",
        "| 200,000 | 1,000 | 150.0 | 7 | – | – | – | – | 1.00 |",
    ]


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    draw([Measured("run", 10, 1.0, 1.0, 5.0), Measured("run", 100, 10.0, 10.0, 5.0)], tmp_path / "grown.svg")
    assert "seconds of the processor" in (tmp_path / "grown.svg").read_text(encoding="utf-8")


def rows(folder: Path, *texts: str, run: str) -> RunInfo:
    """Write a journal of these texts and return its run."""
    (folder / run).mkdir()
    lines = [
        {"question": f"Q1/P6#{place}", "status": "ok", "text": text, "time": run} for place, text in enumerate(texts)
    ]
    replace_rows(folder / run / JOURNAL, lines)
    return RunInfo(run, folder / run, {})


def test_runs_that_differ_in_a_word_or_a_line_are_not_the_same(tmp_path: Path) -> None:
    whole, same = (rows(tmp_path, "a", "b", run=name) for name in ("whole", "same"))
    assert shards._equal_rows(whole, same, JOURNAL, "status") == 2
    with pytest.raises(shards.Differs, match="line 2"):
        shards._equal_rows(whole, rows(tmp_path, "a", "c", run="word"), JOURNAL, "status")
    with pytest.raises(shards.Differs, match="line 2"):
        shards._equal_rows(whole, rows(tmp_path, "a", run="line"), JOURNAL, "status")


@pytest.mark.parametrize(("other", "alone"), [("(1), (1), (2)", 0), ("(1), (2), (2)", 2), ("(1), (2)", 1)])
def test_exported_rows_in_one_run_alone_are_counted(tmp_path: Path, other: str, alone: int) -> None:
    for name, values in (("whole", "(1), (1), (2)"), ("parts", other)):
        (tmp_path / f"run={name}").mkdir()
        file = tmp_path / f"run={name}" / "data.parquet"
        duckdb.execute(f"COPY (SELECT *, '{name}' AS title FROM (VALUES {values}) AS _(n)) TO '{file}'")
    assert shards._difference(tmp_path) == (3, alone)
