"""Tells from the words around a name that its bearer is said to hold the office no more, and who is said to follow."""

import re
from enum import StrEnum
from typing import Final

from dyknow.clauses import Clauses
from dyknow.names import Word, word_list

_STOP: Final = re.compile(r"[.!?\n;|•]")
_YEARS: Final = r"\d{4}\s*[-–—]\s*\d{4}"
_ENDED: Final = re.compile(rf"(?:former|ex|previous|past|until|{_YEARS}(?:\s*[,;&]\s*{_YEARS})*$)", re.IGNORECASE)
_BEFORE: Final = re.compile(r"(\d{4}\s*+[-–—]\s*+(?:\d{4}|present|now|today|current)?)\s*+:?\s*+$", re.IGNORECASE)
"""The years of a term, written before a name in a list; spaces are given back to none of the others that want them."""
_DATED: Final = re.compile(r"\d{4}\s*[-–]")
_GOES_ON: Final = re.compile(r"\b(?:present|current|currently|since|incumbent|now)\b|\d{4}\s*[-–—]\s*$", re.IGNORECASE)
_REACH: Final = 24
"""Words after a name within which its sentence may still say that its bearer has gone."""

_ELECTED: Final = word_list("elected")
_NOW: Final = word_list("till_now")
_WAS: Final = word_list("was")
_IS: Final = frozenset(("is", "was", "are", "were"))
_NOT: Final = frozenset(("not", "never"))
_PAST: Final = word_list("past_words")
_GAVE_WAY: Final = word_list("gave_way")
_LEFT: Final = word_list("left")
_TAKES: Final = word_list("takes")
_PRESENT: Final = word_list("present")
_MOVES: Final = word_list("moves")
_WENT: Final = _MOVES | word_list("joins")


_PLAYED: Final = frozenset(("played", "drove", "raced"))
_FOUNDERS: Final = frozenset(("founder", "cofounder"))
_OTHERS: Final = frozenset(("no", "t", "until"))
_TELLING: Final = _FOUNDERS | _PLAYED | _PAST | _NOT | _GAVE_WAY | _LEFT | _OTHERS
"""Without one of these words a text says of nobody that he has gone."""


def _after_is(keys: list[str]) -> int:
    """Return where the words after the last "is" begin: "A, formerly B, is X"."""
    return next((at for at in range(len(keys), 0, -1) if keys[at - 1] == "is"), 0)


class Gone(StrEnum):
    """What a text says of a name it gives as an answer."""

    NEGATED = "negated"  # X is not the president
    FORMER = "former"  # X is no longer the president; X was succeeded by Y
    PERHAPS = "perhaps"  # X resigned: only where the text goes on to name a successor


