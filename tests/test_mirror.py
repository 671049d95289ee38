"""Statements in Wikidata's RDF become rows, whatever brought them."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kg.answers import answers
from kg.dates import time_from_json, time_from_rdf
from kg.errors import DataError
from kg.identity import load
from kg.snapshot.reading import Statement, read_graph
from kg.snapshot.triples import ntriples
from kg.sources.entity import Entity, Named, named, read_entities
from kg.sources.mirror import Subject, needed, office, source, subject, value_ids
from kg.store import Graph
from kg.terms import EndKind
from tests.graphs import MemoryGraph
from tests.rdflib_route import RdflibGraph

START, END = "P580", "P582"


def time(value: str, precision: int = 11, calendar: str = "Q1985727") -> dict[str, Any]:
    """Return the data value of a time."""
    inner = {
        "time": value, "precision": precision, "timezone": 0, "before": 0, "after": 0,
        "calendarmodel": f"http://www.wikidata.org/entity/{calendar}",
    }  # fmt: skip
    return {"value": inner, "type": "time"}


def item(name: str) -> dict[str, Any]:
    return {"value": {"entity-type": "item", "id": name}, "type": "wikibase-entityid"}


def snak(prop: str, value: dict[str, Any] | str, datatype: str = "wikibase-item") -> dict[str, Any]:
    """Return a snak; a text instead of a value is its kind, such as "novalue"."""
    if isinstance(value, str):
        return {"snaktype": value, "property": prop, "datatype": datatype}
    return {"snaktype": "value", "property": prop, "datatype": datatype, "datavalue": value}


def claim(number: int, prop: str, value: str, rank: str = "normal", **bounds: Any) -> dict[str, Any]:  # noqa: ANN401 -- start and end, as snaks take them
    """Return a statement of Q1: ``value`` is an item or a snak's kind."""
    qualifiers: dict[str, list[dict[str, Any]]] = {}
    for name, given in bounds.items():
        key = {"start": START, "end": END, "point": "P585"}[name]
        qualifiers[key] = [snak(key, one, "time") for one in (given if isinstance(given, list) else [given])]
    return {
        "id": f"Q1$00000000-0000-4000-8000-{number:012d}",
        "type": "statement",
        "rank": rank,
        "mainsnak": snak(prop, item(value) if value.startswith("Q") else value),
        **({"qualifiers": qualifiers} if qualifiers else {}),
    }


def document(*claims: Mapping[str, Any], label: str = "Land") -> Entity:
    by_property: dict[str, list[Mapping[str, Any]]] = {}
    for one in claims:
        by_property.setdefault(one["mainsnak"]["property"], []).append(one)
    made = {"id": "Q1", "type": "item", "labels": {"en": {"language": "en", "value": label}}, "claims": by_property}
    return next(read_entities(made, [], "made here"))


def name(item_id: str, label: str, *classes: str, leads_to: str | None = None) -> Named:
    return Named(item_id, leads_to or item_id, (label, "en"), (), classes, ())


def read(
    entity: Entity, prop: str = "P6", day: int = 20200101, names: Mapping[str, Named] | None = None
) -> list[Statement]:
    """Return the statements of a snapshot of one entity."""
    made = source([subject(entity, [prop])], names or {}, {"Q1": [prop]}, day, name="test", description="A test.")
    return read_graph(ntriples(made.rows, made.triples))


def test_a_statement_keeps_its_id_its_bounds_and_its_rank() -> None:
    entity = document(
        claim(1, "P6", "Q2", "preferred", start=time("+2015-03-04T00:00:00Z"), end=time("+2019-00-00T00:00:00Z", 9))
    )
    [found] = read(entity, names={"Q2": name("Q2", "Ada")})
    assert found.iri == "http://www.wikidata.org/entity/statement/Q1-00000000-0000-4000-8000-000000000001"
    assert (found.start, found.end, found.rank) == ((20150304, 20150304), (20190101, 20191231), "PreferredRank")
    assert (found.label, found.subject_label, found.fact) == ("Ada", "Land", "urn:dyknow:fact:Q1:P6")


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ({}, EndKind.OPEN),
        ({"end": "novalue"}, EndKind.NO_VALUE),
        ({"end": "somevalue"}, EndKind.UNKNOWN),
        ({"end": time("+2019-01-01T00:00:00Z")}, EndKind.KNOWN),
    ],
)
def test_how_a_statement_ends(end: dict[str, Any], kind: EndKind) -> None:
    [found] = read(document(claim(1, "P6", "Q2", start=time("+2015-03-04T00:00:00Z"), **end)))
    assert found.end_kind is kind


