"""What a model believes, beside what it says: how likely it holds each holder of a fact to be the answer.

``runs/ID/likelihoods.jsonl`` stands beside the journal of answers, one line a question with all its holders. Holders
come from snapshots; a new one that knows others has their questions scored anew, and the last line counts.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from dyknow import journal, segments
from dyknow.benchmark import Benchmark, Question
from dyknow.journal import LIKELIHOODS, RunInfo, read_run
from dyknow.models.base import Model
from dyknow.models.likelihood import Likelihoods, Scored, score_all
from dyknow.run import Clock, Progress, about, accounted, check, opened, planned, stamp, write_questions
from dyknow.shards import Shard
from kg import identity
from kg.answers import names
from kg.errors import ModelError, UsageError
from kg.snapshot import Snapshot
from kg.store import open_store

Score = Callable[[Model, Sequence[tuple[Question, Sequence[str]]], int], Iterator[Likelihoods]]
"""Scores the answers to questions, as ``score_all`` does."""


class Holder(NamedTuple):
    """Somebody or something a fact has had as its value: whom a model may believe to be the answer."""

    entity: str  # Q-id, or IRI
    label: str


def find_holders(snapshots: Sequence[Snapshot], facts: set[str]) -> dict[str, list[Holder]]:
    """Return every holder of facts in any of the snapshots, by fact and entity, labelled as in the newest.

    A fact that no snapshot knows is left out.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    known = identity.load()
    for snapshot in sorted(snapshots, key=lambda one: one.date):
        for row in names(open_store(snapshot), known):
            if row.kind == "label" and row.fact in facts:
                found[row.fact][row.entity] = row.name
    return {fact: [Holder(*pair) for pair in sorted(own.items())] for fact, own in sorted(found.items())}


def score_holders(
    model: Model,
    questions: Sequence[Question],
    runs_dir: Path,
    *,
    benchmark: Benchmark,
    holders: Mapping[str, Sequence[Holder]],
    clock: Clock,
    run_id: str | None = None,
    batch_size: int = 256,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    extra: Mapping[str, Any] | None = None,
    score: Score | None = None,
    shard: Shard | None = None,
) -> RunInfo:
    """Let a model score the holders of facts, and return the run, which is that of its answers with these settings.

    A question that was scored with these holders is not scored again.

    Args:
        model: Whom to ask.
        questions: What the holders are to follow, of this benchmark.
        runs_dir: The folder of all runs.
        benchmark: Where the questions are from.
        holders: Whom to score, by fact; a question of another fact is left out.
        clock: Tells the time.
        run_id: As for `run_model`.
        batch_size: Holders scored at once.
        seed: As for `run_model`.
        progress: Called at the start and after every question.
        extra: What run.json is to say besides: title, release_year, released, command, asking.
        score: Scores holders' labels as answers; None: ``score_all``, for models on this machine.
        shard: As for `run_model`.

    Raises:
        UsageError: no fact asked for has a holder; and as `run_model`.
        RunError: as `run_model`.
        ModelError: the model cannot go on; what it scored is on disk.
    """
    check(questions, batch_size)
    plan = planned(model, questions, benchmark=benchmark, seed=seed, run_id=run_id, shard=shard)
    wanted = [question for question in plan.questions if holders.get(question.fact.id)]
    if not wanted:
        raise UsageError("No snapshot knows a holder of any fact asked for.", hint="See: dyknow snapshot list")
    folder = runs_dir / plan.run_id
    folder.mkdir(parents=True, exist_ok=True)
    with journal.locked(folder):
        scoring = _Scoring(folder, opened(folder, plan.record, extra or {}, 1), clock, wanted, holders)
        if scoring.pending or scoring.unfinished:
            write_questions(folder, plan)
            told = progress or (lambda _: None)
            scoring.run(lambda asked: (score or score_all)(model, asked, batch_size), model.name, told)
    return read_run(folder)


_Score = Callable[[Sequence[tuple[Question, Sequence[str]]]], Iterator[Likelihoods]]


class _Scoring:
    """The part of a run in which one process scores, and the only writer of its files meanwhile."""

    def __init__(
        self,
        folder: Path,
        info: dict[str, Any],
        clock: Clock,
        questions: Sequence[Question],
        holders: Mapping[str, Sequence[Holder]],
    ) -> None:
        self._folder = folder
        self._info = info
        self._clock = clock
        self._questions = questions
        self._holders = holders
        segments.cut_torn_line(folder / LIKELIHOODS)
        last = {row["question"]: row["holders_digest"] for row in journal.each(folder / LIKELIHOODS, "holders_digest")}
        self._scored = set(last)
        self.pending = [one for one in questions if last.get(one.id) != _digest(holders[one.fact.id])]

    @property
    def unfinished(self) -> bool:
        """Whether run.json does not say yet that the scoring has ended."""
        return not (self._info.get("likelihoods") or {}).get("ended")

    def run(self, score: _Score, name: str, progress: Callable[[Progress], None]) -> None:
        """Score what is pending; whatever happens, run.json says how far it came."""
        self._save("interrupted")
        with accounted(self._save, name, f"What it scored is in {self._folder}; the same command scores the rest."):
            self._score(score, name, progress)

    def _score(self, score: _Score, name: str, progress: Callable[[Progress], None]) -> None:
        total, waiting = len(self._questions), {question.id: question for question in self.pending}
        began = last = self._clock()
        progress(Progress(total - len(waiting), total, 0, 0, 0.0))
        labels = [(one, [holder.label for holder in self._holders[one.fact.id]]) for one in self.pending]
        for found in score(labels) if labels else ():
            question = waiting.pop(found.question.id)
            holders, now = self._holders[question.fact.id], self._clock()
            row = about(question) | {"prompt": found.prompt, "holders_digest": _digest(holders)}
            row |= {"scores": _scores(holders, found.scored), "time": stamp(now)}
            row |= {"seconds": round((now - last).total_seconds(), 6)}
            journal.append(self._folder / LIKELIHOODS, [row])
            self._scored.add(question.id)
            last = now
            asked_now = len(self.pending) - len(waiting)
            progress(Progress(total - len(waiting), total, 0, asked_now, (now - began).total_seconds()))
        if waiting:
            raise ModelError(f"{name} scored {total - len(waiting)} of {total} questions.")

    def _save(self, error: str | None) -> None:
        old, now = self._info.get("likelihoods") or {}, stamp(self._clock())
        self._info["likelihoods"] = {
            "questions": len(self._questions),
            "scored": len(self._scored),
            "started": old.get("started") or now,
            "ended": None if error else now,
            "error": error,
        }
        journal.write_run(self._folder, self._info)


def _scores(holders: Sequence[Holder], scored: Sequence[Scored]) -> list[dict[str, Any]]:
    return [
        {"entity": holder.entity, "label": holder.label, "logprob": one.logprob, "tokens": one.tokens}
        for holder, one in zip(holders, scored, strict=True)
    ]


def _digest(holders: Sequence[Holder]) -> str:
    return hashlib.sha256(orjson.dumps(sorted(tuple(one) for one in holders))).hexdigest()
