"""A snapshot as a read-only Oxigraph store, and the one way to ask it.

The store is a cache of the snapshot, keyed by its digest: built beside, renamed, then only ever opened read-only, so
that any number of commands can use it at once.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyoxigraph as ox

from kg.errors import QueryError, SnapshotError
from kg.resources import query
from kg.snapshot import Snapshot
from kg.terms import XSD

Value = str | int | bool
Row = Mapping[str, Value]
"""A solution: variable to value. IRIs and strings are str, xsd:integer int, xsd:boolean bool; unbound is absent."""

Term = ox.NamedNode | ox.Literal | None
"""What may be bound: an IRI, a literal, or None for UNDEF."""


class Graph(Protocol):
    """Anything that answers SPARQL SELECT: our store, rdflib in the tests, an endpoint."""

    @property
    def name(self) -> str:
        """The snapshot's date, for the reader of a result."""
        ...

    def rows(self, text: str) -> Iterator[Row]:
        """Yield the solutions of a SELECT query.

        Raises:
            QueryError: the query is malformed or is not a SELECT.
        """
        ...


def select(graph: Graph, name: str, variables: str, values: Sequence[Sequence[Term]]) -> list[Row]:
    """Run ``queries/kg/NAME.rq`` with ``values`` bound to ``variables`` and return its solutions."""
    return list(graph.rows(bind(query(f"kg/{name}.rq"), variables, values)))


def bind(text: str, variables: str, values: Sequence[Sequence[Term]]) -> str:
    r"""Fill every empty ``VALUES`` block over these variables; the terms are serialised by the RDF library.

    pyoxigraph's own ``substitutions`` goes silently wrong with sub-selects, and a VALUES block serves every engine.

    >>> bind("SELECT * { VALUES ?name { } }", "?name", [[ox.Literal('a "quote" } and >')]])
    'SELECT * { VALUES ?name { "a \\"quote\\" } and >" } }'

    Raises:
        QueryError: the text has no such block.
    """
    several = len(variables.split()) > 1
    head = f"({variables})" if several else variables
    block = re.compile(rf"VALUES\s+{re.escape(head)}\s*\{{\s*\}}")
    rows = (" ".join("UNDEF" if term is None else str(term) for term in row) for row in values)
    filled = " ".join(f"({row})" if several else row for row in rows)
    result, count = block.subn(lambda _: f"VALUES {head} {{ {filled} }}", text)
    if not count:
        raise QueryError(f"The query has no empty block VALUES {head} {{ }}.")
    return result


def integer(day: int) -> ox.Literal:
    """Return a day as the xsd:integer the snapshots hold."""
    return ox.Literal(str(day), datatype=ox.NamedNode(XSD + "integer"))


class Store:
    """A snapshot in Oxigraph, opened read-only.

    Updates are refused by construction: only ``query`` is called, on a store that cannot write.
    """

    def __init__(self, snapshot: Snapshot, store: ox.Store, path: Path) -> None:
        self.snapshot = snapshot
        self.path = path
        self._store = store

    @property
    def name(self) -> str:
        """The snapshot's date."""
        return self.snapshot.id

    def query(self, text: str) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        """Run any read-only SPARQL query and return pyoxigraph's own result.

        Raises:
            QueryError: the query is malformed, an update, or asks another service.
        """
        try:
            return self._store.query(text)
        except (SyntaxError, ValueError, OSError, RuntimeError) as error:
            raise QueryError(
                f"The SPARQL query was refused: {error}", hint="Only SELECT, ASK, CONSTRUCT and DESCRIBE are read."
            ) from error

    def rows(self, text: str) -> Iterator[Row]:
        """Yield the solutions of a SELECT query; see `Graph.rows`."""
        result = self.query(text)
        if not isinstance(result, ox.QuerySolutions):
            raise QueryError("The query is not a SELECT.", hint="Use SELECT for rows.")
        names = [variable.value for variable in result.variables]
        for solution in result:
            yield {name: _value(term) for name in names if (term := solution[name]) is not None}


def _value(term: object) -> Value:
    """Return a term as a plain value."""
    if not isinstance(term, ox.Literal):
        return term.value if isinstance(term, ox.NamedNode | ox.BlankNode) else str(term)
    if term.datatype.value == XSD + "integer":
        return int(term.value)
    if term.datatype.value == XSD + "boolean":
        return term.value == "true"
    return term.value


def cache_folder() -> Path:
    """Return the folder for caches: ``$DYKNOW_CACHE``, else ``dyknow`` in the user's cache folder."""
    if chosen := os.environ.get("DYKNOW_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dyknow"


def open_store(snapshot: Snapshot, cache: Path | None = None) -> Store:
    """Return the store of a snapshot, building it in the cache where it is not there yet.

    Raises:
        SnapshotError: the snapshot's bytes are not the ones its manifest names; nothing is kept then.
    """
    folder = (cache or cache_folder()) / "stores" / f"{snapshot.digest}-{ox.__version__}"
    if not folder.is_dir():
        _build(snapshot, folder)
    return Store(snapshot, ox.Store.read_only(str(folder)), folder)


def _build(snapshot: Snapshot, folder: Path) -> None:
    """Load the snapshot into a fresh folder beside and rename it; whoever comes second drops its own."""
    data = snapshot.read_statements()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{snapshot.id}-", dir=folder.parent))
    try:
        store = ox.Store(str(beside))
        try:
            store.bulk_load(data, format=ox.RdfFormat.N_TRIPLES)
        except SyntaxError as error:
            raise SnapshotError(
                f"Snapshot {snapshot.id} is not N-Triples: {error}", hint="dyknow snapshot verify"
            ) from error
        store.flush()
        store.optimize()
        del store  # releases the lock
        try:
            beside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
