"""Text put around questions, checks of requests, settings, and the control."""

from dataclasses import replace
from typing import Any, cast

import pytest

from dyknow.align import pool
from dyknow.align.base import Settings, Wording
from dyknow.align.context import Contextual, Room, Told, fitted, reworded, room_of
from dyknow.align.control import none
from dyknow.align.ike import ike
from dyknow.align.pool import check, known_facts
from dyknow.benchmark import load
from dyknow.prompts import Span
from kg import answers, identity
from kg.errors import AlignError
from kg.snapshot import find_snapshots
from kg.store import open_store
from tests.text_methods import EDIT, ITALY, MESSI, POLAND, Echo, options, prefixed, quiet


def test_answers_come_back_under_the_questions_as_they_were_asked() -> None:
    other = Echo(name="other")
    told = {ITALY[0].id: Told("Before.\n" + ITALY[0].text), MESSI[0].id: Told("To another. " + MESSI[0].text, other)}
    model = Contextual(Echo(), {"method": "test"}, lambda q: told.get(q.id, Told(q.text)))
    asked = [ITALY[0], MESSI[0], POLAND[0]]
    got = {one.question.id: one for batch in model.generate(asked, 2) for one in batch}
    assert [got[question.id].question for question in asked] == asked
    assert got[ITALY[0].id].answer.text == "echo: Before.\n" + ITALY[0].text
    assert got[MESSI[0].id].answer.text == "other: To another. " + MESSI[0].text
    assert got[POLAND[0].id].answer.text == "echo: " + POLAND[0].text
    assert model.name == "echo-test"
    assert model.info()["align"] == {"method": "test"}


def test_spans_move_with_the_question() -> None:
    moved = reworded(ITALY[0], "The Italy of old.\n" + ITALY[0].text)
    assert moved.subject_span.of(moved.text) == "Italy"
    assert moved.office_span is not None
    assert moved.office_span.of(moved.text) == "Prime Minister of Italy"
    assert moved.subject_span.start > len("The Italy of old.")


ROOM = Room(10, lambda question: len(question.text.split()))


def render(parts: object) -> str:
    return " ".join([*parts, "end"])  # type: ignore[misc]


def test_what_does_not_fit_is_left_out_from_the_last_part_on() -> None:
    assert fitted(ITALY[0], ["a b c", "d e f", "g h i j"], render, ROOM, cut=True) == "a b c d e f end"


def test_the_last_part_left_is_cut_between_words() -> None:
    text = fitted(ITALY[0], [" ".join(map(str, range(20))), "x"], render, ROOM, cut=True)
    assert text == "0 1 2 3 4 5 6 7 8 end"
    assert fitted(ITALY[0], [" ".join(map(str, range(20)))], render, ROOM, cut=False) == "end"


def test_what_cannot_fit_at_all_is_an_error() -> None:
    with pytest.raises(AlignError, match="does not fit into 3 tokens"):
        fitted(ITALY[0], ["a"], lambda _: "one two three four", ROOM._replace(tokens=3), cut=True)


def test_a_model_elsewhere_has_the_room_it_is_said_to_have() -> None:
    assert room_of(Echo()).holds(replace(ITALY[0], text="word " * 10**5))
    assert not room_of(Echo(), tokens=10).holds(replace(ITALY[0], text="word " * 20))


REFUSED = [
    ([], "no request was given"),
    ([EDIT, EDIT], "edited twice"),
    ([replace(EDIT, target=" ")], "has no target"),
    ([replace(EDIT, operation=cast(Any, "rename"))], "'rename' of Italy/P6 is no operation"),
    ([replace(EDIT, prompt=Wording("q", "Who is it", Span(5, 40)))], "subject of Italy/P6 is not in the prompt"),
    ([replace(EDIT, paraphrases=(Wording("q", "Who is it", Span(3, 3)),))], "subject of Italy/P6 is not in the prompt"),
]


@pytest.mark.parametrize(("requests", "says"), REFUSED)
def test_requests_that_cannot_be_worked_with_are_refused(requests: list[object], says: str) -> None:
    with pytest.raises(AlignError, match=says):
        check(requests)  # type: ignore[arg-type]


def test_unknown_presets_and_options_are_named() -> None:
    with pytest.raises(AlignError, match="no preset 'best'"):
        ike(Echo(), [EDIT], Settings("best"), quiet)
    with pytest.raises(AlignError, match="no option 'kk'"):
        ike(Echo(), [EDIT], options(kk=3), quiet)
    with pytest.raises(AlignError, match="order is 'middle'"):
        ike(Echo(), [EDIT], options(order="middle"), quiet)


def test_the_control_changes_nothing() -> None:
    aligned = none(Echo(), [EDIT], Settings(), quiet)
    with aligned.applied() as model:
        [[one]] = model.generate([ITALY[0]], 1)
    assert one.answer.text == "echo: " + ITALY[0].text
    assert aligned.record["method"] == "none"


def test_a_prefix_says_nothing_of_what_is_asked() -> None:
    assert pool.bare(prefixed(ITALY[0]).text) == ITALY[0].text


def test_known_facts_come_from_benchmark_and_snapshot() -> None:
    [snapshot] = [one for one in find_snapshots(None) if one.id == "2023-12-18"]
    graph, same = open_store(snapshot), identity.with_redirects(identity.load(), [snapshot])
    benchmark = load()
    sets = answers.answers(graph, same, 20231218)
    found = {one.fact: one for one in known_facts(benchmark.questions(), sets, without=["Q38/P35"])}
    assert found["Q36/P6"].answers == ("Donald Tusk",)
    assert [one.question for one in found["Q36/P6"].wordings] == ["Q36/P6#1", "Q36/P6#2", "Q36/P6#3"]
    assert "Q38/P35" not in found
    assert len(found) > 120
