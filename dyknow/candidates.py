"""The candidates of a fact: whom an answer to it may name, and by which names.

Their names come from the snapshots (labels and aliases), from the reviewed file ``data/aliases.csv`` and from the rules
of :mod:`dyknow.names`. A fact's names are compiled once.
"""

import csv
import gc
import hashlib
import io
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from dyknow.names import Form, Named, Rule, families, forms, keys_of, spellings
from kg import identity
from kg.errors import DataError
from kg.terms import label_of

FUZZY_LETTERS: Final = 9
"""Shorter names are not matched when misspelt: Li Peng is not Li Ping."""


FUZZY_SINGLE: Final = 12
"""A name of a single word must be longer: Vajiralongkorn."""


class Candidate(NamedTuple):
    """An entity that holds a fact in some statement, and what is known of its names.

    ``labels`` are the names of the snapshots, the preferred one first; ``first_day`` the first day of its first term.
    """

    entity: str
    labels: tuple[str, ...]
    first_day: int | None = None
    last_day: int | None = None
    team_class: str | None = None


class Asked(NamedTuple):
    """A fact and the names that answers to it may be matched to."""

    fact: str
    subject: str
    property: str
    office: str | None
    whole: bool
    candidates: tuple[Candidate, ...]
    digest: str

    def row(self) -> dict[str, Any]:
        """Return its row in the table of facts."""
        about = {"fact": self.fact, "subject": self.subject, "property": self.property, "office": self.office}
        return {**about, "whole": self.whole, "candidates_digest": self.digest}

    def labels(self) -> Iterator[dict[str, str]]:
        """Yield the name of each entity that an answer may be matched to."""
        for candidate in self.candidates:
            yield {"fact": self.fact, "entity": candidate.entity, "label": candidate.labels[0]}


class Names(NamedTuple):
    """The compiled names of a fact's candidates."""

    forms: dict[str, Form]
    ordered: list[str]  # the keys of all forms, sorted
    longest: int  # words of the longest form
    begin: frozenset[str]  # first words of full names
    full: dict[int, list[str]]  # words in a name -> keys of full names, for misspellings
    parts: dict[str, tuple[str, ...]]  # key of a full name -> its words
    given: dict[str, tuple[str, ...]]  # entity -> the words of its label
    families: dict[str, list[Form]]  # surname -> all who bear it, the latest first
    latest: str | None  # the entity whose first term began last
    national: frozenset[str]  # entities that are national teams
    teams: bool


class Shelf:
    """Compiled names of many facts, up to so many forms in all: those that were compiled first are forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._names: dict[tuple[tuple[Candidate, ...], bool], Names] = {}
        # By the identity of a sequence, which stays alive here: hashing it anew for each text is dear.
        self._near: dict[tuple[int, bool], tuple[Sequence[Candidate], Names]] = {}
        self._lock = threading.Lock()

    def get(self, candidates: Sequence[Candidate], *, aliases: bool) -> Names:
        """Return the names of a fact's candidates, compiled now if they are not held."""
        found = self._near.get((id(candidates), aliases))
        if found is not None and found[0] is candidates:
            return found[1]
        with self._lock:
            key = tuple(candidates), aliases
            names = self._names.get(key)
            if names is None:
                names = compiled(*key)
                self._make_room(len(names.forms))
                self._names[key] = names
            if isinstance(candidates, tuple):  # a list may change
                self._near[id(candidates), aliases] = candidates, names
        return names

    def _make_room(self, more: int) -> None:
        self._held += more
        if self._held > self._most or len(self._near) > _NEAR:
            self._near.clear()
        while self._held > self._most and self._names:
            self._held -= len(self._names.pop(next(iter(self._names))).forms)


_NEAR: Final = 10_000
"""Sequences of candidates that are kept alive to be known again."""

_SHELF: Final = Shelf(250_000)
"""About 100 MB: the names of a few thousand facts, or of ten great clubs."""


