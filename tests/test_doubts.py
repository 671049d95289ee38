"""What deserves a doubt: one small fact for each kind, and what the shipped snapshots hold."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from kg import identity
from kg.dates import Day, Time, parse_time
from kg.resources import shipped_snapshots
from kg.snapshot import Snapshot, find_snapshots, take
from kg.snapshot.doubts import Doubt, DoubtKind, doubts, neighbours
from kg.sources import Row, Source, Triple
from kg.terms import PQ, RDF_TYPE, WD, WDS, WDT, WIKIBASE, XSD, EndKind, P

TODAY = 20230601
entity = identity.read(b"iri,entity,label,evidence\n").entity

Line = tuple[str, ...]
"""Holder, start, end, rank; dates as "2014" or "2014-10-11", an end "?" or "none" is no date."""


def time(text: str) -> Time:
    sign = "" if text.startswith("-") else "+"
    return parse_time(f"{sign}{text}{'-00' * (2 - text[1:].count('-'))}T00:00:00Z")


def row(line: Line, prop: str = "P6") -> Row:
    holder, start, end, rank = (*line, "", "", "")[:4]
    kinds = {"": EndKind.OPEN, "?": EndKind.UNKNOWN, "none": EndKind.NO_VALUE}
    return Row(
        subject="Land",
        subject_id="Q100",
        property=prop,
        holder=holder or None,
        start=time(start) if start else None,
        end=None if end in kinds else time(end),
        end_kind=kinds.get(end, EndKind.KNOWN),
        rank=rank or "normal",
    )


def freeze(folder: Path, rows: Sequence[Row], day: Day = TODAY, dropped: Sequence[str] = ()) -> Snapshot:
    return take(Source(rows, "test", "Rows of a test.", dropped=tuple(dropped)), folder, day)


def told(found: Sequence[Doubt]) -> list[tuple[str, str | None]]:
    return sorted((doubt.kind.value, doubt.holder) for doubt in found)


A, B = ("A", "2000", "2010"), ("B", "2010")

KINDS: list[tuple[str, list[Line], list[tuple[str, str | None]]]] = [
    ("nothing", [A, B], []),
    ("hand-over on one day, or the day after", [("A", "2000-01-01", "2010-01-01"), ("B", "2010-01-02")], []),
    ("an end before the start", [("A", "2010-05-05", "2009-05-05"), B], [("reversed", "A")]),
    ("an end in the year of the start is none", [("A", "2010-05-05", "2010"), ("B", "2010")], []),
    ("two open, none later for sure", [("A", "2010"), ("B", "2010-05-05")], [("overlap", "A"), ("several open", None)]),
    ("open, though a later one began", [("A", "2000"), ("B", "2010")], [("several open", None), ("superseded", "A")]),
    ("and that one has ended", [("A", "2000"), ("B", "2010", "2012")], [("superseded", "A")]),
    ("still in office, said aloud, though a later one began", [("A", "2000", "none"), ("B", "2010", "2023")],
     [("superseded", "A")]),
    ("an appointed one supersedes nobody yet", [("A", "2000"), ("B", "2024")], [("future", "B")]),
    ("an unknown end is an end", [("A", "2000", "?"), B], []),
    ("a deprecated one is not asked", [("A", "2000", "", "deprecated"), ("B", "2001")], []),
    ("one person's second term", [("A", "2000", "2005"), ("A", "2005")], []),
    ("overlap of more than a month", [("A", "2000-01-01", "2010-03-01"), ("B", "2010-01-01")], [("overlap", "A")]),
    ("a month is a hand-over", [("A", "2000-01-01", "2010-02-01"), ("B", "2010-01-01")], []),
    ("an overlap that precision may undo", [("A", "2000", "2010"), ("B", "2010-01-01")], []),
    ("two for the same days", [("A", "2000", "2005-05-05"), ("B", "2000", "2005-05-05"), ("C", "2005-05-05")],
     [("overlap", "A")]),
    ("a monarch over governors-general",
     [("Queen", "1952-02-06", "2022-09-08"), ("G1", "1953", "1960"), ("G2", "1960", "1970"), ("G3", "1970", "1980"),
      ("King", "2022-09-08")],
     [("two offices", "Queen")]),
    ("a year without anybody", [("A", "2000", "2009"), ("B", "2011")], [("gap", "B")]),
    ("a quarter of a year for an election", [("A", "2000", "2009-12-01"), ("B", "2010-03-01")], []),
    ("a vacancy that is known", [("A", "2000", "2009"), ("", "2010", "2011"), ("B", "2011")], []),
    ("somebody undated may fill a gap", [("A", "2000", "2005"), ("U", "", "2010"), B], [("no start", "U")]),
    ("nobody since", [("A", "2000", "2022")], [("gap", "A")]),
    ("no start", [A, ("B", "", "none")], [("no start", "B")]),
    ("no date at all", [A, B, ("U",)], [("no start", "U"), ("several open", None)]),
    ("the same twice", [A, A, B], [("twice", "A")]),
    ("eighty-one years", [("A", "1900-01-01", "1981-06-01"), ("B", "1981")], [("very long", "A")]),
    ("the best rank on a former one", [("A", "2000", "2010", "preferred"), B], [("former best", "A")]),
    ("on the present one", [A, ("B", "2010", "", "preferred")], []),
    ("the only one of those days is deprecated", [("A", "2000", "2005", "deprecated"), ("B", "2005")],
     [("deprecated only", "A")]),
    ("before Christ", [("A", "-0043-03-15", "-0041-01-01"), ("B", "-0040-01-01", "0001-01-01"), ("C", "0001-01-01", "?")],
     [("gap", "B")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "lines", "expected"), KINDS, ids=[case[0] for case in KINDS])
def test_kinds(tmp_path: Path, why: str, lines: list[Line], expected: list[tuple[str, str | None]]) -> None:
    found = doubts(freeze(tmp_path, [row(line) for line in lines]), entity)
    assert told(found) == sorted(expected), why


def test_every_kind_is_shown_here_or_below() -> None:
    shown = {kind for _, _, expected in KINDS for kind, _ in expected}
    rest = {"ended elsewhere", "not in neighbour", "dead", "not human", "order"}
    assert shown | rest == {kind.value for kind in DoubtKind}
    assert not shown & rest


def test_clubs_and_national_teams_are_spared(tmp_path: Path) -> None:
    lines = [
        ("Club", "2000-01-01", "2010-01-01"),
        ("Loan", "2005-01-01", "2006-01-01"),
        ("Nation", "2001"),
        ("Now", "2010"),
    ]
    rows = [row(line, "P54") for line in lines]
    rows[2] = replace(rows[2], team_class="national")
    assert doubts(freeze(tmp_path, rows), entity) == []


def test_a_list_of_members_is_one_doubt(tmp_path: Path) -> None:
    members: list[Line] = [(f"M{number}", str(1980 + number % 40)) for number in range(300)]
    found = doubts(freeze(tmp_path, [row(line, "P463") for line in members]), entity)
    assert told(found) == [("overlap", None), ("several open", None)]
    assert found[0].detail.endswith(" 1980– and 295 more")


def test_an_extract_has_no_gaps(tmp_path: Path) -> None:
    rows = [replace(row(line), whole=False) for line in (("A", "2000", "2005"), ("B", "2010"))]
    assert doubts(freeze(tmp_path, rows), entity) == []


def test_where_to_look(tmp_path: Path) -> None:
    [doubt] = doubts(freeze(tmp_path, [row(("A", "2000", "2005")), row(B)]), entity)
    assert doubt.link == "https://www.wikidata.org/wiki/Q100#P6"
    assert doubt.detail == "1462 days between A 2000–2005 and B 2010–"
    assert doubt.fact == "Q100/P6"
    nameless = [replace(row(line), subject_id=None) for line in (("A", "2000", "2005"), B)]
    assert [one.link for one in doubts(freeze(tmp_path / "x", nameless), entity)] == [None]


# ------------------------------------------------------------------------------------- Wikidata's own triples


def mirrored(number: int, holder: str, start: str, end: str = "", **about: Sequence[str]) -> Row:
    """Return a row with Wikidata's triples: of the holder its P31 and P570, of the statement its qualifiers."""
    node, value = f"{WDS}Q100-{number}", WD + holder
    triples: list[Triple] = [
        (f"<{WD}Q100>", f"<{P}P6>", f"<{node}>"),
        (f"<{node}>", f"<{RDF_TYPE}>", f"<{WIKIBASE}Statement>"),
        (f"<{node}>", f"<{WIKIBASE}rank>", f"<{WIKIBASE}NormalRank>"),
        (f"<{node}>", f"<{PS_P6}>", f"<{value}>"),
    ]
    for name, values in about.items():
        if name == "died":
            triples += [(f"<{value}>", f"<{WDT}P570>", f'"{day}T00:00:00Z"^^<{XSD}dateTime>') for day in values]
        elif name == "is_a":
            triples += [(f"<{value}>", f"<{WDT}P31>", f"<{WD}{item}>") for item in values]
        else:
            triples += [(f"<{node}>", f"<{PQ}{name}>", f"<{WD}{item}>") for item in values]
    return replace(row((holder, start, end)), holder_id=holder, statement=node, triples=tuple(triples))


