"""The rows that the figures draw, as of a day; the page's script makes the same rows as its slider moves."""

from collections.abc import Mapping, Sequence
from datetime import date
from math import isnan
from typing import Any, Final

from dyknow.report.data import Data, Holder
from dyknow.report.days import in_words, iso, month_in_words
from dyknow.report.rates import (
    INCOMPLETE,
    IRRELEVANT,
    LATER,
    MISSING,
    NOT_COVERED,
    OUT,
    OUT_OPEN,
    UP,
    UP_OPEN,
    Figures,
    Rate,
    codes,
    soft,
)
from dyknow.tables import whole
from kg.dates import parse_day

Rows = list[dict[str, Any]]

VERDICTS: Final = ("up to date", "out of date", "irrelevant")
WORDS: Final[Mapping[int, str]] = {
    MISSING: "no answer",
    NOT_COVERED: "not covered",
    UP: "up to date",
    UP_OPEN: "perhaps up to date",
    OUT: "out of date",
    OUT_OPEN: "out of date, perhaps not yet",
    LATER: "later",
    IRRELEVANT: "irrelevant",
}
SIGNS: Final[Mapping[int, str]] = {
    MISSING: "", NOT_COVERED: "", UP: "✓", UP_OPEN: "✓?", OUT: "×", OUT_OPEN: "×?", LATER: "·", IRRELEVANT: "·",
}  # fmt: skip
"""What a cell of the heat map shows beside its colour."""

_CELLS: Final = {UP: "up to date", UP_OPEN: "perhaps up to date", OUT: "out of date", OUT_OPEN: "out of date",
                 LATER: "irrelevant", IRRELEVANT: "irrelevant"}  # fmt: skip
_SINCE: Final = 19900101
_TAIL: Final = 20
"""Years before the first box at which its whiskers are cut: a few answers name kings of long ago."""
_LETTERS: Final = 92
"""Letters that the lanes have room for."""


def of(name: str, data: Data, figures: Sequence[Figures], day: str, fact: int | None = None) -> dict[str, Rows]:
    """Return the datasets of a figure as of a day.

    Args:
        name: the figure.
        data: what the report shows.
        figures: the rates by each snapshot.
        day: one of the stops.
        fact: place of the fact whose lanes are drawn; None: the one that tells most.
    """
    if name == "bars":
        return bars(data, figures, day)
    if name == "timeline":
        return timeline(data, figures, day)
    if name == "years":
        return {"years": years(data)}
    if name == "heatmap":
        return {"cells": cells(data, day)}
    return lanes(data, telling(data) if fact is None else fact, day)


def said(rate: Rate) -> str:
    """Return a rate in words, with the interval of what is up to date."""
    low_high = rate.intervals[0]
    within = f" ({whole(low_high[0])} to {whole(low_high[1])})" if low_high else ""
    return (
        f"{whole(rate.up_to_date)} % up to date{within}, {whole(rate.outdated)} % out of date, "
        f"{whole(rate.irrelevant)} % irrelevant; n = {rate.n}"
    )


def bars(data: Data, figures: Sequence[Figures], day: str, domain: str = "all") -> dict[str, Rows]:
    """Return the pieces of each model's bar, and the whisker over it."""
    pieces: Rows = []
    whiskers: Rows = []
    stop, place = data.stops.index(day), data.history(day)
    for run, model in enumerate(data.models):
        rate = figures[place].rate(0, domain, run, stop)
        about = {"model": model.name, "said": f"{model.name}: {said(rate)}"}
        at = 0.0
        for verdict, share in zip(VERDICTS, (rate.up_to_date, rate.outdated, rate.irrelevant), strict=True):
            if share is not None:
                pieces.append({**about, "verdict": verdict, "share": share, "from": at, "to": at + share})
                at += share
        if rate.intervals[0]:
            whiskers.append({**about, "lower": rate.intervals[0][0], "upper": rate.intervals[0][1]})
    return {"bars": pieces, "whiskers": whiskers}


