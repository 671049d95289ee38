"""Carry out edits for the command line: plan them, load the run's model, edit it and ask it again."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from dyknow import benchmark as benchmarks
from dyknow.align import jobs as jobs_
from dyknow.align import methods, requests
from dyknow.align.base import EditRequest, Settings
from dyknow.align.documents import read_documents
from dyknow.benchmark import Benchmark
from dyknow.commands.asking import WAYS, Meter, find_run
from dyknow.commands.common import DAY, Places, iso, note
from dyknow.commands.edit_options import Chosen
from dyknow.commands.judging import results_of
from dyknow.commands.options import Asking, asked_with, settle, without_secrets
from dyknow.damage import survey
from dyknow.journal import RunInfo
from dyknow.models.base import Model
from kg.dates import Day
from kg.errors import RunError, UsageError


def planned(
    run: RunInfo,
    as_of: Day,
    known_at: str | None,
    places: Places,
    **how: Any,  # noqa: ANN401 -- as plan takes it
) -> list[EditRequest]:
    """Return the requests that a run's verdicts ask for; see `dyknow.align.requests.plan`."""
    prefix = bool(run.info.get("prefixed"))
    with results_of(places, [run.id]) as connection:
        return requests.plan(connection, run.id, benchmark_of(run), iso([as_of])[0], known_at, prefix=prefix, **how)


def benchmark_of(run: RunInfo) -> Benchmark:
    """Return the benchmark that a run asked."""
    record = run.info.get("asking") or {}
    return benchmarks.load(Path(record["benchmark"]) if record.get("benchmark") else None)


class Base(NamedTuple):
    """The model of a run, ready to be edited."""

    run: RunInfo
    model: Model
    benchmark: Benchmark
    prefix: bool
    batch_size: int


def load_base(run: RunInfo) -> Base:
    """Load the model of a run, with the settings it was asked with.

    Raises:
        ModelError: the model cannot be loaded.
    """
    from dyknow.models import load_model  # noqa: PLC0415 -- planning needs no models

    name, asking = asked_with(run.info["asking"], run.id, 1, "generate")
    chosen = settle(name, asking)
    note(f"Loading {name} ...")
    return Base(run, load_model(name, chosen.options), benchmark_of(run), chosen.prefix, asking.batch_size)


def editable(name: str, places: Places) -> RunInfo:
    """Return the run of a name, whose model can be loaded again.

    Raises:
        UsageError: there is no such run.
        RunError: it was imported, does not say how its model was loaded, or is of an edited model.
    """
    run = find_run(name, places.runs)
    if run.info.get("align"):
        base = run.info["align"].get("base_run")
        raise RunError(f"The run {run.id} is of an edited model.", hint=f"Edit the one it came from: {base}")
    if not run.info.get("asking"):
        raise RunError(
            f"The run {run.id} has no model that could be edited: it was not asked here.",
            hint="Ask the model first: dyknow run MODEL",
        )
    return run


def job_of(
    method: str,
    run: RunInfo,
    as_of: Day,
    known_at: str | None,
    chosen: Chosen,
    places: Places,
    *,
    found: Sequence[EditRequest] | None = None,
    since: Day | None = None,
) -> jobs_.Job:
    """Return what is to be edited, and how.

    Args:
        method: Its name.
        run: Whose model.
        as_of: The day.
        known_at: The snapshot to believe; None: as for scores.
        chosen: The options.
        places: Where data lives.
        found: What there is to edit; None: the requests of a file, else what the run gets wrong.
        since: The earlier day that the model is moved from.

    Raises:
        UsageError: there is no such method, or nothing to edit.
    """
    row, snapshot = methods.method(method), places.snapshot(as_of, known_at).id
    if chosen.requests is not None:
        found = requests.load(chosen.requests)
    if found is None:
        found = planned(run, as_of, known_at, places, operation=chosen.operation)
    kept = jobs_.subset(found, min(chosen.limit, len(found)), chosen.seed) if chosen.limit else tuple(found)
    return jobs_.Job(
        method,
        row.function,
        Settings(chosen.preset, chosen.seed, chosen.options),
        kept,
        run,
        iso([as_of])[0],
        snapshot,
        len(found),
        chosen.seed if chosen.limit else None,
        iso([since])[0] if since else None,
        given=tuple(path.stem for path in (chosen.requests, chosen.documents) if path is not None),
    )


