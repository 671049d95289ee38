"""The command that writes the results as files for other tools."""

from pathlib import Path

import click

from dyknow import tablefiles
from dyknow.analysis import RELEASE
from dyknow.commands.common import (
    DAY,
    Places,
    command,
    emit,
    example,
    judge_option,
    known_at_option,
    note,
    places,
    rule_option,
)
from dyknow.commands.judging import known_runs, results_of
from dyknow.commands.targets import NEW_FOLDER
from dyknow.tablefiles import Kind, Wanted
from kg.dates import format_day


def _days(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    days = (RELEASE if value == RELEASE else format_day(DAY.convert(value, param, ctx)) for value in values)
    return tuple(dict.fromkeys(days))


@command(
    "results",
    epilog=example(
        "dyknow export results --out tables/",
        "dyknow export results --out tables/ --as-of 2023-12-18 --as-of release",
        "dyknow export results --format csv --run gpt2-xl --out gpt2-xl-tables/",
    ),
)
@click.option("--out", type=NEW_FOLDER, required=True, help="The folder of the files; made where it is missing.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="Parquet keeps types, lists and NULL; CSV is for what reads nothing else.",
)
@click.option(
    "--as-of",
    "days",
    multiple=True,
    callback=_days,
    metavar="DATE",
    help="Write the verdicts of this day, too: as 2023-12-18, `today`, or `release`, for each run the day its model "
    "came out. Give it again for further days.",
)
@known_at_option
@judge_option
@rule_option
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@click.option("--force", is_flag=True, help="Replace the folder, whatever is in it.")
@places("snapshots", "runs", "database")
def export_results(
    out: Path,
    kind: Kind,
    days: tuple[str, ...],
    known_at: str | None,
    judge: str,
    rule: str,
    names: tuple[str, ...],
    force: bool,
    places: Places,
) -> None:
    """Write every table of the results as files, partitioned by run, and the verdicts of dates.

    Spark, Trino, pandas and DuckDB read the folder, whose README.md tells how; docs/sql.md says what the columns are.
    Equal runs and snapshots give equal rows in equal order. An earlier export in the folder is replaced; a folder with
    anything else in it is not, but with --force.
    """
    keep = [places.runs, places.snapshots, places.database, Path.cwd(), Path.home()]
    tablefiles.check(out, force, keep)
    chosen = known_runs(places, names)
    if known_at is not None:
        places.named(known_at)
    wanted = Wanted(chosen, days, known_at, judge, rule)
    with results_of(places, chosen) as connection:
        files = tablefiles.write(connection, out, kind, wanted, force=force, keep=keep)
    note(f"Wrote {len(files)} files; {out / 'README.md'} tells how to read them.")
    emit(f"{out}\n")
