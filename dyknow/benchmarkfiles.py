"""Writes a benchmark as the file that ``benchmark.load`` reads: TOML to read and edit, Parquet for many facts."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dyknow import facttable
from dyknow.benchmark import Benchmark, Fact
from dyknow.tomlfile import replace
from kg.errors import UsageError

SUFFIXES: Final = (".toml", ".parquet")


def write(bench: Benchmark, path: Path, about: str) -> None:
    """Write a benchmark; what the name of the file ends in says how.

    Args:
        bench: What to write.
        path: Ends in .toml or .parquet; an old file of that name is replaced.
        about: A sentence that says where the facts come from; a Parquet table has no place for it.

    Raises:
        UsageError: it ends in something else.
        DataError: it cannot be written.
    """
    check_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        facttable.write(path, bench.name, (_row(fact, bench.phrasings[fact.group]) for fact in bench.facts))
    else:
        replace(path, "".join(_toml(bench, about)))


def check_path(path: Path) -> None:
    """Refuse a file that would be of no kind that is written.

    Raises:
        UsageError: it ends in neither .toml nor .parquet.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"{path} is no name for a benchmark.", hint="Let it end in .toml, or in .parquet for many facts."
        )


def _row(fact: Fact, phrasings: Mapping[str, str]) -> dict[str, Any]:
    return {"group": fact.group, "domain": fact.domain, "asks": fact.asks, "phrasings": phrasings, **_keys(fact)}


def _keys(fact: Fact) -> dict[str, Any]:
    """Return a fact's own keys; those that say what is understood without them are None."""
    has_id = fact.subject.startswith("Q")
    return {
        "subject": fact.subject_label,
        "entity": fact.subject if has_id else None,
        "property": fact.property,
        "office": fact.office,
        "mention": None if fact.mention == fact.subject_label else fact.mention,
        "confidence": None if fact.confidence == ("verified" if has_id else "none") else fact.confidence,
        "sitelinks": fact.sitelinks,
        "popularity": fact.popularity,
        "region": fact.region,
        "stratum": fact.stratum,
    }


def _toml(bench: Benchmark, about: str) -> Iterator[str]:
    yield f"name = {_text(bench.name)}\nabout = {_text(about)}\n"
    groups: dict[str, list[Fact]] = {name: [] for name in bench.phrasings}
    for fact in bench.facts:
        groups[fact.group].append(fact)
    for name, facts in groups.items():
        yield f"\n[[group]]\nname = {_text(name)}\ndomain = {_text(facts[0].domain)}\n"
        if facts[0].asks is not None:
            yield f"asks = {_text(facts[0].asks)}\n"
        yield "facts = [\n"
        for fact in facts:
            pairs = (f"{key} = {_text(value)}" for key, value in _keys(fact).items() if value is not None)
            yield f"  {{ {', '.join(pairs)} }},\n"
        yield "]\n\n[group.phrasings]\n"
        yield from (f"{key} = {_text(template)}\n" for key, template in bench.phrasings[name].items())


def _text(value: str | int) -> str:
    """Return a value as TOML; a JSON text is a TOML one, save for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
