"""A made-up graph with Wikidata's shape, of any size: ``python -m benchmarks.synthetic FOLDER --facts 1000 --seed 0``.

It writes ``FOLDER/DATE``, a snapshot like any other, ``FOLDER/benchmark.toml``, which asks all its facts, and
``FOLDER/answers.csv``, what a scripted model says. The same seed gives the same bytes, and the facts of a smaller graph
are the first ones of a larger. Memory does not grow with the triples: they are written in parts and merged.

Like the shipped snapshots (130 famous facts, both measured; quantiles by fact, shares by statement):

* Holders per fact: log-normal with a median by property, of all 5, 9 of 10 below 19, 1 of 100 above 52.
* Tenures: median 4 years, 1 of 4 at most one, 1 of 10 above 12; some 84 of 100 meet the next one, 9 leave a gap, 5
  overlap, 1 was never closed.
* Precision of times by property: days for heads of state and government, mostly years for teams and chief executives.
* Open ends, undated statements, the same holder twice, national teams beside clubs.

Like Wikidata, with shares that we chose and nobody measured:

* Ids, statement nodes, value nodes, ranks (one current holder in five preferred, 1 of 200 deprecated), "no value" as a
  vacancy, "unknown value" as an end, a term's end that lies ahead, posts that ended.
* Labels in the script of the country: one entity in 25 has no English one; namesakes; aliases; plural names.
* Sitelinks, classes (P31) and countries (P17) of subjects: a power law, so that few are famous.
* One fact in 1,000 is the roster of a club (P527), with 100 to 3,000 players of whom many are there at once.

Not like Wikidata: names are syllables; no references; all calendars Gregorian; facts do not depend on one another;
athletes are two fifths of all facts, in Wikidata more. All ids begin at Q9000000000, far beyond those that Wikidata has
given away, so that nothing here can be taken for true; the classes alone are Wikidata's.
"""

import argparse
import builtins
import csv
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from kg.dates import Time, parse_day, parse_time, split_day
from kg.snapshot import Snapshot, take_in_parts
from kg.snapshot.triples import field_triples
from kg.sources import Row, Source, Triple
from kg.terms import RDFS_LABEL, WD, WDS, WDT, WIKIBASE, XSD, EndKind

DATE: Final = "2025-12-01"
"""The day a graph shows; on 30 November the shipped snapshot stands in the way."""

PART: Final = 500
"""How many facts are in memory at once."""

COUNTRY, SUBJECT, TEAM, PERSON = 9_000_000_001, 9_200_000_000, 9_100_000_000, 10_000_000_000
"""Where the ids of each kind begin."""

COUNTRIES, TEAMS = 200, 20_000


class Kind(NamedTuple):
    """What the subjects of some facts are, and how the facts look.

    The medians and the precisions are those of the shipped snapshots where they have the property.
    """

    share: float  # of the subjects
    item: str  # P31
    named: str  # its label; … is made of syllables, and people have names
    properties: tuple[str, ...]  # the second one for two subjects in five
    domain: str


class Shape(NamedTuple):
    """How the statements of a property look; its phrasings are made of two words."""

    label: str
    median: float  # holders per fact
    day: float  # share of times known to the day
    month: float
    role: str  # "chief executive": "The … of {subject} is"
    verb: str  # "{subject} … by"

    @property
    def phrasings(self) -> tuple[str, str, str]:
        """Three templates."""
        return (
            f"The {self.role} of {{subject}} is",
            f"{{subject}} {self.verb}",
            f"Question: Who is the {self.role} of {{subject}}? Answer:",
        )


KINDS: Final = {
    "cities": Kind(0.22, "Q515", "…", ("P6",), "places"),
    "countries": Kind(0.08, "Q6256", "…", ("P35", "P6"), "places"),
    "companies": Kind(0.17, "Q4830453", "… Industries", ("P169", "P488"), "organizations"),
    "museums": Kind(0.07, "Q33506", "Museum of …", ("P1037",), "organizations"),
    "unions": Kind(0.03, "Q43229", "… Union", ("P3975",), "organizations"),
    "athletes": Kind(0.43, "Q5", "", ("P54",), "athletes"),
}
ROSTER: Final = Kind(0.0, "Q476028", "… FC", ("P527",), "athletes")
ROSTER_EVERY: Final = 1_000

