"""The files of a run: ``run.json``, and journals that are only ever appended to, one JSON object a line.

How the lines lie on disk, open and closed, is the affair of `dyknow.segments`.
"""

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow import segments
from dyknow.segments import sync_folder
from kg.errors import RunError

RUN_FILE: Final = "run.json"
JOURNAL: Final = "responses.jsonl"
QUESTIONS: Final = "questions.jsonl"
LIKELIHOODS: Final = "likelihoods.jsonl"
EDITS: Final = "edits.jsonl"
JUDGMENTS: Final = "judgments"
LOCK: Final = "lock"

SETTLED: Final = ("ok", "refused")
"""What an answer's status is when it stands for ever. An error may go away, so it is asked again."""

JUDGE_FAILED: Final = "error"
"""The reason of a judgment that a judge was asked for and did not give. It may go away, so it is asked for again."""

Key = tuple[str, int]
"""A question and the number of the sample: what is answered once."""


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
        if holder(self.path) is not None:
            return "running"
        asked, scored = self.info.get("legs"), self.info.get("likelihoods") or {}
        if (self.info.get("ended") if asked or not scored else scored.get("ended")) is None:
            return "interrupted"
        return "with errors" if self.info.get("errors") else "done"

    @property
    def samples(self) -> int:
        """How many answers each question was to get."""
        return int(self.info.get("samples") or 1)

    @property
    def part(self) -> str | None:
        """Which part of a run this is, as "2/4"; None: it is none."""
        shard = self.info.get("shard")
        return None if shard is None else f"{shard['number']}/{shard['of']}"


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


def whole_runs(folder: Path) -> list[RunInfo]:
    """Return those runs in a folder that are no parts of one: what tables are made of.

    Raises:
        RunError: one of them is damaged.
    """
    return [run for run in find_runs(folder) if run.part is None]


def responses(path: Path) -> list[dict[str, Any]]:
    """Return a run's effective responses by question and sample: the last good one, else the last.

    Raises:
        RunError: a line of the journal is damaged.
    """
    return effective(each(path / JOURNAL, "status"))


def key_of(row: Mapping[str, Any]) -> Key:
    """Return which answer a row is."""
    return row["question"], row.get("sample", 0)


def effective(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that count, by question and sample.

    >>> effective([{"question": "a", "status": "ok", "text": "x"}, {"question": "a", "status": "error"}])
    [{'question': 'a', 'status': 'ok', 'text': 'x'}]
    """
    kept: dict[Key, dict[str, Any]] = {}
    for row in lines:
        key = key_of(row)
        if row["status"] in SETTLED or key not in kept or kept[key]["status"] not in SETTLED:
            kept[key] = row
    return [kept[key] for key in sorted(kept)]


def settled(lines: Iterable[dict[str, Any]]) -> set[Key]:
    """Return which answers stand for ever."""
    return {key_of(row) for row in lines if row["status"] in SETTLED}


def judgments(path: Path) -> list[dict[str, Any]]:
    """Return all judgments ever made beside a run, file by file.

    Raises:
        RunError: a line is damaged.
    """
    return [row for file in judgment_files(path) for row in each(file, "judge")]


def judgment_files(path: Path) -> list[Path]:
    """Return the journals of judgments beside a run, by the names they have while they are appended to."""
    found = {_open_name(file.name) for file in (path / JUDGMENTS).glob("*.jsonl*")}
    return [path / JUDGMENTS / name for name in sorted(filter(None, found))]


def _open_name(name: str) -> str | None:
    """Return the name that a journal's file has while it is open.

    >>> _open_name("gpt-4.1.jsonl.12.gz"), _open_name("gold.jsonl"), _open_name("gold.jsonl.1.gz.new")
    ('gpt-4.1.jsonl', 'gold.jsonl', None)
    """
    found = re.fullmatch(r"(.+\.jsonl)(\.[1-9]\d*(\.gz)?)?", name)
    return found[1] if found else None


def content(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of all that a run's files say; closing a journal changes none of it.

    Raises:
        RunError: a closed segment is damaged.
    """
    for file in sorted(path.glob("*.json")):
        with file.open("rb") as stream:
            yield file.name, hashlib.file_digest(stream, "sha256").hexdigest()
    for folder in (path, path / JUDGMENTS):
        for name in sorted(filter(None, {_open_name(file.name) for file in folder.glob("*.jsonl*")})):
            yield name, segments.digest(folder / name)


def standing_judgments(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the judgments that count: of each judge, question and sample the last; an error where there is no other.

    >>> old, new, bad = ({"judge": "a", "question": "q", "reason": reason} for reason in ("none", "named", "error"))
    >>> standing_judgments([old, new, bad]) == [new]
    True
    """
    kept: dict[tuple[str, Key], dict[str, Any]] = {}
    for row in lines:
        key = row["judge"], key_of(row)
        if row.get("reason") != JUDGE_FAILED or key not in kept or kept[key].get("reason") == JUDGE_FAILED:
            kept[key] = row
    return [kept[key] for key in sorted(kept)]


def questions(path: Path) -> list[dict[str, Any]]:
    """Return what a run set out to ask, and the phrasings of the same facts that it did not (``asked`` false).

    A run that was made before this was recorded has none.

    Raises:
        RunError: a line is damaged.
    """
    return rows(path / QUESTIONS, "fact")


def likelihoods(path: Path) -> list[dict[str, Any]]:
    """Return how likely a run's model holds the holders of each question's fact to be: the last row of each question.

    Raises:
        RunError: a line is damaged.
    """
    last = {row["question"]: row for row in each(path / LIKELIHOODS, "holders_digest")}
    return [last[question] for question in sorted(last)]


def edits(path: Path) -> list[dict[str, Any]]:
    """Return the facts that a run's model was brought up to date on, in the order of the edits; none where it was not.

    Raises:
        RunError: a line is damaged.
    """
    return rows(path / EDITS, "prompt", of="fact")


# Reading and writing


def rows(path: Path, key: str, of: str = "question") -> list[dict[str, Any]]:
    """Return what `each` yields."""
    return list(each(path, key, of))


def each(path: Path, key: str, of: str = "question") -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a journal, open or closed, one at a time; none where it is absent.

    Args:
        path: The file that is appended to, whether or not it is there.
        key: What every row must have as a text.
        of: What else it must have as one: what the row is about.

    Raises:
        RunError: a line is damaged; the message gives its number.
    """
    for number, line in enumerate(segments.lines(path), start=1):
        yield _parsed(path, number, line[:-1], (of, key))


def _parsed(path: Path, number: int, line: bytes, keys: tuple[str, str]) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
        if not all(isinstance(row[key], str) for key in keys):
            raise TypeError(f"{' or '.join(keys)} is no text")
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}, line {number} is damaged: {line[:60]!r}.", hint="Move the run away and ask again."
        ) from error
    return dict(row)


