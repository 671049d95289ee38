"""What the command line prints: listings as table, JSON or CSV, and the study's tables of rates in 80 columns.

Everything here turns values into text; nothing prints.
"""

import csv
import io
import json
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dyknow.analysis import RELEASE, Change, Inconsistency, Rates, Scores, SinceRelease, long_rows

Format = Literal["table", "json", "csv"]

WIDTH: Final = 80
"""Columns that every table of rates fits into."""

DOMAINS: Final = ("countries", "athletes", "organizations")
"""The study's three domains, in its order; a benchmark of one's own may have others, which follow by name."""

LONG_COLUMNS: Final = ("table", "run", "domain", "measure", "n", "value")
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


def named(title: str, year: int | None, prefixed: bool) -> str:
    """Return a run's title as a table has it: with its year, and * where it was asked to give the name only."""
    return f"{title}{'*' if prefixed else ''}{f' {year}' if year else ''}"


def _name(scores: Scores, row: Rates | Inconsistency) -> Text:
    """Return a run's title as a cell; where each run has its own day, with that instead of the year."""
    day = next((moment.text for moment in scores.moments if moment.run == row.run), None)
    name = named(row.title, None if day else row.year, row.prefixed)
    return Text(printable(f"{name} {day}" if day else name))


def whole(value: float | None) -> str:
    """Return a rate as the study prints it: whole per cent, half up; a dash where nothing was judged.

    >>> whole(44.5), whole(None)
    ('45', '–')
    """
    return "–" if value is None else str(int(value + 0.5))


def score_text(scores: Scores, width: int = WIDTH, colour: bool = False) -> str:
    """Return Tables 1, 5 and 2 as text, each with its n, and a line that says what they were made of."""
    parts = [
        draw(table1(scores), width, colour),
        draw(table5(scores), width, colour),
        draw(table2(scores), width, colour),
    ]
    return "\n".join([*parts, footnotes(scores)])


def heading(scores: Scores) -> str:
    """Return the sentence that says as of when, by which snapshot and by whom the tables were judged."""
    rule = "" if scores.rule == "latest" else f", rule {scores.rule}"
    if scores.as_of == RELEASE:  # the snapshots may be many: they go below
        return f"as of each release (judge {scores.judge}{rule})"
    return f"as of {scores.as_of} (snapshot {scores.snapshot}, judge {scores.judge}{rule})"


def footnotes(scores: Scores) -> str:
    """Return what the signs in the tables mean, and what was left out of them."""
    lines = [
        "Per cent of n facts: up to date, out of date, irrelevant. Table 1: a fact's best phrasing.",
        "Table 2: facts whose phrasings are answered differently, per cent of the n answered at all.",
        '† over 40 % out of date   ‡ over 70 % up to date   * asked with "Answer with the name only"',
    ]
    left_out = max((rate.not_covered for rate in scores.table1 if rate.domain == "all"), default=0)
    if left_out:
        lines.append(f"Not covered by the snapshot, so in no n: up to {left_out} facts a run.")
    if unfinished := [rate.title for rate in scores.table1 if rate.domain == "all" and rate.incomplete]:
        lines.append(f"Facts with unanswered phrasings, in no n either: {', '.join(unfinished)}.")
    if scores.moments:
        own = f"As of the day each model came out. Snapshots: {scores.snapshot}; which is whose, --format json tells."
        lines.append(textwrap.fill(own, WIDTH))
    if any(moment.known == "year" for moment in scores.moments):
        lines.append("≤ of the release only the year is known: judged as of its last day.")
    return "\n".join(lines) + "\n"


def table1(scores: Scores) -> RenderableType:
    """Return Table 1 (with the open models of Table 4): rates by domain, the best of a fact's phrasings."""
    return _rate_table(f"Table 1  {heading(scores)}", scores, scores.table1, with_marks=True)


def table5(scores: Scores) -> RenderableType:
    """Return Table 5: rates by domain, the average over a fact's phrasings."""
    return _rate_table(f"Table 5, average  {heading(scores)}", scores, scores.table5, with_marks=False)


