"""What changed between two days for each model, though no word of its answers did, and whose doing it was."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dyknow.report.data import Data
from dyknow.report.rates import INCOMPLETE, IRRELEVANT, LATER, NOT_COVERED, OUT, OUT_OPEN, UP, UP_OPEN, codes, soft

CAUSES: Final = {
    "world": "the world changed",
    "wikidata": "Wikidata was corrected",
    "both": "both",
    "unknown": "cannot be told: not covered on one side",
}


class Change(NamedTuple):
    """A fact of a model whose verdict differs between two days."""

    run: int
    fact: int
    before: int  # code of the verdict
    after: int
    cause: str  # a key of CAUSES
    answer: str  # whom the model names, or nothing

    @property
    def went_stale(self) -> bool:
        """Whether it was up-to-date and is outdated."""
        return kind(self.before) == UP and kind(self.after) == OUT

    @property
    def came_true(self) -> bool:
        """Whether it was outdated or irrelevant and is up-to-date."""
        return kind(self.before) in (OUT, IRRELEVANT) and kind(self.after) == UP


def kind(code: int) -> int:
    """Return what a verdict counts as: doubts aside, and a later holder is irrelevant."""
    return {UP_OPEN: UP, OUT_OPEN: OUT, LATER: IRRELEVANT}.get(code, code)


def changes(data: Data, before: str, after: str) -> list[Change]:
    """Return what changed from one stop to another, each judged by the snapshot of its day.

    The newer snapshot's verdict for the older day tells the causes apart: where it is the old verdict, the world
    changed; where it is the new one, the older snapshot's record was corrected.
    """
    old, new = data.history(before), data.history(after)
    first, again, last = (
        codes(data, place)[:, data.stops.index(day)] for place, day in ((old, before), (new, before), (new, after))
    )
    found = []
    for (run, fact), rows in sorted(groups(data).items()):
        one, two, three = (int(soft(verdicts[rows][:, None])[0]) for verdicts in (first, again, last))
        if kind(one) != kind(three):
            said = [(int(first[row]), int(last[row]), _label(data, row, old, new)) for row in rows]
            found.append(Change(run, fact, one, three, _cause(one, two, three), _answer(said)))
    return found


def groups(data: Data) -> dict[tuple[int, int], list[int]]:
    """Return the places of the answers that the soft constraint judges, by run and fact."""
    found: dict[tuple[int, int], list[int]] = {}
    for index, answer in enumerate(data.answers):
        if answer.counted and answer.sample == 0:
            found.setdefault((answer.run, answer.fact), []).append(index)
    return found


def _cause(before: int, again: int, after: int) -> str:
    if {NOT_COVERED, INCOMPLETE} & {before, again, after}:
        return "unknown"
    if kind(again) == kind(before):
        return "world"
    return "wikidata" if kind(again) == kind(after) else "both"


def _label(data: Data, row: int, old: int, new: int) -> str:
    named = (data.answers[row].named[place] for place in (new, old))
    return next((name.label for name in named if name and name.label), "")


def _answer(said: Sequence[tuple[int, int, str]]) -> str:
    """Return whom the answer names that was right on either day; else whom an outdated one names."""
    for wanted in (UP, OUT):
        for before, after, label in said:
            if wanted in (kind(before), kind(after)) and label:
                return label
    return ""
