"""What a model is given: a question in its style, as text and as token ids, and what could follow it."""

import hashlib
import re
from collections.abc import Sequence
from datetime import date
from itertools import takewhile
from typing import Any, Final, NamedTuple

from dyknow.benchmark import Question
from dyknow.models.base import Options
from dyknow.models.endings import THOUGHT
from kg.errors import ModelError

SENTINEL: Final = "<extra_id_0>"
"""The blank that a T5 was trained to fill; what fills it stands between this and ``SENTINEL_END``."""

SENTINEL_END: Final = "<extra_id_1>"

_FOLLOWS_INSTRUCTIONS = re.compile(r"instruct|chat|flan|(?:^|[-_.])it(?:[-_.]|$)", re.IGNORECASE)
_COMPLETION_TOKENS = 24  # a name and a little; what a base model says next is no part of its answer
_CHAT_TOKENS = 48  # a chat model gets to the name by way of a sentence
_CLOCK = re.compile(r"""strftime_now\s*\(\s*(?P<quote>["'])(?P<form>.*?)(?P=quote)\s*\)""")


class Encoded(NamedTuple):
    """A question as the model is given it."""

    question: Question
    prompt: str
    ids: list[int]

    @property
    def digest(self) -> str:
        """SHA-256 of the token ids."""
        return hashlib.sha256(",".join(map(str, self.ids)).encode()).hexdigest()


class Placed(NamedTuple):
    """A question's tokens and the characters of the prompt that each was made of."""

    prompt: str
    ids: list[int]
    spans: list[tuple[int, int]]  # (0, 0) for a token that stands for no character
    start: int  # where in the prompt the question's own text begins


class Continued(NamedTuple):
    """A prompt and what may follow it, cut at a token where all agree."""

    shared: list[int]  # tokens that all begin with
    tails: list[list[int]]  # the rest of each


class Prompting:
    """Puts questions into a model's style.

    Args:
        tokenizer: The model's.
        name: The model's, which may say that it follows instructions.
        options: Style, template, BOS, day.
        ends: Tokens that end a text.
        seq2seq: Whether the question goes to an encoder and the answer begins a text of its own.

    Raises:
        ModelError: the style cannot be had with this tokenizer, or there is no BOS to begin with.
    """

    def __init__(self, tokenizer: Any, name: str, options: Options, ends: frozenset[int], *, seq2seq: bool) -> None:  # noqa: ANN401
        self._tokenizer = tokenizer
        self._ends = ends
        self._is_seq2seq = seq2seq
        self.style = _style(options, name, tokenizer, seq2seq)
        self.text = options.template if self.style == "instruct" else None
        self._template: str | None = None
        if self.style == "chat":
            self._template = _with_fixed_day(name, tokenizer.chat_template, options.template_day)
        asks_for_day = self._template is not None and self._template != tokenizer.chat_template
        self.template_day = options.template_day if asks_for_day else None
        self._wants_bos = options.bos
        self._bos = _bos(tokenizer, name, options.bos)

    @property
    def bos(self) -> str | None:
        """The BOS that prompts are made to begin with; None: what the template writes, or none."""
        return None if self._bos is None else str(self._tokenizer.bos_token)

    @property
    def max_new_tokens(self) -> int:
        """How many tokens an answer has where nobody says."""
        return _CHAT_TOKENS if self.style in ("chat", "instruct") else _COMPLETION_TOKENS

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts that end an answer where nobody says."""
        return ("\n",) if self.style == "completion" else ()

    def encode(self, question: Question) -> Encoded:
        """Return a question as the model is given it: text, and token ids with exactly one BOS where it wants one."""
        text = self._in_style(question.text)
        return Encoded(question, text, self._ids(text))

    def place(self, text: str) -> Placed:
        """Return a question's tokens, the ones ``encode`` gives, and where in the prompt each stands.

        Raises:
            ModelError: the tokenizer does not tell, or the chat template changes the question.
        """
        prompt = self._in_style(text)
        start = self._begin(text, prompt)
        ids, bos = self._ids(prompt), self._tokenizer.bos_token_id
        if not self._tokenizer.is_fast:
            raise ModelError("This tokenizer does not say which characters a token was made of.")
        whole = self._tokenizer(prompt, add_special_tokens=self.style != "chat", return_offsets_mapping=True)
        # A BOS may have been put before what the tokenizer gives, or taken away, and an EOS taken from its end.
        own, given = (sum(1 for _ in takewhile(lambda each: each == bos, row)) for row in (ids, whole.input_ids))
        spans = [(0, 0)] * own + [tuple(span) for span in whole.offset_mapping[given:]][: len(ids) - own]
        return Placed(prompt, ids, spans, start)

    def _begin(self, text: str, prompt: str) -> int:
        """Return where a question's text begins in its prompt."""
        marker = "\ue000"  # of the private use area: in no question and no template
        start = self._in_style(marker).find(marker)
        if start < 0 or not prompt.startswith(text, start):
            raise ModelError(f"The prompt does not hold the question as it is worded: {text!r}.")
        return start

    def continue_with(self, question: Question, candidates: Sequence[str]) -> Continued:
        """Return a question followed by each of several answers, as token ids.

        For models that write on; a decoder begins with ``answers``. A tokenizer may join the prompt's last letters to
        the answer's first; the cut then stands before them.
        """
        encoded = self.encode(question)
        wholes = [self._ids(text) for text in self._answered(encoded, candidates)]
        length = min((_agreeing(encoded.ids, whole) for whole in wholes), default=len(encoded.ids))
        return Continued(encoded.ids[:length], [whole[length:] for whole in wholes])

    def answers(self, candidates: Sequence[str]) -> list[list[int]]:
        """Return the token ids of answers that begin a text of their own, as a decoder's do."""
        return [list(self._tokenizer(text, add_special_tokens=False).input_ids) for text in candidates]

    def opens_thought(self, question: Question) -> bool:
        """Say whether the prompt ends inside a thought, as some chat templates have it."""
        return self.style == "chat" and self._in_style(question.text).rstrip().endswith(THOUGHT[0])

    def _in_style(self, text: str) -> str:
        if self.style == "chat":
            return self._render([{"role": "user", "content": text}], add_generation_prompt=True)
        if self.style == "sentinel":
            return f"{text} {SENTINEL}"
        return self.text.replace("{question}", text) if self.text else text

    def _answered(self, encoded: Encoded, candidates: Sequence[str]) -> list[str]:
        if self.style == "chat":
            return [self._chat_answered(encoded, text) for text in candidates]
        return [_joined(encoded.prompt, text) for text in candidates]

    def _chat_answered(self, encoded: Encoded, answer: str) -> str:
        turns = [{"role": "user", "content": encoded.question.text}, {"role": "assistant", "content": answer}]
        try:
            # Some templates put a blank before an answer and some do not: only they know.
            text = self._render(turns, continue_final_message=True).rstrip()
        except ValueError:  # a template that changes the answer, so that its end is not found
            text = ""
        if text.startswith(encoded.prompt) and text.endswith(answer):
            return text
        return _joined(encoded.prompt, answer, keep_blank=True)

    def _render(self, turns: list[dict[str, str]], **how: bool) -> str:
        return str(self._tokenizer.apply_chat_template(turns, tokenize=False, chat_template=self._template, **how))

    def _ids(self, text: str) -> list[int]:
        is_chat = self.style == "chat"
        # A template writes its special tokens itself; letting the tokenizer add its own would double them.
        ids = list(self._tokenizer(text, add_special_tokens=not is_chat).input_ids)
        if not (is_chat or self._is_seq2seq) and len(ids) > 1 and ids[-1] in self._ends:
            ids.pop()  # a tokenizer that closes its texts: the answer would begin after the end
        return self._with_its_bos(ids)

    def _with_its_bos(self, ids: list[int]) -> list[int]:
        bos = self._tokenizer.bos_token_id
        if bos is None or (self._bos is None and self._wants_bos is None):
            return ids
        while ids[:1] == [bos]:
            ids = ids[1:]
        return ids if self._bos is None else [bos, *ids]


