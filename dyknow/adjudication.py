"""Verdicts by people: doubtful answers first, out as a table, and back in as judgments.

A judgment is a line of ``runs/RUN/judgments/JUDGE.jsonl``, which is only ever appended to; of several on one response
the last one counts. Its fields: ``question``, ``sample``, ``judge``; ``named``, which is true where the judge says whom
the response names, with ``entity`` (null: none of the fact's holders) and its ``label``; else ``verdict`` and the day
it is for, ``as_of``, or neither where the judge leaves it open; ``reason``, ``note``, ``time`` and ``by``.
"""

import csv
import difflib
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from dyknow import journal, segments
from dyknow.doubts import Holder, Response
from dyknow.journal import JUDGMENTS
from dyknow.judges import LABELS, UNCLEAR, Key, json_lines, label_of
from dyknow.published import LABELLED_ON
from kg.dates import format_day, parse_day
from kg.errors import DataError, UsageError
from kg.sources.csvfile import Rows

TAKEN: Final = ("match", "published")
"""Names that are no person's: our matcher, and the labels that came with imported results."""

COLUMNS: Final = (
    "run", "question", "sample", "subject", "office", "doubt", "why", "prompt", "text", "read_entity", "read_reason",
    "read_words", "read_score", "read_verdict", "as_of", "candidates", "entity", "verdict", "note",
)  # fmt: skip
"""Of the table for a person; the last three are theirs to fill in."""

NONE: Final = frozenset(("none", "nobody", "0", "-", "–", "—"))
OPEN: Final = frozenset((UNCLEAR, "?"))

_SAME: Final = ("named", "entity", "verdict", "start", "as_of", "reason", "note")
_VERDICT_ONLY: Final = "verdict only"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_LONGEST: Final = 2**31 - 1
"""Characters a cell may have; Python's own limit is shorter than an answer may be."""


class Judgment(NamedTuple):
    """What a judge says of one response."""

    key: Key
    named: bool = False  # the judge says whom the response names
    entity: str | None = None  # None where named: none of the fact's holders
    label: str | None = None
    verdict: str | None = None  # for one day, where the judge said no more than that
    as_of: str | None = None  # that day
    reason: str = "named"  # "named", "none", "unclear", "verdict only"; a model's also "refusal", "unparsable", "error"
    note: str | None = None
    by: str | None = None

    def row(self, judge: str, time: str | None) -> dict[str, Any]:
        """Return the line of the journal."""
        values = self._asdict()
        _, question, sample = values.pop("key")
        return {"question": question, "sample": sample, "judge": judge, **values, "start": None, "time": time}


class Imported(NamedTuple):
    """What a file of judgments holds."""

    judgments: tuple[Judgment, ...]
    blank: int  # rows in which nothing is said
    elsewhere: int  # labels of runs that are not here
    lenient: int  # rows whose name nobody has: their verdict was kept, if they have one


