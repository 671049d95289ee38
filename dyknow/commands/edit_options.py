"""The options of commands that edit: which facts, by what settings, out of which files."""

from collections.abc import Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from dyknow.align.base import Operation
from dyknow.commands.common import F
from kg.errors import UsageError

operation_option = click.option(
    "--operation",
    type=click.Choice(["update", "add", "delete"]),
    default="update",
    show_default=True,
    help="Facts answered with an outdated holder; with none at all; or all that are answered, to be unlearnt.",
)


class Chosen(NamedTuple):
    """The options that say how facts are edited."""

    preset: str = "recommended"
    seed: int = 0
    options: Mapping[str, Any] = MappingProxyType({})
    documents: Path | None = None
    requests: Path | None = None
    limit: int | None = None
    operation: Operation = "update"
    neighbours: int = 20


def _value(text: str) -> Any:  # noqa: ANN401 -- a number, a truth value, a list or a text
    """Return what a text stands for.

    >>> _value("0.5"), _value("[4, 5]"), _value("given"), _value("true")
    (0.5, [4, 5], 'given', True)
    """
    import orjson  # noqa: PLC0415 -- only where a value is given

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _options(given: Iterable[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in given]
    for text, sign, _ in pairs:
        if not sign:
            raise UsageError(f"--set {text} has no value.", hint="Write --set layer=5, say.")
    return {key.strip(): _value(value) for key, _, value in pairs}


def edit_options(function: F) -> F:
    """Give a command the options of `Chosen`, and them as ``chosen``."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
        given = _options(kwargs.pop("set_"))
        fields = {name: kwargs.pop(name) for name in Chosen._fields if name != "options"}
        return function(*args, chosen=Chosen(options=given, **fields), **kwargs)

    command: Any = wrapped
    for option in reversed(_EDIT_OPTIONS):
        command = option(command)
    return command  # type: ignore[no-any-return]


_EDIT_OPTIONS = (
    click.option(
        "--preset",
        type=click.Choice(["recommended", "original", "paper"]),
        default="recommended",
        show_default=True,
        help="Settings: ours; those of the method's own paper; those of the study.",
    ),
    click.option(
        "--set", "set_", metavar="KEY=VALUE", multiple=True, help="A setting of the method, over the preset's."
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Where random draws begin."),
    operation_option,
    click.option(
        "--requests",
        "requests",
        type=click.Path(path_type=Path),
        help="Edit what this file asks for (align plan --out).",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Only so many edits: the first of a shuffle by --seed."),
    click.option(
        "--documents",
        type=click.Path(path_type=Path, exists=True),
        help="A folder or file of texts for RAG and second moments. Else the snapshot's statements in words.",
    ),
    click.option(
        "--neighbours",
        type=click.IntRange(min=0),
        default=20,
        show_default=True,
        help="Ask so many facts of the same class that are not edited before and after, to see whether they stay.",
    ),
)
