"""Entity documents from Wikidata itself: today's, those of a past revision, and which revision stood on a day.

Sources: wikidata.org/wiki/Wikidata:Data_access for ``Special:EntityData`` and its ``revision``;
wikidata.org/w/api.php?action=help for ``wbgetentities``, ``query&prop=revisions`` and ``wbsearchentities``.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import orjson

from kg.errors import DataError, SourceError, UsageError
from kg.sources.bodies import Check, Fault, Json, api_fault
from kg.sources.entity import ID, Entity, read_entities
from kg.sources.web import Web

SITE: Final = "https://www.wikidata.org"
BATCH: Final = 50
"""How many ids ``wbgetentities`` takes at once."""

_MOST_HOPS: Final = 3  # Wikidata resolves double redirects, but not at once
_SETTLED_S: Final = 60
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NAMESPACE: Final = {"Q": "", "P": "Property:", "L": "Lexeme:"}


class Revision(NamedTuple):
    """A revision of an entity's page."""

    id: str  # of the entity, as it was asked for
    number: int
    timestamp: str  # "2019-06-30T12:00:00Z"


class Candidate(NamedTuple):
    """What a search finds."""

    id: str
    label: str | None
    description: str | None


class Wikidata:
    """Wikidata's own interfaces.

    Every method raises `SourceError` where Wikidata cannot be reached, answers wrongly to the end of our patience, or
    (``Web.offline``) the answer is not stored, and `UsageError` for an id or an instant that is none.
    """

    def __init__(self, web: Web, site: str = SITE) -> None:
        self.web = web
        self.site = site.rstrip("/")

    def entity(self, name: str, scope: str | None, *, not_before: int | None = None) -> Entity:
        """Return the document of an entity as it stands now; a redirect is followed.

        Args:
            name: its id.
            scope: the job whose answers may be reused.
            not_before: a revision it is known to have reached: an older document comes from a stale cache and is
                asked for again.

        Raises:
            SourceError: of the kind "absent", where there is no such entity.
        """
        return self._document(_proper(name), {}, scope, partial(_fresh, not_before=not_before))

    def entity_at(self, name: str, revision: int) -> Entity:
        """Return the document of exactly this revision, which never changes.

        Raises:
            SourceError: of the kind "absent", where the entity has no such revision or was a redirect in it.
        """
        exact = partial(_exact, revision=revision)
        found = self._document(_proper(name), {"revision": str(revision)}, "", exact)
        return found if found.revision is not None else replace(found, revision=revision)

    def entity_on(self, name: str, instant: str, scope: str = "") -> Entity | None:
        """Return the document that stood at an instant; None where there was none yet.

        Where the entity was a redirect then, it is the document in which its target stood at that instant.
        """
        return self._on(name, instant, scope, _MOST_HOPS)

    def redirect_at(self, name: str, revision: int) -> str | None:
        """Return where an entity's page redirected to in a revision; None where it was no redirect."""
        params = {"action": "query", "prop": "revisions", "revids": str(revision), "rvprop": "content"}
        answer = self._api({**params, "rvslots": "main"}, "", _check_content)
        for content in _contents(answer):
            if content.get("entity") == name and ID.fullmatch(str(content.get("redirect"))):
                return str(content["redirect"])
        return None

    def entities(self, names: Collection[str], scope: str | None) -> dict[str, Entity | None]:
        """Return the entities by the id they were asked for; None for one that is deleted or never was.

        They are asked for fifty at a time in the order of their numbers, so that the same names are the same requests.
        """
        return dict(self.each_entity(names, scope))

    def each_entity(self, names: Collection[str], scope: str | None) -> Iterator[tuple[str, Entity | None]]:
        """Yield the same one by one, holding one batch of documents at a time."""
        ordered = sorted({_proper(name) for name in names}, key=lambda name: (name[0], int(name[1:])))
        for start in range(0, len(ordered), BATCH):
            batch = ordered[start : start + BATCH]
            found = self._batch(batch, scope)
            yield from ((name, found[name]) for name in batch)

    def revision_at(self, name: str, instant: str, scope: str = "") -> Revision | None:
        """Return the last revision not after an instant ("2019-06-30T23:59:59Z"); None where there was none yet."""
        found = self._revisions(name, {"rvstart": _instant(instant), "rvlimit": "1"}, scope, most=1)
        return found[0] if found else None

    def revisions(self, name: str, start: str, end: str, scope: str = "") -> list[Revision]:
        """Return the revisions from one instant to another, both included, oldest first."""
        if _instant(start) > _instant(end):
            raise UsageError(f"{start} is after {end}.")
        found = self._revisions(name, {"rvstart": end, "rvend": start, "rvlimit": "max"}, scope)
        return found[::-1]

    def search(self, text: str, limit: int = 7, *, language: str = "en", scope: str | None = None) -> list[Candidate]:
        """Return the items that a label or another name leads to, best first; kept only where a scope is given."""
        params = {"action": "wbsearchentities", "search": text, "language": language, "type": "item"}
        answer = self._api({**params, "uselang": language, "limit": str(limit)}, scope, _check_search)
        return [
            Candidate(str(one["id"]), _said(one.get("label")), _said(one.get("description")))
            for one in answer["search"]
        ]

    def _on(self, name: str, instant: str, scope: str, hops: int) -> Entity | None:
        standing = self.revision_at(name, instant, scope)
        if standing is None:
            return None
        try:
            found = self.entity_at(name, standing.number)
        except SourceError as error:
            target = self.redirect_at(name, standing.number) if error.kind == "absent" and hops else None
            if target is None:
                raise
            there = self._on(target, instant, scope, hops - 1)
            return None if there is None else replace(there, asked=name)
        return found if found.modified is not None else replace(found, modified=standing.timestamp)

    def _document(
        self, name: str, params: Mapping[str, str], scope: str | None, suits: Callable[[Entity], None]
    ) -> Entity:
        address = f"{self.site}/wiki/Special:EntityData/{name}.json"

        def check(answer: Json) -> None:
            suits(_one(answer, name))

        try:
            return _one(self.web.get_json(address, params, scope, check=check), name)
        except SourceError as error:
            if error.kind != "absent":
                raise
            which = f"revision {params['revision']} of {name}" if params else name
            hint = "Was it deleted, is it a redirect, or is the id misspelt?"
            raise SourceError(f"Wikidata has no {which}: {error.message}", hint=hint, kind="absent") from error

    def _batch(self, names: Sequence[str], scope: str | None) -> dict[str, Entity | None]:
        """Return the entity of each name.

        A reply may pass over some: of two redirects to one entity it names only one, and it leaves out what would make
        it longer than the interface allows. For these it is asked again, as long as each reply brings something.
        """
        found: dict[str, Entity | None] = {}
        while rest := [name for name in names if name not in found]:
            more = self._reply(rest, scope)
            if not more:
                raise SourceError(f"Wikidata's reply to wbgetentities says nothing of {rest[0]}, which was asked for.")
            found |= more
        return found

    def _reply(self, names: Collection[str], scope: str | None) -> dict[str, Entity | None]:
        """Return those of the names that one reply answers for."""
        params = {"action": "wbgetentities", "ids": "|".join(names), "props": "labels|aliases|claims|info"}
        answer = self._api(params, scope, _check_entities)
        found = {entity.id: entity for entity in read_entities(answer, (), "wbgetentities")}
        result: dict[str, Entity | None] = {name: found[name] for name in names if name in found}
        for key, part in answer["entities"].items():
            leads = part.get("redirects")
            asked = str(leads.get("from")) if isinstance(leads, Mapping) else key
            if asked not in names or asked in result:
                continue
            if "missing" in part:
                result[asked] = None
            elif target := found.get(part["id"]):
                result[asked] = replace(target, asked=asked)
        return result

    def _revisions(
        self, name: str, params: Mapping[str, str], scope: str | None, most: int | None = None
    ) -> list[Revision]:
        """Return revisions newest first, continued until there are no more or enough."""
        title = _NAMESPACE[_proper(name)[0]] + name
        # sha1 tells a revision whose text is hidden, for copyright or privacy: no document can be had of it.
        asked = {
            "action": "query",
            "prop": "revisions",
            "rvdir": "older",
            "titles": title,
            "rvprop": "ids|timestamp|sha1",
        }
        # What is still to come, or has not reached every copy yet, can change and is not kept for ever.
        past = datetime.fromisoformat(params["rvstart"]).timestamp() < self.web.now() - _SETTLED_S
        kept = scope if scope or past else None
        found: list[Revision] = []
        further: dict[str, str] = {}
        passed: list[dict[str, str]] = []
        while True:
            answer = self._api({**asked, **params, **further}, kept, _check_page)
            listed = answer["query"]["pages"][0].get("revisions", ())
            found += (Revision(name, one["revid"], one["timestamp"]) for one in listed if "sha1hidden" not in one)
            passed.append(further)
            further = {key: str(value) for key, value in answer.get("continue", {}).items()}
            if not further or (most is not None and len(found) >= most):
                return found[:most]
            if further in passed:
                raise SourceError(f"Wikidata's list of revisions of {name} goes in a circle at {further}.")

    def _api(self, params: Mapping[str, str], scope: str | None, check: Check) -> Json:
        def checked(answer: Json) -> None:
            api_fault(answer)
            check(answer)

        shape = {"format": "json", "formatversion": "2"}
        manners = {"maxlag": str(self.web.manners.maxlag)}
        return self.web.get_json(f"{self.site}/w/api.php", {**params, **shape}, scope, check=checked, manners=manners)


