"""The command ``dyknow``: a thin shell around the library."""

import sys
from importlib import metadata

import click

from dyknow.commands import (
    adjudicating,
    aligning,
    asking,
    comparing,
    discovering,
    exchange,
    exporting,
    generating,
    graph,
    judging,
    packing,
    pages,
    pairing,
    paraphrasing,
    querying,
    resolving,
    running,
    snapshots,
    timing,
)
from dyknow.commands.common import Group, debug_option

SHORTEST = """\
dyknow tells which of a language model's answers were right once and are not any more, for any date.

From nothing to a table:
  dyknow answers --as-of 2023-12-18 --subject Poland      who holds what on a day, and by which snapshot
  dyknow evaluate smollm2 --as-of 2023-12-18              ask a small model, print the study's tables
  dyknow why RUN QUESTION --as-of 2023-12-18              why an answer was judged as it was

All commands: dyknow --help
"""


def _version() -> str:
    try:
        return metadata.version("dyknow")
    except metadata.PackageNotFoundError:
        return "unknown"


@click.group(cls=Group, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="dyknow", message="%(prog)s %(version)s")
@debug_option
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Tell which of a language model's answers were right once and are not any more.

    Facts come from dated copies of Wikidata (snapshots), answers from runs of models, and verdicts for any date from
    both: up-to-date, outdated or irrelevant. Everything works without a network.
    """
    if ctx.invoked_subcommand is None:
        click.echo(SHORTEST, nl=False)


for _command in (
    graph.answers,
    graph.sparql,
    snapshots.snapshots,
    graph.serve,
    asking.benchmark,
    asking.run,
    running.runs,
    exchange.import_,
    exchange.export,
    judging.score,
    pairing.compare,
    judging.why,
    querying.sql,
    adjudicating.judge,
    aligning.align,
    timing.timeline,
    pages.evaluate,
    pages.report,
):
    cli.add_command(_command)


exchange.export.add_command(exporting.export_results)

for _command in (comparing.diff, comparing.check, comparing.redirects, packing.pack, packing.unpack):
    snapshots.snapshots.add_command(_command)


for _command in (
    resolving.resolve,
    discovering.discover,
    paraphrasing.paraphrase,
    paraphrasing.adopt,
    generating.generate_benchmark,
):
    asking.benchmark.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli(prog_name="dyknow", auto_envvar_prefix=None)
    sys.exit(0)


if __name__ == "__main__":
    main()
