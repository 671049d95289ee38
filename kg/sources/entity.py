"""An entity document as Wikidata serves it, and what other documents need to know of an entity.

Source: github.com/wikimedia/mediawiki-extensions-Wikibase, docs/topics/json.md. Documents from 2014 on are read: ids
may be given as ``numeric-id`` only, years have eleven digits, and an empty map may be written as an empty list.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from kg.dates import time_from_json
from kg.errors import DataError

ID: Final = re.compile(r"[QPL][1-9][0-9]{0,17}")
ITEM: Final = re.compile(r"[A-Z][1-9][0-9]{0,17}(-[A-Z][1-9][0-9]*)?")
"""The id of any entity: of a form or a sense of a lexeme, too."""

_PROPERTY: Final = re.compile(r"P[1-9][0-9]{0,17}")

Claim = Mapping[str, Any]


@dataclass(frozen=True)
class Entity:
    """One entity of a document.

    Attributes:
        id: The id it goes by in the document, e.g. "Q38".
        asked: The id it was asked for by; another one where that id is a redirect.
        document: The entity's own part of the document.
        revision: The revision, where the document says it.
        modified: When that revision was made, as Wikidata writes it ("2020-07-01T12:00:00Z"), where it is known.
    """

    id: str
    asked: str
    document: Mapping[str, Any]
    revision: int | None = None
    modified: str | None = None

    @cached_property
    def label(self) -> tuple[str, str] | None:
        """Label and its language: English, else the one for all languages, else the first by language; None: none."""
        labels = _map(self.document.get("labels"))
        for language in ("en", "mul", *sorted(labels)):
            if text := _text(labels.get(language)):
                return text, language
        return None

    @cached_property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """Other names with their language, English and for all languages, sorted, without the label."""
        aliases = _map(self.document.get("aliases"))
        listed = [(language, aliases.get(language) or ()) for language in ("en", "mul")]
        found = {(text, language) for language, names in listed for name in names if (text := _text(name))}
        return tuple(sorted(found - {self.label}))

    @cached_property
    def sitelinks(self) -> int | None:
        """On how many sites it has a page; None where the document does not say. A trimmed document has the number."""
        found = self.document.get("sitelinks")
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        return len(found) if isinstance(found, Mapping | list) else None

    def claims(self, prop: str) -> Sequence[Claim]:
        """Return the statements of a property, in the document's order, whatever their rank."""
        return list(_map(self.document.get("claims")).get(prop, ()))

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties it has statements of, sorted by number."""
        return tuple(sorted(_map(self.document.get("claims")), key=lambda prop: int(prop[1:])))

    def best(self, prop: str) -> list[Claim]:
        """Return the statements of best rank: the preferred ones, else the normal ones; never a deprecated one."""
        claims = [claim for claim in self.claims(prop) if claim.get("rank") != "deprecated"]
        return [claim for claim in claims if claim.get("rank") == "preferred"] or claims

    def best_items(self, prop: str) -> tuple[str, ...]:
        """Return the ids of the items that the best statements of a property name, sorted."""
        found = {item_id(claim["mainsnak"]) for claim in self.best(prop)}
        return tuple(sorted(name for name in found if name is not None and ITEM.fullmatch(name)))


class Named(NamedTuple):
    """What a snapshot says of an entity that is a value: a holder, an office, a property."""

    asked: str  # the id by which statements name it
    id: str  # the id it goes by; another one where ``asked`` is a redirect
    label: tuple[str, str] | None  # text and language
    aliases: tuple[tuple[str, str], ...]
    instance_of: tuple[str, ...]  # ids of its best P31, sorted
    died: tuple[str, ...]  # its best P570 as lexical forms of xsd:dateTime, sorted


def named(entity: Entity) -> Named:
    """Return what a snapshot says of an entity that is a value."""
    died = set()
    for claim in entity.best("P570"):
        if claim["mainsnak"].get("snaktype") == "value":
            try:
                died.add(time_from_json(claim["mainsnak"]["datavalue"]["value"]).rdf)
            except (DataError, KeyError, TypeError, ValueError, AttributeError):
                continue  # a malformed day of death leaves one unknown; it decides nothing
    found = (entity.label, entity.aliases, entity.best_items("P31"), tuple(sorted(died)))
    return Named(entity.asked, entity.id, *found)


def read_entities(document: object, asked: Sequence[str], where: str) -> Iterator[Entity]:
    """Yield the entities of a document, each under the id it was asked for by.

    The document is what ``Special:EntityData`` or ``wbgetentities`` serves, one entity alone (a line of a dump), or a
    list of the latter. A redirect is recognised by its key: asked for Q1, the document holds Q2.

    Args:
        document: the parsed JSON.
        asked: the ids it was asked for; empty takes every entity under its own id.
        where: names the document in errors.

    Raises:
        DataError: it is no such document, an asked id is missing in it, or an entity has no proper id.
    """
    entities = [_entity(one, where) for one in _parts(document, where)]
    by_id = {entity.id: entity for entity in entities}
    if not asked:
        yield from entities
        return
    redirects = _redirects(document)
    for name in asked:
        found = by_id.get(name) or by_id.get(redirects.get(name, ""))
        if found is None and len(asked) == 1 and len(entities) == 1:
            found = entities[0]
        if found is None:
            raise DataError(f"{where} does not hold {name}.", hint="Was it deleted, or is the id misspelt?")
        yield Entity(found.id, name, found.document, found.revision, found.modified)


def item_id(snak: Mapping[str, Any]) -> str | None:
    """Return the id of the entity a snak names; None where its value is none, unknown, or no entity."""
    if snak.get("snaktype") != "value":
        return None
    value = snak["datavalue"]
    if value.get("type") != "wikibase-entityid":
        return None
    inner = value["value"]
    if not isinstance(inner, Mapping):
        return None
    letter = {"item": "Q", "property": "P", "lexeme": "L"}.get(str(inner.get("entity-type", "item")), "Q")
    return str(inner.get("id") or f"{letter}{inner.get('numeric-id')}")


def _parts(document: object, where: str) -> list[Mapping[str, Any]]:
    if isinstance(document, Mapping) and isinstance(document.get("entities"), Mapping):
        parts = list(document["entities"].values())
    elif isinstance(document, Mapping) and "id" in document:
        parts = [document]
    elif isinstance(document, list):
        parts = document
    else:
        raise DataError(f"{where} is no entity document.")
    return [part for part in parts if isinstance(part, Mapping) and "missing" not in part]


def _redirects(document: object) -> dict[str, str]:
    """Return where each redirected id of a ``wbgetentities`` answer leads."""
    if not isinstance(document, Mapping):
        return {}
    found = {}
    for entity in _map(document.get("entities")).values():
        if isinstance(entity, Mapping) and isinstance(leads := entity.get("redirects"), Mapping):
            found[str(leads.get("from"))] = str(leads.get("to"))
    return found


def _entity(part: Mapping[str, Any], where: str) -> Entity:
    name = part.get("id")
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise DataError(f"{where} holds an entity with the id {name!r}.", hint="An id is like Q38.")
    if (odd := _misshapen(part)) is not None:
        raise DataError(f"{where} holds {name} with {odd} that cannot be read.", hint="Is it an entity document?")
    revision, modified = part.get("lastrevid"), part.get("modified")
    return Entity(name, name, part, revision, None if modified is None else str(modified))


def _misshapen(part: Mapping[str, Any]) -> str | None:
    """Return what of an entity is not of the shape it must have; None where all is."""
    revision = part.get("lastrevid")
    if revision is not None and (not isinstance(revision, int) or isinstance(revision, bool)):
        return "a revision"
    for key, kind in (("labels", Mapping), ("aliases", list)):
        texts = part.get(key) or {}
        if not (isinstance(texts, Mapping) and all(isinstance(value, kind) for value in texts.values())):
            return key
    claims = part.get("claims") or {}
    if not isinstance(claims, Mapping) or not all(_PROPERTY.fullmatch(str(prop)) for prop in claims):
        return "statements"
    for prop, own in claims.items():
        if not (isinstance(own, list) and all(map(_is_claim, own))):
            return f"statements of {prop}"
    return None


def _is_claim(claim: object) -> bool:
    if not isinstance(claim, Mapping) or not _is_snak(claim.get("mainsnak")):
        return False
    references = claim.get("references") or []
    if not isinstance(references, list) or not all(isinstance(one, Mapping) for one in references):
        return False
    groups = [claim.get("qualifiers"), *(reference.get("snaks") for reference in references)]
    return all(map(_are_snaks, groups))


def _are_snaks(group: object) -> bool:
    """Tell whether this is snaks by property, or a list of them as very old documents have it."""
    if not group:
        return group is None or isinstance(group, Mapping | list)
    lists = list(group.values()) if isinstance(group, Mapping) else [group]
    return all(isinstance(own, list) and all(map(_is_snak, own)) for own in lists)


def _is_snak(snak: object) -> bool:
    if not isinstance(snak, Mapping) or not isinstance(snak.get("snaktype"), str):
        return False
    return snak["snaktype"] != "value" or (isinstance(data := snak.get("datavalue"), Mapping) and "value" in data)


def _map(value: object) -> Mapping[str, Any]:
    """Return a map; PHP writes an empty one as a list."""
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    text = value.get("value") if isinstance(value, Mapping) else None
    return text if isinstance(text, str) and text.strip() else None
