"""A loopback server that behaves as Wikipedia does: revisions of pages, and the HTML of each; with the faults of
`tests.wikidata_server`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tests.wikidata_server import Document, FakeWikidata, Fault, Reply


class Revision(NamedTuple):
    """A revision of a page."""

    number: int
    timestamp: str
    html: str


class FakeWikipedia(FakeWikidata):
    """Wikipedia on this machine; a context manager.

    Args:
        pages: revisions by title, oldest first.
        redirects: titles that lead to others.
        hidden: revisions whose text has been hidden.
        faults: what goes wrong.
    """

    def __init__(
        self,
        pages: Mapping[str, Sequence[tuple[int, str, str]]],
        *,
        redirects: Mapping[str, str] | None = None,
        hidden: Collection[int] = (),
        faults: Iterable[Fault] = (),
    ) -> None:
        super().__init__({}, faults=faults)
        self.pages = {title: [Revision(*one) for one in revisions] for title, revisions in pages.items()}
        self.leads = dict(redirects or {})
        self.hidden_text = set(hidden)

    def _api(self, params: Mapping[str, str]) -> Reply:
        if params.get("format") != "json" or params.get("formatversion") != "2":
            return Reply(b"<!DOCTYPE html><html>MediaWiki API result</html>", "text/html; charset=utf-8")
        answer = self._parse(params) if params.get("action") == "parse" else self._listing(params)
        return Reply(orjson.dumps(answer))

    def _listing(self, params: Mapping[str, str]) -> Document:
        title, query = params["titles"].replace("_", " "), {}
        title = title[0].upper() + title[1:]
        if title in self.leads and params.get("redirects"):
            query["redirects"] = [{"from": title, "to": self.leads[title]}]
            title = self.leads[title]
        page: dict[str, Any] = {"ns": 0, "title": title}
        if title not in self.pages:
            return {"batchcomplete": True, "query": {**query, "pages": [{**page, "missing": True}]}}
        stood = [one for one in self.pages[title] if one.timestamp <= params["rvstart"]][::-1]
        if stood:
            page["revisions"] = [
                {
                    "revid": one.number,
                    "timestamp": one.timestamp,
                    **({"sha1hidden": True} if one.number in self.hidden_text else {"sha1": f"{one.number:040x}"}),
                }
                for one in stood[: int(params["rvlimit"])]
            ]
        return {"batchcomplete": True, "query": {**query, "pages": [{**page, "pageid": 7}]}}

    def _parse(self, params: Mapping[str, str]) -> Document:
        for title, revisions in self.pages.items():
            for one in revisions:
                if str(one.number) == params["oldid"] and one.number not in self.hidden_text:
                    return {"parse": {"title": title, "pageid": 7, "revid": one.number, "text": one.html}}
        info = f"There is no revision with ID {params['oldid']}."
        return {"error": {"code": "nosuchrevid", "info": info}, "servedby": "mw1"}