def test_two_starts_are_one_that_may_be_either() -> None:
    starts = [time("+2015-03-04T00:00:00Z"), time("+2014-00-00T00:00:00Z", 9)]
    [found] = read(document(claim(1, "P6", "Q2", start=starts)))
    assert found.start == (20140101, 20150304)


def test_a_day_that_is_none_is_the_nearest_one_as_wikidatas_rdf_has_it() -> None:
    [found] = read(document(claim(1, "P6", "Q2", start=time("+2015-13-40T00:00:00Z"))))
    assert (found.holder, found.start) == ("http://www.wikidata.org/entity/Q2", (20151231, 20151231))


def test_nobody_somebody_and_a_holder_without_a_label() -> None:
    found = read(document(claim(1, "P6", "novalue"), claim(2, "P6", "somevalue"), claim(3, "P6", "Q2")))
    holders = {statement.iri[-1]: (statement.holder, statement.label) for statement in found}
    assert holders["1"] == (None, None)
    assert str(holders["2"][0]).startswith("urn:dyknow:unknown:Q1-")
    assert holders["3"] == ("http://www.wikidata.org/entity/Q2", None)


def test_a_value_that_is_no_entity_is_left_out_and_counted() -> None:
    text = {"value": "just a name", "type": "string"}
    odd = claim(1, "P6", "Q2") | {"mainsnak": snak("P6", text, "string")}
    made = source([subject(document(odd), ["P6"])], {}, {"Q1": ["P6"]}, 20200101, name="test", description="A test.")
    assert not made.rows
    assert "1 statements whose value is no entity were left out." in made.notes


@pytest.mark.parametrize(("day", "title"), [(19300101, "Q10"), (19890101, "Q11"), (20200101, None)])
def test_the_title_of_an_office_is_the_one_of_that_day(day: int, title: str | None) -> None:
    entity = document(
        claim(1, "P1313", "Q10", end=time("+1946-00-00T00:00:00Z", 9)),
        claim(2, "P1313", "Q11", start=time("+1946-00-00T00:00:00Z", 9), end=time("+1991-12-26T00:00:00Z")),
        claim(3, "P1313", "Q12", "deprecated"),
    )
    assert office(subject(entity, ["P6"]), "P6", day) == title


def test_what_must_be_fetched_beside_the_wanted() -> None:
    assert needed(["P6", "P54"]) == {"P6", "P54", "P1313"}
    entity = document(claim(1, "P6", "Q2"), claim(2, "P1313", "Q10"), claim(3, "P9999", "Q3"))
    assert value_ids([subject(entity, ["P6", "P9999"])]) == {"Q2", "Q10", "Q3", "P9999"}


def test_a_redirect_is_kept_as_the_same_under_both_ids() -> None:
    entity = document(claim(1, "P6", "Q2"))
    names = {"Q2": name("Q2", "Ada", leads_to="Q22")}
    made = source([subject(entity, ["P6"])], names, {"Q1": ["P6"]}, 20200101, name="test", description="A test.")
    assert made.provenance["redirects"] == {"Q2": "Q22"}
    data = ntriples(made.rows, made.triples).decode()
    assert (
        "<http://www.wikidata.org/entity/Q2> <http://www.w3.org/2002/07/owl#sameAs> <http://www.wikidata.org/entity/Q22> ."
        in data
    )
    assert "/P6> <http://www.wikidata.org/entity/Q2> ." in data  # what the statement says stays


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(["Q476028"], "club"), (["Q6979593"], "national"), (["Q476028", "Q6979593"], "national"), (["Q5"], None)],
)
def test_the_class_of_a_team_is_told_by_what_it_is_an_instance_of(classes: list[str], expected: str | None) -> None:
    [found] = read(document(claim(1, "P54", "Q2")), "P54", names={"Q2": name("Q2", "Rovers", *classes)})
    assert found.team_class == expected


