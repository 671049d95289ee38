"""What runs on disk say, as digests, without reading gigabytes of journals at each command.

A digest is kept in the user's cache under what the file system says of a run's files: size, inode, and the times of the
last change of content and of inode. The second of these no program can set back, so that whoever writes to a file
changes it. Two writes in one tick of that clock would look alike; so a digest is kept only where the files had not
changed for some seconds, by the clock of the file system that holds them. Runs of less than a megabyte are always read.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from dyknow.journal import JUDGMENTS, RunInfo, content
from kg.store import cache_folder

SMALL_BYTES: Final = 1_000_000
"""Runs below that are read anew each time: that takes no longer than to look them up."""

_SETTLED_NS: Final = 3_000_000_000  # more than the coarsest clocks of file systems tick


def run_digest(run: RunInfo, cache: Path | None = None) -> str:
    """Return a digest of all that a run's files say.

    Args:
        run: the run.
        cache: the folder for what is kept; None: the user's.

    Raises:
        RunError: a closed segment of a journal is damaged.
    """
    states = _states(run.path)
    if sum(size for _, size, *_ in states) < SMALL_BYTES:
        return _read(run)
    kept = (cache or cache_folder()) / "runs" / f"{_hex(str(run.path.resolve()))}.json"
    wanted = {"states": [list(state) for state in states]}
    with suppress(OSError, orjson.JSONDecodeError, TypeError, KeyError):
        found = orjson.loads(kept.read_bytes())
        if {"states": found["states"]} == wanted and isinstance(found["digest"], str):
            return found["digest"]
    digest = _read(run)
    with suppress(OSError):  # what cannot be kept is read again
        _keep(kept, run.path, wanted | {"digest": digest}, states)
    return digest


def _read(run: RunInfo) -> str:
    return _hex("".join(f"{name} {digest}\n" for name, digest in content(run.path)))


def _hex(text: str) -> str:
    return sha256(text.encode()).hexdigest()


_State = tuple[str, int, int, int, int]
"""A file's name, size in bytes, inode, and the times of its last change, in nanoseconds."""


def _states(path: Path) -> list[_State]:
    return sorted(_state(path, file) for file in _files(path))


def _files(path: Path) -> Iterator[Path]:
    for folder in (path, path / JUDGMENTS):
        for pattern in ("*.json", "*.jsonl*"):
            yield from folder.glob(pattern)


def _state(path: Path, file: Path) -> _State:
    said = file.stat()
    return file.relative_to(path).as_posix(), said.st_size, said.st_ino, said.st_mtime_ns, said.st_ctime_ns


def _keep(kept: Path, path: Path, record: Mapping[str, Any], states: list[_State]) -> None:
    """Write a digest down, unless a file was changed while it was read or just before."""
    with tempfile.NamedTemporaryFile(dir=path, prefix=".clock-") as clock:
        now = os.fstat(clock.fileno()).st_ctime_ns
    if _states(path) != states or any(now - max(state[3:]) < _SETTLED_NS for state in states):
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as beside:
        beside.write(orjson.dumps(record))
    Path(beside.name).replace(kept)
