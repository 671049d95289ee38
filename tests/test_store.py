"""The store: read-only, built once, shared by processes, and safe against hostile values."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.errors import QueryError, SnapshotError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import bind, integer, open_store


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return find_snapshots()[0]


def test_built_once_and_keyed_by_digest(snapshot: Snapshot, tmp_path: Path) -> None:
    first, second = open_store(snapshot, tmp_path), open_store(snapshot, tmp_path)
    assert first.path == second.path
    assert first.path.name.startswith(snapshot.digest)
    assert [p.name for p in (tmp_path / "stores").iterdir()] == [first.path.name]
    count = next(iter(first.rows("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")))["n"]
    assert count == len(snapshot.read_statements().splitlines()) > 1000


def test_two_processes_build_and_read_at_once(snapshot: Snapshot, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kg.snapshot import find_snapshots; from kg.store import open_store;"
        "store = open_store(find_snapshots()[0], Path(sys.argv[1]));"
        "print(next(iter(store.rows('SELECT (COUNT(*) AS ?n) { ?s ?p ?o }')))['n'])"
    )
    commands = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [command.communicate()[0] for command in commands]
    assert len(set(outputs)) == 1
    assert int(outputs[0]) == len(snapshot.read_statements().splitlines())
    assert len(list((tmp_path / "stores").iterdir())) == 1


@pytest.mark.parametrize(
    "text", ["INSERT DATA { <a:a> <a:b> <a:c> }", "DROP ALL", "SELECT * {", "LOAD <file:///etc/passwd>"]
)
def test_what_is_not_a_query_is_refused(snapshot: Snapshot, tmp_path: Path, text: str) -> None:
    store = open_store(snapshot, tmp_path)
    with pytest.raises(QueryError):
        store.query(text)
    with pytest.raises(QueryError, match="not a SELECT"):
        list(store.rows("ASK { ?s ?p ?o }"))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_is_bound_and_not_formatted(text: str) -> None:
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode("a:s"), ox.NamedNode("a:p"), ox.Literal(text)))
    store.add(ox.Quad(ox.NamedNode("a:other"), ox.NamedNode("a:p"), ox.Literal(text + "!")))
    query = bind("SELECT ?s { VALUES ?name { } ?s <a:p> ?name }", "?name", [[ox.Literal(text)]])
    result = store.query(query)
    assert isinstance(result, ox.QuerySolutions)
    assert [solution["s"] for solution in result] == [ox.NamedNode("a:s")]


def test_bind_fills_pairs_and_undef_and_refuses_a_query_without_the_block() -> None:
    filled = bind("SELECT * { VALUES (?a ?b) {} }", "?a ?b", [[None, integer(20231218)]])
    assert '(UNDEF "20231218"^^<http://www.w3.org/2001/XMLSchema#integer>)' in filled
    with pytest.raises(QueryError, match="no empty block"):
        bind("SELECT * { }", "?a", [[None]])


def test_a_snapshot_whose_bytes_are_not_the_manifests_leaves_no_store(snapshot: Snapshot, tmp_path: Path) -> None:
    other = {**snapshot.manifest, "statements": {**snapshot.manifest["statements"], "digest": "0" * 64}}
    with pytest.raises(SnapshotError, match="does not have the digest"):
        open_store(replace(snapshot, manifest=other), tmp_path)
    assert list((tmp_path / "stores").iterdir()) == []
