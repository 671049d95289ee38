"""What the command line prints of timelines and knowledge dates.

Everything here turns values into text; nothing prints.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dyknow.knowledge import KnowledgeDate
from dyknow.tables import Listing, printable, rounded
from dyknow.timeline import Measure, Peak, Point, Years
from dyknow.titles import named
from kg.dates import format_day, split_day

BLOCKS: Final = "▁▂▃▄▅▆▇█"
SPARK: Final = 64
"""Columns of a line of blocks."""

MEASURES: Final[Mapping[Measure, str]] = {
    "up_to_date": "peak",
    "up_to_date_lower": "  certain alone",
    "up_to_date_upper": "  possible too",
}
SHARES: Final = (
    "run",
    "domain",
    "day",
    "n",
    "up_to_date",
    "up_to_date_lower",
    "up_to_date_upper",
    "outdated",
    "irrelevant",
)


class About(NamedTuple):
    """A run as it is shown."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    released: str | None  # a day
    release_known: str | None  # "day" or "year"
    name: str = ""  # its title, unlike that of any other


class Overview(NamedTuple):
    """All that is shown of one run."""

    about: About
    peaks: Mapping[Measure, Peak]
    knowledge: KnowledgeDate | None
    points: Sequence[Point]  # of one domain, by day


def spark(values: Sequence[float | None], width: int = SPARK) -> str:
    """Return values as a line of blocks from the least to the greatest, of at most that width; a blank has no value.

    Where there are more values than columns, a column is the mean of its own.

    >>> spark([0, 50, None, 100])
    '▁▅ █'
    """
    count = min(width, len(values))
    bins = [values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)]
    known = [[value for value in own if value is not None] for own in bins]
    means = [sum(own) / len(own) if own else None for own in known]
    found = [mean for mean in means if mean is not None]
    if not found:
        return " " * count
    least, span = min(found), (max(found) - min(found)) or 1
    return "".join(" " if mean is None else BLOCKS[int((mean - least) / span * 7 + 0.5)] for mean in means)


def spans(peak: Peak) -> str:
    """Return when a share is greatest: the longest span, and how many others there are."""
    first, last = peak.spans[0]
    others = len(peak.spans) - 1
    more = f" and {others} other {'span' if others == 1 else 'spans'}" if others else ""
    return f"{format_day(first)} to {format_day(last)}{more}" if first != last else f"{format_day(first)}{more}"


def overview_text(runs: Sequence[Overview]) -> str:
    """Return for each run its peak, its knowledge date and a line of blocks, in 80 columns."""
    return "\n".join(_block(one) for one in runs) + "\n" + _LEGEND


_LEGEND: Final = """\
Peak: when the share of facts up to date is greatest. Certain alone: for every
choice of the days that year-only dates hide; possible too: for some choice.
Answers from: the date of the newest knowledge, with its 95 % interval; lag: how
far most answers are behind it on average. >: the snapshot knows no later day.
"""


def _block(one: Overview) -> str:
    about, known = one.about, one.knowledge
    name = printable(about.name or named(about.title, about.year if about.released is None else None, about.prefixed))
    released = f"released {'≤' if about.release_known == 'year' else ''}{about.released}" if about.released else ""
    lines = [f"{name[:52]:<52} {released:>26}".rstrip()]
    for measure, title in MEASURES.items():
        if peak := one.peaks.get(measure):
            lines.append(f"  {title:<16}{peak.share:5.1f} %  {spans(peak)}")
    if known:
        lines.append(f"  {'answers from':<16}{dates(known)}  lag {known.lag:.0f} days, {known.n_facts} facts")
    shares = [point.up_to_date for point in one.points]
    if found := [share for share in shares if share is not None]:
        first, last = (split_day(one.points[place].day)[0] for place in (0, -1))
        lines.append(f"  {first} {spark(shares)} {last}")
        lines.append(f"       {min(found):.0f} to {max(found):.0f} %")
    return "\n".join(lines) + "\n"


def dates(known: KnowledgeDate) -> str:
    """Return a knowledge date with its interval."""
    end = f">{format_day(known.upper)}" if known.at_end else format_day(known.upper)
    return f"{format_day(known.day)} [{format_day(known.lower)}, {end}]"


