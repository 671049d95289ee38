"""How doubtful our reading of each response is: what a person, or another judge, had best look at first.

The doubt of a response is a number from 0 to 1, made of signs that our matcher may have misread it. Each sign has a
weight, and signs add up as if each alone could spoil the reading: 1 - (1 - a)(1 - b)... The weights order a list of
work; they are no probabilities, and no verdict rests on them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import duckdb

from dyknow.match import CUTOFFS
from dyknow.resultsfile import run_sql
from dyknow.scaffold import answer_of
from kg.resources import query

DOUBTFUL: Final = 0.3
"""From here on a response is on the list of those to look at."""

_RULES: Final = {
    "label": 0.0, "alias": 0.05, "other form": 0.1, "short form": 0.2, "royal name": 0.2, "surname": 0.4,
    "first name": 0.5,
}  # fmt: skip
"""How a name was found, and how often such a name is somebody else's."""

_REASONS: Final = {
    "empty": 0.0, "refusal": 0.05, "echo": 0.1, "national team": 0.1, "description": 0.2, "unknown name": 0.4,
    "options": 0.4, "cut off": 0.5, "negated": 0.6, "former": 0.6,
}  # fmt: skip
"""Why nobody was found, and how often somebody is named all the same."""

_OTHER: Final = 0.3  # a rule or a reason that is not in these tables
_MISSPELT: Final = (0.3, 0.8)  # at a similarity of 100, and at the least one that is accepted
_CUT_SHORT: Final = 0.1  # nobody found, in a text that ran to its length
_OTHER_PHRASINGS: Final = 0.25  # most other phrasings of the fact, two at least, get one other answer
_OTHER_JUDGE: Final = 0.9


