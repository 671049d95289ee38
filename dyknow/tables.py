"""What the command line prints: listings as table, JSON or CSV, and the study's tables of rates in 80 columns.

Everything here turns values into text; nothing prints.
"""

import csv
import io
import json
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dyknow.analysis import RELEASE, Change, Inconsistency, Mass, Rates, Scores, SinceRelease
from dyknow.longrows import long_rows
from dyknow.strata import in_order
from dyknow.titles import titles

Format = Literal["table", "json", "csv"]

WIDTH: Final = 80
"""Columns that every table of rates fits into."""

DOMAINS: Final = ("countries", "athletes", "organizations")
"""The study's three domains, in its order; a benchmark of one's own may have others, which follow by name."""

LONG_COLUMNS: Final = ("table", "run", "domain", "measure", "n", "value", "lower", "upper")
"""Columns of the tables of rates as CSV."""


@dataclass(frozen=True)
class Listing:
    """Rows under columns; a value is text, a number, a truth value or None.

    Attributes:
        columns: Names of the columns, which are also the keys in JSON.
        rows: The rows, each as long as the columns.
        title: A line above the table; JSON and CSV leave it out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str | None = None

    def text(self, form: Format, width: int = WIDTH, colour: bool = False) -> str:
        """Return the listing in a format."""
        if form == "json":
            return as_json([dict(zip(self.columns, row, strict=True)) for row in self.rows])
        return as_csv(self.columns, self.rows) if form == "csv" else draw(self._table(), width, colour)

    def _table(self) -> RenderableType:
        table = _plain()
        for index, column in enumerate(self.columns):
            numeric = any(isinstance(row[index], int | float) for row in self.rows)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(cell, row))
        return _titled(self.title, table)


def as_json(value: object) -> str:
    """Return a value as JSON, indented, with its keys in the given order and a newline at the end."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n"


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return rows as CSV with a header; None is an empty cell.

    >>> as_csv(("a", "b"), [("x, y", None)])
    'a,b\n"x, y",\n'
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return target.getvalue()


def printable(text: str) -> str:
    r"""Return a text on one line without control characters: a model's answer must not steer the terminal.

    >>> printable("Mario\nDraghi \x1b[31m")
    'Mario Draghi �[31m'
    """
    line = " ".join(text.split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cf") else c for c in line)


def cell(value: object) -> Text:
    """Return a value as a table's cell; None is empty, truth is yes or no."""
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.1f}")
    return Text("" if value is None else printable(str(value)))


def draw(what: RenderableType, width: int = WIDTH, colour: bool = False) -> str:
    """Return a table as text of at most ``width`` columns, without blanks at the ends of lines."""
    target = io.StringIO()
    system: Literal["auto"] | None = "auto" if colour else None
    console = Console(
        file=target, width=width, force_terminal=colour, highlight=False, emoji=False, color_system=system
    )
    console.print(what)
    return "".join(line.rstrip() + "\n" for line in target.getvalue().splitlines())


def _plain() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def _titled(title: str | None, table: Table) -> RenderableType:
    """Put a title above a table, as wide as it is; rich's own would be broken at the table's width."""
    return table if title is None else Group(Text(title, style="bold"), table)


# The study's tables


def domains_of(rates: Iterable[Rates]) -> list[str]:
    """Return the domains that occur, the study's first and in its order."""
    found = {rate.domain for rate in rates} - {"all"}
    return [name for name in DOMAINS if name in found] + sorted(found - set(DOMAINS))


def _names(scores: Scores, rows: Sequence[Rates | Inconsistency]) -> dict[str, Text]:
    """Return the runs' titles as cells; where each run has its own day, with that instead of the year."""
    days = {moment.run: moment.text for moment in scores.moments}
    found = titles(rows, with_year=not days)
    return {run: Text(printable(f"{name} {days[run]}" if run in days else name)) for run, name in found.items()}


