"""What statements of Wikidata mean, case by case: entity documents as files, the right answers beside, two engines.

Every case goes the whole way: Wikidata's JSON, its RDF, the rows and triples of a snapshot, the query. A second way
starts from RDF as the query service gives it, and must lead to the same bytes.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from kg.answers import AnswerSet, answers, timeline
from kg.dates import parse_day
from kg.identity import Identity, with_redirects
from kg.snapshot import ChangeKind, Snapshot, diff, take
from kg.snapshot.compare import By
from kg.sources import Source, mirror
from kg.sources.canonical import canonical
from kg.sources.entity import Claim, Entity, named, read_entities
from kg.store import boolean, integer, select
from kg.terms import PQ, PS, RDFS_LABEL, WD, WDS, WIKIBASE, P, Rule, Validity
from tests.graphs import MemoryGraph
from tests.rdflib_route import RdflibGraph
from tests.test_answers import SHORT, told
from tests.test_rdf import as_query_service, documents

CASES = Path(__file__).parent / "cases" / "wikidata"
NAMES = sorted(path.stem for path in CASES.glob("*.json"))
ENGINES = (MemoryGraph, RdflibGraph)

NOBODY = Identity("", {})

Engine = type[MemoryGraph] | type[RdflibGraph]


@cache
def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    return found


def entities(name: str) -> Iterator[Entity]:
    for own, document in case(name)["entities"].items():
        yield from read_entities({"entities": {own: document}}, [case(name).get("asked", {}).get(own, own)], name)


def source(name: str, *, by_query_service: bool = False) -> Source:
    """Return the case's fact as the rows that a mirrored document, or a query service, gives."""
    own, prop = case(name)["fact"].split("/")
    first, *others = entities(name)
    assert first.id == own
    subject = mirror.subject(first, {prop})
    if by_query_service:
        triples = [triple for one in subject.statements for triple in one.triples]
        subject = mirror.Subject(subject.asked, own, subject.label, canonical(as_query_service(triples)))
    names = {one.asked: named(one) for one in others}
    names |= {one.id: named(one)._replace(asked=one.id) for one in others}
    day = parse_day(case(name)["day"])
    return mirror.source([subject], names, {first.asked: {prop}}, day, name="case", description="A case.")


def snapshot(name: str, folder: Path) -> Snapshot:
    return take(source(name), folder / name)


def identity(taken: Snapshot) -> Identity:
    return with_redirects(NOBODY, [taken])


def answer(name: str, folder: Path, engine: Engine, day: str) -> AnswerSet:
    taken = snapshot(name, folder)
    [found] = answers(engine(name, taken.read_statements()), identity(taken), parse_day(day), [case(name)["fact"]])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, tmp_path: Path) -> None:
    taken = snapshot(name, tmp_path)
    graph, known = MemoryGraph(name, taken.read_statements()), identity(taken)
    assert case(name)["expect"]
    for day, (status, *holders) in case(name)["expect"].items():
        [found] = answers(graph, known, parse_day(day), [case(name)["fact"]])
        assert (day, found.status, told(found)) == (day, status, "; ".join(holders))
        if day in (expected := case(name).get("superseded", {})):
            assert [holder.label for holder in found.holders if holder.superseded] == expected[day]
        for holder in found.holders:
            assert holder.end_kind == case(name).get("ends", {}).get(holder.label, holder.end_kind)
        assert found.office == case(name).get("office")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_case_by_standings_over_all_days(name: str, engine: Engine, tmp_path: Path) -> None:
    """One query for all days, so that rdflib, which reads a query's text for half a second, is a second judge of all."""
    taken = snapshot(name, tmp_path)
    found = timeline(engine(name, taken.read_statements()), identity(taken))
    names = {one.id: one.label[0] for one in entities(name) if one.label}
    for text, (status, *holders) in case(name)["expect"].items():
        day = parse_day(text)
        said = [
            f"{names.get(row.entity, row.entity.rpartition(':')[2])} "
            f"{SHORT[row.standing]} {row.validity[0]} {'!' if row.certain else '?'}"
            for row in found.standings
            if row.rule is Rule.LATEST and row.from_day <= day < (row.to_day or 10**9)
        ]
        assert (text, sorted(said)) == (text, sorted(holders))
        coverage = [row for row in found.coverage if row.rule is Rule.LATEST and row.from_day <= day]
        assert (text, max(coverage, key=lambda row: row.from_day).status) == (text, status)


