"""The figures as Altair charts without data: each names the datasets it draws, and `datasets` says what they hold.

The same charts are drawn by the page, which puts rows into them as its slider moves, and into SVG and PNG files.
Altair is loaded when a chart is asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dyknow.report.drawing import need

Chart = Any
"""A chart of Altair's, which ships no types and is loaded when a chart is asked for."""

Palette = Mapping[str, str]

LIGHT: Final[Palette] = {
    "up": "#159089", "open": "#8fccc7", "out": "#e08a2e", "irr": "#c3c9ce", "none": "#f1f3f4", "ink": "#1c2024",
    "soft": "#5b6168", "line": "#dfe3e6", "ground": "#ffffff", "mark": "#7a3e9d", "held": "#8a949c", "on": "#14181c",
}  # fmt: skip
"""Teal, orange and greys stay apart for those who do not see red and green apart; no figure relies on colour alone."""

BY_PAGE: Final[Palette] = {**{name: f"var(--{name})" for name in LIGHT}, "ground": "transparent"}
"""Colours that follow the page they are drawn in: light, dark or printed."""

VERDICTS: Final = ("up to date", "out of date", "irrelevant")
TENURES: Final = ("held it", "up to date", "out of date", "later")
FONT: Final = "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"

DATASETS: Final[Mapping[str, Mapping[str, str]]] = {
    "bars": {
        "bars": "model, verdict, share (per cent), from, to (where its piece of the bar lies), said",
        "whiskers": "model, lower, upper (95 % interval of the share up to date), said",
    },
    "timeline": {
        "timeline": "order, model, kind (share, release, known), day, said; of a share by (snapshot), lower, up, "
        "upper; of a known day earliest, latest",
        "now": "day",
    },
    "years": {
        "years": "model, from (where its whisker begins), minimum, q1, median, q3, maximum (years), n, release, said"
    },
    "heatmap": {"cells": "order, domain, fact, model, verdict, sign"},
    "lanes": {"lanes": "row, kind, first, last, said, text", "marks": "row, day, said", "now": "day"},
}
"""The datasets of each figure and their fields."""


def spec(name: str, palette: Palette = LIGHT) -> dict[str, Any]:
    """Return a figure as a Vega-Lite specification, without data."""
    build = PANELS.get(name) if palette is BY_PAGE else None
    built: dict[str, Any] = (build or FIGURES[name])(palette).to_dict()
    return built


def _dressed(drawn: Chart, palette: Palette) -> Chart:
    ink, soft, line = palette["ink"], palette["soft"], palette["line"]
    return (
        drawn.configure(font=FONT, background=palette["ground"])
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=soft, titleColor=soft, gridColor=line, domainColor=line, tickColor=line, labelFontSize=11,
            titleFontSize=11, titleFontWeight="normal",
        )
        .configure_header(labelColor=ink, titleColor=ink, labelFontSize=12, labelFontWeight="bold")
        .configure_legend(labelColor=ink, titleColor=soft, labelFontSize=11, orient="top", title=None)
        .configure_title(color=ink)
    )  # fmt: skip


def _named(name: str) -> Chart:
    return need("altair").NamedData(name=name)


def _models() -> Chart:
    alt = need("altair")

    axis = alt.Axis(domain=False, ticks=False, labelLimit=150, labelPadding=6)
    return alt.Y("model:N", sort=None, title=None, axis=axis)


def _legend(palette: Palette) -> dict[str, None]:
    """Return no legend for the page, which has its own: one inside a chart is cut where the chart is narrow."""
    return {"legend": None} if palette is BY_PAGE else {}


