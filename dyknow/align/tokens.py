"""An edit's tokens: the prompt exactly as it is asked, the last token of its subject, and the target's.

Rows are put together from token ids; no text is made of ids and read again.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from dyknow.align.base import EditRequest
from dyknow.benchmark import Question
from dyknow.models.extras import need, quiet
from dyknow.models.local import Local
from dyknow.prompts import Span
from kg.errors import AlignError, ModelError

STARTS = ("The", "Therefore", "Because", "I", "You")
"""How generated contexts begin, in turn. Source: EasyEdit's get_context_templates."""

_LIKELIEST = 5  # ROME's generate_fast: top_k=5


class Prompt(NamedTuple):
    """A prompt's tokens and the place of its subject's last one."""

    ids: list[int]
    subject: int


class Row(NamedTuple):
    """A text of an edit, cut before its subject's last token, which everything before it cannot see."""

    head: list[int]
    tail: list[int]  # begins with the subject's last token
    picks: list[int]  # columns of the tail whose logits are wanted
    targets: list[int]  # the token that should follow each; empty where the distribution itself is wanted


class Prepared(NamedTuple):
    """An edit as rows of tokens."""

    request: EditRequest
    rows: list[Row]  # the bare prompt with its target, then behind each context
    types: list[int]  # of each row's context: 0 is none, then one a length
    essence: Row  # "{subject} is a"


def locate(local: Local, text: str, subject: Span) -> Prompt:
    """Return a prompt as the model is asked it, and the last token that overlaps the subject's characters.

    Raises:
        AlignError: the span holds no words of the text, or the tokenizer or template hides where they went.
    """
    if not (0 <= subject.start < subject.end <= len(text) and subject.of(text).strip()):
        span = f"[{subject.start}, {subject.end})"
        raise AlignError(f"The characters {span} of {text!r} hold no subject.", hint="Mark the subject's own words.")
    try:
        placed = local.prompting.place(text)
    except ModelError as error:
        raise AlignError(error.message, hint="Take --style completion, or a fast tokenizer.") from error
    # The words alone: a blank at the span's end would belong to the next token.
    end = placed.start + subject.start + len(subject.of(text).rstrip())
    begin = placed.start + subject.start
    found = [at for at, (left, right) in enumerate(placed.spans) if left < end and right > begin and right > left]
    if not found:
        raise AlignError(f"No token of {text!r} holds its subject {subject.of(text)!r}.")
    return Prompt(placed.ids, found[-1])


def target_ids(local: Local, text: str, target: str) -> list[int]:
    """Return the tokens of a target as they would follow the prompt.

    Raises:
        AlignError: the target is empty.
    """
    if not target.strip():
        raise AlignError(f"The target for {text!r} is empty.", hint="Give what should be answered.")
    asked = cast("Question", SimpleNamespace(text=text))
    encoded = local.encode(asked)
    cut = local.prompting.continue_with(asked, [target.strip()])
    if len(cut.shared) == len(encoded.ids):
        return cut.tails[0]
    # The tokenizer joins the prompt's last letters to the target's first; the prompt must stay as it is asked.
    blank = "" if encoded.prompt[-1:].isspace() else " "
    return list(local.tokenizer(blank + target.strip(), add_special_tokens=False).input_ids)


def prepare(local: Local, request: EditRequest, contexts: Sequence[Sequence[str]] = ()) -> Prepared:
    """Return an edit as rows of tokens.

    Args:
        local: The model.
        request: The edit.
        contexts: Groups of texts that are put before the question, a group for each length.

    Raises:
        AlignError: the subject is not in the prompt, the target is empty, or the subject's last token is the first of
            all: models keep what has nothing to do with it there.
    """
    text, subject = request.prompt.text, Span(*request.prompt.subject)
    target = target_ids(local, text, request.target)
    bare = locate(local, text, subject)
    if bare.subject == 0:
        raise AlignError(
            f"The subject {subject.of(text)!r} is the first token of {text!r}, on which models rest their attention.",
            hint="Edit a wording that begins otherwise, or ask with a BOS: bos = true.",
        )
    rows, types = [_row(bare, target)], [0]
    for kind, group in enumerate(contexts, 1):
        for context in group:
            before = f"{context}. "
            moved = Span(subject.start + len(before), subject.end + len(before))
            rows.append(_row(locate(local, before + text, moved), target))
            types.append(kind)
    essence = locate(local, f"{subject.of(text)} is a", Span(0, len(subject.of(text))))
    cut = essence.subject
    return Prepared(request, rows, types, Row(essence.ids[:cut], essence.ids[cut : cut + 1], [0], []))


def _row(prompt: Prompt, target: Sequence[int]) -> Row:
    cut, last = prompt.subject, len(prompt.ids) - 1
    ids = [*prompt.ids, *target[:-1]]
    return Row(ids[:cut], ids[cut:], [last - cut + at for at in range(len(target))], list(target))


def contexts(local: Local, shape: Sequence[tuple[int, int]], seed: int) -> list[list[str]]:
    """Return texts drawn from the model itself, which an edit is made to hold behind; the global seed is untouched.

    Args:
        local: The model.
        shape: Of each group, how many tokens its texts have and how many there are.
        seed: Where the draws begin.
    """
    return [_draw(local, length, count, seed + at) for at, (length, count) in enumerate(shape) if count]


def _draw(local: Local, length: int, count: int, seed: int) -> list[str]:
    torch, transformers = need("torch"), need("transformers")
    starts = [_start(local, STARTS[at % len(STARTS)]) for at in range(count)]
    width = max(map(len, starts))
    # On the left, as for any generation.
    ids = torch.tensor([[local.pad()] * (width - len(start)) + start for start in starts], device=local.model.device)
    mask = torch.tensor([[0] * (width - len(start)) + [1] * len(start) for start in starts], device=local.model.device)
    saved = local.model.generation_config
    local.model.generation_config = transformers.GenerationConfig(do_sample=False)
    try:
        with torch.inference_mode(), quiet():
            output = local.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=length,
                min_new_tokens=length,
                pad_token_id=local.pad(),
                logits_processor=transformers.LogitsProcessorList([_Likeliest(seed)]),
            )
    finally:
        local.model.generation_config = saved
    texts = (local.tokenizer.decode(row, skip_special_tokens=True) for row in output.tolist())
    return [" ".join(text.split()).rstrip(". ") for text in texts]


def _start(local: Local, word: str) -> list[int]:
    ids = list(local.tokenizer(word, add_special_tokens=False).input_ids)
    bos = local.tokenizer.bos_token_id if local.prompting.bos else None
    return ids if bos is None else [bos, *ids]


class _Likeliest:
    """A logits processor that draws each next token from the few likeliest, with a generator of its own."""

    def __init__(self, seed: int) -> None:
        self._generator = need("torch").Generator().manual_seed(seed)

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401
        torch = need("torch")
        best = scores.float().cpu().topk(min(_LIKELIEST, scores.shape[-1]))
        drawn = torch.multinomial(best.values.softmax(-1), 1, generator=self._generator)
        chosen = best.indices.gather(-1, drawn).to(scores.device)
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen, 0.0)
