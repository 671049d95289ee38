"""A run in parts: which questions the i-th of n processes asks, each in a run of its own until they are merged."""

import heapq
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dyknow.benchmark import Question
from kg.errors import UsageError


class Shard(NamedTuple):
    """The ``number``-th of ``of`` parts, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        """Return it as a command line has it: "2/4"."""
        return f"{self.number}/{self.of}"

    def run_id(self, whole: str) -> str:
        """Return the name of this part of a run; a name that has the ending already is left as it is.

        >>> Shard(2, 4).run_id("gpt2"), Shard(2, 4).run_id("gpt2.2-of-4")
        ('gpt2.2-of-4', 'gpt2.2-of-4')
        """
        return f"{self.whole_id(whole)}.{self.number}-of-{self.of}"

    def whole_id(self, part: str) -> str:
        """Return the name of the run that a run of this name is part of."""
        return part.removesuffix(f".{self.number}-of-{self.of}")

    def select(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions of this part, in the order given.

        All phrasings of a fact are in one part. Which one depends on the facts alone: not on their order, nor on what
        is answered. Fact by fact, in the order of their ids, each goes to the part with the fewest questions so far.

        Raises:
            UsageError: there are fewer facts than parts.
        """
        sizes = Counter(question.fact.id for question in questions)
        if len(sizes) < self.of:
            hint = f"Take {len(sizes)} parts at most."
            raise UsageError(f"{len(sizes)} facts do not make {self.of} parts.", hint=hint)
        parts = [(0, number) for number in range(1, self.of + 1)]
        mine = set()
        for fact in sorted(sizes):
            size, number = parts[0]
            heapq.heapreplace(parts, (size + sizes[fact], number))
            if number == self.number:
                mine.add(fact)
        return [question for question in questions if question.fact.id in mine]


def parse(text: str) -> Shard:
    """Return the shard that a text names.

    >>> parse("2/4")
    Shard(number=2, of=4)

    Raises:
        UsageError: it names none.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"{text!r} is no part.", hint="Write 1/4 for the first of four, up to 4/4.")
    return Shard(int(found[1]), int(found[2]))


def shard_of(info: Mapping[str, Any]) -> Shard | None:
    """Return which part of a run the record of a run says it is; None: it is none."""
    said = info.get("shard")
    return None if said is None else Shard(said["number"], said["of"])
