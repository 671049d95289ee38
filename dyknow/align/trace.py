"""Forward passes of rows of tokens: begun behind a cached prefix or at a later block, ended early, looked into.

Rows are padded here, on the right, or on the left where a prefix is; the tokenizer's own side plays no part.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dyknow.align import hooks
from dyknow.align import structure as structures
from dyknow.align.hooks import Tensor
from dyknow.align.structure import Structure
from dyknow.models.base import Model
from dyknow.models.extras import need, quiet
from kg.errors import AlignError


@dataclass(frozen=True)
class Rows:
    """Rows of tokens as a model takes them.

    Attributes:
        ids: (rows, tokens), padded on the right.
        mask: (rows, prefix + tokens): which are real.
        places: (rows, tokens): where in its text each token stands.
        cache: Keys and values of the prefix; None where there is none.
    """

    ids: Tensor
    mask: Tensor
    places: Tensor
    cache: Any = None

    def only(self, kept: Tensor) -> "Rows":
        """Return some of the rows; their cache is copied."""
        cache = copy.deepcopy(self.cache)
        if cache is not None:
            cache.batch_select_indices(kept)
        return Rows(self.ids[kept], self.mask[kept], self.places[kept], cache)


class Picks(NamedTuple):
    """Positions whose logits are wanted: row and column of each."""

    rows: Tensor
    columns: Tensor


@dataclass
class Seen:
    """What a pass showed, by layer: (rows, tokens, …)."""

    logits: Tensor = None  # (picked, vocabulary), or of all positions
    keys: dict[int, Tensor] = field(default_factory=dict)  # inputs of the projections
    values: dict[int, Tensor] = field(default_factory=dict)  # their outputs
    states: dict[int, Tensor] = field(default_factory=dict)  # the blocks' outputs
    cache: Any = None


@dataclass(frozen=True)
class Look:
    """What to look at, by layer, and where to stop: behind the deepest of it unless logits are wanted."""

    keys: Sequence[int] = ()
    values: Sequence[int] = ()
    states: Sequence[int] = ()
    logits: bool = False

    @property
    def deepest(self) -> int:
        """The last block that has something to show."""
        return max((*self.keys, *self.values, *self.states))


def adapt(model: Model) -> Structure:
    """Return a model's structure, proved; the model is left as it was.

    Raises:
        AlignError: weights of this model cannot be edited; the message says why.
    """
    structure = structures.find(model)
    with need("torch").no_grad(), hooks.as_asked(structure.model), quiet():
        _prove(structure)
    return structure


def rows(structure: Structure, texts: Sequence[Sequence[int]]) -> Rows:
    """Return token ids as rows padded on the right."""
    return _after(structure, [0] * len(texts), texts, None, 0)


def behind(structure: Structure, heads: Sequence[Sequence[int]], tails: Sequence[Sequence[int]]) -> Rows:
    """Return tails as rows behind their heads, which are computed here, once; a head may be empty, but not all."""
    torch = need("torch")
    width = max(map(len, heads))
    ids = torch.full((len(heads), width), structure.local.pad())
    mask = torch.zeros_like(ids)
    for row, head in enumerate(heads):
        if head:
            ids[row, -len(head) :] = torch.tensor(head)
            mask[row, -len(head) :] = 1
    places = (mask.cumsum(-1) - 1).clamp_min(0)
    prefix = Rows(*(each.to(structure.model.device) for each in (ids, mask, places)))
    with torch.no_grad():
        cache = _call(structure, prefix, use_cache=True).get(_cache_name(structure))
    return _after(structure, list(map(len, heads)), tails, cache, width)


def _after(structure: Structure, starts: list[int], tails: Sequence[Sequence[int]], cache: Any, width: int) -> Rows:  # noqa: ANN401
    torch = need("torch")
    longest = max(map(len, tails))
    ids = torch.full((len(tails), longest), structure.local.pad())
    mask = torch.zeros((len(tails), width + longest), dtype=torch.long)
    for row, (start, tail) in enumerate(zip(starts, tails, strict=True)):
        ids[row, : len(tail)] = torch.tensor(list(tail))
        mask[row, width - start : width + len(tail)] = 1
    places = (mask.cumsum(-1) - 1).clamp_min(0)[:, width:]
    device = structure.model.device
    return Rows(ids.to(device), mask.to(device), places.to(device), cache)


def run(
    structure: Structure,
    batch: Rows,
    look: Look,
    *,
    picks: Picks | None = None,
    start: int = 0,
    hidden: Tensor = None,
    inject: tuple[int, Callable[[Tensor], Tensor]] | None = None,
) -> Seen:
    """Run the model over rows and return what was asked to be seen.

    Args:
        structure: The model's.
        batch: The rows.
        look: What to see; nothing behind it is computed.
        picks: The positions whose logits are wanted; None: all.
        start: The first block to run; those before are skipped and ``hidden`` stands in their place.
        hidden: What goes into that block, (rows, tokens, hidden).
        inject: A projection's layer and what is made of its output.
    """
    seen = Seen()
    with ExitStack() as stack:
        enter = stack.enter_context
        if start:
            enter(hooks.skipped(structure.blocks[:start], structure.forms[:start], hidden))
        if inject:
            enter(hooks.hooked(structure.projections[inject[0]].module, inject[1]))
        if picks:
            enter(hooks.picked(structure.head, *picks))
        _watch(structure, look, seen, enter)
        enter(hooks.until_stopped())
        output = _call(structure, batch, use_cache=batch.cache is not None)
        seen.logits = output.logits[0] if picks else output.logits
    return seen


def _watch(structure: Structure, look: Look, seen: Seen, enter: Callable[[Any], object]) -> None:
    for layer in look.keys:
        enter(hooks.seen_before(structure.projections[layer].module, _keep(seen.keys, layer)))
    for layer in look.values:
        enter(hooks.hooked(structure.projections[layer].module, _keep(seen.values, layer)))
    for layer in look.states:
        enter(hooks.hooked(structure.blocks[layer], _keep(seen.states, layer)))
    if look.logits:
        return
    # Hooks run in the order they were made, so what is to be kept is kept before the pass ends.
    if look.deepest in look.states:
        enter(hooks.hooked(structure.blocks[look.deepest], hooks.stop))
    elif look.deepest in look.values:
        enter(hooks.hooked(structure.projections[look.deepest].module, hooks.stop))
    else:
        enter(hooks.seen_before(structure.projections[look.deepest].module, hooks.stop))


def _keep(where: dict[int, Tensor], layer: int) -> Callable[[Tensor], None]:
    def keep(tensor: Tensor) -> None:
        where[layer] = tensor.clone()  # some blocks go on to add in place

    return keep


def _call(structure: Structure, batch: Rows, *, use_cache: bool) -> Any:  # noqa: ANN401
    model = structure.model
    known = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {"attention_mask": batch.mask, "use_cache": use_cache}
    if "position_ids" in known:
        given["position_ids"] = batch.places
    if batch.cache is not None:
        # A pass writes into its cache; the prefix is used again and again.
        given[_cache_name(structure)] = copy.deepcopy(batch.cache)
    elif use_cache and "logits_to_keep" in known:
        given["logits_to_keep"] = 1
    return model(batch.ids, **given)


def _cache_name(structure: Structure) -> str:
    known = inspect.signature(structure.model.forward).parameters
    return "cache" if "cache" in known else "past_key_values"  # as transformers called it before 5.24


def _prove(structure: Structure) -> None:
    """Check that a pass behind a prefix and begun at a later block gives the logits of the whole pass."""
    torch = need("torch")
    size = int(structure.model.get_input_embeddings().weight.shape[0])
    texts = [[(size // 3 + 7 * at + row) % size for at in range(6 + row)] for row in range(2)]
    whole = run(structure, rows(structure, texts), Look(logits=True)).logits
    cuts = [2, 4]
    tails = [text[cut:] for text, cut in zip(texts, cuts, strict=True)]
    batch = behind(structure, [text[:cut] for text, cut in zip(texts, cuts, strict=True)], tails)
    middle = len(structure.blocks) // 2
    states = run(structure, batch, Look(states=[middle])).states[middle]
    picks = Picks(*(torch.tensor(each, device=whole.device) for each in ([0, 1], [3, 2])))
    found = run(structure, batch, Look(logits=True), picks=picks, start=middle + 1, hidden=states).logits
    expected = torch.stack([whole[row, cuts[row] + column] for row, column in ((0, 3), (1, 2))])
    room = 1e-3 if whole.dtype.itemsize >= 4 else 0.1
    if float((found - expected).abs().max()) > room * float(expected.abs().max()):
        raise AlignError(
            f"{structure.local.name} gives other logits when a pass is begun in the middle.",
            hint="Take a method that works by text: ike, rag, serac.",
        )
