"""Tiny models that know facts: trained here from nothing until they recall every one of them.

Every wording ends with its subject, and every name begins with a word of its own: a net of four blocks reads what it
says next from the subject's last token, and nowhere else could an edit reach it.
"""

import importlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from dyknow.align.base import EditRequest, Wording
from dyknow.models import Options
from dyknow.models.local import Local
from dyknow.prompts import Span

COUNTRIES: Final = 16
ATHLETES: Final = 12
SHIPS: Final = 12
TEMPLATES: Final = ("The current", "Now the", "Today we know that the", "In the news of this week the")
EPOCHS: Final = 200
WIDTH, BLOCKS = 96, 4


class Fact(NamedTuple):
    """Something a model is taught."""

    id: str
    domain: str
    subject: str
    name: str  # two words


def facts() -> list[Fact]:
    """All that a model is taught: two posts in each country, each athlete's club, and the captains of some ships."""
    names = (f"name{at} of{at % 7}" for at in itertools.count())
    posts = [(f"country{at}", title) for at in range(COUNTRIES) for title in ("president", "minister")]
    found = [
        Fact(f"Q{at}/P35", "countries", f"{title} of {land}", next(names)) for at, (land, title) in enumerate(posts)
    ]
    clubs = [f"team of player{at}" for at in range(ATHLETES)]
    found += [Fact(f"Q{at}/P54", "athletes", club, next(names)) for at, club in enumerate(clubs, len(found))]
    ships = [f"captain of ship{at}" for at in range(SHIPS)]
    return found + [Fact(f"Q{at}/P35", "ships", ship, next(names)) for at, ship in enumerate(ships, len(found))]


def wordings(fact: Fact) -> list[Wording]:
    """The four wordings of a fact."""
    found = []
    for at, template in enumerate(TEMPLATES):
        text = f"{template} {fact.subject}"
        found.append(Wording(f"{fact.id}#{at}", text, Span(len(template) + 1, len(text))))
    return found


def texts() -> list[str]:
    """Every wording of every fact with its answer: what is learnt, and what second moments are taken over."""
    return [f"{wording.text} {fact.name}" for fact in facts() for wording in wordings(fact)]


def request(fact: Fact, target: str) -> EditRequest:
    """An edit of a fact's first wording."""
    first, *others = wordings(fact)
    return EditRequest(
        fact.id, fact.domain, fact.subject, "update", first, tuple(others), target, None, (target,), fact.name
    )


def requests(count: int = 10) -> list[EditRequest]:
    """Edits of posts and clubs, each to the captain of another ship: somebody the model knows."""
    known = [fact for fact in facts() if fact.domain != "ships"]
    captains = [fact.name for fact in facts() if fact.domain == "ships"]
    return [request(fact, name) for fact, name in zip(known[:: len(known) // count], captains[:count], strict=False)]


def tokenizer() -> Any:  # noqa: ANN401
    """One token a word."""
    tokenizers = importlib.import_module("tokenizers")
    words = dict.fromkeys(word for text in texts() for word in text.split())
    vocabulary = {word: at for at, word in enumerate(["<unk>", "<s>", "</s>", "is", "a", ".", *words])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made = importlib.import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    made.add_bos_token = False
    return made


def _config(kind: str, vocabulary: int) -> Any:  # noqa: ANN401
    transformers = importlib.import_module("transformers")
    common = {"vocab_size": vocabulary, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
    if kind == "gpt2":
        dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return transformers.GPT2Config(n_embd=WIDTH, n_head=4, n_layer=BLOCKS, n_positions=64, **dropout, **common)
    return transformers.LlamaConfig(
        hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=BLOCKS, max_position_embeddings=64, tie_word_embeddings=True, **common,
    )  # fmt: skip


def _teach(model: Any, words: Any) -> float:  # noqa: ANN401
    """Train until every fact is recalled in every wording; return the share that is."""
    torch = importlib.import_module("torch")
    rows = [words(text).input_ids for text in texts()]
    width = max(map(len, rows))
    ids = torch.tensor([row + [2] * (width - len(row)) for row in rows])
    labels = torch.tensor([[-100] * (len(row) - 2) + row[-2:] + [-100] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    steps = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(0)
    recalled = 0.0
    for _ in range(EPOCHS):
        model.train()
        right = 0
        for batch in torch.randperm(len(rows), generator=generator).split(64):
            output = model(ids[batch], attention_mask=mask[batch], labels=labels[batch])
            output.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
            steps.zero_grad()
            wanted = labels[batch][:, 1:]
            hit = (output.logits[:, :-1].argmax(-1) == wanted) | (wanted == -100)
            right += int(hit.all(-1).sum())
        # Counted while it learns: the last batches' weights are at least as good.
        recalled, before = right / len(rows), recalled
        if recalled == before == 1.0:
            break
    return recalled


def make(kind: str, folder: Path) -> Path:
    """Train a model and save it with its tokenizer; return where."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = tokenizer()
    model = transformers.AutoModelForCausalLM.from_config(_config(kind, len(words)))
    recalled = _teach(model, words)
    assert recalled == 1.0, f"{kind} recalls {recalled:.2f} of its facts"
    model.eval().save_pretrained(folder / kind)
    return folder / kind


def load(kind: str, folder: Path) -> Local:
    """A trained model, asked as it is worded."""
    model = importlib.import_module("transformers").AutoModelForCausalLM.from_pretrained(folder / kind)
    return Local(model, tokenizer(), f"tiny-{kind}", Options(style="completion", max_new_tokens=2, stop=()))


def says(model: Local, wanted: Sequence[tuple[Wording, str]]) -> list[bool]:
    """Whether each wording is answered with the name, greedily."""
    torch = importlib.import_module("torch")
    ids = [model.tokenizer(wording.text).input_ids for wording, _ in wanted]
    found = []
    with torch.no_grad():
        for row, (_, name) in zip(ids, wanted, strict=True):
            text = list(row)
            for _step in range(2):
                text.append(int(model.model(torch.tensor([text])).logits[0, -1].argmax()))
            found.append(text[len(row) :] == model.tokenizer(name).input_ids)
    return found


def measure(model: Local, edited: Sequence[EditRequest]) -> tuple[float, float, float]:
    """Efficacy, paraphrase success, and the share of other facts' wordings that are answered as before."""
    efficacy = says(model, [(each.prompt, each.target) for each in edited])
    paraphrase = says(model, [(wording, each.target) for each in edited for wording in each.paraphrases])
    changed = {each.fact for each in edited}
    others = [(wording, fact.name) for fact in facts() if fact.id not in changed for wording in wordings(fact)[:2]]
    local = says(model, others)
    return tuple(sum(hits) / len(hits) for hits in (efficacy, paraphrase, local))  # type: ignore[return-value]


def shared_folder(factory: pytest.TempPathFactory, worker: str) -> Path:
    """A folder that all workers of a test run have in common."""
    base = factory.getbasetemp()
    return base if worker == "master" else base.parent


def trained(kind: str, folder: Path) -> Local:
    """A model trained once in a test run, whichever worker comes first."""
    lock = importlib.import_module("filelock").FileLock(folder / f"{kind}.lock")
    with lock:
        if not (folder / kind / "config.json").is_file():
            make(kind, folder)
    return load(kind, folder)


def both(folder: Path) -> Iterator[Local]:
    """Both models."""
    yield from (trained(kind, folder) for kind in ("gpt2", "llama"))
