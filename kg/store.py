"""A snapshot as a read-only Oxigraph store or behind a SPARQL endpoint, and the one way to ask it.

The store is a cache of the snapshot, keyed by its digest: built beside, renamed, then only ever opened read-only, so
that any number of commands can use it at once. An endpoint holds the same triples in somebody else's store.
"""

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import orjson
import pyoxigraph as ox

from kg.errors import QueryError, SnapshotError, SourceError, UsageError
from kg.resources import query
from kg.snapshot import Snapshot
from kg.sources.queryservice import Row, Term, Value, bind, json_value, plain
from kg.terms import XSD

if TYPE_CHECKING:
    import httpx

__all__ = (
    "Endpoint", "Graph", "Row", "Store", "Term", "Value", "bind", "cache_folder", "integer", "open_store", "select",
)  # fmt: skip

RESULTS_JSON: Final = "application/sparql-results+json"
TRIPLES: Final = "application/n-triples"
QUERY_TIMEOUT_S: Final = 60.0
REDIRECTS: Final = 5
QUERY_BYTES: Final = 1_000_000
"""How long a query's text may grow: services and the proxies before them often take no more than a mebibyte."""


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


def select(
    graph: Graph, name: str, variables: str, values: Sequence[Sequence[Term]], longest: int = QUERY_BYTES
) -> list[Row]:
    """Run ``queries/kg/NAME.rq`` with ``values`` bound to ``variables`` and return its solutions.

    Values that would make the text longer than ``longest`` bytes are asked for in several queries and the solutions
    joined. That is right because each of our queries answers for every row of its values alone.
    """
    text = query(f"kg/{name}.rq")
    batches = _batches(values, longest - len(text.encode()))
    return [row for batch in batches for row in graph.rows(bind(text, variables, batch))]


def _batches(values: Sequence[Sequence[Term]], room: int) -> Iterator[Sequence[Sequence[Term]]]:
    """Cut values so that each batch, filled into a query's one block, takes no more than ``room`` bytes."""
    first = size = 0
    for number, row in enumerate(values):
        own = sum(len(str(term).encode()) + 1 for term in row) + 4  # UNDEF is no longer than None and a space
        if number > first and size + own > room:
            yield values[first:number]
            first, size = number, 0
        size += own
    yield values[first:]


def integer(day: int) -> ox.Literal:
    """Return a day as the xsd:integer the snapshots hold."""
    return ox.Literal(str(day), datatype=ox.NamedNode(XSD + "integer"))


def boolean(value: bool) -> ox.Literal:
    """Return a truth value as an xsd:boolean."""
    return ox.Literal("true" if value else "false", datatype=ox.NamedNode(XSD + "boolean"))


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
    return plain(term.value, term.datatype.value)


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
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{snapshot.id}-", dir=folder.parent))
    try:
        store = ox.Store(str(beside))
        try:
            # Read to its end, where the digest is compared: what is wrong with the bytes is raised here.
            data: Any = _Blocks(snapshot.blocks())
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


