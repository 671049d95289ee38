"""Speed as ratios within one run, so that a slow machine and a fast one say the same: ``make bench``."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import answers as store_of
from benchmarks import dumps, editing, journal, models, series, sweep
from benchmarks import matching as texts_of
from dyknow import analysis, named, results
from kg import answers, identity
from kg.snapshot import find_snapshots
from kg.store import open_store

REPO = Path(__file__).resolve().parents[1]


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the least time of several tries."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def scoring(folder: Path) -> None:
    """Scoring for another date against the first making of results.duckdb."""
    named.import_named(REPO / "examples" / "published", folder / "runs")
    snapshots, database = find_snapshots(), folder / "results.duckdb"

    def score(day: str) -> None:
        with results.connect(folder / "runs", snapshots, database) as connection:
            analysis.score(connection, day)

    first, again = seconds(lambda: score("2023-12-18")), seconds(lambda: score("2024-05-05"), 3)
    print(f"score, ten runs: first {first:.2f} s, another date {again:.2f} s, {again / first:.3f} of the first")


def matching() -> None:
    """Matching 100,000 texts against a loop of one regular expression a candidate, and how both agree with labels."""
    labels = Path(os.environ.get("DYKNOW_SHARED", REPO.parent / "shared")) / "data" / "gold" / "labels.jsonl"
    for line in texts_of.speed(100_000, labels):
        print(line)


def answering() -> None:
    """One fact's answer set against all facts'."""
    store, same = open_store(find_snapshots()[0]), identity.load()
    one = seconds(lambda: answers.answers(store, same, 20231218, ["Q36/P6"]), 3)
    every = seconds(lambda: answers.answers(store, same, 20231218), 3)
    print(f"answers: all facts {every:.3f} s, one fact {one:.3f} s, {one / every:.2f} of all")


def packed_months() -> None:
    """A year of snapshots in a series against the same as plain ones."""
    with tempfile.TemporaryDirectory() as folder:
        for line in series.measure(facts=200, months=12, seed=0, folder=Path(folder)):
            print(line)


if __name__ == "__main__":
    answering()
    for size in (2_000_000, 10_000_000):
        print(store_of.show(store_of.measure(size)))
    dumps.measure()
    for one in models.measure():
        print(one)
    print(editing.show(editing.measure(3)))
    matching()
    print(sweep.show(sweep.measure()))
    packed_months()
    for line in journal.measure((10_000, 100_000)):
        print(line)
    with tempfile.TemporaryDirectory() as made:
        scoring(Path(made))
