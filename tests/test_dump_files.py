"""What files of dumps look like: laid out and compressed in any way, and refused where they are not whole."""

from pathlib import Path

import pytest

from kg.errors import DataError
from kg.sources import dumptext
from kg.sources.dumps import entities, extract
from tests.test_dumps import COMPRESS, COMPRESSED, FEW, WANTED, array, line, many, refused, write

# What files look like

LINES = list(map(line, FEW))
SHAPES = {
    "as Wikidata writes it": b"[\n" + b",\n".join(LINES) + b"\n]\n",
    "comma after the last": b"[\n" + b",\n".join(LINES) + b",\n]\n",
    "no newline at the end": b"[\n" + b",\n".join(LINES) + b"\n]",
    "CRLF": b"[\r\n" + b",\r\n".join(LINES) + b"\r\n]\r\n",
    "blank lines": b"\n[\n\n" + b",\n  \n\n".join(LINES) + b"\n\n]\n\n \n",
    "byte order mark": b"\xef\xbb\xbf[\n" + b",\n".join(LINES) + b"\n]\n",
    "indented": b"[\n  " + b",\n  ".join(LINES) + b"\n]\n",
    "one object a line": b"\n".join(LINES) + b"\n",
    "one object a line, no newline at the end": b"\n".join(LINES),
    "one object a line, CRLF, byte order mark": b"\xef\xbb\xbf" + b"\r\n".join(LINES) + b"\r\n",
}


@pytest.mark.parametrize("block", [64, 700, 4 << 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_dump_may_look_like(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shape: str, block: int) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", block)
    for kind in ("json", "gz"):
        path = write(tmp_path, SHAPES[shape], kind)
        told = extract(path, WANTED, tmp_path / "out", workers=1)
        assert [found.id for found in entities(tmp_path / "out")] == ["Q2", "Q4"]
        assert (told.lines, told.bytes_text) == (4, len(SHAPES[shape]))
        assert told.array == ("one object" not in shape)


def test_an_empty_array_is_whole(tmp_path: Path) -> None:
    assert extract(write(tmp_path, b"[\n]\n"), WANTED, tmp_path / "out")[:2] == (0, 0)
    assert (tmp_path / "out").read_bytes() == b""


BROKEN = {
    "nothing": (b"", "is empty"),
    "blanks": (b" \n\n", "is empty"),
    "no end": (b"[\n" + b",\n".join(LINES) + b"\n", "without the last ]"),
    "an opening alone": (b"[", "without the last ]"),
    "cut inside a line": (b"[\n" + b",\n".join(LINES)[:-9], "is cut off"),
    "cut inside a line after a brace": (LINES[0] + b"\n" + LINES[1][: LINES[1].index(b"}") + 1], "is no JSON"),
    "cut inside a line without brackets": (b"\n".join(LINES)[:-9], "is cut off"),
    "a line in the middle cut": (b"[\n" + LINES[0][:90] + b"\n" + LINES[1] + b"\n]\n", "is not one entity"),
    "two lines in one": (b"[\n" + LINES[1] + LINES[3] + b"\n]\n", "is no JSON"),
    "a wanted line garbled": (b"[\n" + LINES[1].replace(b'"P6":[', b'"P6":[[') + b"\n]\n", "is no JSON"),
    "a hole": (b"[\n" + LINES[0] + b"\n" + bytes(100) + LINES[1] + b"\n]\n", "zero byte"),
    "two dumps in one": (SHAPES["as Wikidata writes it"] * 2, "where none belongs"),
    "something after the end": (SHAPES["as Wikidata writes it"] + LINES[0], "goes on"),
    "an end without a beginning": (LINES[0] + b"\n]\n", "where none belongs"),
    "no object": (b"[\n1,\n2\n]\n", "is not one entity"),
    "no entity": (b'[\n{"P6":[1]}\n]\n', "is no entity document"),
    "an impossible id": (b'[\n{"id":"Q0x","claims":{"P6":[1]}}\n]\n', "Q0x"),
    "all on one line": (b"[" + b",".join(LINES) + b"]", "is not one entity"),
    "no text": (b"PK\x03\x04 something else", "is no dump"),
    "a page of HTML": (b"<!DOCTYPE html>", "is no dump"),
}


@pytest.mark.parametrize("block", [50, 4 << 20])
@pytest.mark.parametrize("fault", BROKEN)
def test_a_dump_that_is_not_whole_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str, block: int
) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", block)
    text, reason = BROKEN[fault]
    assert reason in refused(write(tmp_path, text))


def test_the_place_is_named_in_bytes_of_the_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", 100)
    text = b"[\n" + LINES[0] + b",\n" + LINES[1] + b",\nbroken\n]\n"
    for kind in COMPRESS:
        path = write(tmp_path, text, kind)
        assert f"the line at byte {text.index(b'broken')} of its text" in refused(path)
        path.unlink()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.json cannot be read: No such file"):
        extract(tmp_path / "nowhere.json", WANTED, tmp_path / "out")


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dumptext, "BLOCK", 1000)
    monkeypatch.setattr(dumptext, "LONGEST", 5000)
    for kind in COMPRESS:
        path = write(tmp_path, b"[" + b",".join(LINES * 20), kind)
        assert "has a line of more than" in refused(path)
        path.unlink()


