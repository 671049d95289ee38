"""Answers kept as they came, so that nothing is fetched twice."""

import contextlib
import gzip
import os
import tempfile
import zlib
from pathlib import Path

import orjson


class Responses:
    """The answers as they came, one compressed file each, so that a crash or a second run fetches nothing again.

    An entry is one line of JSON that says whence and how long, then the body, gzipped: ``zcat`` shows it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> bytes | None:
        """Return the body stored under a key; None where there is none or it is damaged."""
        try:
            head, _, body = gzip.decompress(self._path(key).read_bytes()).partition(b"\n")
            whole = orjson.loads(head)["bytes"] == len(body)
        except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error):
            return None  # fetched again
        return body if whole else None

    def put(self, key: str, url: str, body: bytes) -> None:
        """Store a body; after a crash it is there whole or not at all.

        Raises:
            OSError: the folder cannot be written.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = orjson.dumps({"url": url, "bytes": len(body)}) + b"\n"
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(gzip.compress(head + body, compresslevel=6, mtime=0))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.gz"


def _sync(folder: Path) -> None:
    """Make a rename last: the folder's own entry is written out, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
