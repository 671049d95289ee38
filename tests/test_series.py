"""A series: every snapshot and every interval comes out of it as it went in, and every flipped byte is found."""

import hashlib
import pickle
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import identity
from kg.dates import parse_time
from kg.errors import SnapshotError, UsageError
from kg.snapshot import (
    Packed,
    Snapshot,
    appending,
    choose,
    diff,
    drop,
    find_snapshots,
    load,
    pack,
    segments,
    take,
    unpack,
    verify,
    whereabouts,
)
from kg.snapshot.appending import append
from kg.snapshot.compare import By
from kg.snapshot.series import FOLDER, SUMS, Known, Series, open_series
from kg.sources import Row, Source
from kg.store import open_store
from kg.terms import WDS, EndKind

entity = identity.load().entity


def date(number: int) -> str:
    return f"{2001 + number // 12}-{number % 12 + 1:02d}-01"


def text(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def grow(folder: Path, snapshots: Sequence[Sequence[bytes]], cut: int = 1000) -> Series:
    """Append snapshots, their bytes cut anywhere."""
    for number, lines in enumerate(snapshots):
        data = text(lines)
        blocks = [data[at : at + cut] for at in range(0, len(data), cut)]
        digest = hashlib.sha256(data).hexdigest()
        append(folder, date(number), blocks, manifest=b"m%d" % number * 9, about={"is": number}, digest=digest)
    found = open_series(folder)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------------------- lines

LINES = st.lists(st.sampled_from([f"<urn:{name}> é .".encode() for name in range(40)]), unique=True).map(sorted)


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=9), st.integers(1, 90))
def test_a_series_gives_back_what_went_in(
    tmp_path_factory: pytest.TempPathFactory, snapshots: list[list[bytes]], cut: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CHUNK", 64)  # a few lines a chunk
        patch.setattr("os.fsync", lambda descriptor: None)
        whole = grow(tmp_path_factory.mktemp("series"), snapshots, cut)
    for place, lines in enumerate(snapshots):
        assert b"".join(whole.blocks(place)) == text(lines)
        assert whole.manifest(place) == b"m%d" % place * 9
        assert whole.about(place) == {"is": place}
    assert whole.problems() == []
    known = dict(whole.intervals())
    assert list(known) == sorted(set().union(*snapshots))
    assert sum(segment.index["added"] for segment in whole.segments) == len(known)  # every line stands once
    for line, intervals in known.items():
        stood = [
            any(one.since <= day and (one.until is None or day < one.until) for one in intervals) for day in whole.dates
        ]
        assert stood == [line in lines for lines in snapshots]


def test_a_line_that_left_and_came_back_has_two_intervals(tmp_path: Path) -> None:
    known = dict(grow(tmp_path, [[b"a", b"b"], [b"b"], [b"a", b"b"], [b"b", b"c"]]).intervals())
    assert known[b"a"] == (Known(date(0), date(1)), Known(date(2), date(3)))
    assert known[b"b"] == (Known(date(0), None),)
    assert known[b"c"] == (Known(date(3), None),)


def test_appending_changes_no_file_and_leaves_nothing_beside(tmp_path: Path) -> None:
    grow(tmp_path, [[b"a"], [b"b"]])
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.segment")}
    (tmp_path / ".2001-03-01-beside").write_bytes(b"half a segment")  # as a killed process leaves it
    append(tmp_path, date(2), [b"c\n"], manifest=b"", about={}, digest=hashlib.sha256(b"c\n").hexdigest())
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock", "2001-01-01.segment", "2001-02-01.segment", "2001-03-01.segment", SUMS,
    ]  # fmt: skip
    if tool := shutil.which("sha256sum"):
        subprocess.run([tool, "--check", "--quiet", SUMS], cwd=tmp_path, check=True)


REFUSED = [
    ([b"b\na\n"], None, "not sorted"),
    ([b"a\n", b"a\n"], None, "not sorted or not distinct"),
    ([b"a\nb"], None, "no end"),
    ([b"a\n"], "0" * 64, "SHA-256"),
]


