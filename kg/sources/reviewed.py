"""The reviewed tables: properties, posts, teams, and which histories of an edition are whole."""

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kg.errors import DataError
from kg.resources import table


class Team(NamedTuple):
    """What a team is."""

    team_class: str  # "club", "national" or "racing"
    instance_of: str  # the Q-id for its P31


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and cells of a CSV table whose header is ``columns``.

    Raises:
        DataError: the file is missing, is no UTF-8, has another header, or a row of another length.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = tuple(next(reader, ()))
            if header != columns:
                raise DataError(
                    f"{path}, line 1: the header is {','.join(header)!r}.", hint=f"It must be {','.join(columns)}"
                )
            for cells in reader:
                if len(cells) != len(columns):
                    raise DataError(f"{path}, line {reader.line_num}: {len(cells)} cells instead of {len(columns)}.")
                yield reader.line_num, dict(zip(columns, cells, strict=True))
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}.") from error
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise DataError(f"{path} cannot be read as a CSV table: {error}") from error


@cache
def property_labels() -> dict[str, str]:
    """Return the English label of each property that the reviewed tables use."""
    return {row["property"]: row["label"] for _, row in read_rows(table("properties.csv"), ("property", "label"))}


@cache
def posts() -> dict[tuple[str, str], str]:
    """Return the property of (subject, post); the subject ``*`` stands for every one."""
    rows = read_rows(table("posts.csv"), ("subject", "post", "property"))
    return {(row["subject"], row["post"]): row["property"] for _, row in rows}


@cache
def teams() -> dict[str, Team]:
    """Return class and P31 of each team by label."""
    rows = read_rows(table("teams.csv"), ("label", "class", "instance_of", "instance_of_label"))
    return {row["label"]: Team(row["class"], row["instance_of"]) for _, row in rows}


@cache
def extracts(edition: str) -> frozenset[tuple[str, str]]:
    """Return the facts, (subject, property), of which an edition holds only an extract."""
    columns = ("edition", "subject", "property", "earlier", "missing", "reason")
    rows = read_rows(table("extracts.csv"), columns)
    return frozenset((row["subject"], row["property"]) for _, row in rows if row["edition"] == edition)
