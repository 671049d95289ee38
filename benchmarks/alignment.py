"""All alignment methods on the facts that SmolLM2 itself has outdated: one table, on one footing.

``python -m benchmarks.alignment FOLDER [METHOD ...]`` keeps its runs in FOLDER, so that it goes on where it stopped;
what stands there is not edited again. Every method edits the same facts, planned from the model's own answers as it
writes on. Weight methods, IKE and the control are asked that way, as they are meant to be; RAG and SERAC follow an
instruction and are asked in a chat.

Where FOLDER holds ``texts.jsonl`` (``python -m benchmarks.wikitext``), "rome, general text" and "memit, general text"
take their second moments from it; ``LIMIT=20`` in the environment edits so many facts instead of ten.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

AS_OF: Final = "2023-12-18"
LIMIT: Final = int(os.environ.get("LIMIT", "10"))
COMPLETION, CHAT = "smol", "smolchat"


class Way(NamedTuple):
    """A method with its settings, and the run whose model it edits."""

    method: str
    run: str
    settings: tuple[str, ...] = ()


GENERAL: Final = ("--documents", "texts.jsonl", "--set", "max_tokens=40000")

WAYS: Final = {
    "none": Way("none", COMPLETION),
    "none, chat": Way("none", CHAT),
    "rome": Way("rome", COMPLETION),
    "rome, paper": Way("rome", COMPLETION, ("--preset", "paper")),
    "rome, general text": Way("rome", COMPLETION, (*GENERAL, "--set", "key=original")),
    "memit": Way("memit", COMPLETION),
    "memit, general text": Way("memit", COMPLETION, GENERAL),
    "ft": Way("ft", COMPLETION),
    "lora": Way("lora", COMPLETION),
    "ike": Way("ike", COMPLETION),
    "ike, realistic": Way("ike", COMPLETION, ("--set", "mode=realistic")),
    "ike, null": Way("ike", COMPLETION, ("--set", "mode=null")),
    "rag, gold": Way("rag", CHAT, ("--set", "mode=gold")),
    "rag, retrieved": Way("rag", CHAT, ("--set", "mode=retrieved")),
    "rag, noise": Way("rag", CHAT, ("--set", "mode=noise")),
    "serac": Way("serac", CHAT),
}


def dyknow(folder: Path, *words: str) -> str:
    """Call the command line in a folder and return what it says."""
    command = [sys.executable, "-m", "dyknow.cli", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True).stdout


def begin(folder: Path) -> None:
    """Ask the model in both styles, and plan the edits."""
    folder.mkdir(parents=True, exist_ok=True)
    for run, style, count in ((COMPLETION, "completion", 390), (CHAT, "chat", 3)):
        if not (folder / "runs" / run).is_dir():
            dyknow(folder, "run", "smollm2", "--style", style, "--run-id", run, "--limit", str(count))
    if not (folder / "plan.jsonl").is_file():
        dyknow(folder, "align", "plan", COMPLETION, "--as-of", AS_OF, "--out", "plan.jsonl")


def one(folder: Path, name: str) -> dict[str, Any]:
    """Edit by one method, and return what it achieved and did beside its aim."""
    way = WAYS[name]
    words = ("--as-of", AS_OF, "--requests", "plan.jsonl", "--limit", str(LIMIT), "--format", "json", *way.settings)
    found: dict[str, Any] = json.loads(dyknow(folder, "align", "edit", way.method, way.run, *words))
    return found


def line(name: str, found: dict[str, Any]) -> str:
    """Return a method's figures as a row of a Markdown table."""
    [scores], [beside] = [row for row in found["edits"] if row["domain"] == "all"], found["beside"]
    per_cent = [f"{scores[key]:.0f}" for key in ("efficacy", "paraphrase", "harmonic_mean", "soft")]
    shares = [f"{100 * beside[key]:.0f}" for key in ("exact", "first_word", "neighbours_exact")]
    kl = "" if beside["kl"] is None else f"{beside['kl']:.3f}"
    cost = [f"{beside['seconds_an_edit']:.1f}", f"{beside['peak_gib']:.1f}"]
    mirrored = f"{beside['mirrored_right']}/{beside['mirrored']}"
    return "| " + " | ".join([name, *per_cent, *shares, kl, f"{beside['fluency']:.2f}", mirrored, *cost]) + " |"


HEAD: Final = (
    "| method | E | P | HM | soft | same text | same word | neighbours | KL | fluency | mirrored | s/edit | GiB |\n"
    "|---|" + "---:|" * 12
)

if __name__ == "__main__":
    place = Path(sys.argv[1])
    begin(place)
    print(HEAD)
    for chosen in sys.argv[2:] or WAYS:
        if GENERAL[1] in WAYS[chosen].settings and not (place / GENERAL[1]).is_file():
            print(f"| {chosen} | there is no {GENERAL[1]} |")
            continue
        print(line(chosen, one(place, chosen)), flush=True)
