"""Writes the results as Parquet or CSV files, partitioned by run, for those who analyse in Spark, Trino or notebooks.

The folder is laid out as Hive has it: ``responses/run=gpt2-xl/data_0.parquet``, ``verdicts/as_of=2023-12-18/run=…``. It
is written beside and renamed, so that readers see the old export or the new one, whole.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import duckdb

from dyknow import catalogue, sparksql
from dyknow.parts import by_parts, parts
from dyknow.results import TABLES
from dyknow.resultsfile import run_sql
from kg.errors import DataError, UsageError
from kg.resources import query

Kind = Literal["parquet", "csv"]

MANIFEST: Final = "dyknow-export.json"
"""Says what the folder holds, and that the folder is an export of ours."""

ANSWERS_AT_ONCE: Final = 1_000_000
"""How many are sorted at once, with all that explains their verdicts."""

_VERDICTS: Final = "the verdict of every response as of the dates asked for, in as_of"
_OF_RUNS: Final = "WHERE $runs IS NULL OR list_contains(CAST($runs AS VARCHAR[]), run)"
_OF_THEIR_RESPONSES: Final = f"WHERE response_digest IN (SELECT r.response_digest FROM responses AS r {_OF_RUNS})"


class Wanted(NamedTuple):
    """What to write beside the tables, and of which runs."""

    runs: list[str] | None = None  # None: all
    days: tuple[str, ...] = ()  # dates, or "release"
    known_at: str | None = None
    judge: str = "match"
    rule: str = "latest"


def write(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    kind: Kind,
    wanted: Wanted | None = None,
    *,
    force: bool = False,
    keep: Iterable[Path] = (),
) -> list[Path]:
    """Write all tables and the verdicts asked for into a folder, replacing an earlier export, and return the files.

    Equal results give equal rows in equal order.

    Args:
        connection: An open results file; from now on it works with one thread, which keeps the order.
        folder: Where to.
        kind: The format.
        wanted: What to write; without it the tables of all runs.
        force: Replace a folder with other files in it, too.
        keep: Folders and files that are never replaced, whatever ``force`` says.

    Raises:
        UsageError: the folder holds files that no export wrote.
        DataError: it cannot be written.
        QueryError: there are no such verdicts.
    """
    folder = folder.absolute()
    check(folder, force, keep)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            new = Path(beside) / "new"
            new.mkdir()
            files = _Writer(connection, new, kind, wanted or Wanted()).write()
            _swap(new, folder, Path(beside) / "old")
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return [folder / file for file in files]


def check(folder: Path, force: bool = False, keep: Iterable[Path] = ()) -> None:
    """Make sure that a folder may be replaced: it is absent, empty, an export with nothing else in it, or forced.

    Raises:
        UsageError: it may not.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file.", hint="--out names a folder.")
    if inside := [path for path in keep if path.resolve().is_relative_to(folder.resolve())]:
        raise UsageError(
            f"{folder} holds {inside[0]}, which no export may replace.", hint="Give another one with --out."
        )
    foreign = _foreign(folder)
    if foreign and not force:
        raise UsageError(
            f"{folder} holds {foreign[0]}, which no export wrote.",
            hint="Give another folder with --out; --force replaces this one with all that is in it.",
        )


