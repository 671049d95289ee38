"""Tables, a sweep and an export of verdicts by the ten million, out of core: ``python -m benchmarks.verdicts FOLDER``.

``tables`` is what ``dyknow score --intervals`` does, ``sweep`` what ``dyknow timeline`` does on 200 dates, ``export``
what ``dyknow export results`` does. ``spark``, which must be asked for and needs the extra of that name, makes Table 1
in Spark from the export, and compares it with what ``tables`` found, row by row.

The results are made up inside DuckDB: facts with five holders who follow one another, runs that each ask three
phrasings of a part of the facts, and answers of which seven in eight name a holder. No two answers share a digest: the
hardest case, for models that answer with the same words share theirs. Every step runs in a process of its own, under
the memory limit, and says how long it took and what memory the process held at its peak, Java's too.

    python -m benchmarks.verdicts /tmp/verdicts --rows 1000000 --memory-limit 400MB
    python -m benchmarks.verdicts /tmp/verdicts --rows 50000000 --memory-limit 4GB
    python -m benchmarks.verdicts /tmp/verdicts --rows 1000000 --only tables export spark --driver-memory 2g
"""

import argparse
import json
import math
import os
import resource
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from dyknow import analysis, results, resultsfile, tablefiles
from dyknow.analysis import Rates
from dyknow.timeline import rates
from kg.resources import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNAPSHOT: Final = "2025-11-30"
AS_OF: Final = "2023-12-18"
DATES: Final = 200
HOLDERS: Final = 5

_SNAPSHOT = "INSERT INTO snapshots VALUES ('2025-11-30', 20251130, 'made up')"
_FACTS = """
INSERT INTO facts BY NAME
SELECT '2025-11-30' AS snapshot, 'Q' || (9000000000 + n) || '/P' || (35 + n % 3) AS fact, 'Subject ' || n AS subject,
       'P' || (35 + n % 3) AS property, true AS whole, sha256('names of ' || n) AS candidates_digest
FROM range($facts) AS _(n)
"""
# Terms of one to five years, end to end; the last is open. The days of a fact follow from a hash.
_TERMS = """
CREATE TEMP TABLE terms AS
WITH drawn AS (
  SELECT 'Q' || (9000000000 + f.n) || '/P' || (35 + f.n % 3) AS fact, h.n AS place,
         'Q' || (10000000000 + f.n * 10 + h.n) AS entity,
         DATE '2000-01-01' + CAST(sum(365 + hash(f.n, h.n) % 1460) OVER earlier AS INTEGER) AS start
  FROM range($facts) AS f(n), range($holders) AS h(n)
  WINDOW earlier AS (PARTITION BY f.n ORDER BY h.n)
)
SELECT d.*, lead(d.start) OVER (PARTITION BY d.fact ORDER BY d.place) AS ends FROM drawn AS d
"""
_LABELS = "INSERT INTO labels SELECT '2025-11-30', fact, entity, 'Holder ' || entity FROM terms ORDER BY ALL"
_STANDINGS = """
INSERT INTO standings BY NAME
WITH days AS (
  SELECT *, CAST(strftime(start, '%Y%m%d') AS INTEGER) AS start_day,
         CAST(strftime(ends, '%Y%m%d') AS INTEGER) AS end_day
  FROM terms
),
stretches AS (
  SELECT *, unnest([{'from_day': -99999999, 'to_day': start_day, 'standing': 'later', 'validity': 'no'},
                    {'from_day': start_day, 'to_day': end_day, 'standing': 'up-to-date', 'validity': 'certain'},
                    {'from_day': end_day, 'to_day': NULL, 'standing': 'outdated', 'validity': 'no'}], recursive := true)
  FROM days
)
SELECT '2025-11-30' AS snapshot, fact, entity, rule, from_day, to_day, standing, true AS certain, validity,
       false AS superseded, 'statement of ' || entity AS statement, start_day, end_day
FROM stretches, (VALUES ('latest'), ('study')) AS _(rule)
WHERE from_day IS NOT NULL
ORDER BY fact, entity, rule, from_day
"""
_COVERAGE = """
INSERT INTO coverage BY NAME
WITH firsts AS (SELECT fact, CAST(strftime(min(start), '%Y%m%d') AS INTEGER) AS day FROM terms GROUP BY fact)
SELECT '2025-11-30' AS snapshot, fact, rule,
       unnest([{'from_day': -99999999, 'to_day': day, 'status': 'before the first record'},
               {'from_day': day, 'to_day': NULL, 'status': 'answered'}], recursive := true)
FROM firsts, (VALUES ('latest'), ('study')) AS _(rule)
ORDER BY fact, rule
"""
_RUNS = """
INSERT INTO runs BY NAME
SELECT 'run' || lpad(CAST(n AS VARCHAR), 4, '0') AS run, 'asked' AS kind, 'Model ' || n AS title, false AS prefixed,
       1 AS samples, DATE '2019-01-01' + CAST(4 * n AS INTEGER) AS released, 'day' AS release_known
FROM range($runs) AS _(n)
"""
# Each run asks as many facts, from a place of its own on.
_ASKED = """
WITH drawn AS (
  SELECT r.run, (r.place * 7919 + a.n // 3) % $facts AS f, 1 + a.n % 3 AS phrasing
  FROM (SELECT run, CAST(substr(run, 4) AS BIGINT) AS place FROM runs WHERE run BETWEEN $first AND $last) AS r,
       range($answers) AS a(n)
),
asked AS (
  SELECT *, 'Q' || (9000000000 + f) || '/P' || (35 + f % 3) AS fact, hash(run, f, phrasing) AS drawn FROM drawn
)
"""
_RESPONSES = f"""
INSERT INTO responses BY NAME
{_ASKED}
SELECT run, fact || '#' || phrasing AS question, fact, 'Subject ' || f AS subject, true AS counted,
       CAST(phrasing AS VARCHAR) AS phrasing, ['countries', 'athletes', 'organizations'][1 + f % 3] AS domain,
       0 AS sample, 'Subject ' || f || ' is led by' AS prompt, 'It is number ' || drawn % 8 AS text, 'ok' AS status,
       sha256(run || fact || phrasing) AS response_digest
FROM asked
"""
_MATCHES = f"""
INSERT INTO matches BY NAME
{_ASKED}
SELECT sha256(run || fact || phrasing) AS response_digest, fact, sha256('names of ' || f) AS candidates_digest,
       'made up' AS matcher_version, 'exact' AS match_rule,
       CASE WHEN drawn % 8 > 0 THEN 'Q' || (10000000000 + f * 10 + drawn // 8 % $holders) END AS entity,
       CASE WHEN drawn % 8 > 0 THEN 'matched' ELSE 'unknown name' END AS reason
FROM asked
"""
_PART: Final = 25  # runs that are made at once


