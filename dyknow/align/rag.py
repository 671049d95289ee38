"""RAG, retrieval-augmented generation: documents before the question.

``gold`` shows the document that holds the answer, as someone has chosen it. ``retrieved`` shows the k nearest of all
documents. ``noise`` shows the gold document behind one of another domain (Cuconasu et al., "The power of noise", 2024;
the study's Table 8).
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dyknow.align import pool
from dyknow.align.base import Aligned, EditReport, EditRequest, Progress, Settings
from dyknow.align.choices import chosen, one_of
from dyknow.align.context import FOLLOWS, TextAligned, Told, filled, fitted, room_of, style_of
from dyknow.align.documents import Document, chunks, of_texts
from dyknow.align.embedding import MINILM, Embedder, load_embedder
from dyknow.align.pool import bare, mentions, sentence
from dyknow.align.retrieval import Index, quality, rank
from dyknow.benchmark import Question
from dyknow.models.base import Model
from kg.errors import AlignError

TEMPLATES: Final[Mapping[str, str]] = {
    "follows": "Context:\n{context}\n\nAnswer with the name only, as the context above has it.\n{question}",
    "completion": "{context}\n\nAs said above:\n{question}",
}
"""The question stands alone on the last line, where what is asked is read from."""

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "paper": {"k": 4, "order": "first"},  # LangChain's default k; documents in the order found
    "original": {"k": 4, "order": "first"},
    "recommended": {"k": 3, "order": "last"},
}


@dataclass(frozen=True)
class Rag:
    """Settings.

    Attributes:
        mode: "gold", "retrieved" or "noise".
        documents: What there is to show; None: the settings' corpus.
        k: How many pieces are shown where they are retrieved.
        order: Where the best one stands: "last", beside the question, or "first".
        size: Letters of a piece at most.
        overlap: Letters that neighbouring pieces share at most.
        template: A text with {context} and {question}; None: our own.
        embedder: As `dyknow.align.embedding.load_embedder` takes it.
        context_tokens: The model's window; None: as its file says.
    """

    mode: str = "retrieved"
    documents: Sequence[Document] | None = None
    k: int = 3
    order: str = "last"
    size: int = 1000
    overlap: int = 200
    template: str | None = None
    embedder: Any = MINILM
    context_tokens: int | None = None


def rag(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> Aligned:
    """Return a model that is shown documents before its questions.

    How well they are found is in the record ("retrieval"), and in each report the ranks of the gold document for the
    request's wordings.

    Raises:
        AlignError: the requests or the settings cannot be worked with, there are no documents, or none for a request
            that needs one.
    """
    pool.check(requests)
    how = chosen(Rag, PRESETS, settings, "RAG")
    one_of("RAG", "mode", how.mode, ("gold", "retrieved", "noise"))
    one_of("RAG", "order", how.order, ("last", "first"))
    if how.template is not None and not all(part in how.template for part in ("{context}", "{question}")):
        raise AlignError(f"The template {how.template!r:.60} lacks {{context}} or {{question}}.")
    documents = how.documents if how.documents is not None else of_texts(settings.corpus or ())
    if not documents:
        hint = "Give a folder or file of them, or take the snapshot's statements."
        raise AlignError("RAG has no documents.", hint=hint)
    begin = time.perf_counter()
    progress(0, len(requests), "documents are embedded")
    showing = _Showing(model, requests, how, documents, settings.seed)
    ranks = showing.ranks()
    seconds = (time.perf_counter() - begin) / len(requests)
    progress(len(requests), len(requests), "documents are embedded")
    reports = [EditReport(one.fact, seconds, note=_said(ranks[one.fact])) for one in requests]
    return TextAligned(model, showing.record(settings, ranks), tuple(reports), showing)


def _said(ranks: Sequence[int | None]) -> str:
    said = ", ".join("not found" if one is None else str(one) for one in ranks)
    return f"rank of the gold document: {said}"


class _Showing:
    """Puts documents before questions."""

    def __init__(
        self, model: Model, requests: Sequence[EditRequest], how: Rag, documents: Sequence[Document], seed: int
    ) -> None:
        self.embedder: Embedder = load_embedder(how.embedder)
        self.room = room_of(model, how.context_tokens)
        self.requests = requests
        self.documents = current(documents, requests)
        self._how = how
        self._seed = seed
        self._follows = style_of(model) in FOLLOWS
        self._template = how.template or TEMPLATES["follows" if self._follows else "completion"]
        self.pieces = [piece for document in self.documents for piece in chunks(document, how.size, how.overlap)]
        self.index = Index([piece.text for piece in self.pieces], self.embedder)
        self._gold = self._golds()

    def __call__(self, question: Question) -> Told:
        """Return what is asked instead of a question."""
        texts = self._texts(question)
        if not texts:
            return Told(question.text)

        def render(parts: Sequence[str]) -> str:
            ordered = parts if self._how.order == "first" else parts[::-1]
            return filled(self._template, question=question.text, context="\n\n".join(ordered))

        return Told(fitted(question, texts, render, self.room, cut=True))

    def _texts(self, question: Question) -> list[str]:
        """Return what is shown, best first."""
        if self._how.mode == "retrieved":
            [hits] = self.index.search([bare(question.text)], self._how.k)
            return [self.pieces[hit.place].text for hit in hits]
        gold = self._gold.get(question.fact.id)
        if gold is None:
            return []
        noise = self._noise(question, gold) if self._how.mode == "noise" else []
        return [gold.text, *noise]

    def _noise(self, question: Question, gold: Document) -> list[str]:
        """Return a document of another domain, drawn anew for each question and the same in each run."""
        domain = gold.domain or question.fact.domain
        apart = [one for one in self.documents if one.domain != domain and one.id != gold.id]
        if not apart:
            raise AlignError(
                f"There is no document of another domain than {domain!r} to serve as noise for {question.id}.",
                hint="Give documents of several domains, each with its domain.",
            )
        return [random.Random(f"{self._seed}/{question.id}").choice(apart).text]

    def _golds(self) -> dict[str, Document]:
        """Return the gold document of each fact: chosen for it, else naming subject and target.

        Of several chosen ones it is the first, of the others the nearest to the edited wording.

        Raises:
            AlignError: an edited fact has none, and the mode shows gold documents.
        """
        found: dict[str, Document] = {}
        for document in self.documents:
            if document.fact is not None:
                found.setdefault(document.fact, document)
        for request in self.requests:
            right = [place for place, one in enumerate(self.pieces) if is_gold(one, request)]
            if right:
                own = [place for place in right if self.pieces[place].fact is not None]
                found[request.fact] = self.pieces[own[0] if own else self._nearest(request, right)]
            elif self._how.mode != "retrieved":
                message = f"No document holds the answer {request.target!r} to {request.fact} ({request.subject})."
                raise AlignError(message, hint="Add one, or leave the request out.")
            else:
                found.pop(request.fact, None)
        return found

    def _nearest(self, request: EditRequest, right: Sequence[int]) -> int:
        [hits] = self.index.search([bare(request.prompt.text)], len(self.pieces))
        return next(hit.place for hit in hits if hit.place in right)

    def ranks(self) -> dict[str, list[int | None]]:
        """Return at which rank the first gold piece is found, for each wording of each request."""
        found: dict[str, list[int | None]] = {}
        for request in self.requests:
            right = {place for place, one in enumerate(self.pieces) if is_gold(one, request)}
            texts = [bare(wording.text) for wording in pool.wordings(request)]
            hits = self.index.search(texts, len(self.pieces))
            found[request.fact] = [rank([hit.place for hit in own], right) for own in hits]
        return found

    def record(self, settings: Settings, ranks: Mapping[str, Sequence[int | None]]) -> dict[str, Any]:
        """Return what the texts depend on, and how well documents are found."""
        how = self._how
        per_domain: dict[str, list[int | None]] = {}
        for request in self.requests:
            for domain in ("all", request.domain):
                per_domain.setdefault(domain, []).extend(ranks[request.fact])
        documents = [[one.id, one.text, one.source, one.revision, one.fact, one.domain] for one in self.documents]
        return {
            "method": "rag",
            "preset": settings.preset,
            "seed": settings.seed,
            "mode": how.mode,
            "k": how.k,
            "order": how.order,
            "size": how.size,
            "overlap": how.overlap,
            "template": self._template,
            "context_tokens": self.room.tokens,
            "embedder": self.embedder.record,
            "documents": {"number": len(documents), "pieces": len(self.pieces), "digest": pool.digest(documents)},
            "retrieval": {
                domain: quality(own, sorted({1, how.k, 10})).record() for domain, own in sorted(per_domain.items())
            },
            "edits": len(self.requests),
            "requests": pool.digest(self.requests),
        }


def is_gold(document: Document, request: EditRequest) -> bool:
    """Tell whether a document holds the answer to a request: it names the target, and is about the fact.

    A team's name counts without its tokens for a club: passages write "Inter Miami" for "Inter Miami CF".
    """
    labels = request.accepted or (request.target,)
    if not any(mentions(document.text, name) for label in (request.target, *labels) for name in _short(label)):
        return False
    if document.fact is not None:
        return document.fact == request.fact
    return mentions(f"{document.title}\n{document.text}", request.subject)


_CLUB: Final = frozenset(("fc", "f.c.", "cf", "c.f.", "sfc", "afc", "a.f.c.", "sc", "s.c.", "ac", "a.c.", "club"))


def _short(label: str) -> set[str]:
    kept = [word for word in label.split() if word.casefold() not in _CLUB]
    return {label, " ".join(kept)} - {""}


def current(documents: Sequence[Document], requests: Sequence[EditRequest]) -> list[Document]:
    """Return documents in which nothing deleted is left: a fact's own go, and others that name subject and old answer.

    In their place stands a sentence that the answer is unknown.
    """
    gone = [request for request in requests if request.operation == "delete"]
    kept = [one for one in documents if not any(_tells(one, request) for request in gone)]
    notes = [_note(request) for request in gone]
    return [*kept, *notes]


def _note(request: EditRequest) -> Document:
    text = sentence(request.prompt.text, request.target)
    return Document(f"deleted:{request.fact}", request.subject, text, "request", None, request.fact, request.domain)


def _tells(document: Document, request: EditRequest) -> bool:
    if document.fact is not None:
        return document.fact == request.fact
    names = [name for name in (request.before,) if name]
    return mentions(f"{document.title}\n{document.text}", request.subject) and any(
        mentions(document.text, name) for name in names
    )
