"""What a report says in sentences: its headline, and the legend of its tables."""

from collections.abc import Sequence
from math import isnan
from typing import Final

from dyknow.report.changes import changes
from dyknow.report.data import Data
from dyknow.report.days import in_words, month_in_words
from dyknow.report.rates import Figures, Rate
from dyknow.tables import whole

LEGEND: Final = (
    "† over 40 % out of date, ‡ over 70 % up to date, * asked with “Answer with the name only”. n is the number of "
    "facts that are covered and complete. Small figures are 95 % intervals, facts drawn anew with all their answers; "
    "40…45: so much is certainly and so much possibly up to date, where dates known by the year alone leave doubt."
)


def title(data: Data, figures: Sequence[Figures]) -> str:
    """Return the sentence above all: who is the most up to date on the last day, or how far the one model is."""
    day = data.days[-1]
    rates = enumerate(_overall(data, figures, day))
    found = [(rate.up_to_date, run) for run, rate in rates if rate.up_to_date is not None]
    if not found:
        return f"No answer can be judged as of {in_words(day)}"
    share, run = max(found, key=lambda item: (item[0], -item[1]))
    name = data.models[run].name
    if len(found) == 1:
        return f"{name}: {whole(share)} % up to date on {in_words(day)}"
    return f"On {in_words(day)} the best of {len(found)} models, {name}, is {whole(share)} % up to date"


def sentences(data: Data, figures: Sequence[Figures]) -> list[str]:
    """Return what a reader should remember: what went out of date, where knowledge ends, how models asked here did.

    Then who is left out.
    """
    left = [words] if (words := unanswered(data)) else []
    return [*_stale(data, figures), *_peaks(data, figures), *_asked(data, figures), *left]


def unanswered(data: Data) -> str:
    """Return the sentence that names the models without an answer; empty where there is none."""
    names = ", ".join(model.name for model in data.silent)
    return f"Without an answer, and so in no rate: {names}." if names else ""


def _overall(data: Data, figures: Sequence[Figures], day: str) -> list[Rate]:
    stop, place = data.stops.index(day), data.history(day)
    return [figures[place].rate(0, "all", run, stop) for run in range(len(data.models))]


def _stale(data: Data, figures: Sequence[Figures]) -> list[str]:
    first, last = data.days[0], data.days[-1]
    if first == last:
        return []
    counts = [0] * len(data.models)
    for change in changes(data, first, last):
        counts[change.run] += change.went_stale
    worst = max(range(len(counts)), key=lambda run: (counts[run], -run), default=0)
    if not counts or not counts[worst]:
        return []
    before, after = (_overall(data, figures, day)[worst] for day in (first, last))
    return [
        f"{counts[worst]} of {data.models[worst].name}’s answers on {_facts(before.n)} were right on {in_words(first)} "
        f"and out of date by {in_words(last)}, though not a word of them had changed: {whole(before.up_to_date)} % up "
        f"to date became {whole(after.up_to_date)} %."
    ]


def _facts(n: int) -> str:
    """Return a number of facts in words.

    >>> _facts(1), _facts(130)
    ('1 fact', '130 facts')
    """
    return f"{n} fact{'' if n == 1 else 's'}"


def peak(data: Data, figures: Sequence[Figures], run: int, domain: str = "all") -> tuple[str, float] | None:
    """Return the first stop on which a model's share up to date is highest, and that share."""
    cells = (figures[data.history(day)].rates[domain][0, 0, run, stop] for stop, day in enumerate(data.stops))
    known = [(round(float(share), 9), -stop) for stop, share in enumerate(cells) if not isnan(share)]
    if not known:
        return None
    share, stop = max(known)
    return data.stops[-stop], share


def _peaks(data: Data, figures: Sequence[Figures]) -> list[str]:
    """Say from when a model answers: the one that was nearest to the whole truth at its peak."""
    found = [(peak(data, figures, run), run) for run in range(len(data.models))]
    peaks = [(top[1], top[0], run) for top, run in found if top and top[0] > data.stops[0]]
    if not peaks or len(data.stops) < 3:
        return []
    share, day, run = max(peaks, key=lambda item: (item[0], -item[2]))
    now = _overall(data, figures, data.stops[-1])[run]
    if (now.up_to_date or 0) >= share:
        return []
    return [
        f"{data.models[run].name} answers as if it were {month_in_words(day)}: it was right on {whole(share)} % of "
        f"the facts then, and is on {whole(now.up_to_date)} % on {in_words(data.stops[-1])}."
    ]


def _asked(data: Data, figures: Sequence[Figures]) -> list[str]:
    asked = [run for run, model in enumerate(data.models) if model.kind == "asked"]
    if len(asked) == len(data.models) > 3:
        return []
    said = []
    for run in asked:
        rates = [(day, _overall(data, figures, day)[run]) for day in data.days]
        parts = [
            f"{whole(rate.up_to_date)} % up to date and {whole(rate.outdated)} % out of date on {in_words(day)} "
            f"(n = {rate.n})"
            for day, rate in rates
            if rate.n
        ]
        if parts:
            said.append(f"{data.models[run].name}, asked here: {', '.join(parts)}.")
    return said