def make(database: Path, rows: int, runs: int, facts: int, limit: str) -> None:
    """Make up results of so many answers."""
    beside = database.with_suffix(".new")
    beside.unlink(missing_ok=True)
    config: dict[str, Any] = {"memory_limit": limit, "storage_compatibility_version": "v1.0.0"}
    with duckdb.connect(str(beside), config=config) as made:
        made.execute(query("dyknow/schema.sql"))
        made.execute(_SNAPSHOT)
        made.execute(_FACTS, {"facts": facts})
        made.execute(_TERMS, {"facts": facts, "holders": HOLDERS})
        for statement in (_LABELS, _STANDINGS, _COVERAGE):
            made.execute(statement)
        made.execute(_RUNS, {"runs": runs})
        names = [name for (name,) in made.execute("SELECT run FROM runs ORDER BY run").fetchall()]
        for place in range(0, runs, _PART):
            part = {"first": names[place], "last": names[min(place + _PART, runs) - 1]}
            part |= {"facts": facts, "answers": rows // runs}
            made.execute(_RESPONSES, part)
            made.execute(_MATCHES, part | {"holders": HOLDERS})
        for name in (*results.MACROS, *results.VIEWS):
            made.execute(query(f"dyknow/{name}.sql"))
        made.execute("INSERT INTO meta VALUES ('fingerprint', 'made up')")
    beside.replace(database)


def days() -> list[int]:
    """Return 200 days, five weeks apart."""
    [(found,)] = duckdb.execute(
        "SELECT list(CAST(strftime(DATE '2025-11-01' - CAST(35 * n AS INTEGER), '%Y%m%d') AS INTEGER) ORDER BY n DESC)"
        " FROM range(?) AS _(n)",
        [DATES],
    ).fetchall()
    return list(found)


def tables(place: "Place") -> str:
    """Make Tables 1, 5 and 2 with their intervals, and keep the rows of the first for Spark's to be compared with."""
    with place.opened() as connection:
        scores = analysis.score(connection, AS_OF)
    width = Rates._fields.index("up_to_date_interval")
    place.table1.write_text(json.dumps([row[:width] for row in scores.table1]), encoding="utf-8")
    every = [row for row in scores.table1 if row.domain == "all"]
    bounded = sum(row.up_to_date_interval is not None for row in (*scores.table1, *scores.table5))
    sizes = ", ".join(str(len(table)) for table in (scores.table1, scores.table5, scores.table2))
    facts, share = sum(row.facts for row in every), sum(row.up_to_date or 0 for row in every) / len(every)
    return f"{sizes} rows of {facts:,} facts, {bounded} with intervals; {share:.1f} % up-to-date"


def sweep(place: "Place") -> str:
    """Sweep 200 dates, as ``dyknow timeline`` does."""
    with place.opened() as connection:
        [found] = rates(connection, days())
    return f"{found.n.size:,} cells of {len(found.groups)} groups and {len(found.days)} dates"


def export(place: "Place") -> str:
    """Write all tables and the verdicts of a date as Parquet."""
    with place.opened() as connection:
        files = tablefiles.write(connection, place.export, "parquet", tablefiles.Wanted(days=(AS_OF,)))
    size = sum(file.stat().st_size for file in files)
    return f"{len(files)} files, {size / 1e9:.2f} GB"


def spark(place: "Place") -> str:
    """Make Table 1 in Spark from the export, and compare it with DuckDB's."""
    from kg.sources.spark import session  # noqa: PLC0415 -- this step alone needs the extra

    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {place.driver_memory} pyspark-shell"
    os.environ["SPARK_LOCAL_DIRS"] = str(place.folder / "spill")
    made = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "spark_table1.py"))["table1"]
    with session() as started:
        theirs = sorted((tuple(row) for row in made(started, str(place.export), AS_OF).collect()), key=_name)
        java = _of_java(started)
    ours = sorted((tuple(row) for row in json.loads(place.table1.read_text(encoding="utf-8"))), key=_name)
    if not ours or not all(map(_same, ours, theirs)) or len(ours) != len(theirs):
        raise SystemExit(f"Spark's Table 1 of {len(theirs)} rows is not DuckDB's of {len(ours)}.")
    return f"{len(theirs)} rows, each the same as DuckDB's; {java}"