def perform(
    jobs: Sequence[jobs_.Job],
    as_of: Day,
    chosen: Chosen,
    places: Places,
    *,
    whole: bool,
    delta: Path | None = None,
) -> list[RunInfo]:
    """Carry out jobs on one model; those whose run stands already are not done again.

    Args:
        jobs: What is to be edited.
        as_of: The day.
        chosen: The options.
        places: Where data lives.
        whole: Whether the whole benchmark is asked, not only what was edited.
        delta: Where the change of the weights is saved.

    Raises:
        UsageError: the weights' change is to be saved, and the method changes none.
        RunError: a run of that name was made otherwise.
        AlignError: the method cannot edit this model, or the model collapsed.
    """
    done: list[RunInfo] = []
    base: Base | None = None
    for job in jobs:
        if delta is not None and methods.method(job.method).changes != "weights":
            message = f"The method {job.method} changes no weights, so there is nothing to save."
            raise UsageError(message, hint="Leave --delta out.")
        name = jobs_.run_id(job, whole)
        standing = jobs_.standing(places.runs / name, job)
        if standing is not None and delta is None:
            note(f"Run {name} is there already.")
            done.append(standing)
            continue
        base = base or load_base(job.base)
        asking = _asking(base, job, places, chosen, whole=whole)
        outcome = jobs_.edit(base.model, _equipped(job, base, as_of, chosen, places), asking, name)
        changed = getattr(outcome.aligned, "delta", None)
        if delta is not None and changed is not None:
            changed.save(delta)
            note(f"Saved the change of the weights in {delta}.")
        done.append(outcome.run)
    return done


def _equipped(job: jobs_.Job, base: Base, as_of: Day, chosen: Chosen, places: Places) -> jobs_.Job:
    documents = None if chosen.documents is None else read_documents(chosen.documents)
    given = methods.knowledge(
        places.named(str(job.known_at)), base.benchmark, job.requests, as_of, prefix=base.prefix, documents=documents
    )
    return replace(job, equipped=methods.equipped(job.method, job.settings, given))


def _asking(base: Base, job: jobs_.Job, places: Places, chosen: Chosen, *, whole: bool) -> jobs_.Asking:
    asked, prefix = base.benchmark, base.prefix
    edited = jobs_.edited_questions(job.requests, asked, prefix)
    return jobs_.Asking(
        asked,
        asked.questions(prefix) if whole else edited,
        places.runs,
        lambda: datetime.now(tz=UTC),
        base.batch_size,
        without_secrets(shlex.join(["dyknow", *sys.argv[1:]])),
        Steps(),
        Meter(),
        requests.neighbours(job.requests, asked, chosen.neighbours, chosen.seed, prefix=prefix),
    )


class Steps:
    """Shows on standard error how far the edits have come: in place on a terminal, else every tenth."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show it where it is due."""
        live = sys.stderr.isatty()
        if live or done == total or done % 10 == 0:
            text = f"{done} of {total} edits, {what}"[:72]
            click.echo(f"{chr(13) if live else ''}{text:<72}", err=True, nl=not live or done == total)


# dyknow run align:METHOD/RUN[@DATE]

ALIGNED: Final = "align:"
"""How the name of an edited model begins, where a model is asked for."""


def ask_aligned(name: str, asking: Asking, places: Places) -> RunInfo:
    """Edit the model of a run and ask it the whole benchmark.

    Args:
        name: "align:rome/smollm2", with "@2023-12-18" for a day; without one the day of the run of that method that is
            there already, else the newest snapshot's.
        asking: The options of ``dyknow run``: what an edited model is asked with is its run's.
        places: Where data lives.

    Raises:
        UsageError: the name is none, or an option is given that the run has settled.
        RunError, AlignError: as for `perform`.
    """
    if asking != Asking(batch_size=asking.batch_size):
        raise UsageError(
            "An edited model is asked as its run was, so options of asking say nothing.",
            hint="Settings of the method: dyknow align edit METHOD RUN --as-of DATE --all --set KEY=VALUE",
        )
    method, slash, rest = name.removeprefix(ALIGNED).partition("/")
    base, _, day = rest.partition("@")
    if not slash or not base:
        raise UsageError(f"{name!r} names no edited model.", hint="Write align:METHOD/RUN, or align:METHOD/RUN@DATE.")
    methods.method(method)
    run = editable(base, places)
    as_of = DAY.convert(day, None, None) if day else _day_of(method, run, places)
    job = job_of(method, run, as_of, None, Chosen(), places)
    [done] = perform([job], as_of, Chosen(), places, whole=True)
    return done


def _day_of(method: str, run: RunInfo, places: Places) -> Day:
    edited = [one.info.get("align") or {} for one in survey(places.runs).runs]
    days = [one["as_of"] for one in edited if one.get("method") == method and one.get("base_run") == run.id]
    text = max(days) if days else places.newest().date
    found: Day = DAY.convert(text, None, None)
    return found


WAYS[ALIGNED] = ask_aligned