@pytest.mark.parametrize("name", NAMES)
def test_the_query_service_leads_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    there = take(source(name, by_query_service=True), tmp_path / "there")
    assert there.read_statements() == snapshot(name, tmp_path).read_statements()


@pytest.mark.parametrize("name", NAMES)
def test_loading_twice_adds_nothing(name: str, tmp_path: Path) -> None:
    data = snapshot(name, tmp_path).read_statements()
    store = ox.Store()
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    once = len(store)
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    assert len(store) == once == len(data.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_problems_are_counted(name: str) -> None:
    first = next(entities(name))
    found = mirror.subject(first, {case(name)["fact"].split("/")[1]}).statements
    assert [problem for one in found for problem in one.problems] == case(name).get("problems", [])


# Diffs between two cases


def changes(older: str, newer: str, folder: Path, by: By = By.CONTENT) -> list[tuple[str, str]]:
    """Return kind and holder of each change between two cases."""
    found = diff(snapshot(older, folder), snapshot(newer, folder), NOBODY.entity, by)
    return [(change.kind, change.label) for change in found]


def test_a_reused_id_hides_no_former_holder(tmp_path: Path) -> None:
    by_content = changes("26-id-reused", "26-id-reused-later", tmp_path / "content")
    assert by_content == [(ChangeKind.END, "A"), (ChangeKind.ADDED, "B")]
    by_id = changes("26-id-reused", "26-id-reused-later", tmp_path / "id", By.ID)
    assert (ChangeKind.HOLDER, "B") in by_id
    # The older snapshot's holder stands on the older day in both, whatever became of the id.
    for name in ("26-id-reused", "26-id-reused-later"):
        found = answer(name, tmp_path, MemoryGraph, "2018-01-01")
        assert [holder.entity for holder in found.up_to_date] == ["Q901"]


def test_a_new_label_changes_no_fact(tmp_path: Path) -> None:
    assert changes("39-labels-change", "39-labels-change-later", tmp_path) == [(ChangeKind.LABEL, "A the First")]
    old, new = (
        answer(name, tmp_path / "answers", MemoryGraph, "2023-01-01")
        for name in ("39-labels-change", "39-labels-change-later")
    )
    assert [holder.entity for holder in old.up_to_date] == [holder.entity for holder in new.up_to_date]


# Naive queries, and how ours differs

NOW = "2026-01-01"

NAIVE_END = {
    # The wiki's own helper (Template:ValidAtDate): who has no end holds until now.
    "now": 'COALESCE(?end, "{now}T00:00:00Z"^^xsd:dateTime) >= ?day',
    "not ended": "!BOUND(?end) || ?end > ?day",
    "no end before": "NOT EXISTS {{ ?statement <{pq}P582> ?e FILTER(?e <= ?day) }}",
}


def naive(name: str, folder: Path, day: str, engine: Engine = MemoryGraph, end: str = "now") -> set[str]:
    """Return the holders that a query finds which compares the qualifiers as they stand."""
    own, prop = case(name)["fact"].split("/")
    text = f"""PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
    SELECT ?label {{
      <{WD}{own}> <{P}{prop}> ?statement . ?statement <{PS}{prop}> ?value . ?value <{RDFS_LABEL}> ?label .
      OPTIONAL {{ ?statement <{PQ}P580> ?start }}
      OPTIONAL {{ ?statement <{PQ}P582> ?end }}
      BIND("{day}T00:00:00Z"^^xsd:dateTime AS ?day)
      FILTER(COALESCE(?start <= ?day, true))
      FILTER({NAIVE_END[end].format(now=NOW, pq=PQ)})
    }}"""
    return {str(row["label"]) for row in engine(name, snapshot(name, folder / "naive").read_statements()).rows(text)}


def ours(name: str, folder: Path, day: str, engine: Engine = MemoryGraph) -> set[str]:
    return {holder.label for holder in answer(name, folder, engine, day).up_to_date}


def test_case_50_of_14_still_in_office_is_lost_after_today_by_the_helper(tmp_path: Path) -> None:
    assert naive("14-end-no-value", tmp_path, "2030-01-01") == set()
    assert ours("14-end-no-value", tmp_path, "2030-01-01") == {"A"}


def test_case_50_of_15_an_unknown_end_never_holds_or_holds_for_ever(tmp_path: Path) -> None:
    assert naive("15-end-unknown", tmp_path / "a", "2005-06-01") == set()
    assert naive("15-end-unknown", tmp_path / "b", "2005-06-01", end="not ended") == set()
    assert naive("15-end-unknown", tmp_path / "c", "2015-06-01", end="no end before") == {"A", "B"}
    assert ours("15-end-unknown", tmp_path / "d", "2005-06-01") == {"A"}
    assert ours("15-end-unknown", tmp_path / "e", "2015-06-01") == {"B"}


def test_case_50_of_23_who_holds_it_in_the_future_is_lost_by_the_helper(tmp_path: Path) -> None:
    assert naive("23-future-dates", tmp_path, "2035-01-01") == set()
    assert ours("23-future-dates", tmp_path, "2035-01-01") == {"B"}


def test_case_2_an_end_of_year_precision_cuts_the_holder_off_in_a_naive_query(tmp_path: Path) -> None:
    assert naive("02-year-only-end", tmp_path, "2015-06-01") == set()
    assert ours("02-year-only-end", tmp_path, "2015-06-01") == {"A"}


@pytest.mark.filterwarnings(
    "ignore:NotImplemented should not be used:DeprecationWarning"
)  # rdflib's own, on such dates
def test_case_8_engines_part_on_years_beyond_9999_and_our_integers_keep_them_together(tmp_path: Path) -> None:
    name = "08-year-12025"
    found = {engine: naive(name, tmp_path / engine.__name__, "2020-01-01", engine, "not ended") for engine in ENGINES}
    assert found == {MemoryGraph: {"A"}, RdflibGraph: {"A", "B"}}  # rdflib compares such a date as text
    assert {engine: ours(name, tmp_path / "ours" / engine.__name__, "2020-01-01", engine) for engine in ENGINES} == {
        MemoryGraph: {"A"},
        RdflibGraph: {"A"},
    }


def test_case_9_a_day_that_is_none_in_rdf_loses_no_holder(tmp_path: Path) -> None:
    """RDF that others made may hold what Wikidata's never does; the statement stays, with what can be read of it."""
    first = next(entities("09-no-such-day"))
    triples = [triple for one in mirror.subject(first, {"P6"}).statements for triple in one.triples]
    broken = [(s, p, o.replace("2014-02-28T", "2014-02-30T")) for s, p, o in triples]
    subject = mirror.Subject("Q900", "Q900", first.label, canonical(broken))
    made = mirror.source([subject], {}, {"Q900": {"P6"}}, 20260101, name="case", description="A case.")
    for engine in ENGINES:
        [found] = answers(engine("9", take(made, tmp_path / engine.__name__).read_statements()), NOBODY, 20150101)
        assert [(holder.entity, holder.validity) for holder in found.up_to_date] == [("Q901", Validity.POSSIBLE)]


def test_case_28_the_best_rank_alone_has_no_former_holder(tmp_path: Path) -> None:
    triples = snapshot("28-preferred-hides-nobody", tmp_path).read_statements().decode().splitlines()
    best = [line.split()[0] for line in triples if line.endswith(f"<{WIKIBASE}BestRank> .")]
    assert [statement.rpartition("/")[2] for statement in best] == ["Q900-S2>"]
    assert ours("28-preferred-hides-nobody", tmp_path / "ours", "2012-01-01") == {"A"}


def test_case_31_an_acting_holder_can_be_told_from_the_snapshot(tmp_path: Path) -> None:
    line = f"<{WDS}Q900-S2> <{PQ}P2868> <{WD}Q4676846> ."
    assert line in snapshot("31-acting", tmp_path).read_statements().decode().splitlines()


def test_case_37_a_redirect_is_kept_as_such(tmp_path: Path) -> None:
    taken = snapshot("37-redirect", tmp_path)
    lines = taken.read_statements().decode().splitlines()
    same = "<http://www.w3.org/2002/07/owl#sameAs>"
    assert f"<{WD}Q1900> {same} <{WD}Q900> ." in lines
    assert f"<{WD}Q1901> {same} <{WD}Q901> ." in lines
    [found] = answers(MemoryGraph("37", taken.read_statements()), identity(taken), 20200101)
    assert [holder.entity for holder in found.holders] == ["Q901"]


# Real documents, judged a second time by a few lines that know only their JSON


def _days(snaks: list[dict[str, Any]]) -> tuple[date, date] | None:
    """Return first and last day of a time, by hand; None where there is none that this reader trusts itself with."""
    values = [snak["datavalue"]["value"] for snak in snaks if snak["snaktype"] == "value"]
    if not values:
        return None
    year, month, day = (int(part) for part in values[0]["time"][1:11].split("-"))
    if values[0]["precision"] == 9:
        return date(year, 1, 1), date(year, 12, 31)
    first = date(year, month, day if values[0]["precision"] == 11 else 1)
    if values[0]["precision"] == 11:
        return first, first
    return first, date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)


