"""The report's part on popularity: there where a benchmark tells of it, and with the figures of the tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dyknow import results
from dyknow.analysis import score
from dyknow.report import popularity
from dyknow.report.data import Data, Model
from dyknow.report.formats import _popular
from dyknow.report.page import _popularity
from dyknow.strata import in_order
from dyknow.tables import whole
from kg.snapshot import find_snapshots
from tests import drawn

DAY = "2023-12-18"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    place: Path = tmp_path_factory.mktemp("popularity")
    drawn.write(place)
    with results.connect(place / "runs", [find_snapshots()[0]], place / "results.duckdb") as found:
        yield found


def data(connection: duckdb.DuckDBPyConnection, *runs: str) -> Data:
    models = tuple(Model(run, run, None, False, name=f"<{run}>") for run in runs)
    found = popularity.read(connection, [DAY, DAY], None, judge="match", rule="latest", runs=runs)
    return Data(models, (), (), (), (DAY,), (DAY,), popular=found)


def test_bins_stand_in_order_with_the_figures_of_table_1(connection: duckdb.DuckDBPyConnection) -> None:
    shown = data(connection, "told", "other", "plain")
    page = _popularity(shown)
    rates = {row.domain: row for row in score(connection, DAY, runs=["told"], split="popularity").table1}
    bins = in_order([name for name, row in rates.items() if name != "all" and row.n])
    assert re.findall(r"<th>([^<]+)</th>", page)[: len(bins)] == bins and len(bins) > 3
    assert "&lt;told&gt;" in page and "plain" not in page  # plain knows of no popularity
    row = page[page.index("&lt;told&gt;") :].partition("</tr>")[0]
    for place, cell in enumerate(re.findall(r"<td>(\d+)<small>(\d+)–(\d+)</small>.*?n (\d+)", row)):
        own = rates[bins[place]]
        low, high = own.up_to_date_interval or (0, 0)
        assert cell == (whole(own.up_to_date), whole(low), whole(high), str(own.n))
    assert row.count("<svg") == len(bins) and re.search(r"<td>[+−]\d", row)
    lines = _popular(shown, DAY).splitlines()
    assert sum("told" in line for line in lines) == len(bins)


def test_without_popularity_there_is_no_such_part(connection: duckdb.DuckDBPyConnection) -> None:
    assert _popularity(data(connection, "plain")) == ""
