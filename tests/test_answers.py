"""Answer sets and standings: cases as files, and two engines that must agree."""

import csv
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kg import answers as asking
from kg import standings
from kg.answers import BEFORE_ALL_DAYS, AnswerSet, Timeline, answers, facts, names, timeline
from kg.identity import Identity, load
from kg.snapshot import Snapshot, find_snapshots
from kg.store import Graph, Row, open_store
from kg.terms import Rule, Standing, Status, Validity
from tests.graphs import MemoryGraph, triples
from tests.rdflib_route import RdflibGraph

CASES = Path(__file__).parent / "cases" / "answers"
SHORT = {Standing.UP_TO_DATE: "up", Standing.OUTDATED: "out", Standing.LATER: "late", Standing.NOT_ASKED: "na"}
NAMES = sorted(path.name.removesuffix(".expect.csv") for path in CASES.glob("*.expect.csv"))


def told(answer_set: AnswerSet) -> str:
    return "; ".join(
        f"{h.label} {SHORT[h.standing]} {h.validity[0]} {'!' if h.certain else '?'}" for h in answer_set.holders
    )


@pytest.mark.parametrize("engine", [MemoryGraph, RdflibGraph])
@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, engine: type[MemoryGraph] | type[RdflibGraph]) -> None:
    graph: Graph = engine(name, triples((CASES / f"{name}.csv").read_text()))
    with (CASES / f"{name}.expect.csv").open() as lines:
        expected = list(csv.DictReader(lines))
    assert expected
    for row in expected:
        [found] = answers(graph, load(), int(row["day"]))
        assert (told(found), found.status) == (row["holders"], row["status"]), (name, row)


def test_superseded_is_valid_and_not_up_to_date() -> None:
    graph = MemoryGraph("x", triples("holder,start,end\nA,2014-01-01,\nB,2020-01-01,\n"))
    [found] = answers(graph, load(), 20210101)
    assert [(h.label, h.superseded, h.validity) for h in found.holders] == [
        ("B", False, Validity.CERTAIN),
        ("A", True, Validity.CERTAIN),
    ]


def test_the_studys_rule_lets_an_ended_term_lead() -> None:
    graph = MemoryGraph("x", triples("holder,start,end\nA,2014-01-01,\nB,2020-01-01,2021-01-01\n"))
    [ours] = answers(graph, load(), 20220101)
    [study] = answers(graph, load(), 20220101, rule=Rule.STUDY)
    assert ([h.label for h in ours.up_to_date], [h.label for h in study.up_to_date]) == (["A"], ["B"])


def test_a_gap_in_an_extract_is_not_a_vacancy() -> None:
    table = "holder,start,end\nA,2001-01-01,2005-01-01\nB,2020-01-01,\n"
    [whole] = answers(MemoryGraph("x", triples(table)), load(), 20100101)
    [extract] = answers(MemoryGraph("x", triples(table, history="Extract")), load(), 20100101)
    assert (whole.status, extract.status) == (Status.VACANCY, Status.NOT_IN_SNAPSHOT)


HOSTILE = 'Jean "le >} {?x" O\'Neil \\ <b>'


@pytest.mark.parametrize("engine", [MemoryGraph, RdflibGraph])
def test_names_with_quotes_braces_and_brackets_pass_unharmed(engine: type[MemoryGraph] | type[RdflibGraph]) -> None:
    table = f'holder,start,end\n"{HOSTILE.replace(chr(34), chr(34) * 2)}",2001-01-01,\n'
    graph: Graph = engine("x", triples(table, subject=HOSTILE))
    [found] = answers(graph, load(), 20100101)
    assert (found.subject, found.holders[0].label) == (HOSTILE, HOSTILE)
    assert answers(graph, load(), 20100101, [found.fact]) == [found]
    assert names(graph, load())[0].name == HOSTILE
    assert timeline(graph, load()).standings


@pytest.fixture(scope="module", params=["2023-12-18", "2025-11-30"])
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    return {s.id: s for s in find_snapshots()}[request.param]