def test_a_label_in_another_language_says_so() -> None:
    ada = Named("Q2", "Q2", ("Ада", "ru"), (("Ada L.", "en"),), ("Q5",), ("1852-11-27T00:00:00Z",))
    made = source(
        [subject(document(claim(1, "P6", "Q2")), ["P6"])],
        {"Q2": ada},
        {"Q1": ["P6"]},
        20200101,
        name="t",
        description="t",
    )
    data = ntriples(made.rows).decode()
    for part in (
        '"Ада"@ru .',
        'altLabel> "Ada L."@en .',
        "/direct/P31> <http://www.wikidata.org/entity/Q5> .",
        "/direct/P570>",
    ):
        assert part in data


@pytest.mark.parametrize("qualifier", ["P5102", "P2868", "P3831", "P39"])
@pytest.mark.parametrize("engine", [MemoryGraph, RdflibGraph])
def test_who_only_stands_in_is_an_answer_and_said_so_or_none(
    qualifier: str, engine: Callable[[str, bytes], Graph]
) -> None:
    stands_in = claim(2, "P6", "Q3", start=time("+2017-06-17T00:00:00Z"))
    stands_in["qualifiers"][qualifier] = [snak(qualifier, item("Q4676846"))]
    entity = document(claim(1, "P6", "Q2", start=time("+2010-01-01T00:00:00Z")), stands_in)
    made = source([subject(entity, ["P6"])], {}, {"Q1": ["P6"]}, 20200101, name="test", description="A test.")
    graph = engine("2020-01-01", ntriples(made.rows))
    [found] = answers(graph, load(), 20170701)
    assert [(one.entity, one.acting) for one in found.up_to_date] == [("Q3", True)]
    [without] = answers(graph, load(), 20170701, acting=False)
    assert [(one.entity, one.acting) for one in without.up_to_date] == [("Q2", False)]
    assert [(one.entity, one.standing) for one in without.holders[1:]] == [("Q3", "not asked")]


def documents(shared: Path) -> Iterator[Entity]:
    for path in sorted((shared / "wikidata").glob("*/Q*.json")):
        yield from read_entities(json.loads(path.read_bytes()), [], path.name)


def test_every_time_of_real_documents_means_the_same_days_in_rdf(shared: Path) -> None:
    seen = 0
    for value in _times([entity.document for entity in documents(shared)]):
        try:
            time_ = time_from_json(value)
        except DataError:
            continue
        seen += 1
        assert time_from_rdf(time_.rdf, time_.precision, time_.calendar).span == time_.span, value
    assert seen > 10_000


def _times(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if "calendarmodel" in value and "precision" in value:
            yield value
        for inner in value.values():
            yield from _times(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _times(inner)


def test_real_documents_give_a_row_for_every_statement_that_names_an_entity(shared: Path) -> None:
    wanted = ["P6", "P35", "P54", "P169", "P488"]
    subjects: dict[str, Subject] = {}
    expected = 0
    for path in sorted((shared / "wikidata" / "openrefine-wikibase").glob("Q*.json")):
        [entity] = read_entities(json.loads(path.read_bytes()), [], path.name)
        subjects[entity.id] = subject(entity, wanted)
        expected += sum(len(entity.claims(prop)) for prop in wanted)
        named(entity)
    made = source(
        list(subjects.values()), {}, dict.fromkeys(subjects, wanted), 20200731, name="test", description="A test."
    )
    assert len(made.rows) == expected > 300
    assert len(read_graph(ntriples(made.rows))) == expected


def test_loading_the_same_triples_twice_does_not_grow_them(shared: Path) -> None:
    import pyoxigraph as ox  # noqa: PLC0415

    [entity] = read_entities(
        json.loads((shared / "wikidata/entitybase-backend/Q182397.json").read_bytes()), [], "Q182397"
    )
    made = source(
        [subject(entity, entity.properties)], {}, {entity.id: entity.properties}, 20251201, name="t", description="t"
    )
    data = ntriples(made.rows)
    store = ox.Store()
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    once = len(store)
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    assert len(store) == once == data.count(b"\n") > 100
    assert b"_:" not in data
