"""Files of answers that were given elsewhere: plain tables, logs of lm-evaluation-harness and of Inspect."""

import csv
import difflib
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import zstandard

from dyknow.models.wire import text_of, whole
from kg.errors import DataError
from kg.sources.csvfile import Rows

COLUMNS: Final = ("question", "fact", "phrasing", "text", "sample", "prompt", "model")


KNOWN: Final = (
    "Known: a results folder of the study, samples_*.jsonl of lm-evaluation-harness, .eval and .json of Inspect, "
    "tables as .csv or .jsonl with the columns question and text."
)


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


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
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


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return an object of a log; an empty one where there is something else or nothing."""
    return value if isinstance(value, dict) else {}


# A plain table


def read_table(path: Path) -> Source:
    """Return the answers of a CSV or JSON-lines table."""
    rows = list(json_lines(path) if path.suffix == ".jsonl" else _csv_rows(path))
    columns = dict.fromkeys(key for _, row in rows for key in row)
    passed_over = tuple(key for key in columns if key not in COLUMNS)
    return Source(path, [_table_output(where, row) for where, row in rows], {"tool": None}, passed_over)


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = Rows(stream)
            for row in rows:
                where = f"{path}, line {rows.line}"
                if None in row or None in row.values():
                    raise DataError(f"{where}: the row has not the {len(rows.columns)} cells of the header.")
                # An empty cell says nothing; only an answer may be empty.
                yield where, {key: cell for key, cell in row.items() if cell or key == "text"}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line if rows else 1}: {error}.") from error


def _table_output(where: str, row: Mapping[str, Any]) -> Output:
    if "text" not in row:
        near = difflib.get_close_matches("text", row, n=1)
        raise DataError(f"{where}: there is no column 'text'.", hint=f"Is it {near[0]!r}?" if near else KNOWN)
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


def read_lm_eval(path: Path) -> Source:
    """Return the answers in a samples file of lm-evaluation-harness."""
    about_run = _lm_eval_results(path)
    name = about_run.get("model_name") or path.resolve().parent.name
    origin = {"tool": "lm-eval", "version": about_run.get("lm_eval_version"), "task": _lm_eval_task(path)}
    outputs: list[Output] = []
    filters: dict[str, object] = {}
    for where, row in json_lines(path):
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
    question = mapping_of(doc).get("question")
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
        first = mapping_of(mapping_of(arguments).get("gen_args_0")).get("arg_0")
    return first if isinstance(first, str) else None


# Inspect


def read_inspect(path: Path) -> Source:
    """Return the answers in a log of Inspect."""
    if path.suffix == ".eval":
        log, samples = _zipped(path)
    else:
        log = _object(str(path), path.read_bytes())
        samples = [(f"{path}, sample {n}", row) for n, row in enumerate(log.get("samples") or (), start=1)]
    header = mapping_of(log.get("eval"))
    name = header.get("model")
    packages = mapping_of(header.get("packages"))
    origin = {"tool": "inspect", "version": packages.get("inspect_ai"), "task": header.get("task")}
    origin |= {"status": log.get("status")}
    model = name if isinstance(name, str) else path.stem
    return Source(path, [_inspect_output(where, mapping_of(row), model) for where, row in samples], origin)


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
    output = mapping_of(sample.get("output"))
    choices = output.get("choices")
    first = mapping_of(choices[0]) if isinstance(choices, list) and choices else {}
    text, thought = text_of(mapping_of(first.get("message")).get("content"))
    failed = mapping_of(sample.get("error")).get("message") or output.get("error")
    error = str(failed) if failed else None if first else "the log has no answer"
    reason, usage, seconds = first.get("stop_reason"), mapping_of(output.get("usage")), output.get("time")
    return Output(
        where,
        str(mapping_of(sample.get("metadata")).get("question") or sample.get("id")),
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
    said = [mapping_of(one) for one in given or () if mapping_of(one).get("role") == "user"]
    return _attached(sample, text_of(said[-1].get("content"))[0]) if said else None


def _attached(sample: Mapping[str, Any], text: str) -> str:
    """Return a text, out of the attachments where a log keeps long ones there."""
    mark, name = "attachment://", text.removeprefix("attachment://")
    return str(mapping_of(sample.get("attachments")).get(name, text)) if text.startswith(mark) else text
