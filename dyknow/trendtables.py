"""What stands under Table 1 where it is split by popularity: the trend of each run."""

from collections.abc import Sequence
from typing import Any

from dyknow.analysis import RELEASE, Scores
from dyknow.tables import LONG_COLUMNS, WIDTH, Listing, as_csv
from dyknow.titles import titles
from dyknow.trends import Trend, trend_row

_NOTE = """\
Per tenfold: points of facts up to date for each tenfold of sites (slope on
log10(1 + sites), 95 % interval by drawing facts anew). p: the trend test of
Cochran and Armitage. Difference: of the bins with 20 facts or more, the rate
of the most popular one less that of the least popular one.
"""


def trend_text(
    found: Sequence[Trend], scores: Scores, width: int = WIDTH, colour: bool = False, *, explained: bool = True
) -> str:
    """Return the trends to read, and what they are; nothing where no run knows how popular its facts are."""
    if not found:
        return ""
    names = titles(scores.table1, with_year=False)
    title = f"Trend of up to date with popularity  as of {'each ' * (scores.as_of == RELEASE)}{scores.as_of}"
    columns = ("model", "per tenfold", "p", "bins", "difference", "n")
    rows = [
        (
            names[one.run],
            _points(one.per_tenfold, one.per_tenfold_interval),
            _p(one.p),
            f"{one.low}, {one.high}" if one.low else "too few",
            _points(one.difference, one.difference_interval),
            one.n,
        )
        for one in found
    ]
    return Listing(columns, rows, title).text("table", width, colour) + (_NOTE if explained else "")


def _points(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "–"
    bounds = f" [{interval[0]:.1f}, {interval[1]:.1f}]" if interval else " (too few)"
    return f"{value:+.1f}{bounds}".replace("-", "\N{MINUS SIGN}")


def _p(p: float | None) -> str:
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def trend_csv(found: Sequence[Trend], scores: Scores, *, dated: bool = False) -> str:
    """Return trends as lines of the tables' long CSV, without its header; each with its day as there, if it has one."""
    lines: list[tuple[object, ...]] = []
    days = {moment.run: moment.day for moment in scores.moments}
    for one in found:
        row = trend_row(one)
        for measure, domain in (("per_tenfold", "all"), ("difference", f"{one.high} less {one.low}")):
            if row[measure] is not None:
                bounds = row[f"{measure}_interval"] or (None, None)
                line = ("trend", one.run, domain, f"up_to_date_{measure}", one.n, row[measure], *bounds)
                lines.append((days.get(one.run, scores.as_of), *line) if days or dated else line)
    return as_csv(LONG_COLUMNS, lines).partition("\n")[2]


def with_trends(tables: dict[str, Any], found: Sequence[Trend]) -> dict[str, Any]:
    """Return tables for JSON with the trends that belong to them; as they are where there are none."""
    return {**tables, "trend": [trend_row(one) for one in found]} if found else tables
