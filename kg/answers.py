"""Answer sets as of a day, and standings over all days."""

from typing import NamedTuple

from kg.terms import EndKind, Rule, Standing, Status, Validity


class Holder(NamedTuple):
    """What one entity is to a fact on one day.

    Of an entity with several statements (two terms of one person) the statement that counts most on that day speaks.
    """

    entity: str  # "Q42", or the IRI where no Wikidata id is known
    iri: str  # as the snapshot names it
    label: str
    standing: Standing
    certain: bool  # the standing is the same for every choice of days inside the spans
    validity: Validity
    superseded: bool  # valid on the day, but another one started later
    study: Standing  # the standing under the study's rule: the latest start wins even when it has ended
    start: tuple[int, int] | None  # earliest and latest first day; None where the snapshot has none
    end: tuple[int, int] | None  # earliest and latest end (the first day no longer held); None: open or unknown
    end_kind: EndKind
    team_class: str | None
    statement: str


class AnswerSet(NamedTuple):
    """All holders of one fact as one snapshot lets them stand on one day."""

    fact: str  # "Q38/P35"
    subject: str
    property: str
    office: str | None
    as_of: int
    snapshot: str
    status: Status
    open_order: bool  # several holders are up-to-date: a tie, or precision leaves their order open
    holders: tuple[Holder, ...]  # up-to-date first, then outdated and later ones, latest start first

    @property
    def up_to_date(self) -> tuple[Holder, ...]:
        """The holders that count as the right answer."""
        return tuple(h for h in self.holders if h.standing is Standing.UP_TO_DATE)


class StandingRow(NamedTuple):
    """The standing of an entity over a stretch of days on which nothing changes."""

    fact: str
    entity: str
    rule: Rule
    from_day: int
    to_day: int | None  # the first day it no longer holds; None: for ever
    standing: Standing
    certain: bool
    validity: Validity
    superseded: bool
    statement: str
    start_day: int | None  # earliest first day of the statement
    end_day: int | None  # latest end of the statement


class CoverageRow(NamedTuple):
    """What the snapshot knows of a fact over a stretch of days."""

    fact: str
    from_day: int
    to_day: int | None
    status: Status


class NameRow(NamedTuple):
    """A name the snapshot has for an entity that holds a fact in some statement, whatever its rank."""

    fact: str
    entity: str
    name: str
    kind: str  # "label" or "alias"
    first_day: int | None  # earliest first day over the entity's statements of this fact
    last_day: int | None  # latest end; None: open
    team_class: str | None
