"""A run in four parts, one killed and gone on with, against the run of one process: ``python -m benchmarks.shards``.

The graph is that of `benchmarks.synthetic`, the model a table of answers. Four processes ask a part each, at the same
time; the third is killed with SIGKILL when some of its answers are on disk, merging is refused, ``dyknow runs resume``
asks the rest, and ``dyknow runs merge`` joins the parts. Compared with the unsharded run are then, row by row and but
for names and times: the journal, the list of questions, what run.json counts, every table of ``dyknow export results``
with the verdicts of a day, and the tables of ``dyknow score``. The first difference is an error.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import duckdb
import orjson

from benchmarks.scale import DAY, PARTS, asking, environment, run_step
from dyknow import segments
from dyknow.journal import JOURNAL, QUESTIONS, RunInfo, each, read_run

VICTIM: Final = 3
AS_OF: Final = "2024-06-01"
RUNS: Final = "runs-of-shards"
WHOLE, PARTED = "whole", "parts"
TIMES: Final = {"time", "seconds"}
"""What differs between two runs of the same texts."""

COUNTED: Final = ("questions", "answered", "errors", "refused", "samples", "prompt_tokens", "tokens")
SETTINGS: Final = ("settings_digest", "prompts_digest", "benchmark", "model", "sampling", "seed", "prefixed", "asking")


class Differs(Exception):
    """The merged run is not the unsharded one."""


class Place:
    """A folder in which commands are called, with all that they make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.runs = self.folder / RUNS
        self._environment = environment() | {"DYKNOW_RUNS": RUNS, "DYKNOW_DATABASE": "shards.duckdb"}

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Begin a command, whose messages can be read when it has ended."""
        command = [sys.executable, "-m", "dyknow.cli", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=self._environment, text=True, stdout=pipe, stderr=pipe)

    def call(self, *words: str, rc: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, which must be this one."""
        process = self.start(*words)
        out, err = process.communicate()
        if process.returncode != rc:
            raise Differs(f"dyknow {' '.join(words)} ended with {process.returncode}, not {rc}:\n{err}")
        return subprocess.CompletedProcess(words, rc, out, err)

    def prepare(self, facts: int) -> None:
        """Make the graph and its benchmark where they are not there yet, and take earlier runs away."""
        for step, made in (("take", DAY), ("generate", "benchmark.parquet")):
            if not (self.folder / made).exists() and run_step(step, self.folder, facts).rc:
                raise Differs((self.folder / f"{step}.txt").read_text(encoding="utf-8"))
        shutil.rmtree(self.runs, ignore_errors=True)
        (self.folder / "shards.duckdb").unlink(missing_ok=True)


def asked(place: Place, facts: int) -> Iterator[str]:
    """Ask the whole run and the four parts, kill one, go on with it and merge them; yield what happened."""
    place.call(*asking(WHOLE))
    children = {number: place.start(*asking(PARTED), "--shard", f"{number}/{PARTS}") for number in range(1, PARTS + 1)}
    victim = place.runs / f"{PARTED}.{VICTIM}-of-{PARTS}"
    killed = _killed(children[VICTIM], victim / JOURNAL, facts)
    for number, child in children.items():
        _, err = child.communicate()
        if child.returncode != (-signal.SIGKILL if number == VICTIM else 0):
            raise Differs(f"Part {number} ended with {child.returncode}: {err}")
    total = sum(1 for row in each(victim / QUESTIONS, "fact") if row["asked"])
    yield f"part {VICTIM}/{PARTS} was killed with {killed:,} of {total:,} answers on disk and a line begun"
    refused = place.call("runs", "merge", PARTED, rc=1).stderr.splitlines()[0]
    yield f"merging is refused: {refused}"
    place.call("runs", "resume", victim.name)
    legs = read_run(victim).info["legs"]
    yield f"gone on with in leg {len(legs)}, which asked {legs[-1]['asked']:,}"
    place.call("runs", "merge", PARTED)


def _killed(process: "subprocess.Popen[str]", journal: Path, facts: int) -> int:
    """Kill a process that has answered about a third and return how many answers are on disk.

    Behind them comes the beginning of a line, as a process leaves it that is killed while it writes.
    """
    while process.poll() is None:
        if journal.is_file() and journal.stat().st_size > facts // PARTS * _THIRD:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            whole = sum(1 for _ in segments.lines(journal))
            with journal.open("ab") as stream:
                stream.write(b'{"attempt":1,"counted":true,"dom')
            return whole
        time.sleep(0.001)
    raise Differs(f"The part to be killed had ended before; take more facts. {process.communicate()[1]}")


