"""SERAC: an edit memory beside the model, and a small model that answers what the memory is about.

Mitchell et al., "Memory-based model editing at scale" (2022). A question in scope of an edit goes to the counterfactual
model, with the edit before it; every other question goes to the model itself, word for word as without the method. Both
are asked by text, so that they need not share a tokenizer.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dyknow.align import pool
from dyknow.align.base import Aligned, EditReport, EditRequest, Progress, Settings, Wording
from dyknow.align.choices import chosen, one_of
from dyknow.align.context import FOLLOWS, TextAligned, Told, filled, fitted, room_of, style_of
from dyknow.align.embedding import MINILM, load_embedder
from dyknow.align.pool import Known, sentence
from dyknow.align.scope import TESTS, Head, Scope, Test, Tuned, cosine, train, tune
from dyknow.benchmark import Question
from dyknow.models import Options, load_model
from dyknow.models.base import Model

TEMPLATES: Final[Mapping[str, str]] = {
    "follows": "{fact}\n{fact}\n\nAnswer with the name only, as said above.\n{question}",
    "completion": "{fact} {fact}\n{question}",
}

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The study's: a fixed threshold, no test of names, and the fact told once.
    "paper": {"threshold": 0.5, "test": "none", "template": "{fact}\n{question}"},
    "original": {"threshold": 0.5, "test": "none", "template": "{fact}\n{question}"},  # Mitchell et al., section 3.2
    "recommended": {"classifier": "trained"},
}


@dataclass(frozen=True)
class Serac:
    """Settings.

    Attributes:
        classifier: "cosine" of embeddings, or "trained": a head on them.
        hidden: Units of the trained head's hidden layer; 0: logistic regression.
        threshold: From which score on a question is in scope; None: tuned on ``calibration``.
        test: What a question must name besides: "none", "subject", or every one of the prompt's "names"; None: tuned.
        calibration: Facts that are not edited, for tuning and training.
        counterfactual: Who answers what is in scope: a model, a name such as "smollm2", or None: the model itself.
        template: A text with {fact} and {question}; None: our own, which says the fact twice.
        memory: What of a request is remembered: the "prompt", or "all" its wordings.
        embedder: As `dyknow.align.embedding.load_embedder` takes it.
        context_tokens: The counterfactual model's window; None: as its file says.
    """

    classifier: str = "cosine"
    hidden: int = 0
    threshold: float | None = None
    test: Test | None = None
    calibration: Sequence[Known] = ()
    counterfactual: Any = None
    template: str | None = None
    memory: str = "prompt"
    embedder: Any = MINILM
    context_tokens: int | None = None


def serac(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> Aligned:
    """Return a model with an edit memory beside it.

    Raises:
        AlignError: the requests or the settings cannot be worked with.
        ModelError: the counterfactual model cannot be loaded.
    """
    pool.check(requests)
    how = chosen(Serac, PRESETS, settings, "SERAC")
    one_of("SERAC", "classifier", how.classifier, ("cosine", "trained"))
    one_of("SERAC", "memory", how.memory, ("prompt", "all"))
    one_of("SERAC", "test", how.test, (None, *TESTS))
    begin = time.perf_counter()
    progress(0, len(requests), "the scope classifier is tuned")
    scope, owners, head = _scope(requests, how, settings.seed)
    # A base model elsewhere speaks for itself; another one is asked to write on, as the method's own is.
    other = load_model(how.counterfactual, Options(style="completion")) if isinstance(how.counterfactual, str) else None
    counterfactual: Model = other or how.counterfactual or model
    memory = _Memory(requests, scope, owners, counterfactual, how)
    seconds = (time.perf_counter() - begin) / len(requests)
    progress(len(requests), len(requests), "the scope classifier is tuned")
    record = {
        "method": "serac",
        "preset": settings.preset,
        "seed": settings.seed,
        "classifier": how.classifier,
        "head": head.record if head else None,
        "scope": scope.tuned.record(),
        "memory": how.memory,
        "template": memory.template,
        "embedder": scope.embedder.record,
        "counterfactual": None if counterfactual is model else counterfactual.info(),
        "context_tokens": memory.room.tokens,
        "edits": len(requests),
        "requests": pool.digest(requests),
    }
    return TextAligned(model, record, tuple(memory.report(one, seconds) for one in requests), memory)


def _scope(requests: Sequence[EditRequest], how: Serac, seed: int) -> tuple[Scope, list[int], Head | None]:
    """Return the scope, the request of each prompt in it, and the trained head if there is one."""
    embedder = load_embedder(how.embedder)
    edited = {request.fact for request in requests}
    free = [one for one in how.calibration if one.fact not in edited]
    head, held_out = None, free
    if how.classifier == "trained":
        # Facts it was trained on look better than any other: a third of them is kept for the threshold.
        head, held_out = (
            train([one for at, one in enumerate(free) if at % 3], embedder, seed, hidden=how.hidden),
            free[::3],
        )
    if how.threshold is None:
        tuned = tune(held_out, embedder, head or cosine, how.test)
    else:
        tuned = Tuned(how.threshold, how.test or "names", None, None, 0, 0, 0)
    remembered: list[tuple[int, Wording]] = []
    for number, request in enumerate(requests):
        wordings = pool.wordings(request) if how.memory == "all" else (request.prompt,)
        remembered += [(number, wording) for wording in wordings]
    scope = Scope(tuple(wording for _, wording in remembered), embedder, head or cosine, tuned)
    return scope, [number for number, _ in remembered], head


class _Memory:
    """Sends questions to who should answer them."""

    def __init__(
        self, requests: Sequence[EditRequest], scope: Scope, owners: Sequence[int], counterfactual: Model, how: Serac
    ) -> None:
        self.counterfactual = counterfactual
        self.room = room_of(counterfactual, how.context_tokens)
        follows = style_of(counterfactual) in FOLLOWS
        self.template = how.template or TEMPLATES["follows" if follows else "completion"]
        self._requests = requests
        self._scope = scope
        self._owners = owners

    def request_for(self, text: str) -> tuple[EditRequest, float] | None:
        """Return the request that a question is about, and its score; None where it is about none."""
        found = self._scope.find(text)
        return None if found is None else (self._requests[self._owners[found[0]]], found[1])

    def __call__(self, question: Question) -> Told:
        """Return what is asked instead of a question, and whom."""
        found = self.request_for(question.text)
        if found is None:
            return Told(question.text)
        request, _ = found
        fact = sentence(request.prompt.text, request.target)

        def render(_: Sequence[str]) -> str:
            return filled(self.template, fact=fact, question=question.text)

        return Told(fitted(question, (), render, self.room, cut=False), self.counterfactual)

    def report(self, request: EditRequest, seconds: float) -> EditReport:
        """Return how an edit went: how many of its own wordings are found to be about it."""
        own = [self.request_for(wording.text) for wording in pool.wordings(request)]
        right = sum(found is not None and found[0].fact == request.fact for found in own)
        return EditReport(request.fact, seconds, note=f"{right} of {len(own)} wordings in scope")