def overview_json(one: Overview) -> dict[str, Any]:
    """Return what is shown of a run, for JSON."""
    about = one.about
    return {
        "run": about.run,
        "title": about.title,
        "released": about.released,
        "release_known": about.release_known,
        "peaks": {
            measure: {
                "share": rounded(peak.share),
                "spans": [[format_day(first), format_day(last)] for first, last in peak.spans],
            }
            for measure, peak in one.peaks.items()
        },
        "knowledge": knowledge_json(one.knowledge) if one.knowledge else None,
        "points": [dict(zip(SHARES, _share_row(point), strict=True)) for point in one.points],
    }


def knowledge_json(known: KnowledgeDate) -> dict[str, Any]:
    """Return a knowledge date for JSON: days in ISO, the lag in days, shares of answers."""
    return {
        **known._asdict(),
        "day": format_day(known.day),
        "lower": format_day(known.lower),
        "upper": format_day(known.upper),
        "lag": round(known.lag, 1),
        **{share: round(getattr(known, share), 3) for share in ("ahead", "stale", "random")},
        "log_likelihood": round(known.log_likelihood, 2),
    }


def overview_rows(runs: Sequence[Overview]) -> Listing:
    """Return peaks and knowledge dates one run a row."""
    columns = ["run", "released"]
    columns += [f"{measure}{of}" for measure in MEASURES for of in ("_peak", "_from", "_to")]
    columns += ["knowledge", "knowledge_lower", "knowledge_upper", "lag", "facts"]
    rows = []
    for one in runs:
        row: list[object] = [one.about.run, one.about.released]
        for measure in MEASURES:
            peak = one.peaks.get(measure)
            row += [rounded(peak.share), *map(format_day, peak.spans[0])] if peak else [None, None, None]
        known = one.knowledge
        days = (known.day, known.lower, known.upper) if known else ()
        row += [*map(format_day, days), rounded(known.lag), known.n_facts] if known else [None] * 5
        rows.append(row)
    return Listing(columns, rows)


def share_rows(points: Sequence[Point], title: str | None = None) -> Listing:
    """Return the points of a sweep, one a row; rates in per cent with one decimal."""
    return Listing(SHARES, [_share_row(point) for point in points], title)


def _share_row(point: Point) -> tuple[object, ...]:
    rates = (point.up_to_date, point.up_to_date_lower, point.up_to_date_upper, point.outdated, point.irrelevant)
    return (point.run, point.domain, format_day(point.day), point.n, *map(rounded, rates))


def share_table(points: Sequence[Point], titles: Mapping[str, str], title: str) -> Listing:
    """Return the points of a sweep to read: bounds in one column."""
    columns = ("model", "as of", "n", "up", "certain", "possible", "out", "irr")
    rows = []
    for point in points:
        run, domain, day, *figures = _share_row(point)
        about = titles.get(point.run, str(run)) + ("" if domain == "all" else f", {domain}")
        rows.append((about, day, *figures))
    return Listing(columns, rows, title)


def years_rows(boxes: Sequence[Years]) -> Listing:
    """Return the boxes, one a row, with their own names."""
    return Listing(Years._fields, [[rounded(v) if isinstance(v, float) else v for v in box] for box in boxes])


def years_table(boxes: Sequence[Years], titles: Mapping[str, str], title: str) -> Listing:
    """Return the boxes to read."""
    columns = ("model", "domain", "n", "min", "25 %", "50 %", "75 %", "max", "mean")
    rows = []
    for box in boxes:
        quartiles = [f"{value:.10g}" for value in (round(box.lower, 1), round(box.median, 1), round(box.upper, 1))]
        figures = (str(box.minimum), *quartiles, str(box.maximum), f"{box.mean:.1f}")
        rows.append((titles.get(box.run, box.run) if box.domain == "all" else "", box.domain, box.n, *figures))
    return Listing(columns, rows, title)


def knowledge_table(known: Sequence[KnowledgeDate], titles: Mapping[str, str], title: str) -> Listing:
    """Return knowledge dates to read; shares of answers in per cent."""
    columns = ("model", "answers from", "95 % interval", "lag", "stale", "random", "of")
    rows = [
        (
            titles.get(one.run, one.run),
            format_day(one.day),
            dates(one).split(" ", 1)[1],
            round(one.lag),
            round(100 * one.stale),
            round(100 * one.random),
            one.n_facts,
        )
        for one in known
    ]
    return Listing(columns, rows, title)


def knowledge_rows(known: Sequence[KnowledgeDate]) -> Listing:
    """Return knowledge dates, one a row, with their own names."""
    return Listing(KnowledgeDate._fields, [list(knowledge_json(one).values()) for one in known])
