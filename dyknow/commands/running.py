"""Commands about what was asked and answered: list, show, check, go on with, join and close runs."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from dyknow import journal, merging, named
from dyknow.commands.asking import ask, find_run
from dyknow.commands.common import Group, Places, emit, end_with, example, format_option, note, places, show
from dyknow.commands.judging import without
from dyknow.commands.options import asked_with, without_secrets
from dyknow.damage import Damaged, survey
from dyknow.journal import JOURNAL, SETTLED, RunInfo
from dyknow.models.prices import cost, load_prices
from dyknow.tables import Format, Listing, as_json
from dyknow.tally import Tally
from dyknow.verify import verify
from kg.errors import DataError, DyknowError, RunError

_NAMED = "named"


@click.group("runs", cls=Group)
def runs() -> None:
    """What was asked and answered: list, show, check and join the journals."""


@runs.command("list", epilog=example("dyknow runs list"))
@format_option
@places("runs")
def list_runs(form: Format, places: Places) -> None:
    """List all runs with their state.

    A run is done, running, interrupted, done with errors, or damaged. A damaged one keeps nobody from the others; the
    command then ends with 1, and says file, line and what to do.
    """
    columns = (
        "run",
        "kind",
        "model",
        "title",
        "year",
        "state",
        "answers",
        "errors",
        "benchmark",
        "started",
        "ended",
        "samples",
        "refused",
        "prompt_tokens",
        "tokens",
        "part",
    )
    found = survey(places.runs)
    each = [_summary(one) for one in found.runs] + [_unread(one) for one in found.damaged]
    rows = [tuple(one.get(key) for key in columns) for one in sorted(each, key=lambda one: str(one["run"]))]
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


def _statuses(one: RunInfo) -> Counter[str]:
    """Return how many of a run's effective rows have which status; a long journal is not held in memory."""
    if one.info.get("kind") == _NAMED:
        return Counter(row["status"] for row in named.rows(one.path))
    return Tally(journal.each(one.path / JOURNAL, "status")).statuses


def _summary(one: RunInfo) -> dict[str, object]:
    """Return what a list of runs says of one, though it be damaged."""
    try:
        return summary(one)
    except RunError as error:
        known = {"kind": one.info.get("kind"), "title": one.info.get("title"), "part": one.part}
        return known | _unread(Damaged(one.id, one.path, error))


def _unread(damaged: Damaged) -> dict[str, object]:
    """Return what a list of runs says of a damaged one; the command will end with the reason."""
    end_with(RunError(f"The run {damaged.id} cannot be read: {damaged.error.message}", hint=damaged.error.hint))
    return {"run": damaged.id, "state": "damaged"}


def summary(one: RunInfo) -> dict[str, object]:
    """Return what a list of runs says of one."""
    statuses = _statuses(one)
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
        "samples": one.samples,
        "refused": statuses["refused"],
        "prompt_tokens": one.info.get("prompt_tokens"),
        "tokens": one.info.get("tokens"),
        "part": one.part,
    }


@runs.command("show", epilog=example("dyknow runs show gpt2-xl", "dyknow runs show gpt2-xl --answers --format csv"))
@click.argument("name", metavar="RUN")
@click.option("--answers", "texts", is_flag=True, help="Show the answers instead of the record.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    envvar="DYKNOW_PRICES",
    show_envvar=True,
    help="Reckon what the tokens cost by this TOML file of prices, which you keep; none are shipped.",
)
@format_option
@places("runs")
def show_run(name: str, texts: bool, prices: Path | None, form: Format, places: Places) -> None:
    """Show how a run was made: model, files, settings, versions, times, tokens; or its answers."""
    one = find_run(name, places.runs)
    if texts:
        columns = (
            "question",
            "sample",
            "status",
            "text",
            "prompt",
            "finish_reason",
            "tokens",
            "seconds",
            "logprob",
            "server",
            "error",
        )
        rows = [tuple(row.get(key) for key in columns) for row in rows_of(one)]
        brief = Listing(("question", "text"), [(_asked(row, one), row[3]) for row in rows])
        show(brief if form == "table" else Listing(columns, rows), form)
        return
    info = one.info if prices is None else one.info | {"cost": _cost(one, prices)}
    if form == "json":
        emit(as_json(info))
    else:
        show(Listing(("what", "value"), list(_flat(info))), form)


def _cost(one: RunInfo, file: Path) -> str:
    """Return what a run's tokens cost by a file of prices.

    Raises:
        DataError: the file is malformed, or has no price for the model.
    """
    model = one.info.get("model") or {}
    names = (model.get("reported"), model.get("name"))
    found = cost(load_prices(file), names, one.info.get("prompt_tokens") or 0, one.info.get("tokens") or 0)
    if found is None:
        known = " or ".join(dict.fromkeys(name for name in names if name))
        raise DataError(f"{file} has no price for {known}.", hint="Add a table of that name.")
    return found.text


