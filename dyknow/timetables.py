"""What the command line prints of timelines and knowledge dates.

Everything here turns values into text; nothing prints.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dyknow.knowledge import KnowledgeDate, OfPart
from dyknow.tables import Listing, printable, rounded
from dyknow.timeline import ALL, Measure, Peak, Point, Years
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
ENOUGH: Final = 20
"""Facts of a part from which its curve and the date it answers from are shown: fewer say more of themselves."""
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
    points: Sequence[Point]  # of one domain or other part, by day
    part: str = ALL  # what of the run's facts all this is of
    parts: str = "domain"  # what it is a part by

    @property
    def facts(self) -> int:
        """How many facts count on the day on which most do."""
        return max((point.n for point in self.points), default=0)

    @property
    def enough(self) -> bool:
        """Whether so many facts show a curve; all facts of a run are shown however few they are."""
        return self.part == ALL or self.facts >= ENOUGH


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
    if one.part != ALL:
        name = f"{name}, {one.parts} {printable(one.part)}"
    if not one.enough:
        return f"{name[:79]}\n  {one.facts} facts, too few for a curve\n"
    released = f"released {'≤' if about.release_known == 'year' else ''}{about.released}" if about.released else ""
    lines = [f"{name[:52]:<52} {released:>26}".rstrip()]
    for measure, title in MEASURES.items():
        if peak := one.peaks.get(measure):
            lines.append(f"  {title:<16}{peak.share:5.1f} %  {spans(peak)}")
    if known and not enough(one.part, known):
        lines.append(f"  {'answers from':<16}not told: answers about {known.n_facts} facts alone name a holder")
    elif known:
        lines.append(f"  {'answers from':<16}{dates(known)}  lag {known.lag:.0f} days, {known.n_facts} facts")
    shares = [point.up_to_date for point in one.points]
    if found := [share for share in shares if share is not None]:
        first, last = (split_day(one.points[place].day)[0] for place in (0, -1))
        lines.append(f"  {first} {spark(shares)} {last}")
        lines.append(f"       {min(found):.0f} to {max(found):.0f} %")
    return "\n".join(lines) + "\n"


def enough(part: str, known: KnowledgeDate) -> bool:
    """Tell whether a date is shown: of all facts always, of a part where ``ENOUGH`` of its facts name a holder."""
    return part == ALL or known.n_facts >= ENOUGH


def dates(known: KnowledgeDate) -> str:
    """Return a knowledge date with its interval."""
    end = f">{format_day(known.upper)}" if known.at_end else format_day(known.upper)
    return f"{format_day(known.day)} [{format_day(known.lower)}, {end}]"


def overview_json(one: Overview) -> dict[str, Any]:
    """Return what is shown of a run, for JSON."""
    about, known = one.about, _shown_date(one)
    peaks = one.peaks if one.enough else {}
    return {
        "run": about.run,
        "title": about.title,
        **({} if one.part == ALL else {"part": one.part, "facts": one.facts, "enough": one.enough}),
        "released": about.released,
        "release_known": about.release_known,
        "peaks": {
            measure: {
                "share": rounded(peak.share),
                "spans": [[format_day(first), format_day(last)] for first, last in peak.spans],
            }
            for measure, peak in peaks.items()
        },
        "knowledge": knowledge_json(known) if known else None,
        "points": [dict(zip(SHARES, _share_row(point), strict=True)) for point in one.points],
    }


def _shown_date(one: Overview) -> KnowledgeDate | None:
    return one.knowledge if one.knowledge and enough(one.part, one.knowledge) else None


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
    split = any(one.part != ALL for one in runs)
    columns = ["run", *(["part"] if split else []), "released"]
    columns += [f"{measure}{of}" for measure in MEASURES for of in ("_peak", "_from", "_to")]
    columns += ["knowledge", "knowledge_lower", "knowledge_upper", "lag", "facts"]
    rows = []
    for one in runs:
        row: list[object] = [one.about.run, *([one.part] if split else []), one.about.released]
        for measure in MEASURES:
            peak = one.peaks.get(measure) if one.enough else None
            row += [rounded(peak.share), *map(format_day, peak.spans[0])] if peak else [None, None, None]
        known = _shown_date(one)
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


def years_table(boxes: Sequence[Years], titles: Mapping[str, str], title: str, split: str = "domain") -> Listing:
    """Return the boxes to read."""
    columns = ("model", split, "n", "min", "25 %", "50 %", "75 %", "max", "mean")
    rows = []
    for box in boxes:
        quartiles = [f"{value:.10g}" for value in (round(box.lower, 1), round(box.median, 1), round(box.upper, 1))]
        figures = (str(box.minimum), *quartiles, str(box.maximum), f"{box.mean:.1f}")
        rows.append((titles.get(box.run, box.run) if box.domain == "all" else "", box.domain, box.n, *figures))
    return Listing(columns, rows, title)


def knowledge_table(
    known: Sequence[OfPart], titles: Mapping[str, str], title: str, split: str | None = None
) -> Listing:
    """Return knowledge dates to read, of all facts or split by a part of them; shares of answers in per cent."""
    columns = ("model", *((split,) if split else ()), "answers from", "95 % interval", "lag", "stale", "random", "of")
    rows = []
    for part, one in known:
        about = (titles.get(one.run, one.run) if part == ALL else "", *((part,) if split else ()))
        figures = (format_day(one.day), dates(one).split(" ", 1)[1], round(one.lag))
        shares = (round(100 * one.stale), round(100 * one.random))
        shown = (*figures, *shares) if enough(part, one) else ("too few", *(None,) * 4)
        rows.append((*about, *shown, one.n_facts))
    return Listing(columns, rows, title)


def knowledge_rows(known: Sequence[OfPart], split: str | None = None) -> Listing:
    """Return knowledge dates, one a row, with their own names; where facts are too few for one, only how many."""
    columns = (*KnowledgeDate._fields, *(("part",) if split else ()))
    return Listing(columns, [list(known_json(one, split).values()) for one in known])


def known_json(one: OfPart, split: str | None = None) -> dict[str, Any]:
    """Return the knowledge date of a part for JSON; where facts are too few for one, only how many."""
    figures = knowledge_json(one.known)
    if not enough(*one):
        told = ("run", "n_facts", "n_answers", "snapshot")
        figures = {name: value if name in told else None for name, value in figures.items()}
    return {**figures, **({"part": one.part} if split else {})}
