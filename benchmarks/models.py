"""Asking in batches against a plain loop, and likelihoods with a shared prefix against the naive way."""

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dyknow import benchmark
from dyknow.models import Options, load_model
from dyknow.models.likelihood import score_all
from dyknow.models.local import Local
from kg import answers, identity
from kg.snapshot import find_snapshots
from kg.store import open_store

THREADS = 2
BATCH = 96
SCORED = 24
TRIES = 2
ONE_BY_ONE = 4  # questions asked the slow way; the rest would take minutes and say the same


class Measured(NamedTuple):
    """Answers a second, ours and the plain way."""

    what: str
    ours: float
    plain: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.ours / self.plain


def measure(questions: int = BATCH) -> list[Measured]:
    """Return how fast SmolLM2 answers and scores on two cores.

    Raises:
        ModelError: the demo model is not installed.
    """
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        model = load_model("smollm2", Options(style="completion"))
        assert isinstance(model, Local)
        return [_asking(model, questions), _scoring(model, SCORED)]
    finally:
        torch.set_num_threads(threads)


def _least(*works: Callable[[], object]) -> list[float]:
    """Return the least seconds of each work, tried in turns: what else the machine does then falls on all alike."""
    found = [float("inf")] * len(works)
    for _ in range(TRIES):
        for index, work in enumerate(works):
            start = time.perf_counter()
            work()
            found[index] = min(found[index], time.perf_counter() - start)
    return found


def _asking(model: Local, count: int) -> Measured:
    questions = benchmark.load().questions()
    asked = questions[:: max(1, len(questions) // count)][:count]
    few = asked[:: max(1, len(asked) // ONE_BY_ONE)]
    ours, plain = _least(lambda: list(model.generate(asked, BATCH)), lambda: _plain(model, few))
    return Measured("answers a second, against one prompt at a time", len(asked) / ours, len(few) / plain)


def _plain(model: Local, questions: Any) -> None:  # noqa: ANN401
    """Ask as scripts do: a prompt, its ids, generate, decode."""
    torch = importlib.import_module("torch")
    for question in questions:
        inputs = model.tokenizer(question.text, return_tensors="pt")
        with torch.no_grad():
            output = model.model.generate(**inputs, max_new_tokens=24, do_sample=False, pad_token_id=model.pad())
        model.tokenizer.decode(output[0], skip_special_tokens=True)


def _scoring(model: Local, count: int) -> Measured:
    store, same = open_store(find_snapshots()[0]), identity.load()
    holders: dict[str, dict[str, None]] = {}
    for row in answers.names(store, same):
        holders.setdefault(row.fact, {})[row.name] = None
    questions = [question for question in benchmark.load().questions() if question.fact.id in holders]
    asked = [(question, list(holders[question.fact.id])) for question in questions[:: len(questions) // count]]
    few = asked[:: max(1, len(asked) // ONE_BY_ONE)]
    ours, naive = _least(
        lambda: list(score_all(model, asked)),
        lambda: [_naive(model, question, name) for question, names in few for name in names],
    )
    all_of, some = sum(len(names) for _, names in asked), sum(len(names) for _, names in few)
    return Measured("likelihoods a second, against each whole text by itself", all_of / ours, some / naive)


def _naive(model: Local, question: Any, name: str) -> float:  # noqa: ANN401
    """Score one answer as scripts do: the whole text through the model."""
    torch = importlib.import_module("torch")
    begin = len(model.tokenizer(question.text).input_ids)
    ids = model.tokenizer(f"{question.text} {name}", return_tensors="pt").input_ids
    with torch.no_grad():
        logprobs = model.model(ids).logits[0].log_softmax(-1)
    return float(logprobs[range(begin - 1, ids.shape[1] - 1), ids[0, begin:]].sum())


if __name__ == "__main__":
    for measured in measure():
        print(f"{measured.what}: {measured.ours:.1f} / {measured.plain:.1f}, ratio {measured.ratio:.1f}")
