"""The identity table: reviewed rows, applied when answers are read."""

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dyknow.cli import cli
from kg import identity
from kg.errors import DataError
from kg.resources import table
from kg.snapshot import Snapshot, find_snapshots, take
from kg.sources import Row, Source, published
from kg.sources.reviewed import extracts
from kg.terms import WD, entity_iri, holder_iri

REPO = Path(__file__).resolve().parents[1]
HEADER = b"iri,entity,label,evidence\n"
entity = identity.load().entity


def test_subjects_and_holders_have_their_ids() -> None:
    assert entity("urn:dyknow:entity:Poland") == "Q36"
    assert entity(holder_iri("Poland", "P6", "Donald Tusk")) == "Q946"
    assert entity("http://www.wikidata.org/entity/Q946") == "Q946"


def test_what_is_not_known_stays_itself() -> None:
    for label in ("Carlos Sainz Jr.", "Cencora, Inc.", "Mitsubishi"):
        assert entity(entity_iri(label)) == entity_iri(label)
    unknown = holder_iri("Gazprom", "P169", "Alexey Miller")
    assert entity(unknown) == unknown


NATO = "North Atlantic Treaty Organization"
DUTCH = ("Netherlands", "P35")
SAME = [
    (("Russia", "P35", "Dmitry Medvedev"), ("Russia", "P6", "Dmitry Medvedev"), "president and prime minister"),
    (
        ("Norway", "P6", "Jens Stoltenberg"),
        ("North Atlantic Treaty Organization", "P3975", "Jens Stoltenberg"),
        "no id",
    ),
    (("Canada", "P35", "Charles III of the United Kingdom"), ("Australia", "P35", "Charles III"), "across snapshots"),
    (
        (*DUTCH, "William Alexander of the Netherlands"),
        (*DUTCH, "Willem-Alexander of the Netherlands"),
        "id",
    ),
    (("China", "P35", "Zhemin Jiang"), ("China", "P35", "Jiang Zemin"), "order of the names"),
    (("Lionel Messi", "P54", "Paris Saint-Germain F.C."), ("Neymar Jr.", "P54", "Paris Saint-Germain FC"), "a team"),
    (("Mohamed Salah", "P54", "A.S. Roma"), ("Mohamed Salah", "P54", "AS Roma"), "whose start was made precise"),
]
APART = [
    (("United States of America", "P35", "George W. Bush"), ("United States of America", "P35", "George H. W. Bush")),
    (("Philippines", "P35", "Bongbong Marcos"), ("Philippines", "P35", "Ferdinand Marcos")),
    (("Canada", "P6", "Justin Trudeau"), ("Canada", "P6", "Pierre Trudeau")),
    (("Denmark", "P35", "Frederik IX of Denmark"), ("Denmark", "P35", "Frederik X of Denmark")),
    (("Bangladesh", "P6", "Fakhruddin Ahmed"), ("India", "P35", "Fakhruddin Ali Ahmed")),
    (("Lionel Messi", "P54", "FC Barcelona"), ("Lionel Messi", "P54", "FC Barcelona Atlètic")),
    (("Ford Motor Company", "P169", "Henry Ford"), ("Ford Motor Company", "P169", "Henry Ford II")),
]


@pytest.mark.parametrize(("one", "other", "why"), SAME)
def test_two_names_of_one_are_one(one: tuple[str, str, str], other: tuple[str, str, str], why: str) -> None:
    assert entity(holder_iri(*one)) == entity(holder_iri(*other)), why


