"""What is written beside its place and renamed, and what a killed process left of it.

A folder that is being written, or taken away, is locked by the process that does so; the kernel drops the lock of a
dead one. So what is hidden and not locked is a leftover, and is safe to clean up.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kg.errors import SnapshotError

_PACKED: Final = "packed"
_IS_HALF: Final = re.compile(r"\.(?:-?\d{4,}-\d\d-\d\d|parts)-[a-z0-9_]{8}")
_IS_PACKED: Final = re.compile(rf"\.(-?\d{{4,}}-\d\d-\d\d)-{_PACKED}")


class Leftover(NamedTuple):
    """A hidden folder that a killed process left.

    Attributes:
        path: The folder.
        packed: The date of the snapshot that was being taken away, because a series has it; None where the folder is
            half of a snapshot that was being written.
    """

    path: Path
    packed: str | None


@contextmanager
def written_beside(target: Path) -> Iterator[Path]:
    """Yield a folder beside the target, which takes its place when all went well.

    Raises:
        SnapshotError: the target is there by then.
    """
    folder, lock = _made(target)
    try:
        folder.chmod(0o755)
        yield folder
        try:
            folder.rename(target)
        except OSError as error:
            raise exists(target) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made(target: Path) -> tuple[Path, int]:
    """Make a hidden folder for a target and lock it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        lock = os.open(folder, os.O_RDONLY)
        _lock(lock, wait=True)
        if folder.exists():  # somebody who cleans up may have come between
            return folder, lock
        os.close(lock)


def take_away(path: Path) -> None:
    """Take a snapshot's folder away, at once, so that nobody meets half of it."""
    aside = path.with_name(f".{path.name}-{_PACKED}")
    lock = os.open(path, os.O_RDONLY)
    try:
        _lock(lock, wait=True)
        path.rename(aside)
        shutil.rmtree(aside)
    finally:
        os.close(lock)


def leftovers(folder: Path) -> list[Leftover]:
    """Return what killed processes left in a folder of snapshots; what one is writing still is none."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        packed = _IS_PACKED.fullmatch(path.name)
        if (packed or _IS_HALF.fullmatch(path.name)) and path.is_dir() and not path.is_symlink():
            with unlocked(path) as free:
                if free:
                    found.append(Leftover(path, packed[1] if packed else None))
    return found


@contextmanager
def unlocked(path: Path) -> Iterator[bool]:
    """Tell whether no process holds a folder, and hold it meanwhile."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _lock(lock, wait=False) and path.exists()
    finally:
        os.close(lock)


def _lock(descriptor: int, wait: bool) -> bool:
    """Lock a folder; tell whether that could be done. Where the system or its disk has no such locks, it cannot."""
    try:
        import fcntl  # noqa: PLC0415  # POSIX only

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


def exists(target: Path) -> SnapshotError:
    """Return the error that a snapshot is there already."""
    return SnapshotError(f"{target} exists; a snapshot is never overwritten.", hint="Choose another date or folder.")
