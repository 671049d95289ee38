"""Dumps: kept is what a plain loop would keep, from every kind of file, and a dump that is not whole gives nothing."""

import bz2
import gzip
import json
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kg import processes
from kg.errors import DataError, DyknowError, UsageError
from kg.sources import dumplines, dumptext
from kg.sources.dumplines import Wanted
from kg.sources.dumps import Extracted, Progress, entities, extract, named_in
from kg.sources.entity import Entity, read_entities

WANTED = Wanted(frozenset(("P6", "P35")))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "json": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
COMPRESSED = [kind for kind in COMPRESS if kind != "json"]


def claim(prop: str, value: str = "Q1", **qualifiers: str) -> dict[str, Any]:
    snak = {"snaktype": "value", "property": prop, "datavalue": {"value": {"id": value}, "type": "wikibase-entityid"}}
    parts = {key: [{"snaktype": "novalue", "property": key, "hash": text}] for key, text in qualifiers.items()}
    return {"mainsnak": snak, "type": "statement", "qualifiers": parts, "id": f"{value}$1", "rank": "normal"}


def entity(name: str, *props: str, **more: object) -> dict[str, Any]:
    labels = {"en": {"language": "en", "value": f"The {name}"}, "de": {"language": "de", "value": f"Das {name}"}}
    aliases = {"en": [{"language": "en", "value": f"Old {name}"}], "fr": [{"language": "fr", "value": "Vieux"}]}
    claims = {prop: [claim(prop)] for prop in props}
    return {"type": "item", "id": name, "labels": labels, "aliases": aliases, "claims": claims, **more}


