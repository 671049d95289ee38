"""Which Wikidata id a subject of a benchmark has: candidates to choose from, and the choice written down.

Nothing is guessed: a label may belong to father and son, or to the company and its founder.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array

from dyknow.benchmark import CONFIDENCES, Benchmark
from dyknow.tomlfile import replace
from kg.errors import DataError, UsageError
from kg.sources.entity import ID, Entity
from kg.sources.wikidata import Wikidata

PINNED = CONFIDENCES[2]


class Choice(NamedTuple):
    """An item that a subject may be."""

    id: str
    label: str | None
    description: str | None
    classes: tuple[str, ...]  # labels of its P31
    statements: int  # how many it has of the properties that the benchmark asks of the subject
    fits: bool  # it is of the wanted class, where one is given


def unresolved(bench: Benchmark) -> dict[str, tuple[str, ...]]:
    """Return the subjects without an id, by label, with the properties the benchmark asks of them."""
    found: dict[str, set[str]] = {}
    for fact in bench.facts:
        if not ID.fullmatch(fact.subject):
            found.setdefault(fact.subject_label, set()).add(fact.property)
    return {label: tuple(sorted(own)) for label, own in sorted(found.items())}


def choices(
    wikidata: Wikidata, label: str, properties: Collection[str], wanted_class: str | None = None, limit: int = 7
) -> list[Choice]:
    """Return the items that a label may mean, likeliest first: of the wanted class, then those with such statements.

    Raises:
        SourceError: Wikidata cannot be reached, or answers wrongly.
    """
    found = {one.id: one for one in wikidata.search(label, limit)}
    if not found:
        return []
    documents = {name: entity for name, entity in wikidata.entities(list(found), None).items() if entity is not None}
    classes = {item for entity in documents.values() for item in entity.best_items("P31")}
    names = {name: entity for name, entity in wikidata.entities(sorted(classes), None).items() if entity is not None}
    listed = [
        Choice(
            id=name,
            label=found[name].label,
            description=found[name].description,
            classes=tuple(_label(names.get(item), item) for item in entity.best_items("P31")),
            statements=sum(len(entity.claims(prop)) for prop in properties),
            fits=wanted_class is None or wanted_class in entity.best_items("P31"),
        )
        for name, entity in documents.items()
    ]
    order = list(found)
    return sorted(listed, key=lambda one: (not one.fits, not one.statements, order.index(one.id)))


def _label(entity: Entity | None, item: str) -> str:
    return entity.label[0] if entity and entity.label else item


def pin(path: Path, out: Path, accepted: Mapping[str, str]) -> None:
    """Write a benchmark file with the ids of some subjects; its comments and layout stay.

    The file is written beside its place and renamed.

    Args:
        path: the benchmark.
        out: where the new one goes; may be the same.
        accepted: id by the subject's label.

    Raises:
        UsageError: an id is malformed, or a subject is not in the file or has another id there.
        DataError: the file is no benchmark.
    """
    for label, item in accepted.items():
        if not (ID.fullmatch(item) and item.startswith("Q")):
            raise UsageError(f"{item!r}, accepted for {label!r}, is not like Q38.")
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise DataError(f"{path} cannot be read as a benchmark: {error}") from error
    for label, item in accepted.items():
        _pin(_facts(document.get("group", [])), label, item, path)
    replace(out, tomlkit.dumps(document))


def _facts(groups: AoT | Array | Sequence[Any]) -> list[Any]:
    return [fact for group in groups for fact in group.get("facts", [])]


def _pin(facts: Sequence[Any], label: str, item: str, path: Path) -> None:
    own = [fact for fact in facts if fact.get("subject") == label]
    if not own:
        raise UsageError(f"{path} has no subject {label!r}.", hint="Subjects without an id: dyknow benchmark resolve")
    for fact in own:
        if fact.get("entity", item) != item:
            raise UsageError(f"{label!r} is {fact['entity']} in {path}, not {item}.", hint="Change the file by hand.")
        if "entity" not in fact:
            fact["entity"] = item
            fact["confidence"] = PINNED
