"""ROME and MEMIT against the algebra, in float64, on nets too small to know anything."""

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dyknow.align import delta as deltas
from dyknow.align import hooks, memit, moments, presets, rome, tokens, trace, values, weights
from dyknow.align.base import Settings
from dyknow.align.moments import Reading
from dyknow.align.structure import Projection
from dyknow.align.trace import Look
from dyknow.align.values import Site
from dyknow.benchmark import Question
from dyknow.models import Options
from dyknow.models.local import Local
from kg.errors import AlignError
from tests.test_align_structure import digests, edit
from tests.test_families import QUESTIONS, TEXTS
from tests.tiny_models import causal, learnt

torch: Any = pytest.importorskip("torch")

FEW = {"steps": 4, "contexts": [[3, 2]], "max_perplexity": 1e9, "max_nll": 1e9, "ridge": 0.0}


def _different() -> list[Question]:
    return list({question.fact.subject_label: question for question in QUESTIONS}.values())[:4]


REQUESTS = [edit(question, name) for question, name in zip(_different(), ["Ada", "Bo Ek", "Cy", "Di Fo"], strict=True)]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("DYKNOW_CACHE", str(tmp_path / "cache"))


def local(family: str = "Llama", dtype: Any = None) -> Local:  # noqa: ANN401
    return Local(causal(family).to(dtype or torch.float64), learnt(TEXTS), family, Options(style="completion"))


def silent(_done: int, _of: int, _what: str) -> None:
    pass


def settings(preset: str = "recommended", corpus: Any = TEXTS * 3, **options: Any) -> Settings:  # noqa: ANN401
    return Settings(preset, options={**FEW, **options}, corpus=corpus)


def edited(model: Local, method: Callable[..., weights.EditedWeights], how: Settings) -> weights.EditedWeights:
    return method(model, REQUESTS, how, silent)


def change(found: weights.EditedWeights, name: str) -> Any:  # noqa: ANN401
    factors = found.delta.changes[name]
    assert isinstance(factors, deltas.Factors)
    return factors.left @ factors.right


def keyed(layer: int, family: str = "Llama") -> tuple[Projection, values.Value, Any]:
    """A projection, a value for it, and second moments of full rank."""
    structure = trace.adapt(local(family))
    generator = torch.Generator().manual_seed(1)
    projection = structure.projections[layer]
    width, hidden = projection.width, structure.hidden

    def draw(*shape: int) -> Any:  # noqa: ANN401
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    many = draw(5 * width, width) * torch.linspace(0.2, 2, width, dtype=torch.float64)
    value = values.Value(draw(hidden), draw(hidden), draw(3, width), 1.0, 0.1, 3)
    return projection, value, many.T @ many / len(many)


# --- ROME


@pytest.mark.parametrize("family", ["Llama", "GPT2", "GPTJ"])
@pytest.mark.parametrize("key", ["original", "homogeneous"])
def test_the_value_is_met_at_its_key_by_a_change_of_rank_one(family: str, key: str) -> None:
    projection, value, moment = keyed(1, family)
    base = rome.output(projection, value.keys[0])
    found = rome.solve(projection, value, key, torch.linalg.cholesky(moment))
    met = value.keys[0] if key == "original" else value.keys.mean(0)
    new = projection.weight() + torch.outer(found.left, found.right)
    bias = projection.module.bias if projection.module.bias is not None else 0.0
    torch.testing.assert_close(new @ met + bias, base + value.delta)
    assert int(torch.linalg.matrix_rank(new - projection.weight())) == 1


