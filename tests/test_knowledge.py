"""The date a model answers from: the world it is measured against, the likelihood, and how often its interval is right."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from benchmarks.coverage import LEVELS, Maker, Model, coverage
from dyknow import knowledge, results
from dyknow.knowledge import estimate, estimate_from, estimates, interval, surface
from dyknow.named import import_named
from dyknow.world import AHEAD_DAYS, LAGS, STEP, Answers, World, answers_of, lagged, world, worlds
from kg.errors import QueryError, UsageError
from kg.snapshot import find_snapshots
from tests.journals import write_run

FIGURES = Path(__file__).parents[1] / "examples" / "published" / "named.csv"
GPT, LLAMA = "gpt-3.5-turbo-1106", "Meta-Llama-3-8B-Instruct"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("knowledge")
    import_named(FIGURES.parent, folder / "runs")
    write_run(folder / "runs", "mute", {"Q38/P6#1": "I cannot say."})
    snapshots = [s for s in find_snapshots() if s.id == "2023-12-18"]
    with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as opened:
        yield opened


@pytest.fixture(scope="module")
def known(connection: duckdb.DuckDBPyConnection) -> World:
    return world(connection)


def chance(known: World, fact: str, entity: str, day: int) -> float:
    """Return the probability that an entity leads a fact, on the last of the world's days up to one."""
    week = np.searchsorted(np.array(known.days), day, side="right") - 1
    return float(known.leading[known.holders[fact, entity], week])


def test_who_leads_is_shared_by_each_fact(known: World) -> None:
    facts = np.array(known.facts)
    for fact in set(known.facts):
        total = known.leading[facts == fact].sum(axis=0)
        led = total > 0
        assert total[led] == pytest.approx(1)
        assert list(led) == sorted(led)  # once anyone has led, somebody does
        assert known.random[facts == fact] == pytest.approx(1 / (facts == fact).sum())
    assert known.leading.min() >= 0


def test_a_change_known_by_its_year_alone_is_a_line(known: World, connection: duckdb.DuckDBPyConnection) -> None:
    [(prayut, srettha)] = connection.execute(
        "SELECT max(entity) FILTER (WHERE label LIKE 'Prayut%'), max(entity) FILTER (WHERE label LIKE 'Srettha%')"
        " FROM labels WHERE fact = 'Q869/P6'"
    ).fetchall()
    old = [chance(known, "Q869/P6", prayut, day) for day in (20221231, 20230401, 20230701, 20231001, 20231218)]
    assert old == pytest.approx([1, 0.75, 0.5, 0.25, 0.04], abs=0.03)
    assert chance(known, "Q869/P6", srettha, 20231001) == pytest.approx(0.75, abs=0.03)
    assert chance(known, "Q38/P6", "Q451791", 20231001) == 1  # Meloni, to the day


def test_a_lag_by_a_second_route(known: World) -> None:
    """Draws lags and looks up who led, where the estimate goes week by week."""
    row = known.holders["Q38/P6", "Q451791"]
    draw = np.random.default_rng(3)
    week = len(known.days) - 20
    for lag in (40.0, 300.0):
        behind = np.ceil(week - draw.exponential(lag / STEP, 40_000)).astype(int)
        drawn = known.leading[row, np.clip(behind, 0, None)].mean()
        assert lagged(known.leading[[row]], [lag])[0, 0, week] == pytest.approx(drawn, abs=0.02)
    ahead = np.floor(week + draw.exponential(AHEAD_DAYS / STEP, 40_000)).astype(int)
    assert known.coming[row, week] == pytest.approx(
        known.leading[row, np.clip(ahead, 0, len(known.days) - 1)].mean(), abs=0.02
    )


