"""Commands that fill journals: the benchmark and runs of models."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import click

from dyknow import beliefs, journal
from dyknow import benchmark as benchmarks
from dyknow import run as runs_
from dyknow.benchmark import Fact
from dyknow.commands.common import (
    Group,
    Places,
    command,
    duration,
    emit,
    example,
    format_option,
    nearest,
    note,
    places,
    show,
)
from dyknow.commands.options import MODEL_HELP, Asking, asking_options, recorded, settle, shard_option, without_secrets
from dyknow.damage import survey
from dyknow.generate import findings
from dyknow.journal import RunInfo
from dyknow.run import Progress
from dyknow.tables import Format, Listing
from kg.errors import DataError, RunError, UsageError

# The benchmark


@click.group("benchmark", cls=Group)
def benchmark() -> None:
    """The facts that are asked, and in which words.

    Without a FILE it is the study's own: 98 subjects, 130 facts, three phrasings each. A benchmark of your own is a
    TOML file; examples/extension.toml is the shortest one. A large one is drawn from a snapshot (`generate`), and may
    be a Parquet table.
    """


_file = click.argument("file", type=click.Path(path_type=Path), required=False)


@benchmark.command(
    "show", epilog=example("dyknow benchmark show --subject Poland", "dyknow benchmark show --format csv")
)
@_file
@click.option("--subject", metavar="NAME", help="Only this subject: its English label in any case, or its Q-id.")
@format_option
def show_benchmark(file: Path | None, subject: str | None, form: Format) -> None:
    """Show the facts of a benchmark; of one subject, or as JSON or CSV, every question in full."""
    bench = benchmarks.load(file)
    facts = [fact for fact in bench.facts if subject is None or _is(fact, subject)]
    if not facts:
        labels = {fact.subject_label for fact in bench.facts}
        raise UsageError(
            f"The benchmark {bench.name} has no subject {subject!r}.",
            hint=nearest(str(subject), labels, "dyknow benchmark show"),
        )
    note(f"Benchmark {bench.name} ({bench.digest[:12]}): {len(bench.facts)} facts, {len(bench.questions())} questions.")
    if subject is None and form == "table":
        show(Listing(("fact", "domain", "subject", "office"), [_fact_row(fact) for fact in facts]), form)
        return
    kept = {fact.id for fact in facts}
    rows = [
        (q.id, q.fact.domain, q.fact.subject_label, q.fact.property, q.fact.office, q.phrasing, q.text)
        for q in bench.questions()
        if q.fact.id in kept
    ]
    columns = ("question", "domain", "subject", "property", "office", "phrasing", "text")
    brief = Listing(("question", "text"), [(row[0], row[-1]) for row in rows])
    show(brief if form == "table" else Listing(columns, rows), form)


def _is(fact: Fact, subject: str) -> bool:
    return subject.casefold() in (fact.subject_label.casefold(), fact.subject.casefold(), fact.id.casefold())


def _fact_row(fact: Fact) -> tuple[object, ...]:
    return fact.id, fact.domain, fact.subject_label, fact.office or fact.property


@benchmark.command(
    epilog=example("dyknow benchmark check examples/extension.toml", "dyknow benchmark check tail.parquet --format csv")
)
@_file
@format_option
def check(file: Path | None, form: Format) -> None:
    """Check a benchmark file and say what it asks.

    A misspelt key, a placeholder nothing fills and a fact that stands twice are errors that name file and line. Then
    what makes answers hard to judge is listed: subjects without a label, two subjects of one name that are asked for
    one property, two facts that are asked in the same words. Where there is any, the command ends with 1.
    """
    bench = benchmarks.load(file)
    domains = Counter(fact.domain for fact in bench.facts)
    parts = ", ".join(f"{name} {count}" for name, count in domains.items())
    asked = sum(len(bench.phrasings[fact.group]) for fact in bench.facts)
    said = f"{bench.name}: {len(bench.facts)} facts ({parts}), {asked} questions, digest {bench.digest}"
    (emit if form == "table" else note)(f"{said}\n" if form == "table" else said)
    found = findings(bench)
    if found or form != "table":
        rows = [(one.kind, one.detail, ", ".join(one.facts)) for one in found]
        show(Listing(("finding", "what", "facts"), rows), form)
    if found:
        kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(one.kind for one in found).items())
        raise DataError(f"Answers to some questions cannot be judged well: {kinds}.", hint="Leave these facts out.")


# Runs


@command(
    epilog=example(
        "dyknow run smollm2",
        "dyknow run openai-community/gpt2-xl --batch-size 8",
        "dyknow run my-finetuned-model/ --style completion --dtype bfloat16",
        "dyknow run models/mistral-7b.Q4_K_M.gguf --title 'Mistral 7B'",
        "dyknow run vllm:NAME --base-url http://a:8000/v1 --base-url http://b:8000/v1",
        "dyknow run openai:gpt-4o",
        "dyknow run anthropic:claude-sonnet-4-5 --concurrency 2",
        "dyknow run smollm2 --samples 10 --temperature 0.7 --seed 1",
        "dyknow run smollm2 --ask loglik",
        "dyknow run scripted:examples/answers.toml --limit 30",
        "dyknow run align:rome/smollm2@2023-12-18",
        "dyknow run vllm:NAME --benchmark many.parquet --shard 1/4 --close",
    ),
    help=f"""Ask a model the benchmark's questions and keep every answer.

    The answers stand in runs/NAME/responses.jsonl, one a line, and are never changed. The same command goes on where an
    interrupted one stopped, asks again what failed, and asks nothing twice. How known models are best asked is filled
    in; every setting can be given as an option or in a file (--settings), and other settings make another run.

    {MODEL_HELP}

    align:METHOD/RUN@DATE is the model of RUN, brought up to date as of DATE by METHOD (see `dyknow align`), and asked
    the whole benchmark. Without @DATE it is the day of the run of METHOD that is there already, else the newest
    snapshot's.

    --shard 2/4 asks the second of four parts, for jobs side by side. A part is the same whatever is answered already;
    it holds all phrasings of its facts. Tables leave parts out until `dyknow runs merge` has joined them.""",
)
@click.argument("model")
@asking_options
@shard_option
@click.option("--close", is_flag=True, help="Compress the run's journals when nothing is left to ask.")
@places("snapshots", "runs", "database")
def run(model: str, asking: Asking, close: bool, places: Places) -> None:
    """Ask a model."""
    done = ask(model, asking, places)
    emit(f"{done.path}\n")
    if close and done.state == "done":
        note(f"Closed: {journal.close(done)}.")
    if done.info.get("errors"):
        raise RunError(
            f"{done.info['errors']} questions of run {done.id} have no answer.",
            hint="The same command asks them again.",
        )


WAYS: Final[dict[str, Callable[[str, Asking, Places], RunInfo]]] = {}
"""Other ways to a run, by how the model's name begins; a module that knows one puts it in."""


