"""A SPARQL endpoint as the store: the real server program gives what the store gives; wrong answers are errors."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx
import pyoxigraph as ox
import pytest
from click.testing import CliRunner

from dyknow.cli import cli
from kg import identity
from kg.answers import answers, facts, names, timeline
from kg.errors import QueryError, SourceError, UsageError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import Endpoint, Row, Store, open_store, select
from tests.graphs import MemoryGraph, triples

DAYS = (19000101, 19930101, 20150615, 20231218, 20251130)
EMPTY = b'{"head":{"vars":["a"]},"results":{"bindings":[]}}'
JSON = "application/sparql-results+json"

# The real server


@contextmanager
def served(store: Store) -> Iterator[str]:
    """Serve a store with the program of the package ``oxigraph`` until the block ends."""
    beside = Path(sys.executable).parent / "oxigraph"
    program = str(beside) if beside.is_file() else shutil.which("oxigraph")
    assert program is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "serve-read-only", "--location", str(store.path), "--bind", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port, server)
            yield f"http://127.0.0.1:{port}/query"
        finally:
            server.kill()


def wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        assert server.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server does not listen")


class Pair(NamedTuple):
    store: Store
    endpoint: Endpoint


@pytest.fixture(scope="module", params=find_snapshots(), ids=lambda snapshot: snapshot.id)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    snapshot: Snapshot = request.param
    store = open_store(snapshot, tmp_path_factory.mktemp("cache"))
    with served(store) as url, Endpoint(url, snapshot.id) as endpoint:
        yield Pair(store, endpoint)


@pytest.mark.parametrize("day", DAYS)
def test_answer_sets_equal_those_of_the_store(pair: Pair, day: int) -> None:
    same = identity.load()
    found = answers(pair.endpoint, same, day)
    assert len(found) >= 130
    assert found == answers(pair.store, same, day)
    wanted = [one.fact for one in found[::7]]
    assert answers(pair.endpoint, same, day, wanted) == answers(pair.store, same, day, wanted)


def test_facts_names_and_all_days_equal_those_of_the_store(pair: Pair) -> None:
    same = identity.load()
    assert facts(pair.endpoint, same) == facts(pair.store, same) != {}
    assert sorted(names(pair.endpoint, same), key=str) == sorted(names(pair.store, same), key=str) != []
    ours = timeline(pair.endpoint, same)
    assert len(ours.standings) > 1000
    assert ours == timeline(pair.store, same)


def test_every_kind_of_query_and_value_is_read_as_the_store_reads_it(pair: Pair) -> None:
    values = 'SELECT ?a ?b ?c ?d ?e { VALUES (?a ?b ?c ?d ?e) { (1 true "ü\\n\\"" "x"@en UNDEF) (<a:b> 1.5 "<" 2 3) } }'
    assert list(pair.endpoint.rows(values)) == list(pair.store.rows(values))
    assert next(pair.endpoint.rows(values)) == {"a": 1, "b": True, "c": 'ü\n"', "d": "x"}
    for text in (values, "ASK { ?s ?p ?o }", "CONSTRUCT { <a:a> <a:b> <a:c> } { }"):
        ours, theirs = pair.endpoint.query(text), pair.store.query(text)
        if isinstance(ours, ox.QueryBoolean):
            assert bool(ours) is bool(theirs) is True
        else:
            assert [str(one) for one in ours] == [str(one) for one in theirs] != []  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["SELECT * {", "INSERT DATA { <a:a> <a:b> <a:c> }", "DROP ALL"])
def test_what_is_not_a_query_is_refused(pair: Pair, text: str) -> None:
    with pytest.raises(QueryError, match="refused the query"):
        pair.endpoint.rows(text)
    with pytest.raises(QueryError, match="not a SELECT"):
        pair.endpoint.rows("ASK { ?s ?p ?o }")


def test_values_longer_than_the_server_takes_are_asked_for_in_parts(pair: Pair) -> None:
    every = [[ox.NamedNode(fact.iri)] for fact in facts(pair.store, identity.load()).values()]
    padding = [[ox.NamedNode(f"urn:no:fact:{number:0200d}")] for number in range(6000)]
    found = select(pair.endpoint, "facts", "?fact", [*padding, *every])
    assert sorted(found, key=str) == sorted(select(pair.store, "facts", "?fact", [[None]]), key=str) != []


# Parts


@pytest.mark.parametrize(("longest", "least", "most"), [(1, 30, 30), (1200, 2, 6), (1_000_000, 1, 1)])
def test_parts_joined_are_the_whole(longest: int, least: int, most: int) -> None:
    asked = []

    class Listening(MemoryGraph):
        def rows(self, text: str) -> Iterator[Row]:
            asked.append(len(text.encode()))
            return super().rows(text)

    tables = [triples("holder,start,end\nA,2001,2005\nB,2005,\n", subject=name) for name in ("Länd", "Stadt", "Ort")]
    graph = Listening("2020", b"".join(tables))
    values = [[ox.NamedNode(fact.iri)] for fact in facts(graph, identity.load()).values()] * 10
    asked.clear()
    found = select(graph, "days", "?fact", values, longest)
    assert least <= len(asked) <= most
    assert longest == 1 or max(asked) <= longest
    assert {str(row) for row in found} == {str(row) for row in select(graph, "days", "?fact", [[None]])} != set()
    assert select(graph, "days", "?fact", []) == []


# Wrong answers


class Answer(NamedTuple):
    status: int = 200
    body: bytes = EMPTY
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)
    length: int | None = None  # announced instead of the body's own


Behaviour = Callable[[BaseHTTPRequestHandler], Answer]


@contextmanager
def answering(behaviour: Answer | Behaviour) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.log.append((self.path, self.headers["Content-Type"], body))  # type: ignore[attr-defined]
            answer = behaviour if isinstance(behaviour, Answer) else behaviour(self)
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.log = []  # type: ignore[attr-defined]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is a part of the tests
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/sparql"
        finally:
            server.shutdown()
            thread.join()


HTML = (("Content-Type", "text/html; charset=utf-8"),)
WRONG = {
    "an error of the server": (Answer(503, b"<h1>Down</h1>", HTML), r"with HTTP 503: Down"),
    "too many requests": (Answer(429, b"", ()), "HTTP 429: nothing"),
    "a page instead of a result": (Answer(200, b"<html><p>Welcome</html>", HTML), "text/html: Welcome"),
    "no content type": (Answer(200, EMPTY, ()), "no content type"),
    "XML that was not asked for": (Answer(200, b"<sparql/>", (("Content-Type", "application/xml"),)), "application/xml"),
    "JSON cut off, length unannounced": (Answer(body=EMPTY[:-9]), "cut off or damaged"),
    "a body shorter than announced": (Answer(length=len(EMPTY) + 1), "cut off or damaged"),
    "an error after the result": (Answer(body=EMPTY + b"\njava.util.concurrent.TimeoutException"), "cut off or damaged"),
    "gzip that is none": (
        Answer(headers=(("Content-Type", JSON), ("Content-Encoding", "gzip"))), "cut off or damaged"
    ),
    "JSON of something else": (Answer(body=b'{"error": "no"}'), "no SPARQL result"),
    "a list": (Answer(body=b"[]"), "no SPARQL result"),
    "solutions that are none": (Answer(body=b'{"head":{},"results":{"bindings":[{"a":"x"}]}}'), "no SPARQL result"),
    "a number that is none": (
        Answer(body=b'{"results":{"bindings":[{"a":{"type":"literal","value":"x","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}'),
        "no SPARQL result",
    ),
    "Virtuoso's limit of rows": (Answer(headers=(("Content-Type", JSON), ("X-SPARQL-MaxRows", "10000"))), "a part of"),
    "Virtuoso's limit of time": (Answer(headers=(("Content-Type", JSON), ("X-SQL-State", "S1TAT"))), "a part of"),
    "a redirect to another host": (Answer(302, b"", (("Location", "http://example.org/sparql"),)), "another host"),
    "a redirect to another port": (Answer(307, b"", (("Location", "http://127.0.0.1:1/sparql"),)), "another host"),
    "redirects without end": (Answer(308, b"", (("Location", "/sparql"),)), "one redirect after another"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_is_an_error_that_names_the_address(kind: str) -> None:
    answer, message = WRONG[kind]
    with answering(answer) as url, Endpoint(url, "2020") as endpoint:
        with pytest.raises(SourceError, match=message) as caught:
            endpoint.rows("SELECT * { }")
        assert url in caught.value.message
        assert caught.value.hint
        with pytest.raises(SourceError):
            endpoint.query("SELECT * { }")


def test_an_endpoint_that_is_not_there_or_is_too_slow() -> None:
    with (
        Endpoint("http://127.0.0.1:9/query", "2020") as endpoint,
        pytest.raises(SourceError, match="cannot be reached"),
    ):
        endpoint.rows("SELECT * { }")
    slept = threading.Event()

    def slow(_: BaseHTTPRequestHandler) -> Answer:
        slept.wait(5)
        return Answer()

    with answering(slow) as url, Endpoint(url, "2020", timeout_s=0.2) as endpoint:
        with pytest.raises(SourceError, match="in time"):
            endpoint.rows("SELECT * { }")
        slept.set()


@pytest.mark.parametrize("url", ["", "127.0.0.1:7878", "ftp://example.org/", "http://", "snapshots"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        Endpoint(url, "2020")


# Ways of asking


def test_a_redirect_on_the_same_host_is_followed_with_the_query() -> None:
    def moved(handler: BaseHTTPRequestHandler) -> Answer:
        return Answer() if handler.path == "/there" else Answer(301, b"", (("Location", "/there"),))

    with answering(moved) as url, Endpoint(url, "2020") as endpoint:
        assert list(endpoint.rows("SELECT * { }")) == []


def test_a_service_that_knows_only_forms_is_asked_by_form() -> None:
    seen = []

    def old(handler: BaseHTTPRequestHandler) -> Answer:
        seen.append(handler.headers["Content-Type"].partition(";")[0])
        return Answer() if seen[-1] == "application/x-www-form-urlencoded" else Answer(415, b"", ())

    with answering(old) as url, Endpoint(url, "2020") as endpoint:
        assert list(endpoint.rows("SELECT ?ü { }")) == list(endpoint.rows("SELECT * { }")) == []
    assert seen == ["application/sparql-query", *["application/x-www-form-urlencoded"] * 2]


def test_other_engines_ways_with_values_are_read() -> None:
    integer = "http://www.w3.org/2001/XMLSchema#"
    body = (
        '{"head":{"vars":["a","b","c","d"]},"results":{"bindings":[{'
        f'"a":{{"type":"typed-literal","value":"20170101","datatype":"{integer}integer"}},'
        f'"b":{{"type":"literal","value":"-5","datatype":"{integer}int"}},'
        f'"c":{{"type":"literal","value":"1","datatype":"{integer}boolean"}},'
        '"d":{"type":"bnode","value":"b0"}}]},"meta":{"query-time-ms":3}}'
    )
    with answering(Answer(body=body.encode())) as url, Endpoint(url, "2020") as endpoint:
        assert list(endpoint.rows("SELECT * { }")) == [{"a": 20170101, "b": -5, "c": True, "d": "b0"}]
        assert isinstance(endpoint.query("SELECT * { }"), ox.QuerySolutions)


def test_a_password_is_sent_and_never_shown() -> None:
    sent = []

    def asked(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(500)

    with httpx.Client(transport=httpx.MockTransport(asked)) as client:
        endpoint = Endpoint("https://me:secret@example.org/sparql", "2020", client=client)
        with pytest.raises(SourceError) as caught:
            endpoint.rows("SELECT * { }")
    assert sent[0].startswith("Basic ")
    assert endpoint.url == "https://example.org/sparql"
    assert "secret" not in caught.value.message


def test_the_commands_ask_an_endpoint_as_they_ask_the_store(pair: Pair) -> None:
    words = ["answers", "--as-of", "2023-12-18", "--known-at", pair.store.name, "--format", "json"]
    here, there = (CliRunner().invoke(cli, [*words, *more]) for more in ([], ["--endpoint", pair.endpoint.url]))
    assert here.exit_code == there.exit_code == 0, there.output
    assert here.stdout == there.stdout != "[]\n"
    assert pair.endpoint.url in there.stderr
    query = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
    counted = CliRunner().invoke(cli, ["sparql", query, "--endpoint", pair.endpoint.url, "--format", "csv"])
    assert (counted.exit_code, int(counted.stdout.split()[1]) > 20_000) == (0, True), counted.output
    other = next(one.id for one in find_snapshots() if one.id != pair.store.name)
    wrong = CliRunner().invoke(cli, [*words[:3], "--known-at", other, "--endpoint", pair.endpoint.url])
    assert (wrong.exit_code, "holds" in wrong.stderr) == (2, True), wrong.output
