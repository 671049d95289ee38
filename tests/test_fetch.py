"""Each live source, fetched whole, against a server that behaves as Wikidata does, its faults included."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kg.dates import Day, parse_day
from kg.errors import SourceError, UsageError
from kg.snapshot import Snapshot, diff, take, verify
from kg.snapshot.reading import read_graph
from kg.snapshot.triples import ntriples
from kg.sources import Row, Source
from kg.sources.entity import Named, read_entities
from kg.sources.fetch import Plan, Step, days_of, end_of, mirror, plan
from kg.sources.mirror import source, subject, value_ids
from kg.sources.rdf import statements
from kg.sources.responses import Responses
from kg.sources.web import Manners, Web
from kg.sources.wikidata import Wikidata
from kg.terms import entity_iri, holder_iri, short
from tests.test_mirror import claim, time
from tests.wikidata_server import FakeWikidata, Fault, Version, corpus

PROPERTIES = ("P6", "P35", "P54", "P169", "P488")
NOW = "2026-11-30T12:00:00Z"


def quiet(_: Step) -> None:
    pass


def client(
    server: FakeWikidata, responses: Path | None = None, *, offline: bool = False, attempts: int = 2
) -> Wikidata:
    """Return a client that never waits."""
    manners = Manners(attempts=attempts, timeout_s=0.3, deadline_s=0.6)
    kept = Responses(responses) if responses else None
    return Wikidata(Web(manners, kept, offline=offline, sleep=lambda _: None), server.url)


def mirrored(
    server: FakeWikidata,
    wanted: Mapping[str, Sequence[str]],
    instants: Mapping[Day, str],
    folder: Path,
    *,
    offline: bool = False,
) -> list[Snapshot]:
    """Take a snapshot of each day, keeping what was fetched in the folder."""
    wikidata = client(server, folder / ".responses", offline=offline)
    with wikidata.web:
        chosen = plan(wikidata, wanted, instants, "test", quiet)
        return [take(one, folder) for one in mirror(wikidata, chosen, "test", quiet)]


@pytest.fixture(scope="module")
def documents(shared: Path) -> Mapping[str, Sequence[Version]]:
    return corpus(shared)


@pytest.fixture
def wikidata(documents: Mapping[str, Sequence[Version]]) -> Iterator[FakeWikidata]:
    with FakeWikidata(documents, synthetic=True) as server:
        yield server


def of_document(version: Version, wanted: Sequence[str]) -> set[str]:
    """Return the triples of the wanted statements of a document."""
    [entity] = read_entities(version.document, [], "the document")
    return {f"{s} {p} {o} ." for statement in statements(entity, wanted) for s, p, o in statement.triples}


def test_every_date_for_which_two_revisions_exist_shows_the_statements_of_its_document(
    wikidata: FakeWikidata, documents: Mapping[str, Sequence[Version]], tmp_path: Path
) -> None:
    several = {name: versions for name, versions in documents.items() if len(versions) > 1 and name.startswith("Q")}
    days = sorted({parse_day(version.timestamp[:10]) for versions in several.values() for version in versions})
    instants = {**{day: end_of(day) for day in days}, 20261130: NOW}
    taken = mirrored(wikidata, dict.fromkeys(several, PROPERTIES), instants, tmp_path)
    assert len(several) > 20 and len(taken) == len(instants) > 4
    checked = 0
    for snapshot, instant in zip(taken, (instants[day] for day in sorted(instants)), strict=True):
        triples = set(snapshot.read_statements().decode().splitlines())
        for name, versions in several.items():
            standing = [version for version in versions if version.timestamp <= instant]
            of_it = {
                line
                for line in triples
                if line.startswith(f"<http://www.wikidata.org/entity/{name}> <http://www.wikidata.org/prop/P")
            }
            if not standing:
                assert not of_it
                continue
            expected = of_document(standing[-1], PROPERTIES)
            assert expected <= triples
            assert of_it == {line for line in expected if line.startswith(f"<http://www.wikidata.org/entity/{name}> ")}
            checked += len(expected)
    assert checked > 15_000


def test_a_history_fetches_each_revision_once(wikidata: FakeWikidata, tmp_path: Path) -> None:
    days = days_of(20140101, 20220101, "month")
    wanted = {"Q183": ["P6"], "Q31": ["P6"]}
    taken = mirrored(wikidata, wanted, {day: end_of(day) for day in days}, tmp_path)
    assert len(taken) == len(days) == 97
    fetched = [one.params["revision"] for one in wikidata.requests if "revision" in one.params]
    assert len(fetched) == len(set(fetched)) == 7  # four of Germany, three of Belgium
    assert taken[0].manifest["provenance"]["absent"] == ["Q183", "Q31"]
    assert taken[-1].manifest["provenance"]["entities"]["Q31"] == {
        "revision": int(fetched[-1]) if int(fetched[-1]) == 1449822671 else 1449822671,
        "modified": "2021-06-15T12:00:00Z",
    }


def test_a_listing_of_revisions_is_continued(documents: Mapping[str, Sequence[Version]], tmp_path: Path) -> None:
    days = days_of(20140101, 20220101, "year")
    with FakeWikidata(documents, synthetic=True, page=1) as server:
        mirrored(server, {"Q183": ["P6"]}, {day: end_of(day) for day in days}, tmp_path)
        assert sum("rvcontinue" in one.params for one in server.requests) == 3


def test_what_is_stored_needs_no_network(wikidata: FakeWikidata, tmp_path: Path) -> None:
    wanted, instants = {"Q31": ["P6"]}, {20190101: end_of(20190101)}
    [first] = mirrored(wikidata, wanted, instants, tmp_path)
    sent = len(wikidata.requests)
    (tmp_path / "2019-01-01").rename(tmp_path / "away")
    [again] = mirrored(wikidata, wanted, instants, tmp_path, offline=True)
    assert (len(wikidata.requests), again.digest) == (sent, first.digest)
    with pytest.raises(SourceError) as caught:
        mirrored(wikidata, {"Q183": ["P6"]}, instants, tmp_path, offline=True)
    assert caught.value.kind == "offline"


FAULTS = (
    "refuse", "429", "500", "503", "maxlag", "api error", "cut off", "chunked cut off", "gzip cut off", "gzip garbage",
    "truncated json", "wrong type", "html", "silence", "drip", "redirect",
)  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(
    documents: Mapping[str, Sequence[Version]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, int]:
    """Return the digest of a small job and how many requests it takes."""
    with FakeWikidata(documents, synthetic=True) as server:
        [snapshot] = mirrored(server, JOB, AT, tmp_path_factory.mktemp("undisturbed"))
        return snapshot.digest, len(server.requests)


JOB = {"Q31": ["P6"], "Q586": ["P6"], "Q912": ["P6"]}
AT = {20210630: end_of(20210630)}


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("kind", FAULTS)
def test_after_any_fault_a_rerun_asks_only_for_what_is_missing_and_gives_the_same(
    kind: str, place: str, documents: Mapping[str, Sequence[Version]], undisturbed: tuple[str, int], tmp_path: Path
) -> None:
    digest, requests = undisturbed
    nth = {"first": 1, "middle": requests // 2 + 1, "last": requests}[place]
    with FakeWikidata(documents, synthetic=True, faults=[Fault(kind, nth, forever=True, after="1")]) as server:
        with pytest.raises(SourceError):
            mirrored(server, JOB, AT, tmp_path)
        assert not (tmp_path / "2021-06-30").exists()
        assert not [path for path in tmp_path.iterdir() if path.name != ".responses"]
        server.faults.clear()
        before = len(server.requests)
        [snapshot] = mirrored(server, JOB, AT, tmp_path)
        assert snapshot.digest == digest
        assert len(server.requests) - before == requests - (nth - 1)


def test_one_fault_is_got_over_in_the_same_run(
    documents: Mapping[str, Sequence[Version]], undisturbed: tuple[str, int], tmp_path: Path
) -> None:
    faults = [Fault(kind, 2 * number + 1) for number, kind in enumerate(["500", "html", "gzip garbage", "maxlag"])]
    with FakeWikidata(documents, synthetic=True, faults=faults) as server:
        [snapshot] = mirrored(server, JOB, AT, tmp_path)
        assert snapshot.digest == undisturbed[0]
        assert len(server.requests) == undisturbed[1] + len(faults)


def small(label: str, *claims: Mapping[str, Any], name: str = "Q1") -> dict[str, Any]:
    by_property: dict[str, list[Mapping[str, Any]]] = {}
    for one in claims:
        by_property.setdefault(one["mainsnak"]["property"], []).append(one)
    return {"id": name, "type": "item", "labels": {"en": {"language": "en", "value": label}}, "claims": by_property}


def test_a_subject_that_was_merged_is_followed_and_kept_under_both_ids(tmp_path: Path) -> None:
    old, new = (
        small("Land", name="Q1"),
        small("Land", claim(1, "P6", "Q5", start=time("+2015-01-01T00:00:00Z")), name="Q2"),
    )
    documents = {"Q1": [(1, "2014-01-01T00:00:00Z", old)], "Q2": [(2, "2016-01-01T00:00:00Z", new)]}
    with FakeWikidata(documents, redirects={"Q1": "Q2"}, synthetic=True) as server:
        [snapshot] = mirrored(server, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
    assert snapshot.manifest["provenance"]["redirects"] == {"Q1": "Q2"}
    [statement] = snapshot.statements()
    assert statement.fact == "urn:dyknow:fact:Q2:P6"
    assert b"<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2002/07/owl#sameAs>" in snapshot.read_statements()


def test_a_deleted_subject_is_an_error_and_a_deleted_holder_is_none(tmp_path: Path) -> None:
    land = small("Land", claim(1, "P6", "Q5"))
    documents = {"Q1": [(1, "2014-01-01T00:00:00Z", land)]}
    with FakeWikidata(documents, deleted=["Q5"], synthetic=True) as server:
        [snapshot] = mirrored(server, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
        [statement] = snapshot.statements()
        assert (statement.holder, statement.label) == ("http://www.wikidata.org/entity/Q5", None)
        absent = mirrored(server, {"Q5": ["P6"]}, {20220102: end_of(20220102)}, tmp_path)
        assert absent[0].manifest["provenance"]["absent"] == ["Q5"]


def test_a_mirrored_snapshot_and_a_label_only_one_differ_in_nothing_by_content(
    documents: Mapping[str, Sequence[Version]], tmp_path: Path
) -> None:
    wanted = ["P6", "P35"]
    [entity] = read_entities(documents["Q31"][-1].document, [], "Belgium")
    own = subject(entity, wanted)
    names = {item: Named(item, item, (f"Label of {item}", "en"), (), (), ()) for item in value_ids([own])}
    made = source([own], names, {"Q31": wanted}, 20210615, name="mirror", description="Mirrored.")
    rows = [replace(row, subject_id=None, holder_id=None, statement=None, triples=()) for row in made.rows]
    left = take(made, tmp_path / "a")
    right = take(Source(rows, "table", "The same, by labels.", date=20210615), tmp_path / "b")
    same = {entity_iri("Belgium"): "Q31"}
    same |= {
        holder_iri(row.subject, row.property, row.holder or ""): row.holder_id or "" for row in rows_with_ids(made)
    }
    changes = diff(left, right, lambda iri: same.get(iri, short(iri)))
    assert changes == []
    assert len(made.rows) > 10


def rows_with_ids(made: Source) -> list[Row]:
    return [row for row in made.rows if row.holder_id]


@pytest.mark.parametrize(
    ("first", "last", "every", "count", "final"),
    [
        (20180101, 20231201, "month", 72, 20231201),
        (20240131, 20240430, "month", 4, 20240430),
        (20200229, 20240229, "year", 5, 20240229),
        (20231225, 20240108, "week", 3, 20240108),
        (20240227, 20240301, "day", 4, 20240301),
        (20240102, 20240101, "day", 0, None),
        (20230115, 20231231, "quarter", 4, 20231015),
    ],
)
def test_the_days_of_a_history(first: Day, last: Day, every: str, count: int, final: Day | None) -> None:
    days = days_of(first, last, every)
    assert (len(days), days[-1] if days else None) == (count, final)


def test_nothing_wanted_is_a_wrong_call() -> None:
    with FakeWikidata({}) as server, client(server).web as web, pytest.raises(UsageError):
        plan(Wikidata(web, server.url), {}, {20200101: end_of(20200101)}, "test", quiet)


def test_a_plan_counts_what_it_will_fetch(wikidata: FakeWikidata) -> None:
    with client(wikidata).web as web:
        chosen: Plan = plan(
            Wikidata(web, wikidata.url),
            {"Q183": ["P6"]},
            {day: end_of(day) for day in (20150101, 20190101)},
            "test",
            quiet,
        )
    assert chosen.documents == 2
    assert [chosen.standing("Q183", day) is not None for day in (20150101, 20190101)] == [True, True]


def test_triples_are_sorted_and_the_same_whatever_the_order(documents: Mapping[str, Sequence[Version]]) -> None:
    subjects = [
        subject(next(read_entities(documents[name][-1].document, [], name)), PROPERTIES) for name in ("Q31", "Q183")
    ]
    wanted = dict.fromkeys(("Q31", "Q183"), PROPERTIES)
    made = [source(order, {}, wanted, 20210615, name="t", description="t") for order in (subjects, subjects[::-1])]
    left, right = (ntriples(one.rows, one.triples) for one in made)
    assert left == right
    assert len(read_graph(left)) == len(made[0].rows) > 30


def test_two_statements_of_one_id_are_one_and_the_snapshot_is_whole(tmp_path: Path) -> None:
    first, second = claim(1, "P6", "Q5"), claim(2, "P6", "Q6")
    second["id"] = first["id"]
    documents = {"Q1": [(1, "2014-01-01T00:00:00Z", small("Land", first, second))]}
    with FakeWikidata(documents, synthetic=True) as server:
        [snapshot] = mirrored(server, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
    assert verify(snapshot) == []
    assert len(snapshot.statements()) == 1
    assert any("same id" in note for note in snapshot.manifest["notes"])


def test_a_holder_that_is_no_item_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    odd, right = claim(1, "P6", "Q5"), claim(2, "P6", "Q6")
    odd["mainsnak"]["datavalue"]["value"] = {"entity-type": "property", "id": "P31"}
    documents = {"Q1": [(1, "2014-01-01T00:00:00Z", small("Land", odd, right))]}
    with FakeWikidata(documents, synthetic=True) as server:
        [snapshot] = mirrored(server, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
    assert [statement.holder for statement in snapshot.statements()] == ["http://www.wikidata.org/entity/Q6"]


MISSHAPEN: list[dict[str, Any]] = [
    {"claims": {"P6": None}},
    {"claims": {"P6": [None]}},
    {"claims": {"P6": ["x"]}},
    {"claims": {"Pxx": []}},
    {"claims": {"P" + "9" * 5000: []}},
    {"claims": {"P6": [{"mainsnak": "x"}]}},
    {"claims": {"P6": [{"mainsnak": {"snaktype": "value"}}]}},
    {"claims": {"P6": [{"mainsnak": {"snaktype": "novalue"}, "qualifiers": {"P580": None}}]}},
    {"claims": {"P6": [{"mainsnak": {"snaktype": "novalue"}, "qualifiers": {"P580": [None]}}]}},
    {"claims": {"P6": [{"mainsnak": {"snaktype": "novalue"}, "references": 5}]}},
    {"claims": {"P6": [{"mainsnak": {"snaktype": "novalue"}, "references": [None]}]}},
    {"aliases": {"en": 5}},
    {"labels": {"en": "x"}},
]


@pytest.mark.parametrize("part", MISSHAPEN, ids=lambda part: str(part)[:60])
def test_a_document_of_another_shape_is_refused_before_it_is_kept(part: dict[str, Any], tmp_path: Path) -> None:
    good = small("Land", claim(1, "P6", "Q5"))
    bad = {"Q1": [(1, "2014-01-01T00:00:00Z", {**good, **part})]}
    with FakeWikidata(bad, synthetic=True) as server, pytest.raises(SourceError):
        mirrored(server, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
    with FakeWikidata({"Q1": [(1, "2014-01-01T00:00:00Z", good)]}, synthetic=True) as mended:
        [snapshot] = mirrored(mended, {"Q1": ["P6"]}, {20220101: end_of(20220101)}, tmp_path)
        assert len(snapshot.statements()) == 1
