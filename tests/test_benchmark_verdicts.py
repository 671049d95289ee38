"""The harness of fifty million verdicts, on three hundred."""

import pytest

from benchmarks import verdicts
from benchmarks.verdicts import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("made")
    place = Place(folder, "1GB")
    verdicts.make(place.database, 300, 10, 40, "1GB")
    return place


def test_the_steps_say_what_they_found(place: Place) -> None:
    assert verdicts.tables(place).startswith("40, 40, 10 rows of 100 facts, 80 with intervals; ")
    assert verdicts.sweep(place) == "8,000 cells of 40 groups and 200 dates"
    assert verdicts.export(place).endswith(" GB")
    assert len([*place.export.glob("verdicts/as_of=2023-12-18/run=*/*.parquet")]) == 10


@pytest.mark.spark
def test_spark_has_the_same_table_and_tells_another(place: Place) -> None:
    verdicts.tables(place)
    verdicts.export(place)
    assert verdicts.spark(place).startswith("40 rows, each the same as DuckDB's; Java took ")
    place.table1.write_text(place.table1.read_text().replace("40.0", "40.1").replace("60.0", "60.1"))
    with pytest.raises(SystemExit, match=r"Spark's Table 1 of 40 rows is not DuckDB's of 40\."):
        verdicts.spark(place)
