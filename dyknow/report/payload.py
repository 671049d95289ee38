"""What the page's script works on: all that does not depend on the day, and intervals for every stop.

Texts, labels and days stand in it once. The script turns it into verdicts as `dyknow.report.rates` does.
"""

import json
from collections.abc import Sequence
from itertools import takewhile
from math import isnan
from typing import Any, Final

from dyknow.report.data import Answer, Data, Holder, Named, Step
from dyknow.report.rates import Figures, step_code

NOBODY: Final = -1
"""Stands for the place of a holder where a text names none."""


class Strings:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the number of a text, which is added where it is new."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]


def payload(data: Data, figures: Sequence[Figures], start: str) -> dict[str, Any]:
    """Return what the script works on; ``start`` is the stop the page opens at."""
    strings, entities = Strings(), Strings()
    domains = data.domains()
    histories = [
        {
            "holders": [[_holder(holder, strings) for holder in own] for own in history.holders],
            "ids": [[entities.place(holder.entity) for holder in own] for own in history.holders],
            "whole": [int(whole) for whole in history.whole],
            "cover": [[[c.from_day, c.to_day, strings.place(c.status)] for c in own] for own in history.coverage],
        }
        for history in data.histories
    ]
    return {
        "models": [_model(data, run, strings) for run in range(len(data.models))],
        "facts": [[f.id, domains.index(f.domain), f.subject, f.office] for f in data.facts],
        "domains": domains,
        "stops": data.stops,
        "days": [data.stops.index(day) for day in data.days],
        "start": data.stops.index(start),
        "snapshots": [{"id": h.source.id, "digest": h.source.digest[:12]} for h in data.histories],
        "places": [data.history(stop) for stop in data.stops],
        "knownAt": data.known_at,
        "judge": data.judge,
        "histories": histories,
        "bounds": [[_bounds(found, domain) for domain in (*domains, "all")] for found in figures],
        "split": [_split(found) for found in figures],
        "strings": strings.texts,
    }


def in_script(value: object) -> str:
    r"""Return a value as JSON that is safe inside a script element, whatever its texts say.

    >>> in_script(["</script><!-- \u2028"])
    '["\\u003c/script>\\u003c!-- \\u2028"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for sign in "<\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # A lone surrogate, which JSON may carry and UTF-8 cannot.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _holder(holder: Holder, strings: Strings) -> list[Any]:
    """Return a holder as [label, statements as [start, end, id], steps as day, code, statement one after the other]."""
    spans: dict[tuple[int | None, int | None, str], int] = {}
    steps: list[int] = []
    until: int | None = None
    for step in holder.steps:
        if steps and until is not None and until != step.from_day:  # between two of them nothing is known
            steps += [until, 7, 0]
        steps += [step.from_day, step_code(step.standing, step.certain, step.start), _span(step, spans)]
        until = step.to_day
    if until is not None:
        steps += [until, 7, 0]
    return [strings.place(holder.label), [list(span) for span in spans], steps]


def _span(step: Step, spans: dict[tuple[int | None, int | None, str], int]) -> int:
    name = step.statement.removeprefix("urn:dyknow:statement:").removeprefix(
        "http://www.wikidata.org/entity/statement/"
    )
    return spans.setdefault((step.start, step.end, name), len(spans))


def _model(data: Data, run: int, strings: Strings) -> dict[str, Any]:
    model = data.models[run]
    own = [answer for answer in data.answers if answer.run == run]
    before, after = _around(sorted({answer.prompt for answer in own}))
    places = [
        [{holder.entity: place for place, holder in enumerate(holders)} for holders in history.holders]
        for history in data.histories
    ]
    return {
        "name": model.name,
        "run": model.run,
        "released": model.released,
        "releasedWhen": model.release_known,
        "source": model.release_source,
        "known": model.known,
        "before": before,
        "after": after,
        "answers": [_answer(answer, (before, after), places, strings) for answer in own],
    }


def _around(prompts: Sequence[str]) -> tuple[str, str]:
    """Return what all prompts begin and end with.

    >>> _around(["[INST] Who? [/INST]", "[INST] When? [/INST]"])
    ('[INST] Wh', '? [/INST]')
    """
    if not prompts:
        return "", ""
    before = _shared(prompts)
    after = _shared([prompt[len(before) :][::-1] for prompt in prompts])[::-1]
    return before, after


def _shared(texts: Sequence[str]) -> str:
    """Return the letters that all texts begin with."""
    return "".join(letters[0] for letters in takewhile(lambda own: len(set(own)) == 1, zip(*texts, strict=False)))


def _answer(
    answer: Answer, around: tuple[str, str], places: Sequence[Sequence[dict[str, int]]], strings: Strings
) -> list[Any]:
    """Return [fact, phrasing, counted, sample, status, prompt, text, whom it names by each snapshot, other verdicts].

    A text that repeats its prompt is [what goes before, what comes after].
    """
    before, after = around
    middle = answer.prompt[len(before) : len(answer.prompt) - len(after)]
    text: Any = answer.text
    if answer.prompt and answer.prompt in answer.text:
        text = list(answer.text.split(answer.prompt, 1))
    named = [_named(name, own[answer.fact], strings) for name, own in zip(answer.named, places, strict=True)]
    phrasing, status, prompt = map(strings.place, (answer.phrasing, answer.status, middle))
    row = [answer.fact, phrasing, int(answer.counted), answer.sample, status, prompt, text, named]
    return [*row, [list(given) if given else None for given in answer.given]] if answer.given else row


def _named(name: Named | None, places: dict[str, int], strings: Strings) -> list[Any] | None:
    """Return [place of the holder, reason, words, name they match, rule, score], shorter where there is none."""
    if name is None or name.reason is None:
        return None
    if name.entity is None or name.entity not in places:
        return [NOBODY, strings.place(name.reason)]
    found = [places[name.entity], strings.place(name.reason), strings.place(name.matched)]
    score = None if name.score is None else round(name.score)
    return [*found, strings.place(name.alias), strings.place(name.rule), score]


def _bounds(figures: Figures, domain: str) -> list[list[int | None]]:
    """Return for each table the bounds of its three rates: stop by stop, run by run, low and high, whole per cent."""
    return [
        [_whole(value) for value in table.transpose(2, 1, 0, 3).ravel().tolist()] for table in figures.bounds[domain]
    ]


def _split(figures: Figures) -> list[int | None]:
    """Return the bounds of Table 2: stop by stop, run by run, low and high, whole per cent."""
    return [_whole(value) for value in figures.inconsistent[2:].transpose(2, 1, 0).ravel().tolist()]


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(round(value, 9) + 0.5)
