"""Snapshots: the same facts give the same bytes, nothing is overwritten, every flipped byte is found."""

import gzip
import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg import identity
from kg.dates import parse_time
from kg.errors import DataError, SnapshotError, UsageError
from kg.resources import shipped_snapshots
from kg.snapshot import ChangeKind, Snapshot, choose, diff, find_snapshots, load, take, verify
from kg.snapshot.reading import read_graph
from kg.snapshot.triples import ntriples
from kg.sources import Row, Source, published, table
from kg.terms import EndKind

REPO = Path(__file__).resolve().parents[1]
EXAMPLE = REPO / "examples" / "facts.csv"
entity = identity.load().entity


def row(holder: str | None, start: str = "", end: str = "", **fields: object) -> Row:
    """Return a row of (Italy, P35) with dates written as in a fact table."""
    times = {
        "start": parse_time(start) if start else None,
        "end": parse_time(end) if end else None,
        "end_kind": EndKind.KNOWN if end else EndKind.OPEN,
    }
    return Row(**({"subject": "Italy", "property": "P35", "holder": holder} | times | fields))  # type: ignore[arg-type]


def day(text: str) -> str:
    return f"+{text}T00:00:00Z"


def source(*rows: Row, dropped: Sequence[str] = ()) -> Source:
    return Source(rows, "test", "Rows of a test.", dropped=tuple(dropped))


@pytest.fixture
def example(tmp_path: Path) -> Snapshot:
    return take(table.read(EXAMPLE), tmp_path / "snapshots", 20251130)


# ---------------------------------------------------------------------------------------------------- shipped


@pytest.mark.parametrize(
    ("name", "date"), [("answers-2023-12-18.json", "2023-12-18"), ("answers-2025-11.json", "2025-11-30")]
)
def test_the_shipped_snapshots_come_from_the_handed_files(shared: Path, tmp_path: Path, name: str, date: str) -> None:
    taken = take(published.read(shared / "published" / name), tmp_path)
    shipped = load(shipped_snapshots() / date)
    assert taken.id == date
    assert taken.read_statements() == shipped.read_statements()
    # What names the tool and the compressed bytes may differ with the tool and the compression library.
    volatile = ("tool", "checksum", "statements")
    assert {k: v for k, v in taken.manifest.items() if k not in volatile} == {
        k: v for k, v in shipped.manifest.items() if k not in volatile
    }


def test_the_shipped_snapshots_are_whole() -> None:
    counts = {"2023-12-18": (130, 1151), "2025-11-30": (139, 1183)}
    for date, (facts, statements) in counts.items():
        snapshot = load(shipped_snapshots() / date)
        assert verify(snapshot) == []
        assert (snapshot.manifest["counts"]["facts"], snapshot.manifest["counts"]["statements"]) == (facts, statements)
        assert snapshot.manifest["licence"].startswith("CC0")
        assert sum(c["statements"] for c in snapshot.manifest["coverage"].values()) == statements


def test_the_second_snapshot_says_what_it_is() -> None:
    old, new = (load(shipped_snapshots() / date) for date in ("2023-12-18", "2025-11-30"))
    assert old.known is None
    assert new.known is not None and new.known.startswith("of November 2025")
    histories = Counter(c["history"] for c in new.manifest["coverage"].values())
    assert histories == {"full": 109, "extract": 30}
    assert {c["history"] for c in old.manifest["coverage"].values()} == {"full"}
    assert new.dropped == {"national"}


def test_oddities_are_flagged_and_never_mended() -> None:
    flags = Counter(flag["flag"] for flag in load(shipped_snapshots() / "2023-12-18").manifest["flags"])
    assert (flags["no start"], flags["point in time"], flags["stands twice"]) == (4, 1, 1)
    open_ones = [f for f in load(shipped_snapshots() / "2025-11-30").manifest["flags"] if f["flag"] == "several open"]
    assert {flag["fact"].removeprefix("urn:dyknow:fact:") for flag in open_ones} == {
        "Australia:P35",
        "Kevin%20Durant:P54",
        "Pierre%20Gasly:P54",
        "Thailand:P6",
        "Walmart:P488",
    }


