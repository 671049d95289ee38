import functools
import importlib
import math
from typing import Any

import pytest

from dyknow import benchmark
from dyknow.models import Options, load_model
from dyknow.models.likelihood import Scored, score, score_all, shares
from dyknow.models.local import Local
from kg.errors import ModelError, UsageError
from tests.tiny_models import FAMILIES, TEMPLATE, WORDS, causal, learnt, one_by_one, t5, tokenizer

QUESTIONS = list(benchmark.load().questions()[::40])
NAMES = ["Giorgia Meloni", "Draghi", "Mario Draghi", "Silvio Berlusconi of Italy"]
TEXTS = [question.text for question in QUESTIONS] + NAMES * 3
ASKED = [(question, NAMES[: 1 + index % 4]) for index, question in enumerate(QUESTIONS)]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    importlib.import_module("torch").set_num_threads(1)


@pytest.fixture(scope="module")
def llama() -> Local:
    return Local(causal("Llama"), learnt(TEXTS, adds_bos=True), "tiny")


def assert_as_one_by_one(model: Local, rows: int = 7) -> None:
    found = list(score_all(model, ASKED, rows))
    assert sorted(each.question.id for each in found) == sorted(question.id for question in QUESTIONS)
    candidates = {question.id: names for question, names in ASKED}
    for each in found:
        assert [scored.candidate for scored in each.scored] == candidates[each.question.id]
        assert each.prompt == model.encode(each.question).prompt
        for scored in each.scored:
            expected = one_by_one(model, each.question, scored.candidate)
            assert scored.logprob == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_s_likelihoods_are_those_of_whole_texts(family: str) -> None:
    assert_as_one_by_one(Local(causal(family), learnt(TEXTS), family))


@pytest.mark.parametrize("style", ["sentinel", "completion"])
def test_a_t5_s_likelihoods_are_those_of_whole_texts(style: Any) -> None:  # noqa: ANN401
    assert_as_one_by_one(Local(t5(), learnt(TEXTS, blanks=True), "tiny-t5", Options(style=style)))


def test_a_model_whose_memory_cannot_be_copied_is_asked_whole(llama: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = score(llama, QUESTIONS[0], NAMES)
    cache = importlib.import_module("transformers").cache_utils.Cache
    monkeypatch.delattr(cache, "batch_select_indices")
    found = score(llama, QUESTIONS[0], NAMES)
    assert [each.logprob for each in found] == pytest.approx([each.logprob for each in expected], abs=1e-4)


def test_an_answer_follows_its_question_behind_one_blank(llama: Local) -> None:
    cut = llama.prompting.continue_with(QUESTIONS[0], NAMES)
    assert cut.shared == llama.encode(QUESTIONS[0]).ids
    assert [llama.tokenizer.decode(tail) for tail in cut.tails] == [f" {name}" for name in NAMES]
    assert [each.tokens for each in score(llama, QUESTIONS[0], NAMES)] == [len(tail) for tail in cut.tails]


def test_where_tokens_cross_the_border_the_cut_stands_before_them() -> None:
    made = learnt(["Italy is Giorgia Meloni"] * 9 + TEXTS, words_apart=False)
    model = Local(causal("Llama"), made, "tiny")
    question = next(question for question in benchmark.load().questions() if question.text.endswith("Italy is"))
    names = ["Giorgia Meloni", "Draghi"]
    cut = model.prompting.continue_with(question, names)
    assert len(cut.shared) < len(model.encode(question).ids)
    for name, tail in zip(names, cut.tails, strict=True):
        assert made.decode(cut.shared + tail) == f"{question.text} {name}"
        assert cut.shared + tail == made(f"{question.text} {name}").input_ids


_LINES = "{% for m in messages %}{{ m.role }}\n{{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "border", "answer"),
    [
        (TEMPLATE, "<|assistant|>", " Paris"),  # it knows no assistant's turn: one blank, as in a completion
        (_LINES + "{% if add_generation_prompt %}assistant\n{% endif %}", "\nassistant\n", "Paris"),
        ("{% for m in messages %}{{ '[I] ' + m.content + ' [/I]' if m.role == 'user' else m.content }}{% endfor %}", "[/I]", "Paris"),
    ],
)  # fmt: skip
def test_in_a_chat_the_template_says_what_stands_before_an_answer(template: str, border: str, answer: str) -> None:
    made = learnt(TEXTS)
    made.chat_template = template
    prompting = Local(causal("Llama"), made, "tiny", Options(style="chat")).prompting
    cut = prompting.continue_with(QUESTIONS[0], ["Paris"])
    assert made.decode(cut.shared, skip_special_tokens=False).endswith(border)
    assert made.decode(cut.tails[0]) == answer


def test_a_chat_s_likelihoods_are_those_of_whole_texts() -> None:
    model = Local(causal("Llama", len(WORDS)), tokenizer(template=TEMPLATE), "tiny", Options(style="chat"))
    for scored in score(model, QUESTIONS[0], ["Paris", "a Rome"]):
        assert scored.logprob == pytest.approx(one_by_one(model, QUESTIONS[0], scored.candidate), abs=1e-4)


def test_a_batch_that_does_not_fit_is_scored_in_halves(llama: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [each.logprob for each in score(llama, QUESTIONS[0], NAMES * 4)]
    torch, forward, sizes = importlib.import_module("torch"), llama.model.forward, []
    most = 2

    @functools.wraps(forward)
    def small(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        sizes.append(args[0].shape[0])
        if sizes[-1] > most:
            raise torch.OutOfMemoryError("no room")
        return forward(*args, **kwargs)

    monkeypatch.setattr(llama.model, "forward", small)
    found = [each.logprob for each in score(llama, QUESTIONS[0], NAMES * 4)]
    assert found == pytest.approx(expected, abs=1e-4)
    assert max(sizes) > most
    most = 0
    with pytest.raises(ModelError, match="does not fit"):
        score(llama, QUESTIONS[0], NAMES)


def test_shares_sum_to_one_and_follow_the_likelihoods() -> None:
    scored = [Scored("long name", -6.0, 6), Scored("short", -4.0, 1), Scored("far", -2000.0, 2)]
    assert sum(shares(scored)) == pytest.approx(1)
    assert shares(scored)[0] == pytest.approx(1 / (1 + math.exp(2)))
    assert shares(scored, per_token=True)[0] == pytest.approx(1 / (1 + math.exp(-3)))
    assert shares([]) == []


def test_no_answers_are_no_likelihoods(llama: Local) -> None:
    assert score(llama, QUESTIONS[0], []) == []


def test_an_empty_answer_and_a_model_elsewhere_are_refused(llama: Local) -> None:
    with pytest.raises(UsageError, match="is empty"):
        score(llama, QUESTIONS[0], ["Rome", " "])
    with pytest.raises(ModelError, match="tells no likelihoods"):
        score(load_model("scripted:examples/answers.toml"), QUESTIONS[0], ["Rome"])