class Holder(NamedTuple):
    """An entity that a response may name."""

    entity: str
    label: str
    first_day: int | None  # YYYYMMDD, of its earliest statement
    last_day: int | None  # None: still open, or not known
    labels: tuple[str, ...] = ()  # in all snapshots

    @property
    def years(self) -> str:
        """The years of its statements: "2014–2016", "2022–"; empty where none is known."""
        first, last = (str(day // 10000) if day else "" for day in (self.first_day, self.last_day))
        return f"{first}–{last}" if first or last else ""


class Response(NamedTuple):
    """A response, what our matcher reads in it, and how much that is to be doubted."""

    run: str
    question: str
    sample: int
    fact: str
    subject: str
    office: str | None
    prompt: str | None
    text: str
    digest: str
    finish_reason: str | None
    entity: str | None
    label: str | None
    reason: str | None  # "matched", or why nobody was found
    matched: str | None
    alias: str | None
    rule: str | None
    score: float | None  # similarity, 0 to 100
    verdict: str
    as_of: str  # the day of the verdict
    doubt: float = 0.0
    why: tuple[str, ...] = ()  # the signs, the weightiest first

    @property
    def key(self) -> tuple[str, str, int]:
        """Run, question, sample."""
        return self.run, self.question, self.sample

    @property
    def asked(self) -> str:
        """The question, without what stands around it in the prompt."""
        return answer_of("", self.prompt or "").question.strip() or f"{self.subject}, {self.office or ''}".strip(", ")

    @property
    def answer(self) -> str:
        """What the model added to its prompt, without chat markup; all of the text where that leaves nothing."""
        found = answer_of(self.text, self.prompt or "")
        return found.text[found.start : found.end].strip() or self.text


class Sign(NamedTuple):
    """Something that speaks against a reading."""

    weight: float
    words: str


def holders(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[Holder, ...]]:
    """Return whom a response may name, by fact: the holders of any snapshot, in the order of time."""
    found: dict[str, list[Holder]] = defaultdict(list)
    for fact, entity, label, first_day, last_day, labels in run_sql(connection, query("dyknow/holders.sql")).rows:
        found[fact].append(Holder(entity, label, first_day, last_day, tuple(labels)))
    return {fact: tuple(own) for fact, own in found.items()}


def responses(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    runs: Collection[str] | None = None,
    *,
    leave_out: Collection[str] = (),
) -> list[Response]:
    """Return the responses that have a text, the most doubtful first; equal doubts by run, question and sample.

    Args:
        connection: The results.
        as_of: The day that our verdict is for; whom a text names does not depend on it.
        known_at: The snapshot; None: as ever.
        runs: Only these.
        leave_out: Judges whose judgments say nothing here: whoever is to judge does so without looking at them.

    Raises:
        QueryError: there is no such snapshot.
    """
    rows = run_sql(connection, query("dyknow/doubts.sql"), {"as_of": as_of, "known_at": known_at}).rows
    found = [Response(*row) for row in rows if runs is None or row[0] in runs]
    table = run_sql(connection, query("dyknow/judgments.sql"))
    others: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for values in table.rows:
        row = dict(zip(table.columns, values, strict=True))
        if row["judge"] not in leave_out:
            others[row["run"], row["question"], row["sample"]].append(row)
    siblings: dict[tuple[str, str, int], list[Response]] = defaultdict(list)
    for one in found:
        siblings[one.run, one.fact, one.sample].append(one)
    doubted = [_doubted(one, siblings[one.run, one.fact, one.sample], others.get(one.key, ())) for one in found]
    return sorted(doubted, key=lambda one: (-one.doubt, one.key))


def _doubted(one: Response, siblings: Sequence[Response], others: Iterable[Mapping[str, Any]]) -> Response:
    signs = sorted([*_of_reading(one), *_of_phrasings(one, siblings), *_of_judges(one, others)], reverse=True)
    return one._replace(doubt=combined(sign.weight for sign in signs), why=tuple(sign.words for sign in signs))


def combined(weights: Iterable[float]) -> float:
    """Return the doubt that signs of these weights make together, with two decimals.

    >>> combined([0.5, 0.4]), combined([])
    (0.7, 0.0)
    """
    return round(1 - prod((1 - weight for weight in weights), start=1.0), 2)


def _of_reading(one: Response) -> Iterable[Sign]:
    if one.entity is None:
        reason = one.reason or "not read"
        if (weight := _REASONS.get(reason, _OTHER)) > 0:
            yield Sign(weight, reason)
        if one.finish_reason == "length" and reason not in ("cut off", "refusal"):
            yield Sign(_CUT_SHORT, "ran to its length")
    elif one.rule == "misspelt":
        score = 100.0 if one.score is None else one.score
        near, far = _MISSPELT
        share = min(1.0, max(0.0, (100 - score) / (100 - CUTOFFS.name)))
        yield Sign(near + share * (far - near), f"misspelt, similarity {score:.0f}")
    elif (weight := _RULES.get(one.rule or "", _OTHER)) > 0:
        yield Sign(weight, f"read by {one.rule}")


def _of_phrasings(one: Response, siblings: Sequence[Response]) -> Iterable[Sign]:
    rest = [other.entity for other in siblings if other.key != one.key]
    for entity, times in Counter(rest).most_common(1):
        if times > 1 and times * 2 > len(rest) and entity is not None and entity != one.entity:
            label = next(other.label for other in siblings if other.entity == entity)
            yield Sign(_OTHER_PHRASINGS, f"most other phrasings: {label or entity}")


def _of_judges(one: Response, others: Iterable[Mapping[str, Any]]) -> Iterable[Sign]:
    for other in others:
        reads_otherwise = other["named"] and other["entity"] != one.entity
        ours = "irrelevant" if one.verdict == "later" else one.verdict
        judges_otherwise = other["verdict"] is not None and other["as_of"] == one.as_of and other["verdict"] != ours
        if reads_otherwise or judges_otherwise:
            yield Sign(_OTHER_JUDGE, f"judge {other['judge']}: {other['entity'] or other['verdict'] or 'none'}")
