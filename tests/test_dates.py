"""Times of Wikidata: the cases that break naive code, and the oracle of real documents."""

import datetime
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.dates import (
    Time,
    days_in_month,
    format_day,
    format_span,
    join_day,
    julian_to_gregorian,
    next_day,
    parse_day,
    parse_time,
    split_day,
    time_from_json,
)
from kg.errors import DataError, UsageError
from kg.terms import GREGORIAN, JULIAN

days = st.builds(
    lambda year, month, day: join_day(year, month, min(day, days_in_month(year, month))),
    st.integers(-20_000, 20_000),
    st.integers(1, 12),
    st.integers(1, 31),
)

SPANS = [
    ("+2015-00-00T00:00:00Z", 9, (20150101, 20151231), "a year with zeros"),
    ("+1998-01-01T00:00:00Z", 9, (19980101, 19981231), "a year written with a month and a day"),
    ("+1998-07-15T00:00:00Z", 9, (19980101, 19981231), "a year written with any month and day"),
    ("+2001-11-01T00:00:00Z", 10, (20011101, 20011130), "a month written with a day"),
    ("+2025-01-00T00:00:00Z", 10, (20250101, 20250131), "a month keeps its month"),
    ("+2016-02-00T00:00:00Z", 10, (20160201, 20160229), "a month of a leap year"),
    ("+2023-12-18T00:00:00Z", 11, (20231218, 20231218), "a day"),
    ("+2023-12-18T00:00:00Z", 14, (20231218, 20231218), "finer than a day is the day"),
    ("+2023-12-00T00:00:00Z", 11, (20231201, 20231231), "day precision without a day is a month"),
    ("+1900-00-00T00:00:00Z", 7, (18010101, 19991231), "a century, in both readings"),
    ("+1950-00-00T00:00:00Z", 7, (19000101, 20001231), "a century named by a year inside"),
    ("+2010-00-00T00:00:00Z", 8, (20010101, 20191231), "a decade, in both readings"),
    ("+2000-00-00T00:00:00Z", 6, (10010101, 29991231), "a millennium, in both readings"),
    ("+0050-00-00T00:00:00Z", 7, (10101, 1001231), "the first century does not begin before year 1"),
    ("-0100-00-00T00:00:00Z", 7, (-1980000 + 101, 1231), "a century before Christ"),
    ("-4500000000-00-00T00:00:00Z", 0, None, "thousands of millions of years"),
    ("+00000002012-03-18T00:00:00Z", 11, (20120318, 20120318), "eleven digits"),
    ("+12025-01-01T00:00:00Z", 11, (120250101, 120250101), "beyond the year 9999"),
    ("-0044-03-15T00:00:00Z", 11, (join_day(-43, 3, 15),) * 2, "44 before Christ is the year -43"),
    ("-0001-00-00T00:00:00Z", 9, (101, 1231), "1 before Christ is the year 0"),
]


@pytest.mark.parametrize(("text", "precision", "span", "why"), SPANS, ids=[case[3] for case in SPANS])
def test_span(text: str, precision: int, span: tuple[int, int] | None, why: str) -> None:
    time = parse_time(text, precision)
    assert time.span[0] <= time.span[1], why
    if span is not None:
        assert time.span == span, why


RDF = [
    ("+2015-00-00T00:00:00Z", 9, GREGORIAN, "2015-01-01T00:00:00Z"),
    ("+1998-07-15T00:00:00Z", 9, GREGORIAN, "1998-01-01T00:00:00Z"),
    ("+1990-11-00T00:00:00Z", 10, GREGORIAN, "1990-11-01T00:00:00Z"),
    ("-0387-00-00T00:00:00Z", 9, GREGORIAN, "-0386-01-01T00:00:00Z"),
    ("-0100-00-00T00:00:00Z", 7, GREGORIAN, "-0100-01-01T00:00:00Z"),
    ("+12025-01-01T00:00:00Z", 11, GREGORIAN, "12025-01-01T00:00:00Z"),
    ("+1699-08-25T00:00:00Z", 11, JULIAN, "1699-09-04T00:00:00Z"),
    ("+1699-08-00T00:00:00Z", 10, JULIAN, "1699-08-01T00:00:00Z"),
    ("+1900-02-29T00:00:00Z", 11, JULIAN, "1900-03-13T00:00:00Z"),
]


@pytest.mark.parametrize(("text", "precision", "calendar", "expected"), RDF)
def test_rdf_form(text: str, precision: int, calendar: str, expected: str) -> None:
    assert parse_time(text, precision, calendar).rdf == expected


def test_coarse_values_written_differently_are_one_span_and_two_nodes() -> None:
    zeros, real = parse_time("+1998-00-00T00:00:00Z", 9), parse_time("+1998-01-01T00:00:00Z", 9)
    assert zeros.span == real.span
    assert zeros.node != real.node


def test_precision_is_read_from_zeros_where_none_is_given() -> None:
    texts = ("+2015-00-00T00:00:00Z", "+2015-03-00T00:00:00", "+2015-03-04T00:00:00Z")
    assert [parse_time(text).precision for text in texts] == [9, 10, 11]
    assert parse_time("+2015-03-00T00:00:00").text == "+2015-03-00T00:00:00Z"