def bars(palette: Palette) -> Chart:
    """Return the rates of every model as one stacked bar, with the interval of the share up to date."""
    alt = need("altair")

    colours = [palette[name] for name in ("up", "out", "irr")]
    x = alt.X(
        "from:Q",
        scale=alt.Scale(domain=[0, 100], nice=False),
        title="per cent of facts",
        axis=alt.Axis(grid=False, tickCount=10),
    )
    base = alt.Chart(_named("bars")).encode(y=_models(), x=x, x2="to:Q", tooltip="said:N")
    fill = alt.Color("verdict:N", sort=None, scale=alt.Scale(domain=list(VERDICTS), range=colours), **_legend(palette))
    pieces = base.mark_bar(height={"band": 0.72}).encode(color=fill)
    whiskers = alt.Chart(_named("whiskers")).encode(y=_models(), tooltip="said:N")
    line = whiskers.mark_rule(color=palette["on"], strokeWidth=1.5).encode(x="lower:Q", x2="upper:Q")
    ends = [
        whiskers.mark_tick(color=palette["on"], thickness=1.5, size=8).encode(x=end) for end in ("lower:Q", "upper:Q")
    ]
    return _dressed(alt.layer(pieces, line, *ends).properties(width=520, height=alt.Step(24)), palette)


def _panel(palette: Palette, height: int = 110) -> Chart:
    """Return one model's share up to date against the as-of date, with its release and the date it answers from."""
    alt = need("altair")

    base = alt.Chart()
    x = alt.X(
        "day:T",
        title=None,
        axis=alt.Axis(
            format="%Y", tickCount="year", labelOverlap="greedy", labelFlush=False, labelSeparation=8, grid=False
        ),
    )
    scale = alt.Scale(domain=[0, 100])
    axis = alt.Axis(values=[0, 50, 100], labelExpr="datum.value + ' %'")
    share = base.transform_filter("datum.kind == 'share'")
    band = share.mark_area(color=palette["up"], opacity=0.22).encode(
        x=x, y=alt.Y("lower:Q", scale=scale, axis=axis, title=None), y2="upper:Q", detail="by:N"
    )
    line = share.mark_line(color=palette["up"], strokeWidth=2).encode(
        x=x, y=alt.Y("up:Q", scale=scale), detail="by:N", tooltip="said:N"
    )
    release = base.transform_filter("datum.kind == 'release'")
    released = release.mark_rule(color=palette["ink"], strokeDash=[4, 3], strokeWidth=1.2).encode(x=x, tooltip="said:N")
    known = base.transform_filter("datum.kind == 'known'")
    level = alt.value(6)
    span = known.mark_rule(color=palette["mark"], strokeWidth=3).encode(
        x=alt.X("earliest:T"), x2="latest:T", y=level, tooltip="said:N"
    )
    point = known.mark_point(
        color=palette["mark"], fill=palette["mark"], shape="triangle-down", size=60, opacity=1
    ).encode(x=x, y=level, tooltip="said:N")
    now = alt.Chart(_named("now")).mark_rule(color=palette["out"], strokeWidth=1.5).encode(x=x)
    return alt.layer(band, line, released, span, point, now).properties(width=230, height=height)


def timeline(palette: Palette) -> Chart:
    """Return the timelines of all models side by side."""
    alt = need("altair")

    header = alt.Header(title=None)
    facet = alt.Facet("model:N", sort=alt.EncodingSortField("order", op="min"), title=None, header=header)
    return _dressed(_panel(palette).facet(facet, data=_named("timeline"), columns=3), palette)


def years(palette: Palette) -> Chart:
    """Return when the tenures began that the models' answers name, as box plots (the study's Figures 2, 5 and 6)."""
    alt = need("altair")

    base = alt.Chart(_named("years")).encode(y=_models(), tooltip="said:N")
    axis = alt.Axis(format="d", tickMinStep=1, labelOverlap="greedy", labelFlush=False)
    reach = base.mark_rule(color=palette["ink"]).encode(
        x=alt.X("from:Q", scale=alt.Scale(zero=False, nice=True), axis=axis, title="year the named tenure began"),
        x2="maximum:Q",
    )
    box = base.mark_bar(height={"band": 0.55}, color=palette["open"], stroke=palette["up"]).encode(x="q1:Q", x2="q3:Q")
    middle = base.mark_tick(color=palette["ink"], thickness=2.5, size=14).encode(x="median:Q")
    release = base.mark_point(shape="diamond", size=55, color=palette["mark"], fill=palette["mark"], opacity=1).encode(
        x="release:Q"
    )
    return _dressed(alt.layer(reach, box, middle, release).properties(width=520, height=alt.Step(24)), palette)


