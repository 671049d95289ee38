"""Dated, immutable copies of the graph: taken, found, chosen, verified, compared.

A snapshot is a folder ``DATE/`` with ``statements.nt.gz`` (sorted N-Triples; the same facts give the same bytes) and
``manifest.json``. It is written beside and renamed, and never overwritten.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from kg.dates import Day, Time, format_day, next_day, parse_day
from kg.errors import DataError, SnapshotError, UsageError
from kg.resources import shipped_snapshots
from kg.sources import Row, Source
from kg.terms import (
    DY,
    PQ,
    PQV,
    PS,
    RDF_TYPE,
    RDFS_LABEL,
    SKOS_ALT,
    STATEMENT,
    WD,
    WDNO,
    WDT,
    WIKIBASE,
    XSD,
    EndKind,
    P,
    entity_iri,
    fact_iri,
    holder_iri,
    short,
)

FORMAT: Final = 1
LICENCE: Final = "CC0-1.0: the facts are Wikidata's"
_STATEMENTS: Final = "statements.nt.gz"
_MANIFEST: Final = "manifest.json"
_RANKS: Final = {"normal": "NormalRank", "preferred": "PreferredRank", "deprecated": "DeprecatedRank"}
_CLASSES: Final = {None, "club", "national", "racing"}
_PQNO: Final = "http://www.wikidata.org/prop/qualifier/novalue/"
_UNKNOWN: Final = "urn:dyknow:unknown:"
_IS_DATE: Final = re.compile(r"-?\d{4,}-\d\d-\d\d")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk.

    Attributes:
        id: Its date, which is its name: "2023-12-18".
        path: Its folder.
        manifest: What its manifest says; the checksum has been checked.
    """

    id: str
    path: Path
    manifest: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the uncompressed N-Triples."""
        return str(self.manifest["statements"]["digest"])

    @property
    def date(self) -> Day:
        """The day it shows."""
        return parse_day(self.id)

    @property
    def known(self) -> str | None:
        """How its date is known, where that is not a plain day."""
        known = self.manifest["known"]
        return None if known is None else str(known)

    @property
    def statements_path(self) -> Path:
        """The gzipped N-Triples."""
        return self.path / _STATEMENTS

    def read_statements(self) -> bytes:
        """Return the uncompressed N-Triples.

        Raises:
            SnapshotError: they are missing, damaged, or not the ones the manifest names.
        """
        try:
            data = gzip.decompress(self.statements_path.read_bytes())
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise SnapshotError(
                f"{self.statements_path} cannot be read: {error}", hint=f"dyknow snapshot verify {self.id}"
            ) from error
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise SnapshotError(
                f"{self.statements_path} does not have the digest its manifest names.", hint="Take or fetch it again."
            )
        return data


# ---------------------------------------------------------------------------------------------------- finding


def local_folder() -> Path:
    """Return the folder for snapshots: ``$DYKNOW_SNAPSHOTS``, else ``snapshots`` where the call is made."""
    return Path(os.environ.get("DYKNOW_SNAPSHOTS") or "snapshots")


def load(path: Path) -> Snapshot:
    """Return the snapshot in a folder.

    Raises:
        SnapshotError: there is none, or its manifest is damaged.
    """
    manifest, problem = _read_manifest(path)
    if manifest is None:
        raise SnapshotError(f"{path / _MANIFEST} {problem}.", hint="Take or fetch the snapshot again.")
    return Snapshot(path.name, path, manifest)


def find_snapshots(folder: Path | None = None) -> list[Snapshot]:
    """Return the snapshots of a folder (default: `local_folder`) and the shipped ones, by date.

    Raises:
        SnapshotError: a manifest is damaged, or a local snapshot and a shipped one of the same date differ.
    """
    found: dict[str, Snapshot] = {}
    for place in (folder or local_folder(), shipped_snapshots()):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if not (_IS_DATE.fullmatch(path.name) and path.is_dir()):
                continue
            snapshot = load(path)
            first = found.setdefault(snapshot.id, snapshot)
            if first.digest != snapshot.digest:
                raise SnapshotError(
                    f"{first.path} and {path} are two different snapshots of one date.", hint=f"Move {first.path} away."
                )
    return sorted(found.values(), key=lambda snapshot: snapshot.date)


def choose(snapshots: Sequence[Snapshot], as_of: Day, known_at: str | None = None) -> Snapshot:
    """Return the snapshot to read: the one of ``known_at``, else the oldest not before ``as_of``, else the newest.

    Raises:
        UsageError: there is none of that date.
        SnapshotError: there are none at all.
    """
    if not snapshots:
        raise SnapshotError("There are no snapshots.", hint="Take one: dyknow snapshot take")
    if known_at is not None:
        for snapshot in snapshots:
            if snapshot.id == known_at:
                return snapshot
        raise UsageError(
            f"There is no snapshot {known_at!r}.", hint=f"There are: {', '.join(s.id for s in snapshots)}."
        )
    ordered = sorted(snapshots, key=lambda snapshot: snapshot.date)
    return next((snapshot for snapshot in ordered if snapshot.date >= as_of), ordered[-1])


# ---------------------------------------------------------------------------------------------------- taking


def take(source: Source, folder: Path, date: Day | None = None, known: str | None = None) -> Snapshot:
    """Freeze the rows of a source as ``folder/DATE``.

    Args:
        source: the statements.
        folder: where snapshots live; made where it is not there.
        date: the day the snapshot shows; None takes the source's.
        known: how the date is known; None takes the source's.

    Raises:
        UsageError: neither names a date.
        DataError: a row is malformed.
        SnapshotError: the folder already has a snapshot of that date; it is left as it is.
    """
    if (day := source.date if date is None else date) is None:
        raise UsageError("The source does not say which day it shows.", hint="Give the date.")
    target = folder / format_day(day)
    if target.exists():
        raise _exists(target)
    rows = sorted(source.rows, key=_row_order)
    lines = sorted({f"{subject} {predicate} {value} .\n" for subject, predicate, value in _triples(rows)})
    data = "".join(lines).encode()
    packed = _gzip(data)
    manifest = _manifest(source, rows, day, known, data, packed)
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=folder))
    try:
        beside.chmod(0o755)
        _write(beside / _STATEMENTS, packed)
        _write(beside / _MANIFEST, _render(manifest))
        try:
            beside.rename(target)
        except OSError as error:
            raise _exists(target) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Snapshot(target.name, target, manifest)


def _exists(target: Path) -> SnapshotError:
    return SnapshotError(f"{target} exists; a snapshot is never overwritten.", hint="Choose another date or folder.")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _gzip(data: bytes) -> bytes:
    """Compress without name and time, so that the same bytes stay the same."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write(data)
    return packed.getvalue()