def append(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Put rows on disk, in one write and one fsync; afterwards no crash can lose them.

    Raises:
        RunError: the disk refuses.
    """
    created = not path.exists()
    try:
        with path.open("ab") as stream:
            stream.write(b"".join(map(line_of, new)))
            stream.flush()
            os.fsync(stream.fileno())
        if created:
            sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}.", hint="The same command goes on.") from error


def replace(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file beside and rename it, so that a reader sees the old one or the new one whole."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as stream:
        stream.writelines(pieces)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def write_run(folder: Path, info: Mapping[str, Any]) -> None:
    """Write run.json beside and rename it."""
    replace(folder / RUN_FILE, [orjson.dumps(info, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)])


def replace_rows(path: Path, new: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole file of rows beside and rename it."""
    replace(path, map(line_of, new))


def line_of(row: Mapping[str, Any]) -> bytes:
    """Return a row as a journal has it, its newline included."""
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


# One writer at a time


@contextlib.contextmanager
def locked(folder: Path, name: str = LOCK, what: str | None = None) -> Iterator[None]:
    """Hold a run for writing, or what else has a lock of its own name in a folder.

    The kernel drops the lock of a dead process, so a file left behind by one keeps nobody out.

    Raises:
        RunError: another process holds it; the message names its pid.
    """
    with (folder / name).open("a+b") as stream:
        # Twice, for a reader that looks whether the run is being written holds the lock for a moment itself.
        if not any(_try_lock(stream.fileno(), wait) for wait in (0, 0.1)):
            stream.seek(0)
            pid = stream.read().decode("ascii", "replace").strip() or "unknown"
            hint = "Wait for it, or end it; then the same command goes on."
            raise RunError(f"{what or f'The run {folder.name}'} is being written by process {pid}.", hint=hint)
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n".encode())
        stream.flush()
        try:
            yield
        finally:
            stream.truncate(0)


def close(run: RunInfo) -> segments.Closed:
    """Compress the journals of a run that was asked and has ended, and those of judgments beside it.

    They stay readable as they were; what is appended later begins new files.

    Returns:
        The bytes that were closed now, before and after.

    Raises:
        RunError: another process writes one of them, the run was imported, or it has not ended.
    """
    if run.info.get("kind") != "asked":
        raise RunError(f"The run {run.id} was imported, and its files stay as they came.")
    if run.state in ("running", "interrupted"):
        hint = f"Go on with it: dyknow runs resume {run.id}"
        raise RunError(f"The run {run.id} has not ended.", hint=hint)
    with locked(run.path):
        done = [segments.close(run.path / name) for name in (JOURNAL, LIKELIHOODS, QUESTIONS)]
    for file in judgment_files(run.path):
        with locked(file.parent, f"{file.stem}.lock", f"The judge {file.stem} of the run {run.id}"):
            done.append(segments.close(file))
    return segments.Closed(sum(one.before for one in done), sum(one.after for one in done))


def holder(folder: Path) -> str | None:
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
