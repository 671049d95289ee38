"""How facts are divided for a benchmark and in tables: by popularity, by property, by region.

Popularity is how many sites of the Wikimedia projects have a page on the subject (its sitelinks), in bins.
"""

import re
from collections.abc import Sequence
from typing import Final

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


def in_order(names: Sequence[str]) -> list[str]:
    """Return names of parts as a reader expects them: numbers by size, what is unknown last.

    >>> in_order(["unknown", "100+", "20-99 / P6", "5-19"])
    ['5-19', '20-99 / P6', '100+', 'unknown']
    """

    def key(name: str) -> tuple[bool, list[tuple[int, str]]]:
        words = [(int(word), "") if word.isdigit() else (-1, word) for word in re.findall(r"[0-9]+|[^0-9]+", name)]
        return name == UNKNOWN, words

    return sorted(names, key=key)
