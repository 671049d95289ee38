"""HTTP as a good citizen: manners, patience, answers checked whole, and stored."""

import gzip
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from kg.errors import SourceError, UsageError
from kg.sources.bodies import Fault, api_fault
from kg.sources.responses import Responses
from kg.sources.web import Manners, Web, _certificates
from tests.wikidata_server import FakeWikidata, Reply
from tests.wikidata_server import Fault as Spoilt

URL = "https://example.org/data"
GOOD = httpx.Response(200, json={"good": True})
Answers = Callable[[httpx.Request], httpx.Response]


class Waits(list[float]):
    """Notes how long it was to sleep, and does not."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def scripted(*answers: httpx.Response | Exception, **settings: object) -> tuple[Web, Waits, list[httpx.Request]]:
    """Return a client that gets these answers, the last one for ever; what it waits; what it sends."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        found = answers[min(len(asked), len(answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, headers=found.headers, stream=httpx.ByteStream(raw(found)))

    waits = Waits()
    client = Web(transport=httpx.MockTransport(answer), sleep=waits, chance=lambda: 1.0, **settings)  # type: ignore[arg-type]  # mypy cannot see which
    return client, waits, asked


def raw(response: httpx.Response) -> bytes:
    stream = response.stream
    assert isinstance(stream, httpx.ByteStream)
    return b"".join(stream)


def packed(body: bytes, **headers: str) -> httpx.Response:
    """Return an answer whose body is what stands here, whatever its headers say."""
    kind = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(200, headers=kind, stream=httpx.ByteStream(body))


@pytest.fixture
def fake() -> Iterator[FakeWikidata]:
    with FakeWikidata(
        {}, synthetic=True, sparql=lambda query: {"head": {"vars": []}, "results": {"bindings": []}}
    ) as it:
        yield it


# Who we are


def test_the_user_agent_names_tool_library_and_contact() -> None:
    agent = Manners(contact="me@example.org").user_agent
    assert agent.startswith("dyknow/") and "me@example.org" in agent and f"httpx/{httpx.__version__}" in agent
    assert "@" not in Manners().user_agent


@pytest.mark.parametrize("contact", ["", "me\r\nX-Evil: 1", "Zoë"])
def test_a_contact_that_no_header_can_hold_is_refused(contact: str) -> None:
    with pytest.raises(UsageError, match="contact"):
        Manners(contact=contact)


def test_the_user_agent_is_sent(fake: FakeWikidata) -> None:
    manners = Manners(contact="https://example.org/bot")
    with Web(manners) as client:
        client.get_json(f"{fake.url}/wiki/Special:EntityData/Q1.json", {}, None)
    assert fake.requests[0].headers["User-Agent"] == manners.user_agent
    assert fake.requests[0].headers["Accept-Encoding"] == "gzip"


# Patience


def test_a_server_that_asks_to_wait_is_obeyed() -> None:
    busy = httpx.Response(429, headers={"Retry-After": "7"})
    client, waits, asked = scripted(busy, GOOD)
    assert client.get_json(URL, {}, None) == {"good": True}
    assert (waits, len(asked)) == ([7.0], 2)


def test_a_date_to_wait_for_is_read_by_the_servers_own_clock() -> None:
    ours = 1_700_000_000.0  # an hour behind the server's
    busy = httpx.Response(503, headers={"Retry-After": formatdate(ours + 3609), "Date": formatdate(ours + 3600)})
    client, waits, _ = scripted(busy, GOOD, now=lambda: ours)
    client.get_json(URL, {}, None)
    assert waits == [9.0]


def test_a_date_to_wait_for_without_the_servers_clock_is_read_by_ours() -> None:
    busy = httpx.Response(503, headers={"Retry-After": formatdate(1_700_000_030.0, usegmt=True)})
    client, waits, _ = scripted(busy, GOOD, now=lambda: 1_700_000_000.0)
    client.get_json(URL, {}, None)
    assert waits == [30.0]


@pytest.mark.parametrize("text", ["soon", "-3", "Mon, 99 Foo 2020 00:00:00 GMT", "1e9", "٣"])
def test_a_retry_after_that_says_nothing_is_passed_over(text: str) -> None:
    busy = httpx.Response(503, headers={b"Retry-After": text.encode()})
    client, waits, _ = scripted(busy, GOOD)
    client.get_json(URL, {}, None)
    assert waits == [1.0]


