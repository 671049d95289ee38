"""results.duckdb: a cache that is rebuilt byte for byte, read by anyone, and judges for any date."""

import math
import re
import shutil
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dyknow import matching, results, resultsfile, tablefiles
from dyknow.beliefs import find_holders
from dyknow.match import Match, match
from dyknow.named import import_named
from dyknow.named import write as write_named
from kg import identity
from kg.answers import answers
from kg.dates import parse_day
from kg.errors import RunError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from kg.terms import Rule, Status
from tests.journals import write_judgments, write_likelihoods, write_run

TEXTS: dict[str, str | None] = {
    "Q38/P6#1": "Giorgia Meloni",
    "Q38/P6#2": "Mario Draghi.",
    "Q38/P6#3": "a very good question",
    "Q38/P6#generic": "Giorgia Meloni",
    "Q36/P6#1": "Mateusz Morawiecki",
    "Q36/P6#2": "Donald Tusk",
    "Q36/P6#3": None,
    "Q11571/P54#1": "Portugal national association football team",
    "Q11571/P54#2": "Juventus FC",
    "Q11571/P54#3": "Juventus FC",
}


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    return [s for s in find_snapshots() if s.id in {"2023-12-18", "2025-11-30"}]


def likelihoods(snapshots: list[Snapshot]) -> dict[str, dict[tuple[str, str], tuple[float, int]]]:
    """Return made-up scores for every holder of three facts; those of the second phrasing are the first's, turned."""
    held = find_holders(snapshots, {question.split("#")[0] for question in TEXTS})
    return {
        f"{fact}#{phrasing}": {
            (holder.entity, holder.label): (turn * (3.0 + number % 7), 1 + number % 4)
            for number, holder in enumerate(holders)
        }
        for fact, holders in held.items()
        for phrasing, turn in (("1", -1.0), ("2", -0.4), ("generic", -5.0))
    }


@pytest.fixture(scope="module")
def runs(snapshots: list[Snapshot], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder, "alpha", TEXTS, {"Q36/P6#3": "error"})
    write_judgments(run, {"Q38/P6#1": "up-to-date", "Q38/P6#2": "outdated", "Q38/P6#3": "irrelevant"})
    write_likelihoods(run, likelihoods(snapshots))
    write_run(folder, "beta", dict.fromkeys(TEXTS, "I'm sorry, I cannot answer that."))
    return folder


