"""What ROME and MEMIT share: weights edited and put back, the watch for collapse, the model that results."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dyknow.align import delta as deltas
from dyknow.align import trace
from dyknow.align.base import EditReport, Settings
from dyknow.align.delta import Delta, Factors
from dyknow.align.hooks import Tensor, as_asked
from dyknow.align.moments import Moments, Reading, moments
from dyknow.align.presets import Editing
from dyknow.align.structure import Projection, Structure
from dyknow.align.tokens import Prepared
from dyknow.align.trace import Look
from dyknow.models.base import Model
from dyknow.models.extras import need
from dyknow.models.local import Local
from kg.errors import AlignError

PROBE: Final = (
    "The river rises in the hills and flows past the old town on its way to the sea.",
    "Water boils when it is heated enough, and the steam can turn a wheel.",
    "She opened the window, looked at the rain, and decided to stay at home and read a book.",
)
"""Plain texts that name nobody: a model that finds them far stranger than before has collapsed."""


class Editor:
    """The projections that are edited, with their sums in float64; the weights are rounded from those."""

    def __init__(self, structure: Structure, layers: Sequence[int]) -> None:
        self._structure = structure
        self._saved = {at: structure.projections[at].module.weight.detach().clone() for at in layers}
        wide = need("torch").float64
        self._sums = {at: saved.to(wide, copy=True) for at, saved in self._saved.items()}
        self._parts: dict[int, list[Factors]] = {at: [] for at in layers}

    def add(self, layer: int, left: Tensor, right: Tensor) -> float:
        """Add left [d, n] times right [n, d_ff] to a projection; return the change's norm over the old weight's."""
        projection = self._structure.projections[layer]
        part = _stored(projection, left, right)
        for rank in range(part.left.shape[1]):  # in the order of delta.put, so that the same bits come out
            self._sums[layer] += part.left[:, rank : rank + 1] * part.right[rank]
        with need("torch").no_grad():
            projection.module.weight.copy_(self._sums[layer].to(projection.module.weight.dtype))
        self._parts[layer].append(part)
        return norm(left, right) / float(self._saved[layer].double().norm())

    def restore(self) -> None:
        """Copy the old weights back."""
        with need("torch").no_grad():
            for layer, saved in self._saved.items():
                self._structure.projections[layer].module.weight.copy_(saved)

    def changes(self) -> dict[str, Factors]:
        """Return all that was added, by parameter."""
        torch = need("torch")
        return {
            self._structure.projections[layer].name: Factors(
                torch.cat([part.left for part in parts], dim=1).cpu(),
                torch.cat([part.right for part in parts], dim=0).cpu(),
            )
            for layer, parts in self._parts.items()
            if parts
        }


def _stored(projection: Projection, left: Tensor, right: Tensor) -> Factors:
    """Return factors in the layout in which the projection stores its matrix."""
    left, right = left.double(), right.double()
    return Factors(right.T.contiguous(), left.T.contiguous()) if projection.transposed else Factors(left, right)


def norm(left: Tensor, right: Tensor) -> float:
    """Return the Frobenius norm of left times right without multiplying them out."""
    left, right = left.double(), right.double()
    return float(((left.T @ left) * (right @ right.T)).sum().clamp_min(0).sqrt())


@contextlib.contextmanager
def editing(structure: Structure, layers: Sequence[int]) -> Iterator[Editor]:
    """Lend an editor; whatever happens, the model is afterwards what it was."""
    with as_asked(structure.model):
        editor = Editor(structure, layers)
        try:
            yield editor
        finally:
            editor.restore()


class Guard:
    """Watches whether a model still speaks."""

    def __init__(self, structure: Structure, options: Editing) -> None:
        self._structure, self._options = structure, options
        self._ids = [structure.local.tokenizer(text).input_ids for text in PROBE]
        self._before = self._surprise()

    def check(self, edit: Prepared, before: float, after: float) -> None:
        """Check the model after an edit.

        Raises:
            AlignError: it has collapsed, or the edit made its own target less likely.
        """
        torch, fact = need("torch"), edit.request.fact
        hint = "Take other layers, a smaller clamp, or the preset recommended; fewer edits at a time may hold."
        surprise = self._surprise()
        if not torch.tensor([after, surprise]).isfinite().all():
            raise AlignError(f"The model gives no numbers any more after the edit of {fact}.", hint=hint)
        grown = float(torch.tensor(surprise - self._before).exp())
        if grown > self._options.max_perplexity:
            raise AlignError(
                f"The model collapsed at the edit of {fact}: plain text is {grown:.0f} times as perplexing as before.",
                hint=hint,
            )
        if after - before > self._options.max_nll:
            raise AlignError(
                f"The edit of {fact} made its target less likely: its negative log-likelihood a token"
                f" went from {before:.1f} to {after:.1f}.",
                hint=hint,
            )

    def _surprise(self) -> float:
        """Return the mean negative log-likelihood of a token of the plain texts."""
        torch = need("torch")
        with torch.no_grad():
            batch = trace.rows(self._structure, self._ids)
            logits = trace.run(self._structure, batch, Look(logits=True)).logits
        logprobs = logits[:, :-1].float().log_softmax(-1)
        chosen = logprobs.gather(-1, batch.ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        known = batch.mask[:, 1:].bool()
        return float(-chosen[known].mean())


def second_moments(
    structure: Structure, layers: Sequence[int], settings: Settings, options: Editing
) -> dict[int, Moments] | None:
    """Return the second moments that a method weighs keys by; None: the identity.

    Raises:
        AlignError: there is no corpus, or too little of it.
    """
    if not options.covariance:
        return None
    if not settings.corpus:
        hint = "Give some with --documents, or take covariance = false."
        raise AlignError("Second moments need texts, and there are none.", hint=hint)
    found = moments(
        structure, layers, settings.corpus, Reading(options.max_tokens, options.window, options.batch_tokens)
    )
    for layer, each in found.items():
        width = structure.projections[layer].width
        if each.tokens < width and not options.ridge:
            raise AlignError(
                f"The corpus has {each.tokens} tokens, fewer than the {width} inputs of block {layer}'s projection.",
                hint="Give more texts, or a ridge: ridge = 1e-4.",
            )
    return found


def weighing(found: Moments | None, width: int, options: Editing, device: Any) -> Tensor:  # noqa: ANN401
    """Return C in float64, with its ridge; the identity where there are no moments."""
    torch = need("torch")
    if found is None:
        return torch.eye(width, dtype=torch.float64, device=device)
    matrix = found.matrix.to(device, torch.float64, copy=True)
    matrix.diagonal().add_(options.ridge * float(matrix.trace()) / width)
    return matrix


def cholesky(matrix: Tensor, what: str) -> Tensor:
    """Return the lower Cholesky factor.

    Raises:
        AlignError: the matrix is singular.
    """
    factor, wrong = need("torch").linalg.cholesky_ex(matrix)
    if int(wrong):
        hint = "Give more texts, or a larger ridge: ridge = 1e-4."
        raise AlignError(f"The second moments of {what} are singular.", hint=hint)
    return factor


@dataclass(frozen=True)
class EditedWeights:
    """A model's edit by ROME or MEMIT; the model itself is as it was but inside ``applied``."""

    local: Local
    delta: Delta
    reports: tuple[EditReport, ...]

    @property
    def record(self) -> dict[str, Any]:
        """What the answers depend on."""
        return self.delta.record | {"delta": self.delta.digest}

    @contextlib.contextmanager
    def applied(self) -> Iterator[Model]:
        """Give the edited model; leaving puts the old weights back, bit for bit."""
        with self.delta.applied(self.local):
            yield EditedModel(self.local, self.record)


class EditedModel(Local):
    """A model while an edit is on it."""

    def __init__(self, local: Local, record: dict[str, Any]) -> None:
        self.__dict__.update(local.__dict__)
        self._align = record

    def info(self) -> dict[str, Any]:
        """Return the record of the model, and of the edit."""
        return {**super().info(), "align": self._align}


def finish(
    structure: Structure, editor: Editor, record: dict[str, Any], reports: Sequence[EditReport]
) -> EditedWeights:
    """Return what was edited, with the model put back."""
    editor.restore()
    return EditedWeights(structure.local, deltas.made(record, structure.model, editor.changes()), tuple(reports))


def about(method: str, structure: Structure, settings: Settings, options: Editing, edits: int) -> dict[str, Any]:
    """Return the record of an edit, without its digests."""
    return {
        "method": method,
        "preset": settings.preset,
        "settings": options.record(),
        "seed": settings.seed,
        "edits": edits,
        "model": structure.local.name,
    }
