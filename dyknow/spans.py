"""Finds in an answer the runs of words that stand together like a name, and tells whose name each is."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rapidfuzz import fuzz, process

from dyknow.candidates import FUZZY_LETTERS, Names
from dyknow.clauses import NEUTRAL, Clauses
from dyknow.names import Form, Rule, is_numeral, keys_of, sound, word_list
from dyknow.scaffold import Answer

_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv"))
_SON_OF: Final = word_list("son_of")
_LONGEST: Final = 24
"""Words of a run at most: no name is longer, and a model may repeat one for ever."""


class Cutoffs(NamedTuple):
    """How near a misspelt full name must be to a candidate's, in rapidfuzz's ratio from 0 to 100."""

    name: float  # of the whole names' keys
    word: float  # of each word to the word in its place; or both sound alike


class Run(NamedTuple):
    """Words that stand together like a name, and whose name it is."""

    first: int
    last: int  # exclusive
    form: Form | None
    score: float
    begins: int  # where the words that stand with it begin: titles, "Socialist"
    ends: int  # exclusive; where they end


class Runs:
    """The runs of one answer."""

    def __init__(self, answer: Answer, names: Names, clauses: Clauses, cutoffs: Cutoffs) -> None:
        self.answer = answer
        self.words = answer.words
        self.names = names
        self.clauses = clauses
        self.question = clauses.question
        self.cutoffs = cutoffs
        self.lower = True not in [word.capital for word in self.words]

    def all(self) -> Iterable[Run]:
        """Yield the runs in their order."""
        at, begin = 0, self.names.begin
        while at < len(self.words):
            end = at + 1
            if self.like_name(at):
                end = self._run_end(at)
                run = self._resolve(at, end)
            else:
                run = self._written_small(at) if self.words[at].key in begin else None
            if run is not None:
                yield run
                end = max(end, run.last)
            at = end

    def like_name(self, at: int) -> bool:
        """Tell whether a word may belong to a name."""
        word = self.words[at]
        if not self.lower:
            return word.capital
        return word.key not in word_list("plain") and not word.key.isdigit() and not self.clauses.owned(at)

    def _run_end(self, at: int) -> int:
        """Return where the run that starts at a word ends."""
        end = at + 1
        while end < min(len(self.words), at + _LONGEST) and self.clauses.soft(end):
            if self.like_name(end) or self.clauses.hyphen(end):
                end += 1
                continue
            past = end
            while past < len(self.words) and self.words[past].key in word_list("particles") and self.clauses.soft(past):
                past += 1
            if past == end or past == len(self.words) or not (self.clauses.soft(past) and self.like_name(past)):
                break
            end = past + 1
        return end

    def _written_small(self, at: int) -> Run | None:
        """Find a full name of several words written without capitals."""
        key, found = self.words[at].key, None
        for end in range(at + 1, min(at + 5, len(self.words))):
            if not self.clauses.soft(end):
                break
            key += self.words[end].key
            form = self.names.forms.get(key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1:
                found = Run(at, end + 1, form, 100.0, at, end + 1)
        return found

    def neutral(self, at: int) -> bool:
        """Tell whether a word may stand before or after a name and names nobody: a title, an office, "the"."""
        word = self.words[at]
        key = word.key
        if len(key) == 1 and at > 0 and key != "m" and self.answer.text[word.end : word.end + 1] == ".":
            return False
        return key in NEUTRAL or key in self.question

    def _resolve(self, first: int, last: int) -> Run | None:
        """Find whose name a run is; None where it is no name at all."""
        if last - first == 1:
            key = self.words[first].key
            if key not in self.names.forms and key not in self.names.begin and self.neutral(first):
                return None
        found = self._beyond(first, last) or self._whole(first, last) or self._inside(first, last)
        if found is not None:
            return found
        begins, ends = first, last
        while first < last and self.neutral(first):
            first += 1
        while first < last and self.neutral(last - 1) and self.words[last - 1].key not in word_list("titles"):
            last -= 1
        if first == last:
            return None
        found = self._with_middle(first, last) or self._initialled(first, last) or self._misspelt(first, last)
        found = found or self._misspelt(begins, ends)
        if found is None and last - first > 1 and self.words[first].key == self.words[first + 1].key:
            once = first + 1
            while once + 1 < last and self.words[once].key == self.words[once + 1].key:
                once += 1
            again = self._resolve(once, last)  # "Boric Boric"
            found = again._replace(first=first, begins=begins) if again and again.form else None
        return found or Run(first, last, None, 0.0, begins, ends)

    def _form(self, first: int, last: int) -> Form | None:
        """Look a span up; words of the question alone are nobody's name."""
        span = self.words[first:last]
        form = self.names.forms.get("".join([word.key for word in span]) if last - first > 1 else span[0].key)
        return None if form is None or all(word.key in self.question for word in span) else form

    def _whole(self, first: int, last: int) -> Run | None:
        """Match a run that is a form, but for titles, offices and words of the question around it."""
        end = last
        while end > first:
            start = first
            while start < end:
                form = self._form(start, end)
                if form is not None and self._fits(form, start, end):
                    return Run(start, end, form, 100.0, first, end)
                if not self.neutral(start):
                    break
                start += 1
            if not self.neutral(end - 1) or len(self.words[end - 1].key) == 1:
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

    def _beyond(self, first: int, last: int) -> Run | None:
        """Match a full name that goes on in small letters: "Brazil national team"."""
        start = first
        while start < last:
            end, found = last, None
            while end < len(self.words) and self.clauses.soft(end) and end - start < self.names.longest:
                end += 1
                form = self._form(start, end)
                if form is not None and form.rule <= Rule.FORM:
                    found = Run(start, end, form, 100.0, first, end)
            if found is not None or not self.neutral(start):
                return found
            start += 1
        return None

    def _inside(self, first: int, last: int) -> Run | None:
        """Match a full name within a longer run: "Socialist François Hollande"."""
        for start in range(first, last - 1):
            for end in range(min(last, start + self.names.longest), start + 1, -1):
                form = self._form(start, end)
                if form is None or form.size < 2 or self._another(end, last) or self._father(start):
                    continue
                if self._numbered(end - 1) and start > first and not self.neutral(start - 1):
                    continue  # "Carlos I" in "Juan Carlos I"
                if form.rule <= Rule.FORM or (form.rule is Rule.SHORT and self._father(end)):
                    return Run(start, end, form, 100.0, first, end)
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

    def _with_middle(self, first: int, last: int) -> Run | None:
        """Match a full name with initials, middle names or a second family name that the candidate's label lacks."""
        if self.names.teams or not 2 < last - first < 8:
            return None
        keys = [word.key for word in self.words[first:last]]
        family = keys[-2:] if keys[-1] in _SUFFIXES else keys[-1:]
        for key in ("".join(key for key in keys if len(key) > 1), keys[0] + "".join(family)):
            form = self.names.forms.get(key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1:
                return Run(first, last, form, 100.0, first, last)
        if keys[-1] in _SUFFIXES:
            return None
        for at in range(last - 2, first + 1, -1):
            form = self.names.forms.get(keys[0] + self.words[at].key)
            if form is not None and form.rule <= Rule.FORM and form.size > 1 and not self._father(at):
                return Run(first, last, form, 100.0, first, last)
        return None

    def _initialled(self, first: int, last: int) -> Run | None:
        """Match a surname whose first names agree, some as initials: "B. Obama", "Ramaswamy" for R. Venkataraman."""
        for start in range(first + 1, last):
            family = "".join(word.key for word in self.words[start:last])
            said = [word.key for word in self.words[first:start]]
            for form in self.names.families.get(family, ()):
                if _agree(said, self.names.given[form.entity], family):
                    return Run(first, last, form, 100.0, first, last)
        return None

    def _misspelt(self, first: int, last: int) -> Run | None:
        """Match a full name whose every word is close to the candidate's."""
        keys = [word.key for word in self.words[first:last]]
        joined = "".join(keys)
        choices = self.names.full.get(len(keys))
        if choices is None or len(joined) < FUZZY_LETTERS:
            return None
        for key, score, _ in process.extract(
            joined, choices, scorer=fuzz.ratio, score_cutoff=self.cutoffs.name, limit=3
        ):
            if all(_close(a, b, self.cutoffs.word) for a, b in zip(keys, self.names.parts[key], strict=False)):
                return Run(first, last, self.names.forms[key], score, first, last)
        return None

    def completed(self, first: int, last: int) -> Run | None:
        """Return the only candidate's name that begins with the words at the end of a text that was cut off."""
        keys = [word.key for word in self.words[first:last]]
        key = "".join(keys)
        refused = self.names.forms.get(key)
        if key in word_list("shared_cities") or key in word_list("particles"):
            return None
        if refused is not None and refused.rule is not Rule.GIVEN:
            return None
        begun = [form for form in self._beginning(key) if form.entity not in self.names.national]
        begun = [form for form in begun if _goes_on(form, keys)]
        sure = len(keys) > 1 or any(form.rule is Rule.LABEL for form in begun)
        alone = sure and len({form.entity for form in begun}) == 1
        return Run(first, last, min(begun), 100.0, first, last) if alone else None

    def _beginning(self, key: str) -> Iterator[Form]:
        """Yield the forms that begin with a key."""
        ordered = self.names.ordered
        for at in range(bisect_left(ordered, key), len(ordered)):
            if not ordered[at].startswith(key):
                break
            yield self.names.forms[ordered[at]]


def _goes_on(form: Form, begun: Sequence[str]) -> bool:
    """Tell whether a full name may be what a cut-off one began; "Charles II" begins no "Charles III"."""
    if form.rule > Rule.FORM or form.size < 2:
        return False
    parts = form.alias.split()
    if len(begun) == 1:
        return keys_of(form.alias)[0] == begun[0]
    return len(parts) < len(begun) or not is_numeral(parts[len(begun) - 1])


def _agree(said: Sequence[str], name: Sequence[str], family: str) -> bool:
    """Tell whether first names, some of them initials, agree with a candidate's; further ones may only be initials."""
    given = [word for word in name if word not in family]
    if not any(len(word) == 1 for word in (*said, *given)) or not given:
        return False
    if any(len(word) > 1 for word in said[len(given) :]):
        return False
    return all(a.startswith(b) or b.startswith(a) for a, b in zip(said, given, strict=False))


def _close(said: str, name: str, least: float) -> bool:
    """Tell whether a word may be a name's misspelt word; a king's number is never misspelt."""
    if is_numeral(said.upper()) or is_numeral(name.upper()):
        return said == name
    return fuzz.ratio(said, name) >= least or sound(said) == sound(name)
