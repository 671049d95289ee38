"""ROME and MEMIT on SmolLM2 against a plain transcription of both: seconds an edit, memory, and what they achieve.

``python -m benchmarks.editing``; each variant runs in a process of its own, so that its peak of memory is its own.
"""

import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from benchmarks import editing_plain
from dyknow import benchmark
from dyknow.align import measures, presets, requests, trace, verbalise, weights
from dyknow.align.base import EditRequest, Settings
from dyknow.align.memit import memit
from dyknow.align.rome import rome
from dyknow.models import Options, load_model
from dyknow.models.local import Local
from kg import answers, identity
from kg.snapshot import find_snapshots
from kg.store import open_store

NOW: Final = 20251130
LONG_AGO: Final = 20150101
MIX: Final = {"athletes": 5, "countries": 3, "organizations": 2}
VARIANTS: Final = ("rome", "plain rome", "memit", "plain memit")


class Measured(NamedTuple):
    """How a variant did."""

    seconds: float  # of the processor, an edit, second moments apart
    memory: float  # peak of the process, GiB
    efficacy: float
    paraphrase: float
    kl: float
    first_word: float


def edits(count: int = 10) -> list[EditRequest]:
    """Return edits of facts whose holder changed in ten years, of the study's domains in a fixed mixture."""
    store, same, asked = open_store(find_snapshots()[-1]), identity.load(), benchmark.load()
    sets = [list(answers.answers(store, same, day)) for day in (LONG_AGO, NOW)]
    left = dict(MIX)
    found = []
    for one in requests.changed(asked, *sets):
        if left.get(one.domain, 0):
            left[one.domain] -= 1
            found.append(one)
    return found[:: max(1, len(found) // count)][:count]


def corpus() -> list[str]:
    """Return the benchmark's statements in words: what second moments are taken over."""
    snapshot = find_snapshots()[-1]
    documents = verbalise.statement_documents(
        snapshot, open_store(snapshot), identity.load(), NOW, asked=benchmark.load().facts
    )
    return [document.text for document in documents]


def model(style: Any = "completion") -> Local:  # noqa: ANN401
    """Return SmolLM2 on one core."""
    importlib.import_module("torch").set_num_threads(1)
    found = load_model("smollm2", Options(style=style))
    assert isinstance(found, Local)
    return found


def says(asked: Local, wanted: Sequence[tuple[str, str]]) -> float:
    """Return the share of texts that are gone on with what was wanted, whatever the case."""
    questions = [measures._question(f"edit#{at}", text) for at, (text, _) in enumerate(wanted)]
    found: dict[str, str] = {}
    for batch in asked.generate(questions, 16):
        found |= {each.question.id: (each.answer.text or "").casefold() for each in batch}
    hits = [name.casefold() in found[each.id] for each, (_, name) in zip(questions, wanted, strict=True)]
    return sum(hits) / len(hits)


def short(request: EditRequest) -> str:
    """Return what names a target: a person's last name, a club's first two words without its initials."""
    words = request.target.split()
    return words[-1] if request.domain != "athletes" else " ".join([word for word in words if "." not in word][:2])


def judge(asked: Local, made: Sequence[EditRequest], before: measures.Observation) -> tuple[float, float, float, float]:
    """Return efficacy, paraphrase success, the drift of unrelated prompts and how often their first word stayed."""
    efficacy = says(asked, [(each.prompt.text, short(each)) for each in made])
    paraphrase = says(asked, [(other.text, short(each)) for each in made for other in each.paraphrases])
    drift = measures.drift(before, measures.observe(asked, measures.probes(), before))
    return efficacy, paraphrase, drift.kl or 0.0, drift.first_word


def one(variant: str, count: int = 10, **options: Any) -> Measured:  # noqa: ANN401
    """Run a variant here."""
    asked, made, texts = model(), edits(count), corpus()
    before = measures.observe(asked, measures.probes())
    settings = Settings(corpus=texts, options=options)
    method = rome if variant.endswith("rome") else memit
    structure = trace.adapt(asked)
    chosen = presets.rome(structure, settings) if method is rome else presets.memit(structure, settings)
    layers = [chosen.layer] if isinstance(chosen, presets.Rome) else chosen.layers
    weights.second_moments(structure, layers, settings, chosen)  # into the cache: they are measured once a model
    start = time.process_time()  # of one thread: what else the machine does falls on all alike
    if variant.startswith("plain"):
        plain = editing_plain.rome if method is rome else editing_plain.memit
        plain(asked, made, settings)
        seconds = (time.process_time() - start) / len(made)
        memory = _peak()
        return Measured(seconds, memory, *judge(asked, made, before))
    done = method(asked, made, settings, _silent)
    seconds = (time.process_time() - start) / len(made)
    memory = _peak()
    with done.applied() as edited:
        assert isinstance(edited, Local)
        return Measured(seconds, memory, *judge(edited, made, before))


def measure(count: int = 10) -> dict[str, Measured]:
    """Run every variant in a process of its own."""
    found = {}
    for variant in VARIANTS:
        command = [sys.executable, "-m", "benchmarks.editing", variant, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[variant] = Measured(*json.loads(done.stdout.splitlines()[-1]))
    return found


def show(found: dict[str, Measured]) -> str:
    """Return the figures as lines."""
    lines = []
    for variant in ("rome", "memit"):
        ours, plain = found[variant], found[f"plain {variant}"]
        ratio = plain.seconds / ours.seconds
        lines.append(
            f"{variant}: {ours.seconds:.1f} s an edit, {ours.memory:.2f} GiB;"
            f" plain {plain.seconds:.1f} s, {plain.memory:.2f} GiB; {ratio:.1f} times as fast"
        )
        for name, each in ((variant, ours), (f"plain {variant}", plain)):
            lines.append(
                f"  {name}: efficacy {each.efficacy:.2f}, paraphrase {each.paraphrase:.2f},"
                f" KL {each.kl:.3f}, first word kept {each.first_word:.2f}"
            )
    return "\n".join(lines)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _silent(_done: int, _of: int, _what: str) -> None:
    pass


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1], int(sys.argv[2]))))
    else:
        print(show(measure()))
