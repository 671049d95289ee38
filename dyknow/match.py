"""Reads a free text as an answer to its question: the entity it first asserts, or none and why.

The text is split into runs of words that look like names. Each run is looked up among the forms of the candidates'
names (:mod:`dyknow.names`) and is a candidate's name, another name, or no name at all. The first run that stands where
an answer stands decides; a name in passing ("the son of X", "led by X", "X has also been ...") does not.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz import fuzz, process

from dyknow.candidates import ALIASES_DIGEST, FUZZY_LETTERS, Candidate, Names, candidates_digest, compiled, load_aliases
from dyknow.clauses import Clauses, Place
from dyknow.handover import Gone, Handover
from dyknow.names import Form, Rule, is_numeral, sound, word_list, words
from dyknow.scaffold import Answer, answer_of

__all__ = [
    "ALIASES_DIGEST",
    "MATCHER_VERSION",
    "Candidate",
    "Match",
    "Reason",
    "candidates_digest",
    "load_aliases",
    "match",
]

MATCHER_VERSION: Final = "2"
"""Part of every stored match; raised with every change of what is matched."""

FUZZY_LEAST: Final = 85.0
"""Least similarity of a misspelt full name to a candidate's, as rapidfuzz's ratio of their keys."""

FUZZY_WORD: Final = 78.0
"""Least similarity of each of its words to the word in the same place."""


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


def match(text: str, prompt: str, candidates: Sequence[Candidate], subject: str, office: str | None) -> Match:
    """Read a text as an answer to its question.

    Args:
        text: what the model wrote, with or without the prompt.
        prompt: what the model was given.
        candidates: the entities that hold the fact in some statement.
        subject: the subject as the prompt has it; its words name nobody.
        office: the office's title in the prompt, if any.

    Returns:
        The entity first asserted as the answer, or None with the reason. Never raises, whatever the text.
    """
    names = compiled(tuple(candidates))
    answer = answer_of(text, prompt)
    if not answer.words:
        return Match(None, Reason.EMPTY)
    return _Reader(answer, names, _question(answer.question, subject, office)).read()


# Reading


@lru_cache(maxsize=4096)
def _question(asked: str, subject: str, office: str | None) -> frozenset[str]:
    """Return the words of the question, and the acronym of its subject: they name nobody."""
    found = {word.key for word in words(f"{asked} {subject} {office or ''}")}
    acronym = "".join(word.key[0] for word in words(subject) if word.capital)
    return frozenset(found | {acronym}) if len(acronym) > 1 else frozenset(found)


class _Run(NamedTuple):
    """Words that stand together like a name, and whose name it is."""

    first: int
    last: int  # exclusive
    form: Form | None
    score: float
    begins: int  # where the words that stand with it begin: titles, "Socialist"
    ends: int  # exclusive; where they end


_REFUSAL: Final = re.compile(
    r"\b(?:i(?: a|['’])?m sorry|i apologi[sz]e|i (?:can ?not|can['’]t|do not|don['’]t|am not|am unable|['’]m not)|"
    r"as an ai|unable to|not able to|no (?:reliable )?information|not aware of|impossible to (?:say|know))\b",
    re.IGNORECASE,
)
_OPTIONS: Final = re.compile(
    r"\W*(?:(?:options?|choices?)\W+)?(?:\(?[aA]([.):])\s.+?\s\(?[bB]\1\s|\(?1([.):])\s.+?\s\(?2\2\s)", re.DOTALL
)
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv"))
_SON_OF: Final = word_list("son_of")
_DENIED: Final = {Place.NEGATED: Reason.NEGATED, Place.FORMER: Reason.FORMER}
_CORRECTION: Final = word_list("correction")


class _Reader:
    """One text being read; a class only to keep its parts together."""

    def __init__(self, answer: Answer, names: Names, question: frozenset[str]) -> None:
        self.answer = answer
        self.words = answer.words
        self.names = names
        self.question = question
        self.clauses = Clauses(answer, question)
        self.handover = Handover(self.clauses)
        self.lower = not any(word.capital for word in self.words)

    def read(self) -> Match:
        """Return the first asserted entity, or why there is none."""
        if _OPTIONS.match(self.answer.text, self.answer.start):
            return Match(None, Reason.OPTIONS)
        reason, gone = None, 0
        for run in self._runs():
            place = self._place(run, gone)
            if place is not Place.ANSWER:
                reason = _DENIED.get(place, reason)
                continue
            if run.form is None:
                if self._label(run):
                    continue
                if not (self.lower and run.last - run.first == 1):
                    return self._unmatched(Reason.UNKNOWN, run)
                continue
            left = self.handover.gone(run.first, run.last, gone)
            if left in (Gone.NEGATED, Gone.FORMER):
                reason, gone = Reason(left), run.last
                continue
            return self._settled(run, left)
        return self._unmatched(reason, None)

    def _label(self, run: _Run) -> bool:
        """Tell whether an unknown run is no name but what is written before one: "Ans:", "[MASK]"."""
        if run.last == len(self.words):
            return False
        after = self.answer.text[self.words[run.last - 1].end : self.words[run.last].start]
        single = run.last - run.first == 1
        return (single and after.lstrip().startswith(":")) or (
            after.startswith("]") and self.clauses.gaps[run.first].endswith("[")
        )

    def _place(self, run: _Run, gone: int) -> Place:
        """Tell where a run stands; after a holder who has gone, the name of the successor is the answer."""
        if gone and self.handover.follows(run.begins, run.last, gone):
            return Place.ANSWER
        return self.clauses.place(self._starts(run), run.ends, known=run.form is not None, teams=self.names.teams)

    def _settled(self, run: _Run, left: Gone | None) -> Match:
        """Answer with a run, unless the text takes it back or goes on to name a successor."""
        later = self._corrected(run)
        if later is None and left is Gone.PERHAPS:
            after = (one for one in self._runs() if one.first >= run.last)
            later = next((one for one in after if self.handover.follows(one.begins, one.last, run.last)), None)
        if later is None:
            return self._matched(run)
        return self._matched(later) if later.form is not None else self._unmatched(Reason.UNKNOWN, later)

    def _starts(self, run: _Run) -> int:
        """Return where a run's name begins, without titles and words of the question before it."""
        return run.first if all(map(self._neutral, range(run.begins, run.first))) else run.begins

    def _matched(self, run: _Run) -> Match:
        form = run.form
        assert form is not None
        start, end = self.words[run.first].start, self.words[run.last - 1].end
        rule = form.rule.words if run.score == 100.0 else "misspelt"
        said = self.answer.raw[start:end]
        return Match(form.entity, Reason.MATCHED, start, end, said, form.alias, rule, round(run.score, 1))

    def _unmatched(self, reason: Reason | None, run: _Run | None) -> Match:
        cut = self._cut_off()
        if cut is not None and (run is None or run.last > cut.first):
            return self._matched(cut)
        if _REFUSAL.search(self.answer.text, self.answer.start):
            return Match(None, Reason.REFUSAL)
        if reason is not None:
            return Match(None, reason)
        said = [word for word in self.words if word.key not in word_list("plain")]
        return Match(None, Reason.ECHO if all(word.key in self.question for word in said) else Reason.DESCRIPTION)

    def _corrected(self, first: _Run) -> _Run | None:
        """Return the candidate that the text puts in the place of the one it named: "X. Actually, Y"."""
        for run in self._runs():
            if run.first >= first.last and run.form is not None and self._corrects(max(first.last, run.first - 5), run):
                return run
        return None

    def _corrects(self, least: int, run: _Run) -> bool:
        """Tell whether a clause before a run opens with a word that takes something back."""
        said = (at for at in range(least, run.first) if self.words[at].key in _CORRECTION)
        return any(self.clauses.hard(at) or "," in self.clauses.gaps[at] for at in said)

    # Runs

    def _runs(self) -> Iterable[_Run]:
        at = 0
        while at < len(self.words):
            end = self._run_end(at)
            if end == at:
                run = self._written_small(at)
                if run is None:
                    at += 1
                    continue
            else:
                run = self._resolve(at, end)
            if run is not None:
                yield run
            at = max(end, run.last if run else at + 1)

    def _like_name(self, at: int) -> bool:
        word = self.words[at]
        if not self.lower:
            return word.capital
        return word.key not in word_list("plain") and not word.key.isdigit() and not self.clauses.owned(at)

    def _run_end(self, at: int) -> int:
        """Return where the run that starts at a word ends; the same place where none starts."""
        if not self._like_name(at):
            return at
        end = at + 1
        while end < len(self.words) and self.clauses.soft(end):
            if self._like_name(end) or self.clauses.hyphen(end):
                end += 1
                continue
            past = end
            while past < len(self.words) and self.words[past].key in word_list("particles") and self.clauses.soft(past):
                past += 1
            if past == end or past == len(self.words) or not (self.clauses.soft(past) and self._like_name(past)):
                break
            end = past + 1
        return end

    def _written_small(self, at: int) -> _Run | None:
        """Find a full name of several words written without capitals."""
        key, found = self.words[at].key, None
        for end in range(at + 1, min(at + 5, len(self.words))):
            if not self.clauses.soft(end):
                break
            key += self.words[end].key
            form = self.names.forms.get(key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1:
                found = _Run(at, end + 1, form, 100.0, at, end + 1)
        return found

    def _neutral(self, at: int) -> bool:
        word = self.words[at]
        key = word.key
        if len(key) == 1 and at > 0 and key != "m" and self.answer.text[word.end : word.end + 1] == ".":
            return False
        return (
            key in self.question
            or key in word_list("titles")
            or key in word_list("roles")
            or key in word_list("plain")
            or key in word_list("demonyms")
        )

    def _resolve(self, first: int, last: int) -> _Run | None:
        """Find whose name a run is; None where it is no name at all."""
        found = self._beyond(first, last) or self._whole(first, last) or self._inside(first, last)
        if found is not None:
            return found
        begins, ends = first, last
        while first < last and self._neutral(first):
            first += 1
        while first < last and self._neutral(last - 1) and self.words[last - 1].key not in word_list("titles"):
            last -= 1
        if first == last:
            return None
        found = self._with_middle(first, last) or self._initialled(first, last) or self._misspelt(first, last)
        found = found or self._misspelt(begins, ends)
        if found is None and last - first > 1 and self.words[first].key == self.words[first + 1].key:
            again = self._resolve(first + 1, last)  # "Boric Boric"
            found = again._replace(first=first, begins=begins) if again and again.form else None
        return found or _Run(first, last, None, 0.0, begins, ends)

    def _form(self, first: int, last: int) -> Form | None:
        """Look a span up; words of the question alone are nobody's name."""
        span = self.words[first:last]
        form = self.names.forms.get("".join(word.key for word in span))
        return None if form is None or all(word.key in self.question for word in span) else form

    def _whole(self, first: int, last: int) -> _Run | None:
        """Match a run that is a form, but for titles, offices and words of the question around it."""
        end = last
        while end > first:
            start = first
            while start < end:
                form = self._form(start, end)
                if form is not None and self._fits(form, start, end):
                    return _Run(start, end, form, 100.0, first, end)
                if not self._neutral(start):
                    break
                start += 1
            if not self._neutral(end - 1) or len(self.words[end - 1].key) == 1:
                break
            end -= 1
        return None

    def _fits(self, form: Form, at: int, end: int) -> bool:
        """Tell whether the title before a form allows it: a first name needs one, and a prince is no king of old.

        A bare name with another land after it, "Abdullah of Jordan", is another bearer's.
        """
        if form.size == 1 and not self.names.teams and (self._of_elsewhere(end) or self._dated(at, end)):
            return False
        title = self.words[at - 1].key if at > 0 and self.clauses.soft(at) else ""
        royal = title in word_list("royal")
        if form.rule is Rule.GIVEN:
            return title in word_list("titles") and not royal
        if form.rule is Rule.SURNAME:
            shared = form.key in word_list("family_first") and len(self.names.families.get(form.key, ())) > 1
            return not royal and (not shared or title in word_list("titles") or title in word_list("roles"))
        return form.rule is not Rule.REGNAL or title not in ("prince", "princess") or form.entity == self.names.latest

    def _dated(self, first: int, last: int) -> bool:
        """Tell whether a name is a month's and a number stands beside it: "5 May 2021"."""
        if self.words[first].key not in word_list("months"):
            return False
        beside = [self.words[at].key for at in (first - 1, last) if 0 <= at < len(self.words)]
        return any(key[0].isdigit() for key in beside)

    def _of_elsewhere(self, at: int) -> bool:
        """Tell whether "of" and the name of another land than the question's stand at a word."""
        if at + 1 >= len(self.words) or self.words[at].key != "of" or not self.clauses.soft(at):
            return False
        land = at + 2 if self.words[at + 1].key == "the" and at + 2 < len(self.words) else at + 1
        word = self.words[land]
        return word.capital and word.key not in self.question and word.key not in word_list("realms")

    def _beyond(self, first: int, last: int) -> _Run | None:
        """Match a full name that goes on in small letters: "Brazil national team"."""
        start = first
        while start < last:
            end, found = last, None
            while end < len(self.words) and self.clauses.soft(end) and end - start < self.names.longest:
                end += 1
                form = self._form(start, end)
                if form is not None and form.rule <= Rule.FORM:
                    found = _Run(start, end, form, 100.0, first, end)
            if found is not None or not self._neutral(start):
                return found
            start += 1
        return None

    def _inside(self, first: int, last: int) -> _Run | None:
        """Match a full name within a longer run: "Socialist François Hollande"."""
        for start in range(first, last - 1):
            for end in range(min(last, start + self.names.longest), start + 1, -1):
                form = self._form(start, end)
                if form is None or form.size < 2 or self._another(end, last) or self._father(start):
                    continue
                if self._numbered(end - 1) and start > first and not self._neutral(start - 1):
                    continue  # "Carlos I" in "Juan Carlos I"
                if form.rule <= Rule.FORM or (form.rule is Rule.SHORT and self._father(end)):
                    return _Run(start, end, form, 100.0, first, end)
        return None

    def _father(self, at: int) -> bool:
        """Tell whether a name is that of somebody's father: "Mohammed bin Salman"."""
        return any(0 <= one < len(self.words) and self.words[one].key in _SON_OF for one in (at, at - 1))

    def _numbered(self, at: int) -> bool:
        word = self.words[at]
        return is_numeral(self.answer.text[word.start : word.end])

    def _another(self, at: int, last: int) -> bool:
        """Tell whether the word after a name makes it another's: "Henry Ford III", "Barcelona B"."""
        if at >= last:
            return False
        word = self.words[at]
        if self.names.teams:
            return word.key in word_list("other_sides")
        return word.key in ("jr", "sr") or self._numbered(at)

    def _with_middle(self, first: int, last: int) -> _Run | None:
        """Match a full name with initials, middle names or a second family name that the candidate's label lacks."""
        if self.names.teams or not 2 < last - first < 8:
            return None
        keys = [word.key for word in self.words[first:last]]
        family = keys[-2:] if keys[-1] in _SUFFIXES else keys[-1:]
        for key in ("".join(key for key in keys if len(key) > 1), keys[0] + "".join(family)):
            form = self.names.forms.get(key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1:
                return _Run(first, last, form, 100.0, first, last)
        if keys[-1] in _SUFFIXES:
            return None
        for at in range(last - 2, first + 1, -1):
            form = self.names.forms.get(keys[0] + self.words[at].key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1 and not self._father(at):
                return _Run(first, last, form, 100.0, first, last)
        return None

    def _initialled(self, first: int, last: int) -> _Run | None:
        """Match a surname whose first names agree, some as initials: "B. Obama", "Ramaswamy" for R. Venkataraman."""
        for start in range(first + 1, last):
            family = "".join(word.key for word in self.words[start:last])
            said = [word.key for word in self.words[first:start]]
            for form in self.names.families.get(family, ()):
                if _agree(said, self.names.given[form.entity], family):
                    return _Run(first, last, form, 100.0, first, last)
        return None

    def _misspelt(self, first: int, last: int) -> _Run | None:
        """Match a full name whose every word is close to the candidate's."""
        keys = [word.key for word in self.words[first:last]]
        joined = "".join(keys)
        choices = self.names.full.get(len(keys))
        if choices is None or len(joined) < FUZZY_LETTERS:
            return None
        for key, score, _ in process.extract(joined, choices, scorer=fuzz.ratio, score_cutoff=FUZZY_LEAST, limit=3):
            if all(map(_close, keys, self.names.parts[key])):
                return _Run(first, last, self.names.forms[key], score, first, last)
        return None

    def _cut_off(self) -> _Run | None:
        """Match a name that the end of the text cuts off, where only one candidate's begins so."""
        if not self.answer.cut:
            return None
        last = len(self.words)
        first = last
        while first > 0 and (first == last or self.clauses.soft(first)) and self._cut_part(first - 1):
            first -= 1
        while first < last and self._neutral(first):
            first += 1
        if first == last or self.clauses.place(first, last, known=True, teams=self.names.teams) is not Place.ANSWER:
            return None
        return self._completed(first, last)

    def _cut_part(self, at: int) -> bool:
        return self._like_name(at) or self.words[at].key in word_list("particles")

    def _completed(self, first: int, last: int) -> _Run | None:
        keys = [word.key for word in self.words[first:last]]
        key = "".join(keys)
        refused = self.names.forms.get(key)
        if key in word_list("shared_cities") or key in word_list("particles"):
            return None
        if refused is not None and refused.rule is not Rule.GIVEN:
            return None
        begun = [form for form in self.names.forms.values() if form.key.startswith(key) and _goes_on(form, keys)]
        begun = [form for form in begun if form.entity not in self.names.national]
        sure = len(keys) > 1 or any(form.rule is Rule.LABEL for form in begun)
        alone = sure and len({form.entity for form in begun}) == 1
        return _Run(first, last, min(begun), 100.0, first, last) if alone else None


def _goes_on(form: Form, begun: Sequence[str]) -> bool:
    """Tell whether a full name may be what a cut-off one began; "Charles II" begins no "Charles III"."""
    if form.rule > Rule.FORM or form.size < 2:
        return False
    parts = form.alias.split()
    if len(begun) == 1:
        return words(form.alias)[0].key == begun[0]
    return len(parts) < len(begun) or not is_numeral(parts[len(begun) - 1])


def _agree(said: Sequence[str], name: Sequence[str], family: str) -> bool:
    """Tell whether first names, some of them initials, agree with a candidate's; further ones may only be initials."""
    given = [word for word in name if word not in family]
    if not any(len(word) == 1 for word in (*said, *given)) or not given:
        return False
    if any(len(word) > 1 for word in said[len(given) :]):
        return False
    return all(a.startswith(b) or b.startswith(a) for a, b in zip(said, given, strict=False))


def _close(said: str, name: str) -> bool:
    """Tell whether a word may be a name's misspelt word; a king's number is never misspelt."""
    if is_numeral(said.upper()) or is_numeral(name.upper()):
        return said == name
    return fuzz.ratio(said, name) >= FUZZY_WORD or sound(said) == sound(name)