PS_P6 = "http://www.wikidata.org/prop/statement/P6"
HUMAN = ["Q5"]

LIVES: list[tuple[str, list[Row], list[tuple[str, str | None]]]] = [
    ("a dog is mayor",
     [mirrored(1, "Q1", "2000", "2005", is_a=HUMAN), mirrored(2, "Q2", "2005", "2010", is_a=["Q144"]),
      mirrored(3, "Q3", "2010", is_a=HUMAN)],
     [("not human", "Q2")]),
    ("a human is something else, too",
     [mirrored(1, "Q1", "2000", "2010", is_a=HUMAN), mirrored(2, "Q2", "2010", is_a=["Q5", "Q15632617"])], []),
    ("where none is human, none needs to be",
     [mirrored(1, "Q1", "2000", "2010", is_a=["Q515"]), mirrored(2, "Q2", "2010", is_a=["Q515"])], []),
    ("died in office", [mirrored(1, "Q1", "2000", "2010-05-05", died=["2010-05-05"]), mirrored(2, "Q2", "2010-05-05")], []),
    ("held on after death",
     [mirrored(1, "Q1", "2000", "2010-06-05", died=["2010-05-05"]), mirrored(2, "Q2", "2010-06-05")], [("dead", "Q1")]),
    ("only the year of death is known",
     [mirrored(1, "Q1", "2000", "2010-06-05", died=["2010-01-01"]), mirrored(2, "Q2", "2010-06-05")], []),
    ("only the month",
     [mirrored(1, "Q1", "2000", "2010-06-05", died=["2010-05-01"]), mirrored(2, "Q2", "2010-06-05")], [("dead", "Q1")]),
    ("dead and still open", [mirrored(1, "Q1", "2000", died=["2010-05-05"])], [("dead", "Q1")]),
    ("dead since the snapshot", [mirrored(1, "Q1", "2000", died=["2024-05-05"])], []),
    ("dead before it began", [mirrored(1, "Q1", "2000", "?", died=["1990-05-05"])], [("dead", "Q1")]),
    ("replaced by whoever comes next",
     [mirrored(1, "Q1", "2000", "2005", P1366=["Q2"]), mirrored(2, "Q2", "2005", P1365=["Q1"])], []),
    ("replaced by somebody else",
     [mirrored(1, "Q1", "2000", "2005", P1366=["Q3"]), mirrored(2, "Q2", "2005", "2010"), mirrored(3, "Q3", "2010")],
     [("order", "Q1")]),
    ("both say so: one doubt",
     [mirrored(1, "Q1", "2000", "2005", P1366=["Q3"]), mirrored(2, "Q2", "2005", "2010"),
      mirrored(3, "Q3", "2010", P1365=["Q1"])],
     [("order", "Q1")]),
    ("replaces somebody else",
     [mirrored(1, "Q1", "2000", "2005"), mirrored(2, "Q2", "2005", "2010"), mirrored(3, "Q3", "2010", P1365=["Q1"])],
     [("order", "Q3")]),
    ("who stood in is passed over",
     [mirrored(1, "Q1", "2000", "2005-05-05", P1366=["Q3"]),
      mirrored(2, "Q2", "2005-05-05", "2005-06-06", P5102=["Q4676846"]), mirrored(3, "Q3", "2005-06-06", P1365=["Q1"])],
     []),
    ("an acting one may overlap",
     [mirrored(1, "Q1", "2000-01-01", "2005-05-05"), mirrored(2, "Q2", "2005-01-01", "2005-05-05", P2868=["Q4676846"]),
      mirrored(3, "Q3", "2005-05-05")], []),
]  # fmt: skip


