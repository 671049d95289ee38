"""The two protocols that servers speak, each through its official client: what is asked, and what an answer says."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from dyknow.models.wire import Key, Reply, split_thoughts, text_of, whole
from kg.errors import ModelError

Manner = Literal["chat", "completion"]

_THOUGHT_FIELDS = ("reasoning_content", "reasoning")  # DeepSeek, SGLang and older vLLM; newer vLLM, Ollama, OpenRouter
_ANTHROPIC_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}


@dataclass(frozen=True, slots=True)
class Request:
    """A question as a server gets it, with the parameters that it takes.

    Attributes:
        model: The model's name.
        manner: Chat, or plain completion.
        prompt: The text.
        max_tokens: Tokens the answer may have.
        temperature: 0 is greedy.
        top_p: None: not sent.
        stop: Texts that end an answer once it has begun.
        seed: None: not sent.
        left_out: Parameters that the server does not take.
        limit: The name under which it takes ``max_tokens``.
    """

    model: str
    manner: Manner
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    left_out: frozenset[str] = frozenset()
    limit: str = "max_tokens"

    def without(self, parameter: str) -> "Request | None":
        """Return the request without what a server does not take; None where it would not be the same question.

        Leaving out log-probabilities or a stop text changes no answer: where it stops is cut here, too. A seed that is
        not taken is recorded so. A temperature is only left out where it is 1, which a server takes without it.
        """
        if parameter.startswith("max_"):
            other = "max_completion_tokens" if self.limit == "max_tokens" else "max_tokens"
            return None if "limit" in self.left_out else replace(self, limit=other, left_out=self.left_out | {"limit"})
        name = {"top_logprobs": "logprobs", "stop_sequences": "stop"}.get(parameter, parameter)
        if name in self.left_out or name not in {"logprobs", "stop", "seed", "temperature"}:
            return None
        if name == "temperature" and self.temperature != 1.0:
            return None
        return replace(self, left_out=self.left_out | {name})

    def parameters(self) -> dict[str, Any]:
        """Return what both protocols call alike, for the body of a request.

        Put there as it is, because the clients' own arguments come and go with their versions.
        """
        wanted: dict[str, Any] = {"temperature": self.temperature, "seed": self.seed}
        sent = {name: value for name, value in wanted.items() if value is not None and name not in self.left_out}
        if self.top_p is not None:
            sent["top_p"] = self.top_p
        return sent

    @property
    def stops(self) -> list[str]:
        """The texts to stop at that are sent: a blank one would empty every answer that begins with it."""
        return [] if "stop" in self.left_out else [stop for stop in self.stop if stop.strip()]


class Dialect(Protocol):
    """A protocol."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def maker(self) -> str:
        """The address of its maker's servers."""
        ...

    @property
    def variable(self) -> str:
        """The environment variable of the key for those."""
        ...

    def package(self) -> Any:  # noqa: ANN401
        """Return the client's module, or raise a ModelError that says how to install it."""
        ...

    def client(self, address: str, key: Key, deadline_s: float) -> Any:  # noqa: ANN401
        """Return an official client for a server, with its own retries off."""
        ...

    def asked(self, client: Any, request: Request) -> Any:  # noqa: ANN401
        """Return the awaitable that sends a request and gives the raw response."""
        ...

    def listed(self, client: Any) -> Any:  # noqa: ANN401
        """Return the awaitable that asks for the list of models and gives the raw response."""
        ...

    def reply(self, body: Mapping[str, Any], request: Request) -> Reply:
        """Read an answer.

        Raises:
            LookupError, TypeError: it is none.
        """
        ...