def line(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def array(documents: Iterable[object]) -> bytes:
    return b"[\n" + b",\n".join(map(line, documents)) + b"\n]\n"


FEW = [entity("Q1", "P31"), entity("Q2", "P6", "P17", "P31"), entity("Q3"), entity("Q4", "P35", lastrevid=7)]


def many(count: int) -> list[dict[str, Any]]:
    return [entity(f"Q{n}", "P31", *(["P6"] if n % 7 == 0 else []), lastrevid=n) for n in range(1, count)]


def write(folder: Path, text: bytes, kind: str = "json") -> Path:
    path = folder / f"dump.{kind}"
    path.write_bytes(COMPRESS[kind](text))
    return path


def ids(folder: Path, text: bytes, wanted: Wanted = WANTED, workers: int = 1) -> list[str]:
    extract(write(folder, text), wanted, folder / "out", workers=workers)
    return [found.id for found in entities(folder / "out")]


def refused(path: Path, workers: int = 1) -> str:
    """Return why a dump is refused, having seen that nothing was written."""
    out = path.with_name("out")
    out.write_text("what was there before")
    with pytest.raises(DataError) as caught:
        extract(path, WANTED, out, workers=workers)
    assert out.read_text() == "what was there before"
    assert sorted(path.parent.iterdir()) == sorted((path, out))
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value.message


# The plain loop, and real dumps


def plain(text: bytes, properties: Iterable[str]) -> list[Entity]:
    lines = (one.strip().removesuffix(b",") for one in text.splitlines())
    documents = [json.loads(one) for one in lines if one not in (b"[", b"]", b"")]
    found = [one for document in documents for one in read_entities(document, (), "plain")]
    return [one for one in found if any(one.claims(prop) for prop in properties)]


def same(found: Entity, document: Entity, properties: Iterable[str]) -> None:
    assert (found.id, found.label, found.aliases) == (document.id, document.label, document.aliases)
    assert (found.revision, found.modified) == (document.revision, document.modified)
    assert found.sitelinks == document.sitelinks
    wanted = [prop for prop in document.properties if prop in properties]
    assert {prop: found.claims(prop) for prop in found.properties} == {prop: document.claims(prop) for prop in wanted}


@pytest.fixture(scope="module")
def slices(shared: Path) -> dict[str, bytes]:
    folder = shared / "wikidata" / "dumps"
    return {
        "2018": bz2.decompress((folder / "2018-09-slice.json.bz2").read_bytes()),
        "2021": gzip.decompress((folder / "2021-06-slice.json.gz").read_bytes()),
    }


def first_part(text: bytes) -> bytes:
    return text[: len(text) // 4].rpartition(b",\n")[0] + b"\n]\n"


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("year", ["2018", "2021"])
def test_a_real_dump_gives_what_a_plain_loop_gives(
    slices: dict[str, bytes], tmp_path: Path, year: str, kind: str
) -> None:
    text, (kept, seen) = slices[year], {"2018": (56, 100), "2021": (28, 99)}[year]
    if kind == "bz2":  # slow to write; the slice of 2018 is read as it came further down
        text = first_part(text)
        kept, seen = len(plain(text, WANTED.properties)), text.count(b"\n") - 2
    path = tmp_path / f"dump.{kind}"
    # Level 1: the tests need the kind, not the ratio.
    path.write_bytes(gzip.compress(text, 1) if kind == "gz" else COMPRESS[kind](text))
    told = extract(path, WANTED, tmp_path / "out", workers=1)
    found, expected = list(entities(tmp_path / "out")), plain(text, WANTED.properties)
    assert len(found) == len(expected) == kept > 0
    for one, document in zip(found, expected, strict=True):
        same(one, document, WANTED.properties | WANTED.extra)
    newest = max(document.revision or 0 for document in expected) or None
    assert told == Extracted(kept, seen, path.stat().st_size, len(text), True, newest)


@pytest.mark.parametrize("name", ["2018-09-slice.json.bz2", "2021-06-slice.json.gz", "short_stream.json.bz2"])
def test_one_process_and_two_give_the_same_bytes(shared: Path, tmp_path: Path, name: str) -> None:
    path, wanted = shared / "wikidata" / "dumps" / name, Wanted(frozenset(("P6", "P35", "P17")))
    one = extract(path, wanted, tmp_path / "one", workers=1)
    assert extract(path, wanted, tmp_path / "two", workers=2) == one
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != b""


def test_a_change_stream_has_no_brackets_and_its_id_further_on(shared: Path) -> None:
    path = shared / "wikidata" / "dumps" / "short_stream.json.bz2"
    text = bz2.decompress(path.read_bytes())
    documents = {found.id: found for found in plain(text, ("P31",))}
    name = next(iter(documents))
    found = named_in(path, [name])
    assert list(found) == [name]
    same(found[name], documents[name], ("P31", "P570"))


def test_real_holders_are_named_in_a_second_pass(slices: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path, slices["2018"])
    wanted = {found.id: found for found in plain(slices["2018"], ("P31",))}
    asked = [*list(wanted)[:5], "Q999999999"]
    found = named_in(path, asked, extra=["P31"])
    assert list(found) == asked[:5]
    for name in found:
        same(found[name], wanted[name], ("P31",))


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_real_dump_cut_anywhere_is_refused(slices: dict[str, bytes], tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"dump.{kind}"
    text = first_part(slices["2021"])
    whole = COMPRESS[kind](text)
    for place in (1, 2, 9, len(whole) // 3, len(whole) // 2, len(whole) * 9 // 10, len(whole) - 9, len(whole) - 3):
        path.write_bytes(whole[:place])
        assert "cut off" in refused(path) or place < 9
    path.write_bytes(whole)
    assert extract(path, WANTED, tmp_path / "out", workers=1).bytes_text == len(text)


# What is kept


def test_the_kept_are_trimmed(tmp_path: Path) -> None:
    told = extract(write(tmp_path, array(FEW)), WANTED, tmp_path / "deep" / "out")
    assert told[:2] == (2, 4)
    assert told.revision == 7
    first, second = map(json.loads, (tmp_path / "deep" / "out").read_bytes().splitlines())
    assert first == {
        "type": "item",
        "id": "Q2",
        "labels": {"en": {"language": "en", "value": "The Q2"}},
        "aliases": {"en": [{"language": "en", "value": "Old Q2"}]},
        "claims": {"P6": [claim("P6")], "P31": [claim("P31")]},
    }
    assert (second["id"], second["lastrevid"]) == ("Q4", 7)


@pytest.mark.parametrize("languages", [["de", "fr"], ["mul", "de"], ["en", "mul", "de"], ["zu", "ar"], []])
def test_the_label_is_the_one_of_the_whole_document(tmp_path: Path, languages: list[str]) -> None:
    labels = {language: {"language": language, "value": f"in {language}"} for language in languages}
    document = entity("Q1", "P6", labels=labels or [])
    extract(write(tmp_path, array([document])), WANTED, tmp_path / "out")
    (found,) = entities(tmp_path / "out")
    (expected,) = read_entities(document, (), "here")
    assert found.label == expected.label


def test_a_property_among_the_qualifiers_alone_is_none(tmp_path: Path) -> None:
    document = entity("Q1", claims={"P39": [claim("P39", P6="x")]})
    assert ids(tmp_path, array([document, *FEW])) == ["Q2", "Q4"]


def test_words_that_look_like_a_statement_are_none(tmp_path: Path) -> None:
    labels = {"en": {"language": "en", "value": 'say "P6":[{"mainsnak":{}}] and "claims":{"P35":['}}
    assert ids(tmp_path, array([entity("Q1", labels=labels), *FEW])) == ["Q2", "Q4"]


@pytest.mark.parametrize("claims", [[], {}, {"P6": []}])
def test_no_statements_are_no_hit(tmp_path: Path, claims: object) -> None:
    assert ids(tmp_path, array([entity("Q1", claims=claims), *FEW])) == ["Q2", "Q4"]


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":"), (" ,", " :  ")])
def test_blanks_between_members_do_not_hide(tmp_path: Path, separators: tuple[str, str]) -> None:
    lines = [json.dumps(document, separators=separators).encode() for document in FEW]
    text = b"[\n" + b",\n".join(lines) + b"\n]"
    assert ids(tmp_path, text) == ["Q2", "Q4"]
    assert ids(tmp_path, text, Wanted(subjects=frozenset(("Q1", "Q4")))) == ["Q1", "Q4"]


def test_longer_property_numbers_are_others(tmp_path: Path) -> None:
    assert ids(tmp_path, array([entity("Q1", "P66"), entity("Q2", "P356"), entity("Q3", "P6")])) == ["Q3"]


def test_subjects_are_kept_whatever_they_state(tmp_path: Path) -> None:
    wanted = Wanted(frozenset(("P6",)), frozenset(("Q1", "Q2", "Q9")))
    assert ids(tmp_path, array(FEW), wanted) == ["Q1", "Q2"]
    assert [found.properties for found in entities(tmp_path / "out")] == [("P31",), ("P6", "P31")]


@pytest.mark.parametrize("order", [["claims", "id", "type"], ["labels", "id"], ["lastrevid", "type", "id"], ["claims"]])
def test_an_id_is_found_wherever_it_stands(tmp_path: Path, order: list[str]) -> None:
    documents = [entity(name, "P31", lastrevid=3) for name in ("Q1", "Q2", "Q3")]
    turned = [{key: one[key] for key in (*order, *sorted(one))} for one in documents]
    assert ids(tmp_path, array(turned), Wanted(subjects=frozenset(("Q2",)))) == ["Q2"]


def test_the_id_of_a_value_is_not_the_entitys(tmp_path: Path) -> None:
    document = {"claims": {"P31": [claim("P31", "Q7")]}, "id": "Q1", "type": "item"}
    assert ids(tmp_path, array([document]), Wanted(subjects=frozenset(("Q7",)))) == []


def test_properties_and_lexemes_are_entities_too(tmp_path: Path) -> None:
    lexeme = {"type": "lexeme", "id": "L1", "lemmas": {}, "claims": []}
    found = named_in(write(tmp_path, array([lexeme, entity("P6", "P31", type="property")])), ["P6", "L1"])
    assert list(found) == ["L1", "P6"]
    assert found["P6"].label == ("The P6", "en")


def test_nobody_asked_for_costs_nothing(tmp_path: Path) -> None:
    assert named_in(tmp_path / "is not even there", []) == {}


def test_asking_for_nothing_is_a_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Nothing is asked for"):
        extract(write(tmp_path, array(FEW)), Wanted(), tmp_path / "out")


# Items as Wikidata's dumps write them are not parsed whole


def item(claims: object, **more: object) -> dict[str, Any]:
    fixed = {"type": "item", "id": "Q1", "labels": entity("Q1")["labels"], "descriptions": {"en": {"value": "x"}}}
    links = {"enwiki": {"site": "enwiki", "title": 'a "P6":[{"mainsnak": }', "badges": []}}
    return {**fixed, "aliases": entity("Q1")["aliases"], "claims": claims, "sitelinks": links, **more}


P6, P17, P31 = ({prop: [claim(prop), claim(prop, "Q2", P6="x", P31="y")]} for prop in ("P6", "P17", "P31"))
BACKWARDS = {prop: [dict(reversed(claim(prop).items()))] for prop in ("P6", "P17")}
ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "first": ({**P6, **P17}, {"lastrevid": 5}),
    "in the middle": ({**P17, **P6, "P570": [claim("P570")]}, {"lastrevid": 5, "modified": "2021-06-01T00:00:00Z"}),
    "last": ({**P17, **P31, **P6}, {}),
    "alone": (P6, {"sitelinks": []}),
    "sitelinks that start otherwise": (P6, {"sitelinks": {"enwiki": {"title": "x", "site": "enwiki"}}, "lastrevid": 5}),
    "no revision": ({**P31, **P6, **P17}, {"sitelinks": {}}),
    "something else at the end": ({**P6, **P17}, {"lastrevid": 5, "more": {"a": {"b": {}}}}),
    "no aliases": ({**P6, **P17}, {"aliases": []}),
    "a statement that starts otherwise": ({**P17, "P6": BACKWARDS["P6"], **P31}, {"lastrevid": 5}),
    "another that starts otherwise": ({**P6, "P17": BACKWARDS["P17"], **P31}, {"lastrevid": 5}),
    "the wanted twice, once otherwise": ({**P6, "P31": BACKWARDS["P17"]}, {"lastrevid": 5}),
}