def ask(model: str, asking: Asking, places: Places) -> RunInfo:
    """Ask a model by the options of a command, showing progress, and return the run."""
    from dyknow.models import load_model  # noqa: PLC0415 -- other commands need no models

    for beginning, way in WAYS.items():
        if model.startswith(beginning):
            if asking.shard:
                raise UsageError(f"{model} is edited once and asked as a whole.", hint="Leave --shard out.")
            return way(model, asking, places)
    bench = benchmarks.load(asking.benchmark)
    chosen = settle(model, asking)
    if asking.samples > 1 and not chosen.options.temperature:
        raise UsageError(
            f"At temperature 0 all {asking.samples} samples of a question are the same text.",
            hint="Draw at random: --temperature 0.7, say.",
        )
    if chosen.released:
        note_year(asking.year, str(chosen.released["day"]), chosen.released["source"])
    note(f"Loading {model} ...")
    shared: dict[str, Any] = {
        "benchmark": bench,
        "clock": lambda: datetime.now(tz=UTC),
        "run_id": asking.run_id,
        "seed": chosen.options.seed if chosen.options.temperature else 0,
        "progress": Meter(),
        "shard": asking.shard,
    }
    extra: dict[str, Any] = {
        "title": chosen.title,
        "release_year": chosen.year,
        "released": chosen.released,
        "command": without_secrets(shlex.join(["dyknow", *sys.argv[1:]])),
        "asking": recorded(model, asking, chosen),
    }
    loaded, questions = load_model(model, chosen.options), bench.questions(chosen.prefix)[: asking.limit]
    if asking.ask == "loglik":
        holders = beliefs.find_holders(places.find(), {question.fact.id for question in questions})
        done = beliefs.score_holders(loaded, questions, places.runs, holders=holders, extra=extra, **shared)
        _note_kept(done, extra)
        note(f"Run {done.id}: holders of {done.info['likelihoods']['scored']} questions scored.")
        return done
    sizes: dict[str, Any] = {"batch_size": asking.batch_size, "samples": asking.samples}
    done = runs_.run_model(loaded, questions, places.runs, **sizes, **extra, **shared)
    _note_kept(done, extra)
    note(f"Run {done.id}: {done.info.get('answered', 0)} answers, {done.info.get('tokens', 0)} tokens.")
    return done


