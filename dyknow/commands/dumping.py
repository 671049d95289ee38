"""How a dump is read, as the options of a command say: by processes on this machine, or by Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from dyknow.commands.common import note
from kg.errors import UsageError
from kg.sources import Source, dumps, parquet, spark

PROCESSES: Final = "processes"
SPARK: Final = "spark"


@dataclass(frozen=True)
class Engine:
    """What reads, ready to do so."""

    reader: dumps.Reader
    keep: Callable[[Source], None]
    """Is given what the dump says once it is there, to write it elsewhere too."""


@dataclass(frozen=True)
class Dumping:
    """The options."""

    engine: str | None
    master: str | None
    parquet: Path | None
    workers: int | None

    def check(self, kind: str) -> None:
        """Refuse, before anything is read, what cannot be meant.

        Raises:
            UsageError: an option belongs to a dump, or to the other engine.
            DyknowError: Spark is not there.
        """
        given = [
            (self.engine, "--engine", None),
            (self.workers, "--workers", PROCESSES),
            (self.master, "--master", SPARK),
            (self.parquet, "--parquet", SPARK),
        ]
        for value, option, engine in given:
            if value is not None and kind != "dump":
                raise UsageError(f"{option} is about dumps, and the source is {kind}.", hint="Give --source dump.")
            if value is not None and engine not in (None, self.engine or PROCESSES):
                raise UsageError(f"{option} belongs to --engine {engine}.", hint=f"Give it, or leave {option} out.")
        if self.engine == SPARK:
            spark.check()
        if self.parquet is not None:
            parquet.ready(self.parquet)

    @contextmanager
    def started(self) -> Iterator[Engine]:
        """Give the engine, which stops with the block."""
        if self.engine != SPARK:
            yield Engine(dumps.processes(self.workers), lambda made: None)
            return
        with spark.session(self.master or spark.LOCAL) as session:

            def keep(made: Source) -> None:
                if self.parquet is not None and made.rows:
                    parquet.write(made, self.parquet)
                    note(f"Wrote {len(made.rows)} statements and their subjects to {self.parquet}, by property.")

            yield Engine(spark.reader(session), keep)


_OPTIONS: Final[tuple[Callable[..., Any], ...]] = (
    click.option(
        "--engine",
        type=click.Choice([PROCESSES, SPARK]),
        help="What reads a dump: `processes` on this machine, the default, or `spark`, which needs the extra "
        "dyknow[spark] and Java 17. Both give the same snapshot, byte for byte.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: spark://HOST:7077, yarn, k8s://…; each of its machines must see FILE under the same "
        "path. [default: local[*], this one with all cores]",
    ),
    click.option(
        "--parquet",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="With --engine spark: write the statements as Parquet, too, partitioned by property, and their subjects.",
    ),
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="Processes that read a dump. [default: cores]"
    ),
)


def dumping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `Dumping`, passed as ``dump``."""

    def wrapped(
        *args: Any,  # noqa: ANN401 -- whatever the command takes
        engine: str | None,
        master: str | None,
        parquet: Path | None,
        workers: int | None,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 -- and returns
        return function(*args, dump=Dumping(engine, master, parquet, workers), **kwargs)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
