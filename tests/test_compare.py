"""What changed between two snapshots: by content and by id, and by which clock."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from kg import identity
from kg.dates import Time, parse_time
from kg.resources import shipped_snapshots
from kg.snapshot import Change, ChangeKind, diff, find_snapshots, take
from kg.snapshot.compare import By, Clock, IdFate, tally
from kg.sources import Row, Source, mirror
from kg.sources.entity import Named, named, read_entities
from kg.terms import WDS, EndKind, entity_iri, holder_iri

OLD, NEW = 20180901, 20210601
"""The days of the two snapshots."""

entity = identity.read(b"iri,entity,label,evidence\n").entity


def row(
    holder: str | None, start: str = "", end: str = "", id: str | None = None, *,
    rank: str = "normal", whole: bool = True, holder_unknown: bool = False,
) -> Row:  # fmt: skip
    """Return a row of (Belgium, P6); dates as "2014", "2014-10" or "2014-10-11", an end "?" or "none" is no date."""
    kinds = {"": EndKind.OPEN, "?": EndKind.UNKNOWN, "none": EndKind.NO_VALUE}
    return Row(
        subject="Belgium",
        subject_id="Q31",
        property="P6",
        holder=holder,
        holder_id=_ids.get(holder or ""),
        statement=f"{WDS}Q31-{id}" if id else None,
        start=time(start) if start and start != "?" else None,
        start_unknown=start == "?",
        end=time(end) if end not in kinds else None,
        end_kind=kinds.get(end, EndKind.KNOWN),
        rank=rank,
        whole=whole,
        holder_unknown=holder_unknown,
    )


_ids = {"Michel": "Q950958", "Wilmès": "Q18434995", "De Croo": "Q476596", "Di Rupo": "Q12978"}


def time(text: str) -> Time:
    return parse_time(f"+{text}{'-00' * (2 - text.count('-'))}T00:00:00Z")


def source(rows: Sequence[Row]) -> Source:
    return Source(rows, "test", "Rows of a test.")


def changes(tmp_path: Path, old: Sequence[Row], new: Sequence[Row], by: By = By.CONTENT) -> list[Change]:
    return diff(take(source(old), tmp_path, OLD), take(source(new), tmp_path, NEW), entity, by)


def told(found: Sequence[Change]) -> list[tuple[str, str, str | None, str | None]]:
    return [(c.kind.value, c.label, c.clock and c.clock.value, c.id and c.id.value) for c in found]


# ---------------------------------------------------------------------------------------------------- the two clocks

M, W = ("Michel", "2014-10-11"), ("Wilmès", "2019-10-27")
KEEP = row("Di Rupo", "2011-12-06", "2014-10-11", "k")

CLOCKS: list[tuple[str, list[Row], list[Row], list[tuple[str, str]]]] = [
    ("a holder who starts after the older day", [], [row(*W)], [("added", "world")]),
    ("one who starts on it", [], [row("Wilmès", "2018-09-01")], [("added", "wikidata")]),
    ("one who starts before", [], [row(*M)], [("added", "wikidata")]),
    ("one who starts in its year", [], [row("Wilmès", "2018")], [("added", "unknown")]),
    ("one without dates", [], [row("Wilmès")], [("added", "unknown")]),
    ("one who only has an end, long past", [], [row("Wilmès", end="2001")], [("added", "wikidata")]),
    ("one who only has an end, since then", [], [row("Wilmès", end="2020")], [("added", "unknown")]),
    ("nobody since then", [], [row(None, "2019-04-18", "2019-04-23")], [("added", "world")]),
    ("removed", [row(*M)], [], [("removed", "wikidata")]),
    ("removed, undated", [row("Michel")], [], [("removed", "unknown")]),
    ("a plan is removed", [row(*W)], [], [("removed", "unknown")]),
    ("an end since then", [row(*M)], [row(*M, "2019-10-27")], [("changed end", "world")]),
    ("an end that was past already", [row(*M)], [row(*M, "2018-01-31")], [("changed end", "wikidata")]),
    ("an end in that year", [row(*M)], [row(*M, "2018")], [("changed end", "unknown")]),
    ("an end in a later year", [row(*M)], [row(*M, "2019")], [("changed end", "world")]),
    ("a past end is corrected", [row(*M, "2015")], [row(*M, "2016")], [("changed end", "wikidata")]),
    ("a past end was none", [row(*M, "2015")], [row(*M)], [("changed end", "wikidata")]),
    ("a past end becomes a later one", [row(*M, "2015")], [row(*M, "2020")], [("changed end", "wikidata")]),
    ("a planned end is moved", [row(*M, "2019-05-26")], [row(*M, "2019-10-27")], [("changed end", "world")]),
    ("a planned end was past already", [row(*M, "2019")], [row(*M, "2017")], [("changed end", "wikidata")]),
    ("a planned end is taken away", [row(*M, "2019")], [row(*M)], [("changed end", "unknown")]),
    ("an end of that year is made precise", [row(*M, "2018")], [row(*M, "2018-12-21")], [("changed end", "unknown")]),
    ("or lay before that day", [row(*M, "2018")], [row(*M, "2018-02-02")], [("changed end", "wikidata")]),
    ("an unknown end is found", [row(*M, "?")], [row(*M, "2016")], [("changed end", "wikidata")]),
    ("an unknown end was none", [row(*M, "?")], [row(*M)], [("changed end", "wikidata")]),
    ("an end nobody knows", [row(*M)], [row(*M, "?")], [("changed end", "unknown")]),
    ("still in office, said aloud", [row(*M)], [row(*M, "none")], [("changed end", "wikidata")]),
    ("a start made precise", [row("Michel", "2014")], [row(*M)], [("changed start", "wikidata")]),
    ("a start becomes known", [row("Michel")], [row(*M)], [("changed start", "wikidata")]),
    ("an unknown start is no missing one", [row("Michel", "?")], [row("Michel")], [("changed start", "unknown")]),
    ("a planned start is moved", [row("Wilmès", "2019-10-01")], [row(*W)], [("changed start", "world")]),
    ("a start too early", [row("Wilmès", "2018-03-01")], [row(*W)], [("changed start", "wikidata")]),
    ("a rank", [row(*M)], [row(*M, rank="preferred")], [("changed rank", "wikidata")]),
    ("a deprecated value", [row(*M)], [row(*M, rank="deprecated")], [("changed rank", "wikidata")]),
    ("a rank lost with the office", [row(*M, rank="preferred")], [row(*M, "2019-10-27")],
     [("changed end", "world"), ("changed rank", "world")]),
    ("both bounds", [row("Michel", "2014")], [row(*M, "2019-10-27")],
     [("changed start", "wikidata"), ("changed end", "world")]),
    ("two terms are two", [row("Michel", "2001", "2003")], [row("Michel", "2001", "2003"), row("Michel", "2020")],
     [("added", "world")]),
    ("another term is no corrected one", [row("Michel", "2001", "2003")], [row("Michel", "2020", "2021")],
     [("removed", "wikidata"), ("added", "world")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "old", "new", "expected"), CLOCKS, ids=[case[0] for case in CLOCKS])
def test_by_which_clock(
    tmp_path: Path, why: str, old: list[Row], new: list[Row], expected: list[tuple[str, str]]
) -> None:
    found = changes(tmp_path, [KEEP, *old], [KEEP, *new])
    assert sorted((c.kind.value, str(c.clock)) for c in found) == sorted(expected), why


def test_what_is_not_covered_has_no_clock(tmp_path: Path) -> None:
    [change] = changes(tmp_path, [KEEP, row(*M)], [row("Di Rupo", "2011-12-06", "2014-10-11", "k", whole=False)])
    assert (change.kind, change.clock) == (ChangeKind.NOT_COVERED, None)


# ------------------------------------------------------------------------------------------- by content and by id

BEFORE = [row("Di Rupo", "2011", "2014-10-11", "k"), row("Michel", "2014-10-11", id="reused")]
AFTER = [
    row("Di Rupo", "2011", "2014-10-11", "k2"),
    row("Wilmès", "2019-10-27", "2020-10-01", "reused"),
    row("De Croo", "2020-10-01", id="n", rank="preferred"),
    row("Michel", "2014-10-11", "2019-10-27", "moved"),
]


def test_an_id_reused_for_another_person_by_content(tmp_path: Path) -> None:
    assert told(changes(tmp_path, BEFORE, AFTER)) == [
        ("added", "De Croo", "world", "new"),
        ("changed end", "Michel", "world", "reused"),
        ("added", "Wilmès", "world", "reused"),
    ]


def test_an_id_reused_for_another_person_by_id(tmp_path: Path) -> None:
    found = changes(tmp_path, BEFORE, AFTER, By.ID)
    assert told(found) == [
        ("added", "De Croo", "world", "new"),
        ("id only", "Di Rupo", None, "replaced"),
        ("added", "Michel", "wikidata", "new"),
        ("changed holder", "Wilmès", "world", "reused"),
    ]
    assert found[3].before is not None and found[3].before.label == "Michel"


IDS: list[tuple[str, list[Row], list[Row], list[tuple[str, str | None]]]] = [
    ("the same id", [row(*M, id="a")], [row(*M, "2019", "a")], [("changed end", "same")]),
    ("a new id with a new end", [row(*M, id="a")], [row(*M, "2019", "b")], [("changed end", "replaced")]),
    ("of two equal ones the one with its id stays", [row(*M, id="a"), row(*M, id="b")], [row(*M, id="b")],
     [("removed", "gone")]),
    ("an id for another of one's terms", [row("Michel", "2001", "2003", "a")], [row("Michel", "2020", id="a")],
     [("removed", "reused"), ("added", "reused")]),
    ("only the newer one has ids", [row(*M)], [row(*M, "2019", "a")], [("changed end", None)]),
    ("neither has", [row(*M)], [row(*M, "2019")], [("changed end", None)]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "old", "new", "expected"), IDS, ids=[case[0] for case in IDS])
def test_what_became_of_the_id(
    tmp_path: Path, why: str, old: list[Row], new: list[Row], expected: list[tuple[str, str | None]]
) -> None:
    found = changes(tmp_path, old, new)
    assert sorted((c.kind.value, c.id and c.id.value) for c in found) == sorted(expected), why


def test_a_new_id_alone_is_no_difference_of_content(tmp_path: Path) -> None:
    before = take(source([row(*M, id="a")]), tmp_path, OLD)
    after = take(source([row(*M, id="b")]), tmp_path, NEW)
    assert diff(before, after, entity) == []
    [change] = diff(before, after, entity, ids=True)
    assert (change.kind, change.id, change.clock) == (ChangeKind.ID, IdFate.REPLACED, None)
    assert [c.kind for c in diff(before, after, entity, By.ID)] == [ChangeKind.ID]


def test_a_label_alone_is_a_label_only(tmp_path: Path) -> None:
    old, new = (
        Row("Belgium", "P6", name, subject_id="Q31", holder_id="Q950958", start=time("2014"))
        for name in ("Charles M.", "Charles Michel")
    )
    [change] = changes(tmp_path, [old], [new])
    assert (change.kind, change.clock, change.label) == (ChangeKind.LABEL, Clock.WIKIDATA, "Charles Michel")


def test_one_unknown_value_is_like_another(tmp_path: Path) -> None:
    old, new = (row(None, "2014", id=id, holder_unknown=True) for id in "ab")
    assert changes(tmp_path, [old], [new]) == []
    [change] = changes(tmp_path / "x", [old], [row(None, "2014", "2020", "b", holder_unknown=True)])
    assert (change.label, change.entity) == ("unknown value", "unknown value")


def test_changes_are_counted_by_clock(tmp_path: Path) -> None:
    found = tally(changes(tmp_path, BEFORE, AFTER))
    assert found == {Clock.WORLD: Counter({ChangeKind.ADDED: 2, ChangeKind.END: 1})}
    assert list(tally([])) == []


# ----------------------------------------------------------------------------------------- mirrored and from labels


def snak(prop: str, value: object = None, kind: str = "value") -> dict[str, Any]:
    data: dict[str, Any] = {"snaktype": kind, "property": prop}
    if isinstance(value, str) and value.startswith("Q"):
        data |= {
            "datatype": "wikibase-item",
            "datavalue": {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": value}},
        }
    elif kind == "value":
        text, precision, calendar = value if isinstance(value, tuple) else ("", 0, "")
        inner = {"time": text, "timezone": 0, "before": 0, "after": 0, "precision": precision}
        inner["calendarmodel"] = f"http://www.wikidata.org/entity/{calendar}"
        data |= {"datatype": "time", "datavalue": {"type": "time", "value": inner}}
    return data


def claim(number: int, main: dict[str, Any], *qualifiers: dict[str, Any], rank: str = "normal") -> dict[str, Any]:
    by: dict[str, list[dict[str, Any]]] = {}
    for one in qualifiers:
        by.setdefault(one["property"], []).append(one | {"hash": f"{number:040x}"})
    return {"id": f"q31${number:08d}-AAAA", "type": "statement", "rank": rank, "mainsnak": main, "qualifiers": by}


GREGORIAN, JULIAN = "Q1985727", "Q1985786"
CLAIMS = [
    claim(1, snak("P6", "Q1"), snak("P580", ("+1699-08-25T00:00:00Z", 11, JULIAN)), snak("P582", kind="somevalue")),
    claim(2, snak("P6", "Q2"), snak("P580", ("+2001-00-00T00:00:00Z", 9, GREGORIAN)),
          snak("P582", ("+00000002004-03-00T00:00:00Z", 10, GREGORIAN))),
    claim(3, snak("P6", kind="novalue"), snak("P580", ("+2004-03-01T00:00:00Z", 11, GREGORIAN)),
          snak("P582", ("+2004-04-02T00:00:00Z", 11, GREGORIAN))),
    claim(4, snak("P6", kind="somevalue"), snak("P580", kind="somevalue")),
    claim(5, snak("P6", "Q3"), snak("P580", ("+2004-04-02T00:00:00Z", 11, GREGORIAN)), snak("P582", kind="novalue"),
          rank="preferred"),
    claim(6, snak("P6", "Q2"), rank="deprecated"),
]  # fmt: skip


def mirrored() -> Source:
    """Return the statements as a mirror has them: with Wikidata's ids and triples."""
    document = {"id": "Q31", "type": "item", "labels": {"en": {"language": "en", "value": "Belgium"}}}
    [own] = read_entities(document | {"claims": {"P6": CLAIMS}}, (), "a test")
    names: dict[str, Named] = {}
    for number in (1, 2, 3):
        about = {"id": f"Q{number}", "type": "item", "labels": {"en": {"language": "en", "value": f"Holder {number}"}}}
        names[f"Q{number}"] = named(next(iter(read_entities(about, (), "a test"))))
    return mirror.source([mirror.subject(own, ["P6"])], names, {"Q31": ["P6"]}, OLD, name="m", description="M.")