class Handover:
    """What an answer's sentences say of who goes and who comes."""

    def __init__(self, clauses: Clauses) -> None:
        self._clauses = clauses
        self._words = clauses.words
        self._gaps = clauses.gaps
        said = clauses.answer.text[clauses.answer.start : clauses.answer.end]
        self._dated = _DATED.search(said) is not None if "-" in said or "–" in said else False
        self._told = self._dated or "(" in said or not _TELLING.isdisjoint(clauses.keys)

    def gone(self, first: int, last: int, least: int = 0) -> Gone | None:
        """Tell whether the holder named by words ``first`` to ``last`` is said to hold the office no more.

        Words before ``least`` are about another name.
        """
        if not self._told:
            return None
        before = [word.key for word in self._lead(first, least)]
        lead = set(before)
        if set(before[_after_is(before) :]) & {"previously", "formerly"} or self._past_player(before, last):
            return Gone.FORMER
        rest = self._rest(last)
        keys = [word.key for word in rest]
        if keys[:1] and keys[0] in _IS and (found := self._predicate(keys[1:])) is not None:
            return found
        if self._gave_way(keys) or self._until(keys, lead):
            return Gone.FORMER
        return Gone.PERHAPS if self._perhaps(first, last, before, keys) else None

    def _perhaps(self, first: int, last: int, before: list[str], keys: list[str]) -> bool:
        """Tell whether a holder is said to have gone, or to be somebody else, if another one is named as well."""
        if keys[:1] == ["until"] or (keys[:1] == ["is"] and not _FOUNDERS.isdisjoint(keys[1:5])):
            return True
        if not _LEFT.isdisjoint(keys[:3]) or self._played(before, keys):
            return True
        return _ENDED.match(self._term(first, last)) is not None

    def _past_player(self, before: list[str], last: int) -> bool:
        """Tell whether a club's name only says whose player someone was: "a former Barcelona player"."""
        after = self._words[last].key if last < len(self._words) else ""
        return before[-1:] != [] and before[-1] in _PAST and after in word_list("members")

    def _predicate(self, keys: list[str]) -> Gone | None:
        """Read what follows "X is": "not the president", "no longer in office", "a former president"."""
        if keys[:2] == ["no", "longer"]:
            return Gone.FORMER
        if keys[:1] and (keys[0] in _NOT or keys[0] == "t") and self._asked(keys[1:6]) and "only" not in keys[1:2]:
            return Gone.NEGATED
        article = keys[:1] and keys[0] in word_list("determiners")
        past = keys[1:2] if article else keys[:1]
        return Gone.FORMER if past and past[0] in _PAST and self._asked(keys[:6]) else None

    def _asked(self, keys: list[str]) -> bool:
        """Tell whether words name the office that was asked for, and no other one."""
        if any(
            key in word_list("other_offices") and key not in _PAST and key not in self._clauses.question for key in keys
        ):
            return False
        return any(
            key in self._clauses.asked or (key in self._clauses.question and key in word_list("roles")) for key in keys
        )

    def _gave_way(self, keys: list[str]) -> bool:
        """Tell whether a sentence says "was succeeded by"; "who succeeded Y" says nothing of the kind."""
        return any(key in _GAVE_WAY and keys[at + 1 : at + 2] == ["by"] for at, key in enumerate(keys))

    def _until(self, keys: list[str], lead: set[str]) -> bool:
        """Tell whether a sentence says "was the president until 2021"."""
        if "until" not in keys or not (keys[0] in _WAS or lead & {"was", "were"}):
            return False
        at = keys.index("until")
        return not (_ELECTED & set(keys[:at]) or set(keys[at + 1 : at + 3]) & _NOW)

    def follows(self, first: int, last: int, gone: int) -> bool:
        """Tell whether a name is said to be that of the successor of the name that ends before word ``gone``."""
        lead = [word.key for word in self._lead(first, gone)]
        while lead and (lead[-1] in word_list("determiners") or lead[-1] in word_list("titles")):
            lead.pop()
        if lead[-1:] == ["by"] and any(key in _GAVE_WAY or key == "over" for key in lead[:-1]):
            return True
        keys = [word.key for word in self._rest(last)][:3]
        joined = "when" in lead or "and" in lead or self._starts(first, gone)
        if joined and keys[:1] and keys[0] in _TAKES:
            return True
        if lead[-1:] == ["to"] and not {"lost", "handed"}.isdisjoint(lead):
            return True
        if lead and (lead[-1] in word_list("joins") or (lead[-1] == "to" and not _MOVES.isdisjoint(lead))):
            return True
        return bool(set(lead) & _PRESENT) or keys[:1] == ["since"] or bool(_GOES_ON.search(self._term(first, last)))

    def _played(self, before: list[str], rest: list[str]) -> bool:
        """Tell whether a player only once played there and the sentence goes on to say where he went."""
        past = not _PLAYED.isdisjoint(before) and _PRESENT.union(("has", "have")).isdisjoint(before)
        return past and not _WENT.isdisjoint(rest)

    def _term(self, first: int, last: int) -> str:
        """Return what stands in brackets directly after a name, or its years before or after it."""
        text = self._clauses.answer.text
        if self._dated and first:
            before = _BEFORE.search(text, self._words[max(0, first - 2)].start, self._words[first].start)
            if before is not None:
                return before[1]
        if last >= len(self._words):
            return ""
        if self._gaps[last].lstrip().startswith("("):
            end = text.find(")", self._words[last].start)
            return text[self._words[last].start : end if end >= 0 else len(text)]
        if not (self._dated and self._words[last].key.isdigit()):
            return ""
        return text[self._words[last].start : self._words[min(last + 2, len(self._words)) - 1].end]

    def _starts(self, first: int, gone: int) -> bool:
        return first > gone and (self._stop(first) or bool(_STOP.search(self._gaps[first])) or "," in self._gaps[first])

    def _lead(self, first: int, least: int = 0) -> list[Word]:
        """Return the words of a name's sentence before it, from word ``least`` on."""
        start = first
        while start > least and not self._stop(start):
            start -= 1
        return self._words[start:first]

    def _rest(self, last: int) -> list[Word]:
        """Return the words of its sentence after it, without what stands in brackets."""
        found: list[Word] = []
        inside = False
        for at in range(last, min(len(self._words), last + _REACH)):
            if self._stop(at):
                break
            inside = (inside or "(" in self._gaps[at]) and ")" not in self._gaps[at].rpartition("(")[2]
            if not inside:
                found.append(self._words[at])
        return found

    def _stop(self, at: int) -> bool:
        """Tell whether a sentence ends before a word."""
        return at == 0 or (self._clauses.hard(at) and bool(_STOP.search(self._gaps[at])))
