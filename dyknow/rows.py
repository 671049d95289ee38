"""Rows of results.duckdb out of journals: runs, responses, likelihoods, and what a text may be matched to."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from dyknow import benchmark, named
from dyknow.candidates import Asked, Candidate, candidates_digest
from dyknow.journal import JOURNAL, RunInfo, each, edits, key_of, likelihoods, questions, responses
from dyknow.models import presets
from kg.answers import NameRow

_QUESTION_COLUMNS: Final = ("question", "fact", "domain", "subject", "phrasing", "counted")
_STRATA_COLUMNS: Final = ("sitelinks", "popularity", "region", "stratum")
_EDIT_COLUMNS: Final = (
    "fact", "domain", "operation", "paraphrases", "target", "target_entity", "before", "before_entity",
)  # fmt: skip


def sha256(*parts: bytes) -> str:
    """Return a digest of several texts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def asked_of(known: Iterable[Any], rows: Iterable[NameRow]) -> dict[str, Asked]:
    """Return facts by their ids, each with the names of all that hold it in some statement."""
    by_fact: dict[str, dict[str, list[NameRow]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_fact[row.fact][row.entity].append(row)
    found = {}
    for fact in known:
        candidates = tuple(_candidate(entity, own) for entity, own in sorted(by_fact[fact.fact].items()))
        # What the question says names nobody, so subject and office are part of what a match depends on.
        digest = sha256(candidates_digest(candidates).encode(), fact.subject.encode(), (fact.office or "").encode())
        found[fact.fact] = Asked(fact.fact, fact.subject, fact.property, fact.office, fact.whole, candidates, digest)
    return found


def _candidate(entity: str, rows: Sequence[NameRow]) -> Candidate:
    ordered = sorted(rows, key=lambda row: (row.kind != "label", row.name))
    firsts, lasts = [row.first_day for row in rows], [row.last_day for row in rows]
    return Candidate(
        entity=entity,
        labels=tuple(dict.fromkeys(row.name for row in ordered)),
        first_day=None if None in firsts else min(day for day in firsts if day is not None),
        last_day=None if None in lasts else max(day for day in lasts if day is not None),
        team_class=next((row.team_class for row in rows if row.team_class), None),
    )


def run_row(run: RunInfo) -> dict[str, Any]:
    """Return a run's row."""
    model = run.info.get("model") or {}
    return {
        "run": run.id,
        "kind": run.info.get("kind"),
        "title": run.info.get("title") or model.get("name") or run.id,
        "release_year": run.info.get("release_year"),
        "prefixed": bool(run.info.get("prefixed")),
        "model": (run.info.get("align") or {}).get("model") or model.get("name"),
        "samples": run.samples,
        **release(run)._asdict(),
        **_edited(run),
    }


def _edited(run: RunInfo) -> dict[str, Any]:
    """Return what a run's row says of the edits its model was given."""
    align = run.info.get("align") or {}
    columns = {"method": "method", "mode": "edit_mode", "preset": "edit_preset", "base_run": "base_run"}
    columns |= {"edits": "edit_count", "of": "edits_of", "seed": "edit_seed"}
    return {column: align.get(key) for key, column in columns.items()}


class Release(NamedTuple):
    """When a model came out: a day, whether that is "day" or only "year" of it, and who says so."""

    released: str | None
    release_known: str | None
    release_source: str | None


def release(run: RunInfo) -> Release:
    """Return when a run's model came out: as the run says, else by the day of its preset, else the last day of a year.

    A preset does not speak against the year that someone gave to a run of their own. The study's year does not speak
    against a preset: it is the year of the model, and the day is that of the version that was asked.
    """
    said, year = run.info.get("released") or {}, run.info.get("release_year")
    if said.get("day"):
        return Release(said["day"], "day", said.get("source"))
    preset = presets.find((run.info.get("model") or {}).get("name") or run.id)
    if preset and preset.released and (run.info.get("kind") != "asked" or year in (None, preset.released.year)):
        return Release(preset.released.isoformat(), "day", preset.sources.get("released"))
    if year is None and preset and preset.year:
        return Release(f"{preset.year:04}-12-31", "year", preset.sources.get("year"))
    if year is None:
        return Release(None, None, None)
    return Release(f"{year:04}-12-31", "year", "the year given with the run")


def response_rows(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield a run's responses, and a row "unanswered" for each one that a fact of the run lacks."""
    seen = set()
    for row in named.rows(run.path) if run.info.get("kind") == "named" else responses(run.path):
        seen.add(key_of(row))
        yield {**row, "run": run.id, "response_digest": _response_digest(row)}
    for about in _all_questions(run):
        for sample in range(run.samples):
            if (about["question"], sample) not in seen:
                yield {**about, "run": run.id, "sample": sample, "status": "unanswered"}


def told_rows(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield every line of a run's journal, and a row "unanswered" for each answer that it set out to get.

    That is more than `response_rows`, which keeps of all lines those that count: here each has its number, ``line``,
    and says whether it is only ``expected``, so that others can choose; a run of any length takes no memory.
    """
    lines = named.rows(run.path) if run.info.get("kind") == "named" else each(run.path / JOURNAL, "status")
    for line, row in enumerate(lines):
        digest = _response_digest(row)
        yield {**row, "run": run.id, "response_digest": digest, "expected": False, "line": line}
    expected = ((about, sample) for about in _all_questions(run) for sample in range(run.samples))
    for line, (about, sample) in enumerate(expected):
        yield {**about, "run": run.id, "sample": sample, "status": "unanswered", "expected": True, "line": line}


def _all_questions(run: RunInfo) -> list[dict[str, Any]]:
    """Return every phrasing of every fact that a run set out to ask; none where that is not known.

    A run from before questions were recorded is taken to have asked what it answered, save where it is the whole of the
    benchmark that ships.
    """
    if run.info.get("likelihoods") and not run.info.get("legs"):
        return []  # of a model that was only scored no answer is missing
    if recorded := questions(run.path):
        return [{key: row[key] for key in _QUESTION_COLUMNS} for row in recorded]
    if run.info.get("kind") != "asked":
        return []
    ours = benchmark.load()
    whole = run.info["benchmark"]["digest"] == ours.digest and run.info.get("questions") == len(ours.questions())
    return [_question_row(question) for question in ours.questions()] if whole else []


def likelihood_rows(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield the score of every holder that a run scored."""
    for row in likelihoods(run.path):
        about = {key: row[key] for key in _QUESTION_COLUMNS}
        for score in row["scores"]:
            yield {"run": run.id, **about, **score}


def strata_rows(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield what the benchmark of a run says of the popularity of its facts, and of what they were drawn from."""
    seen = set()
    for row in questions(run.path):
        own: dict[str, Any] = {name: row[name] for name in _STRATA_COLUMNS if name in row}
        if own and row["fact"] not in seen:
            seen.add(row["fact"])
            yield {"run": run.id, "fact": row["fact"], **own}


def edit_rows(run: RunInfo) -> Iterator[dict[str, Any]]:
    """Yield the edits of a run's model, in their order."""
    for position, row in enumerate(edits(run.path)):
        about = {key: row.get(key) for key in _EDIT_COLUMNS}
        yield {**about, "run": run.id, "position": position, "edit_question": row["prompt"]}


def _question_row(question: benchmark.Question) -> dict[str, Any]:
    fact = question.fact
    values = (question.id, fact.id, fact.domain, fact.subject_label, question.phrasing, True)
    return dict(zip(_QUESTION_COLUMNS, values, strict=True))


def _response_digest(row: Mapping[str, Any]) -> str:
    if "entity" in row:  # a run of kind "named" says whom a text named, and not the text
        return sha256(named.VERSION.encode(), orjson.dumps([row["entity"], row["label"], row["reason"]]))
    return sha256((row.get("prompt") or "").encode(), (row.get("text") or "").encode())


def named_row(row: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Take over whom a run of kind "named" says its text names."""
    return {
        "response_digest": row["response_digest"],
        "fact": asked.fact,
        "candidates_digest": asked.digest,
        "matcher_version": named.VERSION,
        "matcher_parameters": None,
        "entity": row["entity"],
        "reason": row["reason"],
        "span_start": None,
        "span_end": None,
        "matched": "",
        "alias": row["label"] or "",
        "match_rule": "named",
        "score": None,
    }