def labelled(mirror: Source) -> Source:
    """Return the same statements as a source has them that knows labels and dates only."""
    rows = [
        Row(
            one.subject, one.property, one.holder, holder_unknown=one.holder_unknown, start=one.start, end=one.end,
            start_unknown=one.start_unknown, end_kind=one.end_kind, rank=one.rank,
        )
        for one in mirror.rows
    ]  # fmt: skip
    return source(rows)


@pytest.mark.parametrize("by", By)
def test_mirrored_and_from_labels_differ_in_nothing(tmp_path: Path, by: By) -> None:
    text = f"iri,entity,label,evidence\n{entity_iri('Belgium')},Q31,Belgium,seen\n"
    for number in (1, 2, 3):
        text += f"{holder_iri('Belgium', 'P6', f'Holder {number}')},Q{number},Holder {number},seen\n"
    same = identity.read(text.encode()).entity
    full = take(mirrored(), tmp_path / "a", OLD)
    bare = take(labelled(mirrored()), tmp_path / "b", NEW)
    assert len(full.statements()) == len(bare.statements()) == len(CLAIMS)
    assert {one.wikidata_id is None for one in bare.statements()} == {True}
    assert diff(full, bare, same, by, ids=True) == []
    assert diff(bare, full, same, by, ids=True) == []
    assert len(diff(full, bare, entity)) == 2 * len(CLAIMS)  # without the table they are strangers


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    take(source(BEFORE), tmp_path, OLD)
    take(source([*AFTER, row("Leterme", "2009", "2011", "l")]), tmp_path, NEW)
    monkeypatch.setenv("DYKNOW_SNAPSHOTS", str(tmp_path))
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, ["snapshot", "diff", "2018-09-01", "2021-06-01", *words], prog_name="dyknow")


