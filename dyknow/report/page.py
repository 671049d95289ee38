"""The page: one HTML file with its style, its script, its data and its charts, which asks nothing of the network.

A pure function of what it shows: equal inputs give equal bytes. It says everything without its script, for the day it
opens at; with it the slider moves that day. Every text from outside is escaped, in HTML and inside the scripts, and a
content security policy lets nothing run but the scripts it was written with.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from dyknow.analysis import Rates
from dyknow.report import figures as charts
from dyknow.report.cells import esc, rate_cells, split_cells, trend_cells
from dyknow.report.changes import CAUSES, Change, changes
from dyknow.report.data import Data, Rows
from dyknow.report.datasets import SIGNS, WORDS, telling, title, verdicts, years
from dyknow.report.days import in_words
from dyknow.report.payload import in_script, payload
from dyknow.report.popularity import Popular
from dyknow.report.rates import IRRELEVANT, OUT, OUT_OPEN, UP, UP_OPEN, Figures
from dyknow.report.words import LEGEND, sentences
from dyknow.report.words import title as heading
from dyknow.strata import in_order
from dyknow.tables import whole

MUCH: Final = 3
"""Examples of a change that a row shows before it is opened."""

_FOLDER: Final = Path(__file__).parent


def render(data: Data, figures: Sequence[Figures], bundle: str | None) -> str:
    """Return the page as one HTML file.

    Args:
        data: what it shows.
        figures: the rates by each snapshot.
        bundle: the script that draws charts; None: the page has none, and says so.
    """
    day = data.days[-1]
    body = "\n".join(filter(None, _sections(data, figures, day, charted=bundle is not None)))
    held: dict[str, Any] = payload(data, figures, day)
    held["specs"] = {name: _spec(name) for name in _DRAWN} if bundle else {}
    held |= {"years": years(data), "telling": telling(data)}
    scripts = [*([bundle] if bundle else []), _file("page.js")]
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {' '.join(map(_digest, scripts))}"
    return _SHELL.format(
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
        title=esc(heading(data, figures)),
        style=_file("page.css"),
        body=body,
        data=in_script(held),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _spec(name: str) -> dict[str, Any]:
    """Return a chart without the address of its schema: the page names no other place."""
    return {key: value for key, value in charts.spec(name, charts.BY_PAGE).items() if key != "$schema"}


_DRAWN: Final = ("bars", "timeline", "years", "lanes")


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """Return what the policy calls a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _sections(data: Data, figures: Sequence[Figures], day: str, charted: bool) -> Iterable[str]:
    yield _header(data, figures, charted)
    yield _controls(data, day)
    yield _bars(charted)
    yield _rates(data, figures, day, 0)
    yield _popularity(data)
    yield _timeline(charted)
    yield _changed(data)
    yield _heatmap(data, day)
    yield _lanes(data, charted)
    yield _years(data, charted)
    yield _rates(data, figures, day, 1)
    yield _table2(data, figures, day)
    yield _beliefs(data)
    yield _alignment(data.alignment)
    yield _provenance(data)


def _section(name: str, head: str, note: str, body: str) -> str:
    return f"<section id={name}><h2>{esc(head)}</h2><p class=note>{esc(note)}</p>{body}</section>" if body else ""


def _header(data: Data, figures: Sequence[Figures], charted: bool) -> str:
    days = " and ".join(map(in_words, data.days))
    leads = "".join(f"<p class=lead>{esc(sentence)}</p>" for sentence in sentences(data, figures))
    rule = "" if data.rule == "latest" else f", rule {data.rule}"
    judge = "" if data.judge == "match" else f", judged by {data.judge}"
    bare = "" if charted else (
        "<p class=note>Without charts: they need two packages more, <code>pip install 'dyknow[plots]'</code>.</p>"
    )  # fmt: skip
    return (
        f"<header><p class=kicker>DyKnow, as of {esc(days + rule + judge)}</p><h1>{esc(heading(data, figures))}</h1>"
        f"{leads}{bare}</header>"
    )


