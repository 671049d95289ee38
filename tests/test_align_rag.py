"""RAG: what is shown, where it stands, what is gold, and documents of all kinds."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from dyknow.align.context import style_of
from dyknow.align.documents import Document, as_json, chunks, cut, lengths, of_texts, read_documents
from dyknow.align.rag import TEMPLATES, current, is_gold, rag
from dyknow.align.verbalise import statement_documents
from dyknow.benchmark import Question, load
from dyknow.models.base import Model
from kg import identity
from kg.errors import AlignError, DataError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import Store, open_store
from tests.text_methods import EDIT, ITALY, MESSI, POLAND, Bag, Echo, options, quiet, request

CLUB = request(MESSI, "Inter Miami CF", "Paris Saint-Germain F.C.")
EDITS = [EDIT, CLUB]
DOCUMENTS = (
    Document("italy", "Italy", "Giorgia Meloni is Prime Minister of Italy.", "here", None, "Italy/P6", "countries"),
    Document("poland", "Poland", "Donald Tusk is Prime Minister of Poland.", "here", None, "Poland/P6", "countries"),
    Document(
        "messi", "Lionel Messi", "The footballer Lionel Messi plays for Inter Miami.", "here", None, None, "athletes"
    ),
    Document("kane", "Harry Kane", "The footballer Harry Kane plays for Bayern.", "here", None, None, "athletes"),
)


def told(question: Question, mode: str = "retrieved", model: Model | None = None, **given: object) -> str:
    """Return what is asked instead of a question."""
    aligned = rag(model or Echo(), EDITS, options(mode=mode, **{"documents": DOCUMENTS, **given}), quiet)  # type: ignore[arg-type]
    with aligned.applied() as edited:
        [[one]] = edited.generate([question], 1)
    return one.answer.prompt


def test_gold_shows_the_document_of_the_fact() -> None:
    assert told(ITALY[0], "gold") == f"{DOCUMENTS[0].text}\n\nAs said above:\n{ITALY[0].text}"
    assert DOCUMENTS[2].text in told(MESSI[0], "gold")  # chosen for no fact, it names subject and club


def test_gold_of_a_fact_that_is_not_edited_is_shown_where_there_is_one() -> None:
    assert DOCUMENTS[1].text in told(POLAND[0], "gold")
    assert told(POLAND[0], "gold", documents=[DOCUMENTS[0], DOCUMENTS[2]]) == POLAND[0].text


def test_the_question_is_the_last_line_in_every_style() -> None:
    for style in ("chat", "instruct", "completion", "sentinel"):
        model = Echo(style)
        assert style_of(model) == style
        assert told(ITALY[0], "gold", model).splitlines()[-1] == ITALY[0].text
    assert all(template.endswith("\n{question}") for template in TEMPLATES.values())


def test_retrieved_shows_the_k_nearest_and_the_best_beside_the_question() -> None:
    text = told(MESSI[2], k=2)
    assert text.index(DOCUMENTS[3].text) < text.index(DOCUMENTS[2].text)
    first = told(MESSI[2], k=2, order="first")
    assert first.index(DOCUMENTS[2].text) < first.index(DOCUMENTS[3].text)
    assert DOCUMENTS[3].text not in told(MESSI[2], k=1)


def test_noise_is_of_another_domain_and_stands_before_gold() -> None:
    text = told(ITALY[0], "noise")
    shown = [one.text for one in DOCUMENTS if one.text in text]
    assert len(shown) == 2
    noise = next(one for one in shown if one != DOCUMENTS[0].text)
    assert noise in (DOCUMENTS[2].text, DOCUMENTS[3].text)
    assert text.index(noise) < text.index(DOCUMENTS[0].text)
    assert text == told(ITALY[0], "noise")


def test_noise_depends_on_the_seed_and_the_question() -> None:
    many = [*DOCUMENTS, *(Document(f"n{n}", "", f"noise {n}", "here", domain="athletes") for n in range(50))]
    texts = []
    for seed in (0, 1):
        aligned = rag(Echo(), EDITS, options(seed=seed, mode="noise", documents=many), quiet)
        with aligned.applied() as edited:
            texts += [one.answer.prompt for batch in edited.generate(ITALY, 1) for one in batch]
    assert len({text.split("\n\n")[0] for text in texts}) > 3


def test_of_several_documents_of_a_fact_the_first_is_gold() -> None:
    former = Document("former", "", "Giorgia Meloni was Prime Minister of Italy.", "", fact="Italy/P6")
    assert DOCUMENTS[0].text in told(ITALY[0], "gold", documents=[*DOCUMENTS, former])
    assert former.text in told(ITALY[0], "gold", documents=[former, *DOCUMENTS])


def test_without_a_document_it_refuses() -> None:
    with pytest.raises(AlignError, match="RAG has no documents"):
        rag(Echo(), EDITS, options(), quiet)
    with pytest.raises(AlignError, match="No document holds the answer 'Inter Miami CF' to Lionel Messi/P54"):
        rag(Echo(), EDITS, options(mode="gold", documents=DOCUMENTS[:2]), quiet)
    with pytest.raises(AlignError, match="no document of another domain"):
        told(ITALY[0], "noise", documents=[DOCUMENTS[0], Document("m", "", DOCUMENTS[2].text, "", domain="countries")])
    with pytest.raises(AlignError, match="lacks"):
        told(ITALY[0], template="{context}")


def test_retrieval_is_measured_by_domain_and_in_each_report() -> None:
    aligned = rag(Echo(), EDITS, options(documents=DOCUMENTS), quiet)
    found = aligned.record["retrieval"]
    assert set(found) == {"all", "athletes", "countries"}
    assert found["all"]["questions"] == 6
    assert found["all"]["recall@1"] == 1.0
    assert aligned.reports[0].note == "rank of the gold document: 1, 1, 1"
    lost = rag(Echo(), EDITS, options(documents=DOCUMENTS[:2]), quiet)
    assert lost.record["retrieval"]["athletes"] == {
        "questions": 3,
        "recall@1": 0,
        "recall@3": 0,
        "recall@10": 0,
        "mrr": 0,
    }
    assert lost.reports[1].note == "rank of the gold document: not found, not found, not found"


def test_a_corpus_of_plain_texts_will_do() -> None:
    settings = options()
    aligned = rag(
        Echo(), EDITS, type(settings)("recommended", 0, settings.options, [one.text for one in DOCUMENTS]), quiet
    )
    assert aligned.record["documents"]["number"] == 4


def test_what_does_not_fit_is_left_out_the_worst_first_then_cut() -> None:
    whole = told(MESSI[2], k=2, context_tokens=60)
    assert DOCUMENTS[3].text in whole
    one = told(MESSI[2], k=2, context_tokens=35)
    assert DOCUMENTS[2].text in one
    assert DOCUMENTS[3].text not in one
    short = told(MESSI[2], k=2, context_tokens=24)
    assert short.startswith("The footballer")
    assert short.endswith(MESSI[2].text)
    assert DOCUMENTS[2].text not in short


def test_names_with_braces_are_names() -> None:
    text = told(
        ITALY[0],
        "gold",
        documents=[Document("x", "Italy", "{question} Giorgia Meloni leads Italy", ""), DOCUMENTS[2]],
    )
    assert text == "{question} Giorgia Meloni leads Italy\n\nAs said above:\n" + ITALY[0].text


def test_a_deletion_withdraws_what_tells_the_fact() -> None:
    gone = request(MESSI, "unknown", "Inter Miami", "delete")
    kept = current([*DOCUMENTS, Document("own", "", "His fact.", "", fact="Lionel Messi/P54")], [gone])
    assert [one.id for one in kept] == ["italy", "poland", "kane", "deleted:Lionel Messi/P54"]
    assert kept[-1].text == f"{MESSI[1].text} unknown."
    aligned = rag(Echo(), [gone], options(mode="gold", documents=DOCUMENTS), quiet)
    with aligned.applied() as edited:
        [[one]] = edited.generate([MESSI[0]], 1)
    assert "Inter Miami" not in one.answer.prompt


GOLD = [
    (Document("a", "Lionel Messi", "He plays for Inter Miami now.", ""), True),
    (Document("a", "", "Lionel Messi plays for Inter Miami CF.", ""), True),
    (Document("a", "David Beckham", "He owns Inter Miami.", ""), False),
    (Document("a", "Lionel Messi", "He played for Barcelona.", ""), False),
    (Document("a", "", "He plays for Inter Miami.", "", fact="Lionel Messi/P54"), True),
    (Document("a", "Lionel Messi", "He plays for Inter Miami.", "", fact="Lionel Messi/P551"), False),
]


@pytest.mark.parametrize(("document", "expected"), GOLD)
def test_gold_names_the_answer_and_is_about_the_fact(document: Document, expected: bool) -> None:
    assert is_gold(document, CLUB) is expected


# Documents


def test_documents_are_read_from_files_of_each_kind(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("One.\n")
    (tmp_path / "deep" / "b.md").write_text("# Two")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "picture.png").write_bytes(b"\x89")
    lines = [
        {"text": "Three."},
        {"id": "own", "text": "Four.", "title": "T", "revision": 5, "fact": "Q1/P6", "domain": "d"},
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    found = read_documents(tmp_path)
    assert [(one.id, one.text) for one in found] == [
        ("a.txt", "One."),
        ("c.jsonl:1", "Three."),
        ("own", "Four."),
        ("deep/b.md", "# Two"),
    ]
    assert found[2] == Document("own", "T", "Four.", "c.jsonl", 5, "Q1/P6", "d")
    again = tmp_path / "again.jsonl"
    again.write_text("\n".join(json.dumps(one) for one in as_json(found)))
    assert read_documents(again) == found
    assert [one.id for one in read_documents(tmp_path / "a.txt")] == ["a.txt"]


BAD_LINES = [
    ("{", "line 2: Expecting property name"),
    ("[]", "line 2: the document has no text"),
    ('{"text": ""}', "line 2: the document has no text"),
    ('{"text": "x", "auther": "y"}', "line 2: 'auther' is no key"),
    ('{"text": "x", "title": 3}', "line 2: 'title' is 3"),
    ('{"text": "x", "revision": "3"}', "line 2: 'revision' is '3'"),
]


@pytest.mark.parametrize(("line", "says"), BAD_LINES)
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text('{"text": "fine"}\n' + line)
    with pytest.raises(DataError, match=says):
        read_documents(file)


def test_files_that_hold_nothing_are_named(tmp_path: Path) -> None:
    with pytest.raises(AlignError, match="no documents in"):
        read_documents(tmp_path)
    with pytest.raises(DataError, match="no file or folder"):
        read_documents(tmp_path / "none")
    (tmp_path / "x.pdf").write_bytes(b"%PDF")
    with pytest.raises(DataError, match="is no document"):
        read_documents(tmp_path / "x.pdf")
    (tmp_path / "x.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DataError, match="no text in UTF-8"):
        read_documents(tmp_path)
    (tmp_path / "x.txt").unlink()
    (tmp_path / "d.jsonl").write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}')
    with pytest.raises(DataError, match="two documents have the id 'a'"):
        read_documents(tmp_path)


def test_pieces_keep_sentences_and_lose_nothing() -> None:
    sentences = [f"Sentence number {n} says that {n} is a number of some kind." for n in range(40)]
    text = " ".join(sentences[:20]) + "\n\n" + " ".join(sentences[20:])
    pieces = cut(text, 300, 80)
    assert all(len(piece) <= 300 for piece in pieces)
    assert all(piece.endswith(".") and piece.startswith("Sentence") for piece in pieces)
    assert all(sentence in " ".join(pieces) for sentence in sentences)
    for one, after in pairwise(pieces):
        shared = next(n for n in range(min(len(one), len(after)), -1, -1) if one.endswith(after[:n]))
        assert 0 < shared <= 80


@pytest.mark.parametrize(("size", "overlap"), [(10, 0), (10, 9), (25, 5), (100, 20), (1000, 200)])
def test_pieces_are_never_longer_than_they_may_be(size: int, overlap: int) -> None:
    text = (
        "Short one. A wordwithoutanyspaceinit is here! And then "
        + "x" * 70
        + " ends. 3.5 million (sic) came.\n\nNew? Yes."
    )
    pieces = cut(text, size, overlap)
    assert all(0 < len(piece) <= size for piece in pieces)
    letters = "".join(text.split())
    assert set(letters) == set("".join("".join(pieces).split()))
    if not overlap:
        assert "".join("".join(pieces).split()) == letters


def test_a_document_that_fits_keeps_its_id() -> None:
    short, long = of_texts(["Fits.", "Does. Not. Fit. At. All."])
    assert chunks(short, 12, 0) == [short]
    assert [one.id for one in chunks(long, 12, 0)] == ["given:2~1", "given:2~2", "given:2~3"]
    with pytest.raises(AlignError, match="cannot share"):
        cut("x", 10, 10)


def test_lengths_are_quartiles_of_tokens() -> None:
    documents = of_texts(["a", "a b", "a b c", "a b c d", "a b c d e"])
    assert lengths(documents, lambda text: len(text.split())) == (5, 1, 2, 3, 4, 5)
    assert lengths(documents[:1], len).median == 1
    with pytest.raises(AlignError, match="no documents"):
        lengths([], len)


# The snapshot's statements


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return next(one for one in find_snapshots(None) if one.id == "2025-11-30")


@pytest.fixture(scope="module")
def store(snapshot: Snapshot) -> Store:
    return open_store(snapshot)


def test_statements_are_told_as_of_a_day(snapshot: Snapshot, store: Store) -> None:
    same, facts = identity.with_redirects(identity.load(), [snapshot]), load().facts
    now, then = (
        {
            one.fact: one
            for one in statement_documents(
                snapshot, store, same, day, per="fact", asked=[f for f in facts if f.id in IDS]
            )
        }
        for day in (20251130, 20180701)
    )
    assert now["Q33/P35"].text.startswith(
        "Alexander Stubb is President of Finland, since 1 March 2024. Sauli Niinistö was"
    )
    assert then["Q33/P35"].text.startswith(
        "Sauli Niinistö is President of Finland, since 1 March 2012. Tarja Halonen was"
    )
    assert "Stubb" not in then["Q33/P35"].text
    assert now["Q36159/P54"].text.startswith("LeBron James plays for Los Angeles Lakers, since 9 July 2018.")
    assert now["Q102673/P169"].text.startswith(
        "Alexey Miller is chief executive officer (CEO) of Gazprom, since 1 January 2001."
    )
    # The snapshot calls the post of Canada's monarch by the United Kingdom's.
    assert now["Q16/P35"].text.startswith("Charles III is Monarch of Canada, since 8 September 2022.")
    assert now["Q33/P35"].domain == "countries"
    assert now["Q33/P35"].source == "snapshot 2025-11-30"


IDS = ("Q33/P35", "Q36159/P54", "Q102673/P169", "Q16/P35")


def test_one_document_a_statement(snapshot: Snapshot, store: Store) -> None:
    same, facts = identity.with_redirects(identity.load(), [snapshot]), load().facts
    asked = [one for one in facts if one.id == "Q33/P35"]
    found = statement_documents(snapshot, store, same, 20251130, most=2, asked=asked)
    assert [(one.id, one.text) for one in found] == [
        ("Q33/P35:1", "Alexander Stubb is President of Finland, since 1 March 2024."),
        ("Q33/P35:2", "Sauli Niinistö was President of Finland from 1 March 2012 to 1 March 2024."),
    ]


def test_every_statement_of_both_snapshots_can_be_told() -> None:
    for one in find_snapshots(None):
        graph, same = open_store(one), identity.with_redirects(identity.load(), [one])
        documents = statement_documents(one, graph, same, one.date, most=1000)
        assert len(documents) > 500
        assert all(text.endswith(".") and "None" not in text for text in (document.text for document in documents))
        assert len({document.id for document in documents}) == len(documents)


def test_the_search_is_over_pieces() -> None:
    bag = Bag()
    text = "Filler about nothing at all. " * 50 + "Giorgia Meloni is Prime Minister of Italy."
    aligned = rag(Echo(), [EDIT], options(embedder=bag, documents=of_texts([text]), k=1), quiet)
    assert aligned.record["documents"]["pieces"] == 2
    with aligned.applied() as edited:
        [[one]] = edited.generate([ITALY[0]], 1)
    assert "Giorgia Meloni" in one.answer.prompt
