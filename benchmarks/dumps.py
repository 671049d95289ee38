"""Dump extraction against the plain loop, on dumps grown from real slices: ``python -m benchmarks.dumps``.

The grown dumps have the real lines again and again under fresh ids, so many of those that hold heads of government and
of state (P6, P35) that they make up the wanted share of the bytes. The plain loop is timed on the first part of the
same file, for it is the same all along. Memory is what all processes together use (their proportional set size).
"""

import argparse
import bz2
import gzip
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

import rapidgzip  # type: ignore[import-not-found]
import zstandard

from kg.sources.dumplines import Wanted
from kg.sources.dumps import entities, extract

REPO = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("DYKNOW_SHARED", REPO.parent / "shared"))
SLICES = ("2018-09-slice.json.bz2", "2021-06-slice.json.gz")
PROPERTIES = ("P6", "P35")
SHARES = (0.02, 0.6)
KINDS = ("json", "gz", "zst", "bz2")
SAMPLE = 100_000_000  # bytes of text which the plain loop reads
CHUNK = 1 << 20


class Measured(NamedTuple):
    """One dump, read both ways. Throughputs are of text, in bytes a second."""

    kind: str
    share: float
    size: int
    plain: float
    ours: float
    alone: float | None  # decompressing on all cores, where that is the bound
    peak: int  # bytes
    early: int  # the peak of the first third of the time
    late: int  # and of the last

    def __str__(self) -> str:
        bound = ""
        if self.alone:
            ratio = self.alone / self.ours
            bound = f", decompressing alone {self.alone / 1e6:.0f} MB/s: {ratio:.2f} times its time"
        return (
            f"dump .{self.kind}, {self.size / 1e9:.2f} GB of text, {self.share:.1%} of the bytes wanted: "
            f"plain loop {self.plain / 1e6:.0f} MB/s (first {min(SAMPLE, self.size) / 1e6:.0f} MB), "
            f"ours {self.ours / 1e6:.0f} MB/s, ratio {self.ours / self.plain:.1f}{bound}; "
            f"peak {self.peak / 1e6:.0f} MB (first third {self.early / 1e6:.0f}, last third {self.late / 1e6:.0f})"
        )


# Growing


class Lines(NamedTuple):
    """The lines of the slices, as Wikidata writes them."""

    wanted: list[bytes]
    filler: list[bytes]


def read_slices(folder: Path) -> Lines:
    """Return the entities of the slices, those with a wanted property apart from the others."""
    lines = Lines([], [])
    for name in SLICES:
        open_slice = bz2.open if name.endswith("bz2") else gzip.open
        with open_slice(folder / name) as file:
            for line in file:
                if line.startswith(b"{"):
                    document = json.loads(line.strip().removesuffix(b","))
                    kept = lines.wanted if any(prop in document["claims"] for prop in PROPERTIES) else lines.filler
                    # The slice of 2018 was written with blanks; dumps have none.
                    kept.append(json.dumps(document, separators=(",", ":")).encode())
    return lines


def grow(lines: Lines, share: float, size: int) -> Iterator[bytes]:
    """Yield the lines of a dump of about this size; this share of its bytes is in wanted entities."""
    wanted, filler = _endless(lines.wanted), _endless(lines.filler)
    done = held = 0
    yield b"[\n"
    for number in itertools.count(200_000_000):
        is_wanted = held < share * done
        line = _renamed(next(wanted if is_wanted else filler), number)
        done, held = done + len(line), held + len(line) * is_wanted
        yield line
        if done >= size:
            break
        yield b",\n"
    yield b"\n]\n"


def _endless(lines: Sequence[bytes]) -> Iterator[bytes]:
    order, shuffled = random.Random(7), list(lines)
    while True:
        order.shuffle(shuffled)
        yield from shuffled


def _renamed(line: bytes, number: int) -> bytes:
    """Return the same entity under another id, its statements too."""
    head = re.match(rb'\{"type":"item","id":"(Q\d+)"', line)
    assert head is not None
    fresh = b"Q%d" % number
    line = b'{"type":"item","id":"%b"%b' % (fresh, line[head.end() :])
    return re.sub(rb'"id":"%b\$' % head[1], b'"id":"%b$' % fresh, line, flags=re.IGNORECASE)


def compress(text: Path, kind: str, target: Path) -> None:
    """Write a dump's text as one stream, as the usual program of the kind does by default."""
    with text.open("rb") as source, target.open("wb") as file:
        if kind == "zst":
            zstandard.ZstdCompressor(threads=-1, write_checksum=True).copy_stream(source, file)
        else:
            with gzip.open(file, "wb", 6) if kind == "gz" else bz2.open(file, "wb") as packed:
                while chunk := source.read(CHUNK):
                    packed.write(chunk)


# Reading both ways


def open_plain(path: Path) -> IO[bytes]:
    """Open a dump as the plain loop does."""
    if path.suffix == ".zst":  # zstandard.open gives no lines
        stream = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True)
        return io.BufferedReader(stream, CHUNK)
    opened: dict[str, Callable[[Path], object]] = {".gz": gzip.open, ".bz2": bz2.open}
    packed = opened.get(path.suffix)
    return cast("IO[bytes]", packed(path)) if packed else path.open("rb")