def _controls(data: Data, day: str) -> str:
    """Return the bar with the slider; the script shows it, for without one it does nothing."""
    last = len(data.stops) - 1
    options = "".join(
        f"<option value={place}>{esc(history.source.id)}</option>" for place, history in enumerate(data.histories)
    )
    own = "" if data.known_at else "<option value=auto selected>each date’s own</option>"
    choice = f"<label>Snapshot <select id=snapshot>{own}{options}</select></label>" if len(data.histories) > 1 else ""
    domains = "".join(f"<option value={place}>{esc(name)}</option>" for place, name in enumerate(data.domains()))
    return (
        "<div id=controls role=group aria-label='The day everything is judged for' hidden>"
        "<label for=asof>As of</label>"
        f"<button type=button id=before aria-label='A step back'>‹</button>"
        f"<input type=range id=asof min=0 max={last} value={data.stops.index(day)} step=1>"
        f"<button type=button id=after aria-label='A step on'>›</button>"
        f"<output id=day for=asof>{esc(in_words(day))}</output>"
        f"<span class=choices><label>Facts <select id=domain>{domains}<option value={len(data.domains())} selected>all"
        f"</option></select></label>{choice}</span></div>"
        f"<p id=moment class=note>{esc(_moment(data, day))}</p>"
        f"<p class=legend><span class='key up'></span>up to date <span class='key out'></span>out of date "
        f"<span class='key irr'></span>irrelevant. {esc(LEGEND)}</p>"
    )


def _moment(data: Data, day: str) -> str:
    return f"As of {in_words(day)}, by Wikidata as of {data.histories[data.history(day)].source.id}."


def _bars(charted: bool) -> str:
    note = "By a fact’s best phrasing, with the 95 % interval of what is up to date."
    return _section("bars", "At a glance", note, "<div class=chart id=chart-bars></div>" if charted else "")


def _scrolling(table: str) -> str:
    """Return a table that scrolls inside the page, by keyboard too."""
    return f"<div class=scroll tabindex=0>{table}</div>"


# Tables


_TABLES: Final = (
    ("table1", "Table 1", "Per cent of facts by a fact’s best phrasing (with Table 4)."),
    ("table5", "Table 5", "The average over a fact’s phrasings."),
)


