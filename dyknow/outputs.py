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

import csv
import difflib
import hashlib
import re
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
import zstandard

from dyknow import journal, named, prompts
from dyknow.benchmark import Benchmark, Question
from dyknow.journal import JOURNAL, QUESTIONS, RUN_FILE
from dyknow.models import presets
from dyknow.models.wire import split_thoughts, text_of, whole
from dyknow.run import about, default_id, listed, valid_id
from kg.errors import DataError, RunError, UsageError

Format = Literal["study", "named", "lm-eval", "inspect", "table"]

NAMES: Final[Mapping[Format, str]] = {
    "study": "the study's result folders",
    "named": "a table of figures without texts",
    "lm-eval": "samples of lm-evaluation-harness",
    "inspect": "logs of Inspect",
    "table": "a table of answers",
}

COLUMNS: Final = ("question", "fact", "phrasing", "text", "sample", "prompt", "model")

_KNOWN: Final = (
    "Known: a results folder of the study, samples_*.jsonl of lm-evaluation-harness, .eval and .json of Inspect, "
    "tables as .csv or .jsonl with the columns question and text."
)
_INSPECT_JSON: Final = re.compile(rb'\A\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
_ZSTD: Final = 93  # in a zip file; the standard library knows it from Python 3.14 on


class Output(NamedTuple):
    """One answer, as a file has it."""

    where: str  # the file and the line or sample
    question: str
    text: str | None
    sample: int = 0
    prompt: str | None = None
    model: str | None = None
    error: str | None = None  # why there is no text
    refused: bool = False
    thought: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    time: str | None = None


class Source(NamedTuple):
    """The answers in one file, and what it says of them all."""

    path: Path
    outputs: list[Output]
    origin: dict[str, Any]  # the tool that asked, its version, its task
    passed_over: tuple[str, ...] = ()  # columns of no meaning here


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
        raise UsageError(f"{path} is no results that dyknow recognises.", hint=_KNOWN)
    return found


def _kind_of_folder(path: Path) -> Format | None:
    if (path / named.FILE).is_file():
        return "named"
    found: dict[Format, list[Path]] = {"lm-eval": _lm_eval_paths(path), "inspect": _inspect_paths(path)}
    kinds = [kind for kind, files in found.items() if files]
    if len(kinds) > 1:
        hint = "Say which to read: --format lm-eval, or --format inspect."
        raise UsageError(f"{path} holds logs both of lm-evaluation-harness and of Inspect.", hint=hint)
    return kinds[0] if kinds else ("study" if any(path.rglob("*_answers.json")) else None)


def _kind_of_file(path: Path) -> Format | None:
    if path.suffix == ".eval" or (path.suffix == ".json" and _is_inspect_json(path)):
        return "inspect"
    if path.suffix == ".csv":
        with path.open("rb") as stream:
            return (
                "named" if stream.readline().decode("utf-8", "replace").strip() == ",".join(named.COLUMNS) else "table"
            )
    if path.suffix == ".jsonl":
        first = next((row for _, row in _json_lines(path)), {})
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
        return [_read_table(path)]
    if form not in ("lm-eval", "inspect"):
        raise UsageError(f"{NAMES[form]} are not read here.")
    if form == "lm-eval":
        files = [file for file in _lm_eval_paths(path) if path.is_file() or _asks_us(_first_question(file))]
        found = [_read_lm_eval(file) for file in files]
    else:
        read_ = [_read_inspect(file) for file in _inspect_paths(path)]
        found = [one for one in read_ if path.is_file() or (one.outputs and _asks_us(one.outputs[0].question))]
    if not found:
        tools = "lm_eval writes samples with --log_samples." if form == "lm-eval" else "inspect writes logs/*.eval."
        raise UsageError(f"{path} holds no answers to questions of dyknow.", hint=tools)
    return found


def _first_question(samples: Path) -> object:
    first = next((row for _, row in _json_lines(samples)), {})
    return _mapping(first.get("doc")).get("question")


def _asks_us(question: object) -> bool:
    return isinstance(question, str) and re.fullmatch(r".+/P[1-9]\d*#\w[\w-]*", question) is not None


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file with their places; an empty line is passed over."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        if line.strip():
            yield where, _object(where, line)


def _object(where: str, content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error}.", hint="Is the file whole?") from error
    if not isinstance(value, dict):
        raise DataError(f"{where} holds {type(value).__name__} where an object should be.")
    return value


def _text(where: str, value: object, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: the {what} is {value!r}, which is no text.")
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    """Return an object of a log; an empty one where there is something else or nothing."""
    return value if isinstance(value, dict) else {}


# A plain table


def _read_table(path: Path) -> Source:
    rows = list(_json_lines(path) if path.suffix == ".jsonl" else _csv_rows(path))
    columns = dict.fromkeys(key for _, row in rows for key in row)
    passed_over = tuple(key for key in columns if key not in COLUMNS)
    return Source(path, [_table_output(where, row) for where, row in rows], {"tool": None}, passed_over)


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if None in row or None in row.values():
                    raise DataError(f"{where}: the row has not the {len(reader.fieldnames or ())} cells of the header.")
                # An empty cell says nothing; only an answer may be empty.
                yield where, {key: cell for key, cell in row.items() if cell or key == "text"}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.reader.line_num}: {error}.") from error


def _table_output(where: str, row: Mapping[str, Any]) -> Output:
    if "text" not in row:
        near = difflib.get_close_matches("text", row, n=1)
        raise DataError(f"{where}: there is no column 'text'.", hint=f"Is it {near[0]!r}?" if near else _KNOWN)
    text = _text(where, row["text"], "text")
    return Output(
        where,
        _table_question(where, row),
        text,
        sample=_sample(where, row.get("sample", 0)),
        prompt=_text(where, row.get("prompt"), "prompt"),
        model=_text(where, row.get("model"), "model"),
        error="the table has no text" if text is None else None,
    )


def _table_question(where: str, row: Mapping[str, Any]) -> str:
    parts = [row.get(key) for key in ("fact", "phrasing")]
    made = None if None in parts else "#".join(map(str, parts))
    question = row.get("question", made)
    if question is None:
        raise DataError(f"{where}: no question is named.", hint="Give the column question, or fact and phrasing.")
    if made is not None and made != question:
        raise DataError(f"{where}: the question is {question!r}, and fact and phrasing say {made!r}.")
    return str(question)


def _sample(where: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else whole(value)
    if number is None:
        raise DataError(f"{where}: the sample is {value!r}.", hint="Samples are numbered from 0.")
    return number


# lm-evaluation-harness


def _read_lm_eval(path: Path) -> Source:
    about_run = _lm_eval_results(path)
    name = about_run.get("model_name") or path.resolve().parent.name
    origin = {"tool": "lm-eval", "version": about_run.get("lm_eval_version"), "task": _lm_eval_task(path)}
    outputs: list[Output] = []
    filters: dict[str, object] = {}
    for where, row in _json_lines(path):
        question = _question_of(where, row.get("doc"))
        # Each filter of a task repeats every answer; what was answered is the same.
        if filters.setdefault(question, row.get("filter")) == row.get("filter"):
            outputs += _lm_eval_outputs(where, question, row, str(name))
    return Source(path, outputs, origin)


def _lm_eval_task(path: Path) -> str:
    return re.sub(r"\Asamples_|_\d{4}-\d\d-\d\dT[\d.-]+\Z", "", path.stem)


def _lm_eval_results(path: Path) -> Mapping[str, Any]:
    """Return what the harness says of the run that a file of samples is from; nothing where that file is absent."""
    stamp = re.search(r"_(\d{4}-\d\d-\d\dT[\d.-]+)\Z", path.stem)
    file = path.with_name(f"results_{stamp[1]}.json") if stamp else path
    return _object(str(file), file.read_bytes()) if stamp and file.is_file() else {}


def _question_of(where: str, doc: object) -> str:
    question = _mapping(doc).get("question")
    if not isinstance(question, str):
        raise DataError(f"{where}: 'doc' names no question.", hint="dyknow export lm-eval makes a task that does.")
    return question


def _lm_eval_outputs(where: str, question: str, row: Mapping[str, Any], model: str) -> list[Output]:
    resps = row.get("resps")
    texts = resps[0] if isinstance(resps, list) and len(resps) == 1 else None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: 'resps' holds no generated text.", hint="Only tasks of generate_until give answers.")
    prompt = _lm_eval_prompt(row.get("arguments")) or _text(where, row["doc"].get("prompt"), "prompt")
    return [Output(where, question, text, sample, prompt, model) for sample, text in enumerate(texts)]


def _lm_eval_prompt(arguments: object) -> str | None:
    """Return the prompt as the model was given it; None where that is a list of messages."""
    if isinstance(arguments, list):
        first = arguments[0][0] if arguments and isinstance(arguments[0], list) and arguments[0] else None
    else:
        first = _mapping(_mapping(arguments).get("gen_args_0")).get("arg_0")
    return first if isinstance(first, str) else None


# Inspect


def _read_inspect(path: Path) -> Source:
    if path.suffix == ".eval":
        log, samples = _zipped(path)
    else:
        log = _object(str(path), path.read_bytes())
        samples = [(f"{path}, sample {n}", row) for n, row in enumerate(log.get("samples") or (), start=1)]
    header = _mapping(log.get("eval"))
    name = header.get("model")
    packages = _mapping(header.get("packages"))
    origin = {"tool": "inspect", "version": packages.get("inspect_ai"), "task": header.get("task")}
    origin |= {"status": log.get("status")}
    model = name if isinstance(name, str) else path.stem
    return Source(path, [_inspect_output(where, _mapping(row), model) for where, row in samples], origin)


def _zipped(path: Path) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Return the header and the samples of an .eval file."""
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            # The header is written last; a log that was cut off has its beginning only.
            head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
            if head is None:
                raise DataError(f"{path} has no header.json.", hint="Is it a log of Inspect?")
            own = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
            places = [(f"{path}, {name}", _member(archive, name)) for name in (head, *own)]
            header, *samples = [(where, _object(where, content)) for where, content in places]
    except (OSError, zipfile.BadZipFile, zlib.error, zstandard.ZstdError) as error:
        raise DataError(f"{path} cannot be read: {error}.", hint="Is the file whole?") from error
    return header[1], samples


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive, by zstandard too."""
    entry = archive.getinfo(name)
    if entry.compress_type != _ZSTD:
        return archive.read(entry)
    stream = archive.fp
    if stream is None:
        raise zipfile.BadZipFile("the archive is closed")
    stream.seek(entry.header_offset + 26)  # a local header: 30 bytes, of which the last 4 are the lengths that follow
    lengths = stream.read(4)
    skip = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    stream.seek(entry.header_offset + 30 + skip)
    content = zstandard.ZstdDecompressor().decompressobj().decompress(stream.read(entry.compress_size))
    if zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"{name} is damaged")
    return content


def _inspect_output(where: str, sample: Mapping[str, Any], model: str) -> Output:
    output = _mapping(sample.get("output"))
    choices = output.get("choices")
    first = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    text, thought = text_of(_mapping(first.get("message")).get("content"))
    failed = _mapping(sample.get("error")).get("message") or output.get("error")
    error = str(failed) if failed else None if first else "the log has no answer"
    reason, usage, seconds = first.get("stop_reason"), _mapping(output.get("usage")), output.get("time")
    return Output(
        where,
        str(_mapping(sample.get("metadata")).get("question") or sample.get("id")),
        None if error else _attached(sample, text),
        sample=max(0, (whole(sample.get("epoch")) or 1) - 1),
        prompt=_inspect_prompt(sample),
        model=model,
        error=error,
        refused=reason == "content_filter",
        thought=_attached(sample, thought),
        finish_reason="length" if reason == "max_tokens" else reason,
        prompt_tokens=whole(usage.get("input_tokens")),
        tokens=whole(usage.get("output_tokens")),
        seconds=seconds if isinstance(seconds, int | float) else None,
        time=output.get("completed_at") or sample.get("completed_at"),
    )


def _inspect_prompt(sample: Mapping[str, Any]) -> str | None:
    """Return the last that a user said; the system's words are no part of a question."""
    given = sample.get("messages") or sample.get("input")
    if isinstance(given, str):
        return _attached(sample, given)
    said = [_mapping(one) for one in given or () if _mapping(one).get("role") == "user"]
    return _attached(sample, text_of(said[-1].get("content"))[0]) if said else None


def _attached(sample: Mapping[str, Any], text: str) -> str:
    """Return a text, out of the attachments where a log keeps long ones there."""
    mark, name = "attachment://", text.removeprefix("attachment://")
    return str(_mapping(sample.get("attachments")).get(name, text)) if text.startswith(mark) else text


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
    return _Run(info, rows, listed(questions, benchmark), source)


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
