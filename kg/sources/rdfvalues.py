"""Values of Wikidata's JSON as RDF terms: strings, addresses, times, quantities and coordinates with their nodes."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyoxigraph as ox

from kg.dates import DAY, YEAR, days_in_month, julian_to_gregorian, split_day
from kg.sources import Triple
from kg.sources.entity import item_id
from kg.terms import (
    GEO,
    GREGORIAN,
    JULIAN,
    RDF_TYPE,
    WD,
    WDV,
    WIKIBASE,
    XSD,
)

EARTH: Final = WD + "Q2"


ONE: Final = WD + "Q199"
"""The unit of a quantity without unit."""


COMMONS_FILE: Final = "http://commons.wikimedia.org/wiki/Special:FilePath/"


COMMONS_DATA: Final = "http://commons.wikimedia.org/data/main/"


MATHML: Final = "http://www.w3.org/1998/Math/MathML"


TYPE: Final = f"<{RDF_TYPE}>"


TIME_VALUE: Final = f"<{WIKIBASE}TimeValue>"


QUANTITY_VALUE: Final = f"<{WIKIBASE}QuantityValue>"


GLOBE_VALUE: Final = f"<{WIKIBASE}GlobecoordinateValue>"


AUTO_PRECISION: Final = f"<{WIKIBASE}GeoAutoPrecision>"


class Value(NamedTuple):
    """A value as RDF: its simple form, and the node with its parts where the kind has one."""

    simple: str
    node: str | None = None
    triples: tuple[Triple, ...] = ()
    problem: str | None = None  # what was mended


class Bad(ValueError):
    """A value that has no valid RDF; the message says why."""


def value_of(snak: Mapping[str, Any]) -> Value:
    """Return a value as RDF.

    Raises:
        Bad: it has none.
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
        return Value(f"{literal(value['text'])}@{_language(value['language'])}")
    raise Bad(f"values of the type {kind!r} are unknown")


def _entity(snak: Mapping[str, Any]) -> Value:
    name = item_id(snak)
    if name is None or not re.fullmatch(r"[A-Z][1-9]\d*(-[A-Z][1-9]\d*)?", name):
        raise Bad(f"{name!r} is no id of an entity")
    return Value(f"<{WD}{name}>")


def _string(value: str, datatype: str | None) -> Value:
    if datatype == "url":
        return address_value(value)
    if datatype == "commonsMedia":
        return Value(f"<{COMMONS_FILE}{quote(value, safe='', errors='replace')}>")
    if datatype in {"geo-shape", "tabular-data"}:
        return Value(f"<{COMMONS_DATA}{quote(value, safe=':/', errors='replace')}>")
    if datatype == "math":
        raise Bad("a formula, which is MathML in RDF")
    return Value(literal(value))


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
    except Bad:
        return literal(text)


def _language(code: str) -> str:
    """Return the language tag of a text: Wikidata's code, but for one; in lower case, as RDF stores keep it."""
    try:
        tag = ox.Literal("", language="en-simple" if code == "simple" else code).language
    except ValueError as error:
        raise Bad(f"{code!r} is no language tag") from error
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


def address_value(url: str) -> Value:
    """Return an address as an IRI, with the signs escaped that Wikidata escapes.

    Raises:
        Bad: no IRI can be made of it.
    """
    text = url.strip()
    if _ORDINARY.fullmatch(text):
        return Value(f"<{text}>")
    text = text.translate(_IRI_ESCAPES)
    try:
        return Value(str(ox.NamedNode(text)))
    except ValueError:
        pass
    try:
        return Value(str(ox.NamedNode(_STRAY.sub("%25", text))), problem=f"{url!r} has a stray %")
    except (ValueError, UnicodeError) as error:
        raise Bad(f"{url!r} is no address ({error})") from error


def _named(iri: object, what: str) -> str:
    """Return an IRI that is part of a value.

    Raises:
        Bad: it is none.
    """
    try:
        return str(ox.NamedNode(str(iri).strip().translate(_IRI_ESCAPES)))
    except ValueError as error:
        raise Bad(f"{what} {iri!r} is no IRI") from error


# Values with a node of their own


def typed_literal(text: str, datatype: str) -> str:
    """Return a literal of a datatype in N-Triples."""
    return f'"{text}"^^<{XSD}{datatype}>'


def _node(serialised: str) -> str:
    return f"<{WDV}{hashlib.md5(serialised.encode(), usedforsecurity=False).hexdigest()}>"


def wikibase_part(name: str) -> str:
    """Return a term of Wikibase's ontology in N-Triples."""
    return f"<{WIKIBASE}{name}>"