class OpenAi:
    """The protocol of OpenAI, which vLLM, SGLang, llama.cpp's server, Ollama and many more speak."""

    kind: Final = "openai"
    maker: Final = "https://api.openai.com/v1"
    variable: Final = "OPENAI_API_KEY"

    def package(self) -> Any:  # noqa: ANN401
        """Return the client's module."""
        return _need("openai")

    def client(self, address: str, key: Key, deadline_s: float) -> Any:  # noqa: ANN401
        """Return a client that neither retries nor follows redirects."""
        openai = self.package()
        http = openai.DefaultAsyncHttpxClient(**_transport(address))
        client = openai.AsyncOpenAI(
            api_key=key.value, base_url=address, max_retries=0, timeout=deadline_s, http_client=http
        )
        if address != self.maker:
            # The client reads these from the environment; they are nobody else's business.
            client.organization = client.project = None
        return client

    def asked(self, client: Any, request: Request) -> Any:  # noqa: ANN401
        """Return the awaitable raw response."""
        sent = request.parameters() | {request.limit: request.max_tokens}
        if request.stops:
            sent["stop"] = request.stops
        is_completion = request.manner == "completion"
        if "logprobs" not in request.left_out:
            sent["logprobs"] = 1 if is_completion else True
        if is_completion:
            ask = client.completions.with_raw_response.create
            return ask(model=request.model, prompt=request.prompt, extra_body=sent)
        messages = [{"role": "user", "content": request.prompt}]
        ask = client.chat.completions.with_raw_response.create
        return ask(model=request.model, messages=messages, extra_body=sent)

    def listed(self, client: Any) -> Any:  # noqa: ANN401
        """Return the awaitable raw list."""
        return client.models.with_raw_response.list()

    def reply(self, body: Mapping[str, Any], request: Request) -> Reply:
        """Read an answer: its first choice."""
        choice = body["choices"][0]
        usage = body.get("usage") or {}
        reason = choice.get("finish_reason")
        reply = Reply(
            "",
            reason if isinstance(reason, str) else None,
            whole(usage.get("prompt_tokens")),
            whole(usage.get("completion_tokens")),
            refused=reason == "content_filter",
            model=_name(body),
        )
        read = self._completion if request.manner == "completion" else self._message
        return read(choice, reply, request)

    def _completion(self, choice: Mapping[str, Any], reply: Reply, request: Request) -> Reply:
        said = choice["text"]
        if not isinstance(said, str):
            raise TypeError(f"the text is {type(said).__name__}")
        tokens, values = _listed(choice.get("logprobs"), "tokens"), _listed(choice.get("logprobs"), "token_logprobs")
        return _finished(reply, said, "", request, list(zip(tokens, values, strict=False)))

    def _message(self, choice: Mapping[str, Any], reply: Reply, request: Request) -> Reply:
        message = choice["message"]
        said, thought = text_of(message.get("content"))
        fields = [message.get(name) for name in _THOUGHT_FIELDS]
        thought = thought or next((field for field in fields if isinstance(field, str) and field), "")
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            said, reply = said or refusal, reply._replace(refused=True)
        pairs = [
            (item.get("token"), item.get("logprob"))
            for item in _listed(choice.get("logprobs"), "content")
            if isinstance(item, dict)
        ]
        return _finished(reply, said, thought, request, pairs)