def test_a_wait_longer_than_our_patience_is_said() -> None:
    client, waits, asked = scripted(httpx.Response(429, headers={"Retry-After": "86400"}))
    with pytest.raises(
        SourceError, match=r"HTTP 429.*asks to wait 86400 s, and for one answer we wait 300 s"
    ) as caught:
        client.get_json(URL, {}, None)
    assert (caught.value.kind, waits, len(asked)) == ("busy", [], 1)
    assert caught.value.hint == "Run the same command again later."


def test_pauses_grow_up_to_a_minute_and_end() -> None:
    client, waits, asked = scripted(httpx.Response(500), manners=Manners(attempts=9, patience_s=1000))
    with pytest.raises(SourceError, match=r"HTTP 500 .*9 times asked"):
        client.get_json(URL, {}, None)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(asked) == 9


def test_pauses_are_spread() -> None:
    client, waits, _ = scripted(httpx.Response(500), GOOD)
    client.chance = lambda: 0.5
    client.get_json(URL, {}, None)
    assert waits == [0.75]


def test_a_server_that_stays_busy_is_asked_until_patience_is_spent() -> None:
    client, waits, asked = scripted(httpx.Response(429, headers={"Retry-After": "50"}))
    with pytest.raises(SourceError, match="asks to wait 50 s after 300 s of waiting"):
        client.get_json(URL, {}, None)
    assert waits == [50.0] * 6  # 300 s
    assert len(asked) == 7


@pytest.mark.parametrize(("status", "kind"), [(404, "absent"), (410, "absent"), (400, "wrong"), (403, "wrong")])
def test_an_answer_that_will_not_change_is_asked_for_once(status: int, kind: str) -> None:
    client, waits, asked = scripted(httpx.Response(status, text="no"))
    with pytest.raises(SourceError, match=f"HTTP {status}.*'no'") as caught:
        client.get_json(URL, {}, None)
    assert (caught.value.kind, waits, len(asked)) == (kind, [], 1)


def test_who_is_refused_is_told_to_say_who_he_is() -> None:
    client, _, _ = scripted(httpx.Response(403, text="Please set a user-agent"))
    with pytest.raises(SourceError, match="HTTP 403") as caught:
        client.get_json(URL, {}, None)
    assert caught.value.hint and "contact" in caught.value.hint


def test_a_pause_is_reported() -> None:
    said: list[str] = []
    client, _, _ = scripted(httpx.Response(500, text="oh"), GOOD, report=said.append)
    client.get_json(URL, {}, None)
    assert said == ["https://example.org answered HTTP 500 Internal Server Error: 'oh'; asking again in 1 s."]


# Where nobody answers


def test_without_a_network_it_says_so_soon() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # not listening
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        waits = Waits()
        with Web(sleep=waits) as client, pytest.raises(SourceError, match=f"{url} cannot be reached") as caught:
            client.get_json(f"{url}/data", {}, None)
    assert caught.value.kind == "unreachable" and caught.value.hint and "network" in caught.value.hint
    assert len(waits) == 1


def test_a_network_that_goes_away_in_the_middle_is_waited_for() -> None:
    lost = httpx.ConnectError("[Errno -2] Name or service not known")
    client, waits, _ = scripted(GOOD, lost, lost, lost, GOOD)
    for _ in range(2):
        client.get_json(URL, {}, None)
    assert waits == [1, 2, 4]


def test_tls_is_verified(fake: FakeWikidata) -> None:
    # A server that speaks plain HTTP has no certificate at all; and whoever has one must prove it.
    with (
        Web(sleep=Waits()) as client,
        pytest.raises(SourceError, match="cannot be reached"),
    ):
        client.get_json(fake.url.replace("http", "https"), {}, None)
    context = _certificates()
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname


