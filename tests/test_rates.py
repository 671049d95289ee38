"""Intervals of the tables: what they are drawn from is what the rates are made of."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from dyknow import results, tabulation
from dyknow.analysis import Rates, mass, samples, score, since_release
from dyknow.cli import cli
from dyknow.longrows import long_rows
from dyknow.named import import_named
from dyknow.rates import MEASURES, fact_rows, intervals, table_intervals
from dyknow.statistics import Interval
from dyknow.titles import titles
from kg.errors import QueryError
from kg.snapshot import find_snapshots
from tests.journals import write_likelihoods, write_run, write_samples

FIGURES = Path(__file__).parents[1] / "examples" / "published" / "named.csv"


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ten published models, one run asked repeatedly and one that lacks answers."""
    folder = tmp_path_factory.mktemp("rates")
    import_named(FIGURES, folder / "runs")
    sampled = {f"Q36/P6#{n}": ["Mateusz Morawiecki", "Donald Tusk", None, "Beata Szydło"] for n in (1, 2, 3)}
    write_samples(folder / "runs", "sampled", sampled | {"Q38/P6#1": ["Giorgia Meloni", "Mario Draghi"]})
    partly = write_run(folder / "runs", "partly", {"Q36/P6#1": None, "Q38/P6#1": "Mario Draghi"}, {"Q36/P6#1": "error"})
    with results.connect(folder / "runs", find_snapshots(), folder / "results.duckdb") as connection:
        known = connection.execute("SELECT label, entity FROM labels WHERE fact = 'Q38/P6'").fetchall()
    held = {"Mario Draghi": -1.0, "Giorgia Meloni": -2.0}
    scores = {(entity, label): (held[label], 1) for label, entity in known if label in held}
    write_likelihoods(partly, {"Q38/P6#1": scores})
    return folder


