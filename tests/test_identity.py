"""The identity table: reviewed rows, applied when answers are read."""

import csv
import re
from pathlib import Path

import pytest

from kg import identity
from kg.errors import DataError
from kg.resources import table
from kg.snapshot import find_snapshots
from kg.sources import published
from kg.sources.reviewed import extracts
from kg.terms import entity_iri, holder_iri

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