def test_time_zone_before_and_after_shift_no_day() -> None:
    value = {"time": "+2015-03-04T00:00:00Z", "precision": 11, "calendarmodel": GREGORIAN}
    plain, odd = time_from_json(value), time_from_json({**value, "timezone": 60, "before": 1, "after": 1})
    assert (odd.span, odd.rdf) == (plain.span, plain.rdf)
    assert odd.node != plain.node  # Wikidata names the value node by all fields


def test_no_value_of_a_leap_day_is_lost() -> None:
    assert parse_time("+1900-02-29T00:00:00Z", 11, JULIAN).span == (19000313, 19000313)
    with pytest.raises(DataError, match="no day of the calendar"):
        parse_time("+1900-02-29T00:00:00Z", 11)


@pytest.mark.parametrize(
    "text", ["", "2015", "2015-01-01", "+2015-13-00T00:00:00Z", "+2014-02-30T00:00:00Z", "+2015-01-01", "x" * 9]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=re.escape(repr(text))):
        parse_time(text)


def test_unknown_precision_and_calendar_are_refused() -> None:
    with pytest.raises(DataError, match="precision 15"):
        parse_time("+2015-01-01T00:00:00Z", 15)
    with pytest.raises(DataError, match="calendar"):
        parse_time("+2015-01-01T00:00:00Z", 11, "http://www.wikidata.org/entity/Q1")


@given(days)
def test_a_day_round_trips(day: int) -> None:
    assert parse_day(format_day(day)) == day
    assert join_day(*split_day(day)) == day
    assert format_span(day, day) == format_day(day)


@given(days)
def test_the_next_day_is_the_smallest_later_one(day: int) -> None:
    year, month, number = split_day(following := next_day(day))
    assert following > day
    assert 1 <= number <= days_in_month(year, month)
    assert (number == 1) != (following == day + 1)


@given(st.dates(max_value=datetime.date(9999, 12, 30)))
def test_the_next_day_is_the_calendars(date: datetime.date) -> None:
    following = date + datetime.timedelta(days=1)
    assert next_day(join_day(date.year, date.month, date.day)) == join_day(
        following.year, following.month, following.day
    )


@given(st.integers(-8000, 8000), st.integers(1, 12), st.integers(1, 28))
def test_the_julian_calendar_keeps_the_order_of_days(year: int, month: int, day: int) -> None:
    today = julian_to_gregorian(year, month, day)
    assert next_day(today) == julian_to_gregorian(year, month, day + 1) or (month == 2 and day == 28)


@given(st.dates(datetime.date(200, 3, 1), datetime.date(300, 2, 28)))
def test_the_calendars_agree_in_the_third_century(date: datetime.date) -> None:
    assert julian_to_gregorian(date.year, date.month, date.day) == join_day(date.year, date.month, date.day)


@given(days, st.sampled_from([9, 10, 11]))
def test_a_coarser_span_holds_the_finer_ones(day: int, precision: int) -> None:
    year, month, number = split_day(day)
    if year < 1:
        return
    text = f"+{year:04d}-{month:02d}-{number:02d}T00:00:00Z"
    coarse, fine = parse_time(text, precision).span, parse_time(text, 11).span
    assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]
    assert parse_time(text, 7).span[0] <= coarse[0]


@pytest.mark.parametrize(
    "text",
    [
        "2023-2-1",
        "2023-02-29",
        "2023-00-01",
        "2023-13-01",
        "23-01-01",
        "2023-01-01T00",
        "today",
        " ",
        "２０２３-01-01",
    ],
)
def test_a_date_is_read_strictly(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        parse_day(text)


def _times(node: object) -> list[Time]:
    """Return every time value inside a JSON document."""
    if isinstance(node, list):
        return [time for part in node for time in _times(part)]
    if not isinstance(node, dict):
        return []
    if node.get("type") == "time" and isinstance(node.get("value"), dict):
        return [time_from_json(node["value"])]
    return [time for part in node.values() for time in _times(part)]


def test_every_time_node_of_real_turtle_is_named_and_written_alike(shared: Path) -> None:
    pattern = re.compile(r'^wdv:(\w+) a wikibase:TimeValue ;\s+wikibase:timeValue "([^"]+)"', re.MULTILINE)
    count = 0
    for path in sorted((shared / "wikidata" / "entitybase-backend").glob("Q*.json")):
        times = _times(json.loads(path.read_text(encoding="utf-8")))
        ours = {(time.node.rsplit("/", 1)[1], time.rdf) for time in times}
        theirs = set(pattern.findall(path.with_suffix(".ttl").read_text(encoding="utf-8")))
        assert theirs <= ours, path.name
        count += len(theirs)
    assert count == 240


def test_every_time_of_the_handed_documents_is_read(shared: Path) -> None:
    paths = [*(shared / "wikidata").glob("*/Q*.json")]
    times = [time for path in paths for time in _times(json.loads(path.read_text(encoding="utf-8")))]
    assert len(times) > 1000
    assert all(time.span[0] <= time.span[1] and time.rdf for time in times)