@pytest.mark.parametrize("url", ["ftp://example.org/x", "example.org/x", "http://[::1", "https://"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with Web(sleep=Waits()) as client, pytest.raises(UsageError, match="no address"):
        client.get_json(url, {}, None)


@pytest.mark.parametrize("kind", ["drip", "drip headers"])
def test_a_server_that_drips_is_cut_off(fake: FakeWikidata, kind: str) -> None:
    fake.faults = [Spoilt(kind, forever=True)]
    manners = Manners(deadline_s=0.2, attempts=2)
    with Web(manners, sleep=Waits()) as client, pytest.raises(SourceError, match="did not finish") as caught:
        client.get_json(f"{fake.url}/wiki/Special:EntityData/Q1.json", {}, None)
    assert caught.value.kind == "time-out"
    assert client.sent == 2


def test_the_deadline_holds_on_a_connection_that_was_used_before(fake: FakeWikidata) -> None:
    fake.faults = [Spoilt("drip headers", nth=3)]
    with Web(Manners(deadline_s=0.2), sleep=Waits()) as client:
        for name in ("Q1", "Q2", "Q3"):
            client.get_json(f"{fake.url}/wiki/Special:EntityData/{name}.json", {}, None)
    assert client.sent == 4


def test_a_server_that_says_nothing_times_out(fake: FakeWikidata) -> None:
    fake.faults = [Spoilt("silence", forever=True)]
    manners = Manners(timeout_s=0.1, attempts=2)
    with Web(manners, sleep=Waits()) as client, pytest.raises(SourceError, match="timed out") as caught:
        client.get_json(f"{fake.url}/wiki/Special:EntityData/Q1.json", {}, None)
    assert caught.value.kind == "time-out"


# Answers that are none


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (packed(b"<html>", Content_Type="text/html; charset=utf-8"), "a page of HTML instead of application/json"),
        (packed(b"{}", Content_Type="text/plain"), "content type 'text/plain'"),
        (packed(b"{}", Content_Type=""), "content type ''"),
        (packed(b'{"a": '), "invalid or truncated JSON"),
        (packed(b""), "invalid or truncated JSON"),
        (packed(b"\xff\xfe{"), "invalid or truncated JSON"),
        (packed(b"[" * 5000), "invalid or truncated JSON"),
        (packed(b"{}", Content_Encoding="br"), "encoding 'br'"),
        (packed(b"{}", Content_Encoding="gzip"), "damaged gzip"),
        (packed(gzip.compress(b"{}")[:-9], Content_Encoding="gzip"), "gzip that is cut off"),
        (packed(b"", Content_Encoding="gzip"), "gzip that is cut off"),
        (packed(b'{"a\nSELECT java.util.concurrent.TimeoutException at'), "ran out of time"),
        (httpx.ReadError("gone"), "broke off its answer: 'gone'"),
        (httpx.RemoteProtocolError("incomplete"), "broke off its answer"),
        (httpx.Response(302, headers={"Location": "https://example.com/data"}), "redirects to another place"),
        (httpx.Response(302, headers={"Location": "http://example.org/data"}), "redirects to another place"),
        (httpx.Response(302, headers={"Location": "//example.com/data"}), "redirects to another place"),
        (httpx.Response(302, headers={"Location": "https://example.org:8443/data"}), "redirects to another place"),
        (httpx.Response(302, headers={"Location": "https://["}), "redirects to another place"),
        (httpx.Response(302, headers={"Location": "/data"}), "redirects more than 5 times"),
        (httpx.Response(304), "HTTP 304"),
        (httpx.Response(204), "HTTP 204"),
    ],
)
def test_an_answer_that_is_none_is_refused_and_not_stored(
    answer: httpx.Response | Exception, message: str, tmp_path: Path
) -> None:
    client, _, _ = scripted(answer, manners=Manners(attempts=2), responses=Responses(tmp_path))
    with pytest.raises(SourceError, match=message) as caught:
        client.get_json(URL, {"a": "b"}, "")
    assert "example.org/data?a=b" in caught.value.message
    assert list(tmp_path.rglob("*.*")) == []


def test_a_redirect_on_the_same_host_is_followed() -> None:
    there = httpx.Response(301, headers={"Location": "/elsewhere"})
    client, waits, asked = scripted(there, there, GOOD)
    assert client.get_json(URL, {"a": "b"}, None) == {"good": True}
    assert str(asked[-1].url) == "https://example.org/elsewhere"
    assert waits == []


def test_a_redirect_to_tls_on_the_same_host_is_followed() -> None:
    client, _, _ = scripted(httpx.Response(301, headers={"Location": URL}), GOOD)
    assert client.get_json("http://example.org/data", {}, None) == {"good": True}


