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
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyoxigraph as ox

from kg.dates import DAY, YEAR, days_in_month, julian_to_gregorian, split_day
from kg.sources import Triple
from kg.sources.entity import Claim, Entity, item_id
from kg.terms import (
    GEO,
    GREGORIAN,
    JULIAN,
    PQ,
    PQV,
    PR,
    PROV,
    PRV,
    PS,
    PSV,
    RDF_TYPE,
    WD,
    WDNO,
    WDREF,
    WDS,
    WDV,
    WIKIBASE,
    XSD,
    P,
    unknown_iri,
)

RANKS: Final = {"normal": "NormalRank", "preferred": "PreferredRank", "deprecated": "DeprecatedRank"}

EARTH: Final = WD + "Q2"
ONE: Final = WD + "Q199"
"""The unit of a quantity without unit."""

COMMONS_FILE: Final = "http://commons.wikimedia.org/wiki/Special:FilePath/"
COMMONS_DATA: Final = "http://commons.wikimedia.org/data/main/"
MATHML: Final = "http://www.w3.org/1998/Math/MathML"

_TYPE: Final = f"<{RDF_TYPE}>"
_STATEMENT: Final = f"<{WIKIBASE}Statement>"
_BEST: Final = f"<{WIKIBASE}BestRank>"
_RANK: Final = f"<{WIKIBASE}rank>"
_REFERENCE: Final = f"<{WIKIBASE}Reference>"
_DERIVED: Final = f"<{PROV}wasDerivedFrom>"
_TIME_VALUE: Final = f"<{WIKIBASE}TimeValue>"
_QUANTITY_VALUE: Final = f"<{WIKIBASE}QuantityValue>"
_GLOBE_VALUE: Final = f"<{WIKIBASE}GlobecoordinateValue>"
_AUTO_PRECISION: Final = f"<{WIKIBASE}GeoAutoPrecision>"


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
    references: dict[str, _Made] = {}
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


class _Value(NamedTuple):
    """A value as RDF: its simple form, and the node with its parts where the kind has one."""

    simple: str
    node: str | None = None
    triples: tuple[Triple, ...] = ()
    problem: str | None = None  # what was mended


class _Bad(ValueError):
    """A value that has no valid RDF; the message says why."""


class _Made(NamedTuple):
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


def _statement(name: str, prop: str, claim: Claim, best: bool, references: dict[str, _Made]) -> StatementRdf:
    """Return one statement; ``references`` keeps the entity's references, of which statements share many."""
    iri = WDS + _statement_id(name, claim)
    node = f"<{iri}>"
    rank = f"<{WIKIBASE}{RANKS.get(str(claim.get('rank')), 'NormalRank')}>"
    made = _Made([(f"<{WD}{name}>", f"<{P}{prop}>", node), (node, _TYPE, _STATEMENT), (node, _RANK, rank)], [])
    if best:
        made.triples.append((node, _TYPE, _BEST))
    _snak(iri, claim.get("mainsnak") or {}, _MAIN, made)
    for snak in _snaks(claim.get("qualifiers")):
        _snak(iri, snak, _QUALIFIER, made)
    for reference in claim.get("references") or ():
        key = _reference_hash(reference)
        known = references.get(key)
        if known is None:
            known = references[key] = _reference(key, reference)
        made.triples.append((node, _DERIVED, f"<{WDREF}{key}>"))
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


def _reference(key: str, reference: Mapping[str, Any]) -> _Made:
    iri = WDREF + key
    made = _Made([(f"<{iri}>", _TYPE, _REFERENCE)], [])
    for snak in _snaks(reference.get("snaks")):
        _snak(iri, snak, _IN_REFERENCE, made)
    return made


def _snaks(by_property: object) -> Iterator[Mapping[str, Any]]:
    """Yield the snaks of a map by property; PHP writes an empty one as a list."""
    if isinstance(by_property, Mapping):
        for snaks in by_property.values():
            yield from snaks