@pytest.mark.parametrize(("one", "other"), APART)
def test_two_are_never_one(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert entity(holder_iri(*one)) != entity(holder_iri(*other))


def test_the_table_is_sorted_and_names_what_the_snapshots_hold() -> None:
    with table("identity.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    iris = [row["iri"] for row in rows]
    assert iris == sorted(iris)
    held = {iri for s in find_snapshots() for st in s.statements() for iri in (st.subject, st.holder)}
    assert set(iris) <= held
    assert all(re.fullmatch(r"Q[1-9]\d*", row["entity"]) or row["entity"] in held for row in rows)
    assert all(row["evidence"] for row in rows)


def test_no_entity_has_two_names_in_one_fact_of_one_snapshot() -> None:
    # One source names a holder one way; two names under one entity would mean that a row joined two people.
    for snapshot in find_snapshots():
        labels: dict[tuple[str, str], set[str | None]] = {}
        for statement in snapshot.statements():
            if statement.holder:
                labels.setdefault((statement.fact, entity(statement.holder)), set()).add(statement.label)
        assert {key: names for key, names in labels.items() if len(names) > 1} == {}


def test_the_digest_is_of_the_bytes() -> None:
    one, other = identity.read(HEADER), identity.read(HEADER + b"urn:a,Q1,A,seen\n")
    assert one.digest != other.digest
    assert other.entity("urn:a") == "Q1"
    assert identity.load() is identity.load()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"iri,entity\n", "does not start with"),
        (HEADER + b"urn:a,Q1,A\n", "line 2"),
        (HEADER + b"urn:a,,A,seen\n", "line 2"),
        (HEADER + b"urn:a,Q1,A,seen\nurn:a,Q2,A,seen\n", "line 3: urn:a stands twice"),
        (HEADER + b"urn:a,urn:b,A,seen\nurn:b,Q1,B,seen\n", "itself mapped"),
    ],
)
def test_a_malformed_table_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        identity.read(data)


