"""Statements of Wikidata's JSON as the triples that Wikidata's own RDF has for them.

Two ways lead to one list of statements: `statements` from an entity document, `canonical` from RDF that somebody else
made of it (a Turtle file, a query service). For one revision both give the same, triple by triple.

Source of the rules: mediawiki-extensions-Wikibase, ``repo/includes/Rdf``; proven against four entities that Wikidata
serves as JSON and as Turtle. Left out: normalised values (psn, pqn, prn, wdtn, quantityNormalized), the direct claims
(wdt), sitelinks, the header of a data set, definitions of properties.

What Wikidata does, and what a reader may not expect:

* "No value" is a class of the statement or reference that says so, ``wdno:P582``, in a qualifier too; ``pqno`` and
  ``prno`` never appear.
* A reference to a value node stands beside each time, quantity and coordinate. The nodes are named by an MD5: of the
  value as PHP serialises it (time, quantity), or of its four parts (coordinate). The rule for quantities with bounds
  follows the library's source; none of the four entities has one.
* A time that has no xsd:dateTime (the year 0; a Julian day that is none) stands as a plain string. A Gregorian day past
  the end of its month is the month's last, and counted as a problem.
* An unknown value is a blank node; ours has a name, `kg.terms.unknown_iri`, so that loading twice adds nothing.

What cannot be said in valid RDF is left out and counted in `StatementRdf.problems`; the statement itself stays: a value
of an unknown kind, a malformed time, number or address. A stray per cent sign of an address is escaped instead, as
"%25", because RDF stores refuse it; Wikidata writes it as it is. A formula is left out likewise: in Wikidata's RDF it
is MathML, which no rule can make of the JSON's TeX.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kg.sources import Triple
from kg.sources.entity import Claim, Entity
from kg.sources.rdfvalues import TYPE, Bad, value_of
from kg.terms import (
    PQ,
    PQV,
    PR,
    PROV,
    PRV,
    PS,
    PSV,
    WD,
    WDNO,
    WDREF,
    WDS,
    WIKIBASE,
    P,
    unknown_iri,
)

RANKS: Final = {"normal": "NormalRank", "preferred": "PreferredRank", "deprecated": "DeprecatedRank"}


STATEMENT: Final = f"<{WIKIBASE}Statement>"


BEST: Final = f"<{WIKIBASE}BestRank>"


RANK: Final = f"<{WIKIBASE}rank>"


REFERENCE: Final = f"<{WIKIBASE}Reference>"


DERIVED: Final = f"<{PROV}wasDerivedFrom>"


class StatementRdf(NamedTuple):
    """One statement with everything Wikidata's RDF says of it: qualifiers, references, value nodes."""

    node: str  # IRI of the statement, wds:Q38-UUID
    subject: str  # "Q38"
    property: str  # "P35"
    triples: tuple[Triple, ...]  # sorted, distinct
    problems: tuple[str, ...] = ()  # what was left out or mended, one sentence part each: "P580: … is no time"


def statements(entity: Entity, properties: Collection[str] | None = None) -> list[StatementRdf]:
    """Return the statements of an entity document as Wikidata's RDF, sorted by node.

    Args:
        entity: the entity.
        properties: whose statements; None takes all.

    >>> snak = {"snaktype": "novalue", "property": "P6"}
    >>> claim = {"id": "Q912$1F", "rank": "normal", "mainsnak": snak}
    >>> [one] = statements(Entity("Q912", "Q912", {"claims": {"P6": [claim]}}))
    >>> one.node.removeprefix(WDS), len(one.triples)
    ('Q912-1F', 5)
    """
    references: dict[str, Made] = {}
    found = []
    for prop in entity.properties:
        if properties is None or prop in properties:
            claims = entity.claims(prop)
            best = _best_rank(claims)
            found += [_statement(entity.id, prop, claim, claim.get("rank") == best, references) for claim in claims]
    return sorted(found)


def _best_rank(claims: Collection[Claim]) -> str:
    """Return the rank that counts; a deprecated statement is never among the best."""
    return "preferred" if any(claim.get("rank") == "preferred" for claim in claims) else "normal"


