"""Fits the result of any statement into the columns of a terminal, and says what was cut.

The study's tables know their columns and never lose one; what somebody asks in SQL may have thirty, with a model's
answers in them. Nothing here prints.
"""

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from dyknow.resultsfile import Table
from dyknow.tables import Format, as_csv, as_json, printable

ROWS: Final = 40
"""Rows that are shown where not all are asked for: ten runs in three domains and over all."""

_GAP: Final = 2
_NARROWEST: Final = 8  # columns of text below this say nothing; further ones are left out instead


class Fitted(NamedTuple):
    """A table as text, and one sentence for each way in which it is not whole."""

    text: str
    cuts: list[str]


def fit(table: Table, width: int | None = 80, rows: int | None = ROWS, *, bold: bool = False) -> Fitted:
    """Return a table as text: numbers right-aligned, text left-aligned, long cells cut with an ellipsis.

    Args:
        table: What a statement returned.
        width: Columns of the terminal; None shows every cell and column whole.
        rows: How many rows to show; None shows all.
        bold: Emphasise the names of the columns.
    """
    shown = table.rows if rows is None else table.rows[:rows]
    texts = [_column([row[place] for row in shown]) for place in range(len(table.columns))]
    heads = [printable(name) for name in table.columns]
    cells = [max(map(cell_len, column), default=0) for column in texts]
    right = [_numeric([row[place] for row in shown]) for place in range(len(texts))]
    wanted = [max(cell_len(head), own) for head, own in zip(heads, cells, strict=True)]
    # A number that is cut is another number: such a column may lose of its name alone.
    least = [own if number else min(full, _NARROWEST) for own, number, full in zip(cells, right, wanted, strict=True)]
    widths = wanted if width is None else _widths(wanted, least, width)
    head = _line(heads, widths, right)
    lines = [f"\x1b[1m{head}\x1b[0m" if bold else head]
    lines += [_line([column[place] for column in texts], widths, right) for place in range(len(shown))]
    cuts = _cuts(table, len(shown), heads[len(widths) :])
    if any(size < full for size, full in zip(widths, wanted, strict=False)):
        cuts.append("Longer cells are cut (…); --wide shows them whole.")
    return Fitted("".join(f"{line}\n" for line in lines), cuts)


def render(table: Table, form: Format) -> str:
    """Return a table whole, as JSON or CSV."""
    if form == "json":
        rows = [[plain(value) for value in row] for row in table.rows]
        return as_json([dict(zip(table.columns, row, strict=True)) for row in rows])
    return as_csv(table.columns, [[_field(value) for value in row] for row in table.rows])


def plain(value: object) -> object:
    """Return a value as JSON has it: days and moments as text, a number without a value as null.

    >>> plain(Decimal("1.50")), plain([date(2023, 12, 18)]), plain(float("nan"))
    (1.5, ['2023-12-18'], None)
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return value if value is None or isinstance(value, str | int) else str(value)


def _field(value: object) -> object:
    """Return a value as a field of CSV; lists and structures as JSON, which readers know."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(plain(value), ensure_ascii=False)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _cuts(table: Table, shown: int, left_out: Sequence[str]) -> list[str]:
    cuts = []
    if hidden := len(table.rows) - shown:
        cuts.append(f"{hidden} of {len(table.rows)} rows are not shown; --all shows them.")
    if left_out:
        named = ", ".join(left_out)
        cuts.append(f"{len(left_out)} of {len(table.columns)} columns are not shown ({named}); --wide shows them.")
    return cuts


# Cells


def _numeric(values: Sequence[object]) -> bool:
    told = [value for value in values if value is not None]
    return bool(told) and all(isinstance(one, int | float | Decimal) and not isinstance(one, bool) for one in told)


def _column(values: Sequence[object]) -> list[str]:
    """Return the cells of a column; its fractions all with the same number of decimals, so that points align."""
    fractions = [float(one) for one in values if isinstance(one, float | Decimal) and math.isfinite(one)]
    decimals = _decimals(fractions)
    return [_cell(value, decimals) for value in values]


def _decimals(values: Sequence[float]) -> int:
    """Return how many decimals a column needs: as many as it has, at most 4; of numbers above 10, 2.

    >>> _decimals([1.5, 2.0]), _decimals([100 / 3, 1.0]), _decimals([1 / 3])
    (1, 2, 4)
    """
    most = 2 if max(map(abs, values), default=0) >= 10 else 4
    return next((d for d in range(most) if all(abs(round(one, d) - one) < 1e-9 for one in values)), most)


def _cell(value: Any, decimals: int) -> str:  # noqa: ANN401 -- whatever a statement returns
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        small = value != 0 and abs(value) < 10**-decimals / 2
        return f"{value:.2g}" if small and math.isfinite(value) else f"{value:.{decimals}f}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_cell(one, 4) for one in value)}]"
    if isinstance(value, datetime | date | time):
        return str(value)
    return printable(str(value))


# Widths


def _widths(wanted: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return how wide to make the columns, from the first on as many as there is room for.

    >>> _widths([4, 30, 100], [4, 8, 8], 80), _widths([10, 70, 70], [8, 8, 8], 20)
    ([4, 30, 42], [9, 9])
    """
    count = len(wanted)
    while count > 1 and sum(one + _GAP for one in least[:count]) - _GAP > width:
        count -= 1
    return _share(wanted[:count], least[:count], width - _GAP * (count - 1))


def _share(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Give every column what it wants up to a common limit, the largest that fits, and what is left to the first."""
    limit = max(wanted, default=0)
    while limit > 1 and sum(max(low, min(one, limit)) for one, low in zip(wanted, least, strict=True)) > room:
        limit -= 1
    widths = [max(low, min(one, limit)) for one, low in zip(wanted, least, strict=True)]
    for place, one in enumerate(wanted):
        if widths[place] < one and sum(widths) < room:
            widths[place] += 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for cell, size, aligned in zip(cells, widths, right, strict=False):
        cut = cell if cell_len(cell) <= size else set_cell_size(cell, size - 1).rstrip() + "…"
        blanks = " " * (size - cell_len(cut))
        parts.append(blanks + cut if aligned else cut + blanks)
    return (" " * _GAP).join(parts).rstrip()
