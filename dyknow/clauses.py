"""Tells where in a sentence a name stands: where the answer stands, or only in passing."""

import re
from enum import Enum, auto
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from dyknow.names import Word, word_lines, word_list
from dyknow.scaffold import Answer

_HARD: Final = re.compile(r"[.!?:;\n|•*]|\s[-–—]\s|[–—]")
_APART: Final = re.compile(r"[()\[\]{}<>=/\"“”«»#]")
"""Between two words that are no one name."""
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv"))

NEUTRAL: Final = word_list("titles") | word_list("roles") | word_list("plain") | word_list("demonyms")
"""Words that may stand around a name and name nobody."""

_POSTS: Final = word_list("roles") | word_list("posts")
"""What a name's bearer may be said to be before it: "former London mayor X"."""

_ONCE: Final = frozenset(("formerly", "previously", "known"))
"""Of what was asked about, these tell another name: "Cencora, formerly known as AmerisourceBergen"."""
_BEARERS: Final = frozenset(("person", "man", "woman", "individual", "to"))
_HEADS: Final = frozenset(("government", "minister", "chancellor", "premier"))

_DESCRIPTION: Final = 14
"""Most words of a description that a name follows after a comma: "the head of the Social Democrats, X"."""

_APOSTROPHES: Final = ("'", "’")
_HYPHENS: Final = ("-", "‐", "‑")


@cache
def _offices() -> dict[str, frozenset[str]]:
    """Return word -> the words for offices that it may stand for."""
    kinds = [frozenset(line.split()) for line in word_lines("offices")]
    alike = [frozenset(line.split()) for line in word_lines("alike")]
    found = {word: kind for kind in kinds for word in kind}
    return {word: kind.union(*(other for other in alike if kind & other)) for word, kind in found.items()}


_SHORT: Final = 32
"""Signs of a gap that is worth remembering; one of a hundred thousand signs is not."""


@lru_cache(maxsize=1024)
def _known_gap(gap: str) -> tuple[bool, bool]:
    return _HARD.search(gap) is not None, _APART.search(gap) is not None


def _gap(gap: str) -> tuple[bool, bool]:
    """Tell whether signs between words end a clause, and whether they keep the words apart."""
    return _known_gap(gap) if len(gap) <= _SHORT else _known_gap.__wrapped__(gap)


@lru_cache(maxsize=4096)
def _asked(question: frozenset[str]) -> frozenset[str]:
    """Return the offices among a question's words."""
    return frozenset(word for word in question if word in _offices())


class Place(Enum):
    """Where a name stands."""

    ANSWER = auto()
    PASSING = auto()
    NEGATED = auto()
    FORMER = auto()


