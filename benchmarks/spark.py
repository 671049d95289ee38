"""Dumps on Spark against processes of one machine, on one grown from real slices: ``python -m benchmarks.spark``.

Both take a snapshot of every head of state and of government with ``dyknow snapshot take``, each in a process of its
own; the time is that of the whole command, Spark's start included, and memory what all its processes use together,
Java's too (their proportional set size). The snapshots must be the same, byte for byte. Needs the extra ``spark``.
"""

import argparse
import bz2
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.dumps import PROPERTIES, REPO, SHARED, grow, memory_of, read_slices

ENGINES = {"processes": (), "spark": ("--master", f"local[{len(os.sched_getaffinity(0))}]")}
KINDS = {"json": 1.0, "bz2": 0.125}
"""How much of the text each gets; bzip2 takes as long for an eighth."""

SHARE = 0.02  # of the bytes in wanted entities
DATE = "2021-06-14"


class Measured(NamedTuple):
    """One snapshot taken."""

    kind: str
    engine: str
    size: int  # bytes of text
    seconds: float
    peak: int  # bytes
    path: Path  # of the snapshot

    def __str__(self) -> str:
        """Return the figures as a line."""
        return (
            f".{self.kind}, {self.size / 1e9:.2f} GB of text, {self.engine}: {self.seconds:.0f} s, "
            f"{self.size / 1e6 / self.seconds:.0f} MB/s for two readings, peak {self.peak / 1e6:.0f} MB"
        )


def compress(text: Path, target: Path) -> None:
    """Write text as bzip2 on all cores, one stream for each eight megabytes."""
    with ProcessPoolExecutor() as pool, text.open("rb") as source, target.open("wb") as file:
        for some in _groups(iter(lambda: source.read(8 << 20), b"")):
            file.writelines(pool.map(bz2.compress, some))


def _groups(parts: Iterator[bytes]) -> Iterator[list[bytes]]:
    while some := [part for part, _ in zip(parts, range(8), strict=False)]:
        yield some


def take(dump: Path, engine: str, size: int) -> Measured:
    """Take a snapshot of a dump and return what that took."""
    folder = dump.with_name(f"{dump.name}-{engine}")
    command = (sys.executable, "-m", "dyknow.cli", "snapshot", "take", str(dump), "--source", "dump", "--date", DATE)
    options = ("--property", ",".join(PROPERTIES), "--engine", engine, "--snapshots", str(folder), *ENGINES[engine])
    ended, used = threading.Event(), [0]
    start = time.perf_counter()
    with subprocess.Popen(
        (*command, *options), cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:

        def watch() -> None:
            while not ended.wait(0.25):
                used.append(memory_of(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, told = process.communicate()
        seconds = time.perf_counter() - start
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(told)
    return Measured(dump.suffix[1:], engine, size, seconds, max(used), folder / DATE)


def measure(gigabytes: float = 0.2, kinds: Sequence[str] = tuple(KINDS), folder: Path | None = None) -> list[Measured]:
    """Grow a dump, take snapshots of it both ways, print and return the figures; all files are deleted again.

    Args:
        gigabytes: of text.
        kinds: of files.
        folder: where the dump is grown; None: the system's folder for temporary files.
    """
    lines, found = read_slices(SHARED / "data" / "wikidata" / "dumps"), []
    with tempfile.TemporaryDirectory(dir=folder) as made:
        text = Path(made) / "dump.json"
        for kind in kinds:
            with text.open("wb") as file:
                file.writelines(grow(lines, SHARE, int(gigabytes * KINDS[kind] * 1e9)))
            if kind == "bz2":
                compress(text, text.with_suffix(".bz2"))
            taken = [take(text.with_suffix(f".{kind}"), engine, text.stat().st_size) for engine in ENGINES]
            for one in taken:
                print(one, flush=True)
            for name in ("statements.nt.gz", "manifest.json"):
                if len({(one.path / name).read_bytes() for one in taken}) > 1:
                    raise SystemExit(f".{kind}: the two snapshots differ in {name}")
            found += taken
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.2, help="of text")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folder", type=Path, help="where the dump is grown")
    args = parser.parse_args()
    measure(args.gigabytes, args.kinds, args.folder)


if __name__ == "__main__":
    main()
