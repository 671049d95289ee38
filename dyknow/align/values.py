"""The values that make a model say its targets: what a hidden state would have to be, found by gradient descent.

For each edit a change delta of the hidden state at the subject's last token is sought (ROME §3.1, eq. 4; MEMIT eq. 16):
the mean over contexts of the target's negative log-likelihood, plus a Kullback-Leibler term that keeps "{subject} is a"
as it was, plus the change's length. Edits of a batch are independent: each has its own delta, loss and end.

What is not computed: tokens before the subject's last cannot see the change, so their keys and values are computed
once; blocks up to the edited one are computed once; the head sees only positions whose logits matter; rows whose edit
is done are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dyknow.align import trace
from dyknow.align.hooks import Tensor
from dyknow.align.presets import Editing
from dyknow.align.structure import Structure
from dyknow.align.tokens import Prepared
from dyknow.align.trace import Look, Picks, Rows
from dyknow.models.extras import need
from kg.errors import AlignError

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's, as in torch


class Site(NamedTuple):
    """Whose output is changed: a block's (MEMIT), or that of its MLP projection (ROME)."""

    layer: int
    of: Literal["block", "projection"]


class Value(NamedTuple):
    """What was found for an edit."""

    delta: Tensor  # (d,)
    base: Tensor  # (d,): the site's output for the bare prompt, before
    keys: Tensor  # (contexts, d_ff): the projection's input behind each context, the bare prompt's first
    nll_before: float  # of the target behind the bare prompt, a token
    nll: float  # behind all contexts, with the change, where the search ended
    steps: int  # how often the loss was computed


@dataclass
class _Layout:
    """Where in a batch the tokens of each edit stand."""

    owners: Tensor  # (rows,): whose row it is
    picks: Picks  # of all tokens of targets, then of the essences
    targets: Tensor  # (target tokens,)
    of: Tensor  # (target tokens,): whose target
    weights: Tensor  # (target tokens,): its part of its edit's loss
    bare: Tensor  # (target tokens,): its part of the bare prompt's
    firsts: list[int]  # the row of each edit's bare prompt
    counts: list[int]  # rows of each edit's contexts; one more is the essence's


def optimise(structure: Structure, edits: Sequence[Prepared], site: Site, options: Editing) -> list[Value]:
    """Return the values of edits, in order; each is what it would be if it were sought alone.

    Raises:
        AlignError: a loss is no number.
    """
    groups = _groups(edits, options.batch_tokens)
    return [value for group in groups for value in _search(structure, group, site, options)]


def nll(structure: Structure, edits: Sequence[Prepared], batch_tokens: int) -> list[float]:
    """Return the mean negative log-likelihood of each target's tokens behind its bare prompt, as the model is now."""
    torch = need("torch")
    found: list[float] = []
    short = [edit._replace(rows=edit.rows[:1]) for edit in edits]
    for group in _groups(short, batch_tokens):
        layout = _layout(group, structure.model.device)
        rows = [row for edit in group for row in (*edit.rows, edit.essence)]
        with torch.no_grad():
            batch = trace.behind(structure, [row.head for row in rows], [row.tail for row in rows])
            logits = trace.run(structure, batch, Look(logits=True), picks=layout.picks).logits
            found += _by_edit(_token_nll(_wide(logits).log_softmax(-1), layout), layout.bare, layout).tolist()
    return found


def _groups(edits: Sequence[Prepared], batch_tokens: int) -> Iterator[list[Prepared]]:
    """Yield edits in groups whose tails fit into so many tokens; an edit stays whole."""
    group: list[Prepared] = []
    for edit in edits:
        rows = [row for each in (*group, edit) for row in (*each.rows, each.essence)]
        if group and len(rows) * max(len(row.tail) for row in rows) > batch_tokens:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _search(structure: Structure, edits: list[Prepared], site: Site, options: Editing) -> list[Value]:
    torch = need("torch")
    layout = _layout(edits, structure.model.device)
    rows = [row for edit in edits for row in (*edit.rows, edit.essence)]
    with torch.no_grad():
        batch = trace.behind(structure, [row.head for row in rows], [row.tail for row in rows])
        # Where a projection's change arrives unchanged behind its block, that block need not be computed again.
        late = site.of == "block" or structure.additive
        below = site.layer if late else site.layer - 1
        look = Look([site.layer], [site.layer], [*{site.layer, max(below, 0)}], logits=True)
        seen = trace.run(structure, batch, look, picks=layout.picks)
        logprobs = _wide(seen.logits).log_softmax(-1)
        before = _by_edit(_token_nll(logprobs, layout), layout.bare, layout).tolist()
        essence = logprobs[len(layout.targets) :]  # (edits, vocabulary)
        base = _wide((seen.states if site.of == "block" else seen.values)[site.layer][layout.firsts, 0])
        keys = _wide(seen.keys[site.layer][:, 0])
    hidden = seen.states[below] if below >= 0 else None
    found = _descend(_Search(structure, site, late, options, edits, essence, base), batch, hidden)
    return [
        Value(found.delta[at], base[at], keys[first : first + count], before[at], found.nll[at], found.steps[at])
        for at, (first, count) in enumerate(zip(layout.firsts, layout.counts, strict=True))
    ]


class _Search(NamedTuple):
    structure: Structure
    site: Site
    late: bool  # whether the change is added behind the block
    options: Editing
    edits: list[Prepared]
    essence: Tensor  # (edits, vocabulary): log-probabilities before
    base: Tensor  # (edits, d)


class _Found(NamedTuple):
    delta: Tensor
    nll: list[float]
    steps: list[int]


