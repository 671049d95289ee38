"""Speed as ratios within one run, so that a slow machine and a fast one say the same: ``make bench``."""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import answers as store_of
from benchmarks import dumps, models
from dyknow import analysis, named, results
from dyknow.match import Candidate, match
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
    """Matching against a plain loop of one regular expression a candidate."""
    store, same = open_store(find_snapshots()[0]), identity.load()
    names = [row.name for row in answers.names(store, same) if row.fact == "Q38/P6"]
    candidates = tuple(Candidate(name, (name,)) for name in names)
    texts = [f"The prime minister of Italy is {name}." for name in names]

    def ours() -> None:
        for text in texts:
            match(text, "The prime minister of Italy is", candidates, "Italy", "prime minister of Italy")

    def plain() -> None:
        for text in texts:
            for name in names:
                if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE):
                    break

    a, b = seconds(ours, 3), seconds(plain, 3)
    print(f"match, {len(texts)} texts, {len(names)} names: {a:.3f} s, a plain loop {b:.3f} s, ratio {a / b:.1f}")


def answering() -> None:
    """One fact's answer set against all facts'."""
    store, same = open_store(find_snapshots()[0]), identity.load()
    one = seconds(lambda: answers.answers(store, same, 20231218, ["Q36/P6"]), 3)
    every = seconds(lambda: answers.answers(store, same, 20231218), 3)
    print(f"answers: all facts {every:.3f} s, one fact {one:.3f} s, {one / every:.2f} of all")


if __name__ == "__main__":
    answering()
    for size in (2_000_000, 10_000_000):
        print(store_of.show(store_of.measure(size)))
    dumps.measure()
    for one in models.measure():
        print(one)
    matching()
    with tempfile.TemporaryDirectory() as made:
        scoring(Path(made))