def _is_plain(claim: Claim) -> bool:
    """Tell whether the judge can read a statement: four-digit Gregorian years, one value a qualifier."""
    snaks = [snak for prop in ("P580", "P582") for snak in claim.get("qualifiers", {}).get(prop, [])]
    values = [snak["datavalue"]["value"] for snak in snaks if snak["snaktype"] == "value"]
    return len(snaks) == len({snak["property"] for snak in snaks}) and all(
        value["precision"] in (9, 10, 11)
        and re.match(r"\+(?!0000)\d{4}-", value["time"])
        and value["calendarmodel"].endswith("Q1985727")
        for value in values
    )


def _validity(claim: Claim, starts: set[date], day: date) -> str:
    """Say whether a statement holds on a day; ``starts`` are the known first days of its fact's statements."""
    qualifiers = claim.get("qualifiers", {})
    start, end = _days(qualifiers.get("P580", [])), _days(qualifiers.get("P582", []))
    unknown_end = any(snak["snaktype"] == "somevalue" for snak in qualifiers.get("P582", []))
    if end and end[0] == end[1] and end[0] + timedelta(days=1) in starts:
        end = (end[0] + timedelta(days=1),) * 2
    if (start and start[0] > day) or (end and end[1] <= day):
        return "no"
    sure = start and start[1] <= day and not unknown_end and not (end and end[0] <= day)
    return "certain" if sure else "possible"


