"""Reads a free text as an answer to its question: the entity it first asserts, or none and why.

The text is split into runs of words that look like names. Each run is looked up among the forms of the candidates'
names (:mod:`dyknow.names`) and is a candidate's name, another name, or no name at all. The first run that stands where
an answer stands decides; a name in passing ("the son of X", "led by X", "X has also been ...") does not.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import rapidfuzz

from dyknow.candidates import (
    ALIASES_DIGEST,
    FUZZY_LETTERS,
    FUZZY_SINGLE,
    Candidate,
    Names,
    candidates_digest,
    load_aliases,
    names_of,
)
from dyknow.clauses import Clauses, Place
from dyknow.handover import Gone, Handover
from dyknow.names import word_list, words
from dyknow.scaffold import Answer, answer_of
from dyknow.spans import Cutoffs, Run, Runs

__all__ = [
    "ALIASES_DIGEST",
    "CUTOFFS",
    "MATCHER_VERSION",
    "PARAMETERS",
    "Candidate",
    "Cutoffs",
    "Match",
    "Reason",
    "candidates_digest",
    "load_aliases",
    "match",
]

MATCHER_VERSION: Final = "2"
"""Part of every stored match; raised with every change of what is matched."""


CUTOFFS: Final = Cutoffs(name=87.5, word=70.0)
"""Chosen on the corrected labels by cross-validation over subjects: ``python -m benchmarks.matching``."""

PARAMETERS: Final = (
    f"name>={CUTOFFS.name:g} word>={CUTOFFS.word:g} letters>={FUZZY_LETTERS},{FUZZY_SINGLE}"
    f" rapidfuzz={rapidfuzz.__version__}"
)
"""Part of every stored match, besides the version."""


class Reason(StrEnum):
    """Why a text names an entity, or none."""

    MATCHED = "matched"
    EMPTY = "empty"
    REFUSAL = "refusal"
    ECHO = "echo"
    DESCRIPTION = "description"
    UNKNOWN = "unknown name"
    NEGATED = "negated"
    FORMER = "former"
    OPTIONS = "options"
    CUT_OFF = "cut off"


class Match(NamedTuple):
    """What a text answers.

    ``start`` and ``end`` are the span of ``matched`` in the text; where nothing matched, 0, and the rest is empty.
    """

    entity: str | None
    reason: Reason
    start: int = 0
    end: int = 0
    matched: str = ""
    alias: str = ""
    rule: str = ""
    score: float = 0.0


def match(
    text: str,
    prompt: str,
    candidates: Sequence[Candidate],
    subject: str,
    office: str | None,
    *,
    cutoffs: Cutoffs = CUTOFFS,
    aliases: bool = True,
) -> Match:
    """Read a text as an answer to its question.

    Args:
        text: what the model wrote, with or without the prompt.
        prompt: what the model was given.
        candidates: the entities that hold the fact in some statement.
        subject: the subject as the prompt has it; its words name nobody.
        office: the office's title in the prompt, if any.
        cutoffs: how near a misspelt name must be; others than the default are for choosing it.
        aliases: False leaves the reviewed alias file out; for measuring what it adds.

    Returns:
        The entity first asserted as the answer, or None with the reason. Never raises, whatever the text.
    """
    names = names_of(candidates, aliases=aliases)
    answer = answer_of(text, prompt)
    if not answer.words:
        return Match(None, Reason.EMPTY)
    return _Reader(answer, names, _question(answer.question, subject, office), cutoffs).read()


# Reading


@lru_cache(maxsize=4096)
def _question(asked: str, subject: str, office: str | None) -> frozenset[str]:
    """Return the words of the question, and the acronym of its subject: they name nobody."""
    found = {word.key for word in words(f"{asked} {subject} {office or ''}")}
    acronym = "".join(word.key[0] for word in words(subject) if word.capital)
    return frozenset(found | {acronym}) if len(acronym) > 1 else frozenset(found)


_REFUSAL: Final = re.compile(
    r"\b(?:i(?: a|['’])?m sorry|i apologi[sz]e|i (?:can ?not|can['’]t|do not|don['’]t|am not|am unable|['’]m not)|"
    r"as an ai|unable to|not able to|no (?:reliable )?information|not aware of|impossible to (?:say|know))\b",
    re.IGNORECASE,
)
_OPTIONS: Final = re.compile(
    r"\W*(?:[^\n?]{3,120}\?\s+|[iI]s it\s)?(?:(?:options?|choices?)\W+)?"
    r"(?:\(?[aA]([.):])\s.+?\s\(?[bB]\1\s|\(?1([.):])\s.+?\s\(?2\2\s)",
    re.DOTALL,
)
_CHOSEN: Final = re.compile(
    r"\b(?:answer|ans|(?:correct|right) (?:answer|option|choice|one))\b(?: is)?\W{0,4}(?:option )?"
    r"(?:([a-e1-5])(?!\w))?",
    re.IGNORECASE,
)
_OPTION: Final = r"(?<!\w){}[.):]\s(.+?)(?=\s\(?[a-e1-5][.):]\s|\n|$)"
_DENIED: Final = {Place.NEGATED: Reason.NEGATED, Place.FORMER: Reason.FORMER}
_CORRECTION: Final = word_list("correction")


class _Reader:
    """One text being read; a class only to keep its parts together."""

    def __init__(self, answer: Answer, names: Names, question: frozenset[str], cutoffs: Cutoffs) -> None:
        self.answer = answer
        self.words = answer.words
        self.names = names
        self.question = question
        self.clauses = Clauses(answer, question)
        self.handover = Handover(self.clauses)
        self.runs = Runs(answer, names, self.clauses, cutoffs)

    def read(self) -> Match:
        """Return the first asserted entity, or why there is none."""
        if _OPTIONS.match(self.answer.text, self.answer.start):
            chosen = self._chosen()
            return self._matched(chosen) if chosen else Match(None, Reason.OPTIONS)
        reason, gone = None, 0
        for run in self.runs.all():
            place = self._place(run, gone)
            if place is not Place.ANSWER:
                reason = _DENIED.get(place, reason)
                continue
            if run.form is None:
                if self._label(run) or self._street(run):
                    continue
                if not (self.runs.lower and run.last - run.first == 1):
                    return self._unmatched(Reason.UNKNOWN, run)
                continue
            left = self.handover.gone(run.first, run.last, gone)
            if left in (Gone.NEGATED, Gone.FORMER):
                reason, gone = Reason(left), run.last
                continue
            return self._settled(run, left)
        return self._unmatched(reason, None)

    def _chosen(self) -> Run | None:
        """Return the option that the text then gives as its answer, by its letter or by name."""
        text, start = self.answer.text, self.answer.start
        found = _CHOSEN.search(text, start)
        if found is None:
            return None
        begin, end = found.end(), len(text)
        if found[1]:
            option = re.compile(_OPTION.format(found[1]), re.IGNORECASE | re.DOTALL)
            listed = option.search(text, start)
            if listed is None:
                return None
            begin, end = listed.span(1)
        runs = (run for run in self.runs.all() if begin <= self.words[run.first].start < end)
        return next((run for run in runs if run.form is not None), None)

    def _label(self, run: Run) -> bool:
        """Tell whether an unknown run is no name but what is written before one: "Ans:", "[MASK]"."""
        if run.last == len(self.words):
            return False
        after = self.answer.text[self.words[run.last - 1].end : self.words[run.last].start]
        single = run.last - run.first == 1
        return (single and after.lstrip().startswith(":")) or (
            after.startswith("]") and self.clauses.gaps[run.first].endswith("[")
        )

    def _street(self, run: Run) -> bool:
        """Tell whether an unknown run is the street of an address whose town follows."""
        street = any(word.key in word_list("streets") for word in self.words[run.first : run.last])
        return street and run.last < len(self.words) and "," in self.clauses.gaps[run.last]

    def _place(self, run: Run, gone: int) -> Place:
        """Tell where a run stands; after a holder who has gone, the name of the successor is the answer."""
        if gone and self.handover.follows(run.begins, run.last, gone):
            return Place.ANSWER
        return self.clauses.place(self._starts(run), run.ends, known=run.form is not None, teams=self.names.teams)

    def _settled(self, run: Run, left: Gone | None) -> Match:
        """Answer with a run, unless the text takes it back or goes on to name a successor."""
        later = self._corrected(run)
        if later is None and left is Gone.PERHAPS:
            later = self._successor(run)
        if later is None:
            return self._matched(run)
        return self._matched(later) if later.form is not None else self._unmatched(Reason.UNKNOWN, later)

    def _successor(self, run: Run) -> Run | None:
        """Return who or what is said to follow; of the stages of a player's career the last."""
        found, gone = None, run.last
        for one in self.runs.all():
            if one.first >= gone and self.handover.follows(one.begins, one.last, gone):
                found, gone = one, one.last
                if not self.names.teams:
                    break
        return found

    def _starts(self, run: Run) -> int:
        """Return where a run's name begins, without titles and words of the question before it."""
        return run.first if all(map(self.runs.neutral, range(run.begins, run.first))) else run.begins

    def _matched(self, run: Run) -> Match:
        form = run.form
        assert form is not None
        start, end = self.words[run.first].start, self.words[run.last - 1].end
        rule = form.rule.words if run.score == 100.0 else "misspelt"
        said = self.answer.raw[start:end]
        return Match(form.entity, Reason.MATCHED, start, end, said, form.alias, rule, round(run.score, 1))

    def _unmatched(self, reason: Reason | None, run: Run | None) -> Match:
        cut = self._cut_off()
        if cut is not None and (run is None or run.last > cut.first):
            return self._matched(cut)
        if _REFUSAL.search(self.answer.text, self.answer.start):
            return Match(None, Reason.REFUSAL)
        if reason is not None:
            return Match(None, reason)
        said = [word for word in self.words if word.key not in word_list("plain")]
        return Match(None, Reason.ECHO if all(word.key in self.question for word in said) else Reason.DESCRIPTION)

    def _corrected(self, first: Run) -> Run | None:
        """Return the candidate that the text puts in the place of the one it named: "X. Actually, Y"."""
        if _CORRECTION.isdisjoint(self.clauses.keys):
            return None
        for run in self.runs.all():
            if run.first >= first.last and run.form is not None and self._corrects(max(first.last, run.first - 5), run):
                return run
        return None

    def _corrects(self, least: int, run: Run) -> bool:
        """Tell whether a clause before a run opens with a word that takes something back."""
        said = [at for at in range(least, run.first) if self.words[at].key in _CORRECTION]
        said += [at - 1 for at in said if at > least and self.words[at - 1].key == "i"]  # "X, I mean Y"
        return any(self.clauses.hard(at) or not {",", "("}.isdisjoint(self.clauses.gaps[at]) for at in said)

    def _cut_off(self) -> Run | None:
        """Match a name that the end of the text cuts off, where only one candidate's begins so."""
        if not self.answer.cut:
            return None
        last = len(self.words)
        first = last
        while first > 0 and (first == last or self.clauses.soft(first)) and self._cut_part(first - 1):
            first -= 1
        while first < last and self.runs.neutral(first):
            first += 1
        if first == last or self.clauses.place(first, last, known=True, teams=self.names.teams) is not Place.ANSWER:
            return None
        return self.runs.completed(first, last)

    def _cut_part(self, at: int) -> bool:
        return self.runs.like_name(at) or self.words[at].key in word_list("particles")
