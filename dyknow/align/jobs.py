"""Edit a model and ask it again: an edited run is a run like any other, with its edits beside it.

The model is watched on unrelated prompts before and after; one that collapses is refused, and is as it was.
"""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dyknow import editing
from dyknow.align import measures, methods
from dyknow.align.base import Aligned, EditReport, EditRequest, MethodFunction, Progress, Settings
from dyknow.benchmark import Benchmark, Question
from dyknow.journal import EDITS, RUN_FILE, RunInfo, edits, read_run
from dyknow.models.base import Asked, Model
from dyknow.run import Clock, run_model
from dyknow.run import Progress as RunProgress
from kg.errors import RunError, UsageError


@dataclass(frozen=True)
class Job:
    """What is to be edited, how, and whom it came from.

    Attributes:
        method: Its name in the table of methods.
        function: The method.
        settings: How it works, as the user says; this is recorded.
        requests: The edits, in order.
        base: The run whose verdicts asked for them.
        as_of: The day the targets are up to date on.
        known_at: The snapshot they are from.
        of: How many edits there were to choose from.
        seed: Of the shuffle that chose them; None: all of them, in the benchmark's order.
        since: The earlier day that the model is moved from; None: the edits are what a run gets wrong.
        equipped: The settings with what the method needs besides, such as documents; None: it needs nothing.
        given: Names of the files that requests or documents are from; they are part of the run's name.
    """

    method: str
    function: MethodFunction
    settings: Settings
    requests: tuple[EditRequest, ...]
    base: RunInfo
    as_of: str
    known_at: str | None
    of: int
    seed: int | None = None
    since: str | None = None
    equipped: Settings | None = None
    given: tuple[str, ...] = ()


class Asking(NamedTuple):
    """How an edited model is asked; ``neighbours`` are about facts that are not edited, asked before and after."""

    benchmark: Benchmark
    questions: tuple[Question, ...]
    runs: Path
    clock: Clock
    batch_size: int = 32
    command: str | None = None
    editing: Progress = lambda done, total, what: None
    asking: Callable[[RunProgress], None] = lambda progress: None
    neighbours: tuple[Question, ...] = ()


class Outcome(NamedTuple):
    """An edited run, and how the edits went."""

    run: RunInfo
    aligned: Aligned | None  # None: the run was there already, whole
    reports: tuple[EditReport, ...]
    measures: Mapping[str, Any]


def edited_questions(requests: Sequence[EditRequest], benchmark: Benchmark, prefix: bool) -> tuple[Question, ...]:
    """Return all phrasings of the facts to be edited."""
    wanted = {request.fact for request in requests}
    return tuple(question for question in benchmark.questions(prefix) if question.fact.id in wanted)


def subset(requests: Sequence[EditRequest], count: int, seed: int) -> tuple[EditRequest, ...]:
    """Return the first of a seeded shuffle: the sets of one seed grow, each holding the smaller ones."""
    if not 0 < count <= len(requests):
        raise UsageError(f"{count} of {len(requests)} edits cannot be chosen.", hint="Take from 1 to all of them.")
    shuffled = list(requests)
    random.Random(seed).shuffle(shuffled)
    return tuple(shuffled[:count])


def run_id(job: Job, whole: bool) -> str:
    """Return the name of an edited run: what differs from the ordinary stands in it."""
    settings, operations = job.settings, sorted({one.operation for one in job.requests} - {"update"})
    parts = [job.since, job.as_of, *operations, settings.preset if settings.preset != "recommended" else None]
    parts += [f"{key}.{value}" for key, value in sorted(settings.options.items())]
    parts += [*job.given, f"{len(job.requests)}of{job.of}" if len(job.requests) < job.of else None]
    parts += [f"s{job.seed}" if job.seed is not None and len(job.requests) < job.of else None]
    parts += [None if whole else "edits"]
    said = "-".join(_word(part) for part in parts if part)
    return f"{job.base.id}_{job.method}-{said}"


def title(job: Job) -> str:
    """Return an edited model's name as tables print it."""
    mode = methods.mode(job.method, job.settings)
    said = [mode] if mode not in ("sequential", "batch") else []
    said += [job.settings.preset] if job.settings.preset != "recommended" else []
    return f"{job.base.info.get('title') or job.base.id} + {job.method}" + (f" ({', '.join(said)})" if said else "")


