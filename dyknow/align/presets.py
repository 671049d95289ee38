"""The settings of the editing methods: by preset, by model, and the user's own over them."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from dyknow.align.base import Settings
from dyknow.align.structure import Structure
from dyknow.tomlfile import did_you_mean
from kg.errors import UsageError

HPARAMS: Final = Path(__file__).resolve().parent / "hparams"
PRESETS: Final = ("recommended", "original", "paper")

_GATED_ROME, _PLAIN, _GATED_MEMIT, _MEMIT_BLOCKS = 0.17, 0.36, 0.27, 5
_QUANT = re.compile(r"\.(i?q\d\w*|f16|bf16|f32)$")  # how a GGUF file's name ends


@dataclass(frozen=True)
class Editing:
    """What ROME and MEMIT share.

    Attributes:
        steps: How often a value's loss is computed.
        lr: Adam's step.
        weight_decay: Factor of the value's change, |delta| / |value|^2.
        clamp: How long the change may be, in lengths of the value.
        kl: Factor of the essence term, which keeps "{subject} is a" as it was.
        stop_loss: Below it a value is done.
        contexts: Texts drawn from the model and put before the prompt: (tokens, how many) of each group.
        covariance: Whether keys are weighed by second moments of a corpus; otherwise by the identity.
        ridge: Added to the second moments, in mean eigenvalues.
        max_tokens: How much of the corpus is read.
        window: Tokens that are read together.
        batch_tokens: Tokens computed at once.
        max_perplexity: By what factor the perplexity of a plain text may grow before an edit is given up.
        max_nll: By how much the target's negative log-likelihood may grow through its edit before it is given up.
    """

    steps: int
    lr: float
    weight_decay: float
    clamp: float
    kl: float
    stop_loss: float
    contexts: tuple[tuple[int, int], ...]
    covariance: bool
    ridge: float
    max_tokens: int
    window: int
    batch_tokens: int
    max_perplexity: float
    max_nll: float

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values, under the names they are given by; no limit is null."""
        return {each.name.rstrip("_"): _plain(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True)
class Rome(Editing):
    """ROME's settings: also the block that is edited, and which key stands where."""

    layer: int
    key: str  # "original": the mean key weighs, the bare prompt's is met; "homogeneous": the mean key in both places


@dataclass(frozen=True)
class Memit(Editing):
    """MEMIT's settings: also the blocks, the weight of what the model knew before, and how the equations are solved."""

    layers: tuple[int, ...]
    lambda_: float
    solver: str  # "direct" in d_ff, "woodbury" in the number of edits, "auto": whichever is smaller
    batch: int  # edits at a time; 0: all at once


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if value == float("inf") else value


_Method = TypeVar("_Method", Rome, Memit)

_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "key": ("original", "homogeneous"),
    "solver": ("auto", "direct", "woodbury"),
}


def rome(structure: Structure, settings: Settings) -> Rome:
    """Return ROME's settings for a model.

    Raises:
        UsageError: a preset or option is unknown, or a value is none for it.
        AlignError: the model has no such block.
    """
    found = _merged("rome", structure, settings)
    blocks = len(structure.blocks)
    found.setdefault("layer", round((_GATED_ROME if structure.gated else _PLAIN) * blocks))
    options = _checked(Rome, found)
    structure.check([options.layer])
    return options


def memit(structure: Structure, settings: Settings) -> Memit:
    """Return MEMIT's settings for a model.

    Raises:
        UsageError: a preset or option is unknown, or a value is none for it.
        AlignError: the model has no such block.
    """
    found = _merged("memit", structure, settings)
    last = round((_GATED_MEMIT if structure.gated else _PLAIN) * len(structure.blocks))
    found.setdefault("layers", list(range(max(0, last - _MEMIT_BLOCKS + 1), last + 1)))
    options = _checked(Memit, found)
    structure.check(options.layers)
    if not options.layers or list(options.layers) != sorted(set(options.layers)):
        raise UsageError(f"layers is {list(options.layers)}.", hint="Give different blocks, lowest first.")
    return options


def _merged(method: str, structure: Structure, settings: Settings) -> dict[str, Any]:
    table = tomllib.loads((HPARAMS / f"{method}.toml").read_text(encoding="utf-8"))
    if settings.preset not in PRESETS:
        hint = did_you_mean(settings.preset, PRESETS)
        raise UsageError(f"{settings.preset!r} is no preset.", hint=hint)
    preset = table[settings.preset]
    kind = preset.get("gated" if structure.gated else "plain", {})
    name = _QUANT.sub("", structure.local.name.casefold().rsplit("/", 1)[-1])
    own: dict[str, Any] = next((row for row in preset.get("model", []) if name in row["names"]), {})
    plain = {key: value for key, value in preset.items() if not isinstance(value, dict) and key != "model"}
    return {
        **table["defaults"],
        **plain,
        **kind,
        **{key: value for key, value in own.items() if key != "names"},
        **settings.options,
    }


def _checked(kind: type[_Method], found: Mapping[str, Any]) -> _Method:
    known = {each.name.rstrip("_"): each for each in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key not in known:
            raise UsageError(f"{key!r} is no option of {kind.__name__.upper()}.", hint=did_you_mean(key, list(known)))
        values[known[key].name] = _value(key, value, cast("type", known[key].type))
    return kind(**values)


def _value(key: str, value: Any, kind: Any) -> Any:  # noqa: ANN401
    """Return a value as its field holds it."""
    if key in _CHOICES and value not in _CHOICES[key]:
        raise UsageError(f"{key} is {value!r}.", hint=did_you_mean(str(value), _CHOICES[key]))
    if key == "contexts":
        return _pairs(key, value)
    if key == "layers":
        return tuple(_number(key, each, whole=True) for each in _listed(key, value))
    if kind is bool:
        if not isinstance(value, bool):
            raise UsageError(f"{key} is {value!r}.", hint="Give true or false.")
        return value
    return value if kind is str else _number(key, value, whole=kind is int)


def _pairs(key: str, value: Any) -> tuple[tuple[int, int], ...]:  # noqa: ANN401
    pairs = [tuple(_number(key, each, whole=True) for each in _listed(key, pair)) for pair in _listed(key, value)]
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"{key} is {value!r}.", hint="Give pairs of tokens and how many texts: [[10, 5]].")
    return cast("tuple[tuple[int, int], ...]", tuple(pairs))


def _listed(key: str, value: Any) -> Sequence[Any]:  # noqa: ANN401
    if not isinstance(value, (list, tuple)):
        raise UsageError(f"{key} is {value!r}.", hint="Give a list.")
    return value


def _number(key: str, value: Any, *, whole: bool) -> Any:  # noqa: ANN401
    right = isinstance(value, int) if whole else isinstance(value, (int, float))
    if not right or isinstance(value, bool) or value < 0:
        raise UsageError(f"{key} is {value!r}.", hint=f"Give a {'whole ' if whole else ''}number from 0 on.")
    return value if whole else float(value)
