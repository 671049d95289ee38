"""A real HTTP server on loopback that speaks the protocols of OpenAI and Anthropic, answers from a table, and errs.

::

    with ModelServer({"The capital of France is": "Paris"}, faults=[Fault("429", every=5)]) as server:
        ... server.url + "/v1" ...
    assert server.prompts == [...]
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

GREETING = "Hello."


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and with which requests that ask something (the first is 1).

    Kinds: "drop" (closed without an answer), "429", "500", "503", "529", "html" (with HTTP 200), "cut off" (half of the
    promised bytes), "half json" (half a body, its length right), "slow", "redirect", "content filter", "refusal",
    "error in 200", "no choice", "401" (repeats the key), "400", "quota".
    """

    kind: str
    every: int = 1
    after: int = 0  # the first this many are spared
    last: int | None = None
    retry_after: str | None = None
    only: str = ""  # only where this is in the prompt


class Sent(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        if "messages" in self.body:
            return str(self.body["messages"][-1]["content"])
        return str(self.body.get("prompt", ""))


@dataclass
class ModelServer:
    """A server. Tells what it was asked, and what it answered to the end.

    Attributes:
        answers: By prompt; ``*`` for all others; a text, or an object to put into the answer's place.
        model: The name that answers bear; None: as asked.
        models: The list of models; with one, it has no others. None: it shows no list and has every model.
        key: What a request must bring; None: nothing.
        seconds: How long an answer takes.
        dies_after: It hangs up and takes no connection any more after so many questions.
        rejects: Parameters that it refuses, as OpenAI's reasoning models do, with the words of the refusal.
    """

    answers: Mapping[str, Any] = field(default_factory=lambda: {"*": "Sergio Mattarella"})
    faults: Iterable[Fault] = ()
    model: str | None = None
    models: list[dict[str, Any]] | None = None
    key: str | None = None
    seconds: float = 0.0
    dies_after: int | None = None
    rejects: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    requests: list[Sent] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    busiest: int = 0

    def __post_init__(self) -> None:
        self._lock, self._stopping = threading.Lock(), threading.Lock()
        self._asked = self._now = 0
        self.dead = threading.Event()
        self.stopping = threading.Event()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._stop()

    def _start(self) -> None:
        self._server = _Server(self)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _stop(self) -> None:
        with self._stopping:  # whoever comes second waits until it is done
            if not self._server.is_closed:
                self._server.is_closed = True
                self._server.shutdown()
                self._thread.join()
                self._server.socket.close()
                self._server.hang_up()
                self._server.server_close()

    def die(self) -> None:
        """Take no connection any more, and break those there are."""
        self.dead.set()
        self._stop()

    def rise(self) -> None:
        """Come back at the same address."""
        self.dies_after = None
        self.dead.clear()
        self._start()

    @cached_property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def prompts(self) -> list[str]:
        """What was asked, greetings aside."""
        return [one.prompt for one in self.requests if one.prompt not in ("", GREETING)]

    def begin(self, sent: Sent) -> Fault | None:
        """Note a request and return what is to go wrong with it."""
        with self._lock:
            self.requests.append(sent)
            if sent.prompt in ("", GREETING):
                return None
            self._asked += 1
            self._now += 1
            self.busiest = max(self.busiest, self._now)
            if self.dies_after is not None and self._asked > self.dies_after:
                if not self.dead.is_set():
                    self.dead.set()
                    threading.Thread(target=self._stop).start()
                return Fault("drop")
            for fault in self.faults:
                number = self._asked - fault.after
                hits = number > 0 and number % fault.every == 0 and (fault.last is None or self._asked <= fault.last)
                if hits and fault.only in sent.prompt:
                    return fault
        return None

    def end(self, sent: Sent) -> None:
        with self._lock:
            if sent.prompt not in ("", GREETING):
                self._now -= 1

    def said(self, prompt: str) -> object:
        return self.answers.get(prompt, self.answers.get("*", "I do not know."))


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # the end waits for every thread: no socket is left open behind a test
    request_queue_size = 64
    is_closed = False

    def __init__(self, fake: ModelServer) -> None:
        self.fake = fake
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", fake.port), _Handler)

    def hang_up(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up is a part of the tests


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        sent = Sent(self.path, self._headers(), {})
        self.server.fake.begin(sent)
        models = self.server.fake.models
        if models is None:
            self._json({"error": {"message": "Not found"}}, 404)
        else:
            self._json({"object": "list", "data": models})
        self.wfile.flush()

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sent = Sent(self.path, self._headers(), body)
        fault = fake.begin(sent)
        try:
            if fake.seconds and sent.prompt != GREETING:
                fake.stopping.wait(fake.seconds)
            is_answered = self._answer(sent, fault)
            self.wfile.flush()
            if is_answered:
                fake.answered.append(sent.prompt)
        finally:
            fake.end(sent)

    def _answer(self, sent: Sent, fault: Fault | None) -> bool:
        """Answer, and say whether it is a good one."""
        fake = self.server.fake
        given = sent.headers.get("authorization", "").removeprefix("Bearer ") or sent.headers.get("x-api-key", "")
        for name, words in fake.rejects.items():
            if name in sent.body:
                self._error(400, words, param=name, code="unsupported_parameter")
                return False
        if fake.key is not None and given != fake.key:
            self._error(401, f"Incorrect API key provided: {given}.")
        elif fake.models is not None and sent.body["model"] not in [one["id"] for one in fake.models]:
            self._error(404, f"The model `{sent.body['model']}` does not exist.")
        elif fault is not None:
            self._spoil(sent, fault, given)
        else:
            self._json(_reply(sent, fake.said(sent.prompt), fake))
            return True
        return False

    def _spoil(self, sent: Sent, fault: Fault, given: str) -> None:
        fake = self.server.fake
        body = json.dumps(_reply(sent, fake.said(sent.prompt), fake)).encode()
        wait = {"Retry-After": fault.retry_after} if fault.retry_after else {}
        acts: dict[str, Callable[[], None]] = {
            "drop": self._drop,
            "html": lambda: self._send(b"<!DOCTYPE html><html>Sign in</html>", "text/html", 200),
            "cut off": lambda: self._send(body[: len(body) // 2], "application/json", 200, length=len(body)),
            "half json": lambda: self._send(body[: len(body) // 2], "application/json", 200),
            "slow": lambda: self._slow(body),
            "redirect": lambda: self._send(b"", "text/plain", 307, {"Location": "http://elsewhere.invalid/v1"}),
            "error in 200": lambda: self._json({"error": {"message": f"upstream failed, key {given}"}}),
            "no choice": lambda: self._json({"id": "x", "choices": [], "content": None}),
            "401": lambda: self._error(401, f"Incorrect API key provided: {given}."),
            "400": lambda: self._error(400, f"This prompt is too long; you are {given}."),
            "content filter": lambda: self._error(400, "Filtered.", code="content_filter"),
            "quota": lambda: self._error(429, "You exceeded your current quota.", code="insufficient_quota"),
        }
        if fault.kind in acts:
            acts[fault.kind]()
        else:
            self._error(int(fault.kind), f"Something about {given}", headers=wait)

    def _slow(self, body: bytes) -> None:
        self.server.fake.stopping.wait(5)
        self._send(body, "application/json", 200)

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _drop(self) -> None:
        self.close_connection = True

    def _error(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        self._json({"type": "error", "error": error}, status, headers)

    def _json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), "application/json", status, headers)

    def _send(
        self,
        body: bytes,
        kind: str,
        status: int,
        headers: Mapping[str, str] | None = None,
        *,
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if length is not None:
            self.close_connection = True


def _reply(sent: Sent, said: object, fake: ModelServer) -> dict[str, Any]:
    """Return an answer in the protocol's own shape; an object among the answers overrides parts of it."""
    parts: dict[str, Any] = dict(said) if isinstance(said, Mapping) else {"text": said}
    text, words = parts.get("text", ""), len(sent.prompt.split())
    model = parts.get("model", fake.model or sent.body["model"])
    if sent.path.endswith("/messages"):
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": parts.get("content", [{"type": "text", "text": text}]),
            "stop_reason": parts.get("reason", "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": words, "output_tokens": len(text.split())},
        }
    choice: dict[str, Any] = {"index": 0, "finish_reason": parts.get("reason", "stop"), "logprobs": None}
    pieces = [piece for piece in text.replace(" ", "\0 ").split("\0") if piece]
    if sent.path.endswith("/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text} | parts.get("message", {})
        if sent.body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": piece, "logprob": -0.5} for piece in pieces]}
    else:
        choice["text"] = text
        if sent.body.get("logprobs"):
            choice["logprobs"] = {"tokens": pieces, "token_logprobs": [-0.5] * len(pieces)}
    usage = {"prompt_tokens": words, "completion_tokens": len(text.split()), "total_tokens": 0}
    return {"id": "x", "object": "x", "created": int(time.time()), "model": model, "choices": [choice], "usage": usage}
