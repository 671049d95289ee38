"""How the questions of a generated benchmark are worded: phrasings by property, and the grammar of subjects' names.

Both stand in ``data/phrasings.toml``, which explains its signs. A group of a benchmark has one wording for all its
subjects, so subjects that need another article or number go into a group beside: ``head-coaches-the-plural``.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dyknow import prompts
from dyknow.prompts import TemplateError
from dyknow.tomlfile import Table, read

TABLE: Final = Path(__file__).resolve().parent / "data" / "phrasings.toml"

ENGLISH: Final = ("en", "mul")
"""Languages of labels that English grammar is used on; any other label stands in a sentence as it is."""

_PIECE: Final = re.compile(r"\{([^{}]*)\}")
_LISTS: Final = ("begins", "within", "ends", "whole", "except", "keeps_the", "relations", "nicknamed", "plural")
_KEYS: Final = ("id", "group", "domain", "asks", "phrasings", "office", "relation")


class Form(NamedTuple):
    """What a subject's name needs around it."""

    article: bool = False
    plural: bool = False

    @property
    def suffix(self) -> str:
        """What the groups of such subjects have after their name."""
        return ("-the" if self.article else "") + ("-plural" if self.plural else "")


class Named(NamedTuple):
    """A subject's name as sentences have it, and its grammar."""

    mention: str
    form: Form
    full: str  # with the article, where that is part of the label: "The Weeknd"


@dataclass(frozen=True)
class Grammar:
    """Which names take an article, and which are plural.

    Attributes:
        words: The lists of ``data/phrasings.toml``, by their keys.
    """

    words: Mapping[str, tuple[str, ...]]

    def of(self, label: str, language: str, classes: Collection[str] = ()) -> Named:
        """Return how a subject is named in an English sentence.

        Args:
            label: Its label.
            language: The label's language; only English ones are declined.
            classes: What it is an instance of, as far as that is known.
        """
        if language not in ENGLISH or not _is_latin(label):
            return Named(label, Form(), label)
        if label.startswith(("The ", "the ")) and label not in self.words["keeps_the"]:
            bare = label[4:].lstrip()
            return Named(bare, Form(article=True, plural=self._is_plural(bare, classes)), label)
        return Named(label, Form(self._takes_article(label, classes), self._is_plural(label, classes)), label)

    def is_relation(self, property_label: str) -> bool:
        """Tell whether a property's label is no noun but leads to its value: "named after", "member of"."""
        return property_label.rpartition(" ")[2] in self.words["relations"]

    def _takes_article(self, label: str, classes: Collection[str]) -> bool:
        if label in self.words["except"] or label in self.words["keeps_the"]:
            return False
        if label in self.words["whole"] or not {*classes}.isdisjoint(self.words["nicknamed"]):
            return True
        last = label.rpartition(" ")[2]
        several = " " in label and "," not in label
        begins = any(label.startswith(f"{words} ") or label == words for words in self.words["begins"])
        within = any(f" {words} " in f" {label}" for words in self.words["within"])
        return several and (begins or within or last in self.words["ends"])

    def _is_plural(self, label: str, classes: Collection[str]) -> bool:
        ends = label.endswith("s") and not label.endswith(("ss", "us", "is"))
        return ends and not {*classes}.isdisjoint(self.words["plural"])


def _is_latin(label: str) -> bool:
    """Tell whether all letters are Latin ones; a label for all languages ("mul") may be in any script."""
    return label.isascii() or all(unicodedata.name(c, "").startswith("LATIN") for c in label if c.isalpha())


@dataclass(frozen=True)
class Wording:
    """How the facts of one property are asked.

    Attributes:
        office: The phrasings where an office's title is known; empty: there are none.
        relation: The phrasings where the property's label is no noun (see ``Grammar.is_relation``); empty: the others.
    """

    group: str
    domain: str
    asks: str | None
    phrasings: tuple[str, ...]
    office: tuple[str, ...]
    relation: tuple[str, ...] = ()

    @property
    def declines(self) -> bool:
        """Whether the phrasings say where an article goes; those about people do not."""
        return any("he subject}" in template for template in self.phrasings)


@dataclass(frozen=True)
class Phrasings:
    """The phrasings of all properties, and the grammar."""

    grammar: Grammar
    by_property: Mapping[str, Wording]
    default: Wording

    def wording(self, prop: str) -> Wording:
        """Return how a property is asked; one that is not listed, by its label."""
        return self.by_property.get(prop, self.default)


