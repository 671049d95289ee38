"""Fine-tuning as a baseline: of one projection with a bound on its change (FT-L), and of low-rank adapters (LoRA).

Both minimise the negative log-likelihood of the targets after the edited prompts, all facts in one batch.

* FT-L: Zhu et al. 2020, "Modifying Memories in Transformer Models", with the bound on each weight that Meng et al. 2022
  use as their baseline.
* LoRA: Hu et al. 2021, through peft; the adapters are multiplied out, so that the edit is a delta like any other.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from dyknow.align import delta as deltas
from dyknow.align import pool, tokens, trace
from dyknow.align.base import EditReport, EditRequest, Progress, Settings
from dyknow.align.choices import chosen
from dyknow.align.delta import Factors
from dyknow.align.hooks import Tensor, as_asked
from dyknow.align.presets import rome as rome_options
from dyknow.align.structure import Structure
from dyknow.align.trace import Look
from dyknow.align.weights import EditedWeights
from dyknow.models.base import Model
from dyknow.models.extras import need
from kg.errors import AlignError


@dataclass(frozen=True)
class FineTuning:
    """Settings.

    Attributes:
        layer: The block whose projection is trained; None: ROME's.
        steps: Steps of Adam at most.
        lr: Their length.
        bound: How far each weight may move; 0: as far as it likes.
        stop_loss: Below it training ends.
        max_rise: By how much the loss may exceed its beginning before training is given up.
    """

    layer: int | None = None
    steps: int = 25
    lr: float = 5e-4
    bound: float = 5e-4
    stop_loss: float = 0.05
    max_rise: float = 5.0


@dataclass(frozen=True)
class Lora:
    """Settings.

    Attributes:
        rank: Of each adapter.
        alpha: Adapters count alpha / rank times.
        steps: Steps of Adam at most.
        lr: Their length.
        stop_loss: Below it training ends.
        max_rise: By how much the loss may exceed its beginning before training is given up.
    """

    rank: int = 8
    alpha: float = 16.0
    steps: int = 60
    lr: float = 5e-3
    stop_loss: float = 0.05
    max_rise: float = 5.0


# The study has no fine-tuning; "original" is the baseline of ROME's paper.
FT_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "recommended": {"bound": 2e-3, "steps": 50, "lr": 1e-3},
    "original": {},
}
LORA_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {"recommended": {}}


@dataclass(frozen=True)
class _Batch:
    """Prompts with their targets, padded on the right.

    Attributes:
        rows: Token ids and mask, (requests, length).
        at: For each target token its request and the column whose logits should give it, (tokens, 2).
        targets: The tokens, (tokens,).
    """

    rows: trace.Rows
    at: Tensor
    targets: Tensor

    def losses(self, structure: Structure) -> Tensor:
        """Return the mean negative log-likelihood of each request's target, (requests,)."""
        torch = need("torch")
        logits = trace.run(structure, self.rows, Look(logits=True)).logits[self.at[:, 0], self.at[:, 1]]
        each = torch.nn.functional.cross_entropy(logits.float(), self.targets, reduction="none")  # (tokens,)
        count = int(self.rows.ids.shape[0])
        sums = torch.zeros(count, device=each.device).index_add(0, self.at[:, 0], each)
        return sums / torch.bincount(self.at[:, 0], minlength=count)


def _batch(structure: Structure, requests: Sequence[EditRequest]) -> _Batch:
    torch, device = need("torch"), structure.model.device
    texts, at, targets = [], [], []
    for number, request in enumerate(requests):
        row = tokens.prepare(structure.local, request).rows[0]
        texts.append([*row.head, *row.tail])
        at += [[number, len(row.head) + pick] for pick in row.picks]
        targets += row.targets
    return _Batch(trace.rows(structure, texts), torch.tensor(at, device=device), torch.tensor(targets, device=device))


