"""Rephrasings of a benchmark's phrasings: proposed by a model, judged by a person, then asked like any other.

Proposals stand in a TOML file for review. Rows are only ever added to it, so that nothing a person has written there is
changed. A row is ``proposed`` or, where it could not be asked as it is, ``broken``; a person makes it ``kept``,
``changed`` or ``dropped``, and says who and when.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from dyknow import benchmark as benchmarks
from dyknow import prompts
from dyknow.benchmark import Benchmark, Fact, Question
from dyknow.models.base import Answer, Model
from dyknow.prompts import Span, TemplateError
from dyknow.run import settings_digest
from dyknow.tomlfile import Table, did_you_mean, read, replace
from kg.dates import format_day, parse_day
from kg.errors import DataError, UsageError

OPEN: Final = ("proposed", "broken")
REVIEWED: Final = ("kept", "changed", "dropped")

TOKENS_EACH: Final = 48
"""Tokens a rephrasing may have: the longest of the study's phrasings has about 20."""

STOP: Final = ("\n\n\n",)
"""Ends a list; a model's usual rule, the first newline, would leave one line of it."""

_HEAD: Final = """\
# Rephrasings that models propose, for a person to judge. Set `status` of each to
#   "kept"     as proposed
#   "changed"  with your own text as `final`; a broken one can be mended so
#   "dropped"
# and say who you are (`reviewer`) and when that was (`date`, as "2024-05-01"). Rows you leave alone are not used.
# Then: dyknow benchmark adopt {name} --out mine.toml
"""

_COLUMNS: Final = (
    "group", "key", "original", "proposed", "status", "reason", "reviewer", "date", "final", "model", "settings",
    "prompt", "raw",
)  # fmt: skip

_CUED: Final = ("completion", "sentinel")
"""Styles in which a model goes on with a text and follows no instruction, so that the list is begun for it."""


class Template(NamedTuple):
    """A phrasing of a group, and the facts it is put to."""

    group: str
    key: str
    text: str
    facts: tuple[Fact, ...]

    @property
    def placeholders(self) -> set[str]:
        """The names in braces."""
        return set(re.findall(r"\{(\w+)\}", self.text))


class Row(NamedTuple):
    """A rephrasing in a file for review; what is not said is ""."""

    group: str
    key: str  # of the phrasing it rephrases
    original: str
    proposed: str
    status: str  # one of OPEN or REVIEWED
    reason: str  # why it is broken
    reviewer: str
    date: str
    final: str
    model: str
    settings: str  # digest of all that the answer depends on
    prompt: str
    raw: str  # the whole answer, of which this is one line

    @property
    def text(self) -> str:
        """The words it comes to."""
        return self.final or self.proposed


class Proposed(NamedTuple):
    """What asking came to."""

    rows: tuple[Row, ...]  # those added
    known: int  # phrasings for which the file has this model's answer already: not asked
    errors: tuple[tuple[str, str], ...]  # phrasing and why there is no answer; asked again next time


class Adopted(NamedTuple):
    """A rephrasing that a benchmark asks now."""

    group: str
    key: str
    text: str


def templates(bench: Benchmark, groups: Sequence[str] = ()) -> list[Template]:
    """Return the phrasings of a benchmark, or of some of its groups.

    Raises:
        UsageError: there is no such group.
    """
    for group in groups:
        if group not in bench.phrasings:
            raise UsageError(f"{bench.name} has no group {group!r}.", hint=did_you_mean(group, bench.phrasings))
    return [
        Template(group, key, text, tuple(fact for fact in bench.facts if fact.group == group))
        for group, own in bench.phrasings.items()
        for key, text in own.items()
        if not groups or group in groups
    ]


def instruction(template: Template, count: int, cued: bool) -> str:
    """Return what a model is asked, in our words.

    Args:
        template: What is to be rephrased.
        count: How often.
        cued: End with the first number of the list.
    """
    fact, names = template.facts[0], sorted(template.placeholders)
    kept = " and ".join(f"{{{name}}}" for name in names)
    values = {"subject": fact.mention, "office": fact.office}
    examples = " and ".join(f"{{{name}}} for a name such as {values[name]}" for name in names)
    return (
        f"Rephrase the sentence below in {count} different ways. It is the beginning of a sentence that somebody else "
        f"will finish with a name: every rephrasing must ask for the same name, and break off right before it.\n"
        f"Copy {kept} into every rephrasing, unchanged and exactly once; it stands in for other words ({examples}).\n"
        f"Write a numbered list with one rephrasing a line, and nothing else.\n\n"
        f"Sentence: {template.text}\n\nRephrasings:\n{'1.' if cued else ''}"
    ).rstrip("\n")


