"""Spark: without it a sentence says what is missing; with it a dump gives the bytes that one machine gives."""

import bz2
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from kg.errors import DataError, DyknowError
from kg.snapshot import load
from kg.sources import spark
from kg.sources.dumplines import Wanted
from kg.sources.dumps import extract
from kg.sources.dumpsplits import Answer, Split, splits_of
from tests.test_dumps import WANTED, array, many, write

PROPERTIES = "P6,P35,P54,P39"


def dyknow(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def take(dump: Path, folder: Path, *words: str) -> Result:
    where = ("--date", "2021-06-14", "--property", PROPERTIES, "--snapshots", str(folder))
    return dyknow("snapshot", "take", str(dump), "--source", "dump", *where, *words)


# What is missing


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what puts a java there that tells its version so, and a pyspark."""

    def put(told: str) -> None:
        program = tmp_path / "jdk" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    pyspark(monkeypatch, "4.1.0")
    return put


def pyspark(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    module = None if version is None else ModuleType("pyspark")
    if module is not None:
        module.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)


def missing() -> DyknowError:
    with pytest.raises(DyknowError) as caught:
        spark.check()
    return caught.value


def test_without_pyspark_nothing_is_read_and_a_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark(monkeypatch, None)
    done = take(tmp_path / "is not even there", tmp_path, "--engine", "spark")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "Error: The engine spark needs pyspark, which is not installed.",
        f"Install it: {shlex.quote(sys.executable)} -m pip install 'pyspark>=4'",
    ]


def test_an_old_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark(monkeypatch, "3.5.1")
    assert missing().message == "The engine spark needs pyspark 4 or newer; this is 3.5.1."
    assert missing().hint == f"Get it: {shlex.quote(sys.executable)} -m pip install --upgrade 'pyspark>=4'"


def test_without_java_its_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark(monkeypatch, "4.0.0")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert (
        missing().message == f"Spark needs Java 17 or newer; there is no java in JAVA_HOME, which is {tmp_path}/gone."
    )
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing().message == "Spark needs Java 17 or newer; there is no java on the PATH, and JAVA_HOME is not set."
    assert "openjdk-17" in str(missing().hint)


@pytest.mark.parametrize(
    ("told", "version"), [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_392"', 8)]
)
def test_an_old_java_is_named(java: Callable[[str], None], tmp_path: Path, told: str, version: int) -> None:
    java(told)
    assert missing().message == f"Spark needs Java 17 or newer; {tmp_path}/jdk/bin/java is {version}."


def test_a_java_that_tells_nothing_is_named(java: Callable[[str], None], tmp_path: Path) -> None:
    java("what do you want")
    assert missing().message == f"{tmp_path}/jdk/bin/java does not tell its version."
    (tmp_path / "jdk/bin/java").write_text("no program")
    assert "cannot be run" in missing().message


@pytest.mark.parametrize("told", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19'])
def test_a_java_that_is_new_enough_will_do(java: Callable[[str], None], told: str) -> None:
    java(told)
    spark.check()


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "a master without Spark": (("--master", "yarn"), "--master belongs to --engine spark."),
    "Parquet without Spark": (("--parquet", "there"), "--parquet belongs to --engine spark."),
    "workers with Spark": (("--engine", "spark", "--workers", "2"), "--workers belongs to --engine processes."),
    "a table with Spark": (
        ("--engine", "spark", "--source", "table"),
        "--engine is about dumps, and the source is table.",
    ),
    "a table with workers": (
        ("--workers", "2", "--source", "table"),
        "--workers is about dumps, and the source is table.",
    ),
    "another engine": (("--engine", "flink"), "'flink' is not one of"),
}


@pytest.mark.parametrize("how", OPTIONS)
def test_options_that_cannot_be_meant_are_refused(tmp_path: Path, how: str) -> None:
    words, told = OPTIONS[how]
    done = take(tmp_path / "dump", tmp_path, *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_folder_with_something_in_it_is_no_place_for_parquet(java: Callable[[str], None], tmp_path: Path) -> None:
    java('openjdk version "17.0.15"')
    done = take(tmp_path / "dump", tmp_path, "--engine", "spark", "--parquet", str(tmp_path / "jdk"))
    assert done.exit_code == 2
    assert f"{tmp_path}/jdk exists and is not an empty folder." in done.stderr


# The driver's part, with tasks that run here


class Context:
    """Stands for Spark's context; tasks run when they are asked for."""

    defaultParallelism = 3

    def __init__(self, breaks: Exception | None = None) -> None:
        self.breaks = breaks
        self.waves: list[int] = []
        self.cancelled: list[str] = []

    def broadcast(self, value: object) -> SimpleNamespace:
        return SimpleNamespace(value=value, unpersist=lambda: None)

    def setJobGroup(self, group: str, about: str, interruptOnCancel: bool) -> None:
        pass

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)

    def parallelize(self, wave: list[Any], tasks: int) -> "Tasks":
        self.waves.append(tasks)
        return Tasks(self, [[split] for split in wave])


class Tasks:
    def __init__(self, context: Context, parts: list[list[Any]]) -> None:
        self.context, self.parts = context, parts

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterator[Answer]]) -> "Tasks":
        return Tasks(self.context, [list(work(part)) for part in self.parts])

    def collect(self) -> list[Any]:
        if self.context.breaks:
            raise self.context.breaks
        return [answer for part in self.parts for answer in part]


