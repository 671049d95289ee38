"""Judges side by side: how far the verdicts on some responses agree with labels that somebody else gave them.

A labels file has one JSON object a line: ``model`` (the run), ``domain``, ``subject``, ``attribute`` (the post, or
null), ``template`` (the phrasing), ``label``, ``entity`` (whom the reader saw named, or null) and ``read`` (whether the
row was read one by one; where absent, it was).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow.published import fact_of
from kg.errors import DataError

VERDICTS: Final = ("up-to-date", "outdated", "irrelevant")

UNCLEAR: Final = "unclear"
"""A label that counts in no rate."""

_LABELS: Final = {
    "correct": "up-to-date",
    "up-to-date": "up-to-date",
    "outdated": "outdated",
    "irrelevant": "irrelevant",
}


class Label(NamedTuple):
    """What a reader says of a response."""

    run: str
    question: str  # "Q38/P35#contextualized"
    verdict: str  # or "unclear"
    named: str | None  # the label of the entity that the reader saw named
    read: bool  # False: the row was not read one by one, and ``named`` is not to be relied on

    @property
    def fact(self) -> str:
        """The fact that was asked about."""
        return self.question.partition("#")[0]


class Judged(NamedTuple):
    """The verdict on a response, and the entity it rests on."""

    verdict: str
    entity: str | None


class Share(NamedTuple):
    """A part of a total."""

    part: int
    n: int

    @property
    def rate(self) -> float | None:
        """The share between 0 and 1; None where the total is empty."""
        return self.part / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the rate; None where the total is empty.

        >>> [round(bound, 3) for bound in Share(98, 100).interval or ()]
        [0.93, 0.994]
        """
        if not self.n:
            return None
        z = 1.959964
        rate, spread = self.part / self.n, z * z / self.n
        middle = (rate + spread / 2) / (1 + spread)
        half = z * math.sqrt(rate * (1 - rate) / self.n + spread / self.n / 4) / (1 + spread)
        return max(0.0, middle - half), min(1.0, middle + half)


class Disagreement(NamedTuple):
    """A response on which verdict and label differ."""

    label: Label
    judged: Judged


class Agreement(NamedTuple):
    """How verdicts and labels agree."""

    agree: Share
    runs: dict[str, Share]
    confusion: dict[tuple[str, str], int]  # (label, verdict) -> rows
    kappa: float | None  # Cohen's; None where one class holds everything
    entities: Share  # rows that were read and name an entity: the same one is named
    invented: Share  # all rows: an entity is named where the reader saw none
    unclear: int  # rows left out because the label is
    missing: int  # rows left out because there is no verdict
    disagreements: tuple[Disagreement, ...]


def read_labels(path: Path) -> list[Label]:
    """Return the rows of a labels file.

    Raises:
        DataError: a line is no such row; the message names file, line and value.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return [_label(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _label(place: str, line: str) -> Label:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise DataError(f"{place}: {row!r} is no object.")
    texts = {name: _text(place, row, name) for name in ("model", "domain", "subject", "template", "label")}
    if texts["label"] not in (*_LABELS, UNCLEAR):
        known = ", ".join((*_LABELS, UNCLEAR))
        raise DataError(f"{place}: the label is {texts['label']!r}.", hint=f"Known labels: {known}.")
    try:
        fact = fact_of(texts["domain"], texts["subject"], row.get("attribute"))
    except DataError as error:
        raise DataError(f"{place}: {error.message}", hint=error.hint) from error
    verdict = _LABELS.get(texts["label"], UNCLEAR)
    question = f"{fact}#{texts['template']}"
    return Label(texts["model"], question, verdict, row.get("entity"), bool(row.get("read", True)))


def _text(place: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"{place}: {name!r} is {value!r}, which is no text.")
    return value


def agreement(
    verdicts: Mapping[tuple[str, str], Judged], labels: Iterable[Label], entities: Mapping[tuple[str, str], str]
) -> Agreement:
    """Compare verdicts with labels.

    Args:
        verdicts: by run and question.
        labels: what somebody else says of the same responses; their runs and questions are those compared.
        entities: the entity that a label names in a fact, by (fact, label).
    """
    labels = list(labels)
    clear = [label for label in labels if label.verdict != UNCLEAR]
    pairs = [(label, verdicts[label.run, label.question]) for label in clear if (label.run, label.question) in verdicts]
    confusion = Counter((label.verdict, judged.verdict) for label, judged in pairs)
    named = [(label, judged) for label, judged in pairs if label.read and label.named is not None]
    same = sum(judged.entity == _entity(label, entities) for label, judged in named)
    invented = sum(label.named is None and judged.entity is not None for label, judged in pairs)
    return Agreement(
        agree=_share(pairs),
        runs={run: _share([pair for pair in pairs if pair[0].run == run]) for run in sorted({x.run for x, _ in pairs})},
        confusion=dict(sorted(confusion.items())),
        kappa=_kappa(confusion),
        entities=Share(same, len(named)),
        invented=Share(invented, len(pairs)),
        unclear=len(labels) - len(clear),
        missing=len(clear) - len(pairs),
        disagreements=tuple(Disagreement(*pair) for pair in pairs if pair[0].verdict != pair[1].verdict),
    )


def _entity(label: Label, entities: Mapping[tuple[str, str], str]) -> str | None:
    return None if label.named is None else entities.get((label.fact, label.named))


def _share(pairs: list[tuple[Label, Judged]]) -> Share:
    return Share(sum(label.verdict == judged.verdict for label, judged in pairs), len(pairs))


def _kappa(confusion: Mapping[tuple[str, str], int]) -> float | None:
    """Return Cohen's kappa: agreement beyond what the classes' sizes give by chance."""
    n = sum(confusion.values())
    if not n:
        return None
    ours, theirs = Counter[str](), Counter[str]()
    for (label, verdict), count in confusion.items():
        theirs[label] += count
        ours[verdict] += count
    chance = sum(ours[name] * theirs[name] for name in ours) / n**2
    observed = sum(count for (label, verdict), count in confusion.items() if label == verdict) / n
    return None if chance == 1 else (observed - chance) / (1 - chance)