def names_of(candidates: Sequence[Candidate], *, aliases: bool = True) -> Names:
    """Return the names of a fact's candidates, with or without the reviewed aliases.

    They are compiled once, unless those of very many other facts come between: texts had best come fact by fact.
    """
    return _SHELF.get(candidates, aliases=aliases)


def compiled(candidates: tuple[Candidate, ...], aliases: bool = True) -> Names:
    """Compile the names of a fact's candidates, with or without the reviewed aliases.

    Takes time in proportion to the candidates, but for sorting the keys of their forms.
    """
    with _uncollected():
        return _compiled(candidates, aliases)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of cycles out: names hold none, and it would look through all of them again as they grow."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _compiled(candidates: tuple[Candidate, ...], aliases: bool) -> Names:
    named = [_named(candidate, load_aliases() if aliases else {}) for candidate in candidates]
    spelt = [(one, spellings(one)) for one in named]
    found = forms(spelt)
    full: dict[int, list[str]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for key, form in found.items():
        if form.rule <= Rule.FORM and len(key) >= (FUZZY_LETTERS if form.size > 1 else FUZZY_SINGLE):
            full.setdefault(form.size, []).append(key)
            parts[key] = keys_of(form.alias)
    longest = max((form.size for form in found.values()), default=0)
    given = {candidate.entity: keys_of(" ".join(candidate.labels[:1])) for candidate in candidates}
    latest = max(candidates, key=lambda candidate: candidate.first_day or -(10**9), default=None)
    return Names(
        found,
        sorted(found),
        longest,
        frozenset(keys_of(form.alias)[0] for form in found.values() if form.rule <= Rule.FORM and form.size > 1),
        full,
        parts,
        given,
        families(spelt),
        latest and latest.entity,
        frozenset(candidate.entity for candidate in candidates if candidate.team_class == "national"),
        any(candidate.team_class for candidate in candidates),
    )


def _named(candidate: Candidate, known: Mapping[str, tuple[str, ...]]) -> Named:
    given = (*candidate.labels[1:], *known.get(candidate.entity, ()))
    listed = (name for label in candidate.labels for name in known.get(label, ()))
    label = candidate.labels[0] if candidate.labels else ""
    return Named(candidate.entity, label, (*given, *listed), candidate.team_class, candidate.first_day)


@cache
def load_aliases() -> dict[str, tuple[str, ...]]:
    """Return the reviewed further names by label, and by the entity id that the identity table has for a label.

    Raises:
        DataError: the alias file is malformed.
    """
    found: dict[str, list[str]] = {}
    reader = csv.DictReader(io.StringIO(_alias_file().decode("utf-8"), newline=""))
    if reader.fieldnames != ["entity", "alias", "source"]:
        raise DataError("The alias file does not start with entity,alias,source.")
    for row in reader:
        if not all(isinstance(cell, str) and cell for cell in row.values()):
            raise DataError(f"The alias file, line {reader.line_num}: a cell is empty or missing.")
        found.setdefault(row["entity"], []).append(row["alias"])
    for iri, entity in identity.load().entities.items():
        found.setdefault(entity, []).extend(found.get(label_of(iri), ()) if entity != label_of(iri) else ())
    return {entity: tuple(dict.fromkeys(names)) for entity, names in found.items() if names}


def _alias_file() -> bytes:
    return files("dyknow").joinpath("data/aliases.csv").read_bytes()


ALIASES_DIGEST: Final = hashlib.sha256(_alias_file()).hexdigest()
"""SHA-256 of the alias file, part of what a match depends on."""


def candidates_digest(candidates: Iterable[Candidate]) -> str:
    """Return a digest of everything a fact's matches depend on besides text and matcher: names, days, alias file."""
    rows = sorted(repr(tuple(candidate)) for candidate in candidates)
    return hashlib.sha256("\n".join([ALIASES_DIGEST, *rows]).encode()).hexdigest()