class Asked(NamedTuple):
    """The group that a fact goes into."""

    group: str
    domain: str
    asks: str | None
    phrasings: dict[str, str]
    mention: str
    office: str | None


def ask(phrasings: Phrasings, prop: str, property_label: str, named: Named, office: str | None) -> Asked:
    """Return the group, the phrasings and the words for a subject whose property is asked.

    The office's title is used where there are phrasings for it and it names the subject.
    """
    wording = phrasings.wording(prop)
    name = wording.group if prop in phrasings.by_property else f"{wording.group}-{prop}"
    if office and wording.office and _names(office, named.mention):
        texts = {str(number): template for number, template in enumerate(wording.office, 1)}
        return Asked(f"{name}-by-office", wording.domain, wording.asks, texts, named.mention, office)
    related = wording.relation if phrasings.grammar.is_relation(property_label) else ()
    templates = related or wording.phrasings
    texts = {str(number): expand(template, named.form, property_label) for number, template in enumerate(templates, 1)}
    suffix = _suffix(templates, named.form)
    mention = named.mention if wording.declines else named.full
    return Asked(name + suffix, wording.domain, wording.asks, texts, mention, None)


def _suffix(templates: Sequence[str], form: Form) -> str:
    """Return what the group of subjects of a form has after its name: only what changes a word of its phrasings."""
    used = [Form(form.article), Form(plural=form.plural)]
    differs = [any(expand(text, one) != expand(text, Form()) for text in templates) for one in used]
    return Form(*differs).suffix


def _names(office: str, mention: str) -> bool:
    try:
        prompts.fill("{office}", mention, office)
    except TemplateError:
        return False
    return True


def expand(template: str, form: Form, property_label: str = "") -> str:
    """Return a phrasing of the table as one of a benchmark, for subjects of a form.

    >>> expand("{The subject} {is|are} coached by", Form(article=True, plural=True))
    'The {subject} are coached by'
    >>> expand("The {property} of {the subject} is", Form(), "anthem")
    'The anthem of {subject} is'
    """

    def piece(found: re.Match[str]) -> str:
        name = found[1]
        if name in ("the subject", "The subject"):
            return f"{name[:4] if form.article else ''}{{subject}}"
        if "|" in name:
            return name.split("|")[form.plural]
        return property_label.replace("{", "(").replace("}", ")") if name == "property" else found[0]

    return _PIECE.sub(piece, template)


def load(path: Path | None = None) -> Phrasings:
    """Return the phrasings of a file, or those that ship.

    Raises:
        DataError: a key is misspelt, missing or of the wrong type, or a phrasing cannot be filled; the message names
            file, line and value.
    """
    top = read(path or TABLE, "a table of phrasings")
    top.only(("grammar", "property", "default"))
    shipped = None if path is None else load()
    found = {table.text("id"): _wording(table) for table in top.tables("property", "a property")}
    if "default" in top.values or shipped is None:
        default = _wording(top.table("default", "the default"))
    else:
        default = shipped.default
    grammar = _grammar(top.table("grammar", "the grammar"), shipped)
    return Phrasings(grammar, {**(shipped.by_property if shipped else {}), **found}, default)


def _grammar(table: Table, shipped: Phrasings | None) -> Grammar:
    table.only(_LISTS)
    words = dict(shipped.grammar.words) if shipped else {}
    return Grammar(words | {key: _texts(table, key) for key in _LISTS if key in table.values or shipped is None})


def _wording(table: Table) -> Wording:
    table.only(_KEYS)
    found = _texts(table, "phrasings")
    office, relation = (_texts(table, key) if key in table.values else () for key in ("office", "relation"))
    if not found:
        raise table.error("there is no phrasing.", "phrasings")
    for template in (*found, *office, *relation):
        for form in (Form(), Form(True, True)):
            try:
                prompts.check(expand(template, form, "label"))
            except TemplateError as error:
                raise table.error(f"phrasing {template!r}: {error}.", "phrasings", hint=error.hint) from error
    return Wording(table.text("group"), table.text("domain"), table.optional("asks"), found, office, relation)


def _texts(table: Table, key: str) -> tuple[str, ...]:
    value = table.values.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise table.error(f"{key!r} is {value!r}, which is no list of texts.", key, hint='Write ["…", "…"].')
    return tuple(value)