def _snak(iri: str, snak: Mapping[str, Any], place: _Place, made: _Made) -> None:
    """Append what a snak says of the statement or reference ``iri``."""
    node, prop, kind = f"<{iri}>", snak.get("property"), snak.get("snaktype")
    if not isinstance(prop, str) or not _PROPERTY.fullmatch(prop):
        made.problems.append(f"{prop!r} is no property")
    elif kind == "novalue":
        made.triples.append((node, _TYPE, f"<{WDNO}{prop}>"))
    elif kind == "somevalue":
        unknown = unknown_iri(iri, None if place is _MAIN else prop)
        made.triples.append((node, f"<{place.simple}{prop}>", f"<{unknown}>"))
    else:
        try:
            value = _value(snak)
        except _Bad as error:
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


def _value(snak: Mapping[str, Any]) -> _Value:
    """Return a value as RDF.

    Raises:
        _Bad: it has none.
        KeyError, TypeError, ValueError, AttributeError: it is not shaped as its type says.
    """
    data = snak["datavalue"]
    kind, value = data["type"], data["value"]
    if kind == "wikibase-entityid":
        return _entity(snak)
    if kind == "string":
        return _string(value, snak.get("datatype"))
    if kind == "time":
        unused = (int(value.get(name) or 0) for name in ("timezone", "before", "after"))
        return _time((value["time"], *unused, int(value["precision"]), value.get("calendarmodel") or GREGORIAN))
    if kind == "quantity":
        bounds = value.get("upperBound"), value.get("lowerBound")
        return _quantity(str(value["amount"]), value.get("unit") or "1", *bounds)
    if kind == "globecoordinate":
        return _coordinate(value["latitude"], value["longitude"], value.get("precision"), value.get("globe") or EARTH)
    if kind == "monolingualtext":
        return _Value(f"{literal(value['text'])}@{_language(value['language'])}")
    raise _Bad(f"values of the type {kind!r} are unknown")


def _entity(snak: Mapping[str, Any]) -> _Value:
    name = item_id(snak)
    if name is None or not re.fullmatch(r"[A-Z][1-9]\d*(-[A-Z][1-9]\d*)?", name):
        raise _Bad(f"{name!r} is no id of an entity")
    return _Value(f"<{WD}{name}>")


def _string(value: str, datatype: str | None) -> _Value:
    if datatype == "url":
        return _address(value)
    if datatype == "commonsMedia":
        return _Value(f"<{COMMONS_FILE}{quote(value, safe='', errors='replace')}>")
    if datatype in {"geo-shape", "tabular-data"}:
        return _Value(f"<{COMMONS_DATA}{quote(value, safe=':/', errors='replace')}>")
    if datatype == "math":
        raise _Bad("a formula, which is MathML in RDF")
    return _Value(literal(value))


# Plain strings

_ESCAPES: Final = (
    {code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F, 0xFFFE, 0xFFFF)}
    | {ord("\b"): "\\b", ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r"}
    | {ord('"'): '\\"', ord("\\"): "\\\\"}
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)
_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\\x7f\ud800-\udfff\ufffe\uffff]')


def literal(text: str) -> str:
    r"""Return a string as N-Triples writes it, as the RDF library does, only faster.

    Half a surrogate pair, which JSON can hold and UTF-8 cannot, becomes U+FFFD.

    >>> literal('say "no"\n')
    '"say \\"no\\"\\n"'
    """
    return f'"{text.translate(_ESCAPES)}"' if _ESCAPED.search(text) else f'"{text}"'


@lru_cache(maxsize=4096)
def language_literal(text: str, code: str) -> str:
    """Return a text in a language as N-Triples writes it; without the language where its code is no tag.

    >>> language_literal("Ada", "en"), language_literal("Ada", "no tag")
    ('"Ada"@en', '"Ada"')
    """
    try:
        return f"{literal(text)}@{_language(code)}"
    except _Bad:
        return literal(text)


def _language(code: str) -> str:
    """Return the language tag of a text: Wikidata's code, but for one; in lower case, as RDF stores keep it."""
    try:
        tag = ox.Literal("", language="en-simple" if code == "simple" else code).language
    except ValueError as error:
        raise _Bad(f"{code!r} is no language tag") from error
    assert tag is not None
    return tag