@pytest.mark.parametrize("how", ITEMS)
def test_an_item_is_read_in_parts_as_it_is_whole(tmp_path: Path, how: str) -> None:
    claims, more = ITEMS[how]
    document = item(claims, **more)
    text = array([item(P17, id="Q9"), document])
    assert ids(tmp_path, text) == ["Q1"]
    (found,), (expected,) = entities(tmp_path / "out"), read_entities(document, (), "here")
    same(found, expected, WANTED.properties | WANTED.extra)
    short = dumplines.Scanner(WANTED, "here")._shortened(line(document))
    otherwise = (
        "a statement that starts otherwise",
        "the wanted twice, once otherwise",
        "sitelinks that start otherwise",
    )
    assert (short is None) == (how in otherwise)


def test_most_real_items_are_not_parsed_whole(slices: dict[str, bytes]) -> None:
    scanner = dumplines.Scanner(WANTED, "here")
    for one in slices["2021"].splitlines()[1:-1]:
        short = scanner._shortened(one.removesuffix(b","))
        assert short is not None
        assert len(short) < len(one) / 1.2
        assert json.loads(short)["lastrevid"]


# Several processes


class Spied(processes.Worker):
    """A process that a test can end."""

    made: list["Spied"] = []  # noqa: RUF012

    def __init__(self, module: str, setup: object, answers: processes.Answers) -> None:
        super().__init__(module, setup, answers)
        self.made.append(self)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Spied]:
    Spied.made.clear()
    monkeypatch.setattr(processes, "Worker", Spied)
    monkeypatch.setattr(dumptext, "BLOCK", 20_000)
    return Spied.made