def lines(answer: str, cued: bool = False) -> list[str]:
    r"""Return the rephrasings in an answer: its numbered lines, or where none is numbered all but introductions.

    Numbers, quotation marks around a line and signs for a blank at its end belong to the answer, not to the sentence.

    >>> lines("Sure, here you are:\n\n1. \"The head of {subject} is ___\"\n2) Heading {subject} is ...")
    ['The head of {subject} is', 'Heading {subject} is']
    """
    begun = cued and not re.search(r"^\W*1\W", answer, re.MULTILINE)  # the prompt has the first number, then
    every = [line.strip() for line in (f"1. {answer.lstrip()}" if begun else answer).splitlines()]
    numbered = [line for line in every if _NUMBER.match(line)]
    found = numbered or [line for line in every if not line.endswith(":")]
    return [text for text in map(_bare, found) if text]


_NUMBER: Final = re.compile(r"[(*]*\d+\s?[.):]+\**\s*|[-*•]\s+")
_BLANK: Final = re.compile(r"\s*(?:_{2,}|\.{3,}|…|\[(?:name|blank)\])[\s.]*$", re.IGNORECASE)
_MARKS: Final = "\"'“”‘’«»`*"


def _bare(line: str) -> str:
    text = line
    while (match := _NUMBER.match(text)) and match.end():
        text = text[match.end() :]
    return _BLANK.sub("", text.strip(_MARKS + " ")).strip(_MARKS + " ")


def normal(text: str) -> str:
    """Return what two phrasings that say the same have in common.

    >>> normal("The  Head of {subject} is:") == normal("the head of {subject} is")
    True
    """
    return " ".join(text.casefold().split()).rstrip(" .:;,?!")


def fault(text: str, template: Template, taken: Mapping[str, str]) -> str | None:
    """Return why a rephrasing cannot be asked; None where it can.

    Args:
        text: The rephrasing.
        template: What it rephrases.
        taken: What is asked or proposed in the group already, as `normal` has it, and where that stands.
    """
    try:
        prompts.check(text)
    except TemplateError as error:
        return str(error)
    if moved := _moved(text, template):
        return moved
    if normal(text) in taken:
        return f"says the same as {taken[normal(text)]}"
    for fact in template.facts:
        try:
            prompts.fill(text, fact.mention, fact.office)
        except TemplateError as error:
            return f"does not fit {fact.subject_label}: {error}"
    return None


def _moved(text: str, template: Template) -> str | None:
    """Return what is wrong with the placeholders: not the original's, or where none may stand."""
    names = set(re.findall(r"\{(\w+)\}", text))
    if gone := sorted(template.placeholders - names):
        return f"{{{gone[0]}}} is gone"
    if new := sorted(names - template.placeholders):
        return f"{{{new[0]}}} is not in the original"
    last = _last(text)
    return f"ends with {last}, so that no name can follow" if last and not _last(template.text) else None


def _last(text: str) -> str | None:
    """Return the placeholder a text ends with, where it is no question."""
    found = re.search(r"(\{\w+\})[\s.:,]*$", text)
    return found.group(1) if found else None


# Asking


