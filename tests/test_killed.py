"""Commands killed in the middle: what they left is told, the next one cleans it up, and nothing is lost."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from kg.dates import parse_time
from kg.snapshot import load, pack, take, tidy, untidy
from kg.snapshot.beside import unlocked, written_beside
from kg.sources import Row, Source

DATES = ("2024-01-31", "2024-02-29")
LATER = "2024-03-31"

KILLER = r"""
import os, signal, sys
from pathlib import Path
from kg.snapshot import appending, beside, drop, files, find_snapshots, pack, take, take_in_parts
from kg.sources import Row, Source

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def nth(number, work):
    calls = []
    def called(*given):
        calls.append(1)
        return die() if len(calls) == number else work(*given)
    return called

def half_removed(path):
    (path / "statements.nt.gz").unlink()
    die()

new = Source((Row("Italy", "P35", "A"),), "test", "Rows of a test.")
MOMENTS = {
    "half a segment": (appending.os, "fsync", die),
    "segment not listed": (appending, "_write_sums", die),
    "half a list": (appending.os, "fsync", nth(2, os.fsync)),
    "folder set aside": (beside.shutil, "rmtree", die),
    "folder half removed": (beside.shutil, "rmtree", half_removed),
    "half a snapshot": (files, "write", nth(2, files.write)),
    "parts of a snapshot": (files, "_merge", die),
}
for place in map(Path, sys.argv[1:]):
    if not (child := os.fork()):
        setattr(*MOMENTS[place.name])
        match place.name:
            case "half a snapshot":
                take(new, place, 20240331)
            case "parts of a snapshot":
                take_in_parts(new, [new.rows], place, 20240331)
            case _:
                for one in [one for one in find_snapshots(place) if one.path.parent == place]:
                    drop(one, pack(one, place))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""

TOLD = {
    "half a segment": ["series/.2024-01-31-beside is half a file"],
    "segment not listed": ["series/SHA256SUMS does not list 2024-01-31.segment"],
    "half a list": ["series/.SHA256SUMS-beside is half a file", "series/SHA256SUMS does not list 2024-01-31.segment"],
    "folder set aside": [".2024-01-31-packed was being taken away after 2024-01-31 had been packed"],
    "folder half removed": [".2024-01-31-packed was being taken away after 2024-01-31 had been packed"],
    "half a snapshot": ["is half of a snapshot"],
    "parts of a snapshot": ["is half of a snapshot"],
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def call(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["snapshot", *words, "--snapshots", str(folder)])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, start = tmp_path_factory.mktemp("plain"), parse_time("+2000-01-01T00:00:00Z")
    for number, name in enumerate(DATES):
        rows = (Row("Italy", "P35", "A", start=start), Row("France", "P35", f"B{number}", start=start))
        take(Source(rows, "test", "Rows of a test."), folder, int(name.replace("-", "")))
    return folder


@pytest.fixture(scope="module")
def done(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a packing that nobody killed."""
    folder = shutil.copytree(plain, tmp_path_factory.mktemp("done") / "done")
    assert call(folder, "pack").exit_code == 0
    return files(folder)


@pytest.fixture(scope="module")
def killed(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of snapshots for each moment at which a process that worked on it was killed."""
    root = tmp_path_factory.mktemp("killed")
    places = [str(shutil.copytree(plain, root / moment)) for moment in TOLD]
    subprocess.run([sys.executable, "-c", KILLER, *places], check=True)
    return root


@pytest.mark.parametrize("moment", TOLD)
def test_what_a_killed_command_left_is_told_and_cleaned_up(killed: Path, done: dict[str, bytes], moment: str) -> None:
    folder = killed / moment
    before = files(folder)
    for command in ("list", "verify"):
        told = call(folder, command)
        assert told.exit_code == 0, told.output
        assert all(one in told.stderr for one in TOLD[moment]), told.stderr
        assert "The next dyknow snapshot pack or take cleans that up." in told.stderr
    assert files(folder) == before != done
    again = call(folder, "pack")
    assert again.exit_code == 0, again.output
    assert files(folder) == done
    assert sorted(path.name for path in folder.iterdir()) == ["series"]
    assert untidy(folder) == tidy(folder) == []


def test_what_is_still_being_written_is_no_leftover(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    with written_beside(folder / LATER) as beside:
        assert untidy(folder) == tidy(folder) == []
        assert beside.is_dir()
        with unlocked(beside) as free:
            assert not free
    assert (folder / LATER).is_dir()


def test_a_packed_folder_comes_back_where_the_series_has_gone(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    (folder / DATES[0]).rename(folder / f".{DATES[0]}-packed")
    assert tidy(folder) == [
        f"{folder / DATES[0]} is put back: a killed command had begun to take it away, and the series does not have it."
    ]
    assert files(folder) == files(plain)
    (folder / DATES[0]).rename(folder / f".{DATES[0]}-packed")
    (folder / f".{DATES[0]}-packed" / "statements.nt.gz").unlink()
    [said] = tidy(folder)
    assert "is left: the series does not have 2024-01-31" in said
    assert (folder / f".{DATES[0]}-packed" / "manifest.json").exists()


def test_a_file_that_is_no_part_of_a_snapshot_is_not_cleaned_up(plain: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(plain, tmp_path / "copy")
    pack(load(folder / DATES[0]), folder)
    aside = (folder / DATES[0]).rename(folder / f".{DATES[0]}-packed")
    (aside / "notes.txt").write_text("mine", encoding="utf-8")
    [said] = tidy(folder)
    assert "also holds notes.txt" in said
    assert [path.name for path in aside.iterdir()] == ["notes.txt"]
