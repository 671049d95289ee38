"""How names are really written: the forms under which a text may name a person, a team or a place.

A form is a key: its words folded (no accents, no case) and joined without spaces, so that "A.C. Milan" and "AC Milan",
"Chan-o-cha" and "Chan-ocha" are one. Keys are looked up between word boundaries only, so a name never matches inside a
word, and a form that folds to nothing has no key.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations, dropwhile, pairwise
from typing import Any, Final, NamedTuple

_UNFOLDED: Final = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ħ": "h", "ŋ": "n"}
)
"""Letters that have no accent in Unicode's eyes and so survive NFKD."""

_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
"""How these letters are written where they are missing, besides being stripped."""

_WORDS: Final = re.compile(r"([\W_]*)([^\W_](?:[^\W_]|[\u0300-\u036f])*|\Z)")
"""What stands before a word, and the word with its accents; the end counts as a word, lest it be searched for anew."""
_ASCII_WORDS: Final = re.compile(r"([^A-Za-z0-9]*)([A-Za-z0-9]+|\Z)")
_ROMAN: Final = re.compile(r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})")
_EPITHET: Final = re.compile(r",? (?:King |Queen |Emperor )?of (?:the )?[A-Z].*$")


_PARTICLES: Final = re.compile(r"^(?:[a-zà-ÿ]+ )+")
"""What stands before a family name and may be left out: "van Beurden"."""


_MANY: Final = 16
"""Later names of which any may be left out; more double the forms with each, and are the title of a law."""
_ARTICLE: Final = re.compile(r"^(?:[aA]l|[eE]l)[- ](?=\w)")
_DOTTED: Final = re.compile(r"(?:\w\.)+")
_CAPITAL_PARTICLES: Final = ("Al", "El", "Bin", "Ibn", "Van", "Von", "De", "Di", "Da")

_SOUNDS: Final = (
    (re.compile(r"tsch|tch|dzh|dj|zh|sh|ts|tz|x"), "s"),
    (re.compile(r"(?<=[^aeiou])h|ck(?=\w)"), ""),
    (re.compile(r"[gqc]"), "k"),
    (re.compile(r"w(?=[aeiou])"), "v"),
    (re.compile(r"[sz]"), "s"),
    (re.compile(r"[aeiouyjw]+"), "a"),
    (re.compile(r"(.)\1+"), r"\1"),
)
"""What one name's spellings in our letters differ by, replaced in this order: Medvedev, Medvedyev; Rashid, Rasheed."""


class Rule(IntEnum):
    """Why a form names an entity; where two entities share a form, the lower rule has it."""

    LABEL = 0  # the name the snapshot gives
    ALIAS = 1  # another name of the snapshot, or of the alias file
    FORM = 2  # the name without initials, epithet, club suffix; another order, spelling or short first name
    SHORT = 3  # first name and a later one
    REGNAL = 4  # a royal name without its number
    SURNAME = 5  # the last names alone
    GIVEN = 6  # the first name alone: counts only after a title or where the text is cut off

    @property
    def words(self) -> str:
        """The rule as a verdict explains it."""
        return _RULE_WORDS[self]


_RULE_WORDS: Final = {
    Rule.LABEL: "label",
    Rule.ALIAS: "alias",
    Rule.FORM: "other form",
    Rule.SHORT: "short form",
    Rule.REGNAL: "royal name",
    Rule.SURNAME: "surname",
    Rule.GIVEN: "first name",
}


class Word(NamedTuple):
    """A word of a text."""

    start: int
    end: int
    key: str  # folded
    capital: bool


class Form(NamedTuple):
    """A form that names one entity among a fact's candidates."""

    key: str
    size: int  # words
    entity: str
    alias: str
    rule: Rule


class Named(NamedTuple):
    """What the rules need to know of a candidate."""

    entity: str
    label: str
    others: tuple[str, ...]
    team_class: str | None
    first_day: int | None


def fold(word: str) -> str:
    """Strip accents and case, and every sign that is no letter or digit.

    >>> fold("Erdoğan"), fold("Yıldırım"), fold("Løkke"), fold("A.C.")
    ('erdogan', 'yildirim', 'lokke', 'ac')
    """
    return _fold(word) if len(word) < _LONG else _fold.__wrapped__(word)


@lru_cache(maxsize=1 << 14)
def _fold(word: str) -> str:
    plain = word
    for _ in range(2):  # Unicode's caseless form: decomposing can yield a capital, and small letters an accent
        plain = unicodedata.normalize("NFKD", plain.casefold().translate(_UNFOLDED))
    return "".join(sign for sign in plain if sign.isalnum())


