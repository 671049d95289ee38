"""Table 1 of the study as published, by the corrected labels and by our matcher: ``python -m benchmarks.corrected``."""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.matching import Text, known, labelled
from dyknow.match import Match, match
from dyknow.names import key_of

VERDICTS: Final = ("up-to-date", "outdated", "irrelevant")
NOT_IN_THE_STUDY: Final = ("Meta-Llama-3-8B-Instruct",)
_LABELS: Final = {"correct": "up-to-date"}
_DOMAINS: Final = {"P35": "countries", "P6": "countries", "P54": "athletes"}

Cell = tuple[str, str, str]  # who judged, run, domain


def read(text: Text) -> Match:
    """Return what our matcher makes of a text."""
    asked = text.asked
    return match(text.text, text.prompt, asked.candidates, asked.subject, asked.office)


def verdict(text: Text, entity: str | None) -> str:
    """Return the verdict on naming an entity."""
    standing = known()[1][text.asked.fact].get(entity or "", "irrelevant")
    return standing if standing in VERDICTS else "irrelevant"


def published_labels(path: Path, texts: Iterable[Text]) -> dict[tuple[str, str], str]:
    """Return the study's own labels by run and question, of the rows whose corrected label is clear."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    clear = [row["published"] for row in rows if row["label"] != "unclear"]
    keys = [(text.label.run, text.label.question) for text in texts if text.label is not None]
    return {key: _LABELS.get(said, said) for key, said in zip(keys, clear, strict=True)}


def soft(verdicts: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], dict[str, float]]:
    """Return per run and domain the share of facts up-to-date, outdated and irrelevant by the soft constraint, in %."""
    facts: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for (run, question), found in verdicts.items():
        fact = question.partition("#")[0]
        facts[run, _DOMAINS.get(fact.rpartition("/")[2], "organizations"), fact].add(found)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (run, domain, _), said in facts.items():
        counts[run, domain][next(one for one in VERDICTS if one in said)] += 1
    return {key: {one: 100 * n[one] / n.total() for one in VERDICTS} for key, n in counts.items()}


def tables(path: Path) -> dict[str, dict[tuple[str, str], dict[str, float]]]:
    """Return Table 1 by judge: as published, corrected, and ours."""
    texts = [text for text in labelled(path) if text.label and text.label.run not in NOT_IN_THE_STUDY]
    everyone = labelled(path)
    published = {key: said for key, said in published_labels(path, everyone).items() if key[0] not in NOT_IN_THE_STUDY}
    keyed = [((text.label.run, text.label.question), text) for text in texts if text.label is not None]
    return {
        "published": soft(published),
        "corrected": soft({key: text.label.verdict for key, text in keyed if text.label is not None}),
        "ours": soft({key: verdict(text, read(text).entity) for key, text in keyed}),
    }


def kinds(path: Path) -> Counter[tuple[str, str, str]]:
    """Count the rows whose published label was wrong, by kind of error, published and corrected verdict."""
    texts = labelled(path)
    published = published_labels(path, texts)
    found: Counter[tuple[str, str, str]] = Counter()
    for text in texts:
        label = text.label
        if label is None or label.run in NOT_IN_THE_STUDY:
            continue
        said = published[label.run, label.question]
        if said != label.verdict:
            found[_kind(text, said), said, label.verdict] += 1
    return found


def _kind(text: Text, said: str) -> str:
    """Say how a published label came to be wrong, as far as the text shows."""
    assert text.label is not None
    named, ours = text.label.named, read(text)
    if named is None:
        return "a name part of somebody else, or a name in passing"
    if said != "irrelevant":
        return "another name than the one first asserted"
    if named.lower() in text.text.lower():
        return "the question repeated after the answer, or the name passed over"
    if key_of(named) in key_of(text.text):
        return "accents or signs missing"
    if ours.end and ours.end >= len(text.text.rstrip()) - 1 and key_of(ours.matched) != key_of(ours.alias):
        return "name cut off at the token limit"
    return "another spelling, order or short form of the name"


def lines(path: Path) -> Iterator[str]:
    """Yield both tables for the reader."""
    found = tables(path)
    yield "up-to-date / outdated / irrelevant, % of facts, soft constraint, as of 2023-12-18"
    yield "| model | domain | published | corrected | ours |"
    yield "|---|---|---|---|---|"
    for run, domain in sorted(found["corrected"]):
        cells = (" / ".join(f"{found[who][run, domain][one]:.0f}" for one in VERDICTS) for who in found)
        yield f"| {run} | {domain} | " + " | ".join(cells) + " |"
    yield ""
    yield "| kind of published error | published | corrected | rows |"
    yield "|---|---|---|---|"
    counted = kinds(path)
    for (kind, said, truth), n in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {kind} | {said} | {truth} | {n} |"
    yield f"| all | | | {counted.total()} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labels", type=Path, help="the corrected labels; the published texts stand beside them")
    for line in lines(parser.parse_args().labels):
        print(line)


if __name__ == "__main__":
    main()
