"""results.duckdb over many snapshots: what they have in common is read once, and what is known is not read again."""

from pathlib import Path

import duckdb
import pytest

from dyknow import results
from dyknow.results import TABLES
from kg.dates import parse_time
from kg.snapshot import Snapshot, take
from kg.sources import Row, Source
from kg.store import Store, open_store
from tests.journals import write_run

MONTHS = ("2024-01-31", "2024-02-29", "2024-03-31")


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """Three months: another holder for Poland in the second one, for nobody in the third."""
    folder, start = tmp_path_factory.mktemp("snapshots"), parse_time("+2022-10-22T00:00:00Z")
    italy, poland = (
        Row(subject, "P6", name, subject_id=item, statement=f"http://www.wikidata.org/entity/statement/{item}-1",
            holder_id=holder, start=start)
        for subject, item, name, holder in (
            ("Italy", "Q38", "Giorgia Meloni", "Q451003"), ("Poland", "Q36", "Mateusz Morawiecki", "Q6788101"),
        )
    )  # fmt: skip
    tusk = Row("Poland", "P6", "Donald Tusk", subject_id="Q36", holder_id="Q946", start=start,
               statement="http://www.wikidata.org/entity/statement/Q36-2")  # fmt: skip
    states = ((italy, poland), (italy, poland, tusk), (italy, poland, tusk))
    return [
        take(Source(rows, "test", "Rows of a test."), folder, int(name.replace("-", "")))
        for name, rows in zip(MONTHS, states, strict=True)
    ]


def rows(database: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in TABLES}


def test_names_are_read_once_and_only_for_what_is_newly_asked(
    snapshots: list[Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def opening(snapshot: Snapshot) -> Store:
        opened.append(snapshot.id)
        return open_store(snapshot, tmp_path / "cache")

    def made(name: str) -> dict[str, list[tuple[object, ...]]]:
        opened.clear()
        results.connect(tmp_path / "runs", snapshots, tmp_path / name).close()
        return rows(tmp_path / name)

    monkeypatch.setattr(results, "open_store", opening)
    write_run(tmp_path / "runs", "alpha", {"Q38/P6#1": "Giorgia Meloni"})
    first = made("results.duckdb")
    assert opened == list(MONTHS)
    assert len({row[-1] for row in first["facts"] if row[1] == "Q36/P6"}) == 2
    write_run(tmp_path / "runs", "beta", {"Q38/P6#1": "Giorgia Meloni", "Q38/P6#2": "Mario Draghi"})
    made("results.duckdb")
    assert opened == [MONTHS[2]]  # Italy's names are the same in all three
    write_run(tmp_path / "runs", "gamma", {"Q36/P6#1": "Donald Tusk", "Q36/P6#2": "Mateusz Morawiecki"})
    kept = made("results.duckdb")
    assert opened == [MONTHS[0], MONTHS[2]]  # Poland's are two
    write_run(tmp_path / "runs", "delta", {"Q36/P6#1": "Donald Tusk"})
    assert made("results.duckdb")["matches"] == kept["matches"] != []
    assert opened == []  # the same text was matched before
    assert made("anew.duckdb") == rows(tmp_path / "results.duckdb")
