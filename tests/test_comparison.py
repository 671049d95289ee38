"""Runs side by side, by two routes; and what changed between two days, by the graph's own clocks."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import stats

from dyknow import results
from dyknow.analysis import score
from dyknow.cli import cli
from dyknow.comparison import Cause, compare, compare_all, flips, paired_rates
from dyknow.named import import_named
from kg import identity
from kg.errors import UsageError
from kg.snapshot import find_snapshots
from kg.terms import Standing
from tests.journals import write_judgments, write_run

FIGURES = Path(__file__).parents[1] / "examples" / "published" / "named.csv"
DAYS = ("2023-12-18", "2025-11-30")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ten published models, and small runs that were asked other facts."""
    folder = tmp_path_factory.mktemp("comparison")
    import_named(FIGURES, folder / "runs")
    both = {"Q36/P6#1": "Donald Tusk", "Q38/P6#1": "Mario Draghi"}
    small = write_run(folder / "runs", "small", both)
    write_judgments(small, {"Q36/P6#1": "up-to-date", "Q38/P6#1": "up-to-date"})
    write_run(folder / "runs", "partly", {**both, "Q36/P6#1": None}, {"Q36/P6#1": "error"})
    write_run(folder / "runs", "other", {"Q11571/P54#1": "Al-Nassr"})
    results.connect(folder / "runs", find_snapshots(), folder / "results.duckdb").close()
    return folder


