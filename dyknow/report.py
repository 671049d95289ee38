"""The report: one HTML page of tables, changes and answers that opens without a network, on a phone, and prints.

A pure function of what it shows: the same page gives the same bytes. Every text from outside is escaped.
"""

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dyknow.analysis import Inconsistency, Rates, Scores
from dyknow.tables import Shift, domains_of, printable, shifts, whole
from dyknow.titles import named

MUCH: Final = 3
"""Examples of a change that a row shows."""

_CLASSES: Final = {
    "up-to-date": "up",
    "outdated": "out",
    "irrelevant": "irr",
    "later": "irr",
}


@dataclass(frozen=True)
class Source:
    """A snapshot that verdicts rest on."""

    id: str
    digest: str
    description: str
    known: str | None


@dataclass(frozen=True)
class Answer:
    """What a model answered to one question, and its verdict for each day, with whom it named or why nobody."""

    question: str
    domain: str
    subject: str
    office: str
    phrasing: str
    text: str
    verdicts: tuple[tuple[str, str], ...]

    def judged(self, verdict: str, read: str) -> "Answer":
        """Return it with the verdict of one more day."""
        return replace(self, verdicts=(*self.verdicts, (verdict, read)))


@dataclass(frozen=True)
class Answers:
    """All answers of a run, with its record."""

    run: str
    info: dict[str, Any]
    rows: tuple[Answer, ...]


@dataclass(frozen=True)
class Page:
    """What a report shows."""

    scores: tuple[Scores, ...]  # one a day, in order
    shifts: tuple[Shift, ...]
    answers: tuple[Answers, ...]
    sources: tuple[Source, ...]


def render(page: Page) -> str:
    """Return the page as one HTML file."""
    sections = [
        _headline(page),
        _legend(),
        _bars(page),
        _section("Table 1", "Per cent of facts by a fact's best phrasing (with Table 4).", _rates(page, "table1")),
        _changed(page),
        _section("Table 5", "The average over a fact's phrasings.", _rates(page, "table5")),
        _section("Table 2", "Inconsistency: facts whose phrasings get different answers, in per cent.", _table2(page)),
        *(_answers(answers, page.scores) for answers in page.answers),
        _provenance(page),
    ]
    return _SHELL.replace("{style}", _STYLE).replace("{body}", "\n".join(filter(None, sections)))


def esc(text: object) -> str:
    """Return a text safe inside HTML, on one line and without control characters."""
    return html.escape(printable(str(text)), quote=True)


# The headline


def headline(page: Page) -> list[str]:
    """Return the sentences a reader should remember."""
    sentences = []
    if page.shifts:
        worst = max(page.shifts, key=lambda shift: (shift.went_stale, shift.run))
        first, last = page.scores[0], page.scores[-1]
        before, after = (_overall(scores, worst.run) for scores in (first, last))
        if before and after and worst.went_stale:
            sentences.append(
                f"{worst.went_stale} of {worst.title}’s answers on {worst.facts} facts were right on {first.as_of} and "
                f"out of date by {last.as_of}, though not a word of them had changed: {whole(before.up_to_date)} % up "
                f"to date became {whole(after.up_to_date)} %."
            )
    for answers in page.answers:
        rates = [(scores.as_of, _overall(scores, answers.run)) for scores in page.scores]
        said = [
            f"{whole(r.up_to_date)} % up to date and {whole(r.outdated)} % out of date on {day} (n = {r.n})"
            for day, r in rates
            if r is not None
        ]
        if said:
            title = next((r.title for _, r in rates if r is not None), answers.run)
            sentences.append(f"{title}, asked here: {', '.join(said)}.")
    if not sentences and page.scores:
        best = max(_alls(page.scores[0]), key=lambda rate: rate.up_to_date or 0, default=None)
        if best:
            sentences.append(
                f"{best.title}: {whole(best.up_to_date)} % up to date on {page.scores[0].as_of} (n = {best.n})."
            )
    return sentences


