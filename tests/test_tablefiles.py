"""The results as files: what is read back, by DuckDB and by Arrow, is what the tables hold."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from dyknow import results, tablefiles
from dyknow.cli import cli
from dyknow.tablefiles import MANIFEST, Wanted

PARTITIONED = {"responses", "judgments", "likelihoods", "edits", "strata"}


@pytest.fixture(scope="module")
def connection(small: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(small / "results.duckdb"), read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def exported(connection: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "tables"
    tablefiles.write(connection, folder, "parquet", Wanted(days=("2023-12-18", "release")))
    return folder


def stored(connection: duckdb.DuckDBPyConnection, table: str) -> tuple[list[str], Counter[tuple[str, ...]]]:
    cursor = connection.execute(f"FROM {table}")
    return [column[0] for column in cursor.description or ()], tally(cursor.fetchall())


def tally(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(repr, row)) for row in rows)


@pytest.mark.parametrize("table", results.TABLES)
def test_parquet_holds_each_table_for_duckdb_and_for_arrow(
    connection: duckdb.DuckDBPyConnection, exported: Path, table: str
) -> None:
    columns, rows = stored(connection, table)
    assert rows
    chosen = ", ".join(f'"{name}"' for name in columns)
    read = duckdb.execute(
        f"SELECT {chosen} FROM read_parquet(?, hive_partitioning = true, hive_types_autocast = false)",
        [str(exported / table / "**" / "*.parquet")],
    )
    assert tally(read.fetchall()) == rows
    arrow = ds.dataset(exported / table, partitioning="hive").to_table().select(columns)
    assert tally([tuple(row[name] for name in columns) for row in arrow.to_pylist()]) == rows
    folders = {path.name for path in (exported / table).iterdir() if path.is_dir()}
    runs = {run for (run,) in connection.execute(f"SELECT DISTINCT run FROM {table}").fetchall()} if folders else set()
    assert folders == {f"run={run}" for run in runs}
    assert bool(folders) == (table in PARTITIONED)


def test_types_survive(exported: Path) -> None:
    def kinds(table: str) -> dict[str, str]:
        read = duckdb.execute("DESCRIBE FROM read_parquet(?)", [str(exported / table / "**" / "*.parquet")])
        return {name: kind for name, kind, *_ in read.fetchall()}

    assert kinds("edits")["paraphrases"] == "VARCHAR[]"
    assert kinds("runs")["released"] == "DATE"
    assert kinds("responses")["counted"] == "BOOLEAN"


@pytest.mark.parametrize("day", ["2023-12-18", "release"])
def test_verdicts_are_those_of_the_macro(connection: duckdb.DuckDBPyConnection, exported: Path, day: str) -> None:
    columns, rows = stored(connection, f"verdicts('{day}')")
    arrow = ds.dataset(exported / "verdicts", partitioning="hive").to_table(filter=ds.field("as_of") == day)
    assert tally([tuple(row[name] for name in columns) for row in arrow.to_pylist()]) == rows
    assert rows


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_equal_results_give_equal_files_in_equal_order(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, kind: tablefiles.Kind
) -> None:
    wanted = Wanted(days=("2023-12-18",))
    first = tablefiles.write(connection, tmp_path / "a", kind, wanted)
    second = tablefiles.write(connection, tmp_path / "b", kind, wanted)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert sorted(path for path in (tmp_path / "a").rglob("*") if path.is_file()) == sorted(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"], "nothing is left beside"


def test_csv_tells_null_from_an_empty_text_and_has_lists_as_json(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    tablefiles.write(connection, tmp_path / "csv", "csv")
    [empty] = connection.execute("SELECT count(*) FROM responses WHERE text = ''").fetchall()
    assert empty != (0,)
    read = duckdb.execute(
        "SELECT run, question, sample, text, status FROM read_csv(?, hive_partitioning = true, all_varchar = true,"
        " hive_types_autocast = false, allow_quoted_nulls = false, quote = '\"', escape = '\"', new_line = '\\n')",
        [str(tmp_path / "csv" / "responses" / "**" / "*.csv")],
    ).fetchall()
    expected = connection.execute(
        "SELECT run, question, CAST(sample AS VARCHAR), text, status FROM responses"
    ).fetchall()
    assert tally(read) == tally(expected)
    [(paraphrases,), *_] = duckdb.execute(
        "SELECT paraphrases FROM read_csv(?, all_varchar = true) ORDER BY 1",
        [str(tmp_path / "csv" / "edits" / "**" / "*.csv")],
    ).fetchall()
    assert json.loads(paraphrases) == ["Q11571/P54#2", "Q11571/P54#3"]


def test_only_the_runs_asked_for(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    tablefiles.write(connection, tmp_path / "one", "parquet", Wanted(["base"], ("2023-12-18",)))
    for table in ("responses", "verdicts", "runs"):
        read = duckdb.execute(
            "SELECT DISTINCT run FROM read_parquet(?, hive_partitioning = true)",
            [str(tmp_path / "one" / table / "**" / "*.parquet")],
        )
        assert read.fetchall() == [("base",)], table
    edits = duckdb.execute("DESCRIBE FROM read_parquet(?)", [str(tmp_path / "one" / "edits" / "*.parquet")]).fetchall()
    assert "run" in [name for name, *_ in edits], "a table without rows still has its columns"
    digests = duckdb.execute("SELECT DISTINCT response_digest FROM read_parquet(?)", [str(tmp_path / "one/matches/*")])
    assert set(digests.fetchall()) <= set(
        connection.execute("SELECT response_digest FROM responses WHERE run = 'base'").fetchall()
    )
    about = json.loads((tmp_path / "one" / MANIFEST).read_text(encoding="utf-8"))
    assert (about["runs"], about["rows"]["responses"], about["rows"]["edits"]) == (["base"], 6, 0)


# What may be replaced


@pytest.fixture
def here(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(small)
    return small


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, ["export", "results", *words], prog_name="dyknow")


def test_an_earlier_export_is_replaced_and_nothing_else_without_force(here: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "tables"
    first = call("--out", str(out), "--as-of", "2023-12-18", "--as-of", "2023-12-18")
    assert (first.exit_code, first.stdout) == (0, f"{out}\n"), first.output
    assert (out / "verdicts" / "as_of=2023-12-18" / "run=several").is_dir()
    assert call("--out", str(out), "--format", "csv").exit_code == 0
    assert not (out / "verdicts").exists()
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    refused = call("--out", str(out))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "notes.txt" in refused.stderr
    assert "--force" in refused.stderr
    assert (out / "runs" / "data_0.csv").is_file()
    assert call("--out", str(out), "--force").exit_code == 0
    assert not (out / "notes.txt").exists()
    assert [path.name for path in out.parent.iterdir()] == ["tables"]


def test_what_the_results_are_made_of_is_never_replaced(here: Path, tmp_path: Path) -> None:
    for folder in (".", "..", "runs"):
        refused = call("--out", folder, "--force")
        assert refused.exit_code == 2, folder
        assert "no export may replace" in refused.stderr
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "is a file" in call("--out", str(tmp_path / "file"), "--force").stderr
    assert (here / "runs" / "base" / "run.json").is_file()


def test_an_unknown_judge_or_run_leaves_what_is_there(here: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    assert call("--out", str(out)).exit_code == 0
    before = sorted(path for path in out.rglob("*"))
    assert call("--out", str(out), "--as-of", "2024-06-01", "--judge", "published").exit_code == 1
    assert "Did you mean 'base'?" in call("--out", str(out), "--run", "bas").stderr
    assert sorted(path for path in out.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]
