"""HTTP as a good citizen: named, patient, checked whole, and stored raw so that nothing is fetched twice.

Requests go out one after the other. An answer counts only when it came whole, is what was asked for and passes the
caller's check; then it is stored. Everything else is asked again, as the server wishes or else with growing pauses,
until patience ends in a `SourceError`.
"""

import contextlib
import hashlib
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, cached_property
from importlib import metadata
from typing import Any, Final, NoReturn, Self
from urllib.parse import urlencode

import httpx

from kg.errors import SourceError, UsageError
from kg.sources.bodies import (
    SHOWN,
    TIMEOUTS,
    Check,
    Fault,
    Json,
    check_results,
    parsed_json,
    public_address,
    shown_start,
    start_of,
    unpacked_body,
)
from kg.sources.responses import Responses

JSON: Final = "application/json"


SPARQL_JSON: Final = "application/sparql-results+json"


_LONGEST_ADDRESS: Final = 160


_LONGEST_PAUSE: Final = 60.0


_MOST_REDIRECTS: Final = 5


_REFUSED: Final = "Servers refuse who does not say how to be reached: give a contact (DYKNOW_CONTACT)."


_AGAIN: Final = "Run the same command again later."


_PERMANENT_REDIRECTS: Final = frozenset({307, 308})


_REDIRECTS: Final = frozenset({301, 302, 303}) | _PERMANENT_REDIRECTS


@dataclass(frozen=True)
class Manners:
    """How we behave towards a server.

    Attributes:
        contact: A mail address or page by which an operator can reach who runs this; goes into the User-Agent.
        timeout_s: The longest wait for a connection, or for the next bytes.
        deadline_s: The longest time for one whole answer: a server that drips must not hold us for ever.
        attempts: How often a request is sent before a wrong answer is final.
        patience_s: The longest total wait between the attempts of one request. A server that says it is busy is asked
            again until this is spent, however many attempts that takes.
        maxlag: Wikidata refuses a request while its copies lag by more than these seconds, and we come back later.
        biggest: The longest answer in bytes, unpacked.
    """

    contact: str | None = None
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    attempts: int = 6
    patience_s: float = 300.0
    maxlag: int = 5
    biggest: int = 256 * 2**20

    def __post_init__(self) -> None:
        if self.contact is not None and not (self.contact.isascii() and self.contact.isprintable() and self.contact):
            raise UsageError(
                f"The contact {self.contact!r} cannot stand in a User-Agent.",
                hint="Give a mail address or the address of a page.",
            )

    @cached_property
    def user_agent(self) -> str:
        """What Wikimedia's policy asks for: tool and version, where to turn to, library."""
        version, page = _about()
        comment = "; ".join(part for part in (page, self.contact) if part)
        return f"dyknow/{version} {f'({comment}) ' if comment else ''}python-httpx/{httpx.__version__}"


@dataclass(frozen=True)
class _Request:
    """One question to a server, as it is keyed; manners are added when it is sent."""

    method: str
    url: str
    params: Mapping[str, str]
    form: Mapping[str, str]
    accept: str
    manners: Mapping[str, str]
    timeout_s: float

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise UsageError(
                f"{public_address(self.url)!r} is no address of a server.", hint="Write it as https://www.wikidata.org."
            )

    def key(self, scope: str) -> str:
        """Return what its answer is stored under; holds all that the answer depends on, and no password."""
        asked = [
            self.method,
            public_address(self.url),
            sorted(self.params.items()),
            sorted(self.form.items()),
            self.accept,
        ]
        return hashlib.sha256(json.dumps([*asked, scope]).encode()).hexdigest()

    @property
    def address(self) -> str:
        """The address for a reader: without user name, password and what an operator put into the query."""
        base = public_address(self.url).partition("?")[0]
        full = f"{base}?{urlencode(self.params, safe='|:,/+')}" if self.params else base
        return full if len(full) <= _LONGEST_ADDRESS else full[: _LONGEST_ADDRESS - 1] + "…"

    @property
    def site(self) -> str:
        """Scheme, host and port."""
        url = httpx.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode()}"


