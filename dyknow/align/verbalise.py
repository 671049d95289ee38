"""Statements of a snapshot put into words: dated sentences, as documents and as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from dyknow import benchmark
from dyknow.align.documents import Document
from kg import answers as answer_sets
from kg.answers import AnswerSet, Fact
from kg.dates import Day, Span, days_in_month, split_day
from kg.identity import Identity
from kg.snapshot import Snapshot, Statement
from kg.store import Graph
from kg.terms import EndKind

Per = Literal["fact", "statement"]

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

_VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "club": ("plays for", "played for"),
    "national": ("plays for", "played for"),
    "racing": ("races for", "raced for"),
}
_TITLES: Final[Mapping[str, str]] = {
    "P169": "chief executive officer (CEO)",
    "P488": "chairperson",
    "P35": "head of state",
    "P6": "head of government",
    "P1037": "director",
    "P3975": "secretary general",
}


class Spoken(NamedTuple):
    """A statement in words."""

    statement: str  # its IRI
    text: str
    leads: bool  # it is the up-to-date answer
    start: Day


def verbalise(statement: Statement, fact: Fact, as_of: Day, *, leads: bool) -> str:
    """Return a statement as a sentence, as one would have said it on a day.

    What ends after that day has not ended yet. The present tense is for the up-to-date answer; another statement that
    is still open ("became", "joined") is told as it began.

    Args:
        statement: one with a holder.
        fact: what it says something of.
        as_of: the day, YYYYMMDD.
        leads: whether it is an up-to-date answer on that day.
    """
    present, past, began = _words(statement, fact)
    start = _date(statement.start) if statement.start else None
    ended = statement.end is not None and statement.end[0] <= as_of
    if leads and not ended:
        return f"{present}{f', since {start}' if start else ''}."
    if ended and statement.end is not None:
        end = _date(statement.end)
        return f"{past} from {start} to {end}." if start else f"{past} until {end}."
    if statement.end_kind is EndKind.UNKNOWN:
        return f"{past}{f' from {start}' if start else ''}."
    return f"{began} {_on(statement.start)}." if statement.start else f"{past}."


def _words(statement: Statement, fact: Fact) -> tuple[str, str, str]:
    """Return how a statement is said in the present, in the past, and as a beginning."""
    holder, subject = statement.name, fact.subject
    if statement.property == "P54":
        now, then = _VERBS[statement.team_class or "club"]
        return f"{subject} {now} {holder}", f"{subject} {then} {holder}", f"{subject} joined {holder}"
    if statement.property == "P159":
        seat = f"{subject} {{}} its headquarters in {holder}"
        return seat.format("has"), seat.format("had"), f"{subject} moved its headquarters to {holder}"
    title = office_title(fact)
    if title is None:
        said = f"the {fact.property_label} of {subject} {{}} {holder}"
        capital = said[0].upper() + said[1:]
        return capital.format("is"), capital.format("was"), capital.format("became")
    role = "acting " if statement.acting else ""
    return f"{holder} is {role}{title}", f"{holder} was {role}{title}", f"{holder} became {role}{title}"


def office_title(fact: Fact) -> str | None:
    """Return what somebody who holds a fact is: "Prime Minister of Italy"; None for a property of another kind."""
    title = fact.office if fact.property not in ("P169",) else None
    title = title or _TITLES.get(fact.property)
    if title is None:
        return None
    return title if " of " in title else f"{title} of {fact.subject}"


def _date(span: Span) -> str:
    """Return a span of days as it is written, as finely as it is known.

    >>> _date((20210213, 20210213)), _date((20210201, 20210228)), _date((20100101, 20191231))
    ('13 February 2021', 'February 2021', 'between 2010 and 2019')
    """
    (year, month, day), (last_year, last_month, last_day) = split_day(span[0]), split_day(span[1])
    if span[0] == span[1]:
        return f"{day} {_MONTHS[month - 1]} {_year(year)}"
    if (year, month, day) == (last_year, last_month, 1) and last_day == days_in_month(year, month):
        return f"{_MONTHS[month - 1]} {_year(year)}"
    if (month, day, last_month, last_day) == (1, 1, 12, 31) and year == last_year:
        return _year(year)
    return f"between {_year(year)} and {_year(last_year)}"


def _year(year: int) -> str:
    return str(year) if year > 0 else f"{1 - year} BC"


def _on(span: Span | None) -> str:
    if span is None:
        return ""
    said = _date(span)
    return f"on {said}" if span[0] == span[1] else said if said.startswith("between") else f"in {said}"


def spoken(statements: Sequence[Statement], fact: Fact, known: AnswerSet) -> list[Spoken]:
    """Return the statements of a fact that had begun on the day of its answer set, in words, the newest first.

    National teams are no answers and are left out, and so is what the snapshot calls wrong or unknown.
    """
    leading = {holder.statement for holder in known.up_to_date}
    found = []
    for one in statements:
        begun = one.start is None or one.start[0] <= known.as_of
        if one.holder is None or one.holder_unknown or not begun or one.rank.endswith("DeprecatedRank"):
            continue
        if one.team_class == "national":
            continue
        leads = one.iri in leading
        text = verbalise(one, fact, known.as_of, leads=leads)
        found.append(Spoken(one.iri, text, leads, one.start[0] if one.start else -(10**9)))
    return sorted(found, key=lambda one: (not one.leads, -one.start, one.text))


def statement_documents(
    snapshot: Snapshot,
    graph: Graph,
    identity: Identity,
    as_of: Day,
    *,
    per: Per = "statement",
    most: int = 4,
    asked: Iterable[benchmark.Fact] | None = None,
) -> list[Document]:
    """Return the statements of a snapshot as documents, as of a day.

    Args:
        snapshot: whose statements are told.
        graph: the same snapshot's store, which knows who was up to date on the day.
        identity: which IRIs are one entity.
        as_of: the day, YYYYMMDD.
        per: one document a "statement", or one a "fact", its sentences newest first. Former holders beside the present
            one mislead small models: SmolLM2 answers 12 of 20 out of the one, 18 of 20 out of the other.
        most: how many statements of each fact, the newest ones.
        asked: a benchmark's facts: only what it asks is told, in its domains, and under its titles, because a snapshot
            may call a post by another country's; None: all, in no domain.
    """
    ours = None if asked is None else {one.id: one for one in asked}
    facts = answer_sets.facts(graph, identity, None if ours is None else list(ours))
    known = {one.fact: one for one in answer_sets.answers(graph, identity, as_of, list(facts))}
    by_fact: dict[str, list[Statement]] = {name: [] for name in known}
    for statement in snapshot.statements():
        name = f"{identity.entity(statement.subject)}/{statement.property}"
        if name in by_fact:
            by_fact[name].append(statement)
    found: list[Document] = []
    for name, own in by_fact.items():
        fact, domain = facts[name], None
        if ours is not None:
            fact = fact._replace(office=ours[name].office or fact.office)
            domain = ours[name].domain
        said = spoken(own, fact, known[name])[:most]
        found += _documents(said, fact, f"snapshot {snapshot.id}", per, domain)
    return found


def _documents(said: Iterable[Spoken], fact: Fact, source: str, per: Per, domain: str | None) -> Iterable[Document]:
    texts = [one.text for one in said]
    if per == "fact":
        texts = [" ".join(texts)] if texts else []
    for number, text in enumerate(texts, 1):
        name = fact.fact if per == "fact" else f"{fact.fact}:{number}"
        yield Document(name, fact.subject, text, source, None, fact.fact, domain)
