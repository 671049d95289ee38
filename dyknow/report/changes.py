"""What changed between two days for each model, though no word of its answers did, and whose doing it was."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dyknow.report.data import Data, Holder, Step
from dyknow.report.rates import INCOMPLETE, IRRELEVANT, LATER, NOT_COVERED, OUT, OUT_OPEN, UP, UP_OPEN, codes, soft

CAUSES: Final = {
    "world": "the world changed",
    "wikidata": "Wikidata was corrected",
    "both": "both",
    "unknown": "cannot be told: a snapshot does not cover it",
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

    The earlier day is judged by both snapshots: where that differs Wikidata was corrected; where the verdict by the
    later one differs between the days the world changed (`dyknow.comparison.flips` asks the results the same).
    """
    old, new = (Moment(data, data.history(day), day) for day in (before, after))
    again = Moment(data, new.place, before)
    found = []
    for (run, fact), rows in sorted(groups(data).items()):
        one, two, three = (moment.verdict(rows) for moment in (old, again, new))
        if kind(one) != kind(three):
            cause = _cause(one, two, three, lacking=_lacking(fact, rows, old, new), began=_began(fact, old, new))
            said = [(old.code(row), new.code(row), _label(data, row, old.place, new.place)) for row in rows]
            found.append(Change(run, fact, one, three, cause, _answer(said)))
    return found


class Moment:
    """A day and the snapshot it is judged by."""

    def __init__(self, data: Data, place: int, day: str) -> None:
        self.data, self.place, self.day = data, place, int(day.replace("-", ""))
        self.history = data.histories[place]
        self._codes = codes(data, place)[:, data.stops.index(day)]

    def code(self, row: int) -> int:
        """Return the verdict of an answer."""
        return int(self._codes[row])

    def verdict(self, rows: Sequence[int]) -> int:
        """Return the verdict of a fact from those of its phrasings."""
        return int(soft(self._codes[rows][:, None])[0])

    def step(self, holder: Holder) -> Step | None:
        """Return what a holder is on the day."""
        within = (step for step in holder.steps if step.from_day <= self.day and self.day < (step.to_day or 99999999))
        return next(within, None)

    def named(self, row: int) -> tuple[str, int] | None:
        """Return whom an answer names, and the first day of the term that speaks for it."""
        answer = self.data.answers[row]
        name = answer.named[self.place]
        if name is None or name.entity is None:
            return None
        own = next((one for one in self.history.holders[answer.fact] if one.entity == name.entity), None)
        step = self.step(own) if own else None
        return name.entity, (step.start if step else None) or 0


def _lacking(fact: int, rows: Sequence[int], old: Moment, new: Moment) -> bool:
    """Tell whether one snapshot holds an extract of the fact, and in it nobody of those named by the other one."""
    for moment, other in ((old, new), (new, old)):
        if other.place == moment.place or other.history.whole[fact]:
            continue
        there = {holder.entity for holder in other.history.holders[fact]}
        for entity, start in filter(None, map(moment.named, rows)):
            # What began later the older snapshot could not have.
            if entity not in there and not (other is old and start > other.history.source.day):
                return True
    return False


def _began(fact: int, old: Moment, new: Moment) -> bool:
    """Tell whether all who are right on the later day began after the earlier one."""
    steps = (new.step(holder) for holder in new.history.holders[fact])
    starts = [step.start for step in steps if step and step.standing == "up-to-date"]
    return bool(starts) and all(start is not None and start > old.day for start in starts)


def groups(data: Data) -> dict[tuple[int, int], list[int]]:
    """Return the places of the answers that the soft constraint judges, by run and fact."""
    found: dict[tuple[int, int], list[int]] = {}
    for index, answer in enumerate(data.answers):
        if answer.counted and answer.sample == 0:
            found.setdefault((answer.run, answer.fact), []).append(index)
    return found


def _cause(before: int, again: int, after: int, *, lacking: bool, began: bool) -> str:
    if {NOT_COVERED, INCOMPLETE} & {before, after}:
        return "unknown"
    if lacking or again in (NOT_COVERED, INCOMPLETE):
        # What the later snapshot says of the earlier day cannot be told. Who is right now and began since is news.
        return "world" if began and UP in (kind(before), kind(after)) else "unknown"
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
