"""A Wikidata time as what it says: a span of days.

Days are integers, year * 10000 + month * 100 + day, with astronomical years (the year before 1 is 0, then -1): they
order as the days do, in Python, in SPARQL and in SQL, and they reach beyond the years 1 to 9999.

>>> parse_time("+2015-00-00T00:00:00Z", 9).span
(20150101, 20151231)
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from kg.errors import DataError, UsageError
from kg.terms import GREGORIAN, JULIAN, WDV

Day = int
Span = tuple[Day, Day]
"""The earliest and the latest day that is meant, both included."""

YEAR, MONTH, DAY = 9, 10, 11
"""Wikidata's precisions; below 9 stand 8 decades, 7 centuries, 6 millennia … 0 thousands of millions of years."""

_TIME: Final = re.compile(r"([+-])(\d+)-(\d\d)-(\d\d)T\d\d:\d\d:\d\dZ?")
_DAY: Final = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)")


@dataclass(frozen=True)
class Time:
    """A time value of Wikidata, as it stands there, and the days it can mean.

    Attributes:
        text: The value as Wikidata's JSON writes it, e.g. ``+2015-00-00T00:00:00Z``.
        precision: Wikidata's precision, 0 to 14.
        calendar: IRI of the calendar the value is written in.
        span: The earliest and the latest day. A Julian value is turned into a Gregorian one at day precision only, as
            Wikidata's RDF does; a coarser one is too vague for ten days to matter.
        timezone: Kept, as the two below, because it is part of the value node's name; it shifts no day.
        before: Likewise.
        after: Likewise.
    """

    text: str
    precision: int
    calendar: str
    span: Span
    timezone: int = 0
    before: int = 0
    after: int = 0

    @property
    def is_day(self) -> bool:
        """Whether it names one day."""
        return self.span[0] == self.span[1]

    @property
    def rdf(self) -> str:
        """The lexical form of the xsd:dateTime that Wikidata's RDF has for it.

        >>> parse_time("+2015-00-00T00:00:00Z", 9).rdf, parse_time("-0387-00-00T00:00:00Z", 9).rdf
        ('2015-01-01T00:00:00Z', '-0386-01-01T00:00:00Z')
        """
        year, month, day = _parts(self.text)
        if self.precision >= DAY and self.is_day:
            year, month, day = split_day(self.span[0])
        elif self.precision >= YEAR and year < 0:
            year += 1  # XSD 1.1 counts the year before 1 as 0; Wikidata does not shift what is coarser than a year
        if self.precision <= YEAR:
            month = day = 1
        sign = "-" if year < 0 else ""
        day = min(max(day, 1), days_in_month(year, max(month, 1)))
        return f"{sign}{abs(year):04d}-{max(month, 1):02d}-{day:02d}T00:00:00Z"

    @cached_property
    def node(self) -> str:
        """The IRI of its value node in Wikidata's RDF: the MD5 of the value as PHP serialises it."""
        fields = [self.text, self.timezone, self.before, self.after, self.precision, self.calendar]
        value = json.dumps(fields, separators=(",", ":")).replace("/", "\\/")
        text = f'C:20:"DataValues\\TimeValue":{len(value)}:{{{value}}}'
        return WDV + hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    def __str__(self) -> str:
        """Return the span as a reader writes it: "2015", "2015-03", "2015-03-04"."""
        return format_span(*self.span)


