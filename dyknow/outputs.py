"""Brings in what models answered elsewhere: logs of lm-evaluation-harness and of Inspect, and plain tables.

Answers are joined to the questions of a benchmark by id, never by position. A run is written whole or not at all, and
nothing that stands is changed. A table is CSV with a header, or JSON objects one a line, of these columns::

    question        Q38/P35#1; or fact (Q38/P35) and phrasing (1)
    text            the answer, word for word; null in JSON: there is none
    sample          0, 1, 2, ... where a question was answered several times
    prompt          what the model was given; without it the benchmark's words
    model           its name; several models become several runs

Other columns are passed over.
"""

import difflib
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from dyknow import journal, named, prompts
from dyknow.answerfiles import KNOWN, Output, Source, json_lines, mapping_of, read_inspect, read_lm_eval, read_table
from dyknow.benchmark import Benchmark, Question
from dyknow.journal import JOURNAL, QUESTIONS, RUN_FILE
from dyknow.models import presets
from dyknow.models.wire import split_thoughts
from dyknow.run import about, default_id, listed, valid_id
from kg.errors import DataError, RunError, UsageError

Format = Literal["study", "edits", "named", "named-edits", "lm-eval", "inspect", "table"]


NAMES: Final[Mapping[Format, str]] = {
    "study": "the study's result folders",
    "edits": "the study's outputs after editing",
    "named": "a table of figures without texts",
    "named-edits": "tables of edited models, without texts",
    "lm-eval": "samples of lm-evaluation-harness",
    "inspect": "logs of Inspect",
    "table": "a table of answers",
}


_INSPECT_JSON: Final = re.compile(rb'\A\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')


class ImportedRun(NamedTuple):
    """What became of the answers of one model in one file."""

    id: str
    path: Path
    source: Path
    answers: int
    errors: int  # questions whose answer is missing in the file
    missing: int  # further questions about the same facts, of which the file says nothing
    passed_over: tuple[str, ...]
    written: bool  # False: the run was there already, byte for byte


# What it is


def recognise(path: Path) -> Format:
    """Return what a file or folder holds.

    Raises:
        UsageError: it does not exist, is nothing known, or holds logs of two tools.
    """
    if not path.exists():
        raise UsageError(f"There is no file or folder {path}.")
    found = _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)
    if found is None:
        raise UsageError(f"{path} is no results that dyknow recognises.", hint=KNOWN)
    return found


def _kind_of_folder(path: Path) -> Format | None:
    if (path / named.FILE).is_file():
        return "named"
    if (path / "edits.csv").is_file() and (path / "answers.csv").is_file():
        return "named-edits"
    found: dict[Format, list[Path]] = {"lm-eval": _lm_eval_paths(path), "inspect": _inspect_paths(path)}
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) > 1:
        hint = "Say which to read: --format lm-eval, or --format inspect."
        raise UsageError(f"{path} holds logs both of lm-evaluation-harness and of Inspect.", hint=hint)
    if kinds:
        return kinds[0]
    if any(path.rglob("*_analysis.json")) and not any(path.rglob("*_dates.json")):
        return "edits"
    return "study" if any(path.rglob("*_answers.json")) else None


def _kind_of_file(path: Path) -> Format | None:
    if path.suffix == ".eval" or (path.suffix == ".json" and _is_inspect_json(path)):
        return "inspect"
    if path.suffix == ".csv":
        with path.open("rb") as stream:
            return (
                "named" if stream.readline().decode("utf-8", "replace").strip() == ",".join(named.COLUMNS) else "table"
            )
    if path.suffix == ".jsonl":
        first = next((row for _, row in json_lines(path)), {})
        return "lm-eval" if {"doc", "resps"} <= first.keys() else "table"
    return None


def _is_inspect_json(path: Path) -> bool:
    with path.open("rb") as stream:
        return _INSPECT_JSON.match(stream.read(256)) is not None


def _lm_eval_paths(path: Path) -> list[Path]:
    return sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else [path]


