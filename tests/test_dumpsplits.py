"""Splits: put together, they are what one process reads, wherever a dump is cut; and its faults are the same."""

import bz2
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kg.errors import DataError
from kg.sources import dumpsplits, dumptext
from kg.sources.dumplines import Found, Wanted
from kg.sources.dumps import Reader, extract, named_in
from kg.sources.dumpsplits import Split, answers, joined, read_split, splits_of
from kg.sources.dumptext import Block
from tests.test_dumps import COMPRESS, WANTED, array, entity, line, many, write


def reader(size: int) -> Reader:
    """Return what reads a dump in splits of so many bytes, each by itself."""

    def read(path: Path, wanted: Wanted) -> Iterator[tuple[Block, Found]]:
        told = [answer for split in cut(path, size) for answer in answers([split], path, wanted)]
        yield from joined(told, path, wanted)

    return read  # type: ignore[return-value]  # a generator is what it returns


def cut(path: Path, size: int) -> list[Split]:
    return splits_of(path, 1, least=size, most=size)


def text_of(path: Path, size: int) -> bytes:
    return b"".join(part.block.lines or b"" for split in cut(path, size) for part in read_split(path, split))


SMALL = [entity(f"Q{n}", "P31", *(["P6"] if n % 7 == 0 else []), lastrevid=n) for n in range(1, 60)]


def noise(size: int, seed: int) -> bytes:
    """Return text that bzip2 makes hardly smaller, so that its blocks begin at many bits."""
    dice = random.Random(seed)
    words = [dice.randbytes(30).hex().encode() for _ in range(size // 61)]
    return b"\n".join(words) + b"\n"


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 10_000, 1 << 20])
def test_plain_text_may_be_cut_at_any_byte(tmp_path: Path, size: int) -> None:
    text = array(SMALL[:12])
    assert text_of(write(tmp_path, text), size) == text


@pytest.mark.parametrize("end", ["\n", "", "\n\n", "\r\n"])
def test_the_end_of_the_text_belongs_to_some_split(tmp_path: Path, end: str) -> None:
    text = array(SMALL[:3]).removesuffix(b"\n") + end.encode()
    for size in range(1, len(text) + 20, 31):
        assert text_of(write(tmp_path, text), size) == text


