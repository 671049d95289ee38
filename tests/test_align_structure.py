import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from dyknow.align import hooks, structure, tokens, trace
from dyknow.align.base import EditRequest, Wording
from dyknow.align.trace import Look, Picks
from dyknow.benchmark import Question
from dyknow.models import Options
from dyknow.models.local import Local
from dyknow.prompts import Span
from kg.errors import AlignError
from tests import tiny_models
from tests.test_families import QUESTIONS, TEXTS
from tests.tiny_models import causal, learnt, t5

PLAIN = {
    "OPT": {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "ffn_dim": 32,
        "word_embed_proj_dim": 16,
    },
    "Mamba": {"hidden_size": 16, "num_hidden_layers": 2},
}
WIDE = dict(tiny_models.FAMILIES["Llama"])
EDITED = {
    **{key: value for key, value in tiny_models.FAMILIES.items() if key != "Mixtral"},
    "GPTNeo": {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "Qwen2": WIDE,
    "Qwen3": {**WIDE, "head_dim": 8},
    "Olmo2": WIDE,
    "Phi3": WIDE,
}
PARALLEL, TIED, UNGATED = {"GPTJ", "GPTNeoX", "Falcon"}, {"GPT2", "GPTNeo", "Bloom", "Falcon"}, {"GPT2", "GPTNeo", "GPTJ", "GPTNeoX", "Bloom", "Falcon"}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("torch").set_num_threads(1)
    monkeypatch.setattr(tiny_models, "FAMILIES", {**tiny_models.FAMILIES, **EDITED, **PLAIN})


def local(family: str, **options: Any) -> Local:  # noqa: ANN401
    return Local(causal(family), learnt(TEXTS), family, Options(**options))


def digests(model: Any) -> dict[str, str]:  # noqa: ANN401
    delta = importlib.import_module("dyknow.align.delta")
    return {name: delta.digest(tensor) for name, tensor in model.state_dict().items()}


# --- structure


@pytest.mark.parametrize("family", EDITED)
def test_every_family_s_structure_is_found_and_proved(family: str) -> None:
    model = local(family)
    before = digests(model.model)
    found = trace.adapt(model)
    assert (found.parallel, found.tied, found.gated) == (family in PARALLEL, family in TIED, family not in UNGATED)
    assert found.additive == (family != "Olmo2")
    assert found.norm is not None and "norm" in found.norm.lower().replace("ln_f", "norm")
    weights = dict(model.model.named_parameters())
    for projection in found.projections:
        assert projection.transposed == (family == "GPT2")
        assert projection.weight().shape == (16, projection.width)
        assert weights[projection.name] is projection.module.weight
    assert digests(model.model) == before


@pytest.mark.parametrize("family", EDITED)
def test_a_later_start_behind_a_prefix_gives_the_whole_pass_s_logits(family: str) -> None:
    torch = importlib.import_module("torch")
    found = trace.adapt(local(family))
    texts = [[5, 9, 40, 7, 30, 8], [3, 60, 12, 50]]
    with torch.no_grad(), hooks.as_asked(found.model):
        whole = found.model(torch.tensor(texts[:1])).logits[0]
        batch = trace.behind(found, [text[:2] for text in texts], [text[2:] for text in texts])
        states = trace.run(found, batch, Look(states=[0])).states[0]
        picks = Picks(torch.tensor([0, 0]), torch.tensor([0, 3]))
        for kept in (batch, batch.only(torch.tensor([0]))):
            hidden = states[: len(kept.ids)]
            seen = trace.run(found, kept, Look(logits=True), picks=picks, start=1, hidden=hidden)
            torch.testing.assert_close(seen.logits, whole[[2, 5]], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", EDITED)
def test_no_batch_row_is_lost(family: str) -> None:
    torch = importlib.import_module("torch")
    found = trace.adapt(local(family))
    with torch.no_grad(), hooks.as_asked(found.model):
        look = Look(keys=[1], values=[1], states=[0, 1])
        together = trace.run(found, trace.rows(found, [[5, 9, 40], [3, 60, 12], [7, 7, 8]]), look)
        alone = trace.run(found, trace.rows(found, [[7, 7, 8]]), look)
    for both, one in ((together.keys, alone.keys), (together.values, alone.values), (together.states, alone.states)):
        for layer in one:
            assert both[layer].shape[0] == 3
            torch.testing.assert_close(both[layer][2:], one[layer], atol=1e-4, rtol=1e-4)


def test_nothing_behind_the_deepest_layer_is_computed() -> None:
    found = trace.adapt(local("Llama"))
    ran: list[int] = []
    with hooks.hooked(found.blocks[1], lambda _: ran.append(1)), hooks.hooked(found.blocks[0], lambda _: ran.append(0)):
        for look in (Look(keys=[0]), Look(values=[0]), Look(states=[0])):
            trace.run(found, trace.rows(found, [[5, 9, 40]]), look)
    assert ran == [0]  # only where the block's own output was wanted; its keys end it before


def _quantised(model: Local) -> None:
    torch = importlib.import_module("torch")
    linear = model.model.model.layers[0].mlp.down_proj
    linear.weight = torch.nn.Parameter(linear.weight.to(torch.int8), requires_grad=False)


def _offloaded(model: Local) -> None:
    model.model.model.layers[1].mlp.down_proj.to("meta")


def _shared(model: Local) -> None:
    layers = model.model.model.layers
    layers[1].mlp.down_proj.weight = layers[0].mlp.down_proj.weight


def _headless(model: Local) -> None:
    model.model.get_output_embeddings = lambda: None


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_quantised, "is quantised"),
        (_offloaded, "offloaded"),
        (_shared, "shares one matrix"),
        (_headless, "has no head"),
    ],
)
def test_weights_that_cannot_be_edited_are_refused(spoil: Callable[[Local], None], why: str) -> None:
    model = local("Llama")
    spoil(model)
    with pytest.raises(AlignError, match=why) as caught:
        trace.adapt(model)
    assert caught.value.message.count(".") == 1 and caught.value.hint


