"""Which IRIs are one entity: one reviewed table, applied when answers are read.

Snapshots keep the IRIs they were taken with for ever; what is known of them later goes into ``data/identity.csv``.
Where Wikidata has merged two items, a snapshot says so itself, and `with_redirects` adds it to the table; `offered`
gives it as rows to review.
"""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from kg.errors import DataError
from kg.resources import table
from kg.snapshot import Snapshot
from kg.terms import WD, short

COLUMNS = ("iri", "entity", "label", "evidence")


@dataclass(frozen=True)
class Identity:
    """The identity table.

    Attributes:
        digest: SHA-256 of the table, part of every result that used it.
        entities: Entity id by IRI.
    """

    digest: str
    entities: Mapping[str, str]

    def entity(self, iri: str) -> str:
        """Return the entity an IRI means: a Q-id, or the IRI that stands for it.

        >>> load().entity("urn:dyknow:entity:Italy"), load().entity("http://www.wikidata.org/entity/Q38")
        ('Q38', 'Q38')
        >>> load().entity("urn:dyknow:entity:Atlantis")
        'urn:dyknow:entity:Atlantis'
        """
        return self.entities.get(iri) or short(iri)


class Row(NamedTuple):
    """One row of the table."""

    iri: str
    entity: str
    label: str
    evidence: str


@cache
def load() -> Identity:
    """Return the identity table that ships with the project.

    Raises:
        DataError: the table is malformed.
    """
    return read(table("identity.csv").read_bytes())


def read(data: bytes) -> Identity:
    """Return the identity table written in ``data``, a CSV file with the header ``iri,entity,label,evidence``.

    Raises:
        DataError: a row is malformed, an IRI stands twice, or an entity is itself mapped to another one.
    """
    reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
    if tuple(next(reader, ())) != COLUMNS:
        raise DataError("The identity table does not start with iri,entity,label,evidence.")
    entities: dict[str, str] = {}
    for cells in reader:
        if len(cells) != len(COLUMNS) or not all(cells):
            raise DataError(f"The identity table, line {reader.line_num}: {cells} has an empty or missing cell.")
        iri, entity = cells[0], cells[1]
        if iri in entities:
            raise DataError(f"The identity table, line {reader.line_num}: {iri} stands twice.")
        entities[iri] = entity
    for iri, entity in entities.items():
        if entities.get(entity, entity) != entity:
            raise DataError(f"The identity table maps {iri} to {entity}, which is itself mapped to {entities[entity]}.")
    return Identity(hashlib.sha256(data).hexdigest(), entities)


def redirects(snapshot: Snapshot) -> Mapping[str, str]:
    """Return which ids Wikidata had merged into which when a snapshot was taken, ``{"Q1": "Q2"}``."""
    stated = snapshot.manifest.get("provenance", {}).get("redirects", {})
    return {short(old): short(new) for old, new in stated.items()}


def with_redirects(identity: Identity, snapshots: Iterable[Snapshot]) -> Identity:
    """Return the table extended by what snapshots say of merged items.

    Where the table itself has a row for a merged id, that row stands. Of two snapshots the later one is believed: an
    item it redirects to is alive. The digest is a new one only where something was added.

    Raises:
        DataError: the redirects of a snapshot go in a circle.
    """
    merged: dict[str, str] = {}
    for snapshot in sorted(snapshots, key=lambda one: one.date):
        own = redirects(snapshot)
        alive = set(own.values()) - own.keys()
        merged = {old: new for old, new in merged.items() if old not in alive} | dict(own)
    leads = {id: _end(id, merged, identity, ()) for id in sorted(merged)}
    entities = {iri: leads.get(entity, entity) for iri, entity in identity.entities.items()}
    entities |= {WD + old: new for old, new in leads.items() if WD + old not in identity.entities}
    if entities == identity.entities:
        return identity
    added = sorted(entities.items() - identity.entities.items())
    text = "".join(f"{iri},{entity}\n" for iri, entity in added)
    return Identity(hashlib.sha256(f"{identity.digest}\n{text}".encode()).hexdigest(), entities)


def _end(id: str, merged: Mapping[str, str], identity: Identity, passed: tuple[str, ...]) -> str:
    """Follow redirects to their end; a row of the table is one."""
    if id in passed:
        raise DataError(f"The redirects {' → '.join((*passed, id))} go in a circle.", hint="Take the snapshot again.")
    if (reviewed := identity.entities.get(WD + id)) is not None:
        return reviewed
    return _end(merged[id], merged, identity, (*passed, id)) if id in merged else id


def offered(identity: Identity, snapshot: Snapshot) -> list[Row]:
    """Return the rows that the redirects of a snapshot would add to the table or change in it, sorted, for review.

    Raises:
        DataError: the redirects go in a circle.
        SnapshotError: the snapshot cannot be read.
    """
    extended = with_redirects(identity, [snapshot])
    changed = {iri: new for iri, new in extended.entities.items() if identity.entities.get(iri) != new}
    if not changed:
        return []
    labels: dict[str, str] = {}
    for one in snapshot.statements():
        labels[short(one.subject)] = one.subject_label
        if one.holder and one.label:
            labels[short(one.holder)] = one.label
    rows = []
    for iri, new in sorted(changed.items()):
        old = identity.entity(iri)
        # A statement that was not touched since the merger still names the old item, and its label stands there.
        label = labels.get(new) or labels.get(old) or new
        rows.append(Row(iri, new, label, f"{old} redirects to {new} in snapshot {snapshot.id}"))
    return rows
