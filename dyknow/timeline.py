"""The share of answers that are up-to-date as a function of the as-of date, and the years they stem from.

All dates are judged at once, by one join of days with the stretches on which a fact's verdict does not change (the
macros ``intervals`` and ``timeline``); at every date the figures are those of ``table1`` and ``table5``.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import duckdb

from dyknow.parts import by_parts, parts
from dyknow.resultsfile import refused, run_sql
from dyknow.strata import checked
from kg.answers import BEFORE_ALL_DAYS
from kg.dates import Day, join_day, split_day
from kg.errors import QueryError
from kg.resources import query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Constraint = Literal["soft", "average"]
Every = Literal["day", "month", "quarter", "year"]
Repeat = Literal["release", "study"]
Measure = Literal["up_to_date", "up_to_date_lower", "up_to_date_upper"]

ALL: Final = "all"
"""Stands for all domains together."""


class Point(NamedTuple):
    """The rates of one run in one domain as of one day, in per cent of n."""

    run: str
    domain: str  # or "all"
    day: Day
    n: int  # facts that are covered and complete on that day
    up_to_date: float | None  # as in Table 1 (soft) or 5 (average); None where n is 0
    up_to_date_lower: float | None  # certain standings only
    outdated: float | None
    irrelevant: float | None
    up_to_date_upper: float | None  # every holder that some choice of days inside the spans lets lead


class FactDays(NamedTuple):
    """The verdict of one fact over a stretch of days, under the soft constraint."""

    run: str
    domain: str
    fact: str
    from_day: Day | None  # None: it was ever so
    to_day: Day | None  # the first day no longer; None: for ever
    verdict: str  # up-to-date, outdated, irrelevant, incomplete or not covered
    surely: bool  # up-to-date for every choice of days inside the spans
    possibly: bool  # up-to-date for some choice


class Peak(NamedTuple):
    """Where a share is greatest."""

    run: str
    domain: str
    share: float  # per cent
    spans: tuple[tuple[Day, Day], ...]  # first and last of neighbouring points that have it, the longest span first


class Base(NamedTuple):
    """The snapshot a sweep rests on."""

    snapshot: str
    day: Day  # of the snapshot: what lies after it, it does not know
    digest: str


class Years(NamedTuple):
    """A box of the study's Figures 2, 5 and 6: in which years the terms began that a run's answers name."""

    run: str
    domain: str  # or "all"
    n: int  # answers to the phrasings that count, and name a holder whose term has a start
    minimum: int
    lower: float  # first quartile
    median: float
    upper: float  # third quartile
    maximum: int
    mean: float


def base(connection: duckdb.DuckDBPyConnection, known_at: str | None = None) -> Base:
    """Return the one snapshot for all days: the named one, else the newest with the whole history of enough facts.

    Raises:
        QueryError: there is no such snapshot.
    """
    [row] = run_sql(connection, "FROM spanning(known_at := $known_at)", {"known_at": known_at}).rows
    return Base(*row)


def as_day(day: date | Day) -> Day:
    """Return a day as the integer YYYYMMDD."""
    return join_day(day.year, day.month, day.day) if isinstance(day, date) else day


def as_date(day: Day) -> date:
    """Return a day as a date of the standard library, which knows the years 1 to 9999."""
    return date(*split_day(day))


def sweep(
    connection: duckdb.DuckDBPyConnection,
    days: Sequence[date | Day],
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    constraint: Constraint = "soft",
    split: str = "domain",
) -> list[Point]:
    """Return the rates of every run, domain and day, from one snapshot, by run, domain and day.

    Runs of which no fact counts on a day have no point there.

    Args:
        connection: the results.
        days: the days to judge as of, dates or integers YYYYMMDD.
        known_at: the one snapshot; None as for `base`.
        judge: who reads the answers.
        rule: "latest" or "study".
        runs: the runs wanted; None stands for all.
        constraint: "soft", a fact's best phrasing as in Table 1; "average", over its phrasings and samples, as in 5.
        split: "domain", or one of ``dyknow.strata.PARTS``, whose parts then stand in the domains' place.

    Raises:
        UsageError: there is no such split.
        QueryError: there is no such snapshot or rule, or the judge judged for one day only.
    """
    how: dict[str, Any] = {"judge": judge, "rule": rule, "runs": runs, "split": split}
    [found] = rates(connection, days, known_at, constraints=[constraint], **how)
    return [Point(*row) for row in found.rows()]


class Swept(NamedTuple):
    """The rates of a sweep as arrays of G pairs of a run and a domain by K days; in per cent, nan where n is 0."""

    groups: tuple[tuple[str, str], ...]  # [G], sorted
    days: tuple[Day, ...]  # [K], in order, each once
    n: "NDArray[np.int64]"  # [G, K]
    up_to_date: "Array"  # [G, K], as the others
    up_to_date_lower: "Array"
    outdated: "Array"
    irrelevant: "Array"
    up_to_date_upper: "Array"

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of each `Point`, of those days on which a fact counts."""
        for place, (run, domain) in enumerate(self.groups):
            columns = [column[place].tolist() for column in self[2:]]
            for day, n, *shares in zip(self.days, *columns, strict=True):
                if n:
                    yield run, domain, day, n, *shares


