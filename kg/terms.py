"""The closed vocabularies: Wikidata's RDF names, our own, and the words of the answer sets.

Source of Wikidata's names: mediawiki.org, "Wikibase/Indexing/RDF Dump Format".
"""

from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

# Wikidata's prefixes.
WD: Final = "http://www.wikidata.org/entity/"
P: Final = "http://www.wikidata.org/prop/"
PS: Final = "http://www.wikidata.org/prop/statement/"
PSV: Final = "http://www.wikidata.org/prop/statement/value/"
PQ: Final = "http://www.wikidata.org/prop/qualifier/"
PQV: Final = "http://www.wikidata.org/prop/qualifier/value/"
WDT: Final = "http://www.wikidata.org/prop/direct/"
WDNO: Final = "http://www.wikidata.org/prop/novalue/"
WDS: Final = "http://www.wikidata.org/entity/statement/"
WDV: Final = "http://www.wikidata.org/value/"
WDREF: Final = "http://www.wikidata.org/reference/"
PR: Final = "http://www.wikidata.org/prop/reference/"
PRV: Final = "http://www.wikidata.org/prop/reference/value/"
PROV: Final = "http://www.w3.org/ns/prov#"
GEO: Final = "http://www.opengis.net/ont/geosparql#"
WIKIBASE: Final = "http://wikiba.se/ontology#"
RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL: Final = "http://www.w3.org/2000/01/rdf-schema#label"
SKOS_ALT: Final = "http://www.w3.org/2004/02/skos/core#altLabel"
OWL_SAME_AS: Final = "http://www.w3.org/2002/07/owl#sameAs"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"

# Our own. DY holds the properties of bounds, facts and teams; the others name things that have no Wikidata id.
DY: Final = "urn:dyknow:vocab:"
ENTITY: Final = "urn:dyknow:entity:"  # + label: a subject
HOLDER: Final = "urn:dyknow:holder:"  # + subject label : property : holder label
STATEMENT: Final = "urn:dyknow:statement:"  # + hash
FACT: Final = "urn:dyknow:fact:"  # + subject : property
UNKNOWN: Final = "urn:dyknow:unknown:"  # + node, : property: a value that Wikidata says is unknown

GREGORIAN: Final = WD + "Q1985727"
JULIAN: Final = WD + "Q1985786"

CAPACITIES: Final = ("P5102", "P2868", "P3831", "P39")
"""The qualifiers that say in which capacity somebody holds an office; Wikidata has no single one for it."""

ACTING: Final = frozenset({WD + "Q4676846", WD + "Q3153784"})
"""What they say of one who only stands in: acting, interim."""


class Standing(StrEnum):
    """What a holder is to a fact on a day."""

    UP_TO_DATE = "up-to-date"
    OUTDATED = "outdated"
    LATER = "later"
    NOT_ASKED = "not asked"  # a national team where the fact asks for the club


class Validity(StrEnum):
    """Whether a statement holds on a day for every choice of days inside its spans, for some, or for none."""

    CERTAIN = "certain"
    POSSIBLE = "possible"
    NO = "no"


class Status(StrEnum):
    """What a snapshot knows of a fact on a day."""

    ANSWERED = "answered"
    VACANCY = "vacancy"
    BEFORE_FIRST_RECORD = "before the first record"
    NOT_IN_SNAPSHOT = "not in this snapshot"


class EndKind(StrEnum):
    """How a statement ends."""

    KNOWN = "known"  # P582 with a time, perhaps in the future
    OPEN = "open"  # no P582
    NO_VALUE = "no value"  # P582 says so: still in office
    UNKNOWN = "unknown value"  # ended on a day nobody recorded


class Rule(StrEnum):
    """Which holder counts as up-to-date."""

    LATEST = "latest"  # the latest start among the statements valid on the day
    STUDY = "study"  # the latest start, even when it has ended


def entity_iri(label: str) -> str:
    """Name a subject that has no Wikidata id by its label.

    >>> entity_iri("Cencora, Inc.")
    'urn:dyknow:entity:Cencora%2C%20Inc.'
    """
    return ENTITY + quote(label, safe="")


def holder_iri(subject: str, prop: str, label: str) -> str:
    """Name a holder that has no Wikidata id: by fact and label, so that two people of one name stay apart.

    >>> holder_iri("Italy", "P35", "Enrico de Nicola")
    'urn:dyknow:holder:Italy:P35:Enrico%20de%20Nicola'
    """
    return f"{HOLDER}{quote(subject, safe='')}:{prop}:{quote(label, safe='')}"


def fact_iri(subject_iri: str, prop: str) -> str:
    """Name the fact (subject, property).

    >>> fact_iri("http://www.wikidata.org/entity/Q38", "P35"), fact_iri("urn:dyknow:entity:BP", "P169")
    ('urn:dyknow:fact:Q38:P35', 'urn:dyknow:fact:BP:P169')
    """
    return f"{FACT}{subject_iri.removeprefix(WD).removeprefix(ENTITY)}:{prop}"


def unknown_iri(node: str, prop: str | None = None) -> str:
    """Name the value that a statement or reference says is unknown, its main one or that of a qualifier.

    Wikidata's RDF has a blank node there; blank nodes do not merge when a file is loaded twice, names do.

    >>> unknown_iri("http://www.wikidata.org/entity/statement/Q38-1F", "P582")
    'urn:dyknow:unknown:Q38-1F:P582'
    """
    name = node.removeprefix(WDS).removeprefix(STATEMENT).removeprefix(WDREF)
    return f"{UNKNOWN}{name}:{prop}" if prop else UNKNOWN + name


def short(iri: str) -> str:
    """Return the Q-id or P-id of a Wikidata entity, any other IRI unchanged.

    >>> short("http://www.wikidata.org/entity/Q38"), short("urn:dyknow:entity:BP")
    ('Q38', 'urn:dyknow:entity:BP')
    """
    return iri.removeprefix(WD)


def label_of(iri: str) -> str:
    """Return the label inside one of our own IRIs, the last part of any other.

    >>> label_of("urn:dyknow:holder:Italy:P35:Enrico%20de%20Nicola")
    'Enrico de Nicola'
    """
    if iri.startswith("urn:dyknow:"):
        return unquote(iri.rsplit(":", 1)[1])
    return iri.rsplit("/", 1)[-1]
