"""IKE, in-context knowledge editing: demonstrations of how to use a new fact, the fact, and the question.

Zheng et al., "Can we edit factual knowledge by in-context learning?" (2023). A demonstration tells a new fact and
answers a prompt in its light: "copy" asks what the fact says, "update" asks it in other words, "retain" asks something
else, whose old answer stands. The k nearest by cosine are shown, so many of each kind.

Where the fact comes from is the setting. With ``given`` the question's own true fact is told, which nobody has who does
not know the answer already. ``realistic`` tells the fact of the nearest demonstration, so that finding it is part of
the method. ``null`` tells "Not Available": the row "IKE" in the study's Table 3.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from dyknow.align import pool
from dyknow.align.base import Aligned, EditReport, EditRequest, Progress, Settings, Wording
from dyknow.align.choices import chosen, one_of
from dyknow.align.context import FOLLOWS, Room, TextAligned, Told, fitted, room_of, style_of
from dyknow.align.embedding import MINILM, Embedder, load_embedder
from dyknow.align.pool import Known, bare, sentence
from dyknow.align.retrieval import top_k
from dyknow.benchmark import Question
from dyknow.models.base import Model
from kg.errors import AlignError

Kind = Literal["copy", "update", "retain"]

KINDS: Final[tuple[Kind, ...]] = ("copy", "update", "retain")
NOT_AVAILABLE: Final = "Not Available"
INSTRUCTION: Final = "Complete the last prompt, with the new fact where it answers it. Answer with the name only."

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The study's: EasyEdit's search (16, nearest first, no ratio) over the edited facts themselves, without f*.
    "paper": {"mode": "null", "k": 16, "ratio": None, "order": "first", "edits": True},
    "original": {"mode": "given", "k": 32, "ratio": (1, 3, 4), "order": "last"},  # Zheng et al., section 4
    "recommended": {"mode": "given", "k": 8, "ratio": (1, 3, 4), "order": "last"},
}


@dataclass(frozen=True)
class Ike:
    """Settings.

    Attributes:
        mode: Which fact is told: "given", "realistic" or "null".
        k: How many demonstrations.
        ratio: How many of them copy, update and retain, as shares; None: the nearest, whatever their kind.
        order: Where the nearest stands: "last", beside the question, or "first".
        edits: Whether demonstrations are made of the edited facts too; the question's own is among them then. In the
            mode "realistic" they always are: there is nothing else to find.
        others: What questions of facts that are not edited get in the mode "given": "plain" leaves them as they are,
            "nearest" tells them the edited fact that is nearest to them, as the method's paper measures specificity.
        pool: Facts that are not edited, for demonstrations.
        embedder: As `dyknow.align.embedding.load_embedder` takes it.
        context_tokens: The model's window; None: as its file says.
    """

    mode: str = "given"
    k: int = 8
    ratio: tuple[float, float, float] | None = (1, 3, 4)
    order: str = "last"
    edits: bool = False
    others: str = "plain"
    pool: Sequence[Known] = ()
    embedder: Any = MINILM
    context_tokens: int | None = None


class Demonstration(NamedTuple):
    """A new fact, and a prompt answered in its light."""

    kind: Kind
    fact: str  # the fact that is told
    asked: str  # the fact that is asked for
    line: str  # what is told, as a sentence
    prompt: str
    answer: str
    says: str  # the answer that the told fact gives

    @property
    def text(self) -> str:
        """The demonstration as it is shown, and searched."""
        return f"New Fact: {self.line}\nPrompt: {self.prompt} {self.answer}"


def ike(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> Aligned:
    """Return a model that is shown demonstrations and a fact before its questions.

    Raises:
        AlignError: the requests or the settings cannot be worked with, or there is nothing to make demonstrations of.
    """
    pool.check(requests)
    how = chosen(Ike, PRESETS, settings, "IKE")
    for name, allowed in _ALLOWED.items():
        one_of("IKE", name, getattr(how, name), allowed)
    begin = time.perf_counter()
    progress(0, len(requests), "demonstrations are embedded")
    demonstrations = demonstrations_of(requests, how, settings.seed)
    if how.k and not demonstrations:
        hint = "Give it facts that are not edited (pool)."
        raise AlignError("IKE has no facts to make demonstrations of.", hint=hint)
    told = _Telling(model, requests, how, demonstrations, load_embedder(how.embedder))
    seconds = (time.perf_counter() - begin) / len(requests)
    progress(len(requests), len(requests), "demonstrations are embedded")
    record = {
        "method": "ike",
        "preset": settings.preset,
        "seed": settings.seed,
        "mode": how.mode,
        "k": how.k,
        "ratio": None if how.ratio is None else list(how.ratio),
        "order": how.order,
        "others": how.others,
        "context_tokens": told.room.tokens,
        "embedder": told.embedder.record,
        "demonstrations": {"number": len(demonstrations), "digest": pool.digest(demonstrations)},
        "edits": len(requests),
        "requests": pool.digest(requests),
    }
    return TextAligned(model, record, tuple(EditReport(one.fact, seconds) for one in requests), told)


_ALLOWED: Final = {
    "mode": ("given", "realistic", "null"),
    "order": ("last", "first"),
    "others": ("plain", "nearest"),
}


# Demonstrations


def demonstrations_of(requests: Sequence[EditRequest], how: Ike, seed: int) -> list[Demonstration]:
    """Return the demonstrations of facts: one copy each, an update and a retain for each of their other wordings.

    What is retained is never an edited fact, and never an answer that is some edit's target.
    """
    edited = {request.fact for request in requests}
    targets = {label.casefold() for request in requests for label in (request.target, *request.accepted)}
    known = [one for one in how.pool if one.fact not in edited and one.wordings and one.answers]
    kept = [one for one in known if not targets & {answer.casefold() for answer in one.answers}]
    told = list(known)
    if how.edits or how.mode == "realistic":
        told += [_as_known(request) for request in requests]
    draw = random.Random(seed)
    return [one for fact in told for one in _of_fact(fact, kept, draw)]


def _as_known(request: EditRequest) -> Known:
    wordings = pool.wordings(request)
    return Known(request.fact, request.domain, request.subject, wordings, (request.target,))


def _of_fact(fact: Known, kept: Sequence[Known], draw: random.Random) -> Iterator[Demonstration]:
    first, *others = (bare(one.text) for one in fact.wordings)
    answer = fact.answers[0]
    line = sentence(first, answer)
    yield Demonstration("copy", fact.fact, fact.fact, line, first, answer, answer)
    for other in others:
        yield Demonstration("update", fact.fact, fact.fact, line, other, answer, answer)
    # Of another domain where there is one, as the study has it: what the fact must not touch is plain then.
    apart = [one for one in kept if one.domain != fact.domain] or [one for one in kept if one.subject != fact.subject]
    for other_fact in draw.sample(apart, min(len(apart), max(len(others), 1))):
        prompt = bare(draw.choice(other_fact.wordings).text)
        yield Demonstration("retain", fact.fact, other_fact.fact, line, prompt, other_fact.answers[0], answer)


# What is told


class _Telling:
    """Puts demonstrations and a fact before questions."""

    def __init__(
        self,
        model: Model,
        requests: Sequence[EditRequest],
        how: Ike,
        demonstrations: Sequence[Demonstration],
        embedder: Embedder,
    ) -> None:
        self.embedder = embedder
        self.room: Room = room_of(model, how.context_tokens)
        self._how = how
        self._follows = style_of(model) in FOLLOWS
        self._requests = {request.fact: request for request in requests}
        self._lines = {request.fact: _line(request.prompt, request.target) for request in requests}
        self._demonstrations = tuple(demonstrations)
        self._vectors = embedder.encode([one.text for one in demonstrations])

    def __call__(self, question: Question) -> Told:
        """Return what is asked instead of a question."""
        own = self._requests.get(question.fact.id)
        if self._how.mode == "given":
            line = self._given(question, own)
            if line is None:
                return Told(question.text)
            shown = self._nearest(f"New Fact: {line}\nPrompt: {bare(question.text)}", question, own)
        else:
            shown = self._nearest(bare(question.text), question, own)
            line = NOT_AVAILABLE if self._how.mode == "null" else _fact_of(shown)
        return Told(fitted(question, shown_texts(shown), self._rendered(line, question), self.room, cut=False))

    def _given(self, question: Question, own: EditRequest | None) -> str | None:
        if own is not None:
            return self._lines[own.fact]
        if self._how.others == "plain":
            return None
        facts = list(self._lines)
        vectors = self.embedder.encode([self._lines[fact] for fact in facts])
        [[hit]] = top_k(self.embedder.encode([bare(question.text)]), vectors, 1)
        return self._lines[facts[hit.place]]

    def _nearest(self, text: str, question: Question, own: EditRequest | None) -> list[Demonstration]:
        """Return the demonstrations to show, nearest first."""
        [hits] = top_k(self.embedder.encode([text]), self._vectors, len(self._demonstrations))
        found = [one for hit in hits if not self._tells(one := self._demonstrations[hit.place], question, own)]
        if self._how.ratio is None:
            return found[: self._how.k]
        wanted = shares(self._how.k, self._how.ratio)
        kept = []
        for one in found:
            if wanted[one.kind]:
                wanted[one.kind] -= 1
                kept.append(one)
        return kept

    def _tells(self, one: Demonstration, question: Question, own: EditRequest | None) -> bool:
        """Tell whether a demonstration gives away the answer to a question."""
        if own is None:
            return question.fact.id in (one.fact, one.asked)
        if one.fact == own.fact:
            return False  # only where the edited facts are to be among them
        right = {label.casefold() for label in (own.target, *own.accepted)}
        from_edit = one.fact in self._requests
        return not from_edit and bool(right & {one.answer.casefold(), one.says.casefold()})

    def _rendered(self, line: str, question: Question) -> Any:  # noqa: ANN401
        head = f"{INSTRUCTION}\n\n" if self._follows else ""
        tail = f"New Fact: {line}\nPrompt: {question.text}"

        def render(parts: Sequence[str]) -> str:
            ordered = parts if self._how.order == "first" else parts[::-1]
            return head + "".join(f"{part}\n\n" for part in ordered) + tail

        return render


def _line(wording: Wording, answer: str) -> str:
    return sentence(wording.text, answer)


def _fact_of(shown: Sequence[Demonstration]) -> str:
    """Return the fact of the nearest demonstration; a retained prompt is not what its fact answers."""
    return next((one.line for one in shown if one.kind != "retain"), NOT_AVAILABLE)


def shown_texts(shown: Sequence[Demonstration]) -> list[str]:
    """Return demonstrations as they are shown."""
    return [one.text for one in shown]


def shares(k: int, ratio: Sequence[float]) -> dict[Kind, int]:
    """Return how many of k are of each kind: the whole parts, and what is left by the largest remainders.

    >>> shares(8, (1, 3, 4)), shares(4, (1, 3, 4))
    ({'copy': 1, 'update': 3, 'retain': 4}, {'copy': 1, 'update': 1, 'retain': 2})
    """
    exact = [k * part / sum(ratio) for part in ratio]
    found = [int(part) for part in exact]
    by_rest = sorted(range(len(KINDS)), key=lambda at: (found[at] - exact[at], at))
    for at in by_rest[: k - sum(found)]:
        found[at] += 1
    return dict(zip(KINDS, found, strict=True))
