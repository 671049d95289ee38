"""A run: a model asked once, its raw answers kept for ever.

``runs/ID/run.json`` says what was asked of what; ``responses.jsonl`` is a journal, one line per answer, only ever
appended to. A line counts once its newline is on disk, so a run killed at any byte goes on where it stopped.
"""

import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from dyknow import journal, prompts, provenance, segments
from dyknow.benchmark import Benchmark, Question, prompts_digest
from dyknow.journal import JOURNAL, QUESTIONS, RUN_FILE, RunInfo, read_run
from dyknow.models.base import Answer, Asked, Model
from dyknow.shards import Shard
from dyknow.tally import Account, Tally
from kg.errors import DyknowError, ModelError, RunError, UsageError

Clock = Callable[[], datetime]
"""Tells the time, with its zone."""

# Where a model runs and how fast it is asked leave its texts alone, so an interrupted run may go on elsewhere.
_NOT_IN_TEXTS = ("device", "servers", "concurrency", "deadline_s")


class Progress(NamedTuple):
    """How far a run has come."""

    done: int  # questions with an answer, those of earlier legs too; each sample is one
    total: int
    errors: int  # of this leg
    asked: int  # in this leg
    seconds: float  # since this leg began to ask

    @property
    def rate(self) -> float | None:
        """Answers per second in this leg; None before the first."""
        return self.asked / self.seconds if self.asked and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at this rate."""
        return (self.total - self.done - self.errors) / self.rate if self.rate else None


def run_model(
    model: Model,
    questions: Sequence[Question],
    runs_dir: Path,
    *,
    benchmark: Benchmark,
    clock: Clock,
    run_id: str | None = None,
    batch_size: int = 32,
    samples: int = 1,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    title: str | None = None,
    release_year: int | None = None,
    released: Mapping[str, Any] | None = None,
    command: str | None = None,
    asking: Mapping[str, Any] | None = None,
    align: Mapping[str, Any] | None = None,
    shard: Shard | None = None,
) -> RunInfo:
    """Ask a model what it has not answered yet, and return the run.

    The same model, questions and settings are the same run: called again after an interruption it asks the rest only,
    after an error what failed, with more samples those that are new, and else nothing. What the model yields is on disk
    before more is taken from it.

    Args:
        model: Whom to ask.
        questions: What to ask, of this benchmark.
        runs_dir: The folder of all runs.
        benchmark: Where the questions are from.
        clock: Tells the time.
        run_id: The run's name; None: made of the model's name and a digest of all its texts depend on.
        batch_size: Questions per batch.
        samples: How many answers to each question; more than one needs a model that draws at random.
        seed: Where random draws begin; a greedy model needs none.
        progress: Called at the start and after every batch.
        title: The model's name as tables print it.
        release_year: Of the model, for the tables.
        released: The day it came out and the source of that (``day``, ``source``), for ``--as-of release``.
        command: What the user typed, for the record.
        asking: How to load and ask the model again, for the record; ``dyknow runs resume`` reads it.
        align: Of an edited model, which edits it has and what they did beside their aim.
        shard: Ask only this part of the questions, in a run of its own, which `dyknow.merging` joins to the others.

    Raises:
        UsageError: the name is no file name, nothing is asked, a question is asked twice, several samples are wanted of
            a greedy model, or there are more parts than facts.
        RunError: another process writes this run, it was made with other settings, or its journal is damaged.
        ModelError: the model cannot go on; what it answered is on disk.
    """
    check(questions, batch_size)
    plan = planned(model, questions, benchmark=benchmark, seed=seed, run_id=run_id, shard=shard)
    _check_samples(samples, plan.record["sampling"])
    folder = runs_dir / plan.run_id
    folder.mkdir(parents=True, exist_ok=True)
    extra = {"title": title, "release_year": release_year, "released": released, "command": command, "asking": asking}
    extra |= {} if align is None else {"align": align}
    with journal.locked(folder):
        info = opened(folder, plan.record, extra, samples)
        leg = _Leg(folder, info, clock, batch_size, str(model.info().get("device")), plan)
        _run_leg(leg, model, progress or (lambda _: None))
    return read_run(folder)


# --- what is asked of what


def check(questions: Sequence[Question], batch_size: int) -> None:
    """Refuse what cannot be asked.

    Raises:
        UsageError: a batch of none, no question, or one twice.
    """
    if batch_size < 1:
        raise UsageError(f"A batch of {batch_size} is none.", hint="Take --batch-size 1 or more.")
    if not questions:
        raise UsageError("There is no question to ask.")
    twice = [name for name, count in Counter(question.id for question in questions).items() if count > 1]
    if twice:
        raise UsageError(f"The question {twice[0]} is asked twice.")


def _check_samples(samples: int, sampling: Mapping[str, Any]) -> None:
    if samples < 1:
        raise UsageError(f"{samples} samples are none.", hint="Take --samples 1 or more.")
    if samples > 1 and sampling.get("method") == "greedy":
        raise UsageError(
            f"A greedy model gives the same text {samples} times.", hint="Draw at random: --temperature 0.7, say."
        )


class Plan(NamedTuple):
    """What a run asks, and what its record says of that."""

    run_id: str
    record: dict[str, Any]
    questions: Sequence[Question]
    benchmark: Benchmark
    positions: Mapping[str, int] | None = None  # of a part's questions among those of the whole run

    def listed(self) -> Iterator[dict[str, Any]]:
        """Yield the questions as questions.jsonl lists them; those of a part with their positions."""
        for row in listed(self.questions, self.benchmark):
            placed = self.positions is not None and row["asked"]
            yield row | ({"position": (self.positions or {})[row["question"]]} if placed else {})


def planned(
    model: Model,
    questions: Sequence[Question],
    *,
    benchmark: Benchmark,
    seed: int,
    run_id: str | None,
    shard: Shard | None,
) -> Plan:
    """Return what a run asks of these questions: all of them, or one part.

    The record of a part names the settings of the whole run, too: those of all parts are equal, or they are none.

    Raises:
        UsageError: the name is no file name, or there are more parts than facts.
    """
    whole = settings_of(model, questions, benchmark, seed)
    name = valid_id(run_id or default_id(model.name, whole["settings_digest"]))
    if shard is None:
        return Plan(name, whole, questions, benchmark)
    own = shard.select(questions)
    of_whole = {key: whole[key] for key in ("settings_digest", "prompts_digest", "questions")}
    about_it = {"number": shard.number, "of": shard.of, "run": shard.whole_id(name), **of_whole}
    record = settings_of(model, own, benchmark, seed) | {"shard": about_it}
    positions = {question.id: position for position, question in enumerate(questions)}
    return Plan(shard.run_id(name), record, own, benchmark, positions)


def settings_of(model: Model, questions: Sequence[Question], benchmark: Benchmark, seed: int) -> dict[str, Any]:
    """Return what run.json says of model and questions, with a digest of all that the texts depend on.

    The number of samples is not among it: a sample is the same whether or not others are drawn after it.
    """
    ours = model.info()
    sampling = ours.pop("sampling")
    record = {
        "model": ours,
        "prefixed": all(question.text.startswith(prompts.PREFIX) for question in questions),
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
        "prompts_digest": prompts_digest(questions),
        "sampling": sampling,
        "seed": seed,
    }
    return record | {"settings_digest": settings_digest(record), "questions": len(questions)}


def settings_digest(record: Mapping[str, Any]) -> str:
    """Return the digest of all that a run's texts depend on, made of what its run.json says."""
    model = {key: value for key, value in record["model"].items() if key not in _NOT_IN_TEXTS}
    keys = ("prefixed", "benchmark", "prompts_digest", "sampling", "seed")
    depends = {"model": model} | {key: record[key] for key in keys}
    return hashlib.sha256(orjson.dumps(depends, option=orjson.OPT_SORT_KEYS)).hexdigest()


