"""What a report shows, gathered from the results in a handful of queries; nothing in it depends on a day."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import duckdb

from dyknow.analysis import Mass, whole_runs
from dyknow.report.popularity import Popular
from dyknow.resultsfile import run_sql
from dyknow.tables import DOMAINS
from dyknow.titles import titles
from kg.dates import Day
from kg.resources import query


@dataclass(frozen=True)
class Source:
    """A snapshot that verdicts rest on."""

    id: str
    day: Day
    digest: str
    description: str = ""
    known: str | None = None


class Known(NamedTuple):
    """The day a model seems to answer from, with its 95 % interval; ISO dates."""

    day: str
    lower: str
    upper: str


@dataclass(frozen=True)
class Model:
    """A run and its model."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    kind: str = "asked"
    released: str | None = None  # ISO
    release_known: str | None = None  # "day", or "year": it is the last day of that
    release_source: str | None = None
    known: Known | None = None
    name: str = ""  # its title as tables print it, unlike that of any other
    info: Mapping[str, Any] = field(default_factory=dict)


class Fact(NamedTuple):
    """A fact that was asked."""

    id: str
    domain: str
    subject: str
    office: str


class Named(NamedTuple):
    """Whom a text names by one snapshot, or why nobody."""

    entity: str | None
    label: str | None
    reason: str | None  # None: not read
    matched: str = ""
    alias: str = ""
    rule: str = ""
    score: float | None = None


class Given(NamedTuple):
    """Another judge's verdict of an answer, for one day."""

    verdict: str
    certain: bool
    answer: str | None


class Answer(NamedTuple):
    """What a model said to one question."""

    run: int  # place among the models
    fact: int  # place among the facts
    question: str
    phrasing: str
    counted: bool
    sample: int
    status: str
    prompt: str
    text: str
    named: tuple[Named | None, ...]  # one a snapshot; None: it does not have the fact
    given: tuple[Given | None, ...] = ()  # one a stop, where the judge is not the matcher


class Step(NamedTuple):
    """What a holder is from a day on, until another day."""

    from_day: Day
    to_day: Day | None
    standing: str
    certain: bool
    start: Day | None
    end: Day | None
    statement: str


class Holder(NamedTuple):
    """A holder of a fact by one snapshot."""

    entity: str
    label: str
    steps: tuple[Step, ...]


class Cover(NamedTuple):
    """What a snapshot knows of a fact from a day on."""

    from_day: Day
    to_day: Day | None
    status: str


@dataclass(frozen=True)
class History:
    """What one snapshot says of each fact; the lists go by the facts' places."""

    source: Source
    holders: tuple[tuple[Holder, ...], ...]
    coverage: tuple[tuple[Cover, ...], ...]
    whole: tuple[bool, ...]  # whether it holds the fact's whole history; an extract may have left a holder out


class Spread(NamedTuple):
    """When the tenures began that a model's answers name: a box of the box plots, in years."""

    run: str
    n: int
    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float


@dataclass(frozen=True)
class Rows:
    """A table whose columns the report does not know."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Data:
    """What a report shows."""

    models: tuple[Model, ...]
    facts: tuple[Fact, ...]
    answers: tuple[Answer, ...]
    histories: tuple[History, ...]
    days: tuple[str, ...]  # the days asked about, ISO, the first and the last are compared
    stops: tuple[str, ...]  # all days of the slider, ISO, in order; the days asked about are among them
    known_at: str | None = (
        None  # the one snapshot; None: for each day the oldest of these not before it, else the newest
    )
    judge: str = "match"
    rule: str = "latest"
    silent: tuple[Model, ...] = ()  # of runs without an answer: their holders were scored, or nothing was asked yet
    masses: Mapping[str, Sequence[Mass]] = field(default_factory=dict)  # by day
    spreads: tuple[Spread, ...] = ()
    popular: Mapping[str, tuple[Popular, ...]] = field(default_factory=dict)  # by day
    alignment: Rows | None = None

    def history(self, day: str) -> int:
        """Return the place of the snapshot that verdicts as of a day rest on."""
        if self.known_at is not None:
            return 0
        number = int(day.replace("-", ""))
        places = range(len(self.histories))
        return next((place for place in places if self.histories[place].source.day >= number), places[-1])

    def domains(self) -> list[str]:
        """Return the domains of the facts, the study's first and in its order."""
        found = {fact.domain for fact in self.facts}
        return [name for name in DOMAINS if name in found] + sorted(found - set(DOMAINS))


def models_of(connection: duckdb.DuckDBPyConnection, runs: Collection[str] | None) -> list[Model]:
    """Return the runs as tables list them, by year, then by name: those named, else all that tables show."""
    wanted = whole_runs(connection) if runs is None else runs
    statement = (
        "SELECT run, title, release_year, prefixed, kind, CAST(released AS VARCHAR), release_known, release_source"
        " FROM runs ORDER BY release_year NULLS LAST, run"
    )
    found = [Model(*row) for row in run_sql(connection, statement).rows if row[0] in wanted]
    names = titles(found)
    return [replace(model, name=names[model.run]) for model in found]