@pytest.mark.parametrize(("why", "rows", "expected"), LIVES, ids=[case[0] for case in LIVES])
def test_what_only_a_mirror_knows(
    tmp_path: Path, why: str, rows: list[Row], expected: list[tuple[str, str | None]]
) -> None:
    assert told(doubts(freeze(tmp_path, rows), entity)) == expected, why


# ------------------------------------------------------------------------------------------------- neighbours

NEIGHBOURS: list[tuple[str, list[Line], list[Line], Day, list[tuple[str, str | None]]]] = [
    ("a later one has the end", [("A", "2000")], [("A", "2000", "2021"), ("B", "2021")], 20240101,
     [("ended elsewhere", "A")]),
    ("of the same term, known better", [("A", "2000")], [("A", "2000-05-05", "2021"), ("B", "2021")], 20240101,
     [("ended elsewhere", "A")]),
    ("of another term", [("A", "2015")], [("A", "2000", "2005"), ("A", "2015")], 20240101, []),
    ("an end after this day is news", [("A", "2000")], [("A", "2000", "2023-12-01"), ("B", "2023-12-01")], 20240101, []),
    ("an earlier one has the end", [("A", "2000")], [("A", "2000", "2021"), ("B", "2021")], 20220101,
     [("ended elsewhere", "A")]),
    ("a later one lacks a holder", [A, B], [("A", "2000"), ], 20240101, [("not in neighbour", "B")]),
    ("an earlier one lacks a holder of its past", [A, B], [("B", "2010")], 20220101, [("not in neighbour", "A")]),
    ("an earlier one cannot have a later holder", [("A", "2000", "2023"), ("B", "2023")], [("A", "2000")], 20220101, []),
]  # fmt: skip