def rates(
    connection: duckdb.DuckDBPyConnection,
    days: Sequence[date | Day],
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    constraints: Sequence[Constraint] = ("soft",),
    split: str = "domain",
) -> list[Swept]:
    """Return the rates of every run, domain and day as arrays under each constraint: for many runs and days.

    Else as `sweep`; both constraints take hardly longer than one. Of runs that are not wanted every n is 0.

    Raises:
        QueryError: as for `sweep`.
    """
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    ordered = tuple(sorted({as_day(day) for day in days}))
    names = [name for constraint in constraints for name in _SUMS[constraint]]
    groups = tuple(run_sql(connection, query("dyknow/swept_names.sql"), {"split": checked(split)}).rows)
    changes = np.zeros((len(names), len(groups), len(ordered) + 1))
    steps = query("dyknow/sweep.sql").rstrip().rstrip(";")
    found = parts(connection, runs) if ordered else []
    values = {"days": list(ordered), "known_at": known_at, "judge": judge, "rule": rule, "split": split}

    def swept(part: list[str]) -> dict[str, Any]:
        statement = f"SELECT name, place, {', '.join(names)} FROM ({steps})"
        return _arrays(connection, statement, {**values, "runs": None if runs is None and [part] == found else part})

    for own in by_parts(found, swept):
        for column, name in zip(changes, names, strict=True):
            column[own["name"], own["place"] - 1] = own[name]
    sums = np.cumsum(changes, axis=2)[:, :, :-1].reshape(len(constraints), 5, len(groups), len(ordered))
    return [_swept(groups, ordered, own) for own in sums]


_SUMS: Final[dict[Constraint, tuple[str, ...]]] = {
    "soft": ("n", "up_to_date", "surely", "possibly", "outdated"),
    "average": ("n_average", "mean_up_to_date", "mean_surely", "mean_possibly", "mean_outdated"),
}
"""The sums of ``steps``, of which shares are made."""


