"""The models that can be asked: one table, and how a name on the command line finds its row.

==================================  =====================================================
``scripted:answers.toml``           answers from a table (CSV or TOML)
``smollm2``                         the demo model, SmolLM2-135M-Instruct
``folder/model.gguf``               a GGUF file
``folder`` or ``owner/name``        a model in a folder or on the hub
``gpt2-xl``                         a model with a preset, by a short name
``openai:gpt-4o``                   a model of OpenAI's, or of any server that speaks its protocol
``vllm:owner/name``                 the same, at vLLM's usual address on this machine unless another is given
``anthropic:claude-…``              a model of Anthropic's
``KIND:NAME``                       says the kind outright: ``local:smollm2``
==================================  =====================================================

How a known model is asked and when it came out: ``preset(name) -> Preset | None`` and
``release_date(name) -> Release(day, source)``. A file for ``--settings``:
``settings(path) -> Settings(options, prefix, title, year, released)``, where ``options`` are keyword arguments of
``Options``. A command line goes before such a file, a file before a preset.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dyknow.models import api, loading
from dyknow.models.base import Answer, Asked, Model, Options, Style
from dyknow.models.presets import Preset, Release, Settings, release_date, settings
from dyknow.models.presets import find as preset
from dyknow.models.scripted import load_scripted
from dyknow.tomlfile import did_you_mean
from kg.errors import UsageError

MODELS: Final[Mapping[str, Callable[[str, Options], Model]]] = {
    "scripted": lambda target, _: load_scripted(Path(target)),
    "smollm2": loading.load_smollm2,
    "gguf": loading.load_gguf,
    "local": loading.load_folder_or_hub,
    "openai": api.load_openai,
    "vllm": api.load_vllm,
    "anthropic": api.load_anthropic,
}


class Spec(NamedTuple):
    """What a model's name says: its kind, a key of ``MODELS``, and what that loader takes."""

    kind: str
    target: str


def parse(name: str) -> Spec:
    """Return the kind and the target of a model's name.

    >>> parse("scripted:answers.csv"), parse("gpt2-xl").kind, parse("models/small.gguf").kind, parse("smollm2").kind
    (Spec(kind='scripted', target='answers.csv'), 'local', 'gguf', 'smollm2')

    Raises:
        UsageError: it is empty, or begins with an unknown kind.
    """
    kind, colon, target = name.partition(":")
    if colon and not Path(name).exists():
        if kind not in MODELS or not target:
            raise UsageError(f"{name!r} names no model: {kind!r} is no kind.", hint=did_you_mean(kind, MODELS))
        return Spec(kind, target)
    if not name:
        raise UsageError("The model has no name.", hint="Try: dyknow run smollm2")
    if name == "smollm2":
        return Spec("smollm2", "")
    return Spec("gguf" if name.lower().endswith(".gguf") else "local", name)


def load_model(name: str, options: Options | None = None) -> Model:
    """Return the model of a name, ready to be asked.

    Raises:
        UsageError: the name says no kind that is known.
        ModelError: the model cannot be loaded.
        DataError: a script cannot be read.
    """
    spec = parse(name)
    return MODELS[spec.kind](spec.target, options or Options())


__all__ = [
    "MODELS",
    "Answer",
    "Asked",
    "Model",
    "Options",
    "Preset",
    "Release",
    "Settings",
    "Spec",
    "Style",
    "load_model",
    "parse",
    "preset",
    "release_date",
    "settings",
]
