"""Every step from a graph to a timeline, at growing sizes: ``python -m benchmarks.scale --facts 1000 10000 100000``.

``--triples 30000000`` besides makes a graph of so many triples, and takes, verifies and stores it.

Each step runs in a process of its own, as a user would run it where there is a command for it. Measured are seconds of
the processor, the step's children included, so that a busy machine says nearly what an idle one does; and peak memory,
the sum over the step and its children, each page that several share counted once. The graph is made up; see
`benchmarks.synthetic`. The exponent of a step is the slope of log seconds against log facts between two sizes: 1 is
linear. At 1,000 facts the start of Python is much of many steps, so the last decade is the honest one.

Figures are added to a file of JSON lines, with the commit they are of, so that a measurement can be made step by step:
``--steps run results``. The tables hold those of the commit that is there, unless ``--any-commit`` is given. ``--draw``
draws them.
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
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks import synthetic
from dyknow import benchmark, provenance
from dyknow.matching import Pair, match_rows
from dyknow.results import connect
from dyknow.rows import asked_of
from kg import identity
from kg import standings as sweeps
from kg.answers import facts as facts_of
from kg.answers import names
from kg.snapshot import find_snapshots, load
from kg.store import open_store

DAY: Final = synthetic.DATE
LINEAR: Final = 1.1
"""The exponent of growth that no step is to go beyond."""

PARTS: Final = 4
TRIPLES_A_FACT: Final = 159
"""What a made-up fact comes to, with what is said of its holders."""

OF_TRIPLES: Final = ("take", "verify", "store")
"""The steps that a graph alone can be measured by."""

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
    triples: int = 0  # of the graph; 0: not looked up
    commit: str = ""


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
        "run": [*cli, *asking("made-up")],
        "shards": [*inside, "shards"],
        "merge": [*cli, "runs", "merge", "made-up"],
        "standings": [*inside, "standings"],
        "match": [*inside, "match"],
        "results": [*inside, "results"],
        "tables": [*cli, "score", "--as-of", "2024-06-01", *judged, "--format", "csv"],
        "timeline": [*cli, "timeline", *judged, "--format", "csv"],
        "export": [*cli, "export", "results", "--out", "exported", "--as-of", DAY],
    }


def run_step(step: str, folder: Path, facts: int) -> Measured:
    """Run one step and return what it took; what it prints stands in ``folder/STEP.txt``."""
    runs = "shards" if step in ("shards", "merge") else "runs"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{step}.txt").open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *commands(folder.resolve(), facts)[step]],
            cwd=folder,
            env=environment() | {"DYKNOW_RUNS": runs},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        return _watched(process, step, facts, start)


def environment() -> dict[str, str]:
    """Return the variables that keep all that commands make in the folder they are called in."""
    own = {"DYKNOW_SNAPSHOTS": ".", "DYKNOW_RUNS": "runs", "DYKNOW_CACHE": "cache", "DYKNOW_DATABASE": "results.duckdb"}
    path = os.pathsep.join((str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")))
    return {**os.environ, **own, "PYTHONPATH": path}


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


def shards(folder: Path) -> None:
    """Ask four parts of a run, each in a process of its own, one after the other."""
    for number in range(1, PARTS + 1):
        words = ["-m", "dyknow.cli", *asking("made-up"), "--shard", f"{number}/{PARTS}"]
        subprocess.run([sys.executable, *words], cwd=folder, check=True)


def asking(run_id: str) -> list[str]:
    """Return the words of the command that asks the model of a made-up graph."""
    return ["run", "scripted:answers.csv", "--benchmark", "benchmark.parquet", "--run-id", run_id]


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
    """Make results.duckdb anew, of all snapshots that commands find: standings, matches and the rest."""
    (folder / "results.duckdb").unlink(missing_ok=True)
    connect(folder / "runs", find_snapshots(folder), folder / "results.duckdb").close()


INSIDE: Final[Mapping[str, Callable[[Path], None]]] = {
    "store": store,
    "shards": shards,
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
    sizes = sorted({facts for step, facts in newest if step not in OF_TRIPLES}) or sorted({at for _, at in newest})
    head = [f"{size:,}: s | MiB" for size in sizes] + [f"{low:,} → {high:,}" for low, high in pairwise(sizes)]
    lines = [f"| step | {' | '.join(head)} |", "|" + "---|" * (1 + 2 * len(sizes) + len(sizes) - 1)]
    for step in commands(Path(), 0):
        own = [newest.get((step, size)) for size in sizes]
        cells = [f"{one.seconds:,.1f} | {one.peak_mib:,.0f}" if one else "– | –" for one in own]
        for low, high in pairwise(own):
            cells.append(f"{exponents([low, high])[0][2]:.2f}" if low and high else "–")
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def triples_table(found: Sequence[Measured]) -> str:
    """Return the newest figures of graphs by their triples; with the exponents of seconds against triples."""
    newest = {(one.step, one.triples): one for one in found if not one.rc and one.triples and one.step in OF_TRIPLES}
    lines = [f"| triples | facts | {' | '.join(f'{step}: s | MiB' for step in OF_TRIPLES)} | exponents |"]
    lines.append("|" + "---|" * (3 + 2 * len(OF_TRIPLES)))
    before: dict[str, Measured] = {}
    for size in sorted({triples for _, triples in newest}):
        own = {step: newest[step, size] for step in OF_TRIPLES if (step, size) in newest}
        cells = [
            f"{one.seconds:,.1f} | {one.peak_mib:,.0f}" if (one := own.get(step)) else "– | –" for step in OF_TRIPLES
        ]
        grown = [f"{_by_triples(before[step], one):.2f}" for step, one in own.items() if step in before]
        facts = next(iter(own.values())).facts
        lines.append(f"| {size:,} | {facts:,} | {' | '.join(cells)} | {', '.join(grown) or '–'} |")
        before |= own
    return "\n".join(lines)


def _by_triples(low: Measured, high: Measured) -> float:
    return exponents([replace(one, facts=one.triples) for one in (low, high)])[0][2]


def steep(found: Sequence[Measured]) -> list[str]:
    """Return in words which steps grow faster than they are to."""
    newest = {(one.step, one.facts): one for one in found if not one.rc}
    by_step: dict[str, list[Measured]] = {}
    for (step, _), one in newest.items():
        by_step.setdefault(step, []).append(one)
    return [
        f"{step} from {low:,} to {high:,} facts: {exponent:.2f}"
        for step, own in by_step.items()
        for low, high, exponent in exponents(own)
        if exponent > LINEAR
    ]


EXTRAPOLATED: Final = (1_000_000, 115_000_000)
"""A million facts, and one for each item that Wikidata has."""


def extrapolated(found: Sequence[Measured]) -> str:
    """Return what the two largest sizes of each step come to in a straight line, as a Markdown table."""
    newest = {(one.step, one.facts): one for one in found if not one.rc}
    head = [f"{facts:,} facts" for facts in EXTRAPOLATED]
    lines = [f"| step | sizes | a fact more | {' | '.join(head)} |", "|" + "---|" * (3 + len(head))]
    for step in commands(Path(), 0):
        own = sorted((one for (name, _), one in newest.items() if name == step), key=lambda one: one.facts)
        if len(own) > 1:
            lines.append(f"| {step} | {own[-2].facts:,}, {own[-1].facts:,} | {_straight_on(*own[-2:])} |")
    return "\n".join(lines)


def _straight_on(low: Measured, high: Measured) -> str:
    """Return the slope between two sizes, and where it leads.

    >>> _straight_on(Measured("run", 1000, 2.0, 2.0, 100.0), Measured("run", 2000, 4.0, 4.0, 101.0))
    '2.00 ms, 1.0 KiB | 33 min, 1.1 GiB | 64 h, 112.4 GiB'
    """
    more = high.facts - low.facts
    seconds, mib = (high.seconds - low.seconds) / more, max(0.0, (high.peak_mib - low.peak_mib) / more)
    cells = [f"{1000 * seconds:.2f} ms, {1024 * mib:.1f} KiB"]
    for facts in EXTRAPOLATED:
        beyond = facts - high.facts
        minutes, gib = (high.seconds + seconds * beyond) / 60, (high.peak_mib + mib * beyond) / 1024
        cells.append(f"{f'{minutes / 60:,.0f} h' if minutes >= _LONG else f'{minutes:,.0f} min'}, {gib:,.1f} GiB")
    return " | ".join(cells)


_LONG: Final = 180
"""Minutes from which on a time is told in hours."""


def draw(found: Sequence[Measured], path: Path) -> None:
    """Draw seconds and memory of each step against facts, both axes logarithmic, as SVG or PNG."""
    import altair as alt  # noqa: PLC0415  # heavy, and only needed here

    newest = {(one.step, one.facts): one for one in found if not one.rc}
    rows = [asdict(one) for one in newest.values()]
    each = [
        alt.Chart({"values": rows})
        .mark_line(point=True)
        .encode(
            x=alt.X("facts:Q", title="facts").scale(type="log"),
            y=alt.Y(f"{measure}:Q", title=title).scale(type="log"),
            color=alt.Color("step:N", sort=list(commands(Path(), 0))).scale(scheme="tableau20"),
        )
        .properties(width=320, height=320)
        for measure, title in (("seconds", "seconds of the processor"), ("peak_mib", "peak memory, MiB"))
    ]
    alt.hconcat(*each).save(str(path))


def read(path: Path) -> list[Measured]:
    """Return the figures of a file; none where it is not there."""
    return [Measured(**json.loads(line)) for line in path.read_text().splitlines()] if path.is_file() else []


def measure(facts: int, steps: Sequence[str], folder: Path, commit: str) -> Iterator[Measured]:
    """Yield what each step took at a size, until one fails."""
    for step in steps:
        one = run_step(step, folder / str(facts), facts)
        manifest = folder / str(facts) / DAY / "manifest.json"
        triples = json.loads(manifest.read_text(encoding="utf-8"))["counts"]["triples"] if manifest.is_file() else 0
        yield replace(one, triples=triples, commit=commit)
        if one.rc:
            return


def this_commit() -> str:
    """Return the commit of this code, and whether it is changed."""
    code = provenance.code()
    return f"{(code.commit or 'none')[:12]}{'+' if code.dirty else ''}"


def report(found: Sequence[Measured], commit: str) -> str:
    """Return all that the figures of a commit say."""
    beyond = steep(found)
    grown = f"faster than the power of {LINEAR}: {'; '.join(beyond)}" if beyond else f"no step, by more than {LINEAR}"
    texts = (f"commit {commit}", table(found), triples_table(found), extrapolated(found), f"Growing {grown}.")
    return "\n\n".join(texts)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, nargs="*", default=[1_000, 10_000], help="sizes, one after the other")
    parser.add_argument("--triples", type=int, nargs="+", default=[], help="graphs of about so many triples, besides")
    parser.add_argument("--steps", nargs="+", choices=list(commands(Path(), 0)), help="only these, in their order")
    parser.add_argument("--folder", type=Path, default=Path("scale"), help="where graphs, runs and figures go")
    parser.add_argument("--any-commit", action="store_true", help="print the newest figures, of whatever commit")
    parser.add_argument("--draw", type=Path, help="draw the figures to this file, .svg or .png")
    parser.add_argument("--inside", choices=list(INSIDE), help="do this step here and now")
    chosen = parser.parse_args()
    if chosen.inside:
        INSIDE[chosen.inside](chosen.folder)
        return
    kept, commit = chosen.folder / "figures.jsonl", this_commit()
    sizes = [(facts, chosen.steps or list(commands(Path(), 0))) for facts in chosen.facts]
    sizes += [(-(-triples // TRIPLES_A_FACT), OF_TRIPLES) for triples in chosen.triples]
    for facts, steps in sizes:
        for one in measure(facts, steps, chosen.folder, commit):
            print(
                f"{one.step}, {facts:,} facts: {one.seconds:.1f} s, {one.peak_mib:,.0f} MiB, exit code {one.rc}",
                flush=True,
            )
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(one)) + "\n")
    found = [one for one in read(kept) if chosen.any_commit or one.commit == commit]
    print(report(found, commit))
    if chosen.draw:
        draw(found, chosen.draw)


if __name__ == "__main__":
    main()