@pytest.mark.parametrize(("family", "why"), [("Mixtral", "experts"), ("OPT", "no MLP"), ("Mamba", "no MLP")])
def test_architectures_that_do_not_prove_themselves_are_refused(family: str, why: str) -> None:
    with pytest.raises(AlignError, match=why):
        trace.adapt(local(family))


def test_an_encoder_is_refused() -> None:
    with pytest.raises(AlignError, match="encoder"):
        trace.adapt(Local(t5(), learnt(TEXTS, blanks=True), "t5", Options()))


def test_a_block_that_does_something_else_with_its_matrix_is_refused() -> None:
    model = local("Llama")
    down = model.model.model.layers[0].mlp.down_proj
    down.forward = lambda key: 2 * importlib.import_module("torch").nn.functional.linear(key, down.weight)
    with pytest.raises(AlignError, match="something else"):
        structure.find(model)


# --- tokens


def wording(question: Question) -> Wording:
    return Wording(question.id, question.text, question.subject_span)


def edit(question: Question, target: str = "Giorgia Meloni") -> EditRequest:
    fact = question.fact
    return EditRequest(fact.id, fact.domain, fact.subject_label, "update", wording(question), (), target, None)


TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}[assistant]"


@pytest.mark.parametrize("style", ["completion", "chat", "instruct"])
@pytest.mark.parametrize("adds_bos", [True, False])
def test_the_subject_s_last_token_holds_its_last_letter(style: Any, adds_bos: bool) -> None:  # noqa: ANN401
    words = learnt(TEXTS, adds_bos=adds_bos)
    words.chat_template = TEMPLATE
    instruct = "Q: {question}\nA:" if style == "instruct" else None
    model = Local(causal("Llama"), words, "tiny", Options(style=style, template=instruct))
    for question in QUESTIONS:
        found = tokens.locate(model, question.text, question.subject_span)
        assert found.ids == model.encode(question).ids  # the prompt exactly as it is asked
        subject = question.subject_span.of(question.text)
        upto = words.decode(found.ids[: found.subject + 1])
        before = words.decode(found.ids[: found.subject])
        until = question.text[: question.subject_span.end]
        assert until in upto and until not in before
        assert subject[-1] in words.decode([found.ids[found.subject]])


def test_a_subject_that_stands_twice_is_the_one_that_is_marked() -> None:
    model = local("Llama")
    text = "The king of Italy in Italy is"
    first, second = (tokens.locate(model, text, Span(at, at + 5)).subject for at in (12, 21))
    assert first < second


def test_rows_are_put_together_from_ids() -> None:
    model = local("Llama")
    found = tokens.prepare(model, edit(QUESTIONS[0]), [["Once upon"], ["A", "B C"]])
    prompt, target = model.encode(QUESTIONS[0]).ids, tokens.target_ids(model, QUESTIONS[0].text, "Giorgia Meloni")
    bare = found.rows[0]
    assert bare.head + bare.tail == prompt + target[:-1]
    assert [(bare.head + bare.tail)[len(bare.head) + at] for at in bare.picks] == [prompt[-1], *target[:-1]]
    assert bare.targets == target and model.tokenizer.decode(target) == " Giorgia Meloni"
    assert found.types == [0, 1, 2, 2]
    assert model.tokenizer.decode(found.rows[3].head + found.rows[3].tail).startswith("B C. The")
    assert {row.tail[0] for row in found.rows} == {bare.tail[0]}


def refused(request: EditRequest, model: Local | None = None) -> str:
    with pytest.raises(AlignError) as caught:
        tokens.prepare(model or local("Llama"), request)
    assert caught.value.hint
    return caught.value.message


def test_subjects_and_targets_that_are_not_there_are_refused() -> None:
    request = edit(QUESTIONS[0])
    for span in (Span(5, 5), Span(3, 4), Span(-1, 4), Span(0, 999)):
        assert "hold no subject" in refused(dataclasses.replace(request, prompt=request.prompt._replace(subject=span)))
    assert "is empty" in refused(dataclasses.replace(request, target="  "))


def test_a_subject_on_the_first_token_is_refused_unless_a_bos_stands_before() -> None:
    request = dataclasses.replace(edit(QUESTIONS[0]), prompt=Wording("x", "The is", Span(0, 3)))
    assert "first token" in refused(request)
    model = Local(causal("Llama"), learnt(TEXTS), "tiny", Options(bos=True))
    assert tokens.prepare(model, request).rows[0].head[0] == 1


def test_contexts_are_the_model_s_own_and_depend_on_the_seed_alone() -> None:
    torch = importlib.import_module("torch")
    model, other = local("Llama"), local("GPT2")
    state = torch.get_rng_state()
    first = tokens.contexts(model, [(5, 2), (8, 3)], 0)
    assert [len(group) for group in first] == [2, 3]
    torch.rand(3)
    tokens.contexts(other, [(5, 2)], 0)
    assert tokens.contexts(model, [(5, 2), (8, 3)], 0) == first
    assert tokens.contexts(model, [(5, 2), (8, 3)], 1) != first
    assert tokens.contexts(other, [(5, 2), (8, 3)], 0) != first
    torch.set_rng_state(state)
    tokens.contexts(model, [(5, 2)], 0)
    assert torch.equal(torch.get_rng_state(), state)
