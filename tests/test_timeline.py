"""The sweep over dates: equal to judging each date alone, and to a plain count in Python."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from dyknow import results
from dyknow.named import import_named
from dyknow.timeline import (
    Constraint,
    FactDays,
    Measure,
    Point,
    as_date,
    base,
    change_days,
    fact_days,
    grid,
    peak,
    peaks,
    rates,
    sweep,
)
from kg import identity
from kg.answers import answers
from kg.errors import QueryError
from kg.snapshot import find_snapshots
from kg.store import open_store
from kg.terms import Rule, Standing, Status

FIGURES = Path(__file__).parents[1] / "examples" / "published" / "named.csv"
GPT, LLAMA = "gpt-3.5-turbo-1106", "Meta-Llama-3-8B-Instruct"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("timeline")
    import_named(FIGURES.parent, folder / "runs")
    snapshots = [s for s in find_snapshots() if s.id in {"2023-12-18", "2025-11-30"}]
    with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as opened:
        yield opened


def some_days(count: int) -> list[int]:
    """Return days drawn at random, first and last ones of months among them."""
    drawn = random.Random(5)
    days = {drawn.choice(grid(19900101, 20251231, "day")) for _ in range(count)}
    return sorted(days | {20230101, 20221231, 20231218, 19000101})


@pytest.mark.parametrize("known_at", ["2023-12-18", "2025-11-30"])
@pytest.mark.parametrize("rule", list(Rule))
def test_a_sweep_is_the_tables_of_every_date(connection: duckdb.DuckDBPyConnection, rule: Rule, known_at: str) -> None:
    days = some_days(6)
    compared = 0
    tables: dict[Constraint, str] = {"soft": "table1", "average": "table5"}
    for constraint, table in tables.items():
        swept = sweep(connection, days, known_at, rule=rule, constraint=constraint)
        found = {(p.run, p.domain, p.day): p for p in swept}
        for day in days:
            rows = connection.execute(
                f"SELECT run, domain, n, up_to_date, up_to_date_lower, outdated, irrelevant, up_to_date_upper FROM {table}(?, known_at := ?,"
                " rule := ?)",
                [as_date(day).isoformat(), known_at, rule],
            ).fetchall()
            for run, domain, n, *shares in rows:
                point = found.pop((run, domain, day), Point(run, domain, day, 0, None, None, None, None, None))
                assert point.n == n
                assert list(point[4:]) == pytest.approx(shares)
                compared += n > 0
        assert not found
    assert compared > 500


@pytest.mark.parametrize("rule", list(Rule))
def test_a_sweep_by_a_plain_route(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """Asks the graph for the answer sets of each day and counts in Python."""
    [snapshot] = [s for s in find_snapshots() if s.id == "2023-12-18"]
    said = defaultdict(list)
    for run, fact, entity in connection.execute(
        "SELECT r.run, r.fact, m.entity FROM responses AS r JOIN facts AS f ON f.fact = r.fact AND f.snapshot = '2023-12-18'"
        " JOIN matches AS m ON m.response_digest = r.response_digest AND m.fact = r.fact"
        " AND m.candidates_digest = f.candidates_digest WHERE r.counted"
    ).fetchall():
        said[run, fact].append(entity)
    days = [20150701, 20200101, 20230601]
    found = {(p.run, p.day): p for p in sweep(connection, days, rule=rule) if p.domain == "all"}
    for day in days:
        sets = {one.fact: one for one in answers(open_store(snapshot), identity.load(), day, rule=rule)}
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
        for (run, fact), entities in said.items():
            one = sets[fact]
            if one.status in {Status.BEFORE_FIRST_RECORD, Status.NOT_IN_SNAPSHOT}:
                continue
            named = [holder for holder in one.holders if holder.entity in entities]
            up = [holder for holder in named if holder.standing is Standing.UP_TO_DATE]
            out = [holder for holder in named if holder.standing is Standing.OUTDATED]
            doubtful = [holder for holder in out if not holder.certain and holder.start]
            hits = (True, bool(up), any(h.certain for h in up), bool(up or doubtful), bool(out and not up))
            counts[run] = [old + hit for old, hit in zip(counts[run], hits, strict=True)]
        for run, (n, *right) in counts.items():
            point = found[run, day]
            got = (point.up_to_date, point.up_to_date_lower, point.up_to_date_upper, point.outdated)
            assert point.n == n
            assert got == pytest.approx([100 * hit / n for hit in right])
        assert len(counts) == 10


def test_arrays_rows_and_the_macro_are_one(connection: duckdb.DuckDBPyConnection) -> None:
    days = [20230601, 20150701, 20150701, 19000101]
    soft, average = rates(connection, days, constraints=["soft", "average"])
    assert soft.days == average.days == (19000101, 20150701, 20230601)
    names = "n, up_to_date, up_to_date_lower, outdated, irrelevant, up_to_date_upper"
    means = "n_average, " + ", ".join(f"mean_{name}" for name in names.split(", ")[1:])
    for swept, columns, constraint in ((soft, names, "soft"), (average, means, "average")):
        points = sweep(connection, days, constraint=constraint)  # type: ignore[arg-type]
        kept = list(swept.rows())
        assert [point[:3] for point in points] == [tuple(row[:3]) for row in kept]
        for point, row in zip(points, kept, strict=True):  # threads add thirds in any order: equal but for the last bit
            assert list(point[3:]) == pytest.approx(list(row[3:]))
        rows = connection.execute(f"SELECT run, domain, day, {columns} FROM timeline(?)", [days]).fetchall()
        told = {row[:3]: row[3:] for row in rows if row[3]}
        assert len(told) == len(points) >= 80
        for point in points:
            assert list(point[3:]) == pytest.approx(told[point[:3]])


def test_facts_leave_the_denominator_day_by_day(connection: duckdb.DuckDBPyConnection) -> None:
    counted = [p.n for p in sweep(connection, grid(19500101, 20230101, "year"), runs=[GPT]) if p.domain == "all"]
    assert counted == sorted(counted)
    assert counted[0] < 60
    assert counted[-1] == 129


def test_bounds_enclose_the_rate(connection: duckdb.DuckDBPyConnection) -> None:
    points = sweep(connection, grid(20000101, 20231201, "quarter"))
    assert len(points) == 10 * 4 * 96
    wide = 0
    for point in points:
        assert point.up_to_date_lower is not None
        assert point.up_to_date is not None
        assert point.up_to_date_upper is not None
        assert point.up_to_date_lower <= point.up_to_date <= point.up_to_date_upper
        wide += point.up_to_date < point.up_to_date_upper
    assert wide > 100


def test_stretches_of_a_fact_follow_without_gaps(connection: duckdb.DuckDBPyConnection) -> None:
    by_fact: dict[tuple[str, str], list[FactDays]] = defaultdict(list)
    for row in fact_days(connection, "2023-12-18", runs=[GPT, LLAMA]):
        by_fact[row.run, row.fact].append(row)
    assert len(by_fact) == 260
    for rows in by_fact.values():
        assert (rows[0].from_day, rows[-1].to_day) == (None, None)
        assert all(a.to_day == b.from_day and a[5:] != b[5:] for a, b in pairwise(rows))
    # What they say of a day is what the sweep says.
    day = 20210915
    at = [
        rows_at
        for rows in by_fact.values()
        for rows_at in rows
        if (rows_at.from_day or 0) <= day < (rows_at.to_day or day + 1)
    ]
    for run in (GPT, LLAMA):
        own = [row for row in at if row.run == run and row.verdict in {"up-to-date", "outdated", "irrelevant"}]
        [point] = [p for p in sweep(connection, [day], runs=[run]) if p.domain == "all"]
        assert point.n == len(own)
        assert point.up_to_date == pytest.approx(100 * sum(row.verdict == "up-to-date" for row in own) / len(own))
        assert point.up_to_date_upper == pytest.approx(100 * sum(row.possibly for row in own) / len(own))


@pytest.mark.parametrize("rule", ["latest", "study"])
@pytest.mark.parametrize("constraint", ["soft", "average"])
def test_gpt_peaks_when_its_maker_says(
    connection: duckdb.DuckDBPyConnection, rule: str, constraint: Constraint
) -> None:
    found = peaks(connection, 20080101, 20231218, rule=rule, runs=[GPT], constraint=constraint)[GPT, "all"]
    for at in found.values():
        [(first, last)] = at.spans  # from the days of the last transfers to the next prime minister
        middle = as_date(first) + (as_date(last) - as_date(first)) / 2
        assert date(2021, 9, 1) <= middle <= date(2021, 10, 31), at
    monthly = sweep(connection, grid(20080101, 20231218, "month"), rule=rule, runs=[GPT], constraint=constraint)
    measures: tuple[Measure, ...] = ("up_to_date", "up_to_date_lower", "up_to_date_upper")
    for top in (peak(monthly, GPT, measure=measure) for measure in measures):
        assert top is not None
        assert top.spans == ((20210901, 20211001),)


def test_llama_peaks_when_its_maker_says(connection: duckdb.DuckDBPyConnection) -> None:
    at = peaks(connection, 20080101, 20231218, runs=[LLAMA])[LLAMA, "all"]["up_to_date_upper"]
    first, last = at.spans[0]
    assert 20230301 <= first <= last <= 20230430


def test_a_peak_to_the_day_is_that_of_all_days(connection: duckdb.DuckDBPyConnection) -> None:
    first, last = 20210101, 20220401
    daily = peak(sweep(connection, grid(first, last, "day"), runs=[LLAMA, GPT]), GPT)
    assert daily == peaks(connection, first, last, runs=[GPT])[GPT, "all"]["up_to_date"]
    assert peak([], GPT) is None
    assert change_days(connection, first, last)[0] == first


def test_one_snapshot_throughout(connection: duckdb.DuckDBPyConnection) -> None:
    assert base(connection).snapshot == "2023-12-18"  # the newer one holds an extract of many facts
    assert base(connection, "2025-11-30").day == 20251130
    with pytest.raises(QueryError, match="no snapshot 1999-01-01"):
        base(connection, "1999-01-01")
    with pytest.raises(QueryError, match="names nobody"):
        sweep(connection, [20200101], judge="published")
    with pytest.raises(QueryError, match="no rule newest"):
        sweep(connection, [20200101], rule="newest")
    assert sweep(connection, []) == []
