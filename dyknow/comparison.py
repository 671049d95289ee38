"""Two runs side by side, and one run on two days: what differs, and whether that is more than chance.

Runs are compared on the same facts, those that are covered and complete in both. A fact is one case, however many
phrasings and samples it was asked in (McNemar, 1947; Efron, 1979; Holm, 1979; see docs/method.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from dyknow.analysis import snapshot_for
from dyknow.rates import RATED, fact_rows
from dyknow.resultsfile import run_sql
from dyknow.statistics import Interval, bootstrap, holm, mcnemar, paired_bootstrap
from dyknow.strata import checked, in_order
from kg.dates import Day, parse_day
from kg.errors import UsageError
from kg.identity import Identity
from kg.resources import query
from kg.snapshot import Change, Snapshot, diff


class Paired(NamedTuple):
    """A rate of two runs on the same n facts, in per cent; the difference is the second less the first, in points."""

    measure: str  # up_to_date, outdated or irrelevant
    domain: str  # or "all"
    n: int
    first: float | None
    first_interval: Interval | None
    second: float | None
    second_interval: Interval | None
    difference: float | None
    difference_interval: Interval | None
    only_first: int  # facts of which the measure holds for the first run alone
    only_second: int
    p: float  # McNemar, exact, two-sided; not corrected for the number of domains and measures


class Differing(NamedTuple):
    """A fact on which two runs differ; an answer is whom it names, else its text."""

    fact: str
    domain: str
    subject: str
    office: str | None
    first_verdict: str
    second_verdict: str
    first_answer: str | None
    second_answer: str | None


@dataclass(frozen=True)
class Comparison:
    """Two runs, or one run by two judges, as of a day.

    Attributes:
        first: The first run.
        second: The second run.
        first_judge: Who judged the first.
        second_judge: Who judged the second.
        as_of: The day.
        snapshot: What the verdicts rest on.
        rule: Who is right.
        rates: Measure by measure, over all domains and by domain.
        facts: The facts compared whose verdicts differ.
        left_out: Facts asked of either that are not covered, not complete or not asked in both.
    """

    first: str
    second: str
    first_judge: str
    second_judge: str
    as_of: str
    snapshot: str
    rule: str
    rates: tuple[Paired, ...]
    facts: tuple[Differing, ...]
    left_out: int


class Pair(NamedTuple):
    """Two of several runs: the up-to-date rates on the n facts compared, in per cent, all domains together."""

    first: str
    second: str
    n: int
    first_rate: float | None
    second_rate: float | None
    difference: float | None  # the second less the first, in points
    difference_interval: Interval | None
    only_first: int
    only_second: int
    p: float
    p_holm: float  # corrected for the number of pairs


MEASURES: Final = {"up_to_date": "up-to-date", "outdated": "outdated", "irrelevant": "irrelevant"}
"""The rates compared, and the verdict each counts."""


def compare(
    connection: duckdb.DuckDBPyConnection,
    first: str,
    second: str,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    second_judge: str | None = None,
    rule: str = "latest",
    split: str = "domain",
) -> Comparison:
    """Return two runs side by side, such as two models, or one before and after it was edited.

    Args:
        connection: The results.
        first: A run.
        second: Another one, or the same where there are two judges.
        as_of: The day.
        known_at: The snapshot; None takes the oldest one not before the day, else the newest.
        judge: Who judges the first run, and the second one where no other judge is named.
        second_judge: Who judges the second run.
        rule: Who is right.
        split: "domain", or one of ``dyknow.strata.PARTS``, whose parts then stand in the domains' place.

    Raises:
        UsageError: a run or the snapshot is not there, or they have no fact to be compared on; or no such split.
        QueryError: the judge judged for another day.
    """
    _check_runs(connection, [first, second])
    snapshot = snapshot_for(connection, as_of, known_at)
    other = second_judge or judge
    values = {"first": first, "second": second, "first_judge": judge, "second_judge": other}
    values |= {"as_of": as_of, "known_at": snapshot, "rule": rule, "split": checked(split)}
    rows = [Differing(*row) for row in run_sql(connection, query("dyknow/paired.sql"), values).rows]
    both = [row for row in rows if row.first_verdict in RATED and row.second_verdict in RATED]
    if not both:
        raise UsageError(
            f"{first} and {second} have no fact that is covered and complete in both as of {as_of}.",
            hint=f"What each of them has: dyknow score --as-of {as_of} --run {first} --run {second}",
        )
    differing = tuple(row for row in both if row.first_verdict != row.second_verdict)
    by_id = sorted(
        both, key=lambda row: row.fact
    )  # the order of the tables' intervals, so that equal rates have equal ones
    found = paired_rates([(row.domain, row.first_verdict, row.second_verdict) for row in by_id])
    return Comparison(first, second, judge, other, as_of, snapshot, rule, found, differing, len(rows) - len(both))


def paired_rates(facts: Sequence[tuple[str, str, str]]) -> tuple[Paired, ...]:
    """Return the rates of both sides of facts, given as domain, first and second verdict."""
    domains = ["all", *in_order(list({domain for domain, _, _ in facts}))]
    keys = [(measure, domain) for measure in MEASURES for domain in domains]
    counted = np.array([[float(of in ("all", domain)) for _, of in keys] for domain, _, _ in facts])
    sides = [
        counted * np.array([[float(fact[side] == MEASURES[measure]) for measure, _ in keys] for fact in facts])
        for side in (1, 2)
    ]
    first, second = sides
    bounds = [100 * bootstrap(side, counted) for side in sides]
    gains = paired_bootstrap(first, second, counted)
    found = []
    for column, ((measure, domain), gain) in enumerate(zip(keys, gains, strict=True)):
        n = int(counted[:, column].sum())
        rates = [100 * float(side[:, column].sum()) / n for side in sides]
        own = [Interval(float(bound[0, column]), float(bound[1, column])) for bound in bounds]
        b, c = _discordant(first[:, column], second[:, column])
        assert gain is not None  # every domain has a fact
        points = Interval(100 * gain.lower, 100 * gain.upper)
        found.append(
            Paired(
                measure, domain, n, rates[0], own[0], rates[1], own[1], 100 * gain.value, points, b, c, mcnemar(b, c)
            )
        )
    return tuple(found)


def _discordant(first: Any, second: Any) -> tuple[int, int]:  # noqa: ANN401 -- columns of an array
    """Return how many facts hold for the first alone, and for the second alone."""
    return int(((first > 0) & (second == 0)).sum()), int(((second > 0) & (first == 0)).sum())


def compare_all(
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[str],
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
) -> list[Pair]:
    """Return every pair of several runs, each with McNemar's p and that corrected by Holm for the number of pairs.

    Raises:
        UsageError: a run or the snapshot is not there.
        QueryError: the judge judged for another day.
    """
    _check_runs(connection, runs)
    snapshot = snapshot_for(connection, as_of, known_at)
    verdicts: dict[str, dict[str, bool]] = {run: {} for run in runs}
    for row in fact_rows(connection, as_of, snapshot, judge=judge, rule=rule, runs=runs):
        if row.verdict in RATED:
            verdicts[row.run][row.fact] = row.verdict == "up-to-date"
    pairs = list(combinations(dict.fromkeys(runs), 2))
    facts = sorted({fact for own in verdicts.values() for fact in own})
    shape = (len(facts), len(pairs))
    first, second, counted = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for column, (a, b) in enumerate(pairs):
        for place, fact in enumerate(facts):
            if fact in verdicts[a] and fact in verdicts[b]:
                counted[place, column] = 1
                first[place, column], second[place, column] = verdicts[a][fact], verdicts[b][fact]
    return _pairs(pairs, first, second, counted)


def _pairs(pairs: Sequence[tuple[str, str]], first: Any, second: Any, counted: Any) -> list[Pair]:  # noqa: ANN401
    gains = paired_bootstrap(first, second, counted)
    apart = [_discordant(first[:, column], second[:, column]) for column in range(len(pairs))]
    raw = [mcnemar(b, c) for b, c in apart]
    found = []
    for column, (pair, gain, p, corrected) in enumerate(zip(pairs, gains, raw, holm(raw), strict=True)):
        n = int(counted[:, column].sum())
        rates = [100 * float(side[:, column].sum()) / n if n else None for side in (first, second)]
        points = Interval(100 * gain.lower, 100 * gain.upper) if gain else None
        by = 100 * gain.value if gain else None
        found.append(Pair(*pair, n, rates[0], rates[1], by, points, *apart[column], p, corrected))
    return found


def _check_runs(connection: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> None:
    known = sorted(str(run) for (run,) in run_sql(connection, "SELECT run FROM runs").rows)
    for run in runs:
        if run not in known:
            raise UsageError(f"There is no run {run}.", hint=f"Runs: {', '.join(known) or 'none yet'}.")


# One run on two days


class Cause(StrEnum):
    """Why a verdict changed between two days, though no word of the answer did."""

    WORLD = "world"
    WIKIDATA = "wikidata"
    BOTH = "both"
    NOT_COVERED = "not covered"  # a snapshot lacks the fact, or holds an extract that may have left the answer out


class Right(NamedTuple):
    """Who was right, by one snapshot."""

    label: str
    first: Day | None  # earliest day of the term
    last: Day | None
    statement: str


class Flip(NamedTuple):
    """A fact whose verdict changed, with what was right and what was changed in the graph."""

    fact: str
    domain: str
    subject: str
    office: str | None
    answer: str | None  # whom the model names
    then: str  # the earlier day, by the earlier snapshot
    between: str  # the earlier day, by the later snapshot: what Wikidata says of it now
    now: str  # the later day, by the later snapshot
    cause: Cause
    right_then: tuple[Right, ...]
    right_between: tuple[Right, ...]
    right_now: tuple[Right, ...]
    changes: tuple[Change, ...]  # of the fact, between the snapshots; each with its own clock


@dataclass(frozen=True)
class Flips:
    """One run on two days.

    Attributes:
        run: The run.
        before: The earlier day.
        after: The later day.
        known_before: The snapshot that the earlier day is judged by.
        known_after: The snapshot that the later day is judged by.
        judge: Who judged.
        rule: Who is right.
        facts: How many facts the run was asked.
        flips: Those whose verdict changed.
    """

    run: str
    before: str
    after: str
    known_before: str
    known_after: str
    judge: str
    rule: str
    facts: int
    flips: tuple[Flip, ...]


def flips(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    before: str,
    after: str,
    known: tuple[str | None, str | None] = (None, None),
    *,
    judge: str = "match",
    rule: str = "latest",
    snapshots: Sequence[Snapshot] = (),
    identity: Identity | None = None,
) -> Flips:
    """Return which verdicts of a run changed between two days, and by which clock.

    The earlier day is judged by both snapshots. Where the verdict as of that one day differs between them, Wikidata was
    corrected; where the verdict by the later snapshot differs between the days, the world changed.

    Args:
        connection: The results.
        run: The run.
        before: The earlier day.
        after: The later day.
        known: The snapshots each of them is judged by; None takes the oldest one not before the day, else the newest.
        judge: Who judges; one who judged for a single day cannot.
        rule: Who is right.
        snapshots: Where the statements that changed are to be shown: the snapshots.
        identity: And the table that says which of their names are one.

    Raises:
        UsageError: the run or a snapshot is not there, or the days are not in order.
        QueryError: the judge judged for another day.
    """
    _check_runs(connection, [run])
    if parse_day(before) > parse_day(after):
        raise UsageError(f"{before} lies after {after}.", hint="Give the earlier day first.")
    names = (snapshot_for(connection, before, known[0]), snapshot_for(connection, after, known[1]))
    values = {"run": run, "before": before, "after": after, "judge": judge, "rule": rule}
    values |= {"known_before": names[0], "known_after": names[1]}
    table = run_sql(connection, query("dyknow/flips.sql"), values)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    changed = _changes(snapshots, names, identity)
    found = tuple(_flip(row, parse_day(before), changed) for row in rows if _flipped(row))
    return Flips(run, before, after, *names, judge, rule, len(rows), found)


def _changes(
    snapshots: Sequence[Snapshot], names: tuple[str, str], identity: Identity | None
) -> dict[str, list[Change]]:
    """Return what changed between two snapshots, by fact; nothing where they are one or were not given."""
    known = {snapshot.id: snapshot for snapshot in snapshots}
    found: dict[str, list[Change]] = {}
    if identity is not None and names[0] != names[1] and set(names) <= set(known):
        for change in diff(known[names[0]], known[names[1]], identity.entity):
            found.setdefault(change.fact, []).append(change)
    return found


def _flipped(row: Mapping[str, Any]) -> bool:
    """Tell whether a verdict changed: from day to day, or there and back."""
    there_and_back = row["then"] != row["between"] and "not covered" not in (row["then"], row["between"])
    return bool(row["then"] != row["now"] or (there_and_back and not row["lacking"]))


def _flip(row: Mapping[str, Any], before: Day, changes: Mapping[str, Sequence[Change]]) -> Flip:
    then, between, now = (
        tuple(Right(**holder) for holder in row[f"right_{side}"] or ()) for side in ("then", "between", "now")
    )
    cause = _cause(row, before, now)
    own = tuple(changes.get(row["fact"], ()))
    head = (row["fact"], row["domain"], row["subject"], row["office"], row["answer"])
    return Flip(*head, row["then"], row["between"], row["now"], cause, then, between, now, own)


def _cause(row: Mapping[str, Any], before: Day, right_now: Sequence[Right]) -> Cause:
    verdicts = (row["then"], row["between"], row["now"])
    if verdicts[0] not in RATED or verdicts[2] not in RATED:
        return Cause.NOT_COVERED
    if verdicts[1] not in RATED or row["lacking"]:
        # What the later snapshot says of the earlier day cannot be told. Who is right now and began since is news.
        began = bool(right_now) and all(one.first is not None and one.first > before for one in right_now)
        return Cause.WORLD if began and "up-to-date" in (verdicts[0], verdicts[2]) else Cause.NOT_COVERED
    if verdicts[0] == verdicts[1]:
        return Cause.WORLD
    return Cause.WIKIDATA if verdicts[1] == verdicts[2] else Cause.BOTH