def timeline(data: Data, figures: Sequence[Figures], day: str, domain: str = "all") -> dict[str, Rows]:
    """Return the share up to date of each model at each stop by the stop's snapshot, and the days it is known by."""
    rows: Rows = []
    for run, model in enumerate(data.models):
        for stop, at in enumerate(data.stops):
            place = data.history(at)
            up, lower, upper = (float(figures[place].rates[domain][0, measure, run, stop]) for measure in (0, 3, 4))
            if not isnan(up):
                words = f"{model.name}, {in_words(at)}: {whole(up)} % up to date"
                about = {"order": run, "model": model.name, "kind": "share", "by": place, "day": at, "said": words}
                rows.append({**about, "lower": lower, "up": up, "upper": upper})
        rows += _marks(data, run)
    return {"timeline": rows, "now": [{"day": day}]}


def _marks(data: Data, run: int) -> Rows:
    model, rows = data.models[run], []
    if model.released and model.released >= data.stops[0]:
        day = in_words(model.released) if model.release_known == "day" else f"in {model.released[:4]}"
        rows.append(
            {"order": run, "model": model.name, "kind": "release", "day": model.released, "said": f"came out {day}"}
        )
    if model.known:
        words = f"answers from {month_in_words(model.known.day)}"
        span = {"earliest": model.known.lower, "latest": model.known.upper}
        rows.append({"order": run, "model": model.name, "kind": "known", "day": model.known.day, **span, "said": words})
    return rows


def years(data: Data) -> Rows:
    """Return the boxes of the box plots."""
    names = {model.run: model for model in data.models}
    since = min((spread.q1 for spread in data.spreads), default=0) - _TAIL
    return [
        {
            "model": names[spread.run].name,
            "from": max(spread.minimum, since),
            **{key: getattr(spread, key) for key in ("minimum", "q1", "median", "q3", "maximum", "n")},
            "release": _year(names[spread.run].released),
            "said": f"{names[spread.run].name}: half of {spread.n} answers name a tenure that began from "
            f"{spread.q1:.0f} to {spread.q3:.0f}",
        }
        for spread in data.spreads
    ]


def _year(day: str | None) -> float | None:
    return None if day is None else int(day[:4]) + (int(day[5:7]) - 1) / 12


def verdicts(data: Data, day: str) -> dict[tuple[int, int], int]:
    """Return the code of the verdict of each fact and model that was asked, under the soft constraint."""
    stop = data.stops.index(day)
    found = codes(data, data.history(day))[:, [stop]]
    groups: dict[tuple[int, int], list[int]] = {}
    for index, answer in enumerate(data.answers):
        if answer.counted and answer.sample == 0:
            groups.setdefault((answer.fact, answer.run), []).append(index)
    return {key: int(soft(found[rows])[0]) for key, rows in groups.items()}


def cells(data: Data, day: str) -> Rows:
    """Return the cells of the heat map."""
    found, domains = verdicts(data, day), data.domains()
    return [
        {
            "order": domains.index(fact.domain),
            "domain": fact.domain,
            "fact": title(data, place),
            "model": model.name,
            "verdict": _CELLS.get(code, "not judged"),
            "sign": SIGNS[code],
        }
        for place, fact in enumerate(data.facts)
        for run, model in enumerate(data.models)
        if (code := found.get((place, run), INCOMPLETE)) is not None
    ]


def title(data: Data, fact: int) -> str:
    """Return what names a fact to a reader: its subject, with the office where the subject has several."""
    own = data.facts[fact]
    several = sum(other.subject == own.subject for other in data.facts) > 1
    return f"{own.subject}, {own.office}" if several else own.subject


# Lanes


def telling(data: Data) -> int:
    """Return the place of the fact whose lanes tell most: the one whose answers name the most different holders.

    The study's example, Cristiano Ronaldo's club, goes before all others.
    """
    named: dict[int, set[str]] = {place: set() for place in range(len(data.facts))}
    for answer in data.answers:
        last = answer.named[-1]
        if last and last.entity and answer.counted:
            named[answer.fact].add(last.entity)
    return max(named, key=lambda place: (data.facts[place].subject == "Cristiano Ronaldo", len(named[place]), -place))