@pytest.mark.parametrize("kind", COMPRESS)
def test_blocks_come_back_in_the_dumps_order(workers: list[Spied], tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, array(many(2000)), kind)
    one = extract(path, WANTED, tmp_path / "one", workers=1)
    assert not workers
    assert extract(path, WANTED, tmp_path / "three", workers=3) == one
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()
    assert [found.id for found in entities(tmp_path / "three")] == [f"Q{n}" for n in range(7, 2000, 7)]
    assert [worker.process.returncode is None for worker in workers] == [False] * 3


def test_the_first_fault_of_a_dump_is_told_whoever_finds_it(workers: list[Spied], tmp_path: Path) -> None:
    lines = list(map(line, many(2000)))
    lines[900] = lines[1500] = b"broken"
    path = write(tmp_path, b"\n".join(lines))
    assert refused(path) == refused(path, workers=2)
    assert all(worker.process.returncode is not None for worker in workers)


def test_a_process_ended_from_outside_ends_the_reading(workers: list[Spied], tmp_path: Path) -> None:
    path = write(tmp_path, array(many(2000)))

    def kill(_: Progress) -> None:
        workers[0].process.send_signal(signal.SIGKILL)

    ticks = iter(range(10_000))
    with pytest.raises(DyknowError, match="ended by signal 9") as caught:
        extract(path, WANTED, tmp_path / "out", workers=2, progress=kill, clock=lambda: next(ticks))
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == [path]
    assert all(worker.process.returncode is not None for worker in workers)


