"""Is a run whole? Its journal is read line by line, counted anew, and held against what its record says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dyknow import journal, prompts
from dyknow.journal import JOURNAL, SETTLED, RunInfo
from dyknow.run import account, settings_digest
from kg.errors import DyknowError


class Verified(NamedTuple):
    """What a check of a run has found."""

    problem: str | None  # None: nothing is wrong
    counts: dict[str, int]  # effective rows by status, and how many are missing
    torn: bool  # a last line that a killed process did not finish; the next leg cuts it off


def verify(run: RunInfo) -> Verified:
    """Check a run that was asked or imported with its texts; nothing is changed."""
    try:
        rows = journal.rows(run.path / JOURNAL, "status")
        journal.judgments(run.path)
        listed = journal.questions(run.path)
    except DyknowError as error:
        return Verified(error.message, {}, False)
    counts = Counter(row["status"] for row in journal.effective(rows))
    if listed:
        wanted = {(row["question"], n) for row in listed if row["asked"] for n in range(run.samples)}
        counts["missing"] = len(wanted - {journal.key_of(row) for row in rows})
    found = {status: counts[status] for status in sorted(counts) if counts[status]}
    checks = (_twice(rows), _foreign(rows, listed), _digests(run, listed), _totals(run, rows))
    return Verified(next(filter(None, checks), None), found, _torn(run))


def _twice(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Find an answer that was asked again after it stood."""
    settled: set[journal.Key] = set()
    for number, row in enumerate(rows, start=1):
        if journal.key_of(row) in settled:
            return f"{JOURNAL}, line {number}: {row['question']} was answered before."
        if row["status"] in SETTLED:
            settled.add(journal.key_of(row))
    return None


def _foreign(rows: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]]) -> str | None:
    asked = {row["question"] for row in listed if row["asked"]}
    for number, row in enumerate(rows, start=1):
        if listed and row["question"] not in asked:
            return f"{JOURNAL}, line {number}: {row['question']} is none of the questions of this run."
    return None


def _digests(run: RunInfo, listed: Sequence[Mapping[str, Any]]) -> str | None:
    if run.info.get("kind") != "asked":
        return None
    try:
        if settings_digest(run.info) != run.info["settings_digest"]:
            return "run.json was changed: its settings do not have the digest it gives."
        asked = prompts.digest((row["question"], row["text"]) for row in listed if row["asked"])
        if listed and asked != run.info["prompts_digest"]:
            return "questions.jsonl was changed: its questions do not have the digest that run.json gives."
    except (KeyError, AttributeError) as error:
        return f"run.json lacks {error}."
    return None


def _totals(run: RunInfo, rows: Sequence[dict[str, Any]]) -> str | None:
    """Hold the record's counts against the journal; while a leg is open they lag behind, and never run ahead."""
    answered, settled = run.info.get("answered"), len(journal.settled(rows))
    if answered is not None and (settled < answered or (run.info.get("ended") and settled != answered)):
        return f"run.json counts {answered} answers and the journal holds {settled}."
    if run.info.get("kind") == "asked" and run.info.get("ended"):
        counted = account(rows)
        for key in ("prompt_tokens", "tokens"):
            if run.info.get(key) != counted[key]:
                return f"run.json counts {run.info.get(key)} {key} and the journal {counted[key]}."
        if sum(leg["asked"] for leg in run.info["legs"]) != len(rows):
            return f"The legs in run.json do not add up to the {len(rows)} lines of the journal."
    return None


def _torn(run: RunInfo) -> bool:
    file = run.path / JOURNAL
    content = file.read_bytes() if file.is_file() else b""
    return bool(content) and not content.endswith(b"\n")
