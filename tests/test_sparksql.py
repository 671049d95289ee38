"""The macros for Spark: rewritten word by word, and of the same rows where Spark runs them."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from click.testing import CliRunner

from dyknow import sparksql, tablefiles
from dyknow.cli import cli
from dyknow.results import TABLES
from kg.errors import QueryError
from kg.sources import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[1] / "examples" / "spark_table1.py"


@pytest.fixture(scope="module")
def exported(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "tables"
    with duckdb.connect(str(small / "results.duckdb"), read_only=True) as connection:
        tablefiles.write(connection, folder, "parquet", tablefiles.Wanted(days=("2023-12-18",)))
    return folder


def test_the_words_that_differ_are_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
-- A header, which says error( and day.
CREATE OR REPLACE MACRO late(day, sample := 0, rule := NULL) AS TABLE
SELECT r.day, r.day AS sample, 100.0 * r.n, CAST(rule AS VARCHAR) AS by_rule, 'in text day := error(1.0 it''s rule' AS said,
       CASE WHEN sample > 1 THEN error('many') END AS many
FROM other(day, rule := rule) AS r WHERE r.sample = sample;
"""
    monkeypatch.setattr(sparksql, "query", {"dyknow/late.sql": text}.__getitem__)
    assert sparksql.function("late") == """\
CREATE OR REPLACE TEMPORARY FUNCTION late(day STRING, sample INT DEFAULT 0, rule STRING DEFAULT NULL)
RETURNS TABLE
RETURN
SELECT r.day, r.day AS sample, 100.0D * r.n, CAST(late.rule AS STRING) AS by_rule, 'in text day := error(1.0 it''s rule' AS said,
       CASE WHEN late.sample > 1 THEN raise_error('many') END AS many
FROM other(late.day, rule => late.rule) AS r WHERE r.sample = late.sample"""  # fmt: skip


def test_a_view_is_no_macro() -> None:
    with pytest.raises(QueryError, match=r"terms\.sql is no macro"):
        sparksql.function("terms")


@pytest.mark.parametrize("name", sparksql.FUNCTIONS)
def test_no_word_of_duckdb_is_left(name: str) -> None:
    made = sparksql.function(name)
    assert not re.search(r":=|VARCHAR|MACRO|(?<!raise_)\berror\(|\[|EXCLUDE|QUALIFY", made)
    assert made.count("TEMPORARY FUNCTION") == 1
    asked = set(re.findall(r"(?:FROM|JOIN) (\w+)\(", made))
    assert asked <= {*sparksql.FUNCTIONS[: sparksql.FUNCTIONS.index(name)]}


def test_the_script_shows_every_table_of_an_export(exported: Path) -> None:
    statements = (exported / sparksql.NAME).read_text().removesuffix(";\n").split(";\n\n")
    views = [words.split()[5] for words in statements if "TEMPORARY VIEW" in words]
    assert views == sorted([*TABLES, "verdicts"])
    assert all(f"path '${{dyknow.folder}}/{view}'" in " ".join(statements) for view in views)
    assert statements[0].startswith("SET ")
    assert len(statements) == 1 + len(views) + len(sparksql.FUNCTIONS)


def test_a_script_is_part_of_parquet_alone(small: Path, exported: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(small / "results.duckdb"), read_only=True) as connection:
        files = tablefiles.write(connection, tmp_path / "csv", "csv")
        assert not [file for file in files if file.name == sparksql.NAME]
        assert exported / sparksql.NAME in tablefiles.write(connection, exported, "parquet")


# With Spark


@pytest.fixture(scope="module")
def session() -> Iterator["SparkSession"]:
    with spark.session("local[2]") as started:
        started.conf.set("spark.sql.shuffle.partitions", "2")
        yield started


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows in an order of their own, with averages as far as the order of adding leaves them alone."""
    plain = [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in found]
    return sorted(plain, key=repr)


CALLS = (
    "table1('2023-12-18')",
    "table1('release')",
    "table1('2025-11-30', rule := 'study', known_at := '2023-12-18', split := 'property')",
    "table1('2023-12-18', judge := 'published', sample := 1)",
    "table5('2023-12-18')",
    "table2('2025-11-30')",
    "soft('2023-12-18')",
    "verdicts('2023-12-18')",
)


def compare(session: "SparkSession", folder: Path, database: Path, calls: tuple[str, ...]) -> int:
    """See that Spark has of an export what DuckDB has of the database; return how many rows that is."""
    first = runpy.run_path(str(EXAMPLE))["table1"](session, str(folder), "2023-12-18")
    with duckdb.connect(str(database), read_only=True) as connection:
        assert rows(first.collect()) == rows(connection.execute("FROM table1('2023-12-18')").fetchall())
        count = 0
        for call in calls:
            expected = connection.execute(f"FROM {call}")
            names = [column[0] for column in expected.description or ()]
            frame = session.sql(f"SELECT * FROM {call.replace(':=', '=>')}")
            assert frame.columns == names, call
            theirs, ours = rows(frame.collect()), rows(expected.fetchall())
            assert theirs == ours, call
            count += len(ours)
    return count


@pytest.mark.spark
def test_spark_computes_the_tables_that_duckdb_computes(session: "SparkSession", small: Path, exported: Path) -> None:
    assert compare(session, exported, small / "results.duckdb", CALLS) > 100


@pytest.mark.spark
def test_spark_says_what_is_wrong_as_duckdb_does(session: "SparkSession", exported: Path) -> None:
    runpy.run_path(str(EXAMPLE))["table1"](session, str(exported), "2023-12-18")
    for call, told in (
        ("table1('2023-12-18', rule => 'mine')", "There is no rule mine."),
        ("table1('2023-12-18', known_at => '1999-01-01')", "There is no snapshot 1999-01-01."),
    ):
        with pytest.raises(Exception, match=re.escape(told)):
            session.sql(f"SELECT * FROM {call}").collect()


@pytest.mark.spark
def test_the_studys_table_1_is_the_same_in_spark(session: "SparkSession", shared: Path, tmp_path: Path) -> None:
    runs = ["--runs", str(tmp_path / "runs")]
    made = [*runs, "--database", str(tmp_path / "results.duckdb"), "--snapshots", str(tmp_path / "none")]
    for words in (
        ["import", str(shared / "published"), *runs],
        ["export", "results", "--out", str(tmp_path / "tables"), *made],
    ):
        done = CliRunner().invoke(cli, words, prog_name="dyknow")
        assert done.exit_code == 0, done.output
    assert compare(session, tmp_path / "tables", tmp_path / "results.duckdb", CALLS[:2]) >= 80
