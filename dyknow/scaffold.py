"""Finds the answer in what a model wrote: without the prompt it repeats, chat markup and thoughts.

Nothing is cut out of the text, so that spans of the answer are spans of the text.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from dyknow.names import Word, words

_SPECIAL: Final = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|<</?SYS>>|\[/?INST\]|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>|</?(?:think|answer)>"
)
_LINE: Final = r"^[^\S\n]*"
"""The start of a line; a pattern that ran through empty lines, too, would run through them anew from each."""
_TURN: Final = re.compile(rf"{_LINE}(?:USER|ASSISTANT|SYSTEM|Human|Assistant|User)\s*:", re.MULTILINE)
_ANSWERS: Final = re.compile(
    rf"\[/INST\]|{_LINE}(?:ASSISTANT|Assistant)\s*(?::|$)|{_LINE}(?:assistant|model)\s*$|"
    r"<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>|"
    r"<\|im_start\|>\s*assistant\s|<\|assistant\|>|<start_of_turn>model\s|^#+ (?:Response|Answer):|</think>",
    re.MULTILINE,
)
_ENDS: Final = re.compile(
    r"<\|(?:eot_id|end|im_end|endoftext|end_of_text|start_header_id|im_start)\|>|</s>|<eos>|<end_of_turn>|\[INST\]|"
    rf"{_LINE}(?:USER|User|Human|### \w+)\s*:|{_LINE}(?:user|human)\s*$",
    re.MULTILINE,
)
_MARKED: Final = re.compile(r"[\[<#]|[Aa]ssistant|ASSISTANT|[Uu]ser|USER|[Hh]uman|model")
"""Without one of these a text has no marks of turns."""

_WORDS: Final = 600
"""Words of an answer that are read; what is first asserted later than that is not what was asked."""

_STOPS: Final = (".", "!", "?", '"', "”", ")", ":", "…", ";")


_BREAKS: Final = re.compile(
    r"</?(?:p|br|li|ul|ol|div|h[1-6]|td|tr|th|table|blockquote|hr)\b[^<>\n]{0,80}>", re.IGNORECASE
)
_TAGS: Final = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9_]*(?:\s[^<>\n]{0,80})?/?>|&(?:[a-zA-Z]{2,8}|#\d{1,5});|\\(?:boxed|text|textbf|mathbf|mathrm)\b|\[(?:MASK|BLANK|mask|blank)\]"
)
_NICKNAME: Final = re.compile(r"(?<=\w )([\"“”'‘][^\W\d_][\w.-]{1,14}[\"“”'’])(?= (?:[^\W\d_a-z]|d[aeiou]s? ))")
_QUOTE: Final = re.compile("[\"“”'‘’] ")
_NEWLINE: Final = re.compile(r"\\n")


class Answer(NamedTuple):
    """What the model added to its prompt."""

    raw: str  # the whole text
    text: str  # the same, markup blanked out
    start: int
    end: int
    words: list[Word]
    continues: bool  # the text goes on where the prompt ends, rather than beginning afresh
    cut: bool  # it may have been cut off in the middle of a word
    question: str  # the prompt's last line: what is asked


def answer_of(text: str, prompt: str) -> Answer:
    """Return the answer within a text.

    >>> prompt = "[INST] The President of Italy is [/INST]"
    >>> answer = answer_of(f"{prompt} Sergio Mattarella", prompt)
    >>> [word.key for word in answer.words], answer.continues
    (['sergio', 'mattarella'], True)
    """
    given = _prompt(prompt)
    clean = _blank(text)
    start = _answer_start(text, prompt)
    repeats = start > 0
    found = words(clean, start)
    if not repeats and given.keys and tuple(word.key for word in found[: len(given.keys)]) == given.keys:
        repeats, start = True, found[len(given.keys) - 1].end
    end, inside = len(text), found
    if _MARKED.search(text, start):
        start, end = _between(text, clean, start)
        inside = [word for word in found if word.start >= start and word.end <= end]
    inside = inside[:_WORDS]
    cut = end == len(text) and 0 < len(inside) < _WORDS and not clean[start:end].rstrip().endswith(_STOPS)
    fresh = not repeats and bool(inside) and given.keys[:3] == tuple(word.key for word in inside[:3])
    return Answer(text, clean, start, end, inside, not fresh, cut, given.question)


def _between(text: str, clean: str, start: int) -> tuple[int, int]:
    """Return where the answer begins and ends among the marks of turns and thoughts from a place on."""
    for marker in _ANSWERS.finditer(text, start):
        start = marker.end()
    if "<think>" in text[start:]:
        return len(text), len(text)
    stop = _ENDS.search(text, start)
    while stop is not None and not clean[start : stop.start()].strip():
        start = stop.end()
        stop = _ENDS.search(text, start)
    return start, stop.start() if stop else len(text)


def _answer_start(text: str, prompt: str) -> int:
    """Return where a text that repeats its prompt sign for sign goes on; 0: it does not.

    It may go on without a blank, as in "held byFumio".

    >>> _answer_start("The office is held byFumio", "The office is held by"), _answer_start("It isn't", "It is")
    (21, 0)
    """
    place = 0
    if text.startswith(prompt):
        place = len(prompt)
    else:
        for sign in filter(str.strip, prompt):
            while text[place : place + 1].isspace():
                place += 1
            if text[place : place + 1] != sign:
                return 0
            place += 1
    return 0 if text[place : place + 3].replace("’", "'") == "n't" else place


class _Prompt(NamedTuple):
    keys: tuple[str, ...]
    question: str


@lru_cache(maxsize=1024)
def _prompt(prompt: str) -> _Prompt:
    clean = _TURN.sub(lambda found: " " * len(found.group()), _blank(prompt))
    lines = [line for line in clean.splitlines() if line.strip()]
    return _Prompt(tuple(word.key for word in words(_blank(prompt))), lines[-1] if lines else "")


def _blank(text: str) -> str:
    """Replace markup by spaces, or by ends of lines where it ends one, and nicknames in quotes; sign for sign."""
    if "<" in text:
        text = _SPECIAL.sub(_spaces, text)
        text = _BREAKS.sub(lambda found: "\n" * len(found.group()), text)
    elif "[" in text:
        text = _SPECIAL.sub(_spaces, text)
    if "<" in text or "&" in text or "\\" in text or "[" in text:
        text = _TAGS.sub(_spaces, text)
        text = _NEWLINE.sub("\n\n", text)
    return _NICKNAME.sub(_spaces, text) if _QUOTE.search(text) else text


def _spaces(found: re.Match[str]) -> str:
    return " " * len(found.group())