@dataclass
class _Watch:
    """Cuts the connection when an answer takes longer than its deadline.

    Read time-outs alone start anew with every byte, and headers can drip as well as a body.
    """

    seconds: float
    fired: bool = False
    _stream: Any = None  # the network stream of the one connection there is
    _timer: threading.Timer | None = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep hold of the connection; httpx calls this with each step."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]

    def __enter__(self) -> Self:
        self.fired = False
        self._timer = threading.Timer(self.seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut(self) -> None:
        self.fired = True
        if self._stream is not None and (connection := self._stream.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@dataclass
class Web:
    """Asks servers, one request at a time, and keeps what they answer. Close it, or use it as a context.

    Attributes:
        manners: How we behave.
        responses: Where answers are kept; None keeps none.
        offline: Answer from ``responses`` alone.
        sleep: Waits so many seconds.
        report: Takes a sentence for the reader whenever there is a wait.
        transport: What httpx sends through; for tests.
        chance: Numbers from 0 to 1 that spread the pauses.
        now: The present second, to read a Retry-After that is a date; used where the server sends none of its own.
        sent: How many requests went out.
        reused: How many answers came from ``responses``.
    """

    manners: Manners = field(default_factory=Manners)
    responses: Responses | None = None
    offline: bool = False
    sleep: Callable[[float], None] = time.sleep
    transport: httpx.BaseTransport | None = None
    report: Callable[[str], None] = lambda _: None
    chance: Callable[[], float] = random.random
    now: Callable[[], float] = time.time
    sent: int = field(default=0, init=False)
    reused: int = field(default=0, init=False)
    _reached: set[str] = field(default_factory=set, init=False)  # sites that have answered at all

    def get_json(
        self,
        url: str,
        params: Mapping[str, str],
        scope: str | None,
        *,
        check: Check | None = None,
        manners: Mapping[str, str] | None = None,
    ) -> Json:
        """Return the parsed JSON of an address.

        Args:
            url: the address.
            params: its query; part of what the answer is stored under.
            scope: what else the answer depends on: "" for what never changes (a revision), else the job ("2019-06-30");
                None stores nothing.
            check: raises `Fault` where the answer is not what was asked for; only what passes is stored.
            manners: parameters that are sent but change no answer (``maxlag``).

        Raises:
            SourceError: it cannot be reached, or answers wrongly to the end of our patience; or offline and not stored.
            UsageError: the address is none.
        """
        request = _Request("GET", url, params, {}, JSON, manners or {}, self.manners.timeout_s)
        return self._answer(request, scope, check)

    def post_sparql(self, url: str, query: str, scope: str | None, *, check: Check | None = None) -> Json:
        """Return the parsed SPARQL JSON results of a query, checked to be whole; arguments and errors as `get_json`."""
        # A query service allows a query 60 s and answers only after that.
        timeout = self.manners.timeout_s + 15.0
        request = _Request("POST", url, {}, {"query": query}, SPARQL_JSON, {}, timeout)

        def results(answer: Json) -> None:
            check_results(answer)
            if check is not None:
                check(answer)

        return self._answer(request, scope, results)

    def close(self) -> None:
        """Close the connection."""
        if "_client" in self.__dict__:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(
            transport=self.transport,
            verify=_certificates(),
            headers={"User-Agent": self.manners.user_agent, "Accept-Encoding": "gzip"},
            follow_redirects=False,
            # One connection: we ask one thing at a time, and the watch knows which to cut.
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        )

    @cached_property
    def _watch(self) -> _Watch:
        return _Watch(self.manners.deadline_s)

    def _answer(self, request: _Request, scope: str | None, check: Check | None) -> Json:
        responses = None if scope is None else self.responses
        key = request.key(scope or "")
        if responses is not None and (body := responses.get(key)) is not None:
            with contextlib.suppress(Fault):  # stored under an older rule: ask again
                answer = parsed_json(body, check)
                self.reused += 1
                return answer
        if self.offline:
            raise SourceError(
                f"{request.address} is not among the stored answers, and --offline asks nobody.",
                hint="Run the same command once without --offline.",
                kind="offline",
            )
        body, answer = self._patiently(request, check)
        if responses is not None:
            _store(responses, key, request, body)
        return answer

    def _patiently(self, request: _Request, check: Check | None) -> tuple[bytes, Json]:
        """Ask until the answer is right or patience is spent."""
        waited, tries = 0.0, 0
        while True:
            tries += 1
            try:
                return self._once(request, check)
            except Fault as fault:
                pause = self._pause(request, fault, tries, waited)
                self.report(f"{request.site} {fault.what}; asking again in {pause:.0f} s.")
                self.sleep(pause)
                waited += pause

    def _pause(self, request: _Request, fault: Fault, tries: int, waited: float) -> float:
        """Return how long to wait before the next attempt.

        Raises:
            SourceError: there is to be none.
        """
        most = self.manners.attempts
        if fault.kind == "unreachable" and request.site not in self._reached:
            most = min(most, 2)  # no network at all: say so soon
        if not fault.retry or (tries >= most and fault.kind != "busy"):
            self._give_up(request, fault, tries)
        grown = min(_LONGEST_PAUSE, 2.0 ** (tries - 1)) * (0.5 + self.chance() / 2)
        pause = max(grown, fault.after or 0.0)
        if waited + pause > self.manners.patience_s:
            self._give_up(request, fault, tries, waited)
        return pause

    def _give_up(self, request: _Request, fault: Fault, tries: int, waited: float | None = None) -> NoReturn:
        """Raise what is to be said in the end; ``waited`` where our patience ended and not the attempts."""
        who = request.site if fault.kind == "unreachable" else request.address
        said = f"{who} {fault.what}" + (f" ({tries} times asked)" if tries > 1 else "")
        if waited is not None and fault.after is not None:
            said += f"; it asks to wait {fault.after:.0f} s" + (f" after {waited:.0f} s of waiting" if waited else "")
            said += f", and for one answer we wait {self.manners.patience_s:.0f} s in all"
        again = _AGAIN if self.responses is None else f"What is finished is kept. {_AGAIN}"
        hints = {"unreachable": f"Is the network there? {again}", "absent": "Was it deleted, or is the id misspelt?"}
        raise SourceError(f"{said}.", hint=fault.hint or hints.get(fault.kind, again), kind=fault.kind)

    def _once(self, request: _Request, check: Check | None) -> tuple[bytes, Json]:
        """Send a request, follow redirects on the same host, and return the whole body, raw and parsed."""
        url = httpx.URL(request.url).copy_merge_params({**request.params, **request.manners})
        for _ in range(_MOST_REDIRECTS + 1):
            with self._sent(request, url) as response:
                if response.status_code not in _REDIRECTS:
                    body = self._body(request, response)
                    break
                url = _redirect(request, url, response)
        else:
            raise Fault(f"redirects more than {_MOST_REDIRECTS} times")
        try:
            return body, parsed_json(body, check)
        except Fault as fault:
            if fault.kind == "busy" and (after := self._retry_after(response)) is not None:
                fault.after = after
            raise

    @contextlib.contextmanager
    def _sent(self, request: _Request, url: httpx.URL) -> Iterator[httpx.Response]:
        """Send one request; every failure of the connection is a fault, here and while the body is read."""
        self.sent += 1
        watch = self._watch
        stream = self._client.stream(
            request.method,
            url,
            data=request.form or None,
            headers={"Accept": request.accept},
            timeout=request.timeout_s,
            extensions={"trace": watch.trace},
        )
        try:
            with watch, stream as response:
                self._reached.add(request.site)
                yield response
        except (httpx.HTTPError, ssl.SSLError) as error:
            raise _transport_fault(error, watch.fired, self.manners.deadline_s) from error

    def _body(self, request: _Request, response: httpx.Response) -> bytes:
        if response.status_code != httpx.codes.OK:
            raise self._status_fault(response)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        body = b"".join(unpacked_body(response, self.manners.biggest))
        if kind not in (request.accept, JSON):
            page = "a page of HTML" if kind == "text/html" else f"the content type {kind!r}"
            raise Fault(f"answered with {page} instead of {request.accept}: {shown_start(body)}")
        return body

    def _status_fault(self, response: httpx.Response) -> Fault:
        status = response.status_code
        start = start_of(response)
        after = self._retry_after(response)
        what = f"answered HTTP {status} {response.reason_phrase}".rstrip() + (
            f": {shown_start(start)}" if start else ""
        )
        if status == httpx.codes.TOO_MANY_REQUESTS or (after is not None and status >= 500):
            return Fault(what, kind="busy", after=after)
        if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            return Fault(what, kind="absent", retry=False)
        if status == httpx.codes.FORBIDDEN:
            return Fault(what, retry=False, hint=_REFUSED)
        if any(mark in start for mark in TIMEOUTS):
            return Fault(f"ran out of time: {shown_start(start)}", kind="time-out")
        return Fault(what, retry=status >= 500 or status == httpx.codes.REQUEST_TIMEOUT, after=after)

    def _retry_after(self, response: httpx.Response) -> float | None:
        """Return the seconds a Retry-After asks for, which may be a date; None where it says nothing readable."""
        text = response.headers.get("Retry-After", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:12])
        if (then := _instant(text)) is None:
            return None
        sent = _instant(response.headers.get("Date", ""))
        return max(0.0, then - (self.now() if sent is None else sent))


def _store(responses: Responses, key: str, request: _Request, body: bytes) -> None:
    try:
        responses.put(key, request.address, body)
    except OSError as error:
        raise SourceError(
            f"The answer of {request.address} cannot be stored in {responses.folder}: {error}.",
            hint="Is the disk full, or the folder not yours?",
        ) from error


def _redirect(request: _Request, url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Return where a redirect leads, on the same host and with the same method."""
    location = response.headers.get("Location", "")
    try:
        to = url.join(location)
    except httpx.InvalidURL:
        to = httpx.URL("")
    safer = url.scheme == "http" and to.scheme == "https"
    same = to.host == url.host and (safer or (to.scheme == url.scheme and to.port == url.port))
    shown = shown_start(public_address(location).encode())
    if not same:
        raise Fault(f"redirects to another place, {shown}, which is not followed")
    if request.method == "POST" and response.status_code not in _PERMANENT_REDIRECTS:
        raise Fault(f"redirects a POST to {shown} with HTTP {response.status_code}", retry=False)
    return to


def _transport_fault(error: Exception, fired: bool, deadline_s: float) -> Fault:
    if fired:
        return Fault(f"did not finish its answer within {deadline_s:g} s", kind="time-out")
    if isinstance(error, httpx.TimeoutException):
        step = {"ConnectTimeout": "the connection", "WriteTimeout": "taking the request"}
        return Fault(f"timed out ({step.get(type(error).__name__, 'no bytes came')})", kind="time-out")
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return Fault(f"cannot be reached: {shown_start(str(error).encode(), 2 * SHOWN)}", kind="unreachable")
    return Fault(f"broke off its answer: {shown_start(str(error).encode(), 2 * SHOWN)}")


def _instant(text: str) -> float | None:
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    # A date without a zone is UTC in HTTP.
    return (then if isinstance(then, datetime) and then.tzinfo else then.replace(tzinfo=UTC)).timestamp()


@cache
def _certificates() -> ssl.SSLContext:
    """Return httpx's own context, which verifies; reading the authorities takes 30 ms."""
    return httpx.create_ssl_context()


def _about() -> tuple[str, str | None]:
    """Return our version and the project's page, where the installed package says them."""
    try:
        about = metadata.metadata("dyknow")
    except metadata.PackageNotFoundError:
        return "0", None
    pages = [page.partition(",")[2].strip() for page in about.get_all("Project-URL") or ()]
    return about["Version"], pages[0] if pages else None