def plain_loop(path: Path, limit: int) -> tuple[int, list[str]]:
    """Return the bytes read and the ids kept by ``json.loads`` per line."""
    done, kept = 0, []
    with open_plain(path) as file:
        for line in file:
            done += len(line)
            if len(line) > 3:
                document = json.loads(line.rstrip(b",\n"))
                if any(prop in document["claims"] for prop in PROPERTIES):
                    kept.append(document["id"])
            if done >= limit:
                break
    return done, kept


def throughput(work: Callable[[], int], times: int) -> float:
    """Return the best bytes a second of some tries; the work returns the bytes."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        done = work()
        found.append(done / (time.perf_counter() - start))
    return max(found)


def decompress(path: Path) -> int:
    """Decompress on all cores and do nothing else."""
    done = 0
    with rapidgzip.IndexedBzip2File(str(path), parallelization=len(os.sched_getaffinity(0))) as file:
        while piece := file.read(CHUNK):
            done += len(piece)
    return done


def extract_apart(path: Path, out: Path) -> tuple[float, list[tuple[float, int]]]:
    """Extract in a process of its own; return the seconds, and the memory of it and its children over time."""
    command = (sys.executable, "-m", "benchmarks.dumps", "--extract", str(path), str(out))
    memory: list[tuple[float, int]] = []
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.05):
                memory.append((time.perf_counter(), memory_of(process.pid)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, _ = process.communicate()
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    return float(output), memory


def memory_of(process: int) -> int:
    """Return the proportional set size of a process and all below it; 0 where it has just ended."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    own = next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return own + sum(memory_of(int(child)) for child in children)


def measure_one(path: Path, share: float, size: int, times: int) -> Measured:
    """Read one dump both ways, and see that both find the same."""
    out = path.with_suffix(".out")
    plain = throughput(lambda: plain_loop(path, SAMPLE)[0], times)
    alone = throughput(lambda: decompress(path), times) if path.suffix == ".bz2" else None
    runs = [extract_apart(path, out) for _ in range(times)]
    plain = max(plain, throughput(lambda: plain_loop(path, SAMPLE)[0], 1))
    expected = plain_loop(path, SAMPLE)[1]
    if [found.id for found in itertools.islice(entities(out), len(expected))] != expected:
        raise SystemExit(f"{path}: the plain loop and the extraction disagree")
    out.unlink()
    memory = runs[0][1]
    third = (memory[-1][0] - memory[0][0]) / 3
    early = max(used for at, used in memory if at <= memory[0][0] + third)
    late = max(used for at, used in memory if at >= memory[-1][0] - third)
    peak = max(used for _, run in runs for _, used in run)
    return Measured(path.suffix[1:], share, size, plain, size / min(run[0] for run in runs), alone, peak, early, late)


def measure(
    gigabytes: float = 0.5,
    kinds: Sequence[str] = KINDS,
    shares: Sequence[float] = SHARES,
    times: int = 2,
    folder: Path | None = None,
) -> list[Measured]:
    """Grow dumps, read them both ways, print and return the figures; the dumps are deleted again.

    Args:
        gigabytes: of text in each dump; .bz2 gets a quarter, for it takes as long as all others together.
        kinds: which dumps.
        shares: of the bytes in wanted entities.
        times: tries, of which the best counts.
        folder: where the dumps are grown; None: the system's folder for temporary files.
    """
    slices = SHARED / "data" / "wikidata" / "dumps"
    if not slices.is_dir():
        print(f"dumps: skipped, {slices} is not here")
        return []
    lines, found = read_slices(slices), []
    for share in shares:
        for size, some in ((gigabytes, [kind for kind in kinds if kind != "bz2"]), (gigabytes / 4, ["bz2"])):
            if not set(some) & set(kinds):
                continue
            with tempfile.TemporaryDirectory(dir=folder) as made:
                text = Path(made) / "dump.json"
                with text.open("wb") as file:
                    file.writelines(grow(lines, share, int(size * 1e9)))
                for kind in some:
                    path = text.with_suffix(f".{kind}")
                    if kind != "json":
                        compress(text, kind, path)
                    found.append(measure_one(path, share, text.stat().st_size, times))
                    print(found[-1], flush=True)
                    if kind != "json":
                        path.unlink()
    return found


def main() -> None:
    """Measure, or extract for a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.5, help="of text in each dump")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of the bytes in wanted entities")
    parser.add_argument("--times", type=int, default=2, help="tries, of which the best counts")
    parser.add_argument("--folder", type=Path, help="where the dumps are grown")
    parser.add_argument("--extract", nargs=2, type=Path, metavar=("DUMP", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.extract:
        start = time.perf_counter()
        extract(args.extract[0], Wanted(frozenset(PROPERTIES)), args.extract[1])
        print(time.perf_counter() - start)
    else:
        measure(args.gigabytes, args.kinds, args.shares, args.times, args.folder)


if __name__ == "__main__":
    main()