class Anthropic:
    """The protocol of Anthropic's Messages."""

    kind: Final = "anthropic"
    maker: Final = "https://api.anthropic.com"
    variable: Final = "ANTHROPIC_API_KEY"

    def package(self) -> Any:  # noqa: ANN401
        """Return the client's module."""
        return _need("anthropic")

    def client(self, address: str, key: Key, deadline_s: float) -> Any:  # noqa: ANN401
        """Return a client that neither retries nor follows redirects."""
        anthropic = self.package()
        http = anthropic.DefaultAsyncHttpxClient(**_transport(address))
        # The client writes "/v1" itself.
        base = address.removesuffix("/v1")
        return anthropic.AsyncAnthropic(
            api_key=key.value, base_url=base, max_retries=0, timeout=deadline_s, http_client=http
        )

    def asked(self, client: Any, request: Request) -> Any:  # noqa: ANN401
        """Return the awaitable raw response."""
        sent = request.parameters()
        if request.stops:
            sent["stop_sequences"] = request.stops
        messages = [{"role": "user", "content": request.prompt}]
        ask = client.messages.with_raw_response.create
        return ask(model=request.model, max_tokens=request.max_tokens, messages=messages, extra_body=sent)

    def listed(self, client: Any) -> Any:  # noqa: ANN401
        """Return the awaitable raw list."""
        return client.models.with_raw_response.list(limit=1000)

    def reply(self, body: Mapping[str, Any], request: Request) -> Reply:
        """Read an answer: its blocks of text."""
        content = body["content"]
        if not isinstance(content, list):
            raise TypeError(f"the content is {type(content).__name__}")
        said, thought = text_of(content)
        usage = body.get("usage") or {}
        reason = body.get("stop_reason")
        cached = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        counts = [count for name in cached if (count := whole(usage.get(name))) is not None]
        reply = Reply(
            "",
            _ANTHROPIC_REASONS.get(reason, reason) if isinstance(reason, str) else None,
            sum(counts) if counts else None,
            whole(usage.get("output_tokens")),
            refused=reason == "refusal",
            model=_name(body),
        )
        return _finished(reply, said, thought, request, [])


def _transport(address: str) -> dict[str, Any]:
    """Return how requests are sent: no redirect is followed, and no proxy sees more than the host."""
    is_encrypted = urlsplit(address).scheme == "https"
    # Without encryption there is no certificate to check, and reading the machine's takes a while.
    return {"follow_redirects": False, "trust_env": is_encrypted, "verify": is_encrypted}


def _finished(reply: Reply, said: str, thought: str, request: Request, pairs: Sequence[tuple[object, object]]) -> Reply:
    """Cut what was said down to the answer, and keep the rest as raw."""
    after, thinks = split_thoughts(said)
    text, is_cut = _cut(after, request)
    raw = f"<think>{thought}</think>{said}" if thought else said
    whole_text = not thinks and not thought
    return reply._replace(
        text=text,
        finish_reason="stop" if is_cut else reply.finish_reason,
        raw=raw if thought or thinks or is_cut else None,
        logprob=_logprob(pairs, said, text) if whole_text else None,
    )


def _cut(said: str, request: Request) -> tuple[str, bool]:
    """Return the answer in a text, and whether it was cut off before a text that ends it.

    Nothing ends an answer that has not begun: a newline before it is none of its end.
    """
    begun = said.lstrip()
    at = min((found for stop in request.stop if (found := begun.find(stop)) >= 0), default=len(begun))
    return begun[:at].strip(), at < len(begun)


def _logprob(pairs: Sequence[tuple[object, object]], said: str, text: str) -> float | None:
    """Return the log-probability of the tokens that make up the answer, as far as they can be told.

    >>> _logprob([("Sergio", -0.5), (" Mattarella", -0.25), (".", -1.0)], "Sergio Mattarella.", "Sergio Mattarella")
    -0.75
    """
    end = said.find(text) + len(text)
    total, length = 0.0, 0
    if not text or not pairs:
        return None
    for token, value in pairs:
        if length >= end:
            break
        if not isinstance(token, str) or isinstance(value, bool) or not isinstance(value, int | float):
            return None
        total += value
        length += len(token)
    return round(total, 6) if length >= end else None


def _listed(value: object, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _name(body: Mapping[str, Any]) -> str | None:
    name = body.get("model")
    return name if isinstance(name, str) and name else None


def _need(name: str) -> Any:  # noqa: ANN401
    """Import a package of the extra "api".

    Raises:
        ModelError: it is not installed; the hint says how to.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = 'Install it: pip install "dyknow[api]"'
        raise ModelError(f"Models behind a server need {name}, which is not installed.", hint=hint) from error


DIALECTS: Final[Mapping[str, Dialect]] = {"openai": OpenAi(), "anthropic": Anthropic()}
