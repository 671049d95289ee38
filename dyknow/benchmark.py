"""The benchmark: which facts are asked, and in which words.

A benchmark is a TOML file of groups; a group is a few phrasings and the facts they are put to::

    name = "example"

    [[group]]
    name = "singers"
    domain = "people"
    property = "P451"
    facts = [ { subject = "Taylor Swift", entity = "Q26876" } ]

    [group.phrasings]
    1 = "The current partner of {subject} is"

A large one is a Parquet table of the same facts, one a row: the keys of a fact and of its group are the columns, and
the group's phrasings one of them.
"""

import builtins
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dyknow import facttable, prompts
from dyknow.prompts import Span, TemplateError
from dyknow.strata import popularity_bin
from dyknow.tomlfile import Table, did_you_mean, read
from kg.errors import DataError
from kg.terms import entity_iri

STUDY: Final = Path(__file__).resolve().parent / "benchmarks" / "dyknow.toml"
"""The study's 98 subjects and 130 facts."""

CONFIDENCES: Final = ("verified", "single source", "pinned", "none")
"""How well a subject's id is known: two independent sources, one, a user's own choice, or no id at all."""

_FILE_KEYS = ("name", "about", "group")
_GROUP_KEYS = ("name", "domain", "property", "asks", "phrasings", "facts")
_FACT_KEYS = (
    "subject", "entity", "property", "office", "mention", "confidence", "sitelinks", "popularity", "region", "stratum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """A subject and a property, asked as its group words it."""

    id: str  # "Q38/P35"
    domain: str
    group: str
    subject_label: str
    subject: str  # "Q38", or the IRI where no id is known
    property: str
    office: str | None  # its title, as the prompt has it
    mention: str  # the subject, as the prompt has it
    asks: str | None  # "club": a national team is no answer
    confidence: str
    sitelinks: int | None = None  # of the subject
    popularity: str | None = None  # the bin of its sitelinks
    region: str | None = None
    stratum: str | None = None  # what it was drawn from

    @builtins.property  # a field of this class is called property
    def known(self) -> dict[str, int | str]:
        """What the benchmark says of its popularity and of what it was drawn from, under the names of the file."""
        said = {name: getattr(self, name) for name in ("sitelinks", "popularity", "region", "stratum")}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Question:
    """One phrasing of one fact."""

    id: str  # "Q38/P35#1"
    fact: Fact
    phrasing: str
    text: str
    subject_span: Span
    office_span: Span | None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Facts and their phrasings, as a file says.

    Attributes:
        digest: SHA-256 of the content: equal for files that ask the same, however they are laid out.
        phrasings: By group, phrasing key to template.
    """

    name: str
    digest: str
    facts: tuple[Fact, ...]
    phrasings: dict[str, dict[str, str]]

    def questions(self, prefix: bool = False) -> tuple[Question, ...]:
        """Return every phrasing of every fact, in the file's order.

        Args:
            prefix: Put "Answer with the name only" before each.
        """
        return tuple(question for fact in self.facts for question in self._ask(fact, prefix))

    def _ask(self, fact: Fact, prefix: bool) -> Iterator[Question]:
        for key, template in self.phrasings[fact.group].items():
            prompt = prompts.fill(template, fact.mention, fact.office, prefix=prefix)
            yield Question(f"{fact.id}#{key}", fact, key, prompt.text, prompt.subject, prompt.office)


def prompts_digest(questions: Sequence[Question]) -> str:
    """Return the SHA-256 of what is asked: ids and texts, whatever their order."""
    return prompts.digest((question.id, question.text) for question in questions)


def make(name: str, facts: Sequence[Fact], phrasings: dict[str, dict[str, str]]) -> Benchmark:
    """Return the benchmark of these facts and phrasings.

    The digest is of what is asked; popularity, region and stratum, which only tell about it, leave no trace in it.
    """
    return Benchmark(name, _digest(name, facts, phrasings), tuple(facts), phrasings)


def load(path: Path | None = None) -> Benchmark:
    """Return the benchmark of a TOML file or a Parquet table, or the study's own.

    Raises:
        DataError: a key is misspelt, missing or of the wrong type, a placeholder is unknown or has nothing to fill it,
            a fact stands there twice; the message names file, line or row, and value.
    """
    if path is not None and (facttable.is_parquet(path) or (path.suffix == ".parquet" and path.is_file())):
        return _from_parquet(path)
    top = read(path or STUDY, "a benchmark")
    top.only(_FILE_KEYS)
    top.optional("about")
    facts: dict[str, tuple[Fact, Table]] = {}
    phrasings: dict[str, dict[str, str]] = {}
    for group in top.tables("group", "a group"):
        name = group.text("name")
        if name in phrasings:
            raise group.error(f"the group {name!r} stands there twice.", "name")
        phrasings[name] = _phrasings(group)
        for fact, table in _facts(group):
            _add(facts, fact, table)
            _try_out(fact, table, phrasings[name])
    if not facts:
        raise top.error("no fact is asked.", "group", hint="Add a [[group]] with facts.")
    found = tuple(fact for fact, _ in facts.values())
    return make(top.text("name"), found, phrasings)


def _phrasings(group: Table) -> dict[str, str]:
    group.only(_GROUP_KEYS)
    table = group.table("phrasings", "the phrasings")
    if not table.values:
        raise group.error("the group has no phrasing.", hint='Add [group.phrasings] and 1 = "… {subject} …".')
    for key in table.values:
        if not re.fullmatch(r"\w[\w-]*", key):
            raise table.error(f"{key!r} is no name for a phrasing.", key, hint="Letters, digits, _ and - will do.")
        try:
            prompts.check(table.text(key))
        except TemplateError as error:
            raise table.error(f"phrasing {table.values[key]!r}: {error}.", key, hint=error.hint) from error
    return {key: table.text(key) for key in table.values}


def _facts(group: Table) -> Iterator[tuple[Fact, Table]]:
    for table in group.tables("facts", "a fact"):
        table.only(_FACT_KEYS)
        label = table.text("subject")
        subject = _id(table, "entity", "Q", entity_iri(label))
        prop = _id(table, "property", "P", _id(group, "property", "P", ""))
        if not prop:
            raise table.error("the fact has no 'property'.", hint='Add property = "P…" to the fact or to its group.')
        yield (
            Fact(
                id=f"{subject}/{prop}",
                domain=group.text("domain"),
                group=group.text("name"),
                subject_label=label,
                subject=subject,
                property=prop,
                office=table.optional("office"),
                mention=table.text("mention", label),
                asks=group.optional("asks"),
                confidence=_confidence(table),
                **_about(table),
            ),
            table,
        )


def _id(table: Table, key: str, letter: str, default: str) -> str:
    value = table.text(key, default)
    if key in table.values and not re.fullmatch(rf"{letter}[1-9]\d*", value):
        hint = f"Wikidata's ids are {letter} and a number; leave the key out where none is known."
        raise table.error(f"{key!r} is {value!r}, which is no Wikidata id.", key, hint=hint)
    return value


def _confidence(table: Table) -> str:
    value = table.text("confidence", "verified" if "entity" in table.values else "none")
    if value not in CONFIDENCES:
        raise table.error(f"'confidence' is {value!r}.", "confidence", hint=did_you_mean(value, CONFIDENCES))
    return value


def _about(table: Table) -> dict[str, Any]:
    """Return what a fact says of its popularity and of where it was drawn from."""
    sitelinks = table.values.get("sitelinks")
    if sitelinks is not None and (isinstance(sitelinks, bool) or not isinstance(sitelinks, int) or sitelinks < 0):
        raise table.error(f"'sitelinks' is {sitelinks!r}, which is no whole number from 0 on.", "sitelinks")
    known = {name: table.optional(name) for name in ("popularity", "region", "stratum")}
    return {"sitelinks": sitelinks, **known, "popularity": known["popularity"] or _bin(sitelinks)}


def _bin(sitelinks: int | None) -> str | None:
    return None if sitelinks is None else popularity_bin(sitelinks)


def _add(facts: dict[str, tuple[Fact, Table]], fact: Fact, table: Table) -> None:
    if fact.id in facts:
        other = facts[fact.id][1]
        line = other.locations.line(*other.place)
        raise table.error(f"{fact.subject_label} {fact.property} ({fact.id}) is asked on line {line} already.")
    facts[fact.id] = (fact, table)


def _try_out(fact: Fact, table: Table, phrasings: dict[str, str]) -> None:
    for template in phrasings.values():
        try:
            prompts.fill(template, fact.mention, fact.office)
        except TemplateError as error:
            message = f"{fact.subject_label} does not fit the phrasing {template!r}: {error}."
            raise table.error(message, hint=error.hint) from error


# A Parquet table


def _from_parquet(path: Path) -> Benchmark:
    table = facttable.read(path)
    groups = {group.name: group for group in table.groups}
    for group in table.groups:
        _check_templates(path, group)
    facts: dict[str, Fact] = {}
    for number, values in enumerate(table.rows, 1):
        row = dict(zip(facttable.FACT_COLUMNS, values, strict=True))
        try:
            fact = _fact(row, groups[row["group"]])
        except ValueError as error:  # TemplateError is one
            raise DataError(f"{path}, row {number}: {error}.", hint=getattr(error, "hint", None)) from error
        if facts.setdefault(fact.id, fact) is not fact:
            raise DataError(
                f"{path}, row {number}: {fact.subject_label} {fact.property} ({fact.id}) stands there twice."
            )
    if not facts:
        raise DataError(f"{path} has no fact.")
    return make(table.name, tuple(facts.values()), {group.name: group.phrasings for group in table.groups})


def _check_templates(path: Path, group: facttable.Group) -> None:
    if not group.phrasings:
        raise DataError(f"{path}: the group {group.name!r} has no phrasing.")
    for key, template in group.phrasings.items():
        try:
            if not re.fullmatch(r"\w[\w-]*", key):
                raise TemplateError(f"{key!r} is no name for a phrasing", "Letters, digits, _ and - will do.")
            prompts.check(template)
        except TemplateError as error:
            raise DataError(f"{path}: phrasing {template!r}: {error}.", hint=error.hint) from error


def _fact(row: dict[str, Any], group: facttable.Group) -> Fact:
    """Return the fact of a row; a ValueError says what is wrong with it."""
    label, entity, prop = row["subject"], row["entity"], row["property"]
    if not label or label != label.strip():
        raise ValueError(f"'subject' is {label!r}: empty, or with blanks at an end")
    for key, letter in (("entity", "Q"), ("property", "P")):
        if row[key] is not None and not re.fullmatch(rf"{letter}[1-9]\d*", row[key]):
            raise ValueError(f"{key!r} is {row[key]!r}, which is no Wikidata id")
    if prop is None:
        raise ValueError(f"{label} has no property")
    confidence = row["confidence"] or ("verified" if entity else "none")
    if confidence not in CONFIDENCES:
        raise ValueError(f"'confidence' is {confidence!r}, none of {', '.join(CONFIDENCES)}")
    subject = entity or entity_iri(label)
    fact = Fact(
        id=f"{subject}/{prop}",
        domain=group.domain,
        group=group.name,
        subject_label=label,
        subject=subject,
        property=prop,
        office=row["office"],
        mention=row["mention"] or label,
        asks=group.asks,
        confidence=confidence,
        sitelinks=row["sitelinks"],
        popularity=row["popularity"] or _bin(row["sitelinks"]),
        region=row["region"],
        stratum=row["stratum"],
    )
    for template in group.phrasings.values():
        if "{office}" in template or "{subject}" not in template:  # what names the subject alone fits every one
            prompts.fill(template, fact.mention, fact.office)
    return fact


def _digest(name: str, facts: Sequence[Fact], phrasings: dict[str, dict[str, str]]) -> str:
    content = {
        "name": name,
        "facts": sorted(
            (f.id, f.domain, f.group, f.subject_label, f.office, f.mention, f.asks, f.confidence) for f in facts
        ),
        "phrasings": phrasings,
    }
    canonical = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