def _row_order(row: Row) -> tuple[str, ...]:
    """Order rows by content alone, so that the order of a source leaves no trace."""
    times = (
        f"{time.text}/{time.precision}/{time.calendar}" if time else "" for time in (row.start, row.end, row.point)
    )
    names = (row.subject_id, row.subject, row.property, row.holder_id, row.holder)
    return (*(name or "" for name in names), *times, row.end_kind, row.rank, row.office or "", *row.aliases)


Triples = Iterator[tuple[str, str, str]]
"""Subject, predicate and object as N-Triples writes them."""


def _iri(value: str) -> str:
    return str(ox.NamedNode(value))


def _text(value: str) -> str:
    return str(ox.Literal(value))


def _english(value: str) -> str:
    return str(ox.Literal(value, language="en"))


def _typed(value: object, datatype: str) -> str:
    return str(ox.Literal(str(value), datatype=ox.NamedNode(XSD + datatype)))


_TYPE: Final = _iri(RDF_TYPE)


def subject_iri(row: Row) -> str:
    """Return the IRI of a row's subject."""
    return WD + row.subject_id if row.subject_id else entity_iri(row.subject)


def _value_iri(row: Row, statement: str) -> str | None:
    """Return the IRI of a row's main value; None for "no value"."""
    if row.holder_unknown:
        return _UNKNOWN + statement.removeprefix(STATEMENT)
    if row.holder is None:
        return None
    return WD + row.holder_id if row.holder_id else holder_iri(row.subject, row.property, row.holder)


def _triples(rows: Sequence[Row]) -> Triples:
    """Yield the triples of ordered rows; may yield one twice."""
    seen: Counter[str] = Counter()
    by_fact: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        _check(row)
        fact = fact_iri(subject_iri(row), row.property)
        by_fact[fact].append(row)
        start = f"{row.start.text}/{row.start.precision}" if row.start else ""
        name = f"{fact}|{row.holder_id or _value_iri(row, STATEMENT)}|{start}"
        seen[name] += 1
        statement = STATEMENT + hashlib.sha1(f"{name}|{seen[name]}".encode(), usedforsecurity=False).hexdigest()
        yield from _statement_triples(row, fact, statement)
    for fact, own in by_fact.items():
        yield from _fact_triples(fact, own)


