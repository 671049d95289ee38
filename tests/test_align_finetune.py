"""Fine-tuning baselines: the targets are learnt, and nothing else of the model moves."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from dyknow.align import delta as deltas
from dyknow.align import finetune, trace
from dyknow.align.base import Aligned, EditRequest, Settings, Wording
from dyknow.models import Options
from dyknow.models.local import Local
from dyknow.prompts import Span
from kg.errors import AlignError
from tests.tiny_models import causal, learnt

TEXTS = ["The current president of Italy is Mario Rossi", "The current head of Poland is Jan Kowalski"]
SUBJECTS = ["president of Italy", "head of Poland"]
METHODS = {"ft": finetune.fine_tune, "lora": finetune.lora}
FAST: dict[str, dict[str, Any]] = {"ft": {"lr": 0.05, "bound": 0, "steps": 60, "layer": 1}, "lora": {"lr": 0.05}}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    importlib.import_module("torch").set_num_threads(1)


def local(family: str) -> Local:
    return Local(causal(family), learnt(TEXTS), family, Options(style="completion"))


def requests() -> list[EditRequest]:
    found = []
    for number, (text, subject) in enumerate(zip(TEXTS, SUBJECTS, strict=True)):
        prompt, _, _ = text.partition(" is ")
        start = text.index(subject)
        wording = Wording(f"Q{number}/P6#1", f"{prompt} is", Span(start, start + len(subject)))
        target = text.rpartition(" is ")[2]
        found.append(EditRequest(f"Q{number}/P6", "countries", subject, "update", wording, (), target, None))
    return found


def digests(model: Local) -> dict[str, str]:
    return {name: deltas.digest(tensor) for name, tensor in model.model.state_dict().items()}


def tuned(name: str, model: Local, **options: Any) -> Aligned:  # noqa: ANN401
    function: Callable[..., Aligned] = METHODS[name]
    settings = Settings(options={**FAST[name], **options})
    return function(model, requests(), settings, lambda done, total, what: None)


@pytest.mark.parametrize("family", ["GPT2", "Llama"])
@pytest.mark.parametrize("name", METHODS)
def test_targets_are_learnt_and_the_model_is_as_it_was(name: str, family: str) -> None:
    model = local(family)
    before, flags = digests(model), [p.requires_grad for p in model.model.parameters()]
    done = tuned(name, model)
    assert digests(model) == before
    assert [p.requires_grad for p in model.model.parameters()] == flags
    assert all((one.nll_after or 0) < 0.75 * (one.nll_before or 0) for one in done.reports)
    with done.applied() as edited:
        inside = digests(model)
        # A second route: the loss of the edited weights themselves.
        batch = finetune._batch(trace.adapt(edited), requests())
        losses = batch.losses(trace.adapt(edited)).tolist()
    assert losses == pytest.approx([one.nll_after for one in done.reports], abs=1e-3)
    moved = {key for key in before if inside[key] != before[key]}
    assert moved == set(done.delta.changes) if hasattr(done, "delta") else moved
    assert digests(model) == before


def test_a_bound_holds() -> None:
    model = local("Llama")
    done = tuned("ft", model, bound=0.001)
    (change,) = done.delta.changes.values()  # type: ignore[attr-defined]
    assert 0.0009 < float(change.abs().max()) <= 0.001 + 1e-8


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_edit(name: str) -> None:
    model = local("GPT2")
    assert tuned(name, model).record == tuned(name, model).record


@pytest.mark.parametrize("name", METHODS)
def test_training_that_diverges_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, plain, calls = local("Llama"), finetune._Batch.losses, iter(range(100))
    before = digests(model)

    def worse(batch: finetune._Batch, structure: Any) -> Any:  # noqa: ANN401
        return plain(batch, structure) + (50.0 if next(calls) > 3 else 0.0)

    monkeypatch.setattr(finetune._Batch, "losses", worse)
    with pytest.raises(AlignError, match="Training diverged"):
        tuned(name, model)
    assert next(calls) == 5  # after four steps
    assert digests(model) == before


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(AlignError, match="no option 'epochs'"):
        tuned("ft", local("Llama"), epochs=3)
