import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from dyknow import benchmark
from dyknow.benchmark import Question
from dyknow.models import Answer, Options, load_model
from dyknow.models.drawing import Drawing, seed_of
from dyknow.models.endings import Endings
from dyknow.models.local import Local
from kg.errors import ModelError
from tests.tiny_models import FAMILIES, TEMPLATE, WORDS, assert_same, causal, learnt, t5, tokenizer

QUESTIONS = list(benchmark.load().questions()[::40])
TEXTS = [question.text for question in QUESTIONS] + ["Giorgia Meloni", "Mario Draghi"] * 3


def answers(model: Local, size: int, sample: int = 0, questions: list[Question] = QUESTIONS) -> dict[str, Answer]:
    return {item.question.id: item.answer for batch in model.generate(questions, size, sample) for item in batch}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    importlib.import_module("torch").set_num_threads(1)


@pytest.fixture(scope="module")
def llama() -> Local:
    return Local(causal("Llama"), learnt(TEXTS, adds_bos=True), "tiny", Options(max_new_tokens=8))


@pytest.fixture(scope="module")
def tiny_t5() -> Local:
    return Local(t5(), learnt(TEXTS, blanks=True), "tiny-t5", Options(max_new_tokens=8))


# --- families


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_the_same_texts_in_any_batch(family: str) -> None:
    model = Local(causal(family), learnt(TEXTS), family, Options(max_new_tokens=6))
    alone = answers(model, 1)
    assert len({answer.prompt_tokens for answer in alone.values()}) > 3  # so that some are padded
    assert len({answer.text for answer in alone.values()}) > 1
    for size in (3, len(QUESTIONS)):
        assert_same(answers(model, size), alone)
    assert model.info()["architecture"] == "causal"


def test_a_t5_fills_the_blank_and_gives_the_same_texts_in_any_batch(tiny_t5: Local) -> None:
    alone = answers(tiny_t5, 1)
    assert all(answer.prompt.endswith(" <extra_id_0>") for answer in alone.values())
    assert len({answer.text for answer in alone.values()}) > 1
    for size in (3, len(QUESTIONS)):
        assert_same(answers(tiny_t5, size), alone)
    info = tiny_t5.info()
    assert (info["architecture"], info["style"], info["sampling"]["stop"]) == (
        "seq2seq",
        "sentinel",
        "end of the blank",
    )


def test_what_fills_the_blank_ends_where_the_next_blank_begins(tiny_t5: Local) -> None:
    start, blank = tiny_t5.decoder_start()
    assert tiny_t5.tokenizer.decode([blank]) == "<extra_id_0>"
    rome = tiny_t5.tokenizer(" Giorgia", add_special_tokens=False).input_ids
    end = Endings(tiny_t5.tokenizer, tiny_t5._ends, ()).finish([*rome, blank + 1, *rome])
    assert end[:3] == ("Giorgia", "stop", len(rome) + 1)
    assert start == 0


def test_the_encoder_s_text_is_closed_once(tiny_t5: Local) -> None:
    assert tiny_t5.encode(QUESTIONS[0]).ids.count(2) == 1


@pytest.mark.parametrize(
    ("name", "options", "style", "prompt"),
    [
        ("flan-t5-small", Options(), "completion", "{}"),
        ("flan-t5-small", Options(style="sentinel"), "sentinel", "{} <extra_id_0>"),
        ("t5-small", Options(style="completion"), "completion", "{}"),
        ("t5-small", Options(template="Q: {question}\nA:"), "instruct", "Q: {}\nA:"),
    ],
)
def test_the_style_of_an_encoder_s_model(name: str, options: Options, style: str, prompt: str, tiny_t5: Local) -> None:
    model = Local(tiny_t5.model, tiny_t5.tokenizer, name, options)
    assert model.info()["style"] == style
    assert model.encode(QUESTIONS[0]).prompt == prompt.format(QUESTIONS[0].text)


def test_a_style_that_cannot_be_had_says_what_to_give(llama: Local) -> None:
    with pytest.raises(ModelError, match="fills no blanks"):
        Local(llama.model, llama.tokenizer, "tiny", Options(style="sentinel"))
    with pytest.raises(ModelError, match="needs a template") as caught:
        Local(llama.model, llama.tokenizer, "tiny", Options(style="instruct"))
    assert "template =" in (caught.value.hint or "")


def test_a_decoder_that_does_not_say_where_it_begins_is_named(tiny_t5: Local) -> None:
    model = Local(t5(), tiny_t5.tokenizer, "tiny-t5")
    model.model.config.decoder_start_token_id = model.model.generation_config.decoder_start_token_id = None
    with pytest.raises(ModelError, match="which token its decoder begins with"):
        answers(model, 1)