def _check(row: Row) -> None:
    """Refuse a row that would make malformed triples."""
    where = f"{row.subject!r}, {row.property}, {row.holder!r}"
    if not re.fullmatch(r"P[1-9]\d*", row.property):
        raise DataError(f"The property {row.property!r} of {where} is not like P35.")
    for name in (row.subject_id, row.holder_id, row.instance_of):
        if name is not None and not re.fullmatch(r"Q[1-9]\d*", name):
            raise DataError(f"The id {name!r} in {where} is not like Q38.")
    if row.rank not in _RANKS:
        raise DataError(f"The rank {row.rank!r} of {where} is unknown.", hint=f"Ranks: {', '.join(_RANKS)}.")
    if row.team_class not in _CLASSES:
        raise DataError(
            f"The team class {row.team_class!r} of {where} is unknown.", hint="Classes: club, national, racing."
        )
    if (row.end is not None) != (row.end_kind is EndKind.KNOWN):
        raise DataError(f"{where} has the end {row.end} and the end kind {row.end_kind.value!r}.")


def _fact_triples(fact: str, rows: Sequence[Row]) -> Triples:
    node, row, prop = _iri(fact), rows[0], rows[0].property
    subject = _iri(subject_iri(row))
    whole = all(row.whole for row in rows)
    yield node, _TYPE, _iri(DY + "Fact")
    yield node, _iri(DY + "subject"), subject
    yield node, _iri(DY + "property"), _iri(WD + prop)
    yield node, _iri(DY + "history"), _iri(DY + ("Full" if whole else "Extract"))
    if office := next((row.office for row in rows if row.office), None):
        yield node, _iri(DY + "office"), _english(office)
    yield subject, _iri(RDFS_LABEL), _english(row.subject)
    yield _iri(WD + prop), _TYPE, _iri(WIKIBASE + "Property")
    yield _iri(WD + prop), _iri(WIKIBASE + "claim"), _iri(P + prop)
    yield _iri(WD + prop), _iri(WIKIBASE + "statementProperty"), _iri(PS + prop)
    if label := next((row.property_label for row in rows if row.property_label), None):
        yield _iri(WD + prop), _iri(RDFS_LABEL), _english(label)


def _statement_triples(row: Row, fact: str, statement: str) -> Triples:
    node, value = _iri(statement), _value_iri(row, statement)
    yield _iri(subject_iri(row)), _iri(P + row.property), node
    yield _iri(fact), _iri(DY + "statement"), node
    yield node, _TYPE, _iri(WIKIBASE + "Statement")
    yield node, _iri(WIKIBASE + "rank"), _iri(WIKIBASE + _RANKS[row.rank])
    if value is None:
        yield node, _TYPE, _iri(WDNO + row.property)
    else:
        yield node, _iri(PS + row.property), _iri(value)
        yield from _holder_triples(row, _iri(value))
    yield from _bound_triples(row, node)
    for prop, time in (("P580", row.start), ("P582", row.end), ("P585", row.point)):
        if time is not None:
            yield from _time_triples(node, prop, time)
    if row.end_kind is EndKind.NO_VALUE:
        yield node, _TYPE, _iri(_PQNO + "P582")
    elif row.end_kind is EndKind.UNKNOWN:
        yield node, _iri(PQ + "P582"), _iri(f"{_UNKNOWN}{statement.removeprefix(STATEMENT)}:P582")
    if row.start_unknown:
        yield node, _iri(PQ + "P580"), _iri(f"{_UNKNOWN}{statement.removeprefix(STATEMENT)}:P580")


def _holder_triples(row: Row, value: str) -> Triples:
    if row.holder is not None:
        yield value, _iri(RDFS_LABEL), _english(row.holder)
    for alias in row.aliases:
        yield value, _iri(SKOS_ALT), _english(alias)
    if row.instance_of is not None:
        yield value, _iri(WDT + "P31"), _iri(WD + row.instance_of)
    if row.team_class is not None:
        yield value, _iri(DY + "teamClass"), _text(row.team_class)


