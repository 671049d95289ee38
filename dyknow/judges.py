"""Judges side by side: how far two of them agree on the same responses, in verdict and in whom they see named.

A labels file has one JSON object a line: ``model`` (the run), ``domain``, ``subject``, ``attribute`` (the post, or
null), ``template`` (the phrasing), ``label``, ``entity`` (whom the reader saw named, or null) and ``read`` (whether the
row was read one by one; where absent, it was).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb
import orjson

from dyknow.published import fact_of
from dyknow.resultsfile import run_sql
from kg.errors import DataError, UsageError
from kg.resources import query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERDICTS: Final = ("up-to-date", "outdated", "irrelevant")

MATCH: Final = "match"
"""The name of our matcher among the judges."""

UNCLEAR: Final = "unclear"
"""A label that counts in no rate."""

LABELS: Final = {
    "correct": "up-to-date",
    "up-to-date": "up-to-date",
    "outdated": "outdated",
    "irrelevant": "irrelevant",
    UNCLEAR: UNCLEAR,
}
"""The words for a verdict that are read, and the verdict."""

Key = tuple[str, str, int]
"""Run, question, sample: which response is judged."""


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


class Reading(NamedTuple):
    """What one judge says of a response."""

    verdict: str  # one of VERDICTS; anything else counts as none
    entity: str | None = None
    names: bool | None = None  # whether an entity is seen named, known to us or not; None: the judge does not say
    read: bool = True  # False: ``entity`` is not to be relied on
    kind: str = ""  # how the text was read: the matcher's rule, or why it names nobody


class Share(NamedTuple):
    """A part of a total, with the interval of the share: facts drawn anew, all their rows with them."""

    part: int
    n: int
    lower: float | None = None  # between 0 and 1; None where the total is empty
    upper: float | None = None

    @property
    def rate(self) -> float | None:
        """The share between 0 and 1; None where the total is empty."""
        return self.part / self.n if self.n else None


class Kappa(NamedTuple):
    """Cohen's kappa; None where one class holds everything, for then chance alone agrees fully."""

    value: float | None
    lower: float | None = None
    upper: float | None = None


class Disagreement(NamedTuple):
    """A response on which two judges' verdicts differ."""

    key: Key
    theirs: Reading
    ours: Reading


Confusion = Mapping[tuple[str, str], int]
"""(Their verdict, ours) -> rows."""


class Group(NamedTuple):
    """The rows of one run, of one kind of reading, or of those read one by one or not."""

    by: str  # "model", "kind" or "read"
    name: str
    agree: Share
    confusion: Confusion


class Agreement(NamedTuple):
    """How two judges agree: ``theirs`` are the labels, or the second judge."""

    agree: Share
    facts: int
    kappa: Kappa
    confusion: Confusion
    groups: tuple[Group, ...]
    entities: Share  # rows in which they saw an entity named, and can be relied on: ours is the same one
    invented: Share  # rows in which they say whether one is named: we name one, and they saw none
    unclear: int  # their rows without a verdict
    missing: int  # rows with their verdict and without ours
    disagreements: tuple[Disagreement, ...]


# Labels


def read_labels(path: Path) -> list[Label]:
    """Return the rows of a labels file.

    Raises:
        DataError: a line is no such row; the message names file, line and value.
    """
    return [label_of(place, row) for place, row in json_lines(path)]


def json_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of a file of JSON lines, each with its place, as "labels.jsonl, line 3".

    Raises:
        DataError: the file cannot be read, or a line is no object.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    return [
        (place, _object(place, line))
        for place, line in ((f"{path}, line {number}", line) for number, line in enumerate(lines, 1))
        if line.strip()
    ]


