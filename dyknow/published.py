"""Imports results that the study's authors published: their raw outputs as a run, their labels as a judge of their own.

A results folder holds, for each domain, ``<domain>_answers.json`` (prompts and outputs), ``<domain>_answer_sheet.json``
(the authors' label of each output) and ``<domain>_dates.json`` (the start of the statement the label rests on). The
three are joined by subject, post and phrasing, never by position: their order differs.
"""

import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow.journal import JOURNAL, JUDGMENTS, RUN_FILE
from kg import identity, terms
from kg.errors import DataError, RunError, UsageError
from kg.sources import reviewed

LABELLED_ON: Final = "2023-12-18"
"""The day the published labels hold for; the study retrieved its answer sets on it."""

DOMAINS: Final = {
    "countries_byGDP": "countries",
    "athletes_byPayment": "athletes",
    "companies_byRevenue": "organizations",
    "organizations": "organizations",
}
"""The study's files -> the domain their facts belong to in its tables."""

_POSTS: Final = {"athletes_byPayment": "member of sports team", "companies_byRevenue": "chief executive officer"}
"""What a domain's outputs are about where they are not filed by post."""

VERDICTS: Final = {"correct": "up-to-date", "outdated": "outdated", "irrelevant": "irrelevant"}

UNCOUNTED: Final = "generic"
"""The phrasing the study asked besides its three; its tables of rates leave it out."""

_RESULT_FOLDERS: Final = ("results", "results_w_prompt")

_PREFIX: Final = "answer with the name only"

Key = tuple[str, ...]  # (subject, phrasing) or (subject, post, phrasing)


class ImportedRun(NamedTuple):
    """What became of one results folder."""

    id: str
    path: Path
    responses: int
    judgments: int
    orphans: int  # labels and dates of questions that have no output: left out
    written: bool  # False: the run was there already, byte for byte


class Output(NamedTuple):
    """What a model was given, and what it wrote; None where the file has nothing."""

    prompt: str
    text: str | None


def import_published(path: Path, runs_dir: Path, run_id: str | None = None) -> list[ImportedRun]:
    """Turn a results folder, or every results folder below a parent, into runs under ``runs_dir``.

    The same files always give the same bytes. A run that is already there with these bytes is left alone.

    Args:
        path: one model's results, or a folder that holds several (a clone of the study's repository).
        runs_dir: where runs live; created when missing.
        run_id: name of the run, for a single folder; by default the folder's name.

    Returns:
        One entry per results folder, sorted by id.

    Raises:
        UsageError: there are no results at ``path``, or one name is given for several folders.
        DataError: a file is malformed; the message names it and the key.
        RunError: a different run of that name exists.
    """
    found = _result_folders(path)
    if run_id is not None and len(found) != 1:
        raise UsageError(f"{path} holds results of {len(found)} models, and a run id names one run.")
    ids = [run_id] if run_id else _run_ids(found)
    return sorted(_import_one(folder, runs_dir / name) for name, folder in zip(ids, found, strict=True))


def _result_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise UsageError(f"There is no folder {path}.", hint="Give a folder with <domain>_answers.json files.")
    if _holds_results(path):
        return [path]
    below = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _holds_results(folder)]
    deeper = (folder for name in _RESULT_FOLDERS for folder in sorted(path.rglob(f"{name}/*")))
    found = below or [folder for folder in deeper if folder.is_dir() and _holds_results(folder)]
    if not found:
        raise UsageError(
            f"{path} holds no published results.",
            hint="Give a folder with <domain>_answers.json files, or one that holds such folders.",
        )
    return found


def _holds_results(folder: Path) -> bool:
    return any((folder / f"{domain}_answers.json").is_file() for domain in DOMAINS)


def _run_ids(folders: Sequence[Path]) -> list[str]:
    """Name each run by its folder, and by the folder above too where two have one name."""
    names = [folder.resolve().name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{name}.{folder.resolve().parent.name}"
        for name, folder in zip(names, folders, strict=True)
    ]


def _import_one(folder: Path, target: Path) -> ImportedRun:
    responses: list[dict[str, Any]] = []
    judgments: list[dict[str, Any]] = []
    orphans = 0
    for domain in DOMAINS:
        if (folder / f"{domain}_answers.json").is_file():
            more, labels, lost = _read_domain(folder, domain)
            responses += more
            judgments += labels
            orphans += lost
    written = write(target, files_of(_record(folder, target.name), responses, judgments))
    return ImportedRun(target.name, target, len(responses), len(judgments), orphans, written)