def _bound_triples(row: Row, node: str) -> Triples:
    """Yield our own bounds: integers, because RDF libraries disagree on dates beyond the years 1 to 9999."""
    start_kind = "known" if row.start else "unknown value" if row.start_unknown else "missing"
    yield node, _iri(DY + "startKind"), _text(start_kind)
    yield node, _iri(DY + "endKind"), _text(row.end_kind.value)
    for name, time in (("start", row.start), ("end", row.end)):
        if time is not None:
            yield node, _iri(f"{DY}{name}Earliest"), _typed(time.span[0], "integer")
            yield node, _iri(f"{DY}{name}Latest"), _typed(time.span[1], "integer")
    if row.end is not None and row.end.is_day:
        yield node, _iri(DY + "dayAfterEnd"), _typed(next_day(row.end.span[0]), "integer")


def _time_triples(node: str, prop: str, time: Time) -> Triples:
    value = _iri(time.node)
    yield node, _iri(PQ + prop), _typed(time.rdf, "dateTime")
    yield node, _iri(PQV + prop), value
    yield value, _TYPE, _iri(WIKIBASE + "TimeValue")
    yield value, _iri(WIKIBASE + "timeValue"), _typed(time.rdf, "dateTime")
    yield value, _iri(WIKIBASE + "timePrecision"), _typed(time.precision, "integer")
    yield value, _iri(WIKIBASE + "timeTimezone"), _typed(0, "integer")
    yield value, _iri(WIKIBASE + "timeCalendarModel"), _iri(time.calendar)


# ---------------------------------------------------------------------------------------------------- manifest


