"""A table of facts: a CSV file that anyone can write.

One statement a line. Columns, in any order:

==============  ====================================================================================================
subject         English label of what the fact is about (required)
property        Wikidata's property, e.g. P35 (required)
holder          English label of the value, or ``no value`` (nobody), or ``unknown value`` (required)
start           when it began; empty where unrecorded, or ``unknown value`` (required)
end             when it ended; empty where it has not, ``no value`` where the source says so, or ``unknown value``
                (required)
subject_id      the subject's Wikidata id, e.g. Q38
holder_id       the holder's Wikidata id
property_label  English label of the property
office          title of the office, e.g. President of Italy
point           a point in time, where the statement has one instead of a start
rank            normal (also where empty), preferred or deprecated
team_class      club, national or racing, for a team; empty takes it from the reviewed table of teams
instance_of     the team's class in Wikidata, e.g. Q476028
history         full (also where empty) or extract: whether the table has the fact's whole history
aliases         other English names of the holder, separated by |
==============  ====================================================================================================

A date is as precise as it is written: ``2015``, ``2015-03``, ``2015-03-04``. Anything else Wikidata can say is written
as Wikidata does, with the precision after a slash: ``+1900-00-00T00:00:00Z/7`` is a century,
``-0044-03-15T00:00:00Z/11`` a day before Christ.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kg.dates import Time, parse_time
from kg.errors import DataError
from kg.sources import Row, Source
from kg.sources.csvfile import read_lines
from kg.sources.reviewed import Team, property_labels, teams
from kg.terms import EndKind

REQUIRED: Final = ("subject", "property", "holder", "start", "end")
OPTIONAL: Final = (
    "subject_id",
    "holder_id",
    "property_label",
    "office",
    "point",
    "rank",
    "team_class",
    "instance_of",
    "history",
    "aliases",
)

_NO_VALUE, _UNKNOWN = EndKind.NO_VALUE.value, EndKind.UNKNOWN.value
_CHOICES: Final = {
    "rank": ("", "normal", "preferred", "deprecated"),
    "team_class": ("", "club", "national", "racing"),
    "history": ("", "full", "extract"),
}
_PATTERNS: Final = {
    "property": r"P[1-9]\d*",
    "subject_id": r"(Q[1-9]\d*)?",
    "holder_id": r"(Q[1-9]\d*)?",
    "instance_of": r"(Q[1-9]\d*)?",
}
_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")


def read(path: Path) -> Source:
    """Return the statements of a fact table.

    Raises:
        DataError: the file is no such table; the message names the file, the line and the value.
    """
    rows = []
    for line, cells in read_lines(path, REQUIRED, OPTIONAL):
        try:
            rows.append(_row(cells))
        except DataError as error:
            raise DataError(f"{path}, line {line}: {error.message}", hint=error.hint) from error
    if not rows:
        raise DataError(f"{path} has no statements.")
    return Source(rows, "table", f"The fact table {path.name}.")


def _row(cells: Mapping[str, str]) -> Row:
    _check(cells)
    holder, prop = cells["holder"], cells["property"]
    team = teams().get(holder, Team("", "")) if prop == "P54" else Team("", "")
    return Row(
        subject=cells["subject"],
        property=prop,
        holder=None if holder in (_NO_VALUE, _UNKNOWN) else holder,
        subject_id=cells["subject_id"] or None,
        holder_id=cells["holder_id"] or None,
        holder_unknown=holder == _UNKNOWN,
        property_label=cells["property_label"] or property_labels().get(prop),
        office=cells["office"] or None,
        start=_time("start", cells["start"], _UNKNOWN),
        start_unknown=cells["start"] == _UNKNOWN,
        end=_time("end", cells["end"], _NO_VALUE, _UNKNOWN),
        end_kind=_end_kind(cells["end"]),
        point=_time("point", cells["point"]),
        rank=cells["rank"] or "normal",
        team_class=cells["team_class"] or team.team_class or None,
        instance_of=cells["instance_of"] or team.instance_of or None,
        aliases=tuple(name.strip() for name in cells["aliases"].split("|") if name.strip()),
        whole=cells["history"] != "extract",
    )


def _check(cells: Mapping[str, str]) -> None:
    for column in ("subject", "holder"):
        if not cells[column]:
            raise DataError(f"the {column} is empty.")
    for column, pattern in _PATTERNS.items():
        if not re.fullmatch(pattern, cells[column]):
            raise DataError(f"the {column} {cells[column]!r} is not like {'P35' if column == 'property' else 'Q38'}.")
    for column, choices in _CHOICES.items():
        if cells[column] not in choices:
            raise DataError(f"the {column} {cells[column]!r} is unknown.", hint=f"Known: {', '.join(choices[1:])}.")


def _end_kind(text: str) -> EndKind:
    if text in (_NO_VALUE, _UNKNOWN):
        return EndKind(text)
    return EndKind.KNOWN if text else EndKind.OPEN


def _time(column: str, text: str, *words: str) -> Time | None:
    """Return the time of a cell; None where it is empty or one of the words that stand for none."""
    if not text or text in words:
        return None
    if match := _DATE.fullmatch(text):
        year, month, day = match.groups(default="00")
        value, precision = f"+{year}-{month}-{day}T00:00:00Z", 9 + (month != "00") + (day != "00")
        if "-00" in text:
            raise DataError(f"the {column} {text!r} is not a date.", hint="Leave out what is unknown: 2015, 2015-03.")
        return parse_time(value, precision)
    value, slash, digits = text.partition("/")
    if not (slash and digits.isdecimal()):
        raise DataError(
            f"the {column} {text!r} is not a date.", hint="Write 2015, 2015-03, 2015-03-04 or time/precision."
        )
    return parse_time(value, int(digits))
