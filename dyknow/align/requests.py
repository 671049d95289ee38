"""The edit set: which facts a model should answer differently, derived from verdicts, never from a hand-made list.

An **update** is a fact that is outdated under the soft constraint; an **add** one to which the model named nobody who
ever held it; a **delete** one that it should no longer answer at all, whether right or outdated.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import orjson

from dyknow.align.base import EditRequest, Operation, Wording
from dyknow.benchmark import Benchmark, Question
from dyknow.prompts import Span
from dyknow.resultsfile import run_sql
from kg.answers import AnswerSet
from kg.errors import DataError, UsageError
from kg.resources import query

UNKNOWN: Final = "unknown"
"""What should be answered once a fact is deleted."""

_VERDICTS: Final[Mapping[Operation, tuple[str, ...]]] = {
    "update": ("outdated",),
    "add": ("irrelevant",),
    "delete": ("up-to-date", "outdated"),
}


def plan(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    benchmark: Benchmark,
    as_of: str,
    known_at: str | None = None,
    *,
    operation: Operation = "update",
    judge: str = "match",
    rule: str = "latest",
    prefix: bool = False,
    wording: str | None = None,
) -> list[EditRequest]:
    """Return the requests that bring a run's answers up to date as of a day, in the benchmark's order.

    Args:
        connection: The results.
        run: The run whose verdicts say what is wrong.
        benchmark: Its facts and phrasings.
        as_of: The day.
        known_at: The snapshot to believe; None: as for scores.
        operation: Which facts, see above.
        judge: Whose verdicts.
        rule: Who is up-to-date.
        prefix: The model is asked with "Answer with the name only".
        wording: The phrasing to edit; None: the first in which words stand before the subject.

    Raises:
        UsageError: there is nothing to do, or a fact has no such wording.
        QueryError: the snapshot is not there, or the judge judged for another day.
    """
    values = {"run": run, "as_of": as_of, "known_at": known_at, "judge": judge, "rule": rule}
    table = run_sql(connection, query("dyknow/plan.sql"), values)
    by_fact: dict[str, list[dict[str, Any]]] = {}
    for row in (dict(zip(table.columns, values, strict=True)) for values in table.rows):
        if row["verdict"] in _VERDICTS[operation]:
            by_fact.setdefault(row["fact"], []).append(row)
    asked: dict[str, list[Question]] = {}
    for question in benchmark.questions(prefix):
        asked.setdefault(question.fact.id, []).append(question)
    found = [_request(by_fact[fact], own, operation, wording) for fact, own in asked.items() if fact in by_fact]
    if not found:
        what = " or ".join(_VERDICTS[operation])
        raise UsageError(f"Run {run} has no fact that is {what} as of {as_of}.", hint="See: dyknow score --as-of DATE")
    return found


def changed(
    benchmark: Benchmark, before: Iterable[AnswerSet], after: Iterable[AnswerSet], *, prefix: bool = False
) -> list[EditRequest]:
    """Return the requests that move a model from one day to a later one: facts whose up-to-date holder is another.

    Args:
        benchmark: Its facts and phrasings.
        before: The answer sets of the earlier day.
        after: Those of the later day.
        prefix: The model is asked with "Answer with the name only".

    Raises:
        UsageError: nothing changed.
    """
    old = {one.fact: one.up_to_date for one in before}
    new = {one.fact: one.up_to_date for one in after}
    asked: dict[str, list[Question]] = {}
    for question in benchmark.questions(prefix):
        asked.setdefault(question.fact.id, []).append(question)
    found = []
    for fact, questions in asked.items():
        then, now = old.get(fact, ()), new.get(fact, ())
        if not then or not now or {one.entity for one in then} & {one.entity for one in now}:
            continue
        rows = [
            {
                "fact": fact,
                "domain": questions[0].fact.domain,
                "subject": questions[0].fact.subject_label,
                "before": then[0].label,
                "before_entity": then[0].entity,
                "target": one.label,
                "target_entity": one.entity,
            }
            for one in now
        ]
        found.append(_request(rows, questions, "update", None))
    if not found:
        raise UsageError("Nothing that is asked has changed between the two days.", hint="Take days further apart.")
    return found


def _request(
    rows: Sequence[Mapping[str, Any]], questions: Sequence[Question], operation: Operation, wording: str | None
) -> EditRequest:
    first, deleted = rows[0], operation == "delete"
    wordings = [_wording(question) for question in questions]
    chosen = _chosen(wordings, wording)
    return EditRequest(
        fact=first["fact"],
        domain=first["domain"],
        subject=first["subject"],
        operation=operation,
        prompt=chosen,
        paraphrases=tuple(one for one in wordings if one is not chosen),
        target=UNKNOWN if deleted else first["target"],
        target_entity=None if deleted else first["target_entity"],
        accepted=(UNKNOWN,) if deleted else tuple(row["target"] for row in rows),
        before=first["before"],
        before_entity=first["before_entity"],
    )


def _wording(question: Question) -> Wording:
    """Return a question as a wording; what is edited is the office where there is one, as in the study."""
    return Wording(question.id, question.text, question.office_span or question.subject_span)


def _chosen(wordings: Sequence[Wording], key: str | None) -> Wording:
    if key is None:
        # A subject of one token at the very start would stand on the attention sink, which must not be edited.
        return next((one for one in wordings if one.subject.start > 0), wordings[0])
    found = next((one for one in wordings if one.question.partition("#")[2] == key), None)
    if found is None:
        keys = ", ".join(one.question.partition("#")[2] for one in wordings)
        raise UsageError(f"{wordings[0].question.partition('#')[0]} has no phrasing {key}.", hint=f"It has {keys}.")
    return found


def neighbours(
    requests: Sequence[EditRequest], benchmark: Benchmark, count: int, seed: int = 0, *, prefix: bool = False
) -> tuple[Question, ...]:
    """Return questions about facts of the edited classes that are not edited: the hardest ones to leave alone.

    Args:
        requests: The edits.
        benchmark: Its facts and phrasings.
        count: How many facts at most, one question each: in the words that an edit of it would have.
        seed: Of the draw.
        prefix: The model is asked with "Answer with the name only".
    """
    edited = {request.fact for request in requests}
    classes = {(request.domain, request.fact.partition("/")[2]) for request in requests}
    asked: dict[str, list[Question]] = {}
    for question in benchmark.questions(prefix):
        fact = question.fact
        if fact.id not in edited and (fact.domain, fact.property) in classes:
            asked.setdefault(fact.id, []).append(question)
    drawn = random.Random(seed).sample(sorted(asked), min(count, len(asked)))
    found = []
    for fact_id in drawn:
        chosen = _chosen([_wording(question) for question in asked[fact_id]], None)
        found.append(next(question for question in asked[fact_id] if question.id == chosen.question))
    return tuple(found)


def save(requests: Iterable[EditRequest], path: Path) -> None:
    """Write requests as JSON objects, one a line, beside and then renamed."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(b"".join(orjson.dumps(_row(one), option=orjson.OPT_APPEND_NEWLINE) for one in requests))
    beside.replace(path)


