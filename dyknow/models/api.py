"""Models behind servers: one of OpenAI's or Anthropic's, or any server of one's own that speaks their protocol.

Several servers may have the same model; see `dyknow.models.fleet` for how questions are shared among them. Each server
is first asked a question of no interest. Its answer tells the model's full name, and which parameters the server takes,
so that the record of the model is true before the first question is asked; a wrong key or name ends the matter here.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from dyknow.benchmark import Question
from dyknow.models.base import Answer, Asked, Options
from dyknow.models.dialects import DIALECTS, Dialect, Manner, Request
from dyknow.models.drawing import seed_of
from dyknow.models.fleet import Fault, Fleet, Patience
from dyknow.models.presets import find, suggest
from dyknow.models.wire import Key, Reply, address_of, key_for, send
from dyknow.tomlfile import did_you_mean
from kg.errors import ModelError, UsageError

T = TypeVar("T")

_COMPLETION_TOKENS = 24
_CHAT_TOKENS = 48
_VLLM: Final = "http://127.0.0.1:8000/v1"
_GREETING: Final = "Hello."
_MOST_PARAMETERS = 6  # a server that takes even fewer is not tried further
_UNREACHED_AT_FIRST = 3  # attempts: an address with a typo should say so soon
_STABLE_META = ("n_params", "n_vocab", "size")  # what llama.cpp's server tells of its file


class Settled(NamedTuple):
    """What a server told of its model before it was asked anything that counts."""

    request: Request  # a pattern: model, manner and the parameters that the server takes
    reported: str | None  # the model's name as its answers give it
    about: Mapping[str, Any]  # what else the list of models says, of what does not change

    @property
    def record(self) -> tuple[object, ...]:
        """What must be the same for every server."""
        return self.reported, sorted(self.about.items()), "seed" in self.request.left_out


class Remote:
    """A model behind one or more servers.

    Args:
        dialect: The protocol.
        target: The model's name there.
        options: How it is asked, and where.
        patience: How long we try.

    Raises:
        UsageError: an address is none, a key is missing or would go unencrypted, or a setting is none of this kind's.
    """

    def __init__(self, dialect: Dialect, target: str, options: Options, patience: Patience | None = None) -> None:
        self.name = target
        self._dialect = dialect
        self._patience = patience or Patience()
        _check(options)
        # How the model is known to be asked holds for a server, too; its BOS is the server's own affair.
        options = replace(suggest(options, find(target)), bos=None)
        self._style = _style(dialect, options)
        self._manner: Manner = "chat" if self._style == "chat" else "completion"
        self._stop = options.stop or (("\n",) if self._style == "completion" else ())
        self._options = options
        addresses = dict.fromkeys(address_of(url) for url in options.base_urls or (dialect.maker,))
        self._keys = {
            address: key_for(address, options.api_key_env, dialect.maker, dialect.variable) for address in addresses
        }
        self._known: dict[str, Settled] = {}

    def info(self) -> dict[str, Any]:
        """Return the record of the model; asks the servers for its full name once.

        Raises:
            ModelError: no server can be asked, they have different models, or one does not take the settings.
        """
        settled = self._settled
        request = settled.request
        return {
            "name": self.name,
            "kind": self._dialect.kind,
            "reported": settled.reported,
            **settled.about,
            "revision": None,
            "files": {},
            "dtype": None,
            "device": None,
            "style": self._style,
            "template": self._options.template if self._style == "instruct" else None,
            "sampling": {
                "method": "drawn" if self._options.temperature else "greedy",
                "temperature": self._options.temperature,
                "top_p": self._options.top_p,
                "seed": self._options.seed if self._sends_seed and "seed" not in request.left_out else None,
                "max_new_tokens": request.max_tokens,
                "stop": self._stop_rule,
            },
        }

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Yield answers as they come, in the order in which they come.

        They are asked for in the order of their prompts: those that begin alike follow each other, and a server that
        keeps what it has read of a prompt reads only the rest of the next.

        A refusal and a filtered answer are answers, marked as such. What goes wrong with one question alone is its
        answer's ``error``.

        Raises:
            ModelError: no server is left that can be asked; what was answered has been yielded.
        """
        if not questions:
            return
        self._settled  # noqa: B018 -- raises where nobody can be asked
        fleet = Fleet(
            [_Server(self, address, sample) for address in self._keys],
            self._options.concurrency,
            self._patience,
            self._who,
        )
        yield from fleet.answers(sorted(questions, key=lambda one: (self._prompt(one), one.id)), batch_size)

    @property
    def _who(self) -> str:
        return f"{self._dialect.kind} {self.name}"

    @property
    def _sends_seed(self) -> bool:
        return self._options.temperature > 0 and self._dialect.kind == "openai"

    @property
    def _stop_rule(self) -> object:
        if self._options.stop:
            return list(self._options.stop)
        return "first newline after text" if self._style == "completion" else "end of turn"

    def _prompt(self, question: Question) -> str:
        template = self._options.template if self._style == "instruct" else None
        return question.text if template is None else template.replace("{question}", question.text)

    def _pattern(self, address: str) -> Request:
        """Return the first request to try on a server."""
        return Request(
            self.name,
            self._manner,
            _GREETING,
            self._options.max_new_tokens or (_COMPLETION_TOKENS if self._style == "completion" else _CHAT_TOKENS),
            self._options.temperature,
            self._options.top_p,
            self._stop,
            self._options.seed if self._sends_seed else None,
            # OpenAI itself has done away with the old name; the others know it best.
            limit="max_completion_tokens"
            if address == self._dialect.maker and self._manner == "chat"
            else "max_tokens",
        )

    # What the servers tell beforehand

    @cached_property
    def _settled(self) -> Settled:
        found = _in_thread(self._first_answers())
        self._known = {address: one for address, one in found.items() if isinstance(one, Settled)}
        faults = {address: one for address, one in found.items() if isinstance(one, Fault)}
        unfit = [address for address, fault in faults.items() if fault.kind in ("out", "vain")]
        if unfit or not self._known:
            raise self._unusable(faults, unfit)
        first = next(iter(self._known.values()))
        for address, one in self._known.items():
            if one.record != first.record:
                raise ModelError(
                    f"{self._who}: {address} has {_shown(one)}, {next(iter(self._known))} has {_shown(first)}.",
                    hint="Give only servers that have the same model.",
                )
        return first

    def _unusable(self, faults: Mapping[str, Fault], unfit: Sequence[str]) -> ModelError:
        chosen = {address: faults[address] for address in unfit or faults}
        told = "; ".join(f"{address} {fault.what}" for address, fault in chosen.items())
        hints = [fault.hint for fault in chosen.values() if fault.hint]
        return ModelError(f"{self._who}: {told}.", hint=hints[0] if hints else "Look at the address and the server.")

    async def _first_answers(self) -> dict[str, Settled | Fault]:
        found = await asyncio.gather(*(self._first_answer(address) for address in self._keys))
        return dict(zip(self._keys, found, strict=True))

    async def _first_answer(self, address: str) -> Settled | Fault:
        """Ask one server until it answers, or our patience for a first answer ends."""
        waited, tries = 0.0, 0
        server = _Server(self, address, 0)
        await server.open()
        try:
            while True:
                tries += 1
                try:
                    return await server.settle()
                except Fault as fault:
                    most = _UNREACHED_AT_FIRST if fault.kind == "unreached" else self._patience.attempts
                    pause = max(self._patience.pause(tries), fault.after or 0.0)
                    waited += pause
                    done = fault.kind in ("out", "vain") or (tries >= most and fault.kind != "busy")
                    if done or waited > self._patience.total_s:
                        return fault
                    await self._patience.sleep(pause)
        finally:
            await server.close()


