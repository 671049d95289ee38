r"""How known models are asked and when they came out: one table, ``dyknow/data/presets.toml``; and settings in a file.

A preset suggests: whatever an option or a settings file says goes before it. A settings file has the same keys::

    style = "instruct"
    template = "Question: {question}\nAnswer:"
    stop = ["\n"]
    prefix = true
    released = 2024-05-01
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from dyknow.models.base import Architecture, Options, Quantised, Style
from dyknow.tomlfile import Table, did_you_mean, read

TABLE: Final = Path(__file__).resolve().parents[1] / "data" / "presets.toml"

DTYPES: Final = ("float32", "bfloat16", "float16", "auto")


@dataclass(frozen=True, slots=True)
class Preset:
    """A row of the table; None: the table does not say.

    Attributes:
        name: The model's name on the hub or at its API.
        sources: Where each setting comes from.
    """

    name: str
    sources: Mapping[str, str]
    short: tuple[str, ...] = ()
    kind: str = "local"
    released: date | None = None
    year: int | None = None
    style: Style = "auto"
    template: str | None = None
    bos: bool | None = None
    prefix: bool | None = None
    dtype: str | None = None
    stop: tuple[str, ...] | None = None
    remote_code: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it is found by."""
        return (self.name, self.name.rsplit("/", 1)[-1], *self.short)


class Release(NamedTuple):
    """When a model came out: the day, where a source gives one, and that source."""

    day: date | None
    source: str | None


class Settings(NamedTuple):
    """What a settings file says; None and absent keys: nothing.

    ``options`` are keyword arguments of ``Options``.
    """

    options: dict[str, Any]
    prefix: bool | None = None
    title: str | None = None
    year: int | None = None
    released: date | None = None


def find(name: str) -> Preset | None:
    """Return the preset of a model by its name on the hub, the last part of that, a short name, or a folder's name.

    >>> find("gpt2-xl").name, find("local:lmsys/vicuna-7b-v1.5").prefix, find("models/Mistral-7B-v0.1").year
    ('openai-community/gpt2-xl', True, 2023)
    """
    known = _by_name()
    bare = name.rpartition(":")[2]
    keys = (name, bare, Path(bare).name)
    return next((known[key.casefold()] for key in keys if key.casefold() in known), None)


def release_date(name: str) -> Release:
    """Return the day a model came out and the source of that day; both are None where no source gives it.

    >>> release_date("gpt2-xl")
    Release(day=datetime.date(2019, 11, 5), source="OpenAI, 'GPT-2: 1.5B release', 5 November 2019")
    """
    preset = find(name)
    return Release(preset.released, preset.sources.get("released")) if preset else Release(None, None)


def suggest(options: Options, preset: Preset | None) -> Options:
    """Return options with what they leave open filled in from a preset; dtype is left to whoever knows the device."""
    if preset is None:
        return options
    found: dict[str, Any] = {"bos": preset.bos} if options.bos is None else {}
    # Template and stop rule belong to the preset's style; with a style of one's own they would fit no more.
    if options.style in ("auto", preset.style) and (options.template is None or preset.style == "instruct"):
        found["style"] = preset.style
        found["template"] = preset.template if options.template is None else options.template
        found["stop"] = preset.stop if options.stop is None and options.template is None else options.stop
    return dataclasses.replace(options, **found)


def settings(path: Path) -> Settings:
    """Return what a TOML file says about how a model is asked: any field of ``Options``, prefix, title, year, released.

    Raises:
        DataError: a key is unknown or its value is of the wrong kind; the message names file, line and value.
    """
    top = read(path, "a file of settings")
    top.only([*_CHECKS, *_ABOUT])
    values = {key: _value(top, key, {**_CHECKS, **_ABOUT}[key]) for key in top.values}
    return Settings(
        {key: value for key, value in values.items() if key in _CHECKS},
        **{key: value for key, value in values.items() if key in _ABOUT},
    )


