"""The methods: one table, and what each of them is given besides its requests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from dyknow.align import control, finetune, ike, memit, rag, rome, serac, verbalise
from dyknow.align.base import EditRequest, MethodFunction, Settings
from dyknow.align.documents import Document, as_json
from dyknow.align.pool import Known, known_facts
from dyknow.benchmark import Benchmark
from dyknow.tomlfile import did_you_mean
from kg import identity
from kg.answers import answers
from kg.errors import UsageError
from kg.snapshot import Snapshot
from kg.store import open_store

Needs = Literal["nothing", "texts", "documents", "facts"]


class Method(NamedTuple):
    """A row of the table."""

    function: MethodFunction
    changes: Literal["weights", "context", "nothing"]
    needs: Needs  # texts for second moments, documents to show, or facts that are not edited
    about: str


METHODS: Final[Mapping[str, Method]] = {
    "none": Method(control.none, "nothing", "nothing", "no method: the control"),
    "rome": Method(rome.rome, "weights", "texts", "rank-one edits of one layer, one fact after the other"),
    "memit": Method(memit.memit, "weights", "texts", "all facts at once, spread over several layers"),
    "ft": Method(finetune.fine_tune, "weights", "nothing", "fine-tuning of one layer's projection"),
    "lora": Method(finetune.lora, "weights", "nothing", "fine-tuning of low-rank adapters"),
    "serac": Method(serac.serac, "context", "facts", "an edit memory with a scope classifier"),
    "ike": Method(ike.ike, "context", "facts", "demonstrations in the context"),
    "rag": Method(rag.rag, "context", "documents", "documents in the context: gold, retrieved, noise"),
}


def method(name: str) -> Method:
    """Return a row of the table.

    Raises:
        UsageError: there is no such method.
    """
    if name not in METHODS:
        raise UsageError(f"There is no method {name!r}.", hint=did_you_mean(name, METHODS))
    return METHODS[name]


def mode(name: str, settings: Settings) -> str:
    """Return in which of its ways a method works: which fact IKE tells, what RAG shows, whether edits come one by one.

    >>> mode("rag", Settings(options={"mode": "gold"})), mode("ike", Settings("paper")), mode("memit", Settings())
    ('gold', 'null', 'batch')
    """
    if name == "ike":
        preset = ike.PRESETS.get(settings.preset, {})
        return str(settings.options.get("mode", preset.get("mode", ike.Ike.mode)))
    if name == "rag":
        return str(settings.options.get("mode", rag.Rag.mode))
    return "sequential" if name == "rome" else "batch"


class Knowledge(NamedTuple):
    """What methods may be given: the snapshot's statements in words, or one's own documents, and facts not edited."""

    documents: tuple[Document, ...]
    facts: tuple[Known, ...]
    source: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The documents' texts."""
        return tuple(document.text for document in self.documents)


def knowledge(
    snapshot: Snapshot,
    benchmark: Benchmark,
    requests: Sequence[EditRequest],
    as_of: int,
    *,
    prefix: bool = False,
    documents: Sequence[Document] | None = None,
) -> Knowledge:
    """Return what the methods may be given as of a day.

    Args:
        snapshot: Whose statements are told.
        benchmark: Whose facts are asked.
        requests: The edits; facts that are edited are no examples of facts that are not.
        as_of: The day, YYYYMMDD.
        prefix: The model is asked with "Answer with the name only".
        documents: One's own documents, instead of the snapshot's statements.
    """
    store, known = open_store(snapshot), identity.load()
    held = {fact.id for fact in benchmark.facts}
    sets = [one for one in answers(store, known, as_of) if one.fact in held]
    facts = known_facts(benchmark.questions(prefix), sets, [request.fact for request in requests])
    if documents is None:
        asked = [fact for fact in benchmark.facts if fact.id in {one.fact for one in sets}]
        documents = verbalise.statement_documents(snapshot, store, known, as_of, asked=asked)
        return Knowledge(tuple(documents), facts, f"snapshot {snapshot.id}")
    return Knowledge(tuple(documents), facts, "given")


def equipped(name: str, settings: Settings, given: Knowledge) -> Settings:
    """Return settings with what the method needs of what is known."""
    options: dict[str, Any] = dict(settings.options)
    needs = method(name).needs
    if needs == "texts" and settings.corpus is None:
        return replace(settings, corpus=given.texts)
    if needs == "documents":
        options.setdefault("documents", given.documents)
    if needs == "facts":
        options.setdefault("pool" if name == "ike" else "calibration", given.facts)
    return replace(settings, options=options)


__all__ = ["METHODS", "Knowledge", "Method", "as_json", "equipped", "knowledge", "method", "mode"]
