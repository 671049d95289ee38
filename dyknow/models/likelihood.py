"""Which of several answers a model finds likely: what it believes where its own words wander.

Each answer is scored as the continuation of the question. The question is computed once and its keys and values are
shared by all its answers. Questions of like length go in one batch, and answers of one length in a part of it, so that
no answer is padded.
"""

import copy
import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
            del found[row.question]
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
    begin = 0
    while begin < len(rows):
        batch = rows[begin : begin + size]
        logprobs = _try(model, batch)
        if logprobs is None:
            size = len(batch) // 2
            continue
        begin += len(batch)
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
    """Score tails behind their prefixes: the prefixes once, then every tail on a copy of its prefix's cache."""
    torch = need("torch")
    parameters = inspect.signature(model.model.forward).parameters
    name = "cache" if "cache" in parameters else "past_key_values"  # as transformers called it before 5.24
    prefixes, places = _distinct(batch)
    ids, mask = _padded(model, prefixes, before=True)
    last = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
    first = model.model(ids, **_seen(parameters, mask, ids.shape[1]), use_cache=True, **last)
    cache = first.get(name)
    copied = hasattr(cache, "batch_select_indices")

    def logits(rows: list[int]) -> Any:  # noqa: ANN401
        own = [places[row] for row in rows]
        start = first.logits[:, -1:][own]  # (rows, 1, vocabulary)
        tails = [batch[row].tail[:-1] for row in rows]
        if not copied:
            return torch.cat([_whole(model, batch[row]) for row in rows])
        if not tails[0]:
            return start
        read = _ids(model, tails)
        memory = copy.deepcopy(cache)
        memory.batch_select_indices(torch.tensor(own, device=read.device))
        seen = _seen(parameters, torch.cat([mask[own], torch.ones_like(read)], dim=1), read.shape[1])
        rest = model.model(read, **seen, use_cache=True, **{name: memory}).logits
        return torch.cat([start, rest], dim=1)

    return _by_length(model, batch, logits)


def _seen(parameters: Collection[str], mask: Any, length: int) -> dict[str, Any]:  # noqa: ANN401
    """Return what tells a model which tokens are padding, and where in its text each of the last ``length`` stands."""
    places = (mask.cumsum(-1) - 1).clamp_min(0)[:, -length:]
    # Some families reckon distances from the mask itself.
    return {"attention_mask": mask} | ({"position_ids": places} if "position_ids" in parameters else {})


def _padded(model: Local, rows: Sequence[Sequence[int]], *, before: bool) -> tuple[Any, Any]:
    """Return rows of token ids made equally long, and the mask that says which are real."""
    width = max(len(row) for row in rows)
    ids, mask = [], []
    for row in rows:
        missing = width - len(row)
        padding, hidden = [model.pad()] * missing, [0] * missing
        ids.append([*padding, *row] if before else [*row, *padding])
        mask.append(hidden + [1] * len(row) if before else [1] * len(row) + hidden)
    return _ids(model, ids), _ids(model, mask)


def _whole(model: Local, row: _Row) -> Any:  # noqa: ANN401
    """Return the logits of a tail with nothing shared, for models whose memory of a prefix cannot be copied."""
    whole = _ids(model, [[*row.shared, *row.tail[:-1]]])
    return model.model(whole, use_cache=False).logits[:, len(row.shared) - 1 :]


def _with_encoder(model: Local, batch: Sequence[_Row]) -> list[float]:
    """Score what a decoder says about texts that the encoder reads once each."""
    texts, places = _distinct(batch)
    ids, mask = _padded(model, texts, before=False)
    read = model.model.get_encoder()(ids, attention_mask=mask).last_hidden_state
    start = model.decoder_start()
    output = need("transformers").modeling_outputs.BaseModelOutput

    def logits(rows: list[int]) -> Any:  # noqa: ANN401
        own = [places[row] for row in rows]
        tails = _ids(model, [start + batch[row].tail[:-1] for row in rows])
        found = model.model(
            encoder_outputs=output(last_hidden_state=read[own]),
            attention_mask=mask[own],
            decoder_input_ids=tails,
            use_cache=False,
        )
        return found.logits[:, len(start) - 1 :]

    return _by_length(model, batch, logits)


def _by_length(model: Local, batch: Sequence[_Row], logits: Callable[[list[int]], Any]) -> list[float]:
    """Return each row's sum of log-probabilities; tails of one length go together, so that none is padded."""
    found = [0.0] * len(batch)
    order = sorted(range(len(batch)), key=lambda row: len(batch[row].tail))
    for _, same in groupby(order, key=lambda row: len(batch[row].tail)):
        rows = list(same)
        scores = logits(rows).float()  # (rows, tokens, vocabulary)
        targets = _ids(model, [batch[row].tail for row in rows])
        chosen = scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)
        for row, total in zip(rows, chosen.sum(-1).tolist(), strict=True):
            found[row] = total
    return found


def _distinct(batch: Sequence[_Row]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the different prefixes of a batch, and for each row where its own stands."""
    order: Mapping[tuple[int, ...], int] = {
        prefix: at for at, prefix in enumerate(dict.fromkeys(row.shared for row in batch))
    }
    return list(order), [order[row.shared] for row in batch]


def _ids(model: Local, rows: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
    return need("torch").tensor([list(row) for row in rows], device=model.model.device)