def test_gzip_may_have_several_parts() -> None:
    client, _, _ = scripted(packed(gzip.compress(b'{"a":') + gzip.compress(b"1}"), Content_Encoding="gzip"))
    assert client.get_json(URL, {}, None) == {"a": 1}


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_too_large_for_memory_is_refused(encoding: str) -> None:
    body = b"[" + b" " * 3_000_000 + b"]"
    answer = packed(gzip.compress(body) if encoding == "gzip" else body, Content_Encoding=encoding)
    client, _, asked = scripted(answer, manners=Manners(biggest=2_000_000))
    with pytest.raises(SourceError, match="more than 2,000,000 bytes"):
        client.get_json(URL, {}, None)
    assert len(asked) == 1


def test_a_check_decides_what_is_an_answer(tmp_path: Path) -> None:
    def check(answer: object) -> None:
        if answer != {"good": True}:
            raise Fault("is not good")

    client, waits, _ = scripted(httpx.Response(200, json={}), GOOD, responses=Responses(tmp_path))
    assert client.get_json(URL, {}, "", check=check) == {"good": True}
    assert client.get_json(URL, {}, "", check=check) == {"good": True}
    assert (waits, client.sent, client.reused) == ([1.0], 2, 1)


# MediaWiki's errors come with status 200


def test_maxlag_is_waited_for() -> None:
    lag = {"error": {"code": "maxlag", "info": "Waiting for db1: 7.5 s lagged", "lag": 7.5}}
    asking = httpx.Response(200, json=lag, headers={"Retry-After": "9"})
    client, waits, _ = scripted(asking, httpx.Response(200, json=lag), GOOD)
    assert client.get_json(URL, {}, None, check=api_fault) == {"good": True}
    assert waits == [9, 5]


@pytest.mark.parametrize(
    ("error", "tries", "kind"),
    [
        ({"code": "internal_api_error_DBQueryError", "info": "x"}, 3, "wrong"),
        ({"code": "readonly", "info": "x"}, 3, "wrong"),
        ({}, 3, "wrong"),
        ("broken", 3, "wrong"),
        ({"code": "toomanyvalues", "info": "x"}, 1, "wrong"),
        ({"code": "badvalue", "info": "x"}, 1, "wrong"),
        ({"code": "no-such-entity", "info": "x"}, 1, "absent"),
    ],
)
def test_an_error_of_the_interface_is_one(error: object, tries: int, kind: str) -> None:
    client, _, asked = scripted(httpx.Response(200, json={"error": error}), manners=Manners(attempts=3))
    with pytest.raises(SourceError, match="answered the error") as caught:
        client.get_json(URL, {}, None, check=api_fault)
    assert (len(asked), caught.value.kind) == (tries, kind)


# The query service


def test_a_query_is_posted(fake: FakeWikidata) -> None:
    with Web() as client:
        answer = client.post_sparql(f"{fake.url}/sparql", "SELECT * {}", None)
    assert answer["results"] == {"bindings": []}
    assert fake.requests[0].params == {"query": "SELECT * {}"}
    assert fake.requests[0].headers["Accept"] == "application/sparql-results+json"


@pytest.mark.parametrize(
    "body", [{}, [], {"head": {}}, {"head": {}, "results": {}}, {"head": 1, "results": {"bindings": []}}]
)
def test_a_result_without_its_parts_is_refused(body: object) -> None:
    client, _, _ = scripted(httpx.Response(200, json=body), manners=Manners(attempts=1))
    with pytest.raises(SourceError, match="SPARQL"):
        client.post_sparql(URL, "SELECT * {}", None)


@pytest.mark.parametrize("status", [200, 500])
def test_a_time_out_of_the_query_service_is_told_apart(fake: FakeWikidata, status: int) -> None:
    fake.sparql = lambda query: Reply(
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a\njava.util.concurrent.TimeoutException\n\tat',
        "application/sparql-results+json",
        status,
    )
    with (
        Web(Manners(attempts=2), sleep=Waits()) as client,
        pytest.raises(SourceError, match="ran out of time") as caught,
    ):
        client.post_sparql(f"{fake.url}/sparql", "SELECT * {}", None)
    assert caught.value.kind == "time-out"


def test_a_post_is_not_turned_into_a_get() -> None:
    client, _, asked = scripted(httpx.Response(303, headers={"Location": "/x"}))
    with pytest.raises(SourceError, match="redirects a POST"):
        client.post_sparql(URL, "SELECT * {}", None)
    assert len(asked) == 1
    client, _, asked = scripted(
        httpx.Response(308, headers={"Location": "/x"}),
        httpx.Response(200, json={"head": {}, "boolean": True}),
    )
    assert client.post_sparql(URL, "ASK {}", None)["boolean"] is True
    assert (asked[1].method, asked[1].url.path) == ("POST", "/x")


