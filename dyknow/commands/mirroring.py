"""What the commands share that fetch from Wikidata: how to be called there, what is wanted, how far it is."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from dyknow import benchmark as benchmarks
from dyknow.commands.common import DayType, Places, duration, note
from kg.dates import Day, format_day, parse_day
from kg.errors import SourceError, UsageError
from kg.snapshot import dates
from kg.sources.dumps import Progress
from kg.sources.entity import ID
from kg.sources.fetch import Step, Wanted, end_of
from kg.sources.responses import Responses
from kg.sources.web import Manners, Web

SITE: Final = "https://www.wikidata.org"
BEGINNING: Final = 20121029
"""The day Wikidata went live."""

SERVICE: Final = "https://query.wikidata.org/sparql"
WORK: Final = ".responses"
"""Folder beside the snapshots for what was fetched, so that nothing is fetched twice."""


class _Month(DayType):
    """A day, or a month: its first day."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Day:  # noqa: ANN401 -- click's own signature
        """Return the day as an integer."""
        short = isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d", value)
        return super().convert(f"{value}-01" if short else value, param, ctx)


MONTH: Final = _Month()


@dataclass(frozen=True)
class Mirroring:
    """How to fetch, as the options of a command say."""

    site: str
    service: str
    contact: str | None
    offline: bool

    def web(self, work: Path | None) -> Web:
        """Return the client, which keeps every response under ``work``."""
        stored = None if work is None else Responses(work)
        return Web(Manners(contact=self.contact), stored, offline=self.offline, report=note)


_OPTIONS: Final[tuple[Callable[..., Any], ...]] = (
    click.option(
        "--contact",
        envvar="DYKNOW_CONTACT",
        show_envvar=True,
        metavar="TEXT",
        help="How Wikidata can reach you, an address or a page; it is part of the User-Agent they ask for.",
    ),
    click.option(
        "--offline",
        is_flag=True,
        help="Use only what was fetched before and is kept in SNAPSHOTS/.responses; an error names what is missing.",
    ),
    click.option(
        "--site",
        envvar="DYKNOW_WIKIDATA",
        show_envvar=True,
        default=SITE,
        show_default=True,
        metavar="URL",
        help="The wiki: Wikidata, or a mirror that serves the same addresses.",
    ),
    click.option(
        "--service",
        envvar="DYKNOW_QUERY_SERVICE",
        show_envvar=True,
        default=SERVICE,
        show_default=True,
        metavar="URL",
        help="The query service.",
    ),
)


