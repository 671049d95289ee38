"""Tables split by popularity, property, region and stratum, by SQL and by hand."""

import csv
import io
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dyknow import benchmark, benchmarkfiles, generate, journal, phrasings, results, strata
from dyknow.analysis import Rates, Scores, score
from dyknow.cli import cli
from dyknow.rates import MEASURES
from dyknow.tables import score_csv, score_json, score_text
from kg import identity
from kg.answers import facts
from kg.errors import UsageError
from kg.snapshot import find_snapshots
from kg.store import open_store

DAY = "2023-12-18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run whose benchmark tells of popularity and regions, and one that tells nothing."""
    place, chance = tmp_path_factory.mktemp("strata"), random.Random(7)
    snapshot = find_snapshots()[0]
    found = generate.candidates(open_store(snapshot), identity.load(), snapshot.date)
    known = [
        one._replace(sitelinks=int(chance.paretovariate(0.6)) if chance.random() > 0.1 else None,
                     region=chance.choice([None, "North", "South"]))
        for one in found
    ]  # fmt: skip
    bench = generate.build("b", generate.draw(known, generate.Plan(by=generate.DIVISIONS)), phrasings.load())
    plain = tuple(replace(f, sitelinks=None, popularity=None, region=None, stratum=None) for f in bench.facts)
    names = defaultdict(list)
    for statement in snapshot.statements():
        names[statement.fact].append(statement.name)
    iris = {fact.fact: fact.iri for fact in facts(open_store(snapshot), identity.load()).values()}
    for name, asked in (("told", bench), ("plain", benchmark.make("p", plain, bench.phrasings))):
        benchmarkfiles.write(asked, place / f"{name}.parquet", "made up")
        with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("question", "text"))
            for question in asked.questions():
                said = chance.choice([*names[iris[question.fact.id]], "nobody I know"])
                rows.writerow((question.id, said))
        done = CliRunner().invoke(
            cli,
            ["import", str(place / f"{name}.csv"), "--benchmark", str(place / f"{name}.parquet"), "--run-id", name,
             "--runs", str(place / "runs")],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    results.connect(place / "runs", [snapshot], place / "results.duckdb").close()
    return place


@pytest.fixture
def connection(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(folder / "runs", [find_snapshots()[0]], folder / "results.duckdb") as found:
        yield found


def parts(folder: Path, run: str, split: str) -> dict[str, str]:
    """Return the part of each fact, from the benchmark's file."""
    found = {}
    for fact in benchmark.load(folder / f"{run}.parquet").facts:
        own = {"property": fact.id.rpartition("/")[2], "popularity": fact.popularity, "region": fact.region}
        found[fact.id] = (own | {"stratum": fact.stratum, "domain": fact.domain})[split] or strata.UNKNOWN
    return found


def test_what_a_benchmark_tells_is_in_the_results(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute("FROM strata ORDER BY fact").fetchall()
    told = sorted(benchmark.load(folder / "told.parquet").facts, key=lambda fact: fact.id)
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
    where, own = parts(folder, run, split), defaultdict(list)
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
    scores = score(connection, DAY, split="popularity")
    text = score_text(scores)
    assert max(map(len, text.splitlines())) <= 100 and "popularity" in text and "sites of the Wikimedia" in text
    first = text.split("Table 5")[0].splitlines()[2:]
    shown = [word for line in first for word in line.split()[:2] if word in {r.domain for r in scores.table1}]
    bins = strata.in_order(list({r.domain for r in scores.table1 if r.run == "told"} - {"all"}))
    assert shown in (["unknown", "all", *bins, "all"], [*bins, "all", "unknown", "all"])
    assert score_json(scores)["split"] == "popularity" and "split" not in score_json(score(connection, DAY))
    lines = list(csv.DictReader(io.StringIO(score_csv([scores]))))
    assert {line["domain"] for line in lines if line["table"] == "2"} == {rate.domain for rate in scores.table1}


def test_a_split_that_is_none_is_refused(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="colour"):
        score(connection, DAY, split="colour")
    with pytest.raises(duckdb.Error, match="not split by colour"):
        connection.execute("FROM table1('2023-12-18', split := 'colour')").fetchall()
    call = ["score", "--as-of", DAY, "--by", "property", "--table", "beliefs", "--runs", str(folder / "runs")]
    done = CliRunner().invoke(cli, [*call, "--database", str(folder / "results.duckdb")])
    assert done.exit_code == 2 and "not split by property" in done.output
