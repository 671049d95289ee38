"""The answer sets that the study, and its follow-up on vision-language models, published.

Both are JSON: domain, subject, post, and a list of strings ``label |S: start |E: end |P: point in time``, without ids,
ranks or types. They are taken as they stand: what looks wrong is flagged in the manifest, never mended here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kg.dates import Day, Time, format_day, parse_time
from kg.errors import DataError
from kg.sources import Row, Source
from kg.sources.reviewed import extracts, posts, property_labels, teams
from kg.terms import EndKind


class Edition(NamedTuple):
    """One of the two files, recognised by its first domain."""

    date: Day
    description: str
    known: str | None
    dropped: tuple[str, ...]
    notes: tuple[str, ...]


_BOTH: Final = (
    "Precision is read from the zeros of a date: day 00 is a month, month 00 a year. A first of January may still "
    "stand for a year, as Wikidata writes some years so; it is taken as the day it says.",
    "The files carry no ids, ranks or types: every statement has normal rank, and a team's class and P31 come from a "
    "reviewed table.",
)

EDITIONS: Final[Mapping[str, Edition]] = {
    "countries_byGDP": Edition(
        date=20231218,
        description="The answer sets of the study 'Is Your LLM Outdated?' (DyKnow): Wikidata on 18 December 2023.",
        known=None,
        dropped=(),
        notes=(
            *_BOTH,
            "BP: Bernard Looney stands open although he left in September 2023; left as it stands.",
            "Canada, P35: Victoria stands until 1910, nine years after her death; left as it stands.",
        ),
    ),
    "countries": Edition(
        date=20251130,
        description="The answer sets of the follow-up on vision-language models (V-DyKnow): Wikidata in November 2025.",
        known="of November 2025; the day is not known, the last of the month stands for it",
        dropped=("national",),
        notes=(
            *_BOTH,
            "National teams were dropped from this source: that one is missing says nothing about it.",
            "For many facts only the newest statements are here. A history counts as full where the source of 18 "
            "December 2023 has the fact and every (holder, span of its start) it has, holders compared by the identity "
            "table and national teams left out, is here too; else as an extract. The decision is recorded in the "
            "reviewed table extracts.csv.",
            "BP: Bernard Looney stands open although he left in September 2023; left as it stands.",
        ),
    ),
}

# The study words the attribute of these domains in its questions only, so the property's label stands for it.
_POSTS_OF_FLAT: Final = {
    "athletes_byPayment": "member of sports team",
    "companies_byRevenue": "chief executive officer",
}

_PART: Final = re.compile(r"([SEP]):\s*(.*)", re.DOTALL)


def read(path: Path) -> Source:
    """Return the statements of one of the two published files.

    Raises:
        DataError: the file is not one of the two, names a post or a team that the reviewed tables lack, or has a
            statement that cannot be read.
    """
    content = _load(path)
    key = next(iter(content), "")
    if key not in EDITIONS:
        raise DataError(
            f"{path} is none of the published answer sets: its first key is {key!r}.",
            hint=f"Known: {', '.join(EDITIONS)}.",
        )
    edition = EDITIONS[key]
    partial = extracts(format_day(edition.date))
    rows = [row for fact in _facts(path, content) for row in _rows(path, fact, partial)]
    return Source(rows, "published", edition.description, edition.date, edition.known, edition.dropped, edition.notes)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise DataError(f"{path} is not an object of domains.")
    return content


class _Fact(NamedTuple):
    subject: str
    post: str
    property: str
    answers: list[str]


def _facts(path: Path, content: Mapping[str, Any]) -> Iterator[_Fact]:
    """Yield the facts of a file; several posts of one subject that are one property are one fact."""
    merged: dict[tuple[str, str], _Fact] = {}
    for subject, post, answers in _posts(path, content):
        prop = posts().get((subject, post)) or posts().get(("*", post))
        if prop is None:
            raise DataError(
                f"{path}: the post {post!r} of {subject!r} has no property.", hint="Add it to kg/data/posts.csv."
            )
        if (known := merged.get((subject, prop))) is None:
            merged[subject, prop] = _Fact(subject, post, prop, list(answers))
        else:
            known.answers.extend(answer for answer in answers if answer not in known.answers)
    yield from merged.values()


def _posts(path: Path, content: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for domain, subjects in content.items():
        for subject, entry in subjects.items():
            by_post = {_POSTS_OF_FLAT.get(domain, ""): entry} if "answers" in entry else entry
            for post, part in by_post.items():
                if post == "images":
                    continue
                answers = part.get("answers") if isinstance(part, dict) else None
                if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
                    raise DataError(f"{path}: {domain} / {subject} / {post} has no list of answers.")
                yield subject, post, answers


def _rows(path: Path, fact: _Fact, partial: frozenset[tuple[str, str]]) -> Iterator[Row]:
    for answer in fact.answers:
        label, times = _statement(path, fact, answer)
        team = teams().get(label) if fact.property == "P54" else None
        if fact.property == "P54" and team is None:
            raise DataError(f"{path}: the team {label!r} has no class.", hint="Add it to kg/data/teams.csv.")
        yield Row(
            subject=fact.subject,
            property=fact.property,
            holder=label,
            property_label=property_labels()[fact.property],
            office=fact.post,
            start=times.get("S"),
            end=times.get("E"),
            end_kind=EndKind.KNOWN if "E" in times else EndKind.OPEN,
            point=times.get("P"),
            team_class=team and team.team_class,
            instance_of=team and team.instance_of,
            whole=(fact.subject, fact.property) not in partial,
        )


def _statement(path: Path, fact: _Fact, answer: str) -> tuple[str, dict[str, Time]]:
    """Split ``label |S: … |E: … |P: …``; an empty part is a missing one."""
    label, *parts = answer.split("|")
    times: dict[str, Time] = {}
    where = f"{path}: {fact.subject} / {fact.post}: {answer!r}"
    if not label.strip():
        raise DataError(f"{where} names no holder.")
    for part in parts:
        match = _PART.fullmatch(part.strip())
        if match is None or match[1] in times:
            raise DataError(f"{where} has the part {part.strip()!r}.", hint="Parts are S:, E: and P:, each once.")
        if match[2]:
            try:
                times[match[1]] = parse_time(match[2])
            except DataError as error:
                raise DataError(f"{where}: {error.message}", hint=error.hint) from error
    return label.strip(), times
