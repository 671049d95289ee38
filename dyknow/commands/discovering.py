"""The command that finds subjects and properties for a benchmark, as the study found its own."""

from collections.abc import Sequence
from typing import Final

import click
import pyoxigraph as ox

from dyknow.commands.common import DAY, command, example, format_option, note, show
from dyknow.commands.mirroring import Mirroring, ids, mirroring
from dyknow.tables import Format, Listing
from kg.dates import Day, format_day
from kg.errors import UsageError
from kg.sources.queryservice import QueryService, Row
from kg.terms import WD, XSD, short

RANKINGS: Final = {"economies": ("largest-economies", "Q3624078"), "companies": ("largest-companies", "Q891723")}
"""What can be ranked: the query, and the class it ranks where none is given: sovereign states, public companies."""

LISTS: Final = {"properties": "properties", "offices": "offices"}
"""What can be listed of subjects that are named."""


@command(
    epilog=example(
        "dyknow benchmark discover properties --subject Q38,Q615",
        "dyknow benchmark discover economies --as-of 2023-12-18 --limit 50",
        "dyknow benchmark discover offices --subject Q38",
        "dyknow benchmark discover teams --subject Q10315,Q615",
    )
)
@click.argument("what", type=click.Choice([*LISTS, "teams", *RANKINGS]))
@click.option("--subject", "subjects", metavar="Q38,…", help="The subjects to look at, by id; for lists and teams.")
@click.option(
    "--as-of", type=DAY, default="today", metavar="DATE", help="For a ranking: amounts up to this day. [default: today]"
)
@click.option("--class", "kind", metavar="Q…", help="For a ranking: rank items of this class (P31).")
@click.option(
    "--unit", default="Q4917", show_default=True, metavar="Q…", help="For a ranking: amounts in this unit: US dollars."
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many rows to show.")
@mirroring
@format_option
def discover(
    what: str,
    subjects: str | None,
    as_of: Day,
    kind: str | None,
    unit: str,
    limit: int,
    how: Mirroring,
    form: Format,
) -> None:
    """Ask Wikidata's query service for subjects and properties that make facts.

    `properties`: which properties of a subject have values with a start and an end, and how many: how the study chose
    its facts. `offices`: the titles of the offices a country names, with their own dates. `teams`: whether a team is a
    club, national or racing, by all it is a kind of. `economies`, `companies`: the largest ones by gross domestic
    product or by revenue, which is where the study's subjects come from; its own lists stand in the benchmark as they
    were then.
    """
    items = ids(subjects, "Q")
    if what not in RANKINGS and not items:
        raise UsageError(f"{what} needs --subject.", hint=f"dyknow benchmark discover {what} --subject Q38")
    with how.web(None) as web:
        service = QueryService(web, how.service, None)
        note(f"Asking {how.service} ...")
        listing = _ranking(service, what, as_of, kind, unit) if what in RANKINGS else _list(service, what, items)
    show(Listing(listing.columns, listing.rows[:limit]), form)


def _ranking(service: QueryService, what: str, as_of: Day, kind: str | None, unit: str) -> Listing:
    query, usual = RANKINGS[what]
    moment = ox.Literal(f"{format_day(as_of)}T23:59:59Z", datatype=ox.NamedNode(f"{XSD}dateTime"))
    [of_class], [in_unit] = ids(kind or usual, "Q"), ids(unit, "Q")
    rows = service.select(query, "?class ?unit ?asOf", [[_node(of_class), _node(in_unit), moment]])
    ranked = sorted(rows, key=lambda row: (-float(str(row["amount"])), str(row["subject"])))
    labels = _labels(service, [str(row["subject"]) for row in ranked])
    cells = [
        (
            place,
            short(str(row["subject"])),
            labels.get(short(str(row["subject"]))),
            row["amount"],
            str(row["latest"])[:10],
        )
        for place, row in enumerate(ranked, 1)
    ]
    return Listing(("place", "item", "label", "amount", "on"), cells)


def _list(service: QueryService, what: str, items: Sequence[str]) -> Listing:
    if what == "teams":
        found = service.teams(items)
        names = _labels(service, [WD + item for item in items])
        return Listing(("item", "label", "class"), [(item, names.get(item), found.get(item)) for item in items])
    rows = service.select(LISTS[what], "?subject", [[_node(item)] for item in items])
    return _properties(service, rows) if what == "properties" else _offices(service, rows)


def _properties(service: QueryService, rows: Sequence[Row]) -> Listing:
    labels = _labels(service, [str(row[key]) for row in rows for key in ("subject", "property")])
    cells: list[tuple[object, ...]] = []
    for row in sorted(rows, key=lambda row: (str(row["subject"]), -int(str(row["dated"])), str(row["property"]))):
        subject, prop = short(str(row["subject"])), short(str(row["property"]))
        kind = str(row["type"]).rsplit("#", 1)[-1].removeprefix("Wikibase").lower()
        cells.append((subject, labels.get(subject), prop, labels.get(prop), kind, row["statements"], row["dated"]))
    return Listing(("subject", "label", "property", "property_label", "values", "statements", "dated"), cells)


def _offices(service: QueryService, rows: Sequence[Row]) -> Listing:
    labels = _labels(service, [str(row[key]) for row in rows for key in ("subject", "office")])
    cells = []
    for row in sorted(rows, key=lambda row: (str(row["subject"]), str(row["claim"]), str(row.get("start", "")))):
        subject, office = short(str(row["subject"])), short(str(row["office"]))
        days = [str(row[key])[:10] if key in row else None for key in ("start", "end")]
        claim = str(row["claim"]).rsplit("/", 1)[-1]
        cells.append((subject, labels.get(subject), claim, office, labels.get(office), *days, row["endKind"]))
    return Listing(("subject", "label", "property", "office", "title", "start", "end", "end_kind"), cells)


def _labels(service: QueryService, iris: Sequence[str]) -> dict[str, str]:
    known = service.names(sorted({short(iri) for iri in iris if iri.startswith(WD)}))
    return {item: one.label[0] for item, one in known.items() if one.label}


def _node(item: str) -> ox.NamedNode:
    return ox.NamedNode(WD + item)