@pytest.mark.parametrize("case", NEIGHBOURS, ids=[case[0] for case in NEIGHBOURS])
def test_against_a_neighbour(
    tmp_path: Path, case: tuple[str, list[Line], list[Line], Day, list[tuple[str, str | None]]]
) -> None:
    why, here, there, day, expected = case
    own = freeze(tmp_path, [row(line) for line in here])
    other = freeze(tmp_path, [row(line) for line in there], day)
    assert told(doubts(own, entity, [other])) == expected, why


def test_an_extract_lacks_nobody(tmp_path: Path) -> None:
    own = freeze(tmp_path, [row(A), row(B)])
    other = freeze(tmp_path, [replace(row(B), whole=False)], 20240101)
    assert doubts(own, entity, [other]) == []


def test_neighbours_are_the_nearest_by_date(tmp_path: Path) -> None:
    found = [freeze(tmp_path, [row(A)], day) for day in (20200101, 20210101, 20220101, 20230101)]
    assert [[one.id[:4] for one in neighbours(found, this)] for this in found] == [
        ["2021"],
        ["2020", "2022"],
        ["2021", "2023"],
        ["2022"],
    ]


# ------------------------------------------------------------------------------------------ the shipped snapshots


def test_the_shipped_snapshots_have_what_they_are_known_for() -> None:
    old, new = find_snapshots(shipped_snapshots())
    known = identity.load().entity
    older = {(d.kind.value, d.subject, d.holder) for d in doubts(old, known, [new])}
    newer = {(d.kind.value, d.subject, d.holder) for d in doubts(new, known, [old])}
    assert ("ended elsewhere", "CVS Health", "Larry Merlo") in older  # a chief executive who left in 2021
    for found in (older, newer):
        assert ("two offices", "Australia", "Elizabeth II") in found  # among governors-general
        assert ("twice", "Israel", "Yitzhak Shamir") in found
    assert ("overlap", "Canada", "Victoria") in older and ("overlap", "Canada", "Victoria") not in newer
    assert {
        ("superseded", "Australia", "Peter Cosgrove"),
        ("superseded", "Pierre Gasly", "Scuderia Toro Rosso"),
    } <= newer
    open_ones = {d.subject for d in doubts(new, known) if d.kind is DoubtKind.SEVERAL_OPEN}
    assert open_ones == {"Australia", "Kevin Durant", "Pierre Gasly", "Thailand", "Walmart"}  # as the manifest flags


def test_alone_a_snapshot_is_not_held_against_another() -> None:
    old, _ = find_snapshots(shipped_snapshots())
    kinds = Counter(doubt.kind for doubt in doubts(old, identity.load().entity))
    assert kinds[DoubtKind.NO_START] == 4
    assert not kinds.keys() & {DoubtKind.ENDED, DoubtKind.NEIGHBOUR}


# ------------------------------------------------------------------------------------------------- the command


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, ["snapshot", "check", *words], prog_name="dyknow")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYKNOW_SNAPSHOTS", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_table_links_to_wikidata() -> None:
    result = call("2023-12-18", "--subject", "cvs health")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "CVS Health P169  https://www.wikidata.org/wiki/Q624375#P169",
        "  ended elsewhere  Larry Merlo 2011–: ended 2021-02-01 by snapshot 2025-11-30",
    ]
    assert "beside 2025-11-30: 1 doubt about 1 fact" in result.stderr


def test_it_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyknow.commands.comparing.width", lambda: 80)
    lines = call("2025-11-30").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "Australia P35  https://www.wikidata.org/wiki/Q408#P35" in lines


def test_json_and_csv() -> None:
    words = ["2025-11-30", "--kind", "two-offices", "--kind", "no-start"]
    listed = json.loads(call(*words, "--format", "json").stdout)
    assert [(one["kind"], one["subject"]) for one in listed] == [
        ("two offices", "Australia"),
        ("no start", "Mitsubishi"),
    ]
    rows = list(csv.DictReader(io.StringIO(call(*words, "--format", "csv").stdout)))
    assert list(rows[0]) == list(listed[0]) == list(Doubt._fields)
    assert rows[1]["link"] == "" and listed[1]["link"] is None  # Mitsubishi's id is not known


def test_an_unknown_subject_gets_a_hint() -> None:
    result = call("2025-11-30", "--subject", "Austalia")
    assert result.exit_code == 2 and "Did you mean 'Australia'?" in result.stderr
    assert call("2025-11-30", "--subject", "Poland").exit_code == 0  # nothing to doubt
