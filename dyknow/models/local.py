"""Language models on this machine, through transformers: those that write on, and those with an encoder.

In float32 on a CPU the same model, prompt and settings give the same text in every batch, drawn at random or not.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dyknow.benchmark import Question
from dyknow.models.base import Answer, Asked, Options
from dyknow.models.drawing import Drawing, seed_of
from dyknow.models.endings import Endings, Finished
from dyknow.models.extras import is_memory_error, need, quiet
from dyknow.models.prompting import SENTINEL, SENTINEL_END, Encoded, Prompting
from kg.errors import ModelError


class Record(NamedTuple):
    """What is known of where a model came from."""

    revision: str | None = None  # the hub's commit
    files: dict[str, str] | None = None  # names and their SHA-256
    preset: str | None = None  # whose suggestions were taken


class Local:
    """A model and its tokenizer, asked in batches.

    Args:
        model: A transformers model that generates, on its device.
        tokenizer: Its tokenizer.
        name: For the run and its record.
        options: How it is asked.
        record: Where it came from.

    Raises:
        ModelError: it cannot be asked in the style that is asked for.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        tokenizer: Any,  # noqa: ANN401
        name: str,
        options: Options | None = None,
        record: Record | None = None,
    ) -> None:
        options = options or Options()
        self.name = name
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.is_seq2seq = bool(model.config.is_encoder_decoder)
        self._options = options
        self._record = record or Record()
        ends = _ends(model, tokenizer)
        self.prompting = Prompting(tokenizer, name, options, ends, seq2seq=self.is_seq2seq)
        self._stop = self.prompting.stop if options.stop is None else options.stop
        self._max_new_tokens = options.max_new_tokens or self.prompting.max_new_tokens
        self._ends = ends
        if self.prompting.style == "sentinel":
            self._ends |= {tokenizer.convert_tokens_to_ids(SENTINEL_END)}

    def info(self) -> dict[str, Any]:
        """Return the record of the model."""
        style, day = self.prompting.style, self.prompting.template_day
        return {
            "name": self.name,
            "revision": self._record.revision,
            "files": self._record.files or {},
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "quantised": self._options.quantised,
            "device": str(self.model.device),
            "architecture": "seq2seq" if self.is_seq2seq else "causal",
            "preset": self._record.preset,
            "style": style,
            "template": self.prompting.text,
            "bos": self.prompting.bos,
            "template_day": day.isoformat() if day else None,
            "sampling": {**self._method(), "max_new_tokens": self._max_new_tokens, "stop": self._stop_rule()},
        }

    def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0) -> Iterator[list[Asked]]:
        """Yield the answers in batches of prompts of like length, longest first.

        A batch that does not fit into memory is asked in smaller ones, and so are all that follow; what was answered
        before stands. Longest first, so that this happens at the start.

        Raises:
            ModelError: not even a single prompt fits into memory, or the model fails.
        """
        waiting = sorted(map(self.encode, questions), key=lambda item: (-len(item.ids), item.question.id))
        room = batch_size * self._length(waiting[0]) if waiting else 0
        begin = 0
        while begin < len(waiting):
            # Shorter prompts take less memory each, so more of them fit.
            batch = waiting[begin : begin + max(1, min(batch_size, room // self._length(waiting[begin])))]
            answers = self._try(batch, sample)
            if answers is None:
                room = len(batch) // 2 * self._length(batch[0])
                continue
            begin += len(batch)
            yield answers

    def encode(self, question: Question) -> Encoded:
        """Return a question as the model is given it: text, and token ids with exactly one BOS where it wants one."""
        return self.prompting.encode(question)

    def decoder_start(self) -> list[int]:
        """Return the tokens that a decoder's answer begins behind.

        Raises:
            ModelError: the model's file does not say.
        """
        configs = (self.model.generation_config, self.model.config)
        found = [getattr(config, "decoder_start_token_id", None) for config in configs]
        start = next((token for token in found if token is not None), None)
        if start is None:
            hint = "Add decoder_start_token_id to its config.json."
            raise ModelError(f"{self.name} does not say which token its decoder begins with.", hint=hint)
        blank = [self.tokenizer.convert_tokens_to_ids(SENTINEL)] if self.prompting.style == "sentinel" else []
        return [int(start), *blank]

    def _length(self, item: Encoded) -> int:
        return len(item.ids) + self._max_new_tokens

    def _try(self, batch: Sequence[Encoded], sample: int) -> list[Asked] | None:
        """Return the answers of a batch, or None where it is too large."""
        try:
            return self._generate(batch, sample)
        except RuntimeError as error:
            if not is_memory_error(error):
                raise
            if len(batch) == 1:
                raise ModelError(
                    f"{self.name} does not fit into the memory of {self.model.device}.",
                    hint="Take --dtype bfloat16, another device, or a smaller model.",
                ) from error
        # Outside the handler: its traceback would keep the failed batch's tensors alive.
        need("torch").cuda.empty_cache()
        return None

    def _generate(self, batch: Sequence[Encoded], sample: int) -> list[Asked]:
        torch, options = need("torch"), self._options
        seeds = [seed_of(options.seed, sample, item.question.id) for item in batch]
        drawing = Drawing(options.temperature, options.top_p, seeds)
        endings = Endings(self.tokenizer, self._ends, self._stop, self.prompting.opens_thought(batch[0].question))
        inputs = self._inputs(batch)
        width = inputs["decoder_input_ids" if self.is_seq2seq else "input_ids"].shape[1]
        with torch.inference_mode(), quiet(), _plainly(self.model):
            output = self.model.generate(
                **inputs,
                max_new_tokens=self._max_new_tokens,
                eos_token_id=sorted(self._ends) or None,
                pad_token_id=self.pad(),
                logits_processor=need("transformers").LogitsProcessorList([drawing]),
                stopping_criteria=_stopping(endings, width) if self._stop else None,
            )
        rows = output[:, width:].tolist()  # (batch, new tokens)
        found = zip(batch, map(endings.finish, rows), drawing.logprobs(), strict=True)
        return [self._asked(item, end, logprobs) for item, end, logprobs in found]

    def _inputs(self, batch: Sequence[Encoded]) -> dict[str, Any]:
        torch = need("torch")
        width = max(len(item.ids) for item in batch)
        ids, mask = [], []  # (batch, width)
        for item in batch:
            missing = width - len(item.ids)
            padding, hidden = [self.pad()] * missing, [0] * missing
            # New tokens follow a prompt at once; an encoder's text is numbered from its first token.
            ids.append(item.ids + padding if self.is_seq2seq else padding + item.ids)
            mask.append([1] * len(item.ids) + hidden if self.is_seq2seq else hidden + [1] * len(item.ids))
        found = {"input_ids": ids, "attention_mask": mask}
        if self.is_seq2seq:
            found["decoder_input_ids"] = [self.decoder_start()] * len(batch)
        return {key: torch.tensor(value, device=self.model.device) for key, value in found.items()}

    def pad(self) -> int:
        """Return a token for where a batch has none: masked or cut off, so any will do."""
        known = self.tokenizer.pad_token_id
        return int(known) if known is not None else min(self._ends, default=0)

    def _asked(self, item: Encoded, end: Finished, logprobs: Sequence[float]) -> Asked:
        return Asked(
            item.question,
            Answer(
                end.text,
                end.reason,
                item.prompt,
                len(item.ids),
                end.tokens,
                raw=end.raw,
                logprob=round(sum(logprobs[: end.tokens]), 4),
                ids_digest=item.digest,
            ),
        )

    def _method(self) -> dict[str, Any]:
        if not self._options.temperature:
            return {"method": "greedy"}
        options = self._options
        return {"method": "drawn", "temperature": options.temperature, "top_p": options.top_p, "seed": options.seed}

    def _stop_rule(self) -> str | list[str]:
        if self._options.stop is not None:
            return list(self._options.stop)
        if self.prompting.style == "sentinel":
            return "end of the blank"
        return "first newline after text" if self._stop else "end of turn"


def _stopping(endings: Endings, width: int) -> Any:  # noqa: ANN401
    """Return the criteria that end a row where its answer ends."""
    torch = need("torch")

    def done(input_ids: Any, scores: Any, **_: object) -> Any:  # noqa: ANN401
        rows = input_ids[:, width:].tolist()
        return torch.tensor([endings.ended(row) for row in rows], device=input_ids.device)

    return need("transformers").StoppingCriteriaList([done])


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:  # noqa: ANN401
    """Return every token that ends a text or a turn, by the model's file and by the tokenizer."""
    listed = model.generation_config.eos_token_id if model.generation_config else None
    ids = [*(listed if isinstance(listed, list) else [listed]), tokenizer.eos_token_id]
    return frozenset(int(token) for token in ids if token is not None)


@contextlib.contextmanager
def _plainly(model: Any) -> Iterator[None]:  # noqa: ANN401
    """Set aside the sampling settings in the model's file: a repetition penalty there would change greedy texts."""
    saved = model.generation_config
    start = getattr(saved, "decoder_start_token_id", None)
    model.generation_config = need("transformers").GenerationConfig(do_sample=False, decoder_start_token_id=start)
    try:
        yield
    finally:
        model.generation_config = saved