class _Server:
    """One server: a `dyknow.models.fleet.Connection`."""

    def __init__(self, model: Remote, address: str, sample: int) -> None:
        self.address = address
        self._model = model
        self._sample = sample
        self._dialect = model._dialect
        self._key: Key = model._keys[address]
        self._client: Any = None

    @property
    def proven(self) -> bool:
        """Whether it has told of its model."""
        return self.address in self._model._known

    async def open(self) -> None:
        """Make the client, inside the event loop that uses it."""
        self._client = self._dialect.client(self.address, self._key, self._model._options.deadline_s)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question.

        Raises:
            Fault: there is none.
        """
        if not self.proven:
            self._join(await self.settle())
        settled = self._model._known[self.address]
        prompt = self._model._prompt(question)
        request = replace(settled.request, prompt=prompt, seed=self._seed(settled.request, question))
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            reply = await self._reply(request)
        except Fault as fault:
            if fault.parameter != "content_filter":
                raise
            reply = Reply("", "content_filter", None, None, refused=True, raw=fault.what)
        if settled.reported and reply.model and reply.model != settled.reported:
            hint = "Give the model's dated name, so that it stays the same."
            raise Fault(f"answers as {reply.model}, and before as {settled.reported}", "out", hint=hint)
        return self._answer(question, reply, round(loop.time() - began, 3))

    def no_answer(self, question: Question, error: str) -> Answer:
        """Return the answer that says why there is none."""
        return Answer(None, None, self._model._prompt(question), None, None, error, server=self.address)

    def _answer(self, question: Question, reply: Reply, seconds: float) -> Answer:
        return Answer(
            reply.text,
            reply.finish_reason,
            self._model._prompt(question),
            reply.prompt_tokens,
            reply.tokens,
            refused=reply.refused,
            raw=reply.raw,
            logprob=reply.logprob,
            seconds=seconds,
            server=self.address,
            model=reply.model,
        )

    def _seed(self, pattern: Request, question: Question) -> int | None:
        if pattern.seed is None:
            return None
        return seed_of(pattern.seed, self._sample, question.id) % 2**31  # what every server takes

    def _join(self, settled: Settled) -> None:
        """Take in a server that could not be asked at the start."""
        first = self._model._settled
        if settled.record != first.record:
            what = f"has {_shown(settled)}, the others have {_shown(first)}"
            raise Fault(what, "out", hint="Give only servers that have the same model.")
        self._model._known[self.address] = settled

    async def settle(self) -> Settled:
        """Ask something of no interest, leaving out what the server does not take, and return what it told.

        Raises:
            Fault: it does not answer, or does not take the settings.
        """
        listed = await self._listed()
        request = self._model._pattern(self.address)
        for _ in range(_MOST_PARAMETERS):
            try:
                reply = await self._reply(request)
            except Fault as fault:
                fewer = request.without(fault.parameter) if fault.kind == "vain" and fault.parameter else None
                if fewer is None:
                    raise self._explained(fault, listed) from None
                request = fewer
            else:
                return Settled(request, reply.model, _about(listed, self._model.name))
        raise Fault("does not take the parameters of a request", "out")

    def _explained(self, fault: Fault, listed: Sequence[Mapping[str, Any]]) -> Fault:
        """Add the next step to a fault, where there is one."""
        names = [str(one["id"]) for one in listed if "id" in one]
        hint = fault.hint
        if fault.parameter == "temperature":
            hint = "It takes its own temperature alone: give --temperature 1; its answers then vary."
        elif fault.parameter == "top_p":
            hint = "Leave --top-p out."
        elif fault.kind == "vain" and "chat template" in fault.what:
            hint = "Take --style completion."
        elif fault.kind == "out" and names and self._model.name not in names and "404" in fault.what:
            hint = did_you_mean(self._model.name, names[:20])
        return Fault(fault.what, fault.kind, after=fault.after, hint=hint, parameter=fault.parameter)

    async def _listed(self) -> list[Mapping[str, Any]]:
        """Return the server's list of models; empty where it has none, or does not show it."""
        try:
            body = await self._sent(lambda: self._dialect.listed(self._client))
        except Fault as fault:
            # What cannot be had for the moment must not be taken for absent: the record would be another.
            if fault.kind in ("lost", "unreached", "busy"):
                raise
            return []
        found = body.get("data")
        return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []

    async def _reply(self, request: Request) -> Reply:
        body = await self._sent(lambda: self._dialect.asked(self._client, request))
        try:
            return self._dialect.reply(body, request)
        except (LookupError, TypeError, AttributeError) as error:
            raise Fault(f"answered without an answer in it ({type(error).__name__})") from None

    async def _sent(self, call: Any) -> dict[str, Any]:  # noqa: ANN401
        return await send(self._dialect.package(), call, self._model._options.deadline_s, self._key)