@lru_cache(maxsize=1 << 14)
def sound(key: str) -> str:
    """Return what the spellings of a name's word have in common.

    >>> sound("medvedyev") == sound("medvedev"), sound("rasheed") == sound("rashid"), sound("keun") == sound("geun")
    (True, True, True)
    """
    for pattern, plain in _SOUNDS:
        key = pattern.sub(plain, key)
    return key


_LONG: Final = 64
"""Signs of a word that is not worth remembering: no name, but a line of signs without a blank."""


@lru_cache(maxsize=1 << 16)
def _reading(word: str) -> tuple[str, bool]:
    """Return a word's key and whether it is written like a name: with a capital, or in letters that know none."""
    key = word.lower() if word.isascii() else fold(word)
    return key, word[:1].isalpha() and not word[0].islower()


def words(text: str, start: int = 0) -> list[Word]:
    """Split a text into words whose spans refer to it, from a place on that is between two words.

    >>> [word.key for word in words("Côte d’Ivoire: A.C. Milan")]
    ['cote', 'd', 'ivoire', 'a', 'c', 'milan']
    """
    found = []
    make, kind = tuple.__new__, Word  # half the time of calling Word
    known, read = _reading, _reading.__wrapped__
    pattern, place = _ASCII_WORDS if text.isascii() else _WORDS, start
    for gap, word in pattern.findall(text, start):
        begin = place + len(gap)
        place = begin + len(word)
        key, capital = known(word) if len(word) < _LONG else read(word)
        if key:
            found.append(make(kind, (begin, place, key, capital)))
    return found


def keys_of(text: str) -> tuple[str, ...]:
    """Return the keys of a text's words.

    >>> keys_of("Côte d’Ivoire")
    ('cote', 'd', 'ivoire')
    """
    return tuple([key for part in text.split(" ") for key in _part_keys(part)])


@lru_cache(maxsize=1 << 14)
def _part_keys(part: str) -> tuple[str, ...]:
    return tuple([word.key for word in words(part)])


def key_of(text: str) -> str:
    """Return the key of a form; empty where it has no letter or digit."""
    return "".join(keys_of(text))


@cache
def word_list(name: str) -> frozenset[str]:
    """Return one of the lists of data/words.toml."""
    return frozenset(_words_file()[name].split())


@cache
def word_lines(name: str) -> tuple[str, ...]:
    """Return one of its lists whose lines each stand for one thing."""
    return tuple(_words_file()[name])


@cache
def _words_file() -> dict[str, Any]:
    return tomllib.loads(files("dyknow").joinpath("data/words.toml").read_text(encoding="utf-8"))


