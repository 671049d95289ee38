"""A method's settings: a preset's, with one's own options over them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from dyknow.align.base import Settings
from dyknow.tomlfile import did_you_mean
from kg.errors import AlignError

Kind = TypeVar("Kind")


def chosen(kind: type[Kind], presets: Mapping[str, Mapping[str, Any]], settings: Settings, method: str) -> Kind:
    """Return a method's settings as its own dataclass.

    Raises:
        AlignError: there is no such preset or option.
    """
    if settings.preset not in presets:
        hint = did_you_mean(settings.preset, presets)
        raise AlignError(f"{method} has no preset {settings.preset!r}.", hint=hint)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in settings.options:
        if name not in known:
            raise AlignError(f"{method} has no option {name!r}.", hint=did_you_mean(name, known))
    return kind(**{**presets[settings.preset], **settings.options})


def one_of(method: str, name: str, value: object, allowed: tuple[Any, ...]) -> None:
    """Check that an option has one of the values it may have.

    Raises:
        AlignError: it has not.
    """
    if value not in allowed:
        raise AlignError(f"{method}'s {name} is {value!r}.", hint=f"One of {', '.join(map(str, allowed))}.")
