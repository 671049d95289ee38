"""The command that goes through all dates: when a run's answers were right, and the date it answers from."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final

import click
import duckdb

from dyknow import knowledge
from dyknow import timeline as times
from dyknow.analysis import whole_runs
from dyknow.commands.common import (
    Places,
    command,
    emit,
    example,
    format_option,
    judge_option,
    note,
    places,
    rule_option,
    show,
    split_option,
)
from dyknow.commands.judging import known_runs, results_of
from dyknow.resultsfile import run_sql
from dyknow.strata import in_order
from dyknow.tables import Format, as_json, domains_of
from dyknow.timetables import (
    About,
    Overview,
    knowledge_rows,
    knowledge_table,
    known_json,
    overview_json,
    overview_rows,
    overview_text,
    share_rows,
    share_table,
    years_rows,
    years_table,
)
from dyknow.titles import titles
from kg.dates import Day, days_in_month, format_day, join_day, parse_day, split_day
from kg.errors import UsageError
from kg.resources import query

_MANY: Final = 20  # parts that an error names

SHOWN_YEARS: Final = 15
"""Years before the snapshot that are shown where no beginning is given."""


class _Asked:
    """What was asked for, and the results it is asked of."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, chosen: list[str] | None, **given: Any) -> None:  # noqa: ANN401
        self.connection, self.chosen, self.given = connection, chosen, given
        self.base = times.base(connection, given["known_at"])
        self.domain: str | None = given["domain"]
        self.split: str | None = given["split"]
        rows = run_sql(
            connection,
            "SELECT run, title, release_year, prefixed, CAST(released AS VARCHAR), release_known FROM runs"
            " ORDER BY released NULLS LAST, run",
        ).rows
        abouts = (About(*row) for row in rows)
        self.abouts = {one.run: one for one in _told_apart(abouts) if chosen is None or one.run in chosen}

    @property
    def titles(self) -> dict[str, str]:
        """The runs by name, as tables have them."""
        return titles(self.abouts.values(), with_year=False)

    @property
    def reading(self) -> dict[str, Any]:
        """Who reads the answers of which runs."""
        return {"judge": self.given["judge"], "runs": self.chosen}

    @property
    def heading(self) -> str:
        """What everything rests on."""
        rule = "" if self.given["rule"] == "latest" else f", rule {self.given['rule']}"
        return f"snapshot {self.base.snapshot}, judge {self.given['judge']}{rule}"

    def span(self) -> tuple[Day, Day]:
        """Return the first and the last day asked for.

        Raises:
            UsageError: the first lies after the last, or before our era.
        """
        year, *_ = split_day(self.base.day)
        first = _first(self.given["first"]) if self.given["first"] else join_day(year - SHOWN_YEARS, 1, 1)
        last = _last(self.given["last"]) if self.given["last"] else self.base.day
        if not date.min.year <= split_day(first)[0]:
            raise UsageError(f"{format_day(first)} is before our era.", hint="--from 0001 is the first year there is.")
        if first > last:
            raise UsageError(f"{format_day(first)} lies after {format_day(last)}.", hint="--from comes before --to.")
        if last > self.base.day:
            note(f"What changed after {format_day(self.base.day)} the snapshot does not know.")
        return first, last

    def ordered(self, found: list[Any]) -> list[Any]:
        """Return rows by the release of their runs, and their domains as the study has them, or parts in order."""
        runs = list(self.abouts)
        if self.split not in (None, "domain"):
            parts = [times.ALL, *in_order(list({row.domain for row in found} - {times.ALL}))]
            return sorted(found, key=lambda row: (runs.index(row.run), parts.index(row.domain)))
        domains = [*domains_of(found), times.ALL] if found and hasattr(found[0], "domain") else []
        places_ = {domain: place for place, domain in enumerate(domains)}
        return sorted(found, key=lambda row: (runs.index(row.run), places_.get(getattr(row, "domain", ""), 0)))

    def points(self, first: Day, last: Day) -> list[times.Point]:
        """Return the sweep at the days asked for."""
        days = times.grid(first, last, self.given["every"])
        if not days:
            raise UsageError("No day is asked for.", hint=f"--every {self.given['every']} has none there; try day.")
        found = times.sweep(
            self.connection,
            days,
            self.given["known_at"],
            rule=self.given["rule"],
            constraint=self.given["constraint"],
            split=self.split or "domain",
            **self.reading,
        )
        return self.ordered([point for point in found if self.domain in (None, point.domain)])

    def known(self) -> list[knowledge.OfPart]:
        """Return the date each run answers from, of all facts or a domain, and where that is asked of each part."""
        known_at, how = self.given["known_at"], {"rule": self.given["rule"], **self.reading}
        domain = None if self.split or self.domain == times.ALL else self.domain
        of_all = knowledge.estimates(self.connection, known_at, domain=domain, **how)
        found = [knowledge.OfPart(times.ALL, one) for one in of_all]
        if self.split:
            found += knowledge.estimates_of_parts(self.connection, self.split, known_at, **how)
            found = [one for one in found if self.domain in (None, one.part)]
        runs, parts = list(self.abouts), [times.ALL, *in_order(list({one.part for one in found} - {times.ALL}))]
        return sorted(found, key=lambda one: (runs.index(one.known.run), parts.index(one.part)))

    def overviews(self) -> list[Overview]:
        """Return peak, knowledge date and points of each run, in one domain, or of all facts and each part."""
        if self.split is None:
            self.domain = self.domain or times.ALL
        first, last = self.span()
        points: dict[tuple[str, str], list[times.Point]] = defaultdict(list)
        for point in self.points(first, last):
            points[point.run, point.domain].append(point)
        peaks = times.peaks(
            self.connection,
            first,
            last,
            self.given["known_at"],
            rule=self.given["rule"],
            constraint=self.given["constraint"],
            split=self.split or "domain",
            **self.reading,
        )
        known = {(one.known.run, one.part if self.split else self.domain): one.known for one in self.known()}
        found = []
        for key, own in points.items():
            if peaks.get(key):
                of = (key[1], self.split) if self.split else ()
                found.append(Overview(self.abouts[key[0]], peaks[key], known.get(key), own, *of))
        return found


