"""The corrected Table 1 in docs/findings.md says what the corrected labels and our matcher yield."""

from pathlib import Path

import pytest

from benchmarks import corrected, matching
from dyknow.match import CUTOFFS
from tests.conftest import REPO


@pytest.fixture(scope="module")
def labels(shared: Path) -> Path:
    return shared / "gold" / "labels.jsonl"


def test_the_findings_hold_what_the_command_prints(labels: Path) -> None:
    said = (REPO / "docs" / "findings.md").read_text(encoding="utf-8")
    found = [line for line in corrected.lines(labels) if line.startswith("|")]
    assert len(found) > 27 + 6
    assert [line for line in found if line not in said] == []


def test_the_published_labels_give_the_published_table(labels: Path) -> None:
    rates = corrected.tables(labels)["published"]
    assert len(rates) == 27
    assert round(rates["gpt2-xl", "countries"]["up-to-date"]) == 23
    assert round(rates["gpt-3.5-turbo-1106", "countries"]["outdated"]) == 44


def test_agreement_with_the_corrected_labels(labels: Path) -> None:
    texts = matching.labelled(labels)
    found = matching.agreement(texts, matching.ours)
    assert found.rows > 3000
    assert found.verdicts / found.rows >= 0.995
    assert found.entities / found.read >= 0.98
    assert found.invented / found.rows <= 0.002
    assert matching.agreement(texts, matching.study).verdicts < found.verdicts


@pytest.mark.slow
def test_the_cutoffs_are_what_cross_validation_chooses(labels: Path) -> None:
    texts = matching.labelled(labels)
    subjects = frozenset(text.asked.subject for text in texts)
    assert matching.choose(matching.grid_of(texts), subjects) == CUTOFFS