class _Blocks(io.RawIOBase):
    """Pieces of bytes as a file, so that a large snapshot is loaded without being in memory as a whole."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
        taken = bytes(self._rest[:size] if size >= 0 else self._rest)
        self._rest = self._rest[len(taken) :]
        return taken


class Endpoint:
    """The triples of a snapshot behind a SPARQL 1.1 endpoint; every query of ``queries/kg`` runs there unchanged.

    >>> with Endpoint("http://127.0.0.1:7878/query", "2025-11-30") as endpoint:
    ...     endpoint.name
    '2025-11-30'

    An answer counts only when it is whole: a body that is cut off, is no SPARQL result, or was shortened by the
    service is an error, never a smaller answer.
    """

    def __init__(
        self, url: str, name: str, *, client: "httpx.Client | None" = None, timeout_s: float = QUERY_TIMEOUT_S
    ) -> None:
        """Prepare to ask an endpoint; nothing is sent yet.

        Args:
            url: where it takes queries, such as ``http://127.0.0.1:7878/query``; it may name a user and password.
            name: the date of the snapshot it holds.
            client: sends the requests; the endpoint closes only a client it made itself.
            timeout_s: how long one query may take.
        """
        import httpx  # noqa: PLC0415  # takes a tenth of a second, which commands that only read files need not wait

        try:
            self._url = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise UsageError(f"{url!r} is no address: {error}") from error
        if self._url.scheme not in {"http", "https"} or not self._url.host:
            raise UsageError(f"{url!r} is no address of an endpoint.", hint="It begins with http:// or https://.")
        self._name = name
        self._own = client is None
        self._client = client or httpx.Client(timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 10)))
        self._form = False

    @property
    def name(self) -> str:
        """The snapshot's date."""
        return self._name

    @property
    def url(self) -> str:
        """The address, without any password."""
        return str(self._url.copy_with(username=None, password=None)) if self._url.userinfo else str(self._url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections it opened."""
        if self._own:
            self._client.close()

    def rows(self, text: str) -> Iterator[Row]:
        """Yield the solutions of a SELECT query; see `Graph.rows`. Nothing is yielded before the answer is whole.

        Raises:
            QueryError: the endpoint refuses the query, or it is not a SELECT.
            SourceError: the endpoint is not reached in time, or answers with anything but a whole result.
        """
        document = self._document(self._post(text, RESULTS_JSON))
        if "boolean" in document:
            raise QueryError("The query is not a SELECT.", hint="Use SELECT for rows.")
        try:
            found = [
                {name: json_value(term) for name, term in solution.items()}
                for solution in document["results"]["bindings"]
            ]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self._wrong(f"with JSON that is no SPARQL result ({error!r})") from error
        return iter(found)

    def query(self, text: str) -> "ox.QuerySolutions | ox.QueryBoolean | Iterator[ox.Triple]":
        """Run any read-only query and return pyoxigraph's own kinds of result, as `Store.query` does.

        Raises:
            QueryError: the endpoint refuses the query.
            SourceError: the endpoint is not reached in time, or answers with anything but a whole result.
        """
        response = self._post(text, f"{RESULTS_JSON}, {TRIPLES}")
        try:
            if _media_type(response) in {TRIPLES, "text/plain"}:
                quads = list(ox.parse(response.content, format=ox.RdfFormat.N_TRIPLES))
                return iter([quad.triple for quad in quads])
            document = self._document(response)
            kept = {key: document[key] for key in ("head", "results", "boolean") if key in document}
            result = ox.parse_query_results(orjson.dumps(kept), format=ox.QueryResultsFormat.JSON)
        except SyntaxError as error:
            raise self._wrong(f"with a result that cannot be read ({error})") from error
        return result

    def _post(self, text: str, accept: str) -> "httpx.Response":
        """Return the answer to a query, its body read to the end."""
        target = self._url
        for _ in range(REDIRECTS + 1):
            response = self._send(target, text, accept)
            if response.status_code == 415 and not self._form:
                self._form = True  # an older service, which knows only HTML forms
                continue
            if not response.is_redirect:
                self._check(response)
                return response
            target = self._next(target, response)
        raise self._wrong("with one redirect after another")

    def _send(self, target: "httpx.URL", text: str, accept: str) -> "httpx.Response":
        import httpx  # noqa: PLC0415  # as above

        headers = {"Accept": accept}
        try:
            if self._form:
                return self._client.post(target, data={"query": text}, headers=headers, follow_redirects=False)
            headers["Content-Type"] = "application/sparql-query; charset=utf-8"
            return self._client.post(target, content=text.encode(), headers=headers, follow_redirects=False)
        except httpx.TimeoutException as error:
            raise SourceError(
                f"The endpoint {self.url} did not answer in time.", hint="Is it overloaded, or the query too large?"
            ) from error
        except (httpx.DecodingError, httpx.RemoteProtocolError, httpx.ReadError) as error:
            raise self._wrong(f"with a body that is cut off or damaged ({error})") from error
        except httpx.HTTPError as error:
            raise SourceError(
                f"The endpoint {self.url} cannot be reached: {error}", hint="Is it running? See dyknow serve --help."
            ) from error

    def _next(self, target: "httpx.URL", response: "httpx.Response") -> "httpx.URL":
        """Return where a redirect leads: the same host, or the same host over TLS; a query goes nowhere else."""
        there = target.join(response.headers.get("Location", ""))
        same = (there.scheme, there.host, there.port) == (target.scheme, target.host, target.port)
        safer = (target.scheme, there.scheme) == ("http", "https") and there.host == target.host and there.port is None
        if not (same or safer):
            raise SourceError(
                f"The endpoint {self.url} redirects to {there.host}, another host.", hint="Give its own address."
            )
        return there.copy_with(userinfo=target.userinfo)

    def _check(self, response: "httpx.Response") -> None:
        code = response.status_code
        if code == 400:
            raise QueryError(f"The endpoint {self.url} refused the query: {_excerpt(response)}")
        if code != 200:
            raise self._wrong(f"with HTTP {code}: {_excerpt(response)}")
        # Virtuoso says by these that it stopped at its limit of rows, or of time.
        if "X-SPARQL-MaxRows" in response.headers or "X-SQL-State" in response.headers:
            raise self._wrong("with a part of the result only", "Raise ResultSetMaxRows and MaxQueryExecutionTime.")

    def _document(self, response: "httpx.Response") -> dict[str, Any]:
        """Return the JSON of a result."""
        if _media_type(response) not in {RESULTS_JSON, "application/json"}:
            raise self._wrong(f"with {_media_type(response) or 'no content type'}: {_excerpt(response)}")
        try:
            document = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise self._wrong(f"with JSON that is cut off or damaged ({error})") from error
        if not isinstance(document, dict) or not ("boolean" in document or "results" in document):
            raise self._wrong("with JSON that is no SPARQL result")
        return document

    def _wrong(self, what: str, hint: str = "Is it the address of a SPARQL 1.1 endpoint?") -> SourceError:
        return SourceError(f"The endpoint {self.url} answers {what}.", hint=hint)


def _media_type(response: "httpx.Response") -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _excerpt(response: "httpx.Response") -> str:
    """Return the first words of a body, without mark-up, for an error."""
    words = re.sub(r"<[^>]*>|\s+", " ", response.text[:2000])
    return " ".join(words.split())[:200] or "nothing"