def fake(breaks: Exception | None = None) -> Any:  # noqa: ANN401 -- what pyspark's own types would be
    return SimpleNamespace(sparkContext=Context(breaks))


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "splits_of", lambda path, tasks: splits_of(path, tasks, least=4000, most=4000))


@pytest.mark.usefixtures("small_splits")
def test_waves_come_in_the_order_of_the_dump(tmp_path: Path) -> None:
    path, session = write(tmp_path, array(many(300))), fake()
    one = extract(path, WANTED, tmp_path / "one", workers=1)
    assert extract(path, WANTED, tmp_path / "two", reader=spark.reader(session)) == one
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != b""
    context = session.sparkContext
    assert sum(context.waves) == -(-path.stat().st_size // 4000) > 20
    assert set(context.waves[:-1]) == {3}
    assert len(context.cancelled) == 1


def test_waves_grow_with_the_cluster() -> None:
    splits = [Split(place, place + 1, "plain") for place in range(10)]
    cores = iter((2, 2, 4, 0, 8))
    assert [len(wave) for wave in spark._waves(splits, lambda: next(cores))] == [2, 2, 4, 1, 1]


@pytest.mark.usefixtures("small_splits")
def test_a_reading_that_is_given_up_stops_the_tasks(tmp_path: Path) -> None:
    path, session = write(tmp_path, array(many(300)).replace(b'"id":"Q20"', b'"id":"Q20"}\n"')), fake()
    with pytest.raises(DataError, match=r"is cut off|is not one entity"):
        extract(path, WANTED, tmp_path / "out", reader=spark.reader(session))
    assert len(session.sparkContext.waves) < 10
    assert len(session.sparkContext.cancelled) == 1


JAVA_ERROR = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
ModuleNotFoundError: No module named 'kg'
"""


def test_what_spark_says_becomes_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/bin/python")
    path = write(tmp_path, array(many(30)))
    with pytest.raises(DyknowError) as caught:
        extract(path, WANTED, tmp_path / "out", reader=spark.reader(fake(RuntimeError(JAVA_ERROR))))
    assert caught.value.message == f"Spark gave up reading {path}: No module named 'kg'."
    assert "Is dyknow installed where the tasks run, for /opt/bin/python?" in str(caught.value.hint)
    assert spark._first("nothing like it", "ValueError") == "ValueError."


# With Spark


DUMPS = ["2018-09-slice.json.bz2", "2021-06-slice.json.gz", "short_stream.json.bz2"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "master"), [*((name, "local[2]") for name in DUMPS), (DUMPS[0], "local-cluster[2,1,1024]")]
)
def test_spark_and_one_machine_give_the_same_snapshot(shared: Path, tmp_path: Path, name: str, master: str) -> None:
    dump, parquet = shared / "wikidata" / "dumps" / name, tmp_path / "parquet"
    words = ("--engine", "spark", "--master", master, "--parquet", str(parquet))
    for done in (take(dump, tmp_path / "one"), take(dump, tmp_path / "spark", *words)):
        assert done.exit_code == 0, done.stderr
    one, other = (tmp_path / engine / "2021-06-14" for engine in ("one", "spark"))
    for file in ("statements.nt.gz", "manifest.json"):
        assert (one / file).read_bytes() == (other / file).read_bytes()
    held = set(load(one).read_statements().decode().splitlines())
    assert len(held) > 100
    assert len(held) // 2 < len(triples(parquet)) == len(triples(parquet) & held)


def triples(folder: Path) -> set[str]:
    """Return the triples of all Parquet files in a folder."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables = [pq.read_table(path, columns=["triples"], partitioning=None) for path in folder.rglob("*.parquet")]
    return {line for table in tables for own in table["triples"].to_pylist() for line in own}


@pytest.mark.spark
def test_a_damaged_dump_is_refused_by_spark_in_the_same_words(tmp_path: Path) -> None:
    text = array(many(3000))
    for number, wrong in enumerate((text[:-200], text.replace(b'"id":"Q2100"', b'"id":"Q2100'))):
        path = tmp_path / f"{number}.bz2"
        path.write_bytes(bz2.compress(wrong, 1))
        one, other = take(path, tmp_path), take(path, tmp_path, "--engine", "spark", "--master", "local[2]")
        assert one.exit_code == other.exit_code == 1
        assert one.stderr.splitlines()[-2:] == other.stderr.splitlines()[-2:]


@pytest.mark.spark
def test_a_master_that_is_none_is_named(tmp_path: Path) -> None:
    done = take(write(tmp_path, array(many(30))), tmp_path, "--engine", "spark", "--master", "nowhere")
    assert done.exit_code == 1
    assert "Spark did not start with the master nowhere: " in done.stderr
    assert "spark://HOST:7077" in done.stderr


@pytest.mark.spark
def test_many_subjects_reach_the_tasks(tmp_path: Path) -> None:
    path = write(tmp_path, array(many(3000)), "bz2")
    wanted = Wanted(frozenset(("P6",)), frozenset(f"Q{number}" for number in range(5, 200_000, 5)))
    with spark.session("local[2]") as session:
        one = extract(path, wanted, tmp_path / "one", workers=1)
        assert extract(path, wanted, tmp_path / "two", reader=spark.reader(session)) == one
    lines = (tmp_path / "two").read_bytes().splitlines()
    assert (tmp_path / "one").read_bytes().splitlines() == lines
    assert [json.loads(text)["id"] for text in lines] == [f"Q{number}" for number in range(5, 3000, 5)]