def test_only_ids_of_allowed_confidence_are_used(shared: Path) -> None:
    with (shared / "wikidata-holder-ids.csv").open(encoding="utf-8", newline="") as file:
        allowed = {row["qid"] for row in csv.DictReader(file) if row["confidence"] in ("strong", "two label sources")}
    with (shared / "wikidata-ids.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["confidence"] in ("verified", "single source")]
    subjects = {entity_iri(row["subject"]): row["qid"] for row in rows if "[office item]" not in row["attribute"]}
    mapped = {iri: target for iri, target in identity.load().entities.items() if target.startswith("Q")}
    assert {iri: target for iri, target in mapped.items() if iri.startswith("urn:dyknow:entity:")} == subjects
    assert {target for iri, target in mapped.items() if iri.startswith("urn:dyknow:holder:")} <= allowed


def test_the_extracts_are_those_the_rule_finds(shared: Path) -> None:
    def starts(name: str) -> dict[tuple[str, str], set[object]]:
        found: dict[tuple[str, str], set[object]] = {}
        for row in published.read(shared / "published" / name).rows:
            holders = found.setdefault((row.subject, row.property), set())
            if row.team_class != "national" and row.holder:
                iri = holder_iri(row.subject, row.property, row.holder)
                holders.add((entity(iri), row.start and row.start.span))
        return found

    old, new = starts("answers-2023-12-18.json"), starts("answers-2025-11.json")
    assert {fact for fact in new if fact not in old or old[fact] - new[fact]} == extracts("2025-11-30")


# ------------------------------------------------------------------------------------------------- redirects

TABLE = HEADER + b"urn:a,Q1,A,seen\nurn:b,Q5,B,seen\nhttp://www.wikidata.org/entity/Q9,Q90,Nine,seen\n"


def taken(folder: Path, redirects: dict[str, str], day: int = 20200101) -> Snapshot:
    rows = [Row("Land", "P6", name, subject_id="Q100", holder_id=id) for id, name in (("Q1", "Old One"), ("Q2", "Two"))]
    return take(Source(rows, "test", "Rows of a test.", provenance={"redirects": redirects}), folder, day)


REDIRECTS = [
    ("an item was merged into another", {"Q3": "Q4"}, {"Q3": "Q4", "Q4": "Q4"}),
    ("what the table means by it follows", {"Q1": "Q2"}, {"urn:a": "Q2", "Q1": "Q2", "urn:b": "Q5"}),
    ("a chain has one end", {"Q1": "Q2", "Q2": "Q3", "Q3": "Q4"}, {"urn:a": "Q4", "Q1": "Q4", "Q2": "Q4", "Q3": "Q4"}),
    ("a row of the table stands", {"Q9": "Q1"}, {"Q9": "Q90", "Q1": "Q1"}),
    ("and ends a chain", {"Q8": "Q9", "Q9": "Q1"}, {"Q8": "Q90", "Q9": "Q90"}),
]


@pytest.mark.parametrize(("why", "redirects", "expected"), REDIRECTS, ids=[case[0] for case in REDIRECTS])
def test_redirects_extend_the_table(
    tmp_path: Path, why: str, redirects: dict[str, str], expected: dict[str, str]
) -> None:
    extended = identity.with_redirects(identity.read(TABLE), [taken(tmp_path, redirects)])
    found = {name: extended.entity(WD + name if name.startswith("Q") else name) for name in expected}
    assert found == expected, why


def test_only_what_is_added_changes_the_digest(tmp_path: Path) -> None:
    plain = identity.read(TABLE)
    assert identity.with_redirects(plain, []) is plain
    assert identity.with_redirects(plain, find_snapshots()) is plain
    assert identity.with_redirects(plain, [taken(tmp_path, {"Q9": "Q1"})]) is plain  # the table says otherwise
    one = identity.with_redirects(plain, [taken(tmp_path / "a", {"Q3": "Q4"})])
    other = identity.with_redirects(plain, [taken(tmp_path / "b", {"Q3": "Q7"})])
    assert len({plain.digest, one.digest, other.digest}) == 3
    again = identity.with_redirects(plain, [taken(tmp_path / "c", {"Q3": "Q4"}, 20210101)])
    assert again.digest == one.digest  # of what it says, not of where it stands


def test_the_later_snapshot_is_believed(tmp_path: Path) -> None:
    # Merged one way, undone, merged the other way.
    old, new = taken(tmp_path, {"Q3": "Q4"}), taken(tmp_path, {"Q4": "Q3"}, 20210101)
    for both in ([old, new], [new, old]):
        extended = identity.with_redirects(identity.read(HEADER), both)
        assert (extended.entity(WD + "Q3"), extended.entity(WD + "Q4")) == ("Q3", "Q3")


def test_a_circle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Q3 → Q4 → Q3 go in a circle"):
        identity.with_redirects(identity.read(HEADER), [taken(tmp_path, {"Q3": "Q4", "Q4": "Q3"})])


def test_redirects_are_offered_as_rows(tmp_path: Path) -> None:
    plain, snapshot = identity.read(TABLE), taken(tmp_path, {"Q1": "Q2", "Q2": "Q77"})
    offered = identity.offered(plain, snapshot)
    assert offered == [
        (WD + "Q1", "Q77", "Old One", "Q1 redirects to Q77 in snapshot 2020-01-01"),
        (WD + "Q2", "Q77", "Two", "Q2 redirects to Q77 in snapshot 2020-01-01"),
        ("urn:a", "Q77", "Old One", "Q1 redirects to Q77 in snapshot 2020-01-01"),
    ]
    # Accepted, they are a table that says the same and offers nothing more.
    reviewed = {iri: entity for iri, entity in plain.entities.items() if iri != "urn:a"}
    rows = [*((iri, entity, "-", "seen") for iri, entity in reviewed.items()), *offered]
    accepted = identity.read(HEADER + "".join(",".join(row) + "\n" for row in rows).encode())
    assert identity.offered(accepted, snapshot) == []
    assert accepted.entities == identity.with_redirects(plain, [snapshot]).entities


def test_the_command_offers_them_in_the_format_of_the_table(tmp_path: Path) -> None:
    taken(tmp_path, {"Q1": "Q2"})
    words = ["snapshot", "redirects", "2020-01-01", "--snapshots", str(tmp_path), "--format", "csv"]
    result = CliRunner().invoke(cli, words, prog_name="dyknow")
    assert result.exit_code == 0
    assert identity.read(result.stdout.encode()).entities == {WD + "Q1": "Q2"}
    assert "1 row for the identity table" in result.stderr