def _inspect_paths(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [*path.rglob("*.eval"), *(file for file in path.rglob("*.json") if _is_inspect_json(file))]
    return sorted(found)


# What it says


def read(path: Path, form: Format) -> list[Source]:
    """Return the answers in a file, or in every log of a folder.

    In a folder, logs of tasks that ask other things are passed over.

    Raises:
        UsageError: there are no such logs in the folder, or its format has no texts to read.
        DataError: a file is malformed; the message names file and line.
    """
    if form == "table":
        return [read_table(path)]
    if form not in ("lm-eval", "inspect"):
        raise UsageError(f"{NAMES[form]} are not read here.")
    if form == "lm-eval":
        files = [file for file in _lm_eval_paths(path) if path.is_file() or _asks_us(_first_question(file))]
        found = [read_lm_eval(file) for file in files]
    else:
        read_ = [read_inspect(file) for file in _inspect_paths(path)]
        found = [one for one in read_ if path.is_file() or (one.outputs and _asks_us(one.outputs[0].question))]
    if not found:
        tools = "lm_eval writes samples with --log_samples." if form == "lm-eval" else "inspect writes logs/*.eval."
        raise UsageError(f"{path} holds no answers to questions of dyknow.", hint=tools)
    return found


def _first_question(samples: Path) -> object:
    first = next((row for _, row in json_lines(samples)), {})
    return mapping_of(first.get("doc")).get("question")


def _asks_us(question: object) -> bool:
    return isinstance(question, str) and re.fullmatch(r".+/P[1-9]\d*#\w[\w-]*", question) is not None


# Runs


def import_outputs(
    path: Path,
    form: Format,
    runs_dir: Path,
    benchmark: Benchmark,
    *,
    run_id: str | None = None,
    title: str | None = None,
    year: int | None = None,
) -> list[ImportedRun]:
    """Turn the answers in a file or folder into runs, one for each model and file, and return them.

    The same file always gives the same bytes; a run that is there already with these is left alone.

    Args:
        path: What holds the answers.
        form: "lm-eval", "inspect" or "table".
        runs_dir: Where runs live; created when missing.
        benchmark: The questions that were asked.
        run_id: The run's name, where there is one run; by default made of model and file.
        title: The model's name as tables print it.
        year: When it came out; by default as its preset says.

    Raises:
        UsageError: there are no answers at ``path``, or one name is given for several runs.
        DataError: a file is malformed, names a question the benchmark has not, or answers one twice; the message names
            file and line. Nothing is written then.
        RunError: a different run of that name exists.
    """
    parts = [part for source in read(path, form) for part in _by_model(source)]
    if run_id is not None and len(parts) != 1:
        raise UsageError(f"{path} holds answers of {len(parts)} runs, and a run id names one run.")
    made = [_made(model, source, benchmark, form, run_id) for model, source in parts]
    extra = {"title": title, "release_year": year}
    return [_write(runs_dir, one, {key: value for key, value in extra.items() if value is not None}) for one in made]


def _by_model(source: Source) -> Iterator[tuple[str, Source]]:
    """Yield the models of a file with their answers; one without a name is called like the file."""
    if not source.outputs:
        raise DataError(f"{source.path} holds no answer.")
    for model in dict.fromkeys(output.model for output in source.outputs):
        own = [output for output in source.outputs if output.model == model]
        yield model or source.path.stem, source._replace(outputs=own)


class _Run(NamedTuple):
    """A run as it will stand on disk."""

    info: dict[str, Any]
    rows: list[dict[str, Any]]
    questions: list[dict[str, Any]]
    source: Source


def _made(model: str, source: Source, benchmark: Benchmark, form: Format, run_id: str | None) -> _Run:
    # The folder of a local model is nobody's business, and no name.
    name = Path(model).name if model.startswith(("/", "~", "./")) else model
    content = hashlib.sha256(source.path.read_bytes()).hexdigest()
    digest = hashlib.sha256(f"{source.path.name}\0{model}\0{content}".encode()).hexdigest()
    answered = _joined(source.outputs, benchmark)
    rows = [_row(question, output) for question, output in answered]
    questions = list({question.id: question for question, _ in answered}.values())
    info = {
        "id": valid_id(run_id or default_id(name, digest)),
        "kind": "imported",
        "format": form,
        "origin": source.origin,
        "source": {source.path.name: content},
        **_about_model(name),
        **_about_texts(rows, benchmark),
        "packages": {},
        "commit": None,
        "seed": None,
        "sampling": None,
        "started": None,
        "ended": None,
        "legs": [],
        "command": None,
    }
    return _Run(info, rows, list(listed(questions, benchmark)), source)


def _joined(outputs: Iterable[Output], benchmark: Benchmark) -> list[tuple[Question, Output]]:
    """Put each answer to its question, in the order of ids and samples."""
    known = {question.id: question for question in benchmark.questions()}
    found: dict[tuple[str, int], Output] = {}
    for output in outputs:
        if output.question not in known:
            near = difflib.get_close_matches(output.question, known, n=1, cutoff=0.8)
            hint = "".join(f"Did you mean {one!r}? " for one in near) + "dyknow export questions lists them all."
            message = f"{output.where}: the benchmark {benchmark.name} has no question {output.question!r}."
            raise DataError(message, hint=hint)
        first = found.setdefault((output.question, output.sample), output)
        if first is not output:
            message = (
                f"{output.where}: {output.question} (sample {output.sample}) was answered before, at {first.where}."
            )
            raise DataError(message, hint="Number several answers to a question in a column sample: 0, 1, 2.")
    return [(known[key[0]], found[key]) for key in sorted(found)]


def _row(question: Question, output: Output) -> dict[str, Any]:
    """Return a row of responses.jsonl; what the source does not say is null."""
    said, thinks = split_thoughts(output.text or "")
    thoughts = f"<think>{output.thought}</think>{output.text}" if output.thought else output.text
    text = said.strip() if thinks else output.text
    status = "error" if output.error else "refused" if output.refused else "ok"
    return about(question) | {
        "sample": output.sample,
        "prompt": question.text if output.prompt is None else output.prompt,
        "ids_digest": None,
        "raw": thoughts if thinks or output.thought else None,
        "text": text,
        "status": status,
        "finish_reason": output.finish_reason,
        "logprob": None,
        "prompt_tokens": output.prompt_tokens,
        "tokens": output.tokens,
        "seconds": output.seconds,
        "server": None,
        "model": None,
        "error": output.error,
        "attempt": 1,
        "time": output.time,
    }


def _about_model(name: str) -> dict[str, Any]:
    preset, release = presets.find(name), presets.release_date(name)
    released = {"day": release.day.isoformat(), "source": release.source} if release.day else None
    model: dict[str, Any] = {"name": name, "revision": None, "files": {}, "dtype": None, "device": None, "style": None}
    year = preset.year if preset else None
    return {"model": model, "title": None, "release_year": year, "released": released}


def _about_texts(rows: Sequence[Mapping[str, Any]], benchmark: Benchmark) -> dict[str, Any]:
    asked = {row["question"]: row["prompt"] for row in rows}
    counts = Counter(row["status"] for row in rows)
    return {
        "prefixed": all(prompts.PREFIX.strip() in prompt for prompt in asked.values()),
        "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
        "prompts_digest": prompts.digest(asked.items()),
        "questions": len(asked),
        "samples": 1 + max(row["sample"] for row in rows),
        "answered": counts["ok"] + counts["refused"],
        "errors": counts["error"],
        "refused": counts["refused"],
        "prompt_tokens": _total(rows, "prompt_tokens"),
        "tokens": _total(rows, "tokens"),
    }


def _total(rows: Iterable[Mapping[str, Any]], key: str) -> int | None:
    known = [row[key] for row in rows if row[key] is not None]
    return sum(known) if known else None


def _write(runs_dir: Path, run: _Run, extra: Mapping[str, Any]) -> ImportedRun:
    """Write a run beside its place and rename it there; leave one that stands there already."""
    target = runs_dir / run.info["id"]
    runs_dir.mkdir(parents=True, exist_ok=True)
    # Two folders deep, so that nobody who lists the runs meanwhile sees one that is not yet whole.
    with tempfile.TemporaryDirectory(prefix=".importing-", dir=runs_dir) as folder:
        beside = Path(folder) / target.name
        beside.mkdir()
        journal.replace_rows(beside / QUESTIONS, run.questions)
        journal.replace_rows(beside / JOURNAL, run.rows)
        journal.write_run(beside, {**run.info, **extra})
        written = not target.exists()
        if written:
            beside.rename(target)
        else:
            _refuse_other(beside, target)
    counts = (run.info["answered"], run.info["errors"], sum(not row["asked"] for row in run.questions))
    return ImportedRun(target.name, target, run.source.path, *counts, run.source.passed_over, written)


def _refuse_other(beside: Path, target: Path) -> None:
    for name in (JOURNAL, QUESTIONS, RUN_FILE):
        path = target / name
        if not path.is_file() or path.read_bytes() != (beside / name).read_bytes():
            message = f"The run {target.name} is there already, and its {name} differs."
            raise RunError(message, hint="Import under another name (--run-id), or move that run away.")