def _told_apart(abouts: Iterable[About]) -> Iterator[About]:
    """Yield runs with their names: the year stands in it where no day is shown beside it."""
    every = list(abouts)
    names = titles([one._replace(year=None) if one.released else one for one in every])
    return (one._replace(name=names[one.run]) for one in every)


def _known_domain(connection: duckdb.DuckDBPyConnection, runs: Sequence[str], domain: str, split: str) -> None:
    """Check that the facts of some runs have a domain, or another part.

    Raises:
        UsageError: they have not; the hint names those there are.
    """
    values = {"split": split, "runs": list(runs)}
    known = [str(part) for (part,) in run_sql(connection, query("dyknow/known_parts.sql"), values).rows]
    if domain not in (*known, times.ALL):
        shown = ", ".join([*known[:_MANY], *(["..."] if len(known) > _MANY else []), times.ALL])
        raise UsageError(f"No fact is of the {split} {domain!r}.", hint=f"There are: {shown}.")


def _first(text: str) -> Day:
    """Return the first day of a year, a month or a day."""
    return parse_day(text + {4: "-01-01", 7: "-01"}.get(len(text), ""))


def _last(text: str) -> Day:
    """Return the last one."""
    if re.fullmatch(r"\d{4}-\d\d", text):
        year, month, _ = split_day(_first(text))
        return join_day(year, month, days_in_month(year, month))
    return parse_day(f"{text}-12-31" if len(text) == 4 else text)


