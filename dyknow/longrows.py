"""The study's tables one figure a row, as their CSV has them."""

from collections.abc import Sequence
from typing import NamedTuple

from dyknow.analysis import Scores


class LongRow(NamedTuple):
    """One figure and its interval; in per cent with one decimal, None where n is 0."""

    table: str
    run: str
    domain: str
    measure: str
    n: int
    value: float | None
    lower: float | None = None
    upper: float | None = None


def long_rows(scores: Scores) -> list[LongRow]:
    """Return the tables one figure a row, as the CSV output prints them."""
    found = []
    for name, table in (("1", scores.table1), ("5", scores.table5)):
        for row in table:
            for measure in ("up_to_date", "outdated", "irrelevant", "up_to_date_lower", "up_to_date_upper"):
                figures = _figures(getattr(row, measure), getattr(row, f"{measure}_interval"))
                found.append(LongRow(name, row.run, row.domain, measure, row.n, *figures))
    for own in scores.table2:
        found.append(LongRow("2", own.run, own.domain, "inconsistent", own.n, *_figures(own.value, own.interval)))
    return found


def _figures(value: float | None, interval: Sequence[float] | None) -> tuple[float | None, ...]:
    lower, upper = interval or (None, None)
    return _one_decimal(value), _one_decimal(lower), _one_decimal(upper)


def _one_decimal(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
