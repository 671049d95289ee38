"""Parquet: all that a snapshot says of statements and of subjects, found in it by SPARQL as well."""

import shlex
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

from kg import snapshot
from kg.dates import parse_time
from kg.errors import DataError, DyknowError, UsageError
from kg.sources import Row, Source, parquet, spark
from kg.sources.fetch import from_dump
from kg.sources.mirror import ABOUT_SUBJECTS
from kg.terms import DY, RDFS_LABEL, WD, WDT, WIKIBASE
from tests.conftest import REPO
from tests.test_dumps import array, entity, write

PROPERTIES = ("P6", "P35", "P39", "P54")
DAY = 20210614
SUBJECTS = f"SELECT DISTINCT ?node ?told ?value WHERE {{ ?fact <{DY}subject> ?node OPTIONAL {{ ?node ?told ?value }} }}"


def taken(dump: Path, folder: Path) -> tuple[Source, list[str]]:
    """Write what a dump says as Parquet, take its snapshot, and return the source and the snapshot's lines."""
    made = from_dump(dump, PROPERTIES, None, DAY, folder, workers=1, progress=lambda what, step: None)
    parquet.write(made, folder / "parquet")
    lines = snapshot.take(made, folder / "snapshots").read_statements().decode().splitlines()
    return made, lines


class Told(NamedTuple):
    """What is said of a subject."""

    label: tuple[str, str] | None
    sitelinks: int | None
    classes: frozenset[str]
    countries: frozenset[tuple[str, str | None]]
    citizenships: frozenset[tuple[str, str | None]]


