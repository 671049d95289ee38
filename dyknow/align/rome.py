"""ROME: one fact at a time, by a change of rank one to one block's MLP projection (Meng et al. 2022, arXiv 2202.05262).

The projection W is taken as a memory that maps the key k of a subject to the value v of what is known of it. An edit
inserts v* at k by the smallest change in the mean square over all keys, C = E[k k^T]::

    W' = W + (v* - W k) u^T / (u^T k),   u = C^-1 k

Edits follow one another on the weights left by the one before, as in the study.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from dyknow.align import tokens, trace, weights
from dyknow.align.base import EditReport, EditRequest, Progress, Settings
from dyknow.align.hooks import Tensor
from dyknow.align.presets import Rome
from dyknow.align.presets import rome as rome_options
from dyknow.align.structure import Projection, Structure
from dyknow.align.tokens import Prepared
from dyknow.align.values import Site, Value, nll, optimise
from dyknow.align.weights import EditedWeights, Editor, Guard
from dyknow.models.base import Model
from dyknow.models.extras import need
from kg.errors import AlignError


class Change(NamedTuple):
    """A change of rank one to a projection W [d, d_ff]."""

    left: Tensor  # (d,)
    right: Tensor  # (d_ff,)


def rome(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> EditedWeights:
    """Edit facts one after another; the model is unchanged, the edits are in what is returned.

    Raises:
        AlignError: the model's weights cannot be edited, a subject or target is missing, there are no texts for second
            moments, or the model collapsed.
        UsageError: a preset or option is unknown.
    """
    _check(requests)
    structure = trace.adapt(model)
    options = rome_options(structure, settings)
    with weights.editing(structure, [options.layer]) as editor:
        progress(0, len(requests), "contexts")
        contexts = tokens.contexts(structure.local, options.contexts, settings.seed)
        edits = [tokens.prepare(structure.local, request, contexts) for request in requests]
        progress(0, len(requests), "second moments")
        factor = _factor(structure, settings, options)
        guard = Guard(structure, options)
        reports = []
        for at, edit in enumerate(edits):
            progress(at, len(edits), edit.request.fact)
            reports.append(_edit(structure, edit, options, factor, editor=editor, guard=guard))
        progress(len(edits), len(edits), "done")
        record = weights.about("rome", structure, settings, options, len(edits))
        return weights.finish(structure, editor, record, reports)


def _check(requests: Sequence[EditRequest]) -> None:
    if not requests:
        raise AlignError("There is nothing to edit.", hint="Look at the plan: dyknow align plan RUN --as-of DAY")


def _factor(structure: Structure, settings: Settings, options: Rome) -> Tensor:
    """Return the Cholesky factor of C."""
    found = weights.second_moments(structure, [options.layer], settings, options)
    moments = found[options.layer] if found else None
    width = structure.projections[options.layer].width
    matrix = weights.weighing(moments, width, options, structure.model.device)
    return weights.cholesky(matrix, f"block {options.layer}")


def _edit(
    structure: Structure, edit: Prepared, options: Rome, factor: Tensor, *, editor: Editor, guard: Guard
) -> EditReport:
    start = time.perf_counter()
    [value] = optimise(structure, [edit], Site(options.layer, "projection"), options)
    change = solve(structure.projections[options.layer], value, options.key, factor)
    moved = editor.add(options.layer, change.left.unsqueeze(1), change.right.unsqueeze(0))
    [after] = nll(structure, [edit], options.batch_tokens)
    guard.check(edit, value.nll_before, after)
    note = None if value.nll < 1 else f"the target's negative log-likelihood was {value.nll:.2f} where the search ended"
    return EditReport(edit.request.fact, time.perf_counter() - start, value.nll_before, after, moved, note)


def output(projection: Projection, key: Tensor) -> Tensor:
    """Return W k (+ b) in float64."""
    found = projection.weight().double() @ key.double()
    bias = projection.module.bias
    return found if bias is None else found + bias.detach().double()


def solve(projection: Projection, value: Value, key: str, factor: Tensor) -> Change:
    """Return the change that puts a value in at its key.

    Args:
        projection: W.
        value: The delta that was found and the keys behind each context, the bare prompt's first.
        key: "original": the mean key weighs and the bare prompt's is met, as the method's code has it; "homogeneous":
            the mean key in both places (r-ROME).
        factor: Lower Cholesky factor of C.
    """
    torch = need("torch")
    mean = value.keys.double().mean(0)
    met = value.keys[0].double() if key == "original" else mean
    weighed = torch.cholesky_solve(mean.unsqueeze(1), factor).squeeze(1)  # u = C^-1 k
    wanted = output(projection, value.keys[0]) + value.delta.double()  # v*: what the bare prompt gives, and the change
    residual = wanted - output(projection, met)
    return Change(residual / (weighed @ met), weighed)