def _foreign(folder: Path) -> list[str]:
    """Return the files of a folder that its manifest does not name."""
    try:
        named = {*json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        named = set()
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(file for file in files if file not in named)


def _swap(new: Path, folder: Path, old: Path) -> None:
    """Put a folder in the place of another one, which is moved out of the way; undone where that fails."""
    there = folder.exists()
    if there:
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if there:
            old.rename(folder)
        raise


class _Writer:
    """Writes the files of one export."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path, kind: Kind, wanted: Wanted) -> None:
        self._connection, self._folder, self._kind, self._wanted = connection, folder, kind, wanted
        self._rows: dict[str, int] = {}
        self._of_runs = {table for table, column, *_ in catalogue.columns() if column == "run"}

    def write(self) -> list[str]:
        self._connection.execute("SET threads = 1")
        for table in TABLES:
            # A run is one row of runs: a folder for each would hold nothing to speak of.
            if table in self._of_runs - {"runs"}:
                self._partitioned(table, f"FROM {table} {_OF_RUNS} ORDER BY ALL", {}, ("run",))
                continue
            where = {"matches": _OF_THEIR_RESPONSES, "runs": _OF_RUNS}.get(table, "") if self._wanted.runs else ""
            self._table(table, f"FROM {table} {where} ORDER BY ALL", {"runs": self._wanted.runs} if where else {})
        for day in self._wanted.days:
            values = self._wanted._asdict() | {"as_of": day}
            del values["days"]
            self._partitioned("verdicts", query("dyknow/exported_verdicts.sql"), values, ("as_of", "run"))
        return self._about()

    def _partitioned(self, name: str, statement: str, values: Mapping[str, Any], by: Sequence[str]) -> None:
        """Write what a statement returns of each run into a folder of its own, some runs at a time."""

        def copied(runs: Sequence[str], by: Sequence[str] = by) -> int:
            run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE exported AS {statement}", {**values, "runs": runs})
            return self._copy(name, "exported", by)

        found = parts(self._connection, self._wanted.runs, ANSWERS_AT_ONCE)
        if not sum(by_parts(found, copied)):
            copied([], ())  # a file with the columns alone still tells what they are
        run_sql(self._connection, "DROP TABLE exported")

    def _table(self, name: str, statement: str, values: Mapping[str, Any]) -> None:
        """Write what a statement returns into one file of a table."""
        if not values:
            self._copy(name, f"({statement})")
            return
        run_sql(self._connection, f"CREATE OR REPLACE TEMP TABLE exported AS {statement}", values)
        self._copy(name, "exported")

    def _copy(self, name: str, source: str, partitions: Sequence[str] = ()) -> int:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        if partitions:
            options, target = f", PARTITION_BY ({', '.join(partitions)}), OVERWRITE_OR_IGNORE", folder
        else:
            options, target = "", folder / f"data_0.{self._kind}"
        header = ", HEADER" if self._kind == "csv" else ""
        copy = f"COPY (SELECT {self._selected(source)} FROM {source}) TO $target (FORMAT {self._kind}{header}{options})"
        [(count,)] = run_sql(self._connection, copy, {"target": str(target)}).rows
        self._rows[name] = self._rows.get(name, 0) + count
        return int(count)

    def _selected(self, source: str) -> str:
        """Return what to select: in CSV lists as JSON, which other readers know."""
        described = run_sql(self._connection, f"DESCRIBE FROM {source}").rows
        lists = [column for column, kind, *_ in described if kind.endswith("[]")] if self._kind == "csv" else []
        replaced = ", ".join(f"CAST(to_json({column}) AS VARCHAR) AS {column}" for column in lists)
        return f"* REPLACE ({replaced})" if replaced else "*"

    def _about(self) -> list[str]:
        """Write the manifest and a page that tells how to read the rest, and return all files."""
        if self._kind == "parquet":
            (self._folder / sparksql.NAME).write_text(sparksql.script(sorted(self._rows)), encoding="utf-8")
        files = sorted(path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file())
        files = sorted([*files, MANIFEST, "README.md"])
        meta = dict(run_sql(self._connection, "SELECT key, value FROM meta").rows)
        about = {
            "format": self._kind,
            "results": meta["fingerprint"],
            "snapshots": dict(
                run_sql(self._connection, "SELECT snapshot, digest FROM snapshots ORDER BY snapshot").rows
            ),
            **{key: value for key, value in self._wanted._asdict().items() if self._wanted.days or key == "runs"},
            "rows": self._rows,
            "files": files,
        }
        (self._folder / MANIFEST).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (self._folder / "README.md").write_text(_page(self._kind, self._rows), encoding="utf-8")
        return files


def _page(kind: Kind, rows: Mapping[str, int]) -> str:
    about = {**dict(catalogue.tables()), "verdicts": _VERDICTS}
    listed = "".join(f"| {name} | {count} | {about[name]} |\n" for name, count in rows.items())
    return f"""\
# Results of dyknow

Written by `dyknow export results`; {MANIFEST} says from what. Each folder is a table; those with a run are partitioned
by it as Hive has it (`run=NAME/`), so that readers find `run` in the names of folders. Days in integers are YYYYMMDD.

| table | rows | |
|---|---|---|
{listed}
{_READ[kind]}"""


_READ: Final[Mapping[Kind, str]] = {
    "parquet": """\
```sql
-- DuckDB
FROM read_parquet('responses/**/*.parquet', hive_partitioning = true, hive_types_autocast = false);
-- Trino, with the other columns before the partition's
CREATE TABLE responses (question varchar, text varchar, run varchar)
  WITH (format = 'PARQUET', external_location = 's3://…/responses', partitioned_by = ARRAY['run']);
CALL system.sync_partition_metadata('default', 'responses', 'ADD');
```

```python
pandas.read_parquet("responses")
pyarrow.dataset.dataset("responses", partitioning="hive").to_table()
spark.read.parquet("responses")  # spark.sql.sources.partitionColumnTypeInference.enabled=false keeps names text
```

Spark 4 computes the study's tables from these files by the statements that dyknow has for DuckDB; `spark.sql` makes
views of the folders and functions of the statements: table1, table2, table5, soft, verdicts, moments.

```sh
spark-sql -c spark.sql.catalogImplementation=in-memory -d dyknow.folder="$PWD" -i spark.sql \\
    -e "SELECT * FROM table1('2023-12-18')"
```
""",
    "csv": """\
An empty field is NULL, an empty text is `""`; lists are JSON.

```sql
-- DuckDB
FROM read_csv('responses/**/*.csv', hive_partitioning = true, hive_types_autocast = false);
```
""",
}