def _object(place: str, line: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)  # unlike Python's own, it refuses half a surrogate and endless nesting
    except ValueError as error:
        raise DataError(f"{place} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise DataError(f"{place}: {row!r} is no object.")
    return row


def label_of(place: str, row: Mapping[str, Any]) -> Label:
    """Return the label that a row of a labels file is.

    Raises:
        DataError: it is none; the message names the place and the value.
    """
    texts = {name: _text(place, row, name) for name in ("model", "domain", "subject", "template", "label")}
    if texts["label"] not in LABELS:
        known = ", ".join(LABELS)
        raise DataError(f"{place}: the label is {texts['label']!r}.", hint=f"Known labels: {known}.")
    try:
        fact = fact_of(texts["domain"], texts["subject"], row.get("attribute"))
    except DataError as error:
        raise DataError(f"{place}: {error.message}", hint=error.hint) from error
    named = row.get("entity")
    if named is not None and not isinstance(named, str):
        raise DataError(f"{place}: 'entity' is {named!r}, which is no text.")
    question = f"{fact}#{texts['template']}"
    return Label(texts["model"], question, LABELS[texts["label"]], named, bool(row.get("read", True)))


def _text(place: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"{place}: {name!r} is {value!r}, which is no text.")
    return value


def readings(labels: Iterable[Label], entities: Mapping[tuple[str, str], str]) -> dict[Key, Reading]:
    """Return labels as a judge's readings.

    Args:
        labels: What a reader says; of two labels of one response the later one counts.
        entities: The entity that a label names in a fact, by (fact, label). A reader's name that is not in it is that
            of an entity still, only of none we know.
    """
    return {
        (one.run, one.question, 0): Reading(
            one.verdict,
            None if one.named is None else entities.get((one.fact, one.named)),
            names=one.named is not None,
            read=one.read,
        )
        for one in labels
    }


class Said(NamedTuple):
    """A response as a list of disagreements shows it."""

    text: str | None
    matched: str | None  # the words that our matcher read
    label: str | None  # the name of the entity that the judge saw named


def readings_of(
    connection: duckdb.DuckDBPyConnection,
    judge: str,
    as_of: str,
    known_at: str | None = None,
    runs: Collection[str] | None = None,
) -> tuple[dict[Key, Reading], dict[Key, Said]]:
    """Return what a judge says of every response as of a day, and what was said.

    Raises:
        UsageError: nobody of that name has judged any of the runs.
        QueryError: there is no such snapshot, or the judge judged for another day only.
    """
    known_judge(connection, judge)
    values = {"as_of": as_of, "known_at": known_at, "judge": judge}
    readings, said = {}, {}
    for run, question, sample, verdict, entity, names, kind, label, matched, text in run_sql(
        connection, query("dyknow/judged.sql"), values
    ).rows:
        if runs is None or run in runs:
            readings[run, question, sample] = Reading(verdict, entity, names, kind=kind or "")
            said[run, question, sample] = Said(text, matched, label)
    return readings, said


def known_judge(connection: duckdb.DuckDBPyConnection, judge: str) -> None:
    """Check that somebody of a name has judged something.

    Raises:
        UsageError: nobody has; the hint names those who have.
    """
    if judge == MATCH:
        return
    known = [str(name) for (name,) in run_sql(connection, "SELECT DISTINCT judge FROM judgments ORDER BY judge").rows]
    if judge not in known:
        hint = f"Judges: {', '.join((MATCH, *known))}."
        raise UsageError(f"Nobody of the name {judge} has judged anything.", hint=hint)


# Agreement


class _Pair(NamedTuple):
    key: Key
    theirs: Reading
    ours: Reading

    @property
    def fact(self) -> str:
        return self.key[1].partition("#")[0]

    @property
    def cell(self) -> tuple[str, str]:
        return self.theirs.verdict, self.ours.verdict

    @property
    def agrees(self) -> bool:
        return self.theirs.verdict == self.ours.verdict

    @property
    def kind(self) -> str:
        return self.ours.kind or self.theirs.kind


def agreement(ours: Mapping[Key, Reading], theirs: Mapping[Key, Reading], draws: int = 2000) -> Agreement:
    """Compare two judges on the responses that both gave a verdict on.

    Intervals are of 95 %, by a bootstrap over facts: the phrasings, samples and runs of one fact are one cluster.

    Args:
        ours: What the first judge says.
        theirs: What the second one says, by whom the first is measured.
        draws: Resamples of the bootstrap.
    """
    clear = {key: one for key, one in theirs.items() if one.verdict in VERDICTS}
    pairs = [
        _Pair(key, one, ours[key])
        for key, one in sorted(clear.items())
        if key in ours and ours[key].verdict in VERDICTS
    ]
    groups = _grouped(pairs)
    named = [pair for pair in pairs if pair.theirs.names and pair.theirs.read and pair.ours.names is not None]
    told = [pair for pair in pairs if pair.theirs.names is not None and pair.ours.names is not None]
    agree, entities, invented, *shares = _shares(
        [
            (pairs, lambda pair: pair.agrees),
            (named, lambda pair: pair.ours.entity is not None and pair.ours.entity == pair.theirs.entity),
            (told, lambda pair: bool(pair.ours.names) and not pair.theirs.names),
            *((own, lambda pair: pair.agrees) for own in groups.values()),
        ],
        draws,
    )
    return Agreement(
        agree=agree,
        facts=len({pair.fact for pair in pairs}),
        kappa=_kappa(pairs, draws),
        confusion=_confusion(pairs),
        groups=tuple(
            Group(by, name, share, _confusion(own))
            for ((by, name), own), share in zip(groups.items(), shares, strict=True)
        ),
        entities=entities,
        invented=invented,
        unclear=len(theirs) - len(clear),
        missing=len(clear) - len(pairs),
        disagreements=tuple(Disagreement(*pair) for pair in pairs if not pair.agrees),
    )


def _grouped(pairs: Sequence[_Pair]) -> dict[tuple[str, str], list[_Pair]]:
    """Return the pairs by model, by kind of reading, and by whether they were read one by one, where that differs."""
    found: dict[tuple[str, str], list[_Pair]] = {}
    both = len({pair.theirs.read for pair in pairs}) > 1
    for by, name in (
        ("model", lambda pair: pair.key[0]),
        ("kind", lambda pair: pair.kind),
        ("read", lambda pair: ("not read", "read one by one")[pair.theirs.read] if both else ""),
    ):
        for group in sorted({name(pair) for pair in pairs} - {""}):
            found[by, group] = [pair for pair in pairs if name(pair) == group]
    return found


def _confusion(pairs: Iterable[_Pair]) -> Confusion:
    return dict(sorted(Counter(pair.cell for pair in pairs).items()))


def _shares(parts: Sequence[tuple[Sequence[_Pair], Callable[[_Pair], bool]]], draws: int) -> list[Share]:
    """Return how many pairs of each list have its property, all with the same resamples of facts."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    from dyknow.statistics import bootstrap  # noqa: PLC0415 -- the command line starts without numpy

    facts = {fact: row for row, fact in enumerate(sorted({pair.fact for own, _ in parts for pair in own}))}
    hits, counted = np.zeros((2, len(facts), len(parts)))
    for column, (own, holds) in enumerate(parts):
        for pair in own:
            counted[facts[pair.fact], column] += 1
            hits[facts[pair.fact], column] += holds(pair)
    bounds = bootstrap(hits, counted, draws, alike=False) if facts else np.full((2, len(parts)), np.nan)
    return [
        Share(int(hits[:, column].sum()), len(own), *(float(bound) for bound in bounds[:, column]))
        if own
        else Share(0, 0)
        for column, (own, _) in enumerate(parts)
    ]


def _kappa(pairs: Sequence[_Pair], draws: int) -> Kappa:
    """Return agreement beyond what the classes' sizes give by chance (Cohen, 1960), its interval over facts."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    from dyknow.statistics import LEVEL, resamples  # noqa: PLC0415 -- the command line starts without numpy

    facts = {fact: row for row, fact in enumerate(sorted({pair.fact for pair in pairs}))}
    counts = np.zeros((len(facts), len(VERDICTS), len(VERDICTS)))
    for pair in pairs:
        counts[facts[pair.fact], VERDICTS.index(pair.theirs.verdict), VERDICTS.index(pair.ours.verdict)] += 1
    [value] = _kappas(counts.sum(axis=0, keepdims=True))
    if np.isnan(value):
        return Kappa(None)
    drawn = np.concatenate([_kappas(np.tensordot(weights, counts, 1)) for weights in resamples(len(facts), draws)])
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    lower, upper = np.quantile(drawn[~np.isnan(drawn)], tails)
    return Kappa(float(value), float(lower), float(upper))


def _kappas(tables: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return kappa of each of many tables, shape (n, classes, classes); nan where it has none."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    total = tables.sum(axis=(1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / total**2
        observed = np.trace(tables, axis1=1, axis2=2) / total
        found = (observed - chance) / (1 - chance)
    return np.where(chance < 1, found, np.nan)
