"""What edits achieved: the study's Tables 3, 7 and 8 and Figure 3, out of verdicts; and the edits beside a run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import duckdb

from dyknow.journal import EDITS, replace_rows
from dyknow.resultsfile import run_sql
from dyknow.strata import checked
from kg.errors import UsageError

ALIGNED: Final = 85.0
"""Per cent of aligned knowledge above which the study marks a method with a double dagger."""


class Asks(Protocol):
    """A phrasing of a fact, as a request has it."""

    @property
    def question(self) -> str:
        """Its id, "Q38/P35#1"."""
        ...


class Request(Protocol):
    """One fact that a model should answer differently: what `dyknow.align.base.EditRequest` has."""

    @property
    def fact(self) -> str: ...  # noqa: D102
    @property
    def domain(self) -> str: ...  # noqa: D102
    @property
    def operation(self) -> str: ...  # noqa: D102
    @property
    def prompt(self) -> Asks: ...  # noqa: D102
    @property
    def paraphrases(self) -> Sequence[Asks]: ...  # noqa: D102
    @property
    def target(self) -> str: ...  # noqa: D102
    @property
    def target_entity(self) -> str | None: ...  # noqa: D102
    @property
    def before(self) -> str | None: ...  # noqa: D102
    @property
    def before_entity(self) -> str | None: ...  # noqa: D102


class Edit(NamedTuple):
    """A line of edits.jsonl: one edited fact, in words of the journal."""

    fact: str
    domain: str
    operation: str
    prompt: str  # id of the question that was edited
    paraphrases: tuple[str, ...]  # ids of the other counted questions
    target: str
    target_entity: str | None
    before: str | None = None
    before_entity: str | None = None


class EditScore(NamedTuple):
    """A row of Tables 3, 7 and 8: what the edits of one run achieved in one domain, in per cent."""

    run: str
    title: str
    model: str | None
    method: str | None
    mode: str | None
    preset: str | None
    seed: int | None
    edits: int | None
    of: int | None
    domain: str  # or "all": pooled
    facts: int
    n: int  # facts whose counted questions are all answered, covered and judged
    efficacy: float | None  # of n facts; None where n is 0
    paraphrase: float | None  # of the other questions of these facts; None where there is none
    harmonic_mean: float | None
    arithmetic_mean: float | None
    soft: float | None
    mark: str  # ‡ where the harmonic mean is over 85
    soft_mark: str


class CurvePoint(NamedTuple):
    """A point of Figure 3: what one number of edits achieved over all domains, in per cent."""

    model: str | None
    method: str | None
    mode: str | None
    preset: str | None
    seed: int | None
    run: str
    edits: int
    of: int
    share: float  # edits, in per cent of `of`
    n: int
    efficacy: float | None
    paraphrase: float | None
    harmonic_mean: float | None
    arithmetic_mean: float | None
    soft: float | None


class SideEffect(NamedTuple):
    """How many facts went from one verdict (soft constraint) to another through the edits of a run."""

    role: str  # "edited"; "same class", of a property that was edited in that domain; "other"
    verdict_before: str | None
    verdict_after: str | None
    facts: int
    same_answer: int  # of these, answered word for word as before in every phrasing


def edit_of(request: Request) -> Edit:
    """Return a request in words of the journal."""
    return Edit(
        request.fact, request.domain, request.operation, request.prompt.question,
        tuple(one.question for one in request.paraphrases), request.target, request.target_entity, request.before,
        request.before_entity,
    )  # fmt: skip


def write_edits(folder: Path, requests: Iterable[Request]) -> int:
    """Write edits.jsonl, which says what the model of a run was edited on, and return the number of edits.

    Beside it run.json has a record "align": method, mode, preset, model, base_run, as_of, edits (their number), of (of
    how many that could have been edited) and seed.

    Args:
        folder: The run's folder.
        requests: What was edited, in order.

    Raises:
        UsageError: a fact is edited twice.
    """
    edits = [edit_of(request) for request in requests]
    once(edits)
    replace_rows(folder / EDITS, [edit._asdict() for edit in edits])
    return len(edits)


def once(edits: Iterable[Edit]) -> None:
    """Refuse edits of which two are of one fact: no score could tell them apart.

    Raises:
        UsageError: there are such.
    """
    seen: set[str] = set()
    for edit in edits:
        if edit.fact in seen:
            raise UsageError(f"The fact {edit.fact} is edited twice.", hint="One target a fact.")
        seen.add(edit.fact)


def edit_scores(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
    split: str = "domain",
) -> list[EditScore]:
    """Return what the edits of each run achieved, by domain, or as `dyknow.analysis.score` splits tables, and over all.

    Raises:
        UsageError: no run is of an edited model, or the judge has judged none of them.
        QueryError: the snapshot is not there, or the judge judged for another day.
    """
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule, "split": checked(split)}
    call = "FROM edit_scores($as_of, known_at := $known_at, judge := $judge, rule := $rule, split := $split)"
    rows = run_sql(connection, call, values).rows
    found = [EditScore(*row) for row in rows if runs is None or row[0] in runs]
    judged = {score.run for score in found if score.n}
    if found and not judged:
        raise UsageError(f"Judge {judge} has judged no edited run as of {as_of}.", hint="dyknow score --judge match")
    return [score for score in found if score.run in judged] or _none()


def edit_curve(
    connection: duckdb.DuckDBPyConnection,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
    runs: Sequence[str] | None = None,
) -> list[CurvePoint]:
    """Return what different numbers of edits achieved, by model and method.

    Raises:
        UsageError: no model was edited with several numbers of edits, or the judge has judged none.
        QueryError: as for `edit_scores`.
    """
    call = "FROM edit_curve($as_of, known_at := $known_at, judge := $judge, rule := $rule)"
    values = {"as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule}
    found = [CurvePoint(*row) for row in run_sql(connection, call, values).rows]
    found = [point for point in found if point.n and (runs is None or point.run in runs)]
    return found or _none()


def side_effects(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    as_of: str,
    known_at: str | None = None,
    *,
    judge: str = "match",
    rule: str = "latest",
) -> list[SideEffect]:
    """Return what an edited run changed beside its edits, where its base run asked the same facts.

    Raises:
        QueryError: as for `edit_scores`.
    """
    call = "FROM side_effects($run, $as_of, known_at := $known_at, judge := $judge, rule := $rule)"
    values = {"run": run, "as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule}
    return [SideEffect(*row) for row in run_sql(connection, call, values).rows]


def _none() -> list[Any]:
    hint = "Take what others published: dyknow import examples/editing"
    raise UsageError("No run is of an edited model that was judged so.", hint=hint)
