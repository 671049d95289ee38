"""Statements of Wikidata's JSON as RDF: the oracle is Wikidata's own Turtle of the same revisions."""

import bz2
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.dates import time_from_json
from kg.sources import Triple
from kg.sources.canonical import canonical
from kg.sources.entity import Entity, read_entities
from kg.sources.rdf import StatementRdf, statements
from kg.sources.rdfvalues import literal
from kg.terms import GREGORIAN, JULIAN, PQ, PS, PSV, RDF_TYPE, WD, WDNO, WDS, WIKIBASE, unknown_iri

ORACLES = ("Q182397", "Q42", "Q53713", "Q8413")

TYPE = f"<{RDF_TYPE}>"


def _oracle(shared: Path, name: str) -> tuple[Entity, list[Triple]]:
    folder = shared / "wikidata/entitybase-backend"
    [entity] = read_entities(orjson.loads((folder / f"{name}.json").read_bytes()), [name], name)
    quads = ox.parse((folder / f"{name}.ttl").read_bytes(), format=ox.RdfFormat.TURTLE)
    return entity, [(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in quads]


def _wikidata_says(turtle: list[Triple], name: str) -> set[Triple]:
    """Filter Wikidata's Turtle for what we promise to give, by hand and apart from the code under test."""
    prefix = re.compile(r"<http://www\.wikidata\.org/(entity/statement|reference|value)/")
    left_out = re.compile(r"/(statement|qualifier|reference)/value-normalized/|#quantityNormalized>")
    kept = {t for t in turtle if prefix.match(t[0]) and not left_out.search(t[1])}
    kept |= {t for t in turtle if t[0] == f"<{WD}{name}>" and re.match(r"<http://www\.wikidata\.org/prop/P\d+>", t[1])}
    return {_named(triple) for triple in kept}


def _named(triple: Triple) -> Triple:
    """Give a blank node our name for an unknown value."""
    subject, predicate, value = triple
    if not value.startswith("_:"):
        return triple
    prop = predicate.rpartition("/")[2][:-1]
    main = predicate.startswith(f"<{PS}")
    return subject, predicate, f"<{unknown_iri(subject[1:-1], None if main else prop)}>"


@pytest.mark.parametrize("name", ORACLES)
def test_triples_equal_those_of_wikidatas_own_turtle(shared: Path, name: str) -> None:
    entity, turtle = _oracle(shared, name)
    found = statements(entity)
    assert {triple for one in found for triple in one.triples} == _wikidata_says(turtle, name)
    assert len(found) == sum(len(entity.claims(prop)) for prop in entity.properties) > 100
    assert not [problem for one in found for problem in one.problems]


@pytest.mark.parametrize("name", ORACLES)
def test_turtle_read_back_gives_the_same_statements(shared: Path, name: str) -> None:
    entity, turtle = _oracle(shared, name)
    assert canonical(turtle) == statements(entity)


@pytest.mark.parametrize("name", ORACLES)
def test_what_the_query_service_strips_and_renames_is_put_back(shared: Path, name: str) -> None:
    entity, turtle = _oracle(shared, name)
    assert canonical(reversed(as_query_service(turtle))) == statements(entity)


STRIPPED = {
    f"<{WIKIBASE}{kind}>" for kind in ("Statement", "Reference", "TimeValue", "QuantityValue", "GlobecoordinateValue")
}


def as_query_service(turtle: list[Triple]) -> list[Triple]:
    """Change triples as the query service does: types stripped, blank nodes skolemised, numbers printed its own way."""
    made = []
    for subject, predicate, value in turtle:
        if predicate == TYPE and value in STRIPPED:
            continue
        named = re.sub(r"^_:(.*)", r"<http://www.wikidata.org/.well-known/genid/\1>", value)
        made.append((subject, predicate, re.sub(r'^"\+(.*#decimal>)$', r'"\1', named)))
    return made


# Every real document


def documents(shared: Path) -> Iterator[tuple[str, Any]]:
    folder = shared / "wikidata"
    for path in sorted(folder.rglob("Q*.json")):
        yield path.parent.name, orjson.loads(path.read_bytes())
    for name in ("2018-09-slice.json.bz2", "2021-06-slice.json.gz", "short_stream.json.bz2"):
        with (bz2.open if name.endswith("bz2") else gzip.open)(folder / "dumps" / name) as file:
            for line in file:
                if len(text := line.strip(b", \r\n")) > 1:
                    yield name, orjson.loads(text)


def test_every_real_document_gives_valid_triples(shared: Path) -> None:
    counts: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    for where, document in documents(shared):
        for entity in read_entities(document, [], where):
            found = statements(entity)
            assert len(found) == sum(len(entity.claims(prop)) for prop in entity.properties)
            assert len({one.node for one in found}) == len(found)
            counts["entities"] += 1
            counts["statements"] += len(found)
            lines = "".join(f"{s} {p} {o} .\n" for one in found for s, p, o in one.triples)
            # The strict parser, which the store uses, takes every line and writes it back as it is.
            parsed = [str(quad.triple) for quad in ox.parse(lines.encode(), format=ox.RdfFormat.N_TRIPLES)]
            assert parsed == [line.removesuffix(" .") for line in lines.splitlines()]
            counts["triples"] += len(parsed)
            if counts["entities"] % 10 == 0:
                back = canonical(as_query_service([triple for one in found for triple in one.triples]))
                assert [one.triples for one in back] == [one.triples for one in found]
            problems.update(problem for one in found for problem in one.problems)
    # Wikidata's own RDF mends these two as well; nothing else in 54,250 real statements has no RDF.
    assert problems == {"P585: '+2016-06-31T00:00:00Z' is no day; 2016-06-30 stands for it": 2}
    assert counts == {"entities": 922, "statements": 54250, "triples": 586363}


# Kinds of values, one by one


def _snak(datatype: str, kind: str, value: object, prop: str = "P1") -> dict[str, Any]:
    return {"snaktype": "value", "property": prop, "datatype": datatype, "datavalue": {"type": kind, "value": value}}


def _claim(snak: dict[str, Any], number: int = 1, **more: object) -> dict[str, Any]:
    return {"id": f"Q1$A{number}", "type": "statement", "rank": "normal", "mainsnak": snak, **more}


def _one(*claims: dict[str, Any]) -> list[StatementRdf]:
    by_property: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        by_property.setdefault(claim["mainsnak"]["property"], []).append(claim)
    return statements(Entity("Q1", "Q1", {"id": "Q1", "claims": by_property}))


def _objects(found: StatementRdf, predicate: str) -> list[str]:
    return [value for _, name, value in found.triples if name == f"<{predicate}>"]


def _time(text: str, precision: int = 11, calendar: str = GREGORIAN, **more: int) -> dict[str, Any]:
    given = {"time": text, "precision": precision, "calendarmodel": calendar, "timezone": 0, "before": 0, "after": 0}
    return _snak("time", "time", {**given, **more})


def _quantity(amount: str, unit: str = "1", **bounds: str) -> dict[str, Any]:
    return _snak("quantity", "quantity", {"amount": amount, "unit": unit, **bounds})


WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
WHERE = {"latitude": 51.5, "longitude": -0.125, "altitude": None, "globe": WD + "Q2"}


@pytest.mark.parametrize(
    ("snak", "expected"),
    [
        (_snak("external-id", "string", "a b"), '"a b"'),
        (_snak("string", "string", 'a "b"\t\\'), '"a \\"b\\"\\t\\\\"'),
        (_snak("string", "string", "half \ud83d a pair"), '"half \ufffd a pair"'),
        (_snak("musical-notation", "string", "\\relative c'"), '"\\\\relative c\'"'),
        (_snak("monolingualtext", "monolingualtext", {"text": "Ä", "language": "de-AT"}), '"Ä"@de-at'),
        (_snak("monolingualtext", "monolingualtext", {"text": "A", "language": "simple"}), '"A"@en-simple'),
        (_snak("url", "string", "http://a.org/x?y=ü#{}"), "<http://a.org/x?y=ü#%7B%7D>"),
        (_snak("url", "string", " http://a.org/x y "), "<http://a.org/x%20y>"),
        (_snak("url", "string", "mailto:a@b.org"), "<mailto:a@b.org>"),
        (
            _snak("commonsMedia", "string", "Œuvre d'A (2).svg"),
            "<http://commons.wikimedia.org/wiki/Special:FilePath/%C5%92uvre%20d%27A%20%282%29.svg>",
        ),
        (
            _snak("geo-shape", "string", "Data:US Virgin Islands.map"),
            "<http://commons.wikimedia.org/data/main/Data:US%20Virgin%20Islands.map>",
        ),
        (_snak("tabular-data", "string", "Data:A.tab"), "<http://commons.wikimedia.org/data/main/Data:A.tab>"),
        (_snak("wikibase-item", "wikibase-entityid", {"id": "Q5"}), f"<{WD}Q5>"),
        (_snak("wikibase-item", "wikibase-entityid", {"entity-type": "item", "numeric-id": 2538}), f"<{WD}Q2538>"),
        (_snak("wikibase-property", "wikibase-entityid", {"entity-type": "property", "id": "P6"}), f"<{WD}P6>"),
        (_snak("wikibase-form", "wikibase-entityid", {"entity-type": "form", "id": "L1-F2"}), f"<{WD}L1-F2>"),
        (_snak("wikibase-sense", "wikibase-entityid", {"entity-type": "sense", "id": "L1-S2"}), f"<{WD}L1-S2>"),
        (_snak("entity-schema", "wikibase-entityid", {"entity-type": "entity-schema", "id": "E10"}), f"<{WD}E10>"),
        (_snak("globe-coordinate", "globecoordinate", WHERE), f'"Point(-0.125 51.5)"^^<{WKT}>'),
        (
            _snak("globe-coordinate", "globecoordinate", {**WHERE, "globe": WD + "Q405"}),
            f'"<{WD}Q405> Point(-0.125 51.5)"^^<{WKT}>',
        ),
        (_quantity("+1.50"), '"+1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        (_quantity("2"), '"+2"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        (_quantity("-0.0"), '"+0.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
    ],
)
def test_value(snak: dict[str, Any], expected: str) -> None:
    [found] = _one(_claim(snak))
    assert _objects(found, PS + "P1") == [expected]
    assert found.problems == ()
    assert canonical(found.triples) == [found]


@pytest.mark.parametrize(
    ("text", "precision", "calendar", "expected"),
    [
        ("+2015-00-00T00:00:00Z", 9, GREGORIAN, "2015-01-01T00:00:00Z"),
        ("+2015-07-09T00:00:00Z", 9, GREGORIAN, "2015-01-01T00:00:00Z"),
        ("+2015-07-00T00:00:00Z", 10, GREGORIAN, "2015-07-01T00:00:00Z"),
        ("+2015-07-09T00:00:00Z", 10, GREGORIAN, "2015-07-09T00:00:00Z"),
        ("+1900-00-00T00:00:00Z", 7, GREGORIAN, "1900-01-01T00:00:00Z"),
        ("+00000002012-03-18T00:00:00Z", 11, GREGORIAN, "2012-03-18T00:00:00Z"),
        ("+12025-03-18T00:00:00Z", 11, GREGORIAN, "12025-03-18T00:00:00Z"),
        ("+2016-06-31T00:00:00Z", 11, GREGORIAN, "2016-06-30T00:00:00Z"),
        ("+1900-02-29T00:00:00Z", 11, GREGORIAN, "1900-02-28T00:00:00Z"),
        ("-0387-00-00T00:00:00Z", 9, GREGORIAN, "-0386-01-01T00:00:00Z"),
        ("-0001-00-00T00:00:00Z", 9, GREGORIAN, "0000-01-01T00:00:00Z"),
        ("-0400-00-00T00:00:00Z", 7, GREGORIAN, "-0400-01-01T00:00:00Z"),
        ("-13798000000-00-00T00:00:00Z", 3, GREGORIAN, "-13798000000-01-01T00:00:00Z"),
        ("+1699-08-25T00:00:00Z", 11, JULIAN, "1699-09-04T00:00:00Z"),
        ("+1900-02-29T00:00:00Z", 11, JULIAN, "1900-03-13T00:00:00Z"),
        ("-0044-03-15T00:00:00Z", 11, JULIAN, "-0043-03-13T00:00:00Z"),
        ("+1699-08-00T00:00:00Z", 10, JULIAN, "1699-08-01T00:00:00Z"),
        # Wikidata makes no xsd:dateTime of these: the year 0, and a Julian day that is none.
        ("+0000-00-00T00:00:00Z", 9, GREGORIAN, None),
        ("+1699-00-00T00:00:00Z", 11, JULIAN, None),
    ],
)
def test_time(text: str, precision: int, calendar: str, expected: str | None) -> None:
    [found] = _one(_claim(_time(text, precision, calendar)))
    lexical = f'"{text}"' if expected is None else f'"{expected}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    assert _objects(found, PS + "P1") == _objects(found, WIKIBASE + "timeValue") == [lexical]
    assert [one.triples for one in canonical(found.triples)] == [found.triples]


def test_timezone_names_the_node_and_shifts_no_day() -> None:
    here, there = _one(_claim(_time("+2015-03-04T00:00:00Z")), _claim(_time("+2015-03-04T00:00:00Z", timezone=60), 2))
    assert _objects(here, PS + "P1") == _objects(there, PS + "P1")
    assert _objects(here, PSV + "P1") != _objects(there, PSV + "P1")
    assert _objects(there, WIKIBASE + "timeTimezone") == ['"60"^^<http://www.w3.org/2001/XMLSchema#integer>']


def test_a_day_has_one_node_however_many_digits_its_year_had() -> None:
    old, new = _one(_claim(_time("+00000002012-03-18T00:00:00Z")), _claim(_time("+2012-03-18T00:00:00Z"), 2))
    assert _objects(old, PSV + "P1") == _objects(new, PSV + "P1")
    assert _objects(new, PSV + "P1") == [
        f"<{time_from_json(_time('+2012-03-18T00:00:00Z')['datavalue']['value']).node}>"
    ]


def test_bounds_of_a_quantity_only_where_given() -> None:
    bare, bounded = _one(
        _claim(_quantity("+3")), _claim(_quantity("+3", WD + "Q11573", upperBound="+4", lowerBound="+2"), 2)
    )
    assert _objects(bare, WIKIBASE + "quantityUpperBound") == []
    assert _objects(bare, WIKIBASE + "quantityUnit") == [f"<{WD}Q199>"]
    assert _objects(bounded, WIKIBASE + "quantityUpperBound") == ['"+4"^^<http://www.w3.org/2001/XMLSchema#decimal>']
    assert _objects(bounded, WIKIBASE + "quantityLowerBound") == ['"+2"^^<http://www.w3.org/2001/XMLSchema#decimal>']
    assert _objects(bounded, WIKIBASE + "quantityUnit") == [f"<{WD}Q11573>"]
    assert canonical([*bare.triples, *bounded.triples]) == [bare, bounded]


def test_a_coordinate_without_precision_says_so() -> None:
    [found] = _one(_claim(_snak("globe-coordinate", "globecoordinate", {**WHERE, "precision": None})))
    assert f"<{WIKIBASE}GeoAutoPrecision>" in _objects(found, RDF_TYPE)
    assert _objects(found, WIKIBASE + "geoPrecision") == [
        '"0.00027777777777778"^^<http://www.w3.org/2001/XMLSchema#double>'
    ]
    assert canonical(found.triples) == [found]


@pytest.mark.parametrize(
    ("snak", "problem"),
    [
        (_time("2015"), "P1: '2015' with the precision 11 is no time"),
        (_time("+2015-01-01T00:00:00Z", 15), "P1: '+2015-01-01T00:00:00Z' with the precision 15 is no time"),
        (_snak("quantity", "quantity", {"amount": "many", "unit": "1"}), "P1: 'many' is no number"),
        (_snak("hologram", "hologram", {}), "P1: values of the type 'hologram' are unknown"),
        (_snak("math", "string", "x^2"), "P1: a formula, which is MathML in RDF"),
        (_snak("wikibase-item", "wikibase-entityid", {"id": "Q5> ."}), "P1: 'Q5> .' is no id of an entity"),
        (_snak("monolingualtext", "monolingualtext", {"text": "A", "language": "x y"}), "P1: 'x y' is no language tag"),
        (_snak("time", "time", {}), "P1: the value cannot be read (KeyError('time'))"),
        ({"snaktype": "value", "property": "P1"}, "P1: the value cannot be read (KeyError('datavalue'))"),
    ],
)
def test_a_value_without_valid_rdf_is_left_out_and_its_statement_kept(snak: dict[str, Any], problem: str) -> None:
    [found] = _one(_claim(snak))
    assert found.problems == (problem,)
    assert found.triples == tuple(
        sorted(
            [
                (f"<{WD}Q1>", "<http://www.wikidata.org/prop/P1>", f"<{WDS}Q1-A1>"),
                (f"<{WDS}Q1-A1>", TYPE, f"<{WIKIBASE}Statement>"),
                (f"<{WDS}Q1-A1>", TYPE, f"<{WIKIBASE}BestRank>"),
                (f"<{WDS}Q1-A1>", f"<{WIKIBASE}rank>", f"<{WIKIBASE}NormalRank>"),
            ]
        )
    )


def test_an_address_no_store_takes_is_mended_or_left_out() -> None:
    [stray] = _one(_claim(_snak("url", "string", "http://a.org/100%")))
    assert _objects(stray, PS + "P1") == ["<http://a.org/100%25>"]
    assert stray.problems == ("P1: 'http://a.org/100%' has a stray %",)
    [none] = _one(_claim(_snak("url", "string", "www.a.org")))
    assert (_objects(none, PS + "P1"), len(none.problems)) == ([], 1)
    # RDF made by others holds the address as it was: it is mended and left out alike.
    raw = [(s, p, "<http://a.org/100%>" if "100%25" in o else o) for s, p, o in stray.triples]
    assert canonical(raw)[0].triples == stray.triples


def test_formulas_are_left_out_of_rdf_too() -> None:
    [found] = _one(_claim(_snak("math", "string", "x")))
    mathml = '"<math/>"^^<http://www.w3.org/1998/Math/MathML>'
    assert canonical([*found.triples, (f"<{found.node}>", f"<{PS}P1>", mathml)]) == [found]


def _ranked(*ranks: str) -> list[bool]:
    claims = [_claim(_snak("string", "string", rank), number) for number, rank in enumerate(ranks)]
    for claim, rank in zip(claims, ranks, strict=True):
        claim["rank"] = rank
    return [f"<{WIKIBASE}BestRank>" in _objects(found, RDF_TYPE) for found in _one(*claims)]


@pytest.mark.parametrize(
    ("ranks", "best"),
    [
        (["normal", "normal"], [True, True]),
        (["normal", "preferred"], [False, True]),
        (["deprecated", "normal"], [False, True]),
        (["deprecated", "preferred", "normal"], [False, True, False]),
        (["deprecated", "deprecated"], [False, False]),
    ],
)
def test_best_rank(ranks: list[str], best: list[bool]) -> None:
    assert _ranked(*ranks) == best


UNKNOWN_START = {"snaktype": "somevalue", "property": "P580", "datatype": "time"}
NO_END = {"snaktype": "novalue", "property": "P582"}


def test_no_value_and_unknown_value_wherever_they_stand() -> None:
    reference = {
        "hash": "ab",
        "snaks": {
            "P854": [{"snaktype": "somevalue", "property": "P854"}],
            "P1": [{"snaktype": "novalue", "property": "P1"}],
        },
    }
    claim = _claim(
        {"snaktype": "somevalue", "property": "P6"},
        qualifiers={"P580": [UNKNOWN_START], "P582": [NO_END]},
        references=[reference],
    )
    [found] = _one(claim)
    node, cited = f"<{WDS}Q1-A1>", "<http://www.wikidata.org/reference/ab>"
    assert (node, f"<{PS}P6>", f"<{unknown_iri(WDS + 'Q1-A1')}>") in found.triples
    assert (node, f"<{PQ}P580>", f"<{unknown_iri(WDS + 'Q1-A1', 'P580')}>") in found.triples
    assert (node, TYPE, f"<{WDNO}P582>") in found.triples
    assert (cited, TYPE, f"<{WDNO}P1>") in found.triples
    assert (cited, "<http://www.wikidata.org/prop/reference/P854>", "<urn:dyknow:unknown:ab:P854>") in found.triples


def test_old_documents_lack_ids_hashes_and_maps() -> None:
    claim = _claim(_snak("string", "string", "a"), qualifiers=[], references=[{"snaks": []}])
    del claim["id"]
    [found] = _one(claim)
    assert re.fullmatch(re.escape(WDS) + r"Q1-[0-9a-f]{40}", found.node)
    assert len(_objects(found, "http://www.w3.org/ns/prov#wasDerivedFrom")) == 1
    assert statements(Entity("Q1", "Q1", {"id": "Q1", "claims": []})) == []


def test_the_case_of_a_statement_id_is_kept() -> None:
    claim = _claim(_snak("string", "string", "a"))
    claim["id"] = "q31$42CC4f87"
    assert _one(claim)[0].node == WDS + "q31-42CC4f87"


def test_only_the_properties_asked_for() -> None:
    document = {"claims": {f"P{n}": [_claim(_snak("string", "string", "a", f"P{n}"), n)] for n in (1, 2, 3)}}
    assert [one.property for one in statements(Entity("Q1", "Q1", document), {"P1", "P3"})] == ["P1", "P3"]


@given(st.text(st.characters(exclude_categories=[])))
def test_strings_are_escaped_as_the_rdf_library_does(text: str) -> None:
    whole = "".join("\ufffd" if 0xD800 <= ord(sign) < 0xE000 else sign for sign in text)
    assert literal(text) == str(ox.Literal(whole))


@given(st.text())
def test_an_address_is_valid_or_left_out(text: str) -> None:
    [found] = _one(_claim(_snak("url", "string", "http://a.org/" + text)))
    for value in _objects(found, PS + "P1"):
        assert str(ox.NamedNode(value[1:-1])) == value
    assert canonical(found.triples)[0].triples == found.triples
