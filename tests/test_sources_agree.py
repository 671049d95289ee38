"""One entity from four sources: today's document, a past revision, the query service, a dump. The bytes are equal."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kg.snapshot.triples import ntriples
from kg.sources import Source
from kg.sources.entity import Entity, read_entities
from kg.sources.fetch import end_of, from_dump, from_query_service, mirror, plan
from kg.sources.mirror import subject, value_ids
from kg.sources.queryservice import QueryService
from kg.sources.web import Web
from kg.sources.wikidata import Wikidata
from tests.test_queryservice import load, of_document, results
from tests.wikidata_server import FakeWikidata, Version, corpus

WANTED = ("P6", "P35", "P54", "P169", "P488")
SUBJECTS = ("Q31", "Q183", "Q586", "Q912", "Q801", "Q155", "Q148", "Q15180", "Q142", "Q16", "Q2283", "Q379535")
DAY, NOW = 20211231, "2021-12-31T12:00:00Z"
Documents = dict[str, list[tuple[int, str, Mapping[str, Any]]]]


def value(name: str) -> dict[str, Any]:
    """Return a small document of a holder or an office: label, other names, what it is, when it died."""
    number = int(name[1:])
    item = {"value": {"entity-type": "item", "id": "Q5" if number % 3 else "Q6979593"}, "type": "wikibase-entityid"}
    time = {
        "time": "+1999-07-00T00:00:00Z", "precision": 10, "timezone": 0, "before": 0, "after": 0,
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }  # fmt: skip
    died = {"value": time, "type": "time"}
    claims = {"P31": [_claim(name, 1, "P31", "wikibase-item", item)]}
    if number % 2:
        claims["P570"] = [_claim(name, 2, "P570", "time", died)]
    language = ("en", "mul", "ru")[number % 3]
    label = {"language": language, "value": f'"{name}"\\ the \u00e9lder'}
    alias = {"language": "en", "value": f"{name}, too"}
    return {"id": name, "type": "item", "labels": {language: label}, "aliases": {"en": [alias]}, "claims": claims}


def _claim(name: str, number: int, prop: str, datatype: str, data: dict[str, Any]) -> dict[str, Any]:
    snak = {"snaktype": "value", "property": prop, "datatype": datatype, "datavalue": data}
    return {
        "id": f"{name}$00000000-0000-4000-8000-{number:012d}",
        "rank": "normal",
        "type": "statement",
        "mainsnak": snak,
    }


@pytest.fixture(scope="module")
def world(shared: Path) -> Documents:
    """Real subjects as they were last, each as revision 1000 and up, and all that their statements name."""
    found: Documents = {}
    versions: Mapping[str, list[Version]] = {name: list(corpus(shared)[name]) for name in SUBJECTS}
    for number, name in enumerate(SUBJECTS):
        last = versions[name][-1].document
        document = {key: last[key] for key in ("id", "type", "labels", "aliases", "claims", "sitelinks") if key in last}
        found[name] = [(1000 + number, "2021-12-01T00:00:00Z", {**document, "lastrevid": 1000 + number})]
    subjects = [subject(entity, WANTED) for name in SUBJECTS for entity in read_entities(found[name][0][2], [], name)]
    for name in sorted(value_ids(subjects) - set(SUBJECTS)):
        found[name] = [(10, "2020-01-01T00:00:00Z", {**value(name), "lastrevid": 10})]
    return found


WISHES = dict.fromkeys(SUBJECTS, WANTED)


def by_documents(documents: Documents, instant: str) -> Source:
    with FakeWikidata(documents) as server, Web() as web:
        wikidata = Wikidata(web, server.url)
        chosen = plan(wikidata, WISHES, {DAY: instant}, "test", lambda _: None)
        return next(mirror(wikidata, chosen, "test", lambda _: None))


def by_past_revisions(documents: Documents) -> Source:
    """Mirror a day after which every subject lost its statements."""
    later = {
        name: [*versions, (9000, "2022-06-01T00:00:00Z", {**versions[0][2], "claims": {}, "lastrevid": 9000})]
        for name, versions in documents.items()
        if name in SUBJECTS
    }
    return by_documents({**documents, **later}, end_of(DAY))


def by_query_service(documents: Documents) -> Source:
    store = load([triple for entity in entities(documents) for triple in of_document(entity)])
    with FakeWikidata({}, sparql=lambda text: results(store, text)) as server, Web() as web:
        service = QueryService(web, f"{server.url}/sparql", None)
        return from_query_service(service, WISHES, DAY, NOW, lambda _: None)


def entities(documents: Documents) -> list[Entity]:
    read = [
        (entity, versions[-1]) for versions in documents.values() for entity in read_entities(versions[-1][2], [], "")
    ]
    return [replace(entity, revision=version[0], modified=version[1]) for entity, version in read]


def by_dump(documents: Documents, folder: Path) -> Source:
    path = folder / "20211231.json.gz"
    lines = ",\n".join(json.dumps(versions[-1][2], separators=(",", ":")) for versions in documents.values())
    path.write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode()))
    return from_dump(path, (), WISHES, DAY, folder, workers=1, progress=lambda *_: None)


@pytest.fixture(scope="module")
def today(world: Documents) -> bytes:
    made = by_documents(world, NOW)
    return ntriples(made.rows, made.triples)


def test_the_sample_holds_something(today: bytes) -> None:
    assert today.count(b"\n") > 4_500
    for part in (
        b"wasDerivedFrom",
        b"/value/",
        b"teamClass",
        b"vocab:office",
        b"@mul",
        b"@ru",
        b"#sitelinks>",
        b"direct/P17>",
    ):
        assert part in today


@pytest.mark.parametrize("other", ["past revisions", "query service", "dump"])
def test_four_sources_give_the_same_bytes(other: str, world: Documents, today: bytes, tmp_path: Path) -> None:
    makers = {
        "past revisions": lambda: by_past_revisions(world),
        "query service": lambda: by_query_service(world),
        "dump": lambda: by_dump(world, tmp_path),
    }
    made = makers[other]()
    data = ntriples(made.rows, made.triples)
    missing, more = (set(x.splitlines()) - set(y.splitlines()) for x, y in ((today, data), (data, today)))
    assert (sorted(missing)[:5], sorted(more)[:5]) == ([], [])
    assert data == today
