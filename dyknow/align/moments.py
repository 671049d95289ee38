"""Second moments of what a model's MLP projections read: C = E[k k^T] over a corpus, uncentred (ROME §3.1, MEMIT §4.2).

One pass over the corpus serves all layers and ends behind the deepest; texts stream, so memory does not grow with them.
The first token of a text is left out: models rest their attention there, and its huge keys say nothing of facts.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow.align import trace
from dyknow.align.delta import digest
from dyknow.align.hooks import Tensor
from dyknow.align.structure import Structure
from dyknow.align.trace import Look
from dyknow.models.extras import need, quiet
from kg.errors import AlignError
from kg.store import cache_folder

_FORMAT: Final = 1
_SORTED: Final = 8  # batches whose texts are put into order of length, so that little is padded


class Moments(NamedTuple):
    """Second moments of one layer's keys."""

    matrix: Tensor  # (d_ff, d_ff), float64, on the CPU: the mean of k k^T
    tokens: int  # tokens


class Reading(NamedTuple):
    """How a corpus is read."""

    max_tokens: int
    window: int
    batch_tokens: int


def moments(
    structure: Structure, layers: Sequence[int], corpus: Sequence[str], reading: Reading, cache: Path | None = None
) -> dict[int, Moments]:
    """Return the second moments of some layers' keys, out of the cache where they are in it.

    Args:
        structure: The model's.
        layers: Which blocks'.
        corpus: Texts; read from the first on until there are tokens enough.
        reading: How they are read.
        cache: The folder; None: "moments" in the user's cache.

    Raises:
        AlignError: there is no text.
    """
    folder = cache or cache_folder() / "moments"
    keys = _keys(structure, layers, corpus, reading)
    found = {layer: _load(folder / f"{keys[layer]}.safetensors") for layer in layers}
    missing = [layer for layer in layers if found[layer] is None]
    if missing:
        for layer, each in _measure(structure, missing, corpus, reading).items():
            _save(each, folder / f"{keys[layer]}.safetensors")
            found[layer] = each
    return {layer: each for layer, each in found.items() if each is not None}


def _measure(
    structure: Structure, layers: Sequence[int], corpus: Sequence[str], reading: Reading
) -> dict[int, Moments]:
    torch = need("torch")
    sums: dict[int, Tensor] = {}
    count = 0
    with torch.no_grad(), quiet():
        for windows in _batches(_windows(structure, corpus, reading), reading.batch_tokens):
            batch = trace.rows(structure, windows)
            known = batch.mask.bool()
            known[:, 0] = False
            seen = trace.run(structure, batch, Look(keys=layers))
            for layer in layers:
                keys = seen.keys[layer][known]  # (tokens, d_ff)
                keys = keys if keys.dtype.itemsize >= 4 else keys.float()
                # The products of one batch in the keys' own precision, the sum of all batches in float64.
                part = (keys.T @ keys).double()
                sums[layer] = sums[layer].add_(part) if layer in sums else part
            count += int(known.sum())
    if not count:
        raise AlignError("The corpus for second moments holds no text.", hint="Give some texts, or covariance = false.")
    return {layer: Moments(total.div_(count).cpu(), count) for layer, total in sums.items()}


def _windows(structure: Structure, corpus: Sequence[str], reading: Reading) -> Iterator[list[int]]:
    """Yield the texts' tokens in pieces, each begun as the model is asked: with a BOS where it wants one."""
    local = structure.local
    bos = [local.tokenizer.bos_token_id] if local.prompting.bos else []
    most = getattr(structure.model.config.get_text_config(), "max_position_embeddings", None) or reading.window
    width = min(reading.window, most) - len(bos)
    read = 0
    for text in corpus:
        ids = local.tokenizer(text, add_special_tokens=False).input_ids
        for start in range(0, len(ids), width):
            piece = [*bos, *ids[start : start + width]]
            if len(piece) < 2:
                continue
            yield piece
            read += len(piece) - 1
            if read >= reading.max_tokens:
                return


def _batches(windows: Iterator[list[int]], tokens: int) -> Iterator[list[list[int]]]:
    waiting: list[list[int]] = []
    held = 0
    for window in windows:
        waiting.append(window)
        held += len(window)
        if held >= _SORTED * tokens:
            yield from _by_length(waiting, tokens)
            waiting, held = [], 0
    yield from _by_length(waiting, tokens)


def _by_length(windows: list[list[int]], tokens: int) -> Iterator[list[list[int]]]:
    batch: list[list[int]] = []
    for window in sorted(windows, key=len, reverse=True):
        if batch and (len(batch) + 1) * len(batch[0]) > tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _keys(structure: Structure, layers: Sequence[int], corpus: Sequence[str], reading: Reading) -> dict[int, str]:
    """Return, by layer, a digest of everything its moments depend on."""
    texts = hashlib.sha256()
    for text in corpus:
        body = text.encode()
        texts.update(len(body).to_bytes(8, "big") + body)
    tokenizer = structure.local.tokenizer
    common = {
        "format": _FORMAT,
        "architecture": type(structure.model).__name__,
        "config": structure.model.config.to_json_string(),
        "tokenizer": hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest(),
        "bos": structure.local.prompting.bos,
        "corpus": texts.hexdigest(),
        "reading": reading._asdict(),
        "dtype": str(structure.model.dtype),
    }
    below = _weights_below(structure, max(layers))
    return {layer: _digest({**common, "layer": layer, "weights": below(layer)}) for layer in layers}


def _weights_below(structure: Structure, deepest: int) -> Any:  # noqa: ANN401
    """Return a function from a layer to the digests of the weights that its keys depend on."""
    place = {id(p): at for at, block in enumerate(structure.blocks) for p in block.parameters()}
    named = list(structure.model.named_parameters())
    digests = {name: (place.get(id(p), -1), digest(p)) for name, p in named if place.get(id(p), -1) <= deepest}

    def below(layer: int) -> dict[str, str]:
        own = structure.projections[layer].name
        return {name: each for name, (at, each) in digests.items() if at <= layer and name != own}

    return below


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _load(path: Path) -> Moments | None:
    if not path.is_file():
        return None
    try:
        tensors = need("safetensors.torch").load_file(path)
        return Moments(tensors["matrix"], int(tensors["tokens"]))
    except (KeyError, need("safetensors").SafetensorError):
        return None  # half a file, from a time when the disk was full: measured again


def _save(found: Moments, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    tensors = {"matrix": found.matrix.contiguous(), "tokens": need("torch").tensor(found.tokens)}
    need("safetensors.torch").save_file(tensors, name)
    Path(name).replace(path)