def _proper(name: str) -> str:
    if not ID.fullmatch(name):
        raise UsageError(f"{name!r} is no id of Wikidata.", hint="An id is like Q38.")
    return name


def _instant(text: str) -> str:
    if not _INSTANT.fullmatch(text):
        raise UsageError(f"{text!r} is no instant.", hint="Write it as 2019-06-30T23:59:59Z.")
    return text


def _one(answer: Json, name: str) -> Entity:
    try:
        return next(read_entities(answer, [name], f"The document of {name}"))
    except DataError as error:
        raise Fault(f"answered with no entity document ({error.message})") from error


def _fresh(entity: Entity, not_before: int | None) -> None:
    if not_before is not None and entity.revision is not None and entity.revision < not_before:
        raise Fault(f"answered with revision {entity.revision}, older than {not_before}, from a stale cache")


def _exact(entity: Entity, revision: int) -> None:
    if entity.id != entity.asked:
        raise Fault(f"answered with {entity.id}: {entity.asked} was a redirect", kind="absent", retry=False)
    if entity.revision not in (None, revision):
        raise Fault(f"answered with revision {entity.revision} instead of {revision}")


def _check_entities(answer: Json) -> None:
    entities = answer.get("entities")
    if not isinstance(entities, dict) or not all(isinstance(part, dict) for part in entities.values()):
        raise Fault("answered without entities")
    try:
        for _ in read_entities(answer, (), "It"):
            pass
    except DataError as error:
        raise Fault(f"answered with no entity documents ({error.message})") from error