# What is kept


def test_an_answer_is_asked_for_once_in_its_scope(tmp_path: Path) -> None:
    client, _, asked = scripted(GOOD, responses=Responses(tmp_path))
    for scope in ("", "", "2019-06-30", "2019-06-30", None):
        client.get_json(URL, {"a": "1", "b": "2"}, scope)
    client.get_json(URL, {"b": "2", "a": "1"}, "", manners={"maxlag": "5"})
    assert (len(asked), client.sent, client.reused) == (3, 3, 3)


def test_what_is_kept_can_be_read_by_hand(tmp_path: Path) -> None:
    client, _, _ = scripted(packed(b' {"a": "b"}\n'), responses=Responses(tmp_path))
    client.get_json(URL, {"x": "y"}, "")
    (path,) = tmp_path.glob("*/*.gz")
    head, body = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    assert json.loads(head) == {"url": f"{URL}?x=y", "bytes": 12}
    assert body == b' {"a": "b"}\n'  # raw, as it came


@pytest.mark.parametrize(
    "spoil", [lambda b: b[:-4], lambda b: b"", lambda b: b"no gzip", lambda b: gzip.compress(b"{}\n{}")]
)
def test_a_damaged_entry_is_fetched_again(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    client, _, asked = scripted(GOOD, responses=Responses(tmp_path))
    client.get_json(URL, {}, "")
    (path,) = tmp_path.glob("*/*.gz")
    path.write_bytes(spoil(path.read_bytes()))
    assert client.get_json(URL, {}, "") == {"good": True}
    assert client.get_json(URL, {}, "") == {"good": True}
    assert len(asked) == 2


def test_a_crash_while_storing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        Responses(tmp_path).put("ab", URL, b"{}")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client, _, _ = scripted(GOOD, responses=Responses(tmp_path / "file"))
    with pytest.raises(SourceError, match=r"cannot be stored in .*file"):
        client.get_json(URL, {}, "")


def test_offline_asks_nobody(tmp_path: Path) -> None:
    client, _, _ = scripted(GOOD, responses=Responses(tmp_path))
    client.get_json(URL, {"x": "y"}, "")
    offline, _, asked = scripted(GOOD, responses=Responses(tmp_path), offline=True)
    assert offline.get_json(URL, {"x": "y"}, "") == {"good": True}
    with pytest.raises(SourceError, match=r"data\?x=z is not among the stored answers") as caught:
        offline.get_json(URL, {"x": "z"}, "")
    assert caught.value.kind == "offline" and caught.value.hint and "--offline" in caught.value.hint
    assert asked == []


# What is said


def test_a_password_is_never_said_nor_stored(tmp_path: Path) -> None:
    url = "https://user:s3cret@example.org/data?apikey=s3cret"
    said: list[str] = []
    away = httpx.Response(302, headers={"Location": "https://user:s3cret@example.com/"})
    client, _, asked = scripted(
        httpx.Response(500), away, GOOD, httpx.Response(400), responses=Responses(tmp_path), report=said.append
    )
    client.get_json(url, {"x": "y"}, "")
    with pytest.raises(SourceError) as caught:
        client.get_json(url, {"x": "z"}, "")
    assert asked[0].headers["Authorization"].startswith("Basic ")
    (path,) = tmp_path.glob("*/*.gz")
    everything = [*said, str(caught.value), gzip.decompress(path.read_bytes()).decode()]
    assert len(everything) == 4
    assert not [text for text in everything if "s3cret" in text]


def test_what_was_seen_can_do_a_terminal_no_harm() -> None:
    client, _, _ = scripted(packed(b"\x1b[2J\x07" + b"x" * 500), manners=Manners(attempts=1))
    with pytest.raises(SourceError) as caught:
        client.get_json(URL, {}, None)
    assert "\x1b" not in caught.value.message and r"\x1b[2J\x07" in caught.value.message
    assert "x" * 75 in caught.value.message and "x" * 80 not in caught.value.message


def test_a_long_address_is_shortened() -> None:
    client, _, _ = scripted(httpx.Response(400))
    with pytest.raises(SourceError) as caught:
        client.get_json(URL, {"ids": "|".join(f"Q{n}" for n in range(1, 51))}, None)
    assert "ids=Q1|Q2|Q3" in caught.value.message and len(caught.value.message) < 250
