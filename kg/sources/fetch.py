"""Each live source, fetched whole: what it has of the wanted statements, as the rows of a snapshot."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from kg.dates import Day, days_in_month, format_day, join_day, split_day
from kg.errors import SourceError, UsageError
from kg.sources import Source
from kg.sources.dumplines import Wanted as DumpWanted
from kg.sources.dumps import Progress as DumpProgress
from kg.sources.dumps import Reader as DumpReader
from kg.sources.dumps import entities, extract, named_in
from kg.sources.entity import Named, named
from kg.sources.mirror import ABOUT_SUBJECTS, Subject, needed, source, subject, value_ids
from kg.sources.queryservice import QueryService
from kg.sources.rdf import StatementRdf
from kg.sources.wikidata import Revision, Wikidata

Wanted = Mapping[str, Collection[str]]
"""Properties by the id of a subject."""

_LABELS_ARE_TODAYS: Final = (
    "Labels, other names and classes of holders and offices are those of the day they were fetched; "
    "statements and the subjects' own labels are those of the revisions."
)


class Step(NamedTuple):
    """How far a fetch has come."""

    what: str  # "revisions looked up", "documents", "labels"
    done: int
    total: int


Report = Callable[[Step], None]


def end_of(day: Day) -> str:
    """Return the last second of a day, in which a snapshot of that day shows Wikidata.

    >>> end_of(20190630)
    '2019-06-30T23:59:59Z'
    """
    return f"{format_day(day)}T23:59:59Z"


def _stepping(what: str, items: Sequence[Any], report: Report) -> Iterator[Any]:
    for number, item in enumerate(items):
        report(Step(what, number, len(items)))
        yield item
    report(Step(what, len(items), len(items)))


# Entity documents


@dataclass(frozen=True)
class Plan:
    """Which revision of each subject stood on each day.

    Attributes:
        wanted: What to mirror.
        instants: The instant each day is shown in, by day.
        revisions: All revisions to fetch, oldest first, by subject; each once.
    """

    wanted: Wanted
    instants: Mapping[Day, str]
    revisions: Mapping[str, Sequence[Revision]]

    def standing(self, item: str, day: Day) -> Revision | None:
        """Return the revision of a subject that stood on a day; None where it was not there yet."""
        own = self.revisions[item]
        place = bisect_right([revision.timestamp for revision in own], self.instants[day])
        return own[place - 1] if place else None

    @property
    def documents(self) -> int:
        """How many documents there are to fetch."""
        return sum(len(own) for own in self.revisions.values())


def plan(wikidata: Wikidata, wanted: Wanted, instants: Mapping[Day, str], scope: str, report: Report) -> Plan:
    """Return which revision of each subject stood on each day.

    For one day each subject's last revision is asked for; for several its list of revisions, once.

    Args:
        wikidata: the client.
        wanted: what to mirror.
        instants: the instant each day is shown in.
        scope: names the work, so that an interrupted one goes on with what it was told.
        report: is told how far it is.

    Raises:
        UsageError: no subject or no day is wanted.
        SourceError: Wikidata cannot be reached, or answers wrongly.
    """
    if not wanted or not instants:
        raise UsageError("Nothing is wanted.", hint="Name subjects or a benchmark, and a date.")
    ordered = sorted(instants.values())
    revisions = {}
    for item in _stepping("revisions looked up", sorted(wanted), report):
        first = wikidata.revision_at(item, ordered[0], scope)
        listed = [first] if first else []
        if len(ordered) > 1:
            listed += wikidata.revisions(item, ordered[0], ordered[-1], scope)
        revisions[item] = _standing_at(listed, ordered)
    return Plan(wanted, dict(instants), revisions)


def _standing_at(listed: Iterable[Revision], instants: Sequence[str]) -> list[Revision]:
    """Return those of the revisions that are the last one at some instant."""
    ordered = sorted(set(listed), key=lambda revision: (revision.timestamp, revision.number))
    times = [revision.timestamp for revision in ordered]
    places = {bisect_right(times, instant) for instant in instants}
    return [ordered[place - 1] for place in sorted(places) if place]


def mirror(wikidata: Wikidata, chosen: Plan, scope: str, report: Report) -> Iterator[Source]:
    """Yield the rows of each day of a plan, oldest first.

    Every revision is fetched once, and what is said of holders once for all days.

    Args:
        wikidata: the client.
        chosen: what to fetch.
        scope: names the work, so that what changes with time (labels) is fetched anew for another one.
        report: is told how far it is.

    Raises:
        SourceError: Wikidata cannot be reached, or answers wrongly. What was fetched is kept for the next try.
    """
    subjects = _documents(wikidata, chosen, scope, report)
    names = _names(wikidata, value_ids(one for one in subjects.values()), scope, report)
    for day in sorted(chosen.instants):
        yield _on_day(chosen, day, subjects, names)


_Key = tuple[str, Day]
"""A subject as it was asked for, and a day."""


def _documents(wikidata: Wikidata, chosen: Plan, scope: str, report: Report) -> dict[_Key, Subject]:
    """Return each subject as it stood on each day; none where it was not there yet."""
    known: dict[StatementRdf, StatementRdf] = {}  # most statements are equal in most revisions: keep each once

    def document(item: str, revision: Revision, wanted: Collection[str]) -> Subject:
        one = subject(wikidata.entity_at(item, revision.number), wanted)
        kept = tuple(known.setdefault(statement, statement) for statement in one.statements)
        return replace(one, statements=kept, revision=revision.number, modified=revision.timestamp)

    tasks = [(item, revision) for item, own in sorted(chosen.revisions.items()) for revision in own]
    found: dict[_Key, Subject] = {}
    for item, revision in _stepping("documents", tasks, report):
        days = [day for day in chosen.instants if chosen.standing(item, day) == revision]
        try:
            one = document(item, revision, chosen.wanted[item])
            found |= {(item, day): one for day in days}
        except SourceError as error:
            if error.kind != "absent" or (target := wikidata.redirect_at(item, revision.number)) is None:
                raise
            # The page was a redirect then: what counts is the item it led to, on the same days.
            for day in days:
                if (there := wikidata.entity_on(target, chosen.instants[day], scope)) is not None:
                    found[item, day] = replace(subject(there, chosen.wanted[item]), asked=item)
    return found


def _names(wikidata: Wikidata, ids: Collection[str], scope: str, report: Report) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for number, (asked, entity) in enumerate(wikidata.each_entity(ids, scope)):
        report(Step("labels", number, len(ids)))
        if entity is not None:
            found[asked] = named(entity)
    report(Step("labels", len(ids), len(ids)))
    return found


def _on_day(chosen: Plan, day: Day, subjects: Mapping[_Key, Subject], names: Mapping[str, Named]) -> Source:
    own = [subjects[item, day] for item in sorted(chosen.wanted) if (item, day) in subjects]
    used = value_ids(own)
    return source(
        own,
        {name: one for name, one in names.items() if name in used},
        chosen.wanted,
        day,
        name="wikidata",
        description=f"Wikidata's entity documents as they stood at {chosen.instants[day]}.",
        notes=[_LABELS_ARE_TODAYS],
        provenance={
            "instant": chosen.instants[day],
            "absent": sorted(item for item in chosen.wanted if (item, day) not in subjects),
        },
    )


# The query service


def from_query_service(service: QueryService, wanted: Wanted, day: Day, instant: str, report: Report) -> Source:
    """Return what the query service has of the wanted statements now.

    Raises:
        SourceError: it cannot be reached, answers wrongly, or gives less than it counted.
    """
    report(Step("subjects", 0, len(wanted)))
    subjects = service.subjects(wanted)
    report(Step("subjects", len(wanted), len(wanted)))
    ids = value_ids(subjects)
    report(Step("labels", 0, len(ids)))
    names = service.names(sorted(ids))
    report(Step("labels", len(ids), len(ids)))
    there = {one.asked for one in subjects}
    return source(
        subjects,
        names,
        wanted,
        day,
        name="query service",
        description=f"Wikidata's query service at {instant}.",
        provenance={"instant": instant, "absent": sorted(set(wanted) - there)},
    )


# Dumps


def from_dump(
    path: Path,
    properties: Collection[str],
    subjects: Wanted | None,
    day: Day,
    work: Path,
    *,
    workers: int | None = None,
    reader: DumpReader | None = None,
    progress: Callable[[str, DumpProgress], None],
) -> Source:
    """Return what a JSON dump has of the wanted statements.

    The dump is read twice: for the subjects, then for the labels of the holders they name.

    Args:
        path: the dump.
        properties: the wanted properties, where ``subjects`` is None: of every entity that has one.
        subjects: else properties by subject.
        day: the day the dump shows, which is in its name and nowhere in it.
        work: a folder for the extract.
        workers: processes; None takes one a core.
        reader: what reads in their stead, e.g. `kg.sources.spark.reader`.
        progress: is told which reading it is, and how far it has come.

    Raises:
        DataError: the dump is truncated or damaged.
        SourceError: it holds none of the wanted statements.
    """
    every = frozenset(properties) if subjects is None else frozenset(p for own in subjects.values() for p in own)
    look_for = DumpWanted(
        every, None if subjects is None else frozenset(subjects), needed(every).union(ABOUT_SUBJECTS) - every
    )
    spool = work / f"{path.name}.entities.jsonl"
    extract(path, look_for, spool, workers=workers, reader=reader, progress=lambda step: progress("statements", step))
    items = (entity for entity in entities(spool) if entity.id.startswith("Q"))
    own = list(_newest(subject(entity, every) for entity in items))
    wanted = {one.id: every for one in own} if subjects is None else subjects
    if not own:
        raise SourceError(f"{path} holds none of the wanted statements.", hint="Is it a Wikidata JSON dump?")
    found = named_in(
        path, value_ids(own), workers=workers, reader=reader, progress=lambda step: progress("labels", step)
    )
    spool.unlink()
    return source(
        own,
        {asked: named(entity) for asked, entity in found.items()},
        wanted,
        day,
        name="dump",
        description=f"The Wikidata dump {path.name}.",
        notes=["A dump is written over days and holds no redirects; each entity's revision is in the provenance."],
        provenance={"absent": sorted(set(wanted) - {one.id for one in own})},
    )


def _newest(found: Iterable[Subject]) -> Iterable[Subject]:
    """Keep of an entity that a dump holds twice the newer revision."""
    kept: dict[str, Subject] = {}
    for one in found:
        if one.id not in kept or (one.revision or 0) >= (kept[one.id].revision or 0):
            kept[one.id] = one
    return kept.values()


# Days of a history


def days_of(first: Day, last: Day, every: str) -> list[Day]:
    """Return the days from first to last, a "day", "week", "month", "quarter" or "year" apart.

    A day that a month lacks is its last one.

    >>> days_of(20231031, 20240229, "month")
    [20231031, 20231130, 20231231, 20240131, 20240229]
    """
    found, number = [], 0
    while (day := _later(first, number, every)) <= last:
        found.append(day)
        number += 1
    return found


_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS: Final = {"day": 1, "week": 7}
STEPS: Final = (*_DAYS, *_MONTHS)
"""What days of a history may be apart."""


def _later(first: Day, number: int, every: str) -> Day:
    """Return the day ``number`` steps after the first."""
    year, month, day = split_day(first)
    if every in _DAYS:
        later = date(year, month, day) + timedelta(days=number * _DAYS[every])
        return join_day(later.year, later.month, later.day)
    years, months = divmod(month - 1 + number * _MONTHS[every], 12)
    return join_day(year + years, months + 1, min(day, days_in_month(year + years, months + 1)))
