"""Commands that rephrase a benchmark's phrasings: a model proposes, a person judges, a benchmark adopts."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import click

from dyknow import benchmark as benchmarks
from dyknow import paraphrase as paraphrases
from dyknow.commands.common import command, emit, example, format_option, note, show
from dyknow.commands.options import MODEL_HELP, Asking, model_options, settle
from dyknow.commands.targets import NEW_FILE
from dyknow.tables import Format, Listing
from kg.errors import RunError, UsageError


@command(
    epilog=example(
        "dyknow benchmark paraphrase smollm2 --group countries",
        "dyknow benchmark paraphrase openai:gpt-4o mine.toml --out review.toml",
    ),
    help=f"""Ask a model to rephrase every phrasing of a benchmark, and write what it proposes for review.

    Each proposal stands in the file with original, model, prompt and the whole answer. Those that lose {{subject}} or
    {{office}}, bring in another, or say what is asked already, are marked broken, with the reason. Nothing is asked of
    anybody before a person has kept or changed it there: see `dyknow benchmark adopt`. The file is only added to; what
    was reviewed stays, and what a model has answered is not asked again.

    {MODEL_HELP}
    FILE is the benchmark; without it the study's.""",
)
@click.argument("model")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--out",
    type=NEW_FILE,
    default=Path("paraphrases.toml"),
    show_default=True,
    metavar="PATH",
    help="The file for review.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only this group of the benchmark. Repeatable.")
@click.option(
    "--count", type=click.IntRange(1, 50), default=5, show_default=True, help="How many rephrasings of each to ask for."
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Phrasings asked for at once. Answers reach the file batch by batch.",
)
@model_options
@format_option
def paraphrase(
    model: str,
    file: Path | None,
    out: Path,
    groups: tuple[str, ...],
    count: int,
    asking: Asking,
    form: Format,
) -> None:
    """Ask a model to rephrase."""
    from dyknow.models import load_model  # noqa: PLC0415 -- other commands need no models

    bench = benchmarks.load(file)
    paraphrases.templates(bench, groups)
    chosen = settle(model, asking)
    ours: dict[str, Any] = {"max_new_tokens": count * paraphrases.TOKENS_EACH, "stop": paraphrases.STOP}
    options = dataclasses.replace(chosen.options, **{k: v for k, v in ours.items() if k not in chosen.given})
    note(f"Loading {model} ...")
    loaded = load_model(model, options)
    done = paraphrases.propose(
        loaded, bench, out, groups=groups, count=count, batch_size=asking.batch_size,
        progress=lambda answered, of: note(f"{answered} of {of} phrasings answered"),
    )  # fmt: skip
    columns = ("group", "key", "status", "rephrasing", "reason")
    rows = [(row.group, row.key, row.status, row.proposed, row.reason or None) for row in done.rows]
    show(Listing(columns, rows), form)
    counts = Counter(row.status for row in done.rows)
    known = f" {done.known} phrasings were answered before." if done.known else ""
    note(f"{out}: {counts['proposed']} proposed, {counts['broken']} broken, added.{known} Now it is yours to review.")
    if done.errors:
        name, why = done.errors[0]
        message = f"{len(done.errors)} phrasings have no answer; {name}: {why}"
        raise RunError(message, hint="The same command asks again for them.")


@command(epilog=example("dyknow benchmark adopt paraphrases.toml --out mine.toml"))
@click.argument("review", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--out",
    type=NEW_FILE,
    metavar="PATH",
    help="Where the new benchmark goes. [default: FILE itself; the study's own stays as it is]",
)
def adopt(review: Path, file: Path | None, out: Path | None) -> None:
    """Make a benchmark that asks the rephrasings a person has kept or changed, as further phrasings.

    REVIEW is the file that `dyknow benchmark paraphrase` wrote, FILE the benchmark it rephrases; without it the
    study's. Comments and layout of the benchmark stay, and each new phrasing says in a comment who proposed it and who
    kept it.
    """
    target = out or file
    if target is None:
        raise UsageError("The study's own benchmark stays as it is.", hint="Name another file: --out mine.toml")
    added = paraphrases.adopt(file, review, target)
    for one in added:
        note(f"{one.group} {one.key}: {one.text}")
    rows = paraphrases.review(review)
    waiting = sum(row.status == "proposed" for row in rows)
    note(f"{len(added)} phrasings added; {waiting} of {len(rows)} rephrasings wait for review.")
    emit(f"{target}\n")