def heatmap(palette: Palette) -> Chart:
    """Return the verdict of every fact and model."""
    alt = need("altair")

    names = ["up to date", "perhaps up to date", "out of date", "irrelevant", "not judged"]
    colours = [palette[name] for name in ("up", "open", "out", "irr", "none")]
    x = alt.X("model:N", sort=None, title=None, axis=alt.Axis(orient="top", labelAngle=-60, domain=False, ticks=False))
    y = alt.Y("fact:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260))
    base = alt.Chart().encode(x=x, y=y)
    fill = alt.Color(
        "verdict:N", sort=None, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(orient="top")
    )
    cells = base.mark_rect(stroke=palette["ground"]).encode(color=fill, tooltip=["model:N", "fact:N", "verdict:N"])
    signs = base.mark_text(fontSize=10, color=palette["on"]).encode(text="sign:N")
    facet = alt.Row(
        "domain:N",
        sort=alt.EncodingSortField("order", op="min"),
        title=None,
        header=alt.Header(labelAngle=0, labelOrient="top", labelAnchor="start"),
    )
    drawn = (
        alt.layer(cells, signs)
        .properties(width=alt.Step(24), height=alt.Step(13))
        .facet(row=facet, data=_named("cells"))
    )
    return _dressed(drawn.resolve_scale(y="independent"), palette)


def lanes(palette: Palette) -> Chart:
    """Return one fact: its holders over time, whom each model names, and when it came out (the study's Figure 1)."""
    alt = need("altair")

    colours = [palette[name] for name in ("held", "up", "out", "irr")]
    axis = alt.Axis(domain=False, ticks=False, labelLimit=170, labelPadding=6)
    y = alt.Y("row:N", sort=None, title=None, axis=axis)
    x = alt.X(
        "first:T",
        title=None,
        axis=alt.Axis(
            format="%Y",
            tickCount="year",
            labelOverlap="greedy",
            labelFlush=False,
            labelSeparation=8,
            orient="top",
            grid=False,
        ),
    )
    base = alt.Chart(_named("lanes"))
    fill = alt.Color("kind:N", sort=None, scale=alt.Scale(domain=list(TENURES), range=colours), **_legend(palette))
    bar = base.mark_bar(height={"band": 0.62}, cornerRadius=2, stroke=palette["ground"], clip=True).encode(
        x=x, x2="last:T", y=y, color=fill, tooltip="said:N"
    )
    text = base.mark_text(align="left", dx=4, baseline="middle", fontSize=10.5, color=palette["on"], clip=True).encode(
        x=x, y=y, text="text:N", tooltip="said:N"
    )
    marks = alt.Chart(_named("marks")).mark_point(
        shape="diamond", size=70, color=palette["mark"], fill=palette["mark"], opacity=1, clip=True
    ).encode(x="day:T", y=y, tooltip="said:N")  # fmt: skip
    now = alt.Chart(_named("now")).mark_rule(color=palette["out"], strokeWidth=1.5, clip=True).encode(x="day:T")
    return _dressed(alt.layer(bar, text, marks, now).properties(width=640, height=alt.Step(22)), palette)


FIGURES: Final[Mapping[str, Callable[[Palette], Chart]]] = {
    "timeline": timeline, "bars": bars, "years": years, "heatmap": heatmap, "lanes": lanes,
}  # fmt: skip
"""The figures by name."""


def _one_panel(palette: Palette) -> Chart:
    return _dressed(_panel(palette).properties(data=_named("timeline")), palette)


PANELS: Final[Mapping[str, Callable[[Palette], Chart]]] = {"timeline": _one_panel}
"""What the page draws where it puts panels side by side by itself, as many as there is room for."""
