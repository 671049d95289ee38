"""Edited runs without texts: what was edited, whom each answer named and how it was labelled, as tables to be shared.

``examples/editing`` has them for the study's edited models: ``runs.csv``, ``edits.csv`` (by model and fact, the edited
question first) and ``answers.csv`` (a row a run and fact, in the order of the edits; in its cells the questions in the
order of ``edits.csv``). Imported, such runs are scored like any other, for any date.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import duckdb
import orjson

from dyknow import named
from dyknow.editing import Edit
from dyknow.journal import EDITS, JUDGMENTS, RUN_FILE
from dyknow.published import LABELLED_ON
from dyknow.resultsfile import run_sql
from kg.errors import DataError, RunError
from kg.resources import query

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "runs.csv": (
        "run", "title", "release_year", "prefixed", "model", "method", "mode", "preset", "base_run", "edits", "of",
        "seed",
    ),
    "edits.csv": (
        "model", "fact", "domain", "subject", "operation", "questions", "target", "target_entity", "before",
        "before_entity",
    ),
    "answers.csv": ("run", "fact", "entities", "reasons", "published"),
}  # fmt: skip
"""The tables and their columns."""

_NOBODY: Final = "-"
_RUNS: Final = (
    "SELECT run, title, release_year, CASE WHEN prefixed THEN 'true' ELSE 'false' END, model, method, edit_mode,"
    " edit_preset, base_run, edit_count, edits_of, edit_seed FROM runs WHERE kind = 'imported' AND method IS NOT NULL"
    " ORDER BY run"
)
_EDITS: Final = (
    "SELECT DISTINCT r.model, e.fact, e.domain, e.edit_question, e.paraphrases, e.operation, e.target, e.target_entity,"
    " e.before, e.before_entity FROM edits AS e JOIN runs AS r ON r.run = e.run WHERE r.kind = 'imported' ORDER BY ALL"
)


def write(connection: duckdb.DuckDBPyConnection, folder: Path) -> int:
    """Write the imported runs of edited models as tables into a folder, and return the number of answers.

    Raises:
        RunError: there are none, or two runs of one model edit a fact differently.
    """
    answers = run_sql(connection, query("dyknow/edits_named.sql")).rows
    if not answers:
        hint = "Bring some in: dyknow import editing/"
        raise RunError("No imported run is of an edited model.", hint=hint)
    subjects = {fact: subject for _, fact, _, subject, *_ in answers}
    edits = [_edit_row(row, subjects) for row in run_sql(connection, _EDITS).rows]
    if len({row[:2] for row in edits}) < len(edits):
        raise RunError("Two runs of one model edit the same fact differently.", hint="Export them from folders apart.")
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "runs.csv", run_sql(connection, _RUNS).rows)
    _write(folder / "edits.csv", edits)
    _write(folder / "answers.csv", [_answer_row(own) for _, own in groupby(answers, key=lambda row: row[:2])])
    return len(answers)


def _edit_row(row: Sequence[Any], subjects: Mapping[str, str]) -> tuple[Any, ...]:
    model, fact, domain, prompt, paraphrases, operation, *rest = row
    phrasings = [question.rsplit("#", 1)[1] for question in (prompt, *paraphrases)]
    return (model, fact, domain, subjects.get(fact), operation, " ".join(phrasings), *rest)


def _answer_row(own: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    rows = list(own)
    cells = zip(*((entity or _NOBODY, reason, label or _NOBODY) for *_, entity, reason, label in rows), strict=True)
    entities, reasons, labels = cells
    return (rows[0][0], rows[0][1], " ".join(entities), ";".join(reasons), " ".join(labels))


def _write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FILES[path.name])
        writer.writerows(rows)


def import_edits(path: Path, runs_dir: Path) -> list[Path]:
    """Turn the tables of `write` into runs, and return their folders.

    A run made of older tables is made anew. One that was imported with its texts, which say more, is left as it is.

    Raises:
        DataError: a table is missing or malformed.
        RunError: a run of that name holds something else.
    """
    edits = {(row["model"], row["fact"]): row for row in _read(path / "edits.csv")}
    answers: dict[str, list[dict[str, str]]] = {}
    for row in _read(path / "answers.csv"):
        answers.setdefault(row["run"], []).append(row)
    found = []
    for run in _read(path / "runs.csv"):
        own = answers.get(run["run"], [])
        try:
            files = _files(run, own, [edits[run["model"], row["fact"]] for row in own])
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: the tables do not fit together for the run {run['run']}: {error!r}.") from error
        found.append(_place(runs_dir / run["run"], files))
    return found


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FILES[path.name]:
            raise DataError(f"{path}: the header is not {','.join(FILES[path.name])}.")
        return list(reader)


def _files(
    run: Mapping[str, str], answers: Sequence[Mapping[str, str]], edits: Sequence[Mapping[str, str]]
) -> dict[str, bytes]:
    align = {key: run[key] or None for key in ("method", "mode", "preset", "model", "base_run")}
    align |= {key: int(run[key]) if run[key] else None for key in ("edits", "of", "seed")}  # type: ignore[misc]
    about = {
        "id": run["run"],
        "kind": "named",
        "model": {"name": run["model"]},
        "title": run["title"] or None,
        "release_year": int(run["release_year"]) if run["release_year"] else None,
        "prefixed": run["prefixed"] == "true",
        "align": {**align, "as_of": LABELLED_ON},
    }
    rows = [row for answer, edit in zip(answers, edits, strict=True) for row in _rows(answer, edit)]
    labels = [
        {"question": row["question"], "sample": 0, "judge": "published", "verdict": label, "start": None,
         "as_of": LABELLED_ON}
        for row, label in rows
        if label != _NOBODY
    ]  # fmt: skip
    return {
        named.JOURNAL: _lines(row for row, _ in rows),
        f"{JUDGMENTS}/published.jsonl": _lines(labels),
        EDITS: _lines(_edit(edit)._asdict() for edit in edits),
        RUN_FILE: orjson.dumps(about, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS),
    }


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE) for row in rows)


def _rows(answer: Mapping[str, str], edit: Mapping[str, str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield whom the answers to a fact's questions name, each with its published label."""
    cells = (answer["entities"].split(" "), answer["reasons"].split(";"), answer["published"].split(" "))
    for phrasing, entity, reason, label in zip(edit["questions"].split(" "), *cells, strict=True):
        row = {
            "question": f"{edit['fact']}#{phrasing}",
            "fact": edit["fact"],
            "domain": edit["domain"],
            "subject": edit["subject"],
            "phrasing": phrasing,
            "counted": True,
            "sample": 0,
            "status": "ok",
            "entity": None if entity == _NOBODY else entity,
            "label": None,
            "reason": reason,
        }
        yield row, label


def _edit(row: Mapping[str, str]) -> Edit:
    prompt, *others = (f"{row['fact']}#{phrasing}" for phrasing in row["questions"].split(" "))
    kept = (row["target_entity"] or None, row["before"] or None, row["before_entity"] or None)
    return Edit(row["fact"], row["domain"], row["operation"], prompt, tuple(others), row["target"], *kept)


def _place(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write a run's files, run.json last: a folder without it is no run."""
    if (folder / RUN_FILE).is_file():
        kind = orjson.loads((folder / RUN_FILE).read_bytes()).get("kind")
        if kind == "imported":
            return folder
        if kind != "named":
            raise RunError(
                f"The run {folder.name} is there already and is no import.", hint="Take another --runs folder."
            )
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder
