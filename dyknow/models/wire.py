"""What goes over the wire: addresses and keys, how a failed request is told, and reading what came back.

A key leaves this program in one place, the header of a request to the server it belongs to. Whatever a server sends is
cleaned of it before anything else sees it.
"""

import asyncio
import ipaddress
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from dyknow.models.endings import THOUGHT
from dyknow.models.fleet import Fault
from kg.errors import UsageError

NO_KEY: Final = "none"
"""What is sent as a key to a server that wants none; the clients refuse to go without."""

_SECRET_FROM = 8  # characters; what is shorter is no secret ("none", "EMPTY"), and blotting it out would harm answers
_SHOWN = 160
_REDACTED = "[key]"
_PARAMETERS = ("max_completion_tokens", "max_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs")
_PARAMETER = re.compile(rf"\b({'|'.join((*_PARAMETERS, 'stop_sequences', 'stop'))})\b")
_FILTERED = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")


@dataclass(frozen=True)
class Key:
    """A server's key and the environment variable it came from; never shown."""

    value: str
    variable: str | None

    def __repr__(self) -> str:
        return f"Key({self.variable})"

    @property
    def is_secret(self) -> bool:
        """Whether it is worth hiding."""
        return len(self.value) >= _SECRET_FROM

    def blot(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self.value, _REDACTED) if self.is_secret else text

    def parsed(self, body: bytes) -> object:
        """Return what a body of JSON says, without the key.

        Raises:
            orjson.JSONDecodeError: it is no JSON.
        """
        found: object = orjson.loads(body)
        if self.is_secret and self.value.encode() in (plain := orjson.dumps(found)):
            # Looked for in what is parsed, where no escape hides it.
            return orjson.loads(plain.replace(self.value.encode(), _REDACTED.encode()))
        return found


class Reply(NamedTuple):
    """What a server said to one question, before it is an answer."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    tokens: int | None
    refused: bool = False
    raw: str | None = None
    logprob: float | None = None
    model: str | None = None


# --- addresses and keys


def address_of(url: str) -> str:
    """Return the address of a server without a slash at its end.

    >>> address_of("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'

    Raises:
        UsageError: it is none, or has a password or a query in it, which would be shown and stored.
    """
    hint = "Write it as http://127.0.0.1:8000/v1."
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 -- raises where it is no number
    except ValueError as error:
        raise UsageError("The base URL is no address of a server.", hint=hint) from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        secret = "Put a key into an environment variable and name it with --api-key-env."
        raise UsageError(f"The base URL for {parts.hostname} holds more than an address.", hint=secret)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no address of a server.", hint=hint)
    return url.rstrip("/")


def is_loopback(address: str) -> bool:
    """Say whether an address is on this machine.

    >>> is_loopback("http://localhost:1/v1"), is_loopback("http://[::1]:1"), is_loopback("http://10.0.0.1")
    (True, True, False)
    """
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def key_for(address: str, named: str | None, maker: str, usual: str) -> Key:
    """Return the key for a server.

    The usual variable's key belongs to the kind's own servers and is sent nowhere else: a server of one's own gets a
    key only from a variable that is named for it.

    Args:
        address: The server.
        named: The variable that the user named.
        maker: The address of the kind's own servers.
        usual: The variable for those.

    Raises:
        UsageError: the variable is empty, or the key would go over the network in the clear.
    """
    variable = named or (usual if urlsplit(address).hostname == urlsplit(maker).hostname else None)
    if variable is None:
        return Key(NO_KEY, None)
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UsageError(f"{address} wants a key, and {variable} is not set.", hint=f"Set it: export {variable}=…")
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"The key in {variable} cannot be sent: it has a sign that no key has.")
    key = Key(value, variable)
    if key.is_secret and urlsplit(address).scheme == "http" and not is_loopback(address):
        hint = "Take https://, tunnel it (ssh -L 8000:localhost:8000 HOST), or leave the key out."
        raise UsageError(f"The key in {variable} would go to {address} unencrypted.", hint=hint)
    return key


# --- sending


async def send(library: Any, call: Callable[[], Awaitable[Any]], deadline_s: float, key: Key) -> dict[str, Any]:  # noqa: ANN401
    """Send a request by an official client and return the JSON object that came back.

    Args:
        library: The client's module: openai or anthropic, which name their errors alike.
        call: Sends it and returns the raw response.
        deadline_s: How long it may take, to the last byte.
        key: What to clean the answer of.

    Raises:
        Fault: there is no such object.
    """
    try:
        async with asyncio.timeout(deadline_s):
            response = (await call()).http_response
            body = await response.aread()
    except (TimeoutError, library.APITimeoutError):
        raise Fault(f"gave no answer within {deadline_s:g} s", "lost") from None
    except library.APIStatusError as error:
        raise _status_fault(error.response, key) from None
    except library.APIConnectionError as error:
        raise _connection_fault(error) from None
    except (library.APIError, UnicodeError, ValueError) as error:
        raise Fault(f"answered what the client cannot read ({type(error).__name__})") from None
    return _object(body, response.headers.get("content-type", ""), key)


def _object(body: bytes, content_type: str, key: Key) -> dict[str, Any]:
    """Parse a body that is to be a JSON object and no error."""
    if "html" in content_type.lower() or body.lstrip()[:1] == b"<":
        raise Fault("answered with a page of HTML instead of JSON")
    try:
        found = key.parsed(body)
    except orjson.JSONDecodeError:
        raise Fault(f"answered with malformed or cut-off JSON ({len(body)} bytes)") from None
    if not isinstance(found, dict):
        raise Fault("answered with JSON that is no object")
    if found.get("error"):
        raise Fault(f"answered with an error: {_message(found) or 'without a word'}")
    return found


def _connection_fault(error: BaseException) -> Fault:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if name in ("ConnectError", "ConnectTimeout"):
        return Fault("cannot be reached", "unreached")
    return Fault(f"broke the connection off ({name})", "lost")


def _status_fault(response: Any, key: Key) -> Fault:  # noqa: ANN401, PLR0911 -- a table of statuses
    """Return what a status other than 200 asks for."""
    status: int = response.status_code
    if status // 100 == 3:
        to = urlsplit(response.headers.get("location", "")).hostname
        hint = "Give the final address with --base-url; a redirect is not followed."
        return Fault(f"redirects to {key.blot(to or 'elsewhere')}", "out", hint=hint)
    body = _parsed(response.content, key)
    code, message = _code(body), _message(body)
    what = f"answered HTTP {status}" + (f": {message}" if message else "")
    after = _retry_after(response.headers)
    if status in (401, 403):
        # Not what the server says: some repeat a part of the key.
        hint = f"Look at {key.variable}." if key.variable else "Name the variable that holds its key: --api-key-env."
        return Fault(f"answered HTTP {status}: it refuses the key" if key.variable else what, "out", hint=hint)
    if status in (402, 404) or code in _SPENT:
        return Fault(what, "out", hint="Look at the model's name and the address." if status == 404 else None)
    if status == 429:
        return Fault(what, "busy", after=after)
    if status in (408, 409, 425) or status // 100 == 5:
        return Fault(what, "wrong" if after is None else "busy", after=after)
    if code in _FILTERED:
        return Fault(what, "vain", parameter="content_filter")
    return Fault(what, "vain", parameter=_parameter(body, message))


def _parsed(body: bytes, key: Key) -> dict[str, Any]:
    try:
        found = key.parsed(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(body: Mapping[str, Any]) -> Mapping[str, Any]:
    error = body.get("error")
    return error if isinstance(error, Mapping) else {}


def _code(body: Mapping[str, Any]) -> str:
    return str(_error(body).get("code") or _error(body).get("type") or "").lower()


def _message(body: Mapping[str, Any]) -> str:
    """Return what a server says of its error, in one short line.

    >>> _message({"error": {"message": "The model does not exist."}}), _message({"detail": "Not Found"})
    ('The model does not exist.', 'Not Found')
    """
    error = body.get("error")
    said = _error(body).get("message") or body.get("message") or body.get("detail") or error
    line = " ".join(said.split()) if isinstance(said, str) else ""
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _parameter(body: Mapping[str, Any], message: str) -> str | None:
    """Return the parameter that a server complains of, by its own field or by its words."""
    named = _error(body).get("param")
    if isinstance(named, str) and _PARAMETER.fullmatch(named):
        return named
    found = _PARAMETER.search(message)
    return found[1] if found else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait.

    >>> _retry_after({"retry-after": "2"}), _retry_after({"retry-after": "soon"}), _retry_after({})
    (2.0, None, None)
    >>> same_day = {"date": "Wed, 21 Oct 2015 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}
    >>> _retry_after(same_day)
    30.0
    """
    asked = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", asked):
        return float(asked)
    try:
        # By the server's own clock: ours may be wrong.
        until, since = parsedate_to_datetime(asked), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - since).total_seconds())
    except (TypeError, ValueError):
        return None


# --- reading


def split_thoughts(text: str) -> tuple[str, bool]:
    """Return what a reasoning model says after its thoughts, and whether there were any; "" where they never end.

    >>> split_thoughts("<think>Italy ...</think> Meloni"), split_thoughts("<think>Italy"), split_thoughts("Meloni")
    ((' Meloni', True), ('', True), ('Meloni', False))
    """
    opening, closing = THOUGHT
    # Where the template opens the thought, only its end is in the text.
    _, ended, after = text.partition(closing)
    if ended:
        return after, True
    return ("", True) if text.lstrip().startswith(opening) else (text, False)


def whole(value: object) -> int | None:
    """Return a count, or None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def text_of(content: object) -> tuple[str, str]:
    """Return the words of a message's content and of its reasoning parts: a text, or a list of parts.

    >>> text_of([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Meloni"}])
    ('Meloni', 'Hm.')
    """
    if not isinstance(content, list):
        return (content, "") if isinstance(content, str) else ("", "")
    said: list[str] = []
    thought: list[str] = []
    for part in content:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        value = part.get("text") if kind == "text" else part.get(str(kind), part.get("text"))
        if isinstance(value, list):
            value = text_of(value)[0]
        if isinstance(value, str):
            (said if kind == "text" else thought).append(value)
    return "".join(said), "".join(thought)
