"""Journals, standings and judgments in DuckDB, as one file that any DuckDB client can read.

``results.duckdb`` is a cache: it is made from the journals and the snapshots, beside the old file and then renamed, so
that readers are never locked out; deleted, it is made again with the same rows. What a run said is matched once for
each set of names, and kept for the next making. Every table and column is described in the file itself.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import orjson

from dyknow import benchmark
from dyknow.candidates import Asked
from dyknow.damage import Damaged, DamagedRun, Survey, survey, watched
from dyknow.digests import run_digest
from dyknow.journal import RunInfo, judgments, standing_judgments
from dyknow.match import ALIASES_DIGEST, MATCHER_VERSION, PARAMETERS
from dyknow.matching import Pair, match_rows
from dyknow.models import presets
from dyknow.resultsfile import Limits, limited, open_results, quoted, too_little
from dyknow.rows import (
    asked_of,
    edit_rows,
    likelihood_rows,
    named_row,
    response_rows,
    run_row,
    sha256,
    strata_rows,
    told_rows,
)
from kg import identity
from kg.answers import CoverageRow, Fact, facts, names
from kg.errors import QueryError, RunError
from kg.resources import query
from kg.snapshot import Snapshot
from kg.standings import FACTS_AT_ONCE, FactTimeline, timeline
from kg.store import Graph, open_store

Progress = Callable[[str], None]
LeftOut = Callable[[Damaged], None]

MACROS: Final = (
    "part_of", "moments", "verdicts", "soft", "table1", "table5", "table2", "samples", "beliefs", "mass",
    "since_release", "spanning", "said", "intervals", "steps", "timeline",
    "edit_scores", "edit_curve", "side_effects",
)  # fmt: skip
VIEWS: Final = (
    "asked_facts", "readings", "terms", "current_holders", "latest_verdicts", "latest_facts", "release_verdicts",
)  # fmt: skip
TABLES: Final = (
    "snapshots",
    "facts",
    "labels",
    "standings",
    "coverage",
    "runs",
    "responses",
    "strata",
    "matches",
    "judgments",
    "likelihoods",
    "edits",
)

# Written so that clients of the whole 1.x line read the file.
_STORAGE: Final = "v1.0.0"
_MATCHER: Final = ("names", "scaffold", "clauses", "handover", "candidates", "spans", "match", "matching")
_COLUMN_TYPES: Final = (
    "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = ? AND table_name = ?"
    " ORDER BY column_index"
)
_FILE_BYTES: Final = 64_000_000  # of rows on their way in: so much, and what the parts of them take, is written at once
_LINE_BYTES: Final = 1_000_000  # DuckDB takes twice the longest line as room for each thread
_STAGED_ROWS: Final = 100_000
_DAMAGED: Final = "damaged:"
"""How keys of what the file says of itself begin, of runs that it is without."""
_RESPONSE_COLUMNS: Final = (
    "run", "question", "fact", "domain", "subject", "phrasing", "counted", "sample", "prompt", "text", "status",
    "finish_reason", "raw", "logprob", "prompt_tokens", "tokens", "seconds", "server", "response_digest",
)  # fmt: skip
_STAGED_COLUMNS: Final = (*_RESPONSE_COLUMNS, "expected", "line")
_JUDGMENT_COLUMNS: Final = (
    "run", "question", "sample", "judge", "named", "entity", "verdict", "start", "as_of", "reason", "note", "time",
    "by",
)  # fmt: skip


def connect(
    runs_dir: Path,
    snapshots: Sequence[Snapshot],
    database: Path,
    progress: Progress | None = None,
    limits: Limits = Limits(),  # noqa: B008 -- a constant
    *,
    left_out: LeftOut | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection to the results, made anew first where they are stale.

    Args:
        runs_dir: the folder of all runs.
        snapshots: the snapshots that verdicts may rest on.
        database: the file; written beside and renamed.
        progress: told what is being done, where that takes time.
        limits: what DuckDB may take, for the making and for what is asked of the connection.
        left_out: told of each damaged run, which the results are without; None: a damaged run is an error.

    Raises:
        RunError: a run is damaged, or the file cannot be written.
        UsageError: a limit is no amount of memory.
    """
    found, digests = survey(runs_dir), {}
    for run in found.whole:
        try:
            digests[run.id] = run_digest(run)
        except RunError as error:  # a closed segment
            found.damaged.append(Damaged(run.id, run.path, error))
    fingerprint = _fingerprint(digests, found, snapshots)
    if (meta := _meta(database)).get("fingerprint") != fingerprint:
        readable = [run for run in found.whole if run.id in digests]
        _make(readable, snapshots, database, fingerprint, progress=progress or (lambda _: None), limits=limits)
        meta = _meta(database)
    for damaged in (*found.damaged, *_met(meta)):
        if left_out is None:
            raise damaged.error
        left_out(damaged)
    return open_results(database, limits)