def test_no_other_change_that_meets_the_value_disturbs_the_keys_less() -> None:
    projection, value, moment = keyed(0)
    found = rome.solve(projection, value, "homogeneous", torch.linalg.cholesky(moment))
    least = torch.outer(found.left, found.right)

    def disturbed(change: Any) -> float:  # noqa: ANN401
        return float(torch.trace(change @ moment @ change.T))  # E |D k|^2

    met = value.keys.mean(0)
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        other = torch.randn(least.shape, generator=generator, dtype=torch.float64)
        other -= torch.outer(other @ met, met) / (met @ met)  # D' k = 0, so that least + D' meets the value, too
        assert disturbed(least + 0.1 * other) > disturbed(least)
    # And by the dense problem's own solution: min tr(D C D^T) with D k = r has D = r k^T C^-1 / (k^T C^-1 k).
    inverse = torch.linalg.inv(moment)
    wanted = torch.outer(least @ met, inverse @ met) / (met @ inverse @ met)
    torch.testing.assert_close(least, wanted)


def test_with_the_identity_the_key_itself_weighs() -> None:
    projection, value, _ = keyed(0)
    found = rome.solve(projection, value, "homogeneous", torch.eye(projection.width, dtype=torch.float64))
    torch.testing.assert_close(found.right, value.keys.mean(0))


