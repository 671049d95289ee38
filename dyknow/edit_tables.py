"""What edits achieved, for the command line: Tables 3, 7 and 8 and the points of Figure 3 in 80 columns."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from dyknow.editing import CurvePoint, EditScore
from dyknow.strata import arranged
from dyknow.tables import DOMAINS, WIDTH, Format, Listing, draw, printable, whole

_BLOCK: Final = 13

_FOOTNOTE: Final = """\
Per cent of the n facts edited. HM: harmonic mean of efficacy (the edited
question is answered right) and paraphrase success (the others are, pooled)."""


def scores_text(
    scores: Sequence[EditScore],
    title: str,
    form: Format,
    width: int = WIDTH,
    colour: bool = False,
    *,
    split: str = "domain",
) -> str:
    """Return what the edits of each run achieved; JSON and CSV have every figure.

    A table has one line a run with its domains side by side, or of other parts a line each.
    """
    if form != "table":
        return Listing(EditScore._fields, [_rounded(score) for score in scores]).text(form)
    soft = "soft: any question of the fact is answered right.   ‡ over 85 %"
    table = _by_domain(scores) if split == "domain" else _by_part(scores, split)
    return draw(Group(Text(title, style="bold"), table), width, colour) + f"{_FOOTNOTE}\n{soft}\n"


def _by_domain(scores: Sequence[EditScore]) -> Table:
    table, domains = _plain(), _domains(scores)
    table.add_column("model and method", overflow="fold", max_width=24)
    for name in domains:
        # One column a domain, its three figures set by hand: a heading over several columns is more than rich can do.
        table.add_column(f"{name:>{_BLOCK}}\n{'HM':>3} {'soft':>5}{'n':>4}", no_wrap=True)
    by_run: dict[str, dict[str, EditScore]] = {}
    for score in scores:
        by_run.setdefault(score.run, {})[score.domain] = score
    for own in by_run.values():
        title_of = Text(printable(next(iter(own.values())).title))
        table.add_row(title_of, *(_block(own.get(domain)) for domain in domains))
    return table


def _by_part(scores: Sequence[EditScore], split: str) -> Table:
    table = _plain()
    table.add_column("model and method", overflow="fold", max_width=34)
    table.add_column(split, overflow="fold")
    for name in ("HM", "soft", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for score in arranged(scores):
        name = score.title if score.domain == "all" else ""
        mean, soft = (whole(value) + mark for value, mark in _marked(score))
        table.add_row(Text(printable(name)), Text(printable(score.domain)), mean, soft, str(score.n))
    return table


def _marked(score: EditScore) -> tuple[tuple[float | None, str], ...]:
    return (score.harmonic_mean, score.mark or " "), (score.soft, score.soft_mark or " ")


def curve_text(points: Sequence[CurvePoint], title: str, form: Format, width: int = WIDTH, colour: bool = False) -> str:
    """Return what different numbers of edits achieved, one line a number, over all domains."""
    if form != "table":
        return Listing(CurvePoint._fields, [_rounded(point) for point in points]).text(form)
    table = _plain()
    for name in ("model", "method", "edits", "%", "efficacy", "paraphrase", "HM", "arithmetic"):
        table.add_column(name, justify="left" if name in ("model", "method") else "right", overflow="fold")
    for point in points:
        figures = (point.efficacy, point.paraphrase, point.harmonic_mean, point.arithmetic_mean)
        cells = ("–" if figure is None else f"{figure:.2f}" for figure in figures)
        names = (Text(printable(point.model or "")), Text(printable(point.method or "")))
        table.add_row(*names, f"{point.edits}/{point.of}", whole(point.share), *cells)
    return draw(Group(Text(title, style="bold"), table), width, colour) + f"{_FOOTNOTE}\n"


def _plain() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def _domains(scores: Iterable[EditScore]) -> list[str]:
    found = {score.domain for score in scores} - {"all"}
    return [*(name for name in DOMAINS if name in found), *sorted(found - set(DOMAINS)), "all"]


def _block(score: EditScore | None) -> str:
    if score is None:
        return ""
    mean, soft = (whole(value) + mark for value, mark in _marked(score))
    return f"{mean:>4}{soft:>5}{score.n:>4}"


def _rounded(row: EditScore | CurvePoint) -> list[object]:
    return [round(value, 2) if isinstance(value, float) else value for value in row]
