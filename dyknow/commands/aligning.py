"""Commands that bring a model up to date, and measure how well: plan, edit, curve, refresh."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from dyknow import benchmark as benchmarks
from dyknow.align import measures, methods, requests, session
from dyknow.align.base import EditRequest, Operation, Settings
from dyknow.align.documents import read_documents
from dyknow.benchmark import Benchmark
from dyknow.commands.asking import Meter, find_run
from dyknow.commands.common import (
    DayType,
    F,
    Group,
    Places,
    as_of_option,
    emit,
    example,
    format_option,
    iso,
    judge_option,
    known_at_option,
    note,
    places,
    rule_option,
    show,
)
from dyknow.commands.edit_scores import show_edits
from dyknow.commands.judging import results_of
from dyknow.commands.options import asked_with, settle, without_secrets
from dyknow.journal import RunInfo
from dyknow.models.base import Model
from dyknow.tables import Format, Listing
from kg import identity
from kg.answers import AnswerSet, answers
from kg.dates import Day
from kg.errors import RunError, UsageError
from kg.store import open_store

METHOD_HELP = "METHOD is one of: " + "; ".join(f"{name}, {row.about}" for name, row in methods.METHODS.items()) + "."


@click.group("align", cls=Group)
def align() -> None:
    """Bring a model's outdated facts up to date, and measure how well.

    `plan` shows what a run gets wrong, `edit` edits the run's model and asks it again, `curve` does so for growing
    numbers of edits, `refresh` moves a model from one day to a later one. An edited model is a run like any other.
    """


operation_option = click.option(
    "--operation",
    type=click.Choice(["update", "add", "delete"]),
    default="update",
    show_default=True,
    help="Facts answered with an outdated holder; with none at all; or all that are answered, to be unlearnt.",
)


@align.command(
    "plan",
    epilog=example(
        "dyknow align plan smollm2 --as-of 2023-12-18",
        "dyknow align plan gpt2-xl --as-of 2023-12-18 --out edits.jsonl",
    ),
)
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@judge_option
@rule_option
@operation_option
@click.option("--wording", metavar="KEY", help="The phrasing to edit. Else the first with words before the subject.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the requests there, for --requests.")
@format_option
@places("snapshots", "runs", "database")
def plan(
    name: str,
    as_of: Day,
    known_at: str | None,
    judge: str,
    rule: str,
    operation: Operation,
    wording: str | None,
    out: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Show which facts a run gets wrong, and what should be answered instead.

    Of the study's countries the office is the edited subject ("Prime Minister of Italy"), else the subject itself.
    """
    run = find_run(name, places.runs)
    found = _planned(run, as_of, known_at, places, judge=judge, rule=rule, operation=operation, wording=wording)
    if out is not None:
        requests.save(found, out)
        note(f"Wrote {len(found)} requests to {out}.")
    columns = ("fact", "subject", "answered", "should be", "edited question")
    rows = [
        (one.fact, one.prompt.subject.of(one.prompt.text), one.before, one.target, one.prompt.text) for one in found
    ]
    if form != "table":
        show(
            Listing(
                (*columns[:4], "question", "operation"),
                [(*row[:4], one.prompt.question, one.operation) for row, one in zip(rows, found, strict=True)],
            ),
            form,
        )
        return
    show(
        Listing(
            columns[1:4], [row[1:4] for row in rows], f"{len(found)} facts to {operation}, as of {iso([as_of])[0]}"
        ),
        form,
    )


class Chosen(NamedTuple):
    """The options that say how facts are edited."""

    preset: str
    seed: int
    options: dict[str, Any]
    documents: Path | None
    requests: Path | None
    limit: int | None
    operation: Operation


