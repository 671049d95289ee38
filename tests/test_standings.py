"""The sweep over a fact's days against the query for answer sets, asked on every one of them."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kg import standings
from kg.answers import BEFORE_ALL_DAYS, CoverageRow, StandingRow, Timeline, facts, timeline
from kg.identity import Identity, load
from kg.store import Graph
from kg.terms import EndKind, Rule, Standing, Status, Validity
from tests.graphs import MemoryGraph, triples

CASES = Path(__file__).parent / "cases" / "answers"
NAMES = sorted(path.name.removesuffix(".expect.csv") for path in CASES.glob("*.expect.csv"))

HEADER = "holder,start,end,end_kind,rank,team_class\n"
# Few, so that terms meet, hand over, overlap and tie; of every precision.
TIMES = (
    "2001",
    "2004",
    "2004-03",
    "2004-03-31",
    "2004-04-01",
    "2009-12-31",
    "2010-01-01",
    "2010",
    "2015-02-28",
    "2016",
)


def swept(graph: Graph, identity: Identity) -> Timeline:
    return standings.whole(standings.timeline(graph, identity, facts(graph, identity).values()))


@pytest.mark.parametrize("name", NAMES)
def test_cases(name: str) -> None:
    graph = MemoryGraph(name, triples((CASES / f"{name}.csv").read_text()))
    assert swept(graph, load()) == timeline(graph, load())


def drawn(draw: random.Random) -> str:
    """Return a table of up to seven statements, anything but likely."""
    return HEADER + "".join(f"{statement(draw)}\n" for _ in range(draw.randint(0, 7)))


def statement(draw: random.Random) -> str:
    holder = draw.choice(["", *"AABBCDE"])
    start = draw.choice(["", *TIMES])
    end, kind = draw.choice(TIMES), ""
    if draw.random() < 0.5:
        end, kind = "", draw.choice(["open", "no value", "unknown value"])
    rank = draw.choice(["Normal"] * 4 + ["Preferred", "Deprecated"])
    team = draw.choice(["", "", "national", "club"]) if holder in "DE" and holder else ""
    return f"{holder},{start},{end},{kind},{rank},{team}"


def drawn_graph(seed: int, count: int) -> MemoryGraph:
    draw = random.Random(seed)
    tables = [
        triples(drawn(draw), subject=f"Land {number}", history=draw.choice(["Full", "Extract"]))
        for number in range(count)
    ]
    return MemoryGraph("drawn", b"".join(tables))


@pytest.mark.parametrize("seed", [0, 102, 108, 128])
def test_statements_drawn_at_random(seed: int) -> None:
    graph = drawn_graph(seed, 60)
    expected = timeline(graph, load())
    assert swept(graph, load()) == expected
    assert_all_kinds(expected)


def assert_all_kinds(table: Timeline) -> None:
    """Agreement on what never occurs would be worth nothing."""
    rows = table.standings
    assert {(row.rule, row.standing, row.certain) for row in rows} >= {
        (rule, standing, certain)
        for rule in Rule
        for standing in (Standing.UP_TO_DATE, Standing.OUTDATED)
        for certain in (True, False)
    }
    assert {row.standing for row in rows} == set(Standing)
    assert {row.validity for row in rows} == set(Validity)
    assert {(row.rule, row.superseded) for row in rows} == {(rule, said) for rule in Rule for said in (True, False)}
    assert {(row.rule, row.status) for row in table.coverage} == {(rule, status) for rule in Rule for status in Status}


def terms(lines: str) -> list[standings.Term]:
    """Read "A 20010101 20050101" a line: a holder, its first day and its end; ? for none."""
    found = []
    for number, line in enumerate(lines.splitlines()):
        holder, *days = line.split()
        start, end = (None if day == "?" else int(day) for day in days)
        kind = EndKind.OPEN if end is None else EndKind.KNOWN
        found.append(standings.Term(f"s{number}", holder, True, False, start, start, end, end, None, kind))
    return found


FACT = next(iter(facts(MemoryGraph("x", triples(HEADER)), load()).values()))


def rows_of(lines: str) -> Iterator[tuple[str, int, int | None, str]]:
    for row in standings.swept(FACT, terms(lines)).standings:
        if row.rule is Rule.LATEST:
            yield row.entity, row.from_day, row.to_day, row.standing


def test_one_follows_the_other() -> None:
    before = BEFORE_ALL_DAYS
    assert list(rows_of("A 20010101 20050101\nB 20050101 ?")) == [
        ("A", before, 20010101, "later"),
        ("A", 20010101, 20050101, "up-to-date"),
        ("A", 20050101, None, "outdated"),
        ("B", before, 20050101, "later"),
        ("B", 20050101, None, "up-to-date"),
    ]


def test_a_fact_without_statements_is_covered_by_nothing() -> None:
    found = standings.swept(FACT, [])
    from_day, status = BEFORE_ALL_DAYS, Status.NOT_IN_SNAPSHOT
    expected = [CoverageRow(FACT.fact, rule, from_day, None, status) for rule in Rule]
    assert found == ([], expected)


@pytest.mark.parametrize("kind", ["relay", "undated", "open"])
def test_the_work_grows_with_the_rows_and_not_with_their_square(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A club with hundreds of players: each in turn; without a first day, and gone one by one; none ever gone.
    def made(count: int) -> list[standings.Term]:
        days = [20000101 + 10000 * (n // 336) + 100 * (n % 336 // 28) + n % 28 for n in range(count + 1)]
        tables = {"relay": "{n} {a} {b}", "undated": "{n} ? {b}", "open": "{n} {a} ?"}
        return terms("\n".join(tables[kind].format(n=f"h{n}", a=days[n], b=days[n + 1]) for n in range(count)))

    asked: list[int] = []
    monkeypatch.setattr(standings._Sweep, "_value", counted(asked))
    work = []
    for count in (200, 800):
        asked.clear()
        found = standings.swept(FACT, made(count)).standings
        assert len({row.entity for row in found}) == count
        work.append(len(asked))
    assert work[1] < 4.5 * work[0]


def counted(asked: list[int]) -> Callable[[standings._Sweep, str], object]:
    value = standings._Sweep._value

    def told(self: standings._Sweep, owner: str) -> object:
        asked.append(1)
        return value(self, owner)

    return told


def test_rows_are_sorted() -> None:
    rows: list[StandingRow] = swept(drawn_graph(9, 20), load()).standings
    assert len(rows) > 100
    assert rows == sorted(rows, key=lambda row: row[:4])