def listed(questions: Sequence[Question], benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    """Yield the questions as questions.jsonl lists them.

    With them go the phrasings of the same facts that are not asked (``asked`` false): a fact that is asked in part has
    no verdict, and the tables must be able to tell.
    """
    wanted = {question.id: question for question in questions}
    facts = {question.fact.id for question in questions}
    others = [one for one in benchmark.questions() if one.fact.id in facts and one.id not in wanted]
    for one in sorted((*questions, *others), key=lambda question: question.id):
        yield about(one) | {"text": one.text, "asked": one.id in wanted} | one.fact.known


def write_questions(folder: Path, plan: Plan) -> None:
    """Write what is to be asked, where it is not there yet; before run.json, so that a run that has one has both."""
    if not segments.exists(folder / QUESTIONS):
        journal.replace_rows(folder / QUESTIONS, plan.listed())


def about(question: Question) -> dict[str, Any]:
    """Return what every row says of its question."""
    return {
        "question": question.id,
        "fact": question.fact.id,
        "domain": question.fact.domain,
        "subject": question.fact.subject_label,
        "phrasing": question.phrasing,
        "counted": True,
    }


def default_id(name: str, digest: str) -> str:
    """Return the name of a run that was given none."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"
    return f"{safe}-{digest[:8]}"


def valid_id(run_id: str) -> str:
    """Return the name of a run.

    Raises:
        UsageError: it cannot be the name of a folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
        hint = "Letters, digits, dots, hyphens and underscores will do."
        raise UsageError(f"{run_id!r} is no name for a run.", hint=hint)
    return run_id


def opened(folder: Path, record: dict[str, Any], extra: Mapping[str, Any], samples: int) -> dict[str, Any]:
    """Return the record of the run in this folder, a new one or the one that goes on.

    Raises:
        RunError: it was made with other settings, or has answers and no record.
    """
    if not (folder / RUN_FILE).is_file():
        if segments.exists(folder / JOURNAL):
            raise RunError(f"{folder} has answers without a {RUN_FILE}.", hint="Take another --run-id.")
        begun: dict[str, Any] = {"started": None, "ended": None, "legs": []}
        return {"id": folder.name, "kind": "asked", **record, "samples": samples, **extra, **begun}
    run = read_run(folder)
    if run.info.get("settings_digest") != record["settings_digest"]:
        what = ", ".join(differing(run.info, record)) or "settings"
        raise RunError(f"The run {folder.name} was made with another {what}.", hint="Take another --run-id.")
    given = {key: value for key, value in extra.items() if value is not None}
    return run.info | given | {"samples": max(samples, run.samples)}


def differing(info: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """Return the words for what two records differ in, those of the model with what it is."""
    left_out = {"settings_digest", "questions", "model"}
    ours, theirs = record["model"], info.get("model") or {}
    inside = [key for key in sorted({*ours, *theirs} - {*_NOT_IN_TEXTS}) if ours.get(key) != theirs.get(key)]
    model = [f"model ({', '.join(inside)})"] if inside else []
    return model + [key for key in record if key not in left_out and info.get(key) != record[key]]


# --- one leg: from a start to an end or an interruption


@dataclass
class _Leg:
    """The part of a run that one process asks, and the only writer of its files meanwhile."""

    folder: Path
    info: dict[str, Any]
    clock: Clock
    batch_size: int
    device: str
    plan: Plan
    tally: Tally = field(default_factory=Tally)
    whole: Account = field(default_factory=Account)
    own: Account = field(default_factory=Account)
    killed: Account = field(default_factory=Account)  # of a leg before, which could not close its account
    record: dict[str, Any] = field(default_factory=dict)

    def read(self) -> None:
        """Count what is in the journal, row by row."""
        last = self._unclosed()
        first = last["first_row"] if last else math.inf
        for number, row in enumerate(journal.each(self.folder / JOURNAL, "status")):
            self.tally.add(row)
            self.whole.add(row)
            if number >= first:
                self.killed.add(row)

    def _unclosed(self) -> dict[str, Any] | None:
        """Return the record of the leg before this one where it was killed."""
        last = self.info["legs"][-1] if self.info["legs"] else None
        return last if last and last["ended"] is None and last.get("run") is None else None

    def finished(self) -> bool:
        """Say whether there is nothing to ask."""
        wanted = ((question.id, sample) for sample in range(self.info["samples"]) for question in self.plan.questions)
        return self.info["ended"] is not None and all(self.tally.stands(*one) for one in wanted)

    def open(self) -> None:
        """Cut a torn line off the journal, close the account of a killed leg, and begin this one."""
        segments.cut_torn_line(self.folder / JOURNAL)
        if last := self._unclosed():
            last.update(self.killed.record())
        started = stamp(self.clock())
        code, packages = provenance.code(), provenance.packages()
        self.info["started"] = self.info["started"] or started
        self.info.update(ended=None, packages=packages, commit=code.commit, dirty=code.dirty)
        self.record = {"started": started, "ended": None, "first_row": self.tally.lines, "pid": os.getpid()}
        self.record |= {"device": self.device, "batch_size": self.batch_size, "packages": packages}
        self.record |= {"commit": code.commit, "dirty": code.dirty, "error": None, **self.own.record()}
        self.info["legs"].append(self.record)
        write_questions(self.folder, self.plan)
        self.save()

    def append(self, asked: Sequence[Asked], sample: int, seconds: float) -> None:
        """Put on disk what the model has yielded."""
        now = stamp(self.clock())
        share = seconds / max(1, len(asked))  # a batch is answered as one; its questions share its time
        new = []
        for question, answer in asked:
            attempt = self.tally.attempts(question.id, sample) + 1
            new.append(_row(question, answer, sample) | _when(answer, attempt, share, now))
        journal.append(self.folder / JOURNAL, new)
        for row in new:
            self.tally.add(row)
            self.whole.add(row)
            self.own.add(row)

    def close(self, error: str | None) -> None:
        """Account for this leg and for the whole run."""
        now = stamp(self.clock())
        self.record.update(self.own.record(), ended=now, error=error)
        self.info["ended"] = None if error else now
        self.save()

    def save(self) -> None:
        """Write run.json beside and rename it."""
        counts = self.tally.statuses
        self.info.update(prompt_tokens=self.whole.prompt_tokens, tokens=self.whole.tokens)
        self.info.update(answered=self.tally.answered, errors=counts["error"], refused=counts["refused"])
        journal.write_run(self.folder, self.info)


def _run_leg(leg: _Leg, model: Model, progress: Callable[[Progress], None]) -> None:
    leg.read()
    if leg.finished():
        return  # nothing to ask: leave every byte as it is
    leg.open()
    with accounted(leg.close, model.name, f"What it answered is in {leg.folder}; the same command asks the rest."):
        _ask(leg, model, progress)


@contextmanager
def accounted(close: Callable[[str | None], None], name: str, hint: str) -> Iterator[None]:
    """Let a model work, and account for it however that ends: by ``close(error)``, None where all went well.

    Args:
        close: takes what went wrong in a sentence; "interrupted" where the user ended it.
        name: the model's.
        hint: the next step after a failure.

    Raises:
        ModelError: anything went wrong that is no `DyknowError` itself.
    """
    error: str | None = "interrupted"
    try:
        yield
        error = None
    except DyknowError as problem:
        error = problem.message
        raise
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
        raise ModelError(f"{name} failed: {error}", hint=hint) from problem
    finally:
        close(error)


def _ask(leg: _Leg, model: Model, progress: Callable[[Progress], None]) -> None:
    samples, questions = leg.info["samples"], leg.plan.questions
    pending = {n: [one for one in questions if not leg.tally.stands(one.id, n)] for n in range(samples)}
    total = samples * len(questions)
    before = total - sum(map(len, pending.values()))
    began = last = leg.clock()
    asked = errors = 0
    progress(Progress(before, total, 0, 0, 0.0))
    for sample, rest in pending.items():
        waiting = {question.id for question in rest}
        for batch in model.generate(rest, leg.batch_size, sample) if rest else ():
            _take(model, waiting, batch)
            now = leg.clock()
            leg.append(batch, sample, (now - last).total_seconds())
            last = now
            asked += len(batch)
            errors += sum(item.answer.error is not None for item in batch)
            progress(Progress(before + asked - errors, total, errors, asked, (now - began).total_seconds()))
        if waiting:
            raise ModelError(f"{model.name} answered {len(rest) - len(waiting)} of {len(rest)} questions.")


def _take(model: Model, waiting: set[str], batch: Sequence[Asked]) -> None:
    """Take the answered questions off those that wait, each once."""
    for item in batch:
        if item.question.id not in waiting:
            raise ModelError(f"{model.name} answered {item.question.id}, which it was not asked, or not twice.")
        waiting.remove(item.question.id)


def _row(question: Question, answer: Answer, sample: int) -> dict[str, Any]:
    return about(question) | {
        "sample": sample,
        "prompt": answer.prompt,
        "ids_digest": answer.ids_digest,
        "raw": answer.raw,
        "text": answer.text,
        "status": _status(answer),
        "finish_reason": answer.finish_reason,
        "logprob": answer.logprob,
        "prompt_tokens": answer.prompt_tokens,
        "tokens": answer.tokens,
        "server": answer.server,
        "model": answer.model,
        "error": answer.error,
    }


def _status(answer: Answer) -> str:
    if answer.error is not None:
        return "error"
    return "refused" if answer.refused else "ok"


def _when(answer: Answer, attempt: int, share: float, now: str) -> dict[str, Any]:
    seconds = share if answer.seconds is None else answer.seconds
    return {"seconds": round(seconds, 6), "attempt": attempt, "time": now}


def stamp(moment: datetime) -> str:
    """Return a moment as the journals write it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