def _alls(scores: Scores) -> list[Rates]:
    return [rate for rate in scores.table1 if rate.domain == "all"]


def _overall(scores: Scores, run: str) -> Rates | None:
    return next((rate for rate in _alls(scores) if rate.run == run), None)


def _headline(page: Page) -> str:
    days = " and ".join(scores.as_of for scores in page.scores)
    lead = "".join(f"<p class='lead'>{esc(sentence)}</p>" for sentence in headline(page))
    return f"<header><p class='kicker'>DyKnow, as of {esc(days)}</p><h1>Right once, and now?</h1>{lead}</header>"


def _legend() -> str:
    return (
        "<p class='legend'><span class='key up'></span>up to date <span class='key out'></span>out of date "
        "<span class='key irr'></span>irrelevant. † over 40 % out of date, ‡ over 70 % up to date, "
        "* asked with “Answer with the name only”. n is the number of facts that are covered and complete.</p>"
    )


def _section(title: str, note: str, body: str) -> str:
    return f"<section><h2>{esc(title)}</h2><p class='note'>{esc(note)}</p>{body}</section>" if body else ""


# Bars


def _bars(page: Page) -> str:
    blocks = []
    for scores in page.scores:
        rows = "".join(_bar_row(rate) for rate in _alls(scores))
        blocks.append(f"<figure><figcaption>{_caption(scores)}</figcaption><div class='bars'>{rows}</div></figure>")
    note = "All facts of all domains, by a fact's best phrasing."
    return _section("At a glance", note, f"<div class='side'>{''.join(blocks)}</div>")


def _bar_row(rate: Rates) -> str:
    name = esc(named(rate.title, rate.year, rate.prefixed))
    return f"<span class='name'>{name}</span>{_bar(rate)}<span class='num'>{rate.n}</span>"


def _bar(rate: Rates) -> str:
    """Return the three rates as one stacked bar, in SVG whose colours follow the page's."""
    if rate.n == 0:
        return "<span class='num'>–</span>"
    parts, x = [], 0.0
    for name, value in (("up", rate.up_to_date), ("out", rate.outdated), ("irr", rate.irrelevant)):
        size = value or 0.0
        parts.append(f"<rect class='{name}' x='{x:.2f}' y='0' width='{size:.2f}' height='10'/>")
        x += size
    up, out, irr = map(whole, (rate.up_to_date, rate.outdated, rate.irrelevant))
    said = f"{up} % up to date, {out} % out of date, {irr} % irrelevant"
    return (
        f"<svg viewBox='0 0 100 10' preserveAspectRatio='none' role='img' aria-label='{esc(said)}'>"
        f"<title>{esc(said)}</title>{''.join(parts)}</svg>"
    )


def _caption(scores: Scores) -> str:
    rule = "" if scores.rule == "latest" else f", rule {scores.rule}"
    return f"<b>as of {esc(scores.as_of)}</b> <span class='note'>snapshot {esc(scores.snapshot)}{esc(rule)}</span>"


# Tables


def _rates(page: Page, name: str) -> str:
    blocks = []
    for scores in page.scores:
        rates: Sequence[Rates] = getattr(scores, name)
        domains = domains_of(rates)
        head = "".join(f"<th colspan='4' scope='colgroup'>{esc(domain)}</th>" for domain in domains)
        sub = "<th>up</th><th>out</th><th>irr</th><th>n</th>" * len(domains)
        rows = "".join(_rates_row(own, domains, name == "table1") for own in _by_run(rates))
        blocks.append(
            f"<figure><figcaption>{_caption(scores)}</figcaption><div class='scroll'><table><thead>"
            f"<tr><th rowspan='2' class='l'>model</th>{head}</tr><tr>{sub}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div></figure>"
        )
    return f"<div class='side'>{''.join(blocks)}</div>"


def _by_run(rates: Iterable[Rates]) -> list[dict[str, Rates]]:
    found: dict[str, dict[str, Rates]] = {}
    for rate in rates:
        found.setdefault(rate.run, {})[rate.domain] = rate
    return list(found.values())