def _descend(search: _Search, batch: Rows, hidden: Tensor | None) -> _Found:
    """Take Adam's steps until every edit's loss is low enough or its steps are spent; ``hidden`` enters the site."""
    torch, options = need("torch"), search.options
    lengths = search.base.norm(dim=-1, keepdim=True)  # (edits, 1)
    delta = torch.zeros_like(search.base)
    mean, square = torch.zeros_like(delta), torch.zeros_like(delta)
    active = torch.arange(len(search.edits), device=delta.device)
    layout = _layout(search.edits, delta.device)
    last, steps = [0.0] * len(search.edits), [0] * len(search.edits)
    for step in range(1, options.steps + 1):
        here = delta[active].requires_grad_()
        logits = _with_change(search, batch, hidden, layout, here)
        loss, nlls = _loss(logits, layout, search.essence[active], options=options, delta=here, lengths=lengths[active])
        _check(loss, search, active)
        for at, each in zip(active.tolist(), nlls.tolist(), strict=True):
            last[at], steps[at] = each, step
        going = (loss.detach() >= options.stop_loss).nonzero().flatten()
        if step == options.steps or not len(going):
            break
        (gradient,) = torch.autograd.grad(loss.sum(), here)
        rows = layout.owners  # before the finished ones leave
        active, gradient = active[going], gradient[going]
        mean[active] = _BETAS[0] * mean[active] + (1 - _BETAS[0]) * gradient
        square[active] = _BETAS[1] * square[active] + (1 - _BETAS[1]) * gradient**2
        size = (square[active] / (1 - _BETAS[1] ** step)).sqrt() + _EPSILON
        moved = delta[active] - options.lr * mean[active] / (1 - _BETAS[0] ** step) / size
        # Projected back onto the ball of the allowed length.
        room = options.clamp * lengths[active] / moved.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        delta[active] = moved * room.clamp_max(1.0)
        if len(going) < len(here):
            kept = torch.isin(rows, going).nonzero().flatten()
            batch, hidden = batch.only(kept), None if hidden is None else hidden[kept]
            layout = _layout([search.edits[at] for at in active.tolist()], delta.device)
    return _Found(delta.detach(), last, steps)


def _with_change(search: _Search, batch: Rows, hidden: Tensor | None, layout: _Layout, delta: Tensor) -> Tensor:
    """Return the picked logits with each edit's change added at its subject's last token, the tails' first."""
    torch, layer, picks = need("torch"), search.site.layer, layout.picks

    def add(states: Tensor) -> Tensor:
        first = (_wide(states[:, :1]) + delta[layout.owners].unsqueeze(1)).to(states.dtype)
        return torch.cat([first, states[:, 1:]], dim=1)

    look = Look(logits=True)
    if search.late:
        return trace.run(search.structure, batch, look, picks=picks, start=layer + 1, hidden=add(hidden)).logits
    return trace.run(search.structure, batch, look, picks=picks, start=layer, hidden=hidden, inject=(layer, add)).logits


def _loss(
    logits: Tensor, layout: _Layout, essence: Tensor, *, options: Editing, delta: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return each edit's loss, and the part of it that is the target's negative log-likelihood."""
    logprobs = _wide(logits).log_softmax(-1)
    nlls = _by_edit(_token_nll(logprobs, layout), layout.weights, layout)
    now = logprobs[len(layout.targets) :]
    # KL(with the change || without), as ROME's eq. 4 and its code have it.
    drift = (now.exp() * (now - essence)).sum(-1)
    # The norm over the squared norm: as rome/compute_v.py and memit/compute_z.py compute it.
    decay = delta.norm(dim=-1) / lengths.squeeze(-1) ** 2
    return nlls + options.kl * drift + options.weight_decay * decay, nlls.detach()


def _check(loss: Tensor, search: _Search, active: Tensor) -> None:
    wrong = (~loss.isfinite()).nonzero().flatten().tolist()
    if wrong:
        edit = search.edits[int(active[wrong[0]])]
        raise AlignError(
            f"The search for the value of {edit.request.fact} came to no number.",
            hint="Load the model with --dtype float32, or take a smaller lr.",
        )


def _layout(edits: Sequence[Prepared], device: object) -> _Layout:
    torch = need("torch")
    owners: list[int] = []
    tokens: list[tuple[int, int, int, int, float, float]] = []  # row, column, target, owner, weight, weight if bare
    essences: list[int] = []
    firsts: list[int] = []
    for at, edit in enumerate(edits):
        firsts.append(len(owners))
        for number, row in enumerate(edit.rows):
            part = 1 / len(row.targets)
            for column, target in zip(row.picks, row.targets, strict=True):
                tokens.append((len(owners), column, target, at, part / len(edit.rows), part if not number else 0.0))
            owners.append(at)
        essences.append(len(owners))
        owners.append(at)
    columns = list(zip(*tokens, strict=True))

    def put(values: object) -> Tensor:
        return torch.tensor(values, device=device)

    picks = Picks(put([*columns[0], *essences]), put([*columns[1], *[0] * len(edits)]))
    counts = [len(edit.rows) for edit in edits]
    targets, of, weights, bare = (put(each) for each in columns[2:])
    return _Layout(put(owners), picks, targets, of, weights, bare, firsts, counts)


def _token_nll(logprobs: Tensor, layout: _Layout) -> Tensor:
    return -logprobs[: len(layout.targets)].gather(-1, layout.targets.unsqueeze(-1)).squeeze(-1)


def _by_edit(values: Tensor, weights: Tensor, layout: _Layout) -> Tensor:
    """Return the weighted sum of each edit's tokens."""
    return values.new_zeros(len(layout.firsts)).index_add(0, layout.of, values * weights.to(values.dtype))


def _wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float32 at least."""
    return tensor if tensor.dtype.itemsize >= 4 else tensor.float()
