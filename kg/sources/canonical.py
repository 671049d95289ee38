"""The same statements out of RDF that a query service or a Turtle file gives."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kg.sources import Triple
from kg.sources.rdf import BEST, DERIVED, RANK, REFERENCE, STATEMENT, Made, StatementRdf
from kg.sources.rdfvalues import (
    AUTO_PRECISION,
    GLOBE_VALUE,
    MATHML,
    QUANTITY_VALUE,
    TIME_VALUE,
    TYPE,
    Bad,
    Value,
    address_value,
    double_text,
    typed_literal,
    wikibase_part,
)
from kg.terms import (
    PQ,
    PQV,
    PR,
    PRV,
    PS,
    PSV,
    WD,
    WDNO,
    WDV,
    XSD,
    P,
    unknown_iri,
)

_CLAIM: Final = re.compile(rf"<{re.escape(P)}(P[1-9]\d*)>", re.ASCII)


_PARTS: Final = re.compile(
    rf"<(?:{'|'.join(re.escape(prefix) for prefix in (PS, PSV, PQ, PQV, PR, PRV))})(P[1-9]\d*)>", re.ASCII
)


_NO_VALUE: Final = re.compile(rf"<{re.escape(WDNO)}P[1-9]\d*>", re.ASCII)


_NODE_PARTS: Final = {
    TIME_VALUE: ("timeValue", "timePrecision", "timeTimezone", "timeCalendarModel"),
    QUANTITY_VALUE: ("quantityAmount", "quantityUpperBound", "quantityLowerBound", "quantityUnit"),
    GLOBE_VALUE: ("geoLatitude", "geoLongitude", "geoPrecision", "geoGlobe"),
}


_NODE_TYPES: Final = {wikibase_part(name): kind for kind, names in _NODE_PARTS.items() for name in names}


_GENID: Final = re.compile(r"_:.*|<https?://[^/]+/\.well-known/genid/.*>")


_About = Mapping[str, list[tuple[str, str]]]
"""What is said of each node: predicate and object."""


def canonical(triples: Iterable[Triple]) -> list[StatementRdf]:
    """Return the statements in RDF that Wikidata or a query service made, as `statements` has them.

    What `statements` leaves out is left out; unknown values get our names, whether they are blank nodes or IRIs made of
    such; and what the query service changes is put back: the types of statements, references and value nodes, which it
    strips, the plus sign of a number, PHP's way to print a coordinate. Nothing else is computed: a statement is whole
    only as far as the triples are. A statement that no entity claims is none. ``problems`` tell what the RDF still
    shows; a day that Wikidata mended is no longer seen.

    Args:
        triples: in N-Triples syntax, in any order; other triples may stand among them.
    """
    about: dict[str, list[tuple[str, str]]] = defaultdict(list)
    claims: set[tuple[str, str, str]] = set()
    for subject, predicate, value in triples:
        if claim := _CLAIM.fullmatch(predicate):
            claims.add((subject, claim[1], value))
        else:
            about[subject].append((predicate, value))
    known: dict[str, Made] = {}
    return sorted(_restored(*claim, about, known) for claim in claims)


def _restored(subject: str, prop: str, node: str, about: _About, known: dict[str, Made]) -> StatementRdf:
    """Return the statement that a node describes."""
    made = Made([(subject, f"<{P}{prop}>", node), (node, TYPE, STATEMENT)], [])
    _describe(node, about, made)
    for predicate, value in about.get(node, ()):
        if predicate == RANK or (predicate == TYPE and value == BEST):
            made.triples.append((node, predicate, value))
        elif predicate == DERIVED:
            if value not in known:
                known[value] = Made([(value, TYPE, REFERENCE)], [])
                _describe(value, about, known[value])
            made.triples.append((node, predicate, value))
            made.triples.extend(known[value].triples)
            made.problems.extend(known[value].problems)
    name = subject[1:-1].removeprefix(WD)
    return StatementRdf(node[1:-1], name, prop, tuple(sorted(set(made.triples))), tuple(made.problems))


def _describe(node: str, about: _About, made: Made) -> None:
    """Append the values, qualifiers or reference parts that are said of a node, and the value nodes they lead to."""
    for predicate, value in about.get(node, ()):
        if predicate == TYPE and _NO_VALUE.fullmatch(value):
            made.triples.append((node, predicate, value))
        elif part := _PARTS.fullmatch(predicate):
            if value.startswith(f"<{WDV}"):
                made.triples.append((node, predicate, value))
                made.triples.extend(_value_node(value, about))
            elif _GENID.fullmatch(value):
                main = predicate.startswith(f"<{PS}")
                made.triples.append((node, predicate, f"<{unknown_iri(node[1:-1], None if main else part[1])}>"))
            else:
                _simple(node, predicate, value, part[1], made)


def _simple(node: str, predicate: str, value: str, prop: str, made: Made) -> None:
    """Append a simple value, mended and left out as `statements` does."""
    try:
        if value.endswith(f"^^<{MATHML}>"):
            raise Bad("a formula, which is MathML in RDF")
        if value[0] != "<":
            mended = Value(_lexical(value))
        else:
            mended = Value(value) if value.startswith(f"<{WD}") else address_value(value[1:-1])
    except Bad as error:
        made.problems.append(f"{prop}: {error}")
        return
    made.triples.append((node, predicate, mended.simple))
    if mended.problem is not None:
        made.problems.append(f"{prop}: {mended.problem}")


def _value_node(node: str, about: _About) -> Iterator[Triple]:
    """Yield the parts of a value node, with the type they show it to have."""
    for predicate, value in about.get(node, ()):
        if kind := _NODE_TYPES.get(predicate):
            yield node, TYPE, kind
            yield node, predicate, _lexical(value)
        elif predicate == TYPE and value == AUTO_PRECISION:
            yield node, predicate, value


_DECIMAL: Final = f'"^^<{XSD}decimal>'


_DOUBLE: Final = f'"^^<{XSD}double>'


_STRING: Final = f'"^^<{XSD}string>'


def _lexical(value: str) -> str:
    """Return a literal as Wikidata writes it, other terms as they are; the query service prints numbers its own way."""
    if value.endswith(_DECIMAL):
        number = value[1 : -len(_DECIMAL)]
        return typed_literal(number if number[0] in "+-" else "+" + number, "decimal")
    if value.endswith(_DOUBLE):
        return typed_literal(double_text(float(value[1 : -len(_DOUBLE)])), "double")
    if value.endswith(_STRING):
        return value.removesuffix(_STRING) + '"'
    if value.startswith('"') and not value.endswith(('"', ">")):
        text, _, tag = value.rpartition("@")
        return f"{text}@{tag.lower()}"
    return value