class Clauses:
    """The clauses of an answer."""

    def __init__(self, answer: Answer, question: frozenset[str]) -> None:
        self.answer = answer
        self.words = answer.words
        self.question = question
        self.asked = _asked(question)
        text = answer.text
        self._asks = "?" in text
        self.gaps = [text[answer.start : self.words[0].start]] if self.words else []
        self.gaps += [text[before.end : word.start] for before, word in pairwise(self.words)]
        self.keys = [word.key for word in self.words]
        self._hard, self._soft = [False] * len(self.gaps), [True] * len(self.gaps)
        for at in [at for at, gap in enumerate(self.gaps) if gap != " "]:
            self._hard[at] = self._ends(at, self.gaps[at])
            self._soft[at] = self._joins(at, self.gaps[at])
        if self.words:
            self._hard[0], self._soft[0] = True, False

    def _ends(self, at: int, gap: str) -> bool:
        if not _gap(gap)[0]:
            return False
        before = self.words[at - 1]
        short = len(before.key) == 1 or (before.capital and before.key in word_list("abbreviations"))
        return gap.strip(" ,") != "." or not short

    def _joins(self, at: int, gap: str) -> bool:
        if self._hard[at] or _gap(gap)[1]:
            return False
        if self._asks and self._answers(at - 1, gap):
            return False
        return "," not in gap or self.words[at].key in _SUFFIXES

    def _answers(self, at: int, gap: str) -> bool:
        """Tell whether a word marks an answer: "Q. Where is it? A. Brussels"."""
        return gap == ". " and self.keys[at] == "a" and "?" in self.gaps[at]

    def hard(self, at: int) -> bool:
        """Tell whether a clause ends before a word."""
        return self._hard[at]

    def soft(self, at: int) -> bool:
        """Tell whether a word and the one before may belong to one name."""
        return self._soft[at]

    def hyphen(self, at: int) -> bool:
        """Tell whether a hyphen joins a word to the one before."""
        return self.gaps[at] in _HYPHENS

    def owned(self, at: int) -> bool:
        """Tell whether a word is the s of a possessive."""
        return self.words[at].key == "s" and self.gaps[at] in _APOSTROPHES

    def place(self, first: int, last: int, *, known: bool, teams: bool) -> Place:
        """Tell where the name in words ``first`` to ``last`` stands."""
        start = first
        while not self.hard(start):
            start -= 1
        lead = self.words[start:first]
        opening = (start == 0 and self.answer.continues) or ":" in self.gaps[start]
        opening = opening or (self._asks and self._labelled(lead, first))
        marker = self._marker(lead, teams=teams)
        tail = lead[marker + 1 :] if marker is not None else lead
        if any(word.key in word_list("negations") for word in tail) or _no_longer(tail):
            return self._after_negation(tail)
        elsewhere = self._led_elsewhere(lead[:marker], lead[marker].key) if marker is not None else None
        if elsewhere is not None:
            return elsewhere
        if marker is None and not opening and not self._alone(start, first, last):
            return Place.PASSING
        if self._asks and marker is None and self._other_question(start):
            return Place.PASSING
        if self._possessive(last) or (not known and self._describes(first, last, tail, teams=teams)):
            return Place.PASSING
        return Place.ANSWER if self._leads_to_name(tail, first) else Place.PASSING

    def _labelled(self, lead: list[Word], first: int) -> bool:
        return len(lead) == 1 and self._answers(first - 1, self.gaps[first])

    def _led(self, lead: list[Word], at: int) -> bool:
        """Tell whether "by" says who leads what was asked about: "Amazon is led by X", "the government is headed by X".

        A government has a head other than the head of state that was asked for.
        """
        if at < 2 or lead[at - 1].key not in word_list("led"):
            return False
        governs = [word for word in lead[: at - 1] if word.key in ("government", "cabinet")]
        if not all(self._light(word) or word in governs for word in lead[: at - 1]):
            return False
        if any(word.key in word_list("relatives") for word in lead[: at - 1]):
            return False
        return not governs or not _HEADS.isdisjoint(self.question)

    def _led_elsewhere(self, before: list[Word], marker: str) -> Place | None:
        """Tell whether the words before a marker deny what follows it or speak of another office."""
        if marker in ("for", "with", "in") and _denied(before[-4:]):
            return Place.NEGATED
        if not self._another_office(before):
            return None
        return Place.FORMER if any(word.key in word_list("past") for word in before) else Place.PASSING

    def _other_question(self, start: int) -> bool:
        """Tell whether a clause answers another question than the prompt's, put directly before it."""
        end = next((at for at in (start, start - 1) if at > 0 and "?" in self.gaps[at]), 0)
        begin = end - 1
        while begin > 0 and not self.hard(begin):
            begin -= 1
        phrase = self.words[max(begin, 0) : end]
        return self._another_office(phrase[1:]) or any(word.key in word_list("other_questions") for word in phrase)

    def _marker(self, lead: list[Word], *, teams: bool) -> int | None:
        """Return the last word of the lead after which an answer may follow: "is", "held by", "plays for"."""
        for at in range(len(lead) - 1, -1, -1):
            key, before = lead[at].key, lead[at - 1].key if at else ""
            if key in word_list("markers"):
                return at
            if (key == "by" and (before in word_list("held") or self._led(lead, at))) or key in ("par", "por"):
                return at
            if key in ("for", "with", "in") and before in word_list("plays"):
                return at
            if teams and _to_team(lead, at):
                return at
        return None

    def _another_office(self, phrase: list[Word]) -> bool:
        """Tell whether the subject of a clause is another office than the one asked for."""
        keys = [word.key for word in phrase[self._after_comma(phrase) :]]
        if len(keys) > 1 and keys[-1] in ("one", "holder", "officeholder") and self._qualified(keys[-2:-1]):
            return True
        if keys[:1] == ["the"] and self._qualified(keys[1:2]) and (keys[2:3] or ["person"])[0] in _BEARERS:
            return True  # "the first was X", "the last person to hold it was X"
        said = [at for at, key in enumerate(keys) if key in _offices()]
        if any(self._qualified(keys[max(0, at - 2) : at]) for at in said):
            return True
        return bool(said) and bool(self.asked) and not any(_offices()[keys[at]] & self.asked for at in said)

    def _qualified(self, before: list[str]) -> bool:
        return any(key in word_list("other_offices") and key not in self.question for key in before)

    def _after_comma(self, phrase: list[Word]) -> int:
        """Return where the part of a phrase begins that follows its last comma: "As of 2021, the president"."""
        for at in range(len(phrase) - 1, 0, -1):
            if "," in self.answer.text[phrase[at - 1].end : phrase[at].start]:
                return at
        return 0

    def _alone(self, start: int, first: int, last: int) -> bool:
        """Tell whether a name is a clause of its own, or its subject is told to hold the office: "X is the king"."""
        if any(not self._light(word) for word in self.words[start:first]):
            return False
        if last == len(self.words):
            if not self.answer.cut or all(map(self._light, self.words[:start])):
                return True
            return self.answer.text[self.words[-1].end : self.answer.end].lstrip().startswith(",")
        if self.hard(last) or "," in self.gaps[last]:
            return True
        rest = self.words[last : last + 8]
        return rest[0].key in ("is", "serves", "holds", "has", "currently") and any(
            word.key in self.question and word.key in word_list("roles") for word in rest
        )

    def _possessive(self, last: int) -> bool:
        return last < len(self.words) and self.owned(last)

    def _describes(self, first: int, last: int, tail: list[Word], *, teams: bool) -> bool:
        """Tell whether an unknown run only describes a name: "the Social Democrat", "the Pro League club"."""
        if not teams and tail and tail[-1].key in word_list("determiners"):
            return True
        before = [word.key for word in tail if word.key not in word_list("determiners")]
        if before and (before[-1] in word_list("sources") or not _ONCE.isdisjoint(before[-3:])):
            return True
        follows = self.words[last] if last < len(self.words) and self.soft(last) else None
        if follows is not None and not follows.capital and follows.key in _POSTS:
            after = last + 1
            return after < len(self.words) and self.soft(after) and self.words[after].capital
        return first == 0 and last - first == 1 and follows is not None and not self.answer.continues

    def _after_negation(self, tail: list[Word]) -> Place:
        """A name after "not" is denied, unless "but" stands between: "not X but Y"."""
        keys = [word.key for word in tail]
        return Place.ANSWER if any(key in ("but", "rather", "instead") for key in keys[1:]) else Place.NEGATED

    def _leads_to_name(self, tail: list[Word], first: int) -> bool:
        """Tell whether the words before a name only lead up to it."""
        if any(
            word.key in word_list("relatives") for word in (tail[1:] if tail[:1] and tail[0].key == "that" else tail)
        ):
            return False
        if self._near_comma(tail, first):
            return len(tail) <= _DESCRIPTION
        near = [
            word for word in tail if word.key not in word_list("titles") and word.key not in word_list("determiners")
        ]
        if _in_passing([word.key for word in near]):
            return False
        at = first - len(tail)
        described = bool(tail) and not tail[-1].capital and tail[-1].key in _POSTS
        return all(
            self._light(word) or (described and word.capital) or self._owner(at + offset)
            for offset, word in enumerate(tail)
        )

    def _owner(self, at: int) -> bool:
        """Tell whether a word belongs to an owner's name: "the Likud Party's"."""
        while self.words[at].capital and at + 1 < len(self.words) and self.soft(at + 1):
            at += 1
            if self.owned(at):
                return True
        return False

    def _near_comma(self, tail: list[Word], first: int) -> bool:
        """Tell whether a comma stands before the name, or before the titles and articles that belong to it."""
        at = first
        for word in reversed(tail):
            if "," in self.gaps[at]:
                return True
            if (
                word.key not in word_list("titles")
                and word.key not in word_list("determiners")
                and word.key not in word_list("roles")
                and not word.key.isdigit()  # the postal code of a town
            ):
                return False
            at -= 1
        return False

    def _light(self, word: Word) -> bool:
        key = word.key
        if key in word_list("relations"):
            return False
        return key == "s" or key.isdigit() or key in NEUTRAL or key in word_list("particles") or key in self.question


