"""What an edit does beside its aim: how far the model drifts elsewhere, how fluent it stays, and whether it collapses.

Whether edited facts are answered rightly is a matter of verdicts (:mod:`dyknow.editing`); here are the measures that
need none. Locality is seen on a fixed list of forty unrelated prompts and on facts that were not edited.
"""

import importlib
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow.align.base import EditRequest
from dyknow.align.documents import Document, Lengths, lengths
from dyknow.benchmark import Fact, Question
from dyknow.models.base import Model
from dyknow.models.extras import need
from dyknow.models.local import Local
from dyknow.prompts import Span
from dyknow.scaffold import answer_of
from kg.errors import AlignError

PROBES: Final = Path(__file__).resolve().parent / "data" / "probes.txt"
"""Unrelated prompts, one a line."""

COLLAPSED: Final = 10.0
"""A model has collapsed when its perplexity on the probes' own continuations grows beyond this many times."""

BATCH: Final = 40


@cache
def probes() -> tuple[str, ...]:
    """Return the fixed list of unrelated prompts."""
    return tuple(PROBES.read_text(encoding="utf-8").split("\n")[:-1])


@dataclass(frozen=True)
class Observation:
    """How a model behaves on some prompts.

    Attributes:
        texts: What it writes on, greedily.
        logprobs: Natural logarithms of the next token's probabilities, float32 of shape (prompts, vocabulary); None for
            a model that tells none.
        continued: Mean negative log-probability of the tokens that ``continuing`` wrote, in nats; None likewise.
    """

    texts: tuple[str, ...]
    logprobs: Any = None
    continued: float | None = None


class Drift(NamedTuple):
    """How far a model moved on ``n`` prompts that no edit is about; shares between 0 and 1."""

    n: int
    exact: float  # the same text, word for word
    first_word: float  # the same first word
    kl: float | None  # mean KL divergence of the next token, before from after, in nats


def observe(model: Model, prompts: Sequence[str], before: Observation | None = None) -> Observation:
    """Ask prompts greedily and look at the next token's distribution.

    Args:
        model: Any model; only a local one tells distributions.
        prompts: What it is to write on.
        before: An earlier observation of the same prompts: how likely its texts are now is measured, too.
    """
    questions = [_question(f"probe#{index}", text) for index, text in enumerate(prompts)]
    texts = tuple(answers(model, questions))
    if not isinstance(model, Local) or model.is_seq2seq:
        return Observation(texts)
    logprobs = _next_token(model, questions)
    continued = _continued(model, questions, (before.texts if before else texts))
    return Observation(texts, logprobs, continued)


def answers(model: Model, questions: Sequence[Question]) -> list[str]:
    """Return what a model says to questions, in their order."""
    found = {asked.question.id: asked.answer for batch in model.generate(questions, BATCH) for asked in batch}
    return [found[question.id].text or "" for question in questions]


def _question(name: str, text: str) -> Question:
    fact = Fact(name.partition("#")[0], "probe", "probe", "", "", "", None, "", None, "none")
    return Question(name, fact, name.partition("#")[2], text, Span(0, 0), None)


def _next_token(model: Local, questions: Sequence[Question]) -> Any:  # noqa: ANN401
    """Return the next token's log-probabilities of each question, (questions, vocabulary), on the processor."""
    torch = need("torch")
    found = []
    with torch.inference_mode():
        for question in questions:
            ids = torch.tensor([model.encode(question).ids], device=model.model.device)
            logits = model.model(input_ids=ids, use_cache=False).logits[0, -1]  # (vocabulary,)
            found.append(torch.log_softmax(logits.float(), -1).cpu())
    return torch.stack(found)


def _continued(model: Local, questions: Sequence[Question], texts: Sequence[str]) -> float:
    """Return the mean negative log-probability of the tokens of texts after their questions, in nats."""
    torch = need("torch")
    total, count = 0.0, 0
    with torch.inference_mode():
        for question, text in zip(questions, texts, strict=True):
            prompt = model.encode(question).ids
            tail = model.tokenizer(f" {text.strip()}", add_special_tokens=False)["input_ids"]
            if not text.strip():
                continue
            ids = torch.tensor([prompt + tail], device=model.model.device)
            logits = model.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]  # (tail, vocabulary)
            logprobs = torch.log_softmax(logits.float(), -1)
            total -= float(logprobs.gather(1, torch.tensor(tail, device=logprobs.device)[:, None]).sum())
            count += len(tail)
    return total / count if count else 0.0