def _note_kept(done: RunInfo, extra: Mapping[str, Any]) -> None:
    """Say which of what was given now a run does not take over, for it had ended before and stays as it was."""
    info, given = done.info, extra["asking"]["options"]
    ours = (info.get("asking") or {"options": given})["options"]
    kept = [name for name in ("title", "release_year") if extra[name] is not None and info.get(name) != extra[name]]
    kept = [_OPTION_OF.get(name, name) for name in kept]
    kept += [name for name, value in given.items() if _as_json(ours.get(name)) != _as_json(value)]
    if kept:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in kept)
        note(f"Run {done.id} had ended and stays as it was: {options} changed nothing. Take another --run-id.")


_OPTION_OF: Final = {"release_year": "year"}


def _as_json(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value.isoformat() if isinstance(value, date) else value


def note_year(year: int | None, day: str, source: str | None) -> None:
    """Say so where the year given is not that of the day on which a model is known to have come out."""
    if year and int(day[:4]) != year:
        note(
            f"--year {year} stands beside the model's name in tables; that it came out is known to the day,"
            f" {day} ({source}), by which --as-of release goes."
        )


class Meter:
    """Shows on standard error how far a run has come: in place on a terminal, else a line at a time."""

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._shown = -every

    def __call__(self, progress: Progress) -> None:
        """Show the progress where it is due."""
        live, finished = sys.stderr.isatty(), progress.done + progress.errors >= progress.total
        if not (live or finished or progress.seconds - self._shown >= self._every):
            return
        self._shown = progress.seconds
        click.echo(f"{chr(13) if live else ''}{progress_line(progress)}", err=True, nl=finished or not live)


def progress_line(progress: Progress) -> str:
    """Return progress as a line of constant length.

    >>> progress_line(Progress(done=90, total=390, errors=0, asked=90, seconds=7.5)).rstrip()
    '90 of 390 answered, 12.0 a second, 25 s left'
    """
    parts = [f"{progress.done} of {progress.total} answered"]
    if progress.errors:
        parts.append(f"{progress.errors} failed")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.1f} a second")
    if progress.left:
        parts.append(f"{duration(progress.left)} left")
    return f"{', '.join(parts):<72}"


def find_run(name: str, folder: Path) -> RunInfo:
    """Return the run of a name.

    Raises:
        RunError: its record is damaged.
        UsageError: there is none; the hint names the nearest.
    """
    there = survey(folder)
    for damaged in there.damaged:
        if damaged.id == name:
            raise damaged.error
    found = {one.id: one for one in there.runs}
    if name not in found:
        raise UsageError(f"There is no run {name!r} in {folder}.", hint=nearest(name, found, "dyknow runs list"))
    return found[name]
