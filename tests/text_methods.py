"""What the tests of the text methods share: a few facts, and an embedder and a model that need no weights."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyknow.align.base import EditRequest, Operation, Settings, Wording
from dyknow.align.pool import Known
from dyknow.benchmark import Fact, Question
from dyknow.models.base import Answer, Asked
from dyknow.prompts import fill

OFFICES = (
    "The current {office} is",
    "The person who currently serves as {office} is",
    "Currently in office as {office} is",
)
CLUBS = (
    "{subject} is a footballer whose current club is",
    "The club for which {subject} currently plays football is",
    "Currently, the footballer {subject} plays for",
)


def office(place: str, title: str, prop: str) -> list[Question]:
    """Return the questions about an office."""
    return _questions(Fact(f"{place}/{prop}", "countries", "countries", place, place, prop, f"{title} of {place}", place, None, "verified"), OFFICES)  # fmt: skip


def club(name: str) -> list[Question]:
    """Return the questions about a footballer's club."""
    return _questions(Fact(f"{name}/P54", "athletes", "footballers", name, name, "P54", None, name, "club", "verified"), CLUBS)  # fmt: skip


def _questions(fact: Fact, templates: Sequence[str]) -> list[Question]:
    found = []
    for number, template in enumerate(templates, 1):
        prompt = fill(template, fact.mention, fact.office)
        found.append(Question(f"{fact.id}#{number}", fact, str(number), prompt.text, prompt.subject, prompt.office))
    return found


def wording(question: Question) -> Wording:
    return Wording(question.id, question.text, question.subject_span)


def request(
    questions: Sequence[Question], target: str, before: str | None = None, operation: Operation = "update"
) -> EditRequest:
    """Return an edit of the second wording."""
    first, second, third = map(wording, questions)
    fact = questions[0].fact
    return EditRequest(fact.id, fact.domain, fact.subject_label, operation, second, (first, third), target, None, (target,), before)  # fmt: skip


def known(questions: Sequence[Question], *answers: str) -> Known:
    fact = questions[0].fact
    return Known(fact.id, fact.domain, fact.subject_label, tuple(map(wording, questions)), answers)


ITALY, POLAND, FRANCE, SPAIN = (
    office(place, "Prime Minister", "P6") for place in ("Italy", "Poland", "France", "Spain")
)
ITALY_HEAD, POLAND_HEAD = office("Italy", "President", "P35"), office("Poland", "President", "P35")
MESSI, SALAH, KANE = club("Lionel Messi"), club("Mohamed Salah"), club("Harry Kane")

POOL = (
    known(POLAND, "Donald Tusk"),
    known(FRANCE, "Gabriel Attal"),
    known(SPAIN, "Pedro Sánchez"),
    known(ITALY_HEAD, "Sergio Mattarella"),
    known(POLAND_HEAD, "Andrzej Duda"),
    known(SALAH, "Liverpool"),
    known(KANE, "FC Bayern"),
)
EDIT = request(ITALY, "Giorgia Meloni", "Mario Draghi")


class Bag:
    """An embedder of words: each word is a direction, drawn from its letters."""

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.asked: list[str] = []

    @property
    def record(self) -> dict[str, Any]:
        return {"name": "bag of words", "dimensions": self.dimensions}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        rows = [
            np.sum([_direction(word, self.dimensions) for word in [*re.findall(r"\w+", text.casefold()), ""]], axis=0)
            for text in texts
        ]
        vectors = np.array(rows, dtype=np.float64).reshape(len(texts), self.dimensions)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)


@cache
def _direction(word: str, dimensions: int) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimensions)


class Echo:
    """A model that answers with what it was given."""

    def __init__(self, style: str = "completion", name: str = "echo") -> None:
        self.name = name
        self.style = style

    def info(self) -> dict[str, Any]:
        return {"name": self.name, "style": self.style, "device": None, "files": {}}

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        # Backwards, as a model may choose.
        for question in reversed(questions):
            yield [Asked(question, Answer(f"{self.name}: {question.text}", "stop", question.text, 1, 1))]


def quiet(done: int, of: int, what: str) -> None:
    """Take progress and say nothing."""


def options(preset: str = "recommended", seed: int = 0, **given: object) -> Settings:
    return Settings(preset, seed, {"embedder": Bag(), **given})


def prefixed(question: Question) -> Question:
    """Return a question as ``--prefix`` asks it."""
    prompt = "Answer with the name only. "
    start, end = question.subject_span
    return replace(question, text=prompt + question.text, subject_span=type(question.subject_span)(start + len(prompt), end + len(prompt)))  # fmt: skip
