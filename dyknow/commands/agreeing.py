"""How agreement between judges is shown: as tables, JSON or CSV."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Final

from dyknow import judges as judges_
from dyknow.commands.common import (
    colour,
    emit,
    note,
    show,
    width,
)
from dyknow.judges import VERDICTS, Agreement, Key, Reading, Said, Share
from dyknow.tables import Format, Listing, as_json, printable

_MEASURES: Final = (
    ("agree", "same verdict"),
    ("entities", "same entity, where one was read"),
    ("invented", "entity where the reader saw none"),
)


_SHORT: Final = {"up-to-date": "u", "outdated": "o", "irrelevant": "i"}


_WRONG: Final = tuple((theirs, ours) for theirs in VERDICTS for ours in VERDICTS if theirs != ours)


def show_agreement(measured: Agreement, form: Format) -> None:
    """Show how two judges agree, in a format."""
    if form == "json":
        emit(as_json(_agreement_json(measured)))
    elif form == "csv":
        columns = ("by", "name", "measure", "n", "part", "value", "low", "high")
        show(Listing(columns, _long(measured)), form)
    else:
        emit("\n".join(listing.text(form, width(), colour()) for listing in _agreement_tables(measured)))
        emit("\nu→o: theirs is up-to-date, ours outdated; i: irrelevant.\n")
    note(f"Left out: {measured.unclear} without their verdict, {measured.missing} without ours.")


def _per_cent(share: Share, digits: int = 2) -> tuple[float | None, float | None, float | None]:
    """Return a share and its bounds in per cent."""
    found = [None if value is None else round(100 * value, digits) for value in (share.rate, share.lower, share.upper)]
    return found[0], found[1], found[2]


def _agreement_tables(measured: Agreement) -> Iterable[Listing]:
    kappa = [None if value is None else f"{value:.3f}" for value in measured.kappa]
    rows: list[tuple[object, ...]] = [("Cohen's kappa", *(one or "–" for one in kappa), None, measured.agree.n)]
    for name, words in _MEASURES:
        share: Share = getattr(measured, name)
        values = (f"{value:.2f}" if value is not None else "–" for value in _per_cent(share))
        rows.append((f"{words}, %", *values, share.part, share.n))
    rows.append(rows.pop(0))
    yield Listing(("", "value", "low", "high", "part", "n"), rows, f"Agreement, {measured.facts} facts")
    cells = [(theirs, *(measured.confusion.get((theirs, ours), 0) for ours in VERDICTS)) for theirs in VERDICTS]
    yield Listing(("theirs / ours", *VERDICTS), cells, "Confusion")
    wrong = tuple(f"{_SHORT[theirs]}→{_SHORT[ours]}" for theirs, ours in _WRONG)
    for by in dict.fromkeys(group.by for group in measured.groups):
        found = []
        for group in measured.groups:
            if group.by == by:
                rate, low, high = _per_cent(group.agree, 1)
                counts = (group.confusion.get(cell, 0) or None for cell in _WRONG)
                found.append((group.name, group.agree.n, rate, f"{low}–{high}", *counts))
        yield Listing((by, "n", "agree", "interval", *wrong), found)


def _long(measured: Agreement) -> list[tuple[object, ...]]:
    """Return every figure as a row; shares in per cent, kappa as it is, cells of the confusions as counts."""
    rows: list[tuple[object, ...]] = []
    for name, _ in _MEASURES:
        share: Share = getattr(measured, name)
        rows.append(("all", "all", name, share.n, share.part, *_per_cent(share)))
    kappa = (None if value is None else round(value, 4) for value in measured.kappa)
    rows.append(("all", "all", "kappa", measured.agree.n, None, *kappa))
    for group in measured.groups:
        rows.append((group.by, group.name, "agree", group.agree.n, group.agree.part, *_per_cent(group.agree)))
    everywhere = (("all", "all", measured.agree, measured.confusion), *measured.groups)
    for by, name, share, confusion in everywhere:
        for (theirs, ours), count in confusion.items():
            rows.append((by, name, f"{theirs} read as {ours}", share.n, count, None, None, None))
    return rows


def _agreement_json(measured: Agreement) -> dict[str, Any]:
    def share(one: Share) -> dict[str, object]:
        value, low, high = _per_cent(one)
        return {"value": value, "low": low, "high": high, "part": one.part, "n": one.n}

    def confusion(counts: judges_.Confusion) -> list[dict[str, object]]:
        return [{"theirs": theirs, "ours": ours, "n": count} for (theirs, ours), count in counts.items()]

    return {
        **{name: share(getattr(measured, name)) for name, _ in _MEASURES},
        "kappa": measured.kappa._asdict(),
        "facts": measured.facts,
        "unclear": measured.unclear,
        "missing": measured.missing,
        "confusion": confusion(measured.confusion),
        "groups": [
            {"by": group.by, "name": group.name, **share(group.agree), "confusion": confusion(group.confusion)}
            for group in measured.groups
        ],
    }


def show_pairs(read: dict[str, dict[Key, Reading]], form: Format) -> None:
    """Show how each two of several judges agree."""
    """Show how each two of several judges agree."""
    columns = ("judge", "by", "n", "agree", "low", "high", "kappa", "klow", "khigh", "entity", "of")
    rows = []
    for first, second in combinations(read, 2):
        one = judges_.agreement(read[first], read[second])
        kappa = (None if value is None else f"{value:.3f}" for value in one.kappa)
        entity = _per_cent(one.entities, 1)[0]
        rows.append((first, second, one.agree.n, *_per_cent(one.agree, 1), *kappa, entity, one.entities.n))
    show(Listing(columns, rows, "Same verdict in per cent; kappa; same entity in per cent of those named"), form)


def show_disagreements(
    measured: Agreement, said: dict[Key, Said], labels: dict[tuple[str, str], str], form: Format
) -> None:
    """Show the answers that two judges judge differently, each with its words."""
    rows = []
    for key, theirs, ours in measured.disagreements:
        run, question, sample = key
        fact, one = question.partition("#")[0], said[key]
        whom = labels.get((fact, theirs.entity or ""), theirs.entity)
        rows.append((run, question, sample, theirs.verdict, ours.verdict, whom, one.label, ours.kind, _snippet(one)))
    columns = ("run", "question", "sample", "theirs", "ours", "they read", "we read", "kind", "text")
    show(Listing(columns, rows), form)


def _snippet(said: Said, length: int = 60) -> str:
    """Return the part of a text around the words that were read, on one line."""
    text = said.text or ""
    place = max(0, text.find(said.matched or "") - length // 3)
    part = text[place : place + length]
    return printable(f"{'…' if place else ''}{part}{'…' if place + length < len(text) else ''}")