def test_an_interrupt_leaves_nothing_behind(workers: list[Spied], tmp_path: Path) -> None:
    path = write(tmp_path, array(many(2000)))

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    ticks = iter(range(10_000))
    with pytest.raises(KeyboardInterrupt):
        extract(path, WANTED, tmp_path / "out", workers=2, progress=interrupt, clock=lambda: next(ticks))
    assert list(tmp_path.iterdir()) == [path]
    assert [worker.process.returncode for worker in workers] == [-signal.SIGKILL] * 2


def test_a_small_file_starts_no_process(workers: list[Spied], tmp_path: Path) -> None:
    extract(write(tmp_path, array(FEW)), WANTED, tmp_path / "out")
    assert not workers


# Progress


def test_progress_tells_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", 10_000)
    path, told = write(tmp_path, array(many(500))), list[Progress]()
    seconds = iter(range(10_000))
    extract(path, WANTED, tmp_path / "out", workers=1, progress=told.append, clock=lambda: float(next(seconds)))
    first, last, size = told[0], told[-1], path.stat().st_size
    assert first[:2] == (10_000, size)
    assert (first.seconds, first.bytes_per_second) == (1.0, 10_000.0)
    assert first.seconds_left == pytest.approx((size - 10_000) / 10_000)
    assert last[:4] == (size, size, 499, 71)
    assert last.seconds_left == 0
    assert [one.bytes_read for one in told] == sorted(one.bytes_read for one in told)


def test_progress_is_told_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", 1_000)
    path, told = write(tmp_path, array(many(500))), list[Progress]()
    ticks = iter(range(100_000))
    extract(path, WANTED, tmp_path / "out", workers=1, progress=told.append, clock=lambda: next(ticks) / 100)
    assert len(told) <= next(ticks) / 100 / 0.2 + 1


def test_a_line_that_is_none_is_named_when_read_again(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(line(FEW[0]) + b"\n{")
    with pytest.raises(DataError, match="out, line 2, is no JSON"):
        list(entities(tmp_path / "out"))