def load_openai(target: str, options: Options) -> Remote:
    """Return a model of OpenAI's, or of any server that speaks OpenAI's protocol.

    Raises:
        UsageError: an address, key or setting is missing or wrong.
        ModelError: no server can be asked, or the client is not installed.
    """
    return _loaded("openai", target, options)


def load_vllm(target: str, options: Options) -> Remote:
    """Return a model of a vLLM server; where no address is given, of one on this machine.

    Raises:
        UsageError: an address, key or setting is missing or wrong.
        ModelError: no server can be asked, or the client is not installed.
    """
    return load_openai(target, replace(options, base_urls=options.base_urls or (_VLLM,)))


def load_anthropic(target: str, options: Options) -> Remote:
    """Return a model of Anthropic's, or of a server that speaks its protocol.

    Raises:
        UsageError: an address, key or setting is missing or wrong.
        ModelError: no server can be asked, or the client is not installed.
    """
    return _loaded("anthropic", target, options)


def _loaded(kind: str, target: str, options: Options) -> Remote:
    dialect = DIALECTS[kind]
    dialect.package()
    model = Remote(dialect, target, options)
    model.info()
    return model


def _style(dialect: Dialect, options: Options) -> str:
    style = options.style
    if style == "auto":
        style = "chat" if options.template is None else "instruct"
    if style == "sentinel" or (style != "chat" and dialect.kind == "anthropic"):
        raise UsageError(f"A server of the kind {dialect.kind} knows no style {style}.", hint="Take --style chat.")
    if style == "instruct" and "{question}" not in (options.template or ""):
        hint = "Give a template with {question} in it, or --style chat, where the server has its own."
        raise UsageError("The style instruct has no template.", hint=hint)
    return style


