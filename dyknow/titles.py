"""What tables call a run: its model, told apart where several runs are of one model."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Protocol


def named(title: str, year: int | None, prefixed: bool) -> str:
    """Return a run's title as a table has it: with its year, and * where it was asked to give the name only."""
    return f"{title}{'*' if prefixed else ''}{f' {year}' if year else ''}"


class Titled(Protocol):
    """A row of a table that is about one run."""

    @property
    def run(self) -> str:
        """The run's name."""

    @property
    def title(self) -> str:
        """Its model as tables print it."""

    @property
    def year(self) -> int | None:
        """The year its model came out."""

    @property
    def prefixed(self) -> bool:
        """Whether it was asked to give the name only."""


def titles(rows: Iterable[Titled], with_year: bool = True) -> dict[str, str]:
    """Return the title of each run; where several share one, followed by what their runs' names do not share.

    Runs of one model differ in style, settings or date; the words between - and _ in which their names differ tell
    which is which.
    """
    shared: dict[str, list[str]] = {}
    for row in rows:
        same = shared.setdefault(named(row.title, row.year if with_year else None, row.prefixed), [])
        if row.run not in same:
            same.append(row.run)
    found: dict[str, str] = {}
    for title, runs in shared.items():
        found |= dict(zip(runs, _told_apart(runs), strict=True)) if len(runs) > 1 else {runs[0]: ""}
        found |= {run: f"{title} ({found[run]})" if found[run] else title for run in runs}
    return found


def _told_apart(runs: Sequence[str]) -> list[str]:
    """Return the part of each name that not all share, by whole words; the whole names where one would be empty.

    >>> _told_apart(["gpt2-chat-7f3a", "gpt2-raw-7f3a"]), _told_apart(["gpt2", "gpt2-b"])
    (['chat', 'raw'], ['gpt2', 'gpt2-b'])
    """
    words = [re.split("([-_])", run) for run in runs]
    first = _shared_length(words)
    last = _shared_length([list(reversed(own[first:])) for own in words])
    parts = ["".join(own[first : len(own) - last]).strip("-_") for own in words]
    return parts if all(parts) else list(runs)


def _shared_length(words: Sequence[Sequence[str]]) -> int:
    """Return how many words all sequences begin with."""
    return sum(1 for _ in takewhile(lambda own: len(set(own)) == 1, zip(*words, strict=False)))