def _met(meta: Mapping[str, str]) -> Iterator[Damaged]:
    """Yield the runs that were met damaged when the file was made, and are as they were."""
    for key, value in sorted(meta.items()):
        if key.startswith(_DAMAGED):
            path, message, hint = orjson.loads(value)
            yield Damaged(key.removeprefix(_DAMAGED), Path(path), RunError(message, hint=hint))


# What the file is made of


def _fingerprint(digests: Mapping[str, str], found: Survey, snapshots: Sequence[Snapshot]) -> str:
    """Return a digest of all that the rows depend on; ``digests`` are those of the runs."""
    parts = [_code_digest(), identity.load().digest, ALIASES_DIGEST, MATCHER_VERSION, benchmark.load().digest]
    parts += [sha256(presets.TABLE.read_bytes())]
    parts += [f"{snapshot.id} {_timeline_key(snapshot)}" for snapshot in snapshots]
    parts += [f"{run} {digest}" for run, digest in digests.items()]
    parts += [f"{one.id} damaged: {one.error.message}" for one in found.damaged]
    return sha256(*(part.encode() for part in parts))


def _code_digest() -> str:
    made_by = ("schema", *MACROS, *VIEWS)
    return sha256(_matcher_digest().encode(), *(query(f"dyknow/{name}.sql").encode() for name in made_by))


@cache
def _matcher_digest() -> str:
    """Return a digest of the matcher's code, words and parameters: what changed must not find old matches kept."""
    folder = Path(__file__).parent
    files = [folder / f"{name}.py" for name in _MATCHER] + [folder / "data" / "words.toml"]
    return sha256(PARAMETERS.encode(), *(file.read_bytes() for file in files))


def _timeline_key(snapshot: Snapshot) -> str:
    """Return a digest of all that a snapshot's facts, labels and standings depend on, the snapshot itself included."""
    statements = [query(f"kg/{name}.rq") for name in ("facts", "names", "terms")]
    code = [Path(__file__).parent.parent / "kg" / f"{name}.py" for name in ("answers", "standings")]
    parts = [snapshot.digest, identity.load().digest, ALIASES_DIGEST, query("dyknow/schema.sql"), *statements]
    return sha256(*(part.encode() for part in parts), *(file.read_bytes() for file in code))


def _meta(database: Path) -> dict[str, str]:
    """Return what a results file says it was made of; nothing where it is absent or not ours."""
    if not database.is_file():
        return {}
    with suppress(duckdb.Error, QueryError), open_results(database) as connection:
        return dict(connection.execute("SELECT key, value FROM meta").fetchall())
    return {}


# Making


def _make(
    runs: Sequence[RunInfo],
    snapshots: Sequence[Snapshot],
    database: Path,
    fingerprint: str,
    *,
    progress: Progress,
    limits: Limits,
) -> None:
    """Make the file beside and rename it; two makers at once each make their own, and the last one stays.

    A run that turns out damaged is left out, which the file says; it is made once more without it.
    """
    damaged: list[Damaged] = []
    while True:
        try:
            whole = [run for run in runs if run.id not in {one.id for one in damaged}]
            _make_of(whole, snapshots, database, fingerprint, damaged, progress=progress, limits=limits)
            return
        except duckdb.OutOfMemoryException as error:
            raise too_little(limits, f"make {database}") from error
        except DamagedRun as met:
            damaged.append(met.damaged)