_TIME: Final = re.compile(r"([+-])(\d{1,16})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)Z?", re.ASCII)


@lru_cache(maxsize=1 << 16)
def _time(value: tuple[str, int, int, int, int, str]) -> Value:
    """Return a time, given as text, timezone, before, after, precision and calendar.

    Its node's name is `kg.dates.Time.node` of the value with a year of four digits or more.

    Raises:
        Bad: the text is no time.
    """
    text, timezone, before, after, precision, calendar = value
    match = _TIME.fullmatch(text)
    if match is None or not 0 <= precision <= 14:
        raise Bad(f"{text!r} with the precision {precision} is no time")
    sign, digits, month, day, clock = match.groups()
    # Old documents write eleven digits. Wikidata cuts the zeros when it reads them, so one day has one node.
    text = f"{sign}{digits.lstrip('0'):0>4}-{month}-{day}T{clock}Z"
    fields = [text, timezone, before, after, precision, calendar]
    listed = json.dumps(fields, separators=(",", ":")).replace("/", "\\/")
    node = _node(_php_object("DataValues\\TimeValue", listed))
    year = int(sign + digits)
    when = _date(year, int(month), int(day), precision, calendar)
    simple = literal(text) if when is None else typed_literal(f"{when}T{clock}Z", "dateTime")
    gregorian = calendar == GREGORIAN or precision < DAY
    clamped = when is not None and gregorian and precision > YEAR and int(day) > int(when[-2:])
    return Value(
        simple,
        node,
        (
            (node, TYPE, TIME_VALUE),
            (node, wikibase_part("timeValue"), simple),
            (node, wikibase_part("timePrecision"), typed_literal(str(precision), "integer")),
            (node, wikibase_part("timeTimezone"), typed_literal(str(timezone), "integer")),
            (node, wikibase_part("timeCalendarModel"), _named(calendar, "the calendar")),
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
        Bad: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise Bad(f"{text!r} is no number")
    text = text if text[0] in "+-" else "+" + text
    return text if text.strip("-0.") else "+" + text[1:]


def _php(text: str) -> str:
    return f's:{len(text.encode())}:"{text}";'


def _php_object(name: str, content: str) -> str:
    return f'C:{len(name)}:"{name}":{len(content.encode())}:{{{content}}}'


@lru_cache(maxsize=4096)
def _quantity(amount: str, unit: str, upper: object, lower: object) -> Value:
    """Return a quantity; the bounds are given both, or it has none.

    Raises:
        Bad: an amount is no number, or the unit no IRI.
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
    parts = [
        (node, wikibase_part(name), typed_literal(number, "decimal"))
        for name, number in zip(names, numbers, strict=False)
    ]
    unit_iri = _named(ONE if unit == "1" else unit, "the unit")
    made = ((node, TYPE, QUANTITY_VALUE), (node, wikibase_part("quantityUnit"), unit_iri), *parts)
    return Value(typed_literal(numbers[0], "decimal"), node, made)


def double_text(number: float) -> str:
    """Return a number as PHP prints it, with 14 digits.

    >>> double_text(51.56652777777778), double_text(2.777777777777778e-05), double_text(18.0)
    ('51.566527777778', '2.7777777777778E-5', '18')
    """
    text = f"{float(number):.14G}"
    mantissa, mark, exponent = text.partition("E")
    if not mark:
        return "0" if text == "-0" else text
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent):+d}"


def _coordinate(latitude: float, longitude: float, precision: float | None, globe: str) -> Value:
    """Return a place; one without precision has 1/3600 degree, and says that nobody gave it.

    Raises:
        Bad: the globe is no IRI.
    """
    where, there = double_text(latitude), double_text(longitude)
    given = "" if precision is None else double_text(precision)
    node = _node(f"{where}|{there}|{given}|{globe}")
    point = f"Point({there} {where})"
    named = _named(globe, "the globe")
    parts = [
        (node, TYPE, GLOBE_VALUE),
        (node, wikibase_part("geoLatitude"), typed_literal(where, "double")),
        (node, wikibase_part("geoLongitude"), typed_literal(there, "double")),
        (node, wikibase_part("geoPrecision"), typed_literal(given or double_text(1 / 3600), "double")),
        (node, wikibase_part("geoGlobe"), named),
    ]
    if precision is None:
        parts.append((node, TYPE, AUTO_PRECISION))
    text = literal(point if globe == EARTH else f"{named} {point}")
    return Value(f"{text}^^<{GEO}wktLiteral>", node, tuple(parts))
