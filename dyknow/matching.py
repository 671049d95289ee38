"""Matches texts by the million: fact by fact, so that its names are compiled once, and in several processes.

A batch of texts goes to a process together with the names of its facts, and comes back as matches; the rows have the
order of the pairs and are the same, however many processes there are.
"""

import gc
import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

from dyknow.candidates import Asked, Candidate
from dyknow.match import MATCHER_VERSION, PARAMETERS, match
from kg import processes
from kg.processes import Message, Work

_TEXT: Final = 5e-5
_SIGN: Final = 3e-7
_HOLDER: Final = 1e-4
"""Seconds that a text, a sign of it and the names of a holder take, roughly: only batches depend on it."""

_BATCH: Final = 0.05
"""Seconds of work that are handed to a process at once; so some 150,000 signs."""

_ALONE: Final = 40
"""Batches that are matched without other processes, which take half a second to start."""

_MOST: Final = 16
"""Processes at most: more are faster than one that hands out texts and takes in rows."""


class Pair(NamedTuple):
    """A response and the fact it answers, with the names it may be matched to."""

    response_digest: str
    prompt: str
    text: str
    asked: Asked


class Said(NamedTuple):
    """What a row says of a match, as one process tells it to another."""

    entity: str | None
    reason: str
    start: int
    end: int
    matched: str
    alias: str
    rule: str
    score: float


def match_rows(pairs: Iterable[Pair], workers: int | None = None) -> Generator[dict[str, Any], None, None]:
    """Yield the row of each pair's match, in the order of the pairs; few of either are in memory at once.

    Args:
        pairs: those of one fact had best stand together, lest its names be compiled anew for each.
        workers: how many processes match; None: this one, and when there is more work than for seconds, one a core.

    Raises:
        DyknowError: a process has ended before its time.
    """
    batches = _batches(pairs)
    for batch in islice(batches, _ALONE) if workers is None else ():
        yield from map(_matched, batch)
    count = min(processes.cores(), _MOST) if workers is None else workers
    first = next(batches, None)
    if first is None:
        return
    if count == 1:
        for batch in chain([first], batches):
            yield from map(_matched, batch)
    else:
        with closing(_spread(chain([first], batches), count)) as rows:
            yield from rows


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    batch: list[Pair] = []
    seconds, last = 0.0, None
    for pair in pairs:
        seconds += _TEXT + _SIGN * (len(pair.text) + len(pair.prompt))
        if pair.asked is not last:
            seconds, last = seconds + _HOLDER * len(pair.asked.candidates), pair.asked
        batch.append(pair)
        if seconds >= _BATCH:
            yield batch
            batch, seconds = [], 0.0
    if batch:
        yield batch


def _matched(pair: Pair) -> dict[str, Any]:
    asked = pair.asked
    said = _said(pair.text, pair.prompt, asked.candidates, asked.subject, asked.office)
    return _row(pair.response_digest, asked, said)


def _said(text: str, prompt: str, candidates: tuple[Candidate, ...], subject: str, office: str | None) -> Said:
    found = match(text, prompt, candidates, subject, office)
    return Said(found.entity, str(found.reason), *found[2:])


def _row(response: str, asked: Asked, said: Said) -> dict[str, Any]:
    return {
        "response_digest": response,
        "fact": asked.fact,
        "candidates_digest": asked.digest,
        "matcher_version": MATCHER_VERSION,
        "matcher_parameters": PARAMETERS,
        "entity": said.entity,
        "reason": said.reason,
        "span_start": said.start,
        "span_end": said.end,
        "matched": said.matched,
        "alias": said.alias,
        "match_rule": said.rule,
        "score": said.score,
    }


# Several processes


def _spread(batches: Iterable[list[Pair]], workers: int) -> Generator[dict[str, Any], None, None]:
    given: deque[list[tuple[str, Asked]]] = deque()

    def tasks() -> Iterator[Message]:
        for batch in batches:
            given.append([(pair.response_digest, pair.asked) for pair in batch])
            yield Message(None, _packed(batch))

    with closing(processes.spread(__name__, None, tasks(), workers, "matched answers")) as answers:
        for answer in answers:
            for (response, asked), said in zip(given.popleft(), pickle.loads(answer.body), strict=True):
                yield _row(response, asked, Said._make(said))


def _packed(batch: list[Pair]) -> bytes:
    """Pack a batch: by fact its names, and the texts. No JSON, which knows no half of a surrogate pair."""
    parts = []
    for _, own in groupby(batch, key=lambda pair: id(pair.asked)):
        pairs = list(own)
        asked = pairs[0].asked
        names = [tuple(candidate) for candidate in asked.candidates]
        parts.append((names, asked.subject, asked.office, [(pair.text, pair.prompt) for pair in pairs]))
    return pickle.dumps(parts)


def begin(_: object) -> Work:
    """Return what matches a batch: what a worker process runs."""
    gc.disable()  # nothing that is made here refers to itself
    last: tuple[Candidate, ...] = ()

    def work(task: Message) -> Message:
        nonlocal last
        found: list[tuple[Any, ...]] = []
        for names, subject, office, texts in pickle.loads(task.body):  # from the process that began this one
            candidates = tuple(map(Candidate._make, names))
            if candidates != last:  # the same ones are one and the same, whose names are at hand
                last = candidates
            found += [tuple(_said(text, prompt, last, subject, office)) for text, prompt in texts]
        return Message(None, pickle.dumps(found))

    return work