class Made(NamedTuple):
    """What was made of a statement or a reference so far."""

    triples: list[Triple]
    problems: list[str]


class _Place(NamedTuple):
    """Where a snak stands: the prefixes of its simple value and of its value node."""

    simple: str
    node: str


_MAIN: Final = _Place(PS, PSV)


_QUALIFIER: Final = _Place(PQ, PQV)


_IN_REFERENCE: Final = _Place(PR, PRV)


def _statement(name: str, prop: str, claim: Claim, best: bool, references: dict[str, Made]) -> StatementRdf:
    """Return one statement; ``references`` keeps the entity's references, of which statements share many."""
    iri = WDS + _statement_id(name, claim)
    node = f"<{iri}>"
    rank = f"<{WIKIBASE}{RANKS.get(str(claim.get('rank')), 'NormalRank')}>"
    made = Made([(f"<{WD}{name}>", f"<{P}{prop}>", node), (node, TYPE, STATEMENT), (node, RANK, rank)], [])
    if best:
        made.triples.append((node, TYPE, BEST))
    _snak(iri, claim.get("mainsnak") or {}, _MAIN, made)
    for snak in _snaks(claim.get("qualifiers")):
        _snak(iri, snak, _QUALIFIER, made)
    for reference in claim.get("references") or ():
        key = _reference_hash(reference)
        known = references.get(key)
        if known is None:
            known = references[key] = _reference(key, reference)
        made.triples.append((node, DERIVED, f"<{WDREF}{key}>"))
        made.triples.extend(known.triples)
        made.problems.extend(known.problems)
    return StatementRdf(iri, name, prop, tuple(sorted(set(made.triples))), tuple(made.problems))


def _statement_id(name: str, claim: Claim) -> str:
    """Return the statement's local name; its letters keep their case, which differs even for one entity ("q31$…")."""
    if isinstance(given := claim.get("id"), str) and given:
        return re.sub(r"[^A-Za-z0-9_-]", "-", given)
    return f"{name}-{_digest(claim)}"


def _reference_hash(reference: Mapping[str, Any]) -> str:
    """Return Wikidata's hash, or our own where an old document has none."""
    if isinstance(given := reference.get("hash"), str) and re.fullmatch(r"[0-9a-f]+", given):
        return given
    return _digest(reference.get("snaks"))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _reference(key: str, reference: Mapping[str, Any]) -> Made:
    iri = WDREF + key
    made = Made([(f"<{iri}>", TYPE, REFERENCE)], [])
    for snak in _snaks(reference.get("snaks")):
        _snak(iri, snak, _IN_REFERENCE, made)
    return made


def _snaks(by_property: object) -> Iterator[Mapping[str, Any]]:
    """Yield the snaks of a map by property; PHP writes an empty one as a list."""
    if isinstance(by_property, Mapping):
        for snaks in by_property.values():
            yield from snaks


def _snak(iri: str, snak: Mapping[str, Any], place: _Place, made: Made) -> None:
    """Append what a snak says of the statement or reference ``iri``."""
    node, prop, kind = f"<{iri}>", snak.get("property"), snak.get("snaktype")
    if not isinstance(prop, str) or not _PROPERTY.fullmatch(prop):
        made.problems.append(f"{prop!r} is no property")
    elif kind == "novalue":
        made.triples.append((node, TYPE, f"<{WDNO}{prop}>"))
    elif kind == "somevalue":
        unknown = unknown_iri(iri, None if place is _MAIN else prop)
        made.triples.append((node, f"<{place.simple}{prop}>", f"<{unknown}>"))
    else:
        try:
            value = value_of(snak)
        except Bad as error:
            made.problems.append(f"{prop}: {error}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            made.problems.append(f"{prop}: the value cannot be read ({error!r})")
        else:
            made.triples.append((node, f"<{place.simple}{prop}>", value.simple))
            if value.node is not None:
                made.triples.append((node, f"<{place.node}{prop}>", value.node))
                made.triples.extend(value.triples)
            if value.problem is not None:
                made.problems.append(f"{prop}: {value.problem}")


_PROPERTY: Final = re.compile(r"P[1-9]\d*")
