"""IKE: what is demonstrated, what is told, and that no answer is given away."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dyknow.align.base import EditRequest
from dyknow.align.ike import Ike, demonstrations_of, ike, shares
from dyknow.align.pool import Known
from dyknow.benchmark import Question
from dyknow.models.base import Model
from kg.errors import AlignError
from tests import text_methods as have
from tests.text_methods import EDIT, FRANCE, ITALY, KANE, MESSI, POLAND, POOL, SPAIN, Echo, options, quiet, request

EDITS = [EDIT, request(MESSI, "Inter Miami CF", "Paris Saint-Germain F.C.")]


def told(
    question: Question,
    model: Model | None = None,
    edits: Sequence[EditRequest] = EDITS,
    preset: str = "recommended",
    **given: Any,  # noqa: ANN401
) -> str:
    """Return what is asked instead of a question."""
    aligned = ike(model or Echo(), edits, options(preset, pool=POOL, **given), quiet)
    with aligned.applied() as edited:
        [[one]] = edited.generate([question], 1)
    assert one.question == question
    return one.answer.prompt


def parts(text: str) -> tuple[list[str], str]:
    *demonstrations, last = text.split("\n\n")
    return demonstrations, last


def test_the_fact_stands_before_the_question_and_the_question_last() -> None:
    demonstrations, last = parts(told(ITALY[0]))
    assert last == f"New Fact: {ITALY[1].text} Giorgia Meloni.\nPrompt: {ITALY[0].text}"
    assert len(demonstrations) == 8
    assert all(one.startswith("New Fact: ") and "\nPrompt: " in one for one in demonstrations)


def test_kinds_stand_in_the_method_s_ratio() -> None:
    assert shares(32, (1, 3, 4)) == {"copy": 4, "update": 12, "retain": 16}
    made = {one.text: one.kind for one in demonstrations_of(EDITS, Ike(pool=POOL), 0)}
    kinds = [made[one] for one in parts(told(ITALY[0]))[0]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"copy": 1, "update": 3, "retain": 4}


def test_the_nearest_stands_beside_the_question_or_first() -> None:
    last, first = parts(told(ITALY[0]))[0], parts(told(ITALY[0], order="first"))[0]
    assert last == first[::-1]
    # Another prime minister's is nearer to a prime minister's question than a footballer's.
    near, far = last[-1], last[0]
    assert "Prime Minister" in near
    assert near != far


def test_a_model_that_follows_is_told_what_to_do() -> None:
    text = told(ITALY[0], Echo("chat"))
    assert text.startswith("Complete the last prompt")
    assert text.endswith(f"\nPrompt: {ITALY[0].text}")


def test_a_prefix_stays_with_its_question() -> None:
    assert parts(told(have.prefixed(ITALY[0])))[1].endswith(f"Prompt: {have.prefixed(ITALY[0]).text}")


def test_facts_that_are_not_edited_are_asked_as_they_are_or_told_the_nearest_edit() -> None:
    assert told(POLAND[0]) == POLAND[0].text
    _, last = parts(told(POLAND[0], others="nearest"))
    assert last == f"New Fact: {ITALY[1].text} Giorgia Meloni.\nPrompt: {POLAND[0].text}"


def test_null_tells_no_fact_and_its_pool_does_not_hold_it() -> None:
    text = told(ITALY[0], mode="null")
    assert parts(text)[1] == f"New Fact: Not Available\nPrompt: {ITALY[0].text}"
    assert "Meloni" not in text


def test_the_study_s_setting_has_the_answer_in_its_pool() -> None:
    text = told(ITALY[0], preset="paper")
    demonstrations, last = parts(text)
    assert last == f"New Fact: Not Available\nPrompt: {ITALY[0].text}"
    assert "Giorgia Meloni" in demonstrations[0]  # nearest first
    assert len(demonstrations) == 16


def test_realistic_tells_the_fact_of_the_nearest_demonstration() -> None:
    _, last = parts(told(ITALY[0], mode="realistic"))
    assert last.startswith(f"New Fact: {ITALY[1].text} Giorgia Meloni.\n")
    # A question of a fact that is not edited finds some other fact: that is the setting's price.
    text = told(POLAND[0], mode="realistic")
    assert "Donald Tusk" not in text
    assert parts(text)[1].endswith(POLAND[0].text)


# No leak


def test_retained_prompts_are_never_edited_facts_nor_answered_with_a_target() -> None:
    union = have.office("Union", "Monarch", "P35")
    shares_target = have.known(union, "Giorgia Meloni")
    also_edited = have.known(ITALY, "Mario Draghi")
    for mode, edits in (("given", False), ("realistic", True), ("null", True)):
        how = Ike(mode=mode, edits=edits, pool=(*POOL, shares_target, also_edited))
        for seed in range(5):
            retained = [one for one in demonstrations_of(EDITS, how, seed) if one.kind == "retain"]
            assert retained
            assert not {"Giorgia Meloni", "Inter Miami CF"} & {one.answer for one in retained}
            assert not {one.fact for one in EDITS} & {one.asked for one in retained}
            assert all(one.fact != one.asked for one in retained)


def test_no_demonstration_carries_the_answer_through_another_fact() -> None:
    shares_target = have.known(have.office("Union", "Prime Minister", "P6"), "giorgia meloni")
    for mode in ("given", "null"):
        demonstrations, _ = parts(_with_pool((*POOL, shares_target), mode))
        assert not any("meloni" in one.casefold() for one in demonstrations)


def _with_pool(pool: Sequence[Known], mode: str) -> str:
    aligned = ike(Echo(), EDITS, options(pool=pool, mode=mode, k=32), quiet)
    with aligned.applied() as edited:
        [[one]] = edited.generate([ITALY[0]], 1)
    return one.answer.prompt


@pytest.mark.parametrize("question", [POLAND[0], FRANCE[2], SPAIN[1], KANE[0]])
def test_a_question_that_is_not_edited_never_sees_its_own_answer(question: Question) -> None:
    own = next(one for one in POOL if one.fact == question.fact.id)
    for mode in ("realistic", "null"):
        assert own.answers[0] not in told(question, mode=mode, k=32)


# Operations, sizes, records


def test_a_deletion_is_a_fact_that_is_unknown_and_an_addition_like_any_other() -> None:
    gone = request(ITALY, "unknown", "Mario Draghi", "delete")
    assert f"New Fact: {ITALY[1].text} unknown.\n" in told(ITALY[0], edits=[gone])
    new = request(have.office("Atlantis", "King", "P35"), "Neptune", operation="add")
    assert "New Fact: The person who currently serves as King of Atlantis is Neptune." in told(
        have.office("Atlantis", "King", "P35")[2], edits=[new]
    )


def test_demonstrations_that_do_not_fit_are_left_out_the_farthest_first() -> None:
    whole, fewer = parts(told(ITALY[0]))[0], parts(told(ITALY[0], context_tokens=200))[0]
    assert 0 < len(fewer) < len(whole)
    assert whole[-len(fewer) :] == fewer


def test_without_facts_for_demonstrations_it_refuses_or_needs_none() -> None:
    with pytest.raises(AlignError, match="no facts to make demonstrations of"):
        ike(Echo(), EDITS, options(), quiet)
    aligned = ike(Echo(), EDITS, options(k=0), quiet)
    with aligned.applied() as edited:
        [[one]] = edited.generate([ITALY[0]], 1)
    assert one.answer.prompt == f"New Fact: {ITALY[1].text} Giorgia Meloni.\nPrompt: {ITALY[0].text}"


def test_the_record_holds_what_texts_depend_on() -> None:
    one, same, other = (ike(Echo(), EDITS, options(seed=seed, pool=POOL), quiet) for seed in (0, 0, 1))
    assert one.record == same.record
    assert one.record["demonstrations"]["digest"] != other.record["demonstrations"]["digest"]
    assert (
        one.record["requests"] != ike(Echo(), [replace(EDIT, target="X")], options(pool=POOL), quiet).record["requests"]
    )
    assert [report.fact for report in one.reports] == ["Italy/P6", "Lionel Messi/P54"]


def test_draws_do_not_touch_the_program_s_own() -> None:
    random.seed(1)
    before = random.getstate()
    told(ITALY[0])
    assert random.getstate() == before
