"""ROME and MEMIT written down as their papers tell them: one value at a time, whole passes, every logit.

The same equations, contexts, second moments and settings as ours; what differs is what is computed.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from dyknow.align import presets, tokens, trace, weights
from dyknow.align.base import EditRequest, Settings
from dyknow.align.structure import Structure
from dyknow.align.tokens import Prepared
from dyknow.models.local import Local


def rome(local: Local, requests: Sequence[EditRequest], settings: Settings) -> None:
    """Edit facts one after another; the model keeps the edits."""
    torch = importlib.import_module("torch")
    structure = trace.adapt(local)
    options = presets.rome(structure, settings)
    contexts = tokens.contexts(local, options.contexts, settings.seed)
    projection = structure.projections[options.layer]
    matrix = _second_moments(structure, [options.layer], settings, options)[options.layer]
    for parameter in local.model.parameters():
        parameter.requires_grad_(False)
    for request in requests:
        edit = tokens.prepare(local, request, contexts)
        keys = _keys(structure, edit, options.layer)
        value, delta = _value(structure, edit, options, options.layer, projection.module)
        key = keys.mean(0)
        weighed = torch.linalg.solve(matrix, key)
        now = projection.weight().double()
        residual = value.double() + delta.double() - now @ key
        update = torch.outer(residual / (weighed @ key), weighed)
        projection.module.weight.data.copy_(projection.stored(now + update))


def memit(local: Local, requests: Sequence[EditRequest], settings: Settings) -> None:
    """Edit facts together; the model keeps the edits."""
    torch = importlib.import_module("torch")
    structure = trace.adapt(local)
    options = presets.memit(structure, settings)
    contexts = tokens.contexts(local, options.contexts, settings.seed)
    matrices = _second_moments(structure, options.layers, settings, options)
    for parameter in local.model.parameters():
        parameter.requires_grad_(False)
    edits = [tokens.prepare(local, request, contexts) for request in requests]
    last = options.layers[-1]
    wanted = []
    for edit in edits:
        value, delta = _value(structure, edit, options, last, structure.blocks[last])
        wanted.append(value + delta)
    for at, layer in enumerate(options.layers):
        keys = []
        for edit in edits:
            own = _keys(structure, edit, layer)
            keys.append((own[0] + own[1:].mean(0)) / 2)
        states = [_states(structure, edit, structure.blocks[last])[0] for edit in edits]
        missing = (torch.stack(wanted) - torch.stack(states)).double().T / (len(options.layers) - at)
        key = torch.stack(keys).T
        system = options.lambda_ * matrices[layer] + key @ key.T
        update = missing @ torch.linalg.solve(system, key).T
        projection = structure.projections[layer]
        projection.module.weight.data.copy_(projection.stored(projection.weight().double() + update))


def _second_moments(structure: Structure, layers: Sequence[int], settings: Settings, options: Any) -> Any:  # noqa: ANN401
    found = weights.second_moments(structure, layers, settings, options)
    assert found
    return {layer: weights.weighing(found[layer], len(found[layer].matrix), options, "cpu") for layer in layers}


def _padded(edit: Prepared, local: Local) -> tuple[Any, Any, list[int]]:
    """Return all texts of an edit in one batch, its mask, and the places of the subjects' last tokens."""
    torch = importlib.import_module("torch")
    texts = [row.head + row.tail for row in (*edit.rows, edit.essence)]
    width = max(map(len, texts))
    ids = torch.tensor([text + [local.pad()] * (width - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in texts])
    return ids, mask, [len(row.head) for row in (*edit.rows, edit.essence)]


def _keys(structure: Structure, edit: Prepared, layer: int) -> Any:  # noqa: ANN401
    kept = []
    module = structure.projections[layer].module
    handle = module.register_forward_pre_hook(lambda _module, args: kept.append(args[0]))
    ids, mask, places = _padded(edit, structure.local)
    with importlib.import_module("torch").no_grad():
        structure.model(ids, attention_mask=mask)
    handle.remove()
    return kept[0][range(len(edit.rows)), places[:-1]].double()


def _states(structure: Structure, edit: Prepared, module: Any) -> Any:  # noqa: ANN401
    kept = []
    handle = module.register_forward_hook(lambda _module, _args, output: kept.append(output))
    ids, mask, places = _padded(edit, structure.local)
    with importlib.import_module("torch").no_grad():
        structure.model(ids, attention_mask=mask)
    handle.remove()
    return kept[0][range(len(edit.rows)), places[:-1]]


def _value(structure: Structure, edit: Prepared, options: Any, layer: int, module: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return a module's output for the bare prompt, and the change of it that makes the target likely."""
    torch = importlib.import_module("torch")
    ids, mask, places = _padded(edit, structure.local)
    value = _states(structure, edit, module)[0]
    delta = torch.zeros_like(value, requires_grad=True)
    steps = torch.optim.Adam([delta], lr=options.lr)
    before = None

    def add(_module: Any, _args: Any, output: Any) -> Any:  # noqa: ANN401
        changed = output.clone()
        changed[range(len(places)), places] += delta
        return changed

    for step in range(1, options.steps + 1):
        handle = module.register_forward_hook(add)
        logprobs = structure.model(ids, attention_mask=mask).logits.log_softmax(-1)
        handle.remove()
        essence = logprobs[-1, places[-1]]
        before = essence.detach() if before is None else before
        nlls = [
            -logprobs[at, [len(row.head) + pick for pick in row.picks], row.targets].mean()
            for at, row in enumerate(edit.rows)
        ]
        drift = (essence.exp() * (essence - before)).sum()
        decay = delta.norm() / value.norm() ** 2
        loss = torch.stack(nlls).mean() + options.kl * drift + options.weight_decay * decay
        if loss < options.stop_loss or step == options.steps:
            break
        steps.zero_grad()
        loss.backward()
        steps.step()
        with torch.no_grad():
            longest = options.clamp * value.norm()
            if delta.norm() > longest:
                delta.mul_(longest / delta.norm())
    return value, delta.detach()