@pytest.fixture
def connection(figures: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(figures / "runs", find_snapshots(), figures / "results.duckdb") as connection:
        yield connection


@pytest.mark.parametrize("day", ["2012-05-01", "2023-12-18", "2025-11-30", "release"])
@pytest.mark.parametrize("rule", ["latest", "study"])
def test_what_facts_add_gives_the_tables_rates(connection: duckdb.DuckDBPyConnection, day: str, rule: str) -> None:
    scores = score(connection, day, rule=rule, intervals=False)
    added = defaultdict(list)
    unsure = defaultdict(list)
    for row in fact_rows(connection, day, rule=rule):
        for domain in (row.domain, "all"):
            added["1", row.run, domain].append(row.table1)
            added["5", row.run, domain].append(row.table5)
        unsure[row.run].append(row.inconsistent)
    assert len(scores.table1) == 44
    for table, rates in (("1", scores.table1), ("5", scores.table5)):
        for rate in rates:
            own = np.array([row for row in added[table, rate.run, rate.domain] if row[0] is not None], dtype=float)
            assert rate.n == len(own)
            assert rate.facts == len(added[table, rate.run, rate.domain])
            if rate.n:
                found = [getattr(rate, name) for name in MEASURES]
                assert found == pytest.approx(100 * own.mean(axis=0))
    for line in scores.table2:
        counted = [value for value in unsure[line.run] if value is not None]
        assert line.n == len(counted)
        assert line.value == (pytest.approx(100 * np.mean(counted)) if counted else None)


def test_every_rate_has_an_interval_that_holds_it(connection: duckdb.DuckDBPyConnection) -> None:
    scores = score(connection, "2023-12-18")
    again = score(connection, "2023-12-18")
    for one, other in zip((*scores.table1, *scores.table5), (*again.table1, *again.table5), strict=True):
        for name in (*MEASURES, *(f"{name}_interval" for name in MEASURES)):  # threads add thirds in any order
            assert getattr(one, name) == pytest.approx(getattr(other, name)), (one.run, one.domain, name)
    for rate in (*scores.table1, *scores.table5):
        for name in MEASURES:
            value, interval = getattr(rate, name), getattr(rate, f"{name}_interval")
            assert (interval is None) == (rate.n == 0)
            if interval is not None:
                assert 0 <= interval.lower <= value <= interval.upper <= 100
                assert interval.lower < interval.upper
    for line in scores.table2:
        assert (line.interval is None) == (line.n == 0)
    assert score(connection, "2023-12-18", intervals=False).table1[0].up_to_date_interval is None


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


@pytest.mark.parametrize("most", [1, 700])
@pytest.mark.parametrize(
    ("day", "how"),
    [
        ("2023-12-18", {"split": "property"}),
        ("release", {"rule": "study"}),
        ("2025-11-30", {"known_at": "2023-12-18"}),
    ],
)
def test_tables_in_parts_are_the_rows_of_the_macros_at_once(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, day: str, how: dict[str, str], most: int
) -> None:
    monkeypatch.setattr(tabulation, "ANSWERS_AT_ONCE", most)
    scores = score(connection, day, **how, intervals=False)
    assert len({row.run for row in scores.table1}) > 9
    given = ", ".join(["$as_of", *(f"{name} := ${name}" for name in how)])
    for name, rows in (("table1", scores.table1), ("table5", scores.table5), ("table2", scores.table2)):
        every = connection.execute(f"FROM {name}({given})", {"as_of": day, **how}).fetchall()
        assert _plain([row[: len(every[0])] for row in rows]) == _plain(every)
        assert len(every) > 9


@pytest.mark.parametrize("many", [5, 5000])
def test_intervals_in_parts_are_those_of_all_facts_at_once(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("dyknow.rates.MANY", many)
    whole = table_intervals(fact_rows(connection, "2023-12-18"))
    monkeypatch.setattr(tabulation, "ANSWERS_AT_ONCE", 1)
    runs = sorted({run for run, *_ in whole})
    asked = tabulation.Asked("2023-12-18")
    found = tabulation.tabulated(connection, asked, runs, "domain", intervals=True).intervals
    assert len(found) > 300
    assert found == {key: pytest.approx(tuple(bounds)) for key, bounds in whole.items()}


@pytest.mark.parametrize("many", [5, 5000])
def test_what_stands_beside_the_tables_is_the_same_in_parts(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("dyknow.rates.MANY", many)

    def asked() -> list[tuple[Any, ...]]:
        rows = [*since_release(connection, "2025-11-30"), *samples(connection, "2023-12-18")]
        return [*rows, *mass(connection, "2023-12-18")]

    whole = asked()
    assert len({row[0] for row in whole}) == 12
    monkeypatch.setattr(tabulation, "ANSWERS_AT_ONCE", 1)
    for one, other in zip(asked(), whole, strict=True):
        assert one == tuple(pytest.approx(value) if isinstance(value, float | Interval) else value for value in other)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (12,)


def test_verdicts_are_kept_no_longer_than_asked_for(connection: duckdb.DuckDBPyConnection) -> None:
    statement = "SELECT run, count(*) FROM verdicts('2023-12-18') GROUP BY run ORDER BY run"
    every = connection.execute(statement).fetchall()
    some = every[1:3]
    with (
        suppress(KeyError),
        tabulation.kept_verdicts(connection, [run for run, _ in some], tabulation.Asked("2023-12-18")),
    ):
        assert connection.execute(statement).fetchall() == some
        raise KeyError
    assert connection.execute(statement).fetchall() == every
    with suppress(QueryError):
        score(connection, "2023-12-18", known_at="2023-12-18", rule="none")
    assert connection.execute(statement).fetchall() == every


@pytest.mark.parametrize("table", ["verdicts", "table1", "table5", "table2", "soft"])
def test_the_runs_asked_for_are_all_that_is_read(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    statement = f"FROM {table}('2023-12-18') WHERE run IN ('gpt2-xl', 'gpt-j-6B', 'partly')"
    [(_, plan)] = connection.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
    scans = [node for node in _nodes(json.loads(plan)) if "responses" in str(node["extra_info"].get("Table"))]
    assert scans
    assert all("gpt-j-6B" in str(node["extra_info"].get("Filters")) for node in scans)


def _nodes(found: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 -- JSON
    for node in found if isinstance(found, list) else [found]:
        yield node
        yield from _nodes(node["children"])


def test_an_interval_by_scipy(connection: duckdb.DuckDBPyConnection) -> None:
    rows = [row for row in fact_rows(connection, "2023-12-18") if row.run == "gpt-j-6B"]
    found = table_intervals(rows)
    for key, values in (
        ("1 up_to_date", [row.table1[0] for row in rows]),
        ("5 outdated", [row.table5[1] for row in rows]),
        ("2 inconsistent", [float(row.inconsistent) for row in rows if row.inconsistent is not None]),
    ):
        generator = np.random.default_rng(1)
        theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=generator)
        expected = 100 * np.array(theirs.confidence_interval)
        assert found["gpt-j-6B", "all", key] == pytest.approx(expected, abs=1.5)


def test_shares_of_a_belief_and_since_release_have_intervals(connection: duckdb.DuckDBPyConnection) -> None:
    for row in since_release(connection, "2025-11-30"):
        for value, interval in (
            (row.outdated_at_release_share, row.outdated_at_release_interval),
            (row.outdated_since_share, row.outdated_since_interval),
        ):
            assert interval is not None
            assert interval.lower <= value <= interval.upper
    [one, same] = mass(connection, "2023-12-18")
    assert (one.n, one.domain, same.domain) == (1, "all", "countries")
    assert one.up_to_date == pytest.approx(100 / (1 + np.e))
    assert one.first_outdated_interval == pytest.approx((2.5, 100))  # one fact says next to nothing
    assert one.up_to_date_interval == pytest.approx((0, 100))


def test_nothing_counts_nowhere() -> None:
    assert intervals(("x",), []) == {}
    assert intervals(("x",), [("run", "countries", "Q1/P6", None)]) == {}
    found = intervals(("x", "y"), [("run", "countries", "Q1/P6", None, 1.0)])
    assert found == {("run", domain, "y"): pytest.approx((2.5, 100)) for domain in ("all", "countries")}


# What is shown


def _score(figures: Path, *words: str) -> tuple[str, str]:
    places = ("--runs", str(figures / "runs"), "--database", str(figures / "results.duckdb"))
    done = CliRunner().invoke(cli, ["score", *places, *words], prog_name="dyknow")
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_csv_and_json_have_the_same_intervals(figures: Path, connection: duckdb.DuckDBPyConnection) -> None:
    out, _ = _score(figures, "--as-of", "2023-12-18", "--format", "csv")
    assert out.startswith("table,run,domain,measure,n,value,lower,upper\n")
    lines = {(r["table"], r["run"], r["domain"], r["measure"]): r for r in csv.DictReader(io.StringIO(out))}
    read = json.loads(_score(figures, "--as-of", "2023-12-18", "--format", "json")[0])
    assert len(read["table1"]) == 44
    for table in ("1", "5"):
        for row in read[f"table{table}"]:
            for name in MEASURES:
                line = lines[table, row["run"], row["domain"], name]
                shown = [float(line[bound]) if line[bound] else None for bound in ("value", "lower", "upper")]
                assert shown == [row[name], *(row[f"{name}_interval"] or (None, None))]
    for row in read["table2"]:
        line = lines["2", row["run"], "all", "inconsistent"]
        assert [line["lower"], line["upper"]] == [str(bound) for bound in row["interval"] or ("", "")]
    assert {(r.table, r.run, r.domain, r.measure) for r in long_rows(score(connection, "2023-12-18"))} == set(lines)


def test_tables_with_intervals_fit_eighty_columns(figures: Path) -> None:
    out, told = _score(figures, "--as-of", "2023-12-18", "--intervals")
    tables = out.split("Per cent of n facts")[0]
    assert max(len(line) for line in tables.splitlines() if not line.startswith("Table")) <= 80
    assert "GPT-2 2019             countries" in out
    assert "46† 35–57" in out
    assert "45 31–59: a rate and its 95 % interval" in out
    assert "lies after" not in told
    plain, _ = _score(figures, "--as-of", "2023-12-18")
    assert "35–57" not in plain
    since, _ = _score(figures, "--as-of", "2023-12-18", "--table", "since-release", "--intervals", "--run", "gpt2-xl")
    assert "27 20–35" in since
    held, _ = _score(figures, "--as-of", "2023-12-18", "--table", "beliefs", "--intervals")
    assert "26.9 0.0–100.0" in held
    held, _ = _score(figures, "--as-of", "2023-12-18", "--table", "beliefs", "--format", "json")
    assert json.loads(held)[0]["up_to_date_interval"] == [0.0, 100.0]
    held, _ = _score(figures, "--as-of", "2023-12-18", "--table", "beliefs", "--format", "csv")
    assert held.splitlines()[0].endswith("first_outdated_interval_lower,first_outdated_interval_upper")


def test_a_day_after_the_snapshot_is_remarked_upon(figures: Path) -> None:
    after = ("--as-of", "2026-02-01", "--run", "gpt2-xl")
    assert "2026-02-01 lies after the snapshot: what has changed since 2025-11-30" in _score(figures, *after)[1]
    believed = ("--as-of", "2024-02-01", "--known-at", "2023-12-18", "--table", "since-release", "--run", "gpt2-xl")
    assert "2024-02-01 lies after the snapshot: what has changed since 2023-12-18" in _score(figures, *believed)[1]


def _rates(run: str, title: str = "GPT-2", prefixed: bool = False) -> Rates:
    return Rates(run, title, 2019, prefixed, "all", 1, 1, 0.0, 0.0, 100.0, 0.0, 0.0, 0, 0)


def test_runs_of_one_model_are_told_apart() -> None:
    rows = [
        _rates("gpt2-chat-7f3a"),
        _rates("gpt2-raw-7f3a"),
        _rates("other", "T5"),
        _rates("gpt2-chat-9b", "GPT-2", True),
    ]
    assert titles([*rows, *rows]) == {
        "gpt2-chat-7f3a": "GPT-2 2019 (chat)",
        "gpt2-raw-7f3a": "GPT-2 2019 (raw)",
        "other": "T5 2019",
        "gpt2-chat-9b": "GPT-2* 2019",
    }
    assert titles([_rates("gpt2"), _rates("gpt2-b")]) == {"gpt2": "GPT-2 2019 (gpt2)", "gpt2-b": "GPT-2 2019 (gpt2-b)"}
    assert list(titles([_rates("a_b_c"), _rates("a_d_c"), _rates("a_e")]).values()) == [
        f"GPT-2 2019 ({rest})" for rest in ("b_c", "d_c", "e")
    ]
    assert Interval(1, 2) == (1, 2)


def test_many_facts_have_the_intervals_of_facts_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    kinds = ((1.0, 0.0), (0.0, 1.0), (1 / 3, None), (None, None))
    rows = [
        ("ab"[n % 2], ("rare", "usual")[n > 60], f"f{n // 2}", *kinds[chance.integers(4)])
        for n in range(800)
    ]  # fmt: skip
    one_by_one = intervals(("x", "y"), rows)
    monkeypatch.setattr("dyknow.rates.MANY", 10)
    together = intervals(("x", "y"), iter(rows))
    assert set(together) == set(one_by_one) and len(together) == 2 * 3 * 2
    for key, bounds in one_by_one.items():
        width = bounds.upper - bounds.lower
        assert together[key] == pytest.approx(tuple(bounds), abs=0.12 * width)
    assert together == intervals(("x", "y"), rows)
