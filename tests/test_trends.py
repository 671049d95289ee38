"""How up-to-dateness goes with popularity: the slope, its test and the outer bins, by formulas of other hands."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import correlation, linear_regression
from typing import Any, cast

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import stats

from benchmarks import synthetic
from dyknow import benchmark, results
from dyknow.analysis import score
from dyknow.cli import cli
from dyknow.commands.pages import Judged, tables_text
from dyknow.strata import popularity_bin
from dyknow.tabulation import Asked
from dyknow.trends import ENOUGH, Kind, trend, trends, trends_of
from dyknow.trendtables import trend_csv
from kg.snapshot import find_snapshots
from tests import drawn

DAY = "2023-12-18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trends")
    drawn.write(place)
    return place


@pytest.fixture
def connection(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(folder / "runs", [find_snapshots()[0]], folder / "results.duckdb") as found:
        yield found


def test_the_trend_of_a_run_by_another_road(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    known = {fact.id: fact.sitelinks for fact in benchmark.load(folder / "told.parquet").facts}
    statement = "SELECT fact, verdict FROM soft($1) WHERE run = 'told' AND verdict <> 'not covered'"
    rows = connection.execute(statement, [DAY]).fetchall()
    facts = [(count, verdict == "up-to-date") for fact, verdict in rows if (count := known[fact]) is not None]
    scores, right = ([math.log10(1 + count) for count, _ in facts], [float(one) for _, one in facts])
    [told] = [one for one in trends(connection, Asked(DAY), ["told", "plain"])]  # plain knows no popularity
    assert (told.run, told.n) == ("told", len(facts)) and told.n > 100
    assert told.per_tenfold == pytest.approx(100 * linear_regression(scores, right).slope)
    assert told.p == pytest.approx(stats.chi2.sf(told.n * correlation(scores, right) ** 2, 1))
    bins = Counter(popularity_bin(count) for count, _ in facts)
    assert told.low and told.high and min(bins[told.low], bins[told.high]) >= ENOUGH
    rates = [[one for count, one in facts if popularity_bin(count) == name] for name in (told.low, told.high)]
    assert told.difference == pytest.approx(100 * (np.mean(rates[1]) - np.mean(rates[0])))
    assert [one.run for one in trends_of(connection, score(connection, DAY, split="popularity"))] == [
        "edited", "other", "told",
    ]  # fmt: skip
    assert trends_of(connection, score(connection, DAY)) == []


def made_up(counts: dict[int, tuple[int, int]]) -> list[Kind]:
    return [Kind(sitelinks, popularity_bin(sitelinks), *own) for sitelinks, own in counts.items()]


def test_a_slope_is_in_points_for_each_tenfold_and_its_interval_is_the_sandwich_s() -> None:
    """Against the formula that allows for unequal variances (White, 1980), which a bootstrap comes to for many facts."""
    kinds = made_up({0: (400, 80), 9: (300, 90), 99: (200, 80), 999: (100, 50)})
    found = trend("one", kinds)
    x = np.repeat([0.0, 1.0, 2.0, 3.0], [400, 300, 200, 100])
    y = np.concatenate([np.repeat([1.0, 0.0], [hits, n - hits]) for _, _, n, hits in kinds])
    assert found.per_tenfold == pytest.approx(10)
    rest = y - np.polyval(np.polyfit(x, y, 1), x)
    error = 100 * math.sqrt(((x - x.mean()) ** 2 * rest**2).sum()) / ((x - x.mean()) ** 2).sum()
    assert found.per_tenfold_interval == pytest.approx((10 - 1.96 * error, 10 + 1.96 * error), abs=0.25)
    assert found.p is not None and found.p < 1e-6
    (low, high), other = found.difference_interval or (0, 0), trend("one", kinds)
    assert other == found  # one seed, one interval
    exact = [stats.binomtest(hits, n).proportion_ci(method="wilson") for hits, n in ((80, 400), (50, 100))]
    assert low == pytest.approx(30 - 100 * math.hypot(0.5 - exact[1].low, exact[0].high - 0.2))
    assert high == pytest.approx(30 + 100 * math.hypot(exact[1].high - 0.5, 0.2 - exact[0].low))


def test_shuffled_facts_are_as_uneven_as_p_says() -> None:
    kinds = made_up({0: (60, 20), 9: (50, 20), 99: (30, 16)})
    found = trend("one", kinds)
    x = np.repeat([0.0, 1.0, 2.0], [60, 50, 30])
    y = np.concatenate([np.repeat([1.0, 0.0], [hits, n - hits]) for _, _, n, hits in kinds])
    draw = np.random.default_rng(4)
    more = np.array([abs((x - x.mean()) @ draw.permutation(y)) for _ in range(4000)]) - abs((x - x.mean()) @ y)
    # Few sums are possible, so half of those that are equal count: the mid-p.
    assert np.mean(more > 1e-9) + np.mean(abs(more) < 1e-9) / 2 == pytest.approx(found.p, abs=0.02)


@pytest.mark.parametrize(
    ("counts", "slope", "interval", "difference"),
    [
        ({7: (50, 20)}, False, False, False),  # all equally popular
        ({0: (50, 0), 9: (50, 3)}, True, False, True),  # hits are too few for resamples
        ({0: (30, 10), 9: (5, 3)}, True, True, False),  # one bin has facts enough
        ({0: (30, 30), 9: (30, 30)}, True, False, True),  # nothing varies
    ],
)
def test_what_cannot_be_told_is_not(
    counts: dict[int, tuple[int, int]], slope: bool, interval: bool, difference: bool
) -> None:
    found = trend("one", made_up(counts))
    told = (found.per_tenfold, found.per_tenfold_interval, found.difference)
    assert tuple(one is not None for one in told) == (slope, interval, difference)
    assert (found.p is not None) == slope and (found.low is not None) == difference


def call(folder: Path, *words: str) -> Result:
    places = ["--runs", str(folder / "runs"), "--database", str(folder / "cli.duckdb")]
    return CliRunner().invoke(cli, ["score", "--as-of", DAY, *words, *places], catch_exceptions=False)


def test_what_evaluate_prints_of_several_days(connection: duckdb.DuckDBPyConnection) -> None:
    days = ("2021-06-01", DAY)
    scores = tuple(score(connection, day, runs=["told"], split="popularity") for day in days)
    found = tuple(trends_of(connection, one) for one in scores)
    text = tables_text(Judged(days, scores, found, (), data=cast(Any, None)))
    assert text.index("Table 1") < text.index("Trend of") < text.index("Table 5") and text.count("Trend of") == 2
    rows = list(csv.reader(io.StringIO(trend_csv(found[0], scores[0], dated=True))))
    assert [row[0] for row in rows] == ["2021-06-01"] * 2 and {len(row) for row in rows} == {9}


def test_a_snapshot_that_knows_no_fact_of_a_run_is_told(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "own", 12, seed=1)
    asked = ["import", str(tmp_path / "own" / "answers.csv"), "--benchmark", str(tmp_path / "own" / "benchmark.toml")]
    runs = ["--runs", str(tmp_path / "runs")]
    assert CliRunner().invoke(cli, [*asked, "--run-id", "made", *runs], catch_exceptions=False).exit_code == 0
    words = ["score", "--as-of", DAY, *runs, "--database", str(tmp_path / "r.duckdb")]
    done = CliRunner().invoke(cli, [*words, "--snapshots", str(tmp_path / "own")], catch_exceptions=False)
    assert "No fact of these runs counts on that day by snapshot 2023-12-18." in done.stderr
    assert f"Most, 12, are in the snapshot {synthetic.DATE}: --known-at {synthetic.DATE}" in done.stderr


def test_the_trend_stands_under_table_1(folder: Path) -> None:
    done = call(folder, "--by", "popularity", "--run", "told")
    text = done.stdout
    assert text.index("Table 1") < text.index("Trend of") < text.index("Table 5")
    own = text[text.index("Trend of") : text.index("Table 5")]
    assert max(map(len, own.splitlines())) <= 80 and "[" in own
    assert "Trend of" not in call(folder, "--by", "region").stdout
    [row] = json.loads(call(folder, "--by", "popularity", "--run", "told", "--format", "json").stdout)["trend"]
    assert row["run"] == "told" and f"{row['per_tenfold']:+.1f}".replace("-", "−") in own
    lines = list(csv.DictReader(io.StringIO(call(folder, "--by", "popularity", "--format", "csv").stdout)))
    [line] = [one for one in lines if one["run"] == "told" and one["measure"] == "up_to_date_per_tenfold"]
    assert (float(line["value"]), float(line["lower"])) == (row["per_tenfold"], row["per_tenfold_interval"][0])
    assert "trend" not in json.loads(call(folder, "--format", "json").stdout)