@pytest.fixture(scope="module")
def identity() -> Identity:
    return load()


def days(seed: int, count: int) -> Iterator[int]:
    draw = random.Random(seed)
    for _ in range(count):
        yield draw.randint(1950, 2026) * 10000 + draw.randint(1, 12) * 100 + draw.randint(1, 28)


def on_day(graph: Graph, identity: Identity, day: int, rule: Rule) -> set[tuple[object, ...]]:
    return {
        (s.fact, s.status, h.entity, h.standing, h.certain, h.validity, h.superseded, h.statement)
        for s in answers(graph, identity, day, rule=rule)
        for h in s.holders
    }


def stored(table: Timeline, day: int, rule: Rule) -> set[tuple[object, ...]]:
    status = {
        row.fact: row.status
        for row in table.coverage
        if row.rule is rule and row.from_day <= day and (row.to_day is None or day < row.to_day)
    }
    return {
        (r.fact, status[r.fact], r.entity, r.standing, r.certain, r.validity, r.superseded, r.statement)
        for r in table.standings
        if r.rule is rule and r.from_day <= day and (r.to_day is None or day < r.to_day)
    }


@pytest.fixture(scope="module")
def table(snapshot: Snapshot, identity: Identity) -> Timeline:
    return timeline(open_store(snapshot), identity)


def test_a_sweep_over_the_days_gives_the_rows_of_the_query(
    snapshot: Snapshot, identity: Identity, table: Timeline
) -> None:
    store = open_store(snapshot)
    swept = standings.whole(standings.timeline(store, identity, facts(store, identity).values()))
    assert len(table.standings) > 7000
    assert swept == table


@pytest.mark.parametrize(("rule", "count"), [(Rule.LATEST, 100), (Rule.STUDY, 20)])
def test_answers_and_standings_agree_on_random_days(
    snapshot: Snapshot, identity: Identity, table: Timeline, rule: Rule, count: int
) -> None:
    store = open_store(snapshot)
    for day in [BEFORE_ALL_DAYS, *days(int(snapshot.id[:4]), count)]:
        found = on_day(store, identity, day, rule)
        assert len(found) > 900
        assert found == stored(table, day, rule), day


def agree_on_rdflib(snapshot: Snapshot, identity: Identity, chosen: list[int]) -> None:
    store, graph = open_store(snapshot), RdflibGraph(snapshot.id, snapshot.read_statements())
    for day in chosen:
        ours, theirs = answers(store, identity, day), answers(graph, identity, day)
        assert len(ours) > 120
        assert ours == theirs, day


def test_rdflib_agrees(snapshot: Snapshot, identity: Identity) -> None:
    agree_on_rdflib(snapshot, identity, [20231218])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_rdflib_agrees_on_two_hundred_days(snapshot: Snapshot, identity: Identity, part: int) -> None:
    agree_on_rdflib(snapshot, identity, list(days(int(snapshot.id[:4]), 100))[part::8])


class Counted:
    """Passes queries on to a store and counts them."""

    def __init__(self, store: Graph) -> None:
        self.store, self.queries, self.name = store, 0, store.name

    def rows(self, text: str) -> Iterator[Row]:
        self.queries += 1
        return self.store.rows(text)


def test_answer_sets_are_asked_for_some_at_a_time_and_are_those_of_one_query(
    snapshot: Snapshot, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(snapshot)
    whole = answers(store, identity, 20231218, acting=False)
    monkeypatch.setattr(asking, "FACTS_AT_ONCE", 7)
    asked = Counted(store)
    found = asking.each(asked, identity, 20231218, list(facts(store, identity).values()), acting=False, every=True)
    assert [next(found) for _ in range(7)] == whole[:7]
    assert asked.queries == 2, "answers and labels of seven facts, and nothing more yet"
    assert [*whole[:7], *found] == whole
    assert answers(store, identity, 20231218, acting=False) == whole
    assert len(whole) > 100
