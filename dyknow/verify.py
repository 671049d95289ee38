"""Is a run whole? Its journal is read line by line, counted anew, and held against what its record says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dyknow import journal, prompts, segments
from dyknow.journal import JOURNAL, QUESTIONS, RunInfo
from dyknow.run import settings_digest
from dyknow.tally import Account, Tally
from kg.errors import DyknowError


class Verified(NamedTuple):
    """What a check of a run has found."""

    problem: str | None  # None: nothing is wrong
    counts: dict[str, int]  # effective rows by status, and how many are missing
    torn: bool  # a last line that a killed process did not finish; the next leg cuts it off


def verify(run: RunInfo) -> Verified:
    """Check a run that was asked or imported with its texts; nothing is changed."""
    try:
        journal.judgments(run.path)
        listed = journal.each(run.path / QUESTIONS, "fact")
        read = _Reading({row["question"]: row["text"] for row in listed if row["asked"]})
        for row in journal.each(run.path / JOURNAL, "status"):
            read.add(row)
    except DyknowError as error:
        return Verified(error.message, {}, False)
    counts, tally = read.tally.statuses, read.tally
    counts["missing"] = sum(not tally.attempts(one, n) for one in read.asked for n in range(run.samples))
    found = {status: counts[status] for status in sorted(counts) if counts[status]}
    checks = (read.twice, read.foreign, _digests(run, read.asked), _totals(run, read))
    return Verified(next(filter(None, checks), None), found, segments.torn(run.path / JOURNAL))


class _Reading:
    """A journal read once, line by line: what it comes to, and the first line of each kind that must not be there."""

    def __init__(self, asked: Mapping[str, str]) -> None:
        self.asked = asked
        self.tally = Tally()
        self.account = Account()
        self.twice: str | None = None
        self.foreign: str | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row and look at what it answers."""
        question, number = row["question"], self.tally.lines + 1
        if self.tally.stands(*journal.key_of(row)):
            self.twice = self.twice or f"{JOURNAL}, line {number}: {question} was answered before."
        if self.asked and question not in self.asked:
            self.foreign = self.foreign or f"{JOURNAL}, line {number}: {question} is none of the questions of this run."
        self.tally.add(row)
        self.account.add(row)


def _digests(run: RunInfo, asked: Mapping[str, str]) -> str | None:
    if run.info.get("kind") != "asked":
        return None
    try:
        if settings_digest(run.info) != run.info["settings_digest"]:
            return "run.json was changed: its settings do not have the digest it gives."
        if asked and prompts.digest(asked.items()) != run.info["prompts_digest"]:
            return "questions.jsonl was changed: its questions do not have the digest that run.json gives."
    except (KeyError, AttributeError) as error:
        return f"run.json lacks {error}."
    return None


def _totals(run: RunInfo, read: _Reading) -> str | None:
    """Hold the record's counts against the journal; while a leg is open they lag behind, and never run ahead."""
    answered, stand = run.info.get("answered"), read.tally.answered
    if answered is not None and (stand < answered or (run.info.get("ended") and stand != answered)):
        return f"run.json counts {answered} answers and the journal holds {stand}."
    if run.info.get("kind") == "asked" and run.info.get("ended"):
        counted = read.account.record()
        for key in ("prompt_tokens", "tokens"):
            if run.info.get(key) != counted[key]:
                return f"run.json counts {run.info.get(key)} {key} and the journal {counted[key]}."
        if sum(leg["asked"] for leg in run.info["legs"]) != read.tally.lines:
            return f"The legs in run.json do not add up to the {read.tally.lines} lines of the journal."
    return None