# How many judgements each collection gives on seven days.
REAL = {
    "openrefine-wikibase": {"certain": 136, "possible": 121, "no": 2193},
    "2018-09-slice.json.bz2": {"certain": 178, "possible": 201, "no": 1378},
    "2021-06-slice.json.gz": {"certain": 139, "possible": 54, "no": 1165},
}
PROPERTIES = frozenset({"P6", "P35", "P54", "P169", "P488"})


def _judged(entity: Entity, day: date) -> Iterator[tuple[str, str]]:
    """Yield statement and validity of every statement of an entity that the judge can read."""
    for prop in PROPERTIES:
        claims = [claim for claim in entity.claims(prop) if claim["rank"] != "deprecated"]
        if not all(map(_is_plain, claims)):
            continue
        spans = [_days(claim.get("qualifiers", {}).get("P580", [])) for claim in claims]
        starts = {span[0] for span in spans if span and span[0] == span[1]}
        for claim in claims:
            yield WDS + claim["id"].replace("$", "-"), _validity(claim, starts, day)


def test_validity_of_every_real_statement_is_what_its_json_says(shared: Path, tmp_path: Path) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    collections: dict[str, dict[str, Entity]] = defaultdict(dict)
    for where, document in documents(shared):
        if where in REAL:
            collections[where] |= {entity.id: entity for entity in read_entities(document, [], where)}
    for where, found in collections.items():
        subjects = [mirror.subject(entity, PROPERTIES) for entity in found.values()]
        wanted = dict.fromkeys(found, PROPERTIES)
        made = mirror.source(subjects, {}, wanted, 20210601, name="real", description="Real documents.")
        graph = MemoryGraph(where, take(made, tmp_path / where).read_statements())
        for year, month in ((1850, 6), (1945, 5), (1989, 11), (2004, 1), (2015, 10), (2020, 7), (2030, 1)):
            bound = [[None, integer(year * 10000 + month * 100 + 9), boolean(True)]]
            rows = select(graph, "answers", "?fact ?asOf ?withActing", bound)
            said = {str(row["statement"]): row["validity"] for row in rows}
            expected = dict(pair for one in found.values() for pair in _judged(one, date(year, month, 9)))
            assert {node: said.get(node) for node in expected} == expected
            counts[where].update(expected.values())
    assert {where: dict(counts[where]) for where in REAL} == REAL