@cache
def _same(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return word -> its equals, of a list whose lines are words for one name."""
    lines = [tuple(map(fold, line.split())) for line in word_lines(name)]
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        for word in line:
            found[word] = (*found.get(word, ()), *(other for other in line if other != word))
    return found


def is_numeral(word: str) -> bool:
    """Tell whether a word is a Roman numeral, as kings and sons bear them.

    >>> is_numeral("XVI"), is_numeral("Vi"), is_numeral("X")
    (True, False, True)
    """
    return _ROMAN.fullmatch(word) is not None


class Spelling(NamedTuple):
    """A form of a candidate's name, whoever else may bear it."""

    alias: str
    rule: Rule
    key: str
    size: int  # words


def spellings(candidate: Named) -> list[Spelling]:
    """Return a candidate's forms, each once with its lowest rule; what folds to nothing is none."""
    lowest: dict[str, Rule] = {}
    for alias, rule in _all_forms(candidate):
        known = lowest.get(alias)
        if known is None or rule < known:
            lowest[alias] = rule
    found = []
    for alias, rule in lowest.items():
        keys = keys_of(alias)
        if keys:
            found.append(Spelling(alias, rule, "".join(keys), len(keys)))
    return found


def forms(candidates: Iterable[tuple[Named, Sequence[Spelling]]]) -> dict[str, Form]:
    """Return every form of the candidates by its key; one that two entities share and no rule settles is left out.

    The lowest rule has a key, and of several holders the one who came last: a bare name means its latest bearer, as
    people say it: "Queen Elizabeth", "President Roosevelt". A first name alone is too little for that.
    """
    best: dict[str, tuple[tuple[Rule, int, str], Form]] = {}
    shared = set()
    for candidate, own in candidates:
        day, entity = -(candidate.first_day or 0), candidate.entity
        for alias, rule, key, size in own:
            claim, held = (rule, day, entity), best.get(key)
            if held is None or claim < held[0]:
                best[key] = claim, Form(key, size, entity, alias, rule)
            if held is not None and rule is held[0][0] is Rule.GIVEN and entity != held[0][2]:
                shared.add(key)
    return {key: form for key, (_, form) in best.items() if form.rule is not Rule.GIVEN or key not in shared}


def families(candidates: Iterable[tuple[Named, Sequence[Spelling]]]) -> dict[str, list[Form]]:
    """Return the surnames of the candidates with all who bear them, whoever came last first."""
    found: dict[str, list[Form]] = {}
    for candidate, own in sorted(candidates, key=lambda one: (-(one[0].first_day or 0), one[0].entity)):
        if candidate.team_class:
            continue
        for alias, rule, key, size in own:
            if rule is Rule.SURNAME or (rule is Rule.ALIAS and " " not in alias):
                found.setdefault(key, []).append(Form(key, size, candidate.entity, alias, Rule.SURNAME))
    return found


def _all_forms(candidate: Named) -> Iterator[tuple[str, Rule]]:
    names = [(candidate.label, Rule.LABEL), *((name, Rule.ALIAS) for name in candidate.others)]
    for name, rule in names:
        yield name, rule
        rules = _team_forms if candidate.team_class else _person_forms
        yield from rules(name)


# Teams and places


def _team_forms(label: str) -> Iterator[tuple[str, Rule]]:
    """Drop what says that it is a club; a national team goes by "Brazil national team" too."""
    parts = label.split()
    drop = word_list("designators")
    first, last = 0, len(parts)
    while first < last - 1 and fold(parts[first]) in drop:
        first += 1
    while last > first + 1 and fold(parts[last - 1]) in drop:
        last -= 1
    bare = " ".join(parts[first:last])
    yield bare, Rule.FORM
    country, whole, _ = label.partition(" national ")
    if not whole:
        yield f"{bare} FC", Rule.FORM
    elif "under-" not in label:
        senior = country.removesuffix(" men's")
        yield f"{senior} national team", Rule.FORM
        yield f"{senior} national football team", Rule.FORM


# People


def _person_forms(label: str) -> Iterator[tuple[str, Rule]]:
    name, _, peerage = label.partition(", ")
    if peerage:
        yield name, Rule.FORM
        yield from _peerage(peerage)
    if name.startswith("City of "):
        yield name.removeprefix("City of "), Rule.FORM
        return
    royal = _royal(label)
    if royal is not None:
        yield from _royal_forms(royal)
        return
    units = _units(name)
    yield from ((form, rule) for form, rule in _plain_forms(units) if form != label)
    expanded = label.translate(_UMLAUTS)
    if expanded != label:
        yield from ((form, max(rule, Rule.FORM)) for form, rule in _plain_forms(_units(expanded.partition(", ")[0])))


def _peerage(title: str) -> Iterator[tuple[str, Rule]]:
    """Return how a peer is called: "Baron Robertson of Port Ellen" is Lord Robertson."""
    match = re.match(r"(?:\d+\w\w )?(Baron|Viscount|Earl) (.+?)(?: of .+)?$", title)
    if match:
        yield f"Lord {match[2]}", Rule.FORM
        yield f"{match[1]} {match[2]}", Rule.FORM


class _Royal(NamedTuple):
    names: tuple[str, ...]  # those before the number
    number: str
    after: tuple[str, ...]  # those after it: "Gustaf" of Carl XVI Gustaf


def _royal(label: str) -> _Royal | None:
    """Read a royal name: one with a number or an epithet, or a single word."""
    bare = _EPITHET.sub("", label)
    parts = list(dropwhile(lambda part: fold(part) in word_list("titles"), bare.split(", ")[0].split()))
    numbers = [at for at, part in enumerate(parts) if at and is_numeral(part)]
    if numbers:
        at = numbers[0]
        return _Royal(tuple(parts[:at]), parts[at], tuple(parts[at + 1 :]))
    if parts and (bare != label or len(parts) == 1):
        return _Royal(tuple(parts), "", ())
    return None


def _royal_forms(royal: _Royal) -> Iterator[tuple[str, Rule]]:
    for first in (royal.names[0], *_same("regnal").get(fold(royal.names[0]), ())):
        head = [first, *royal.names[1:]]
        for after in _afters(royal.after):
            if royal.number:
                yield " ".join([*head, royal.number, *after]), Rule.FORM
            yield " ".join([*head, *after]), Rule.REGNAL
        yield " ".join([*head, royal.number or "I"]), Rule.FORM
    yield " ".join(royal.names), Rule.REGNAL


def _afters(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return the names after a king's number, in each of their tongues: Gustaf, Gustav."""
    yield names
    if names:
        yield from ((other, *names[1:]) for other in _same("regnal").get(fold(names[0]), ()))


class _Unit(NamedTuple):
    """A part of a name that is kept or dropped as one: "de la Huerta", "Chan-o-cha", "bin Zayed"."""

    text: str
    initial: bool = False


def _units(name: str) -> list[_Unit]:
    """Split a name, gluing particles to what follows and leaving out titles, numbers, "Jr."."""
    units: list[_Unit] = []
    particles: list[str] = []
    for part in name.split():
        key = fold(part)
        if not units and not particles and key in word_list("titles"):
            continue
        if part[0].islower() or (part in _CAPITAL_PARTICLES and units):
            particles.append(part)
        elif len(key) == 1 or _DOTTED.fullmatch(part):
            units.append(_Unit(" ".join([*particles, part]), initial=True))
            particles = []
        elif key not in ("jr", "sr"):
            units.append(_Unit(" ".join([*particles, part])))
            particles = []
    if particles:
        units.append(_Unit(" ".join(particles)))
    return units


def _plain_forms(units: Sequence[_Unit]) -> Iterator[tuple[str, Rule]]:
    """Return the forms of an ordinary name from its units."""
    spoken = [unit.text for unit in units if not unit.initial]
    if not spoken:
        return
    yield " ".join(unit.text for unit in units), Rule.FORM
    yield from _shortened(units)
    if len(spoken) > 1:
        for given in (spoken[0], *_equals(spoken[0])):
            yield from _with_given(given, spoken[1:])
        yield " ".join([*spoken[1:], spoken[0]]), Rule.FORM
        yield " ".join([spoken[-1], *spoken[:-1]]), Rule.FORM
        yield from _family(spoken)


def _shortened(units: Sequence[_Unit]) -> Iterator[tuple[str, Rule]]:
    """Drop the Arabic article and the initials, each alone and both."""
    whole = [(unit.text, unit.initial) for unit in units]
    without = [(_no_article(text), initial) for text, initial in whole]
    yield " ".join([text for text, _ in without]), Rule.FORM
    for some in (whole, without) if without != whole else (whole,):
        yield " ".join([text for text, initial in some if not initial]), Rule.FORM


def _equals(given: str) -> tuple[str, ...]:
    key = fold(given)
    return (*_same("given").get(key, ()), *_same("spellings").get(key, ()))


def _with_given(given: str, rest: Sequence[str]) -> Iterator[tuple[str, Rule]]:
    """Join a first name with all later ones, or with some of them in their order; with one or two of very many."""
    yield " ".join([given, *rest]), Rule.FORM
    bare = [_no_article(one) for one in rest]
    article = bare != rest
    if article:
        yield " ".join([given, *bare]), Rule.FORM
    for size in range(1, len(rest)) if len(rest) <= _MANY else (1, 2):
        for some in combinations(rest, size):
            rule = Rule.FORM if some[-1] == rest[-1] else Rule.SHORT
            yield " ".join([given, *some]), rule
            if article:
                yield " ".join([given, *map(_no_article, some)]), rule


def _family(spoken: Sequence[str]) -> Iterator[tuple[str, Rule]]:
    """Return the last names alone; of an Arabic "X bin Y" the first name stands for them."""
    of_father = any(unit.startswith(("bin ", "ibn ", "bint ")) for unit in spoken[1:])
    for first in (spoken[0], *_equals(spoken[0])):
        yield first, _alone(spoken, of_father=of_father)
    if of_father:
        return
    for at in range(1, len(spoken)):
        family = " ".join(spoken[at:])
        yield family, Rule.SURNAME
        yield _no_article(family), Rule.SURNAME
        if " " in family:
            yield _PARTICLES.sub("", family), Rule.SURNAME
    for first, second in pairwise(spoken[1:]):
        yield f"{first} {second}", Rule.SURNAME


def _alone(spoken: Sequence[str], *, of_father: bool) -> Rule:
    """Return what the first of several names means alone: of a Chinese or Korean one it is the family's."""
    if fold(spoken[0]) in word_list("family_first"):
        return Rule.SURNAME
    return Rule.REGNAL if of_father else Rule.GIVEN


def _no_article(unit: str) -> str:
    return _ARTICLE.sub("", unit) if unit.startswith(("al", "Al", "el", "El")) else unit