def test_a_statement_keeps_its_name_when_its_end_becomes_known(tmp_path: Path) -> None:
    before = read_graph(ntriples([row("A", day("2015-02-03"))]))
    after = read_graph(ntriples([row("A", day("2015-02-03"), day("2020-02-03"))]))
    assert before[0].iri == after[0].iri
    assert before[0] != after[0]


# ---------------------------------------------------------------------------------------------------- taking


def test_the_order_of_the_rows_leaves_no_trace(tmp_path: Path) -> None:
    rows = [*table.read(EXAMPLE).rows, row("A"), row("A"), row("A", end=day("2000-01-01"))]
    expected = ntriples(rows)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert ntriples(rows) == expected


def test_the_bytes_carry_no_time_and_no_name(tmp_path: Path) -> None:
    one, other = (take(table.read(EXAMPLE), tmp_path / name, 20251130) for name in "ab")
    assert one.statements_path.read_bytes() == other.statements_path.read_bytes()
    assert (one.path / "manifest.json").read_bytes() == (other.path / "manifest.json").read_bytes()
    assert one.statements_path.read_bytes()[3:8] == b"\0" * 5  # no file name, time zero


def test_a_snapshot_is_never_overwritten(example: Snapshot) -> None:
    before = example.statements_path.read_bytes()
    with pytest.raises(SnapshotError, match="never overwritten"):
        take(source(row("A")), example.path.parent, 20251130)
    assert example.statements_path.read_bytes() == before
    assert [path.name for path in example.path.parent.iterdir()] == ["2025-11-30"]


def test_of_two_taken_at_once_one_wins_and_nothing_is_left_beside(tmp_path: Path) -> None:
    def attempt(holder: str) -> str:
        try:
            take(source(*(row(f"{holder}{i}", day("2015-02-03")) for i in range(300))), tmp_path, 20200101)
        except SnapshotError:
            return "refused"
        return holder

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, "ABCDEFGH"))
    assert results.count("refused") == 7
    assert [path.name for path in tmp_path.iterdir()] == ["2020-01-01"]
    assert verify(tmp_path / "2020-01-01") == []


def test_a_date_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which day"):
        take(source(row("A")), tmp_path)


MALFORMED = [
    ({"property": "35"}, "property '35'"),
    ({"subject_id": "38"}, "id '38'"),
    ({"rank": "best"}, "rank 'best'"),
    ({"team_class": "school"}, "team class 'school'"),
    ({"end_kind": EndKind.KNOWN}, "end kind"),
]


@pytest.mark.parametrize(("fields", "message"), MALFORMED)
def test_a_malformed_row_is_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        take(source(replace(row("A"), **fields)), tmp_path, 20200101)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------- triples


def objects(data: bytes, predicate: str) -> set[str]:
    store = ox.Store()
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    return {str(quad.object) for quad in store.quads_for_pattern(None, ox.NamedNode(predicate), None)}


def test_day_after_end_stands_only_at_a_day() -> None:
    assert objects(ntriples([row("A", end=day("2020-02-28"))]), "urn:dyknow:vocab:dayAfterEnd") == {
        '"20200229"^^<http://www.w3.org/2001/XMLSchema#integer>'
    }
    assert not objects(ntriples([row("A", end="+2020-02-00T00:00:00Z")]), "urn:dyknow:vocab:dayAfterEnd")


def test_no_value_and_unknown_value_are_wikidatas() -> None:
    nobody, unknown = ntriples([row(None)]), ntriples([row(None, holder_unknown=True)])
    assert b"<http://www.wikidata.org/prop/novalue/P35>" in nobody
    assert not objects(nobody, "http://www.wikidata.org/prop/statement/P35")
    [value] = objects(unknown, "http://www.wikidata.org/prop/statement/P35")
    assert value.startswith("<urn:dyknow:unknown:")
    assert b"<http://www.wikidata.org/prop/novalue/P582>" in ntriples([row("A", end_kind=EndKind.NO_VALUE)])