@pytest.fixture
def connection(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(folder / "runs", find_snapshots(), folder / "results.duckdb") as connection:
        yield connection


def _verdicts(connection: duckdb.DuckDBPyConnection, run: str, day: str) -> dict[str, tuple[str, str]]:
    rows = connection.execute("SELECT fact, domain, verdict FROM soft(?) WHERE run = ?", [day, run]).fetchall()
    return {fact: (domain, verdict) for fact, domain, verdict in rows}


def test_two_runs_on_the_same_facts_by_a_second_route(connection: duckdb.DuckDBPyConnection) -> None:
    first, second = "gpt2-xl", "gpt-j-6B"
    found = compare(connection, first, second, DAYS[1])
    one, other = (_verdicts(connection, run, DAYS[1]) for run in (first, second))
    facts = [fact for fact in one if "not covered" not in (one[fact][1], other[fact][1])]
    assert (len(facts), found.left_out, found.snapshot) == (128, 2, DAYS[1])
    assert len(found.rates) == 12
    for row in found.rates:
        verdict = row.measure.replace("_", "-")
        own = [fact for fact in facts if row.domain in ("all", one[fact][0])]
        hits = [np.array([verdicts[fact][1] == verdict for fact in own], dtype=float) for verdicts in (one, other)]
        assert row.n == len(own)
        assert [row.first, row.second] == pytest.approx([100 * hits[0].mean(), 100 * hits[1].mean()])
        assert row.difference == pytest.approx(100 * (hits[1] - hits[0]).mean())
        assert (row.only_first, row.only_second) == (int((hits[0] > hits[1]).sum()), int((hits[1] > hits[0]).sum()))
        apart = row.only_first + row.only_second
        assert row.p == pytest.approx(stats.binomtest(row.only_first, apart).pvalue if apart else 1)
        assert row.difference_interval is not None
        assert row.difference is not None
        assert row.difference_interval.lower <= row.difference <= row.difference_interval.upper
    assert {row.fact for row in found.facts} == {fact for fact in facts if one[fact][1] != other[fact][1]}
    assert all(row.first_answer and row.second_answer for row in found.facts if row.first_verdict != "irrelevant")


def test_full_runs_have_the_rates_of_table_1(connection: duckdb.DuckDBPyConnection) -> None:
    table = {(row.run, row.domain): row for row in score(connection, DAYS[0]).table1}
    for row in compare(connection, "t5-3b", "falcon-7b", DAYS[0]).rates:
        for run, rate, interval in (
            ("t5-3b", row.first, row.first_interval),
            ("falcon-7b", row.second, row.second_interval),
        ):
            own = table[run, row.domain]
            assert rate == pytest.approx(getattr(own, row.measure))
            assert interval == pytest.approx(tuple(getattr(own, f"{row.measure}_interval")))


def test_what_only_one_was_asked_is_left_out(connection: duckdb.DuckDBPyConnection) -> None:
    found = compare(connection, "small", "gpt2-xl", DAYS[0])
    assert (found.rates[0].n, found.left_out) == (2, 128)
    found = compare(connection, "small", "partly", DAYS[0])
    assert (found.rates[0].n, found.left_out, found.facts) == (1, 1, ())
    assert found.rates[0].p == 1
    with pytest.raises(UsageError, match="no fact that is covered"):
        compare(connection, "small", "other", DAYS[0])
    with pytest.raises(UsageError, match="no run omega"):
        compare(connection, "small", "omega", DAYS[0])


def test_one_run_by_two_judges(connection: duckdb.DuckDBPyConnection) -> None:
    found = compare(connection, "small", "small", DAYS[0], second_judge="published")
    assert (found.first_judge, found.second_judge) == ("match", "published")
    [only] = found.facts
    assert (only.subject, only.first_verdict, only.second_verdict) == ("Italy", "outdated", "up-to-date")
    assert (found.rates[0].only_first, found.rates[0].only_second) == (0, 1)


def test_all_pairs(connection: duckdb.DuckDBPyConnection) -> None:
    runs = ["gpt2-xl", "t5-3b", "gpt-j-6B", "falcon-7b", "other"]
    found = compare_all(connection, runs, DAYS[0])
    assert len(found) == 10
    for pair in found:
        if pair.n:
            own = compare(connection, pair.first, pair.second, DAYS[0]).rates[0]
            assert own.difference_interval is not None
            assert (pair.n, pair.only_first, pair.only_second, pair.p) == (
                own.n,
                own.only_first,
                own.only_second,
                own.p,
            )
            assert (pair.first_rate, pair.second_rate, pair.difference) == pytest.approx(
                (own.first, own.second, own.difference)
            )
            assert pair.difference_interval == pytest.approx(tuple(own.difference_interval))
        assert pair.p <= pair.p_holm <= 1
    smallest = min(found, key=lambda pair: pair.p)
    assert smallest.p_holm == pytest.approx(10 * smallest.p)


def test_paired_rates_of_a_few_facts() -> None:
    facts = [("a", "up-to-date", "outdated"), ("a", "up-to-date", "up-to-date"), ("b", "irrelevant", "up-to-date")]
    found = {(row.measure, row.domain): row for row in paired_rates(facts)}
    row = found["up_to_date", "all"]
    assert (row.n, row.only_first, row.only_second) == (3, 1, 1)
    assert [row.first, row.second] == pytest.approx([200 / 3, 200 / 3])
    assert found["irrelevant", "b"].difference == -100
    assert found["outdated", "b"].difference_interval == pytest.approx((-97.5, 97.5))  # one fact that does not differ


# One run on two days


def test_what_flipped_by_the_graphs_own_clocks(connection: duckdb.DuckDBPyConnection) -> None:
    seen: Counter[Cause] = Counter()
    for run in ("gpt-3.5-turbo-1106", "gpt2-xl", "OLMo-1B"):
        found = flips(connection, run, *DAYS, snapshots=find_snapshots(), identity=identity.load())
        assert (found.known_before, found.known_after, found.facts) == (*DAYS, 130)
        one, other = (_verdicts(connection, run, day) for day in DAYS)
        changed = {fact for fact in one if one[fact][1] != other[fact][1]}
        assert changed <= {flip.fact for flip in found.flips}
        for flip in found.flips:
            seen[flip.cause] += 1
            assert (flip.then, flip.now) == (one[flip.fact][1], other[flip.fact][1])
            # The graph's own diff, which knows nothing of models, must have a change on the clock that is blamed.
            clocks = {change.clock.value for change in flip.changes if change.clock}
            blamed = {Cause.WORLD: {"world"}, Cause.WIKIDATA: {"wikidata"}, Cause.BOTH: {"world", "wikidata"}}
            assert clocks & {"unknown"} or blamed.get(flip.cause, set()) <= clocks, flip
            if flip.cause is Cause.WORLD:
                assert flip.right_then != flip.right_now
    assert seen[Cause.WORLD] > 30
    assert seen[Cause.WIKIDATA] > 9
    assert seen[Cause.BOTH] == 1
    assert seen[Cause.NOT_COVERED] > 9


def test_known_flips_have_their_cause(connection: duckdb.DuckDBPyConnection) -> None:
    found = {flip.fact: flip for flip in flips(connection, "gpt-3.5-turbo-1106", *DAYS).flips}
    biden = found["Q30/P35"]
    assert (biden.answer, biden.cause) == ("Joe Biden", Cause.WORLD)
    assert [one.label for one in biden.right_now] == ["Donald Trump"]
    assert biden.changes == ()  # no snapshots were given to read them from
    leonard = found["Q926248/P54"]  # with the Clippers since 2019, which Wikidata learnt late
    assert (leonard.then, leonard.between, leonard.now) == ("irrelevant", "up-to-date", "up-to-date")
    assert leonard.cause is Cause.WIKIDATA
    assert found["Q624375/P169"].cause is Cause.BOTH
    # An extract that left Buhari out does not make him irrelevant.
    assert found["Q1033/P35"].cause is Cause.NOT_COVERED


def test_by_one_snapshot_only_the_world_changes(connection: duckdb.DuckDBPyConnection) -> None:
    known = (DAYS[1], DAYS[1])
    found = flips(connection, "gpt-3.5-turbo-1106", *DAYS, known, snapshots=find_snapshots(), identity=identity.load())
    assert {flip.cause for flip in found.flips} == {Cause.WORLD, Cause.NOT_COVERED}
    assert all(flip.then == flip.between and not flip.changes for flip in found.flips)
    same = flips(connection, "gpt-3.5-turbo-1106", DAYS[0], DAYS[0], (DAYS[0], DAYS[1]))
    assert {flip.cause for flip in same.flips} == {Cause.WIKIDATA, Cause.NOT_COVERED}
    with pytest.raises(UsageError, match="lies after"):
        flips(connection, "small", *DAYS[::-1])


def test_right_holders_are_the_graphs(connection: duckdb.DuckDBPyConnection) -> None:
    for flip in flips(connection, "gpt2-xl", *DAYS).flips:
        for day, side in zip(DAYS, (flip.right_then, flip.right_now), strict=True):
            rows = connection.execute(
                "SELECT statement FROM standings WHERE snapshot = ? AND fact = ? AND rule = 'latest' AND standing = ?"
                " AND from_day <= ? AND (to_day IS NULL OR ? < to_day)",
                [day, flip.fact, Standing.UP_TO_DATE.value, *[int(day.replace("-", ""))] * 2],
            ).fetchall()
            assert sorted(one.statement for one in side) == sorted(statement for (statement,) in rows)


# The command


def _call(folder: Path, *words: str) -> Result:
    places = ("--runs", str(folder / "runs"), "--database", str(folder / "results.duckdb"))
    return CliRunner().invoke(cli, ["compare", *places, *words], prog_name="dyknow")


def test_the_command_compares_two_runs(folder: Path) -> None:
    done = _call(folder, "gpt2-xl", "gpt-j-6B", "--as-of", DAYS[0])
    assert done.exit_code == 0, done.output
    assert "first: gpt2-xl   second: gpt-j-6B" in done.stdout
    assert "up to date" in done.stdout
    assert "14 more: --all lists them." in done.stderr
    read = json.loads(_call(folder, "gpt2-xl", "gpt-j-6B", "--as-of", DAYS[0], "--format", "json").stdout)
    assert len(read["facts"]) == 34
    rows = list(
        csv.DictReader(io.StringIO(_call(folder, "gpt2-xl", "gpt-j-6B", "--as-of", DAYS[0], "--format", "csv").stdout))
    )
    assert len(rows) == len(read["rates"]) == 12
    for row, line in zip(read["rates"], rows, strict=True):
        assert [line["difference"], line["difference_lower"]] == [
            str(row["difference"]),
            str(row["difference_interval"][0]),
        ]
        assert float(line["p"]) == row["p"]
    facts = _call(folder, "gpt2-xl", "gpt-j-6B", "--as-of", DAYS[0], "--format", "csv", "--facts").stdout
    assert len(list(csv.DictReader(io.StringIO(facts)))) == 34
    judged = _call(folder, "small", "--as-of", DAYS[0], "--judge", "match", "--judge", "published")
    assert "first: match   second: published" in judged.stdout


def test_the_command_compares_many_runs(folder: Path) -> None:
    done = _call(folder, "--all-runs", "--as-of", DAYS[0])
    assert done.exit_code == 0, done.output
    assert "Holm" in done.stdout
    read = json.loads(_call(folder, "--all-runs", "--as-of", DAYS[0], "--format", "json").stdout)
    assert len(read) == 13 * 12 // 2
    rows = list(csv.DictReader(io.StringIO(_call(folder, "--all-runs", "--as-of", DAYS[0], "--format", "csv").stdout)))
    assert [row["p_holm"] for row in rows] == [str(pair["p_holm"]) for pair in read]


@pytest.mark.parametrize("days", [("--as-of", *DAYS), ("--as-of", DAYS[1], "--as-of", DAYS[0])])
def test_the_command_compares_two_days(folder: Path, days: tuple[str, ...]) -> None:
    done = _call(folder, "gpt-3.5-turbo-1106", *days)
    assert done.exit_code == 0, done.output
    assert "The world changed: 21" in done.stdout
    assert "world 21, wikidata 3, both 1, not covered 6" in done.stderr
    read = json.loads(_call(folder, "gpt-3.5-turbo-1106", *days, "--format", "json").stdout)
    biden = next(flip for flip in read["flips"] if flip["fact"] == "Q30/P35")
    assert biden["right_now"][0]["first"] == "2025-01-20"
    assert {change["clock"] for change in biden["changes"]} == {"world"}
    rows = list(csv.DictReader(io.StringIO(_call(folder, "gpt-3.5-turbo-1106", *days, "--format", "csv").stdout)))
    assert Counter(row["cause"] for row in rows) == Counter(flip["cause"] for flip in read["flips"])
    assert any("added (world): Donald Trump" in row["changes"] for row in rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpt2-xl",), "nothing to compare"),
        (("gpt2-xl", "nobody"), "There is no run 'nobody'"),
        (("gpt2-xl", "t5-3b", "2025-11-30"), "one run and one judge"),
        (("gpt2-xl", "2025-11-30", "2024-01-01"), "Too many days"),
        (("gpt2-xl", "t5-3b", "--known-at", "2023-12-19"), "There is no snapshot"),
        (("gpt2-xl", "t5-3b", "small", "--judge", "match", "--judge", "published"), "by one judge"),
    ],
)
def test_what_cannot_be_compared(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = _call(folder, *words, "--as-of", DAYS[0])
    assert done.exit_code == 2
    assert said in done.stderr
