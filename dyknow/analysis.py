"""The study's tables and what lies behind them, as typed rows.

The figures come from the macros of results.duckdb; nothing here computes a verdict.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from dyknow.resultsfile import Table, run_sql
from dyknow.strata import arranged, checked
from dyknow.tabulation import Asked, Tabulated, by_runs, tabulated
from kg.dates import parse_day
from kg.errors import UsageError
from kg.resources import query

if TYPE_CHECKING:
    from dyknow.statistics import Interval

RELEASE: Final = "release"
"""Stands for a day where each run is to be judged as of the day its model came out."""

MUCH_OUTDATED: Final = 40.0
"""Per cent of outdated facts above which the study marks a model with a dagger."""
MUCH_UP_TO_DATE: Final = 70.0
"""Per cent of up-to-date facts above which it marks one with a double dagger."""


class Rates(NamedTuple):
    """A row of Table 1, 4 or 5: one run in one domain, in per cent of n."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    domain: str  # "countries", "athletes", "organizations", or "all"; or the part that tables are split by
    facts: int
    n: int  # facts that are covered and complete
    up_to_date: float | None  # the upper bound; None where n is 0
    outdated: float | None
    irrelevant: float | None
    up_to_date_lower: float | None  # certain standings only
    up_to_date_upper: float | None
    incomplete: int
    not_covered: int
    # 95 % intervals, facts drawn anew; None where n is 0 or none were asked for
    up_to_date_interval: "Interval | None" = None
    outdated_interval: "Interval | None" = None
    irrelevant_interval: "Interval | None" = None
    up_to_date_lower_interval: "Interval | None" = None
    up_to_date_upper_interval: "Interval | None" = None

    @property
    def mark(self) -> str:
        """The study's mark: † over 40 % outdated, ‡ over 70 % up-to-date."""
        if (self.outdated or 0) > MUCH_OUTDATED:
            return "†"
        return "‡" if (self.up_to_date or 0) > MUCH_UP_TO_DATE else ""


class Inconsistency(NamedTuple):
    """A row of Table 2: the per cent of n facts whose phrasings are answered differently."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    n: int
    value: float | None
    domain: str = "all"  # or the part that tables are split by
    interval: "Interval | None" = None


class Moment(NamedTuple):
    """The day a run is judged as of, where that is the day its model came out."""

    run: str
    day: str
    snapshot: str
    known: str  # "day", or "year": it is the last day of that
    source: str | None  # who says so

    @property
    def text(self) -> str:
        """The day, marked where only the year is known."""
        return f"≤{self.day}" if self.known == "year" else self.day


class SinceRelease(NamedTuple):
    """How many of n facts were outdated at release already, and have become outdated since; shares in per cent."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    released: str
    domain: str  # or "all"
    n: int  # facts that are covered and complete on both days
    outdated_at_release: int
    outdated_since: int
    outdated_at_release_share: float
    outdated_since_share: float
    outdated_at_release_interval: "Interval | None" = None
    outdated_since_interval: "Interval | None" = None


class Scores(NamedTuple):
    """The study's tables for one date, or for the day each model came out."""

    as_of: str  # a day, or "release"
    snapshot: str  # several, with commas, where days are
    judge: str
    rule: str
    table1: tuple[Rates, ...]
    table5: tuple[Rates, ...]
    table2: tuple[Inconsistency, ...]
    moments: tuple[Moment, ...] = ()  # of the runs, where as_of is "release"
    split: str = "domain"  # what the tables are split by: that, or one of dyknow.strata.PARTS


class Sampled(NamedTuple):
    """How the samples of one fact are distributed, in per cent of the n that count."""

    run: str
    domain: str
    fact: str
    subject: str
    n: int
    up_to_date: float
    outdated: float
    other: float
    self_consistency: float
    most_named: str | None


class Mass(NamedTuple):
    """How a model's belief is spread over the holders of n facts, in per cent."""

    run: str
    domain: str  # or "all"
    n: int
    up_to_date: float
    outdated: float
    later: float
    first_up_to_date: float  # how often the likeliest holder is up-to-date
    first_outdated: float
    up_to_date_interval: "Interval | None" = None
    outdated_interval: "Interval | None" = None
    later_interval: "Interval | None" = None
    first_up_to_date_interval: "Interval | None" = None
    first_outdated_interval: "Interval | None" = None


