"""Which questions an edit is about: SERAC's scope classifier, tuned on facts that are not edited.

A question is in scope of the edit whose prompt it is nearest to, where a score reaches a threshold and the question
names what the prompt names. The score is the cosine of the two embeddings, or what a trained head makes of them. The
threshold accepts as many other wordings of one fact as it can without accepting any wording of another fact: questions
in the edit's own words about another subject, and about another office of the same subject, are the hard ones.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dyknow.align.base import Wording
from dyknow.align.embedding import Embedder
from dyknow.align.pool import Known, bare
from dyknow.models.extras import need
from kg.errors import AlignError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dyknow.align.embedding import Vectors

    Scores = NDArray[np.float64]

Test = Literal["names", "subject", "none"]

TESTS: Final[tuple[Test, ...]] = ("none", "subject", "names")
"""What a question must name besides being near, most lenient first: nothing, the subject, all that the prompt names."""

DEFAULT_THRESHOLD: Final = 0.75
"""Of the cosine, where there are no facts to tune it on."""

BESIDE: Final = (
    "{subject} was born in",
    "{subject} is married to",
    "{subject} was founded in",
    "The capital of {subject} is",
    "The population of {subject} is",
    "{subject} is best known for",
)
"""Questions about the same subject that no edit of ours is about: they must stay out of scope, too."""

_FEWEST: Final = 4  # facts to tune on
_WORD: Final = re.compile(r"\w+")


class Tuned(NamedTuple):
    """A rule, and what it did with the facts it was tuned on."""

    threshold: float
    test: Test
    recall: float | None  # share of other wordings of a fact that it accepts; None: not tuned
    false_accepts: int | None  # wordings of other facts that it accepts
    facts: int  # tuned on
    positives: int
    negatives: int

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**self._asdict(), "threshold": round(self.threshold, 6)}


def required(wording: Wording, test: Test) -> frozenset[str]:
    """Return the words that a question must have to be about a wording.

    >>> from dyknow.prompts import Span
    >>> italy = Wording("Q38/P6#2", "The person who currently serves as Prime Minister of Italy is", Span(53, 58))
    >>> sorted(required(italy, "names")), sorted(required(italy, "subject"))
    (['italy', 'minister', 'prime'], ['italy'])
    """
    if test == "none":
        return frozenset()
    subject = {word.casefold() for word in _WORD.findall(wording.subject.of(wording.text))}
    if test == "subject":
        return frozenset(subject)
    # A capital at the beginning of a sentence makes no name, and an abbreviation may be written out elsewhere: "CEO".
    begin = len(wording.text) - len(bare(wording.text))
    inner = [one.group() for one in _WORD.finditer(wording.text, begin) if one.start() > begin]
    return frozenset(subject | {word.casefold() for word in inner if word[0].isupper() and not word.isupper()})


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, folded."""
    return frozenset(word.casefold() for word in _WORD.findall(text))


# Scores

Score = Callable[["Vectors", "Vectors"], "Scores"]
"""Takes (questions, dimensions) and (prompts, dimensions), gives (questions, prompts)."""


def cosine(questions: "Vectors", prompts: "Vectors") -> "Scores":
    """Return the cosine of each question with each prompt."""
    found: Scores = (questions @ prompts.T).astype("float64")
    return found


@dataclass(frozen=True)
class Scope:
    """The edits' prompts, and the rule by which questions are of their scope."""

    prompts: tuple[Wording, ...]
    embedder: Embedder
    score: Score
    tuned: Tuned

    def find(self, text: str) -> tuple[int, float] | None:
        """Return the place of the edit that a question is about, and its score; None where it is about none.

        Of several edits in scope the one with the highest score, of equal ones the first.
        """
        question = bare(text)
        vectors = self.embedder.encode([bare(one.text) for one in self.prompts])
        scores = self.score(self.embedder.encode([question]), vectors)[0]
        words = words_of(question)
        named = [place for place, one in enumerate(self.prompts) if required(one, self.tuned.test) <= words]
        best = max(named, key=lambda place: (float(scores[place]), -place), default=None)
        if best is None or float(scores[best]) < self.tuned.threshold:
            return None
        return best, float(scores[best])


# Tuning


class Pairs(NamedTuple):
    """Every wording of some facts as an edit's prompt, against every other, and what is beside them, as a question.

    The first questions are the prompts themselves.
    """

    prompts: list[Wording]
    questions: list[str]
    facts: list[str]  # of the questions; "" for what is beside every fact
    vectors: "Vectors"  # of the questions

    @property
    def prompt_vectors(self) -> "Vectors":
        """The vectors of the prompts."""
        return self.vectors[: len(self.prompts)]


def pairs(known: Sequence[Known], embedder: Embedder) -> Pairs:
    """Return the wordings of facts and questions beside them, with their vectors."""
    prompts = [wording for one in known for wording in one.wordings]
    facts = [one.fact for one in known for _ in one.wordings]
    subjects = dict.fromkeys(one.subject.of(one.text) for one in prompts)
    beside = [template.replace("{subject}", subject) for subject in subjects for template in BESIDE]
    questions = [bare(one.text) for one in prompts] + beside
    return Pairs(prompts, questions, facts + [""] * len(beside), embedder.encode(questions))