def _swept(groups: tuple[tuple[str, str], ...], days: tuple[Day, ...], sums: "Array") -> Swept:
    """Make shares of the five sums of a constraint, [5, G, K]."""
    import numpy as np  # noqa: PLC0415 -- the command line starts without numpy

    count = np.rint(sums[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        up, surely, possibly, out = (np.clip(100 * one / count, 0, 100) for one in sums[1:])
        rest = np.clip(100 * (count - sums[1] - sums[4]) / count, 0, 100)
    return Swept(groups, days, count.astype(np.int64), up, surely, out, rest, possibly)


def _arrays(connection: duckdb.DuckDBPyConnection, statement: str, values: dict[str, Any]) -> "dict[str, Array]":
    """Run a statement and return its columns: a tuple a row would take longer than all the rest."""
    try:
        return connection.execute(statement, values).fetchnumpy()
    except duckdb.OutOfMemoryException as error:
        raise refused(error) from error
    except duckdb.Error as error:
        message = str(error).removeprefix("Invalid Input Error: ").strip()
        raise QueryError(message, hint="dyknow snapshot list and dyknow judge list tell what there is.") from error


def fact_days(
    connection: duckdb.DuckDBPyConnection,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
) -> list[FactDays]:
    """Return from when to when each fact of each run has which verdict, by run, domain, fact and day.

    The stretches of a fact follow upon one another without gaps; equal neighbours are one.

    Raises:
        QueryError: as for `sweep`.
    """
    values = {"known_at": known_at, "judge": judge, "rule": rule}
    statement = (
        "SELECT run, domain, fact, from_day, to_day, verdict, surely_up_to_date, possibly_up_to_date"
        " FROM intervals(known_at := $known_at, judge := $judge, rule := $rule) ORDER BY run, domain, fact, from_day"
    )
    rows = [FactDays(*row) for row in run_sql(connection, statement, values).rows if runs is None or row[0] in runs]
    merged = []
    for _, group in groupby(rows, key=lambda row: (*row[:3], *row[5:])):
        own = list(group)
        first = own[0].from_day
        merged.append(own[0]._replace(from_day=None if first == BEFORE_ALL_DAYS else first, to_day=own[-1].to_day))
    return merged


def change_days(
    connection: duckdb.DuckDBPyConnection,
    first: Day,
    last: Day,
    known_at: str | None = None,
    rule: str = "latest",
) -> list[Day]:
    """Return the first day and every day until the last on which the standing of a holder changes.

    A share is constant between two of them, so that its greatest value among them is its greatest of all days.
    """
    values = {"known_at": known_at, "rule": rule, "first": first, "last": last}
    return [first, *(int(row[0]) for row in run_sql(connection, query("dyknow/change_days.sql"), values).rows)]


def grid(first: Day, last: Day, every: Every) -> list[Day]:
    """Return the days at which a sweep stops: the first ones of months, quarters or years, or all, from first to last.

    >>> grid(20201215, 20210701, "quarter")
    [20210101, 20210401, 20210701]
    """
    if every == "day":
        start = as_date(first)
        return [as_day(start + timedelta(n)) for n in range((as_date(last) - start).days + 1)]
    step = {"month": 1, "quarter": 3, "year": 12}[every]
    years = range(split_day(first)[0], split_day(last)[0] + 1)
    days = (join_day(year, month, 1) for year in years for month in range(1, 13, step))
    return [day for day in days if first <= day <= last]


def peak(
    points: Iterable[Point], run: str, domain: str = ALL, measure: Measure = "up_to_date", until: Day | None = None
) -> Peak | None:
    """Return where a share is greatest among the points of a run, or None where it has none.

    Args:
        points: as `sweep` gives them, by day.
        run: the run.
        domain: the domain, or "all".
        measure: which share.
        until: the last day that the last point stands for. With it a point stands for all days until the next one, as
            points of `change_days` do, and a span ends on the last of them; else it ends on its last point.
    """
    own = [(p.day, getattr(p, measure)) for p in points if (p.run, p.domain) == (run, domain)]
    shares = [share for _, share in own if share is not None]
    if not shares:
        return None
    greatest = max(shares)
    ends = (
        [day for day, _ in own]
        if until is None
        else [_day_before(after) for (_, _), (after, _) in pairwise(own)] + [until]
    )
    spans = []
    runs_of = groupby(
        zip(own, ends, strict=True), key=lambda pair: pair[0][1] is not None and greatest - pair[0][1] < 1e-9
    )
    for at_peak, group in runs_of:
        if at_peak:
            stretch = list(group)
            spans.append((stretch[0][0][0], stretch[-1][1]))
    spans.sort(key=lambda span: (as_date(span[0]) - as_date(span[1]), span[0]))
    return Peak(run, domain, greatest, tuple(spans))


def _day_before(day: Day) -> Day:
    return as_day(as_date(day) - timedelta(1))


def peaks(
    connection: duckdb.DuckDBPyConnection,
    first: Day,
    last: Day,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    constraint: Constraint = "soft",
    split: str = "domain",
) -> dict[tuple[str, str], dict[Measure, Peak]]:
    """Return for each run and domain (and "all"), or other part, where its three shares are greatest, to the day.

    Raises:
        UsageError: as for `sweep`.
        QueryError: as for `sweep`.
    """
    days = change_days(connection, first, last, known_at, rule)
    points = sweep(connection, days, known_at, judge=judge, rule=rule, runs=runs, constraint=constraint, split=split)
    measures: tuple[Measure, ...] = ("up_to_date", "up_to_date_lower", "up_to_date_upper")
    found: dict[tuple[str, str], dict[Measure, Peak]] = {}
    for (run, domain), group in groupby(points, key=lambda point: (point.run, point.domain)):
        own = list(group)
        peaks_of = ((measure, peak(own, run, domain, measure, last)) for measure in measures)
        found[run, domain] = {measure: at for measure, at in peaks_of if at is not None}
    return found


def years(
    connection: duckdb.DuckDBPyConnection,
    known_at: str | None = None,
    *,
    judge: str = "match",
    repeat: Repeat = "release",
    runs: Sequence[str] | None = None,
    split: str = "domain",
) -> list[Years]:
    """Return in which years the terms began that the answers of each run name, by run and domain.

    Args:
        connection: the results.
        known_at: the snapshot; None as for `base`.
        judge: who reads the answers; one who gave starts of terms instead of names, as the judge "published", is
            believed.
        repeat: which term of one who held several: "study", the last of all, as the study's released dates have it, be
            it that it began after the model came out; "release", the last that had begun by then.
        runs: the runs wanted; None stands for all.
        split: as for `sweep`.

    Raises:
        UsageError: as for `sweep`.
        QueryError: as for `sweep`.
    """
    values = {"known_at": known_at, "judge": judge, "repeat": repeat, "split": checked(split)}
    rows = run_sql(connection, query("dyknow/years.sql"), values).rows
    return [Years(*row) for row in rows if runs is None or row[0] in runs]
