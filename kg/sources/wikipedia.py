"""Pages of Wikipedia as they stood on a day, as plain passages.

Sources: mediawiki.org/wiki/API:Revisions (``rvstart`` gives the revision that stood at an instant) and
mediawiki.org/wiki/API:Parsing_wikitext (``action=parse&oldid=`` gives its HTML). A
template within a page is rendered as it is today: Wikipedia keeps no other.
Texts are under CC BY-SA 4.0; a passage therefore keeps the address of its revision.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from html.parser import HTMLParser
from typing import Final, NamedTuple
from urllib.parse import quote

from kg.errors import UsageError
from kg.sources.bodies import Check, Fault, Json, api_fault
from kg.sources.web import Web

SITE: Final = "https://en.wikipedia.org"

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FORBIDDEN: Final = re.compile(r"[\[\]{}|<>#\n]")
_SETTLED_S: Final = 60  # what is younger may not have reached every copy yet


class Page(NamedTuple):
    """A revision of a page."""

    title: str
    revision: int
    timestamp: str  # "2019-06-30T12:00:00Z"
    address: str
    passages: tuple[str, ...]  # its paragraphs in order; the rows of an information box are one


class Standing(NamedTuple):
    """The revision of a page that stood at an instant."""

    title: str
    revision: int
    timestamp: str


class Wikipedia:
    """Wikipedia's own interface.

    Every method raises `SourceError` where it cannot be reached, answers wrongly to the end of our patience, or
    (``Web.offline``) the answer is not stored, and `UsageError` for a title or an instant that is none.
    """

    def __init__(self, web: Web, site: str = SITE) -> None:
        self.web = web
        self.site = site.rstrip("/")

    def page_on(self, title: str, instant: str, scope: str = "") -> Page | None:
        """Return a page as it stood at an instant ("2019-06-30T23:59:59Z"); None where there was none yet.

        A redirect that the title is today is followed.
        """
        standing = self.revision_at(title, instant, scope)
        return None if standing is None else self.page(standing)

    def revision_at(self, title: str, instant: str, scope: str = "") -> Standing | None:
        """Return the last revision not after an instant; None where there was none yet, or no such page."""
        if not title.strip() or _FORBIDDEN.search(title):
            raise UsageError(f"{title!r} is no title of a page.")
        if not _INSTANT.fullmatch(instant):
            raise UsageError(f"{instant!r} is no instant.", hint="Write it as 2019-06-30T23:59:59Z.")
        # More than one, because the text of the last one may be hidden.
        asked = {"action": "query", "prop": "revisions", "titles": title, "redirects": "1"}
        wanted = {"rvprop": "ids|timestamp|sha1", "rvdir": "older", "rvstart": instant, "rvlimit": "10"}
        past = datetime.fromisoformat(instant).timestamp() < self.web.now() - _SETTLED_S
        answer = self._api({**asked, **wanted}, scope if scope or past else None, _check_page)
        page = answer["query"]["pages"][0]
        shown = [one for one in page.get("revisions", ()) if "sha1hidden" not in one]
        return Standing(page["title"], shown[0]["revid"], shown[0]["timestamp"]) if shown else None

    def page(self, standing: Standing) -> Page:
        """Return exactly this revision, which never changes but for its templates.

        Raises:
            SourceError: of the kind "absent", where there is no such revision.
        """
        asked = {"action": "parse", "oldid": str(standing.revision), "prop": "text|revid", "disabletoc": "1"}

        def check(answer: Json) -> None:
            _check_parse(answer, standing.revision)

        answer = self._api({**asked, "disableeditsection": "1", "disablelimitreport": "1"}, "", check)
        address = f"{self.site}/w/index.php?title={quote(standing.title.replace(' ', '_'))}&oldid={standing.revision}"
        return Page(*standing, address, passages(answer["parse"]["text"]))

    def _api(self, params: Mapping[str, str], scope: str | None, check: Check) -> Json:
        def checked(answer: Json) -> None:
            if isinstance(answer, dict) and (answer.get("error") or {}).get("code") in ("nosuchrevid", "missingtitle"):
                raise Fault("has no such revision", kind="absent", retry=False)
            api_fault(answer)
            check(answer)

        shape = {"format": "json", "formatversion": "2"}
        manners = {"maxlag": str(self.web.manners.maxlag)}
        return self.web.get_json(f"{self.site}/w/api.php", {**params, **shape}, scope, check=checked, manners=manners)


def _check_page(answer: Json) -> None:
    query = answer.get("query")
    pages = query.get("pages") if isinstance(query, dict) else None
    if not isinstance(pages, list) or len(pages) != 1 or not isinstance(pages[0], dict):
        raise Fault("answered without the page that was asked for")
    if pages[0].get("invalid"):
        raise Fault(f"calls the title {pages[0].get('title')!r} invalid", kind="absent", retry=False)
    for one in pages[0].get("revisions", ()):
        if not isinstance(one.get("revid"), int) or not _INSTANT.fullmatch(str(one.get("timestamp"))):
            raise Fault(f"answered with a revision that cannot be read: {one!r:.80}")


def _check_parse(answer: Json, revision: int) -> None:
    found = answer.get("parse")
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise Fault("answered without the text of the page")
    if found.get("revid") not in (None, revision):
        raise Fault(f"answered with revision {found['revid']} instead of {revision}")


# HTML

_VOID: Final = frozenset(("area", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
_DROPPED: Final = frozenset(("style", "script", "math", "noscript", "figure", "audio", "video"))
_DROPPED_CLASSES: Final = frozenset(
    "reference references reflist mw-editsection navbox hatnote metadata noprint toc sidebar".split()  # noqa: SIM905
)
_BLOCKS: Final = frozenset(("p", "li", "dd", "blockquote"))


def passages(html: str) -> tuple[str, ...]:
    """Return the paragraphs and list items of a page's HTML, and the rows of each information box as one passage.

    >>> passages('<p>Italy is a <b>country</b>.<sup class="reference">[1]</sup></p><table><tr><td>9</td></tr></table>')
    ('Italy is a country.',)
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.end_passage()
    return tuple(reader.found)