def _check(options: Options) -> None:
    local = ("device", "dtype", "revision", "bos", "quantised", "pickled")
    if given := [name for name in local if getattr(options, name) not in (None, False)]:
        hint = "What the server loads is set where it is started."
        raise UsageError(f"{given[0]} says nothing to a model behind a server.", hint=hint)
    if options.concurrency < 1:
        raise UsageError(f"{options.concurrency} requests at a time are none.", hint="Take --concurrency 1 or more.")
    if not options.deadline_s > 0:
        raise UsageError(f"A deadline of {options.deadline_s:g} s leaves no time.", hint="Take --deadline 120.")


def _about(listed: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return what a list of models says of one that its texts may depend on: vLLM's folder, llama.cpp's file.

    A server with a single model, as llama.cpp's, has that one whatever name it is asked for.

    >>> _about([{"id": "small.gguf", "created": 1, "meta": {"n_params": 134515008, "size": 91}}], "m")
    {'root': 'small.gguf', 'meta': {'n_params': 134515008, 'size': 91}}
    >>> _about([{"id": "m", "root": "m"}, {"id": "n"}], "m"), _about([{"id": "n"}, {"id": "o"}], "m")
    ({}, {})
    """
    one = next((one for one in listed if one.get("id") == name), listed[0] if len(listed) == 1 else {})
    root, meta = one.get("root") or one.get("id"), one.get("meta")
    about: dict[str, Any] = {"root": root} if isinstance(root, str) and root != name else {}
    if isinstance(meta, Mapping):
        about["meta"] = {key: meta[key] for key in _STABLE_META if isinstance(meta.get(key), int)}
    return about


def _shown(settled: Settled) -> str:
    return ", ".join([settled.reported or "a model without a name", *map(str, settled.about.values())])


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run something asynchronous to its end; the caller may be inside an event loop of its own."""
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 -- raised again below
            failed.append(error)

    thread = threading.Thread(target=run, name="dyknow-first-request", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