def streams(text: bytes, level: int, count: int) -> bytes:
    """Return text as so many bzip2 streams, as parallel compressors write them."""
    step = -(-len(text) // count)
    return b"".join(bz2.compress(text[start : start + step], level) for start in range(0, len(text), step))


BZIP2: dict[str, Callable[[bytes], bytes]] = {
    "one stream": lambda text: bz2.compress(text, 1),
    "streams": lambda text: streams(text, 1, 7),
    "an empty stream between": lambda text: bz2.compress(text[:99]) + bz2.compress(b"") + bz2.compress(text[99:]),
    "an empty stream first": lambda text: bz2.compress(b"") + bz2.compress(text, 1),
    "zeros between and after": lambda text: (
        bz2.compress(text[:99]) + bytes(5) + bz2.compress(text[99:], 2) + bytes(700)
    ),
}


@pytest.mark.parametrize("how", BZIP2)
@pytest.mark.parametrize("size", [999, 50_001, 1 << 20])
def test_bzip2_is_cut_at_its_blocks(tmp_path: Path, how: str, size: int) -> None:
    text = noise(350_000, 1)
    path = tmp_path / "dump.bz2"
    path.write_bytes(BZIP2[how](text))
    assert len(cut(path, size)) == -(-path.stat().st_size // size)
    assert text_of(path, size) == text


def test_a_mark_that_chance_put_into_a_block_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump.bz2"
    path.write_bytes(bz2.compress(noise(350_000, 2), 1))
    found = dumpsplits._Marks._at

    def too_many(self: dumpsplits._Marks, shift: int, ends: bool) -> Iterator[dumpsplits._Mark]:
        for mark in found(self, shift, ends):
            yield from (mark, *([] if ends else [mark._replace(bit=mark.bit + 1003)]))

    monkeypatch.setattr(dumpsplits._Marks, "_at", too_many)
    assert text_of(path, 1 << 20) == noise(350_000, 2)


def outcome(path: Path, out: Path, by: Reader | None) -> tuple[object, bytes]:
    """Return what a reading tells and writes, or how it is refused."""
    try:
        told: object = extract(path, WANTED, out, workers=1, reader=by)
    except DataError as error:
        # Where the text goes on after its end is told as exactly as the blocks that were read happen to be small.
        return re.sub(r"goes on before byte \d+", "goes on", error.message), b""
    return told, out.read_bytes()


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("size", [300, 4096])
def test_what_is_kept_is_what_one_process_keeps(tmp_path: Path, kind: str, size: int) -> None:
    path = write(tmp_path, array(many(300)), kind)
    one, many_ = (outcome(path, tmp_path / "out", by) for by in (None, reader(size)))
    assert one == many_
    assert one[1].count(b"\n") == 42
    ids = ["Q7", "Q9", "Q299", "Q300"]
    assert named_in(path, ids, reader=reader(size)) == named_in(path, ids, workers=1) != {}


@pytest.mark.parametrize("name", ["2018-09-slice.json.bz2", "2021-06-slice.json.gz", "short_stream.json.bz2"])
def test_real_dumps_in_splits_give_what_one_process_keeps(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "wikidata" / "dumps" / name
    one, cuts = (outcome(path, tmp_path / "out", by) for by in (None, reader(200_000)))
    assert one == cuts
    assert one[1].count(b"\n") >= 1


WRONG: dict[str, bytes] = {
    "a line in the middle": array(SMALL).replace(b'"id":"Q30"', b'"id":"Q30"}\n"'),
    "no JSON": array(SMALL).replace(b'"id":"Q35"', b'"id":"Q35'),
    "cut off in a line": array(SMALL)[:-100],
    "cut off between lines": array(SMALL).rpartition(b"\n]")[0],
    "two dumps": array(SMALL) + array(SMALL),
    "a bracket in the middle": array(SMALL).replace(b'{"type":"item","id":"Q30"', b']\n{"type":"item","id":"Q30"'),
    "a zero byte": array(SMALL).replace(b"The Q41", b"The\0Q41"),
    "a mark of byte order in the middle": array(SMALL).replace(
        b'{"type":"item","id":"Q30"', b'\xef\xbb\xbf{"type":"item","id":"Q30"'
    ),
    "empty": b"[\n]\n",
    "no bracket, cut off": b"\n".join(map(line, SMALL))[:-3],
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("kind", ["json", "bz2"])
def test_faults_are_named_as_one_process_names_them(tmp_path: Path, how: str, kind: str) -> None:
    path = write(tmp_path, WRONG[how], kind)
    one = outcome(path, tmp_path / "out", None)
    assert one[1] == b""
    for size in (100, 5000, 1 << 20):
        assert outcome(path, tmp_path / "out", reader(size)) == one


def test_a_bzip2_dump_that_is_damaged_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.bz2"
    text = b"".join(line({**one, "note": noise(9000, number).hex()}) + b"\n" for number, one in enumerate(SMALL))
    whole = streams(text, 1, 3)
    second = whole.index(b"BZh", 3)
    inside = [30, 2000, len(whole) // 2, second - 12, second - 7, second, second + 2, second + 5, len(whole) - 3]
    for place in [0, 5, 8, 11, *inside]:
        if place == 0:
            continue  # then it is no bzip2
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        told, kept = outcome(path, tmp_path / "out", reader(70_000))
        assert kept == b"", place
        assert str(path) in str(told), place
        assert "damaged" in str(told) or "cut off" in str(told), place
    for place in (4, 9, 13, *inside):
        path.write_bytes(whole[:place])
        if place != second:  # between two streams nothing is missing that could be seen
            assert "cut off" in str(outcome(path, tmp_path / "out", reader(70_000))[0]), place
    for left_out in (slice(len(whole) // 3, len(whole) // 2), slice(second, second + 4)):
        path.write_bytes(whole[: left_out.start] + whole[left_out.stop :])
        assert "damaged" in str(outcome(path, tmp_path / "out", reader(70_000))[0])
    path.write_bytes(whole + b"more")
    assert "damaged" in str(outcome(path, tmp_path / "out", reader(70_000))[0])
    path.write_bytes(whole)
    assert outcome(path, tmp_path / "out", reader(70_000)) == outcome(path, tmp_path / "out", None)


def test_a_stream_whose_checksum_differs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.bz2"
    path.write_bytes(bz2.compress(array(SMALL)))
    told = list(answers(cut(path, 1 << 20), path, WANTED))
    for wrong in (told[0].seals[0], told[0].seals[0] ^ 1):
        broken = told[0]._replace(seals=(wrong, *told[0].seals[1:], ~told[0].seals[0]))
        with pytest.raises(DataError, match="checksum of a stream"):
            list(joined([broken], path, WANTED))


def test_a_hole_is_refused_without_reading_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumpsplits, "_FAR", 1 << 16)
    monkeypatch.setattr(dumpsplits, "_CHUNK", 1 << 14)
    path = tmp_path / "dump.bz2"
    packed = bz2.compress(noise(350_000, 3), 1)
    path.write_bytes(packed[:1000] + bytes(400_000) + packed[1000:])
    with pytest.raises(DataError, match="no block begins there"):
        list(read_split(path, Split(0, 100, "bzip2")))


def test_a_line_of_endless_length_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumptext, "LONGEST", 1 << 19)
    path = write(tmp_path, b'[\n{"id":"' + b"x" * (3 << 20))
    with pytest.raises(DataError, match="a line of more than"):
        list(read_split(path, Split(0, 100, "plain")))


def test_splits_cover_a_file_and_suit_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(b"[\n" + b" " * 998)
    assert splits_of(path, 2, least=10) == [Split(at, at + 125, "plain") for at in range(0, 1000, 125)]
    assert splits_of(path, 2, least=600) == [Split(0, 600, "plain"), Split(600, 1000, "plain")]
    assert len(splits_of(path, 1, least=10, most=100)) == 10
    monkeypatch.setattr(dumpsplits, "ROUND", 500)  # many tasks read little each, for all they keep is held together
    assert splits_of(path, 50, least=1)[0] == Split(0, 5, "plain")
    assert splits_of(path, 100, least=1)[0] == Split(0, 3, "plain")
    monkeypatch.setattr(dumpsplits, "ROUND", 200)
    assert splits_of(path, 100, least=1)[0] == Split(0, 2, "plain")
    for kind in ("gz", "zst"):
        [only] = splits_of(write(tmp_path, array(SMALL), kind), 8, least=10)
        assert only.kind == "whole"


def test_a_file_that_is_not_there_is_told_not_raised(tmp_path: Path) -> None:
    path = tmp_path / "absent.bz2"
    with pytest.raises(DataError, match="cannot be read"):
        splits_of(path, 2)
    told = list(answers([Split(0, 9, "bzip2"), Split(9, 18, "bzip2")], path, WANTED))
    assert len(told) == 1
    with pytest.raises(DataError, match="cannot be read on ") as caught:
        list(joined(told, path, WANTED))
    assert caught.value.hint == "Every machine that reads must see the dump under this path."