def parse_time(text: str, precision: int | None = None, calendar: str = GREGORIAN) -> Time:
    """Return the time that Wikidata writes as ``text``.

    Args:
        text: e.g. ``+2015-03-00T00:00:00Z``; years of any length, the final Z may be missing.
        precision: Wikidata's precision; None takes it from the zeros: day 00 a month, month 00 a year.
        calendar: IRI of the calendar model.

    Raises:
        DataError: the text is no time, no such day exists, or the precision or the calendar is unknown.

    >>> str(parse_time("+00000002012-03-18T00:00:00Z", 11))
    '2012-03-18'
    """
    if not _TIME.fullmatch(text):
        raise DataError(
            f"{text!r} is not a time.", hint="Wikidata writes +2015-03-04T00:00:00Z; 00 stands for an unknown part."
        )
    if calendar not in (GREGORIAN, JULIAN):
        raise DataError(f"The calendar {calendar!r} of {text!r} is unknown.")
    year, month, day = _parts(text)
    finest = DAY if day and month else MONTH if month else YEAR
    if precision is None:
        precision = finest
    if not 0 <= precision <= 14:
        raise DataError(f"The precision {precision} of {text!r} is not between 0 and 14.")
    span = (
        _years(year, 10 ** (YEAR - precision))
        if precision < YEAR
        else _span(year, month if precision > YEAR else 0, day if precision > MONTH else 0, calendar)
    )
    if span is None:
        raise DataError(f"{text!r} is no day of the calendar.")
    return Time(text if text.endswith("Z") else text + "Z", precision, calendar, span)


def time_from_json(value: Mapping[str, Any]) -> Time:
    """Return the time of the ``value`` of a snak of Wikidata's JSON.

    Its ``timezone``, ``before`` and ``after`` are unused in Wikidata: they are kept, and change no day.

    Raises:
        DataError: as `parse_time`.
    """
    time = parse_time(str(value["time"]), int(value["precision"]), str(value.get("calendarmodel", GREGORIAN)))
    timezone, before, after = (int(value.get(name, 0)) for name in ("timezone", "before", "after"))
    return replace(time, timezone=timezone, before=before, after=after)


def time_from_rdf(lexical: str, precision: int, calendar: str = GREGORIAN) -> Time:
    """Return the time of a value node of Wikidata's RDF; its span is that of the JSON value it was made from.

    The text is only like the JSON's: RDF writes 2015-01-01 for the year 2015, and a Julian day as the Gregorian one.

    Args:
        lexical: the xsd:dateTime, e.g. ``2015-01-01T00:00:00Z``.
        precision: Wikidata's precision.
        calendar: IRI of the calendar model.

    Raises:
        DataError: as `parse_time`.

    >>> time_from_rdf("-0386-01-01T00:00:00Z", 9).span == parse_time("-0387-00-00T00:00:00Z", 9).span
    True
    """
    sign, text = ("-", lexical[1:]) if lexical.startswith("-") else ("+", lexical.removeprefix("+"))
    year, hyphen, rest = text.partition("-")
    if precision >= YEAR and year.isdecimal() and (sign == "-" or not int(year)):
        sign, year = "-", f"{int(year) + 1:04d}"  # back to years without a year 0, as JSON counts them
    # A day has been turned into a Gregorian one already.
    return parse_time(f"{sign}{year}{hyphen}{rest}", precision, GREGORIAN if precision >= DAY else calendar)


def _parts(text: str) -> tuple[int, int, int]:
    """Return year (negative before Christ, as written: no year 0), month and day."""
    match = _TIME.fullmatch(text)
    assert match is not None
    sign, year, month, day = match.groups()
    return (-int(year) if sign == "-" else int(year)), int(month), int(day)


def _span(year: int, month: int, day: int, calendar: str) -> Span | None:
    """Return the days of a year, a month or a day, where month and day may be 0; None where there is no such day."""
    year = _astronomical(year)
    if not month:
        return join_day(year, 1, 1), join_day(year, 12, 31)
    if month > 12:
        return None
    if not day:
        return join_day(year, month, 1), join_day(year, month, days_in_month(year, month))
    if day > (_julian_days_in_month if calendar == JULIAN else days_in_month)(year, month):
        return None
    value = (julian_to_gregorian if calendar == JULIAN else join_day)(year, month, day)
    return value, value


