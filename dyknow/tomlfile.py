"""A TOML file whose values know the line they stand on, so that an error can name it.

The standard library reads TOML but forgets positions; ``Locations`` walks the same text once more for them.
"""

import difflib
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kg.errors import DataError

Place: TypeAlias = tuple[str | int, ...]
"""Where a value stands: ``("group", 0, "facts", 3, "subject")``."""

# Multi-line strings may end in up to two quotes of their own, hence the tails.
_TOKEN = re.compile(
    r'''(?P<comment>\#[^\n]*) | (?P<string>"""(?:\\.|[^\\])*?"""(?:"{0,2}) | \'\'\'.*?\'\'\'\'{0,2}
        | "(?:\\.|[^"\\\n])*" | '[^'\n]*') | (?P<newline>\n) | (?P<space>[\ \t\r]+)
        | (?P<sign>[\[\]{}=,.]) | (?P<bare>[^\s\[\]{}=,."'\#]+)''',
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class Locations:
    r"""The line of every key and array element of a TOML text that parses.

    >>> Locations('a = 1\n[[b]]\nc = [\n  {d = 1},\n]').line("b", 0, "c", 0, "d")
    4
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._arrays: dict[Place, int] = {}  # arrays of tables: elements seen so far
        self._tokens = list(_tokens(text))
        self._at = 0
        self._document()

    def line(self, *place: str | int) -> int:
        """Return the line of a place, or of the nearest place around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def _document(self) -> None:
        table: Place = ()
        while self._skip_newlines():
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Place:
        line = self._take().line
        is_array = self._peek() == "["
        if is_array:
            self._take()
        place: Place = ()
        keys = self._key()
        for depth, key in enumerate(keys):
            place = (*place, key)
            self.lines.setdefault(place, line)
            if is_array and depth == len(keys) - 1:
                self._arrays[place] = self._arrays.get(place, 0) + 1
            if place in self._arrays:
                place = (*place, self._arrays[place] - 1)
                self.lines.setdefault(place, line)
        while self._peek() == "]":
            self._take()
        return place

    def _key(self) -> list[str]:
        parts = [_unquoted(self._take().text)]
        while self._peek() == ".":
            self._take()
            parts.append(_unquoted(self._take().text))
        return parts

    def _pair(self, table: Place) -> None:
        line = self._tokens[self._at].line
        place = table
        for key in self._key():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._take()  # the equals sign
        self._value(place)

    def _value(self, place: Place) -> None:
        if self._peek() == "[":
            self._items(place, "]")
        elif self._peek() == "{":
            self._items(place, "}")
        else:
            while self._more() and self._peek() not in {",", "]", "}", "\n"}:
                self._take()

    def _items(self, place: Place, closing: str) -> None:
        self._take()
        index = 0
        while self._skip_newlines() and self._peek() != closing:
            if closing == "}":
                self._pair(place)
            else:
                self.lines[(*place, index)] = self._tokens[self._at].line
                self._value((*place, index))
            index += 1
            if self._skip_newlines() and self._peek() == ",":
                self._take()
        self._take()

    def _more(self) -> bool:
        return self._at < len(self._tokens)

    def _skip_newlines(self) -> bool:
        while self._more() and self._tokens[self._at].kind == "newline":
            self._at += 1
        return self._more()

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._more() else ""

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind not in {"space", "comment"}:
            yield _Token(kind, found.group(), line)
        line += found.group().count("\n")


def _unquoted(key: str) -> str:
    return str(tomllib.loads(f"key = {key}")["key"]) if key[0] in "\"'" else key


class Table:
    """A table of a TOML file, read key by key; whatever is wrong becomes a ``DataError`` with file, line and value.

    Args:
        path: The file, for messages.
        values: The table as ``tomllib`` gives it.
        locations: The lines of the file.
        place: Where this table stands.
        what: What this table is, for messages: "a fact".
    """

    def __init__(self, path: Path, values: dict[str, Any], locations: Locations, place: Place, what: str) -> None:
        self.path = path
        self.values = values
        self.locations = locations
        self.place = place
        self.what = what

    def error(self, message: str, key: str | None = None, *, hint: str | None = None) -> DataError:
        """Return an error that names the file and the line of ``key``, or of the table itself."""
        place = self.place if key is None else (*self.place, key)
        return DataError(f"{self.path}, line {self.locations.line(*place)}: {message}", hint=hint)

    def only(self, known: Iterable[str]) -> None:
        """Refuse a key that is not among the known ones.

        Raises:
            DataError: the first such key, with the nearest known one as a hint.
        """
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.error(f"{key!r} is no key of {self.what}.", key, hint=did_you_mean(key, known))

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty text, or the default where the key is absent.

        Raises:
            DataError: it is absent without a default, empty, or no text.
        """
        if key not in self.values:
            if default is None:
                raise self.error(f"{self.what} has no {key!r}.", hint=f'Add {key} = "…".')
            return default
        value = self.values[key]
        if not isinstance(value, str):
            raise self.error(f"{key!r} is {value!r}, which is no text.", key, hint="Put it in quotes.")
        if not value or value != value.strip():
            raise self.error(f"{key!r} is {value!r}: empty, or with blanks at an end.", key)
        return value

    def optional(self, key: str) -> str | None:
        """Return a non-empty text, or None where the key is absent."""
        return self.text(key) if key in self.values else None

    def number(self, key: str, default: float) -> float:
        """Return a number that is not negative, or the default where the key is absent."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self.error(f"{key!r} is {value!r}, which is no number from 0 on.", key)
        return float(value)

    def table(self, key: str, what: str) -> "Table":
        """Return a table inside this one; an empty one where the key is absent."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key!r} is {value!r}, which is no table.", key, hint=f"Write [{key}] above its lines.")
        return Table(self.path, value, self.locations, (*self.place, key), what)

    def tables(self, key: str, what: str) -> list["Table"]:
        """Return the tables of an array inside this one; none where the key is absent."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(f"{key!r} is no list of tables.", key, hint="Write it as [ { … }, { … } ].")
        places = [(*self.place, key, index) for index in range(len(value))]
        return [Table(self.path, item, self.locations, at, what) for item, at in zip(value, places, strict=True)]


def read(path: Path, what: str) -> Table:
    """Return a TOML file's outermost table.

    Raises:
        DataError: the file is missing, no UTF-8, or no TOML (with line and column).
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML: {error}.") from error
    return Table(path, values, Locations(text), (), what)


def replace(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that a reader sees the old one or the new one whole.

    Raises:
        DataError: it cannot be written.
    """
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(beside).chmod(0o644)
        Path(beside).rename(path)
    finally:
        Path(beside).unlink(missing_ok=True)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word, or all of them.

    >>> did_you_mean("subjct", ["subject", "office"])
    "Did you mean 'subject'?"
    >>> did_you_mean("colour", ["subject", "office"])
    'Known: subject, office.'
    """
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
