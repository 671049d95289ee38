"""What the commands share: places, dates, formats, errors, and how a result reaches the terminal."""

import difflib
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dyknow.analysis import RELEASE
from dyknow.resultsfile import Limits
from dyknow.strata import PARTS
from dyknow.tables import WIDTH, Format, Listing
from kg.dates import Day, format_day, parse_day
from kg.errors import DyknowError, UsageError
from kg.resources import shipped_snapshots
from kg.snapshot import Snapshot, Survey, dates, find, find_snapshots, survey, tidy
from kg.store import Endpoint, Store, open_store
from kg.terms import Rule

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Places:
    """Where data lives.

    Attributes:
        snapshots: The folder of one's own snapshots; those that ship with dyknow are found beside it.
        runs: The folder of the runs.
        database: The file the runs are judged in; it can be deleted at any time.
        memory_limit: What DuckDB may take to make and ask that file.
    """

    snapshots: Path = Path("snapshots")
    runs: Path = Path("runs")
    database: Path = Path("results.duckdb")
    memory_limit: str = Limits().memory

    @property
    def limits(self) -> Limits:
        """What DuckDB may take."""
        return Limits(self.memory_limit)

    def find(self) -> list[Snapshot]:
        """Return all snapshots, by date.

        Raises:
            SnapshotError: one of them is damaged.
        """
        return find_snapshots(self.snapshots)

    def survey(self) -> Survey:
        """Return all snapshots, the damaged ones apart."""
        return survey(self.snapshots)

    def snapshot(self, as_of: Day, known_at: str | None) -> Snapshot:
        """Return the snapshot to read for a day; an unknown one gets a suggestion.

        Raises:
            SnapshotError: that one is damaged; others may be.
        """
        return find(self.snapshots, as_of, known_at)

    def named(self, name: str) -> Snapshot:
        """Return the snapshot of a date.

        Raises:
            UsageError: there is none.
            SnapshotError: it is damaged; others may be.
        """
        there = dates(self.snapshots)
        if name not in there:
            raise UsageError(f"There is no snapshot {name!r}.", hint=nearest(name, there, "dyknow snapshot list"))
        return find(self.snapshots, 0, name)

    def newest(self) -> Snapshot:
        """Return the newest snapshot.

        Raises:
            SnapshotError: there is none, or it is damaged.
        """
        return find(self.snapshots, _AFTER_ALL)


_AFTER_ALL: Final[Day] = 99_999_999

_PLACES: Final = {
    "snapshots": (
        "DYKNOW_SNAPSHOTS",
        Path("snapshots"),
        "Folder of your own snapshots. Those that ship with dyknow are always found too.",
    ),
    "runs": ("DYKNOW_RUNS", Path("runs"), "Folder of the runs: what was asked and answered."),
    "database": (
        "DYKNOW_DATABASE",
        Path("results.duckdb"),
        "DuckDB file the runs are judged in. It is made of runs and snapshots, so it can be deleted.",
    ),
}


def places(*names: str) -> Callable[[F], F]:
    """Give a command options for these places, and the places themselves as ``places``."""

    def decorate(function: F) -> F:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
            chosen = {name: kwargs.pop(f"place_{name}") for name in names}
            if "database" in names:
                chosen["memory_limit"] = kwargs.pop("memory_limit")
            return function(*args, places=Places(**chosen), **kwargs)

        command: Any = _memory_option(wrapped) if "database" in names else wrapped
        for name in reversed(names):
            variable, default, text = _PLACES[name]
            command = click.option(
                f"--{name}",
                f"place_{name}",
                type=click.Path(path_type=Path),
                default=default,
                show_default=True,
                envvar=variable,
                show_envvar=True,
                metavar="PATH",
                help=text,
            )(command)
        return command  # type: ignore[no-any-return]

    return decorate


_memory_option = click.option(
    "--memory-limit",
    default=Limits().memory,
    show_default=True,
    envvar="DYKNOW_MEMORY_LIMIT",
    show_envvar=True,
    metavar="SIZE",
    help="What DuckDB may take, as 4GB or as a part of the machine's memory. What does not fit is put on disk "
    "meanwhile, beside the database or in the folder $DYKNOW_SPILL.",
)


if TYPE_CHECKING:
    _DayParam = click.ParamType[Day]
else:
    _DayParam = click.ParamType  # older releases of click have no parameter here


