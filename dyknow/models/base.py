"""What a model is to a run: a name, a record of itself, and answers in batches."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from dyknow.benchmark import Question

Style = Literal["auto", "chat", "completion", "instruct", "sentinel"]
Architecture = Literal["auto", "causal", "seq2seq"]
Quantised = Literal["8bit", "4bit"]

TEMPLATE_DAY: Final = date(2024, 7, 26)
"""The day told to chat templates that write one into the prompt: what Llama's own template falls back on.

Never the day of the run, or the same question would be another prompt tomorrow.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """How a model is to be loaded and asked.

    Attributes:
        style: "chat" puts a question into the tokenizer's chat template, "instruct" into ``template``, "completion"
            gives it as it is, "sentinel" lets a T5 fill the blank after it; "auto" takes the model's preset, else chat
            where there is a template and the model's name says that it follows instructions.
        device: "cpu", "cuda", "cuda:1", "mps", "auto" to spread it over all there are; None: cuda where there is one,
            else cpu.
        dtype: "float32", "bfloat16", "float16", or "auto" for the file's own; None: float32 on cpu, else "auto".
        revision: A hub model's commit, tag or branch.
        max_new_tokens: Tokens an answer may have; None: 24 for a completion, 48 in a chat.
        pickled: Accept weights that are no safetensors; unpickling runs code from the file.
        template_day: The day told to chat templates that ask for one.
        temperature: 0 is greedy: the likeliest token each time.
        top_p: Draw from the likeliest tokens that together have this probability; None: from all.
        seed: Where the random draws begin; each sample and question has its own beginning.
        stop: Texts that end an answer; None: the style's own rule.
        base_urls: Addresses of servers that all have the model; None: the kind's own.
        concurrency: How many requests each server has at a time.
        deadline_s: How many seconds a request to a server may take.
        api_key_env: The environment variable that holds the servers' key; None: the kind's own, for its own servers.
        architecture: "causal" or "seq2seq"; "auto": as the model's file says.
        bos: Whether a prompt begins with the tokenizer's BOS; None: as the tokenizer has it.
        template: For the style "instruct": a text with {question} in it.
        quantised: Load the weights in 8 or 4 bits; needs bitsandbytes.
    """

    style: Style = "auto"
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    max_new_tokens: int | None = None
    pickled: bool = False
    template_day: date = TEMPLATE_DAY
    temperature: float = 0.0
    top_p: float | None = None
    seed: int = 0
    stop: tuple[str, ...] | None = None
    base_urls: tuple[str, ...] | None = None
    concurrency: int = 4
    deadline_s: float = 120.0
    api_key_env: str | None = None
    architecture: Architecture = "auto"
    bos: bool | None = None
    template: str | None = None
    quantised: Quantised | None = None


class Answer(NamedTuple):
    """What came back for one question. ``text`` is None exactly where ``error`` says why."""

    text: str | None  # what is scored; "" where the model said nothing, or was cut off while it still thought
    finish_reason: str | None  # "stop" or "length", or the server's own word
    prompt: str  # exactly what the model was given
    prompt_tokens: int | None
    tokens: int | None
    error: str | None = None
    refused: bool = False  # the server declined or filtered the answer; it is kept and not asked again
    raw: str | None = None  # all that came back, where ``text`` is only a part of it (a reasoning model's thoughts)
    logprob: float | None = None  # of the answer's tokens in all, natural logarithm, where it is known
    ids_digest: str | None = None  # SHA-256 of the prompt's token ids, where we made them
    seconds: float | None = None  # from sending to the last byte; None: the batch's time is shared
    server: str | None = None  # the address that answered, without what is secret in it
    model: str | None = None  # the model's name as the server that answered reports it


class Asked(NamedTuple):
    """A question with its answer."""

    question: Question
    answer: Answer


class Model(Protocol):
    """Something that can be asked."""

    @property
    def name(self) -> str:
        """A short name for the run: "SmolLM2-135M-Instruct.Q4_1"."""
        ...

    def info(self) -> dict[str, Any]:
        """Return what the texts depend on: name, revision, files (name to SHA-256), dtype, style, sampling; and device.

        JSON values only. Two models with equal records (the device aside) give equal texts.
        """
        ...

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Ask, and yield the answers batch by batch, in an order of the model's choice.

        Args:
            questions: what to ask.
            batch_size: how many at a time at most.
            sample: which of several answers to the same question this is; it moves the beginning of random draws.

        Raises:
            ModelError: it cannot go on; batches yielded before stand.
        """
        ...


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
