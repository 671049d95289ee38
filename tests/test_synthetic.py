"""The graph that the measurements are made on: like any snapshot, the same for one seed, and of the shape it claims."""

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from benchmarks import synthetic
from dyknow import benchmark, generate
from kg import identity, standings
from kg.answers import facts
from kg.dates import parse_day
from kg.errors import DataError, SnapshotError
from kg.snapshot import Snapshot, find_snapshots, load, take, take_in_parts, verify
from kg.sources import Source
from kg.store import open_store
from tests.rdflib_route import RdflibGraph

DAY = parse_day(synthetic.DATE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("synthetic")
    synthetic.write(made, 130, seed=1)
    return made


@pytest.fixture(scope="module")
def graph(folder: Path) -> Snapshot:
    return load(folder / synthetic.DATE)


def test_is_a_snapshot_like_any_other(graph: Snapshot) -> None:
    assert verify(graph) == []
    assert graph.manifest["counts"]["facts"] == 130


def test_both_engines_read_it_alike(graph: Snapshot) -> None:
    """What benchmarks are drawn from, and what standings are swept from, by an engine that shares no code."""
    store, second = open_store(graph), RdflibGraph(graph.id, graph.read_statements())
    known = identity.load()
    drawn = generate.candidates(store, known, DAY)
    assert generate.candidates(second, known, DAY) == drawn
    assert len(drawn) == 130
    assert all(any(getattr(one, name) for one in drawn) for name in ("sitelinks", "classes", "region", "changes"))
    few = dict(list(facts(store, known).items())[:40])
    swept = standings.whole(standings.timeline(store, known, few.values()))
    assert standings.whole(standings.timeline(second, known, few.values())) == swept
    assert len(swept.standings) > 500


def test_one_seed_gives_the_same_bytes_and_another_seed_others(graph: Snapshot, tmp_path: Path) -> None:
    again = synthetic.write(tmp_path / "again", 130, seed=1)
    assert (again.path / "manifest.json").read_bytes() == (graph.path / "manifest.json").read_bytes()
    assert again.statements_path.read_bytes() == graph.statements_path.read_bytes()
    assert synthetic.write(tmp_path / "other", 130, seed=2).digest != graph.digest


def test_a_smaller_graph_is_the_beginning_of_a_larger() -> None:
    assert list(synthetic.made(60, 5, DAY)) == list(synthetic.made(130, 5, DAY))[:60]


def test_statements_per_fact_are_like_those_of_the_shipped_snapshot() -> None:
    shipped = sorted(Counter(one.fact for one in find_snapshots()[0].statements()).values())
    made = sorted(len(fact.rows) for fact in synthetic.made(450, 0, DAY))
    assert median(shipped) == 5.5
    assert 4 <= median(made) <= 6
    for quantile in (0.25, 0.9):
        own, theirs = (lengths[int(quantile * (len(lengths) - 1))] for lengths in (made, shipped))
        assert theirs / 1.5 <= own <= theirs * 1.5


def test_the_benchmark_asks_every_fact(folder: Path, graph: Snapshot) -> None:
    asked = benchmark.load(folder / "benchmark.toml")
    facts = {"urn:dyknow:fact:" + fact.id.replace("/", ":") for fact in asked.facts}
    assert facts == set(graph.manifest["coverage"])
    answered = (folder / "answers.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.partition(",")[0] for line in answered] != []
    assert {line.partition(",")[0] for line in answered} == {question.id for question in asked.questions()}


def test_a_snapshot_taken_in_parts_has_the_bytes_of_one_taken_whole(tmp_path: Path) -> None:
    facts = list(synthetic.made(40, 3, DAY))
    rows = [row for fact in facts for row in fact.rows]
    more = (("<urn:a>", "<urn:b>", "<urn:c>"),)
    whole = take(Source(rows, "made up", "Nothing.", triples=more), tmp_path / "whole", DAY)
    parts = ([row for fact in facts[start::3] for row in fact.rows] for start in (2, 0, 1))
    merged = take_in_parts(Source((), "made up", "Nothing.", triples=more), parts, tmp_path / "parts", DAY)
    for name in ("statements.nt.gz", "manifest.json"):
        assert (merged.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [synthetic.DATE]


def test_a_fact_in_two_parts_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    rows = next(fact.rows for fact in synthetic.made(40, 3, DAY) if len(fact.rows) > 1)
    with pytest.raises(DataError, match="two parts"):
        take_in_parts(Source((), "made up", "Nothing."), [rows[:1], rows[1:]], tmp_path, DAY)
    assert list(tmp_path.iterdir()) == []


def test_parts_never_overwrite(graph: Snapshot) -> None:
    with pytest.raises(SnapshotError, match="never overwritten"):
        take_in_parts(Source((), "made up", "Nothing."), [], graph.path.parent, DAY)
