"""The manifest of a snapshot: where its statements come from, how much of each fact is there, what looks odd.

It ends with a checksum over all its other fields, so that a byte changed in it is found like one in the triples.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from kg.dates import Day, format_day
from kg.errors import DataError, SnapshotError
from kg.snapshot.triples import in_order, row_fact
from kg.sources import Row, Source
from kg.terms import EndKind

FORMAT: Final = 1
NAME: Final = "manifest.json"
LICENCE: Final = "CC0-1.0: the facts are Wikidata's"


@dataclass(frozen=True)
class Written:
    """What was written of the N-Triples of a snapshot.

    Attributes:
        triples: How many lines they have.
        bytes: Their length.
        digest: SHA-256 of them.
        file_digest: SHA-256 of the gzipped file.
    """

    triples: int
    bytes: int
    digest: str
    file_digest: str


@dataclass
class Tally:
    """What a manifest says of the facts; rows are added in parts, each fact whole in one of them."""

    day: Day
    coverage: dict[str, dict[str, Any]] = field(default_factory=dict)
    properties: Counter[str] = field(default_factory=Counter)
    flags: list[dict[str, str]] = field(default_factory=list)

    def add(self, rows: Sequence[Row]) -> None:
        """Count the rows of some facts.

        Raises:
            DataError: one of the facts was counted before.
        """
        by_fact: dict[str, list[Row]] = defaultdict(list)
        for row in in_order(rows):
            by_fact[row_fact(row)].append(row)
        for fact, own in by_fact.items():
            if fact in self.coverage:
                raise DataError(f"The rows of {fact} come in two parts.", hint="Give those of a fact together.")
            self.coverage[fact] = _coverage(own)
            self.properties.update(row.property for row in own)
            self.flags += _flags(fact, own, self.day)


def build(source: Source, *, day: Day, known: str | None, data: bytes, packed: bytes) -> dict[str, Any]:
    """Return the manifest of the N-Triples ``data``, gzipped as ``packed``, that the rows of a source give."""
    tally = Tally(day)
    tally.add(source.rows)
    digests = hashlib.sha256(data).hexdigest(), hashlib.sha256(packed).hexdigest()
    return assemble(source, tally, Written(data.count(b"\n"), len(data), *digests), known)


def assemble(source: Source, tally: Tally, written: Written, known: str | None) -> dict[str, Any]:
    """Return the manifest of what was counted and written; the rows of the source itself are not looked at."""
    manifest = {
        "format": FORMAT,
        "date": format_day(tally.day),
        "known": known or source.known,
        "source": {"name": source.name, "description": source.description, "dropped": list(source.dropped)},
        "licence": LICENCE,
        "coverage": dict(sorted(tally.coverage.items())),
        "counts": {
            "facts": len(tally.coverage),
            "statements": tally.properties.total(),
            "triples": written.triples,
            "properties": dict(sorted(tally.properties.items())),
        },
        "flags": sorted(tally.flags, key=lambda flag: flag["fact"]),  # stable: a fact's own stay as they were found
        "notes": list(source.notes),
        **({"provenance": dict(source.provenance)} if source.provenance else {}),
        "statements": {"digest": written.digest, "bytes": written.bytes, "file_digest": written.file_digest},
        "tool": _tool(),
    }
    return manifest | {"checksum": _checksum(manifest)}


def _coverage(rows: Sequence[Row]) -> dict[str, Any]:
    return {"history": "full" if all(row.whole for row in rows) else "extract", "statements": len(rows)}


def _flags(fact: str, rows: Sequence[Row], day: Day) -> Iterator[dict[str, str]]:
    """Yield what a reader should look at in a fact; nothing is mended."""
    for row in rows:
        for flag in _row_flags(row, day):
            yield {"fact": fact, "flag": flag, "detail": _describe(row)}
    for row, count in Counter(rows).items():
        if count > 1:
            yield {"fact": fact, "flag": "stands twice", "detail": _describe(row)}
    open_ones = [
        row
        for row in rows
        if row.end_kind is EndKind.OPEN and row.team_class != "national" and row.rank != "deprecated"
    ]
    if len(open_ones) > 1:
        yield {"fact": fact, "flag": "several open", "detail": "; ".join(_describe(row) for row in open_ones)}


def _row_flags(row: Row, day: Day) -> Iterator[str]:
    if row.start is None:
        yield "no start"
    elif row.start.span[0] > day:
        yield "starts after the snapshot"
    if row.point is not None:
        yield "point in time"
    if row.start and row.end and row.end.span[1] < row.start.span[0]:
        yield "ends before it starts"
    if row.start and row.end and row.end.is_day and row.end.span == row.start.span:
        yield "ends on the day it starts"


def _describe(row: Row) -> str:
    until = str(row.end) if row.end else "" if row.end_kind is EndKind.OPEN else row.end_kind.value
    return f"{row.holder or 'no value'} ({row.start or ''}–{until})"


def _tool() -> str:
    try:
        return f"dyknow {version('dyknow')}"
    except PackageNotFoundError:
        return "dyknow"


def render(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as the one text it has."""
    return (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode()


def _checksum(manifest: Mapping[str, Any]) -> str:
    bare = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(render(bare)).hexdigest()


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of the snapshot in a folder.

    Raises:
        SnapshotError: it is missing, does not match its own checksum, or is of another date than the folder.
    """
    path = folder / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise SnapshotError(f"{path} is missing.", hint="Take or fetch the snapshot again.") from error
    except OSError as error:
        raise _damaged(path, f"cannot be read: {error}") from error
    manifest = parse(data, path)
    if manifest["date"] != folder.name:
        raise _damaged(path, f"is of {manifest['date']}, its folder of {folder.name}")
    return manifest


def parse(data: bytes, path: Path) -> dict[str, Any]:
    """Return the manifest written in ``data``, which came from a file.

    Raises:
        SnapshotError: it does not match its own checksum.
    """
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise _damaged(path, f"cannot be read as JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _damaged(path, f"is not of format {FORMAT}")
    if manifest.get("checksum") != _checksum(manifest) or render(manifest) != data:
        raise _damaged(path, "does not match its own checksum")
    return manifest


def renewed(manifest: Mapping[str, Any], file_digest: str) -> dict[str, Any]:
    """Return a manifest whose triples were compressed anew, to a file of this SHA-256."""
    changed = dict(manifest) | {"statements": {**manifest["statements"], "file_digest": file_digest}}
    return changed | {"checksum": _checksum(changed)}


QUICK: Final = ("format", "date", "known", "source", "licence", "counts", "notes", "statements", "tool", "checksum")
"""What does not grow with the facts."""


class Partly(Mapping[str, Any]):
    """A manifest of which what does not grow with the facts is at hand; the rest is read when it is asked for."""

    def __init__(self, part: Mapping[str, Any], read: Callable[[], Mapping[str, Any]]) -> None:
        self._part, self._read = part, read

    @cached_property
    def whole(self) -> Mapping[str, Any]:
        """All of it.

        Raises:
            SnapshotError: it cannot be read.
        """
        return self._read()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 -- whatever JSON has there
        return self._part[key] if key in self._part else self.whole[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)


def _damaged(path: Path, problem: str) -> SnapshotError:
    return SnapshotError(f"{path} {problem}.", hint="Take or fetch the snapshot again.")
