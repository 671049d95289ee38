"""Documents that a model may be shown: where they come from, how they are cut, how long they are."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, NamedTuple

from kg.errors import AlignError, DataError, SourceError
from kg.sources.wikipedia import Wikipedia

SUFFIXES: Final = (".jsonl", ".md", ".txt")

_SENTENCE: Final = re.compile(r"(?<=[.!?])[\"”’)\]]*\s+(?=[\"“‘(\[]?[A-Z0-9])")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_KEYS: Final = ("id", "title", "text", "source", "revision", "fact", "domain")


@dataclass(frozen=True, slots=True)
class Document:
    """A text with where it is from.

    Attributes:
        id: Names it among the others.
        title: What it is about.
        text: What a model is shown.
        source: A file, a snapshot, or the address of a page.
        revision: Of a page, where it has one.
        fact: The fact it was written or chosen for, "Q38/P35"; None where nobody says.
        domain: That fact's domain.
    """

    id: str
    title: str
    text: str
    source: str
    revision: int | None = None
    fact: str | None = None
    domain: str | None = None


# The user's own


def read_documents(path: Path) -> list[Document]:
    """Return the documents of a file or of a folder's files: ``.txt`` and ``.md`` hold one, ``.jsonl`` one a line.

    A line of JSON has "text", and as it likes "id", "title", "source", "revision", "fact" and "domain".

    Raises:
        DataError: there is no such file, it is of another kind, or it cannot be read; the message names file and line.
        AlignError: there is no document in it.
    """
    if not path.exists():
        raise DataError(f"There is no file or folder {path}.")
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [one for one in files if one == path or (one.suffix in SUFFIXES and one.is_file())]
    found = [document for file in files for document in _of_file(file, path)]
    if not found:
        hint = f"Files of these kinds are read: {', '.join(SUFFIXES)}."
        raise AlignError(f"There are no documents in {path}.", hint=hint)
    _check_ids(found, path)
    return found


def _of_file(file: Path, top: Path) -> Iterator[Document]:
    if file.suffix not in SUFFIXES:
        raise DataError(f"{file} is no document.", hint=f"These kinds are read: {', '.join(SUFFIXES)}.")
    name = file.name if file == top else file.relative_to(top).as_posix()
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no text in UTF-8: {error.reason} at byte {error.start}.") from error
    if file.suffix != ".jsonl":
        if text.strip():
            yield Document(name, file.stem, text.strip(), name)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _of_line(line, f"{name}:{number}", f"{file}, line {number}")


def _of_line(line: str, name: str, place: str) -> Document:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{place}: {error.msg}.", hint="Write one JSON object a line.") from error
    if not isinstance(values, dict) or not isinstance(values.get("text"), str) or not values["text"].strip():
        raise DataError(f"{place}: the document has no text.", hint='Write {"text": "…"}.')
    for key in set(values) - set(_KEYS):
        raise DataError(f"{place}: {key!r} is no key of a document.", hint=f"One of {', '.join(_KEYS)}.")
    wrong = [key for key in _KEYS if not isinstance(values.get(key), int if key == "revision" else str | None)]
    if wrong and not (wrong == ["revision"] and values.get("revision") is None):
        raise DataError(f"{place}: {wrong[0]!r} is {values[wrong[0]]!r}.")
    own = {"id": name, "title": "", "source": name.rpartition(":")[0]}
    return Document(**{**own, **{key: value for key, value in values.items() if value is not None}})


def _check_ids(found: Sequence[Document], path: Path) -> None:
    seen: set[str] = set()
    for document in found:
        if document.id in seen:
            raise DataError(f"{path}: two documents have the id {document.id!r}.")
        seen.add(document.id)


def of_texts(texts: Iterable[str], source: str = "given") -> list[Document]:
    """Return plain texts as documents, numbered from 1; empty ones are left out."""
    kept = [text.strip() for text in texts if text.strip()]
    return [Document(f"{source}:{number}", "", text, source) for number, text in enumerate(kept, 1)]


# Wikipedia


class Topic(NamedTuple):
    """A page to fetch: its title, and the fact and domain its passages are kept for."""

    title: str
    fact: str | None = None
    domain: str | None = None


def wikipedia_passages(
    wikipedia: Wikipedia,
    topics: Sequence[Topic],
    instant: str,
    absent: Callable[[str], None] = lambda _: None,
    shortest: int = 40,
) -> list[Document]:
    """Return the paragraphs of pages as they stood at an instant.

    Args:
        wikipedia: the client.
        topics: which pages; one that several facts are about is fetched once, and its passages are for no one fact.
        instant: "2023-12-18T23:59:59Z".
        absent: told a sentence for each page that was not there.
        shortest: letters a passage has at least; the rows of an information box are one passage.

    Raises:
        SourceError: Wikipedia cannot be reached, or answers wrongly to the end of our patience.
    """
    by_title: dict[str, list[Topic]] = {}
    for topic in topics:
        by_title.setdefault(topic.title, []).append(topic)
    found = []
    for title, own in by_title.items():
        try:
            page = wikipedia.page_on(title, instant)
        except SourceError as error:
            if error.kind != "absent":
                raise
            page = None
        if page is None:
            absent(f"Wikipedia had no page {title!r} on {instant[:10]}.")
            continue
        topic = own[0] if len(own) == 1 else own[0]._replace(fact=None)
        texts = [text for text in page.passages if len(text) >= shortest]
        found += [
            Document(f"{page.title}#{number}", page.title, text, page.address, page.revision, topic.fact, topic.domain)
            for number, text in enumerate(texts, 1)
        ]
    return found


# Cutting


def chunks(document: Document, size: int = 1000, overlap: int = 200) -> list[Document]:
    """Cut a document into pieces of at most ``size`` letters, which share up to ``overlap`` letters with the next.

    The study's rule (a recursive splitter of 1000 letters, overlap 200) with sentences kept whole: it is cut between
    paragraphs where that is enough, else between sentences, else between words, else within a word.
    """
    texts = cut(document.text, size, overlap)
    if len(texts) == 1:
        return [replace(document, text=texts[0])]
    return [replace(document, id=f"{document.id}~{number}", text=text) for number, text in enumerate(texts, 1)]


def cut(text: str, size: int, overlap: int) -> list[str]:
    """Cut a text as `chunks`.

    >>> cut("One is here. Two is here. Three is.", 26, 13)
    ['One is here. Two is here.', 'Two is here. Three is.']

    Raises:
        AlignError: the overlap is not less than the size.
    """
    if not 0 <= overlap < size:
        raise AlignError(f"Pieces of {size} letters cannot share {overlap}.", hint="Take less overlap than size.")
    pieces = [piece for paragraph in _PARAGRAPH.split(text.strip()) for piece in _pieces(paragraph, size)]
    found: list[str] = []
    kept: list[str] = []
    for piece in pieces:
        if kept and _length([*kept, piece]) > size:
            found.append(" ".join(kept))
            while kept and (_length(kept) > overlap or _length([*kept, piece]) > size):
                kept.pop(0)
        kept.append(piece)
    return [*found, " ".join(kept)] if kept else found


def _length(pieces: Sequence[str]) -> int:
    return sum(map(len, pieces)) + len(pieces) - 1


def _pieces(paragraph: str, size: int) -> Iterator[str]:
    """Yield the sentences of a paragraph, those that are too long in words, those in letters."""
    for sentence in _SENTENCE.split(" ".join(paragraph.split())):
        if len(sentence) <= size:
            yield sentence
            continue
        for word in sentence.split(" "):
            yield from (word[start : start + size] for start in range(0, len(word), size))


# Length


class Lengths(NamedTuple):
    """How long documents are, in tokens: the study's Figure 4."""

    documents: int
    least: int
    lower: float  # first quartile
    median: float
    upper: float  # third quartile
    most: int


def lengths(documents: Sequence[Document], tokens: Callable[[str], int]) -> Lengths:
    """Return the distribution of the documents' lengths; quartiles with both ends counted.

    Args:
        documents: at least one.
        tokens: counts the tokens of a text: ``lambda text: len(tokenizer(text, add_special_tokens=False).input_ids)``.

    Raises:
        AlignError: there is no document.
    """
    counts = sorted(tokens(document.text) for document in documents)
    if not counts:
        raise AlignError("There are no documents to measure.")
    if len(counts) == 1:
        return Lengths(1, counts[0], counts[0], counts[0], counts[0], counts[0])
    lower, median, upper = quantiles(counts, n=4, method="inclusive")
    return Lengths(len(counts), counts[0], lower, median, upper, counts[-1])


def as_json(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """Yield documents as `read_documents` reads them from a ``.jsonl`` file."""
    for one in documents:
        yield {key: value for key in _KEYS if (value := getattr(one, key)) is not None}