def _years(year: int, unit: int) -> Span:
    """Return the span of a decade, century or longer: the union of its two readings.

    "1900, to the century" may mean 1801 to 1900 or 1900 to 1999; Wikidata does not say.
    """
    size = max(abs(year), 1)
    nth = -(-size // unit)
    first = max(min(unit * (nth - 1) + 1, size // unit * unit), 1)
    last = max(unit * nth, size // unit * unit + unit - 1)
    if year < 0:
        first, last = -last, -first
    return join_day(_astronomical(first), 1, 1), join_day(_astronomical(last), 12, 31)


def _astronomical(year: int) -> int:
    """Turn a year as historians count, -1 before 1, into one where 0 lies between."""
    return year + 1 if year < 0 else year


def join_day(year: int, month: int, day: int) -> Day:
    """Return the integer of a day.

    >>> join_day(2015, 3, 4), join_day(-43, 3, 15)
    (20150304, -429685)
    """
    return year * 10000 + month * 100 + day


def split_day(day: Day) -> tuple[int, int, int]:
    """Return astronomical year, month and day of the month.

    >>> split_day(-429685)
    (-43, 3, 15)
    """
    year, rest = divmod(day, 10000)
    return year, *divmod(rest, 100)


def days_in_month(year: int, month: int) -> int:
    """Return the length of a month in the Gregorian calendar, extended to all years."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _julian_days_in_month(year: int, month: int) -> int:
    return 29 if month == 2 and year % 4 == 0 else days_in_month(2015, month)


def next_day(day: Day) -> Day:
    """Return the day after.

    >>> next_day(20231231), next_day(20240228), next_day(19000228), next_day(-8769)
    (20240101, 20240229, 19000301, 101)
    """
    year, month, number = split_day(day)
    if number < days_in_month(year, month):
        return day + 1
    return join_day(year, month + 1, 1) if month < 12 else join_day(year + 1, 1, 1)


def julian_to_gregorian(year: int, month: int, day: int) -> Day:
    """Return the Gregorian day of a day of the Julian calendar, by the count of days they share.

    >>> julian_to_gregorian(1699, 8, 25)
    16990904
    """
    # Fliegel and Van Flandern's integer formulas; years start in March so that the leap day comes last.
    shift = (14 - month) // 12
    y, m = year + 4800 - shift, month + 12 * shift - 3
    number = day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32083  # the Julian day number
    a = number + 32044
    b = (4 * a + 3) // 146097
    c = a - 146097 * b // 4
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return join_day(100 * b + d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1)


def parse_day(text: str) -> Day:
    """Return the integer of an ISO day; years before 1 are astronomical, with a minus sign.

    Raises:
        UsageError: the text is not a day of the calendar.

    >>> parse_day("2023-12-18"), parse_day("-0043-03-15")
    (20231218, -429685)
    """
    match = _DAY.fullmatch(text)
    if match is None or not text.isascii():
        raise UsageError(f"{text!r} is not a date.", hint="Write it as 2023-12-18.")
    year, month, day = (int(part) for part in match.groups())
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month)):
        raise UsageError(f"There is no day {text}.", hint="Write a day of the calendar, as 2023-12-18.")
    return join_day(year, month, day)


def format_day(day: Day) -> str:
    """Return a day as ISO writes it; the inverse of `parse_day`.

    >>> format_day(20231218), format_day(-429685)
    ('2023-12-18', '-0043-03-15')
    """
    year, month, number = split_day(day)
    return f"{_year(year)}-{month:02d}-{number:02d}"


def _year(year: int) -> str:
    return f"-{-year:04d}" if year < 0 else f"{year:04d}"


def format_span(earliest: Day, latest: Day) -> str:
    """Return a span as short as it can be said.

    >>> format_span(20150101, 20151231), format_span(20150301, 20150331), format_span(20150304, 20150304)
    ('2015', '2015-03', '2015-03-04')
    >>> format_span(18010101, 19991231), format_span(20150304, 20150401)
    ('1801…1999', '2015-03-04…2015-04-01')
    """
    if earliest == latest:
        return format_day(earliest)
    (year1, month1, day1), (year2, month2, day2) = split_day(earliest), split_day(latest)
    if (month1, day1, month2, day2) == (1, 1, 12, 31):
        return _year(year1) if year1 == year2 else f"{_year(year1)}…{_year(year2)}"
    if (year1, month1, day1) == (year2, month2, 1) and day2 == days_in_month(year2, month2):
        return f"{_year(year1)}-{month1:02d}"
    return f"{format_day(earliest)}…{format_day(latest)}"