def whole(value: float | None) -> str:
    """Return a rate as the study prints it: whole per cent, half up; a dash where nothing was judged.

    A sum of floats that differs in its last digits, as DuckDB's threads make it, is printed alike.

    >>> whole(44.5), whole(44.49999999999999), whole(None)
    ('45', '45', '–')
    """
    return "–" if value is None else str(int(round(value, 9) + 0.5))


def score_text(
    scores: Scores, width: int = WIDTH, colour: bool = False, intervals: bool = False, *, below: str = ""
) -> str:
    """Return Tables 1, 5 and 2 as text, each with its n, and a line that says what they were made of.

    With intervals the rates of a domain stand on a line of their own, each with its 95 % interval. ``below`` is what
    stands under Table 1.
    """
    tables = [table1(scores, intervals), table5(scores, intervals), table2(scores, intervals)]
    first, *others = (draw(table, width, colour) for table in tables)
    return "\n".join([first, *([below] if below else []), *others, footnotes(scores, intervals)])


def heading(scores: Scores) -> str:
    """Return the sentence that says as of when, by which snapshot and by whom the tables were judged."""
    rule = "" if scores.rule == "latest" else f", rule {scores.rule}"
    if scores.as_of == RELEASE:  # the snapshots may be many: they go below
        return f"as of each release (judge {scores.judge}{rule})"
    return f"as of {scores.as_of} (snapshot {scores.snapshot}, judge {scores.judge}{rule})"


def footnotes(scores: Scores, intervals: bool = False) -> str:
    """Return what the signs in the tables mean, and what was left out of them."""
    lines = [
        "Per cent of n facts: up to date, out of date, irrelevant.",
        "Table 1: a fact's best phrasing. Table 2: facts whose phrasings are answered",
        "differently, per cent of the n answered at all.",
        "† over 40 % out of date   ‡ over 70 % up to date   * asked for the name only",
    ]
    if intervals:
        lines.append("45 31–59: a rate and its 95 % interval, facts drawn anew.")
    if scores.split == "popularity":
        lines.append("Popularity: on how many sites of the Wikimedia projects the subject has a page.")
    left_out = max((rate.not_covered for rate in scores.table1 if rate.domain == "all"), default=0)
    if left_out:
        lines.append(f"Not covered by the snapshot, so in no n: up to {left_out} facts a run.")
    if unfinished := [rate.title for rate in scores.table1 if rate.domain == "all" and rate.incomplete]:
        own = "Phrasings without an answer keep a fact out of Table 1 unless another one is up to date, which raises"
        own = f"{own} its rates: {', '.join(unfinished)}."
        lines.append(textwrap.fill(own, WIDTH))
    if scores.moments:
        own = f"As of the day each model came out. Snapshots: {scores.snapshot}; which is whose, --format json tells."
        lines.append(textwrap.fill(own, WIDTH))
    if any(moment.known == "year" for moment in scores.moments):
        lines.append("≤ of the release only the year is known: judged as of its last day.")
    return "\n".join(lines) + "\n"


def table1(scores: Scores, intervals: bool = False) -> RenderableType:
    """Return Table 1 (with the open models of Table 4): rates by domain, the best of a fact's phrasings."""
    title = f"Table 1  {heading(scores)}"
    return _table_of(scores, intervals)(title, scores, scores.table1, True)


def table5(scores: Scores, intervals: bool = False) -> RenderableType:
    """Return Table 5: rates by domain, the average over a fact's phrasings."""
    title = f"Table 5, average  {heading(scores)}"
    return _table_of(scores, intervals)(title, scores, scores.table5, False)


def _table_of(scores: Scores, intervals: bool) -> Callable[[str, Scores, Sequence[Rates], bool], RenderableType]:
    """Return what draws rates: of the three domains side by side, of other parts or with intervals line by line."""
    return _interval_table if intervals or scores.split != "domain" else _rate_table


def _parts(rates: Iterable[Rates | Inconsistency], split: str) -> list[str]:
    """Return what the rates are of, in the order of the lines; all together last."""
    if split == "domain":
        return [*domains_of(rate for rate in rates if isinstance(rate, Rates)), "all"]
    return [*in_order(list({rate.domain for rate in rates} - {"all"})), "all"]


