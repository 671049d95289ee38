"""Where a command is to write: a file or a folder, looked at before the work is done."""

import os
from pathlib import Path
from typing import Any, Final

import click


class Target(click.Path):
    """A file or folder to write, looked at before the work is done: whether it can be.

    Args:
        folder: Whether it is a folder; it is made where it is missing.
        parents: Of a file, whether the folders above it are made where they are missing.
    """

    def __init__(self, folder: bool = False, parents: bool = False) -> None:
        super().__init__(path_type=Path)
        self._folder, self._parents = folder, parents or folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the path."""
        path = Path(value)
        if problem := self.problem(path):
            self.fail(problem, param, ctx)
        return path

    def problem(self, path: Path) -> str | None:
        """Return why nothing can be written there; None where it can."""
        if path.exists() and path.is_dir() != self._folder:
            there = "a file, where a folder is to be" if self._folder else "a folder; name a file in it"
            return f"{path} is {there}."
        above = next(one for one in (path, *path.absolute().parents) if one.exists())
        if above != path and not above.is_dir():
            return f"{above} is a file, so there can be no {path}."
        if not (path.exists() or self._parents or path.absolute().parent == above):
            return f"There is no folder {path.parent}; make it first."
        return None if os.access(above, os.W_OK) else f"{above} may not be written."


NEW_FILE: Final = Target()
NEW_FOLDER: Final = Target(folder=True)
