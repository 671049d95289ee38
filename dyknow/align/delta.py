"""An edit as the change it makes: kept in a file, put onto the weights it was made for, and taken off bit for bit."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow.align.hooks import Module, Tensor
from dyknow.models.extras import need
from dyknow.models.local import Local
from kg.errors import AlignError, DataError

WEIGHTS: Final = "delta.safetensors"
RECORD: Final = "delta.json"
_FORMAT: Final = 1
_ROWS: Final = 256


class Factors(NamedTuple):
    """A change of low rank, left times right, in float64.

    Both are laid out as the parameter is stored: (rows, rank) and (rank, columns).
    """

    left: Tensor
    right: Tensor


@dataclass(frozen=True)
class Delta:
    """What an edit changes in a model's weights.

    Attributes:
        record: What it depends on, JSON values only.
        changes: By parameter: new minus old, or its factors.
        before_digests: By parameter, the SHA-256 of the weights it is put onto.
        after_digests: Of what comes of them.
    """

    record: dict[str, Any]
    changes: Mapping[str, Tensor | Factors]
    before_digests: Mapping[str, str]
    after_digests: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The SHA-256 of what the weights become: equal for deltas that make the same model."""
        return hashlib.sha256(json.dumps(dict(self.after_digests), sort_keys=True).encode()).hexdigest()

    @contextlib.contextmanager
    def applied(self, model: Local | Module) -> Iterator[Module]:
        """Put the edit onto a model; on leaving, the old weights are copied back, bit for bit.

        Raises:
            AlignError: these are not the weights that the edit was made for; the model is unchanged.
        """
        module = model.model if isinstance(model, Local) else model
        weights = _weights(module, self.changes)
        saved = {name: weight.detach().clone() for name, weight in weights.items()}
        _compare(saved, self.before_digests, "is not the one that the edit was made for")
        # Floating-point addition of the negative would not give the old bits: they are copied.
        try:
            for name, change in self.changes.items():
                put(weights[name], saved[name], change)
            _compare(weights, self.after_digests, "comes out otherwise than where the edit was made")
            yield module
        finally:
            with need("torch").no_grad():
                for name, weight in weights.items():
                    weight.copy_(saved[name])

    def apply(self, model: Local | Module) -> Module:
        """Put the edit onto a model for good; the model is returned.

        Raises:
            AlignError: these are not the weights that the edit was made for; the model is unchanged.
        """
        with self.applied(model) as module:
            new = {name: weight.detach().clone() for name, weight in _weights(module, self.changes).items()}
        with need("torch").no_grad():
            for name, weight in _weights(module, self.changes).items():
                weight.copy_(new[name])
        return module

    def save(self, folder: Path) -> None:
        """Write ``delta.safetensors`` and ``delta.json`` into a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, Tensor] = {}
        for name, change in self.changes.items():
            parts = {"left": change.left, "right": change.right} if isinstance(change, Factors) else {"dense": change}
            tensors |= {f"{name}.{part}": tensor.contiguous().cpu() for part, tensor in parts.items()}
        need("safetensors.torch").save_file(tensors, folder / WEIGHTS)
        about = {
            "format": _FORMAT,
            "record": self.record,
            "before": dict(self.before_digests),
            "after": dict(self.after_digests),
        }
        (folder / RECORD).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: Path) -> Delta:
    """Return the delta of a folder.

    Raises:
        DataError: the folder holds none, or a damaged one.
    """
    try:
        about = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        tensors = need("safetensors.torch").load_file(folder / WEIGHTS)
        names = sorted(about["before"])
        changes: dict[str, Tensor | Factors] = {}
        for name in names:
            dense = tensors.get(f"{name}.dense")
            changes[name] = Factors(tensors[f"{name}.left"], tensors[f"{name}.right"]) if dense is None else dense
        if about["format"] != _FORMAT:
            raise DataError(f"{folder / RECORD} is of format {about['format']}, not {_FORMAT}.", hint="Upgrade dyknow.")
        return Delta(about["record"], changes, about["before"], about["after"])
    except FileNotFoundError as error:
        hint = "Is it the folder that an edit was saved to?"
        raise DataError(f"{folder} holds no edit: there is no {RECORD} with {WEIGHTS}.", hint=hint) from error
    except (KeyError, TypeError, ValueError, need("safetensors").SafetensorError) as error:
        raise DataError(f"The edit in {folder} is damaged: {error}.") from error


def made(record: dict[str, Any], model: Module, changes: Mapping[str, Tensor | Factors]) -> Delta:
    """Return the delta of changes to a model that has its old weights now; it has them again afterwards."""
    weights = _weights(model, changes)
    before = {name: digest(weight) for name, weight in weights.items()}
    after = {}
    for name, change in changes.items():
        saved = weights[name].detach().clone()
        try:
            put(weights[name], saved, change)
            after[name] = digest(weights[name])
        finally:
            with need("torch").no_grad():
                weights[name].copy_(saved)
    return Delta(record, dict(changes), before, after)


def put(weight: Tensor, old: Tensor, change: Tensor | Factors) -> None:
    """Write old plus change into a weight, summed in float64 and rounded once.

    Factors are multiplied out one rank at a time, product then sum: every machine rounds that alike, where the order
    in which a matrix product sums is its own affair.
    """
    torch = need("torch")
    with torch.no_grad():
        if not isinstance(change, Factors):
            weight.copy_((old.double() + change.to(old.device).double()).to(old.dtype))
            return
        left, right = change.left.to(old.device).double(), change.right.to(old.device).double()
        for start in range(0, old.shape[0], _ROWS):  # a few rows at a time stay in the processor's cache
            rows = slice(start, start + _ROWS)
            total = old[rows].to(torch.float64, copy=True)
            for rank in range(left.shape[1]):
                total += left[rows, rank : rank + 1] * right[rank]
            weight[rows].copy_(total.to(old.dtype))


def digest(tensor: Tensor) -> str:
    """Return the SHA-256 of a tensor: type, shape and bytes."""
    torch = need("torch")
    plain = tensor.detach().contiguous().cpu()
    found = hashlib.sha256(f"{plain.dtype} {tuple(plain.shape)} ".encode())
    found.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _weights(model: Module, names: Mapping[str, object]) -> dict[str, Tensor]:
    known = dict(model.named_parameters(remove_duplicate=False))
    for name in names:
        if name not in known:
            raise AlignError(f"The model has no weights {name}.", hint="Was the edit made for another model?")
    return {name: known[name] for name in names}


def _compare(weights: Mapping[str, Tensor], digests: Mapping[str, str], what: str) -> None:
    for name, weight in weights.items():
        if digest(weight) != digests[name]:
            raise AlignError(
                f"The weight {name} {what}.", hint="Load the same files, revision and dtype that it was made with."
            )