def _rate_table(title: str, scores: Scores, rates: Sequence[Rates], with_marks: bool) -> RenderableType:
    domains = domains_of(rates)
    names = _names(scores, rates)
    table = _plain()
    table.add_column("model", overflow="fold", max_width=24)
    for domain in domains:
        # One column a domain, its four figures set by hand: a heading over several columns is more than rich can do.
        table.add_column(f"{domain:>{_BLOCK}}\n{'up':>3} {'out':>4} {'irr':>4} {'n':>4}", no_wrap=True)
    for run, own in _by_run(rates).items():
        cells = [_rate_cell(own.get(domain), with_marks) for domain in domains]
        table.add_row(names[run], *cells)
    return _titled(title, table)


def _interval_table(title: str, scores: Scores, rates: Sequence[Rates], with_marks: bool) -> RenderableType:
    """Return rates, with their intervals where there are: a line a domain or other part and one for all."""
    names = _names(scores, rates)
    table = _plain()
    table.add_column("model", overflow="fold", max_width=24)
    table.add_column(scores.split, overflow="fold")
    for column in ("up to date", "out of date", "irrelevant"):
        table.add_column(column, no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    for run, own in _by_run(rates).items():
        for place, domain in enumerate(_parts(own.values(), scores.split)):
            if rate := own.get(domain):
                table.add_row("" if place else names[run], domain, *_interval_cells(rate, with_marks), str(rate.n))
    return _titled(title, table)


def _interval_cells(rate: Rates, with_marks: bool) -> tuple[str, str, str]:
    mark = rate.mark if with_marks else ""
    return (
        _bounded(rate.up_to_date, rate.up_to_date_interval, mark if mark == "‡" else " "),
        _bounded(rate.outdated, rate.outdated_interval, mark if mark == "†" else " "),
        _bounded(rate.irrelevant, rate.irrelevant_interval, ""),
    )


def _bounded(value: float | None, interval: Sequence[float] | None, mark: str) -> str:
    """Return a rate in whole per cent with a mark and its interval."""
    rate = f"{whole(value):>3}{mark}"
    return f"{rate} {whole(interval[0])}–{whole(interval[1])}" if interval else rate


_BLOCK: Final = 18


def _by_run(rates: Iterable[Rates]) -> dict[str, dict[str, Rates]]:
    found: dict[str, dict[str, Rates]] = {}
    for rate in rates:
        found.setdefault(rate.run, {})[rate.domain] = rate
    return found


def _rate_cell(rate: Rates | None, with_marks: bool) -> str:
    if rate is None:
        return ""
    mark = rate.mark if with_marks else ""
    up = whole(rate.up_to_date) + (mark if mark == "‡" else " ")
    out = whole(rate.outdated) + (mark if mark == "†" else " ")
    return f"{up:>4}{out:>5}{whole(rate.irrelevant):>4} {rate.n:>4}"


def table2(scores: Scores, intervals: bool = False) -> RenderableType:
    """Return Table 2: how often a model's answers to one fact disagree."""
    names = _names(scores, scores.table2)
    table = _plain()
    table.add_column("model", overflow="fold", max_width=34)
    if split := scores.split != "domain":
        table.add_column(scores.split, overflow="fold")
    for column in ("inconsistent", *(("95 %",) if intervals else ()), "n"):
        table.add_column(column, justify="right")
    by_run: dict[str, dict[str, Inconsistency]] = {}
    for row in scores.table2:
        by_run.setdefault(row.run, {})[row.domain] = row
    for run, own in by_run.items():
        for place, row in enumerate(own[part] for part in _parts(own.values(), scores.split) if part in own):
            bounds = (f"{row.interval[0]:.1f}–{row.interval[1]:.1f}" if row.interval else "",) if intervals else ()
            about = ("" if place else names[run], *((row.domain,) if split else ()))
            table.add_row(*about, _one_decimal(row), *bounds, str(row.n))
    return _titled(f"Table 2, inconsistency  {heading(scores)}", table)


def _one_decimal(row: Inconsistency) -> str:
    return "–" if row.value is None else f"{row.value:.1f}"


def score_json(scores: Scores) -> dict[str, Any]:
    """Return the tables for JSON: what they were made of, then their rows with every figure."""
    released = {"released": [moment._asdict() for moment in scores.moments]} if scores.moments else {}
    return {
        "as_of": scores.as_of,
        "snapshot": scores.snapshot,
        "judge": scores.judge,
        "rule": scores.rule,
        **({} if scores.split == "domain" else {"split": scores.split}),
        **released,
        "table1": [rates_json(rate) for rate in scores.table1],
        "table5": [rates_json(rate) for rate in scores.table5],
        "table2": [_inconsistency_json(row) for row in scores.table2],
    }


def _inconsistency_json(row: Inconsistency) -> dict[str, Any]:
    figures = {"n": row.n, "value": rounded(row.value), "interval": bounds(row.interval)}
    part = {} if row.domain == "all" else {"domain": row.domain}
    return {"run": row.run, "title": row.title, **part, **figures}


def rates_json(rate: Rates) -> dict[str, Any]:
    """Return a row of rates with stable keys; rates are per cent with one decimal."""
    return {
        "run": rate.run,
        "title": rate.title,
        "year": rate.year,
        "prefixed": rate.prefixed,
        "domain": rate.domain,
        "n": rate.n,
        "up_to_date": rounded(rate.up_to_date),
        "outdated": rounded(rate.outdated),
        "irrelevant": rounded(rate.irrelevant),
        "up_to_date_lower": rounded(rate.up_to_date_lower),
        "up_to_date_upper": rounded(rate.up_to_date_upper),
        "mark": rate.mark,
        "facts": rate.facts,
        "incomplete": rate.incomplete,
        "not_covered": rate.not_covered,
        **{name: bounds(getattr(rate, name)) for name in Rates._fields if name.endswith("_interval")},
    }


def bounds(interval: Sequence[float] | None) -> list[float] | None:
    """Return both bounds of an interval with one decimal."""
    return None if interval is None else [round(bound, 1) for bound in interval]


def with_intervals(rows: Sequence[Mass | SinceRelease], form: Format) -> Listing:
    """Return rows with every figure under its own name: an interval is one list in JSON, in CSV two columns."""
    fields = rows[0]._fields if rows else ()
    columns = [name for field in fields for name in _columns_of(field, form)]
    return Listing(columns, [[value for field in fields for value in _values_of(row, field, form)] for row in rows])


def _columns_of(field: str, form: Format) -> tuple[str, ...]:
    if not field.endswith("_interval"):
        return (field,)
    if form == "table":
        return ()
    return (field,) if form == "json" else (f"{field}_lower", f"{field}_upper")


def _values_of(row: Mass | SinceRelease, field: str, form: Format) -> tuple[object, ...]:
    value = getattr(row, field)
    if not field.endswith("_interval"):
        return (rounded(value) if isinstance(value, float) else value,)
    if form == "table":
        return ()
    return (bounds(value),) if form == "json" else tuple(bounds(value) or (None, None))


def rounded(value: float | None) -> float | None:
    """Return a rate with one decimal."""
    return None if value is None else round(value, 1)


def score_csv(scores: Sequence[Scores]) -> str:
    """Return the tables of one date or several, long: one figure a line, with its day where there are several."""
    several = len(scores) > 1 or any(one.moments for one in scores)
    columns = ("as_of", *LONG_COLUMNS) if several else LONG_COLUMNS
    rows: list[tuple[object, ...]] = []
    for one in scores:
        days = {moment.run: moment.day for moment in one.moments}
        for row in long_rows(one):
            figures = (rounded(row.value), rounded(row.lower), rounded(row.upper))
            values = (row.table, row.run, row.domain, row.measure, row.n, *figures)
            rows.append((days.get(row.run, one.as_of), *values) if several else values)
    return as_csv(columns, rows)


# Several runs, several days


def since_release(
    rows: Sequence[SinceRelease],
    years: Collection[str],
    title: str,
    form: Format,
    intervals: bool = False,
    *,
    split: str = "domain",
) -> Listing:
    """Return what was outdated at release and what has become so since, by run and domain.

    Args:
        rows: The figures.
        years: The runs of whose release only the year is known.
        title: What stands above them.
        form: As JSON and CSV every figure goes under its own name; a table has short ones.
        intervals: A table has the shares' 95 % intervals too; JSON and CSV always have.
        split: What the rows are of.
    """
    if form != "table":
        return with_intervals(rows, form)
    columns = ("model", "released", split, "at release", "%", "since", "%", "of")
    names = titles(rows, with_year=False)
    return Listing(columns, [_since_row(row, names[row.run], row.run in years, intervals) for row in rows], title)


def _since_row(row: SinceRelease, name: str, year_only: bool, intervals: bool) -> tuple[object, ...]:
    about = (name, f"{'≤' if year_only else ''}{row.released}") if row.domain == "all" else ("", "")
    pairs = (
        (row.outdated_at_release_share, row.outdated_at_release_interval),
        (row.outdated_since_share, row.outdated_since_interval),
    )
    shares = [_bounded(share, bound, "") if intervals else int(share + 0.5) for share, bound in pairs]
    return (*about, row.domain, row.outdated_at_release, shares[0], row.outdated_since, shares[1], row.n)


def beliefs(rows: Sequence[Mass], form: Format, intervals: bool = False, split: str = "domain") -> Listing:
    """Return how models' beliefs are spread; a table has the intervals only where asked for, JSON and CSV always."""
    if form != "table":
        return with_intervals(rows, form)
    names = [name for name in Mass._fields if not name.endswith("_interval")]

    def shown(row: Mass, name: str) -> object:
        bound = bounds(getattr(row, f"{name}_interval", None))
        value = getattr(row, name)
        return f"{value:.1f} {bound[0]:.1f}–{bound[1]:.1f}" if bound and intervals else value

    columns = [split if name == "domain" else name for name in names]
    return Listing(columns, [[shown(row, name) for name in names] for row in rows])


class Shift(NamedTuple):
    """How many facts of a run changed their verdict between two days, though no word of its answers changed."""

    run: str
    title: str
    year: int | None
    prefixed: bool
    facts: int
    went_stale: int  # up-to-date, then outdated
    came_true: int  # later or outdated, then up-to-date
    other: int  # covered on one of the days only, and the rest
    examples: tuple[str, ...]

    @property
    def changed(self) -> int:
        """All facts whose verdict changed."""
        return self.went_stale + self.came_true + self.other


def shifts(rate: Rates, changes: Sequence[Change]) -> Shift:
    """Count what changed for a run between two days."""
    stale = [change for change in changes if change.before == "up-to-date" and change.after == "outdated"]
    wrong = ("outdated", "irrelevant")
    fresh = [change for change in changes if change.after == "up-to-date" and change.before in wrong]
    shown = tuple(f"{change.subject}, {change.office}: {change.answer}" for change in stale if change.answer)
    return Shift(
        rate.run, rate.title, rate.year, rate.prefixed, rate.facts, len(stale), len(fresh),
        len(changes) - len(stale) - len(fresh), shown,
    )  # fmt: skip


def shift_table(shifts: Sequence[Shift], before: str, after: str) -> RenderableType:
    """Return how many facts of each run changed their verdict between two days."""
    table, names = _plain(), titles(shifts)
    table.add_column("model", overflow="fold", max_width=34)
    for column in ("changed", "up → out", "other → up", "rest", "of"):
        table.add_column(column, justify="right")
    for row in shifts:
        counts = (row.changed, row.went_stale, row.came_true, row.other, row.facts)
        table.add_row(Text(printable(names[row.run])), *map(str, counts))
    return _titled(f"Facts whose verdict changed from {before} to {after}, not a word being asked anew", table)