def judge_name(name: str) -> str:
    """Return the name of a judge.

    Raises:
        UsageError: it cannot be one.
    """
    if name in TAKEN:
        raise UsageError(f"The name {name!r} is taken.", hint="Take the name of whoever judges, e.g. --judge anna.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        hint = "Letters, digits, dots, hyphens and underscores will do."
        raise UsageError(f"{name!r} is no name for a judge.", hint=hint)
    return name


# Out


def table(responses: Iterable[Response], holders: Mapping[str, Sequence[Holder]]) -> str:
    """Return responses as a CSV that a person fills in: whom each names in ``entity``, or else a ``verdict``.

    A cell that a spreadsheet program would take for a formula begins with an apostrophe.
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in responses:
        named = " | ".join(choices(holders.get(one.fact, ())))
        about = (one.run, one.question, one.sample, one.subject, one.office, f"{one.doubt:.2f}", "; ".join(one.why))
        score = None if one.score is None or one.entity is None else f"{one.score:.0f}"
        read = (one.prompt, one.text, one.label or one.entity, one.reason, one.matched, score, one.verdict, one.as_of)
        writer.writerow([_cell(value) for value in (*about, *read, named, None, None, None)])
    return target.getvalue()


def choices(holders: Sequence[Holder]) -> list[str]:
    """Return the names of holders, each with its id where two share one."""
    labels = [one.label for one in holders]
    return [one.label if labels.count(one.label) == 1 else f"{one.label} ({one.entity})" for one in holders]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


# In


def read_judgments(
    path: Path,
    known: Mapping[Key, str | None],
    holders: Mapping[str, Sequence[Holder]],
    as_of: str | None = None,
    by: str | None = None,
    *,
    lenient: bool = False,
) -> Imported:
    """Return the judgments of a file: our table filled in, JSON lines, or a labels file as `dyknow.judges` reads it.

    A name stands for the entity, so it can be judged for any day; a verdict without a name holds for one day. Of a
    labels file the name counts where the row was read one by one, and only the verdict where it was not: both stand for
    the same reading there, but the name is not relied on.

    Args:
        path: The file; ``.csv``, or else JSON lines.
        known: The texts of all responses.
        holders: Whom they may name, by fact.
        as_of: The day that verdicts without a name hold for, where the row does not say; of a labels file else the day
            of the published labels.
        by: Who judges, where the row does not say.
        lenient: Of a row with a name that nobody has keep the verdict, or leave it out.

    Raises:
        DataError: a row cannot be read; the message names file, line and value.
    """
    day = format_day(parse_day(as_of)) if as_of else None
    reader = _Reader(known, {fact: Names(own) for fact, own in holders.items()}, day, by, lenient)
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else json_lines(path)
    found = [reader.read(place, row) for place, row in rows]
    kept = tuple(one for one in found if one is not None)
    return Imported(kept, len(found) - len(kept) - reader.elsewhere - reader.dropped, reader.elsewhere, reader.lenient)


def _csv_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", hint="Save it as CSV in UTF-8.") from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)  # what spreadsheet programs write depends on their country
    csv.field_size_limit(_LONGEST)
    try:
        reader = Rows(io.StringIO(text, newline=""), delimiter=delimiter)
    except csv.Error as error:
        raise DataError(f"{path}, line 1 is no CSV: {error}.") from error
    twice = [name for name in COLUMNS if reader.columns.count(name) > 1]
    if twice:
        raise DataError(f"{path}, line 1: there are two columns {twice[0]!r}.", hint="Leave one of them out.")
    missing = [name for name in ("run", "question") if name not in reader.columns]
    if missing or not {"entity", "verdict"} & set(reader.columns):
        hint = "Its first line names the columns: run, question, sample, and entity or verdict."
        raise DataError(f"{path}, line 1: there is no column {(missing or ['entity'])[0]!r}.", hint=hint)
    rows = []
    try:
        for row in reader:
            place = f"{path}, line {reader.line}"
            if None in row or None in row.values():
                raise DataError(f"{place}: the row has not as many cells as the first line.", hint="Quote commas.")
            rows.append((place, {key: value.removeprefix("'").strip() or None for key, value in row.items()}))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line} is no CSV: {error}.") from error
    return rows


class Names:
    """The names of a fact's holders, and which entity each stands for."""

    def __init__(self, holders: Sequence[Holder]) -> None:
        self._holders = {one.entity: one for one in holders}
        self._shown = dict(zip(choices(holders), holders, strict=True))
        self._folded: dict[str, list[Holder]] = defaultdict(list)
        for one in holders:
            for name in {_folded(label) for label in (one.label, *one.labels)}:
                self._folded[name].append(one)

    def find(self, name: str) -> Holder | None:
        """Return the holder of a name: its label, in any case and without accents, or its id; None where nobody has it.

        Raises:
            DataError: several have it.
        """
        if exact := self._holders.get(name) or self._shown.get(name):
            return exact
        found = self._folded.get(_folded(name), [])
        if len(found) > 1:
            ids = " or ".join(one.entity for one in found)
            raise DataError(f"{name!r} is the name of several.", hint=f"Write whom you mean: {ids}.")
        return found[0] if found else None

    def hint(self, name: str) -> str:
        """Return what to write instead of a name that nobody has."""
        near = difflib.get_close_matches(_folded(name), self._folded, n=1, cutoff=0.5)
        said = "Write none where the text names somebody else"
        return f"Did you mean {self._folded[near[0]][0].label!r}? {said}." if near else f"{said}; --lenient skips it."


def _folded(text: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(plain.split())


class _Said(NamedTuple):
    """What a row says of a response, before names are looked up."""

    name: str | None
    verdict: str | None
    as_of: str | None
    note: str | None
    by: str | None


class _Reader:
    """Reads rows into judgments, and counts what is left out."""

    def __init__(
        self,
        known: Mapping[Key, str | None],
        names: Mapping[str, Names],
        as_of: str | None,
        by: str | None,
        lenient: bool,
    ) -> None:
        self._known = known
        self._runs = {run for run, _, _ in known}
        self._names = names
        self._as_of = as_of
        self._by = by
        self._is_lenient = lenient
        self.elsewhere = self.lenient = self.dropped = 0

    def read(self, place: str, row: Mapping[str, Any]) -> Judgment | None:
        """Return the judgment of a row; None where it says nothing, or is left out."""
        if "model" in row and "template" in row:
            return self._label(place, row)
        for field in ("run", "question", "entity", "verdict", "as_of", "note", "by"):
            if not isinstance(row.get(field), str | None):
                raise DataError(f"{place}: {field!r} is {row[field]!r}, which is no text.")
        key = self._key(place, row)
        name = row.get("entity") or ("none" if row.get("named") is True else None)
        verdict = self._verdict(place, row.get("verdict"))
        if name is None and verdict is None and row.get("reason") == UNCLEAR:
            verdict = UNCLEAR
        said = _Said(name, verdict, row.get("as_of") or self._as_of, row.get("note"), row.get("by") or self._by)
        return self._judgment(place, key, said)

    def _key(self, place: str, row: Mapping[str, Any]) -> Key:
        run, question, sample = row.get("run"), row.get("question"), row.get("sample") or 0
        if run not in self._runs:
            near = difflib.get_close_matches(str(run), self._runs, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else "dyknow runs list"
            raise DataError(f"{place}: there is no run {run!r}.", hint=hint)
        if isinstance(sample, bool) or not re.fullmatch(r"\d+", str(sample)):
            raise DataError(f"{place}: the sample is {sample!r}, which is no number.")
        key = str(run), str(question), int(sample)
        if key not in self._known:
            raise DataError(f"{place}: the run {run} has no answer to {question}, sample {sample}.")
        text, ours = row.get("text"), self._known[key]
        if isinstance(text, str) and ours is not None and _plain(text) != _plain(ours):
            hint = "A judgment is of one text; export the table anew."
            raise DataError(f"{place}: run {run} answers {question} with another text than {text[:40]!r}.", hint=hint)
        return key

    def _verdict(self, place: str, said: str | None) -> str | None:
        if said is None:
            return None
        verdict = UNCLEAR if said in OPEN else LABELS.get(said.strip().casefold())
        if verdict is None:
            raise DataError(f"{place}: the verdict is {said!r}.", hint=f"Known verdicts: {', '.join(LABELS)}.")
        return verdict

    def _label(self, place: str, row: Mapping[str, Any]) -> Judgment | None:
        one = label_of(place, row)
        key = (one.run, one.question, 0)
        if one.run not in self._runs:
            self.elsewhere += 1
            return None
        if key not in self._known:
            raise DataError(f"{place}: the run {one.run} has no answer to {one.question}.")
        name = one.named or ("none" if one.verdict == "irrelevant" else None)
        note = None if one.read or one.named is None else f"not read one by one; perhaps {one.named}"
        said = _Said(name if one.read else None, one.verdict, self._as_of or LABELLED_ON, note, self._by)
        return self._judgment(place, key, said)

    def _judgment(self, place: str, key: Key, said: _Said) -> Judgment | None:
        name, verdict = said.name, said.verdict
        about: dict[str, Any] = {"note": said.note, "by": said.by}
        if verdict == UNCLEAR or (name or "").casefold() in OPEN:
            return Judgment(key, reason=UNCLEAR, **about)
        if (name or "").casefold() in NONE:
            return Judgment(key, named=True, reason="none", **about)
        if name is not None:
            if holder := self._holder(place, key, name):
                return Judgment(key, named=True, entity=holder.entity, label=holder.label, **about)
            self.lenient += 1
            if verdict is None:
                self.dropped += 1
        if verdict is None:
            return None
        if said.as_of is None:
            hint = "Name the entity, which can be judged for any day; or give the day: --as-of 2023-12-18."
            raise DataError(f"{place}: the verdict {verdict!r} is for one day, and none is given.", hint=hint)
        day = self._day(place, said.as_of)
        return Judgment(key, verdict=verdict, as_of=day, reason=_VERDICT_ONLY, **about)

    def _holder(self, place: str, key: Key, name: str) -> Holder | None:
        fact = key[1].partition("#")[0]
        names = self._names.get(fact) or Names(())
        try:
            found = names.find(name)
        except DataError as error:
            raise DataError(f"{place}: {error.message}", hint=error.hint) from error
        if found is None and not self._is_lenient:
            raise DataError(f"{place}: {name!r} is no holder of {fact}.", hint=names.hint(name))
        return found

    def _day(self, place: str, day: str) -> str:
        try:
            return format_day(parse_day(day))
        except UsageError as error:
            raise DataError(f"{place}: {error.message}", hint=error.hint) from error


def _plain(text: str) -> str:
    return " ".join(text.split()).removeprefix("'").strip()


# The journals


class Recorded(NamedTuple):
    """What came of judgments that were to be appended."""

    new: int = 0
    displaced: tuple[str, ...] = ()  # "RUN QUESTION" of names that a mere verdict of the same judge now stands before


def record(runs: Path, judge: str, judgments: Sequence[Judgment], time: str | None = None) -> Recorded:
    """Append judgments to the journals of their runs; what a judge said already is left out.

    Args:
        runs: The folder of all runs.
        judge: The name of the journals.
        judgments: What to append.
        time: The moment, as the journals write it.

    Raises:
        RunError: another process writes them, or the disk refuses.
    """
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in judgments:
        by_run[one.key[0]].append(one.row(judge, time))
    done = [append(runs / run, judge, rows) for run, rows in sorted(by_run.items())]
    return Recorded(sum(one.new for one in done), tuple(key for one in done for key in one.displaced))


def append(run: Path, judge: str, rows: Sequence[Mapping[str, Any]]) -> Recorded:
    """Append the lines of a judge to the journal beside a run, those that are new.

    Raises:
        RunError: another process writes it, or the disk refuses.
    """
    with writing(run, judge) as path:
        standing = {journal.key_of(row): row for row in journal.standing_judgments(journal.rows(path, "judge"))}
        named = {key for key, row in standing.items() if row.get("named")}
        new = list(_news(standing, rows))
        if new:
            journal.append(path, new)
    named |= {journal.key_of(row) for row in new if row.get("named")}
    displaced = sorted(key for key in named if standing[key].get("reason") == _VERDICT_ONLY)
    return Recorded(len(new), tuple(f"{run.name} {question}" for question, _ in displaced))


@contextmanager
def writing(run: Path, judge: str) -> Iterator[Path]:
    """Hold a judge's journal beside a run for writing, without a torn last line, and yield its path.

    Raises:
        RunError: another process holds it.
    """
    folder = run / JUDGMENTS
    folder.mkdir(exist_ok=True)
    with journal.locked(folder, f"{judge}.lock", f"The judge {judge} of the run {run.name}"):
        path = folder / f"{judge}.jsonl"
        segments.cut_torn_line(path)
        yield path


def _news(standing: dict[journal.Key, dict[str, Any]], rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        old = standing.get(journal.key_of(row))
        if old is None or any(old.get(name) != row.get(name) for name in _SAME):
            standing[journal.key_of(row)] = dict(row)
            yield dict(row)


def judged_by(runs: Path, run: str, judge: str) -> dict[Key, dict[str, Any]]:
    """Return the judgments of a judge on a run that stand.

    Raises:
        RunError: the journal is damaged.
    """
    rows = journal.rows(runs / run / JUDGMENTS / f"{judge}.jsonl", "judge")
    return {(run, *journal.key_of(row)): row for row in journal.standing_judgments(rows)}
