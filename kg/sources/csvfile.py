"""CSV files with a header, read strictly."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from kg.errors import DataError

Line = tuple[int, dict[str, str]]
"""The number of a line in its file, and its cells by column, stripped of blanks around them."""


def read_lines(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the lines of a CSV file; columns stand in any order, a missing optional one reads as empty.

    Raises:
        DataError: the file is missing or is no CSV in UTF-8, a required column is missing, a column is unknown or
            stands twice, or a line is too short or too long.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            columns = next(reader, [])
            _check_header(path, columns, required, optional)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(columns):
                    raise DataError(f"{path}, line {reader.line_num}: {len(cells)} cells instead of {len(columns)}.")
                empty = dict.fromkeys(optional, "")
                yield reader.line_num, empty | {c: v.strip() for c, v in zip(columns, cells, strict=True)}
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