class Change(NamedTuple):
    """A fact whose verdict differs between two dates."""

    fact: str
    domain: str
    subject: str
    office: str | None
    answer: str | None  # whom the model names
    before: str
    after: str


class Explanation(NamedTuple):
    """All that explains the verdict of one response."""

    run: str
    question: str
    sample: int
    subject: str
    office: str | None
    prompt: str | None
    text: str | None
    verdict: str
    reason: str | None
    entity: str | None
    label: str | None
    matched: str | None
    alias: str | None
    match_rule: str | None
    score: float | None
    standing: str | None
    from_day: int | None
    to_day: int | None
    start_day: int | None
    end_day: int | None
    certain: bool
    statement: str | None
    snapshot: str
    snapshot_digest: str
    matcher_version: str | None
    up_to_date: tuple[str, ...]  # whom the snapshot lets stand as the answer


def score(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    intervals: bool = True,
    split: str = "domain",
) -> Scores:
    """Return Tables 1/4, 5 and 2 as of a day, for all runs or the named ones.

    With "release" for a day each run is judged as of the day its model came out; those without one are left out.
    Without intervals, which a sweep over many days may not need, it takes half the time. Split by "popularity",
    "property", "region" or "stratum", the rows are of those parts instead of the domains, and those of Table 2 too.

    Raises:
        UsageError: a run is not there, the judge has judged nothing, the day is no date, or there is no such part.
        QueryError: the snapshot is not there, or the judge judged for another day.
    """
    chosen = _chosen(connection, judge, runs)
    checked(split)
    snapshot = snapshot_for(connection, as_of, known_at, chosen)
    dated = tuple(moments(connection, known_at, chosen)) if as_of == RELEASE else ()
    counted = {moment.run for moment in dated} if as_of == RELEASE else chosen
    found = tabulated(connection, Asked(as_of, known_at, judge, rule), counted, split, intervals=intervals)
    table1, table5 = (_rates(found, number) for number in "15")
    return Scores(as_of, snapshot, judge, rule, table1, table5, _inconsistencies(found), dated, split)


def _rates(found: Tabulated, number: str) -> tuple[Rates, ...]:
    def own(row: Rates) -> Rates:
        names = [name.removesuffix("_interval") for name in Rates._fields if name.endswith("_interval")]
        bounds = {f"{name}_interval": found.intervals.get((row.run, row.domain, f"{number} {name}")) for name in names}
        return row._replace(**bounds)  # type: ignore[arg-type]  # the fields of these names

    return tuple(own(Rates(*row)) for row in found.rows[f"table{number}"])


def _inconsistencies(found: Tabulated) -> tuple[Inconsistency, ...]:
    rows = (Inconsistency(*row) for row in found.rows["table2"])
    return tuple(row._replace(interval=found.intervals.get((row.run, row.domain, "2 inconsistent"))) for row in rows)


def samples(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
) -> list[Sampled]:
    """Return how the samples of each fact are distributed, of the runs that have several.

    Raises:
        UsageError: as for `score`; or no run has several samples of a question.
    """
    chosen = _chosen(connection, judge, runs)
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule}
    call = "FROM samples($as_of, known_at := $known_at, judge := $judge, rule := $rule)"
    found = [Sampled(*row) for row in _rows(connection, chosen, call, values)]
    if not found:
        hint = "Draw some: dyknow run MODEL --samples 10 --temperature 0.7"
        raise UsageError("No run has several answers to a question.", hint=hint)
    return found


def mass(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    split: str = "domain",
) -> list[Mass]:
    """Return how the belief of each model whose holders were scored is spread, by domain or as `score` splits tables.

    Raises:
        UsageError: as for `score`; or no run has scored holders.
    """
    chosen = _chosen(connection, "match", runs)
    values = {"as_of": as_of, "known_at": known_at, "rule": rule, "split": checked(split)}
    call = "FROM mass($as_of, known_at := $known_at, rule := $rule, split := $split)"
    found = [Mass(*row) for row in _rows(connection, chosen, call, values)]
    if not found:
        what = "No run has scored holders of a fact covered on that day."
        raise UsageError(what, hint="Score them: dyknow run MODEL --ask loglik")
    names = ("up_to_date", "outdated", "later", "first_up_to_date", "first_outdated")
    bounds = _intervals_of(connection, chosen, "fact_mass", names, values)
    return [row._replace(**bounds(row)) for row in arranged(found)]