def _check_page(answer: Json) -> None:
    query = answer.get("query")
    pages = query.get("pages") if isinstance(query, dict) else None
    if not isinstance(pages, list) or len(pages) != 1 or not isinstance(pages[0], dict):
        raise Fault("answered without the page that was asked for")
    if pages[0].get("invalid"):
        raise Fault(f"calls the title {pages[0].get('title')!r} invalid", kind="absent", retry=False)
    dict(answer.get("continue", {}))
    for one in pages[0].get("revisions", ()):
        if not isinstance(one.get("revid"), int) or not _INSTANT.fullmatch(str(one.get("timestamp"))):
            raise Fault(f"answered with a revision that cannot be read: {one!r:.80}")


def _check_content(answer: Json) -> None:
    if not isinstance(answer.get("query"), dict):
        raise Fault("answered without the revision that was asked for")
    _contents(answer)


def _contents(answer: Json) -> list[Mapping[str, object]]:
    """Return the texts of revisions that are JSON objects."""
    revisions = [one for page in answer["query"].get("pages", ()) for one in page.get("revisions", ())]
    return [_json(one.get("slots", {}).get("main", {}).get("content")) for one in revisions]


def _check_search(answer: Json) -> None:
    found = answer.get("search")
    if not isinstance(found, list) or not all(isinstance(one, dict) and "id" in one for one in found):
        raise Fault("answered without search results")


def _json(text: object) -> Mapping[str, object]:
    """Return the JSON object of a text; an empty one where it is none."""
    try:
        found = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}


def _said(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