@pytest.mark.parametrize("family", ["Llama", "GPT2", "Olmo2"])
def test_the_edited_model_s_projection_gives_the_value(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import test_align_structure, tiny_models  # noqa: PLC0415

    monkeypatch.setattr(tiny_models, "FAMILIES", {**tiny_models.FAMILIES, **test_align_structure.EDITED})
    model = local(family)
    seen: list[values.Value] = []
    optimise = values.optimise

    def spy(*args: Any) -> list[values.Value]:  # noqa: ANN401
        seen.extend(found := optimise(*args))
        return found

    monkeypatch.setattr(rome, "optimise", spy)
    found = rome.rome(model, REQUESTS[:1], settings(layer=1, key="original"), silent)
    structure = trace.adapt(model)
    request = tokens.prepare(model, REQUESTS[0])
    text = [*request.rows[0].head, *request.rows[0].tail]
    at = len(request.rows[0].head)

    def output() -> Any:  # noqa: ANN401
        return trace.run(structure, trace.rows(structure, [text]), Look(values=[1])).values[1][0, at]

    with torch.no_grad():
        before = output()
        with found.applied():
            torch.testing.assert_close(output(), before + seen[0].delta, atol=1e-6, rtol=1e-6)
    assert float(seen[0].delta.norm()) > 0


# --- MEMIT


def dense(keys: Any, missing: Any, past: Any) -> Any:  # noqa: ANN401
    """MEMIT's eq. 14 by numpy's own inverse: D (P + K K^T) = R K^T."""
    numpy = importlib.import_module("numpy")
    k, r, p = (each.numpy() for each in (keys, missing, past))
    return torch.from_numpy(r @ k.T @ numpy.linalg.inv(p + k @ k.T))


def test_direct_and_woodbury_solve_the_normal_equations() -> None:
    generator = torch.Generator().manual_seed(3)
    many = torch.randn(200, 24, generator=generator, dtype=torch.float64)
    past = 7.0 * many.T @ many / 200
    old = torch.randn(24, 3, generator=generator, dtype=torch.float64)
    keys = torch.randn(24, 5, generator=generator, dtype=torch.float64)
    missing = torch.randn(16, 5, generator=generator, dtype=torch.float64)
    wanted = dense(keys, missing, past + old @ old.T)
    direct = missing @ memit.solve_direct(keys, past + old @ old.T)
    woodbury = missing @ memit.solve_woodbury(keys, torch.linalg.cholesky(past), old)
    for found in (direct, woodbury):
        torch.testing.assert_close(found, wanted, atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(found @ (past + old @ old.T + keys @ keys.T), missing @ keys.T)


def test_a_model_s_memit_is_the_dense_solution_layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, how = local(), settings("recommended", TEXTS * 3, **{"layers": [0, 1], "lambda": 3.0})
    found_values: list[values.Value] = []
    optimise = values.optimise

    def spy(*args: Any) -> list[values.Value]:  # noqa: ANN401
        found_values.extend(found := optimise(*args))
        return found

    monkeypatch.setattr(memit, "optimise", spy)
    found = edited(model, memit.memit, how)
    structure = trace.adapt(model)
    options = presets.memit(structure, how)
    contexts = tokens.contexts(model, options.contexts, 0)
    edits = [tokens.prepare(model, request, contexts) for request in REQUESTS]
    moment = moments.moments(structure, [0, 1], how.corpus or [], Reading(10**6, 256, 1024))
    wanted = torch.stack([value.base + value.delta for value in found_values])
    with torch.no_grad(), hooks.as_asked(model.model):
        for layer in (0, 1):
            keys, states = [], []
            for request in edits:  # one text at a time, whole passes
                own = []
                for row in request.rows:
                    ids = row.head + row.tail
                    seen = trace.run(
                        structure, trace.rows(structure, [ids]), Look(keys=[layer], states=[1], logits=True)
                    )
                    own.append(seen.keys[layer][0, len(row.head)])
                    if row is request.rows[0]:
                        states.append(seen.states[1][0, len(row.head)])
                keys.append((own[0] + torch.stack(own[1:]).mean(0)) / 2)
            missing = (wanted - torch.stack(states)).T / (2 - layer)
            update = dense(torch.stack(keys).T, missing, 3.0 * moment[layer].matrix)
            projection = structure.projections[layer]
            torch.testing.assert_close(change(found, projection.name), update, atol=1e-8, rtol=1e-6)
            projection.module.weight += update


def test_both_solvers_and_batches_of_any_size_edit() -> None:
    direct, woodbury = (edited(local(), memit.memit, settings(layers=[0, 1], solver=s)) for s in ("direct", "woodbury"))
    for name in direct.delta.changes:
        torch.testing.assert_close(change(direct, name), change(woodbury, name), atol=1e-8, rtol=1e-6)
    batches = [edited(local(), memit.memit, settings(layers=[1], solver=s, batch=2)) for s in ("direct", "woodbury")]
    [name] = batches[0].delta.changes
    torch.testing.assert_close(change(batches[0], name), change(batches[1], name), atol=1e-8, rtol=1e-6)
    assert batches[0].delta.changes[name].left.shape[1] == len(REQUESTS)


# --- the same by both layouts


def twins() -> tuple[Local, Local]:
    """GPT-2 with its Conv1D projections, and with Linear ones of the same weights."""
    first, second = local("GPT2"), local("GPT2")
    for block in second.model.transformer.h:
        conv = block.mlp.c_proj
        linear = torch.nn.Linear(conv.weight.shape[0], conv.weight.shape[1], dtype=conv.weight.dtype)
        linear.weight.data, linear.bias.data = conv.weight.data.T.contiguous(), conv.bias.data.clone()
        block.mlp.c_proj = linear
    return first, second


# Not the last block: what is added to its output reaches no later token, and Adam would blow up the rounding of nothing.
@pytest.mark.parametrize(("method", "options"), [(rome.rome, {"layer": 0}), (memit.memit, {"layers": [0]})])
def test_a_conv1d_and_its_linear_twin_give_the_same_edit(method: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
    conv, linear = twins()
    found = [edited(model, method, settings(**options)) for model in (conv, linear)]
    for name in found[0].delta.changes:
        one, other = change(found[0], name).T, change(found[1], name)
        torch.testing.assert_close(one, other, atol=1e-6 * float(other.abs().max()), rtol=1e-4)


# --- values


def first_step(options: presets.Rome) -> presets.Rome:
    return dataclasses.replace(options, steps=1)


@pytest.mark.parametrize("of", ["block", "projection"])
@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_values_sought_together_are_those_sought_one_by_one(family: str, of: Any) -> None:  # noqa: ANN401
    model = local(family)
    structure = trace.adapt(model)
    options = presets.rome(structure, settings(steps=12, layer=0))
    with hooks.as_asked(model.model):
        contexts = tokens.contexts(model, [(3, 2)], 0)
        edits = [tokens.prepare(model, request, contexts) for request in REQUESTS]
        starts = sorted(value.nll for value in values.optimise(structure, edits, Site(0, of), first_step(options)))
        options = dataclasses.replace(options, stop_loss=starts[1] + 1e-3)  # some are done at once, some later
        together = values.optimise(structure, edits, Site(0, of), options)
        alone = [values.optimise(structure, [each], Site(0, of), options)[0] for each in edits]
    assert len({value.steps for value in alone}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.steps == other.steps
        torch.testing.assert_close(one.delta, other.delta, atol=1e-8, rtol=1e-6)
        assert one.nll_before == pytest.approx(other.nll_before)


def test_a_change_behind_the_block_is_one_behind_its_projection() -> None:
    model = local("GPTJ")
    structure = trace.adapt(model)
    assert structure.additive
    options = presets.rome(structure, settings(steps=6, layer=0))
    with hooks.as_asked(model.model):
        edits = [tokens.prepare(model, request) for request in REQUESTS]
        late, within = (
            values.optimise(dataclasses.replace(structure, additive=additive), edits, Site(0, "projection"), options)
            for additive in (True, False)
        )
    for one, other in zip(late, within, strict=True):
        torch.testing.assert_close(one.base, other.base)
        torch.testing.assert_close(one.delta, other.delta, atol=1e-6, rtol=1e-4)


def test_a_value_is_what_torch_s_adam_finds_on_whole_passes() -> None:
    model = local()
    structure = trace.adapt(model)
    options = presets.rome(structure, settings(steps=5, layer=0, clamp=0.5))
    request = tokens.prepare(model, REQUESTS[1])
    with hooks.as_asked(model.model):
        [found] = values.optimise(structure, [request], Site(0, "block"), options)
        plain = importlib.import_module("benchmarks.editing_plain")
        base, delta = plain._value(structure, request, options, 0, structure.blocks[0])
    torch.testing.assert_close(found.base, base)
    # Adam divides by the gradient's own size, so where that is nearly nothing its rounding shows.
    torch.testing.assert_close(found.delta, delta, atol=1e-6, rtol=1e-4)
    assert float(found.delta.norm()) <= 0.5 * float(found.base.norm()) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("method", "plain", "options"),
    [(rome.rome, "rome", {"layer": 0}), (memit.memit, "memit", {"layers": [0], "lambda": 5.0})],
)
def test_a_plain_transcription_edits_alike(method: Any, plain: str, options: dict[str, Any]) -> None:  # noqa: ANN401
    model, other = local(), local()
    found = edited(model, method, settings(**options))
    getattr(importlib.import_module("benchmarks.editing_plain"), plain)(other, REQUESTS, settings(**options))
    [name] = found.delta.changes
    with found.applied():
        one, two = (dict(each.model.named_parameters())[name] for each in (model, other))
        torch.testing.assert_close(one, two, atol=1e-4 * float(two.abs().max()), rtol=1e-3)


def test_nll_is_that_of_the_plain_pass() -> None:
    model = local()
    structure = trace.adapt(model)
    edits = [tokens.prepare(model, request) for request in REQUESTS]
    for request, found in zip(REQUESTS, values.nll(structure, edits, 40), strict=True):
        prompt, target = model.tokenizer(request.prompt.text).input_ids, model.tokenizer(f" {request.target}").input_ids
        with torch.no_grad():
            logprobs = model.model(torch.tensor([prompt + target])).logits[0].log_softmax(-1)
        by_hand = [-float(logprobs[len(prompt) - 1 + at, token]) for at, token in enumerate(target)]
        assert found == pytest.approx(sum(by_hand) / len(by_hand))


# --- the model is left as it was


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("method", "options"), [(rome.rome, {"layer": 1}), (memit.memit, {"layers": [0, 1]})])
def test_nothing_else_changes_and_all_is_undone(method: Any, options: dict[str, Any], dtype: Any) -> None:  # noqa: ANN401
    model = local("GPT2", dtype)
    model.model.transformer.h[0].train()
    model.model.transformer.wte.weight.requires_grad_(False)
    model.tokenizer.padding_side = "left"
    before, state = digests(model.model), torch.get_rng_state()
    flags = [(name, p.requires_grad) for name, p in model.model.named_parameters()]
    modes = [module.training for module in model.model.modules()]
    hooked = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.model.modules()]
    found = edited(model, method, settings(**options))
    assert digests(model.model) == before
    with found.applied() as changed:
        inside = digests(model.model)
        assert isinstance(changed, Local) and changed.info()["align"]["delta"] == found.delta.digest
    assert {name for name in before if inside[name] != before[name]} == set(found.delta.changes)
    assert digests(model.model) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert [(name, p.requires_grad) for name, p in model.model.named_parameters()] == flags
    assert [module.training for module in model.model.modules()] == modes
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.model.modules()] == hooked
    assert not any("forward" in vars(block) for block in model.model.transformer.h)
    assert model.tokenizer.padding_side == "left"
    assert model.model.lm_head.weight is model.model.transformer.wte.weight


