"""Journals of up to a million answers: how long it takes to go on with one, to close it, to read it, to merge parts.

``python -m benchmarks.journal`` prints it; ``--lines 10000 100000`` takes other sizes. Each step runs in a process of
its own, so that its peak of memory is its own. What a process needs before it looks at the journal, the questions
themselves above all, is measured by going on with a run of none, and shown beside.

The journals are made up: three phrasings a fact, answers of a few words behind prompts of some sixty letters.
"""

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow import journal, merging, segments
from dyknow.benchmark import Benchmark, Fact, Question
from dyknow.journal import JOURNAL, QUESTIONS, find_runs, read_run
from dyknow.models.base import Answer
from dyknow.models.fleet import Fleet, Patience
from dyknow.models.scripted import Script, Scripted
from dyknow.run import about, listed, run_model, settings_of
from dyknow.shards import Shard
from dyknow.verify import verify

LINES: Final = (10_000, 100_000, 1_000_000)
_LEFT: Final = 30  # questions that a run which goes on has not asked yet


class Step(NamedTuple):
    """What one process took."""

    seconds: float
    megabytes: float  # its peak


# What is asked


def made_up(lines: int) -> Benchmark:
    """Return a benchmark of so many questions."""
    words = ("The current head of government of {subject} is", "{subject} is governed by", "Who leads {subject}?")
    phrasings = {str(number): text for number, text in enumerate(words, start=1)}
    facts = tuple(_fact(number) for number in range(-(-lines // 3)))
    return Benchmark("made up", "0" * 64, facts, {"offices": phrasings})


def _fact(number: int) -> Fact:
    return Fact(
        id=f"Q{90_000_000 + number}/P6",
        domain="countries",
        group="offices",
        subject_label=f"Country {number}",
        subject=f"Q{90_000_000 + number}",
        property="P6",
        office=None,
        mention=f"Country {number}",
        asks=None,
        confidence="none",
    )


def _answered(question: Question) -> dict[str, Any]:
    return about(question) | {
        "sample": 0, "prompt": question.text, "ids_digest": None, "raw": None, "text": "Somebody Oranother",
        "status": "ok", "finish_reason": "stop", "logprob": None, "prompt_tokens": 9, "tokens": 3, "server": None,
        "model": None, "error": None, "seconds": 0.01, "attempt": 1, "time": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip


def interrupted(folder: Path, bench: Benchmark, questions: Sequence[Question], answered: int) -> None:
    """Write a run that was killed after so many answers."""
    folder.mkdir(parents=True)
    record = settings_of(_model(), questions, bench, 0)
    leg = {"started": "2026-01-01T00:00:00.000Z", "ended": None, "first_row": 0, "asked": 0}
    info = {"id": folder.name, "kind": "asked", **record, "samples": 1, "started": leg["started"], "ended": None}
    journal.replace_rows(folder / QUESTIONS, listed(questions, bench))
    journal.replace_rows(folder / JOURNAL, map(_answered, questions[:answered]))
    journal.write_run(folder, info | {"legs": [leg] if answered else []})


def _model() -> Scripted:
    return Scripted(Script({"*": "Somebody Oranother"}, {}), "made up")


# The steps; each is called in a process of its own


def prepare(folder: Path, lines: int) -> None:
    """Write the runs that the other steps take."""
    bench = made_up(lines)
    questions = bench.questions()[:lines]
    interrupted(folder / "begun", bench, questions, lines - _LEFT)
    interrupted(folder / "none", bench, questions, 0)


def _go_on(folder: Path, lines: int, run: str) -> None:
    bench = made_up(lines)
    questions = bench.questions()[:lines]
    run_model(_model(), questions, folder, benchmark=bench, clock=lambda: datetime.now(UTC), run_id=run, batch_size=32)


def go_on(folder: Path, lines: int) -> None:
    """Ask the few questions that are left of a run."""
    _go_on(folder, lines, "begun")


def ask(folder: Path, lines: int) -> None:
    """Ask all questions of a model that answers at once."""
    _go_on(folder, lines, "none")


def again(folder: Path, lines: int) -> None:
    """Call the same command once more: there is nothing to ask."""
    _go_on(folder, lines, "begun")


def check(folder: Path, lines: int) -> None:
    """Check a run."""
    found = verify(read_run(folder / "begun"))
    assert (found.problem, found.counts) == (None, {"ok": lines}), found


def count(folder: Path, lines: int) -> None:
    """Read a journal line by line, and keep nothing."""
    assert sum(1 for _ in journal.each(folder / "begun" / JOURNAL, "status")) == lines


def close(folder: Path, _lines: int) -> None:
    """Compress the journal."""
    journal.close(read_run(folder / "begun"))


def ask_parts(folder: Path, lines: int) -> None:
    """Ask four parts, one after the other."""
    bench = made_up(lines)
    questions = bench.questions()[:lines]
    for number in range(1, 5):
        about_it: dict[str, Any] = {"benchmark": bench, "clock": lambda: datetime.now(UTC), "run_id": "parts"}
        run_model(_model(), questions, folder, shard=Shard(number, 4), batch_size=1000, **about_it)


def merge(folder: Path, lines: int) -> None:
    """Join the parts."""
    done = merging.merge(merging.parts_of(find_runs(folder), ["parts"]), folder, command=None)
    assert done.run.info["answered"] == lines


class _Instant:
    """A server that answers at once."""

    address = "nowhere"
    proven = True

    async def ask(self, question: Question) -> Answer:
        """Return an answer when others have had their turn."""
        await asyncio.sleep(0)
        return Answer("x", "stop", question.text, 9, 1)

    def no_answer(self, question: Question, error: str) -> Answer:
        """Never called."""
        raise AssertionError(question.id, error)

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def serve(_folder: Path, lines: int) -> None:
    """Share questions among eight servers that answer at once."""
    questions = made_up(lines).questions()[:lines]
    fleet = Fleet([_Instant() for _ in range(8)], 16, Patience(), "made up")
    assert sum(map(len, fleet.answers(questions, 32))) == lines


STEPS: Final[dict[str, tuple[Callable[[Path, int], None], str]]] = {
    "count": (count, "read the journal"),
    "go on": (go_on, f"go on where {_LEFT} are left"),
    "again": (again, "go on where nothing is left"),
    "ask": (ask, "ask all, in batches of 32"),
    "check": (check, "runs verify"),
    "close": (close, "runs close"),
    "count closed": (count, "read the closed journal"),
    "again closed": (again, "go on with it, nothing left"),
    "ask parts": (ask_parts, "ask four parts"),
    "merge": (merge, "runs merge"),
    "serve": (serve, "eight servers, no journal"),
}


# Measuring


def measure(sizes: Sequence[int]) -> Iterator[str]:
    """Yield a line for each step and size, and its exponent of growth."""
    found: dict[str, list[Step]] = {name: [] for name in STEPS}
    for lines in sizes:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            _apart("prepare", folder, lines)
            for name in STEPS:
                if name == "count":  # the run that goes on has its last lines only afterwards
                    continue
                found[name].append(_apart(name, folder, lines))
                if name == "again":
                    found["count"].append(_apart("count", folder, lines))
                if name == "close":
                    yield _sizes(folder, lines)
    for name, (_, words) in STEPS.items():
        yield _line(words, sizes, found[name])


def _sizes(folder: Path, lines: int) -> str:
    packed = sum(one.path.stat().st_size for one in segments.segments(folder / "begun" / JOURNAL))
    plain = sum(map(len, segments.lines(folder / "begun" / JOURNAL)))
    return f"{lines:>9} lines: {plain / 1e6:.1f} MB, closed {packed / 1e6:.1f} MB, 1/{plain / packed:.0f}"


def _line(words: str, sizes: Sequence[int], steps: Sequence[Step]) -> str:
    taken = "  ".join(f"{one.seconds:7.2f} s {one.megabytes:5.0f} MB" for one in steps)
    exponent = math.log(steps[-1].seconds / steps[-2].seconds) / math.log(sizes[-1] / sizes[-2]) if steps[1:] else 1.0
    return f"{words:<30} {taken}   exponent {exponent:.2f}"


def _apart(name: str, folder: Path, lines: int) -> Step:
    """Take a step in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.journal",
        "--step",
        name,
        "--folder",
        str(folder),
        "--lines",
        str(lines),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Step(*json.loads(done.stdout.splitlines()[-1]))


def _step(name: str, folder: Path, lines: int) -> None:
    work = prepare if name == "prepare" else STEPS[name][0]
    before = time.process_time()
    work(folder, lines)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kilobytes on Linux
    print(json.dumps([time.process_time() - before, peak]))


def main() -> None:
    """Measure, or take one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=list(LINES))
    parser.add_argument("--step", choices=["prepare", *STEPS])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.step:
        _step(given.step, given.folder, given.lines[0])
        return
    print(f"processor's seconds and peak memory at {', '.join(map(str, given.lines))} lines; {os.cpu_count()} cores")
    for line in measure(given.lines):
        print(line, flush=True)


if __name__ == "__main__":
    main()
