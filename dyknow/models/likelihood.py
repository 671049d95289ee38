"""Which of several answers a model finds likely: what it believes where its own words wander.

Each answer is scored as the continuation of the question. The question is computed once and its keys and values are
shared by all its answers; questions of like length go in one batch, so that nothing is padded before an answer.
"""

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from dyknow.benchmark import Question
from dyknow.models.base import Model
from dyknow.models.extras import is_memory_error, need, quiet
from dyknow.models.local import Local
from kg.errors import ModelError, UsageError

ROWS: Final = 256
"""How many answers are scored at once."""


class Scored(NamedTuple):
    """How likely an answer is after its question."""

    candidate: str
    logprob: float  # of all its tokens, natural logarithm
    tokens: int

    @property
    def per_token(self) -> float:
        """The length-normalised log-probability: a long name is no worse for being long."""
        return self.logprob / self.tokens


class Likelihoods(NamedTuple):
    """A question, what the model was given, and its answers scored, in the order given."""

    question: Question
    prompt: str
    scored: list[Scored]


class _Row(NamedTuple):
    question: int  # index into what was asked
    candidate: int
    shared: tuple[int, ...]  # what is computed once
    tail: list[int]  # what is scored


def score(model: Model, question: Question, candidates: Sequence[str]) -> list[Scored]:
    """Return how likely each answer to a question is, in the order given.

    >>> Scored("Giorgia Meloni", -6.0, 3).per_token
    -2.0

    Raises:
        ModelError: the model is none of this machine's, or one answer alone does not fit into memory.
        UsageError: an answer is empty.
    """
    [found] = score_all(model, [(question, candidates)])
    return found.scored


def score_all(model: Model, asked: Sequence[tuple[Question, Sequence[str]]], rows: int = ROWS) -> Iterator[Likelihoods]:
    """Yield the likelihoods of each question's answers, in an order of our choice.

    Args:
        model: A model of this machine.
        asked: Questions, each with its answers.
        rows: How many answers at once, at most; fewer where they do not fit into memory.

    Raises:
        ModelError: the model is none of this machine's, or one answer alone does not fit into memory.
        UsageError: an answer is empty.
    """
    if not isinstance(model, Local):
        hint = "Take a folder, a hub name, a GGUF file or smollm2."
        raise ModelError(f"{model.name} tells no likelihoods of answers it is given.", hint=hint)
    found: dict[int, dict[int, Scored]] = {}
    for index, (question, candidates) in enumerate(asked):
        if not candidates:
            yield Likelihoods(question, model.encode(question).prompt, [])
        if not all(text.strip() for text in candidates):
            raise UsageError(f"An answer to {question.id} is empty.", hint="Leave it out.")
        found[index] = {}
    for row, logprob in _scored(model, _rows(model, asked), rows):
        question, candidates = asked[row.question]
        done = found[row.question]
        done[row.candidate] = Scored(candidates[row.candidate], logprob, len(row.tail))
        if len(done) == len(candidates):
            ordered = [done[at] for at in range(len(candidates))]
            yield Likelihoods(question, model.encode(question).prompt, ordered)


def shares(scored: Sequence[Scored], *, per_token: bool = False) -> list[float]:
    """Return the probability of each answer if it is one of these: they sum to one.

    >>> [round(share, 3) for share in shares([Scored("a", math.log(0.03), 1), Scored("b", math.log(0.01), 2)])]
    [0.75, 0.25]

    Args:
        scored: the answers to one question.
        per_token: weigh them by their length-normalised log-probabilities.
    """
    weights = [each.per_token if per_token else each.logprob for each in scored]
    most = max(weights, default=0.0)
    parts = [math.exp(weight - most) for weight in weights]
    return [part / sum(parts) for part in parts]


def _rows(model: Local, asked: Sequence[tuple[Question, Sequence[str]]]) -> list[_Row]:
    """Return what is scored, in batches' order: by length of what is shared, then by question."""
    rows = []
    for index, (question, candidates) in enumerate(asked):
        if model.is_seq2seq:
            shared, tails = tuple(model.encode(question).ids), model.prompting.answers(candidates)
        else:
            cut = model.prompting.continue_with(question, candidates)
            shared, tails = tuple(cut.shared), cut.tails
        rows += [_Row(index, at, shared, tail) for at, tail in enumerate(tails)]
    return sorted(rows, key=lambda row: (-len(row.shared), row.question, row.candidate))


