"""A report as Markdown, as CSV and as figures in files."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from dyknow.report import datasets, drawing
from dyknow.report import figures as charts
from dyknow.report.changes import changes
from dyknow.report.data import Data
from dyknow.report.datasets import title
from dyknow.report.days import in_words
from dyknow.report.rates import Figures, Rate
from dyknow.report.words import LEGEND, sentences
from dyknow.report.words import title as heading
from dyknow.tables import as_csv, printable, rounded, whole

Figure = Literal["timeline", "bars", "years", "heatmap", "lanes"]
FIGURES: Final[tuple[Figure, ...]] = get_args(Figure)

_COLUMNS: Final = ("as_of", "snapshot", "table", "run", "domain", "measure", "n", "value", "lower", "upper")


def markdown(data: Data, figures: Sequence[Figures]) -> str:
    """Return the sentences and tables of a report as Markdown, for each day asked about."""
    parts = [f"# {_safe(heading(data, figures))}\n", *(f"{_safe(one)}\n" for one in sentences(data, figures))]
    for day in data.days:
        place, stop = data.history(day), data.stops.index(day)
        parts.append(f"## As of {in_words(day)} (snapshot {data.histories[place].source.id})\n")
        found = figures[place]
        for table, name in enumerate(("Table 1, best phrasing", "Table 5, average")):
            parts.append(
                _rates(data, name, [[found.rate(table, d, r, stop) for d in _domains(data)] for r in _runs(data)])
            )
        split = [found.inconsistency(run, stop) for run in _runs(data)]
        rows = [
            [model.name, "–" if one.value is None else f"{one.value:.1f}{_interval(one.interval)}", str(one.n)]
            for model, one in zip(data.models, split, strict=True)
        ]
        parts.append(_table("Table 2, inconsistency", ["model", "inconsistent", "n"], rows))
    if data.days[0] != data.days[-1]:
        parts.append(_changed(data))
    parts += [_popular(data, day) for day in data.popular]
    if data.alignment is not None:
        rows = [[_text(value) for value in row] for row in data.alignment.rows]
        parts.append(_table("What editing and retrieval did about it", data.alignment.columns, rows))
    return "\n".join([*parts, f"{LEGEND}\n"])


def _text(value: object) -> str:
    """Return a value as a cell: rates in whole per cent."""
    return f"{value:.0f}" if isinstance(value, float) else "" if value is None else str(value)


def _runs(data: Data) -> range:
    return range(len(data.models))


def _domains(data: Data) -> list[str]:
    return [*data.domains(), "all"]


def _rates(data: Data, name: str, rates: Sequence[Sequence[Rate]]) -> str:
    head = ["model"]
    for domain in _domains(data):
        head += [f"{domain} up", "out", "irr", "n"]
    rows = []
    for model, own in zip(data.models, rates, strict=True):
        row = [model.name]
        for rate in own:
            shares = zip((rate.up_to_date, rate.outdated, rate.irrelevant), rate.intervals, strict=True)
            row += [*(f"{whole(share)}{_interval(bounds)}" for share, bounds in shares), str(rate.n)]
        rows.append(row)
    return _table(f"{name}, per cent of n facts", head, rows)


def _popular(data: Data, day: str) -> str:
    names = {model.run: model.name for model in data.models}
    rows = [
        [names[one.run], rate.domain, f"{whole(rate.up_to_date)}{_interval(rate.up_to_date_interval)}", str(rate.n)]
        for one in data.popular[day]
        for rate in one.bins
    ]
    return _table(f"Up to date by popularity, as of {in_words(day)}", ["model", "sites", "up", "n"], rows)


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" ({whole(bounds[0])}–{whole(bounds[1])})"


def _table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"**{name}**", "", _line(head), f"|{'---|' * len(head)}", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_safe(cell) for cell in cells)} |"


def _safe(text: str) -> str:
    r"""Return a text that no sign of Markdown or HTML takes effect in.

    >>> _safe("a|b <i>*")
    'a\\|b &lt;i>\\*'
    """
    line = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{sign}" if sign in "\\|*_`[]" else sign for sign in line)


def _changed(data: Data) -> str:
    first, last = data.days[0], data.days[-1]
    found, rows = changes(data, first, last), []
    for run, model in enumerate(data.models):
        own = [change for change in found if change.run == run]
        stale = [change for change in own if change.went_stale]
        counts = [len(stale), sum(change.came_true for change in own)]
        causes = [sum(change.cause == cause for change in own) for cause in ("world", "wikidata")]
        examples = "; ".join(title(data, change.fact) for change in stale[:3])
        rows.append([model.name, *map(str, [*counts, len(own) - sum(counts), *causes]), examples])
    head = ["model", "went out of date", "came true", "other", "the world", "Wikidata", "for example"]
    return _table(f"What changed from {in_words(first)} to {in_words(last)}", head, rows)


def csv(data: Data, figures: Sequence[Figures]) -> str:
    """Return the rates of every stop, long: one figure a line with its interval, in per cent with one decimal."""
    rows: list[tuple[Any, ...]] = []
    for stop, day in enumerate(data.stops):
        place = data.history(day)
        for run, model in enumerate(data.models):
            about = (day, data.histories[place].source.id)
            for table, name in enumerate(("1", "5")):
                for domain in _domains(data):
                    rate = figures[place].rate(table, domain, run, stop)
                    rows += [(*about, name, model.run, domain, *figure) for figure in _long(rate)]
            split = figures[place].inconsistency(run, stop)
            bounds = [rounded(bound) for bound in split.interval or (None, None)]
            rows.append((*about, "2", model.run, "all", "inconsistent", split.n, rounded(split.value), *bounds))
    return as_csv(_COLUMNS, rows)


def _long(rate: Rate) -> list[tuple[Any, ...]]:
    names = ("up_to_date", "outdated", "irrelevant")
    found: list[tuple[Any, ...]] = []
    for name, bounds in zip(names, rate.intervals, strict=True):
        found.append((name, rate.n, rounded(getattr(rate, name)), *map(rounded, bounds or (None, None))))
    found.append(("up_to_date_lower", rate.n, rounded(rate.lower), None, None))
    return [*found, ("up_to_date_upper", rate.n, rounded(rate.upper), None, None)]


def picture(
    name: Figure, form: Literal["svg", "png"], data: Data, figures: Sequence[Figures], fact: int | None = None
) -> bytes:
    """Return a figure as of the last day asked about, as a file.

    Raises:
        UsageError: what draws figures is not installed.
    """
    rows, spec = datasets.of(name, data, figures, data.days[-1], fact), charts.spec(name)
    return drawing.png(spec, rows) if form == "png" else drawing.svg(spec, rows).encode()