def _rows(
    connection: duckdb.DuckDBPyConnection, runs: Collection[str], statement: str, values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement about all runs, worked out for some of these at a time."""
    return [*chain.from_iterable(by_runs(connection, runs, lambda: run_sql(connection, statement, values).rows))]


def _intervals_of(
    connection: duckdb.DuckDBPyConnection,
    runs: Collection[str],
    statement: str,
    measures: Sequence[str],
    values: Mapping[str, Any],
) -> Callable[[Mass | SinceRelease], dict[str, Any]]:
    """Return what finds a row's intervals, by field, from what each fact adds to the measures."""
    from dyknow.rates import intervals_of  # noqa: PLC0415 -- numpy takes a tenth of a second, which others need not wait

    text = query(f"dyknow/{statement}.sql")
    counted = f"SELECT DISTINCT fact FROM ({text.rstrip().rstrip(';')})"
    facts = sorted({fact for (fact,) in _rows(connection, runs, counted, values)})
    some = by_runs(connection, runs, lambda: intervals_of(connection, text, values, measures, facts=facts))
    found = dict(chain.from_iterable(part.items() for part in some))
    return lambda row: {f"{name}_interval": found.get((row.run, row.domain, name)) for name in measures}


def since_release(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    split: str = "domain",
) -> list[SinceRelease]:
    """Return what was outdated when each model came out and what has become outdated until a day, by domain.

    Other parts stand in the domains' place, as in `score`, where it is split by them. Runs without a known release, and
    those of models that came out after the day, are left out.

    Raises:
        UsageError: as for `score`; or no run is left.
    """
    chosen = _chosen(connection, judge, runs)
    parse_day(as_of)
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule, "split": checked(split)}
    statement = (
        "SELECT * REPLACE (CAST(s.released AS VARCHAR) AS released)"
        " FROM since_release($as_of, known_at := $known_at, judge := $judge, rule := $rule, split := $split) AS s"
    )
    found = [SinceRelease(*row) for row in _rows(connection, chosen, statement, values)]
    if not found:
        released = run_sql(connection, "SELECT run FROM runs WHERE released <= CAST($as_of AS DATE)", {"as_of": as_of})
        if chosen & {run for (run,) in released.rows}:
            said = "No fact is covered and answered both at a model's release and on the later day."
            raise UsageError(said, hint="Name a snapshot that knows the facts: --known-at DATE.")
        raise UsageError(f"No run is of a model known to have come out by {as_of}.", hint=_RELEASE_HINT)
    found.sort(key=lambda row: (row.released, row.run))
    bounds = _intervals_of(connection, chosen, "fact_since", ("outdated_at_release", "outdated_since"), values)
    return [row._replace(**bounds(row)) for row in arranged(found)]


def moments(
    connection: duckdb.DuckDBPyConnection, known_at: str | None = None, runs: Collection[str] | None = None
) -> list[Moment]:
    """Return the day each run's model came out, oldest first, and the snapshot that its verdicts as of then rest on.

    Raises:
        UsageError: none of the runs has one.
        QueryError: the snapshot is not there.
    """
    statement = (
        "SELECT m.run, CAST(m.on_date AS VARCHAR), m.snapshot, r.release_known, r.release_source"
        " FROM moments('release', known_at := $known_at) AS m JOIN runs AS r ON r.run = m.run ORDER BY m.on_date, m.run"
    )
    rows = run_sql(connection, statement, {"known_at": known_at}).rows
    found = [Moment(*row) for row in rows if runs is None or row[0] in runs]
    if not found:
        raise UsageError("Of no run it is known when its model came out.", hint=_RELEASE_HINT)
    return found


_RELEASE_HINT: Final = "Say so when asking: --year 2024, or `released = 2024-05-01` in a file for --settings."


