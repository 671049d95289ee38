"""Finds the files that travel with the code: queries, shipped snapshots, tables.

In a checkout ``queries/`` and ``snapshots/`` stand beside the packages; in an installed wheel they lie inside ``kg``.
"""

from functools import cache
from pathlib import Path
from typing import Final

from kg.errors import DyknowError

SHIPPED: Final = ("2023-12-18", "2025-11-30")
"""The snapshots that ship with the project; they stay plain files."""

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Return the installed copy of a top-level folder where there is one, else the checkout's."""
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


@cache
def query(name: str) -> str:
    """Return the text of a statement under ``queries/``, e.g. ``query("kg/answers.rq")``.

    Raises:
        DyknowError: no such file; the installation is incomplete.
    """
    path = _folder("queries") / name
    if not path.is_file():
        raise DyknowError(f"The query {name} is not at {path}.", hint="Install dyknow again.")
    return path.read_text(encoding="utf-8")


def shipped_snapshots() -> Path:
    """Return the folder with the snapshots that ship with the project."""
    return _folder("snapshots")


def table(name: str) -> Path:
    """Return the path of a reviewed table of the graph, e.g. ``table("identity.csv")``."""
    return _PACKAGE / "data" / name
