"""What the rows of a journal come to, counted one by one; room is needed for the names of questions alone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dyknow.journal import SETTLED, Key, key_of


class Account:
    """What was asked and paid. Counted from the journal, so that no kill can lose it."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.asked = self.failed = self.prompt_tokens = self.tokens = 0
        self._seconds = 0.0
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        self.asked += 1
        self.failed += row["status"] == "error"
        self.prompt_tokens += row["prompt_tokens"] or 0
        self.tokens += row["tokens"] or 0
        self._seconds += row["seconds"] or 0

    def record(self) -> dict[str, Any]:
        """Return it as run.json has it."""
        names = ("asked", "failed", "prompt_tokens", "tokens")
        return {name: getattr(self, name) for name in names} | {"seconds": round(self._seconds, 3)}


class Tally:
    """Which answers there are: how often each was asked for, and whether it stands for ever."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.lines = 0
        # By sample and question the attempts, negative while none of them stands: one number of which there are many.
        self._attempts: dict[int, dict[str, int]] = {}
        self._refused: set[Key] = set()
        self._failed = 0
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        question, sample = key = key_of(row)
        known = self._attempts.setdefault(sample, {})
        before, stands = known.get(question, 0), row["status"] in SETTLED
        attempts = abs(before) + 1
        known[question] = attempts if stands or before > 0 else -attempts
        self.lines += 1
        self._failed += (before == 0 and not stands) - (before < 0 and stands)
        if row["status"] == "refused":
            self._refused.add(key)
        elif stands:
            self._refused.discard(key)

    def stands(self, question: str, sample: int) -> bool:
        """Say whether an answer is there that is not asked for again."""
        return self._attempts.get(sample, {}).get(question, 0) > 0

    def attempts(self, question: str, sample: int) -> int:
        """Return how often an answer was asked for."""
        return abs(self._attempts.get(sample, {}).get(question, 0))

    @property
    def answered(self) -> int:
        """How many answers stand."""
        return sum(map(len, self._attempts.values())) - self._failed

    @property
    def statuses(self) -> Counter[str]:
        """How many of the rows that count have which status."""
        refused = len(self._refused)
        return Counter(ok=self.answered - refused, refused=refused, error=self._failed)