def whole_runs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the runs that tables show where none is named, by name.

    A run that asked an edited model only for what was edited stands in the tables of edits; beside others it would seem
    the best of all. Where there are no other runs, it is all that there is.
    """
    found = [str(run) for (run,) in run_sql(connection, query("dyknow/whole_runs.sql")).rows]
    return found or [str(run) for (run,) in run_sql(connection, "SELECT run FROM runs ORDER BY run").rows]


def _chosen(connection: duckdb.DuckDBPyConnection, judge: str, runs: Sequence[str] | None) -> set[str]:
    """Return the runs a table shows: those asked for, else all that the judge has judged."""
    known = {row[0] for row in run_sql(connection, "SELECT run FROM runs").rows}
    if unknown := [run for run in runs or () if run not in known]:
        raise UsageError(f"There is no run {unknown[0]}.", hint=f"Runs: {', '.join(sorted(known)) or 'none yet'}.")
    wanted = set(runs or whole_runs(connection))
    if judge == "match":
        return wanted
    judged = run_sql(connection, "SELECT DISTINCT run FROM judgments WHERE judge = $judge", {"judge": judge}).rows
    found = {row[0] for row in judged} & wanted
    if not found:
        hint = "dyknow judge list tells who has judged what; dyknow judge import brings judgments in."
        raise UsageError(f"No run holds verdicts of the judge {judge}.", hint=hint)
    return found


def snapshot_for(
    connection: duckdb.DuckDBPyConnection, as_of: str, known_at: str | None, runs: Collection[str] | None = None
) -> str:
    """Return the snapshot that verdicts as of a day rest on: the named one, or as the macro ``moments`` chooses.

    Of the days these runs' models came out ("release") it is one or several, with commas between.

    Raises:
        UsageError: the text is not a date, or there is no such snapshot.
    """
    if as_of == RELEASE and known_at is None:
        return ", ".join(sorted({moment.snapshot for moment in moments(connection, runs=runs)}))
    day = parse_day(as_of) if as_of != RELEASE else 0
    known = {str(name): of for name, of in run_sql(connection, "SELECT snapshot, day FROM snapshots ORDER BY day").rows}
    if not known:
        raise UsageError("There is no snapshot.", hint="Take one: dyknow snapshot take --help")
    if known_at is None:
        return next((name for name, of in known.items() if of >= day), list(known)[-1])
    if known_at not in known:
        raise UsageError(f"There is no snapshot {known_at}.", hint=f"Snapshots: {', '.join(known)}.")
    return known_at


def changes(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    before: str,
    after: str,
    *,
    judge: str = "match",
    rule: str = "latest",
) -> list[Change]:
    """Return the facts whose verdict under the soft constraint differs between two days."""
    values = {"run": run, "before": before, "after": after, "judge": judge, "rule": rule}
    return [Change(*row) for row in run_sql(connection, query("dyknow/changes.sql"), values).rows]


def why(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    question: str,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
) -> Explanation:
    """Return what explains the verdict of one response.

    Raises:
        UsageError: the run, or its question, is not there; or the judge has judged nothing of it.
        QueryError: the judge judged for another day.
    """
    _chosen(connection, judge, [run])
    snapshot_for(connection, as_of, known_at)
    values = {"run": run, "question": question, "as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule}
    table = run_sql(connection, query("dyknow/why.sql"), values)
    if not table.rows:
        raise UsageError(f"Run {run} has no question {question}.", hint=_questions_like(connection, run, question))
    return _explanation(table)


def _explanation(table: Table) -> Explanation:
    row = dict(zip(table.columns, table.rows[0], strict=True))
    row["up_to_date"] = tuple(row["up_to_date"] or ())
    return Explanation(**{name: row[name] for name in Explanation._fields})


def _questions_like(connection: duckdb.DuckDBPyConnection, run: str, question: str) -> str:
    """Return a hint with questions of the same fact, or of any."""
    statement = (
        "SELECT question FROM responses WHERE run = $run"
        " ORDER BY split_part(question, '#', 1) <> split_part($question, '#', 1), question LIMIT 4"
    )
    found = [str(row[0]) for row in run_sql(connection, statement, {"run": run, "question": question}).rows]
    return f"It has, for example, {', '.join(found)}."
