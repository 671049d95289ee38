"""Models small enough to be made in a test: random weights, a vocabulary of words."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pytest

from dyknow.benchmark import Question
from dyknow.models import Answer
from dyknow.models.local import Local

WORDS = [
    "<unk>",
    "<s>",
    "</s>",
    "<|user|>",
    "<|assistant|>",
    "\n",
    "Paris",
    "London",
    "Rome",
    "a",
    "is",
    "The",
    "current",
]
TEMPLATE = "{{ bos_token }}{% for m in messages %}<|user|> {{ m.content }} {% endfor %}<|assistant|>"


def tokenizer(*, template: str | None = None, adds_bos: bool = True, adds_eos: bool = False, pad: bool = False) -> Any:  # noqa: ANN401
    tokenizers = importlib.import_module("tokenizers")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "removed")
    if adds_bos or adds_eos:
        single = f"{'<s> ' * adds_bos}$A{' </s>' * adds_eos}"
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    made = importlib.import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>" if pad else None
    )
    made.chat_template = template
    return made


def learnt(texts: Iterable[str], *, blanks: bool = False, adds_bos: bool = False, words_apart: bool = True) -> Any:  # noqa: ANN401
    """A byte-level BPE tokenizer learnt from texts.

    ``words_apart``: no token crosses a blank. ``blanks``: a T5's, which closes what it reads.
    """
    tokenizers = importlib.import_module("tokenizers")
    special = ["<unk>", "<s>", "</s>", *(BLANKS if blanks else [])]
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words_apart)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    if blanks or adds_bos:
        single = f"{'<s> ' * adds_bos}$A{' </s>' * blanks}"
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    return importlib.import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        bos_token=None if blanks else "<s>",
        eos_token="</s>",
        additional_special_tokens=BLANKS if blanks else None,
    )


VOCABULARY: Final = 400

BLANKS = ["<extra_id_0>", "<extra_id_1>"]

_SMALL: Final = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
_WIDE: Final = {**_SMALL, "intermediate_size": 32, "num_key_value_heads": 2}
_GPT: Final = {"n_embd": 16, "n_head": 2, "n_layer": 2}

FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "GPT2": _GPT,
    "GPTJ": {**_GPT, "rotary_dim": 4},
    "GPTNeoX": {**_SMALL, "intermediate_size": 32},
    "Bloom": {"hidden_size": 16, "n_head": 2, "n_layer": 2},
    "Falcon": _SMALL,
    "Llama": _WIDE,
    "Mistral": {**_WIDE, "sliding_window": 8},
    "Mixtral": {**_WIDE, "num_local_experts": 4},
    "Olmo": _WIDE,
}
"""By transformers' name of the family, what makes its configuration small."""


def causal(family: str, vocabulary: int = VOCABULARY) -> Any:  # noqa: ANN401
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.manual_seed(0)
    make: Callable[..., Any] = getattr(transformers, f"{family}Config")
    config = make(vocab_size=vocabulary, bos_token_id=1, eos_token_id=2, pad_token_id=None, **FAMILIES[family])
    return _lively(transformers.AutoModelForCausalLM.from_config(config))


def t5() -> Any:  # noqa: ANN401
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return _lively(transformers.T5ForConditionalGeneration(config))


def _lively(model: Any) -> Any:  # noqa: ANN401
    """Spread the weights, so that what comes next depends on the prompt and is no near tie."""
    torch = importlib.import_module("torch")
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() > 1 and "router" not in name:
                weights.mul_(8.0)
    return model.eval()


def assert_same(found: Mapping[str, Answer], expected: Mapping[str, Answer]) -> None:
    """Answers are the same; sums of floating-point numbers nearly so, for they depend on the batch."""
    assert {key: each._replace(logprob=None) for key, each in found.items()} == {
        key: each._replace(logprob=None) for key, each in expected.items()
    }
    for key, each in found.items():
        assert each.logprob == pytest.approx(expected[key].logprob, abs=1e-3)


def one_by_one(model: Local, question: Question, candidate: str) -> float:
    """The log-probability of an answer the naive way: the whole text through the model, nothing shared or padded."""
    torch = importlib.import_module("torch")
    encoded = model.encode(question)
    if model.is_seq2seq:
        start = model.decoder_start()
        tokens = start + list(model.tokenizer(candidate, add_special_tokens=False).input_ids)
        given = {"input_ids": torch.tensor([encoded.ids]), "decoder_input_ids": torch.tensor([tokens])}
        begin = len(start)
    else:
        cut = model.prompting.continue_with(question, [candidate])
        tokens, begin = cut.shared + cut.tails[0], len(cut.shared)
        given = {"input_ids": torch.tensor([tokens])}
    with torch.inference_mode():
        logprobs = model.model(**given, use_cache=False).logits[0].log_softmax(-1)
    return float(sum(logprobs[at - 1, tokens[at]] for at in range(begin, len(tokens))))
