"""Tables split by popularity, property, region and stratum, by SQL and by hand."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from dyknow import benchmark, journal, results, strata
from dyknow.analysis import Rates, Scores, mass, score, since_release
from dyknow.cli import cli
from dyknow.comparison import compare
from dyknow.editing import edit_scores
from dyknow.knowledge import estimate_from, estimates, estimates_of_parts
from dyknow.rates import MEASURES
from dyknow.tables import score_csv, score_json, score_text
from dyknow.timeline import peaks, sweep, years
from dyknow.timetables import ENOUGH
from dyknow.world import answers_of, world
from kg.errors import UsageError
from kg.snapshot import find_snapshots
from tests import drawn

DAY = "2023-12-18"
RATED = {"up-to-date", "outdated", "irrelevant"}

by_parts = pytest.mark.parametrize("split", ["domain", *strata.PARTS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("splits")
    drawn.write(place)
    return place


@pytest.fixture(scope="module")
def connection(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(folder / "runs", [find_snapshots()[0]], folder / "results.duckdb") as found:
        yield found


def verdicts(connection: duckdb.DuckDBPyConnection, run: str, day: str) -> dict[str, str]:
    """Return the verdict of each fact of a run, as the soft constraint has it."""
    said: dict[str, set[str]] = defaultdict(set)
    rows = connection.execute("SELECT fact, verdict FROM verdicts($1) WHERE run = $2", [day, run]).fetchall()
    for fact, verdict in rows:
        said[fact].add(verdict)
    order = ("not covered", "up-to-date", "outdated")
    return {fact: next((one for one in order if one in own), "irrelevant") for fact, own in said.items()}


def grouped(of: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return what facts have, by their part and for all."""
    found = defaultdict(list)
    for fact, value in values.items():
        for part in (of[fact], "all"):
            found[part].append(value)
    return found


