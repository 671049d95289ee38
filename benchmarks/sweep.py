"""A sweep over 200 dates against judging each date anew, over 100,000 answers made up from the shipped holders.

The answers are those of 257 runs to every question; who is named follows from a hash.

``python -m benchmarks.sweep`` prints it, and so does ``make bench``. The judging of each date is measured on a few
dates and multiplied: all 200 would take a minute. Both ways give Tables 1 and 5, as arrays and as rows.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

from dyknow import results
from dyknow.timeline import Swept, as_date, as_day, rates
from kg.dates import format_day
from kg.resources import query
from kg.snapshot import find_snapshots

Found = TypeVar("Found")

SNAPSHOT = "2023-12-18"
ANSWERS, SAMPLES, DATES, TRIED = 100_000, 1, 200, 5

_COPIED = ("snapshots", "facts", "labels", "standings", "coverage")


_RUNS = """
INSERT INTO runs BY NAME
SELECT 'run' || n AS run, 'run' || n AS title, false AS prefixed, $samples AS samples
FROM range(CAST(ceil($answers / (390 * $samples)) AS BIGINT)) AS _(n)
"""
_RESPONSES = """
INSERT INTO responses BY NAME
SELECT r.run, f.fact || '#' || p AS question, f.fact, f.subject, true AS counted, CAST(p AS VARCHAR) AS phrasing,
       CASE split_part(f.fact, '/', 2) WHEN 'P54' THEN 'athletes' WHEN 'P169' THEN 'organizations'
            ELSE 'countries' END AS domain,
       n AS sample, 'ok' AS status, md5(r.run || f.fact || p || '/' || n) AS response_digest
FROM runs AS r, facts AS f, range(1, 4) AS _(p), range(r.samples) AS _s(n)
ORDER BY r.run, f.fact, p, n
LIMIT $answers
"""
_MATCHES = """
INSERT INTO matches BY NAME
WITH holders AS (SELECT fact, list(entity ORDER BY entity) AS all_of FROM labels GROUP BY fact),
drawn AS (
  SELECT r.response_digest, r.fact, f.candidates_digest, 'made up' AS matcher_version,
         CASE WHEN hash(r.response_digest) % 8 > 0
              THEN h.all_of[1 + CAST(hash(r.response_digest, 1) % len(h.all_of) AS BIGINT)] END AS entity
  FROM responses AS r JOIN facts AS f ON f.fact = r.fact JOIN holders AS h ON h.fact = r.fact
)
SELECT *, CASE WHEN entity IS NULL THEN 'unknown name' ELSE 'matched' END AS reason FROM drawn
"""


@dataclass(frozen=True)
class Measured:
    """How long both ways took, in seconds."""

    answers: int
    dates: int
    sweep: float
    tried: int  # dates that were judged anew
    anew: float  # for all dates, from those tried

    @property
    def ratio(self) -> float:
        """How many times as fast the sweep is."""
        return self.anew / self.sweep


def made(folder: Path, answers: int = ANSWERS, samples: int = SAMPLES) -> duckdb.DuckDBPyConnection:
    """Return results with made-up answers: each names a holder of its fact, or in one case of eight nobody."""
    snapshots = [snapshot for snapshot in find_snapshots() if snapshot.id == SNAPSHOT]
    results.connect(folder / "runs", snapshots, folder / "shipped.duckdb").close()
    connection = duckdb.connect(str(folder / "made.duckdb"))
    connection.execute(f"ATTACH '{folder / 'shipped.duckdb'}' AS shipped (READ_ONLY)")
    connection.execute(query("dyknow/schema.sql"))
    for table in _COPIED:
        connection.execute(f"INSERT INTO {table} FROM shipped.{table}")
    connection.execute(_RUNS, {"answers": answers, "samples": samples})
    connection.execute(_RESPONSES, {"answers": answers})
    connection.execute(_MATCHES)
    for macro in results.MACROS:
        connection.execute(query(f"dyknow/{macro}.sql"))
    return connection


def measure(answers: int = ANSWERS, samples: int = SAMPLES, dates: int = DATES, tried: int = TRIED) -> Measured:
    """Return how long a sweep of Tables 1 and 5 takes, and the making of both anew for each date."""
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), answers, samples) as connection:
        last = as_date(20231201)
        days = [as_day(last - timedelta(30 * n)) for n in reversed(range(dates))]
        swept, found = _best(lambda: rates(connection, days, constraints=["soft", "average"]))
        chosen = days[:: max(dates // tried, 1)][:tried]
        anew = 0.0
        for table, own in zip(("table1", "table5"), found, strict=True):
            for day in chosen:
                call = f"SELECT run, domain, n, up_to_date FROM {table}(?, known_at := ?)"
                values = [format_day(day), SNAPSHOT]
                took, rows = _best(partial(_rows, connection, call, values))
                anew += took
                _same(rows, own, day)
        return Measured(answers, dates, swept, len(chosen), anew / len(chosen) * dates)


def _rows(
    connection: duckdb.DuckDBPyConnection, call: str, values: list[str]
) -> list[tuple[str, str, int, float | None]]:
    return connection.execute(call, values).fetchall()


def _best(work: Callable[[], Found]) -> tuple[float, Found]:
    """Return the least time of three tries, and what came of the work."""
    tries = []
    for _ in range(3):
        start = time.perf_counter()
        found = work()
        tries.append(time.perf_counter() - start)
    return min(tries), found


def _same(rows: Sequence[tuple[str, str, int, float | None]], swept: Swept, day: int) -> None:
    """Check that both ways give the same rates."""
    place = swept.days.index(day)
    for run, domain, n, rate in rows:
        group = swept.groups.index((run, domain))
        assert swept.n[group, place] == n
        assert rate is None or abs(swept.up_to_date[group, place] - rate) < 1e-9


def show(measured: Measured) -> str:
    """Return what was measured as a line."""
    return (
        f"sweep, {measured.answers} answers, {measured.dates} dates: {measured.sweep:.2f} s; each date judged anew"
        f" {measured.anew:.0f} s ({measured.tried} dates measured and multiplied), ratio {measured.ratio:.0f}"
    )


if __name__ == "__main__":
    print(show(measure()))