class _Domain(NamedTuple):
    responses: list[dict[str, Any]]
    judgments: list[dict[str, Any]]
    orphans: int


def _read_domain(folder: Path, domain: str) -> _Domain:
    """Join the three files of a domain by key."""
    source = folder / f"{domain}_answers.json"
    found = dict(outputs(source))
    labels = _leaves(folder / f"{domain}_answer_sheet.json")
    dates = _leaves(folder / f"{domain}_dates.json")
    responses, judgments = [], []
    for key, output in found.items():
        subject, *post, phrasing = key
        fact = located(source, domain, subject, post[0] if post else None)
        question = f"{fact}#{phrasing}"
        responses.append(response(question, fact, DOMAINS[domain], key, output))
        if key in labels:
            judgments.append(_judgment(folder / f"{domain}_answer_sheet.json", question, key, labels, dates))
    return _Domain(responses, judgments, len((labels.keys() | dates.keys()) - found.keys()))


def response(question: str, fact: str, domain: str, key: Key, output: Output) -> dict[str, Any]:
    """Return a row of responses.jsonl; what the source does not say is null."""
    missing = output.text is None
    return {
        "question": question,
        "fact": fact,
        "domain": domain,
        "subject": key[0],
        "phrasing": key[-1],
        "counted": key[-1] != UNCOUNTED,
        "sample": 0,
        "prompt": output.prompt,
        "text": output.text,
        "status": "error" if missing else "ok",
        "finish_reason": None,
        "prompt_tokens": None,
        "tokens": None,
        "seconds": None,
        "attempt": 1,
        "time": None,
        "error": "the published file has no output" if missing else None,
    }


def _judgment(
    sheet: Path, question: str, key: Key, labels: Mapping[Key, Any], dates: Mapping[Key, Any]
) -> dict[str, Any]:
    label, start = labels[key], dates.get(key)
    if label not in VERDICTS:
        known = ", ".join(VERDICTS)
        raise DataError(f"{sheet}: {place_of(key)} is labelled {label!r}.", hint=f"Known labels: {known}.")
    if start is not None and not isinstance(start, str):
        raise DataError(f"{sheet}: the date of {place_of(key)} is {start!r}, which is no text.")
    return {
        "question": question,
        "sample": 0,
        "judge": "published",
        "verdict": VERDICTS[label],
        "start": start,
        "as_of": LABELLED_ON,
    }


def _record(folder: Path, run_id: str) -> dict[str, Any]:
    """Return what run.json says of the run of a results folder."""
    model = models().get(folder.resolve().name, {})
    return {
        "id": run_id,
        "model": folder.resolve().name,
        "release_year": model.get("year"),
        "title": model.get("title", folder.resolve().name),
        "source": {path.name: path for path in _source_files(folder)},
    }


def files_of(
    record: Mapping[str, Any], responses: Sequence[Mapping[str, Any]], judgments: Sequence[Mapping[str, Any]]
) -> dict[str, bytes]:
    """Return the files of an imported run, by their paths in its folder.

    Args:
        record: id, model (its name), title, release_year and source (the files it was read from, by name); what else
            it has goes into run.json as it is.
        responses: The rows of responses.jsonl.
        judgments: Those of the published labels.
    """
    prompts = {row["question"]: row["prompt"] for row in responses}
    info = {
        **record,
        "kind": "imported",
        "model": {
            "name": record["model"],
            "revision": None,
            "files": {},
            "dtype": None,
            "device": None,
            "style": None,
        },
        "prefixed": bool(prompts) and all(_PREFIX in prompt.lower() for prompt in prompts.values()),
        "benchmark": {"name": "published", "digest": None},
        "prompts_digest": hashlib.sha256(line(prompts)).hexdigest(),
        "source": {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in record["source"].items()},
        "sampling": None,
        "packages": {},
        "commit": None,
        "seed": None,
        "started": None,
        "ended": None,
        "legs": [],
        "prompt_tokens": None,
        "tokens": None,
        "command": None,
    }
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return {
        RUN_FILE: orjson.dumps(info, option=options),
        JOURNAL: b"".join(map(line, responses)),
        f"{JUDGMENTS}/published.jsonl": b"".join(map(line, judgments)),
    }


def line(row: Mapping[str, Any]) -> bytes:
    """Return a line of a journal."""
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _source_files(folder: Path) -> list[Path]:
    names = (f"{domain}_{part}.json" for domain in DOMAINS for part in ("answers", "answer_sheet", "dates"))
    return [folder / name for name in names if (folder / name).is_file()]


