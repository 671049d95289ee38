"""Every step from a graph to a timeline, at growing sizes: ``python -m benchmarks.scale --facts 1000 10000 100000``.

Each step runs in a process of its own, as a user would run it where there is a command for it. Measured are seconds of
the processor, the step's children included, so that a busy machine says nearly what an idle one does; and peak memory,
the sum over the step and its children, each page that several share counted once. The graph is made up; see
`benchmarks.synthetic`. The exponent of a step is the slope of log seconds against log facts between two sizes: 1 is
linear. At 1,000 facts the start of Python is much of many steps, so the last decade is the honest one.

Figures are added to a file of JSON lines, so that a measurement can be made step by step: ``--steps run results``.
"""

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks import synthetic
from dyknow import benchmark
from dyknow.matching import Pair, match_rows
from dyknow.results import connect
from dyknow.rows import asked_of
from kg import identity
from kg import standings as sweeps
from kg.answers import facts as facts_of
from kg.answers import names
from kg.snapshot import load
from kg.store import open_store

DAY: Final = synthetic.DATE
SAMPLED_S: Final = 0.25
"""How often memory is looked at; a process's own peak is kept by the kernel besides."""


@dataclass(frozen=True)
class Measured:
    """What one step took at one size."""

    step: str
    facts: int
    seconds: float  # of the processor, children included
    wall: float
    peak_mib: float
    rc: int = 0


def commands(folder: Path, facts: int) -> dict[str, list[str]]:
    """Return the steps in their order, each as the arguments of Python."""
    cli, judged = ["-m", "dyknow.cli"], ["--known-at", DAY]
    inside = ["-m", "benchmarks.scale", "--folder", str(folder), "--inside"]
    return {
        "take": ["-m", "benchmarks.synthetic", str(folder), "--facts", str(facts)],
        "verify": [*cli, "snapshot", "verify", DAY],
        "store": [*inside, "store"],
        "generate": [*cli, "benchmark", "generate", "benchmark.parquet", *judged, "--min-changes", "0", "--ambiguous"],
        "answers": [*cli, "answers", "--as-of", DAY, *judged, "--format", "csv"],
        "run": [*cli, "run", "scripted:answers.csv", "--benchmark", "benchmark.parquet", "--run-id", "made-up"],
        "standings": [*inside, "standings"],
        "match": [*inside, "match"],
        "results": [*inside, "results"],
        "tables": [*cli, "score", "--as-of", "2024-06-01", *judged, "--format", "csv"],
        "timeline": [*cli, "timeline", *judged, "--format", "csv"],
        "export": [*cli, "export", "results", "--out", "exported", "--as-of", DAY],
    }


