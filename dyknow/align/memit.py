"""MEMIT: many facts at once, spread over several blocks' MLP projections (Meng et al. 2023, arXiv 2210.07229).

For each fact the hidden state z behind the last of the blocks is sought; from the first block on, each takes its share
of what is still missing, R, at the keys K of the subjects (eq. 14)::

    W' = W + R K^T (lambda C + K K^T)^-1

lambda stands for the number of things the model knew before.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from dyknow.align import tokens, trace, weights
from dyknow.align.base import EditReport, EditRequest, Progress, Settings
from dyknow.align.hooks import Tensor
from dyknow.align.presets import Memit
from dyknow.align.presets import memit as memit_options
from dyknow.align.structure import Structure
from dyknow.align.tokens import Prepared
from dyknow.align.trace import Look, Rows
from dyknow.align.values import Site, nll, optimise
from dyknow.align.weights import EditedWeights, Editor, Guard
from dyknow.models.base import Model
from dyknow.models.extras import need
from kg.errors import AlignError


def memit(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> EditedWeights:
    """Edit facts together; the model is unchanged, the edits are in what is returned.

    Raises:
        AlignError: the model's weights cannot be edited, a subject or target is missing, there are no texts for second
            moments, or the model collapsed.
        UsageError: a preset or option is unknown.
    """
    if not requests:
        raise AlignError("There is nothing to edit.", hint="Look at the plan: dyknow align plan RUN --as-of DAY")
    structure = trace.adapt(model)
    if not structure.additive:
        raise AlignError(
            f"{structure.local.name} puts a norm behind its MLP, so shares of a change do not add up over blocks.",
            hint="Take ROME, which edits one block.",
        )
    options = memit_options(structure, settings)
    with weights.editing(structure, options.layers) as editor:
        progress(0, len(requests), "contexts")
        contexts = tokens.contexts(structure.local, options.contexts, settings.seed)
        edits = [tokens.prepare(structure.local, request, contexts) for request in requests]
        progress(0, len(requests), "second moments")
        past = _Past(structure, settings, options)
        guard = Guard(structure, options)
        reports: list[EditReport] = []
        size = options.batch or len(edits)
        for at in range(0, len(edits), size):
            progress(at, len(edits), "values")
            reports += _batch(structure, edits[at : at + size], options, past, editor=editor, guard=guard)
        progress(len(edits), len(edits), "done")
        record = weights.about("memit", structure, settings, options, len(edits))
        return weights.finish(structure, editor, record, reports)


class _Past:
    """What each block knew before: lambda C, and the keys of earlier batches."""

    def __init__(self, structure: Structure, settings: Settings, options: Memit) -> None:
        self._structure, self._options = structure, options
        self._moments = weights.second_moments(structure, options.layers, settings, options)
        self._factors: dict[int, Tensor] = {}
        self._keys: dict[int, Tensor] = {}

    def solve(self, layer: int, keys: Tensor) -> Tensor:
        """Return K^T (lambda C + earlier keys + K K^T)^-1, (edits, d_ff), and remember the keys."""
        torch, options = need("torch"), self._options
        old = self._keys.get(layer, keys[:, :0])
        every = torch.cat([old, keys], dim=1)
        self._keys[layer] = every
        direct = options.solver == "direct" or (options.solver == "auto" and every.shape[1] >= keys.shape[0])
        if direct:
            return solve_direct(keys, self._matrix(layer) + old @ old.T)
        if layer not in self._factors:
            self._factors[layer] = weights.cholesky(self._matrix(layer), f"block {layer}")
        return solve_woodbury(keys, self._factors[layer], old)

    def _matrix(self, layer: int) -> Tensor:
        width = self._structure.projections[layer].width
        found = self._moments[layer] if self._moments else None
        matrix = weights.weighing(found, width, self._options, self._structure.model.device)
        return matrix.mul_(self._options.lambda_)


def solve_direct(keys: Tensor, past: Tensor) -> Tensor:
    """Return K^T (P + K K^T)^-1 by a Cholesky decomposition in d_ff.

    Args:
        keys: K, (d_ff, edits), float64.
        past: P, (d_ff, d_ff): lambda C and earlier keys.
    """
    factor = weights.cholesky(past + keys @ keys.T, "the blocks")
    return need("torch").cholesky_solve(keys, factor).T


def solve_woodbury(keys: Tensor, factor: Tensor, old: Tensor) -> Tensor:
    """Return K^T (A + G G^T)^-1 for G = [earlier keys, K] by Woodbury's identity, solving in the number of edits.

    Args:
        keys: K, (d_ff, edits), float64.
        factor: Lower Cholesky factor of A = lambda C, kept from batch to batch.
        old: Earlier batches' keys, (d_ff, earlier edits).
    """
    torch = need("torch")
    every = torch.cat([old, keys], dim=1)  # G
    spread = torch.cholesky_solve(every, factor)  # A^-1 G
    inner = torch.eye(every.shape[1], dtype=every.dtype, device=every.device) + every.T @ spread
    own = spread[:, old.shape[1] :]  # A^-1 K
    return (own - spread @ torch.linalg.solve(inner, every.T @ own)).T


def _batch(
    structure: Structure, edits: list[Prepared], options: Memit, past: _Past, *, editor: Editor, guard: Guard
) -> list[EditReport]:
    start = time.perf_counter()
    values = optimise(structure, edits, Site(options.layers[-1], "block"), options)
    wanted = need("torch").stack([value.base + value.delta for value in values]).double()  # z, (edits, d)
    moved = _spread(_Reader(structure, edits, options), wanted, options, past, editor)
    after = nll(structure, edits, options.batch_tokens)
    worst = max(range(len(edits)), key=lambda at: after[at] - values[at].nll_before)
    guard.check(edits[worst], values[worst].nll_before, after[worst])
    seconds = (time.perf_counter() - start) / len(edits)
    return [
        EditReport(edit.request.fact, seconds, value.nll_before, now, moved)
        for edit, value, now in zip(edits, values, after, strict=True)
    ]


def _spread(reader: "_Reader", wanted: Tensor, options: Memit, past: _Past, editor: Editor) -> float:
    """Write values into the blocks, lowest first; return how much the weights changed, in all, of their norm."""
    torch, layers = need("torch"), options.layers
    changes = []
    for at, layer in enumerate(layers):
        keys, states = reader.read(layer)
        missing = (wanted - states) / (len(layers) - at)
        changes.append(editor.add(layer, missing.T, past.solve(layer, keys.T)))
    return float(torch.tensor(changes).square().mean().sqrt())


class _Pass(NamedTuple):
    rows: Rows
    ends: list[int]  # the column of each row's subject
    hidden: Tensor | None  # what enters the first edited block; nothing below it changes


class _Reader:
    """Reads keys and hidden states of the subjects as the weights are now."""

    def __init__(self, structure: Structure, edits: list[Prepared], options: Memit) -> None:
        self._structure, self._edits, self._options = structure, edits, options
        texts = [[*row.head, *row.tail[:1]] for edit in edits for row in edit.rows]
        size = max(1, 4 * options.batch_tokens // max(map(len, texts)))
        self._passes = [self._begin(texts[at : at + size]) for at in range(0, len(texts), size)]

    def _begin(self, texts: list[list[int]]) -> _Pass:
        rows, first = trace.rows(self._structure, texts), self._options.layers[0]
        hidden = None
        if first:
            with need("torch").no_grad():
                hidden = trace.run(self._structure, rows, Look(states=[first - 1])).states[first - 1]
        return _Pass(rows, [len(text) - 1 for text in texts], hidden)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return each edit's key at a layer, (edits, d_ff), and its state behind the last, (edits, d), in float64."""
        torch, layers = need("torch"), self._options.layers
        keys, states = [], []
        for each in self._passes:
            look = Look(keys=[layer], states=[layers[-1]])
            with torch.no_grad():
                seen = trace.run(self._structure, each.rows, look, start=layers[0], hidden=each.hidden)
            at = range(len(each.ends))
            keys.append(seen.keys[layer][at, each.ends])
            states.append(seen.states[layers[-1]][at, each.ends])
        all_keys, all_states = torch.cat(keys).double(), torch.cat(states).double()
        found, first, bare = [], 0, []
        for edit in self._edits:
            own = all_keys[first : first + len(edit.rows)]
            kinds = torch.tensor(edit.types, device=own.device)
            # The bare prompt weighs as much as all texts of one length together.
            found.append(torch.stack([own[kinds == kind].mean(0) for kind in sorted(set(edit.types))]).mean(0))
            bare.append(first)
            first += len(edit.rows)
        return torch.stack(found), all_states[bare]