def _asked(row: tuple[Any, ...], one: RunInfo) -> str:
    return f"{row[0]} {row[1]}" if one.samples > 1 else str(row[0])


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

    Every line is read; answers and tokens are counted anew and held against the record; settings and questions must
    have the digests it gives; no question may stand there twice. Exit code 1 where a run is damaged; one that was
    interrupted is not.
    """
    found = survey(places.runs)
    for lost in () if names else found.damaged:
        emit(f"{lost.id}: {lost.error.message}\n")
    damaged = 0 if names else len(found.damaged)
    for one in [find_run(name, places.runs) for name in names] if names else found.runs:
        whole, words = _checked(one)
        damaged += not whole
        emit(f"{one.id}: {words}\n")
    if damaged:
        raise RunError(f"{damaged} run{'s are' if damaged > 1 else ' is'} damaged.", hint="Move it away and ask again.")


def _checked(one: RunInfo) -> tuple[bool, str]:
    """Return whether a run is whole, and what to say of it."""
    if one.info.get("kind") == _NAMED:
        try:
            return True, f"whole, done, {len(named.rows(one.path))} answers"
        except DyknowError as error:
            return False, error.message
    found = verify(one)
    if found.problem:
        return False, found.problem
    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items() if status != "ok")
    answers = sum(count for status, count in found.counts.items() if status in SETTLED)
    torn = "; a torn last line, which does not count" if found.torn else ""
    return True, f"whole, {state(one)}, {answers} answers{f' ({counts})' if counts else ''}{torn}"


@runs.command("resume", epilog=example("dyknow runs resume gpt2-xl"))
@click.argument("name", metavar="RUN")
@places("snapshots", "runs")
def resume(name: str, places: Places) -> None:
    """Go on with a run that was interrupted or has errors, with the settings it began with.

    What stands is not asked again. A run whose model or questions have changed since is refused.
    """
    one = find_run(name, places.runs)
    if one.info.get("kind") != "asked":
        raise RunError(f"The run {name} was imported, so there is no model to ask.")
    if not one.info.get("asking"):
        hint = _typed(one)
        if (one.info.get("merged") or {}).get("lacks"):
            hint = "It was merged without some questions: ask the part that lacks, and merge again."
        raise RunError(f"The run {name} does not say how its model was loaded.", hint=hint)
    done = one
    if one.info.get("legs"):
        done = ask(*asked_with(one.info["asking"], one.id, one.samples, "generate"), places)
    if one.info.get("likelihoods"):
        done = ask(*asked_with(one.info["asking"], one.id, one.samples, "loglik"), places)
    emit(f"{done.path}\n")
    if done.info.get("errors"):
        raise RunError(f"{done.info['errors']} questions of run {done.id} have no answer.", hint="Resume it once more.")


def _typed(one: RunInfo) -> str:
    """Return what to type to go on with a run that does not say how its model was loaded."""
    typed = one.info.get("command")
    if not typed:
        return f"Call what made it once more, with the run id {one.id}."
    named = "--run-id" in typed or one.info.get("align")  # an edited run has the name that its edits give it
    return f"Type: {typed}" + ("" if named else f" --run-id {one.id}")


@runs.command(
    "merge",
    epilog=example(
        "dyknow runs merge NAME",
        "dyknow runs merge NAME.1-of-4 NAME.2-of-4 --partial --run-id half",
    ),
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--partial", is_flag=True, help="Merge what is there, though questions are missing or open.")
@click.option("--run-id", metavar="NAME", help="The merged run's name; else NAME, or NAME.partial where some lacks.")
@places("runs")
def merge(names: tuple[str, ...], partial: bool, run_id: str | None, places: Places) -> None:
    """Join the parts of a run, which `dyknow run --shard` made, to one run.

    NAME is the run that the parts are of; or name each part. Only parts of one model, revision, benchmark and
    settings are joined. A part that is missing or not asked to the end, and two that ask the same question, are errors.
    The merged run is the one that a single process would have made; the parts stay as they are.
    """
    there = survey(places.runs)
    for damaged in there.damaged:
        note(without(damaged).message)
    parts = merging.parts_of(there.runs, names)
    command = without_secrets(shlex.join(["dyknow", *sys.argv[1:]]))
    done = merging.merge(parts, places.runs, run_id=run_id, partial=partial, command=command)
    for words in done.lacks:
        note(words)
    made = "from" if done.written else "there already, from"
    note(f"Run {done.run.id}: {done.run.info['answered']} answers, {made} {len(parts)} parts.")
    if done.run.info["errors"]:
        note(f"{done.run.info['errors']} questions have no answer but an error: {_again(done.run, parts)}")
    emit(f"{done.run.path}\n")


def _again(merged: RunInfo, parts: Sequence[RunInfo]) -> str:
    """Return how the failed questions of a merged run are asked again."""
    if merged.info.get("asking"):
        return f"dyknow runs resume {merged.id}"
    failed = " and ".join(f"dyknow runs resume {part.id}" for part in parts if part.info.get("errors"))
    return f"{failed}, then merge under another --run-id"


@runs.command("close", epilog=example("dyknow runs close gpt2-xl"))
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
@places("runs")
def close(names: tuple[str, ...], places: Places) -> None:
    """Compress the journals of runs that have ended.

    responses.jsonl becomes responses.jsonl.1.gz, which zcat and DuckDB read, and so does every command here. A run that
    goes on later, with more samples, say, appends to a new responses.jsonl; nothing is ever rewritten.
    """
    for one in [find_run(name, places.runs) for name in names]:
        emit(f"{one.id}: {journal.close(one)}\n")
