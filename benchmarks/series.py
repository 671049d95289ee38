"""Sixty monthly snapshots in a series against the same as plain ones: ``python -m benchmarks.series --facts 1000``.

The facts are those of `benchmarks.synthetic`; what changes from month to month is made up here. Of 100 facts, 14 get a
successor, and as many lose their oldest statement, so that the graph does not grow; 4 get a corrected start, 2 another
rank, 4 another spelling of a holder; 1 loses a statement to somebody's mistake that comes back a month later. Of 100
subjects, 25 gain or lose a sitelink, and those of changed facts, and one in ten others, have a new revision in the
manifest. That leaves about 98 of 100 triples as they were; the share is measured.

Printed: the size of the series in plain snapshots (manifests included on both sides), and as a Markdown table the
seconds to read and verify a snapshot and to compare two of them, from the series and plain, each the least of three.
"""

import argparse
import hashlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.synthetic import made
from kg import identity
from kg.dates import Day, parse_day, parse_time
from kg.snapshot import Snapshot, diff, drop, find_snapshots, pack, take, verify
from kg.snapshot.triples import field_triples
from kg.sources import Row, Source, Triple
from kg.terms import WD, WDS, WIKIBASE, XSD, EndKind

MONTHS: Final = 60
FIRST: Final = 2020
_SITELINKS: Final = f"<{WIKIBASE}sitelinks>"


@dataclass
class Graph:
    """The statements of all facts as they stand, and what of them is missing this month only."""

    facts: list[list[Row]]
    draw: random.Random
    revisions: dict[str, int] = field(default_factory=dict)
    missing: dict[int, Row] = field(default_factory=dict)

    def month(self, day: date) -> None:
        """Let a month pass."""
        for number, row in self.missing.items():
            self.facts[number].append(row)
        self.missing = {}
        for number, rows in enumerate(self.facts):
            chance = self.draw.random()
            if chance < 0.14:
                _succeed(self.draw, rows, day)
                if len(rows) > 2:
                    rows.pop(0)
            elif chance < 0.24:
                which = self.draw.randrange(len(rows))
                rows[which] = _edited(self.draw, rows[which], chance)
            elif chance < 0.25 and len(rows) > 1:
                self.missing[number] = rows.pop(self.draw.randrange(len(rows)))
            if self.draw.random() < 0.25:
                rows[:] = _linked(rows, self.draw.choice((-1, 1)))
            if chance < 0.25 or self.draw.random() < 0.1:
                self.revisions[rows[0].subject_id or ""] = self.draw.randrange(1_000_000_000, 2_500_000_000)

    def source(self, day: date) -> Source:
        """Return all that stands, with the revisions a manifest has of Wikidata."""
        entities = {
            item: {"revision": self.revisions.get(item, 1_000_000_000), "modified": f"{day.year}-01-01T00:00:00Z"}
            for item in sorted({rows[0].subject_id or "" for rows in self.facts})
        }
        rows = tuple(row for own in self.facts for row in own)
        return Source(rows, "synthetic", "Made-up facts.", date=_day(day), provenance={"entities": entities})


def _day(day: date) -> Day:
    return parse_day(day.isoformat())


def _succeed(draw: random.Random, rows: list[Row], day: date) -> None:
    """End what is open and begin anew, with another holder's triples under a new statement."""
    start = parse_time(f"+{day - timedelta(draw.randrange(1, 30))}T00:00:00Z", 11)
    for number, row in enumerate(rows):
        if row.end_kind is EndKind.OPEN and row.start is not None:
            rows[number] = _again(replace(row, end=start, end_kind=EndKind.KNOWN))
    model, item = draw.choice(rows), f"Q{draw.randrange(20_000_000_000, 30_000_000_000)}"
    new = replace(
        model,
        holder=f"Person {draw.getrandbits(32):x}",
        holder_id=item,
        start=start,
        end=None,
        end_kind=EndKind.OPEN,
        rank="normal",
        aliases=(),
        statement=f"{WDS}{model.subject_id}-{draw.getrandbits(128):032X}",
    )
    rows.append(_again(new))


def _edited(draw: random.Random, row: Row, chance: float) -> Row:
    if chance < 0.18:
        day = f"{draw.randrange(1950, 2020)}-{draw.randrange(1, 13):02d}-{draw.randrange(1, 29):02d}"
        return _again(replace(row, start=parse_time(f"+{day}T00:00:00Z", 11)))
    if chance < 0.20:
        return _again(replace(row, rank="preferred" if row.rank == "normal" else "normal"))
    return _again(replace(row, holder=f"{row.holder or 'N.'} {draw.choice('ABCDEFGH')}."))


def _again(row: Row) -> Row:
    """Return a row whose triples say what its fields say; those of its subject stay."""
    subject = f"<{WD}{row.subject_id}>"
    kept = [triple for triple in row.triples if triple[0] == subject]
    bare = replace(row, triples=())
    return replace(row, triples=(*_own(bare), *(one for one in kept if "/prop/P" not in one[1])))