# Addresses

_IRI_ESCAPES: Final = {ord(sign): f"%{ord(sign):02X}" for sign in [*map(chr, range(0x21)), *'"<>\\`^|{}\x7f']}
_ORDINARY: Final = re.compile(
    r"https?://[A-Za-z0-9.-]+(?::\d+)?(?:[/?](?:[\w.~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
    r"(?:#(?:[\w.~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?",
    re.ASCII,
)
_STRAY: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _address(url: str) -> _Value:
    """Return an address as an IRI, with the signs escaped that Wikidata escapes.

    Raises:
        _Bad: no IRI can be made of it.
    """
    text = url.strip()
    if _ORDINARY.fullmatch(text):
        return _Value(f"<{text}>")
    text = text.translate(_IRI_ESCAPES)
    try:
        return _Value(str(ox.NamedNode(text)))
    except ValueError:
        pass
    try:
        return _Value(str(ox.NamedNode(_STRAY.sub("%25", text))), problem=f"{url!r} has a stray %")
    except (ValueError, UnicodeError) as error:
        raise _Bad(f"{url!r} is no address ({error})") from error


def _named(iri: object, what: str) -> str:
    """Return an IRI that is part of a value.

    Raises:
        _Bad: it is none.
    """
    try:
        return str(ox.NamedNode(str(iri).strip().translate(_IRI_ESCAPES)))
    except ValueError as error:
        raise _Bad(f"{what} {iri!r} is no IRI") from error


# Values with a node of their own


def _typed(text: str, datatype: str) -> str:
    return f'"{text}"^^<{XSD}{datatype}>'


def _node(serialised: str) -> str:
    return f"<{WDV}{hashlib.md5(serialised.encode(), usedforsecurity=False).hexdigest()}>"


def _part(name: str) -> str:
    return f"<{WIKIBASE}{name}>"


_TIME: Final = re.compile(r"([+-])(\d{1,16})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)Z?", re.ASCII)


@lru_cache(maxsize=1 << 16)
def _time(value: tuple[str, int, int, int, int, str]) -> _Value:
    """Return a time, given as text, timezone, before, after, precision and calendar.

    Its node's name is `kg.dates.Time.node` of the value with a year of four digits or more.

    Raises:
        _Bad: the text is no time.
    """
    text, timezone, before, after, precision, calendar = value
    match = _TIME.fullmatch(text)
    if match is None or not 0 <= precision <= 14:
        raise _Bad(f"{text!r} with the precision {precision} is no time")
    sign, digits, month, day, clock = match.groups()
    # Old documents write eleven digits. Wikidata cuts the zeros when it reads them, so one day has one node.
    text = f"{sign}{digits.lstrip('0'):0>4}-{month}-{day}T{clock}Z"
    fields = [text, timezone, before, after, precision, calendar]
    listed = json.dumps(fields, separators=(",", ":")).replace("/", "\\/")
    node = _node(_php_object("DataValues\\TimeValue", listed))
    year = int(sign + digits)
    when = _date(year, int(month), int(day), precision, calendar)
    simple = literal(text) if when is None else _typed(f"{when}T{clock}Z", "dateTime")
    gregorian = calendar == GREGORIAN or precision < DAY
    clamped = when is not None and gregorian and precision > YEAR and int(day) > int(when[-2:])
    return _Value(
        simple,
        node,
        (
            (node, _TYPE, _TIME_VALUE),
            (node, _part("timeValue"), simple),
            (node, _part("timePrecision"), _typed(str(precision), "integer")),
            (node, _part("timeTimezone"), _typed(str(timezone), "integer")),
            (node, _part("timeCalendarModel"), _named(calendar, "the calendar")),
        ),
        f"{text!r} is no day; {when} stands for it" if clamped else None,
    )


