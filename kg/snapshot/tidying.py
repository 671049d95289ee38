"""What killed processes left in a folder of snapshots: told, and cleaned up where nothing can be lost."""

import shutil
from pathlib import Path
from typing import Final

from kg.errors import SnapshotError
from kg.snapshot import manifest as manifests
from kg.snapshot.appending import half_done, mend
from kg.snapshot.beside import Leftover, leftovers, unlocked
from kg.snapshot.files import PARTS, Snapshot, packed
from kg.snapshot.series import FOLDER

NEXT: Final = "dyknow snapshot pack"
"""The command that cleans up whether or not there is anything to do for it."""


def untidy(folder: Path) -> list[str]:
    """Return what killed processes left in a folder of snapshots, a sentence each; nothing is changed."""
    return half_done(folder / FOLDER) + [
        f"{one.path} is half of a snapshot, left by a killed command."
        if one.packed is None
        else f"{one.path} was being taken away after {one.packed} had been packed, by a command that was killed."
        for one in leftovers(folder)
    ]


def tidy(folder: Path) -> list[str]:
    """Clean up what killed processes left in a folder of snapshots; return what was done, or is to do, a sentence each.

    Half a snapshot is removed. So is the folder of a packed one, if the series has it; if not, it is put back where it
    is whole, and else left as it is.
    """
    said = mend(folder / FOLDER)
    for one in leftovers(folder):
        with unlocked(one.path) as free:
            if free:
                said.append(_settled(one))
    return said


def _settled(one: Leftover) -> str:
    if one.packed is None:
        shutil.rmtree(one.path)
        return f"{one.path} was half of a snapshot, left by a killed command; it is removed."
    try:
        dates = [there.id for there in packed(one.path.parent)]
    except SnapshotError as error:
        return f"{one.path} is left as it is: {error.message}"
    if one.packed in dates:
        for name in PARTS:
            (one.path / name).unlink(missing_ok=True)
        if others := sorted(path.name for path in one.path.iterdir()):
            return f"{one.path} is left: it also holds {others[0]}, which is no part of a snapshot. Move that away."
        one.path.rmdir()
        return f"{one.path} was left by a killed command; it is removed, for the series has {one.packed}."
    target = one.path.with_name(one.packed)
    if target.exists() or not _whole(one.path, one.packed):
        return f"{one.path} is left: the series does not have {one.packed}, and it is no whole snapshot. Look at it."
    one.path.rename(target)
    return f"{target} is put back: a killed command had begun to take it away, and the series does not have it."


def _whole(path: Path, date: str) -> bool:
    """Tell whether a folder holds a whole snapshot of a date, whatever its own name."""
    try:
        manifest = manifests.parse((path / manifests.NAME).read_bytes(), path / manifests.NAME)
        for _ in Snapshot(date, path, manifest).blocks():
            pass
    except (OSError, SnapshotError):
        return False
    return bool(manifest["date"] == date)