def _rates(data: Data, figures: Sequence[Figures], day: str, table: int) -> str:
    stop, place = data.stops.index(day), data.history(day)
    domains = [*data.domains(), "all"]
    heads = "".join(f"<th colspan=4 scope=colgroup>{esc(domain)}</th>" for domain in domains)
    sub = "<th>up</th><th>out</th><th>irr</th><th class=n>n</th>" * len(domains)
    rows = []
    for run, model in enumerate(data.models):
        cells = [
            cell
            for domain in domains
            for cell in rate_cells(figures[place].rate(table, domain, run, stop), marked=table == 0)
        ]
        rows.append(_row(model.name, cells))
    return _section(
        *_TABLES[table],
        _scrolling(
            f"<table class=rates><thead><tr><th rowspan=2 class=l>model</th>{heads}</tr><tr>{sub}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        ),
    )  # fmt: skip


def _row(name: str, cells: Sequence[str]) -> str:
    return f"<tr><th scope=row class=l>{esc(name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _table2(data: Data, figures: Sequence[Figures], day: str) -> str:
    stop, place = data.stops.index(day), data.history(day)
    rows = "".join(
        _row(model.name, split_cells(figures[place].inconsistency(run, stop))) for run, model in enumerate(data.models)
    )
    return _section(
        "table2", "Table 2", "Inconsistency: facts whose phrasings get different answers, in per cent.",
        _scrolling(
            "<table><thead><tr><th class=l>model</th><th>inconsistent</th><th>n</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        ),
    )  # fmt: skip


def _popularity(data: Data) -> str:
    names = {model.run: model.name for model in data.models}
    blocks = []
    for day, found in data.popular.items():
        bins = in_order(list({rate.domain for one in found for rate in one.bins}))
        heads = "".join(f"<th>{esc(name)}</th>" for name in bins)
        rows = "".join(_row(names[one.run], [*_by_popularity(one, bins), *trend_cells(one.trend)]) for one in found)
        blocks.append(
            f"<figure><figcaption>as of {esc(in_words(day))}</figcaption>"
            + _scrolling(
                f"<table><thead><tr><th class=l>model</th>{heads}<th>points per tenfold</th><th>p</th></tr></thead>"
                f"<tbody>{rows}</tbody></table>"
            )
            + "</figure>"
        )
    return _section(
        "popularity", "Famous and little known",
        "Per cent of facts up to date by how many sites of the Wikimedia projects have a page on the subject, with "
        "95 % intervals and the number of facts. Points per tenfold: how much higher the share is for each tenfold of "
        "sites; p: Cochran and Armitage’s test of a trend.",
        "".join(blocks),
    )  # fmt: skip


def _by_popularity(one: Popular, bins: Sequence[str]) -> list[str]:
    """Return a cell a bin: the rate, its interval as a picture and in numbers, and n."""
    found = {rate.domain: rate for rate in one.bins}
    return [_bin(found[name]) if name in found else "" for name in bins]


def _bin(rate: Rates) -> str:
    low, high = rate.up_to_date_interval or (rate.up_to_date or 0, rate.up_to_date or 0)
    picture = (
        "<svg width=72 height=8 viewBox='0 0 104 8' role=img aria-hidden=true>"
        "<path d='M2 4H102' stroke='currentColor' stroke-opacity='.2'/>"
        f"<path d='M{low + 2:.1f} 4H{high + 2:.1f}' stroke='var(--up)' stroke-width=2 />"
        f"<circle cx='{(rate.up_to_date or 0) + 2:.1f}' cy=4 r=3.5 fill='var(--up)'/></svg>"
    )
    return f"{whole(rate.up_to_date)}<small>{whole(low)}–{whole(high)}</small>{picture}<br><small>n {rate.n}</small>"


def _timeline(charted: bool) -> str:
    if not charted:
        return ""
    note = (
        "Share up to date against the as-of date; where it peaks, a model’s knowledge ends. The line breaks where "
        "another snapshot takes over. The band: certainly and possibly up to date. Dashed: the model came out (of a "
        "year alone, its last day). Triangle: the day it seems to answer from, with its 95 % interval. Orange: the day "
        "of the slider."
    )
    return _section("timeline", "From which day do they answer?", note, "<div class=panels id=chart-timeline></div>")


# What changed


def _changed(data: Data) -> str:
    first, last = data.days[0], data.days[-1]
    if len(data.stops) < 2:
        return ""
    found = changes(data, first, last)
    rows = "".join(
        changed_row(data, run, [change for change in found if change.run == run]) for run in range(len(data.models))
    )
    options = "".join(
        f"<option value={place}{' selected' if stop == first else ''}>{esc(in_words(stop))}</option>"
        for place, stop in enumerate(data.stops)
        if stop in data.days or stop.endswith("-01-01") or stop in {history.source.id for history in data.histories}
    )
    head = (
        "<tr><th class=l>model</th><th>went out of date</th><th>came true</th><th>other changes</th>"
        "<th>by the world</th><th>by Wikidata</th><th class=l>which</th></tr>"
    )
    return _section(
        "changed", "What changed in between",
        "Facts whose verdict differs, though not a word of the answers does: because the world changed, or because "
        "Wikidata was corrected.",
        f"<p class=note>Between <select id=since aria-label='The day to compare with' disabled>{options}</select> and "
        f"<b id=until>{esc(in_words(last))}</b></p>"
        + _scrolling(f"<table class=wide><thead>{head}</thead><tbody>{rows}</tbody></table>"),
    )  # fmt: skip


def changed_row(data: Data, run: int, found: Sequence[Change]) -> str:
    """Return the row of a model: how many facts changed, by whose doing, and which."""
    stale = [change for change in found if change.went_stale]
    true = [change for change in found if change.came_true]
    causes = [sum(change.cause == cause for change in found) for cause in ("world", "wikidata")]
    counts = [len(stale), len(true), len(found) - len(stale) - len(true), *causes]
    cells = "".join(f"<td>{count}</td>" for count in counts)
    listed = "".join(f"<li>{esc(change_text(data, change))}</li>" for change in [*stale, *true])
    some = "; ".join(title(data, change.fact) for change in stale[:MUCH])
    more = f"<details><summary>{esc(some or 'which')} …</summary><ul>{listed}</ul></details>" if listed else ""
    return f"<tr><th scope=row class=l>{esc(data.models[run].name)}</th>{cells}<td class='l wrap'>{more}</td></tr>"


def change_text(data: Data, change: Change) -> str:
    """Return a change in words."""
    fact = f"{title(data, change.fact)}{f': {change.answer}' if change.answer else ''}"
    return f"{fact}; {WORDS[change.before]}, then {WORDS[change.after]} ({CAUSES[change.cause]})"


# The heat map


_CLASSES: Final = ("", "", "u", "p", "o", "q", "i", "i")
"""Classes of cells by the code of a verdict."""


def _heatmap(data: Data, day: str) -> str:
    found = verdicts(data, day)
    heads = "".join(f"<th scope=col><span>{esc(model.name)}</span></th>" for model in data.models)
    blocks = []
    for domain in data.domains():
        rows = "".join(_heat_row(data, place, found) for place, fact in enumerate(data.facts) if fact.domain == domain)
        blocks.append(
            f"<table class=heat><caption>{esc(domain)}</caption><thead><tr><td></td>{heads}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
    key = " ".join(
        f"<span class='sign {_CLASSES[code]}'>{SIGNS[code]}</span>{esc(WORDS[code])}"
        for code in (UP, UP_OPEN, OUT, OUT_OPEN, IRRELEVANT)
    )
    return _section(
        "heatmap", "Fact by fact",
        "Every fact and model on the slider’s day. Choose a cell, or move with the arrow keys and press Enter, to read "
        "the answers and why they are judged so.",
        f"<p class=legend>{key} <span class=sign></span>not judged</p>"
        f"<div class='scroll heats'>{''.join(blocks)}</div>"
        "<dialog id=why aria-labelledby=why-head><form method=dialog><button aria-label=Close>×</button></form>"
        "<h3 id=why-head></h3><div id=why-body></div></dialog>",
    )  # fmt: skip


def _heat_row(data: Data, fact: int, found: Mapping[tuple[int, int], int]) -> str:
    cells = []
    for run in range(len(data.models)):
        code = found.get((fact, run), 0)
        cells.append(f"<td class={_CLASSES[code]}>{SIGNS[code]}</td>" if _CLASSES[code] else "<td></td>")
    return f"<tr><th scope=row class=l>{esc(title(data, fact))}</th>{''.join(cells)}</tr>"


# One fact, years


def _lanes(data: Data, charted: bool) -> str:
    options = "".join(
        f"<option value={place}>{esc(f'{fact.subject}, {fact.office}')}</option>"
        for place, fact in enumerate(data.facts)
    )
    note = (
        "Above, who held it when; below, the tenures of whom each model names, coloured by the verdict on the slider’s "
        "day. Diamond: the model came out. A diamond behind all its tenures: out of date from the first day."
    )
    return _section(
        "lanes", "One fact over time", note,
        f"<p><label>Fact <select id=fact>{options}</select></label></p><p class=legend>"
        "<span class='key held'></span>held it <span class='key up'></span>up to date <span class='key out'></span>"
        "out of date <span class='key irr'></span>later</p><div class=chart id=chart-lanes></div>",
    ) if charted else ""  # fmt: skip


def _years(data: Data, charted: bool) -> str:
    if not data.spreads:
        return ""
    names = {model.run: model.name for model in data.models}
    rows = "".join(
        _row(names[spread.run], [*(f"{value:.0f}" for value in spread[2:]), str(spread.n)]) for spread in data.spreads
    )
    head = "".join(
        f"<th>{name}</th>" for name in ("minimum", "first quartile", "median", "third quartile", "maximum", "n")
    )
    chart = "<div class=chart id=chart-years></div>" if charted else ""
    return _section(
        "years", "How old are the answers?",
        "The year in which the tenure began that an answer names (the study’s Figures 2, 5 and 6). Box: the middle "
        "half; lines are cut twenty years before the first box, the table has the least. Diamond: the model came out.",
        f"{chart}<div class=scroll tabindex=0><table><thead><tr><th class=l>model</th>{head}</tr></thead><tbody>{rows}"
        "</tbody></table></div>",
    )  # fmt: skip


# What only some runs have


def _beliefs(data: Data) -> str:
    names = {model.run: model.name for model in (*data.models, *data.silent)}
    blocks = []
    for day, masses in data.masses.items():
        rows = "".join(
            f"<tr><th scope=row class=l>{esc(names[mass.run])}</th><td class=l>{esc(mass.domain)}</td>"
            + "".join(
                f"<td>{whole(value)}</td>"
                for value in (mass.up_to_date, mass.outdated, mass.later, mass.first_up_to_date, mass.first_outdated)
            )
            + f"<td class=n>{mass.n}</td></tr>"
            for mass in masses
        )
        blocks.append(
            f"<figure><figcaption>as of {esc(in_words(day))}</figcaption>"
            + _scrolling(
                "<table><thead><tr><th class=l>model</th><th class=l>facts</th><th>up</th><th>out</th><th>later</th>"
                "<th>first up</th><th>first out</th><th>n</th></tr></thead>"
                f"<tbody>{rows}</tbody></table>"
            )
            + "</figure>"
        )
    return _section(
        "beliefs", "What they believe",
        "Per cent of a model’s belief that lies on holders that are up to date, out of date or still to come, and how "
        "often the likeliest holder is the one or the other.",
        "".join(blocks),
    )  # fmt: skip


def _alignment(found: Rows | None) -> str:
    if found is None or not found.rows:
        return ""
    head = "".join(f"<th class=l>{esc(column)}</th>" for column in found.columns)
    rows = "".join(f"<tr>{''.join(map(_value, row))}</tr>" for row in found.rows)
    return _section(
        "alignment", "What editing and retrieval did about it",
        "Efficacy: the edited question is answered right. Paraphrase: its other phrasings are. Per cent of n facts.",
        f"<div class=scroll tabindex=0><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
    )  # fmt: skip


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"<td>{value:.0f}</td>"
    return f"<td>{value}</td>" if isinstance(value, int) else f"<td class=l>{esc('' if value is None else value)}</td>"


# Provenance


_RECORD: Final = (
    "kind", "model", "benchmark", "prompts_digest", "sampling", "seed", "align", "packages", "commit", "started",
    "ended", "tokens",
)  # fmt: skip


def _provenance(data: Data) -> str:
    rows = [
        f"<dt>snapshot {esc(source.id)}</dt><dd>{esc(source.description)} "
        f"{esc(f'Date: {source.known}.' if source.known else '')} <code>{esc(source.digest)}</code></dd>"
        for source in (history.source for history in data.histories)
    ]
    for model in (*data.models, *data.silent):
        released = f"Came out {model.released} ({model.release_source})." if model.released else ""
        rows.append(f"<dt>run {esc(model.run)}</dt><dd>{esc(released)} {_record(model.info)}</dd>")
    note = "Verdicts are made of these and nothing else; the same inputs give the same page."
    return _section("provenance", "Where this comes from", note, f"<dl>{''.join(rows)}</dl>")


def _record(info: Mapping[str, Any]) -> str:
    shown = {key: info[key] for key in _RECORD if info.get(key) is not None}
    text = html.escape(json.dumps(shown, ensure_ascii=False, indent=1, default=str))
    return f"<details><summary>its record</summary><pre>{text}</pre></details>" if shown else ""


_SHELL: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""