def _name(row: tuple[Any, ...]) -> tuple[str, str]:
    return row[0], row[4]


def _same(row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(one, same, rel_tol=1e-12) if isinstance(one, float) else one == same
        for one, same in zip(row, other, strict=True)
    )


def _of_java(started: "SparkSession") -> str:
    """Return what the process of Java has taken, as Linux tells it."""
    pid = started.sparkContext._gateway.proc.pid
    told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # ticks of user and system
    seconds = sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")
    return f"Java took {seconds:.0f} s of processors and at most {int(told['VmHWM'].split()[0]) / 1024**2:.2f} GiB"


STEPS: Final[dict[str, Callable[["Place"], str]]] = {
    "tables": tables,
    "sweep": sweep,
    "export": export,
    "spark": spark,
}


class Place(NamedTuple):
    """Where the results are, and what a step may take."""

    folder: Path
    limit: str  # of DuckDB's memory
    driver_memory: str = "4g"  # of Spark's

    @property
    def database(self) -> Path:
        """The results."""
        return self.folder / "verdicts.duckdb"

    @property
    def export(self) -> Path:
        """What the step ``export`` writes."""
        return self.folder / "export"

    @property
    def table1(self) -> Path:
        """The rows that the step ``tables`` found."""
        return self.folder / "table1.json"

    def opened(self) -> duckdb.DuckDBPyConnection:
        """Return the results as the commands open them."""
        return resultsfile.open_results(self.database, resultsfile.Limits(self.limit, self.folder / "spill"))


def step(name: str, place: Place) -> None:
    """Take one step in this process, and print how long it took and the most memory it held."""
    start, used = time.perf_counter(), time.process_time()
    said = STEPS[name](place)
    took, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # KiB on Linux
    print(f"{name}: {took:.0f} s ({used:.0f} of processors), at most {peak:.2f} GiB; {said}", flush=True)


def main() -> None:
    """Make the results up and take every step in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="answers, of all runs")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--memory-limit", default="4GB")
    parser.add_argument("--driver-memory", default="4g", help="of Spark")
    parser.add_argument("--only", choices=STEPS, nargs="+", default=["tables", "sweep", "export"])
    parser.add_argument("--step", choices=("make", *STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="leave what was made up, and use what is there")
    chosen = parser.parse_args()
    place = Place(chosen.folder, chosen.memory_limit, chosen.driver_memory)
    if chosen.step == "make":
        make(place.database, chosen.rows, chosen.runs, chosen.facts, chosen.memory_limit)
    elif chosen.step:
        step(chosen.step, place)
    else:
        _all(chosen, place)


def _all(chosen: argparse.Namespace, place: Place) -> None:
    place.folder.mkdir(parents=True, exist_ok=True)
    if not (chosen.keep and place.database.is_file()):
        start = time.perf_counter()
        _run("make", chosen)
        size = place.database.stat().st_size / 1e9
        print(f"made {chosen.rows:,} answers: {time.perf_counter() - start:.0f} s, {size:.2f} GB")
    for name in chosen.only:
        _run(name, chosen)
    if not chosen.keep:
        place.database.unlink()
        place.table1.unlink(missing_ok=True)
        shutil.rmtree(place.export, ignore_errors=True)


def _run(name: str, chosen: argparse.Namespace) -> None:
    given = {
        "--rows": chosen.rows,
        "--runs": chosen.runs,
        "--facts": chosen.facts,
        "--memory-limit": chosen.memory_limit,
        "--driver-memory": chosen.driver_memory,
    }
    flags = [str(word) for pair in given.items() for word in pair]
    command = [sys.executable, "-m", "benchmarks.verdicts", str(chosen.folder), "--step", name, *flags]
    subprocess.run(command, check=True, env=os.environ)


if __name__ == "__main__":
    main()
