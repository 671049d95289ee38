"""Answer sets from a large store against a bare query for the same statements: ``python -m benchmarks.answers``."""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyoxigraph as ox

from kg import identity
from kg.answers import answers, facts
from kg.identity import Identity
from kg.snapshot import Snapshot, find_snapshots
from kg.store import Graph, Row, Store, bind, open_store

AS_OF = 20231218
FACTS = 130

# What a reader of statements cannot do without: each statement with its value, rank, bounds and the value's label.
BARE = """
PREFIX dy: <urn:dyknow:vocab:>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX wikibase: <http://wikiba.se/ontology#>
SELECT ?fact ?statement ?rank ?endKind ?holder ?label ?class ?s1 ?s2 ?e1 ?e2
WHERE {
  VALUES ?fact { }
  ?fact dy:property/wikibase:statementProperty ?valueProperty ; dy:statement ?statement .
  ?statement wikibase:rank ?rank ; dy:endKind ?endKind .
  OPTIONAL {
    ?statement ?valueProperty ?holder .
    OPTIONAL { ?holder rdfs:label ?label }
    OPTIONAL { ?holder dy:teamClass ?class }
  }
  OPTIONAL { ?statement dy:startEarliest ?s1 }
  OPTIONAL { ?statement dy:startLatest ?s2 }
  OPTIONAL { ?statement dy:endEarliest ?e1 }
  OPTIONAL { ?statement dy:endLatest ?e2 }
}
"""

_OURS = re.compile(rb"<urn:dyknow:(entity|holder|statement|fact|unknown):")


class Measured(NamedTuple):
    """What was measured on one store.

    Attributes:
        triples: How many the store holds.
        facts: How many answer sets were asked for.
        statements: How many statements both queries read.
        answers_s: The least seconds for the answer sets, once the store is open.
        bare_s: The least seconds for the bare query.
    """

    triples: int
    facts: int
    statements: int
    answers_s: float
    bare_s: float

    @property
    def ratio(self) -> float:
        """How many times as long the answer sets take."""
        return self.answers_s / self.bare_s


def measure(triples: int, times: int = 5, snapshots: Sequence[Snapshot] | None = None) -> Measured:
    """Grow the shipped snapshots to a store of so many triples, ask it, and delete it."""
    chosen = snapshots or find_snapshots()
    with tempfile.TemporaryDirectory(prefix="dyknow-bench-") as made:
        store = grown(chosen, triples, Path(made))
        try:
            return ask(store, identity.load(), times)
        finally:
            store.close()


def ask(store: Graph, same: Identity, times: int) -> Measured:
    """Measure the answer sets of 130 facts of the first snapshot against the bare query."""
    wanted = _wanted(open_store(find_snapshots()[0]), same)
    iris = [[ox.NamedNode(iri)] for iri in wanted.values()]
    bare = bind(BARE, "?fact", iris)

    def sets() -> list[object]:
        return list(answers(store, same, AS_OF, list(wanted)))

    def rows() -> list[Row]:
        return list(store.rows(bare))

    found, fetched = sets(), rows()
    assert len(found) == len(wanted)
    read = len({row["statement"] for row in fetched})
    [count] = store.rows("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")
    return Measured(int(count["n"]), len(wanted), read, *_least(sets, rows, times))


class Grown(Store):
    """A store of copies of snapshots."""

    def __init__(self, snapshot: Snapshot, path: Path) -> None:
        super().__init__(snapshot, ox.Store.read_only(str(path)), path)

    def close(self) -> None:
        """Let go of the files."""
        del self._store


def grown(snapshots: Sequence[Snapshot], triples: int, folder: Path) -> Grown:
    """Return a store of so many triples: the first snapshot as it is, then copies of all with fresh ids."""
    path, target = folder / "grown.nt", folder / "store"
    with path.open("wb") as file:
        file.writelines(_copies(snapshots, triples))
    store = ox.Store(str(target))
    store.bulk_load(path=str(path), format=ox.RdfFormat.N_TRIPLES)
    store.flush()
    store.optimize()
    del store
    path.unlink()
    return Grown(snapshots[0], target)


def _copies(snapshots: Sequence[Snapshot], triples: int) -> Iterator[bytes]:
    texts = [(snapshot.id.encode(), snapshot.read_statements()) for snapshot in snapshots]
    # Lines without an id of ours (labels of properties, times) are the same in every copy, and are stored once.
    fresh = [sum(1 for line in text.splitlines() if _OURS.search(line)) for _, text in texts]
    written, number = texts[0][1].count(b"\n"), 0
    yield texts[0][1]
    while written < triples:
        number += 1
        for (name, text), more in zip(texts, fresh, strict=True):
            yield _OURS.sub(rb"<urn:dyknow:\1:copy%d-%s." % (number, name), text)
            written += more


def _wanted(store: Graph, same: Identity) -> dict[str, str]:
    return {fact.fact: fact.iri for fact in list(facts(store, same).values())[:FACTS]}


def _least(first: Callable[[], object], second: Callable[[], object], times: int) -> tuple[float, float]:
    """Return the least time of each; they take turns, so that a busy minute falls on both."""
    found: tuple[list[float], list[float]] = [], []
    for _ in range(times):
        for work, seconds in zip((first, second), found, strict=True):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return min(found[0]), min(found[1])


def show(measured: Measured) -> str:
    """Return one line for the reader."""
    return (
        f"answers, {measured.facts} facts ({measured.statements} statements) of {measured.triples:,} triples: "
        f"{measured.answers_s:.3f} s, the bare query {measured.bare_s:.3f} s, ratio {measured.ratio:.2f}"
    )


def main() -> None:
    """Print the ratio at two million triples, and how it grows to ten million."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--triples", type=int, nargs="+", default=[2_000_000], help="sizes of the store, smallest first"
    )
    parser.add_argument("--times", type=int, default=5, help="tries, of which the fastest counts")
    chosen = parser.parse_args()
    found = [measure(size, chosen.times) for size in chosen.triples]
    for one in found:
        print(show(one))
    for one in found[1:]:
        growth = one.ratio / found[0].ratio
        print(f"from {found[0].triples:,} to {one.triples:,} triples the ratio grows {growth:.2f}-fold")


if __name__ == "__main__":
    main()