def test_a_file_that_still_grows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, array(FEW))

    def clock() -> float:  # read when the first block is done
        with path.open("ab") as file:
            file.write(b"\n")
        return 0

    with pytest.raises(DataError, match="changed while it was read"):
        extract(path, WANTED, tmp_path / "out", clock=clock, workers=1)


# Compressed streams


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("size", [90, 5000])
def test_many_streams_are_one_text(tmp_path: Path, kind: str, size: int) -> None:
    text = array(many(60))
    path = tmp_path / "dump"
    path.write_bytes(b"".join(COMPRESS[kind](text[at : at + size]) for at in range(0, len(text), size)))
    told = extract(path, WANTED, tmp_path / "out", workers=1)
    assert (told.lines, told.bytes_text, told.bytes_read) == (59, len(text), path.stat().st_size)
    assert [found.id for found in entities(tmp_path / "out")] == [f"Q{n}" for n in range(7, 60, 7)]


@pytest.mark.parametrize("kind", COMPRESSED)
def test_the_first_bytes_tell_the_kind_not_the_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(COMPRESS[kind](array(FEW)))
    assert extract(path, WANTED, tmp_path / "out").lines == 4


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("streams", [1, 3])
def test_a_compressed_dump_cut_anywhere_is_refused(tmp_path: Path, kind: str, streams: int) -> None:
    text = b"\n".join(map(line, many(200)))  # without brackets, so that the stream alone can tell
    step = len(text) // streams + 1
    parts = [COMPRESS[kind](text[at : at + step]) for at in range(0, len(text), step)]
    whole, ends = b"".join(parts), [sum(map(len, parts[:n])) for n in range(streams)]
    path = tmp_path / "dump"
    for place in [
        *range(1, len(whole), len(whole) // 25),
        *(len(whole) - n for n in range(1, 10)),
        *(n + 2 for n in ends),
    ]:
        path.write_bytes(whole[:place])
        refused(path)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_dump_cut_between_two_streams_lacks_its_end(tmp_path: Path, kind: str) -> None:
    text = array(many(50))
    path = tmp_path / "dump"
    path.write_bytes(COMPRESS[kind](text[: text.index(b"\n", 5000) + 1]))
    assert "without the last ]" in refused(path)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_flipped_bits_are_noticed(tmp_path: Path, kind: str) -> None:
    whole = COMPRESS[kind](b"\n".join(map(line, many(200))) + b"\n")
    path = tmp_path / "dump"
    for place in range(40, len(whole), len(whole) // 20):
        garbled = bytearray(whole)
        garbled[place] ^= 0x10
        path.write_bytes(garbled)
        assert "damaged" in (reason := refused(path)) or "cut off" in reason


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_damaged_stream_after_a_whole_one_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    first, second = (COMPRESS[kind](line(one) + b"\n") for one in FEW[:2])
    path = tmp_path / "dump"
    for rest in (b"XXXX" + second[4:], b"garbage"):
        path.write_bytes(first + rest)
        assert "damaged" in refused(path)
    path.write_bytes(first + second + bytes(1000))  # padding
    assert extract(path, WANTED, tmp_path / "out").lines == 2


def test_frames_that_hold_no_data_are_skipped(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    path = tmp_path / "dump.zst"
    path.write_bytes(skippable + COMPRESS["zst"](array(FEW)) + skippable)
    assert extract(path, WANTED, tmp_path / "out").lines == 4