def _rates_row(own: dict[str, Rates], domains: Sequence[str], with_marks: bool) -> str:
    first = next(iter(own.values()))
    cells = "".join(_rate_cells(own.get(domain), with_marks) for domain in domains)
    return f"<tr><th scope='row' class='l'>{esc(named(first.title, first.year, first.prefixed))}</th>{cells}</tr>"


def _rate_cells(rate: Rates | None, with_marks: bool) -> str:
    if rate is None:
        return "<td></td>" * 4
    mark = rate.mark if with_marks else ""
    up, out = (mark if mark == sign else "" for sign in "‡†")
    return (
        f"<td class='first'>{whole(rate.up_to_date)}{up}</td><td>{whole(rate.outdated)}{out}</td>"
        f"<td>{whole(rate.irrelevant)}</td><td class='n'>{rate.n}</td>"
    )


def _table2(page: Page) -> str:
    blocks = []
    for scores in page.scores:
        rows = "".join(_inconsistency(row) for row in scores.table2)
        blocks.append(
            f"<figure><figcaption>{_caption(scores)}</figcaption><div class='scroll'><table><thead>"
            "<tr><th class='l'>model</th>"
            f"<th>inconsistent</th><th>n</th></tr></thead><tbody>{rows}</tbody></table></div></figure>"
        )
    return f"<div class='side'>{''.join(blocks)}</div>"


def _inconsistency(row: Inconsistency) -> str:
    value = "–" if row.value is None else f"{row.value:.1f}"
    name = esc(named(row.title, row.year, row.prefixed))
    return f"<tr><th scope='row' class='l'>{name}</th><td>{value}</td><td class='n'>{row.n}</td></tr>"


def _changed(page: Page) -> str:
    if not page.shifts:
        return ""
    rows = "".join(
        f"<tr><th scope='row' class='l'>{esc(named(shift.title, shift.year, shift.prefixed))}</th>"
        f"<td>{shift.changed}</td><td>{shift.went_stale}</td><td>{shift.came_true}</td><td>{shift.other}</td>"
        f"<td class='n'>{shift.facts}</td><td class='l wrap'>{esc('; '.join(shift.examples[:MUCH]))}</td></tr>"
        for shift in page.shifts
    )
    note = (
        f"Facts whose verdict differs between {page.scores[0].as_of} and {page.scores[-1].as_of}. No model was asked "
        "anew: the world moved, and the answers stood still."
    )
    head = (
        "<tr><th class='l'>model</th><th>changed</th><th>up → out</th><th>other → up</th><th>rest</th><th>of</th>"
        "<th class='l'>went out of date, for example</th></tr>"
    )
    table = f"<div class='scroll'><table class='wide'><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    return _section("What changed in between", note, table)


# Answers


def _answers(answers: Answers, days: Sequence[Scores]) -> str:
    by_domain: dict[str, list[Answer]] = {}
    for row in answers.rows:
        by_domain.setdefault(row.domain, []).append(row)
    head = "".join(f"<th class='l'>{esc(scores.as_of)}</th>" for scores in days)
    blocks = "".join(
        f"<details><summary>{esc(domain)}, {len(rows)} answers</summary><div class='scroll'><table class='wide'>"
        f"<thead><tr><th class='l'>subject</th><th class='l'>question</th><th class='l'>answer</th>{head}</tr></thead>"
        f"<tbody>{''.join(map(_answer, rows))}</tbody></table></div></details>"
        for domain, rows in by_domain.items()
    )
    return _section(f"What {answers.run} answered", "Word for word, with its verdict for each date.", blocks)


