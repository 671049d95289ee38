"""The days of a report: the stops of its slider, and how a day is said in words."""

from collections.abc import Iterable
from typing import Final

from dyknow.report.data import Model
from kg.dates import format_day, parse_day, split_day

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_BEFORE: Final = 4
"""Years that the slider begins before the first model came out: what a model says is older than the model."""


def in_words(day: str) -> str:
    """Return an ISO date as a person says it.

    >>> in_words("2023-12-18")
    '18 December 2023'
    """
    year, month, number = split_day(parse_day(day))
    return f"{number} {_MONTHS[month - 1]} {year}"


def month_in_words(day: str) -> str:
    """Return the month of an ISO date in words.

    >>> month_in_words("2021-09-01")
    'September 2021'
    """
    year, month, _ = split_day(parse_day(day))
    return f"{_MONTHS[month - 1]} {year}"


def stops(models: Iterable[Model], days: Iterable[str], snapshots: Iterable[str]) -> tuple[str, ...]:
    """Return the stops of the slider: the first of every month, and the days something hangs on.

    Args:
        models: their days of release are stops, and the days they seem to answer from.
        days: ISO dates that were asked about.
        snapshots: ISO dates of the snapshots; the slider ends with the last day of all of these.
    """
    asked = {*days, *snapshots}
    releases = {model.released for model in models if model.released}
    known = {model.known.day for model in models if model.known}
    last = max(asked)
    first = min([*asked, *releases])
    begin = min(int(first[:4]) - (_BEFORE if first in releases else 1), int(last[:4]) - _BEFORE)
    months = (f"{year:04}-{month:02}-01" for year in range(begin, int(last[:4]) + 1) for month in range(1, 13))
    floor = f"{begin:04}-01-01"
    return tuple(sorted(day for day in {*asked, *releases, *known, *months} if floor <= day <= last))


def iso(day: int) -> str:
    """Return a day as ISO writes it."""
    return format_day(day)
