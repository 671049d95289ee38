"""Runs that cannot be read, told apart from the others, so that a damaged one keeps nobody from these."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from dyknow.journal import RUN_FILE, RunInfo, read_run
from kg.errors import RunError

T = TypeVar("T")

_HINT: Final = "Put its record back from a copy, or move the run away and ask again."


class Damaged(NamedTuple):
    """A run that cannot be read.

    Attributes:
        id: Its name; that of its folder, where its record is what cannot be read.
        path: Its folder.
        error: Which file and line, and the next step.
    """

    id: str
    path: Path
    error: RunError


class Survey(NamedTuple):
    """The runs in a folder, by name: those whose record can be read, and those whose cannot."""

    runs: list[RunInfo]
    damaged: list[Damaged]

    @property
    def whole(self) -> list[RunInfo]:
        """The runs that are no parts of one: what tables are made of."""
        return [run for run in self.runs if run.part is None]


class DamagedRun(RunError):
    """A damaged run, as it is met on the way."""

    def __init__(self, damaged: Damaged) -> None:
        super().__init__(damaged.error.message, hint=damaged.error.hint)
        self.damaged = damaged


def survey(folder: Path) -> Survey:
    """Return the runs in a folder, those without a readable record apart; none where the folder is absent.

    Records are read, no journals; whether these are whole, `dyknow.verify` tells.
    """
    found = Survey([], [])
    for file in sorted(folder.glob(f"*/{RUN_FILE}")):
        try:
            found.runs.append(read_run(file.parent))
        except RunError as error:
            told = RunError(error.message, hint=error.hint or _HINT)
            found.damaged.append(Damaged(file.parent.name, file.parent, told))
    return found


def watched(run: RunInfo, rows: Iterable[T]) -> Iterator[T]:
    """Yield what is read of a run.

    Raises:
        DamagedRun: it cannot be read; the error says which run.
    """
    try:
        yield from rows
    except RunError as error:
        raise DamagedRun(Damaged(run.id, run.path, error)) from error