def _date(year: int, month: int, day: int, precision: int, calendar: str) -> str | None:
    """Return the day of the xsd:dateTime that Wikidata makes of a time, or None where it makes none."""
    if year == 0 or calendar not in (GREGORIAN, JULIAN):
        return None
    if calendar == JULIAN and precision >= DAY:
        if not (1 <= month <= 12 and 1 <= day <= 31 and year >= -4713):
            return None
        year, month, day = split_day(julian_to_gregorian(year + (year < 0), month, day))
    else:
        # XSD 1.1 counts the year before 1 as 0; what is coarser than a year is not shifted.
        year += year < 0 and precision >= YEAR
        month, day = (month, day) if precision > YEAR else (1, 1)
        month = min(max(month, 1), 12)
        day = min(max(day, 1), days_in_month(year, month))
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"


_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


def _number(text: str) -> str:
    """Return a decimal number with its sign, as Wikidata writes it.

    Raises:
        _Bad: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise _Bad(f"{text!r} is no number")
    text = text if text[0] in "+-" else "+" + text
    return text if text.strip("-0.") else "+" + text[1:]


def _php(text: str) -> str:
    return f's:{len(text.encode())}:"{text}";'


def _php_object(name: str, content: str) -> str:
    return f'C:{len(name)}:"{name}":{len(content.encode())}:{{{content}}}'


@lru_cache(maxsize=4096)
def _quantity(amount: str, unit: str, upper: object, lower: object) -> _Value:
    """Return a quantity; the bounds are given both, or it has none.

    Raises:
        _Bad: an amount is no number, or the unit no IRI.
    """
    numbers = [_number(amount)]
    if upper is not None and lower is not None:
        numbers += [_number(str(upper)), _number(str(lower))]
    fields = [_php_object("DataValues\\DecimalValue", _php(number)) for number in numbers]
    fields.insert(1, _php(unit))
    listed = f"a:{len(fields)}:{{{''.join(f'i:{number};{text}' for number, text in enumerate(fields))}}}"
    bounded = len(numbers) > 1
    node = _node(_php_object(f"DataValues\\{'' if bounded else 'Unbounded'}QuantityValue", listed))
    names = ("quantityAmount", "quantityUpperBound", "quantityLowerBound")
    parts = [(node, _part(name), _typed(number, "decimal")) for name, number in zip(names, numbers, strict=False)]
    unit_iri = _named(ONE if unit == "1" else unit, "the unit")
    made = ((node, _TYPE, _QUANTITY_VALUE), (node, _part("quantityUnit"), unit_iri), *parts)
    return _Value(_typed(numbers[0], "decimal"), node, made)


def _double(number: float) -> str:
    """Return a number as PHP prints it, with 14 digits.

    >>> _double(51.56652777777778), _double(2.777777777777778e-05), _double(18.0)
    ('51.566527777778', '2.7777777777778E-5', '18')
    """
    text = f"{float(number):.14G}"
    mantissa, mark, exponent = text.partition("E")
    if not mark:
        return "0" if text == "-0" else text
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent):+d}"


def _coordinate(latitude: float, longitude: float, precision: float | None, globe: str) -> _Value:
    """Return a place; one without precision has 1/3600 degree, and says that nobody gave it.

    Raises:
        _Bad: the globe is no IRI.
    """
    where, there = _double(latitude), _double(longitude)
    given = "" if precision is None else _double(precision)
    node = _node(f"{where}|{there}|{given}|{globe}")
    point = f"Point({there} {where})"
    named = _named(globe, "the globe")
    parts = [
        (node, _TYPE, _GLOBE_VALUE),
        (node, _part("geoLatitude"), _typed(where, "double")),
        (node, _part("geoLongitude"), _typed(there, "double")),
        (node, _part("geoPrecision"), _typed(given or _double(1 / 3600), "double")),
        (node, _part("geoGlobe"), named),
    ]
    if precision is None:
        parts.append((node, _TYPE, _AUTO_PRECISION))
    text = literal(point if globe == EARTH else f"{named} {point}")
    return _Value(f"{text}^^<{GEO}wktLiteral>", node, tuple(parts))


# From RDF

_CLAIM: Final = re.compile(rf"<{re.escape(P)}(P[1-9]\d*)>", re.ASCII)
_PARTS: Final = re.compile(
    rf"<(?:{'|'.join(re.escape(prefix) for prefix in (PS, PSV, PQ, PQV, PR, PRV))})(P[1-9]\d*)>", re.ASCII
)
_NO_VALUE: Final = re.compile(rf"<{re.escape(WDNO)}P[1-9]\d*>", re.ASCII)
_NODE_PARTS: Final = {
    _TIME_VALUE: ("timeValue", "timePrecision", "timeTimezone", "timeCalendarModel"),
    _QUANTITY_VALUE: ("quantityAmount", "quantityUpperBound", "quantityLowerBound", "quantityUnit"),
    _GLOBE_VALUE: ("geoLatitude", "geoLongitude", "geoPrecision", "geoGlobe"),
}
_NODE_TYPES: Final = {_part(name): kind for kind, names in _NODE_PARTS.items() for name in names}
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
    known: dict[str, _Made] = {}
    return sorted(_restored(*claim, about, known) for claim in claims)


def _restored(subject: str, prop: str, node: str, about: _About, known: dict[str, _Made]) -> StatementRdf:
    """Return the statement that a node describes."""
    made = _Made([(subject, f"<{P}{prop}>", node), (node, _TYPE, _STATEMENT)], [])
    _describe(node, about, made)
    for predicate, value in about.get(node, ()):
        if predicate == _RANK or (predicate == _TYPE and value == _BEST):
            made.triples.append((node, predicate, value))
        elif predicate == _DERIVED:
            if value not in known:
                known[value] = _Made([(value, _TYPE, _REFERENCE)], [])
                _describe(value, about, known[value])
            made.triples.append((node, predicate, value))
            made.triples.extend(known[value].triples)
            made.problems.extend(known[value].problems)
    name = subject[1:-1].removeprefix(WD)
    return StatementRdf(node[1:-1], name, prop, tuple(sorted(set(made.triples))), tuple(made.problems))


def _describe(node: str, about: _About, made: _Made) -> None:
    """Append the values, qualifiers or reference parts that are said of a node, and the value nodes they lead to."""
    for predicate, value in about.get(node, ()):
        if predicate == _TYPE and _NO_VALUE.fullmatch(value):
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


def _simple(node: str, predicate: str, value: str, prop: str, made: _Made) -> None:
    """Append a simple value, mended and left out as `statements` does."""
    try:
        if value.endswith(f"^^<{MATHML}>"):
            raise _Bad("a formula, which is MathML in RDF")
        if value[0] != "<":
            mended = _Value(_lexical(value))
        else:
            mended = _Value(value) if value.startswith(f"<{WD}") else _address(value[1:-1])
    except _Bad as error:
        made.problems.append(f"{prop}: {error}")
        return
    made.triples.append((node, predicate, mended.simple))
    if mended.problem is not None:
        made.problems.append(f"{prop}: {mended.problem}")


def _value_node(node: str, about: _About) -> Iterator[Triple]:
    """Yield the parts of a value node, with the type they show it to have."""
    for predicate, value in about.get(node, ()):
        if kind := _NODE_TYPES.get(predicate):
            yield node, _TYPE, kind
            yield node, predicate, _lexical(value)
        elif predicate == _TYPE and value == _AUTO_PRECISION:
            yield node, predicate, value


_DECIMAL: Final = f'"^^<{XSD}decimal>'
_DOUBLE: Final = f'"^^<{XSD}double>'
_STRING: Final = f'"^^<{XSD}string>'


def _lexical(value: str) -> str:
    """Return a literal as Wikidata writes it, other terms as they are; the query service prints numbers its own way."""
    if value.endswith(_DECIMAL):
        number = value[1 : -len(_DECIMAL)]
        return _typed(number if number[0] in "+-" else "+" + number, "decimal")
    if value.endswith(_DOUBLE):
        return _typed(_double(float(value[1 : -len(_DOUBLE)])), "double")
    if value.endswith(_STRING):
        return value.removesuffix(_STRING) + '"'
    if value.startswith('"') and not value.endswith(('"', ">")):
        text, _, tag = value.rpartition("@")
        return f"{text}@{tag.lower()}"
    return value
