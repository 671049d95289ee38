"""What every alignment method takes and gives: requests in, a model that answers with them out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from dyknow.models.base import Model
from dyknow.prompts import Span

Operation = Literal["update", "add", "delete"]


class Wording(NamedTuple):
    """One phrasing of a fact: what a model is asked, and where the subject stands in it."""

    question: str  # "Q38/P35#1"
    text: str
    subject: Span  # kept by the prompt, never searched for again


@dataclass(frozen=True, slots=True)
class EditRequest:
    """One fact that a model should answer differently.

    Attributes:
        fact: "Q38/P35".
        domain: The table's column: "countries", "athletes", "organizations".
        subject: The subject's label.
        operation: "update" an outdated answer, "add" one the model never had, "delete" one that nobody should give.
        prompt: The wording that is edited.
        paraphrases: The other counted wordings.
        target: What should be answered: the label of the up-to-date holder; "unknown" for a deletion.
        target_entity: Its entity; None for a deletion.
        accepted: Labels of all up-to-date holders, the target's first.
        before: What the model answered: the label of the entity it named; None where it named none.
        before_entity: That entity.
    """

    fact: str
    domain: str
    subject: str
    operation: Operation
    prompt: Wording
    paraphrases: tuple[Wording, ...]
    target: str
    target_entity: str | None
    accepted: tuple[str, ...] = ()
    before: str | None = None
    before_entity: str | None = None


class EditReport(NamedTuple):
    """How one edit went; figures a method does not have are None."""

    fact: str
    seconds: float
    nll_before: float | None = None  # of the target's tokens, mean, natural logarithm
    nll_after: float | None = None
    change: float | None = None  # Frobenius norm of the weights' change over that of the weights
    note: str | None = None


class Aligned(Protocol):
    """A method that has taken in its requests."""

    @property
    def record(self) -> dict[str, Any]:
        """What the answers depend on, JSON values only: method, preset, settings, digests, seed, number of edits."""
        ...

    @property
    def reports(self) -> tuple[EditReport, ...]:
        """How each edit went, in the order of the requests."""
        ...

    def applied(self) -> AbstractContextManager[Model]:
        """Give the model that answers with the edits; leaving undoes them, bit for bit where weights were changed."""
        ...


@dataclass(frozen=True)
class Settings:
    """How a method works.

    Attributes:
        preset: "paper" (the study's settings), "original" (the method papers'), "recommended".
        seed: Where random draws begin.
        options: The method's own settings, over the preset's.
        corpus: Texts for second moments or retrieval; None: the method's default.
    """

    preset: str = "recommended"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    corpus: Sequence[str] | None = None


Progress = Callable[[int, int, str], None]
"""Told how many edits are done, of how many, and what is being done."""

MethodFunction = Callable[[Model, Sequence[EditRequest], Settings, Progress], Aligned]
"""A method: takes a model and requests, raises AlignError (``kg.errors``) with one sentence where it cannot."""
