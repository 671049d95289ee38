"""A model that reads its answers from a table: documentation and tests take the real path with it.

A CSV table has the columns ``question,text,error``; a TOML table says the same and a little more::

    default = "I do not know."      # for what the table does not name
    seconds = 0.01                  # how long an answer takes

    [answers]
    "Q38/P35" = "Sergio Mattarella" # every phrasing of the fact
    "Q38/P35#2" = "Mattarella"      # this phrasing
    "Q36/P6" = ["Donald Tusk", "Mateusz Morawiecki"]  # one sample after the other, then from the first again

    [errors]
    "Q36/P6#3" = "no connection"    # asking this fails

In the CSV table the question ``*`` is the default.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dyknow.benchmark import Question
from dyknow.models.base import Answer, Asked, sha256
from dyknow.tomlfile import read
from kg.errors import DataError
from kg.sources.csvfile import Rows

_COLUMNS = ("question", "text", "error")


class Script(NamedTuple):
    """A table of answers: by question id, fact id, or ``*`` for all others; several are one sample each."""

    answers: Mapping[str, str | Sequence[str]]
    errors: Mapping[str, str]
    seconds: float = 0.0


class Scripted:
    """Answers from a script; words count as tokens."""

    def __init__(self, script: Script, name: str = "scripted", files: dict[str, str] | None = None) -> None:
        self.script = script
        self.name = name
        self._files = files or {}

    def info(self) -> dict[str, Any]:
        """Return the record of the model; its text depends on the table alone."""
        return {
            "name": self.name,
            "revision": None,
            "files": self._files,
            "dtype": None,
            "device": None,
            "style": "completion",
            "sampling": {"method": "scripted"},
        }

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Yield the table's answers in the order asked."""
        for start in range(0, len(questions), batch_size):
            batch = questions[start : start + batch_size]
            time.sleep(self.script.seconds * len(batch))
            yield [Asked(question, self._answer(question, sample)) for question in batch]

    def _answer(self, question: Question, sample: int) -> Answer:
        words = len(question.text.split())
        for key in (question.id, question.fact.id, "*"):
            if key in self.script.errors:
                return Answer(None, None, question.text, words, None, self.script.errors[key])
            if key in self.script.answers:
                texts = self.script.answers[key]
                text = texts if isinstance(texts, str) else texts[sample % len(texts)]
                return Answer(text, "stop", question.text, words, len(text.split()))
        return Answer(None, None, question.text, words, None, f"the script has no answer to {question.id}")


def load_scripted(path: Path) -> Scripted:
    """Return the model of a table, CSV or TOML.

    Raises:
        DataError: the table cannot be read; the message names file, line and value.
    """
    if not path.is_file():
        raise DataError(f"There is no table of answers at {path}.")
    script = _from_toml(path) if path.suffix == ".toml" else _from_csv(path)
    return Scripted(script, path.stem, {path.name: sha256(path)})


def _from_toml(path: Path) -> Script:
    top = read(path, "a table of answers")
    top.only(("default", "seconds", "answers", "errors"))
    answers, errors = top.table("answers", "the answers"), top.table("errors", "the errors")
    default = {"*": top.text("default")} if "default" in top.values else {}
    return Script(
        default | {key: _texts(answers.values[key], answers.error, key) for key in answers.values},
        {key: errors.text(key) for key in errors.values},
        top.number("seconds", 0.0),
    )


def _texts(value: object, error: Any, key: str) -> str | tuple[str, ...]:  # noqa: ANN401
    if isinstance(value, list) and value:
        return tuple(_any_text(one, error, key) for one in value)
    return _any_text(value, error, key)


def _any_text(value: object, error: Any, key: str) -> str:  # noqa: ANN401
    # Unlike a name, an answer may be empty or end in a blank: models do both.
    if not isinstance(value, str):
        raise error(f"the answer {value!r} is no text.", key, hint="Put it in quotes.")
    return value


def _from_csv(path: Path) -> Script:
    answers: dict[str, str] = {}
    errors: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        rows = Rows(stream, strict=False)
        if tuple(rows.columns) != _COLUMNS:
            raise DataError(f"{path}, line 1: the columns are {rows.columns}.", hint="Write question,text,error.")
        for row in rows:
            key, text, error = (row[column] for column in _COLUMNS)
            if not key or None in (text, error, *row) or key in answers or key in errors:
                hint = "One row per question, three cells per row."
                raise DataError(f"{path}, line {rows.line}: the row {row} cannot be read.", hint=hint)
            if error:
                errors[key] = error
            else:
                answers[key] = text
    return Script(answers, errors)
