"""Beside the edits of weights: second moments, changes saved and put on elsewhere, and settings."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from dyknow.align import delta as deltas
from dyknow.align import memit, moments, presets, rome, trace
from dyknow.align.base import Settings
from dyknow.align.moments import Moments, Reading
from dyknow.align.trace import Look
from dyknow.models import Options
from dyknow.models.local import Local
from kg.errors import AlignError, DataError, UsageError
from tests.test_align_structure import digests
from tests.test_align_weights import REQUESTS, edited, local, settings, silent
from tests.test_families import TEXTS

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("DYKNOW_CACHE", str(tmp_path / "cache"))


# --- second moments


def test_second_moments_are_those_of_each_text_by_itself() -> None:
    model = local("GPT2")
    structure = trace.adapt(model)
    found = moments.moments(structure, [0, 1], TEXTS, Reading(10**6, 8, 64))
    for layer in (0, 1):
        total, count = torch.zeros(64, 64, dtype=torch.float64), 0
        for text in TEXTS:
            ids = model.tokenizer(text).input_ids
            for piece in (ids[at : at + 8] for at in range(0, len(ids), 8)):
                if len(piece) < 2:
                    continue
                with torch.no_grad():
                    look = Look(keys=[layer])
                    keys = trace.run(structure, trace.rows(structure, [piece]), look).keys[layer][0]
                total += keys[1:].T @ keys[1:]  # without the first token
                count += len(piece) - 1
        assert found[layer].tokens == count
        torch.testing.assert_close(found[layer].matrix, total / count)


def test_second_moments_are_kept_under_all_they_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = local()
    measured: list[list[int]] = []
    measure = moments._measure

    def count(structure: Any, layers: Any, *rest: Any) -> dict[int, Moments]:  # noqa: ANN401
        measured.append(list(layers))
        return measure(structure, layers, *rest)

    monkeypatch.setattr(moments, "_measure", count)
    structure, reading = trace.adapt(model), Reading(10**6, 16, 64)
    first = moments.moments(structure, [0], TEXTS, reading)
    again = moments.moments(structure, [0, 1], TEXTS, reading)
    assert measured == [[0], [1]]
    assert torch.equal(first[0].matrix, again[0].matrix)
    with torch.no_grad():
        structure.projections[1].module.weight += 1  # behind what either layer's projection reads
    moments.moments(structure, [0, 1], TEXTS, reading)
    assert len(measured) == 2
    with torch.no_grad():
        structure.projections[0].module.weight += 1
    moments.moments(structure, [0, 1], TEXTS, reading)
    assert measured[2:] == [[1]]
    moments.moments(structure, [0], TEXTS[1:], reading)
    moments.moments(structure, [0], TEXTS, Reading(50, 16, 64))
    assert measured[3:] == [[0], [0]]


def test_second_moments_hold_no_more_texts_than_asked_for_and_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = trace.adapt(local())
    sizes: list[int] = []
    rows = trace.rows

    def spy(found: Any, texts: Any) -> Any:  # noqa: ANN401
        sizes.append(sum(map(len, texts)))
        return rows(found, texts)

    monkeypatch.setattr(trace, "rows", spy)
    few = moments.moments(structure, [0], TEXTS * 40, Reading(300, 16, 64), None)
    assert 300 <= few[0].tokens < 316
    moments.moments(structure, [0], TEXTS * 40, Reading(10**6, 16, 64), None)
    assert max(sizes) <= 64 and len(sizes) > 40


def test_texts_are_wanted_and_enough_of_them() -> None:
    for corpus in (None, ()):
        with pytest.raises(AlignError, match="need texts"):
            rome.rome(local(), REQUESTS, dataclasses.replace(settings(), corpus=corpus), silent)
    with pytest.raises(AlignError, match="fewer than the 32"):
        rome.rome(local(), REQUESTS, settings(corpus=["The king of Italy"]), silent)
    with pytest.raises(AlignError, match="holds no text"):
        rome.rome(local(), REQUESTS, settings(corpus=["", ""]), silent)


# --- deltas


def test_a_saved_edit_makes_the_same_model_elsewhere(tmp_path: Path) -> None:
    model = local("GPT2", torch.float32)
    found = edited(model, memit.memit, settings(layers=[0, 1]))
    found.delta.save(tmp_path / "edit")
    assert sorted(path.name for path in (tmp_path / "edit").iterdir()) == ["delta.json", "delta.safetensors"]
    loaded = deltas.load(tmp_path / "edit")
    assert (loaded.record, loaded.digest) == (found.delta.record, found.delta.digest)
    other = local("GPT2", torch.float32)
    before = digests(other.model)
    with found.applied():
        wanted = digests(model.model)
    with loaded.applied(other):
        assert digests(other.model) == wanted
    assert digests(other.model) == before
    assert digests(loaded.apply(other)) == wanted


def test_an_edit_is_put_onto_the_weights_it_was_made_for_alone(tmp_path: Path) -> None:
    model = local("GPT2", torch.float32)
    found = edited(model, rome.rome, settings(layer=1)).delta
    other = local("GPT2", torch.float32)
    with torch.no_grad():
        other.model.transformer.h[1].mlp.c_proj.weight[0, 0] += 1e-6
    before = digests(other.model)
    with pytest.raises(AlignError, match="is not the one that the edit was made for"), found.applied(other):
        pass
    assert digests(other.model) == before
    with pytest.raises(AlignError, match="has no weights"), found.applied(local("Llama")):
        pass
    wrong = dataclasses.replace(found, after_digests=dict.fromkeys(found.after_digests, "0"))
    before = digests(model.model)
    with pytest.raises(AlignError, match="comes out otherwise"), wrong.applied(model):
        pass
    assert digests(model.model) == before
    with pytest.raises(DataError, match="holds no edit"):
        deltas.load(tmp_path)
    found.save(tmp_path)
    (tmp_path / "delta.safetensors").write_bytes(b"x")
    with pytest.raises(DataError, match="is damaged"):
        deltas.load(tmp_path)


def test_a_dense_change_is_undone_too() -> None:
    model = local("GPT2", torch.float32)
    name = "transformer.h.0.mlp.c_proj.weight"
    weight = dict(model.model.named_parameters())[name]
    made = deltas.made({}, model.model, {name: torch.full_like(weight, 0.1)})
    before = weight.detach().clone()
    with made.applied(model):
        torch.testing.assert_close(weight, before + 0.1)
    assert torch.equal(weight, before)


# --- settings


def test_the_study_s_settings_stand_in_the_table() -> None:
    structure = trace.adapt(local())

    def of(name: str, method: str, preset: str = "paper", **options: Any) -> Any:  # noqa: ANN401
        named = Local(structure.model, structure.local.tokenizer, name, Options(style="completion"))
        many = dataclasses.replace(structure, local=named, blocks=structure.blocks * 24, gated="lama" in name)
        return getattr(presets, method)(many, Settings(preset, options=options))

    xl = of("gpt2-xl", "rome")
    assert (xl.layer, xl.steps, xl.weight_decay, xl.clamp, xl.covariance) == (17, 20, 0.5, 4.0, False)
    llama = of("Llama-2-7b-chat-hf", "rome")
    assert (llama.layer, llama.steps, llama.weight_decay, llama.kl, llama.lr) == (5, 25, 1e-3, 0.0625, 0.5)
    assert (of("gpt-j-6B", "memit").layers, of("gpt-j-6B", "memit").lambda_) == ((3, 4, 5, 6, 7, 8), 15000)
    assert (of("gpt2-xl", "memit").lambda_, of("gpt2-xl", "memit").clamp) == (20000, 0.75)
    assert of("SmolLM2-135M-Instruct.Q4_1", "memit", "recommended").layers == (4, 5, 6, 7, 8)
    assert of("gpt2-medium", "rome", "original").clamp == 3.0
    unlisted, gated = of("mine", "rome"), of("my-llama", "rome")  # 48 blocks
    assert (unlisted.layer, gated.layer, of("my-llama", "memit").layers) == (17, 8, (9, 10, 11, 12, 13))
    assert of("mine", "rome", layer=3, lr=1).record()["lr"] == 1.0
    assert of("gpt2-xl", "rome").record()["max_nll"] is None


@pytest.mark.parametrize(
    ("preset", "options", "why"),
    [
        ("papr", {}, "is no preset"),
        ("paper", {"layr": 1}, "is no option of ROME"),
        ("paper", {"layers": [1]}, "is no option of ROME"),
        ("paper", {"layer": "one"}, "layer is 'one'"),
        ("paper", {"lr": -1}, "lr is -1"),
        ("paper", {"covariance": 1}, "covariance is 1"),
        ("paper", {"key": "other"}, "key is 'other'"),
        ("paper", {"contexts": [[5]]}, "contexts is"),
        ("paper", {"contexts": 5}, "Give a list"),
    ],
)
def test_settings_that_are_none_are_refused(preset: str, options: dict[str, Any], why: str) -> None:
    model = local()
    with pytest.raises(UsageError) as caught:
        rome.rome(model, REQUESTS, Settings(preset, options=options, corpus=TEXTS), silent)
    assert why in f"{caught.value.message} {caught.value.hint}"


def test_blocks_that_are_not_there_are_refused() -> None:
    with pytest.raises(AlignError, match="has no block 7"):
        rome.rome(local(), REQUESTS, settings(layer=7), silent)
    with pytest.raises(UsageError, match="layers is"):
        memit.memit(local(), REQUESTS, settings(layers=[1, 0]), silent)


def test_progress_and_reports_follow_the_requests() -> None:
    told: list[tuple[int, int, str]] = []
    found = rome.rome(local(), [*REQUESTS[:2]], settings(), lambda *step: told.append(step))
    assert [report.fact for report in found.reports] == [request.fact for request in REQUESTS[:2]]
    assert told[-1] == (2, 2, "done") and (1, 2, REQUESTS[1].fact) in told
    for report in found.reports:
        assert report.seconds > 0 and report.change and report.nll_before and report.nll_after
    assert found.record["edits"] == 2 and found.record["method"] == "rome"
