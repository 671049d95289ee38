"""ROME and MEMIT on tiny models that know their facts: what an edit is for, and what it must leave alone."""

import importlib
import os
from collections.abc import Callable
from typing import Any

import pytest

from dyknow.align.base import Settings
from dyknow.align.memit import memit
from dyknow.align.rome import rome
from dyknow.models.local import Local
from tests import trained

pytestmark = pytest.mark.xdist_group("trained")  # trained once, in one worker where those are grouped

# The nets have never read anything before a wording, so no context is put there.
PLAIN: dict[str, Any] = {"contexts": []}
# Not the preset's 4: with it ROME reaches .53 of the other wordings on Llama, and the identity is no worse there. Chosen
# on these very nets, the least of 4, 6, 8, 12 and 20 at which both differences show. Held against nets of two other seeds
# afterwards: ROME 1, 1 and 1 on all four of them, the identity at most .6, .57 and .3.
CLAMP = 8.0


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Local:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    folder = trained.shared_folder(tmp_path_factory, os.environ.get("PYTEST_XDIST_WORKER", "master"))
    return trained.trained(request.param, folder)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("DYKNOW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def silent(_done: int, _of: int, _what: str) -> None:
    pass


def measured(model: Local, method: Callable[..., Any], preset: str = "recommended", **options: Any) -> Any:  # noqa: ANN401
    edits = trained.requests()
    found = method(model, edits, Settings(preset, options={**PLAIN, **options}, corpus=trained.texts()), silent)
    with found.applied() as edited:
        return trained.measure(edited, edits)


def test_before_an_edit_the_model_knows_its_facts(model: Local) -> None:
    assert trained.measure(model, trained.requests()) == (0.0, 0.0, 1.0)


def test_rome_edits_facts_in_all_wordings_and_leaves_others(model: Local) -> None:
    efficacy, paraphrase, locality = measured(model, rome, layer=1, clamp=CLAMP)
    assert efficacy >= 0.9
    assert paraphrase >= 0.7
    assert locality >= 0.95


def test_memit_edits_facts_in_all_wordings_and_leaves_others(model: Local) -> None:
    efficacy, paraphrase, locality = measured(model, memit, layers=[1, 2])
    assert efficacy >= 0.9
    assert paraphrase >= 0.7
    assert locality >= 0.95


def test_the_identity_in_the_place_of_second_moments_is_worse(model: Local) -> None:
    efficacy, paraphrase, locality = measured(model, rome, "paper", layer=1, clamp=CLAMP)
    assert efficacy <= 0.8 and paraphrase <= 0.8
    assert locality <= 0.6
