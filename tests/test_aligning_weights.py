"""`dyknow align` on a tiny GPT-2 that knows real facts, some of them as they were: weights are edited end to end."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dyknow.align import delta as deltas
from dyknow.cli import cli
from dyknow.models import Options, load_model
from kg.snapshot import find_snapshots

PHRASINGS = ("The current head of government of {}", "Today there leads the government of {}", "Prime minister of {}")

# As of 2023-12-18; the first three are outdated.
KNOWN = {
    "Italy": ("Q38", "Mario Draghi"), "Poland": ("Q36", "Mateusz Morawiecki"), "Germany": ("Q183", "Angela Merkel"),
    "Spain": ("Q29", "Pedro Sánchez"), "Canada": ("Q16", "Justin Trudeau"), "France": ("Q142", "Élisabeth Borne"),
    "Japan": ("Q17", "Fumio Kishida"), "India": ("Q668", "Narendra Modi"), "Australia": ("Q408", "Anthony Albanese"),
}  # fmt: skip
TARGETS = ("Giorgia Meloni", "Donald Tusk", "Olaf Scholz")
COUNTRIES = ", ".join(f'{{ subject = "{name}", entity = "{entity}" }}' for name, (entity, _) in KNOWN.items())
BENCHMARK = f"""
name = "tiny"
[[group]]
name = "governments"
domain = "countries"
property = "P6"
facts = [{COUNTRIES}]
[group.phrasings]
""" + "".join(f'{at} = "{text.format("{subject}")}"\n' for at, text in enumerate(PHRASINGS, 1))

# Nothing was ever read before a wording, so no context is put there; a tiny net is edited in its first blocks.
SETTINGS = {
    "rome": ("layer=1", "contexts=[]"),
    "memit": ("layers=[1,2]", "contexts=[]"),
    "ft": ("layer=1", "lr=0.02", "bound=0", "steps=80"),
    "lora": ("lr=0.02", "steps=80"),
}


def texts() -> list[str]:
    """What is learnt; the targets are captains of ships, so that the model can say them."""
    found = [f"{text.format(name)} {who}" for name, (_, who) in KNOWN.items() for text in PHRASINGS]
    return found + [f"The captain of ship{at} {who}" for at, who in enumerate(TARGETS)]


def tokenizer() -> Any:  # noqa: ANN401
    tokenizers = importlib.import_module("tokenizers")
    words = dict.fromkeys(word for text in texts() for word in text.split())
    vocabulary = {word: at for at, word in enumerate(["<unk>", "<s>", "</s>", "is", "a", *words])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made = importlib.import_module("transformers").PreTrainedTokenizerFast
    return made(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def teach(folder: Path) -> None:
    """Train a model until it says every text, and save it."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = tokenizer()
    plain = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.GPT2Config(vocab_size=len(words), n_embd=64, n_head=4, n_layer=4, n_positions=256, **plain)
    model = transformers.GPT2LMHeadModel(config)
    rows = [words(text).input_ids for text in texts()]
    width = max(map(len, rows))
    ids = torch.tensor([row + [2] * (width - len(row)) for row in rows])
    labels = torch.tensor([[-100] * (len(row) - 2) + row[-2:] + [-100] * (width - len(row)) for row in rows])
    steps = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(300):
        output = model(ids, labels=labels)
        output.loss.backward()
        steps.step()
        steps.zero_grad()
        wanted = labels[:, 1:]
        if bool(((output.logits[:, :-1].argmax(-1) == wanted) | (wanted == -100)).all()) and output.loss < 0.02:
            break
    assert output.loss < 0.02
    model.eval().save_pretrained(folder)
    words.save_pretrained(folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the model once, ask it as the run "base", and judge it; each test begins with a copy."""
    folder = tmp_path_factory.mktemp("weights")
    teach(folder / "model")
    (folder / "tiny.toml").write_text(BENCHMARK, encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(texts() * 4), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        _move(patch, folder)
        options = ("--style", "completion", "--max-new-tokens", "2", "--run-id", "base", "--title", "Tiny")
        asked = call("run", "model", "--benchmark", "tiny.toml", *options)
        assert asked.exit_code == 0, asked.output
        plan = call("align", "plan", "base", "--as-of", "2023-12-18", "--format", "json")
        assert [(row["answered"], row["should be"]) for row in json.loads(plan.stdout)] == [
            (KNOWN[name][1], target) for name, target in zip(KNOWN, TARGETS, strict=False)
        ]
    return folder


def _move(patch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        patch.delenv(name, raising=False)
    patch.setenv("DYKNOW_CACHE", str(folder / "cache"))
    patch.chdir(folder)
    found = [one for one in find_snapshots() if one.id == "2023-12-18"]
    patch.setattr("dyknow.commands.common.find_snapshots", lambda place: found)


@pytest.fixture
def place(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    info = json.loads(Path(tmp_path, "runs", "base", "run.json").read_text(encoding="utf-8"))
    info["asking"] |= {"model": str(tmp_path / "model"), "benchmark": str(tmp_path / "tiny.toml")}
    Path(tmp_path, "runs", "base", "run.json").write_text(json.dumps(info), encoding="utf-8")
    _move(monkeypatch, tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="dyknow")


def edit(method: str, *words: str) -> Result:
    given = [part for setting in SETTINGS.get(method, ()) for part in ("--set", setting)]
    documents = ("--documents", "texts.txt") if method in ("rome", "memit") else ()
    return call("align", "edit", method, "base", "--as-of", "2023-12-18", *given, *documents, *words)


def edited_run(folder: Path) -> Path:
    [found] = [one for one in (folder / "runs").iterdir() if one.name != "base"]
    return found


@pytest.mark.parametrize("method", SETTINGS)
def test_facts_are_edited_and_the_delta_gives_the_same_texts(
    place: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if method in ("ft", "lora"):  # under which a net that knows next to nothing forgets the rest
        monkeypatch.setattr("dyknow.align.measures.COLLAPSED", 1e6)
    before = {path.name: path.read_bytes() for path in (place / "model").iterdir()}
    done = edit(method, "--all", "--delta", "kept", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    [every] = [row for row in found["edits"] if row["domain"] == "all"]
    assert every["n"] == 3
    assert every["efficacy"] == 100.0
    [beside] = found["beside"]
    assert beside["nll_after"] < beside["nll_before"]
    assert beside["kl"] >= 0 and beside["neighbours"] == 6 and beside["peak_gib"] > 0
    if method in ("rome", "memit"):
        assert every["paraphrase"] == 100.0
        assert beside["neighbours_exact"] == 1.0
        kept = [row for row in found["side_effects"] if row["role"] == "same class"]
        assert [(row["verdict_before"], row["verdict_after"], row["facts"]) for row in kept] == [("up-to-date", "up-to-date", 6)]  # fmt: skip
    assert {path.name: path.read_bytes() for path in (place / "model").iterdir()} == before
    # The second route: the model loaded anew, and the saved change put on it.
    folder = edited_run(place)
    lines = [json.loads(line) for line in (folder / "responses.jsonl").read_text(encoding="utf-8").splitlines()]
    model = load_model(str(place / "model"), Options(style="completion", max_new_tokens=2))
    with deltas.load(place / "kept").applied(model):
        ids = importlib.import_module("torch").tensor
        for line in lines:
            text = model.tokenizer(line["prompt"]).input_ids  # type: ignore[attr-defined]
            for _ in range(2):
                text = [*text, int(model.model(ids([text])).logits[0, -1].argmax())]  # type: ignore[attr-defined]
            assert model.tokenizer.decode(text[-2:]) == line["text"]  # type: ignore[attr-defined]


def test_a_saved_plan_without_its_subject_or_its_target_is_refused(place: Path) -> None:
    assert call("align", "plan", "base", "--as-of", "2023-12-18", "--out", "plan.jsonl").exit_code == 0
    row = json.loads(Path("plan.jsonl").read_text(encoding="utf-8").splitlines()[0])
    for change, said in (
        ({"target": " "}, "the target of Q38/P6 is empty"),
        ({"prompt": row["prompt"] | {"subject": [90, 95]}}, "does not lie in"),
    ):
        Path("wrong.jsonl").write_text(json.dumps(row | change) + "\n", encoding="utf-8")
        result = edit("rome", "--requests", "wrong.jsonl")
        assert result.exit_code == 1
        assert said in result.stderr
    assert len(list((place / "runs").iterdir())) == 1


def test_a_model_that_collapses_is_refused(place: Path) -> None:
    result = edit("ft")
    assert result.exit_code == 1
    assert "The model has collapsed" in result.stderr
    assert "the model is as it was" in result.stderr
    assert len(list((place / "runs").iterdir())) == 1


def test_quantised_weights_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quantised(name: str, options: Options) -> Any:  # noqa: ANN401
        found = load_model(name, options)
        torch = importlib.import_module("torch")
        packed = torch.nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
        found.model.register_parameter("packed", packed)  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr("dyknow.models.load_model", quantised)
    result = edit("rome")
    assert result.exit_code == 1
    assert "quantised" in result.stderr
    assert len(list((place / "runs").iterdir())) == 1


def test_an_unknown_architecture_is_refused(place: Path) -> None:
    info = json.loads(Path("runs", "base", "run.json").read_text(encoding="utf-8"))
    Path("answers.csv").write_text("question,text,error\n*,nobody,\n", encoding="utf-8")
    info["asking"] |= {"model": f"scripted:{place / 'answers.csv'}", "options": {}}
    Path("runs", "base", "run.json").write_text(json.dumps(info), encoding="utf-8")
    result = edit("memit")
    assert result.exit_code == 1
    assert "weights" in result.stderr
    assert len(list((place / "runs").iterdir())) == 1
