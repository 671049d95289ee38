"""The report: one page, the same for the same input, safe whatever a model said."""

import re

from dyknow.analysis import Change, Inconsistency, Rates, Scores
from dyknow.report import Answer, Answers, Page, Source, render, shifts

NASTY = "<script>alert(1)</script> \"&' \x1b[31m\n</td>"


def _rates(domain: str, up: float, out: float) -> Rates:
    return Rates("one", f"One {NASTY}", 2024, True, domain, 4, 4, up, out, 100 - up - out, up, up, 0, 0)


def _scores(day: str, up: float, out: float) -> Scores:
    rows = (_rates("all", up, out), _rates("countries", up, out))
    return Scores(day, day, "match", "latest", rows, rows, (Inconsistency("one", "One", 2024, True, 4, 25.0),))


def _page() -> Page:
    first, last = _scores("2023-12-18", 75.0, 25.0), _scores("2025-11-30", 50.0, 50.0)
    change = Change("Q36/P6", "countries", "Poland", "Prime Minister", NASTY, "up-to-date", "outdated")
    answer = Answer("Q36/P6#1", "countries", "Poland", "Prime Minister", "1", NASTY, ())
    answers = Answers("one", {"seed": NASTY}, (answer.judged("up-to-date", NASTY).judged("outdated", "x"),))
    source = Source("2023-12-18", "ab" * 32, "a source", None)
    return Page((first, last), (shifts(first.table1[0], [change]),), (answers,), (source,))


def test_whatever_a_model_said_is_text() -> None:
    page = render(_page())
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page


def test_it_needs_nothing_from_elsewhere() -> None:
    page = render(_page())
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_the_same_input_gives_the_same_page() -> None:
    assert render(_page()) == render(_page())


def test_it_says_what_changed() -> None:
    page = render(_page())
    assert "1 of One" in page
    assert "75 % up to date became 50 %" in page