def run_step(step: str, folder: Path, facts: int) -> Measured:
    """Run one step and return what it took; what it prints stands in ``folder/STEP.txt``."""
    own = {"DYKNOW_SNAPSHOTS": ".", "DYKNOW_RUNS": "runs", "DYKNOW_CACHE": "cache", "DYKNOW_DATABASE": "results.duckdb"}
    path = os.pathsep.join((str(Path.cwd()), os.environ.get("PYTHONPATH", "")))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{step}.txt").open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *commands(folder.resolve(), facts)[step]],
            cwd=folder,
            env={**os.environ, **own, "PYTHONPATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        return _watched(process, step, facts, start)


def _watched(process: "subprocess.Popen[bytes]", step: str, facts: int, start: float) -> Measured:
    """Wait for a process, looking at its memory and its children's from time to time."""
    peak = 0
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            peak = max(peak, used.ru_maxrss * 1024)
            wall = time.perf_counter() - start
            return Measured(step, facts, used.ru_utime + used.ru_stime, wall, peak / 2**20, process.returncode)
        peak = max(peak, sum(map(_proportional, _family(process.pid))))
        time.sleep(SAMPLED_S)


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    try:
        children = [int(name) for task in Path(f"/proc/{pid}/task").iterdir() for name in _children(task)]
    except OSError:  # it has ended
        return
    for child in children:
        yield from _family(child)


def _children(task: Path) -> list[str]:
    return (task / "children").read_text().split()


def _proportional(pid: int) -> int:
    """Return the bytes of a process, each page divided by how many share it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


# Steps that no command does alone


def store(folder: Path) -> None:
    """Load the snapshot into a store."""
    open_store(load(folder / DAY))


def standings(folder: Path) -> None:
    """Make the standings of all facts over all days."""
    graph, same = open_store(load(folder / DAY)), identity.load()
    rows = sum(len(part.standings) for part in sweeps.timeline(graph, same, facts_of(graph, same).values()))
    print(f"{rows} rows")


def match(folder: Path) -> None:
    """Match all answers to the names of their facts."""
    graph, same = open_store(load(folder / DAY)), identity.load()
    asked = asked_of(facts_of(graph, same).values(), names(graph, same))
    prompts = {question.id: question.text for question in benchmark.load(folder / "benchmark.parquet").questions()}
    with (folder / "answers.csv").open(encoding="utf-8", newline="") as file:
        pairs = (
            Pair(row["question"], prompts[row["question"]], row["text"], asked[row["question"].partition("#")[0]])
            for row in csv.DictReader(file)
        )
        named = sum(row["entity"] is not None for row in match_rows(pairs))
    print(f"{named} named")


def results(folder: Path) -> None:
    """Make results.duckdb: standings, matches and the rest."""
    connect(folder / "runs", [load(folder / DAY)], folder / "results.duckdb").close()


INSIDE: Final[Mapping[str, Callable[[Path], None]]] = {
    "store": store,
    "standings": standings,
    "match": match,
    "results": results,
}


# What comes of it


def exponents(found: Sequence[Measured]) -> list[tuple[int, int, float]]:
    """Return the exponent of growth between each two neighbouring sizes of one step.

    >>> two = [Measured("run", 10, 1.0, 1.0, 1.0), Measured("run", 100, 20.0, 20.0, 1.0)]
    >>> [(first, last, round(exponent, 2)) for first, last, exponent in exponents(two)]
    [(10, 100, 1.3)]
    """
    ordered = sorted(found, key=lambda one: one.facts)
    return [
        (low.facts, high.facts, math.log(high.seconds / low.seconds) / math.log(high.facts / low.facts))
        for low, high in pairwise(ordered)
    ]


def table(found: Sequence[Measured]) -> str:
    """Return the newest figures of each step and size as a Markdown table."""
    newest = {(one.step, one.facts): one for one in found if not one.rc}
    sizes = sorted({facts for _, facts in newest})
    head = [f"{size:,}: s | MiB" for size in sizes] + [f"{low:,} → {high:,}" for low, high in pairwise(sizes)]
    lines = [f"| step | {' | '.join(head)} |", "|" + "---|" * (1 + 2 * len(sizes) + len(sizes) - 1)]
    for step in commands(Path(), 0):
        own = [newest.get((step, size)) for size in sizes]
        cells = [f"{one.seconds:,.1f} | {one.peak_mib:,.0f}" if one else "– | –" for one in own]
        for low, high in pairwise(own):
            cells.append(f"{exponents([low, high])[0][2]:.2f}" if low and high else "–")
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def read(path: Path) -> list[Measured]:
    """Return the figures of a file; none where it is not there."""
    return [Measured(**json.loads(line)) for line in path.read_text().splitlines()] if path.is_file() else []


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--steps", nargs="+", choices=list(commands(Path(), 0)), help="only these, in their order")
    parser.add_argument("--folder", type=Path, default=Path("scale"), help="where graphs, runs and figures go")
    parser.add_argument("--inside", choices=list(INSIDE), help="do this step here and now")
    chosen = parser.parse_args()
    if chosen.inside:
        INSIDE[chosen.inside](chosen.folder)
        return
    kept = chosen.folder / "figures.jsonl"
    for facts in chosen.facts:
        for step in chosen.steps or commands(Path(), 0):
            one = run_step(step, chosen.folder / str(facts), facts)
            print(f"{step}, {facts:,} facts: {one.seconds:.1f} s, {one.peak_mib:,.0f} MiB, exit code {one.rc}")
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(one)) + "\n")
    print(table(read(kept)))


if __name__ == "__main__":
    main()
