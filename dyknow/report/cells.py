"""The cells of the tables as HTML; the page's script writes the very same when its slider moves."""

import html
from typing import Final

from dyknow.analysis import MUCH_OUTDATED, MUCH_UP_TO_DATE
from dyknow.report.rates import Inconsistent, Rate
from dyknow.tables import printable, whole
from dyknow.trends import Trend

RATES: Final = 4
"""Cells that a domain has in a table of rates: three shares and n."""


def esc(text: object) -> str:
    """Return a text safe inside HTML, on one line and without control characters."""
    return html.escape(printable(str(text)), quote=True)


def rate_cells(rate: Rate | None, marked: bool) -> list[str]:
    """Return the cells of a run in one domain: what they hold, without the cells themselves."""
    if rate is None:
        return [""] * RATES
    shares = (rate.up_to_date, rate.outdated, rate.irrelevant)
    marks = (
        "‡" if (rate.up_to_date or 0) > MUCH_UP_TO_DATE else "",
        "†" if (rate.outdated or 0) > MUCH_OUTDATED else "",
    )
    if not marked:
        marks = ("", "")
    elif marks[1]:  # as the study has it, one mark a cell of the table
        marks = ("", marks[1])
    parts = [
        f"{whole(share)}{mark}{_interval(bounds)}"
        for share, mark, bounds in zip(shares, (*marks, ""), rate.intervals, strict=True)
    ]
    parts[0] += _doubt(rate)
    return [*parts, str(rate.n)]


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"<small>{whole(bounds[0])}–{whole(bounds[1])}</small>"


def _doubt(rate: Rate) -> str:
    low, high = whole(rate.lower), whole(rate.upper)
    return "" if low == high else f"<small class=doubt>{low}…{high}</small>"


def trend_cells(trend: Trend | None) -> list[str]:
    """Return the cells of a trend: its slope with the interval, and p."""
    if trend is None or trend.per_tenfold is None or trend.p is None:
        return ["–", "–"]
    low_high = trend.per_tenfold_interval
    bounds = "" if low_high is None else f"<small>{_signed(low_high[0])} to {_signed(low_high[1])}</small>"
    return [_signed(trend.per_tenfold) + bounds, "&lt;0.001" if trend.p < 0.001 else f"{trend.p:.3f}"]


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def split_cells(row: Inconsistent) -> list[str]:
    """Return the cells of a row of Table 2."""
    if row.value is None:
        return ["–", str(row.n)]
    low_high = row.interval or (row.value, row.value)
    return [f"{row.value:.1f}<small>{whole(low_high[0])}–{whole(low_high[1])}</small>", str(row.n)]
