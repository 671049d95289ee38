"""The query service as a source: what it gives equals the documents, whole or not at all."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyoxigraph as ox
import pytest
import rdflib

from kg.errors import QueryError, SourceError
from kg.resources import query, table
from kg.sources import Triple
from kg.sources.bodies import Json
from kg.sources.csvfile import read_lines
from kg.sources.entity import Entity, named, read_entities
from kg.sources.mirror import ABOUT_SUBJECTS, Subject, subject
from kg.sources.queryservice import SCHEMA, QueryService, bind, counted, ntriples_term, paged
from kg.sources.rdf import statements
from kg.sources.rdfvalues import literal
from kg.sources.responses import Responses
from kg.sources.reviewed import team_classes, teams
from kg.sources.web import Manners, Web
from kg.terms import OWL_SAME_AS, RDF_TYPE, RDFS_LABEL, SKOS_ALT, UNKNOWN, WD, WDT, WIKIBASE, XSD, P
from tests.wikidata_server import FakeWikidata, Fault, Reply, corpus

TURTLE = ("Q182397", "Q42", "Q53713", "Q8413")
JSON = ("Q30", "Q16", "Q142", "Q36", "Q347", "Q15180", "Q2283", "Q81888", "Q912")
WANTED = ("P6", "P35", "P39", "P54", "P488", "P169", "P31", "P569", "P570", "P625", "P1082", "P2131", "P2139")
GENID = "http://www.wikidata.org/.well-known/genid/"


class Loopback(NamedTuple):
    """What the query service holds, and the documents that say the same."""

    store: ox.Store
    entities: dict[str, Entity]


# What the service holds


def as_service(triples: Collection[Triple]) -> Iterator[Triple]:
    """Change triples of statements as the query service does."""
    kinds = ("Statement", "Reference", "TimeValue", "QuantityValue", "GlobecoordinateValue")
    stripped = {f"<{WIKIBASE}{kind}>" for kind in kinds}
    for node, predicate, value in triples:
        if predicate != f"<{RDF_TYPE}>" or value not in stripped:
            skolem = re.sub(r"^_:(.*)$", rf"<{GENID}\1>", value).replace(UNKNOWN, GENID)
            yield node, predicate, re.sub(r'^"\+(.*#decimal>)$', r'"\1', skolem)


def of_document(entity: Entity) -> Iterator[Triple]:
    """Yield what the service holds of an entity, made of its document."""
    node = f"<{WD}{entity.id}>"
    found = statements(entity)
    yield from as_service([triple for one in found for triple in one.triples])
    for part, predicate in (("labels", RDFS_LABEL), ("aliases", SKOS_ALT)):
        for language, texts in dict(entity.document.get(part) or {}).items():
            for text in texts if isinstance(texts, list) else [texts]:
                yield node, f"<{predicate}>", f"{literal(text['value'])}@{language.lower()}"
    about = named(entity)
    for prop in ABOUT_SUBJECTS:
        yield from ((node, f"<{WDT}{prop}>", f"<{WD}{item}>") for item in entity.best_items(prop))
    if (links := entity.document.get("sitelinks")) is not None:
        yield node, f"<{WIKIBASE}sitelinks>", f'"{len(links)}"^^<{XSD}integer>'
    yield from ((node, f"<{WDT}P570>", f'"{day}"^^<{XSD}dateTime>') for day in about.died)
    yield node, f"<{SCHEMA}version>", f'"{entity.revision}"^^<{XSD}integer>'
    yield node, f"<{SCHEMA}dateModified>", f'"{entity.modified}"^^<{XSD}dateTime>'
    for prop in entity.properties:
        yield f"<{WD}{prop}>", f"<{WIKIBASE}claim>", f"<{P}{prop}>"
        snaks = [claim["mainsnak"] for claim in entity.claims(prop)]
        items = any(snak.get("datavalue", {}).get("type") == "wikibase-entityid" for snak in snaks)
        yield f"<{WD}{prop}>", f"<{WIKIBASE}propertyType>", f"<{WIKIBASE}{'WikibaseItem' if items else 'Other'}>"


def of_turtle(path: Path) -> Iterator[Triple]:
    """Yield what the service holds of an entity, made of Wikidata's Turtle: its header stands on the entity itself."""
    data, name = f"<https://www.wikidata.org/wiki/Special:EntityData/{path.stem}>", f"<{WD}{path.stem}>"
    quads = ox.parse(path.read_bytes(), format=ox.RdfFormat.TURTLE)
    triples = [(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in quads]
    kept = [(name if node == data else node, *rest) for node, *rest in triples if not node.startswith("_:")]
    yield from as_service([(node, predicate, value) for node, predicate, value in kept])


def latest(shared: Path, name: str) -> Entity:
    version = corpus(shared)[name][-1]
    [entity] = read_entities(version.document, [name], name)
    return replace(entity, revision=version.revision, modified=version.timestamp)


def classes() -> Iterator[Triple]:
    """Yield superclasses as Wikidata has them, which are in no document here."""
    for lower, upper in (("Q476028", "Q12973014"), ("Q6979593", "Q1194951"), ("Q1194951", "Q12973014")):
        yield f"<{WD}{lower}>", f"<{WDT}P279>", f"<{WD}{upper}>"
    for team, item in (("Q1", "Q6979593"), ("Q2", "Q12973014")):
        yield f"<{WD}{team}>", f"<{WDT}P31>", f"<{WD}{item}>"


def load(triples: Collection[Triple]) -> ox.Store:
    store = ox.Store()
    lines = "".join(f"{node} {predicate} {value} .\n" for node, predicate, value in sorted(set(triples)))
    store.bulk_load(lines.encode(), format=ox.RdfFormat.N_TRIPLES, lenient=True)  # as Wikidata tags languages
    return store


@pytest.fixture(scope="module")
def loopback(shared: Path) -> Loopback:
    entities = {name: latest(shared, name) for name in (*TURTLE, *JSON)}
    made = [triple for name in JSON for triple in of_document(entities[name])]
    made += [t for name in TURTLE for t in of_turtle(shared / f"wikidata/entitybase-backend/{name}.ttl")]
    made += [(f"<{WD}Q{old}>", f"<{OWL_SAME_AS}>", f"<{WD}Q{new}>") for old, new in ((7, 8), (8, 142), (9, 9))]
    return Loopback(load([*made, *classes()]), entities)


def results(store: ox.Store, text: str) -> Json:
    found = store.query(text)
    assert isinstance(found, ox.QuerySolutions | ox.QueryBoolean)
    return orjson.loads(found.serialize(format=ox.QueryResultsFormat.JSON) or b"")


Hook = Callable[[str], Json]


class Asking:
    """A service on this machine and a client for it."""

    def __init__(self, hook: Hook, kept: Path | None = None, faults: Sequence[Fault] = ()) -> None:
        self.server = FakeWikidata({}, sparql=hook, faults=faults)
        self.kept = kept
        self.slept: list[float] = []

    def __enter__(self) -> "Asking":
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__(None, None, None)

    def service(self, *, offline: bool = False, **settings: int) -> tuple[Web, QueryService]:
        stored = Responses(self.kept) if self.kept else None
        web = Web(Manners(attempts=2), stored, offline=offline, sleep=self.slept.append)
        return web, QueryService(web, f"{self.server.url}/sparql", "2025-12-31", **settings)

    def subjects(self, wanted: dict[str, Collection[str]], offline: bool = False, **settings: int) -> list[Subject]:
        web, service = self.service(offline=offline, **settings)
        with web:
            return service.subjects(wanted)


WHOLE: dict[str, Collection[str]] = {name: WANTED for name in (*TURTLE, *JSON)}


def expected(loopback: Loopback, wanted: dict[str, Collection[str]]) -> list[Subject]:
    return [subject(loopback.entities[name], props) for name, props in sorted(wanted.items())]


# Subjects and names


def test_sitelinks_are_counted_as_wikidata_counts_them(shared: Path, loopback: Loopback) -> None:
    # Its Turtle has the number, on the entity's data set; the documents have the links.
    for name in TURTLE:
        path = shared / f"wikidata/entitybase-backend/{name}.ttl"
        quads = list(ox.parse(path.read_bytes(), format=ox.RdfFormat.TURTLE))
        [count] = [int(q.object.value) for q in quads if q.predicate.value == f"{WIKIBASE}sitelinks"]
        assert count == loopback.entities[name].sitelinks > 60  # type: ignore[operator]
        about = {f"{WIKIBASE}sitelinks", f"{SCHEMA}about"}
        lines = [f"{q.subject} {q.predicate} {q.object} .\n" for q in quads if q.predicate.value in about]
        store = ox.Store()
        store.load("".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
        with Asking(lambda text, store=store: results(store, text)) as asking:  # type: ignore[misc]
            [found] = asking.subjects({name: WANTED})
        assert found.sitelinks == count


def test_subjects_equal_those_of_the_documents(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        found = asking.subjects(WHOLE)
    right = expected(loopback, WHOLE)
    assert [(one.id, len(one.statements)) for one in found] == [(one.id, len(one.statements)) for one in right]
    for ours, theirs in zip(found, right, strict=True):
        assert [one[:4] for one in ours.statements] == [one[:4] for one in theirs.statements]
        assert replace(ours, statements=()) == replace(theirs, statements=())
    triples = [triple for one in found for statement in one.statements for triple in statement.triples]
    assert len(triples) > 10_000
    assert {prop for one in found for prop in {s.property for s in one.statements}} >= {"P1906", "P1313", "P6", "P569"}
    assert any(UNKNOWN in value for _, _, value in triples)


@pytest.mark.parametrize("settings", [{"page": 37}, {"bulk": 1}, {"page": 1000, "bulk": 7}], ids=str)
def test_pages_and_parts_joined_are_the_whole(loopback: Loopback, settings: dict[str, int]) -> None:
    wanted = {name: ("P6", "P35", "P39") for name in ("Q347", "Q8413", "Q15180")}
    sizes = []

    def hook(text: str) -> Json:
        found = results(loopback.store, text)
        sizes.append(len(found["results"]["bindings"]))
        return found

    with Asking(hook) as asking:
        found = asking.subjects(dict(wanted), offline=False, **settings)
    assert [one.statements for one in found] == [one.statements for one in expected(loopback, dict(wanted))]
    assert max(sizes) <= settings.get("page", 10**6)
    assert len(sizes) > 10


def test_names_equal_those_of_the_documents(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        web, service = asking.service()
        with web:
            found = service.names([*loopback.entities, "Q999999999"])
    assert found == {name: named(entity) for name, entity in loopback.entities.items()}
    assert found["Q42"].label == ("Douglas Adams", "mul")
    assert found["Q42"].died and found["Q42"].aliases and found["Q42"].instance_of == ("Q5",)


def test_a_label_in_any_language_is_better_than_none(loopback: Loopback) -> None:
    store = load([(f"<{WD}Q1>", f"<{RDFS_LABEL}>", f'"{text}"@{tag}') for text, tag in (("Eins", "de"), ("Un", "fr"))])
    with Asking(lambda text: results(store, text)) as asking:
        web, service = asking.service()
        with web:
            assert service.names(["Q1"])["Q1"].label == ("Eins", "de")


def test_redirects_are_followed_and_what_is_not_there_is_left_out(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        web, service = asking.service()
        with web:
            found = service.subjects({"Q7": ("P35",), "Q142": ("P6",), "Q999999999": ("P6",)})
            assert [(one.asked, one.id) for one in found] == [("Q142", "Q142"), ("Q7", "Q142")]
            by_asked = {one.asked: {s.property for s in one.statements} for one in found}
            assert by_asked == {"Q142": {"P6", "P1313"}, "Q7": {"P35", "P1906"}}
            assert service.names(["Q8"])["Q8"].id == "Q142"
            with pytest.raises(SourceError, match="no end"):
                service.names(["Q9"])


def test_team_classes_come_from_all_that_a_team_is(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        web, service = asking.service()
        with web:
            assert service.teams(["Q1", "Q2", "Q81888", "Q30"]) == {"Q1": "national", "Q81888": "club"}


def test_any_select_is_asked_as_it_stands(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        web, service = asking.service()
        with web:
            found = list(service.rows(f"SELECT ?v {{ <{WD}Q42> <{SCHEMA}version> ?v }}"))
            assert found == [{"v": loopback.entities["Q42"].revision}]
            assert service.name.endswith("/sparql")
            with pytest.raises(QueryError, match="not a SELECT"):
                service.rows("ASK { ?s ?p ?o }")


# What goes wrong

SMALL: dict[str, Collection[str]] = {"Q347": ("P6", "P35"), "Q15180": ("P6", "P35"), "Q142": ("P6", "P35")}
KINDS = (
    "429", "500", "503", "refuse", "cut off", "chunked cut off", "gzip cut off", "gzip garbage", "truncated json",
    "wrong type", "html", "timeout", "empty",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nth", [1, 3, 7])
def test_a_fault_that_passes_leaves_no_trace(loopback: Loopback, kind: str, nth: int) -> None:
    with Asking(lambda text: results(loopback.store, text), faults=[Fault(kind, nth)]) as asking:
        found = asking.subjects(SMALL)
    assert [one.statements for one in found] == [one.statements for one in expected(loopback, SMALL)]
    assert len(asking.slept) == 1


@pytest.mark.parametrize("kind", ["500", "cut off", "html", "timeout"])
def test_a_fault_that_stays_is_an_error_and_a_rerun_asks_only_for_what_is_missing(
    loopback: Loopback, tmp_path: Path, kind: str
) -> None:
    with Asking(lambda text: results(loopback.store, text), tmp_path) as asking:
        asking.server.faults.append(Fault(kind, 6, forever=True))
        with pytest.raises(SourceError):
            asking.subjects(SMALL)
        asking.server.faults.clear()
        asking.server.requests.clear()
        found = asking.subjects(SMALL)
        assert [one.statements for one in found] == [one.statements for one in expected(loopback, SMALL)]
        later = len(asking.server.requests)
        asking.server.requests.clear()
        assert asking.subjects(SMALL, offline=True) == found
        assert asking.server.requests == []
    assert 0 < later <= 5


def test_what_takes_too_long_is_asked_for_in_halves(loopback: Loopback, tmp_path: Path) -> None:
    asked = []

    def slow(text: str) -> Json:
        if text.count("(<http://www.wikidata.org/entity/") > 3:
            trace = b'{"head":{"vars":["subject"]},"results":{"bindings":[\njava.util.concurrent.TimeoutException\n'
            return Reply(trace, "application/sparql-results+json")
        asked.append(text)
        return results(loopback.store, text)

    with Asking(slow, tmp_path) as asking:
        found = asking.subjects(SMALL)
        assert [one.statements for one in found] == [one.statements for one in expected(loopback, SMALL)]
        assert asking.subjects(SMALL, offline=True) == found
    assert len(asked) > 8


def test_a_service_that_gives_less_than_it_counts_is_refused(loopback: Loopback) -> None:
    def lossy(text: str) -> Json:
        found = results(loopback.store, text)
        if "COUNT" not in text and "?predicate" in text:
            found["results"]["bindings"] = found["results"]["bindings"][:-1]
        return found

    with Asking(lossy) as asking, pytest.raises(SourceError, match=r"counts (\d+) rows and gives (?!\1)\d+"):
        asking.subjects(SMALL)


def test_a_page_that_repeats_rows_is_refused(loopback: Loopback) -> None:
    with (
        Asking(lambda text: results(loopback.store, re.sub(r"OFFSET \d+", "OFFSET 0", text))) as asking,
        pytest.raises(SourceError, match="three times over"),
    ):
        asking.subjects(SMALL, page=30)


def test_a_change_between_count_and_answer_is_asked_again(loopback: Loopback, tmp_path: Path) -> None:
    wrong = [True]

    def changing(text: str) -> Json:
        found = results(loopback.store, text)
        if "COUNT" in text and "?predicate" in text and wrong:
            wrong.clear()
            found["results"]["bindings"][0]["rows"]["value"] = "5"
        return found

    with Asking(changing, tmp_path) as asking:
        found = asking.subjects(SMALL)
        assert asking.subjects(SMALL, offline=True) == found
    assert [one.statements for one in found] == [one.statements for one in expected(loopback, SMALL)]


# Queries, on two engines


def node(name: str) -> ox.NamedNode:
    return ox.NamedNode(name if name.startswith("http") else WD + name)


DAY = ox.Literal("2020-01-01T00:00:00Z", datatype=ox.NamedNode(XSD + "dateTime"))
TIME_NODE = "http://www.wikidata.org/value/"
CASES: dict[str, tuple[str, list[list[Any]], set[str]]] = {
    "statements": ("?subject ?claim", [[node("Q347"), node(P + "P6")], [node("Q42"), node(P + "P569")]], set()),
    "nodes": ("?node", [], {"http://wikiba.se/ontology#timeValue"}),
    "labels": ("?item", [[node("Q42")], [node("Q347")]], {RDFS_LABEL, SKOS_ALT, WDT + "P31", SCHEMA + "version"}),
    "other-labels": ("?item", [[node("Q347")]], set()),
    "redirects": ("?item", [[node("Q7")], [node("Q142")]], {WD + "Q8"}),
    "properties": ("?subject", [[node("Q347")], [node("Q30")], [node("Q42")]], {WD + "P6"}),
    "largest-economies": ("?class ?unit ?asOf", [[node("Q3624078"), node("Q4917"), DAY]], {WD + "Q30"}),
    "largest-companies": ("?class ?unit ?asOf", [[node("Q4830453"), node("Q4917"), DAY]], {WD + "Q2283"}),
    "offices": ("?subject", [[node("Q30")], [node("Q16")], [node("Q15180")]], {WD + "Q11696", "open"}),
    "team-classes": ("?team", [[node("Q81888")], [node("Q1")]], {WD + "Q1194951"}),
}


@pytest.fixture(scope="module")
def second(loopback: Loopback) -> Iterator[rdflib.Graph]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rdflib, "NORMALIZE_LITERALS", False)  # else days and numbers are written anew
        kept = [q for q in loopback.store if "/direct-normalized/" not in q.predicate.value]
        data = "".join(f"{quad.triple} .\n" for quad in kept)
        yield rdflib.Graph().parse(data=data, format="nt")


def terms(answer: Json) -> list[dict[str, str]]:
    """Return the rows of a JSON result, in their order."""
    return [{name: ntriples_term(term) for name, term in sorted(row.items())} for row in answer["results"]["bindings"]]


@pytest.mark.parametrize("name", CASES)
def test_a_query_gives_the_same_rows_on_both_engines(loopback: Loopback, second: rdflib.Graph, name: str) -> None:
    variables, values, held = CASES[name]
    if name == "nodes":
        times = [q.subject for q in loopback.store if q.predicate.value == WIKIBASE + "timeValue"]
        values = [[times[0]], [times[-1]]]
    text = bind(query(f"kg/{name}.rq"), variables, values)
    ours = terms(results(loopback.store, text))
    theirs = terms(orjson.loads(second.query(text).serialize(format="json") or b""))
    assert sorted(ours, key=str) == sorted(theirs, key=str) != []
    said = {value.strip('<>"') for row in ours for value in row.values()}
    assert held <= said
    assert terms(results(loopback.store, counted(text)))[0]["rows"].startswith(f'"{len(ours)}"')
    pages = [terms(results(loopback.store, paged(text, 2, offset))) for offset in range(0, len(ours), 2)]
    assert sorted((row for page in pages[:20] for row in page), key=str) == sorted(
        terms(results(loopback.store, paged(text, 40, 0))), key=str
    )


def test_every_discovery_query_has_a_case() -> None:
    known = {"answers", "days", "facts", "holder-labels", "names", "changes", "subjects", "terms"}  # of snapshots
    folder = Path(__file__).resolve().parents[1] / "queries/kg"
    assert {path.stem for path in folder.glob("*.rq")} - known == set(CASES)


def test_the_largest_come_first_and_the_latest_year_counts(loopback: Loopback) -> None:
    with Asking(lambda text: results(loopback.store, text)) as asking:
        web, service = asking.service()
        with web:
            variables, values, _ = CASES["largest-economies"]
            found = service.select("largest-economies", variables, values)
    amounts = [float(row["amount"]) for row in found]
    assert amounts == sorted(amounts, reverse=True)
    assert found[0]["subject"] == WD + "Q30"
    assert str(found[0]["latest"]) <= "2020"


# The table


def test_team_classes_agree_with_the_teams() -> None:
    rows = [row for _, row in read_lines(table("team-classes.csv"), ("item", "label", "class"))]
    assert [row["item"] for row in rows] == sorted({row["item"] for row in rows}, key=lambda item: int(item[1:]))
    for team in teams().values():
        assert team_classes().get(team.instance_of) in (None, team.team_class)
    assert set(team_classes().values()) <= {"club", "national", "racing"}