def _joined(prompt: str, answer: str, *, keep_blank: bool = False) -> str:
    """Return an answer behind a prompt, with one blank between them or the line break that is there."""
    if keep_blank and prompt[-1:].isspace():
        return prompt + answer
    if prompt.endswith("\n"):
        return prompt + answer
    return f"{prompt.rstrip(' ')} {answer}"


def _agreeing(prompt: Sequence[int], whole: Sequence[int]) -> int:
    """Return how many tokens both begin with; one of the whole at least is left over."""
    most = min(len(prompt), len(whole) - 1)
    return next((at for at in range(most) if prompt[at] != whole[at]), most)


def _bos(tokenizer: Any, name: str, wanted: bool | None) -> int | None:  # noqa: ANN401
    bos: int | None = tokenizer.bos_token_id
    if wanted is None:
        return bos if bos is not None and tokenizer("a").input_ids[:1] == [bos] else None
    if wanted and bos is None:
        raise ModelError(f"The tokenizer of {name} has no BOS token.", hint="Take bos = false.")
    return bos if wanted else None


def _style(options: Options, name: str, tokenizer: Any, seq2seq: bool) -> str:  # noqa: ANN401
    style = options.style
    if style == "auto":
        return _own_style(options, name, tokenizer, seq2seq)
    if style == "chat" and not tokenizer.chat_template:
        hint = "Take --style completion, or --style instruct with a template of your own."
        raise ModelError(f"{name} has no chat template.", hint=hint)
    if style == "instruct" and "{question}" not in (options.template or ""):
        hint = 'Give one with {question} in it, in a file for --settings: template = "Question: {question}".'
        raise ModelError(f"The style instruct needs a template, and {name} has none.", hint=hint)
    if style == "sentinel" and not (seq2seq and _knows(tokenizer, SENTINEL)):
        raise ModelError(f"{name} fills no blanks: it is no T5 with {SENTINEL}.", hint="Take --style completion.")
    return style


def _own_style(options: Options, name: str, tokenizer: Any, seq2seq: bool) -> str:  # noqa: ANN401
    if options.template:
        return "instruct"
    follows = _FOLLOWS_INSTRUCTIONS.search(name)
    if tokenizer.chat_template and follows:
        return "chat"
    return "sentinel" if seq2seq and _knows(tokenizer, SENTINEL) and not follows else "completion"


def _knows(tokenizer: Any, token: str) -> bool:  # noqa: ANN401
    return tokenizer.convert_tokens_to_ids(token) not in (None, tokenizer.unk_token_id)


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