@pytest.mark.parametrize(("bos", "count"), [(True, 1), (False, 0), (None, 1)])
def test_bos_can_be_given(llama: Local, bos: bool | None, count: int) -> None:
    model = Local(llama.model, llama.tokenizer, "tiny", Options(bos=bos))
    assert model.encode(QUESTIONS[0]).ids.count(1) == count
    assert model.info()["bos"] == ("<s>" if count else None)


def test_a_bos_that_is_wanted_and_unknown_is_named(tiny_t5: Local) -> None:
    with pytest.raises(ModelError, match="has no BOS"):
        Local(tiny_t5.model, tiny_t5.tokenizer, "t5", Options(bos=True))


def test_an_answer_s_record_is_that_of_its_tokens(llama: Local) -> None:
    [answer] = answers(llama, 1, questions=QUESTIONS[:1]).values()
    encoded = llama.encode(QUESTIONS[0])
    assert answer.ids_digest == encoded.digest
    torch = importlib.import_module("torch")
    ids, total = list(encoded.ids), 0.0
    with torch.inference_mode():
        for _ in range(answer.tokens or 0):  # the plain loop: the whole text anew for each token
            logprobs = llama.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(logprobs.argmax()))
            total += float(logprobs.max())
    assert answer.logprob == pytest.approx(total, abs=1e-3)


# --- memory


@pytest.mark.parametrize("message", ["DefaultCPUAllocator: not enough memory", "MPS backend out of memory"])
def test_what_was_answered_stands_when_memory_runs_out(
    llama: Local, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    generate, sizes = llama._generate, []

    def small(batch: Any, sample: int) -> Any:  # noqa: ANN401
        sizes.append(len(batch))
        if len(sizes) > 1 and len(batch) > 1:
            raise RuntimeError(message)
        return generate(batch, sample)

    monkeypatch.setattr(llama, "_generate", small)
    assert set(answers(llama, 4)) == {question.id for question in QUESTIONS}
    assert sizes == [4, 4, 2, *[1] * (len(QUESTIONS) - 4)]


def test_another_failure_is_not_taken_for_want_of_memory(llama: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_batch: Any, _sample: int) -> Any:  # noqa: ANN401
        raise RuntimeError("a kernel failed")

    monkeypatch.setattr(llama, "_generate", broken)
    with pytest.raises(RuntimeError, match="a kernel failed"):
        answers(llama, 4)


# --- drawing


def drawn(model: Local, size: int, sample: int = 0, **options: Any) -> dict[str, Answer]:  # noqa: ANN401
    chosen = dataclasses.replace(Options(max_new_tokens=6, temperature=1.0, stop=()), **options)
    return answers(Local(model.model, model.tokenizer, "tiny", chosen), size, sample)


@pytest.mark.parametrize("which", ["llama", "tiny_t5"])
def test_a_draw_depends_on_seed_sample_and_question_alone(which: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(which)
    first = drawn(model, 1, sample=3)
    assert_same(drawn(model, 4, sample=3), first)
    assert_same(drawn(model, len(QUESTIONS), sample=3, top_p=1.0), first)
    for other in (drawn(model, 4, sample=4), drawn(model, 4, sample=3, seed=1)):
        assert {key: answer.text for key, answer in other.items()} != {key: each.text for key, each in first.items()}


def test_near_nothing_of_temperature_is_greedy(llama: Local) -> None:
    greedy = {key: answer.text for key, answer in drawn(llama, 4, temperature=0.0).items()}
    assert {key: answer.text for key, answer in drawn(llama, 4, temperature=1e-4).items()} == greedy


def test_the_record_tells_how_answers_are_drawn(llama: Local) -> None:
    options = Options(temperature=0.7, top_p=0.9, seed=5, stop=("\n\n",))
    sampling = Local(llama.model, llama.tokenizer, "tiny", options).info()["sampling"]
    expected = {"method": "drawn", "temperature": 0.7, "top_p": 0.9, "seed": 5, "max_new_tokens": 24, "stop": ["\n\n"]}
    assert sampling == expected
    assert llama.info()["sampling"] == {"method": "greedy", "max_new_tokens": 8, "stop": "first newline after text"}


def frequencies(temperature: float, top_p: float | None, rows: int = 4000) -> list[float]:
    torch = importlib.import_module("torch")
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(rows, -1)
    drawing = Drawing(temperature, top_p, [seed_of(0, 0, str(row)) for row in range(rows)])
    chosen = drawing(None, logits).argmax(-1)
    assert drawing.logprobs()[0][0] == pytest.approx(float(logits[0, chosen[0]]), abs=1e-5)
    return [float((chosen == token).float().mean()) for token in range(4)]


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1.0, None, [0.5, 0.3, 0.15, 0.05]),
        (1.0, 0.7, [0.625, 0.375, 0.0, 0.0]),  # the least set that has the probability
        (1.0, 0.01, [1.0, 0.0, 0.0, 0.0]),
        (0.5, None, [0.685, 0.247, 0.062, 0.007]),  # squares
    ],
)
def test_draws_follow_the_model_s_probabilities(temperature: float, top_p: float | None, expected: list[float]) -> None:
    assert frequencies(temperature, top_p) == pytest.approx(expected, abs=0.03)


