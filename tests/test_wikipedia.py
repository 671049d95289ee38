"""The client for Wikipedia against a server that behaves as Wikipedia does, and what a page says in plain words."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dyknow.align.documents import Topic, wikipedia_passages
from kg.errors import SourceError, UsageError
from kg.sources.responses import Responses
from kg.sources.web import Manners, Web
from kg.sources.wikipedia import Wikipedia, passages
from tests.wikidata_server import Fault
from tests.wikipedia_server import FakeWikipedia

OLD = "<p>Italy is a country. Its prime minister is <b>Mario Draghi</b>, who took office in 2021.</p>"
NEW = "<p>Italy is a country. Its prime minister is <b>Giorgia Meloni</b>, who took office in 2022.</p>"
PAGES = {
    "Italy": [(10, "2021-03-01T08:00:00Z", OLD), (20, "2022-10-23T08:00:00Z", NEW)],
    "Harry Kane": [
        (30, "2023-08-13T08:00:00Z", "<p>Harry Kane is an English footballer who plays for Bayern Munich.</p>")
    ],
}


@pytest.fixture
def fake() -> Iterator[FakeWikipedia]:
    with FakeWikipedia(PAGES, redirects={"Italian Republic": "Italy"}) as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[..., Wikipedia]]:
    """Return a function that gives a client that never waits; all are closed at the end."""
    opened: list[Web] = []

    def make(fake: FakeWikipedia, folder: Path | None = None, *, offline: bool = False) -> Wikipedia:
        responses = None if folder is None else Responses(folder)
        opened.append(Web(Manners(attempts=3), responses, offline=offline, sleep=lambda _: None))
        return Wikipedia(opened[-1], fake.url)

    yield make
    for web in opened:
        web.close()


Connect = Callable[..., Wikipedia]


def test_a_page_is_read_as_it_stood(fake: FakeWikipedia, connect: Connect) -> None:
    wikipedia = connect(fake)
    then, now = (wikipedia.page_on("Italy", f"{day}T23:59:59Z") for day in ("2022-10-22", "2023-01-01"))
    assert then is not None
    assert now is not None
    assert (then.revision, then.timestamp) == (10, "2021-03-01T08:00:00Z")
    assert then.passages == ("Italy is a country. Its prime minister is Mario Draghi, who took office in 2021.",)
    assert now.revision == 20
    assert now.address == f"{fake.url}/w/index.php?title=Italy&oldid=20"


def test_before_its_first_revision_a_page_is_not_there(fake: FakeWikipedia, connect: Connect) -> None:
    assert connect(fake).page_on("Italy", "2020-01-01T00:00:00Z") is None
    assert connect(fake).page_on("Nowhere", "2023-01-01T00:00:00Z") is None


def test_a_redirect_is_followed(fake: FakeWikipedia, connect: Connect) -> None:
    page = connect(fake).page_on("Italian Republic", "2023-01-01T00:00:00Z")
    assert page is not None
    assert (page.title, page.revision) == ("Italy", 20)


def test_a_hidden_revision_is_passed_over(connect: Connect) -> None:
    with FakeWikipedia(PAGES, hidden=[20]) as fake:
        page = connect(fake).page_on("Italy", "2023-01-01T00:00:00Z")
        assert page is not None
        assert page.revision == 10


def test_answers_are_kept_and_found_offline(fake: FakeWikipedia, connect: Connect, tmp_path: Path) -> None:
    first = connect(fake, tmp_path).page_on("Italy", "2023-01-01T00:00:00Z")
    sent = len(fake.requests)
    assert connect(fake, tmp_path, offline=True).page_on("Italy", "2023-01-01T00:00:00Z") == first
    assert len(fake.requests) == sent == 2
    with pytest.raises(SourceError, match="--offline asks nobody"):
        connect(fake, tmp_path, offline=True).page_on("Harry Kane", "2023-01-01T00:00:00Z")


def test_we_say_who_we_are_and_heed_the_lag(fake: FakeWikipedia, connect: Connect) -> None:
    connect(fake).page_on("Italy", "2023-01-01T00:00:00Z")
    assert all(one.headers["User-Agent"].startswith("dyknow/") for one in fake.requests)
    assert all(one.params["maxlag"] == "5" for one in fake.requests)


@pytest.mark.parametrize("kind", ["500", "maxlag", "cut off", "truncated json", "html", "api error", "refuse"])
def test_faults_are_waited_out(kind: str, connect: Connect) -> None:
    for nth in (1, 2):
        with FakeWikipedia(PAGES, faults=[Fault(kind, nth)]) as fake:
            page = connect(fake).page_on("Italy", "2023-01-01T00:00:00Z")
            assert page is not None
            assert page.revision == 20


def test_what_is_no_answer_in_the_end_is_an_error(connect: Connect) -> None:
    with (
        FakeWikipedia(PAGES, faults=[Fault("empty", forever=True)]) as fake,
        pytest.raises(SourceError, match="without the page"),
    ):
        connect(fake).page_on("Italy", "2023-01-01T00:00:00Z")


@pytest.mark.parametrize("title", ["", "Italy|France", "Italy#History", "[Italy]"])
def test_what_is_no_title_is_refused(title: str, fake: FakeWikipedia, connect: Connect) -> None:
    with pytest.raises(UsageError, match="is no title"):
        connect(fake).page_on(title, "2023-01-01T00:00:00Z")
    assert not fake.requests


def test_passages_are_documents_with_their_revision(fake: FakeWikipedia, connect: Connect) -> None:
    missing: list[str] = []
    topics = [Topic("Italy", "Q38/P6", "countries"), Topic("Harry Kane", "Q969725/P54", "athletes"), Topic("Nowhere")]
    found = wikipedia_passages(connect(fake), topics, "2023-12-18T23:59:59Z", missing.append)
    assert [(one.id, one.title, one.revision, one.fact) for one in found] == [
        ("Italy#1", "Italy", 20, "Q38/P6"),
        ("Harry Kane#1", "Harry Kane", 30, "Q969725/P54"),
    ]
    assert found[0].source.endswith("oldid=20")
    assert missing == ["Wikipedia had no page 'Nowhere' on 2023-12-18."]


def test_a_page_of_several_facts_is_fetched_once_and_is_for_none_of_them(fake: FakeWikipedia, connect: Connect) -> None:
    topics = [Topic("Italy", "Q38/P6", "countries"), Topic("Italy", "Q38/P35", "countries")]
    [document] = wikipedia_passages(connect(fake), topics, "2023-12-18T23:59:59Z")
    assert (document.fact, document.domain) == (None, "countries")
    assert len(fake.requests) == 2


# HTML

CASES = [
    ("<p>One.</p><p>Two\n  words.</p>", ["One.", "Two words."]),
    ("<p>A<sup class='reference'><a href='#1'>[1]</a></sup> fact<style>p {}</style>.</p>", ["A fact."]),
    ("<ul><li>First</li><li>Second<ul><li>inner</li></ul></li></ul>", ["First", "Second", "inner"]),
    ("<table class='wikitable'><tr><td><p>1</p></td></tr></table><p>After.</p>", ["After."]),
    (
        "<table class='infobox vcard'><tr><th>President</th><td><a>Sergio Mattarella</a></td></tr>"
        "<tr><th>Capital</th><td>Rome<br>and only Rome</td></tr></table><p>Italy.</p>",
        ["President: Sergio Mattarella; Capital: Rome and only Rome", "Italy."],
    ),
    ("<div class='hatnote'><p>For others, see there.</p></div><p>Kept.</p>", ["Kept."]),
    ("<div class='navbox'><ul><li>Links</li></ul></div>", []),
    ("<h2>History<span class='mw-editsection'>[edit]</span></h2><p>Long &amp; rich</p>", ["Long & rich"]),
    ("<p>Unclosed <b>bold<p>Next", ["Unclosed bold", "Next"]),
    ("<p>An <img src='x'> image and <br/> a break</p>", ["An image and a break"]),
    ("", []),
]


@pytest.mark.parametrize(("html", "expected"), CASES)
def test_html_becomes_passages(html: str, expected: list[str]) -> None:
    assert list(passages(html)) == expected