def drift(before: Observation, after: Observation) -> Drift:
    """Return how far a model moved between two observations of the same prompts."""
    pairs = list(zip(before.texts, after.texts, strict=True))
    exact = sum(a == b for a, b in pairs) / len(pairs)
    first = sum(_first_word(a) == _first_word(b) for a, b in pairs) / len(pairs)
    kl = None
    if before.logprobs is not None and after.logprobs is not None:
        parts = before.logprobs.exp() * (before.logprobs - after.logprobs)  # (prompts, vocabulary)
        kl = max(0.0, float(parts.sum(-1).mean()))
    return Drift(len(pairs), exact, first, kl)


def _first_word(text: str) -> str:
    return next(iter(text.split()), "").strip(".,;:!?\"'").casefold()


def fluency(texts: Sequence[str]) -> float | None:
    """Return the mean n-gram entropy of texts in bits; None where all are too short.

    A weighted mean of the entropies of two and three words in a row, weights 2/3 and 4/3 over two (Zhang et al. 2018,
    used by Meng et al. 2022): a text that repeats itself has little.

    >>> fluency(["no no no no no no"])
    0.0
    >>> round(fluency(["the cat sat on a mat"]), 3)
    2.107
    """
    found = [value for text in texts if (value := _entropy(text.split())) is not None]
    return sum(found) / len(found) if found else None


def _entropy(words: Sequence[str]) -> float | None:
    if len(words) < 3:
        return None
    return (2 / 3 * _ngrams(words, 2) + 4 / 3 * _ngrams(words, 3)) / 2


def _ngrams(words: Sequence[str], n: int) -> float:
    counts = Counter(zip(*(words[start:] for start in range(n)), strict=False))
    total = sum(counts.values())
    return -sum(count / total * math.log2(count / total) for count in counts.values())


def check_alive(before: Observation, after: Observation) -> None:
    """Refuse a model that no longer writes what it wrote.

    Raises:
        AlignError: its perplexity on its own earlier texts has grown beyond ``COLLAPSED`` times, or is no number.
    """
    if before.continued is None or after.continued is None:
        return
    grown = math.exp(min(50.0, after.continued - before.continued)) if math.isfinite(after.continued) else math.inf
    if grown > COLLAPSED:
        raise AlignError(
            f"The model has collapsed: it finds its own earlier texts {grown:,.0f} times as perplexing as before.",
            hint="Edit fewer facts, or take --preset recommended; the model is as it was.",
        )


def peak_memory() -> float | None:
    """Return the most memory that this process has had so far, in GiB; None where the system does not say."""
    try:
        resource = importlib.import_module("resource")
    except ModuleNotFoundError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30)


def document_tokens(model: Model, documents: Sequence[Document]) -> Lengths:
    """Return how long documents are, in the model's tokens; in words where its tokenizer is elsewhere."""
    if isinstance(model, Local):
        return lengths(documents, lambda text: len(model.tokenizer(text, add_special_tokens=False)["input_ids"]))
    # An edited model may be a wrapper around a local one.
    base = getattr(model, "base", None)
    return document_tokens(base, documents) if base is not None else lengths(documents, lambda text: len(text.split()))


# Mirrored facts: an edit that is knowledge, and not only a text, is known from the other side, too.

_MIRRORS: Final = {
    "P6": "{target} is the head of government of",
    "P35": "{target} is the head of state of",
    "P169": "{target} is the chief executive officer of",
}


def mirrored(request: EditRequest) -> Question | None:
    """Return the question that asks a request's fact from the other side; None where it has no single answer."""
    template = _MIRRORS.get(request.fact.partition("/")[2])
    if template is None or request.operation == "delete":
        return None
    return _question(f"{request.fact}#mirror", template.replace("{target}", request.target))


def names_subject(text: str, question: Question, subject: str) -> bool:
    """Tell whether a text answers a mirrored question with the subject.

    >>> names_subject("Italy, since 2022.", _question("a#mirror", "X is the head of government of"), "Italy")
    True
    """
    said = [word.key for word in answer_of(text, question.text).words]
    wanted = [word.key for word in answer_of(subject, "").words]
    return any(said[at : at + len(wanted)] == wanted for at in range(min(6, len(said))))