def _scored(model: Local, rows: Sequence[_Row], size: int) -> Iterator[tuple[_Row, float]]:
    """Yield each row with its log-probability; after a batch that does not fit all are half as large."""
    for _, group in groupby(rows, key=lambda row: len(row.shared)):
        waiting = list(group)
        while waiting:
            batch = waiting[:size]
            logprobs = _try(model, batch)
            if logprobs is None:
                size = len(batch) // 2
                continue
            del waiting[: len(batch)]
            yield from zip(batch, logprobs, strict=True)


def _try(model: Local, batch: Sequence[_Row]) -> list[float] | None:
    torch = need("torch")
    try:
        with torch.inference_mode(), quiet():
            return _with_encoder(model, batch) if model.is_seq2seq else _after_prefix(model, batch)
    except RuntimeError as error:
        if not is_memory_error(error):
            raise
        if len(batch) == 1:
            raise ModelError(
                f"{model.name} does not fit into the memory of {model.model.device}.",
                hint="Take --dtype bfloat16, another device, or a smaller model.",
            ) from error
    torch.cuda.empty_cache()
    return None


def _after_prefix(model: Local, batch: Sequence[_Row]) -> list[float]:
    """Score tails behind prefixes of one length: the prefixes once, then every tail on a copy of its prefix's cache."""
    torch = need("torch")
    prefixes, places = _distinct(batch)
    parameters = inspect.signature(model.model.forward).parameters
    last = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
    name = "cache" if "cache" in parameters else "past_key_values"  # as transformers called it before 5.24
    first = model.model(_ids(model, prefixes), use_cache=True, **last)
    cache = first.get(name)
    if not hasattr(cache, "batch_select_indices"):
        return _whole(model, batch)
    start = first.logits[:, -1:].float()[places]  # (rows, 1, vocabulary)
    inputs, targets = _tails(model, batch)
    if inputs.shape[1] == 0:
        return _sums(start, targets)
    cache.batch_select_indices(torch.tensor(places, device=inputs.device))
    rest = model.model(inputs, use_cache=True, **{name: cache}).logits.float()
    return _sums(torch.cat([start, rest], dim=1), targets)


def _whole(model: Local, batch: Sequence[_Row]) -> list[float]:
    """Score rows as a whole, for models whose memory of a prefix cannot be copied."""
    inputs, targets = _tails(model, batch)
    prefixes = _ids(model, [row.shared for row in batch])
    both = need("torch").cat([prefixes, inputs], dim=1)
    logits = model.model(both, use_cache=False).logits[:, prefixes.shape[1] - 1 :].float()
    return _sums(logits, targets)


def _with_encoder(model: Local, batch: Sequence[_Row]) -> list[float]:
    """Score what a decoder says about texts that the encoder reads once each."""
    torch = need("torch")
    texts, places = _distinct(batch)
    read = model.model.get_encoder()(_ids(model, texts)).last_hidden_state[places]
    inputs, targets = _tails(model, batch)
    start = model.decoder_start()
    begin = torch.tensor([start] * len(batch), device=inputs.device)
    encoded = need("transformers").modeling_outputs.BaseModelOutput(last_hidden_state=read)
    output = model.model(encoder_outputs=encoded, decoder_input_ids=torch.cat([begin, inputs], dim=1), use_cache=False)
    return _sums(output.logits[:, len(start) - 1 :].float(), targets)


def _distinct(batch: Sequence[_Row]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the different prefixes of a batch, and for each row where its own stands."""
    order: Mapping[tuple[int, ...], int] = {
        prefix: at for at, prefix in enumerate(dict.fromkeys(row.shared for row in batch))
    }
    return list(order), [order[row.shared] for row in batch]


def _ids(model: Local, rows: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
    return need("torch").tensor([list(row) for row in rows], device=model.model.device)


def _tails(model: Local, batch: Sequence[_Row]) -> tuple[Any, Any]:
    """Return the tails but for their last tokens, to be read, and whole, to be scored: -1 where a row has ended.

    Padded behind, where no token of a row looks.
    """
    width = max(len(row.tail) for row in batch)
    read = [(row.tail + [model.pad()] * width)[: width - 1] for row in batch]
    scored = [(row.tail + [-1] * width)[:width] for row in batch]
    torch, device = need("torch"), model.model.device
    shape = (len(batch), width - 1)
    return torch.tensor(read, device=device, dtype=torch.long).reshape(shape), torch.tensor(scored, device=device)


def _sums(logits: Any, targets: Any) -> list[float]:  # noqa: ANN401
    """Return each row's sum of log-probabilities; logits are (rows, tokens, vocabulary), targets (rows, tokens)."""
    chosen = logits.gather(-1, targets.clamp_min(0).unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    found: list[float] = chosen.masked_fill(targets < 0, 0.0).sum(-1).tolist()
    return found