def fine_tune(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> EditedWeights:
    """Train one projection on the targets; the model is unchanged, the edit is in what is returned.

    Raises:
        AlignError: the model's weights cannot be edited, the settings are not to be worked with, or training diverged.
    """
    pool.check(requests)
    structure, begun = trace.adapt(model), time.perf_counter()
    how = chosen(FineTuning, FT_PRESETS, settings, "FT")
    layer = rome_options(structure, Settings()).layer if how.layer is None else how.layer
    structure.check([layer])
    projection = structure.projections[layer]
    weight = projection.module.weight
    with as_asked(structure.model), _trained([weight]):
        old = weight.detach().clone()
        batch = _batch(structure, requests)

        def bounded() -> None:
            if how.bound:
                weight.copy_(old + (weight - old).clamp(-how.bound, how.bound))

        try:
            before, after = _train(structure, batch, [weight], how, bound=bounded, progress=progress)
            change = weight.detach().double() - old.double()
        finally:
            with need("torch").no_grad():
                weight.copy_(old)
        options = asdict(how) | {"layer": layer}
        record = _record("ft", structure, settings, options, requests)
        delta = deltas.made(record, structure.model, {projection.name: change.cpu()})
    moved = float(change.norm() / old.double().norm())
    return EditedWeights(structure.local, delta, _reports(requests, before, after, moved, time.perf_counter() - begun))


def lora(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> EditedWeights:
    """Train low-rank adapters of all MLP projections; the model is unchanged, the edit is in what is returned.

    Raises:
        AlignError: peft is not installed, the model's weights cannot be edited, or training diverged.
    """
    pool.check(requests)
    structure, begun = trace.adapt(model), time.perf_counter()
    how = chosen(Lora, LORA_PRESETS, settings, "LoRA")
    with as_asked(structure.model):
        batch = _batch(structure, requests)
        with _adapters(structure, how, settings.seed) as adapters:
            parameters = [part for pair in adapters.values() for part in pair]
            with _trained(parameters):
                before, after = _train(structure, batch, parameters, how, bound=lambda: None, progress=progress)
            changes = {
                projection.name: _factors(adapters[projection.name], how, transposed=projection.transposed)
                for projection in structure.projections
            }
        record = _record("lora", structure, settings, asdict(how), requests)
        delta = deltas.made(record, structure.model, changes)
    return EditedWeights(structure.local, delta, _reports(requests, before, after, None, time.perf_counter() - begun))


@contextmanager
def _adapters(structure: Structure, how: Lora, seed: int) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Put adapters into the model: by projection A (rank, d_ff) and B (d, rank); on leaving they are gone."""
    peft, torch = need("peft"), need("torch")
    names = [projection.name.removesuffix(".weight") for projection in structure.projections]
    transposed = structure.projections[0].transposed
    config = peft.LoraConfig(r=how.rank, lora_alpha=how.alpha, target_modules=names, fan_in_fan_out=transposed)
    wanted = [(parameter, parameter.requires_grad) for parameter in structure.model.parameters()]
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    wrapped = peft.get_peft_model(structure.model, config)
    try:
        modules = dict(structure.model.named_modules())
        yield {
            f"{name}.weight": (modules[name].lora_A["default"].weight, modules[name].lora_B["default"].weight)
            for name in names
        }
    finally:
        wrapped.unload()
        torch.random.set_rng_state(state)
        for parameter, before in wanted:
            parameter.requires_grad_(before)


def _factors(pair: tuple[Tensor, Tensor], how: Lora, *, transposed: bool) -> Factors:
    """Return an adapter's product in the layout in which the projection is stored."""
    first, second = (part.detach().cpu().double() for part in pair)
    left, right = second * (how.alpha / how.rank), first
    return Factors(right.T.contiguous(), left.T.contiguous()) if transposed else Factors(left, right)


@contextmanager
def _trained(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Let these parameters alone have gradients while inside."""
    before = [parameter.requires_grad for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter, wanted in zip(parameters, before, strict=True):
            parameter.requires_grad_(wanted)
            parameter.grad = None


def _train(
    structure: Structure,
    batch: _Batch,
    parameters: Sequence[Tensor],
    how: FineTuning | Lora,
    *,
    bound: Callable[[], None],
    progress: Progress,
) -> tuple[list[float], list[float]]:
    """Train and return each request's loss before and after."""
    torch = need("torch")
    optimiser = torch.optim.Adam(parameters, lr=how.lr)
    first: list[float] = []
    for step in range(how.steps):
        losses = batch.losses(structure)
        loss = losses.mean()
        first = first or losses.detach().tolist()
        _check(float(loss.detach()), sum(first) / len(first), how.max_rise)
        if float(loss.detach()) < how.stop_loss:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            bound()
        progress(len(first) * (step + 1) // how.steps, len(first), f"loss {float(loss.detach()):.2f}")
    with torch.no_grad():
        last = batch.losses(structure).tolist()
    _check(sum(last) / len(last), sum(first) / len(first), how.max_rise)
    progress(len(first), len(first), "done")
    return first, last


def _check(loss: float, first: float, most: float) -> None:
    if not loss < first + most:  # no number is refused, too
        raise AlignError(
            f"Training diverged: the loss went from {first:.1f} to {loss:.1f}.",
            hint="Take a smaller lr, or fewer steps.",
        )


def _record(
    name: str, structure: Structure, settings: Settings, options: dict[str, Any], requests: Sequence[EditRequest]
) -> dict[str, Any]:
    return {
        "method": name,
        "preset": settings.preset,
        "seed": settings.seed,
        "model": structure.local.name,
        "options": options,
        "edits": len(requests),
        "requests": pool.digest(requests),
    }


def _reports(
    requests: Sequence[EditRequest], before: list[float], after: list[float], moved: float | None, seconds: float
) -> tuple[EditReport, ...]:
    share = seconds / len(requests)
    return tuple(
        EditReport(one.fact, share, old, new, moved) for one, old, new in zip(requests, before, after, strict=True)
    )
