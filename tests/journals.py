"""Small runs for tests, written as journals on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

FACTS = {
    "Q38/P6": ("countries", "Italy"),
    "Q36/P6": ("countries", "Poland"),
    "Q11571/P54": ("athletes", "Cristiano Ronaldo"),
    "Q10514/P54": ("athletes", "Fernando Alonso"),
    "Q357984/P54": ("athletes", "Kevin De Bruyne"),
    "Q969725/P54": ("athletes", "Harry Kane"),
    "Q1033/P35": ("countries", "Nigeria"),
}


def write_run(runs: Path, run: str, texts: Mapping[str, str | None], status: Mapping[str, str] | None = None) -> Path:
    """Write a run that answers question ids ("Q38/P6#1") with texts; "#generic" is not counted."""
    folder = runs / run
    folder.mkdir(parents=True, exist_ok=True)
    about = {"id": run, "kind": "imported", "model": {"name": run}, "title": run.title(), "release_year": 2023}
    (folder / "run.json").write_bytes(orjson.dumps(about))
    lines = []
    for question, text in texts.items():
        fact, phrasing = question.split("#")
        domain, subject = FACTS[fact]
        lines.append({
            "question": question, "fact": fact, "domain": domain, "subject": subject, "phrasing": phrasing,
            "counted": phrasing != "generic", "sample": 0, "prompt": f"{subject}:", "text": text,
            "status": (status or {}).get(question, "ok"), "finish_reason": "stop",
        })  # fmt: skip
    (folder / "responses.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


def write_strata(folder: Path) -> None:
    """Write, beside the answers of a run, the questions of a benchmark that knows how popular its subjects are."""
    rows = [orjson.loads(line) for line in (folder / "responses.jsonl").read_bytes().splitlines()]
    names = ("question", "fact", "domain", "subject", "phrasing", "counted")
    lines = []
    for row in rows:
        many = row["domain"] == "countries"
        told = {"sitelinks": 300 if many else 90, "popularity": "100+" if many else "20-99", "region": row["subject"]}
        lines.append({name: row[name] for name in names} | told | {"stratum": told["popularity"]})
    (folder / "questions.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def write_judgments(folder: Path, verdicts: Mapping[str, str], as_of: str = "2023-12-18") -> None:
    """Write the verdicts of a judge called "published"."""
    (folder / "judgments").mkdir(exist_ok=True)
    rows = [
        {
            "question": q,
            "sample": 0,
            "judge": "published",
            "verdict": v,
            "start": "+2020-01-01T00:00:00Z",
            "as_of": as_of,
        }
        for q, v in verdicts.items()
    ]
    (folder / "judgments" / "published.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def write_likelihoods(folder: Path, scores: Mapping[str, Mapping[tuple[str, str], tuple[float, int]]]) -> None:
    """Write how likely holders (entity, label) are held to be (log-probability, tokens), by question."""
    lines = []
    for question, own in scores.items():
        fact, phrasing = question.split("#")
        domain, subject = FACTS[fact]
        lines.append({
            "question": question, "fact": fact, "domain": domain, "subject": subject, "phrasing": phrasing,
            "counted": phrasing != "generic", "prompt": f"{subject}:", "holders_digest": "",
            "scores": [
                {"entity": entity, "label": label, "logprob": logprob, "tokens": tokens}
                for (entity, label), (logprob, tokens) in own.items()
            ],
        })  # fmt: skip
    (folder / "likelihoods.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def write_samples(runs: Path, run: str, texts: Mapping[str, Sequence[str | None]]) -> Path:
    """Write a run that answers each question several times; None is an error."""
    folder = write_run(runs, run, {question: own[0] for question, own in texts.items()})
    about = orjson.loads((folder / "run.json").read_bytes()) | {"samples": max(map(len, texts.values()))}
    (folder / "run.json").write_bytes(orjson.dumps(about))
    first = [orjson.loads(line) for line in (folder / "responses.jsonl").read_bytes().splitlines()]
    rows = [
        {**row, "sample": sample, "text": text, "status": "error" if text is None else "ok"}
        for row in first
        for sample, text in enumerate(texts[row["question"]])
    ]
    (folder / "responses.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder
