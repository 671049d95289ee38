"""Matches texts by the million: those of one fact together, so that its names are compiled once."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dyknow.candidates import Asked
from dyknow.match import MATCHER_VERSION, PARAMETERS, match


class Pair(NamedTuple):
    """A response and the fact it answers, with the names it may be matched to."""

    response_digest: str
    prompt: str
    text: str
    asked: Asked


def match_rows(pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    """Yield the row of each pair's match, in the order of the pairs; those of one fact had best stand together."""
    return map(_row, pairs)


def _row(pair: Pair) -> dict[str, Any]:
    asked = pair.asked
    found = match(pair.text, pair.prompt, asked.candidates, asked.subject, asked.office)
    return {
        "response_digest": pair.response_digest,
        "fact": asked.fact,
        "candidates_digest": asked.digest,
        "matcher_version": MATCHER_VERSION,
        "matcher_parameters": PARAMETERS,
        "entity": found.entity,
        "reason": str(found.reason),
        "span_start": found.start,
        "span_end": found.end,
        "matched": found.matched,
        "alias": found.alias,
        "match_rule": found.rule,
        "score": found.score,
    }