def _value(text: str) -> Any:  # noqa: ANN401 -- a number, a truth value, a list or a text
    """Return what a text stands for.

    >>> _value("0.5"), _value("[4, 5]"), _value("given"), _value("true")
    (0.5, [4, 5], 'given', True)
    """
    import orjson  # noqa: PLC0415 -- only where a value is given

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _options(given: Iterable[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in given]
    for text, sign, _ in pairs:
        if not sign:
            raise UsageError(f"--set {text} has no value.", hint="Write --set layer=5, say.")
    return {key.strip(): _value(value) for key, _, value in pairs}


def _planned(
    run: RunInfo,
    as_of: Day,
    known_at: str | None,
    places: Places,
    **how: Any,  # noqa: ANN401 -- as plan takes it
) -> list[EditRequest]:
    record = run.info.get("asking") or {}
    bench = benchmarks.load(Path(record["benchmark"]) if record.get("benchmark") else None)
    with results_of(places) as connection:
        return requests.plan(
            connection, run.id, bench, iso([as_of])[0], known_at, prefix=bool(run.info.get("prefixed")), **how
        )


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
        RunError: the run was imported, or does not say how its model was loaded.
        ModelError: the model cannot be loaded.
    """
    from dyknow.models import load_model  # noqa: PLC0415 -- planning needs no models

    if not run.info.get("asking"):
        raise RunError(
            f"The run {run.id} has no model that could be edited: it was not asked here.",
            hint="Ask the model first: dyknow run MODEL",
        )
    name, asking = asked_with(run.info["asking"], run.id, 1, "generate")
    chosen = settle(name, asking)
    note(f"Loading {name} ...")
    return Base(
        run, load_model(name, chosen.options), benchmarks.load(asking.benchmark), chosen.prefix, asking.batch_size
    )


def edit_options(function: F) -> F:
    """Give a command the options of `Chosen`, and them as ``chosen``."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
        given = _options(kwargs.pop("set_"))
        fields = {name: kwargs.pop(name) for name in Chosen._fields if name != "options"}
        return function(*args, chosen=Chosen(options=given, **fields), **kwargs)

    command: Any = wrapped
    for option in reversed(_EDIT_OPTIONS):
        command = option(command)
    return command  # type: ignore[no-any-return]


_EDIT_OPTIONS = (
    click.option(
        "--preset",
        type=click.Choice(["recommended", "original", "paper"]),
        default="recommended",
        show_default=True,
        help="Settings: ours; those of the method's own paper; those of the study.",
    ),
    click.option(
        "--set", "set_", metavar="KEY=VALUE", multiple=True, help="A setting of the method, over the preset's."
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Where random draws begin."),
    operation_option,
    click.option(
        "--requests",
        "requests",
        type=click.Path(path_type=Path),
        help="Edit what this file asks for (align plan --out).",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Only so many edits: the first of a shuffle by --seed."),
    click.option(
        "--documents",
        type=click.Path(path_type=Path, exists=True),
        help="A folder or file of texts for RAG and second moments. Else the snapshot's statements in words.",
    ),
)


@align.command(
    "edit",
    epilog=example(
        "dyknow align edit rome smollm2 --as-of 2023-12-18",
        "dyknow align edit memit smollm2 --as-of 2023-12-18 --preset paper --limit 10",
        "dyknow align edit rag smollm2 --as-of 2023-12-18 --set mode=gold",
    ),
    help=f"""Edit the facts that RUN gets wrong, and ask the edited model for them again.

    The model of RUN is loaded as it was asked, edited by METHOD, watched for collapse on unrelated prompts, asked, and
    put back. The answers are a run of their own, scored beside all others; with --all the whole benchmark is asked, so
    that side effects on other facts are seen, too (`dyknow run align:METHOD/RUN` does the same).

    {METHOD_HELP}""",
)
@click.argument("method", metavar="METHOD")
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@edit_options
@click.option("--all", "whole", is_flag=True, help="Ask the whole benchmark, not only what was edited.")
@click.option("--delta", type=click.Path(path_type=Path), help="Save the change of the weights in this folder.")
@format_option
@places("snapshots", "runs", "database")
def edit(
    method: str,
    name: str,
    as_of: Day,
    known_at: str | None,
    chosen: Chosen,
    whole: bool,
    delta: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Edit a model and ask it again."""
    run = find_run(name, places.runs)
    job = _job(method, run, as_of, known_at, chosen, places)
    done = _perform([job], as_of, chosen, places, whole, delta)
    _report(done, as_of, known_at, form, places)


@align.command(
    "curve",
    epilog=example(
        "dyknow align curve rome smollm2 --as-of 2023-12-18",
        "dyknow align curve memit smollm2 --as-of 2023-12-18 --at 10 --at 20 --seeds 3",
    ),
)
@click.argument("method", metavar="METHOD")
@click.argument("name", metavar="RUN")
@as_of_option()
@known_at_option
@edit_options
@click.option(
    "--at",
    "counts",
    multiple=True,
    default=("25%", "50%", "75%", "100%"),
    show_default=True,
    help="A number of edits, or a share of all. Give it again for further ones.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many shuffles.")
@format_option
@places("snapshots", "runs", "database")
def curve(
    method: str,
    name: str,
    as_of: Day,
    known_at: str | None,
    chosen: Chosen,
    counts: tuple[str, ...],
    seeds: int,
    form: Format,
    places: Places,
) -> None:
    """Edit growing numbers of facts, each time in fresh weights, and show what becomes of the edits.

    The sets of one seed grow: each holds the smaller ones. Points that were measured before are not measured again.
    """
    run = find_run(name, places.runs)
    whole = _job(method, run, as_of, known_at, chosen._replace(limit=None), places)
    numbers = [_count(text, len(whole.requests)) for text in counts]
    jobs = session.curve(whole, numbers, range(chosen.seed, chosen.seed + seeds))
    done = _perform(jobs, as_of, chosen, places, whole=False, delta=None)
    with results_of(places) as connection:
        show_edits(connection, "curve", iso([as_of])[0], known_at, "match", "latest", [one.id for one in done], form)


def _count(text: str, total: int) -> int:
    """Return a number of edits.

    >>> _count("25%", 48), _count("10", 48)
    (12, 10)
    """
    try:
        found = round(float(text[:-1]) / 100 * total) if text.endswith("%") else int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number of edits.", hint="Write 10, or 25%.") from None
    return max(1, found)


def _job(method: str, run: RunInfo, as_of: Day, known_at: str | None, chosen: Chosen, places: Places) -> session.Job:
    row = methods.method(method)
    found = (
        requests.load(chosen.requests)
        if chosen.requests
        else _planned(run, as_of, known_at, places, operation=chosen.operation)
    )
    kept = session.subset(found, min(chosen.limit, len(found)), chosen.seed) if chosen.limit else tuple(found)
    settings = Settings(chosen.preset, chosen.seed, chosen.options)
    snapshot = places.snapshot(as_of, known_at).id
    seed = chosen.seed if chosen.limit else None
    return session.Job(method, row.function, settings, kept, run, iso([as_of])[0], snapshot, len(found), seed)


def _perform(
    jobs: Sequence[session.Job], as_of: Day, chosen: Chosen, places: Places, whole: bool, delta: Path | None
) -> list[RunInfo]:
    """Carry out jobs on one model; those whose run stands already are not done again."""
    done: list[RunInfo] = []
    base: Base | None = None
    for job in jobs:
        name = session.run_id(job, whole)
        standing = session.standing(places.runs / name, job)
        if standing is not None and delta is None:
            note(f"Run {name} is there already.")
            done.append(standing)
            continue
        base = base or load_base(job.base)
        outcome = session.edit(
            base.model, _equipped(job, base, as_of, chosen, places), _asking(base, job, places, whole), name
        )
        if delta is not None:
            _save(outcome, delta)
        done.append(outcome.run)
    return done


def _equipped(job: session.Job, base: Base, as_of: Day, chosen: Chosen, places: Places) -> session.Job:
    documents = None if chosen.documents is None else read_documents(chosen.documents)
    given = methods.knowledge(
        places.named(str(job.known_at)), base.benchmark, job.requests, as_of, prefix=base.prefix, documents=documents
    )
    return replace(job, equipped=methods.equipped(job.method, job.settings, given))


def _asking(base: Base, job: session.Job, places: Places, whole: bool) -> session.Asking:
    questions = (
        base.benchmark.questions(base.prefix)
        if whole
        else session.edited_questions(job.requests, base.benchmark, base.prefix)
    )
    return session.Asking(
        base.benchmark,
        questions,
        places.runs,
        lambda: datetime.now(tz=UTC),
        base.batch_size,
        without_secrets(shlex.join(["dyknow", *sys.argv[1:]])),
        Steps(),
        Meter(),
    )


class Steps:
    """Shows on standard error how far the edits have come: in place on a terminal, else every tenth."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show it where it is due."""
        live = sys.stderr.isatty()
        if live or done == total or done % 10 == 0:
            text = f"{done} of {total} edits, {what}"[:72]
            click.echo(f"{chr(13) if live else ''}{text:<72}", err=True, nl=not live or done == total)


def _save(outcome: session.Outcome, folder: Path) -> None:
    delta = getattr(outcome.aligned, "delta", None)
    if delta is None:
        raise UsageError("This method changes no weights, so there is nothing to save.", hint="Leave --delta out.")
    delta.save(folder)
    note(f"Saved the change of the weights in {folder}.")


def _report(runs: Sequence[RunInfo], as_of: Day, known_at: str | None, form: Format, places: Places) -> None:
    """Show what edits achieved, and what they did beside their aim."""
    names = [run.id for run in runs]
    with results_of(places) as connection:
        show_edits(connection, "edits", iso([as_of])[0], known_at, "match", "latest", names, form)
    if form == "table":
        emit("\n")
        show(_beside(runs), form)


def _beside(runs: Sequence[RunInfo]) -> Listing:
    """Return what edits did on unrelated prompts, and what they cost."""
    columns = ("run", "same text", "same word", "KL", "fluency", "mirrored", "s/edit")
    rows = []
    for run in runs:
        found = run.info["align"]["measures"]
        mirrored = f"{found['mirrored_right']} of {found['mirrored']}" if found["mirrored"] else None
        shares = [100 * found[name] for name in ("exact", "first_word")]
        kl = None if found["kl"] is None else f"{found['kl']:.3f}"
        rows.append((run.id, *shares, kl, found["fluency"], mirrored, found["seconds_an_edit"]))
    return Listing(columns, rows, f"Beside the aim: {len(measures.probes())} unrelated prompts, per cent unchanged")


@align.command(
    "refresh",
    epilog=example("dyknow align refresh smollm2 --from 2023-12-18 --to 2025-11-30"),
)
@click.argument("name", metavar="RUN")
@click.option(
    "--from", "first", type=DayType(), required=True, help="The day the model is up to date on, more or less."
)
@click.option("--to", "last", type=DayType(), required=True, help="The later day it is moved to.")
@click.option("--method", default="memit", show_default=True, help="Which method edits.")
@edit_options
@click.option("--all", "whole", is_flag=True, help="Ask the whole benchmark, not only what was edited.")
@click.option("--delta", type=click.Path(path_type=Path), help="Save the change of the weights in this folder.")
@format_option
@places("snapshots", "runs", "database")
def refresh(
    name: str,
    first: Day,
    last: Day,
    method: str,
    chosen: Chosen,
    whole: bool,
    delta: Path | None,
    form: Format,
    places: Places,
) -> None:
    """Move a model from one day to a later one, by editing what changed in the world in between.

    What is edited are the facts whose up-to-date holder on the later day is another than on the earlier one, whether
    or not the model knew the old one.
    """
    run = find_run(name, places.runs)
    record = run.info.get("asking") or {}
    bench = benchmarks.load(Path(record["benchmark"]) if record.get("benchmark") else None)
    before, after = (_answers(day, places) for day in (first, last))
    found = requests.changed(bench, before, after, prefix=bool(run.info.get("prefixed")))
    kept = (
        session.subset(found, min(chosen.limit or len(found), len(found)), chosen.seed)
        if chosen.limit
        else tuple(found)
    )
    settings = Settings(chosen.preset, chosen.seed, chosen.options)
    snapshot = places.snapshot(last, None).id
    row, seed = methods.method(method), chosen.seed if chosen.limit else None
    job = session.Job(
        method, row.function, settings, kept, run, iso([last])[0], snapshot, len(found), seed, iso([first])[0]
    )
    done = _perform([job], last, chosen, places, whole, delta)
    _report(done, last, None, form, places)


def _answers(day: Day, places: Places) -> list[AnswerSet]:
    return answers(open_store(places.snapshot(day, None)), identity.load(), day)