# --- where an answer ends


def said(text: str, stop: tuple[str, ...] = ("\n",), *, thinking: bool = False, closed: bool = True) -> tuple[Any, ...]:
    made = learnt(TEXTS)
    ids = list(made(text).input_ids) + ([2] if closed else [])
    return Endings(made, {2}, stop, thinking).finish(ids)


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("J. K. Rowling\nShe", ("\n",), "J. K. Rowling"),
        ("\n\n J. K. Rowling. She\nX", ("\n",), "J. K. Rowling. She"),
        ("Giorgia Meloni", (), "Giorgia Meloni"),
        ("\nGiorgia\nMeloni\n", (), "Giorgia\nMeloni"),
        ("Meloni\nUser: next", ("\nUser", "###"), "Meloni"),
        ("Meloni ### next\nUser", ("\nUser", "###"), "Meloni"),
        ("Nicolás Maduro。Él", ("。",), "Nicolás Maduro"),  # a stop of several bytes, which tokens may part
    ],
)
def test_an_answer_ends_at_the_first_stop_after_text(text: str, stop: tuple[str, ...], expected: str) -> None:
    assert said(text, stop)[:2] == (expected, "stop")


@pytest.mark.parametrize(
    ("text", "thinking", "closed", "expected"),
    [
        ("<think>\nItaly\n</think>\nMeloni", False, True, ("Meloni", "stop")),
        ("<think>\nItaly is", False, False, ("", "length")),
        ("<think>\nItaly is", False, True, ("", "stop")),
        ("Italy\n</think>\n\nMeloni", True, True, ("Meloni", "stop")),
        ("Italy\nMeloni", True, False, ("", "length")),
    ],
)
def test_thoughts_are_kept_and_not_said(text: str, thinking: bool, closed: bool, expected: tuple[str, str]) -> None:
    found = said(text, thinking=thinking, closed=closed)
    assert found[:2] == expected
    assert found[3] == text


def test_marks_of_thoughts_may_be_special_tokens() -> None:
    made = learnt(TEXTS)
    made.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    ids = list(made("<think>Italy</think>Meloni").input_ids)
    assert Endings(made, {2}, ()).finish([*ids, 2])[:2] == ("Meloni", "stop")
    assert Endings(made, {2}, ()).finish([1, *ids, 2]).raw == "<think>Italy</think>Meloni"


def test_a_template_may_open_the_thought() -> None:
    template = TEMPLATE + "<think>\n"
    model = Local(causal("Llama", len(WORDS)), tokenizer(template=template), "tiny", Options(style="chat"))
    [answer] = answers(model, 1, questions=QUESTIONS[:1]).values()
    assert answer.text == ""
    assert answer.raw is not None


# --- loading


@pytest.fixture
def folder(tiny_t5: Local, tmp_path: Path) -> Path:
    tiny_t5.model.save_pretrained(tmp_path / "t5-3b")
    tiny_t5.tokenizer.save_pretrained(tmp_path / "t5-3b")
    return tmp_path / "t5-3b"


def test_a_folder_with_an_encoder_is_loaded_and_asked_by_its_preset(folder: Path, tiny_t5: Local) -> None:
    model = load_model(str(folder), Options(max_new_tokens=8))
    info = model.info()
    assert (info["preset"], info["style"], info["architecture"]) == ("google-t5/t5-3b", "sentinel", "seq2seq")
    [batch] = model.generate(QUESTIONS, 50)
    assert {item.question.id: item.answer.text for item in batch} == {
        key: answer.text for key, answer in answers(tiny_t5, 50).items()
    }


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        ({"model_type": "no-such-thing"}, "'no-such-thing', an architecture that transformers", "Upgrade transformers"),
        ({"model_type": "vit"}, "writes no text: it is a ViT", "--architecture"),
        ({}, "does not say which architecture", "model_type"),
        (
            {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}},
            "program code of its own",
            "--base-url",
        ),
    ],
)
def test_an_architecture_that_cannot_be_loaded_says_what_to_give(
    folder: Path, config: dict[str, Any], message: str, hint: str
) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=message) as caught:
        load_model(str(folder))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "message"),
    [("openelm", "OpenELM-1_1B brings program code"), ("gpt-4-1106-preview", "reached through an API")],
)
def test_a_preset_may_say_that_a_model_is_not_loaded_here(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(f"local:{name}")


def test_weights_in_few_bits_need_their_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="needs bitsandbytes") as caught:
        load_model(str(folder), Options(quantised="4bit"))
    assert "pip install" in (caught.value.hint or "")


def test_a_model_may_be_spread_over_devices(folder: Path) -> None:
    assert load_model(str(folder), Options(device="auto", dtype="float32")).info()["dtype"] == "float32"
