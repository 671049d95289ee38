"""What a judge's later word takes away from an earlier one is said; what is wrong in a table is found where it stands."""

from pathlib import Path

import pytest

from dyknow.adjudication import Judgment, read_judgments, record
from dyknow.commands.adjudicating import _save
from dyknow.commands.common import Places
from dyknow.doubts import Holder
from kg.errors import DataError
from tests.journals import write_run

NAMED = Judgment(("alpha", "Q38/P6#1", 0), named=True, entity="Q1", label="A")
VERDICT = Judgment(NAMED.key, verdict="outdated", as_of="2023-12-18", reason="verdict only")
KNOWN = {("alpha", f"Q38/P6#{number}", 0): "A" for number in (1, 2)}
HOLDERS = {"Q38/P6": (Holder("Q1", "A", None, None, ("A",)),)}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs", "alpha", {"Q38/P6#1": "A", "Q38/P6#2": "A"})
    return tmp_path / "runs"


def test_a_verdict_alone_that_stands_before_a_name_is_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(runs, "anna", [NAMED]).displaced == ()
    assert _save(Places(runs=runs), "anna", [VERDICT]) == 1
    said = capsys.readouterr().err
    assert "1 names that anna had given stand no more" in said
    assert "alpha Q38/P6#1" in said
    assert record(runs, "anna", [VERDICT]) == (0, ())  # told once
    assert record(runs, "anna", [NAMED]) == (1, ())


def test_nor_within_one_file_or_for_another_reason(runs: Path) -> None:
    assert record(runs, "anna", [NAMED, VERDICT]).displaced == ("alpha Q38/P6#1",)
    assert record(runs, "bert", [VERDICT, NAMED]).displaced == ()
    assert record(runs, "carl", [NAMED, Judgment(NAMED.key, reason="unclear")]).displaced == ()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('alpha,Q38/P6#1,A,"two\nlines"\nalpha,Q38/P6#2,Somebody,"a\nb\nc"', "line 4: 'Somebody' is no holder"),
        ('alpha,Q38/P6#1,A,"two\nlines",more', "line 2: the row has not as many cells"),
        ('alpha,Q38/P6#1,A,x\nalpha,Q38/P6#2,A,"open\nand open', "line 3 is no CSV"),
    ],
)
def test_a_row_is_found_where_it_begins(tmp_path: Path, lines: str, says: str) -> None:
    file = tmp_path / "file.csv"
    file.write_text(f"run,question,entity,note\n{lines}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"file.csv, {says}"):
        read_judgments(file, KNOWN, HOLDERS)