class _Reader(HTMLParser):
    """Collects text by passage; what stands inside a dropped element is passed over."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._text: list[str] = []
        self._open: list[tuple[str, str]] = []  # element, and what it does: "drop", "box", "table", "block" or ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            if tag == "br":
                self._text.append(" ")
            return
        self._open.append((tag, self._role(tag, set((dict(attrs).get("class") or "").split()))))
        if self._open[-1][1] in ("block", "box") and not self._within("box", but_last=True):
            self.end_passage()
        elif tag in ("th", "td", "li", "div") and self._within("box"):
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID or all(name != tag for name, _ in self._open):
            return
        while self._open:
            name, role = self._open.pop()
            if role in ("block", "box") and not self._within("box"):
                self.end_passage()
            if name == "th" and self._within("box"):
                self._text.append(": ")
            if name == "tr" and self._within("box"):
                self._text.append("; ")
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        roles = {role for _, role in self._open}
        if "drop" in roles or not roles & {"block", "box"} or ("table" in roles and "box" not in roles):
            return
        self._text.append(data)

    def end_passage(self) -> None:
        """Close the passage that is being read."""
        text = " ".join("".join(self._text).split())
        text = re.sub(r"\s+([,.;:)])", r"\1", re.sub(r"(?:[;:]\s*)+;", ";", text)).strip("; ")
        if text:
            self.found.append(text)
        self._text.clear()

    def _role(self, tag: str, classes: set[str]) -> str:
        if tag in _DROPPED or classes & _DROPPED_CLASSES:
            return "drop"
        if tag == "table":
            return "box" if "infobox" in classes else "table"
        return "block" if tag in _BLOCKS else ""

    def _within(self, role: str, *, but_last: bool = False) -> bool:
        return any(own == role for _, own in (self._open[:-1] if but_last else self._open))
