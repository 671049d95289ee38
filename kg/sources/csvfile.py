"""CSV files with a header, read strictly."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kg.errors import DataError

Line = tuple[int, dict[str, str]]
"""The number of the line in its file that a row begins on, and its cells by column, stripped of blanks around them."""


class Rows:
    """The rows of a CSV text, each with its cells by column, as `csv.DictReader` gives them.

    Cells that no column has a name for stand under None, and a column without a cell holds None.

    Attributes:
        columns: What the first line names; empty where there is none.
        line: On which line the latest row begins, or what was read when an error came up: a cell may go over several.
    """

    def __init__(self, text: Iterable[str], *, delimiter: str = ",", strict: bool = True) -> None:
        self._reader = csv.reader(text, delimiter=delimiter, strict=strict)
        self.line = 1
        self.columns = next(self._reader, [])

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        """Yield the rows that are not empty."""
        for cells in self.cells():
            row: dict[Any, Any] = dict.fromkeys(self.columns) | dict(zip(self.columns, cells, strict=False))
            if len(cells) > len(self.columns):
                row[None] = cells[len(self.columns) :]
            yield row

    def cells(self) -> Iterator[list[str]]:
        """Yield the cells of the rows that are not empty."""
        self.line = self._reader.line_num + 1
        for cells in self._reader:
            if cells:
                yield cells
            self.line = self._reader.line_num + 1


def read_lines(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the lines of a CSV file; columns stand in any order, a missing optional one reads as empty.

    Raises:
        DataError: the file is missing or is no CSV in UTF-8, a required column is missing, a column is unknown or
            stands twice, or a line is too short or too long.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = Rows(file)
            columns = rows.columns
            _check_header(path, columns, required, optional)
            for cells in rows.cells():
                if len(cells) != len(columns):
                    raise DataError(f"{path}, line {rows.line}: {len(cells)} cells instead of {len(columns)}.")
                empty = dict.fromkeys(optional, "")
                yield rows.line, empty | {c: v.strip() for c, v in zip(columns, cells, strict=True)}
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}.") from error
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise DataError(f"{path} cannot be read as a CSV table: {error}") from error


def _check_header(path: Path, columns: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> None:
    known = (*required, *optional)
    for column in columns:
        if column not in known:
            raise DataError(f"{path}, line 1: the column {column!r} is unknown.", hint=f"Columns: {', '.join(known)}.")
        if columns.count(column) > 1:
            raise DataError(f"{path}, line 1: the column {column!r} stands twice.")
    for column in required:
        if column not in columns:
            raise DataError(
                f"{path}, line 1: the column {column!r} is missing.", hint=f"It needs {', '.join(required)}."
            )