def by_sparql(lines: list[str]) -> dict[str, Told]:
    """Return what a snapshot says of its subjects, as its triples have it."""
    store = ox.Store()
    store.load("\n".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    asked = store.query(SUBJECTS)
    assert isinstance(asked, ox.QuerySolutions)
    for node, told, value in asked:
        found[node.value.removeprefix(WD)][told.value].append(value)

    def label(node: ox.NamedNode) -> str | None:
        names = store.quads_for_pattern(node, ox.NamedNode(RDFS_LABEL), None)
        return next((quad.object.value for quad in names if isinstance(quad.object, ox.Literal)), None)

    def places(values: list[Any]) -> frozenset[tuple[str, str | None]]:
        return frozenset((value.value.removeprefix(WD), label(value)) for value in values)

    return {
        name: Told(
            next(((value.value, value.language) for value in own[RDFS_LABEL]), None),
            next((int(value.value) for value in own[f"{WIKIBASE}sitelinks"]), None),
            frozenset(value.value.removeprefix(WD) for value in own[f"{WDT}P31"]),
            places(own[f"{WDT}P17"]),
            places(own[f"{WDT}P27"]),
        )
        for name, own in found.items()
    }


def by_table(folder: Path) -> dict[str, Told]:
    """Return what the Parquet file of subjects says, as DuckDB reads it."""
    asked = f"SELECT * FROM read_parquet('{folder / parquet.SUBJECTS}/*.parquet')"
    with duckdb.connect() as connection:
        done = connection.execute(asked)
        names = [column[0] for column in done.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in done.fetchall()]
    assert [row["subject_id"] for row in found] == sorted(row["subject_id"] for row in found)
    return {
        row["subject_id"]: Told(
            (row["subject"], row["language"]) if row["language"] else None,
            row["sitelinks"],
            frozenset(row["classes"]),
            *(frozenset((one["id"], one["label"]) for one in row[name]) for name in ("countries", "citizenships")),
        )
        for row in found
    }


DUMPS = ["2018-09-slice.json.bz2", "2021-06-slice.json.gz", "short_stream.json.bz2"]


@pytest.mark.parametrize("name", DUMPS)
def test_the_tables_say_what_the_snapshot_of_a_real_dump_says(shared: Path, tmp_path: Path, name: str) -> None:
    made, lines = taken(shared / "wikidata" / "dumps" / name, tmp_path)
    folder = tmp_path / "parquet"
    expected = by_sparql(lines)
    assert by_table(folder) == expected
    assert sum(told.sitelinks is not None and bool(told.classes) for told in expected.values()) > 10
    rows = ds.dataset(folder, partitioning="hive").to_table().to_pylist()  # subjects are no part of it
    assert len(rows) == len(made.rows)
    assert {row["subject_id"] for row in rows} == expected.keys()
    about = pq.read_table(folder / parquet.SUBJECTS).to_pylist()
    told = {line for row in (*rows, *about) for line in row["triples"]}
    # Facts and bounds are ours, and what a property is stands in no table.
    assert told == {line for line in lines if "urn:dyknow:" not in line and not line.startswith(f"<{WD}P")}
    assert {row["subject_id"]: row["revision"] for row in about} == {
        key: one["revision"] for key, one in made.provenance["entities"].items() if key in expected
    }


@pytest.mark.spark
@pytest.mark.parametrize("name", DUMPS[:1])
def test_spark_reads_both_tables(shared: Path, tmp_path: Path, name: str) -> None:
    made, lines = taken(shared / "wikidata" / "dumps" / name, tmp_path)
    with spark.session("local[2]") as session:
        held = session.read.parquet(str(tmp_path / "parquet"))
        about = session.read.parquet(str(tmp_path / "parquet" / parquet.SUBJECTS))
        assert held.count() == len(made.rows)
        assert {row["property"] for row in held.select("property").distinct().collect()} == {"P35", "P6"}
        found = held.join(about, "subject_id").select("subject_id", "sitelinks").distinct().collect()
        expected = {name: told.sitelinks for name, told in by_sparql(lines).items()}
        assert {row["subject_id"]: row["sitelinks"] for row in found} == expected
        named = about.selectExpr("explode(countries.label) AS country").distinct().collect()
        assert {row["country"] for row in named} == {
            label for told in by_sparql(lines).values() for _, label in told.countries
        }


def test_labels_in_other_languages_and_subjects_of_which_nothing_is_said(tmp_path: Path) -> None:
    many = [entity("Q1", "P17", "P6", sitelinks={"enwiki": {}, "itwiki": {}}), entity("Q2", "P6")]
    many[1]["claims"]["P6"][0]["id"] = "Q2$1"
    many[1]["labels"] = {"it": {"language": "it", "value": 'Città "\\ 東'}}
    _, lines = taken(write(tmp_path, array(many)), tmp_path)
    found = by_table(tmp_path / "parquet")
    assert found == by_sparql(lines)
    assert found["Q1"] == Told(("The Q1", "en"), 2, frozenset(), frozenset({("Q1", "The Q1")}), frozenset())
    assert found["Q2"] == Told(('Città "\\ 東', "it"), None, *[frozenset()] * 3)


def test_the_columns_are_all_that_a_snapshot_keeps_of_subjects() -> None:
    assert {parquet._CLASS, *parquet._REGIONS.values()} == {f"<{WDT}{prop}>" for prop in ABOUT_SUBJECTS}


# Writing


def ours(count: int = 3) -> Source:
    rows = [Row("Italy", f"P{6 + n % 2}", "nobody", f"Q{count - n}", statement=f"s{n}") for n in range(count)]
    return Source(rows, "dump", "Some rows.")


def test_statements_are_sorted_and_parted_by_property(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    parquet.write(ours(20), Path())
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {f"there/{name}/part-0.parquet" for name in ("property=P6", "property=P7", "_subjects")}
    table = pq.read_table(tmp_path / "there" / "property=P6" / "part-0.parquet", partitioning=None)
    subjects = table["subject_id"].to_pylist()
    assert "property" not in table.column_names
    assert subjects == sorted(subjects)
    assert len(subjects) == 10


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(DataError, match=r"out cannot be written: .*No space left on device\.$"):
        parquet.write(ours(), tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError):
        parquet.write(ours(), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    parquet.ready(tmp_path / "absent")
    parquet.ready(tmp_path)
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError, match="is not an empty folder"):
            parquet.ready(place)


def test_without_pyarrow_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    with pytest.raises(DyknowError) as caught:
        parquet.ready(tmp_path)
    assert caught.value.message == "Parquet needs pyarrow, which is not installed."
    assert caught.value.hint == f"Install it: {shlex.quote(sys.executable)} -m pip install 'pyarrow>=18'"


def test_what_the_hints_install_is_the_extra() -> None:
    extra = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    assert extra == [parquet._PYARROW, f"pyspark>={spark._PYSPARK}"]


# The statements as a table


def test_a_statement_is_a_row_with_its_bounds_and_its_triples() -> None:
    start, end = parse_time("+2015-00-00T00:00:00Z", 9), parse_time("+2017-03-04T00:00:00Z")
    triples = (("<a>", "<b>", '"c"@en'), ("<a>", "<b>", "<d>"))
    row = Row("Italy", "P6", "Giuseppe Conte", "Q38", "Q3", start=start, end=end, statement="s", triples=triples)
    nobody = Row("Italy", "P6", None, "Q38", start_unknown=True)
    first, second = parquet.statements([row, nobody]).to_pylist()
    assert {key: value for key, value in first.items() if value is not None} == {
        **{"property": "P6", "subject": "Italy", "subject_id": "Q38", "holder": "Giuseppe Conte", "holder_id": "Q3"},
        **{"statement": "s", "rank": "normal", "holder_unknown": False, "start_unknown": False, "acting": False},
        **{
            "start": "+2015-00-00T00:00:00Z",
            "start_precision": 9,
            "start_earliest": 20150101,
            "start_latest": 20151231,
        },
        **{"end": "+2017-03-04T00:00:00Z", "end_precision": 11, "end_earliest": 20170304, "end_latest": 20170304},
        **{"end_kind": "open", "triples": ['<a> <b> "c"@en .', "<a> <b> <d> ."]},
    }
    assert (second["holder"], second["start"], second["start_unknown"], second["triples"]) == (None, None, True, [])
    assert parquet.statements([]).schema == parquet.statements([row]).schema


def test_bounds_of_any_age_have_room() -> None:
    row = Row("Earth", "P6", "nobody", start=parse_time("-13798000000-00-00T00:00:00Z", 3))
    assert parquet.statements([row])["start_earliest"].to_pylist()[0] < -(2**31)