def write(target: Path, files: Mapping[str, bytes]) -> bool:
    """Write a run beside its place and rename it there; return False where it stands already.

    Raises:
        RunError: another run stands there.
    """
    if target.exists():
        _refuse_other(target, files)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    beside.chmod(0o755)
    try:
        for name, data in files.items():
            path = beside / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        os.rename(beside, target)  # noqa: PTH104 -- fails on a folder that is not empty, which is what we want
    except OSError:
        if not target.exists():
            raise
        _refuse_other(target, files)
        return False
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return True


def _refuse_other(target: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if not (target / name).is_file() or (target / name).read_bytes() != data:
            raise RunError(
                f"The run {target.name} is there already, and its {name} differs.",
                hint="Import under another name, or move that run away.",
            )


def outputs(path: Path) -> Iterator[tuple[Key, Output]]:
    """Yield the outputs of an answers file by (subject, phrasing) or (subject, post, phrasing)."""
    for subject, value in load(path).items():
        branches = {(subject,): value} if _is_question(value) else _posts(path, subject, value)
        for place, branch in branches.items():
            yield from _phrasings(path, place, branch)


def _is_question(value: object) -> bool:
    return isinstance(value, dict) and "answers" in value and "questions" in value


def _posts(path: Path, subject: str, value: object) -> dict[Key, Any]:
    if not isinstance(value, dict) or not value:
        raise DataError(f"{path}: {subject!r} has neither answers nor posts.")
    return {(subject, post): branch for post, branch in value.items()}


def _phrasings(path: Path, place: Key, branch: object) -> Iterator[tuple[Key, Output]]:
    if not isinstance(branch, dict) or not _is_question(branch):
        raise DataError(f"{path}: {place_of(place)} has no 'answers' and 'questions'.")
    answers, questions = branch["answers"], branch["questions"]
    if not isinstance(answers, dict) or not isinstance(questions, dict):
        raise DataError(f"{path}: {place_of(place)}: 'answers' and 'questions' must map phrasings to texts.")
    for phrasing, text in answers.items():
        key = (*place, phrasing)
        prompt = questions.get(phrasing)
        if not isinstance(prompt, str):
            raise DataError(f"{path}: {place_of(key)} has an answer and no question.")
        if text is not None and not isinstance(text, str):
            raise DataError(f"{path}: the answer of {place_of(key)} is {text!r}, which is no text.")
        yield key, Output(prompt, text)


def _leaves(path: Path) -> dict[Key, Any]:
    """Return the values of a labels or dates file by key; nothing where the file is absent."""
    return dict(_walk((), load(path))) if path.is_file() else {}


def _walk(place: Key, value: object) -> Iterator[tuple[Key, Any]]:
    if not isinstance(value, dict):
        return iter([(place, value)])
    return chain.from_iterable(_walk((*place, key), branch) for key, branch in value.items())


def load(path: Path) -> dict[str, Any]:
    """Read a JSON object; a file that is none, or says a thing twice, is an error."""
    try:
        data = json.loads(path.read_bytes(), object_pairs_hook=partial(_once, path))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise DataError(f"{path} holds {type(data).__name__} where subjects and their answers should be.")
    return data


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object whose keys differ; JSON would let the last of two equal keys win in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has the key {twice!r} twice in one object.")
    return found


def place_of(key: Key) -> str:
    """Return a key for people."""
    return " / ".join(key)


def located(path: Path, domain: str, subject: str, post: str | None) -> str:
    """Return the id of a fact as `fact_of` does; an error names the file."""
    try:
        return fact_of(domain, subject, post)
    except DataError as error:
        raise DataError(f"{path}: {error.message}", hint=error.hint) from error


def fact_of(domain: str, subject: str, post: str | None) -> str:
    """Return the id of the fact that the study files under a domain, a subject and, in some domains, a post.

    >>> fact_of("countries_byGDP", "Italy", "President of Italy"), fact_of("athletes_byPayment", "Lionel Messi", None)
    ('Q38/P35', 'Q615/P54')

    Raises:
        DataError: no property is known for the post.
    """
    office = post or _POSTS.get(domain, "")
    prop = reviewed.posts().get((subject, office)) or reviewed.posts().get(("*", office))
    if prop is None:
        raise DataError(
            f"{subject!r} has the post {post!r}, and no property is known for it.", hint="Add it to kg/data/posts.csv."
        )
    return f"{identity.load().entity(terms.entity_iri(subject))}/{prop}"


@cache
def models() -> dict[str, dict[str, Any]]:
    """Return title and year of the study's models, by the names of their folders."""
    return tomllib.loads(files("dyknow").joinpath("data/published-models.toml").read_text(encoding="utf-8"))