def test_ids_make_wikidatas_names() -> None:
    [statement] = read_graph(ntriples([row("Sergio Mattarella", subject_id="Q38", holder_id="Q3956186")]))
    assert statement.fact == "urn:dyknow:fact:Q38:P35"
    assert statement.holder == "http://www.wikidata.org/entity/Q3956186"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_name_round_trips(holder: str, office: str) -> None:
    data = ntriples([row(holder, subject=holder + "x", office=office, aliases=(holder + "y",))])
    [statement] = read_graph(data)
    assert (statement.label, statement.subject_label) == (holder, holder + "x")


def test_two_names_that_look_like_separators_stay_apart() -> None:
    rows = [row("a|b"), row("a", subject="Italy|b"), row('"}>\n{'), row("a:b"), row("a%3Ab")]
    statements = read_graph(ntriples(rows))
    assert len({statement.iri for statement in statements}) == len({s.holder for s in statements}) == 5
    assert {statement.label for statement in statements} == {"a|b", "a", '"}>\n{', "a:b", "a%3Ab"}


# ---------------------------------------------------------------------------------------------------- verifying


@pytest.mark.parametrize("name", ["statements.nt.gz", "manifest.json"])
def test_every_flipped_byte_is_found(example: Snapshot, name: str) -> None:
    path = example.path / name
    whole = path.read_bytes()
    for position in {*range(12), *random.Random(1).sample(range(len(whole)), 150), len(whole) - 1}:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        assert any(name in problem for problem in verify(example.path)), position
    path.write_bytes(whole)
    assert verify(example) == []


def test_a_damaged_snapshot_is_not_read(example: Snapshot) -> None:
    packed = example.statements_path.read_bytes()
    example.statements_path.write_bytes(packed[:-20])
    with pytest.raises(SnapshotError, match="cannot be read"):
        example.read_statements()
    example.statements_path.write_bytes(gzip.compress(gzip.decompress(packed) + b"\n"))
    with pytest.raises(SnapshotError, match="digest"):
        example.read_statements()


def test_what_is_missing_is_named(example: Snapshot) -> None:
    example.statements_path.unlink()
    assert "No such file" in verify(example)[0]
    (example.path / "manifest.json").unlink()
    assert "is missing" in verify(example)[0]
    with pytest.raises(SnapshotError, match="is missing"):
        load(example.path)


def test_a_renamed_snapshot_is_noticed(example: Snapshot) -> None:
    moved = example.path.rename(example.path.parent / "2024-01-01")
    assert "is of 2025-11-30" in verify(moved)[0]


# ------------------------------------------------------------------------------------------- finding, choosing


