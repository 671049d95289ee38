"""Verdicts in awkward places: vacancies, several holders at once, days that precision leaves open, the study's rule."""

from collections import Counter, defaultdict

import duckdb
import orjson
import pytest

from dyknow import results
from kg import identity
from kg.answers import AnswerSet, answers
from kg.dates import parse_day
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from kg.terms import Rule, Status
from tests.journals import write_run

ALONSO, DE_BRUYNE, KANE = "Q10514/P54", "Q357984/P54", "Q969725/P54"
"""Without a team in 2019 and 2020; with two clubs at once in 2012; with two whose years overlap, in that year."""

FACTS = (ALONSO, DE_BRUYNE, KANE)
NOBODY = "a man of the people"
DAYS = ("1990-01-01", "2012-01-15", "2012-07-01", "2019-06-30", "2020-12-31", "2021-06-30", "2023-12-18")


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return next(one for one in find_snapshots() if one.id == "2023-12-18")


@pytest.fixture(scope="module")
def held(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the holders of the facts, by fact."""
    sets = answers(open_store(snapshot), identity.load(), parse_day("2023-12-18"))
    return {one.fact: sorted(holder.entity for holder in one.holders) for one in sets if one.fact in FACTS}


@pytest.fixture(scope="module")
def connection(
    snapshot: Snapshot, held: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> duckdb.DuckDBPyConnection:
    """Return results of a run in which, says the judge, each holder is named once, and somebody else at last.

    Beside it there is a run for each holder, with one fact and two answers: one names the holder, the other one nobody.
    """
    folder = tmp_path_factory.mktemp("verdicts")
    texts: dict[str, str | None] = {}
    rows = []
    for fact, entities in held.items():
        for number, entity in enumerate([*entities, None]):
            question = f"{fact}#{number}"
            texts[question] = entity or NOBODY
            about = {"question": question, "sample": 0, "judge": "anna", "named": True, "entity": entity}
            rows.append({**about, "verdict": None, "as_of": None, "reason": "named" if entity else "none"})
    run = write_run(folder / "runs", "each", texts)
    (run / "judgments").mkdir()
    (run / "judgments" / "anna.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    for fact, entities in held.items():
        for entity in entities:
            one = f"one-{FACTS.index(fact)}-{entities.index(entity)}"
            run = write_run(folder / "runs", one, {f"{fact}#1": entity, f"{fact}#2": NOBODY})
            said = [row for row in rows if row["entity"] == entity and str(row["question"]).startswith(fact)]
            own = [{**said[0], "question": f"{fact}#1"}, {**rows[-1], "question": f"{fact}#2"}]
            (run / "judgments").mkdir()
            (run / "judgments" / "anna.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in own))
    return results.connect(folder / "runs", [snapshot], folder / "results.duckdb")


def sets_of(snapshot: Snapshot, day: str, rule: Rule) -> dict[str, AnswerSet]:
    return {one.fact: one for one in answers(open_store(snapshot), identity.load(), parse_day(day), rule=rule)}


def expected(one: AnswerSet, entity: str | None) -> tuple[str, bool, bool]:
    """Return verdict, whether it is certain, and whether the answer may be up-to-date, from the graph itself."""
    if one.status in {Status.BEFORE_FIRST_RECORD, Status.NOT_IN_SNAPSHOT}:
        return "not covered", True, False
    holder = next((holder for holder in one.holders if holder.entity == entity), None)
    if holder is None or holder.standing == "not asked":
        return "irrelevant", True, False
    standing = str(holder.standing)
    open_still = standing == "outdated" and not holder.certain and holder.start is not None
    return standing, holder.certain, standing == "up-to-date" or open_still


@pytest.mark.parametrize("rule", list(Rule))
def test_every_holder_on_awkward_days_by_a_second_route(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, held: dict[str, list[str]], rule: Rule
) -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    statuses = set()
    for day in DAYS:
        sets = sets_of(snapshot, day, rule)
        rows = connection.execute(
            "SELECT fact, entity, verdict, certain, possible FROM verdicts(?, judge := 'anna', rule := ?) WHERE run = 'each'",
            [day, rule],
        ).fetchall()
        assert len(rows) == sum(len(own) + 1 for own in held.values())
        for fact, entity, verdict, certain, possible in rows:
            statuses.add(sets[fact].status)
            want = expected(sets[fact], entity)
            if verdict == "not covered":
                assert want[0] == verdict
                continue
            assert (verdict, certain, possible) == want, (day, fact, entity)
            seen[verdict, certain] += 1
    assert set(seen) >= {
        ("up-to-date", True), ("up-to-date", False), ("outdated", True), ("outdated", False), ("later", True),
        ("irrelevant", True),
    }  # fmt: skip
    assert (Status.VACANCY in statuses) == (rule is Rule.LATEST)  # by the study's rule the last one stays


def test_a_name_given_in_a_vacancy_is_outdated_or_irrelevant_and_counts(connection: duckdb.DuckDBPyConnection) -> None:
    day = "2020-06-30"
    rows = connection.execute(
        "SELECT verdict, count(*) FROM verdicts(?, judge := 'anna') WHERE run = 'each' AND fact = ? GROUP BY verdict",
        [day, ALONSO],
    ).fetchall()
    found = dict(rows)
    assert set(found) == {"outdated", "later", "irrelevant"}
    assert found["irrelevant"] == 1  # whom no statement has
    [(n, up, out)] = connection.execute(
        "SELECT n, up_to_date, outdated FROM table1(?, judge := 'anna') WHERE run = 'one-0-0' AND domain = 'all'", [day]
    ).fetchall()
    assert (n, up + out) == (1, out)
    study = connection.execute(
        "SELECT count(*) FROM verdicts(?, judge := 'anna', rule := 'study')"
        " WHERE run = 'each' AND fact = ? AND verdict = 'up-to-date'",
        [day, ALONSO],
    ).fetchone()
    assert study is not None
    assert study[0] >= 1


def test_holders_at_once_are_all_right(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(
        "SELECT verdict, certain FROM verdicts('2012-01-15', judge := 'anna') WHERE run = 'each' AND fact IN (?, ?)"
        " AND verdict = 'up-to-date'",
        [DE_BRUYNE, KANE],
    ).fetchall()
    assert Counter(rows) == {("up-to-date", True): 2, ("up-to-date", False): 2}


@pytest.mark.parametrize("rule", list(Rule))
def test_bounds_of_the_tables_by_a_second_route(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, held: dict[str, list[str]], rule: Rule
) -> None:
    wide: dict[str, int] = defaultdict(int)
    for day in DAYS:
        sets = sets_of(snapshot, day, rule)
        for table, share in (("table1", 100.0), ("table5", 50.0)):
            rows = connection.execute(
                f"SELECT run, n, up_to_date_lower, up_to_date, up_to_date_upper, outdated FROM {table}(?, judge := 'anna',"
                " rule := ?) WHERE domain = 'all' AND run <> 'each'",
                [day, rule],
            ).fetchall()
            assert len(rows) == sum(map(len, held.values()))
            for run, n, lower, rate, upper, outdated in rows:
                fact = FACTS[int(run.split("-")[1])]
                verdict, certain, possible = expected(sets[fact], held[fact][int(run.split("-")[2])])
                if verdict == "not covered":
                    assert n == 0
                    continue
                up = verdict == "up-to-date"
                assert (n, lower, rate, upper) == (1, share * (up and certain), share * up, share * possible)
                assert outdated == share * (verdict == "outdated")
                wide[table] += lower < upper
    assert min(wide.values()) > 2


def test_the_file_is_read_by_name(connection: duckdb.DuckDBPyConnection) -> None:
    columns = [name for name, *_ in connection.execute("DESCRIBE judgments").fetchall()]
    assert columns == [
        "run", "question", "sample", "judge", "named", "entity", "verdict", "start", "as_of", "reason", "note", "time", "by",
    ]  # fmt: skip