def _make_of(
    runs: Sequence[RunInfo],
    snapshots: Sequence[Snapshot],
    database: Path,
    fingerprint: str,
    damaged: Sequence[Damaged],
    *,
    progress: Progress,
    limits: Limits,
) -> None:
    """Make the file of these runs.

    Raises:
        DamagedRun: one of them is damaged; the old file stands.
    """
    with _beside(database) as folder:
        beside = Path(folder) / "results.duckdb"
        with limited(database, limits) as connection:
            connection.execute(f"ATTACH '{quoted(beside)}' AS made (STORAGE_VERSION '{_STORAGE}')")
            old = _attach_old(connection, database)
            connection.execute("USE made")
            maker = _Maker(connection, Path(folder), old, progress)
            maker.make(runs, snapshots, fingerprint, damaged)
            connection.execute("CHECKPOINT made")
            connection.execute("USE memory")
            connection.execute("DETACH made")
        try:
            beside.replace(database)
        except OSError as error:
            raise _unwritable(database, error) from error


def _beside(database: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=f".{database.name}-", dir=database.parent)
    except OSError as error:
        raise _unwritable(database, error) from error


def _unwritable(database: Path, error: OSError) -> RunError:
    return RunError(f"{database} cannot be written: {error.strerror}.", hint="--database names another place for it.")


def _attach_old(connection: duckdb.DuckDBPyConnection, database: Path) -> dict[str, str]:
    """Attach the file that is to be replaced, if its tables are the same, and return what it was made of."""
    meta = _meta(database)
    if meta.get("schema") != sha256(query("dyknow/schema.sql").encode()):
        return {}
    try:
        connection.execute(f"ATTACH '{quoted(database)}' AS old (READ_ONLY)")
    except duckdb.Error:
        return {}
    return meta


