"""Sources: fact tables anyone can write, and the two published files."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kg.errors import DataError
from kg.sources import Row, published, table
from kg.sources.reviewed import extracts, posts, property_labels, teams
from kg.terms import EndKind

REPO = Path(__file__).resolve().parents[1]
HEADER = "subject,property,holder,start,end"


def write(folder: Path, text: str, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def fact(row: Row) -> tuple[str, str]:
    return row.subject, row.property


def one(folder: Path, line: str, header: str = HEADER) -> Row:
    [row] = table.read(write(folder, f"{header}\n{line}\n")).rows
    return row


def test_the_example_table_is_read() -> None:
    source = table.read(REPO / "examples" / "facts.csv")
    assert len(source.rows) == 16
    [ballmer] = [row for row in source.rows if row.holder == "Steve Ballmer"]
    assert ballmer.start is not None and ballmer.start.span == (20000101, 20000131)
    [portugal] = [row for row in source.rows if row.holder and row.holder.startswith("Portugal")]
    assert (portugal.team_class, portugal.instance_of, portugal.end_kind) == ("national", "Q6979593", EndKind.OPEN)


DATES = [
    ("2015", (20150101, 20151231)),
    ("2015-03", (20150301, 20150331)),
    ("2015-03-04", (20150304, 20150304)),
    ("+1900-00-00T00:00:00Z/7", (18010101, 19991231)),
    ("-0044-03-15T00:00:00Z/11", (-429685, -429685)),
]


@pytest.mark.parametrize(("text", "span"), DATES)
def test_a_date_is_as_precise_as_it_is_written(tmp_path: Path, text: str, span: tuple[int, int]) -> None:
    row = one(tmp_path, f"Italy,P35,Somebody,{text},{text}")
    assert row.start is not None and row.start.span == span
    assert row.end is not None and row.end.span == span


def test_ends_and_holders_that_are_none(tmp_path: Path) -> None:
    row = one(tmp_path, "Mali,P6,no value,2019-04-18,no value")
    assert (row.holder, row.end_kind, row.end) == (None, EndKind.NO_VALUE, None)
    row = one(tmp_path, "Mali,P6,unknown value,unknown value,unknown value")
    assert (row.holder, row.holder_unknown, row.start_unknown, row.end_kind) == (None, True, True, EndKind.UNKNOWN)


def test_names_go_through_unharmed(tmp_path: Path) -> None:
    row = one(tmp_path, '"A ""b"" {c} > d\ne\\",P35,"x|y, \'z\'",2015,')
    assert (row.subject, row.holder) == ('A "b" {c} > d\ne\\', "x|y, 'z'")


def test_columns_stand_in_any_order(tmp_path: Path) -> None:
    row = one(tmp_path, "extract,,2015,Somebody,P35,Italy,a | b", "history,end,start,holder,property,subject,aliases")
    assert (row.subject, row.holder, row.whole, row.aliases) == ("Italy", "Somebody", False, ("a", "b"))


WRONG = [
    ("Italy,P35,Somebody,2015-2,", "line 2: the start '2015-2' is not a date"),
    ("Italy,P35,Somebody,2015-00,", "line 2: the start '2015-00' is not a date"),
    ("Italy,P35,Somebody,2015-02-30,", "line 2: '.2015-02-30T00:00:00Z' is no day"),
    ("Italy,P35,Somebody,,soon", "line 2: the end 'soon' is not a date"),
    ("Italy,P35,Somebody,no value,", "line 2: the start 'no value' is not a date"),
    ("Italy,35,Somebody,2015,", "line 2: the property '35' is not like P35"),
    ("Italy,P35,,2015,", "line 2: the holder is empty"),
    ("Italy,P35,Somebody,2015", "line 2: 4 cells instead of 5"),
    ('Italy,P35,"Some"body,2015,', "cannot be read as a CSV table"),
    ("", "has no statements"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_an_error_names_file_line_and_value(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        table.read(write(tmp_path, f"{HEADER}\n{line}\n"))
    assert "facts.csv" in error.value.message


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("subject,property,holder,start", "the column 'end' is missing"),
        (HEADER + ",offfice", "the column 'offfice' is unknown"),
        (HEADER + ",end", "the column 'end' stands twice"),
    ],
)
def test_a_wrong_header_is_named(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table.read(write(tmp_path, header + "\n"))


def test_a_missing_file_and_other_encodings_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        table.read(tmp_path / "absent.csv")
    (tmp_path / "latin.csv").write_bytes(f"{HEADER}\nIt\xe1ly,P35,x,,\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.csv"):
        table.read(tmp_path / "latin.csv")


# ------------------------------------------------------------------------------------------------ published


def edition(folder: Path, answers: Sequence[object], post: str = "President of Italy", subject: str = "Italy") -> Path:
    content = {"countries_byGDP": {subject: {post: {"questions": {}, "answers": answers}}}}
    return write(folder, json.dumps(content), "answers.json")


def test_a_published_statement(tmp_path: Path) -> None:
    path = edition(tmp_path, ["A |S: +2004-00-00T00:00:00 |E: +2005-03-00T00:00:00Z", "B |S: |E: ", "C"])
    first, second, third = published.read(path).rows
    assert first.start and first.end and (first.start.precision, first.end.span) == (9, (20050301, 20050331))
    assert (second.start, second.end, second.end_kind) == (None, None, EndKind.OPEN)
    assert (third.holder, third.start) == ("C", None)
    assert (first.property, first.office, first.property_label) == ("P35", "President of Italy", "head of state")


def test_a_point_in_time_is_never_a_second_start(tmp_path: Path) -> None:
    [row] = published.read(edition(tmp_path, ["A |S: +2003-00-00T00:00:00Z |P: +2021-06-27T00:00:00Z"])).rows
    assert row.start and row.point and (row.start.span, row.point.span) == ((20030101, 20031231), (20210627, 20210627))


def test_two_posts_that_are_one_property_are_one_fact(tmp_path: Path) -> None:
    both = {
        "Prime minister of India": {"answers": ["A", "B", "B"]},
        "Prime Minister of India": {"answers": ["A", "C"]},
    }
    path = write(tmp_path, json.dumps({"countries": {"India": both}}))
    rows = published.read(path).rows
    assert [row.holder for row in rows] == ["A", "B", "B", "C"]  # a repetition inside one list stands as it is
    assert {row.office for row in rows} == {"Prime minister of India"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("A |S: soon", "Italy / President of Italy: 'A .S: soon'.*'soon' is not a time"),
        ("A |X: +2003-00-00T00:00:00Z", "has the part 'X: "),
        ("A |S: +2003-00-00T00:00:00Z |S: +2004-00-00T00:00:00Z", "has the part 'S: .2004"),
        (" |S: +2003-00-00T00:00:00Z", "names no holder"),
        (7, "no list of answers"),
    ],
)
def test_a_statement_that_cannot_be_read_is_named(tmp_path: Path, answer: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        published.read(edition(tmp_path, [answer]))


def test_what_the_reviewed_tables_lack_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the post 'Doge' of 'Venice' has no property"):
        published.read(edition(tmp_path, ["A"], "Doge", "Venice"))
    content: dict[str, Any] = {"athletes_byPayment": {}, "countries_byGDP": {}}
    with pytest.raises(DataError, match="none of the published answer sets"):
        published.read(write(tmp_path, json.dumps(content)))
    content = {"countries": {}, "athletes": {"Somebody": {"Sports Team": {"answers": ["Nowhere F.C."]}}}}
    with pytest.raises(DataError, match=r"the team 'Nowhere F\.C\.' has no class"):
        published.read(write(tmp_path, json.dumps(content)))


@pytest.mark.parametrize("text", ["[]", "{", '{"countries_byGDP": []}', "{}"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"other\.json"):
        published.read(write(tmp_path, text, "other.json"))


def test_the_published_files_are_read_whole(shared: Path) -> None:
    old = published.read(shared / "published" / "answers-2023-12-18.json")
    new = published.read(shared / "published" / "answers-2025-11.json")
    assert (len(old.rows), len({fact(row) for row in old.rows})) == (1151, 130)
    assert (len(new.rows), len({fact(row) for row in new.rows})) == (1183, 139)
    assert sum(row.start is None for row in old.rows) == 4
    [pointed] = [row for row in old.rows if row.point]
    assert pointed.holder == "Portugal national association football team"
    assert not any(row.team_class == "national" for row in new.rows)
    assert all(row.whole for row in old.rows)


def test_the_properties_are_those_of_the_reviewed_ids(shared: Path) -> None:
    with (shared / "wikidata-ids.csv").open(encoding="utf-8") as file:
        ids = [row for row in csv.DictReader(file) if "[office item]" not in row["attribute"]]
    expected = {(row["subject"], row["property"]) for row in ids}
    rows = published.read(shared / "published" / "answers-2023-12-18.json").rows
    assert {fact(row) for row in rows} == expected


# --------------------------------------------------------------------------------------------- reviewed tables


def test_the_reviewed_tables_are_consistent() -> None:
    assert set(posts().values()) <= set(property_labels())
    assert {team.team_class for team in teams().values()} == {"club", "national", "racing"}
    national = {label for label, team in teams().items() if team.team_class == "national"}
    assert national == {label for label in teams() if " national " in label or " Olympic " in label}
    assert list(teams()) == sorted(teams())
    assert len(extracts("2025-11-30")) == 30
    assert not extracts("2023-12-18")