def _manifest(
    source: Source, rows: Sequence[Row], day: Day, known: str | None, data: bytes, packed: bytes
) -> dict[str, Any]:
    """Return the manifest, its own checksum last."""
    by_fact: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_fact[fact_iri(subject_iri(row), row.property)].append(row)
    manifest = {
        "format": FORMAT,
        "date": format_day(day),
        "known": known or source.known,
        "source": {"name": source.name, "description": source.description, "dropped": list(source.dropped)},
        "licence": LICENCE,
        "coverage": {fact: _coverage(own) for fact, own in sorted(by_fact.items())},
        "counts": {
            "facts": len(by_fact),
            "statements": len(rows),
            "triples": data.count(b"\n"),
            "properties": dict(sorted(Counter(row.property for row in rows).items())),
        },
        "flags": [flag for fact, own in sorted(by_fact.items()) for flag in _flags(fact, own, day)],
        "notes": list(source.notes),
        "statements": {
            "digest": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "file_digest": hashlib.sha256(packed).hexdigest(),
        },
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


def _render(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode()


def _checksum(manifest: Mapping[str, Any]) -> str:
    bare = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(_render(bare)).hexdigest()


def _read_manifest(path: Path) -> tuple[Mapping[str, Any] | None, str]:
    """Return the manifest of a folder, or None and what is wrong with it."""
    try:
        data = (path / _MANIFEST).read_bytes()
        manifest = json.loads(data)
    except FileNotFoundError:
        return None, "is missing"
    except (OSError, ValueError) as error:
        return None, f"cannot be read as JSON: {error}"
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None, f"is not of format {FORMAT}"
    if manifest.get("checksum") != _checksum(manifest) or _render(manifest) != data:
        return None, "does not match its own checksum"
    if manifest.get("date") != path.name:
        return None, f"is of {manifest.get('date')}, the folder of {path.name}"
    return manifest, ""


# ---------------------------------------------------------------------------------------------------- verifying


def verify(snapshot: Snapshot | Path) -> list[str]:
    """Return what is wrong with a snapshot, one sentence each; an empty list where it is whole.

    The manifest is read again; its own checksum, the compressed bytes, the digest of the triples, their order and all
    counts are checked.
    """
    path = snapshot if isinstance(snapshot, Path) else snapshot.path
    manifest, problem = _read_manifest(path)
    if manifest is None:
        return [f"{path / _MANIFEST} {problem}."]
    problems = []
    try:
        packed = (path / _STATEMENTS).read_bytes()
    except OSError as error:
        return [f"{path / _STATEMENTS} cannot be read: {error}."]
    stated = manifest["statements"]
    if hashlib.sha256(packed).hexdigest() != stated["file_digest"]:
        problems.append(f"{path / _STATEMENTS} is not the file the manifest names: its SHA-256 differs.")
    try:
        data = gzip.decompress(packed)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        return [*problems, f"{path / _STATEMENTS} is damaged: {error}."]
    if hashlib.sha256(data).hexdigest() != stated["digest"] or len(data) != stated["bytes"]:
        return [
            *problems,
            f"{path / _STATEMENTS}: the triples are not those the manifest names: their SHA-256 differs.",
        ]
    return problems + [f"{path}: {problem}" for problem in _miscounts(data, manifest)]


def _miscounts(data: bytes, manifest: Mapping[str, Any]) -> Iterator[str]:
    lines = data.splitlines(keepends=True)
    if lines != sorted(set(lines)):
        yield "the triples are not sorted or not distinct."
    statements = read_graph(data)
    counts = manifest["counts"]
    found = {
        "facts": len({statement.fact for statement in statements}),
        "statements": len(statements),
        "triples": len(lines),
        "properties": dict(sorted(Counter(statement.property for statement in statements).items())),
    }
    for name, value in found.items():
        if counts[name] != value:
            yield f"the manifest counts {counts[name]} {name}, the triples have {value}."
    coverage: dict[str, dict[str, Any]] = {}
    for statement in statements:
        own = coverage.setdefault(
            statement.fact, {"history": "full" if statement.whole else "extract", "statements": 0}
        )
        own["statements"] += 1
    for fact in sorted(coverage.keys() | manifest["coverage"].keys()):
        if coverage.get(fact) != manifest["coverage"].get(fact):
            yield f"the manifest's coverage of {fact} is not what the triples have."


# ---------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Statement:
    """A statement as a snapshot holds it."""

    fact: str
    subject: str
    subject_label: str
    property: str
    whole: bool
    iri: str
    holder: str | None  # IRI; None for "no value"
    label: str | None
    team_class: str | None
    rank: str
    start: tuple[Day, Day] | None
    end: tuple[Day, Day] | None
    end_kind: EndKind


def read_graph(data: bytes) -> list[Statement]:
    """Return the statements of N-Triples, sorted by fact, holder and start.

    Raises:
        SnapshotError: the bytes are not N-Triples.
    """
    graph = _Graph(data)
    statements = [statement for fact in graph.of_type(DY + "Fact") for statement in _statements(graph, fact)]
    return sorted(statements, key=lambda s: (s.fact, s.label or "", s.holder or "", s.start or (0, 0), s.iri))


class _Graph:
    """Triples by subject and predicate, as plain strings."""

    def __init__(self, data: bytes) -> None:
        self._objects: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._types: dict[str, list[str]] = defaultdict(list)
        try:
            for quad in ox.parse(data, format=ox.RdfFormat.N_TRIPLES):
                subject, value = _plain(quad.subject), _plain(quad.object)
                self._objects[subject, quad.predicate.value].append(value)
                if quad.predicate.value == RDF_TYPE:
                    self._types[value].append(subject)
        except SyntaxError as error:
            raise SnapshotError(f"The statements are not N-Triples: {error}") from error

    def of_type(self, name: str) -> Iterable[str]:
        return self._types.get(name, ())

    def all(self, subject: str, predicate: str) -> Sequence[str]:
        return self._objects.get((subject, predicate), ())

    def one(self, subject: str, predicate: str) -> str | None:
        return min(self.all(subject, predicate), default=None)

    def span(self, subject: str, name: str) -> tuple[Day, Day] | None:
        first, last = self.one(subject, f"{DY}{name}Earliest"), self.one(subject, f"{DY}{name}Latest")
        return None if first is None or last is None else (int(first), int(last))


def _plain(term: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> str:
    return str(term) if isinstance(term, ox.Triple) else term.value


def _statements(graph: _Graph, fact: str) -> Iterator[Statement]:
    subject, prop = graph.one(fact, DY + "subject") or "", short(graph.one(fact, DY + "property") or "")
    for iri in graph.all(fact, DY + "statement"):
        holder = graph.one(iri, PS + prop)
        yield Statement(
            fact=fact,
            subject=subject,
            subject_label=graph.one(subject, RDFS_LABEL) or short(subject),
            property=prop,
            whole=graph.one(fact, DY + "history") == DY + "Full",
            iri=iri,
            holder=holder,
            label=graph.one(holder, RDFS_LABEL) if holder else None,
            team_class=graph.one(holder, DY + "teamClass") if holder else None,
            rank=(graph.one(iri, WIKIBASE + "rank") or "").removeprefix(WIKIBASE),
            start=graph.span(iri, "start"),
            end=graph.span(iri, "end"),
            end_kind=EndKind(graph.one(iri, DY + "endKind") or "open"),
        )
