"""Phrasings filled with a subject and an office: the text a model is asked, and where both stand in it."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from dyknow.tomlfile import did_you_mean

PREFIX: Final = "Answer with the name only. "
"""Put before a question where a model should be kept from chatting."""

PLACEHOLDERS: Final = ("subject", "office")

_PIECE = re.compile(r"\{([^{}]*)\}")


class Span(NamedTuple):
    """Characters of a text, from ``start`` up to but not including ``end``."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the words inside the span.

        >>> Span(4, 9).of("The Italy")
        'Italy'
        """
        return text[self.start : self.end]


class Prompt(NamedTuple):
    """A text and the spans of subject and office in it."""

    text: str
    subject: Span
    office: Span | None


class TemplateError(ValueError):
    """A phrasing that cannot be filled; the message says why, ``hint`` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def check(template: str) -> None:
    """Check that a phrasing has known placeholders and no stray brace.

    Raises:
        TemplateError: what is wrong, with a hint.
    """
    names = _PIECE.findall(template)
    for name in names:
        if name not in PLACEHOLDERS:
            raise TemplateError(f"{{{name}}} is no placeholder", did_you_mean(name, PLACEHOLDERS))
        if names.count(name) > 1:
            raise TemplateError(f"{{{name}}} stands there twice", "Once is enough.")
    if not names:
        raise TemplateError("neither {subject} nor {office} stands in it", "Say where the subject goes.")
    if re.search(r"[{}]", _PIECE.sub("", template)):
        raise TemplateError("a brace has no partner", "Braces are for {subject} and {office} alone.")


def fill(template: str, mention: str, office: str | None, *, prefix: bool = False) -> Prompt:
    """Return a phrasing filled with a subject's mention and an office.

    Where the phrasing names the office alone, the subject is the mention inside the office.

    >>> prompt = fill("The current {office} is", "Italy", "President of Italy")
    >>> prompt.text, prompt.subject.of(prompt.text)
    ('The current President of Italy is', 'Italy')

    Raises:
        TemplateError: the phrasing asks for an office and there is none, or the subject is nowhere in the text.
    """
    values = {"subject": mention, "office": office}
    spans: dict[str, Span] = {}
    text = PREFIX if prefix else ""
    # Pieces alternate: text, placeholder, text. Plain joining, so that a brace in a name means nothing.
    for index, piece in enumerate(_PIECE.split(template)):
        value = values[piece] if index % 2 else piece
        if value is None:
            raise TemplateError(f"{{{piece}}} is asked for", f'Add {piece} = "…" to the fact.')
        if index % 2:
            spans[piece] = Span(len(text), len(text) + len(value))
        text += value
    subject = spans.get("subject") or _inside(text, spans["office"], mention)
    return Prompt(text, subject, spans.get("office"))


def _inside(text: str, office: Span, mention: str) -> Span:
    """Return where the mention stands in the office, as whole words; the last such place is the country's."""
    places = list(re.finditer(rf"(?<!\w){re.escape(mention)}(?!\w)", office.of(text)))
    if not places:
        raise TemplateError(
            f"{mention!r} stands nowhere in {office.of(text)!r}",
            'Say which words of the office name the subject: mention = "…".',
        )
    return Span(office.start + places[-1].start(), office.start + places[-1].end())


def digest(texts: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 of (question id, text) pairs, whatever their order."""
    canonical = json.dumps(sorted(texts), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