def presets(path: Path = TABLE) -> dict[str, Preset]:
    """Return a table of presets.

    Raises:
        DataError: a row has an unknown key, or a setting without its source.
    """
    top = read(path, "a table of presets")
    return {name: _preset(top.table(name, f"the preset {name}"), name) for name in top.values}


@cache
def _by_name() -> dict[str, Preset]:
    return {name.casefold(): preset for preset in presets().values() for name in preset.names}


def _preset(row: Table, name: str) -> Preset:
    row.only([*_PRESET, "short", "source"])
    given = {key: _value(row, key, _PRESET[key]) for key in row.values if key in _PRESET}
    source = row.table("source", "the sources")
    for key in given:
        if key not in source.values:
            raise row.error(f"the setting {key!r} has no source.", key, hint=f'Add {key} = "…" to its sources.')
    source.only(given)
    short = _texts(row.values.get("short", []), row, "short")
    return Preset(name, {key: source.text(key) for key in source.values}, short, **given)


# Checks of values: each takes a value, its table and its key, and returns what the field holds.

_Check = Callable[[Any, Table, str], Any]


def _value(table: Table, key: str, check: _Check) -> Any:  # noqa: ANN401
    return check(table.values[key], table, key)


def _one_of(*known: str) -> _Check:
    def check(value: Any, table: Table, key: str) -> Any:  # noqa: ANN401
        if value not in known:
            raise table.error(f"{key!r} is {value!r}.", key, hint=did_you_mean(str(value), known))
        return value

    return check


def _of(what: str, *types: type, least: float | None = None) -> _Check:
    def check(value: Any, table: Table, key: str) -> Any:  # noqa: ANN401
        # bool is an int and a moment is a day, to Python.
        wrong = type(value) not in types or isinstance(value, datetime)
        if wrong or (least is not None and value < least):
            raise table.error(f"{key!r} is {value!r}, which is no {what}.", key)
        return value

    return check


def _texts(value: Any, table: Table, key: str) -> tuple[str, ...]:  # noqa: ANN401
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(text, str) and text for text in listed):
        raise table.error(f"{key!r} is {value!r}, which is no list of texts.", key, hint=f'Write {key} = ["…"].')
    return tuple(listed)


def _template(value: Any, table: Table, key: str) -> str:  # noqa: ANN401
    if not isinstance(value, str) or "{question}" not in value:
        raise table.error(f"{key!r} is {value!r}, which has no place for the question.", key, hint="Write {question}.")
    return value


_FLAG, _TEXT, _DAY = _of("true or false", bool), _of("text", str), _of("day, as 2024-05-01", date)
_COUNT = _of("number from 1 on", int, least=1)
_SECONDS = _of("number from 0 on", int, float, least=0)

_ABOUT: Final[Mapping[str, _Check]] = {"prefix": _FLAG, "title": _TEXT, "year": _COUNT, "released": _DAY}

_CHECKS: Final[Mapping[str, _Check]] = {
    "style": _one_of(*get_args(Style)),
    "device": _TEXT,
    "dtype": _one_of(*DTYPES),
    "revision": _TEXT,
    "max_new_tokens": _COUNT,
    "pickled": _FLAG,
    "template_day": _DAY,
    "temperature": _SECONDS,
    "top_p": _SECONDS,
    "seed": _of("whole number from 0 on", int, least=0),
    "stop": _texts,
    "base_urls": _texts,
    "concurrency": _COUNT,
    "deadline_s": _SECONDS,
    "api_key_env": _TEXT,
    "architecture": _one_of(*get_args(Architecture)),
    "bos": _FLAG,
    "template": _template,
    "quantised": _one_of(*get_args(Quantised)),
}
"""Every field of Options that a file may give."""

_PRESET: Final[Mapping[str, _Check]] = {
    key: {**_CHECKS, **_ABOUT, "kind": _one_of("local", "openai", "anthropic"), "remote_code": _FLAG}[key]
    for key in ("kind", "released", "year", "style", "template", "bos", "prefix", "dtype", "stop", "remote_code")
}