def test_the_likelihood_by_a_plain_loop(known: World) -> None:
    answers = Maker(known, 7).answers(Model(20200615))
    found = surface(known, answers)
    week = int(found.weeks[len(found.weeks) // 2])
    curves = lagged(known.leading[answers.rows])
    likelihoods = []
    for lag in range(len(LAGS)):
        for ahead in knowledge.AHEAD:
            for stale in knowledge.STALE:
                for random in knowledge.RANDOM:
                    total = 0.0
                    for place, row in enumerate(answers.rows):
                        chance = (1 - ahead - stale - random) * curves[lag, place, week] + random * known.random[row]
                        chance += ahead * known.coming[row, week] + stale * known.stale[row, week]
                        total += answers.weights[place] * np.log(chance)
                    likelihoods.append(total)
    mean = np.log(np.mean(np.exp(np.array(likelihoods) - max(likelihoods)))) + max(likelihoods)
    assert found.log_likelihood[list(found.weeks).index(week)] == pytest.approx(mean)
    assert found.shares.sum() == pytest.approx(1)


def test_a_fact_has_one_vote_and_a_little(known: World) -> None:
    one = answers_of(known, [("Q38/P6", "Q451791", 1)])
    three = answers_of(known, [("Q38/P6", "Q451791", 3)])
    many = answers_of(known, [("Q38/P6", "Q451791", 300), ("Q38/P6", "no such", 5)])
    assert one.weights.sum() == 1
    assert three.weights.sum() == pytest.approx(3 / 2.4)
    assert 1.4 < many.weights.sum() < 1 / 0.7
    assert (many.n_facts, many.n_answers) == (1, 300)


def test_an_interval_is_the_shortest() -> None:
    days = np.arange(1000.0, 1700.0, STEP)
    lower, upper = interval(days, np.full(100, 0.01))
    assert upper - lower == pytest.approx(0.95 * 700)
    falling = np.linspace(2, 0, 100) / 100
    assert interval(days, falling)[0] == 1000 - STEP / 2
    one = np.zeros(100)
    one[50] = 1
    lower, upper = interval(days, one)
    assert 1346.5 <= lower <= upper <= 1353.5
    assert upper - lower == pytest.approx(0.95 * STEP)


def test_the_dates_the_makers_give(connection: duckdb.DuckDBPyConnection) -> None:
    found = {one.run: one for one in estimates(connection)}
    assert "mute" not in found
    assert len(found) == 10
    assert found[GPT].lower <= 20210930
    assert 20210901 <= found[GPT].day <= 20211031
    assert found[GPT].upper <= 20211231
    assert found[LLAMA].lower <= 20230331 <= found[LLAMA].upper
    assert {one.snapshot for one in found.values()} == {"2023-12-18"}
    assert not any(one.at_end for one in found.values())
    assert found[GPT].lag < 60 < found[LLAMA].lag
    assert found["gpt2-xl"].upper < 20191105  # the day it came out


def test_one_run_or_domain(connection: duckdb.DuckDBPyConnection) -> None:
    whole, own = estimate(connection, GPT), estimate(connection, GPT, domain="countries")
    assert whole == estimates(connection, runs=[GPT])[0]
    assert own.n_facts < whole.n_facts
    assert own.lower <= 20210930 <= own.upper
    with pytest.raises(UsageError, match="No answer of the run mute names a holder"):
        estimate(connection, "mute")
    with pytest.raises(QueryError, match="names nobody"):
        estimate(connection, GPT, judge="published")


def test_a_model_as_new_as_the_snapshot_has_an_open_end(known: World) -> None:
    found = estimate_from(known, Maker(known, 1).answers(Model(20231215, lag=20)))
    assert found.at_end
    assert found.upper == known.days[-1]


def test_without_answers_nothing_is_known(known: World) -> None:
    nothing = Answers(np.array([], dtype=np.intp), np.array([]), 0, 0)
    shares = surface(known, nothing).shares
    assert shares == pytest.approx(1 / len(shares))


@pytest.mark.parametrize("level", LEVELS)
def test_the_interval_mostly_holds_the_truth(level: str) -> None:
    one = coverage(Model(20210101, until=20211231, **LEVELS[level]), draws=25)
    assert one.held >= 84
    assert abs(one.bias) < 150


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("year", [2019, 2021])
def test_the_interval_holds_the_truth_as_often_as_it_says(level: str, year: int) -> None:
    one = coverage(Model(year * 10000 + 101, until=year * 10000 + 1231, **LEVELS[level]), draws=500)
    assert 90 <= one.held <= 98


def test_the_world_in_parts_is_the_world(connection: duckdb.DuckDBPyConnection, known: World) -> None:
    parts = list(worlds(connection, most=40))
    assert len(parts) > 10
    assert [fact for part in parts for fact in part.facts] == list(known.facts)
    for name in ("leading", "coming", "stale", "random"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(known, name))
    assert {part.days for part in parts} == {known.days}


def test_dates_estimated_in_parts_are_the_dates(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [GPT, LLAMA]
    whole = estimates(connection, runs=chosen)
    assert [one.run for one in whole] == sorted(chosen)
    monkeypatch.setattr(knowledge, "worlds", lambda of, known_at, rule: worlds(of, known_at, rule, most=400))
    for one, other in zip(whole, estimates(connection, runs=chosen), strict=True):
        assert one[:4] == other[:4]
        assert one[4:8] == pytest.approx(other[4:8], rel=1e-9)
        assert one[8:10] == other[8:10]
