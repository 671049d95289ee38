"""A benchmark's facts as a Parquet table, one a row, read and written by DuckDB.

The columns are the keys of a TOML benchmark's facts and groups; each row carries its group's phrasings, which the file
holds once. The benchmark's name stands in the file's metadata, under the key "name".
"""

import io
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from kg.errors import DataError

COLUMNS: Final = {
    "group": "VARCHAR",
    "domain": "VARCHAR",
    "property": "VARCHAR",
    "asks": "VARCHAR",
    "subject": "VARCHAR",
    "entity": "VARCHAR",
    "office": "VARCHAR",
    "mention": "VARCHAR",
    "confidence": "VARCHAR",
    "sitelinks": "INTEGER",
    "popularity": "VARCHAR",
    "region": "VARCHAR",
    "stratum": "VARCHAR",
    "phrasings": "MAP(VARCHAR, VARCHAR)",
}
"""The columns and their types; those that are not required may be absent or NULL."""

REQUIRED: Final = ("group", "domain", "property", "subject", "phrasings")

FACT_COLUMNS: Final = tuple(name for name in COLUMNS if name not in ("domain", "asks", "phrasings"))
"""What differs from fact to fact; the rest is said of a group."""

_HINT: Final = "Columns: " + ", ".join(COLUMNS) + "."
_AGAIN: Final = "Copy it again, or draw it again: dyknow benchmark generate --help"
_MAGIC: Final = b"PAR1"


class Group(NamedTuple):
    """What a table says of one of its groups."""

    name: str
    domain: str
    asks: str | None
    phrasings: dict[str, str]


class FactTable(NamedTuple):
    """A table as it was read."""

    name: str
    groups: list[Group]  # in the order of their first facts
    rows: list[tuple[Any, ...]]  # of FACT_COLUMNS, in the file's order


def is_parquet(path: Path) -> bool:
    """Tell whether a file is a Parquet table, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read(path: Path) -> FactTable:
    """Return the facts of a Parquet table.

    Raises:
        DataError: it is no Parquet table, or damaged; has a column that no benchmark has, lacks one, or holds another
            type in it; or the facts of a group differ in domain or phrasings.
    """
    import duckdb  # noqa: PLC0415 -- a TOML file needs no database

    _check_whole(path)
    source = "FROM read_parquet($path)"
    with duckdb.connect() as connection:

        def rows(statement: str) -> list[tuple[Any, ...]]:
            try:
                return connection.execute(statement, {"path": str(path)}).fetchall()
            except duckdb.Error as error:
                raise DataError(f"{path} is damaged: what it holds cannot be read.", hint=_AGAIN) from error

        have = {str(name): str(kind) for name, kind, *_ in rows(f"DESCRIBE SELECT * {source}")}
        _check_columns(path, have)
        if "sitelinks" in have:
            for number, value in rows(f"SELECT file_row_number + 1, sitelinks {source} WHERE {_NO_COUNT} LIMIT 1"):
                message = f"{path}, row {number}: 'sitelinks' is {value!r}, which is no whole number from 0 on."
                raise DataError(message, hint="Leave it empty where it is not known.")
        groups = rows(
            f'SELECT "group", domain, {"asks" if "asks" in have else "NULL"}, phrasings {source}'
            " GROUP BY ALL ORDER BY min(file_row_number)"
        )
        facts = rows(f"SELECT {', '.join(_column(name, have) for name in FACT_COLUMNS)} {source}")
        named = rows("SELECT value FROM parquet_kv_metadata($path) WHERE key = 'name'::BLOB")
    found = [Group(*group) for group in groups]
    _check_groups(path, found)
    return FactTable(named[0][0].decode() if named else path.stem, found, facts)


_NO_COUNT: Final = """sitelinks IS NOT NULL AND (coalesce(TRY_CAST(sitelinks AS INTEGER), -1) < 0
  OR TRY_CAST(sitelinks AS DOUBLE) <> TRY_CAST(sitelinks AS INTEGER))"""
"""Where a number of sitelinks is none, in SQL."""


def _check_whole(path: Path) -> None:
    """Refuse a file that does not begin and end as a Parquet table does."""
    try:
        with path.open("rb") as file:
            first, size = file.read(len(_MAGIC)), file.seek(0, io.SEEK_END)
            file.seek(max(0, size - len(_MAGIC)))
            last = file.read()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if first != _MAGIC:
        hint = "A benchmark is TOML, or a Parquet table as dyknow benchmark generate writes it."
        raise DataError(f"{path} is no Parquet table.", hint=hint)
    if last != _MAGIC or size < 3 * len(_MAGIC):
        raise DataError(f"{path} is cut off: it does not end as a Parquet table does.", hint=_AGAIN)


def _column(name: str, have: Mapping[str, str]) -> str:
    return f'CAST("{name}" AS {COLUMNS[name]})' if name in have else "NULL"


def _check_columns(path: Path, have: Mapping[str, str]) -> None:
    for name in have:
        if name not in COLUMNS:
            raise DataError(f"{path} has the column {name!r}, which no benchmark has.", hint=_HINT)
    for name in REQUIRED:
        if name not in have:
            raise DataError(f"{path} has no column {name!r}.", hint=_HINT)
    if not have["phrasings"].startswith(("MAP(VARCHAR, VARCHAR)", "STRUCT(")):
        message = f"{path}: the column 'phrasings' is of type {have['phrasings']}, and a map of texts is wanted."
        raise DataError(message, hint="It maps the name of a phrasing to its text, as 1 to `The {subject} is led by`.")


def _check_groups(path: Path, groups: list[Group]) -> None:
    seen = set()
    for group in groups:
        if None in (group.name, group.domain, group.phrasings):
            raise DataError(f"{path} has a fact without group, domain or phrasings.", hint="None of them may be NULL.")
        for key, text in group.phrasings.items():
            if not isinstance(text, str):
                raise DataError(f"{path}: the phrasing {key!r} of the group {group.name!r} is {text!r}, no text.")
        if group.name in seen:
            raise DataError(
                f"{path}: the facts of the group {group.name!r} differ in domain, asks or phrasings.",
                hint="Give each other wording a group of its own.",
            )
        seen.add(group.name)


def write(path: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write facts, mappings of COLUMNS, as a Parquet table; a file of that name is replaced when all is written.

    Equal rows give equal bytes with the same version of DuckDB.

    Raises:
        DataError: the file cannot be written.
    """
    import duckdb  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="dyknow-") as folder, duckdb.connect() as connection:
        lines, beside = Path(folder) / "facts.jsonl", path.with_name(f".{path.name}.part")
        with lines.open("wb") as file:
            for row in rows:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        connection.execute("SET threads = 1")  # what several write stands in another order each time
        try:
            connection.execute(
                f"COPY (SELECT * FROM read_json($lines, format = 'newline_delimited', columns = {COLUMNS!r}))"
                " TO $target (FORMAT parquet, COMPRESSION zstd, KV_METADATA {name: $name})",
                {"lines": str(lines), "target": str(beside), "name": name},
            )
            beside.replace(path)
        except (duckdb.Error, OSError) as error:
            raise DataError(f"{path} cannot be written: {error}.") from error
        finally:
            beside.unlink(missing_ok=True)
