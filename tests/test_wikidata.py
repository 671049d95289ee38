"""The client for Wikidata against a server that behaves as Wikidata does, faults included."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kg.errors import SourceError, UsageError
from kg.sources.entity import Entity
from kg.sources.responses import Responses
from kg.sources.web import Manners, Web
from kg.sources.wikidata import Candidate, Revision, Wikidata
from tests.wikidata_server import FakeWikidata, Fault, Version, corpus, holders, small

FEW = Manners(attempts=3)
SHORT = Manners(attempts=2, deadline_s=0.3)  # for what never ends

OLD = Version(10, "2018-01-01T00:00:00Z", small("Q38", "Italia"))
NEW = Version(20, "2020-01-01T00:00:00Z", small("Q38", "Italy"))
DOCUMENTS = {
    "Q38": [OLD, NEW],
    "Q2": [Version(30, "2019-01-01T00:00:00Z", small("Q2", "Earth"))],
    "P35": [Version(40, "2019-01-01T00:00:00Z", small("P35", "head of state"))],
}


@pytest.fixture
def fake() -> Iterator[FakeWikidata]:
    with FakeWikidata(DOCUMENTS, redirects={"Q1": "Q2", "Q11": "Q2"}, deleted=["Q66"], synthetic=True) as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[..., Wikidata]]:
    """Return a function that gives a client that never waits; all are closed at the end."""
    opened: list[Web] = []

    def make(
        fake: FakeWikidata, folder: Path | None = None, manners: Manners = FEW, *, offline: bool = False
    ) -> Wikidata:
        responses = None if folder is None else Responses(folder)
        opened.append(Web(manners, responses, offline=offline, sleep=lambda _: None))
        return Wikidata(opened[-1], fake.url)

    yield make
    for web in opened:
        web.close()


Connect = Callable[..., Wikidata]


# Documents


def test_a_document_comes_with_its_revision(fake: FakeWikidata, connect: Connect) -> None:
    entity = connect(fake).entity("Q38", None)
    assert (entity.id, entity.label, entity.revision) == ("Q38", ("Italy", "en"), 20)
    assert entity.modified == "2020-01-01T00:00:00Z"


def test_a_redirect_keeps_the_id_it_was_asked_by(fake: FakeWikidata, connect: Connect) -> None:
    entity = connect(fake).entity("Q1", None)
    assert (entity.asked, entity.id, entity.label) == ("Q1", "Q2", ("Earth", "en"))


def test_a_past_revision_is_the_one_that_was_asked_for(fake: FakeWikidata, connect: Connect) -> None:
    entity = connect(fake).entity_at("Q38", 10)
    assert (entity.revision, entity.label) == (10, ("Italia", "en"))


@pytest.mark.parametrize(("name", "revision"), [("Q38", 30), ("Q38", 99), ("Q66", 1), ("Q1", 3_000_000_001)])
def test_a_revision_that_is_not_there_is_said(fake: FakeWikidata, connect: Connect, name: str, revision: int) -> None:
    # The last one is there, and is a redirect.
    with pytest.raises(SourceError, match=f"no revision {revision} of {name}") as caught:
        connect(fake).entity_at(name, revision)
    assert caught.value.kind == "absent"
    assert len(fake.requests) == 1


def test_an_entity_that_is_not_there_is_said(fake: FakeWikidata, connect: Connect) -> None:
    with pytest.raises(SourceError, match="Wikidata has no Q66") as caught:
        connect(fake).entity("Q66", None)
    assert caught.value.kind == "absent"


def test_another_revision_from_a_stale_cache_is_refused(fake: FakeWikidata, connect: Connect) -> None:
    fake.faults = [Fault("stale")]
    assert connect(fake).entity_at("Q38", 20).revision == 20
    assert len(fake.requests) == 2
    fake.faults = [Fault("stale", forever=True)]
    with pytest.raises(SourceError, match="revision 10 instead of 20"):
        connect(fake).entity_at("Q38", 20)


def test_an_older_document_than_is_known_is_refused(fake: FakeWikidata, connect: Connect) -> None:
    fake.faults = [Fault("stale", nth=2)]
    wikidata = connect(fake)
    assert wikidata.entity("Q38", None, not_before=20).revision == 20
    assert wikidata.entity("Q38", None, not_before=20).revision == 20
    assert len(fake.requests) == 3


@pytest.mark.parametrize("name", ["", "38", "q38", "Q0", "Q38|Q1", "Q38.json", "../Q38", "Berlin"])
def test_what_is_no_id_is_never_sent(fake: FakeWikidata, connect: Connect, name: str) -> None:
    wikidata = connect(fake)
    for ask in (
        lambda: wikidata.entity(name, None),
        lambda: wikidata.entity_at(name, 1),
        lambda: wikidata.entities([name], None),
        lambda: wikidata.revision_at(name, "2020-01-01T00:00:00Z"),
    ):
        with pytest.raises(UsageError, match="no id of Wikidata"):
            ask()
    assert fake.requests == []


# Batches


def test_entities_come_in_batches_of_fifty_in_the_order_of_their_numbers(fake: FakeWikidata, connect: Connect) -> None:
    names = [f"Q{number}" for number in range(1000, 1120)]
    found = connect(fake).entities(names[::-1], None)
    assert list(found) == names
    assert found["Q1007"] and found["Q1007"].label == ("Label of Q1007", "en")
    batches = [asked.params["ids"].split("|") for asked in fake.requests]
    assert [len(batch) for batch in batches] == [50, 50, 20]
    assert [name for batch in batches for name in batch] == names
    assert {asked.params["maxlag"] for asked in fake.requests} == {"5"}


@pytest.mark.parametrize("by_target", [True, False])
def test_every_redirect_of_a_batch_is_answered(fake: FakeWikidata, connect: Connect, by_target: bool) -> None:
    fake.by_target = by_target
    found = connect(fake).entities(["Q1", "Q2", "Q11", "Q38"], None)
    assert {asked: (one.asked, one.id) for asked, one in found.items() if one} == {
        "Q1": ("Q1", "Q2"),
        "Q2": ("Q2", "Q2"),
        "Q11": ("Q11", "Q2"),
        "Q38": ("Q38", "Q38"),
    }


def test_what_is_deleted_or_never_was_is_none(fake: FakeWikidata, connect: Connect) -> None:
    fake.synthetic = False
    found = connect(fake).entities(["Q38", "Q66", "Q999"], None)
    assert [name for name, one in found.items() if one is None] == ["Q66", "Q999"]
    assert len(fake.requests) == 1


def test_an_entity_that_the_reply_passes_over_is_an_error(
    fake: FakeWikidata, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(_: Mapping[str, str]) -> Mapping[str, object]:
        return {"entities": {"Q2": small("Q2", "Earth")}, "success": 1}

    monkeypatch.setattr(fake, "_entities", forgetful)
    with pytest.raises(SourceError, match="says nothing of Q38"):
        connect(fake).entities(["Q2", "Q38"], None)
    assert [asked.params["ids"] for asked in fake.requests] == ["Q2|Q38", "Q38"]


def test_what_a_long_reply_leaves_out_is_asked_for_again(fake: FakeWikidata, connect: Connect) -> None:
    fake.biggest = 700
    names = [f"Q{number}" for number in range(100, 110)]
    found = connect(fake).entities(names, None)
    assert [entity.id for entity in found.values() if entity] == names
    assert 2 < len(fake.requests) < 10


def test_properties_have_documents_too(fake: FakeWikidata, connect: Connect) -> None:
    found = connect(fake).entities(["P35", "Q38"], None)
    assert found["P35"] and found["P35"].label == ("head of state", "en")


# Revisions


@pytest.mark.parametrize(
    ("instant", "number"),
    [
        ("2017-12-31T23:59:59Z", None),
        ("2018-01-01T00:00:00Z", 10),
        ("2019-12-31T23:59:59Z", 10),
        ("2020-01-01T00:00:00Z", 20),
        ("2026-01-01T00:00:00Z", 20),
    ],
)
def test_the_revision_of_an_instant_is_the_last_not_after_it(
    fake: FakeWikidata, connect: Connect, instant: str, number: int | None
) -> None:
    found = connect(fake).revision_at("Q38", instant)
    assert (found and found.number) == number
    assert found is None or found.id == "Q38"


def test_what_was_never_there_has_no_revisions(fake: FakeWikidata, connect: Connect) -> None:
    wikidata = connect(fake)
    assert wikidata.revision_at("Q66", "2020-01-01T00:00:00Z") is None
    assert wikidata.revisions("Q66", "2010-01-01T00:00:00Z", "2020-01-01T00:00:00Z") == []
    assert wikidata.revisions("Q38", "2018-06-01T00:00:00Z", "2019-01-01T00:00:00Z") == []


def test_the_revisions_of_a_property_are_found_under_its_title(fake: FakeWikidata, connect: Connect) -> None:
    found = connect(fake).revision_at("P35", "2020-01-01T00:00:00Z")
    assert found == Revision("P35", 40, "2019-01-01T00:00:00Z")
    assert fake.requests[0].params["titles"] == "Property:P35"


def test_revisions_are_continued_to_the_end(connect: Connect) -> None:
    many = [Version(n, f"20{n // 12:02}-{n % 12 + 1:02}-01T00:00:00Z", small("Q38", str(n))) for n in range(120, 240)]
    with FakeWikidata({"Q38": many}, page=7) as fake:
        found = connect(fake).revisions("Q38", "2011-01-01T00:00:00Z", "2018-12-01T00:00:00Z")
    assert [one.number for one in found] == list(range(132, 228))
    assert found == sorted(found, key=lambda one: one.timestamp)
    assert len(fake.requests) == 14


def test_a_listing_that_goes_in_a_circle_ends(fake: FakeWikidata, connect: Connect) -> None:
    fake.page = 0
    with pytest.raises(SourceError, match="in a circle"):
        connect(fake).revisions("Q38", "2010-01-01T00:00:00Z", "2021-01-01T00:00:00Z")


@pytest.mark.parametrize("instant", ["2019-06-30", "today", "20190630000000", "2019-06-30T00:00:00"])
def test_what_is_no_instant_is_refused(fake: FakeWikidata, connect: Connect, instant: str) -> None:
    with pytest.raises(UsageError, match="no instant"):
        connect(fake).revision_at("Q38", instant)
    with pytest.raises(UsageError, match="no instant"):
        connect(fake).revisions("Q38", instant, "2020-01-01T00:00:00Z")


def test_instants_in_the_wrong_order_are_refused(fake: FakeWikidata, connect: Connect) -> None:
    with pytest.raises(UsageError, match="is after"):
        connect(fake).revisions("Q38", "2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z")


def test_the_past_is_kept_for_ever_and_the_future_is_not(fake: FakeWikidata, connect: Connect, tmp_path: Path) -> None:
    wikidata = connect(fake, tmp_path)
    for _ in range(2):
        wikidata.revision_at("Q38", "2020-06-01T00:00:00Z")
    assert len(fake.requests) == 1
    wikidata.web.now = lambda: 1_500_000_000.0  # 2017
    for _ in range(2):
        wikidata.revision_at("Q38", "2020-05-31T00:00:00Z")
    assert len(fake.requests) == 3
    for _ in range(2):
        wikidata.revision_at("Q38", "2020-05-31T00:00:00Z", "a job")
    assert len(fake.requests) == 4


def test_a_revision_whose_text_is_hidden_gives_way_to_the_one_before(fake: FakeWikidata, connect: Connect) -> None:
    fake.hidden = {20}
    found = connect(fake).revision_at("Q38", "2021-01-01T00:00:00Z")
    assert found == Revision("Q38", 10, "2018-01-01T00:00:00Z")
    listed = connect(fake).revisions("Q38", "2017-01-01T00:00:00Z", "2021-01-01T00:00:00Z")
    assert listed == [found]


# As it stood


MERGED = {
    "Q1": [
        Version(10, "2018-01-01T00:00:00Z", small("Q1", "Terra")),
        Version(20, "2020-01-01T00:00:00Z", {"entity": "Q1", "redirect": "Q2"}),
    ],
    "Q2": [
        Version(5, "2017-01-01T00:00:00Z", small("Q2", "Earth")),
        Version(30, "2022-01-01T00:00:00Z", small("Q2", "Planet Earth")),
    ],
}


@pytest.mark.parametrize(
    ("instant", "document", "label"),
    [
        ("2019-01-01T00:00:00Z", "Q1", "Terra"),
        ("2021-01-01T00:00:00Z", "Q2", "Earth"),
        ("2023-01-01T00:00:00Z", "Q2", "Planet Earth"),
    ],
)
def test_a_redirect_is_followed_as_it_stood_then(connect: Connect, instant: str, document: str, label: str) -> None:
    with FakeWikidata(MERGED) as fake:
        found = connect(fake).entity_on("Q1", instant)
    assert found and found.label
    assert (found.asked, found.id, found.label[0]) == ("Q1", document, label)


def test_nothing_stood_before_the_first_revision(connect: Connect) -> None:
    with FakeWikidata(MERGED) as fake:
        assert connect(fake).entity_on("Q1", "2016-01-01T00:00:00Z") is None


def test_redirects_in_a_circle_end(connect: Connect) -> None:
    circle = {
        name: [Version(number, "2020-01-01T00:00:00Z", {"entity": name, "redirect": to})]
        for number, (name, to) in enumerate([("Q1", "Q2"), ("Q2", "Q1")])
    }
    with FakeWikidata(circle) as fake, pytest.raises(SourceError, match="no revision"):
        connect(fake).entity_on("Q1", "2021-01-01T00:00:00Z")


def test_a_revision_that_is_no_redirect_leads_nowhere(fake: FakeWikidata, connect: Connect) -> None:
    wikidata = connect(fake)
    assert wikidata.redirect_at("Q38", 20) is None
    assert wikidata.redirect_at("Q38", 999) is None
    assert wikidata.redirect_at("Q1", 3_000_000_001) == "Q2"
    assert wikidata.redirect_at("Q38", 3_000_000_001) is None  # another entity's


# Search


def test_a_search_gives_candidates(connect: Connect, shared: Path) -> None:
    with FakeWikidata(corpus(shared)) as fake:
        found = connect(fake).search("germany")
        assert connect(fake).search("zzz no such thing") == []
    assert found[0] == Candidate("Q183", "Germany", found[0].description)
    assert found[0].description


# Real documents


def test_every_revision_of_the_real_documents_is_mirrored(connect: Connect, shared: Path) -> None:
    real = corpus(shared)
    several = {name: versions for name, versions in real.items() if len(versions) > 1}
    assert len(several) > 30
    with FakeWikidata(real) as fake:
        wikidata = connect(fake)
        for name, versions in several.items():
            listed = wikidata.revisions(name, "2010-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
            assert [(one.number, one.timestamp) for one in listed] == [one[:2] for one in versions]
            for version in versions:
                there = wikidata.revision_at(name, version.timestamp)
                assert there is not None
                entity = wikidata.entity_at(name, there.number)
                assert (entity.revision, entity.modified) == (version.revision, version.timestamp)
                assert entity.document["claims"] == version.document["claims"]


def test_every_real_document_comes_in_batches(connect: Connect, shared: Path) -> None:
    real = corpus(shared)
    with FakeWikidata(real, labels=holders(shared)) as fake:
        found = connect(fake).entities([*real, *holders(shared)], None)
    assert set(found) == {*real, *holders(shared)}
    assert not [name for name, entity in found.items() if entity is None]
    for name, versions in real.items():
        entity = found[name]
        assert entity and entity.revision == versions[-1].revision
        assert entity.document["claims"] == versions[-1].document["claims"]


# Faults

KINDS = (
    *("refuse", "429", "500", "503", "maxlag", "api error", "cut off", "chunked cut off", "gzip cut off"),
    *("gzip garbage", "truncated json", "wrong type", "html", "timeout", "drip", "drip headers", "redirect", "empty"),
)
FIRST, MIDDLE, LAST = 1, 3, 5


def job(wikidata: Wikidata) -> Mapping[str, Entity | None]:
    """Fetch three documents and the labels of sixty holders: five requests."""
    documents = {
        "Q38": wikidata.entity_at("Q38", 20),
        "old": wikidata.entity_at("Q38", 10),
        "Q1": wikidata.entity("Q1", "job"),
    }
    return {**documents, **wikidata.entities([f"Q{number}" for number in range(100, 160)], "job")}


@pytest.mark.parametrize("nth", [FIRST, MIDDLE, LAST])
@pytest.mark.parametrize("kind", KINDS)
def test_a_passing_fault_changes_nothing(
    fake: FakeWikidata, connect: Connect, tmp_path: Path, kind: str, nth: int
) -> None:
    manners = SHORT if kind.startswith("drip") else FEW
    undisturbed = job(connect(fake))
    assert len(fake.requests) == LAST
    fake.requests.clear()
    fake.faults = [Fault(kind, nth)]
    assert job(connect(fake, tmp_path, manners)) == undisturbed
    assert len(fake.requests) == LAST + 1


@pytest.mark.parametrize("nth", [FIRST, MIDDLE, LAST])
@pytest.mark.parametrize("kind", KINDS)
def test_a_lasting_fault_is_said_and_a_rerun_asks_only_for_the_rest(
    fake: FakeWikidata, connect: Connect, tmp_path: Path, kind: str, nth: int
) -> None:
    manners = SHORT if kind.startswith("drip") else FEW
    undisturbed = job(connect(fake))
    fake.requests.clear()
    fake.faults = [Fault(kind, nth, forever=True)]
    with pytest.raises(SourceError, match=fake.url) as caught:
        job(connect(fake, tmp_path, manners))
    assert caught.value.hint and "kept" in caught.value.hint
    with pytest.raises(SourceError, match="not among the stored"):
        job(connect(fake, tmp_path, offline=True))

    fake.faults = []
    fake.requests.clear()
    assert job(connect(fake, tmp_path, manners)) == undisturbed
    assert len(fake.requests) == LAST - (nth - 1)
    fake.requests.clear()
    assert job(connect(fake, tmp_path, offline=True)) == undisturbed
    assert fake.requests == []