def mirroring(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `Mirroring`, passed as ``how``."""

    def wrapped(*args: Any, site: str, service: str, contact: str | None, offline: bool, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
        return function(*args, how=Mirroring(site, service, contact, offline), **kwargs)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def what(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which statements are wanted."""
    for option in (
        click.option("--subject", "subjects", metavar="Q38,…", help="Only these subjects, by id, separated by commas."),
        click.option("--property", "properties", metavar="P6,…", help="Only these properties, separated by commas."),
        click.option(
            "--benchmark",
            "benchmark_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A benchmark whose facts are wanted. Without it the study's.",
        ),
    ):
        function = option(function)
    return function


def ids(text: str | None, letter: str) -> tuple[str, ...]:
    """Return the ids of a list with commas.

    >>> ids("Q38, Q30", "Q")
    ('Q38', 'Q30')

    Raises:
        UsageError: one of them is none.
    """
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if text and not names:
        raise UsageError(f"{text!r} names nothing.", hint=f"Write ids, as {letter}38,{letter}30.")
    for name in names:
        if not (ID.fullmatch(name) and name.startswith(letter)):
            raise UsageError(f"{name!r} is not like {letter}38.", hint=f"Write ids, as {letter}38,{letter}30.")
    return names


def wanted(subjects: str | None, properties: str | None, benchmark_file: Path | None) -> Wanted:
    """Return which properties of which subjects the options ask for.

    A benchmark's facts, kept to the subjects and properties that are named; where both are named, these as they are.

    Raises:
        UsageError: an id is malformed, or nothing is left.
    """
    items, props = ids(subjects, "Q"), ids(properties, "P")
    if items and props:
        return {item: props for item in items}
    bench = benchmarks.load(benchmark_file)
    found: dict[str, set[str]] = {}
    for fact in bench.facts:
        if (not items or fact.subject in items) and (not props or fact.property in props):
            found.setdefault(fact.subject, set()).add(fact.property)
    nameless = sorted(item for item in found if not ID.fullmatch(item))
    for item in nameless:
        del found[item]
    if nameless:
        labels = sorted({fact.subject_label for fact in bench.facts if fact.subject in nameless})
        note(f"Without a Wikidata id, so left out: {', '.join(labels)}. Pin them: dyknow benchmark resolve")
    if not found:
        raise UsageError(f"The benchmark {bench.name} has no such facts.", hint="Name --subject and --property both.")
    return {item: tuple(sorted(own)) for item, own in sorted(found.items())}


def now() -> datetime:
    """Return the present moment; one place, so that tests can set it."""
    return datetime.now(tz=UTC)


def instants(days: Sequence[Day], work: Path) -> dict[Day, str]:
    """Return the instant that each day is shown in: its last second; for today the present.

    The present is written down, so that an interrupted command goes on with the same one.

    Raises:
        UsageError: a day lies in the future.
    """
    moment = now()
    today = parse_day(moment.date().isoformat())
    found = {}
    for day in days:
        if day < BEGINNING:
            raise UsageError(f"{format_day(day)} is before Wikidata began, on {format_day(BEGINNING)}.")
        if day > today:
            raise UsageError(f"{format_day(day)} lies in the future.", hint="Wikidata can be mirrored until today.")
        found[day] = end_of(day) if day < today else _present(moment, work / f"{format_day(day)}.instant")
    return found


def _present(moment: datetime, path: Path) -> str:
    if path.is_file():
        return path.read_text(encoding="ascii").strip()
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")
    return text


@contextmanager
def unbroken(places: Places, work: Path) -> Iterator[None]:
    """Say of a fetch that failed what it could not reach and what is there instead, and leave nothing half-done."""
    try:
        yield
    except SourceError as error:
        kept = sum(1 for path in work.rglob("*") if path.is_file() and path.suffix != ".instant")
        if not kept:
            for path in (*work.glob("*.instant"), work):
                _remove(path)
        there = dates(places.snapshots)
        instead = f"there are the snapshots {', '.join(there)} instead" if there else "there are no snapshots"
        rest = f"{kept} responses are kept for the next try" if kept else "nothing was changed"
        hint = error.hint if kept else "Is the network there? Then the same command does it."
        raise SourceError(f"{error.message.rstrip('.')}; {rest}, and {instead}.", hint=hint) from error


def _remove(path: Path) -> None:
    """Remove a file or an empty folder."""
    if path.is_dir():
        if not any(path.iterdir()):
            path.rmdir()
    else:
        path.unlink(missing_ok=True)


class StepMeter:
    """Shows on standard error how far a fetch has come: in place on a terminal, else a line every ten seconds."""

    def __init__(self, every: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._what, self._began, self._shown, self._from = "", 0.0, 0.0, 0

    def __call__(self, step: Step) -> None:
        """Show a step where it is due."""
        moment, live = self._clock(), sys.stderr.isatty()
        if step.what != self._what:
            self._what, self._began, self._shown, self._from = step.what, moment, moment, step.done
        finished = step.done >= step.total
        if not (finished or moment - self._shown >= (0.2 if live else self._every)):
            return
        self._shown = moment
        text = step_line(step, self._from, moment - self._began)
        click.echo(f"{chr(13) if live else ''}{text}", err=True, nl=finished or not live)


def step_line(step: Step, first: int, seconds: float) -> str:
    """Return a step as a line of constant length.

    >>> step_line(Step("documents", 20, 80), 0, 10.0).rstrip()
    'documents: 20 of 80, 30 s left'
    """
    parts = [f"{step.what}: {step.done} of {step.total}"]
    if first < step.done < step.total:
        parts.append(f"{duration(seconds / (step.done - first) * (step.total - step.done))} left")
    return f"{', '.join(parts):<72}"


class DumpMeter:
    """Shows on standard error how far the reading of a dump has come."""

    def __init__(self, every: float = 10.0) -> None:
        self._every, self._what, self._shown = every, "", 0.0

    def __call__(self, what: str, step: Progress) -> None:
        """Show a step where it is due."""
        live, finished = sys.stderr.isatty(), step.bytes_read >= step.bytes_total
        if what != self._what:
            self._what, self._shown = what, 0.0
        if not (finished or step.seconds - self._shown >= (0.2 if live else self._every)):
            return
        self._shown = step.seconds
        text = f"{f'{what}: {dump_line(step)}':<76}"
        click.echo(f"{chr(13) if live else ''}{text}", err=True, nl=finished or not live)


def dump_line(step: Progress) -> str:
    """Return how far the reading of a dump has come.

    >>> dump_line(Progress(250_000_000, 1_000_000_000, 120_000, 40, 10.0, 25e6, 30.0))
    '25 % of 1.0 GB, 120000 entities, 40 kept, 25 MB/s, 30 s left'
    """
    share = 100 * step.bytes_read // max(1, step.bytes_total)
    parts = [f"{share} % of {step.bytes_total / 1e9:.1f} GB", f"{step.entities} entities", f"{step.kept} kept"]
    parts.append(f"{step.bytes_per_second / 1e6:.0f} MB/s")
    if step.seconds_left:
        parts.append(f"{duration(step.seconds_left)} left")
    return ", ".join(parts)