def propose(
    model: Model,
    bench: Benchmark,
    path: Path,
    *,
    groups: Sequence[str] = (),
    count: int = 5,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Proposed:
    """Ask a model to rephrase a benchmark's phrasings, and add what it proposes to a file for review.

    The file grows batch by batch, and no byte of it that was there before changes. What this model has answered under
    the same settings is not asked again.

    Args:
        model: Whom to ask.
        bench: What to rephrase.
        path: The file for review; made where it is missing.
        groups: The groups to rephrase; none given: all.
        count: How many rephrasings each phrasing should get.
        batch_size: How many phrasings are asked for at once.
        progress: Told how many are answered, and of how many.

    Raises:
        UsageError: there is no such group.
        DataError: the file is none for review, or cannot be written.
        ModelError: the model cannot go on; what it answered is in the file.
    """
    info = model.info()
    cued = info.get("style") in _CUED
    wanted = {f"{one.group}#{one.key}": one for one in templates(bench, groups)}
    asked = {name: _question(one, instruction(one, count, cued)) for name, one in wanted.items()}
    digests = {name: _settings(info, question.text) for name, question in asked.items()}
    known = {(row.group, row.key, row.settings) for row in review(path)} if path.exists() else set()
    rest = {name: one for name, one in wanted.items() if (one.group, one.key, digests[name]) not in known}
    added: list[Row] = []
    errors: list[tuple[str, str]] = []
    for batch in model.generate([asked[name] for name in rest], batch_size) if rest else ():
        for question, answer in batch:
            name = question.id.removeprefix(_ASKED)
            if answer.error is not None:
                errors.append((name, answer.error))
                continue
            about = _Asking(model.name, digests[name], answer, cued, count)
            added += _add(path, bench, wanted[name], about)
        if progress is not None:
            progress(len({(row.group, row.key) for row in added}) + len(errors), len(rest))
    return Proposed(tuple(added), len(wanted) - len(rest), tuple(errors))


_ASKED: Final = "paraphrase/"


class _Asking(NamedTuple):
    model: str
    settings: str
    answer: Answer
    cued: bool
    most: int  # rephrasings to take of it


def _question(template: Template, text: str) -> Question:
    """Return the instruction as a question, which is what models take; a script answers it under this id."""
    name = f"{_ASKED}{template.group}"
    fact = Fact(name, template.facts[0].domain, template.group, name, name, "P0", None, name, None, "none")
    return Question(f"{name}#{template.key}", fact, template.key, text, Span(0, 0), None)


def _settings(info: Mapping[str, Any], text: str) -> str:
    """Return the digest of all that the answer depends on, made as that of a run."""
    model = {key: value for key, value in info.items() if key != "sampling"}
    digest = hashlib.sha256(text.encode()).hexdigest()
    nothing = {"prefixed": False, "benchmark": None, "seed": 0}
    return settings_digest({"model": model, "prompts_digest": digest, "sampling": info.get("sampling"), **nothing})


def _add(path: Path, bench: Benchmark, template: Template, asking: _Asking) -> list[Row]:
    """Add the rephrasings in an answer to the file, which is read anew, for a person may be at work on it."""
    rows = review(path) if path.exists() else []
    taken = _taken(bench, template.group, rows)
    new: list[Row] = []
    for text in _proposals(asking) or [""]:
        reason = fault(text, template, taken) if text else _nothing(asking.answer)
        new.append(_row(template, asking, text, reason))
        if reason is None:
            taken[normal(text)] = "another proposal"
    before = path.read_text(encoding="utf-8") if path.exists() else _HEAD.format(name=path.name)
    replace(path, before + "".join(map(_block, new)))
    return new


def _proposals(asking: _Asking) -> list[str]:
    answer = asking.answer
    return [] if answer.refused else lines(answer.text or "", asking.cued)[: asking.most]


def _nothing(answer: Answer) -> str:
    return "the model declined" if answer.refused else "the answer holds no rephrasing"


def _taken(bench: Benchmark, group: str, rows: Sequence[Row]) -> dict[str, str]:
    places = {"kept": "a kept proposal", "changed": "a changed proposal", "dropped": "a dropped proposal"}
    taken = {
        normal(row.text): places.get(row.status, "another proposal")
        for row in rows
        if row.group == group and row.status != "broken"
    }
    return taken | {normal(text): f"phrasing {key}" for key, text in bench.phrasings[group].items()}


def _row(template: Template, asking: _Asking, text: str, reason: str | None) -> Row:
    return Row(
        group=template.group,
        key=template.key,
        original=template.text,
        proposed=text,
        status="broken" if reason else "proposed",
        reason=reason or "",
        reviewer="",
        date="",
        final="",
        model=asking.model,
        settings=asking.settings,
        prompt=asking.answer.prompt,
        raw=asking.answer.raw or asking.answer.text or "",
    )


def _block(row: Row) -> str:
    values = {**row._asdict()}
    if not row.reason:
        del values["reason"]
    written = "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items())
    return f"\n[[paraphrase]]\n{written}"


def _quoted(text: str) -> str:
    return tomlkit.string(text, multiline="\n" in text and "\r" not in text).as_string()


# Reviewing


def review(path: Path) -> list[Row]:
    """Return the rows of a file for review.

    Raises:
        DataError: a row is malformed, or says that it is reviewed and not by whom, when or how; with file and line.
    """
    top = read(path, "a file of rephrasings for review")
    top.only(("paraphrase",))
    return [_read_row(table) for table in top.tables("paraphrase", "a rephrasing")]


def _read_row(table: Table) -> Row:
    table.only(_COLUMNS)
    values = {column: _text(table, column) for column in _COLUMNS}
    for key in ("group", "key", "original", "status", "model"):
        if not values[key]:
            raise table.error(f"the rephrasing has no {key!r}.", key)
    if values["status"] not in (*OPEN, *REVIEWED):
        hint = did_you_mean(values["status"], (*OPEN, *REVIEWED))
        raise table.error(f"'status' is {values['status']!r}.", "status", hint=hint)
    if values["status"] in REVIEWED:
        _check_reviewed(table, values)
    return Row(**values)


def _text(table: Table, key: str) -> str:
    value = table.values.get(key, "")
    if isinstance(value, date) and key == "date":
        return value.isoformat()[:10]
    if not isinstance(value, str):
        raise table.error(f"{key!r} is {value!r}, which is no text.", key, hint="Put it in quotes.")
    return value


def _check_reviewed(table: Table, values: Mapping[str, str]) -> None:
    status = values["status"]
    if not values["reviewer"].strip():
        raise table.error(f"the rephrasing is {status}, and 'reviewer' does not say by whom.", "reviewer")
    try:
        parse_day(values["date"])
    except UsageError as error:
        hint = 'Say when it was reviewed: date = "2024-05-01".'
        raise table.error(f"'date' is {values['date']!r}, which is no day.", "date", hint=hint) from error
    if status == "changed" and not values["final"].strip():
        raise table.error("the rephrasing is changed, and 'final' does not say into what.", "final")
    if status == "kept" and values["final"] not in ("", values["proposed"]):
        raise table.error("the rephrasing is kept, and 'final' is another text.", "final", hint='Call it "changed".')
    if status == "kept" and not values["proposed"]:
        raise table.error("the rephrasing is kept, and nothing was proposed.", "status")


def adopt(path: Path | None, reviewed: Path, out: Path) -> list[Adopted]:
    """Write a benchmark that asks what a person has kept or changed as further phrasings; its comments and layout stay.

    What it asks already is left as it is, so that a review can be adopted bit by bit.

    Args:
        path: The benchmark whose phrasings were rephrased; None: the study's.
        reviewed: The file for review.
        out: Where the new benchmark goes; may be the same.

    Returns:
        The phrasings added, with the keys they got.

    Raises:
        DataError: a file is malformed; a rephrasing cannot be asked, or is of a phrasing that the benchmark does not
            have in these words.
    """
    source = path or benchmarks.STUDY
    bench = benchmarks.load(source)
    try:
        document = tomlkit.parse(source.read_text(encoding="utf-8"))
    except (OSError, TOMLKitError) as error:
        raise DataError(f"{source} cannot be read as a benchmark: {error}") from error
    own = {str(group["name"]): group["phrasings"] for group in document.get("group", [])}
    known = {(one.group, one.key): one for one in templates(bench)}
    asked = {group: dict(phrasings) for group, phrasings in bench.phrasings.items()}
    added = []
    for row in review(reviewed):
        if row.status not in ("kept", "changed") or row.text in asked.get(row.group, {}).values():
            continue
        template = known.get((row.group, row.key))
        if template is None or template.text != row.original:
            where = f"phrasing {row.key} of the group {row.group}"
            raise DataError(f"{reviewed}: {where} is not {row.original!r} in {source}.", hint="Name the benchmark.")
        taken = {normal(text): f"phrasing {key}" for key, text in asked[row.group].items()}
        if reason := fault(row.text, template, taken):
            raise DataError(f"{reviewed}: the rephrasing {row.text!r} cannot be asked: {reason}.")
        key = _next_key(asked[row.group])
        asked[row.group][key] = row.text
        _write_phrasing(own[row.group], key, row)
        added.append(Adopted(row.group, key, row.text))
    replace(out, tomlkit.dumps(document))
    benchmarks.load(out)
    return added


def _next_key(keys: Mapping[str, str]) -> str:
    numbers = [int(key) for key in keys if key.isdecimal()]
    return str(max(numbers, default=len(keys)) + 1)


def _write_phrasing(phrasings: Any, key: str, row: Row) -> None:  # noqa: ANN401 -- tomlkit's table
    item = tomlkit.string(row.text)
    day = format_day(parse_day(row.date))
    item.comment(" ".join(f"{row.key} rephrased by {row.model}; {row.status} by {row.reviewer}, {day}".split()))
    phrasings.append(key, item)