def _to_team(lead: list[Word], at: int) -> bool:
    """Tell whether a player's team follows a word: "member of", "moved to", "joined"."""
    key, before = lead[at].key, lead[at - 1].key if at else ""
    moved = key == "to" and any(word.key in word_list("moves") for word in lead[:at])
    moved |= key == "for" and any(word.key in ("left", "leaving", "swapped", "exchanged") for word in lead[:at])
    return moved or key in word_list("joins") or (key == "of" and before in word_list("members"))


def _in_passing(near: list[str]) -> bool:
    """Tell whether the words before a name make it a mention: "the ally of X", "named after X", "appointed by X"."""
    if not near or near[-2:] in (["other", "than"], ["name", "of"]):
        return False
    if near[-1] in word_list("behind") or (near[-1] == "by" and len(near) > 1):
        return True
    return len(near) > 1 and near[-1] in word_list("in_passing") and near[-2] not in word_list("plain")


def _no_longer(tail: list[Word]) -> bool:
    return any(one.key == "no" and other.key == "longer" for one, other in pairwise(tail))


def _denied(before: list[Word]) -> bool:
    """Tell whether someone is said not to play: "does not play for", "no longer races with"."""
    keys = [word.key for word in before]
    return any(
        (key in word_list("negations") or keys[at : at + 2] == ["no", "longer"] or key in ("doesn", "didn"))
        and "only" not in keys[at:]
        for at, key in enumerate(keys)
    )
