"""Exact search by cosine, and how good a search is."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dyknow.align.embedding import Embedder, Vectors

_DECIMALS = 5
"""Batches of another size move a vector by less; what differs by less is a tie."""


class Hit(NamedTuple):
    """Something found: its place in what was searched, and its cosine."""

    place: int
    score: float


def top_k(queries: "Vectors", keys: "Vectors", k: int) -> list[list[Hit]]:
    """Return the k keys nearest to each query, nearest first; of equally near ones the earlier key comes first.

    Args:
        queries: (queries, dimensions), of unit length.
        keys: (keys, dimensions), of unit length.
        k: how many; fewer where there are fewer keys.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    if not len(keys):
        return [[] for _ in queries]
    cosines = np.round(queries.astype(np.float64) @ keys.astype(np.float64).T, _DECIMALS)  # (queries, keys)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return [
        [Hit(int(place), float(row[place])) for place in places] for row, places in zip(cosines, order, strict=True)
    ]


class Index:
    """Texts that can be searched.

    Args:
        texts: What is searched; a hit's place is a place in it.
        embedder: Turns texts and queries into vectors.
    """

    def __init__(self, texts: Sequence[str], embedder: "Embedder") -> None:
        self.texts = tuple(texts)
        self._embedder = embedder
        self._vectors = embedder.encode(self.texts)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the k nearest texts of each query, as `top_k`."""
        return top_k(self._embedder.encode(queries), self._vectors, k)


def rank(found: Sequence[Any], wanted: Collection[Any]) -> int | None:
    """Return at which rank, counted from 1, the first wanted one was found; None where none was.

    >>> rank(["a", "b", "c"], {"b", "c"}), rank(["a"], {"b"})
    (2, None)
    """
    return next((place for place, one in enumerate(found, 1) if one in wanted), None)


class Quality(NamedTuple):
    """How good a search is over questions for each of which something should be found."""

    questions: int
    recall: dict[int, float]  # by k: the share of questions for which it stood among the first k
    mrr: float  # mean of 1/rank; 0 where it was not found

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        shares = {f"recall@{k}": round(share, 4) for k, share in self.recall.items()}
        return {"questions": self.questions, **shares, "mrr": round(self.mrr, 4)}


def quality(ranks: Sequence[int | None], ks: Sequence[int]) -> Quality:
    """Return recall at each k and the mean reciprocal rank.

    >>> quality([1, 2, None, 1], [1, 4]).record()
    {'questions': 4, 'recall@1': 0.5, 'recall@4': 0.75, 'mrr': 0.625}
    """
    count = max(len(ranks), 1)
    recall = {k: sum(one is not None and one <= k for one in ranks) / count for k in ks}
    return Quality(len(ranks), recall, sum(1 / one for one in ranks if one) / count)