def _answer(row: Answer) -> str:
    verdicts = "".join(
        f"<td class='l'><span class='key {_CLASSES.get(verdict, 'none')}'></span>{esc(verdict)}"
        f"<span class='note'> {esc(read)}</span></td>"
        for verdict, read in row.verdicts
    )
    return (
        f"<tr><th scope='row' class='l'>{esc(row.subject)}<span class='note'> {esc(row.office)}</span></th>"
        f"<td class='l n'>{esc(row.phrasing)}</td><td class='l wrap'>{esc(row.text)}</td>{verdicts}</tr>"
    )


# Provenance


def _provenance(page: Page) -> str:
    rows = [
        f"<dt>snapshot {esc(source.id)}</dt><dd>{esc(source.description)} "
        f"{esc(f'Date: {source.known}.' if source.known else '')} <code>{esc(source.digest)}</code></dd>"
        for source in page.sources
    ]
    for answers in page.answers:
        rows.append(f"<dt>run {esc(answers.run)}</dt><dd><pre>{_record(answers.info)}</pre></dd>")
    note = "Verdicts are made of these and nothing else; the same inputs give the same page."
    return _section("Where this comes from", note, f"<dl>{''.join(rows)}</dl>")


_RECORD: Final = (
    "model",
    "benchmark",
    "prompts_digest",
    "sampling",
    "seed",
    "packages",
    "commit",
    "started",
    "ended",
    "tokens",
)


def _record(info: dict[str, Any]) -> str:
    shown = {key: info[key] for key in _RECORD if info.get(key) is not None}
    return html.escape(json.dumps(shown, ensure_ascii=False, indent=1, default=str))


_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60666d; --line: #dfe3e6; --ground: #fff; --up: #0b7a75;
  --out: #e08a1e; --irr: #b9c0c6; --none: transparent; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaec; --soft: #9aa2a9; --line: #343a40; --ground: #15181b;
  --up: #3bb8ae; --out: #f0a94a; --irr: #59616a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 2rem; line-height: 1.15; margin: .1rem 0 .8rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .1rem; }
.kicker, .note, .legend { color: var(--soft); font-size: .87rem; margin: 0; } .kicker { letter-spacing: .02em; }
.lead { font-size: 1.12rem; max-width: 44rem; margin: .4rem 0; } .legend { margin-top: 1rem; }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin: 0 .35em 0 .1em; }
.legend .key:not(:first-child) { margin-left: 1em; }
.key.up { background: var(--up); } .key.out { background: var(--out); } .key.irr { background: var(--irr); }
.key.none { border: 1px solid var(--soft); }
.side { display: grid; gap: 1rem 2.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 33rem), 1fr)); }
figure { margin: .8rem 0 0; min-width: 0; } figcaption { margin-bottom: .4rem; }
.bars { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr auto; gap: .35rem .7rem;
  align-items: center; }
.bars svg { width: 100%; height: 1.05rem; display: block; border-radius: 2px; }
.num { color: var(--soft); font-size: .87rem; }
rect.up { fill: var(--up); } rect.out { fill: var(--out); } rect.irr { fill: var(--irr); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
table.wide { width: 100%; }
th, td { padding: .25rem .3rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap;
  vertical-align: top; }
th { font-weight: 600; } thead th { color: var(--soft); font-weight: 500; } th[colspan] { text-align: center; }
td.first, th[colspan] { border-left: 1px solid var(--line); } .l { text-align: left; } .n { color: var(--soft); }
tbody th.l { white-space: normal; min-width: 7rem; }
.wrap { white-space: normal; min-width: 14rem; overflow-wrap: anywhere; } tbody .note { font-weight: 400; }
details { margin: .5rem 0; } summary { cursor: pointer; }
dl { font-size: .87rem; } dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0; } code, pre { font-size: .8rem; overflow-wrap: anywhere; white-space: pre-wrap; margin: 0; }
@media print { body { max-width: none; font-size: 10pt; padding: 0; } .scroll { overflow: visible; }
  figure, tr { break-inside: avoid; } rect, .key { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

_SHELL: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>DyKnow report</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""

__all__ = ["Answer", "Answers", "Page", "Shift", "Source", "headline", "render", "shifts"]