_THIRD: Final = 450
"""Bytes of a journal for each fact that say that about a third is answered: of three answers, one."""


# Comparing


def compared(place: Place) -> Iterator[str]:
    """Compare the merged run with the unsharded one, and yield what was equal.

    Raises:
        Differs: at the first difference.
    """
    whole, parts = (read_run(place.runs / name) for name in (WHOLE, PARTED))
    yield f"{_equal_rows(whole, parts, JOURNAL, 'status'):,} lines of {JOURNAL}, in their order"
    yield f"{_equal_rows(whole, parts, QUESTIONS, 'fact'):,} lines of {QUESTIONS}, in their order"
    for key in (*COUNTED, *SETTINGS):
        _same(f"{key} of run.json", whole.info.get(key), parts.info.get(key))
    yield f"run.json: {', '.join(COUNTED + SETTINGS)}"
    yield from _tables(place)
    scored = [orjson.loads(place.call(*_scoring(name)).stdout) for name in (WHOLE, PARTED)]
    _same("score", *map(_nameless, scored))
    figures = sum(len(scored[0][table]) for table in ("table1", "table5", "table2"))
    if not figures:
        raise Differs("The tables of dyknow score are empty.")
    yield f"{figures} rows of tables 1, 5 and 2 as of {AS_OF}, by dyknow score"


def _equal_rows(whole: RunInfo, parts: RunInfo, name: str, key: str) -> int:
    count = 0
    none: dict[str, Any] = {}
    pairs = zip_longest(each(whole.path / name, key), each(parts.path / name, key), fillvalue=none)
    for count, (one, other) in enumerate(pairs, start=1):
        _same(f"line {count} of {name}", _timeless(one), _timeless(other))
    if not count:
        raise Differs(f"There is nothing in {name}.")
    return count


def _timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in TIMES}


def _same(what: str, one: object, other: object) -> None:
    if one != other:
        raise Differs(f"{what}: {one!r} of the unsharded run, {other!r} of the merged one.")


def _scoring(name: str) -> list[str]:
    return ["score", "--as-of", AS_OF, "--known-at", DAY, "--run", name, "--format", "json"]


def _nameless(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return JSON without the names of runs."""
    if isinstance(value, dict):
        return {key: _nameless(one) for key, one in value.items() if key not in {"run", "title"}}
    return [_nameless(one) for one in value] if isinstance(value, list) else value


def _tables(place: Place) -> Iterator[str]:
    """Compare all tables that an export has by run."""
    place.call("export", "results", "--out", "exported-shards", "--as-of", AS_OF, "--known-at", DAY)
    out = place.folder / "exported-shards"
    found = 0
    for table in sorted(one.name for one in out.iterdir() if any(one.rglob(f"run={WHOLE}"))):
        rows, differing = _difference(out / table)
        if differing:
            raise Differs(f"{differing} rows of the exported {table} are in one of the runs alone.")
        found += rows
        yield f"{rows:,} rows of the exported table {table}"
    if not found:
        raise Differs("The export has no rows by run.")


def _difference(table: Path) -> tuple[int, int]:
    """Return how many rows a table has of the unsharded run, and how many are in one of the runs alone."""
    with duckdb.connect() as connection:
        files = f"{table}/**/*.parquet"
        read = connection.read_parquet(files, hive_partitioning=True, union_by_name=True)
        kept = ", ".join(f'"{name}"' for name in read.columns if name not in {"run", "title", *TIMES})
        one, other = (read.filter(f"run = '{name}'").project(kept) for name in (WHOLE, PARTED))
        rows = len(one)
        one.create_view("one")
        other.create_view("other")
        [alone] = connection.execute(_ALONE).fetchall()
        return rows, sum(alone)


_ALONE: Final = """
SELECT (SELECT count(*) FROM (FROM one EXCEPT ALL FROM other)), (SELECT count(*) FROM (FROM other EXCEPT ALL FROM one))
"""


def main() -> None:
    """Ask, compare, and print what was equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path("shards"), help="where the graph and the runs go")
    chosen = parser.parse_args()
    place = Place(chosen.folder)
    place.prepare(chosen.facts)
    try:
        for line in asked(place, chosen.facts):
            print(line, flush=True)
        for line in compared(place):
            print("equal:", line, flush=True)
    except Differs as difference:
        sys.exit(f"different: {difference}")


if __name__ == "__main__":
    main()
