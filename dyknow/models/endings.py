"""Where an answer ends, and which part of it is said and not only thought."""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

THOUGHT: Final = ("<think>", "</think>")
"""What reasoning models write around their thoughts."""


class Finished(NamedTuple):
    """The answer in a row of new tokens."""

    text: str
    reason: str  # "stop" or "length"
    tokens: int  # the one that ended it included
    raw: str | None = None  # with the thoughts, where there are any


class Endings:
    """Finds the end of an answer while it is written, and cuts it there.

    Args:
        tokenizer: The model's.
        ends: Tokens that end a text or a turn.
        stop: Texts that end an answer, once it has begun: a newline before it is no end.
        thinking: Whether prompts end inside a thought already, as some chat templates have it.
    """

    def __init__(self, tokenizer: Any, ends: Collection[int], stop: Sequence[str], thinking: bool = False) -> None:  # noqa: ANN401
        self._tokenizer = tokenizer
        self._ends = frozenset(ends)
        self._stop = tuple(stop)
        self._thinking = thinking
        marks = {token for token in map(tokenizer.convert_tokens_to_ids, THOUGHT) if token is not None}
        # Where the marks of a thought are special tokens, leaving those out would leave the thought as the answer.
        self._hidden = frozenset(tokenizer.all_special_ids) - (marks - {tokenizer.unk_token_id})
        self._may_end: dict[int, bool] = {}

    def ended(self, row: Sequence[int]) -> bool:
        """Say whether the last token of a row has just brought one of the texts that end an answer."""
        return bool(self._stop) and self._is_candidate(row[-1]) and self._cut(self.decode(row)) is not None

    def finish(self, row: Sequence[int]) -> Finished:
        """Cut a row of new tokens where its answer ends; what follows is padding."""
        for index, token in enumerate(row):
            if token in self._ends:
                return self._said(self.decode(row[:index]), "stop", index + 1)
            if self.ended(row[: index + 1]):
                text = self.decode(row[: index + 1])
                return self._said(text[: self._cut(text)], "stop", index + 1)
        return self._said(self.decode(row), "length", len(row))

    def decode(self, row: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        kept = [token for token in row if token not in self._hidden]
        return str(self._tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _is_candidate(self, token: int) -> bool:
        if token not in self._may_end:
            piece = self.decode([token])
            # A token may hold a part of a letter only, which decodes to the replacement character.
            self._may_end[token] = any(text[-1] in piece for text in self._stop) or "\ufffd" in piece
        return self._may_end[token]

    def _cut(self, text: str) -> int | None:
        """Return where the first text that ends an answer begins, after the thought and after leading blanks."""
        begin = self._begin(text)
        if begin is None:
            return None
        begin = len(text) - len(text[begin:].lstrip())
        places = [text.find(stop, begin) for stop in self._stop]
        return min((place for place in places if place >= 0), default=None)

    def _begin(self, text: str) -> int | None:
        """Return where the answer begins: behind the thought; None inside of it."""
        opening, closing = THOUGHT
        if not (self._thinking or text.lstrip().startswith(opening)):
            return 0
        place = text.find(closing)
        return None if place < 0 else place + len(closing)

    def _said(self, text: str, reason: str, tokens: int) -> Finished:
        begin = self._begin(text)
        raw = None if begin == 0 else text
        said = "" if begin is None else text[begin:]
        return Finished(said.strip(), reason, tokens, raw)
