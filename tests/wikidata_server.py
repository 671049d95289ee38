"""A loopback server that behaves as Wikidata does, its faults included.

It serves `Special:EntityData`, `api.php` (wbgetentities, query&prop=revisions, wbsearchentities) and a `/sparql` hook,
from documents with their revisions. Every request is logged; a `Fault` spoils the n-th of them.
"""

import bz2
import contextlib
import csv
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import orjson

Document = Mapping[str, Any]


class Version(NamedTuple):
    """A revision of an entity: its number, its time, and the document; `{"entity": …, "redirect": …}` is a redirect."""

    revision: int
    timestamp: str
    document: Document


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a request.

    kind: "refuse" (the connection is closed without an answer), "429", "500", "503", "maxlag", "api error", "cut off",
        "chunked cut off", "gzip cut off", "gzip garbage", "truncated json", "wrong type", "html", "timeout" (of the
        query service, inside a 200 body), "silence", "drip" (a body that never ends), "drip headers", "redirect" (to another
        host), "stale" (the oldest document instead of the wanted one), "empty" (`{}`).
    nth: which request, counted from 1 over all that the server gets (of those whose path holds `only`).
    forever: all that follow, too.
    after: Retry-After, in seconds or as a date.
    """

    kind: str
    nth: int = 1
    forever: bool = False
    after: str | None = None
    only: str = ""

    def hits(self, number: int) -> bool:
        return number >= self.nth if self.forever else number == self.nth


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: str = ""


@dataclass
class Reply:
    """An answer; what a `/sparql` hook may give to say more than a result."""

    body: bytes
    content_type: str = "application/json; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class FakeWikidata:
    """Wikidata on this machine; a context manager.

    Args:
        documents: revisions by entity, oldest first.
        redirects: entities that have been merged into another one.
        deleted: entities that are gone.
        labels: labels of items without a document; each is served as a small document.
        synthetic: whether every other item is served with the label "Label of Qn", instead of as missing.
        sparql: answers a query on `/sparql`: a JSON object, bytes, or a `Reply`.
        faults: what goes wrong; the list may be changed while it serves.
        page: how many revisions a listing gives at once.
        by_target: whether wbgetentities names a redirected entity by its target, so that of two redirects to one
            entity only one is answered; else by the id it was asked for.
        hidden: revisions whose text has been hidden.
        biggest: the longest reply of wbgetentities in bytes; what would make it longer is left out with a warning.
    """

    def __init__(
        self,
        documents: Mapping[str, Sequence[tuple[int, str, Document]]],
        *,
        redirects: Mapping[str, str] | None = None,
        deleted: Collection[str] = (),
        labels: Mapping[str, str] | None = None,
        synthetic: bool = False,
        sparql: Callable[[str], Any] | None = None,
        faults: Iterable[Fault] = (),
        page: int = 50,
        by_target: bool = True,
        hidden: Collection[int] = (),
        biggest: int = 8_388_608,
    ) -> None:
        self.documents = {name: [Version(*one) for one in versions] for name, versions in documents.items()}
        for name, target in (redirects or {}).items():
            self.documents.setdefault(name, []).append(
                Version(3_000_000_000 + int(name[1:]), "2021-01-01T00:00:00Z", {"entity": name, "redirect": target})
            )
        self.deleted = set(deleted)
        self.labels = dict(labels or {})
        self.synthetic = synthetic
        self.sparql = sparql
        self.faults = list(faults)
        self.page = page
        self.by_target = by_target
        self.hidden = set(hidden)
        self.biggest = biggest
        self.requests: list[Asked] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    # Running

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake, self._server.open = self, set()
        # A short poll, because every test waits for the end of it.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()

    @cached_property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def log(self, asked: Asked) -> Fault | None:
        """Note a request and return what is to go wrong with it."""
        with self._lock:
            self.requests.append(asked)
            for fault in self.faults:
                if fault.only in asked.path and fault.hits(sum(fault.only in one.path for one in self.requests)):
                    return fault
        return None

    # What Wikidata knows

    def versions(self, name: str) -> Sequence[Version]:
        """Return the revisions of an entity, oldest first."""
        if name in self.deleted:
            return ()
        if name in self.documents:
            return self.documents[name]
        label = self.labels.get(name) or (f"Label of {name}" if self.synthetic else None)
        if label is None or name[0] not in "QP":
            return ()
        return [Version(100_000_000 + int(name[1:]), "2013-02-01T00:00:00Z", small(name, label))]

    def current(self, name: str, hops: int = 2) -> tuple[str, Version] | None:
        """Return the newest version of an entity, after redirects, and the id it goes by."""
        versions = self.versions(name)
        if not versions:
            return None
        target = versions[-1].document.get("redirect")
        if target is None:
            return name, versions[-1]
        return self.current(target, hops - 1) if hops else None

    def answer(self, asked: Asked) -> Reply:
        path = urlsplit(asked.path).path
        if path.startswith("/wiki/Special:EntityData/") and path.endswith(".json"):
            return self._entity_data(path.rpartition("/")[2].removesuffix(".json"), asked.params)
        if path == "/w/api.php":
            return self._api(asked.params)
        if path == "/sparql" and self.sparql is not None:
            found = self.sparql(asked.params.get("query") or asked.body)
            if isinstance(found, Reply):
                return found
            body = found if isinstance(found, bytes) else orjson.dumps(found)
            return Reply(body, "application/sparql-results+json;charset=utf-8")
        return _page(404, "Not found")

    def _entity_data(self, name: str, params: Mapping[str, str]) -> Reply:
        if not name[:1].isalpha() or not name[1:].isdigit():
            return _page(400, f"Invalid ID: {name}.")
        if wanted := params.get("revision"):
            found = [one for one in self.versions(name) if str(one.revision) == wanted]
            if not found or found[0].revision in self.hidden:
                return _page(404, f"No entity with ID {name} was found at revision {wanted}.")
            if "redirect" in found[0].document:
                return _page(404, f"Unresolved redirect {name} at revision {wanted}.")
            return Reply(_entity_document(name, found[0]))
        standing = self.current(name)
        return Reply(_entity_document(*standing)) if standing else _page(404, f"No entity with ID {name} was found.")

    def _api(self, params: Mapping[str, str]) -> Reply:
        if params.get("format") != "json":
            return Reply(b"<!DOCTYPE html><html>MediaWiki API result</html>", "text/html; charset=utf-8")
        actions = {"wbgetentities": self._entities, "query": self._query, "wbsearchentities": self._search}
        action = actions.get(params.get("action", ""))
        answer = action(params) if action else _error("badvalue", "Unrecognized value for parameter action.")
        return Reply(orjson.dumps(answer))

    def _entities(self, params: Mapping[str, str]) -> Document:
        names = params["ids"].split("|")
        if len(names) > 50:
            return _error("toomanyvalues", 'Too many values supplied for parameter "ids". The limit is 50.')
        if bad := [name for name in names if not (name[:1] in "QPL" and name[1:].isdigit())]:
            return _error("no-such-entity", f"Could not find an entity with the ID {bad[0]}.")
        entities: dict[str, Any] = {}
        answer: dict[str, Any] = {"entities": entities, "success": 1}
        size = 0
        for name in names:
            found = self.current(name)
            if found is None:
                entities[name] = {"id": name, "missing": ""}
                continue
            target, version = found
            part = _part(version, target, params.get("props", "info|labels|aliases|claims").split("|"))
            if target != name:
                part["redirects"] = {"from": name, "to": target}
            size += len(orjson.dumps(part))
            if entities and size > self.biggest:
                answer["warnings"] = {"result": {"warnings": "This result was truncated because it would be too long."}}
                break
            entities.setdefault(target if self.by_target else name, part)
        return answer

    def _query(self, params: Mapping[str, str]) -> Document:
        if "revids" in params:
            return self._content(params["revids"])
        title = params.get("titles", "")
        if not title or any(sign in title for sign in "[]|<>{}#"):
            return {"query": {"pages": [{"title": title, "invalidreason": "bad characters", "invalid": True}]}}
        page: dict[str, Any] = {"ns": 0, "title": title}
        versions = list(self.versions(title.rpartition(":")[2]))
        if not versions:
            return {"batchcomplete": True, "query": {"pages": [{**page, "missing": True}]}}
        chosen = _between(versions, params)
        limit = self.page if params.get("rvlimit") == "max" else min(self.page, int(params.get("rvlimit", "10")))
        older = params.get("rvdir", "older") == "older"
        if start := params.get("rvcontinue"):
            number = int(start.partition("|")[2])
            chosen = [one for one in chosen if (one.revision <= number if older else one.revision >= number)]
        page["pageid"] = int(title.rpartition(":")[2][1:])
        if listed := chosen[:limit]:
            page["revisions"] = [
                {
                    "revid": one.revision,
                    "parentid": 0,
                    "timestamp": one.timestamp,
                    **({"sha1hidden": True} if one.revision in self.hidden else {"sha1": f"{one.revision:040x}"}),
                }
                for one in listed
            ]
        answer: dict[str, Any] = {"query": {"pages": [page]}}
        if further := chosen[limit:]:
            stamp = "".join(sign for sign in further[0].timestamp if sign.isdigit())
            return {"continue": {"rvcontinue": f"{stamp}|{further[0].revision}", "continue": "||"}, **answer}
        return {"batchcomplete": True, **answer}

    def _content(self, wanted: str) -> Document:
        for name, versions in self.documents.items():
            for one in versions:
                if str(one.revision) == wanted and name not in self.deleted:
                    text = {"contentmodel": "wikibase-item", "content": orjson.dumps(one.document).decode()}
                    slot = {"texthidden": True} if one.revision in self.hidden else text
                    page = {"ns": 0, "title": name, "revisions": [{"slots": {"main": slot}}]}
                    return {"batchcomplete": True, "query": {"pages": [page]}}
        return {"batchcomplete": True, "query": {"badrevids": {wanted: {"revid": int(wanted), "missing": True}}}}

    def _search(self, params: Mapping[str, str]) -> Document:
        text, language = params["search"].casefold(), params["language"]
        found = []
        for name in [*self.documents, *self.labels]:
            standing = self.current(name)
            if standing is None or standing[0] != name or name[0] != "Q":
                continue
            document = standing[1].document
            names = [_text(document, "labels", language), _text(document, "labels", "mul")]
            aliases = document.get("aliases")
            listed = (aliases.get(language) or ()) if isinstance(aliases, Mapping) else ()
            if any(one.casefold().startswith(text) for one in [*names, *(one["value"] for one in listed)] if one):
                one = {
                    "id": name,
                    "label": names[0] or names[1],
                    "description": _text(document, "descriptions", language),
                }
                found.append({key: value for key, value in one.items() if value})
        return {
            "searchinfo": {"search": params["search"]},
            "search": found[: int(params.get("limit", 7))],
            "success": 1,
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # the end waits for every thread: no socket is left open behind a test
    fake: FakeWikidata
    open: set[socket.socket]

    def hang_up(self) -> None:
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up in the middle is a part of the tests


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._handle("")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())

    def _handle(self, body: str) -> None:
        params = {key: values[-1] for key, values in parse_qs(urlsplit(self.path).query).items()}
        if self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
            params |= {key: values[-1] for key, values in parse_qs(body).items()}
        asked = Asked(self.command, self.path, params, dict(self.headers.items()), body)
        fault = self.server.fake.log(asked)
        if fault is None:
            self._send(self.server.fake.answer(asked))
        else:
            self._spoil(asked, fault)
        self.wfile.flush()

    def _send(self, reply: Reply, *, compress: bool = True) -> None:
        body, headers = reply.body, dict(reply.headers)
        if compress and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        self._head(reply, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def _head(self, reply: Reply, headers: Mapping[str, str]) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _spoil(self, asked: Asked, fault: Fault) -> None:
        fake = self.server.fake
        after = {"Retry-After": fault.after} if fault.after else {}
        match fault.kind:
            case "refuse":
                self.close_connection = True
            case "silence":
                self.close_connection = True
                fake.stopping.wait()
            case "429":
                self._send(_page(429, "Too many requests", {"Retry-After": "2", **after}))
            case "500" | "503":
                self._send(_page(int(fault.kind), "Our servers are under maintenance", after))
            case "maxlag":
                error = {"code": "maxlag", "info": "Waiting for db1: 7 seconds lagged.", "lag": 7, "type": "db"}
                self._send(Reply(orjson.dumps({"error": error}), headers={"Retry-After": "5", **after}))
            case "api error":
                self._send(Reply(orjson.dumps(_error("internal_api_error_DBQueryError", "[Xq] Caught exception"))))
            case "wrong type":
                self._send(Reply(fake.answer(asked).body, "text/plain"))
            case "html":
                self._send(Reply(b"<!DOCTYPE html><html><body>Error</body></html>", "text/html; charset=utf-8"))
            case "empty":
                self._send(Reply(b"{}"))
            case "stale":
                name = urlsplit(asked.path).path.rpartition("/")[2].removesuffix(".json")
                self._send(Reply(_entity_document(name, fake.versions(name)[0])))
            case "redirect":
                self._send(Reply(b"", status=302, headers={"Location": "http://elsewhere.invalid/login"}))
            case _:
                self._spoil_bytes(fake.answer(asked), fault.kind)

    def _spoil_bytes(self, reply: Reply, kind: str) -> None:
        """Answer with bytes that are not what they should be, or not all of them."""
        body = reply.body
        packed = gzip.compress(body)
        match kind:
            case "truncated json":
                self._send(Reply(body[: len(body) // 2], reply.content_type))
            case "timeout":
                text = b"\nSPARQL-QUERY: queryStr=SELECT\njava.util.concurrent.TimeoutException\n\tat java.base/java"
                self._send(Reply(body[: len(body) // 2] + text, reply.content_type))
            case "gzip garbage":
                head = {"Content-Encoding": "gzip", "Content-Length": "64"}
                self._raw(reply, head, b"\x1f\x8b\x08\x00" + b"\xff" * 60)
            case "gzip cut off":
                half = packed[: len(packed) // 2]
                self._raw(reply, {"Content-Encoding": "gzip", "Content-Length": str(len(half))}, half)
            case "cut off":
                self._raw(reply, {"Content-Length": str(len(body))}, body[: len(body) // 2])
            case "chunked cut off":
                half = body[: len(body) // 2]
                self._raw(reply, {"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n" % (len(half), half))
            case "drip":
                self._raw(reply, {"Content-Length": "1000000"}, b"{")
                self._drip(b" ")
            case "drip headers":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                self._drip(b"x")
            case _:
                raise AssertionError(f"no such fault: {kind}")

    def _raw(self, reply: Reply, headers: Mapping[str, str], body: bytes) -> None:
        # Said, too: whoever has all it was promised would else ask again on a connection that is being closed.
        self._head(reply, {**headers, "Connection": "close"})
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True

    def _drip(self, byte: bytes) -> None:
        """Send byte after byte until someone has enough; far below what any read time-out notices."""
        self.close_connection = True
        while not self.server.fake.stopping.is_set():
            self.wfile.write(byte)
            self.wfile.flush()
            time.sleep(0.02)

    def log_message(self, *_: object) -> None:
        pass


def small(name: str, label: str) -> Document:
    """Return a document that holds a label and nothing else."""
    kind = "property" if name.startswith("P") else "item"
    text = {"language": "en", "value": label}
    return {"type": kind, "id": name, "labels": {"en": text}, "descriptions": {}, "aliases": {}, "claims": {}}


def _entity_document(name: str, version: Version) -> bytes:
    return orjson.dumps({"entities": {name: _info(name, version) | dict(version.document) | _stamp(version)}})


def _info(name: str, version: Version) -> dict[str, Any]:
    return {"pageid": 100 + int(name[1:]), "ns": 0, "title": name, **_stamp(version)}


def _stamp(version: Version) -> dict[str, Any]:
    return {"lastrevid": version.revision, "modified": version.timestamp}


def _part(version: Version, name: str, props: Collection[str]) -> dict[str, Any]:
    """Return what wbgetentities gives of a document."""
    info = _info(name, version) if "info" in props else {}
    document = version.document
    return {
        **info,
        "type": document.get("type", "item"),
        "id": name,
        **{
            key: document[key]
            for key in ("labels", "descriptions", "aliases", "claims")
            if key in props and key in document
        },
    }


def _between(versions: Sequence[Version], params: Mapping[str, str]) -> list[Version]:
    """Return the revisions from rvstart to rvend, in the direction of rvdir."""
    older = params.get("rvdir", "older") == "older"
    start, end = params.get("rvstart"), params.get("rvend")
    newest, oldest = (start, end) if older else (end, start)
    found = [
        one
        for one in versions
        if (newest is None or one.timestamp <= newest) and (oldest is None or one.timestamp >= oldest)
    ]
    return found[::-1] if older else found


def _text(document: Document, part: str, language: str) -> str | None:
    texts = document.get(part)
    one = texts.get(language) if isinstance(texts, Mapping) else None
    return one["value"] if one else None


def _error(code: str, info: str) -> Document:
    return {"error": {"code": code, "info": info}, "servedby": "mw1"}


def _page(status: int, text: str, headers: Mapping[str, str] | None = None) -> Reply:
    body = f"<!DOCTYPE html><html><title>{text}</title></html>".encode()
    return Reply(body, "text/html; charset=utf-8", status, dict(headers or {}))


# The real documents that were handed over

_SLICES = (
    ("2018-09-slice.json.bz2", bz2.open, 740_000_000, "2018-09-15T12:00:00Z"),
    ("2021-06-slice.json.gz", gzip.open, 1_400_000_000, "2021-06-15T12:00:00Z"),
)
_FOLDERS = (
    ("wikibase", 165_000_000, "2014-10-15T12:00:00Z"),
    ("country-data-package", 290_000_000, "2016-01-15T12:00:00Z"),
    ("openrefine-wikibase", 1_220_000_000, "2020-07-15T12:00:00Z"),
    ("entitybase-backend", 2_440_000_000, "2025-12-15T12:00:00Z"),
)


@cache
def corpus(shared: Path) -> Mapping[str, Sequence[Version]]:
    """Return every revision of every entity among the real documents, oldest first.

    Documents that do not say their revision or its time get one that fits their age: the time of their collection.
    """
    found: dict[str, list[Version]] = {}
    for place, (document, number, time_of) in enumerate(_documents(shared / "wikidata")):
        revision = int(document.get("lastrevid", number + place))
        version = Version(revision, str(document.get("modified", time_of)), document)
        found.setdefault(document["id"], []).append(version)
    return {name: sorted(versions, key=lambda one: one.timestamp) for name, versions in found.items()}


def holders(shared: Path) -> dict[str, str]:
    """Return the labels of holders by id, as the handed table has them."""
    with (shared / "wikidata-holder-ids.csv").open(encoding="utf-8", newline="") as file:
        return {row["qid"]: row["label"] for row in csv.DictReader(file)}


def _documents(folder: Path) -> Iterator[tuple[dict[str, Any], int, str]]:
    for name, number, time_of in _FOLDERS:
        for path in sorted((folder / name).glob("Q*.json")):
            document = orjson.loads(path.read_bytes())
            parts = document["entities"].values() if "entities" in document else [document]
            yield from ((part, number, time_of) for part in parts)
    for name, opener, number, time_of in _SLICES:
        with opener(folder / "dumps" / name, "rb") as file:
            for line in file:
                text = line.strip().rstrip(b",")
                if text.startswith(b"{"):
                    yield json.loads(text), number, time_of