def _rate_table(title: str, scores: Scores, rates: Sequence[Rates], with_marks: bool) -> RenderableType:
    domains = domains_of(rates)
    table = _plain()
    table.add_column("model", overflow="fold", max_width=24)
    for domain in domains:
        # One column a domain, its four figures set by hand: a heading over several columns is more than rich can do.
        table.add_column(f"{domain:>{_BLOCK}}\n{'up':>3} {'out':>4} {'irr':>4} {'n':>4}", no_wrap=True)
    for own in _by_run(rates):
        cells = [_rate_cell(own.get(domain), with_marks) for domain in domains]
        table.add_row(_name(scores, next(iter(own.values()))), *cells)
    return _titled(title, table)


_BLOCK: Final = 18


def _by_run(rates: Iterable[Rates]) -> list[dict[str, Rates]]:
    found: dict[str, dict[str, Rates]] = {}
    for rate in rates:
        found.setdefault(rate.run, {})[rate.domain] = rate
    return list(found.values())


def _rate_cell(rate: Rates | None, with_marks: bool) -> str:
    if rate is None:
        return ""
    mark = rate.mark if with_marks else ""
    up = whole(rate.up_to_date) + (mark if mark == "‡" else " ")
    out = whole(rate.outdated) + (mark if mark == "†" else " ")
    return f"{up:>4}{out:>5}{whole(rate.irrelevant):>4} {rate.n:>4}"


def table2(scores: Scores) -> RenderableType:
    """Return Table 2: how often a model's answers to one fact disagree."""
    table = _plain()
    table.add_column("model", overflow="fold", max_width=34)
    table.add_column("inconsistent", justify="right")
    table.add_column("n", justify="right")
    for row in scores.table2:
        table.add_row(_name(scores, row), _one_decimal(row), str(row.n))
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
        **released,
        "table1": [rates_json(rate) for rate in scores.table1],
        "table5": [rates_json(rate) for rate in scores.table5],
        "table2": [{"run": r.run, "title": r.title, "n": r.n, "value": rounded(r.value)} for r in scores.table2],
    }


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
    }


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
            values = (row.table, row.run, row.domain, row.measure, row.n, rounded(row.value))
            rows.append((days.get(row.run, one.as_of), *values) if several else values)
    return as_csv(columns, rows)


# Several runs, several days


def since_release(rows: Sequence[SinceRelease], years: Collection[str], title: str, form: Format) -> Listing:
    """Return what was outdated at release and what has become so since, by run and domain.

    Args:
        rows: The figures.
        years: The runs of whose release only the year is known.
        title: What stands above them.
        form: As JSON and CSV every figure goes under its own name; a table has short ones.
    """
    if form != "table":
        found = [[rounded(value) if isinstance(value, float) else value for value in row] for row in rows]
        return Listing(SinceRelease._fields, found)
    columns = ("model", "released", "domain", "at release", "%", "since", "%", "of")
    return Listing(columns, [_since_row(row, row.run in years) for row in rows], title)


def _since_row(row: SinceRelease, year_only: bool) -> tuple[object, ...]:
    first = row.domain == "all"
    about = (named(row.title, None, row.prefixed), f"{'≤' if year_only else ''}{row.released}") if first else ("", "")
    shares = [int(share + 0.5) for share in (row.outdated_at_release_share, row.outdated_since_share)]
    return (*about, row.domain, row.outdated_at_release, shares[0], row.outdated_since, shares[1], row.n)


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
    table = _plain()
    table.add_column("model", overflow="fold", max_width=34)
    for column in ("changed", "up → out", "other → up", "rest", "of"):
        table.add_column(column, justify="right")
    for row in shifts:
        counts = (row.changed, row.went_stale, row.came_true, row.other, row.facts)
        table.add_row(Text(printable(named(row.title, row.year, row.prefixed))), *map(str, counts))
    return _titled(f"Facts whose verdict changed from {before} to {after}, not a word being asked anew", table)