SHAPES: Final = {
    "P6": Shape("head of government", 8, 0.99, 0.0, "head of government", "is governed by"),
    "P35": Shape("head of state", 7, 0.95, 0.0, "head of state", "has as its head of state"),
    "P169": Shape("chief executive officer", 3, 0.28, 0.28, "chief executive officer", "is led by its CEO"),
    "P488": Shape("chairperson", 2, 0.30, 0.09, "chairperson", "is chaired by"),
    "P1037": Shape("director / manager", 6, 0.33, 0.0, "director", "is directed by"),
    "P3975": Shape("secretary general", 12, 0.99, 0.0, "secretary general", "has as its secretary general"),
    "P54": Shape("member of sports team", 4, 0.34, 0.04, "club", "plays for"),
    "P527": Shape("has part(s)", 300, 0.5, 0.1, "newest player", "has signed"),
}

_SYLLABLES: Final = {
    language: tuple(syllables.split())
    for language, syllables in {
        "en": "bal dor ven mar tis lan kor ser ril bran wick ton ald fen hol gar nes pel rov sten mil cas bur lin",
        "ru": "бал дор вен мар тис лан кор сер рил бра вик тон ал фен хол гар нес пел ров сте мил кас бур лин",
        "zh": "安 柏 岑 丹 恩 方 高 韩 江 康 林 明 宁 欧 潘 秦 荣 沙 唐 万 夏 颜 郑 周",
        "ar": "بال دور فين مار تيس لان كور سير ريل بران ويك تون الد فين هول جار نيس بيل روف ستن ميل كاس بور لين",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Named:
    """An entity: its id, its one label with its language, and its other names."""

    id: str
    label: str
    language: str = "en"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject and what popularity, class and country are kept of it."""

    named: Named
    kind: str
    sitelinks: int
    country: int
    item: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A subject, a property and its statements, oldest first."""

    subject: Subject
    property: str
    rows: tuple[Row, ...]

    @builtins.property  # a field of this class is called property
    def id(self) -> str:
        """As a benchmark has it: "Q9200000000/P6"."""
        return f"{self.subject.named.id}/{self.property}"


def made(facts: int, seed: int, day: int) -> Iterator[Fact]:
    """Yield so many facts; the subjects of one seed do not depend on how many are asked for."""
    return islice(_endless(seed, day), facts)


def _endless(seed: int, day: int) -> Iterator[Fact]:
    number = made_so_far = rosters = 0
    while True:
        draw = random.Random(f"{seed}/{number}")
        roster = made_so_far >= ROSTER_EVERY * rosters + ROSTER_EVERY // 2
        rosters += roster
        subject = _subject(draw, number, roster)
        kind = ROSTER if roster else KINDS[subject.kind]
        for prop in kind.properties if draw.random() < 0.4 else kind.properties[:1]:
            yield Fact(subject, prop, tuple(_statements(draw, _Place(seed, day, number, subject, prop))))
            made_so_far += 1
        number += 1


def _subject(draw: random.Random, number: int, roster: bool) -> Subject:
    name = "rosters" if roster else draw.choices(list(KINDS), [kind.share for kind in KINDS.values()])[0]
    kind = ROSTER if roster else KINDS[name]
    country = min(int(draw.paretovariate(0.8)), COUNTRIES) - 1
    item, language = f"Q{SUBJECT + number}", _language(draw, country)
    named = Named(item, _title(draw, kind, language), language) if kind.named else _person(draw, item, language)
    return Subject(named, name, min(int(draw.paretovariate(1.2)) - 1, 350), country, kind.item)


def _title(draw: random.Random, kind: Kind, language: str) -> str:
    word = _word(draw, language) if draw.random() < 0.4 else f"{_word(draw, language)} {_word(draw, language)}"
    if language != "en":
        return word
    plural = kind.domain == "places" and draw.random() < 0.05
    return f"{word} Islands" if plural else kind.named.replace("…", word)


def _language(draw: random.Random, country: int) -> str:
    """Return the language of an entity's label: mostly English, else by country."""
    return "en" if draw.random() >= 0.04 else ("ru", "zh", "ar")[country % 3]


def _word(draw: random.Random, language: str, least: int = 2) -> str:
    parts = draw.choices(_SYLLABLES[language], k=draw.randint(least, least + 1))
    return "".join(parts).capitalize()


def _person(draw: random.Random, item: str, language: str = "en") -> Named:
    """Return a person; two of one name are rare, two of one family name are not."""
    given, family = _word(draw, language), _word(draw, language)
    if language == "zh":
        return Named(item, family[:1] + given, language)
    if draw.random() < 0.2:
        family = f"{family} {_word(draw, language)}" if draw.random() < 0.5 else f"{family}-{_word(draw, language)}"
    aliases = (f"{given[0]}. {family}",) if language == "en" and draw.random() < 0.3 else ()
    return Named(item, f"{given} {family}", language, aliases)


def _team(seed: int, number: int, national: bool) -> Named:
    """Return the team of a number; the same wherever it is asked for."""
    if national:
        return Named(f"Q{TEAM + TEAMS + number}", f"{_country(seed, number).label} national team")
    draw = random.Random(f"{seed}/team/{number}")
    word = _word(draw, "en")
    return Named(f"Q{TEAM + number}", f"{word} {draw.choice(('FC', 'United', 'City', 'Athletic'))}", "en", (word,))


def _country(seed: int, number: int) -> Named:
    return Named(f"Q{COUNTRY + number}", _word(random.Random(f"{seed}/country/{number}"), "en"))


class Tenure(NamedTuple):
    """First day and day after the last, as ordinals; None where nothing says when it ended."""

    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Whose statements are being made, and of which property."""

    seed: int
    day: int
    number: int
    subject: Subject
    property: str


def _statements(draw: random.Random, at: _Place) -> Iterator[Row]:
    rosters = at.property == "P527"
    tenures = _roster(draw, at.day) if rosters else _tenures(draw, SHAPES[at.property].median, at.day)
    holders: list[Named] = []
    for tenure in tenures:
        national = at.property == "P54" and draw.random() < 0.15
        holder = _team_of(draw, at, national) if at.property == "P54" else _official(draw, at, holders)
        holders.append(holder)
        row = _row(draw, at, holder, tenure, len(holders) == len(tenures))
        if at.property == "P54":
            kind, item = ("national", "Q6979593") if national else ("club", "Q476028")
            row = replace(row, team_class=kind, instance_of=item)
        yield replace(row, triples=_own_triples(row, at.subject, holder))


def _team_of(draw: random.Random, at: _Place, national: bool) -> Named:
    number = at.subject.country if national else min(int(draw.paretovariate(0.6)), TEAMS) - 1
    return _team(at.seed, number, national)


def _official(draw: random.Random, at: _Place, before: Sequence[Named]) -> Named:
    if before and draw.random() < 0.1:
        return draw.choice(before)
    # Two facts of a subject have other people: their numbers do not meet.
    first = (at.number * 2 + (at.property in ("P488", "P6"))) * 4_096
    return _person(draw, f"Q{PERSON + first + len(before)}", _language(draw, at.subject.country))


def _tenures(draw: random.Random, median: float, day: int) -> list[Tenure]:
    """Return tenures back from the last change, which is the more probable the nearer it is to the day."""
    count = min(max(1, round(draw.lognormvariate(0, 1.0) * median)), 1_000)
    today = date(*split_day(day)).toordinal()
    start = today - min(int(draw.expovariate(1 / 1_500)), 14_000)
    open_end = draw.random() >= 0.15
    after = None if open_end else min(start + 1 + _days(draw, 1.0), today + 2_000)
    found = [Tenure(start, after)]
    shrink = min(1.0, 150_000 / (count * 1_900))  # the longest lists reach back four centuries, not twenty
    for _ in range(count - 1):
        end: int | None = found[-1].start
        fate = draw.random()
        if fate < 0.09:
            end = found[-1].start - _days(draw, shrink / 4)
        elif fate < 0.14:
            end = found[-1].start + _days(draw, shrink / 8)
        elif fate < 0.15:
            end = None
        found.append(Tenure(min(found[-1].start, end or found[-1].start) - _days(draw, shrink), end))
    return found[::-1]


def _roster(draw: random.Random, day: int) -> list[Tenure]:
    today = date(*split_day(day)).toordinal()
    count = min(int(100 * draw.paretovariate(1.0)), 3_000)
    starts = sorted(today - draw.randrange(1, 36_500) for _ in range(count))
    ends = (start + _days(draw, 0.7) for start in starts)
    return [Tenure(start, end if end <= today else None) for start, end in zip(starts, ends, strict=True)]


def _days(draw: random.Random, scale: float) -> int:
    """Return the days of a tenure: log-normal, median 3.6 years."""
    return max(1, min(int(draw.lognormvariate(7.2, 0.9) * scale), 20_000))


def _row(draw: random.Random, at: _Place, holder: Named, tenure: Tenure, last: bool) -> Row:
    shape, undated = SHAPES[at.property], draw.random() < 0.005
    unknown = tenure.end is not None and draw.random() < 0.005
    end = None if tenure.end is None or unknown else _time(draw, shape, tenure.end)
    rank = "preferred" if last and tenure.end is None and draw.random() < 0.2 else "normal"
    uuid = f"{draw.getrandbits(128):032X}"
    node = "-".join((at.subject.named.id, uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    return Row(
        subject=at.subject.named.label,
        subject_id=at.subject.named.id,
        property=at.property,
        property_label=shape.label,
        holder=None if last and draw.random() < 0.01 else holder.label,  # nobody: the post is vacant
        holder_id=holder.id,
        start=None if undated else _time(draw, shape, tenure.start),
        end=end,
        end_kind=EndKind.KNOWN if end else EndKind.UNKNOWN if unknown else EndKind.OPEN,
        rank="deprecated" if not last and draw.random() < 0.005 else rank,
        aliases=holder.aliases,
        statement=WDS + node,
    )


def _time(draw: random.Random, shape: Shape, ordinal: int) -> Time:
    day, chance = date.fromordinal(ordinal), draw.random()
    if chance < shape.day:
        return parse_time(f"+{day.year:04d}-{day.month:02d}-{day.day:02d}T00:00:00Z", 11)
    if chance < shape.day + shape.month:
        return parse_time(f"+{day.year:04d}-{day.month:02d}-00T00:00:00Z", 10)
    return parse_time(f"+{day.year:04d}-00-00T00:00:00Z", 9)


def _own_triples(row: Row, subject: Subject, holder: Named) -> tuple[Triple, ...]:
    """Return the triples of a statement, of its subject and of its holder, labels in their own languages."""
    assert row.statement is not None
    found = [
        (node, predicate, _said(holder.label, holder.language) if predicate == _LABEL else value)
        for node, predicate, value in field_triples(row, row.statement)
    ]
    item = f"<{WD}{subject.named.id}>"
    return (
        *found,
        (item, _LABEL, _said(subject.named.label, subject.named.language)),
        (item, f"<{WIKIBASE}sitelinks>", f'"{subject.sitelinks}"^^<{XSD}integer>'),
        (item, f"<{WDT}P31>", f"<{WD}{subject.item}>"),
        (item, f"<{WDT}P17>", f"<{WD}Q{COUNTRY + subject.country}>"),
    )


_LABEL: Final = f"<{RDFS_LABEL}>"


def _said(label: str, language: str) -> str:
    return f'"{label}"@{language}'  # syllables need no escaping


def write(folder: Path, facts: int, seed: int = 0, day: str = DATE) -> Snapshot:
    """Write snapshot, benchmark and answers into a folder; return the snapshot.

    Raises:
        SnapshotError: the folder already has a snapshot of that day.
    """
    shown = parse_day(day)
    countries = tuple(
        (f"<{WD}{one.id}>", _LABEL, _said(one.label, "en")) for one in (_country(seed, n) for n in range(COUNTRIES))
    )
    about = f"{facts} made-up facts with Wikidata's shape, seed {seed}; nothing in it is true."
    source = Source((), "synthetic", about, date=shown, triples=countries)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "answers.csv").open("w", encoding="utf-8", newline="") as file:
        answers = csv.writer(file, lineterminator="\n")
        answers.writerow(("question", "text", "error"))
        asked: dict[str, list[str]] = {}
        snapshot = take_in_parts(source, _parts(facts, seed, shown, answers, asked), folder)
    (folder / "benchmark.toml").write_text("".join(_benchmark(asked, seed)), encoding="utf-8")
    return snapshot


def _parts(facts: int, seed: int, day: int, answers: object, asked: dict[str, list[str]]) -> Iterator[list[Row]]:
    """Yield the rows of some thousand facts at a time; what is asked of them and answered is noted on the way."""
    stream = made(facts, seed, day)
    while part := list(islice(stream, PART)):
        for fact in part:
            kind = f"{fact.subject.kind} {fact.property}"
            asked.setdefault(kind, []).append(_asks(fact))
            answers.writerows(_answers(fact, seed))  # type: ignore[attr-defined]
        yield [row for fact in part for row in fact.rows]


def _asks(fact: Fact) -> str:
    label = json.dumps(fact.subject.named.label, ensure_ascii=False)
    mention = f", mention = {json.dumps('the ' + fact.subject.named.label)}" if _has_article(fact) else ""
    return f'  {{ subject = {label}, entity = "{fact.subject.named.id}"{mention} }},\n'


def _has_article(fact: Fact) -> bool:
    label = fact.subject.named.label
    return label.startswith("Museum of") or label.endswith((" Islands", " Union"))


def _benchmark(asked: dict[str, list[str]], seed: int) -> Iterator[str]:
    yield f'name = "synthetic-{seed}"\nabout = "Made-up facts; nothing in it is true."\n'
    for name, facts in sorted(asked.items()):
        kind, prop = name.split()
        domain = (KINDS.get(kind) or ROSTER).domain
        yield f'\n[[group]]\nname = "{name}"\ndomain = "{domain}"\nproperty = "{prop}"\n'
        yield 'asks = "club"\n' if prop == "P54" else ""
        yield "facts = [\n"
        yield from facts
        yield "]\n\n[group.phrasings]\n"
        yield from (f"{key} = {json.dumps(text)}\n" for key, text in enumerate(SHAPES[prop].phrasings, 1))


KNOWS_UNTIL: Final = 20210930


def _answers(fact: Fact, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield what a model says that read until a day, and more of the famous than of the rest."""
    draw = random.Random(f"{seed}/answers/{fact.id}")
    names = [row.holder for row in fact.rows if row.holder and (row.start is None or row.start.span[0] <= KNOWS_UNTIL)]
    knows = min(0.95, 0.35 + 0.1 * fact.subject.sitelinks)
    for phrasing in "123":
        chance = draw.random()
        if names and chance < knows:
            text = f" {names[-1]}."
        elif names and chance < knows + 0.3 * (1 - knows):
            text = f" {draw.choice(names)}, as far as I know."
        elif chance < 0.97:
            text = f" {_person(draw, '').label}, who took over some years ago."
        else:
            text = " I do not know."
        yield f"{fact.id}#{phrasing}", text, ""


def main() -> None:
    """Write a graph and say where."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--facts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--date", default=DATE, help=f"the day the snapshot shows (default: {DATE})")
    chosen = parser.parse_args()
    snapshot = write(chosen.folder, chosen.facts, chosen.seed, chosen.date)
    counts = snapshot.manifest["counts"]
    said = (f"{counts[name]:,} {name}" for name in ("facts", "statements", "triples"))
    print(f"{snapshot.path}:", ", ".join(said))


if __name__ == "__main__":
    main()