@pytest.mark.parametrize("method", [rome.rome, memit.memit])
def test_the_same_seed_gives_the_same_edit(method: Any) -> None:  # noqa: ANN401
    first, again = (edited(local(), method, settings()) for _ in range(2))
    assert first.delta.digest == again.delta.digest
    assert first.record == again.record
    other = edited(local(), method, dataclasses.replace(settings(), seed=1))
    assert other.delta.digest != first.delta.digest


def test_an_edit_that_fails_midway_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local()
    before = digests(model.model)
    nll = values.nll
    calls: list[int] = []

    def fails(*args: Any) -> list[float]:  # noqa: ANN401
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return nll(*args)

    monkeypatch.setattr(rome, "nll", fails)
    with pytest.raises(KeyboardInterrupt):
        edited(model, rome.rome, settings())
    assert len(calls) == 3 and digests(model.model) == before


# --- collapse


@pytest.mark.parametrize(("method", "where"), [(rome.rome, {"layer": 0}), (memit.memit, {"layers": [0, 1]})])
def test_a_collapse_is_noticed_and_undone(method: Any, where: dict[str, Any]) -> None:  # noqa: ANN401
    model = local()
    before = digests(model.model)
    with pytest.raises(AlignError, match="collapsed at the edit of"):
        edited(model, method, settings(**where, max_perplexity=1e-6))
    assert digests(model.model) == before


