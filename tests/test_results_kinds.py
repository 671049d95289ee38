"""Answers of other kinds in the results: several samples, unanswered and refused ones."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import orjson
import pytest

from dyknow import results
from dyknow.benchmark import load
from kg.snapshot import Snapshot, find_snapshots
from tests.journals import write_run, write_samples
from tests.test_results import DAYS, verdicts


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    return [s for s in find_snapshots() if s.id in {"2023-12-18", "2025-11-30"}]


@pytest.fixture
def seeded(small: Path, tmp_path: Path) -> Path:
    """Return a results file of other runs, whose standings need not be made again."""
    return Path(shutil.copy(small / "results.duckdb", tmp_path / "results.duckdb"))


def test_unanswered_questions_of_an_interrupted_run_are_counted(
    snapshots: list[Snapshot], seeded: Path, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "runs", "half", {"Q38/P6#1": "a man of the people"})
    about = orjson.loads((folder / "run.json").read_bytes())
    ours = load()
    about |= {
        "kind": "asked",
        "benchmark": {"name": ours.name, "digest": ours.digest},
        "questions": len(ours.questions()),
    }
    (folder / "run.json").write_bytes(orjson.dumps(about))
    with results.connect(tmp_path / "runs", snapshots, seeded) as connection:
        [(facts, n, incomplete)] = connection.execute(
            "SELECT facts, n, incomplete FROM table1('2023-12-18') WHERE domain = 'all'"
        ).fetchall()
    assert (facts, n, incomplete) == (130, 0, 130)


def test_a_fact_asked_in_part_is_incomplete(snapshots: list[Snapshot], seeded: Path, tmp_path: Path) -> None:
    """By --limit, or by a benchmark of one's own: what stands in questions.jsonl counts, not what ships."""
    folder = write_run(tmp_path / "runs", "part", {"Q38/P6#1": "a man of the people"})
    about = orjson.loads((folder / "run.json").read_bytes()) | {"kind": "asked"}
    (folder / "run.json").write_bytes(orjson.dumps(about))
    listed = [
        {"question": f"{fact}#{n}", "fact": fact, "domain": "countries", "subject": "x", "phrasing": str(n),
         "counted": True, "text": "?", "asked": n == 1}
        for fact in ("Q38/P6", "Q36/P6") for n in (1, 2)
    ]  # fmt: skip
    (folder / "questions.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in listed))
    with results.connect(tmp_path / "runs", snapshots, seeded) as connection:
        rows = connection.execute("SELECT facts, n, incomplete FROM table1('2023-12-18') WHERE domain = 'all'")
        assert rows.fetchall() == [(2, 0, 2)]
        assert Counter(verdicts(connection, "2023-12-18", "part").values()) == {"irrelevant": 1, "unanswered": 3}


def test_a_refusal_is_irrelevant_and_says_so(snapshots: list[Snapshot], seeded: Path, tmp_path: Path) -> None:
    texts = {f"Q38/P6#{n}": "Giorgia Meloni" for n in (1, 2, 3)}
    write_run(tmp_path / "runs", "shy", texts, dict.fromkeys(texts, "refused"))
    with results.connect(tmp_path / "runs", snapshots, seeded) as connection:
        rows = connection.execute("SELECT verdict, counts_as, reason FROM verdicts('2023-12-18')").fetchall()
        assert rows == [("irrelevant", "irrelevant", "refusal")] * 3
        assert connection.execute("SELECT n, irrelevant FROM table1('2023-12-18')").fetchall() == [(1, 100.0)] * 2


SAMPLES: dict[str, list[str | None]] = {
    "Q38/P6#1": ["Mario Draghi", "Giorgia Meloni", "Giorgia Meloni", "Giorgia Meloni"],
    "Q38/P6#2": ["a very good question", "Mario Draghi", "Giuseppe Conte", None],
    "Q38/P6#3": ["a very good question", "who knows", "nobody", "no idea"],
    "Q38/P6#generic": ["Matteo Renzi"] * 4,
    "Q36/P6#1": ["Mateusz Morawiecki", "Donald Tusk", "Mateusz Morawiecki", "Donald Tusk"],
    "Q36/P6#2": ["Donald Tusk", "Donald Tusk", "Donald Tusk", "Donald Tusk"],
    "Q11571/P54#1": ["Portugal national association football team", "Juventus FC", "Juventus FC", "Juventus FC"],
}


@pytest.fixture(scope="module")
def sampled(
    snapshots: list[Snapshot], small: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("sampled")
    write_samples(folder / "runs", "several", SAMPLES)
    write_run(folder / "runs", "greedy", {"Q38/P6#1": "Giorgia Meloni"})
    shutil.copy(small / "results.duckdb", folder / "results.duckdb")
    with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as connection:
        yield connection


@pytest.mark.parametrize("day", DAYS)
def test_samples_by_a_second_route(sampled: duckdb.DuckDBPyConnection, day: str) -> None:
    rows = sampled.execute(
        "SELECT fact, phrasing, counts_as, entity, label FROM verdicts(?) WHERE run = 'several' AND counted"
        " AND counts_as IS NOT NULL",
        [day],
    ).fetchall()
    assert len(rows) == 23  # six phrasings of four samples, but one error
    labels = {entity: label for *_, entity, label in rows}
    table = sampled.execute("SELECT * EXCLUDE (run, domain, subject) FROM samples(?)", [day]).fetchall()
    assert len(table) == 3
    for fact, n, up_to_date, outdated, other, consistency, most in table:
        own = [row for row in rows if row[0] == fact]
        said = Counter(row[2] for row in own)
        assert n == len(own)
        assert up_to_date == pytest.approx(100 * said["up-to-date"] / n)
        assert outdated == pytest.approx(100 * said["outdated"] / n)
        assert other == pytest.approx(100 * said["irrelevant"] / n)
        shares = []
        for phrasing in {row[1] for row in own}:
            named = [row[3] for row in own if row[1] == phrasing]
            shares.append(max((named.count(entity) for entity in named if entity), default=0) / len(named))
        assert consistency == pytest.approx(100 * sum(shares) / len(shares))
        often = Counter(row[3] for row in own if row[3])
        assert most == min(labels[entity] for entity in often if often[entity] == max(often.values()))


def test_the_first_sample_decides_unless_another_is_named(sampled: duckdb.DuckDBPyConnection) -> None:
    def soft(rest: str) -> dict[str, str]:
        return dict(
            sampled.execute(f"SELECT fact, verdict FROM soft('2023-12-18'{rest}) WHERE run = 'several'").fetchall()
        )

    assert soft("") == {"Q38/P6": "outdated", "Q36/P6": "up-to-date", "Q11571/P54": "irrelevant"}
    assert soft(", sample := 1") == {"Q38/P6": "up-to-date", "Q36/P6": "up-to-date", "Q11571/P54": "outdated"}
    assert soft(", sample := 3") == {"Q38/P6": "up-to-date", "Q36/P6": "up-to-date", "Q11571/P54": "outdated"}
    one = "WHERE run = 'several' AND domain = 'all'"
    assert sampled.execute(f"SELECT outdated FROM table1('2023-12-18') {one}").fetchone() == (pytest.approx(100 / 3),)
    assert sampled.execute(f"SELECT outdated FROM table1('2023-12-18', sample := 1) {one}").fetchone() == (
        pytest.approx(100 / 3),
    )
    found = sampled.execute("SELECT n, inconsistent FROM table2('2023-12-18', sample := 2) WHERE run = 'several'")
    assert found.fetchall() == [(2, 100.0)]  # the third fact has one phrasing and nothing to agree with


@pytest.mark.parametrize("day", DAYS)
def test_the_average_is_over_samples_too(sampled: duckdb.DuckDBPyConnection, day: str) -> None:
    rows = sampled.execute(
        "SELECT fact, counts_as FROM verdicts(?) WHERE run = 'several' AND counted AND counts_as IS NOT NULL", [day]
    ).fetchall()
    by_fact = defaultdict(list)
    for fact, counts_as in rows:
        by_fact[fact].append(counts_as == "up-to-date")
    expected = sum(sum(own) / len(own) for own in by_fact.values()) / len(by_fact)
    [found] = sampled.execute(
        "SELECT up_to_date FROM table5(?) WHERE run = 'several' AND domain = 'all'", [day]
    ).fetchall()
    assert found == (pytest.approx(100 * expected),)