def test_the_table_has_a_part_for_each_clock(folder: Path) -> None:
    world, wikidata = call("--subject", "belgium").stdout.split("\n\n")
    assert world.splitlines()[0] == "The world changed, after 2018-09-01"
    assert wikidata.splitlines()[0] == "Wikidata corrected or entered late: 2018-09-01 could have had it"
    assert world.index("Michel") < world.index("Wilmès") < world.index("De Croo")  # by time
    assert "Leterme" in wikidata and "Leterme" not in world
    summary = call().stderr.splitlines()[1:]
    assert summary == [
        "  world: 2 added, 1 changed end",
        "  wikidata: 1 added",
        "  1 more say the same under a new id; --by id lists them.",
    ]


def test_by_id_the_table_names_both_holders(folder: Path) -> None:
    line = next(line for line in call("--by", "id").stdout.splitlines() if "changed holder" in line)
    assert "Michel 2014-10-11–" in line and "Wilmès 2019-10-27–2020-10-01" in line and "reused" in line


def test_one_subject_fits_into_80_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyknow.commands.comparing.width", lambda: 80)
    for words in (["--subject", "Q31"], ["--subject", "Q31", "--by", "id"], []):
        lines = call(*words).stdout.splitlines()
        assert max(map(len, lines)) <= 80
        assert any("2014-10-11–2019-10-27" in line for line in lines)  # no date is broken


