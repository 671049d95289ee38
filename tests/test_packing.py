"""The commands of a series: packed snapshots are listed, verified, compared and taken out again."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from kg.dates import parse_time
from kg.errors import UsageError
from kg.resources import SHIPPED, shipped_snapshots
from kg.snapshot import Packed, choose, dates, find, find_snapshots, manifest, segments, take
from kg.sources import Row, Source
from kg.terms import EndKind

DATES = ("2024-01-31", "2024-02-29", "2024-03-31")


def call(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["snapshot", *words, "--snapshots", str(folder)])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first, second = parse_time("+2000-01-01T00:00:00Z"), parse_time("+2024-02-01T00:00:00Z")
    rows = [Row("Italy", "P35", "A", start=first), Row("France", "P35", "B", start=first)]
    later = [Row("Italy", "P35", "A", start=first, end=second, end_kind=EndKind.KNOWN), rows[1]]
    states = (rows, [*later, Row("Italy", "P35", "C", start=second)], rows)
    for name, own in zip(DATES, states, strict=True):
        take(Source(tuple(own), "test", "Rows of a test."), tmp_path / "mine", int(name.replace("-", "")))
    return tmp_path / "mine"


def test_pack_and_unpack_there_and_back(folder: Path, tmp_path: Path) -> None:
    before = files(folder)
    done = call(folder, "pack", "--format", "json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["snapshot"] for row in rows] == list(DATES)
    first, second, third = rows
    assert (first["added"], first["left"], first["back"]) == (first["triples"], 0, 0)
    assert second["triples"] == first["triples"] + second["added"] - second["left"]
    assert (third["added"], third["left"], third["back"]) == (0, second["added"], second["left"])
    assert sorted(path.name for path in folder.iterdir()) == ["series"]
    listed = json.loads(call(folder, "list", "--format", "json").stdout)
    assert [Path(row["path"]).name for row in listed if row["snapshot"] in DATES] == [f"{d}.segment" for d in DATES]
    assert json.loads(call(folder, "show", DATES[1], "--format", "json").stdout)["coverage"]
    assert call(folder, "verify", *DATES).output == "".join(f"{name}: whole\n" for name in DATES)
    changed = json.loads(call(folder, "diff", *DATES[:2], "--format", "json").stdout)
    assert [(row["change"], row["holder"]) for row in changed] == [("changed end", "A"), ("added", "C")]
    assert call(folder, "unpack", DATES[0]).stdout == f"{folder / DATES[0]}\n"
    assert call(folder, "unpack").stdout == "".join(f"{folder / name}\n" for name in DATES[1:])
    assert call(folder, "unpack", "--to", str(tmp_path / "elsewhere")).exit_code == 0
    shutil.rmtree(folder / "series")
    assert files(folder) == files(tmp_path / "elsewhere") == before


def test_what_a_series_cannot_take_stays_a_folder(folder: Path) -> None:
    assert call(folder, "pack", DATES[1], "--keep").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [*DATES, "series"]
    assert call(folder, "pack", DATES[0]).exit_code == 1
    done = call(folder, "pack")
    assert done.exit_code == 0
    assert f"Left as folders, for the series goes beyond them: {DATES[0]}." in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [DATES[0], "series"]
    assert "nothing to pack" in call(folder, "pack").stderr
    assert call(folder, "take", "examples/facts.csv", "--source", "table", "--date", DATES[2]).exit_code == 1


def test_what_would_be_lost_stays(folder: Path) -> None:
    assert call(folder, "pack", "--keep").exit_code == 0
    (folder / DATES[0] / "notes.txt").write_text("mine", encoding="utf-8")
    done = call(folder, "pack", DATES[0])
    assert (done.exit_code, "also holds notes.txt" in done.stderr) == (1, True), done.output
    assert (folder / DATES[0] / "notes.txt").read_text(encoding="utf-8") == "mine"
    statements = folder / DATES[1] / "statements.nt.gz"
    statements.write_bytes(statements.read_bytes()[:100])
    done = call(folder, "pack", DATES[1])
    assert (done.exit_code, str(statements) in done.stderr) == (1, True), done.output
    assert statements.stat().st_size == 100
    done = call(folder, "unpack")
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert f"Left alone, for a whole folder is there: {DATES[0]}, {DATES[2]}." in done.stderr
    assert f"{statements} is not the file the manifest names" in done.stderr
    assert f"Move {folder / DATES[1]} away" in done.stderr
    shutil.rmtree(folder / DATES[1])
    assert call(folder, "unpack").stdout == f"{folder / DATES[1]}\n"


MISUSED = [
    ("pack", "2024-04-30", "There is no snapshot '2024-04-30'."),
    ("pack", SHIPPED[0], "is no folder to pack"),
    ("unpack", "2024-04-30", "has no snapshot '2024-04-30'"),
]


@pytest.mark.parametrize(("name", "date", "message"), MISUSED)
def test_a_wrong_name_is_said(folder: Path, name: str, date: str, message: str) -> None:
    call(folder, "pack", DATES[2])
    done = call(folder, name, date)
    assert (done.exit_code, message in done.stderr) == (2, True), done.output
    assert call(folder / "none", "unpack").exit_code == 1


def test_the_shipped_snapshots_stay_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert tuple(path.name for path in sorted(shipped_snapshots().iterdir()) if path.name in SHIPPED) == SHIPPED
    copy = shutil.copytree(shipped_snapshots(), tmp_path / "shipped")
    for module in ("kg.snapshot.files", "dyknow.commands.packing"):
        monkeypatch.setattr(f"{module}.shipped_snapshots", lambda: copy)
    before = files(copy)
    assert "nothing to pack" in call(copy, "pack").stderr
    assert "stays a folder" in call(copy, "pack", SHIPPED[0]).stderr
    assert files(copy) == before


def test_damage_is_told_with_exit_code_1(folder: Path) -> None:
    call(folder, "pack")
    path = folder / "series" / f"{DATES[1]}.segment"
    whole = bytearray(path.read_bytes())
    damaged = bytearray(whole)
    damaged[len(segments.MAGIC) + 9] ^= 4
    path.write_bytes(damaged)
    done = call(folder, "verify", *DATES)
    assert done.exit_code == 1
    assert f"{DATES[0]}: whole\n" in done.stdout
    assert f"{DATES[1]}: {path} is damaged: its SHA-256 is" in done.stdout
    assert "CRC-32" in done.stdout
    assert "2 snapshots are damaged" in done.stderr


# ----------------------------------------------------------------------------------------------- damage and listings


def test_one_snapshot_is_found_without_reading_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(folder, "pack", DATES[0])
    every, read = find_snapshots(folder), list[str]()
    assert dates(folder) == [one.id for one in every]
    reading = manifest.read

    def watched(path: Path) -> dict[str, Any]:
        read.append(path.name)
        return reading(path)

    monkeypatch.setattr(manifest, "read", watched)
    for as_of in (20000101, 20231218, 20240131, 20240201, 20240331, 20240401, 20301231):
        expected = choose(every, as_of)
        read.clear()
        assert find(folder, as_of).path == expected.path
        assert read == ([] if isinstance(expected, Packed) else [expected.id])
    for one in every:
        assert find(folder, 20000101, one.id).path == one.path
    with pytest.raises(UsageError, match="no snapshot '2024-05-31'"):
        find(folder, 20000101, "2024-05-31")


def test_what_is_damaged_stops_no_listing_and_nothing_that_does_without_it(folder: Path) -> None:
    call(folder, "pack", *DATES[:2])
    manifest = folder / DATES[2] / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(b"{}")
    path = folder / "series" / f"{DATES[1]}.segment"
    path.rename(folder / "elsewhere")
    done = call(folder, "list", "--format", "json")
    assert done.exit_code == 1
    rows = {row["snapshot"]: row for row in json.loads(done.stdout)}
    assert list(rows) == sorted([*SHIPPED, *DATES])
    assert (rows[DATES[0]]["facts"], rows[DATES[0]]["damage"]) == (2, None)
    assert (rows[DATES[1]]["facts"], rows[DATES[1]]["path"]) == (None, str(path))
    assert f"{path} is missing" in rows[DATES[1]]["damage"]
    assert f"{manifest} is not of format 1" in rows[DATES[2]]["damage"]
    assert done.stderr.count("etch") == 2  # a next step for each
    assert re.search(rf"^{DATES[1]} +DAMAGED *$", call(folder, "list").stdout, re.MULTILINE)
    done = call(folder, "verify")
    assert (done.exit_code, "2 snapshots are damaged" in done.stderr) == (1, True)
    assert f"{DATES[0]}: whole\n{DATES[1]}: {path} is missing" in done.stdout
    assert call(folder, "show", DATES[0]).exit_code == call(folder, "diff", SHIPPED[0], DATES[0]).exit_code == 0
    assert f"{manifest} is not of format 1" in call(folder, "show", DATES[2]).stderr
    done = call(folder, "check", DATES[0])
    assert (done.exit_code, done.stderr.count("It is no neighbour to compare with.")) == (0, 2), done.output
    asked = ["answers", "--snapshots", str(folder), "--subject", "Italy", "--as-of"]
    assert CliRunner().invoke(cli, [*asked, DATES[0]]).exit_code == 0
    assert f"{path} is missing" in CliRunner().invoke(cli, [*asked, DATES[1]]).stderr  # no other one instead
    done = call(folder, "unpack")
    assert (done.exit_code, done.stdout) == (1, f"{folder / DATES[0]}\n")
    assert f"{path} is missing" in done.stderr
    (folder / "elsewhere").rename(path)
    manifest.write_bytes(whole)
    assert call(folder, "verify").exit_code == call(folder, "list").exit_code == 0