@pytest.mark.parametrize(("blocks", "digest", "message"), REFUSED)
def test_what_is_no_snapshot_is_not_appended(
    tmp_path: Path, blocks: list[bytes], digest: str | None, message: str
) -> None:
    grow(tmp_path, [[b"a"]])
    digest = digest or hashlib.sha256(b"".join(blocks)).hexdigest()
    with pytest.raises(SnapshotError, match=message):
        append(tmp_path, date(1), blocks, manifest=b"", about={}, digest=digest)
    with pytest.raises(SnapshotError, match="goes to 2001-01-01 already"):
        append(tmp_path, "2000-12-31", [], manifest=b"", about={}, digest=digest)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "2001-01-01.segment", SUMS]


@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.rename"])
def test_a_failure_half_way_leaves_the_series_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    grow(tmp_path, [[b"a"]])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(moment, fail)
        append(tmp_path, date(1), [b"b\n"], manifest=b"", about={}, digest=hashlib.sha256(b"b\n").hexdigest())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_series_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    with appending.locked(tmp_path), pytest.raises(SnapshotError, match="another process"):
        append(tmp_path, date(0), [], manifest=b"", about={}, digest="")


# ------------------------------------------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    draw = random.Random(3)
    names = [f"<urn:{draw.random()}> .".encode() for _ in range(60)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CHUNK", 400)
        grow(folder, [sorted(draw.sample(names, 40)) for _ in range(4)])
    return folder


def complaints(folder: Path) -> list[str]:
    """Return what a reader is told, at once or by `Series.problems`."""
    try:
        found = open_series(folder)
    except SnapshotError as error:
        return [error.message]
    return found.problems() if found else []


@pytest.mark.parametrize("name", ["2001-01-01.segment", "2001-04-01.segment"])
def test_every_flipped_byte_of_a_segment_is_found_and_named(chain: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(chain, tmp_path / "copy")
    path = folder / name
    whole = path.read_bytes()
    for position in {
        *range(20),
        *random.Random(1).sample(range(len(whole)), 60),
        *range(len(whole) - 100, len(whole)),
    }:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        assert any(name in problem for problem in complaints(folder)), position
    path.write_bytes(whole)
    assert complaints(folder) == []


def test_every_flipped_byte_of_the_list_is_found(chain: Path, tmp_path: Path) -> None:
    path = shutil.copytree(chain, tmp_path / "copy") / SUMS
    whole = path.read_bytes()
    for position in range(len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        assert complaints(path.parent), position


@pytest.mark.parametrize("number", range(4))
def test_a_missing_segment_is_named(chain: Path, tmp_path: Path, number: int) -> None:
    folder = shutil.copytree(chain, tmp_path / "copy")
    (folder / f"{date(number)}.segment").unlink()
    assert f"{date(number)}.segment is missing" in complaints(folder)[0]
    (folder / SUMS).unlink()
    if number < 3:  # that the newest is gone only the list knows
        assert f"{date(number)}.segment is missing" in complaints(folder)[0]


def test_a_segment_of_another_series_is_noticed(chain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(chain, tmp_path / "copy")
    other = grow(tmp_path / "other", [[b"x"], [b"y"]]).segments[1].path
    shutil.copy(other, folder / other.name)
    assert "another series" in _raised(folder)
    shutil.copy(folder / "2001-01-01.segment", folder / "2001-02-01.segment")
    assert "is of 2001-01-01" in _raised(folder)


def _raised(folder: Path) -> str:
    with pytest.raises(SnapshotError) as error:
        open_series(folder)
    return f"{error.value.message} {error.value.hint}"


def test_a_damaged_chunk_is_not_read_and_a_lost_list_is_mended(chain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(chain, tmp_path / "copy")
    path = folder / "2001-01-01.segment"
    data = bytearray(path.read_bytes())
    data[len(segments.MAGIC) + 30] ^= 1
    path.write_bytes(data)
    found = open_series(folder)
    assert found is not None
    with pytest.raises(SnapshotError, match=r"2001-01-01.segment is damaged in bytes .* CRC-32"):
        list(found.blocks(3))
    shutil.copy(chain / path.name, path)
    lines = (folder / SUMS).read_text().splitlines(keepends=True)
    (folder / SUMS).write_text("".join(lines[:-1]))  # a crash fell between the segment and the list
    assert complaints(folder) == []
    append(folder, date(4), [], manifest=b"", about={}, digest=hashlib.sha256().hexdigest())
    assert (folder / SUMS).read_text().startswith("".join(lines))


# --------------------------------------------------------------------------------------------------- snapshots


def row(holder: str, start: int, end: int | None = None, **fields: object) -> Row:
    times = [parse_time(f"+{year}-01-01T00:00:00Z") if year else None for year in (start, end)]
    kind = EndKind.KNOWN if end else EndKind.OPEN
    made = Row("Land", "P35", holder, start=times[0], end=times[1], end_kind=kind, rank="normal")
    return replace(made, **fields)  # type: ignore[arg-type]


def month(draw: random.Random, before: list[Row]) -> list[Row]:
    """Return the rows of a later snapshot: some ended, moved, renamed, gone, back under another id, or new."""
    rows = []
    for one in before:
        match draw.randrange(14):
            case 0 if one.end is None:
                rows.append(replace(one, end=parse_time("+2024-05-01T00:00:00Z"), end_kind=EndKind.KNOWN))
            case 1:
                rows.append(replace(one, start=parse_time(f"+{draw.randrange(1900, 2020)}-01-01T00:00:00Z")))
            case 2:
                rows.append(replace(one, holder=f"{one.holder}’"))
            case 3:
                rows.append(replace(one, rank="preferred"))
            case 4:
                pass
            case 5:
                rows.append(replace(one, statement=f"{WDS}{one.subject_id}-{draw.random()}"))
            case _:
                rows.append(one)
    number = draw.randrange(8)
    lands = [f"Land {draw.randrange(number + 4)}" for _ in range(draw.randrange(4))]
    for land in lands:
        new = row(f"Person {draw.randrange(40)}", draw.randrange(1950, 2030), subject=land)
        # Italy by its id beside Italy by its label: one entity and two facts of the graph.
        known = replace(new, subject_id="Q38", statement=f"{WDS}Q38-{draw.random()}")
        rows.append(known if land == "Land 1" else replace(new, property=draw.choice(["P35", "P6"])))
    return rows


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six snapshots in folders of their own."""
    folder, draw = tmp_path_factory.mktemp("plain"), random.Random(11)
    lands = ["Italy", "France", *(f"Land {number}" for number in range(8))]
    rows = [row(f"Person {n}", 1950 + n, None, subject=land, whole=n % 3 > 0) for n in range(9) for land in lands]
    for number in range(6):
        source = Source(tuple(rows), "test", "Rows of a test.", provenance={"redirects": {"Q1": f"Q{number + 2}"}})
        take(source, folder, 20240101 + number * 100)
        rows = month(draw, rows)
    return folder


@pytest.fixture(scope="module")
def packed(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    for one in own(plain):
        pack(one, folder)
    return folder


def own(folder: Path) -> list[Snapshot]:
    return [one for one in find_snapshots(folder) if folder in one.path.parents]


def test_packed_snapshots_are_found_and_read_like_others(plain: Path, packed: Path, tmp_path: Path) -> None:
    assert [path.name for path in packed.iterdir()] == [FOLDER]
    before, after = own(plain), own(packed)
    assert len(before) == len(after) == 6
    for one, other in zip(before, after, strict=True):
        assert isinstance(other, Packed)
        assert (one.id, one.digest, one.known, one.dropped) == (other.id, other.digest, other.known, other.dropped)
        assert one.read_statements() == other.read_statements() == b"".join(one.blocks())
        assert dict(one.manifest) == dict(other.manifest) == dict(pickle.loads(pickle.dumps(other)).manifest)
        assert len(one.manifest) == len(other.manifest)
        assert identity.redirects(one) == identity.redirects(other) != {}
        assert verify(other) == verify(packed / other.id) == []
        assert load(packed / one.id).path == other.path == whereabouts(packed, one.date)
    count = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
    [found] = open_store(choose(after, 20240215), tmp_path).rows(count)
    assert found["n"] == len(before[2].read_statements().splitlines())


def test_a_snapshot_is_not_taken_over_a_packed_one(packed: Path) -> None:
    with pytest.raises(SnapshotError, match=r"2024-03-01.segment exists"):
        take(Source((row("A", 2000),), "test", ""), packed, 20240301)


def test_unpacking_gives_the_same_files(plain: Path, packed: Path, tmp_path: Path) -> None:
    for one, other in zip(own(plain), own(packed), strict=True):
        assert isinstance(other, Packed)
        unpack(other, tmp_path)
        for name in ("statements.nt.gz", "manifest.json"):
            assert (tmp_path / one.id / name).read_bytes() == (one.path / name).read_bytes()
    with pytest.raises(SnapshotError, match="never overwritten"):
        unpack(own(packed)[0], tmp_path)  # type: ignore[arg-type]


def test_unpacking_where_compression_differs_names_the_new_file(packed: Path, tmp_path: Path) -> None:
    one = own(packed)[0]
    assert isinstance(one, Packed)
    other = {**one.manifest, "statements": {**one.manifest["statements"], "file_digest": "0" * 64}}
    done = unpack(replace(one, manifest=other), tmp_path)
    assert verify(done) == []
    assert done.digest == one.digest


def test_what_was_packed_is_dropped_only_where_it_is_the_same(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    first, second = own(folder)[:2]
    packed = pack(first, folder)
    assert pack(first, folder).path == packed.path  # again, as after a crash
    with pytest.raises(SnapshotError, match="does not hold"):
        drop(second, packed)
    with pytest.raises(SnapshotError, match="does not hold"):
        drop(packed, packed)
    drop(first, packed)
    assert not first.path.exists()
    assert own(folder)[0].path == packed.path
    shutil.rmtree(second.path)
    changed = take(Source((row("A", 2000),), "test", "", date=second.date), folder)
    pack(changed, folder)
    with pytest.raises(SnapshotError, match="two different"):
        pack(second, folder)


def test_a_damaged_series_stops_what_reads_it(packed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(packed, tmp_path / "copy")
    path = folder / FOLDER / "2024-02-01.segment"
    data = bytearray(path.read_bytes())
    data[len(segments.MAGIC) + 30] ^= 1
    path.write_bytes(data)
    whole, *others = own(folder)
    assert verify(whole) == []
    assert all("2024-02-01.segment is damaged" in verify(other)[0] for other in others)
    path.unlink()
    with pytest.raises(SnapshotError, match=r"2024-02-01.segment is missing"):
        find_snapshots(folder)
    assert "is missing" in verify(folder / "2024-03-01")[0]


def test_a_date_that_is_not_there_is_said(packed: Path) -> None:
    found = open_series(packed / FOLDER)
    assert found is not None
    with pytest.raises(UsageError, match="'2030-01-01'"):
        found.place("2030-01-01")


@pytest.mark.parametrize("by", By)
def test_changes_within_a_series_are_those_between_plain_ones(plain: Path, packed: Path, by: By) -> None:
    kinds = set()
    before, after = own(plain), own(packed)
    for a, b in [(0, 1), (1, 2), (3, 4), (4, 5), (1, 4), (0, 5)]:
        expected = diff(before[a], before[b], entity, by, ids=True)
        assert diff(after[a], after[b], entity, by, ids=True) == expected != []
        kinds |= {change.kind for change in expected}
    assert diff(after[3], after[3], entity, by, ids=True) == []
    assert len(kinds) > 4