class DayType(_DayParam):
    """A day of the calendar: ISO, or ``today``."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Day:  # noqa: ANN401
        """Return the day as an integer."""
        if isinstance(value, int):
            return value
        # The one place that reads the clock for a date. In UTC, so that a command means the same everywhere.
        text = datetime.now(tz=UTC).date().isoformat() if value == "today" else str(value)
        try:
            return parse_day(text)
        except UsageError as error:
            self.fail(f"{error.message} {error.hint or ''}".strip(), param, ctx)


DAY: Final = DayType()


def split_option(default: str | None, help_text: str) -> Callable[[F], F]:
    """Return the option for what tables are split by, with its default and what it does here."""
    shown = default is not None
    return click.option(
        "--by", "split", type=click.Choice(["domain", *PARTS]), default=default, show_default=shown, help=help_text
    )


def as_of_option(multiple: bool = False, required: bool = True) -> Callable[[F], F]:
    """Give a command ``--as-of``."""
    again = " Give it again for further days." if multiple else ""
    return click.option(
        "--as-of",
        type=DAY,
        required=required,
        multiple=multiple,
        metavar="DATE",
        help=f"The day of the world to ask about, as 2023-12-18, or `today`.{again}",
    )


def _day_or_release(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return RELEASE if value == RELEASE else format_day(DAY.convert(value, param, ctx))


as_of_or_release_option = click.option(
    "--as-of",
    required=True,
    callback=_day_or_release,
    metavar="DATE",
    help="The day of the world to ask about, as 2023-12-18, or `today`; or `release`: for each run the day its model "
    "came out.",
)

known_at_option = click.option(
    "--known-at",
    metavar="SNAPSHOT",
    help="The snapshot to believe, by its date (see `dyknow snapshot list`). Without it: the oldest one that is not "
    "before --as-of, else the newest.",
)

rule_option = click.option(
    "--rule",
    type=click.Choice([rule.value for rule in Rule]),
    default=Rule.LATEST.value,
    show_default=True,
    help="Who is right: `latest`, the holder of that day who came last; `study`, the last who ever began, even where "
    "that term has ended.",
)

judge_option = click.option(
    "--judge",
    default="match",
    show_default=True,
    metavar="NAME",
    help="Who reads the answers: `match`, our own reading of the text, for any date; `published`, the labels that came "
    "with imported results, which hold for 2023-12-18 alone; or a person or model (see `dyknow judge list`).",
)

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="table to read; json or csv go to standard output alone, with notes on standard error.",
)


def example(*lines: str) -> str:
    """Return an epilog that shows how a command is called."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def nearest(word: str, known: Iterable[str], listing: str) -> str:
    """Return a hint: the nearest known word, or the command that lists them all.

    >>> nearest("gpt2-xxl", ["gpt2-xl", "bloom"], "dyknow runs list")
    "Did you mean 'gpt2-xl'?"
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.5)
    return f"Did you mean {names[near[0]]!r}?" if near else f"See: {listing}"


endpoint_option = click.option(
    "--endpoint",
    metavar="URL",
    help="Ask a SPARQL endpoint that holds the snapshot, instead of the local store; docs/endpoints.md tells how.",
)


@contextmanager
def graph_of(chosen: Snapshot, endpoint: str | None) -> Iterator[Store | Endpoint]:
    """Yield what answers queries about a snapshot: its local store, or an endpoint that holds it.

    Raises:
        UsageError: the endpoint holds other triples than the snapshot, by their number.
    """
    if endpoint is None:
        yield open_store(chosen)
    else:
        with Endpoint(endpoint, chosen.id) as remote:
            [row] = remote.rows("SELECT (COUNT(*) AS ?triples) WHERE { ?s ?p ?o }")
            if row["triples"] != (held := chosen.manifest["counts"]["triples"]):
                raise UsageError(
                    f"The endpoint {remote.url} holds {row['triples']} triples, snapshot {chosen.id} has {held}.",
                    hint="Name the snapshot it holds with --known-at.",
                )
            yield remote


# Output


def emit(text: str) -> None:
    """Write a result to standard output."""
    click.echo(text, nl=False)


def note(text: str) -> None:
    """Write a remark to standard error, where it spoils no result."""
    click.echo(text, err=True)


def tidied(places: Places) -> None:
    """Clean up what killed commands left in the folder of snapshots, and say so."""
    for line in tidy(places.snapshots):
        note(line)


def note_smaller(places: Places, chosen: str, as_of: Day, known_at: str | None) -> None:
    """Say so where a snapshot that was taken for its date has far fewer facts than the shipped one for that day."""
    if known_at is not None:
        return
    shipped = find_snapshots(shipped_snapshots())
    other = next((one for one in shipped if one.date >= as_of), shipped[-1])
    if chosen in {one.id for one in shipped}:
        return
    ours, theirs = (int(one.manifest["counts"]["facts"]) for one in (places.named(chosen), other))
    if ours * 2 < theirs:
        note(
            f"Snapshot {chosen} of {places.snapshots} is taken for its date, and has {ours} facts; the shipped one,"
            f" {other.id}, has {theirs}: --known-at {other.id} takes that."
        )


def show(listing: Listing, form: Format) -> None:
    """Write a listing to standard output."""
    emit(listing.text(form, width(), colour()))


def width() -> int:
    """Return the columns to fill: the terminal's, never fewer than a table of rates needs."""
    return max(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else 120


def colour() -> bool:
    """Tell whether standard output shows bold and dim."""
    return sys.stdout.isatty()


def day_text(day: Day | None) -> str | None:
    """Return a day as ISO writes it."""
    return None if day is None else format_day(day)


def iso(days: Sequence[Day]) -> list[str]:
    """Return days as ISO writes them, each once, in the given order."""
    return list(dict.fromkeys(map(format_day, days)))


def describe(chosen: Snapshot) -> str:
    """Name a snapshot with the start of its digest, and how its date is known where that is not plain."""
    known = f"; {chosen.known}" if chosen.known else ""
    return f"{chosen.id} ({chosen.digest[:12]}{known})"


def duration(seconds: float) -> str:
    """Return a time as a person says it.

    >>> duration(25), duration(150), duration(7260)
    ('25 s', '2 min 30 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


# Errors


class Failure(click.ClickException):
    """One of our errors on its way to the terminal: one sentence and the next step."""

    def __init__(self, error: DyknowError) -> None:
        super().__init__(error.message)
        self.hint = error.hint

    def show(self, file: Any = None) -> None:  # noqa: ANN401 -- click's own signature
        """Write the error to standard error."""
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(self.hint, err=True)


class Misuse(Failure):
    """A failure that lies in how the command was called."""

    exit_code = UsageError.exit_code


def _remember_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["dyknow.debug"] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_debug,
    help="Show where an error comes from.",
)


_ENDS: Final = "dyknow.ends"


def end_with(error: DyknowError) -> None:
    """Let the command end with an error after it has shown what it can, and with exit code 1."""
    click.get_current_context().meta.setdefault(_ENDS, {})[error.message] = error


def _ended(ctx: click.Context) -> bool:
    """Say what the command is to end with; return whether there is anything."""
    errors = ctx.meta.pop(_ENDS, {})
    for error in errors.values():
        Failure(error).show()
    return bool(errors)


class Command(click.Command):
    """A command that knows ``--debug`` and turns our errors into sentences."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- click's own signature
        super().__init__(*args, **kwargs)
        debug_option(self)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 -- click's own signature
        """Run the command."""
        try:
            found = super().invoke(ctx)
        except DyknowError as error:
            _ended(ctx)
            if ctx.find_root().meta.get("dyknow.debug"):
                click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
            raise (Misuse if isinstance(error, UsageError) else Failure)(error) from error
        except (OSError, UnicodeEncodeError) as error:  # a folder that is a file, a full disk, a text that is none
            if ctx.find_root().meta.get("dyknow.debug") or isinstance(error, BrokenPipeError):
                raise
            known = isinstance(error, OSError) and error.filename is not None
            said = f"{error.filename}: {error.strerror}." if known and isinstance(error, OSError) else f"{error}."
            raise Failure(DyknowError(said, hint="--debug shows where it comes from.")) from error
        except KeyboardInterrupt:
            click.echo("\nInterrupted. What was finished is kept; give the same command again.", err=True)
            ctx.exit(130)
        if _ended(ctx):
            ctx.exit(DyknowError.exit_code)
        return found


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:  # noqa: ANN401
    """Make a function a `Command`, as ``click.command`` makes it one of its own."""
    return click.command(name, cls=Command, **attributes)


class Group(click.Group):
    """A group of commands that suggests the nearest name for an unknown one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a name."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            near = difflib.get_close_matches(args[0], names, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


Group.group_class = Group