def _own(row: Row) -> Iterator[Triple]:
    assert row.statement is not None
    yield from field_triples(row, row.statement)


def _linked(rows: Sequence[Row], step: int) -> list[Row]:
    """Return the rows with another number of sitelinks for their subject."""
    found = []
    for row in rows:
        triples = []
        for subject, predicate, value in row.triples:
            links = max(0, int(value.split('"')[1]) + step) if predicate == _SITELINKS else None
            triples.append((subject, predicate, value if links is None else f'"{links}"^^<{XSD}integer>'))
        found.append(replace(row, triples=tuple(triples)))
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of three tries."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def size(*paths: Path) -> int:
    """Return the bytes of all files below."""
    files = [file for path in paths for file in (path, *path.rglob("*"))]
    return sum(file.stat().st_size for file in files if file.is_file())


def measure(facts: int, months: int, seed: int, folder: Path) -> Iterator[str]:
    """Yield the figures, a line each; the folder is left with the series and with a few plain snapshots."""
    graph = Graph([list(fact.rows) for fact in made(facts, seed, 20200101)], random.Random(seed))
    plain, packing, sizes, shared = folder / "plain", 0.0, [], []
    kept, before = {0, 1, months // 2, months - 2, months - 1}, set[bytes]()
    for number in range(months):
        day = date(FIRST + number // 12, number % 12 + 1, 1)
        if number:
            graph.month(day)
        taken = take(graph.source(day), plain)
        sizes.append(size(taken.path))
        lines = {hashlib.blake2b(line, digest_size=8).digest() for line in taken.read_statements().splitlines()}
        shared.append(len(before & lines) / len(lines)) if before else None
        before = lines
        start = time.process_time()
        packed = pack(taken, folder / "packed")
        packing += time.process_time() - start
        if number not in kept:
            drop(taken, packed)
    whole = size(folder / "packed")
    counts = taken.manifest["counts"]
    yield f"{months} snapshots, the last of {counts['facts']:,} facts and {counts['triples']:,} triples"
    yield f"shared with the month before: {min(shared):.4f} to {max(shared):.4f}"
    yield f"plain: {sum(sizes):,} bytes, one {min(sizes):,} to {max(sizes):,}"
    mean, first = sum(sizes) / months, size(folder / "packed" / "series" / f"{FIRST}-01-01.segment")
    yield f"series: {whole:,} bytes, {whole / min(sizes):.2f} of the smallest plain one, {whole / mean:.2f} of the mean"
    yield f"series: {whole / first:.2f} of its first segment, {whole / sum(sizes):.3f} of all plain ones"
    yield f"packing: {packing / months:.2f} s a snapshot"
    yield from reading(plain, folder / "packed")


def own(folder: Path) -> dict[str, Snapshot]:
    """Return the snapshots of a folder without those that ship."""
    return {one.id: one for one in find_snapshots(folder) if folder in one.path.parents}


def reading(plain: Path, packed: Path) -> Iterator[str]:
    """Yield a table of how long it takes to read, to verify and to compare."""
    one, other, entity = own(plain), own(packed), identity.load().entity
    dates = list(one)
    yield from ("", "| | plain, s | from the series, s | ratio |", "|---|---|---|---|")
    for name in (dates[0], dates[2], dates[-1]):
        assert one[name].read_statements() == other[name].read_statements()
        yield row(f"bytes of {name}", one[name].read_statements, other[name].read_statements)
        yield row(f"statements of {name}", one[name].statements, other[name].statements)
    yield row(f"verifying {dates[-1]}", lambda: verify(one[dates[-1]]), lambda: verify(own(packed)[dates[-1]]))
    for old, new in ((dates[0], dates[1]), (dates[-2], dates[-1]), (dates[0], dates[-1])):
        pairs = [(side[old], side[new]) for side in (one, other)]
        assert diff(*pairs[0], entity, ids=True) == diff(*pairs[1], entity, ids=True)
        yield row(f"differences {old} {new}", *[partial(diff, *pair, entity) for pair in pairs])
    yield f"\nlisting the {len(other)} packed ones: {seconds(lambda: find_snapshots(packed)):.3f} s"


def row(what: str, plain: Callable[[], object], packed: Callable[[], object]) -> str:
    """Return a row of the table."""
    a, b = seconds(plain), seconds(packed)
    return f"| {what} | {a:.2f} | {b:.2f} | {b / a:.2f} |"


def main() -> None:
    """Make, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, default=1_000)
    parser.add_argument("--months", type=int, default=MONTHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where to leave the snapshots; left out, they are removed")
    chosen = parser.parse_args()
    folder = chosen.keep or Path(tempfile.mkdtemp())
    try:
        for line in measure(chosen.facts, chosen.months, chosen.seed, folder):
            print(line, flush=True)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
