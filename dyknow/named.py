"""Runs without texts: what a run named, fact by fact, as figures that may be shared where its texts may not.

``examples/published/named.csv`` says of ten published models which entity each answer names, or none and why. It was
made by our import and matcher; imported, its runs are scored like any other, for any date.
"""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from kg.errors import DataError, RunError
from kg.sources.csvfile import Rows

VERSION: Final = "named-1"
"""Stands where a matcher's version stands: the match was made elsewhere and taken over."""

FILE: Final = "named.csv"
JOURNAL: Final = "named.jsonl"
_AGAIN: Final = "Move the run away and import it again."
COLUMNS: Final = (
    "run", "title", "release_year", "prefixed", "fact", "domain", "subject", "phrasing", "counted", "entity", "label",
    "reason",
)  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a run without texts, by question.

    Raises:
        RunError: the journal is missing or damaged.
    """
    file = path / JOURNAL
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}.", hint=_AGAIN) from error
    return [_parsed(f"{file}, line {number}", line) for number, line in enumerate(lines, 1)]


def _parsed(where: str, line: bytes) -> dict[str, Any]:
    try:
        return dict(orjson.loads(line))
    except (ValueError, TypeError) as error:
        raise RunError(f"{where} is damaged: {line[:60]!r}.", hint=_AGAIN) from error


def write(table: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write what runs named as a CSV file, sorted, and return the number of rows."""
    ordered = sorted(table, key=lambda row: (str(row["run"]), str(row["fact"]), str(row["phrasing"])))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)
    return len(ordered)


def import_named(path: Path, runs_dir: Path) -> list[Path]:
    """Turn a CSV of `write`, or the folder that holds it, into runs, and return their folders.

    A run made of an older table is made anew: such a run is a copy, and the table is what counts. One that was imported
    with its texts, which say more, is left as it is.

    Raises:
        DataError: the file is missing or malformed.
        RunError: a run of that name holds something else.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"There is no file {file}.")
    by_run: dict[str, list[dict[str, str]]] = defaultdict(list)
    with file.open(encoding="utf-8", newline="") as lines:
        table = Rows(lines, strict=False)
        if tuple(table.columns) != COLUMNS:
            raise DataError(f"{file}: the header is not {','.join(COLUMNS)}.")
        for row in table:
            if None in row.values() or None in row:
                raise DataError(f"{file}, line {table.line}: not {len(COLUMNS)} cells.")
            by_run[row["run"]].append(row)
    return [_import_one(run, own, runs_dir, file) for run, own in sorted(by_run.items())]


def _import_one(run: str, own: Sequence[Mapping[str, str]], runs_dir: Path, file: Path) -> Path:
    journal = b"".join(orjson.dumps(_row(row), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS) for row in own)
    about = {
        "id": run,
        "kind": "named",
        "model": {"name": run},
        "title": own[0]["title"] or None,
        "release_year": int(own[0]["release_year"]) if own[0]["release_year"] else None,
        "prefixed": own[0]["prefixed"] == "true",
        "source": {"name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
    }
    record = orjson.dumps(about, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    folder = runs_dir / run
    if (folder / "run.json").is_file():
        kind = orjson.loads((folder / "run.json").read_bytes()).get("kind")
        if kind == "imported":
            return folder
        if kind != "named":
            raise RunError(f"The run {run} is there already and is no import.", hint="Take another --runs folder.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOURNAL).write_bytes(journal)
    (folder / "run.json").write_bytes(record)  # last: a folder without it is no run
    return folder


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "question": f"{row['fact']}#{row['phrasing']}",
        "fact": row["fact"],
        "domain": row["domain"],
        "subject": row["subject"],
        "phrasing": row["phrasing"],
        "counted": row["counted"] == "true",
        "sample": 0,
        "status": "ok",
        "entity": row["entity"] or None,
        "label": row["label"] or None,
        "reason": row["reason"],
    }
