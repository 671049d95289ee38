"""How facts are divided for a benchmark and in tables: by popularity, by property, by region.

Popularity is how many sites of the Wikimedia projects have a page on the subject (its sitelinks), in bins.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar

from kg.errors import UsageError

EDGES: Final = (1, 5, 20, 100)
"""The first count of sitelinks of each bin but the lowest."""

UNKNOWN: Final = "unknown"
"""The part of what nothing is known of, such as the popularity of a subject in a snapshot without sitelinks."""

PARTS: Final = ("popularity", "property", "region", "stratum")
"""What tables can be split by beside the domain. A stratum is what the benchmark was drawn by."""


def popularity_bin(sitelinks: int | None, edges: Sequence[int] = EDGES) -> str:
    """Return the bin of a number of sitelinks.

    >>> [popularity_bin(count) for count in (0, 1, 19, 20, 250, None)]
    ['0', '1-4', '5-19', '20-99', '100+', 'unknown']
    """
    if sitelinks is None:
        return UNKNOWN
    first = max((edge for edge in edges if edge <= sitelinks), default=0)
    last = min((edge for edge in edges if edge > sitelinks), default=None)
    if last is None:
        return f"{first}+"
    return str(first) if last == first + 1 else f"{first}-{last - 1}"


def edges_of(text: str) -> tuple[int, ...]:
    """Return the edges of bins as a user lists them, "1,5,20,100".

    Raises:
        UsageError: they are no whole numbers from 1 on, each greater than the one before.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", part) for part in parts):
        raise UsageError(f"{text!r} are no edges of bins.", hint="Give whole numbers from 1 on, as in 1,5,20,100.")
    edges = tuple(map(int, parts))
    if list(edges) != sorted(set(edges)):
        raise UsageError(f"The edges {text} do not rise.", hint="Give each once, the smallest first: 1,5,20,100.")
    return edges


def stratum_name(parts: Sequence[str]) -> str:
    """Return the name of a stratum.

    >>> stratum_name(["20-99", "P6"])
    '20-99 / P6'
    """
    return " / ".join(parts)


def checked(split: str) -> str:
    """Return what tables are to be split by: the domain or one of ``PARTS``.

    Raises:
        UsageError: it is neither.
    """
    if split not in ("domain", *PARTS):
        raise UsageError(f"Tables are not split by {split!r}.", hint=f"By domain, {', '.join(PARTS)}.")
    return split


def in_order(names: Sequence[str]) -> list[str]:
    """Return names of parts as a reader expects them: numbers by size, what is unknown last.

    >>> in_order(["unknown", "100+", "20-99 / P6", "5-19"])
    ['5-19', '20-99 / P6', '100+', 'unknown']
    """

    def key(name: str) -> tuple[bool, list[tuple[int, str]]]:
        words = [(int(word), "") if word.isdigit() else (-1, word) for word in re.findall(r"[0-9]+|[^0-9]+", name)]
        return name == UNKNOWN, words

    return sorted(names, key=key)


class OfRun(Protocol):
    """A row of a table: of a run and a domain or another part of its facts, or "all"."""

    @property
    def run(self) -> str: ...  # noqa: D102
    @property
    def domain(self) -> str: ...  # noqa: D102


Row = TypeVar("Row", bound=OfRun)


def arranged(rows: Iterable[Row]) -> list[Row]:
    """Return rows with the runs in their order, of each all facts first and then its parts as a reader expects them."""
    found: list[Row] = []
    for _, own in groupby(rows, key=lambda row: row.run):
        by_part = {row.domain: row for row in own}
        found += [by_part.pop("all")] if "all" in by_part else []
        found += [by_part[name] for name in in_order(list(by_part))]
    return found
