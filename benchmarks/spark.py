"""Dumps on Spark against processes of one machine, on one grown from real slices: ``python -m benchmarks.spark``.

Both take a snapshot of every head of state and of government with ``dyknow snapshot take``, each in a process of its
own; the time is that of the whole command, Spark's start included, processor time and memory those of all its
processes together, Java's too (memory as their proportional set size). The snapshots must be the same, byte for byte.
With ``--folder`` the grown dumps stay there, and are taken where they are there already. Needs the extra ``spark``.
"""

import argparse
import bz2
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.dumps import PROPERTIES, REPO, SHARED, grow, read_slices

ENGINES = {"processes": (), "spark": ("--master", f"local[{len(os.sched_getaffinity(0))}]")}
KINDS = ("json", "bz2")
SHARE = 0.02  # of the bytes in wanted entities
DATE = "2021-06-14"


class Measured(NamedTuple):
    """One snapshot taken."""

    kind: str
    engine: str
    size: int  # bytes of text
    seconds: float
    processor: float  # seconds
    tasks: float  # of them in Spark's Python processes, which read the dump
    peak: int  # bytes
    path: Path  # of the snapshot

    def __str__(self) -> str:
        """Return the figures as a line."""
        return (
            f".{self.kind}, {self.size / 1e9:.2f} GB of text, {self.engine}: {self.seconds:.0f} s, "
            f"{self.processor:.0f} s of processor{f', {self.tasks:.0f} s of it in tasks' if self.tasks else ''}, "
            f"{self.size / 1e6 / self.seconds:.0f} MB/s for two readings, "
            f"peak {self.peak / 1e6:.0f} MB"
        )


def compress(text: Path, target: Path) -> None:
    """Write text as bzip2 on all cores, one stream for each eight megabytes."""
    with ProcessPoolExecutor() as pool, text.open("rb") as source, target.open("wb") as file:
        parts = iter(lambda: source.read(8 << 20), b"")
        while some := list(islice(parts, 8)):
            file.writelines(pool.map(bz2.compress, some))


class Spent(NamedTuple):
    """What a process has used."""

    seconds: float  # of processor
    is_task: bool


def used_by(process: int, spent: dict[int, Spent]) -> None:
    """Note what a process and all below it have used so far, by their numbers."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        words = b"" if process in spent else Path(f"/proc/{process}/cmdline").read_bytes()
        # Java starts processes from any of its threads.
        for task in Path(f"/proc/{process}/task").iterdir():
            children += (task / "children").read_text().split()
    except OSError:
        return
    is_task = spent[process].is_task if process in spent else b"pyspark.daemon" in words
    spent[process] = Spent((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), is_task)
    for child in set(children):
        used_by(int(child), spent)


def take(dump: Path, engine: str, size: int) -> Measured:
    """Take a snapshot of a dump and return what that took."""
    folder = dump.with_name(f"{dump.name}-{engine}")
    shutil.rmtree(folder, ignore_errors=True)
    command = (sys.executable, "-m", "dyknow.cli", "snapshot", "take", str(dump), "--source", "dump", "--date", DATE)
    options = ("--property", ",".join(PROPERTIES), "--engine", engine, "--snapshots", str(folder), *ENGINES[engine])
    ended, memory = threading.Event(), [0]
    spent: dict[int, Spent] = {}
    start = time.perf_counter()
    with subprocess.Popen(
        (*command, *options), cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:

        def watch() -> None:
            while not ended.wait(0.25):
                used_by(process.pid, spent)
                memory.append(sum(own_memory(one) for one in spent))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, told = process.communicate()
        seconds = time.perf_counter() - start
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{told}\n{engine} ended with the code {process.returncode}")
    processor = sum(one.seconds for one in spent.values())
    tasks = sum(one.seconds for one in spent.values() if one.is_task)
    return Measured(dump.suffix[1:], engine, size, seconds, processor, tasks, max(memory), folder / DATE)


def own_memory(process: int) -> int:
    """Return the proportional set size of a process alone; 0 where it has ended."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def grown(folder: Path, gigabytes: float, kind: str) -> tuple[Path, int]:
    """Return a grown dump of a folder and the bytes of its text; what is there already is taken as it is."""
    text = folder / f"{gigabytes:g}-gigabytes.json"
    if not text.exists():
        part = text.with_suffix(".part")
        with part.open("wb") as file:
            file.writelines(grow(read_slices(SHARED / "data" / "wikidata" / "dumps"), SHARE, int(gigabytes * 1e9)))
        part.rename(text)
    if kind == "bz2" and not text.with_suffix(".bz2").exists():
        compress(text, part := text.with_suffix(".part"))
        part.rename(text.with_suffix(".bz2"))
    return text.with_suffix(f".{kind}"), text.stat().st_size


def measure(gigabytes: float = 0.2, kinds: Sequence[str] = KINDS, folder: Path | None = None) -> list[Measured]:
    """Grow a dump, take snapshots of it both ways, print and return the figures.

    Args:
        gigabytes: of text.
        kinds: of files.
        folder: where the dump is grown, and stays; None: a folder that is deleted again.
    """
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as made:
        for kind in kinds:
            dump, size = grown(folder or Path(made), gigabytes, kind)
            taken = []
            for engine in ENGINES:
                taken.append(take(dump, engine, size))
                print(taken[-1], flush=True)
            for name in ("statements.nt.gz", "manifest.json"):
                if len({(one.path / name).read_bytes() for one in taken}) > 1:
                    raise SystemExit(f".{kind}: the two snapshots differ in {name}")
            found += taken
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.2, help="of text")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--folder", type=Path, help="where the dump is grown, and stays")
    args = parser.parse_args()
    measure(args.gigabytes, args.kinds, args.folder)


if __name__ == "__main__":
    main()
