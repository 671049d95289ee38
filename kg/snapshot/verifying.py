"""Snapshots checked byte by byte against their manifests, in pieces: memory grows with the facts, not the triples."""

import hashlib
import operator
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from gzip import GzipFile
from pathlib import Path
from typing import Any, Final

from kg.errors import SnapshotError
from kg.snapshot import manifest as manifests
from kg.snapshot.files import Packed, Snapshot, load
from kg.terms import DY, FACT, RDF_TYPE, short

_BLOCK: Final = 1 << 20
_OF_FACT: Final = re.compile(
    rf"<({re.escape(FACT)}[^>]*)> <(?:{re.escape(DY)}|{re.escape(RDF_TYPE)})(\w*)> <([^>]*)> \.".encode()
)
_STARTS: Final = f"<{FACT}".encode()


def verify(snapshot: Snapshot | Path) -> list[str]:
    """Return what is wrong with a snapshot, one sentence each; an empty list where it is whole.

    The manifest is read again; its own checksum, the compressed bytes, the digest of the triples, their order and all
    counts are checked.
    """
    try:
        if isinstance(snapshot, Path) and not snapshot.exists():
            snapshot = load(snapshot)
        if isinstance(snapshot, Packed):
            return _verify_packed(snapshot)
        path = snapshot if isinstance(snapshot, Path) else snapshot.path
        return _verify_plain(path, manifests.read(path))
    except SnapshotError as error:
        return [error.message]


def _verify_plain(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    file, stated = Snapshot(path.name, path, manifest).statements_path, manifest["statements"]
    problems, found = [], _Counted()
    try:
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != stated["file_digest"]:
                problems.append(f"{file} is not the file the manifest names: its SHA-256 differs.")
            stream.seek(0)
            with GzipFile(fileobj=stream) as packed:
                found.read(iter(lambda: packed.read(_BLOCK), b""))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        return [*problems, f"{file} cannot be read: {error}."]
    if found.digest.hexdigest() != stated["digest"]:
        return [*problems, f"{file}: its triples are not those the manifest names: their SHA-256 differs."]
    return problems + [f"{file}: {problem}" for problem in found.miscounts(manifest)]


def _verify_packed(snapshot: Packed) -> list[str]:
    if problems := snapshot.series.problems(snapshot.place):
        return problems
    manifest = manifests.parse(snapshot.series.manifest(snapshot.place), snapshot.path)
    found = _Counted()
    found.read(snapshot.blocks())
    problems = [f"{snapshot.path}: {problem}" for problem in found.miscounts(manifest)]
    if manifest["date"] != snapshot.id or manifest["statements"]["digest"] != found.digest.hexdigest():
        problems.append(f"{snapshot.path}: its triples are not those the manifest names.")
    if snapshot.series.about(snapshot.place) != {key: manifest[key] for key in manifests.QUICK}:
        problems.append(f"{snapshot.path}: its index does not say what its manifest says.")
    return problems


class _Counted:
    """What N-Triples have of all that a manifest counts."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.triples = 0
        self._last, self._sorted = b"", True
        self._facts: set[str] = set()
        self._statements: Counter[str] = Counter()
        self._properties: dict[str, str] = {}
        self._full: set[str] = set()

    def read(self, blocks: Iterable[bytes]) -> None:
        rest = b""
        for block in blocks:
            self.digest.update(block)
            *lines, rest = (rest + block).split(b"\n")
            self._add(lines)
        self._add([rest] if rest else [])

    def _add(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self.triples += len(lines)
        self._sorted = self._sorted and self._last < lines[0] and all(map(operator.lt, lines, lines[1:]))
        self._last = lines[-1]
        for line in lines:
            if line.startswith(_STARTS) and (parts := _OF_FACT.fullmatch(line)):
                self._of_fact(*(part.decode() for part in parts.groups()))

    def _of_fact(self, fact: str, predicate: str, value: str) -> None:
        if predicate == "statement":
            self._statements[fact] += 1
        elif predicate == "property":
            self._properties[fact] = short(value)
        elif value == DY + "Full":
            self._full.add(fact)
        elif value == DY + "Fact":
            self._facts.add(fact)

    def miscounts(self, manifest: Mapping[str, Any]) -> Iterator[str]:
        """Yield where order or numbers are not what they should be."""
        if not self._sorted:
            yield "the triples are not sorted or not distinct."
        facts = self._facts & self._statements.keys()
        properties: Counter[str] = Counter()
        for fact in facts:
            properties[self._properties.get(fact, "")] += self._statements[fact]
        counts = {
            "facts": len(facts),
            "statements": properties.total(),
            "triples": self.triples,
            "properties": dict(sorted(properties.items())),
        }
        for name, count in counts.items():
            if manifest["counts"][name] != count:
                yield f"the manifest counts {manifest['counts'][name]} {name}, the triples have {count}."
        coverage = {
            fact: {"history": "full" if fact in self._full else "extract", "statements": self._statements[fact]}
            for fact in facts
        }
        for fact in sorted(coverage.keys() | manifest["coverage"].keys()):
            if coverage.get(fact) != manifest["coverage"].get(fact):
                yield f"the manifest's coverage of {fact} is not what the triples have."