def test_json_and_csv_have_stable_keys(folder: Path) -> None:
    listed = json.loads(call("--clock", "world", "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(call("--clock", "world", "--format", "csv").stdout)))
    assert [list(one) for one in listed] == [list(rows[0])] * 3
    [michel] = [one for one in listed if one["holder"] == "Michel"]
    assert michel["before_statement"] == f"{WDS}Q31-reused" and michel["after_statement"] == f"{WDS}Q31-moved"
    assert (michel["before_end_kind"], michel["before_end_earliest"]) == ("open", None)
    assert (michel["after_end_kind"], michel["after_end_earliest"]) == ("known", "2019-10-27")
    assert {one["clock"] for one in listed} == {"world"}


def test_the_older_one_comes_first(folder: Path) -> None:
    result = CliRunner().invoke(cli, ["snapshot", "diff", "2021-06-01", "2018-09-01"], prog_name="dyknow")
    assert result.exit_code == 2
    assert "dyknow snapshot diff 2018-09-01 2021-06-01" in result.stderr


def test_an_unknown_subject_gets_a_hint(folder: Path) -> None:
    result = call("--subject", "Belgum")
    assert result.exit_code == 2 and "Did you mean 'Belgium'?" in result.stderr


def test_the_two_clocks_of_the_shipped_snapshots() -> None:
    old, new = find_snapshots(shipped_snapshots())
    found = diff(old, new, identity.load().entity)
    told = {(c.fact, c.label, c.kind.value): c.clock for c in found if c.clock}
    assert told["Q36/P35", "Karol Nawrocki", "added"] is Clock.WORLD
    assert told["Q16/P35", "Victoria", "changed end"] is Clock.WIKIDATA  # it was her son's
    assert told["Q624375/P169", "Larry Merlo", "changed end"] is Clock.WIKIDATA  # he had left in 2021
    assert told["Q53268/P169", "Akio Toyoda", "changed end"] is Clock.UNKNOWN  # in 2023, the year of the older one
    assert {clock for clock in told.values()} == set(Clock)
