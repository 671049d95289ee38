"""Plain paragraphs out of a file of Wikipedia pages, for second moments over general text.

``python -m benchmarks.wikitext pages-articles.xml.bz2 texts.jsonl`` keeps the first twelve paragraphs of an article
that have more than 200 signs. Any part of a dump (dumps.wikimedia.org) will do; docs/findings.md has its figures from
the 107 articles that the package gensim 4.3.3 carries for its tests,
``enwiki-latest-pages-articles1.xml-…-shortened.bz2``.
"""

import bz2
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PARAGRAPHS: Final = 12
SHORTEST: Final = 200  # signs
_DEEPEST: Final = 6  # templates within templates
_GONE: Final = (
    r"<ref[^>]*/>|<ref.*?</ref>|<!--.*?-->",
    r"\[\[(?:File|Image|Category|[a-z-]{2,12}):(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]",
)
_KEPT: Final = (r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\[http\S+ ?([^\]]*)\]")


def articles(path: Path) -> Iterator[str]:
    """Yield the wikitext of each page that redirects nowhere."""
    with bz2.open(path) as file:
        for _, element in ET.iterparse(file):
            if element.tag.endswith("}text") and element.text and not element.text.startswith("#REDIRECT"):
                yield element.text
            if element.tag.endswith("}page"):
                element.clear()


def paragraphs(wikitext: str) -> list[str]:
    """Return an article's first paragraphs without markup, templates, tables, notes and lists."""
    text = wikitext
    for _ in range(_DEEPEST):
        text = re.sub(r"\{\{[^{}]*\}\}|\{\|[^{}]*?\|\}", "", text, flags=re.DOTALL)
    for pattern in _GONE:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    for pattern in _KEPT:
        text = re.sub(pattern, r"\1", text)
    text = re.sub(r"'{2,}|<[^>]+>", "", text)
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if len(line) > SHORTEST and line[0] not in "*#|!={;:"][:PARAGRAPHS]


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    found = (paragraph for article in articles(source) for paragraph in paragraphs(article))
    with target.open("w", encoding="utf-8") as out:
        for number, paragraph in enumerate(found, 1):
            out.write(json.dumps({"id": f"{number}", "text": paragraph}, ensure_ascii=False) + "\n")
