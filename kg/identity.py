"""Which IRIs are one entity: one reviewed table, applied when answers are read.

Snapshots keep the IRIs they were taken with for ever; what is known of them later goes into ``data/identity.csv``.
"""

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kg.errors import DataError
from kg.resources import table
from kg.terms import short

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