@pytest.fixture(scope="module")
def database(runs: Path, snapshots: list[Snapshot], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "results.duckdb"
    results.connect(runs, snapshots, path).close()
    return path


@pytest.fixture
def seeded(database: Path, tmp_path: Path) -> Path:
    """Return a results file of other runs, whose standings need not be made again."""
    return Path(shutil.copy(database, tmp_path / "results.duckdb"))


@pytest.fixture
def connection(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(database), read_only=True) as opened:
        yield opened


def verdicts(connection: duckdb.DuckDBPyConnection, as_of: str, run: str = "alpha", **options: str) -> dict[str, str]:
    named = "".join(f", {name} := '{value}'" for name, value in options.items())
    rows = connection.execute(
        f"SELECT question, verdict FROM verdicts('{as_of}'{named}) WHERE run = '{run}'"
    ).fetchall()
    return dict(rows)


def test_a_stored_run_is_judged_for_any_date(connection: duckdb.DuckDBPyConnection) -> None:
    before, after = verdicts(connection, "2023-12-12"), verdicts(connection, "2023-12-18")
    assert (before["Q36/P6#1"], before["Q36/P6#2"]) == ("up-to-date", "outdated")  # Tusk held it 2007 to 2014
    assert (after["Q36/P6#1"], after["Q36/P6#2"]) == ("outdated", "up-to-date")
    assert verdicts(connection, "2022-06-01")["Q38/P6#1"] == "later"
    assert after["Q36/P6#3"] == "error"
    assert after["Q11571/P54#1"] == "irrelevant"  # a national team where the club is asked
    assert after["Q38/P6#3"] == "irrelevant"


def test_known_at_names_the_snapshot_and_else_the_oldest_not_before(connection: duckdb.DuckDBPyConnection) -> None:
    def used(call: str) -> object:
        return connection.execute(f"SELECT any_value(snapshot) FROM {call}").fetchone()

    assert used("verdicts('2020-01-01')") == ("2023-12-18",)
    assert used("verdicts('2024-01-01')") == ("2025-11-30",)
    assert used("verdicts('2030-01-01')") == ("2025-11-30",)
    assert used("verdicts('2020-01-01', known_at := '2025-11-30')") == ("2025-11-30",)
    with pytest.raises(duckdb.Error, match="no snapshot 1999-01-01"):
        used("verdicts('2020-01-01', known_at := '1999-01-01')")
    with pytest.raises(duckdb.Error, match="no rule newest"):
        used("verdicts('2020-01-01', rule := 'newest')")


def test_another_judge_answers_for_its_day_only(connection: duckdb.DuckDBPyConnection) -> None:
    found = verdicts(connection, "2023-12-18", judge="published")
    assert (found["Q38/P6#2"], found["Q36/P6#1"], found["Q36/P6#3"]) == ("outdated", "unjudged", "error")
    with pytest.raises(duckdb.Error, match="judged for 2023-12-18 only, not for 2024-01-01"):
        verdicts(connection, "2024-01-01", judge="published")


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("day", ["0044-03-15", "2007-06-01", "2023-12-12", "2023-12-13", "2024-06-01", "9999-12-31"])
def test_verdicts_by_a_second_route(
    connection: duckdb.DuckDBPyConnection, snapshots: list[Snapshot], day: str, rule: Rule
) -> None:
    """Asks the graph itself for the day, where the macro joins the standings stored for all days."""
    compared = 0
    for snapshot in snapshots:
        sets = {a.fact: a for a in answers(open_store(snapshot), identity.load(), parse_day(day), rule=rule)}
        rows = connection.execute(
            "SELECT fact, entity, verdict FROM verdicts(?, known_at := ?, rule := ?) WHERE verdict <> 'error'",
            [day, snapshot.id, rule],
        ).fetchall()
        for fact, entity, verdict in rows:
            standings = {holder.entity: holder.standing.value for holder in sets[fact].holders}
            expected = standings.get(entity, "irrelevant").replace("not asked", "irrelevant")
            if sets[fact].status in {Status.BEFORE_FIRST_RECORD, Status.NOT_IN_SNAPSHOT}:
                expected = "not covered"
            assert verdict == expected, (snapshot.id, fact, entity)
        compared += len(rows)
    assert compared > 30


def test_a_fact_not_covered_is_no_incomplete_one(connection: duckdb.DuckDBPyConnection) -> None:
    assert verdicts(connection, "0044-03-15")["Q36/P6#3"] == "not covered"  # though its answer is an error
    [(n, incomplete, not_covered)] = connection.execute(
        "SELECT n, incomplete, not_covered FROM table1('0044-03-15') WHERE run = 'alpha' AND domain = 'all'"
    ).fetchall()
    assert (n, incomplete, not_covered) == (0, 0, 3)


def test_soft_constraint_with_an_error(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute("SELECT fact, verdict FROM soft('2023-12-18') WHERE run = 'alpha'").fetchall()
    assert dict(rows) == {"Q38/P6": "up-to-date", "Q36/P6": "up-to-date", "Q11571/P54": "outdated"}
    rows = connection.execute("SELECT fact, verdict FROM soft('2007-06-01') WHERE run = 'alpha'").fetchall()
    assert dict(rows)["Q36/P6"] == "incomplete"  # neither was in office, and one answer is missing


DAYS = ["2019-06-30", "2023-12-12", "2023-12-18", "2024-06-01", "2025-11-30"]


def by_fact(
    connection: duckdb.DuckDBPyConnection, day: str, judge: str
) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """Return (counted verdicts, answers) by run, domain, fact, from the verdicts alone."""
    rows = connection.execute(
        "SELECT run, domain, fact, counted, verdict, coalesce(entity, '') FROM verdicts(?, judge := ?) ORDER BY ALL",
        [day, judge],
    ).fetchall()
    found = defaultdict(list)
    for run, domain, fact, counted, verdict, entity in rows:
        if counted:
            found[run, domain, fact].append((verdict, entity))
    return found


@pytest.mark.parametrize("day", DAYS)
def test_table_1_by_a_second_route(connection: duckdb.DuckDBPyConnection, day: str) -> None:
    tally: Counter[tuple[str, str, str]] = Counter()
    for (run, domain, _), pairs in by_fact(connection, day, "match").items():
        said = [verdict for verdict, _ in pairs]
        if "not covered" in said:
            continue
        kind = (
            "up-to-date"
            if "up-to-date" in said
            else "out"
            if "error" in said
            else "outdated"
            if "outdated" in said
            else "irr"
        )
        tally[run, domain, kind] += 1
    table = connection.execute(
        "SELECT run, domain, n, up_to_date, outdated, incomplete FROM table1(?) WHERE domain <> 'all'", [day]
    ).fetchall()
    assert len(table) == 4
    for run, domain, n, up_to_date, outdated, incomplete in table:
        counts = {kind: tally[run, domain, kind] for kind in ("up-to-date", "outdated", "irr", "out")}
        assert n == sum(counts.values()) - counts["out"]
        assert incomplete == counts["out"]
        assert up_to_date == pytest.approx(100 * counts["up-to-date"] / n)
        assert outdated == pytest.approx(100 * counts["outdated"] / n)


@pytest.mark.parametrize("day", DAYS)
def test_table_5_and_2_by_a_second_route(connection: duckdb.DuckDBPyConnection, day: str) -> None:
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    different: dict[str, list[bool]] = defaultdict(list)
    for (run, domain, _), pairs in by_fact(connection, day, "match").items():
        rated = [v for v, _ in pairs if v in {"up-to-date", "outdated", "later", "irrelevant"}]
        if rated:
            shares[run, domain].append(sum(v == "up-to-date" for v in rated) / len(rated))
        answers = [entity if v in {"up-to-date", "outdated"} else "" for v, entity in pairs]
        if any(answers) and len(rated) == len(pairs):
            different[run].append(len(set(answers)) > 1)
    table = connection.execute(
        "SELECT run, domain, n, up_to_date FROM table5(?) WHERE domain <> 'all'", [day]
    ).fetchall()
    assert len(table) == 4
    for run, domain, n, up_to_date in table:
        own = shares[run, domain]
        assert (n, up_to_date) == (len(own), pytest.approx(100 * sum(own) / len(own)))
    for run, n, inconsistent in connection.execute("SELECT run, n, inconsistent FROM table2(?)", [day]).fetchall():
        own_ = different[run]
        assert n == len(own_)
        assert inconsistent == (pytest.approx(100 * sum(own_) / n) if n else None)


def test_every_table_and_column_is_described_and_keys_are_unique(small: Path) -> None:
    connection = duckdb.connect(str(small / "results.duckdb"), read_only=True)
    missing = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'results' AND comment IS NULL"
        " AND table_name NOT IN (SELECT view_name FROM duckdb_views())"  # the headers of their files describe these
    ).fetchall()
    assert missing == []
    keys = {
        "snapshots": "snapshot", "facts": "snapshot, fact", "labels": "snapshot, fact, entity", "runs": "run",
        "responses": "run, question, sample", "matches": "response_digest, fact, candidates_digest",
        "judgments": "run, question, sample, judge", "standings": "snapshot, fact, entity, rule, from_day",
        "coverage": "snapshot, fact, rule, from_day", "likelihoods": "run, question, entity", "edits": "run, fact",
        "strata": "run, fact",
    }  # fmt: skip
    assert set(keys) == set(results.TABLES)
    for table, key in keys.items():
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() != (0,), table
        twice = connection.execute(f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1").fetchall()
        assert twice == [], table
    connection.close()


def test_rebuilt_from_nothing_the_export_is_byte_equal(
    runs: Path, snapshots: list[Snapshot], database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(database), read_only=True) as connection:
        first = [path.read_bytes() for path in tablefiles.write(connection, tmp_path / "first", "csv")]
    monkeypatch.setenv("DYKNOW_CACHE", str(tmp_path / "cache"))
    with results.connect(runs, snapshots, tmp_path / "new.duckdb") as connection:
        second = [path.read_bytes() for path in tablefiles.write(connection, tmp_path / "second", "csv")]
    assert first == second
    assert sum(map(len, first)) > 100_000


def test_a_new_run_keeps_old_matches_and_gives_the_same_rows(
    snapshots: list[Snapshot], seeded: Path, tmp_path: Path
) -> None:
    runs, path = tmp_path / "runs", seeded
    write_run(runs, "alpha", TEXTS)
    results.connect(runs, snapshots, path).close()
    write_run(runs, "gamma", {"Q38/P6#1": "Giuseppe Conte"})
    told: list[str] = []
    with results.connect(runs, snapshots, path, told.append) as connection:
        grown = [file.read_bytes() for file in tablefiles.write(connection, tmp_path / "grown", "csv")]
    assert told == []  # neither standings nor many matches were made again
    with results.connect(runs, snapshots, tmp_path / "fresh.duckdb") as connection:
        fresh = [file.read_bytes() for file in tablefiles.write(connection, tmp_path / "fresh", "csv")]
    assert grown == fresh


def test_readers_are_not_locked_out_by_a_maker(snapshots: list[Snapshot], seeded: Path, tmp_path: Path) -> None:
    runs, path = tmp_path / "runs", seeded
    write_run(runs, "alpha", TEXTS)
    results.connect(runs, snapshots, path).close()
    with duckdb.connect(str(path), read_only=True) as reader:
        write_run(runs, "gamma", {"Q38/P6#1": "Giuseppe Conte"})
        makers = [threading.Thread(target=lambda: results.connect(runs, snapshots, path).close()) for _ in range(2)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)  # its own file, whole
    assert resultsfile.query_readonly(path, "SELECT count(*) FROM runs").rows == [(2,)]
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_connection_still_open_does_not_hide_the_new_file(
    snapshots: list[Snapshot], seeded: Path, tmp_path: Path
) -> None:
    runs, path = tmp_path / "runs", seeded
    write_run(runs, "alpha", TEXTS)
    with results.connect(runs, snapshots, path) as first:
        write_run(runs, "gamma", {"Q38/P6#1": "Giuseppe Conte"})
        with results.connect(runs, snapshots, path) as second:
            assert second.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        assert resultsfile.query_readonly(path, "SELECT count(*) FROM runs").rows == [(2,)]
        assert first.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_other_standings_make_the_file_stale(
    runs: Path, snapshots: list[Snapshot], seeded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    results.connect(runs, snapshots, seeded, told.append).close()
    assert told == []
    monkeypatch.setattr(results, "_timeline_key", lambda snapshot: f"another query for {snapshot.id}")
    monkeypatch.setattr(results, "timeline", lambda _graph, _identity, _known: iter(()))
    results.connect(runs, snapshots, seeded, told.append).close()
    assert told == [f"reading the standings of snapshot {snapshot.id}" for snapshot in snapshots]


def test_another_matcher_matches_anew(
    runs: Path, snapshots: list[Snapshot], seeded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def told(text: str, *rest: Any) -> Match:  # noqa: ANN401 -- passed on as they come
        texts.append(text)
        return match(text, *rest)

    monkeypatch.setattr(matching, "match", told)
    results.connect(runs, snapshots[:1], seeded).close()
    assert texts == []
    monkeypatch.setattr(results, "_matcher_digest", lambda: "another")
    results.connect(runs, snapshots[:1], seeded).close()
    assert set(filter(None, texts)) == set(filter(None, TEXTS.values())) | {"I'm sorry, I cannot answer that."}


def test_the_matchers_digest_holds_every_module_it_imports() -> None:
    package = Path(results.__file__).parent
    seen, waiting = set(), {"matching"}
    while waiting:
        module = waiting.pop()
        seen.add(module)
        waiting |= set(re.findall(r"^from dyknow\.(\w+) import", (package / f"{module}.py").read_text(), re.M)) - seen
    assert seen == set(results._MATCHER)


def test_a_fact_asked_once_has_nothing_to_agree_with(snapshots: list[Snapshot], seeded: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "once", {"Q38/P6#1": "Giorgia Meloni", "Q38/P6#generic": "Mario Draghi"})
    with results.connect(tmp_path / "runs", snapshots, seeded) as connection:
        assert connection.execute("SELECT n, inconsistent FROM table2('2023-12-18')").fetchall() == [(0, None)]


def test_a_broken_file_is_made_anew(
    runs: Path, snapshots: list[Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "timeline", lambda _graph, _identity, _known: iter(()))
    (tmp_path / "results.duckdb").write_bytes(b"not a database" * 1000)
    with results.connect(runs, snapshots, tmp_path / "results.duckdb") as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)


def test_a_place_that_cannot_be_written_is_named(runs: Path, snapshots: list[Snapshot], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder is needed")
    with pytest.raises(RunError, match=r"file/results\.duckdb cannot be written"):
        results.connect(runs, snapshots, tmp_path / "file" / "results.duckdb")


def test_sql_reads(database: Path) -> None:
    table = resultsfile.query_readonly(
        database, "SELECT run, n FROM table1(DATE '2023-12-18') WHERE domain = 'all' ORDER BY run"
    )
    assert (table.columns, table.rows) == (("run", "n"), [("alpha", 3), ("beta", 3)])


def test_hostile_text_is_kept_as_it_came(snapshots: list[Snapshot], seeded: Path, tmp_path: Path) -> None:
    seeded.rename(tmp_path / "it's.duckdb")
    text = "'; DROP TABLE runs; -- \"}{<script>\\u0041 \x00 \U0001f600\nline"
    write_run(tmp_path / "runs", "o'brien", {"Q38/P6#1": text})
    with results.connect(tmp_path / "runs", snapshots, tmp_path / "it's.duckdb") as connection:
        assert connection.execute("SELECT run, text FROM responses").fetchall() == [("o'brien", text)]


def test_figures_without_texts_are_judged_alike(
    connection: duckdb.DuckDBPyConnection, snapshots: list[Snapshot], seeded: Path, tmp_path: Path
) -> None:
    rows = connection.execute(
        "SELECT v.*, r.title, r.release_year, r.prefixed FROM verdicts('2023-12-18') AS v JOIN runs AS r USING (run)"
        " WHERE run = 'beta' OR (run = 'alpha' AND fact <> 'Q36/P6')"
    )
    columns = [column[0] for column in rows.description or ()]
    table = [dict(zip(columns, row, strict=True)) for row in rows.fetchall()]
    for row in table:
        row["prefixed"], row["counted"] = str(row["prefixed"]).lower(), str(row["counted"]).lower()
    write_named(table, tmp_path / "named.csv")
    assert import_named(tmp_path / "named.csv", tmp_path / "runs") == import_named(tmp_path, tmp_path / "runs")
    with results.connect(tmp_path / "runs", snapshots, seeded) as other:
        for day in DAYS:
            ours = {q: v for q, v in verdicts(connection, day).items() if not q.startswith("Q36")}
            assert verdicts(other, day) == ours


@pytest.mark.parametrize("day", ["0044-03-15", "2007-06-01", *DAYS])
@pytest.mark.parametrize("known_at", [None, "2023-12-18"])
def test_beliefs_by_a_second_route(
    connection: duckdb.DuckDBPyConnection, snapshots: list[Snapshot], day: str, known_at: str | None
) -> None:
    """Asks the graph itself for the day's standings, and weighs in Python."""
    later = [one for one in snapshots if one.id >= day]
    snapshot = next((one for one in snapshots if one.id == known_at), (later or snapshots[-1:])[0])
    sets = {a.fact: a for a in answers(open_store(snapshot), identity.load(), parse_day(day))}
    table = connection.execute(
        "SELECT question, entity, standing, place, score, share, share_by_total FROM beliefs(?, known_at := ?)",
        [day, known_at],
    ).fetchall()
    found = {(row[0], row[1]): row[2:] for row in table}
    compared = 0
    mass: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for question, scores in likelihoods(snapshots).items():
        answer_set = sets[question.split("#")[0]]
        standings = {holder.entity: holder.standing.value for holder in answer_set.holders}
        if answer_set.status in {Status.BEFORE_FIRST_RECORD, Status.NOT_IN_SNAPSHOT}:
            continue
        own = {
            entity: pair for (entity, _), pair in scores.items() if standings.get(entity, "not asked") != "not asked"
        }
        shares = {entity: math.exp(logprob / tokens) for entity, (logprob, tokens) in own.items()}
        totals = {entity: math.exp(logprob) for entity, (logprob, _) in own.items()}
        ranked = sorted(own, key=lambda entity: (-own[entity][0] / own[entity][1], entity))
        for entity, (logprob, tokens) in own.items():
            standing, place, score, share, by_total = found.pop((question, entity))
            assert (standing, place) == (standings[entity], ranked.index(entity) + 1)
            assert score == pytest.approx(logprob / tokens)
            assert share == pytest.approx(shares[entity] / sum(shares.values()))
            assert by_total == pytest.approx(totals[entity] / sum(totals.values()))
            compared += 1
        if not question.endswith("generic"):
            up = sum(shares[entity] for entity in own if standings[entity] == "up-to-date") / sum(shares.values())
            out = sum(shares[entity] for entity in own if standings[entity] == "outdated") / sum(shares.values())
            mass[answer_set.fact].append((up, out, float(standings[ranked[0]] == "up-to-date")))
    assert found == {}
    assert compared > 30 or day == "0044-03-15"
    means = [[sum(column) / len(rows) for column in zip(*rows, strict=True)] for rows in mass.values()]
    expected = [100 * sum(column) / len(means) for column in zip(*means, strict=True)]
    rows = connection.execute(
        "SELECT n, up_to_date, outdated, first_up_to_date FROM mass(?, known_at := ?) WHERE domain = 'all'",
        [day, known_at],
    ).fetchall()
    assert [row[0] for row in rows] == ([len(means)] if means else [])
    for row in rows:
        assert list(row[1:]) == pytest.approx(expected)


def test_beliefs_of_an_unknown_snapshot_are_refused(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="no snapshot 1999-01-01"):
        connection.execute("FROM mass('2020-01-01', known_at := '1999-01-01')").fetchall()
    with pytest.raises(duckdb.Error, match="no rule newest"):
        connection.execute("FROM mass('2020-01-01', rule := 'newest')").fetchall()


def test_an_old_client_reads_the_tables(database: Path) -> None:
    """Reads with a DuckDB of the 1.x line, whose Python `make test` puts into .venv-duckdb1."""
    python = Path(__file__).resolve().parents[1] / ".venv-duckdb1" / "bin" / "python"
    if not python.is_file():
        pytest.skip("no DuckDB 1.x here; make test sets it up")
    code = (
        "import duckdb, sys; assert duckdb.__version__.startswith('1.'); c = duckdb.connect(sys.argv[1], read_only=True);"
        "print(c.execute(\"SELECT run, n FROM table1(DATE '2023-12-18') WHERE domain = 'all' ORDER BY run\").fetchall(),"
        " len(c.execute(\"FROM table2('2023-12-18', judge := 'match')\").fetchall()),"
        " len(c.execute(\"FROM table5('2023-12-18', rule := 'study', known_at := '2025-11-30')\").fetchall()))"
    )
    done = subprocess.run([str(python), "-c", code, str(database)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[('alpha', 3), ('beta', 3)] 2 6\n", "")