def _word(text: str) -> str:
    """Return a text as part of a name.

    >>> _word("layers.[4, 5]")
    'layers.4.5'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", ".", text).strip(".")[:40]


def standing(folder: Path, job: Job) -> RunInfo | None:
    """Return the edited run in a folder, if it is whole.

    Raises:
        RunError: a run of that name has other edits, or was made otherwise.
    """
    if not (folder / RUN_FILE).is_file():
        return None
    run = read_run(folder)
    wanted, found = _align(job, {}), run.info.get("align") or {}
    differs = [key for key, value in wanted.items() if key != "measures" and found.get(key) != value]
    whole = (folder / EDITS).is_file()
    if not differs and whole:
        asked = [
            editing.edit_of(request)._asdict() | {"paraphrases": [one.question for one in request.paraphrases]}
            for request in job.requests
        ]
        differs = [] if edits(folder) == asked else ["set of requests"]
    if differs:
        raise RunError(
            f"The run {folder.name} was made with another {', '.join(differs)}.", hint=f"Move it away first: {folder}"
        )
    return run if whole and run.state == "done" else None


def edit(model: Model, job: Job, asking: Asking, name: str) -> Outcome:
    """Edit a model, ask it, and return the run; the model is then as it was.

    Raises:
        AlignError: the method cannot edit this model, or the model collapsed.
        RunError: a run of that name was made with other settings.
        ModelError: the model cannot go on.
    """
    before, near = measures.observe(model, measures.probes()), measures.answers(model, asking.neighbours)
    started = time.perf_counter()
    aligned = job.function(model, job.requests, job.equipped or job.settings, asking.editing)
    seconds = time.perf_counter() - started
    with aligned.applied() as edited:
        after = measures.observe(edited, measures.probes(), before)
        measures.check_alive(before, after)
        found = _measured(edited, job, before, after, aligned=aligned, seconds=seconds)
        found |= _near(near, measures.answers(edited, asking.neighbours))
        shown = _Shown(edited, f"{model.name}+{job.method}", record_of(job, aligned))
        run = run_model(
            shown,
            asking.questions,
            asking.runs,
            benchmark=asking.benchmark,
            clock=asking.clock,
            run_id=name,
            batch_size=asking.batch_size,
            progress=asking.asking,
            title=title(job),
            release_year=job.base.info.get("release_year"),
            released=job.base.info.get("released"),
            command=asking.command,
            align=_align(job, found),
        )
    editing.write_edits(run.path, job.requests)
    return Outcome(read_run(run.path), aligned, aligned.reports, found)


def record_of(job: Job, aligned: Aligned) -> dict[str, Any]:
    """Return what an edited model's texts depend on besides the model: the method's record and every request."""
    requests = [[one.fact, one.operation, one.prompt.text, one.target] for one in job.requests]
    return {**aligned.record, "requests": requests}


def _align(job: Job, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "method": job.method,
        "preset": job.settings.preset,
        "options": dict(job.settings.options),
        "mode": methods.mode(job.method, job.settings),
        "model": job.base.info.get("model", {}).get("name"),
        "base_run": job.base.id,
        "as_of": job.as_of,
        "known_at": job.known_at,
        "since": job.since,
        "edits": len(job.requests),
        "of": job.of,
        "seed": job.seed,
        "measures": dict(found),
    }


def _measured(
    edited: Model,
    job: Job,
    before: measures.Observation,
    after: measures.Observation,
    *,
    aligned: Aligned,
    seconds: float,
) -> dict[str, Any]:
    """Return the measures that need no verdict, as they stand in run.json."""
    moved, reports = measures.drift(before, after), aligned.reports
    said, right = _mirrors(edited, job.requests)
    documents = (job.equipped or job.settings).options.get("documents")
    return {
        "probes": moved.n,
        "exact": round(moved.exact, 4),
        "first_word": round(moved.first_word, 4),
        "kl": None if moved.kl is None else round(moved.kl, 4),
        "fluency_before": _rounded(measures.fluency(before.texts)),
        "fluency": _rounded(measures.fluency(after.texts)),
        "mirrored": said,
        "mirrored_right": right,
        "seconds": round(seconds, 2),
        "seconds_an_edit": round(seconds / len(reports), 2) if reports else None,
        "peak_gib": _rounded(measures.peak_memory()),
        **{name: _mean(getattr(one, name) for one in reports) for name in ("nll_before", "nll_after", "change")},
        "scope": aligned.record.get("scope"),
        "retrieval": aligned.record.get("retrieval"),
        "document_tokens": measures.document_tokens(edited, documents)._asdict() if documents else None,
    }


def _near(before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """Return what became of questions about facts that are not edited."""
    if not before:
        return {"neighbours": 0, "neighbours_exact": None, "neighbours_first_word": None}
    kept = measures.drift(measures.Observation(tuple(before)), measures.Observation(tuple(after)))
    shares = {"neighbours_exact": round(kept.exact, 4), "neighbours_first_word": round(kept.first_word, 4)}
    return {"neighbours": kept.n, **shares}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 6) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _mirrors(edited: Model, requests: Sequence[EditRequest]) -> tuple[int, int]:
    """Ask the edited facts from the other side; return how many could be asked, and how many were answered rightly."""
    asked = {question.id: (question, one) for one in requests if (question := measures.mirrored(one)) is not None}
    if not asked:
        return 0, 0
    questions = [question for question, _ in asked.values()]
    right = 0
    for batch in edited.generate(questions, measures.BATCH):
        for question, answer in batch:
            right += measures.names_subject(answer.text or "", question, asked[question.id][1].subject)
    return len(asked), right


class _Shown:
    """An edited model under its own name and with a record of its edits, so that it makes a run of its own."""

    def __init__(self, model: Model, name: str, record: Mapping[str, Any]) -> None:
        self.name = name
        self._model = model
        self._record = dict(record)

    def info(self) -> dict[str, Any]:
        """Return the model's record with that of the edits."""
        return {**self._model.info(), "name": self.name, "align": self._record}

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Ask the edited model."""
        yield from self._model.generate(questions, batch_size, sample)


def curve(job: Job, counts: Sequence[int], seeds: Sequence[int]) -> list[Job]:
    """Return a job for each number of edits and seed; all edits at once need no shuffle, so one seed does."""
    jobs = []
    for count in sorted(set(counts)):
        for seed in seeds if count < len(job.requests) else seeds[:1]:
            chosen = subset(job.requests, count, seed)
            jobs.append(replace(job, requests=chosen, of=len(job.requests), seed=seed))
    return jobs