def read(
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[str],
    sources: Sequence[Source],
    rule: str,
) -> tuple[tuple[Fact, ...], tuple[Answer, ...], tuple[History, ...]]:
    """Return the facts some runs were asked, their answers, and what the snapshots say of those facts.

    Args:
        connection: the results.
        runs: names of runs; an answer refers to them by place.
        sources: the snapshots, by date.
        rule: 'latest' or 'study'.
    """
    values = {"runs": list(runs), "snapshots": [source.id for source in sources]}
    rows = run_sql(connection, query("dyknow/report_answers.sql"), values).rows
    facts = _facts(rows)
    places = {fact.id: place for place, fact in enumerate(facts)}
    answers = tuple(_answers(rows, {run: place for place, run in enumerate(runs)}, places, values["snapshots"]))
    histories = _histories(connection, {**values, "rule": rule}, places, sources)
    return facts, answers, histories


def judged(
    connection: duckdb.DuckDBPyConnection, answers: Sequence[Answer], runs: Sequence[str], days: Sequence[str], *,
    known_at: str | None, judge: str, rule: str,
) -> tuple[Answer, ...]:  # fmt: skip
    """Return answers with the verdicts of a judge for some days."""
    found: dict[tuple[str, str, int], list[Given | None]] = defaultdict(lambda: [None] * len(days))
    for place, day in enumerate(days):
        values = {"as_of": day, "known_at": known_at, "judge": judge, "rule": rule, "runs": list(runs)}
        for run, question, sample, *given in run_sql(connection, query("dyknow/report_judged.sql"), values).rows:
            found[run, question, sample][place] = Given(*given)
    keys = ((runs[answer.run], answer.question, answer.sample) for answer in answers)
    return tuple(answer._replace(given=tuple(found[key])) for answer, key in zip(answers, keys, strict=True))


_RUN, _QUESTION, _FACT, _DOMAIN, _SUBJECT, _PHRASING, _COUNTED, _SAMPLE, _STATUS, _PROMPT, _TEXT, _SNAPSHOT, _OFFICE = (
    range(13)
)
_NAMED: Final = slice(13, 20)


def _facts(rows: Iterable[Sequence[Any]]) -> tuple[Fact, ...]:
    found: dict[str, Fact] = {}
    for row in rows:  # the newest snapshot comes last and says what the office is called
        found[row[_FACT]] = Fact(row[_FACT], row[_DOMAIN] or "", row[_SUBJECT] or "", row[_OFFICE] or "")
    order = {name: place for place, name in enumerate(DOMAINS)}
    return tuple(sorted(found.values(), key=lambda f: (order.get(f.domain, 9), f.domain, f.subject, f.office, f.id)))


def _answers(
    rows: Iterable[Sequence[Any]], runs: Mapping[str, int], facts: Mapping[str, int], snapshots: Sequence[str]
) -> Iterable[Answer]:
    for _, group in groupby(rows, key=itemgetter(_RUN, _QUESTION, _SAMPLE)):
        own = list(group)
        first, by_snapshot = own[0], {row[_SNAPSHOT]: Named(*row[_NAMED]) for row in own}
        yield Answer(
            run=runs[first[_RUN]],
            fact=facts[first[_FACT]],
            question=first[_QUESTION],
            phrasing=first[_PHRASING] or "",
            counted=bool(first[_COUNTED]),
            sample=first[_SAMPLE],
            status=first[_STATUS],
            prompt=first[_PROMPT] or "",
            text=first[_TEXT] or "",
            named=tuple(by_snapshot.get(snapshot) for snapshot in snapshots),
        )


def _histories(
    connection: duckdb.DuckDBPyConnection, values: dict[str, Any], facts: Mapping[str, int], sources: Sequence[Source]
) -> tuple[History, ...]:
    holders: dict[str, list[list[Holder]]] = {source.id: [[] for _ in facts] for source in sources}
    rows = run_sql(connection, query("dyknow/report_holders.sql"), values).rows
    for (snapshot, fact, entity, label), group in groupby(rows, key=itemgetter(0, 1, 2, 3)):
        holders[snapshot][facts[fact]].append(Holder(entity, label, tuple(Step(*row[4:]) for row in group)))
    coverage: dict[str, list[list[Cover]]] = {source.id: [[] for _ in facts] for source in sources}
    whole = {source.id: [True] * len(facts) for source in sources}
    for snapshot, fact, complete, *cover in run_sql(connection, query("dyknow/report_coverage.sql"), values).rows:
        coverage[snapshot][facts[fact]].append(Cover(*cover))
        whole[snapshot][facts[fact]] = complete
    return tuple(
        History(
            source,
            tuple(map(tuple, holders[source.id])),
            tuple(map(tuple, coverage[source.id])),
            tuple(whole[source.id]),
        )
        for source in sources
    )