@command(
    epilog=example(
        "dyknow timeline",
        "dyknow timeline --run gpt-3.5-turbo-1106 --from 2019 --to 2023-06",
        "dyknow timeline --table share --every quarter --format csv",
        "dyknow timeline --table years --repeat study",
        "dyknow timeline --table knowledge --domain countries",
        "dyknow timeline --by popularity --run gpt2-xl",
    )
)
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@click.option("--from", "first", metavar="MONTH", help="The first month, as 2019-01; a year or a day will do.")
@click.option("--to", "last", metavar="MONTH", help="The last month. Without it: the day of the snapshot.")
@click.option(
    "--every",
    type=click.Choice(["day", "month", "quarter", "year"]),
    default="month",
    show_default=True,
    help="How far apart the dates are. A peak is found to the day whatever this says.",
)
@click.option(
    "--known-at",
    metavar="SNAPSHOT",
    help="The one snapshot for all dates (see `dyknow snapshot list`). Without it: the newest of those that hold the "
    "whole history of nine tenths of the facts.",
)
@judge_option
@rule_option
@click.option(
    "--domain", metavar="NAME", help="countries, athletes, organizations or all; with --by one of the parts, as `100+`."
)
@split_option(
    None, "Show each part of the facts beside all of them: each domain, bin of popularity, property, region or stratum."
)
@click.option(
    "--constraint",
    type=click.Choice(["soft", "average"]),
    default="soft",
    show_default=True,
    help="`soft`: a fact's best phrasing, as in Table 1. `average`: over its phrasings, as in Table 5.",
)
@click.option(
    "--table",
    "which",
    type=click.Choice(["overview", "share", "years", "knowledge"]),
    default="overview",
    show_default=True,
    help="`overview`: of each run its peak, the date it answers from and a picture. `share`: the rates of every date. "
    "`years`: in which years the terms began that are named, as the study's box plots. `knowledge`: the dates alone.",
)
@click.option(
    "--repeat",
    type=click.Choice(["release", "study"]),
    default="release",
    show_default=True,
    help="For `years`, which term of one who held several: the last begun when the model came out, or as the study has "
    "it the last of all.",
)
@format_option
@places("snapshots", "runs", "database")
def timeline(names: tuple[str, ...], which: str, form: Format, places: Places, **given: Any) -> None:  # noqa: ANN401
    """Show when a model's answers were right, and the date it answers from.

    Every answer is judged as of every date by one snapshot. The share that is up to date rises, peaks about the time of
    the model's newest knowledge and falls. The date it answers from is estimated from when the holders it names held
    what it was asked for; docs/method.md tells how, and how often the interval is right. Nothing is asked anew.
    """
    chosen = known_runs(places, names)
    if given["known_at"] is not None:
        places.named(given["known_at"])
    with results_of(places, chosen) as connection:
        wanted = chosen or whole_runs(connection)
        if given["domain"] is not None:
            _known_domain(connection, wanted, given["domain"], given.get("split") or "domain")
        asked = _Asked(connection, wanted, **given)
        if form != "table":
            note(f"{asked.heading.capitalize()}.")
        _SHOW[which](asked, form)


def _overview(asked: _Asked, form: Format) -> None:
    found = asked.overviews()
    if not found:
        raise UsageError("No run has an answer about a fact covered then.", hint="--from and --to choose the dates.")
    if form == "json":
        of = {"split": asked.split} if asked.split else {"domain": asked.domain}
        head = {"snapshot": asked.base.snapshot, **of}
        head |= {name: asked.given[name] for name in ("judge", "rule", "constraint", "every")}
        emit(as_json({**head, "runs": [overview_json(one) for one in found]}))
    elif form == "csv":
        show(overview_rows(found), form)
    else:
        what = asked.domain or f"by {asked.split}"
        emit(f"Share of facts up to date ({what}; {asked.heading})\n\n{overview_text(found)}")


def _share(asked: _Asked, form: Format) -> None:
    if form == "table" and asked.split is None:
        asked.domain = asked.domain or times.ALL
    points = asked.points(*asked.span())
    title = f"Per cent of n facts ({asked.heading})"
    show(share_table(points, asked.titles, title) if form == "table" else share_rows(points), form)


def _years(asked: _Asked, form: Format) -> None:
    how = {"repeat": asked.given["repeat"], "split": asked.split or "domain", **asked.reading}
    found = times.years(asked.connection, asked.given["known_at"], **how)
    boxes = asked.ordered([box for box in found if asked.domain in (None, box.domain)])
    title = f"Years in which named terms began ({asked.heading})"
    table = years_table(boxes, asked.titles, title, asked.split or "domain")
    show(table if form == "table" else years_rows(boxes), form)


def _knowledge(asked: _Asked, form: Format) -> None:
    found = asked.known()
    if form == "json":
        emit(as_json([known_json(one, asked.split) for one in found]))
        return
    title = f"The date each model answers from ({asked.heading})"
    table = knowledge_table(found, asked.titles, title, asked.split)
    show(table if form == "table" else knowledge_rows(found, asked.split), form)


_SHOW: Final = {"overview": _overview, "share": _share, "years": _years, "knowledge": _knowledge}