def test_what_a_benchmark_tells_is_in_the_results(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute("FROM strata ORDER BY fact").fetchall()
    told = sorted(benchmark.load(folder / "told.parquet").facts, key=lambda fact: fact.id)
    rows = [row for row in rows if row[0] == "told"]
    assert rows == [("told", f.id, f.sitelinks, f.popularity, f.region, f.stratum) for f in told] and len(rows) > 100
    for row in journal.questions(folder / "runs" / "plain"):
        assert not {"sitelinks", "popularity", "region", "stratum"} & row.keys()


@pytest.mark.parametrize("split", ["domain", *strata.PARTS])
@pytest.mark.parametrize("run", ["told", "plain"])
def test_split_tables_are_counted_by_hand(
    folder: Path, connection: duckdb.DuckDBPyConnection, run: str, split: str
) -> None:
    statement = "SELECT fact, phrasing, verdict, answer FROM verdicts($1) WHERE run = $2"
    said: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for fact, _, verdict, answer in connection.execute(statement, [DAY, run]).fetchall():
        said[fact].append((verdict, answer))
    where, own = drawn.parts(folder, run, split), defaultdict(list)
    for fact, verdicts in said.items():
        if verdicts[0][0] != "not covered":
            for part in (where[fact], "all"):
                own[part].append(verdicts)
    scores = score(connection, DAY, runs=[run], split=split, intervals=False)
    assert {rate.domain for rate in scores.table1 if rate.n} == set(own) and len(own) > 1
    for rate in scores.table1:
        words = [{verdict for verdict, _ in verdicts} for verdicts in own[rate.domain]]
        right = sum("up-to-date" in word for word in words)
        stale = sum("outdated" in word and "up-to-date" not in word for word in words)
        assert (rate.n, rate.up_to_date, rate.outdated) == pytest.approx(
            (len(words), 100 * right / len(words), 100 * stale / len(words))
        )
    for rate in scores.table5:
        shares = [
            sum(verdict == "outdated" for verdict, _ in verdicts) / len(verdicts) for verdicts in own[rate.domain]
        ]
        assert rate.outdated == pytest.approx(100 * sum(shares) / len(shares))
    assert len(scores.table2) == (1 if split == "domain" else len(own))
    for row in scores.table2:
        spread = [{answer for _, answer in v} for v in own[row.domain] if any(answer for _, answer in v)]
        assert row.n == len(spread)
        assert row.value == pytest.approx(100 * sum(len(s) > 1 for s in spread) / len(spread)) if spread else True


def test_intervals_surround_what_they_are_of(connection: duckdb.DuckDBPyConnection) -> None:
    scores = score(connection, DAY, runs=["told"], split="popularity")
    assert len(scores.table1) > 4
    for rate in (*scores.table1, *scores.table5):
        for name in MEASURES:
            interval, value = getattr(rate, f"{name}_interval"), getattr(rate, name)
            assert interval and interval.lower - 1e-9 <= value <= interval.upper + 1e-9
    widths = {rate.n: rate.up_to_date_interval for rate in scores.table1}
    largest, smallest = widths[max(widths)], widths[min(widths)]
    assert largest and smallest and largest.upper - largest.lower < smallest.upper - smallest.lower
    # All facts together are the same whatever they are split by.
    whole = score(connection, DAY, runs=["told"])
    for mine, other in zip(_all(scores), _all(whole), strict=True):
        assert mine.up_to_date_interval == pytest.approx(other.up_to_date_interval) and mine.n == other.n > 100


def _all(scores: Scores) -> list[Rates]:
    return [rate for rate in (*scores.table1, *scores.table5) if rate.domain == "all"]


def test_split_tables_are_printed_in_order(connection: duckdb.DuckDBPyConnection) -> None:
    scores = score(connection, DAY, split="popularity", runs=["told", "plain"])
    text = score_text(scores)
    assert max(map(len, text.splitlines())) <= 100 and "popularity" in text and "sites of the Wikimedia" in text
    first = text.split("Table 5")[0].splitlines()[2:]
    shown = [word for line in first for word in line.split()[:3] if word in {r.domain for r in scores.table1}]
    bins = strata.in_order(list({r.domain for r in scores.table1 if r.run == "told"} - {"all"}))
    assert shown in (["unknown", "all", *bins, "all"], [*bins, "all", "unknown", "all"])
    assert score_json(scores)["split"] == "popularity" and "split" not in score_json(score(connection, DAY))
    lines = list(csv.DictReader(io.StringIO(score_csv([scores]))))
    assert {line["domain"] for line in lines if line["table"] == "2"} == {rate.domain for rate in scores.table1}


def test_a_split_of_tables_that_is_none_is_refused(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="colour"):
        score(connection, DAY, split="colour")
    with pytest.raises(duckdb.Error, match="not split by colour"):
        connection.execute("FROM table1('2023-12-18', split := 'colour')").fetchall()
    call = ["score", "--as-of", DAY, "--by", "property", "--table", "samples", "--runs", str(folder / "runs")]
    done = CliRunner().invoke(cli, [*call, "--database", str(folder / "results.duckdb")])
    assert done.exit_code == 2 and "not split by property" in done.output


# What stands beside the study's tables


@by_parts
def test_what_was_outdated_at_release_and_since(
    folder: Path, connection: duckdb.DuckDBPyConnection, split: str
) -> None:
    before, after = (verdicts(connection, "told", day) for day in ("2021-12-31", DAY))
    both = {fact: (before[fact], after[fact]) for fact in before if {before[fact], after[fact]} <= RATED}
    expected = grouped(drawn.parts(folder, "told", split), both)
    rows = since_release(connection, DAY, split=split)
    assert [row.domain for row in rows] == ["all", *strata.in_order([part for part in expected if part != "all"])]
    assert sum(row.outdated_since for row in rows) > 5
    for row in rows:
        own = expected[row.domain]
        stale, since = sum(a == "outdated" for a, _ in own), own.count(("up-to-date", "outdated"))
        assert (row.n, row.outdated_at_release, row.outdated_since) == (len(own), stale, since)
        assert row.outdated_since_interval is not None
        assert row.outdated_since_interval.lower <= row.outdated_since_share <= row.outdated_since_interval.upper


@by_parts
def test_beliefs(folder: Path, connection: duckdb.DuckDBPyConnection, split: str) -> None:
    held: dict[tuple[str, str], float] = defaultdict(float)
    for fact, question, standing, share in connection.execute(
        "SELECT fact, question, standing, share FROM beliefs($1)", [DAY]
    ).fetchall():
        held[fact, question] += share if standing == "outdated" else 0
    of_facts: dict[str, list[float]] = defaultdict(list)
    for (fact, _), share in held.items():
        of_facts[fact].append(share)
    expected = grouped(drawn.parts(folder, "told", split), {fact: fmean(own) for fact, own in of_facts.items()})
    rows = mass(connection, DAY, split=split)
    assert len(rows) == len(expected) > 2
    for row in rows:
        assert row.n == len(expected[row.domain])
        assert row.outdated == pytest.approx(100 * fmean(expected[row.domain]))
        assert row.outdated_interval is not None
        assert row.outdated_interval.lower - 1e-9 <= row.outdated <= row.outdated_interval.upper + 1e-9


@by_parts
def test_a_sweep_is_counted_day_by_day(folder: Path, connection: duckdb.DuckDBPyConnection, split: str) -> None:
    days = {"2012-03-01": 20120301, "2019-07-15": 20190715, DAY: 20231218}
    points = {(one.domain, one.day): one for one in sweep(connection, list(days.values()), runs=["told"], split=split)}
    counted = 0
    for text, day in days.items():
        found = {fact: one for fact, one in verdicts(connection, "told", text).items() if one in RATED}
        for part, own in grouped(drawn.parts(folder, "told", split), found).items():
            point = points.pop((part, day))
            assert point.n == len(own)
            assert point.up_to_date == pytest.approx(100 * own.count("up-to-date") / len(own))
            assert point.outdated == pytest.approx(100 * own.count("outdated") / len(own))
            counted += 1
    assert not points and counted > 8


def test_the_macro_of_the_timeline_is_split_alike(connection: duckdb.DuckDBPyConnection) -> None:
    call = "SELECT run, domain, day, n, up_to_date FROM timeline([20190715], split := 'popularity')"
    rows = {(run, part): (n, share) for run, part, _, n, share in connection.execute(call).fetchall()}
    swept = sweep(connection, [20190715], split="popularity")
    assert {(one.run, one.domain): (one.n, one.up_to_date) for one in swept} == rows and len(rows) > 10


def test_peaks_of_parts(connection: duckdb.DuckDBPyConnection) -> None:
    """By the greatest share of a part on any day of a year."""
    found = peaks(connection, 20190101, 20191231, runs=["told"], split="popularity")
    days = [int(f"2019{month:02}{day:02}") for month in range(1, 13) for day in range(1, 29)]
    for part in {part for _, part in found}:
        points = [one for one in sweep(connection, days, runs=["told"], split="popularity") if one.domain == part]
        greatest = max(one.up_to_date or 0 for one in points)
        assert found["told", part]["up_to_date"].share >= greatest - 1e-9 >= 0
    assert len(found) > 3


@by_parts
def test_years_of_terms(folder: Path, connection: duckdb.DuckDBPyConnection, split: str) -> None:
    starts: dict[tuple[str, str], list[int]] = defaultdict(list)
    statement = "SELECT fact, entity, start_day FROM standings WHERE rule = 'latest' AND standing <> 'not asked'"
    for fact, entity, day in connection.execute(statement).fetchall():
        if day is not None and day <= 20211231:
            starts[fact, entity].append(day)
    of, own = drawn.parts(folder, "told", split), defaultdict(list)
    statement = "SELECT fact, entity FROM verdicts($1) WHERE run = 'told' AND counted"
    for fact, entity in connection.execute(statement, [DAY]).fetchall():
        if (fact, entity) in starts:
            for part in (of[fact], "all"):
                own[part].append(max(starts[fact, entity]) // 10000)
    boxes = years(connection, runs=["told"], split=split)
    assert {box.domain for box in boxes} == set(own) and len(own) > 1
    for box in boxes:
        found = own[box.domain]
        assert (box.n, box.minimum, box.maximum) == (len(found), min(found), max(found))
        assert box.median == median(found) and box.mean == pytest.approx(fmean(found))


def test_the_date_of_a_part_is_that_of_its_answers(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    found = estimates_of_parts(connection, "popularity", runs=["told", "plain"])
    of, known = drawn.parts(folder, "told", "popularity"), world(connection)
    statement = "SELECT fact, entity, times FROM said() WHERE run = 'told' AND kind = 'entity'"
    said = connection.execute(statement).fetchall()
    for part in sorted(set(of.values())):
        [one] = [one.known for one in found if (one.known.run, one.part) == ("told", part)]
        other = estimate_from(known, answers_of(known, sorted(row for row in said if of[row[0]] == part)), "told")
        assert (one.day, one.n_facts, one.n_answers) == (other.day, other.n_facts, other.n_answers)
    assert len(found) == len(set(of.values())) + 1
    [plain] = [one for one in found if one.known.run == "plain"]
    [whole] = estimates(connection, runs=["plain"])
    assert (plain.part, plain.known.day, plain.known.n_facts) == (strata.UNKNOWN, whole.day, whole.n_facts)


@by_parts
def test_two_runs(folder: Path, connection: duckdb.DuckDBPyConnection, split: str) -> None:
    first, second = (verdicts(connection, run, DAY) for run in ("told", "other"))
    both = {fact: (first[fact], second[fact]) for fact in first if {first[fact], second[fact]} <= RATED}
    expected = grouped(drawn.parts(folder, "told", split), both)
    rows = compare(connection, "told", "other", DAY, split=split).rates
    parts = ["all", *strata.in_order([part for part in expected if part != "all"])]
    assert [row.domain for row in rows if row.measure == "outdated"] == parts
    for row in rows:
        words = {"up_to_date": "up-to-date"}
        own = [tuple(one == words.get(row.measure, row.measure) for one in pair) for pair in expected[row.domain]]
        assert (row.n, row.only_first, row.only_second) == (
            len(own),
            own.count((True, False)),
            own.count((False, True)),
        )
        assert row.first == pytest.approx(100 * sum(one for one, _ in own) / len(own))


@by_parts
def test_edits(folder: Path, connection: duckdb.DuckDBPyConnection, split: str) -> None:
    said: dict[str, dict[str, bool]] = defaultdict(dict)
    statement = "SELECT fact, phrasing, verdict FROM verdicts($1) WHERE run = 'edited'"
    for fact, phrasing, verdict in connection.execute(statement, [DAY]).fetchall():
        if verdict != "not covered":
            said[fact][phrasing] = verdict == "up-to-date"
    edited = {fact for (fact,) in connection.execute("SELECT fact FROM edits").fetchall()}
    expected = grouped(drawn.parts(folder, "told", split), {fact: said[fact] for fact in edited if fact in said})
    scores = edit_scores(connection, DAY, split=split)
    assert {row.domain for row in scores if row.n} == set(expected) and len(expected) > 2
    for row in scores:
        own = expected[row.domain]
        others = [right for one in own for phrasing, right in one.items() if phrasing in "23"]
        assert row.n == len(own)
        assert row.efficacy == pytest.approx(100 * sum(one["1"] for one in own) / len(own) if own else None)
        assert row.paraphrase == pytest.approx(100 * sum(others) / len(others) if others else None)


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: mass(c, DAY, split="colour"),
        lambda c: since_release(c, DAY, split="colour"),
        lambda c: sweep(c, [20230101], split="colour"),
        lambda c: years(c, split="colour"),
        lambda c: estimates_of_parts(c, "colour"),
        lambda c: compare(c, "told", "other", DAY, split="colour"),
        lambda c: edit_scores(c, DAY, split="colour"),
    ],
)
def test_a_split_that_is_none_is_refused(
    connection: duckdb.DuckDBPyConnection, ask: Callable[[duckdb.DuckDBPyConnection], Hashable]
) -> None:
    with pytest.raises(UsageError, match="colour"):
        ask(connection)


# On the command line


def call(folder: Path, *words: str) -> Result:
    places = ["--runs", str(folder / "runs"), "--database", str(folder / "cli.duckdb")]
    return CliRunner().invoke(cli, [*words, *places], catch_exceptions=False)


def test_tables_beside_the_study_s_are_split_in_80_columns(folder: Path) -> None:
    for table in ("since-release", "beliefs", "edits"):
        done = call(folder, "score", "--as-of", DAY, "--table", table, "--by", "popularity")
        assert done.exit_code == 0, done.output
        lines = done.stdout.splitlines()
        assert max(map(len, lines)) <= 80
        assert "popularity" in done.stdout and "domain" not in done.stdout
        bins = [word for line in lines for word in line.split() if word in ("1-4", "5-19", "20-99", "100+", "unknown")]
        assert bins == strata.in_order(bins) and len(bins) > 3
    done = call(folder, "score", "--as-of", DAY, "--table", "curve", "--by", "popularity")
    assert done.exit_code == 2 and "not split by popularity" in done.stderr


def test_a_timeline_is_shown_of_each_part_with_facts_enough(folder: Path) -> None:
    words = ("timeline", "--run", "told", "--by", "popularity", "--from", "2015")
    done = call(folder, *words)
    assert done.exit_code == 0 and max(map(len, done.stdout.splitlines())) <= 80
    few = done.stdout.count("too few for a curve")
    runs = json.loads(call(folder, *words, "--format", "json").stdout)["runs"]
    assert "part" not in runs[0] and runs[0]["knowledge"]
    for one in runs[1:]:
        assert one["enough"] == (one["facts"] >= ENOUGH) == bool(one["peaks"])
        assert one["knowledge"] is None or one["knowledge"]["n_facts"] >= ENOUGH
    assert 0 < sum(not one["enough"] for one in runs[1:]) == few < len(runs) - 1
    rows = list(csv.DictReader(io.StringIO(call(folder, *words, "--format", "csv").stdout)))
    assert [row["part"] for row in rows] == ["all", *(one["part"] for one in runs[1:])]


def test_dates_years_and_shares_of_parts(folder: Path) -> None:
    words = ("timeline", "--run", "told", "--by", "region")
    done = call(folder, *words, "--table", "knowledge", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["part"] for row in rows] == ["all", "North", "South", "unknown"]
    for table in ("knowledge", "years", "share"):
        done = call(folder, *words, "--table", table, "--every", "year", "--domain", "North")
        assert done.exit_code == 0 and "North" in done.stdout and "South" not in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_two_runs_are_compared_in_each_part(folder: Path) -> None:
    done = call(folder, "compare", "told", "other", "--as-of", DAY, "--by", "property")
    assert done.exit_code == 0 and "· P54" in done.stdout
    done = call(folder, "compare", "told", "other", "plain", "--as-of", DAY, "--by", "property")
    assert done.exit_code == 2 and "two runs" in done.stderr
