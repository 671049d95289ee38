"""Methods that leave a model as it is and put text before its questions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from dyknow.align.base import EditReport
from dyknow.benchmark import Question
from dyknow.models.base import Asked, Model
from dyknow.models.local import Local
from dyknow.prompts import Span
from kg.errors import AlignError

FOLLOWS: Final = ("chat", "instruct")
"""Styles in which a model is asked to do something, rather than left to write on."""

_LETTERS_A_TOKEN: Final = 4  # of English, for models whose tokenizer is elsewhere


class Told(NamedTuple):
    """What is asked instead of a question, and whom; None: the model itself."""

    text: str
    model: Model | None = None


class Contextual:
    """A model whose questions are put into words of a method's.

    Args:
        base: Who answers.
        record: What the method's texts depend on.
        tell: Gives what is asked instead of a question; the question's own text leaves it as it is.
    """

    def __init__(self, base: Model, record: Mapping[str, Any], tell: Callable[[Question], Told]) -> None:
        self.base = base
        self._record = dict(record)
        self._tell = tell

    @property
    def name(self) -> str:
        """The base model's name and the method's."""
        return f"{self.base.name}-{self._record['method']}"

    def info(self) -> dict[str, Any]:
        """Return the record of the base model and of the method."""
        return {**self.base.info(), "name": self.name, "align": self._record}

    def tell(self, question: Question) -> Told:
        """Return what is asked instead of a question."""
        return self._tell(question)

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Ask, and yield the answers under the questions as they came."""
        asked = {question.id: question for question in questions}
        groups: dict[int, tuple[Model, list[Question]]] = {}
        for question in questions:
            text, model = self._tell(question)
            who = model or self.base
            groups.setdefault(id(who), (who, []))[1].append(reworded(question, text))
        for model, own in groups.values():
            for batch in model.generate(own, batch_size, sample):
                yield [Asked(asked[one.question.id], one.answer) for one in batch]


def reworded(question: Question, text: str) -> Question:
    """Return a question in another text, its spans moved to where its old text stands in the new one.

    A method leaves the question's words whole and last, so they are found again.
    """
    if text == question.text:
        return question
    place = text.rfind(question.text)
    if place < 0:
        return replace(question, text=text, subject_span=Span(0, 0), office_span=None)
    move = partial(_moved, by=place)
    office = None if question.office_span is None else move(question.office_span)
    return replace(question, text=text, subject_span=move(question.subject_span), office_span=office)


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by)


@dataclass(frozen=True)
class TextAligned:
    """A text method that has taken in its requests; see `dyknow.align.base.Aligned`."""

    base: Model
    record: dict[str, Any]
    reports: tuple[EditReport, ...]
    tell: Callable[[Question], Told]

    def applied(self) -> AbstractContextManager[Model]:
        """Give the model that answers with the edits; there is nothing to undo."""
        return nullcontext(Contextual(self.base, self.record, self.tell))


# What fits into a model


class Room(NamedTuple):
    """How much a model can be given: tokens, and how a question's are counted. No limit where ``tokens`` is None."""

    tokens: int | None
    count: Callable[[Question], int]

    def holds(self, question: Question) -> bool:
        """Tell whether a question fits."""
        return self.tokens is None or self.count(question) <= self.tokens


def room_of(model: Model, tokens: int | None = None) -> Room:
    """Return the room of a model.

    Args:
        model: where its tokenizer is at hand, tokens are counted with it, else four letters are one.
        tokens: its window; None: as its file says, less what an answer may take. A model elsewhere says none.
    """
    if not isinstance(model, Local):
        return Room(tokens, lambda question: len(question.text) // _LETTERS_A_TOKEN + 1)
    config = model.model.config
    known = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if tokens is None and known is not None:
        tokens = int(known) - int(model.info()["sampling"]["max_new_tokens"])
    return Room(tokens, lambda question: len(model.encode(question).ids))


def fitted(
    question: Question, parts: Sequence[str], render: Callable[[Sequence[str]], str], room: Room, *, cut: bool
) -> str:
    """Return a text that fits: parts are left out from the last one on, then the only one left is cut.

    Args:
        question: what is asked.
        parts: what stands before it, the most important one first.
        render: puts parts, as many as are left, and the question together.
        room: the model's.
        cut: whether the last part left may be cut in words.

    Raises:
        AlignError: nothing of it fits.
    """
    for count in range(len(parts), 0, -1):
        text = render(parts[:count])
        if room.holds(reworded(question, text)):
            return text
    if parts and cut:
        pieces = parts[0].split(" ")
        low, high = 0, len(pieces)  # low fits or is 0, high does not fit
        while high - low > 1:
            middle = (low + high) // 2
            fits = room.holds(reworded(question, render([" ".join(pieces[:middle])])))
            low, high = (middle, high) if fits else (low, middle)
        if low:
            return render([" ".join(pieces[:low])])
    text = render([])
    if not room.holds(reworded(question, text)):
        message = f"The question {question.id} with what belongs to it does not fit into {room.tokens} tokens."
        raise AlignError(message, hint="Take a model with a longer window.")
    return text


def filled(template: str, **values: str) -> str:
    """Return a template with its {names} replaced, all at once: what is put in is not read again.

    >>> filled("{fact} {question}", fact="{question}", question="Who?")
    '{question} Who?'
    """
    return re.sub("|".join(rf"\{{{name}\}}" for name in values), lambda found: values[found.group()[1:-1]], template)


def style_of(model: Model) -> str:
    """Return how a model is asked: "chat", "completion", "instruct", "sentinel"."""
    return str(model.info().get("style") or "completion")
