"""The command that draws a benchmark from a snapshot."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from dyknow import benchmark, benchmarkfiles, generate, phrasings, strata
from dyknow.commands.common import (
    DAY,
    Places,
    command,
    describe,
    endpoint_option,
    example,
    format_option,
    graph_of,
    note,
    places,
    show,
)
from dyknow.commands.mirroring import ids
from dyknow.tables import Format, Listing
from kg import identity
from kg.dates import Day
from kg.errors import DataError, SnapshotError, UsageError


@command(
    "generate",
    epilog=example(
        "dyknow benchmark generate heads.toml --property P6,P35 --min-changes 3",
        "dyknow benchmark generate tail.parquet --by region --per-stratum 50",
        "dyknow benchmark generate news.toml --changed-from 2024-01-01 --size 500",
    ),
)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--known-at", metavar="SNAPSHOT", help="The snapshot to draw from, by its date. Without it the newest.")
@endpoint_option
@click.option("--property", "properties", metavar="P6,…", help="Only facts of these properties.")
@click.option("--class", "classes", metavar="Q515,…", help="Only subjects that are known to be one of these (P31).")
@click.option(
    "--min-changes",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Only facts that have changed as often: a term began on another day than the first.",
)
@click.option("--changed-from", type=DAY, metavar="DATE", help="Only facts that changed last on this day or later.")
@click.option("--changed-to", type=DAY, metavar="DATE", help="Only facts that changed last on this day or before.")
@click.option("--min-sitelinks", type=click.IntRange(min=0), help="Only subjects with a page on so many sites.")
@click.option("--max-sitelinks", type=click.IntRange(min=0), help="Only subjects with a page on no more sites.")
@click.option(
    "--by",
    default="popularity,property",
    show_default=True,
    metavar="WHAT,…",
    help="What strata are made of: popularity, property, region (country, else citizenship), or several of them.",
)
@click.option(
    "--bins",
    default=",".join(map(str, strata.EDGES)),
    show_default=True,
    metavar="N,…",
    help="Where bins of popularity begin, in sitelinks.",
)
@click.option("--per-stratum", type=click.IntRange(min=1), help="Draw so many facts of each stratum at most.")
@click.option("--size", type=click.IntRange(min=1), help="Draw so many facts in all, alike of every stratum.")
@click.option("--proportional", is_flag=True, help="With --size: draw of each stratum by how many facts it has.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, other facts.")
@click.option("--ambiguous", is_flag=True, help="Also draw subjects that share their name and property with another.")
@click.option(
    "--phrasings",
    "wordings",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Phrasings of your own, as in dyknow/data/phrasings.toml; what they leave out is taken from there.",
)
@click.option("--name", metavar="TEXT", help="The benchmark's name; without it the file's.")
@format_option
@places("snapshots")
def generate_benchmark(
    out: Path,
    known_at: str | None,
    endpoint: str | None,
    properties: str | None,
    classes: str | None,
    min_changes: int,
    changed_from: Day | None,
    changed_to: Day | None,
    min_sitelinks: int | None,
    max_sitelinks: int | None,
    by: str,
    bins: str,
    per_stratum: int | None,
    size: int | None,
    proportional: bool,
    seed: int,
    ambiguous: bool,
    wordings: Path | None,
    name: str | None,
    form: Format,
    places: Places,
) -> None:
    """Draw a benchmark from the facts of a snapshot, and write it to OUT.

    OUT is TOML, or a Parquet table where it ends in .parquet; a large benchmark is read much faster from the latter.
    Facts are drawn from strata, so that rare kinds are not lost among common ones, and each keeps its stratum and
    its subject's popularity. Next: `dyknow benchmark check OUT`, `dyknow run MODEL --benchmark OUT`. The same
    snapshot, options and seed draw the same facts; a larger --per-stratum adds to those of a smaller one. Popularity,
    class and region are known of snapshots that were taken from Wikidata itself, a dump or the query service. An
    OUT that was drawn before is replaced, any other is left alone.
    """
    benchmarkfiles.check_path(out)
    _check_old(out)
    _check_order(changed_from, changed_to, "--changed-from", "--changed-to")
    _check_order(min_sitelinks, max_sitelinks, "--min-sitelinks", "--max-sitelinks")
    words, edges = phrasings.load(wordings), strata.edges_of(bins)
    chosen = places.named(known_at) if known_at else places.newest()
    wanted = ids(properties, "P") if properties else None
    rules = generate.Rules(
        frozenset(ids(classes, "Q")) if classes else frozenset(),
        min_changes, changed_from, changed_to, min_sitelinks, max_sitelinks, ambiguous,
    )  # fmt: skip
    if proportional and size is None:
        raise UsageError("--proportional divides a size, and none is given.", hint="Add one, as in --size 500.")
    plan = generate.Plan(generate.divisions(by), edges, size, per_stratum, proportional, seed)
    note(f"Reading the facts of snapshot {describe(chosen)} ...")
    with graph_of(chosen, endpoint) as graph:
        found = generate.candidates(graph, identity.load(), chosen.date, wanted)
    if missing := generate.unknown(found, rules):
        raise SnapshotError(f"Snapshot {chosen.id} does not know {missing}.", hint=_KNOWING)
    left = generate.allowed(found, rules)
    drawn = generate.draw(left.facts, plan)
    bench = generate.build(name or out.stem, drawn, words, edges)
    benchmarkfiles.write(bench, out, _about(chosen.id, chosen.digest, len(found), plan))
    _tell(out, left, drawn, plan)
    rows = [(stratum.name, stratum.facts, len(stratum.drawn)) for stratum in drawn]
    show(Listing(("stratum", "facts", "drawn"), rows, f"Drawn by {', '.join(plan.by) or 'nothing'}"), form)


def _check_old(out: Path) -> None:
    """Refuse to write over a file that no draw can make again."""
    if out.exists():
        with suppress(DataError):
            if any(fact.stratum for fact in benchmark.load(out).facts):
                return
        raise UsageError(f"{out} is there already, and was not drawn.", hint="Take another name, or remove it first.")


def _check_order(first: int | None, last: int | None, *names: str) -> None:
    if first is not None and last is not None and first > last:
        raise UsageError(f"{names[0]} lies after {names[1]}.", hint="Exchange them.")


def _about(snapshot: str, digest: str, facts: int, plan: generate.Plan) -> str:
    drawn = f"by {', '.join(plan.by)}, seed {plan.seed}"
    return f"Drawn from the {facts} facts of snapshot {snapshot} ({digest[:12]}) {drawn}."


_KNOWING: Final = (
    "Snapshots from Wikidata's own triples do: dyknow snapshot take --source wikidata, or --source dump. "
    "Another of yours is named by --known-at."
)


def _tell(out: Path, left: generate.Allowed, by_stratum: Sequence[generate.Stratum], plan: generate.Plan) -> None:
    drawn = sum(len(stratum.drawn) for stratum in by_stratum)
    note(f"{out}: {drawn} of {len(left.facts)} facts that may be drawn.")
    if left.left_out:
        note(f"Left out: {', '.join(f'{count} {reason}' for reason, count in left.left_out.most_common())}.")
    if fewer := generate.fewer(by_stratum, plan):
        note(fewer)
    if plan.size is not None and drawn < plan.size:
        note(f"Asked for {plan.size}: the strata have no more.")
    for name, what in (("popularity", "how popular its subjects are"), ("region", "where its subjects are")):
        if name in plan.by and all(strata.UNKNOWN in stratum.name.split(" / ") for stratum in by_stratum):
            note(f"The snapshot does not know {what}. {_KNOWING}")