class _Maker:
    """Fills a new results file."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, old: Mapping[str, str], progress: Progress
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._old = old
        self._progress = progress
        self._asked: dict[tuple[str, str], Asked] = {}  # by fact and digest of its names: most snapshots share them

    def make(
        self, runs: Sequence[RunInfo], snapshots: Sequence[Snapshot], fingerprint: str, damaged: Sequence[Damaged]
    ) -> None:
        self._connection.execute(query("dyknow/schema.sql"))
        for snapshot in snapshots:
            self._snapshot(snapshot)
        self._runs(runs)
        self._matches(runs, snapshots)
        for name in (*MACROS, *VIEWS):
            self._connection.execute(query(f"dyknow/{name}.sql"))
        made_of = {
            "fingerprint": fingerprint,
            "schema": sha256(query("dyknow/schema.sql").encode()),
            "matcher": _matcher_digest(),
            "matcher_version": MATCHER_VERSION,
            "identity_digest": identity.load().digest,
            **{f"timeline:{snapshot.id}": _timeline_key(snapshot) for snapshot in snapshots},
            **{_DAMAGED + one.id: _text(str(one.path), one.error.message, one.error.hint) for one in damaged},
        }
        self._insert("meta", [{"key": key, "value": value} for key, value in sorted(made_of.items())])

    def _insert(self, table: str, rows: Iterable[Mapping[str, Any]], catalog: str = "made") -> int:
        """Insert rows and count them, through files of JSON lines: the fast way in that needs no other package."""
        path, left, inserted = self._folder / f"{table}.jsonl", iter(rows), 0
        types = dict(self._connection.execute(_COLUMN_TYPES, [catalog, table]).fetchall())
        while (written := _write_lines(path, left)).rows:
            self._connection.execute(
                f"INSERT INTO {catalog}.{table} BY NAME FROM read_json(?, format = 'newline_delimited',"
                f" columns = {types!r}, maximum_object_size = {max(written.longest, _LINE_BYTES)})",
                [str(path)],
            )
            inserted += written.rows
        path.unlink()
        return inserted

    # Snapshots

    def _snapshot(self, snapshot: Snapshot) -> None:
        """Insert a snapshot's facts, labels, standings and coverage; what the old file has of it is taken over."""
        self._insert("snapshots", [{"snapshot": snapshot.id, "day": snapshot.date, "digest": snapshot.digest}])
        if self._old.get(f"timeline:{snapshot.id}") == _timeline_key(snapshot):
            for table in ("facts", "labels", "standings", "coverage"):
                self._connection.execute(
                    f"INSERT INTO made.{table} FROM old.{table} WHERE snapshot = ? ORDER BY ALL", [snapshot.id]
                )
            return
        store, known = open_store(snapshot), identity.load()
        of_snapshot = list(facts(store, known).values())
        asked = [self._shared(fact) for fact in _asked(store, known, of_snapshot)]
        self._progress(f"reading the standings of snapshot {snapshot.id}")
        self._insert("facts", ({"snapshot": snapshot.id, **fact.row()} for fact in asked))
        self._insert("labels", ({"snapshot": snapshot.id, **row} for fact in asked for row in fact.labels()))
        coverage: list[CoverageRow] = []
        self._insert("standings", self._standings(snapshot, timeline(store, known, of_snapshot), coverage))
        self._insert("coverage", ({"snapshot": snapshot.id, **row._asdict()} for row in coverage))

    def _shared(self, fact: Asked) -> Asked:
        """Return the fact as another snapshot has it under the same names, so that its names are in memory once."""
        shared = self._asked.setdefault((fact.fact, fact.digest), fact)
        return fact if shared is fact else fact._replace(candidates=shared.candidates)

    def _standings(
        self, snapshot: Snapshot, parts: Iterable[FactTimeline], coverage: list[CoverageRow]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of the standings; the few of the coverage, which come with them, are put aside."""
        for part in parts:
            coverage += part.coverage
            for row in part.standings:
                yield {"snapshot": snapshot.id, **row._asdict()}

    # Runs

    def _runs(self, runs: Sequence[RunInfo]) -> None:
        """Insert runs, responses, judgments and what else their journals say."""
        self._insert("runs", (run_row(run) for run in runs))
        self._insert("likelihoods", (row for run in runs for row in watched(run, likelihood_rows(run))))
        self._insert("strata", (row for run in runs for row in watched(run, strata_rows(run))))
        self._insert("edits", (row for run in runs for row in watched(run, edit_rows(run))))
        self._responses(runs)
        judged = (
            {"sample": 0, "named": False, **row, "run": run.id} for run in runs for row in watched(run, _judged(run))
        )
        self._insert("judgments", ({key: row.get(key) for key in _JUDGMENT_COLUMNS} for row in judged))

    def _responses(self, runs: Sequence[RunInfo]) -> None:
        """Insert the responses that count, out of all lines of the journals: DuckDB sorts them, on disk if need be."""
        self._connection.execute(query("dyknow/staged.sql"))
        staged = 0
        for place, run in enumerate(runs):
            told = watched(run, told_rows(run))
            rows = ({key: row.get(key) for key in _STAGED_COLUMNS} | {"place": place} for row in told)
            staged += self._insert("staged", rows, "memory")
            if staged > _STAGED_ROWS or place == len(runs) - 1:
                self._connection.execute(query("dyknow/settled.sql"))
                self._connection.execute("TRUNCATE memory.staged")
                staged = 0
        self._connection.execute("DROP TABLE memory.staged")

    def _matches(self, runs: Sequence[RunInfo], snapshots: Sequence[Snapshot]) -> None:
        """Match every text to the names of every snapshot, each pair once in the life of the file."""
        self._kept_matches()
        with self._connection.cursor() as reading:
            due = reading.sql(query("dyknow/matches_due.sql")).aggregate("fact, candidates_digest, count(*)").fetchall()
            named = reading.execute(query("dyknow/named_facts.sql")).fetchall()
            self._read_names({(fact, digest) for fact, digest, *_ in (*due, *named)}, snapshots)
            if (count := sum(answers for *_, answers in due)) > 500:
                self._progress(f"matching {count} answers to names")
            asked = [self._asked[fact, digest] for fact, digest in named]
            with closing(match_rows(_pairs(reading, self._asked))) as matched:
                self._insert("matches", chain(_named_rows(runs, asked), matched))

    def _read_names(self, wanted: AbstractSet[tuple[str, str]], snapshots: Sequence[Snapshot]) -> None:
        """Read the names of facts, by the digests of those, that only snapshots have which were taken over."""
        by_id = {snapshot.id: snapshot for snapshot in snapshots}
        places = self._connection.execute(query("dyknow/names_in.sql"))
        missing: dict[str, list[str]] = {}
        for fact, digest, snapshot in places.fetchall():
            if (fact, digest) in wanted and (fact, digest) not in self._asked:
                missing.setdefault(snapshot, []).append(fact)
        known = identity.load()
        for snapshot, own in missing.items():
            store = open_store(by_id[snapshot])
            for one in _asked(store, known, list(facts(store, known, own).values())):
                self._shared(one)

    def _kept_matches(self) -> None:
        """Take over what the old file's texts were matched to."""
        if self._old.get("matcher") == _matcher_digest():
            self._connection.execute(query("dyknow/matches_kept.sql"), {"version": MATCHER_VERSION})


def _text(*values: str | None) -> str:
    return orjson.dumps(values).decode()


def _judged(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield the judgments beside a run that count."""
    yield from standing_judgments(judgments(run.path))


class _Written(NamedTuple):
    """How many rows were written, and the bytes of the longest line."""

    rows: int
    longest: int


def _write_lines(path: Path, rows: Iterator[Mapping[str, Any]]) -> _Written:
    """Write rows into a file until it is large enough, or none is left."""
    count = longest = size = 0
    with path.open("wb") as file:
        for row in rows:
            count += 1
            line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
            size += file.write(line)
            longest = max(longest, len(line))
            if size > _FILE_BYTES:
                break
    return _Written(count, longest)


def _asked(store: Graph, known: identity.Identity, of_snapshot: Sequence[Fact]) -> Iterator[Asked]:
    """Yield facts with the names that a text may be matched to; the rows of few of them are in memory at once."""
    for first in range(0, len(of_snapshot), FACTS_AT_ONCE):
        batch = of_snapshot[first : first + FACTS_AT_ONCE]
        yield from asked_of(batch, names(store, known, batch)).values()


def _pairs(connection: duckdb.DuckDBPyConnection, asked: Mapping[tuple[str, str], Asked]) -> Iterator[Pair]:
    """Yield the answers that are not matched yet, each once, those of one fact together."""
    cursor, last = connection.execute(query("dyknow/matches_due.sql")), None
    while rows := cursor.fetchmany(1000):
        for response, fact, digest, prompt, text in rows:
            if last != (last := (response, fact, digest)):
                yield Pair(response, prompt, text, asked[fact, digest])


def _named_rows(runs: Iterable[RunInfo], asked: Iterable[Asked]) -> Iterator[dict[str, Any]]:
    """Yield whom runs without texts say their texts name, each once."""
    by_fact: dict[str, list[Asked]] = {}
    for one in asked:
        by_fact.setdefault(one.fact, []).append(one)
    seen = set()
    for run in runs:
        for row in response_rows(run) if run.info.get("kind") == "named" else ():
            key = row["fact"], row.get("response_digest")
            if row["status"] == "ok" and key not in seen:
                seen.add(key)
                yield from (named_row(row, one) for one in by_fact.get(row["fact"], ()))