def test_an_edit_that_makes_its_target_less_likely_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rome, "nll", lambda *_: [1e3])
    with pytest.raises(AlignError, match="less likely"):
        edited(local(), rome.rome, settings(max_nll=5.0))
    monkeypatch.setattr(rome, "nll", lambda *_: [float("nan")])
    with pytest.raises(AlignError, match="no numbers any more"):
        edited(local(), rome.rome, settings())


def test_a_search_without_a_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = values._loss
    monkeypatch.setattr(values, "_loss", lambda *a, **k: tuple(each * float("nan") for each in loss(*a, **k)))
    with pytest.raises(AlignError, match="came to no number"):
        edited(local(), rome.rome, settings())


def test_memit_needs_blocks_that_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import test_align_structure, tiny_models  # noqa: PLC0415

    monkeypatch.setattr(tiny_models, "FAMILIES", {**tiny_models.FAMILIES, **test_align_structure.EDITED})
    with pytest.raises(AlignError, match="puts a norm behind its MLP"):
        edited(local("Olmo2"), memit.memit, settings())
    with pytest.raises(AlignError, match="nothing to edit"):
        memit.memit(local(), [], settings(), silent)
    with pytest.raises(AlignError, match="nothing to edit"):
        rome.rome(local(), [], settings(), silent)
