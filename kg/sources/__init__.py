"""Where the statements of a snapshot come from. Every source gives the same rows; a snapshot is made of rows alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kg.dates import Day, Time
from kg.terms import EndKind

Triple = tuple[str, str, str]
"""Subject, predicate and object as N-Triples writes them."""


@dataclass(frozen=True)
class Row:
    """One statement of one fact, as a source has it.

    Attributes:
        subject: English label of the subject.
        property: "P35".
        holder: English label of the value; None where the main value is "no value": nobody held it.
        subject_id: The Wikidata id, None where the source has only a label.
        holder_id: Likewise for the holder.
        holder_unknown: The main value is "unknown value"; ``holder`` then only describes it.
        property_label: English label of the property.
        office: Title of the office, or the attribute, as the source words it.
        start: P580.
        start_unknown: P580 is "unknown value".
        end: P582.
        end_kind: How it ends.
        point: P585.
        rank: "normal", "preferred" or "deprecated".
        team_class: "club", "national" or "racing" for a team.
        instance_of: The team's class in Wikidata (P31).
        aliases: Other English names of the holder.
        whole: Whether the source holds the whole history of the fact.
        statement: IRI of the statement's node, where the source has one; without it the node is named by a hash.
        acting: The holder only stands in.
        triples: The triples of statement, subject and value as Wikidata's RDF has them. Where they are given they stand
            in the snapshot as they are, and only our own bounds and facts are added.
    """

    subject: str
    property: str
    holder: str | None
    subject_id: str | None = None
    holder_id: str | None = None
    holder_unknown: bool = False
    property_label: str | None = None
    office: str | None = None
    start: Time | None = None
    start_unknown: bool = False
    end: Time | None = None
    end_kind: EndKind = EndKind.OPEN
    point: Time | None = None
    rank: str = "normal"
    team_class: str | None = None
    instance_of: str | None = None
    aliases: tuple[str, ...] = ()
    whole: bool = True
    statement: str | None = None
    acting: bool = False
    triples: tuple[Triple, ...] = ()


@dataclass(frozen=True)
class Source:
    """The rows of a source and what a manifest says of it.

    Attributes:
        rows: All statements.
        name: Short name: "published", "table".
        description: One sentence for the manifest.
        date: The day the source shows, where it knows it.
        known: How the date is known, where it is not a plain day.
        dropped: Team classes which the source leaves out; their absence says nothing.
        notes: Further sentences for the manifest.
        provenance: Further fields for the manifest: which revision of each entity, redirects, what was not there.
        triples: Triples that belong to no single statement, such as ``owl:sameAs`` of a redirect.
    """

    rows: Sequence[Row]
    name: str
    description: str
    date: Day | None = None
    known: str | None = None
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    triples: tuple[Triple, ...] = ()