def test_local_and_shipped_snapshots_are_found(example: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYKNOW_SNAPSHOTS", str(example.path.parent))
    take(table.read(EXAMPLE), example.path.parent, 19991231)
    example.path.rename(example.path.parent / "aside")
    (example.path.parent / ".2001-01-01-x").mkdir()
    assert [snapshot.id for snapshot in find_snapshots()] == ["1999-12-31", "2023-12-18", "2025-11-30"]


def test_two_snapshots_of_one_date_must_be_equal(example: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="two different snapshots"):
        find_snapshots(example.path.parent)
    copy = tmp_path / "copy" / "2023-12-18"
    shutil.copytree(shipped_snapshots() / "2023-12-18", copy)
    assert find_snapshots(copy.parent)[0].path == copy


CHOICES = [
    (20200101, None, "2023-12-18"),
    (20231218, None, "2023-12-18"),
    (20231219, None, "2025-11-30"),
    (20300101, None, "2025-11-30"),
    (20200101, "2025-11-30", "2025-11-30"),
]


@pytest.mark.parametrize(("as_of", "known_at", "expected"), CHOICES)
def test_the_oldest_not_before_the_day_is_chosen(as_of: int, known_at: str | None, expected: str) -> None:
    assert choose(find_snapshots(shipped_snapshots()), as_of, known_at).id == expected


def test_what_cannot_be_chosen_is_said() -> None:
    with pytest.raises(UsageError, match="'2024-01-01'") as error:
        choose(find_snapshots(shipped_snapshots()), 20240101, "2024-01-01")
    assert error.value.hint is not None and "2023-12-18" in error.value.hint
    with pytest.raises(SnapshotError, match="no snapshots"):
        choose([], 20240101)


# ---------------------------------------------------------------------------------------------------- diff

A, B, C = row("A", day("2000-01-01"), day("2010-01-01")), row("B", day("2010-01-01")), row("C", day("2012-05-05"))
OTHER = row("X", subject="France")

DIFFS = [
    ("equal", [A, B], [A, B], []),
    ("added", [A], [A, B], [("added", "B")]),
    ("removed", [A, B], [A], [("removed", "B")]),
    ("end became known", [B], [row("B", day("2010-01-01"), day("2015-01-01"))], [("changed end", "B")]),
    ("start became precise", [row("B", "+2010-00-00T00:00:00Z")], [B], [("changed start", "B")]),
    ("rank", [B], [row("B", day("2010-01-01"), rank="preferred")], [("changed rank", "B")]),
    ("an extract lacks it", [A, B], [row("B", day("2010-01-01"), whole=False)], [("not covered", "A")]),
    ("an extract gained what is older", [row("B", day("2010-01-01"), whole=False)], [A, B], [("not covered", "A")]),
    ("an extract gained what is newer", [row("A", day("2000-01-01"), whole=False)], [A, row("N", day("2021-01-01"))],
     [("changed end", "A"), ("added", "N")]),
    ("one side lacks the fact", [A], [A, OTHER], [("not covered", "X")]),
    ("a value was replaced", [B], [row("C", day("2010-01-01"))], [("removed", "B"), ("added", "C")]),
    ("one of two equal ones went", [B, B], [B], [("removed", "B")]),
    ("one person twice", [A, row("A", day("2020-01-01"))], [A], [("removed", "A")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "old", "new", "expected"), DIFFS, ids=[case[0] for case in DIFFS])
def test_diff(tmp_path: Path, why: str, old: list[Row], new: list[Row], expected: list[tuple[str, str]]) -> None:
    before, after = take(source(*old), tmp_path, 20200101), take(source(*new), tmp_path, 20220101)
    found = [(change.kind.value, change.label) for change in diff(before, after, entity)]
    assert sorted(found) == sorted(expected), why


def test_two_spellings_of_one_person_are_a_label_only(tmp_path: Path) -> None:
    same = {name: ("China", day("1993-03-27")) for name in ("Zhemin Jiang", "Jiang Zemin")}
    old, new = (row(name, start, subject=subject) for name, (subject, start) in same.items())
    before, after = take(source(old), tmp_path, 20200101), take(source(new), tmp_path, 20220101)
    [change] = diff(before, after, entity)
    assert (change.kind, change.label, change.fact) == (ChangeKind.LABEL, "Jiang Zemin", "Q148/P35")
    assert change.before is not None and change.before.label == "Zhemin Jiang"


def test_a_source_that_drops_national_teams_corrects_none(tmp_path: Path) -> None:
    club = row("Club", day("2010-01-01"), property="P54", team_class="club")
    nation = row("Nation", day("2010-01-01"), property="P54", team_class="national")
    before = take(source(club, nation), tmp_path, 20200101)
    after = take(source(club, dropped=["national"]), tmp_path, 20220101)
    assert [change.kind for change in diff(before, after, entity)] == [ChangeKind.NOT_COVERED]
    assert [change.kind for change in diff(after, before, entity)] == [ChangeKind.NOT_COVERED]


def test_the_shipped_snapshots_differ_as_they_should() -> None:
    old, new = find_snapshots(shipped_snapshots())
    changes = diff(old, new, entity)
    by_kind = Counter(change.kind for change in changes)
    assert by_kind[ChangeKind.REMOVED] == 0  # whatever the second one lacks, it does not deny
    assert by_kind[ChangeKind.LABEL] == 36
    assert ("changed end", "Q145/P6", "Rishi Sunak") in {(c.kind.value, c.fact, c.label) for c in changes}
    assert ("added", "Q35/P35", "Frederik X of Denmark") in {(c.kind.value, c.fact, c.label) for c in changes}
    assert all(c.kind is ChangeKind.NOT_COVERED for c in changes if (c.before or c.after).team_class == "national")  # type: ignore[union-attr]
    assert diff(old, old, entity) == []


def test_the_manifest_is_plain_json(example: Snapshot) -> None:
    assert json.loads((example.path / "manifest.json").read_text(encoding="utf-8")) == dict(example.manifest)
