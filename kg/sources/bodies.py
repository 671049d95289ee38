"""The bodies of HTTP answers: unpacked, parsed, checked whole; and what can be wrong with one."""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import orjson

Json = Any
"""Parsed JSON, whatever it turns out to be."""


Check = Callable[[Json], None]
"""Looks at a parsed answer and raises `Fault` where it is not what was asked for."""


SHOWN: Final = 80


_OUR_MISTAKES: Final = ("no-such", "invalid", "bad", "missing", "unknown_", "toomany", "param", "permissiondenied")


TIMEOUTS: Final = (b"TimeoutException", b"Query timeout", b"query timed out")


class Fault(Exception):
    """What is wrong with one answer; `Web` asks again or makes a `SourceError` of it.

    Attributes:
        what: Follows the address in a sentence: "answered HTTP 500".
        kind: As in `SourceError`.
        retry: Whether asking again can help.
        after: The seconds the server asks to wait.
        hint: The next step, where it is a special one.
    """

    def __init__(
        self,
        what: str,
        *,
        kind: str = "wrong",
        retry: bool = True,
        after: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.kind = kind
        self.retry = retry
        self.after = after
        self.hint = hint


def api_fault(answer: Json) -> None:
    """Raise the `Fault` that an answer of MediaWiki's api.php holds, which comes with HTTP status 200.

    ``maxlag`` and rate limits say that the server is busy; a mistake in the request is final.
    """
    if not isinstance(answer, dict):
        raise Fault(f"answered with no JSON object: {shown_start(orjson.dumps(answer))}")
    error = answer.get("error")
    if error is None:
        return
    code = str(error.get("code", "")) if isinstance(error, dict) else ""
    info = str(error.get("info", "")) if isinstance(error, dict) else ""
    what = f"answered the error {code or 'without a code'}: {shown_start((info or str(error)).encode())}"
    if code in ("maxlag", "ratelimited"):
        # Five seconds are what MediaWiki's manual asks for; a Retry-After of the answer takes their place.
        raise Fault(what, kind="busy", after=5.0)
    raise Fault(what, kind="absent" if code == "no-such-entity" else "wrong", retry=not code.startswith(_OUR_MISTAKES))


def parsed_json(body: bytes, check: Check | None) -> Json:
    """Return the JSON of a body that passes the check."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        tail = body[-20_000:]
        if any(mark in tail for mark in TIMEOUTS):
            where = min(found for mark in TIMEOUTS if (found := tail.find(mark)) >= 0)
            raise Fault(
                f"ran out of time in the middle of its answer: {shown_start(tail[where:])}", kind="time-out"
            ) from None
        raise Fault(f"answered with invalid or truncated JSON ({error}): {shown_start(body)}") from None
    if check is not None:
        try:
            check(answer)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Fault(f"answered with something that cannot be read: {shown_start(body)}") from error
    return answer


def check_results(answer: Json) -> None:
    """Raise `Fault` where an answer is no SPARQL result."""
    head = answer.get("head") if isinstance(answer, dict) else None
    if not isinstance(head, dict):
        raise Fault("answered with JSON that is no SPARQL result")
    results = answer.get("results")
    whole = isinstance(answer.get("boolean"), bool) or (
        isinstance(results, dict) and isinstance(results.get("bindings"), list)
    )
    if not whole:
        raise Fault("answered with a SPARQL result that has no bindings")


def unpacked_body(response: httpx.Response, biggest: int) -> Iterator[bytes]:
    """Yield the body unpacked; a body that ends before its compression does is refused, and so is a bomb."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        yield from _limited(response.iter_raw(), biggest)
        return
    if encoding not in ("gzip", "x-gzip"):
        raise Fault(f"answered in the encoding {encoding!r}, for which nobody asked")
    yield from _limited(_gunzipped(response.iter_raw()), biggest)


def _limited(chunks: Iterator[bytes], biggest: int) -> Iterator[bytes]:
    length = 0
    for chunk in chunks:
        length += len(chunk)
        if length > biggest:
            raise Fault(f"answers with more than {biggest:,} bytes", retry=False)
        yield chunk


def _gunzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    step = 2**20  # unpacked at a time, whatever a few bytes may grow to
    unpacker, ended = zlib.decompressobj(wbits=31), False
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                if ended:  # gzip allows several members
                    unpacker, ended = zlib.decompressobj(wbits=31), False
                yield unpacker.decompress(rest, step)
                ended = unpacker.eof
                rest = unpacker.unused_data if ended else unpacker.unconsumed_tail
    except zlib.error as error:
        raise Fault(f"answered with damaged gzip ({error})") from None
    if not ended:
        raise Fault("answered with gzip that is cut off")


def start_of(response: httpx.Response) -> bytes:
    """Return the start of an error's body, as much of it as can be read."""
    start = b""
    with contextlib.suppress(Fault, httpx.HTTPError):
        for chunk in unpacked_body(response, 65536):
            start += chunk
            if len(start) >= 4096:
                break
    return start


def shown_start(body: bytes, most: int = SHOWN) -> str:
    """Return the first characters, such that they can do a terminal no harm."""
    return repr(body[: 4 * most].decode("utf-8", "replace")[:most])


def public_address(url: str) -> str:
    """Return an address without user name and password."""
    with contextlib.suppress(httpx.InvalidURL):
        parsed = httpx.URL(url)
        return str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else str(parsed)
    return url.rpartition("@")[2]