def tenures(holder: Holder) -> list[tuple[int | None, int | None]]:
    """Return the first and last days of a holder's statements, each once, in order."""
    spans = {(step.start, step.end) for step in holder.steps if step.standing != "not asked"}
    return sorted(spans, key=lambda span: (span[0] or 0, span[1] or 99999999))


def lanes(data: Data, fact: int, day: str) -> dict[str, Rows]:
    """Return the lanes of a fact: a row for each holder, then one for each model with the tenures it names."""
    place = data.history(day)
    holders = {holder.entity: holder for holder in data.histories[place].holders[fact]}
    named = _named(data, fact, place, codes(data, place)[:, data.stops.index(day)])
    end = max(data.stops[-1], day)
    since = _begin(holders, {entity for own in named.values() for entity, _ in own})
    rows: Rows = []
    for holder in sorted(holders.values(), key=lambda one: (tenures(one) or [(0, 0)])[-1][0] or 0):
        rows += _tenures(holder, holder.label, "held it", (since, end))
    marks: Rows = []
    for run, own in named.items():
        model = data.models[run]
        for entity, code in own:
            if entity in holders:
                kind = {UP: VERDICTS[0], UP_OPEN: VERDICTS[0], LATER: "later"}.get(code, VERDICTS[1])
                rows += _tenures(holders[entity], model.name, kind, (since, end), holders[entity].label)
        if model.released and since <= model.released <= end:
            marks.append({"row": model.name, "day": model.released, "said": f"{model.name} came out"})
    return {"lanes": rows, "marks": marks, "now": [{"day": day}]}


def _named(data: Data, fact: int, place: int, found: Any) -> dict[int, list[tuple[str, int]]]:  # noqa: ANN401 -- an array
    """Return whom each model names in its counted answers, with the verdict, the most often named first."""
    named: dict[int, dict[str, list[int]]] = {}
    for index, answer in enumerate(data.answers):
        if answer.fact == fact and answer.counted and answer.sample == 0:
            own, name = named.setdefault(answer.run, {}), answer.named[place]
            if name and name.entity:
                own.setdefault(name.entity, []).append(int(found[index]))
    named = dict(sorted(named.items()))
    return {run: [(e, c[0]) for e, c in sorted(own.items(), key=lambda i: -len(i[1]))] for run, own in named.items()}


def _begin(holders: Mapping[str, Holder], named: set[str]) -> str:
    """Return the day the lanes begin: a year before the earliest tenure that a model names, not before 1990."""
    starts = [start for entity in named & set(holders) for start, _ in tenures(holders[entity]) if start]
    last = max((start for holder in holders.values() for start, _ in tenures(holder) if start), default=_SINCE)
    earliest = max(min([*starts, last]), _SINCE)
    return iso(max(earliest - 10000, _SINCE) // 10000 * 10000 + 101)


def shorten(text: str, letters: int) -> str:
    """Return a text that has room for so many letters, or nothing where too little of it would be left.

    >>> shorten("Manchester United", 9), shorten("Al-Nassr", 9), shorten("Manchester United", 2)
    ('Manchest…', 'Al-Nassr', '')
    """
    if len(text) <= letters:
        return text
    return f"{text[: letters - 1].rstrip()}…" if letters > 3 else ""


def _days(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _tenures(holder: Holder, row: str, kind: str, within: tuple[str, str], text: str = "") -> Rows:
    rows: Rows = []
    since, until = within
    for start, end in tenures(holder):
        first = since if start is None or start < parse_day(since) else iso(start)
        last = until if end is None else iso(end)
        if last > since:
            span = f"{'?' if start is None else iso(start)} – {'' if end is None else iso(end)}"
            words = f"{row}: {text + ', ' if text else ''}{span}"
            share = (_days(last) - _days(first)) / (_days(until) - _days(since))
            fits = shorten(text, int(share * _LETTERS))
            rows.append({"row": row, "kind": kind, "first": first, "last": last, "text": fits, "said": words})
    return rows
