"""A small results file in which every macro, view and example of docs/sql.md finds something."""

from pathlib import Path

import orjson

from dyknow import results
from dyknow.beliefs import find_holders
from dyknow.editing import write_edits
from kg.snapshot import find_snapshots
from tests.journals import write_judgments, write_likelihoods, write_run, write_samples, write_strata
from tests.test_editing import request

SAID: dict[str, str | None] = {
    "Q38/P6#1": "Giorgia Meloni",
    "Q38/P6#2": "Mario Draghi, I think.",
    "Q38/P6#3": "a very good question",
    "Q36/P6#1": "Mateusz Morawiecki",
    "Q36/P6#2": "Mateusz Morawiecki",
    "Q36/P6#3": None,
    "Q11571/P54#1": "Juventus FC",
    "Q11571/P54#2": "Juventus FC\x1b[31m, of Turin; he came there in 2018 from Real Madrid, and left for Manchester United.",
    "Q11571/P54#3": "Manchester United F.C.",
    "Q969725/P54#1": "Tottenham Hotspur F.C.",
    "Q1033/P35#1": "Muhammadu Buhari",
}
SHORT: dict[str, str | None] = {
    "Q38/P6#1": "Mario Draghi",
    "Q38/P6#2": "Giuseppe Conte",
    "Q38/P6#3": "Giorgia Meloni",
    "Q11571/P54#1": "Juventus FC",
    "Q11571/P54#2": "Real Madrid CF",
    "Q11571/P54#3": "",
}


def write_runs(runs: Path) -> None:
    """Write five runs: answers with another judge and beliefs, several samples, and a model with one, then two edits."""
    one = write_run(runs, "gpt2-xl", SAID, {"Q36/P6#3": "error"})
    write_judgments(one, {"Q38/P6#1": "up-to-date", "Q38/P6#2": "irrelevant", "Q36/P6#1": "outdated"})
    held = find_holders(find_snapshots(), {"Q38/P6", "Q36/P6"})
    scores = {
        f"{fact}#1": {
            (one.entity, one.label): (-3.0 - number % 7, 1 + number % 4) for number, one in enumerate(holders)
        }
        for fact, holders in held.items()
    }
    write_likelihoods(one, scores)
    several = {question: (text, "Donald Tusk", text) for question, text in SAID.items() if text}
    write_samples(runs, "several", several)
    write_strata(write_run(runs, "base", SHORT))
    edits = [request("Q38/P6", "countries", "Giorgia Meloni"), request("Q11571/P54", "athletes", "Al-Nassr")]
    for count, name in enumerate(("smollm2_rome-1", "smollm2_rome-2023-12-18"), start=1):
        folder = write_run(runs, name, SHORT)
        write_edits(folder, edits[:count])
        info = orjson.loads((folder / "run.json").read_bytes())
        about = {"method": "rome", "mode": "sequential", "preset": "paper", "model": "m", "base_run": "base", "seed": 7}
        info["align"] = about | {"as_of": "2023-12-18", "edits": count, "of": 2}
        (folder / "run.json").write_bytes(orjson.dumps(info))


def make(folder: Path) -> Path:
    """Make ``runs`` and ``results.duckdb`` in a folder, and return it."""
    write_runs(folder / "runs")
    results.connect(folder / "runs", find_snapshots(folder / "snapshots"), folder / "results.duckdb").close()
    return folder
