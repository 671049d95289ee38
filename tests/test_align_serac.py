"""SERAC: who answers what, the threshold, and that nothing else is touched."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dyknow.align.base import Wording
from dyknow.align.context import TextAligned
from dyknow.align.pool import Known
from dyknow.align.scope import (
    DEFAULT_THRESHOLD,
    Head,
    Scope,
    Tuned,
    cosine,
    pairs,
    required,
    train,
    tune,
    words_of,
)
from dyknow.align.serac import serac
from dyknow.benchmark import Question
from dyknow.models.base import Model
from dyknow.prompts import Span
from kg.errors import AlignError
from tests import text_methods as have
from tests.text_methods import (
    EDIT,
    FRANCE,
    ITALY,
    ITALY_HEAD,
    KANE,
    MESSI,
    POLAND,
    POOL,
    SALAH,
    SPAIN,
    Bag,
    Echo,
    quiet,
)

EDITS = [EDIT, have.request(MESSI, "Inter Miami CF", "Paris Saint-Germain F.C.")]
COSINE: dict[str, Any] = {"classifier": "cosine", "calibration": POOL}
FIXED: dict[str, Any] = {"threshold": 0.3, "test": "names"}


def aligned(model: Model | None = None, preset: str = "recommended", **given: Any) -> TextAligned:  # noqa: ANN401
    settings = have.options(preset, **{**COSINE, **given})
    found = serac(model or Echo(), EDITS, settings, quiet)
    assert isinstance(found, TextAligned)
    return found


def asked(question: Question) -> tuple[str, str]:
    """Return who answers a question, and what it is asked."""
    with aligned(counterfactual=Echo(name="small"), **FIXED).applied() as model:
        [[one]] = model.generate([question], 1)
    assert one.question == question
    who, _, text = (one.answer.text or "").partition(": ")
    assert text == one.answer.prompt
    return who, text


@pytest.mark.parametrize("question", [*ITALY, *MESSI])
def test_what_an_edit_is_about_goes_to_the_counterfactual_model(question: Question) -> None:
    who, text = asked(question)
    assert who == "small"
    fact = "Giorgia Meloni" if question in ITALY else "Inter Miami CF"
    assert text.count(fact) == 2
    assert text.splitlines()[-1] == question.text


@pytest.mark.parametrize("question", [*POLAND, *FRANCE, *SPAIN, *ITALY_HEAD, *SALAH, *KANE])
def test_everything_else_goes_to_the_model_word_for_word(question: Question) -> None:
    assert asked(question) == ("echo", question.text)
    assert asked(have.prefixed(question)) == ("echo", have.prefixed(question).text)


def test_a_prefix_is_no_part_of_what_is_compared() -> None:
    who, text = asked(have.prefixed(ITALY[0]))
    assert who == "small"
    assert text.endswith(have.prefixed(ITALY[0]).text)


def test_the_model_itself_can_be_the_counterfactual_one() -> None:
    with aligned().applied() as model:
        [[one]] = model.generate([ITALY[0]], 1)
    assert (one.answer.text or "").startswith("echo: The person who currently serves as")
    assert aligned().record["counterfactual"] is None
    assert aligned(counterfactual=Echo(name="small")).record["counterfactual"]["name"] == "small"


def test_a_model_that_follows_is_told_to_answer_with_the_name() -> None:
    with aligned(Echo("chat")).applied() as model:
        [[one]] = model.generate([ITALY[0]], 1)
    assert one.answer.prompt.endswith(f"Answer with the name only, as said above.\n{ITALY[0].text}")


def test_a_deletion_answers_unknown() -> None:
    gone = have.request(ITALY, "unknown", "Mario Draghi", "delete")
    found = serac(Echo(), [gone], have.options("recommended", **COSINE), quiet)
    with found.applied() as model:
        [[one]] = model.generate([ITALY[0]], 1)
    assert f"{ITALY[1].text} unknown." in one.answer.prompt


def test_names_with_braces_are_names() -> None:
    odd = have.request(ITALY, "{question} of {fact}")
    found = serac(Echo(), [odd], have.options("recommended", **COSINE), quiet)
    with found.applied() as model:
        [[one]] = model.generate([ITALY[0]], 1)
    assert one.answer.prompt.count("{question} of {fact}.") == 2


# Scope


def test_words_that_a_question_must_have() -> None:
    prompt = have.wording(MESSI[1])
    assert required(prompt, "none") == frozenset()
    assert required(prompt, "subject") == required(prompt, "names") == {"lionel", "messi"}
    assert required(have.wording(ITALY_HEAD[1]), "names") == {"president", "italy"}
    # An abbreviation may be written out in another wording, and the first word's capital is the sentence's.
    company = have.known([*_company("Shell")], "x").wordings[0]
    assert required(company, "names") == {"shell"}


def _company(name: str) -> list[Question]:
    question = have.club(name)[0]
    text = f"{name} is a company whose current CEO is"
    return [type(question)(question.id, question.fact, "1", text, question.subject_span, None)]


class Plane:
    """An embedder of points that are written down; what names none lies opposite to all."""

    record: ClassVar[dict[str, Any]] = {"name": "plane"}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        written = [re.search(r" at ([\d.]+)$", text) for text in texts]
        angles = [float(one[1]) if one else np.pi * 1.25 for one in written]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], dtype=np.float32).reshape(len(texts), 2)


def test_a_threshold_lies_between_the_last_false_and_the_first_right_pair() -> None:
    facts = [
        Known(name, "d", name, tuple(_point(name, angle) for angle in angles), ("x",))
        for name, angles in {"A": (0.0, 0.1), "B": (0.5, 0.55), "C": (0.9, 0.95), "D": (1.3, 1.45)}.items()
    ]
    tuned = tune_points(facts)
    right = np.cos([0.1, 0.05, 0.05, 0.15])
    nearest_false = np.cos(0.95 - 1.3)
    assert tuned.threshold == pytest.approx((right.min() + nearest_false) / 2, abs=1e-6)
    assert (tuned.recall, tuned.false_accepts, tuned.facts, tuned.positives) == (1.0, 0, 4, 8)


def test_a_false_pair_that_is_nearer_than_right_ones_costs_recall_and_no_false_accept() -> None:
    facts = [
        Known(name, "d", name, tuple(_point(name, angle) for angle in angles), ("x",))
        for name, angles in {"A": (0.0, 0.3), "B": (0.35, 0.36), "C": (0.9, 0.91), "D": (1.3, 1.31)}.items()
    ]
    tuned = tune_points(facts)
    assert tuned.recall == 6 / 8
    assert np.cos(0.05) < tuned.threshold < np.cos(0.01)


def _point(name: str, angle: float) -> Wording:
    return Wording(f"{name}{angle}", f"{name} at {angle}", Span(0, 1))


def tune_points(facts: list[Known]) -> Tuned:
    return tune(facts, Plane(), cosine, "none")


def test_of_tests_that_accept_as_many_the_strictest_is_taken() -> None:
    tuned = tune(POOL, Bag(), cosine)
    assert tuned.test == "names"
    assert tuned.false_accepts == 0
    assert tuned.recall is not None
    assert tuned.recall >= tune(POOL, Bag(), cosine, "none").recall  # type: ignore[operator]


def test_the_threshold_says_what_it_said_when_every_pair_is_looked_at_again() -> None:
    tuned = tune(POOL, Bag(), cosine)
    wordings = [(one.fact, wording) for one in POOL for wording in one.wordings]
    accepted = wrong = 0
    for fact, prompt in wordings:
        scope = Scope((prompt,), Bag(), cosine, tuned)
        for other, question in wordings:
            hit = question is not prompt and scope.find(question.text) is not None
            accepted += hit and fact == other
            wrong += hit and fact != other
    assert wrong == 0
    assert accepted / tuned.positives == tuned.recall


def test_without_facts_to_tune_on_the_threshold_is_the_usual_one() -> None:
    tuned = tune(POOL[:3], Bag(), cosine)
    assert tuned == (DEFAULT_THRESHOLD, "names", None, None, 3, 0, 0)
    assert aligned(calibration=()).record["scope"]["recall"] is None
    assert aligned(threshold=0.9, test="subject").record["scope"]["threshold"] == 0.9


def test_facts_that_are_edited_tune_nothing() -> None:
    more = (*POOL, have.known(ITALY, "Mario Draghi"))
    assert aligned(calibration=more).record["scope"] == aligned().record["scope"]


def test_the_nearest_of_several_edits_answers() -> None:
    twins = [have.request(ITALY, "A"), have.request(ITALY_HEAD, "B")]
    settings = have.options("recommended", threshold=0.1, test="subject", **COSINE)
    found = serac(Echo(), twins, settings, quiet)
    assert isinstance(found, TextAligned)
    with found.applied() as model:
        texts = {
            one.question: one.answer.prompt for batch in model.generate([ITALY[0], ITALY_HEAD[0]], 1) for one in batch
        }
    assert " A." in texts[ITALY[0]]
    assert " B." in texts[ITALY_HEAD[0]]


def test_reports_say_how_many_wordings_are_found() -> None:
    assert [one.note for one in aligned(**FIXED).reports] == ["3 of 3 wordings in scope"] * 2
    assert [one.note for one in aligned(threshold=1.1).reports] == ["0 of 3 wordings in scope"] * 2


# The trained head

torch = pytest.importorskip("torch")


def test_a_head_learns_its_facts_and_the_same_seed_gives_the_same_head() -> None:
    one, same, other = (train(POOL, Bag(64), seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.weights, same.weights, strict=True))
    assert not torch.equal(one.weights[0], other.weights[0])
    made = pairs(POOL, Bag(64))
    scores = one(made.vectors, made.prompt_vectors)
    facts = np.array(made.facts)
    same_fact = facts[:, None] == facts[None, : len(made.prompts)]
    assert scores[same_fact].mean() > 0.7
    assert scores[~same_fact].mean() < 0.2


def test_a_head_is_logistic_regression_on_the_four_features() -> None:
    head = train(POOL, Bag(8), 0, steps=3)
    rng = np.random.default_rng(0)
    q, p = (rng.standard_normal((n, 8)).astype(np.float32) for n in (2, 3))
    w, b = (weight.numpy() for weight in head.weights)
    plain = [[1 / (1 + np.exp(-(np.concatenate([x, y, abs(x - y), x * y]) @ w + b)[0])) for y in p] for x in q]
    assert np.allclose(head(q, p), plain, atol=1e-6)
    assert isinstance(head, Head)


def test_a_trained_scope_draws_its_threshold_from_facts_it_was_not_trained_on() -> None:
    more = [*POOL, *(have.known(have.office(f"Land{n}", "Mayor", "P6"), "x") for n in range(9))]
    found = aligned(classifier="trained", calibration=more, hidden=4)
    assert found.record["head"]["facts"] == 10
    assert found.record["scope"]["facts"] == 6
    state = torch.get_rng_state()
    aligned(classifier="trained", calibration=more)
    assert torch.equal(torch.get_rng_state(), state)


def test_too_few_facts_to_train_on_are_refused() -> None:
    with pytest.raises(AlignError, match="cannot be trained on 2 facts"):
        aligned(classifier="trained", calibration=POOL[:3])


def test_words_are_folded() -> None:
    assert words_of("The People's Republic-of China") == {"the", "people", "s", "republic", "of", "china"}