def _row(request: EditRequest) -> dict[str, Any]:
    row = {name: getattr(request, name) for name in EditRequest.__slots__}
    return row | {
        "prompt": _wording_row(request.prompt),
        "paraphrases": [_wording_row(one) for one in request.paraphrases],
    }


def _wording_row(wording: Wording) -> dict[str, Any]:
    return {"question": wording.question, "text": wording.text, "subject": list(wording.subject)}


def load(path: Path) -> list[EditRequest]:
    """Return the requests of a file.

    Raises:
        DataError: a line is no request, a subject does not lie in its prompt, a fact stands there twice.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", hint="Write one: dyknow align plan") from error
    found: dict[str, EditRequest] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            request = _read(f"{path}, line {number}", line)
            if request.fact in found:
                raise DataError(f"{path}, line {number}: {request.fact} stands there twice.")
            found[request.fact] = request
    if not found:
        raise DataError(f"{path} holds no request.", hint="Write one: dyknow align plan RUN --as-of DATE --out FILE")
    return list(found.values())


def _read(where: str, line: bytes) -> EditRequest:
    try:
        row = orjson.loads(line)
        request = EditRequest(
            **row
            | {
                "prompt": _read_wording(row["prompt"]),
                "paraphrases": tuple(map(_read_wording, row["paraphrases"])),
                "accepted": tuple(row.get("accepted") or ()),
            }
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where} is no request: {error!r}.", hint="dyknow align plan writes such a file.") from error
    if request.operation not in _VERDICTS:
        raise DataError(f"{where}: {request.operation!r} is no operation.", hint=f"One of {', '.join(_VERDICTS)}.")
    if not request.target.strip():
        raise DataError(f"{where}: the target of {request.fact} is empty.", hint="Name what should be answered.")
    for wording in (request.prompt, *request.paraphrases):
        if not 0 <= wording.subject.start < wording.subject.end <= len(wording.text):
            raise DataError(f"{where}: the subject {list(wording.subject)} does not lie in {wording.text!r}.")
    return request


def _read_wording(row: Mapping[str, Any]) -> Wording:
    start, end = row["subject"]
    return Wording(str(row["question"]), str(row["text"]), Span(int(start), int(end)))
