"""A benchmark drawn from a snapshot: which of its facts are asked, stratum by stratum, and in which words.

What may be drawn is read by SPARQL, from the local store or an endpoint alike. What is drawn depends on the facts and
the seed alone: every fact has a number made of its id and the seed, and those with the smallest are taken, so that a
larger draw of the same seed holds the smaller one.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyoxigraph as ox

from dyknow import benchmark, phrasings, strata
from dyknow.benchmark import Benchmark
from dyknow.phrasings import Phrasings
from kg.dates import Day
from kg.errors import UsageError
from kg.identity import Identity
from kg.store import Graph, Row, Term, integer, select
from kg.terms import RDFS_LABEL, WD, WDT, WIKIBASE, label_of, short

DIVISIONS: Final = ("popularity", "property", "region")
"""What strata can be made of."""


def divisions(text: str) -> tuple[str, ...]:
    """Return what strata are made of as a user lists it, "popularity,property".

    Raises:
        UsageError: nothing is named, a name is none of ``DIVISIONS``, or one stands there twice.
    """
    hint = f"Divisions: {', '.join(DIVISIONS)}; one or several of them, with commas."
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise UsageError(f"{text!r} names nothing that strata are made of.", hint=hint)
    for place, name in enumerate(names):
        if name not in DIVISIONS:
            raise UsageError(f"Strata are not made by {name!r}.", hint=hint)
        if name in names[:place]:
            raise UsageError(f"{name!r} stands twice in {text!r}.", hint=hint)
    return names


class Candidate(NamedTuple):
    """A fact that may be drawn, and what the snapshot knows of it."""

    fact: str  # "Q38/P35"
    subject: str  # "Q38", or the IRI where no id is known
    property: str
    property_label: str
    label: str | None  # of the subject; None: it has none in any language
    language: str
    office: str | None
    changes: int  # on how many days after the first another term began
    last_change: Day | None  # the first day of the last term, where there was a change
    sitelinks: int | None
    classes: tuple[str, ...]  # of the subject, P31
    region: str | None  # its country (P17), else its citizenship (P27): label, else id


class _About(NamedTuple):
    """What a snapshot says of a subject."""

    labels: tuple[tuple[str, str], ...] = ()  # language and text
    sitelinks: int | None = None
    classes: tuple[str, ...] = ()
    region: str | None = None


def candidates(
    graph: Graph, identity: Identity, day: Day, properties: Collection[str] | None = None
) -> list[Candidate]:
    """Return the facts of a snapshot, or of some properties, sorted by id.

    Args:
        graph: The snapshot's store, or an endpoint that holds it.
        identity: Maps subjects to what they go by in a benchmark.
        day: The snapshot's; what begins later has not changed anything yet.
        properties: "P6"; None: all there are.
    """
    wanted: list[Term] = [None] if properties is None else [ox.NamedNode(WD + prop) for prop in sorted(properties)]
    rows = select(graph, "changes", "?property ?asOf", [(prop, integer(day)) for prop in wanted])
    changes = {str(row["fact"]): row for row in rows}
    known = _subjects(select(graph, "subjects", "?property", [(prop,) for prop in wanted]))
    found = {}
    for row in select(graph, "facts", "?fact", [(None,)]):
        if properties is None or short(str(row["property"])) in properties:
            one = _candidate(row, identity, changes.get(str(row["fact"]), {}), known)
            found[one.fact] = one
    return [found[fact] for fact in sorted(found)]


def _candidate(row: Row, identity: Identity, changed: Row, known: Mapping[str, _About]) -> Candidate:
    iri, prop = str(row["subject"]), short(str(row["property"]))
    subject, about = identity.entity(iri), known.get(iri, _About())
    label, language = _label(about.labels) if iri.startswith(WD) else (label_of(iri), "en")
    starts = int(changed.get("starts", 0))
    return Candidate(
        fact=f"{subject}/{prop}",
        subject=subject,
        property=prop,
        property_label=str(row.get("propertyLabel", prop)),
        label=label,
        language=language,
        office=str(row["office"]) if "office" in row else None,
        changes=max(starts - 1, 0),
        last_change=int(changed["last"]) if starts > 1 else None,
        sitelinks=about.sitelinks,
        classes=about.classes,
        region=about.region,
    )


def _label(labels: Iterable[tuple[str, str]]) -> tuple[str | None, str]:
    by_language = {language: text for language, text in sorted(labels, reverse=True)}
    language = next((name for name in (*phrasings.ENGLISH, *sorted(by_language)) if name in by_language), None)
    return (None, "en") if language is None else (by_language[language], language)


def _subjects(rows: Iterable[Row]) -> dict[str, _About]:
    said: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        said[str(row["subject"])][str(row["predicate"])].append(row)
    return {subject: _about(own) for subject, own in said.items()}


def _about(said: Mapping[str, Sequence[Row]]) -> _About:
    sitelinks = [int(row["value"]) for row in said.get(WIKIBASE + "sitelinks", ())]
    countries = said.get(WDT + "P17") or said.get(WDT + "P27") or ()
    regions = {short(str(row["value"])): str(row.get("label", short(str(row["value"])))) for row in countries}
    return _About(
        labels=tuple((str(row.get("language", "")), str(row["value"])) for row in said.get(RDFS_LABEL, ())),
        sitelinks=max(sitelinks, default=None),
        classes=tuple(sorted({short(str(row["value"])) for row in said.get(WDT + "P31", ())})),
        region=regions[min(regions, key=_by_number)] if regions else None,
    )


def _by_number(name: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", name)
    return (int(digits) if digits else 0, name)


# What may be drawn


@dataclass(frozen=True)
class Rules:
    """Which facts may be drawn.

    Attributes:
        classes: Only subjects that are known to be an instance of one of these.
        min_changes: How often the fact has changed at least.
        changed_from: Only facts whose last change was not before this day.
        changed_to: Only facts whose last change was not after it.
        min_sitelinks: Only subjects known to have as many.
        max_sitelinks: Only subjects known to have no more.
        ambiguous: Also facts whose subject shares its name with another one that has the same property.
    """

    classes: frozenset[str] = frozenset()
    min_changes: int = 0
    changed_from: Day | None = None
    changed_to: Day | None = None
    min_sitelinks: int | None = None
    max_sitelinks: int | None = None
    ambiguous: bool = False

    def objection(self, one: Candidate) -> str | None:
        """Return why a fact may not be drawn, in a word or two; None: it may."""
        checks: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("without label", lambda: not (one.label or "").strip() or is_id(one.label or "")),
            ("of another class", lambda: bool(self.classes) and self.classes.isdisjoint(one.classes)),
            ("with fewer changes", lambda: one.changes < self.min_changes),
            ("last changed at another time", lambda: not self._in_time(one.last_change)),
            ("of another popularity", lambda: not self._popular(one.sitelinks)),
        )
        return next((word for word, holds in checks if holds()), None)

    def _in_time(self, day: Day | None) -> bool:
        first, last = self.changed_from, self.changed_to
        if first is None and last is None:
            return True
        return day is not None and (first is None or day >= first) and (last is None or day <= last)

    def _popular(self, sitelinks: int | None) -> bool:
        least, most = self.min_sitelinks, self.max_sitelinks
        if least is None and most is None:
            return True
        return sitelinks is not None and (least is None or sitelinks >= least) and (most is None or sitelinks <= most)


def is_id(label: str) -> bool:
    """Tell whether what stands for a label is only an id."""
    return re.fullmatch(r"[QP][1-9][0-9]*", label) is not None


def unknown(found: Sequence[Candidate], rules: Rules) -> str | None:
    """Return what the rules ask of subjects and the snapshot knows of none, as the end of a sentence; None: nothing."""
    popular = rules.min_sitelinks is not None or rules.max_sitelinks is not None
    if popular and all(one.sitelinks is None for one in found):
        return "on how many sites its subjects have a page"
    if rules.classes and not any(one.classes for one in found):
        return "what its subjects are instances of"
    return None


class Allowed(NamedTuple):
    """The facts that may be drawn, and how many may not, by reason."""

    facts: list[Candidate]
    left_out: Counter[str]


def allowed(found: Sequence[Candidate], rules: Rules) -> Allowed:
    """Return which facts may be drawn. A name counts as ambiguous by all facts, be they drawn or not."""
    names = Counter((one.property, _folded(one.label)) for one in found if one.label is not None)
    kept, left_out = [], Counter[str]()
    for one in found:
        objection = rules.objection(one)
        if objection is None and not rules.ambiguous and names[one.property, _folded(one.label)] > 1:
            objection = "of an ambiguous name"
        if objection is None:
            kept.append(one)
        else:
            left_out[objection] += 1
    return Allowed(kept, left_out)


def _folded(label: str | None) -> str:
    return (label or "").casefold()


# Drawing


class Plan(NamedTuple):
    """How many facts are drawn of which strata."""

    by: tuple[str, ...] = ("popularity", "property")  # of DIVISIONS
    edges: tuple[int, ...] = strata.EDGES
    size: int | None = None  # of the benchmark; None: as many as the strata give
    per_stratum: int | None = None  # the most of each stratum
    proportional: bool = False  # a stratum gives by how many it has; else all give alike, as far as they can
    seed: int = 0


class Stratum(NamedTuple):
    """A stratum and what was drawn of it."""

    name: str
    facts: int  # that may be drawn
    drawn: tuple[Candidate, ...]


def draw(found: Sequence[Candidate], plan: Plan) -> list[Stratum]:
    """Return the strata and the facts drawn of each; equal arguments give equal draws, whatever the facts' order.

    Raises:
        UsageError: there is nothing to draw, or a division that is none.
    """
    if plan.by:
        divisions(",".join(plan.by))
    if not found:
        raise UsageError("No fact of the snapshot fits.", hint="Ask for fewer changes, or for other properties.")
    by_stratum: dict[str, list[Candidate]] = defaultdict(list)
    for one in found:
        by_stratum[stratum_of(one, plan)].append(one)
    names = strata.in_order(list(by_stratum))
    has = {name: min(len(by_stratum[name]), plan.per_stratum or len(found)) for name in names}
    sizes = has if plan.size is None else _sizes(has, plan)
    return [Stratum(name, len(by_stratum[name]), _drawn(by_stratum[name], sizes[name], plan.seed)) for name in names]


def stratum_of(one: Candidate, plan: Plan) -> str:
    """Return the name of the stratum a fact belongs to."""
    parts = {
        "popularity": strata.popularity_bin(one.sitelinks, plan.edges),
        "property": one.property,
        "region": one.region or strata.UNKNOWN,
    }
    return strata.stratum_name([parts[name] for name in plan.by]) or "all"


def _drawn(own: Sequence[Candidate], size: int, seed: int) -> tuple[Candidate, ...]:
    return tuple(sorted(own, key=lambda one: _number(seed, one.fact))[:size])


def _number(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()


def _sizes(has: Mapping[str, int], plan: Plan) -> dict[str, int]:
    """Return how many each stratum gives so that they give ``plan.size`` together, or all they have."""
    size = min(plan.size or 0, sum(has.values()))
    if plan.proportional:
        total = sum(has.values())
        exact = {name: size * count / total for name, count in has.items()}
        sizes = {name: int(share) for name, share in exact.items()}
        rest = sorted(has, key=lambda name: (sizes[name] - exact[name], _number(plan.seed, name)))
        for name in rest[: size - sum(sizes.values())]:
            sizes[name] += 1
        return sizes
    sizes, left = {}, size
    # The smallest first: what they cannot give, the larger ones share.
    for number, name in enumerate(sorted(has, key=lambda name: (has[name], _number(plan.seed, name)))):
        share, more = divmod(left, len(has) - number)
        # What does not divide goes to the last ones, which have the most.
        sizes[name] = min(has[name], share + (1 if more and number >= len(has) - more else 0))
        left -= sizes[name]
    return sizes


def fewer(drawn: Sequence[Stratum], plan: Plan) -> str | None:
    """Return a sentence on how many strata have fewer facts than they were asked for; None where none has."""
    asked = plan.per_stratum or (0 if plan.size is None or plan.proportional else plan.size // len(drawn))
    few = sum(stratum.facts < asked for stratum in drawn)
    if not few:
        return None
    all_of = f"{few} of {len(drawn)} strata have fewer facts than"
    if plan.per_stratum:
        return f"{all_of} the {asked} asked for, and give all they have."
    return f"{all_of} an even share of {asked}, and give all they have; the others give more."


# Wording


def build(name: str, drawn: Sequence[Stratum], words: Phrasings, edges: Sequence[int] = strata.EDGES) -> Benchmark:
    """Return the benchmark that asks the drawn facts, group by group and in each by id."""
    facts: list[benchmark.Fact] = []
    texts: dict[str, dict[str, str]] = {}
    for stratum in drawn:
        for one in stratum.drawn:
            fact, templates = _worded(one, stratum.name, words, edges)
            texts.setdefault(fact.group, templates)
            facts.append(fact)
    facts.sort(key=lambda fact: (fact.domain, fact.group, _by_number(fact.subject)))
    return benchmark.make(name, facts, {group: texts[group] for group in dict.fromkeys(fact.group for fact in facts)})


def _worded(
    one: Candidate, stratum: str, words: Phrasings, edges: Sequence[int]
) -> tuple[benchmark.Fact, dict[str, str]]:
    label = " ".join((one.label or one.subject).split())  # a line's end in a label is none of a question's
    named = words.grammar.of(label, one.language, one.classes)
    asked = phrasings.ask(words, one.property, one.property_label, named, one.office)
    fact = benchmark.Fact(
        id=one.fact,
        domain=asked.domain,
        group=asked.group,
        subject_label=label,
        subject=one.subject,
        property=one.property,
        office=asked.office,
        mention=asked.mention,
        asks=asked.asks,
        confidence="verified" if one.subject.startswith("Q") else "none",
        sitelinks=one.sitelinks,
        popularity=strata.popularity_bin(one.sitelinks, edges),
        region=one.region,
        stratum=stratum,
    )
    return fact, asked.phrasings


# Checking


class Finding(NamedTuple):
    """Something about a benchmark that makes its results hard to read."""

    kind: str  # "no label", "ambiguous label", "same question"
    detail: str
    facts: tuple[str, ...]


def findings(bench: Benchmark) -> list[Finding]:
    """Return what a reader of a benchmark should know, sorted.

    "no label": the subject goes by its id. "ambiguous label": two subjects of one name are asked for one property.
    "same question": two facts are asked in the same words, be it by the office's title.
    """
    found = [Finding("no label", one.subject_label, (one.id,)) for one in bench.facts if is_id(one.subject_label)]
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    texts: dict[str, set[str]] = defaultdict(set)
    for one in bench.facts:
        labels[one.property, _folded(one.subject_label)].append(one.id)
    for question in bench.questions():
        texts[_folded(question.text)].add(question.fact.id)
    same = {tuple(sorted(ids)) for ids in labels.values() if len(ids) > 1}
    found += [
        Finding("ambiguous label", f"{label} {prop}", tuple(sorted(ids)))
        for (prop, label), ids in labels.items()
        if len(ids) > 1
    ]
    twice = {tuple(sorted(ids)): text for text, ids in sorted(texts.items(), reverse=True) if len(ids) > 1}
    found += [Finding("same question", text, ids) for ids, text in twice.items() if ids not in same]
    return sorted(found)
