"""Facts with their wordings and right answers, for demonstrations and thresholds; and checks of requests."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from dyknow.align.base import EditRequest, Wording
from dyknow.benchmark import Question
from dyknow.prompts import PREFIX
from kg.answers import AnswerSet
from kg.errors import AlignError

OPERATIONS = ("update", "add", "delete")


class Known(NamedTuple):
    """A fact whose answer is known and that is not edited."""

    fact: str  # "Q38/P35"
    domain: str
    subject: str
    wordings: tuple[Wording, ...]
    answers: tuple[str, ...]  # labels of the up-to-date holders


def known_facts(
    questions: Iterable[Question], sets: Iterable[AnswerSet], without: Iterable[str] = ()
) -> tuple[Known, ...]:
    """Return the facts that questions ask and answer sets answer, in the questions' order.

    Args:
        questions: a benchmark's.
        sets: answer sets of one day.
        without: facts to leave out, such as those that are edited.
    """
    labels = {one.fact: tuple(holder.label for holder in one.up_to_date) for one in sets}
    out = set(without)
    by_fact: dict[str, list[Question]] = {}
    for question in questions:
        if labels.get(question.fact.id) and question.fact.id not in out:
            by_fact.setdefault(question.fact.id, []).append(question)
    return tuple(_known(own, labels[fact]) for fact, own in by_fact.items())


def _known(questions: Sequence[Question], answers: tuple[str, ...]) -> Known:
    fact = questions[0].fact
    wordings = tuple(Wording(one.id, one.text, one.subject_span) for one in questions)
    return Known(fact.id, fact.domain, fact.subject_label, wordings, answers)


def wordings(request: EditRequest) -> tuple[Wording, ...]:
    """Return all wordings of a request, the edited one first."""
    return (request.prompt, *request.paraphrases)


def bare(text: str) -> str:
    """Return a question without the prefix that asks for a name only: it says nothing about what is asked."""
    return text.removeprefix(PREFIX)


def sentence(prompt: str, answer: str) -> str:
    """Return a prompt with its answer as one sentence.

    >>> sentence("The current President of Italy is", "Sergio Mattarella"), sentence("Who is it?", "Santos F.C.")
    ('The current President of Italy is Sergio Mattarella.', 'Who is it? Santos F.C.')
    """
    text = f"{bare(prompt).rstrip()} {answer}"
    return text if text.endswith(".") else f"{text}."


def mentions(text: str, name: str) -> bool:
    """Tell whether a text names something: all its words, next to each other, in any case.

    >>> mentions("The current PRESIDENT of Italy is", "president of italy"), mentions("Romania", "Roman")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text, re.IGNORECASE) is not None


def check(requests: Sequence[EditRequest]) -> None:
    """Check that requests can be worked with.

    Raises:
        AlignError: there are none, a fact stands there twice, an operation is unknown, a target is empty, or a
            subject's span is no part of its prompt.
    """
    if not requests:
        raise AlignError("There is nothing to edit: no request was given.", hint="dyknow align plan makes requests.")
    seen = set()
    for request in requests:
        if request.fact in seen:
            raise AlignError(f"The fact {request.fact} is to be edited twice.", hint="Leave one of the requests out.")
        seen.add(request.fact)
        if request.operation not in OPERATIONS:
            raise AlignError(f"{request.operation!r} of {request.fact} is no operation.", hint=f"One of {OPERATIONS}.")
        if not request.target.strip():
            raise AlignError(f"The edit of {request.fact} has no target.", hint='A deletion has the target "unknown".')
        for wording in wordings(request):
            start, end = wording.subject
            if not (0 <= start < end <= len(wording.text)):
                message = f"The subject of {request.fact} is not in the prompt {wording.text!r}: span {start} to {end}."
                raise AlignError(message, hint="The span is counted in characters of the prompt.")


def digest(values: Sequence[Any]) -> str:
    """Return the SHA-256 of requests, documents or other values made of JSON's, in their order."""
    plain = [asdict(one) if isinstance(one, EditRequest) else one for one in values]
    return hashlib.sha256(json.dumps(plain, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