def tune(known: Sequence[Known], embedder: Embedder, score: Score, test: Test | None = None) -> Tuned:
    """Return the threshold, and the test, that accept most without a false accept.

    Of tests that accept as many the strictest is taken; a threshold lies halfway between the last false pair and the
    first right one above it.

    Args:
        known: facts that are not edited, with two wordings at least.
        embedder: as the scope's.
        score: likewise.
        test: what a question must name; None: chosen too.
    """
    known = [one for one in known if len(one.wordings) > 1]
    if len(known) < _FEWEST:
        return Tuned(DEFAULT_THRESHOLD, test or "names", None, None, len(known), 0, 0)
    made = pairs(known, embedder)
    scores = score(made.vectors, made.prompt_vectors)  # (questions, prompts)
    found = [_tuned(made, scores, one, len(known)) for one in ((test,) if test else TESTS)]
    return max(reversed(found), key=lambda one: one.recall or 0.0)  # the first of equals


def _tuned(made: Pairs, scores: "Scores", test: Test, facts: int) -> Tuned:
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    have = [words_of(one) for one in made.questions]
    wanted = [required(one, test) for one in made.prompts]
    named = np.array([[wants <= words for wants in wanted] for words in have])  # (questions, prompts)
    number = {fact: at for at, fact in enumerate(dict.fromkeys(made.facts))}
    fact = np.array([number[one] for one in made.facts])
    same = fact[:, None] == fact[None, : len(made.prompts)]
    positive = same.copy()
    np.fill_diagonal(positive, val=False)  # the prompt itself
    right, wrong = scores[positive & named], scores[~same & named]
    highest = float(wrong.max()) if wrong.size else 0.0
    above = right[right > highest]
    lowest = float(above.min()) if above.size else 1.0
    total = int(positive.sum())
    threshold = (lowest + highest) / 2
    return Tuned(threshold, test, float(above.size) / total, 0, facts, total, int((~same).sum()))


# The trained head


@dataclass(frozen=True)
class Head:
    """A classifier on [q, p, |q-p|, q*p]: logistic regression, or one hidden layer."""

    weights: tuple[Any, ...]  # tensors: (features, 1) and (1,), or those of two layers
    record: dict[str, Any]

    def __call__(self, questions: "Vectors", prompts: "Vectors") -> "Scores":
        """Return the probability that each question is about each prompt: (questions, prompts)."""
        import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

        torch = need("torch")
        rows = []
        with torch.inference_mode():
            p = torch.from_numpy(np.ascontiguousarray(prompts))
            for question in torch.from_numpy(np.ascontiguousarray(questions)):
                logits = _forward(_features(question.expand_as(p), p), self.weights)
                rows.append(torch.sigmoid(logits.double()).numpy())
        return np.stack(rows) if rows else np.zeros((0, len(prompts)))


def train(known: Sequence[Known], embedder: Embedder, seed: int, *, hidden: int = 0, steps: int = 300) -> Head:
    """Return a head trained on facts: their other wordings against the nearest wordings of other facts.

    Full-batch Adam with weight decay; the same seed gives the same head.

    Args:
        known: facts that are not edited.
        embedder: as the scope's.
        seed: of the first weights.
        hidden: units of a hidden layer; 0: logistic regression.
        steps: of Adam.

    Raises:
        AlignError: there are too few facts.
    """
    known = [one for one in known if len(one.wordings) > 1]
    if len(known) < _FEWEST:
        message = f"A scope classifier cannot be trained on {len(known)} facts."
        raise AlignError(
            message, hint=f"Give at least {_FEWEST} that are not edited (calibration), or take the cosine."
        )
    torch = need("torch")
    q, p, labels = _examples(pairs(known, embedder))
    features, target = _features(torch.from_numpy(q), torch.from_numpy(p)), torch.from_numpy(labels)
    draw = torch.Generator().manual_seed(seed)
    sizes = [features.shape[1], *([hidden] if hidden else []), 1]
    weights = []
    for inputs, outputs in pairwise(sizes):
        weights += [torch.randn(inputs, outputs, generator=draw) * inputs**-0.5, torch.zeros(outputs)]
    for weight in weights:
        weight.requires_grad_(True)
    adam = torch.optim.Adam(weights, lr=0.01, weight_decay=1e-4)
    balance = (target == 0).sum() / (target == 1).sum()
    lost = torch.nn.BCEWithLogitsLoss(pos_weight=balance)
    for _ in range(steps):
        adam.zero_grad()
        loss = lost(_forward(features, weights), target)
        loss.backward()
        adam.step()
    about = {"hidden": hidden, "steps": steps, "seed": seed, "facts": len(known), "pairs": len(labels)}
    return Head(tuple(weight.detach() for weight in weights), {**about, "loss": round(float(loss.detach()), 6)})


def _features(q: Any, p: Any) -> Any:  # noqa: ANN401
    return need("torch").cat([q, p, (q - p).abs(), q * p], dim=-1)


def _forward(features: Any, weights: Sequence[Any]) -> Any:  # noqa: ANN401
    value = features @ weights[0] + weights[1]
    if len(weights) > 2:
        value = need("torch").tanh(value) @ weights[2] + weights[3]
    return value.squeeze(-1)


def _examples(made: Pairs, hardest: int = 8) -> tuple[Any, Any, Any]:
    """Return questions, prompts, labels: all pairs of one fact, and each prompt's nearest of others and beside it."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    cosines = made.vectors @ made.prompt_vectors.T
    rows = []
    for prompt, fact in enumerate(made.facts[: len(made.prompts)]):
        order = np.argsort(-cosines[:, prompt], kind="stable")
        same = [int(at) for at in order if made.facts[at] == fact and at != prompt]
        other = [int(at) for at in order if made.facts[at] not in (fact, "")][:hardest]
        other += [int(at) for at in order if not made.facts[at]][:hardest]
        rows += [(at, prompt, 1.0) for at in same] + [(at, prompt, 0.0) for at in other]
    questions, prompts, labels = zip(*rows, strict=True)
    return made.vectors[list(questions)], made.prompt_vectors[list(prompts)], np.array(labels, dtype=np.float32)
