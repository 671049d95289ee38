import json
from pathlib import Path

import pytest

from dyknow.judges import Judged, Label, Share, agreement, read_labels
from kg.errors import DataError

ROW = {
    "model": "gpt2-xl",
    "domain": "countries_byGDP",
    "subject": "Italy",
    "attribute": "President of Italy",
    "template": "contextualized",
    "label": "correct",
    "entity": "Sergio Mattarella",
    "read": True,
}


def written(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_become_labels(tmp_path: Path) -> None:
    club = ROW | {"domain": "athletes_byPayment", "subject": "Lionel Messi", "attribute": None, "label": "unclear"}
    assert read_labels(written(tmp_path, ROW, club)) == [
        Label("gpt2-xl", "Q38/P35#contextualized", "up-to-date", "Sergio Mattarella", True),
        Label("gpt2-xl", "Q615/P54#contextualized", "unclear", "Sergio Mattarella", True),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"label": "good"}, "line 1: the label is 'good'"),
        ({"attribute": "Pope"}, "line 1: 'Italy' has the post 'Pope'"),
        ({"model": None}, "line 1: 'model' is None"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_labels(written(tmp_path, ROW | change))


def label(number: int, verdict: str, named: str | None = None, *, read: bool = True) -> Label:
    return Label("m", f"Q1/P35#{number}", verdict, named, read)


def test_agreement_by_hand() -> None:
    labels = [
        label(1, "up-to-date", "A"),
        label(2, "up-to-date", "A"),
        label(3, "outdated", "B", read=False),
        label(4, "irrelevant"),
        label(5, "irrelevant"),
        label(6, "unclear"),
        label(7, "irrelevant"),
    ]
    judged = [("up-to-date", "QA"), ("irrelevant", None), ("outdated", "QB"), ("irrelevant", None), ("outdated", "QB")]
    verdicts = {("m", f"Q1/P35#{number}"): Judged(*pair) for number, pair in enumerate(judged, 1)}
    found = agreement(verdicts, labels, {("Q1/P35", "A"): "QA", ("Q1/P35", "B"): "QB"})
    assert found.agree == Share(3, 5)
    assert found.runs == {"m": Share(3, 5)}
    assert found.confusion[("up-to-date", "irrelevant")] == 1
    assert found.entities == Share(1, 2)
    assert found.invented == Share(1, 5)
    assert (found.unclear, found.missing) == (1, 1)
    assert [row.label.question for row in found.disagreements] == ["Q1/P35#2", "Q1/P35#5"]
    # Observed 3/5; by chance (2·1 + 1·2 + 2·2) / 25 = 8/25.
    assert found.kappa == pytest.approx((0.6 - 0.32) / (1 - 0.32))


def test_nothing_to_compare() -> None:
    found = agreement({}, [label(1, "outdated")], {})
    assert (found.agree.rate, found.agree.interval, found.kappa, found.missing) == (None, None, None, 1)


def test_the_published_labels_agree_with_the_corrected_ones_in_nineteen_of_twenty(shared: Path) -> None:
    labels = read_labels(shared / "gold" / "labels.jsonl")
    lines = (shared / "gold" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    words = {"correct": "up-to-date"}
    published = [json.loads(line)["published"] for line in lines]
    verdicts = {
        (row.run, row.question): Judged(words.get(text, text), None)
        for row, text in zip(labels, published, strict=True)
    }
    found = agreement(verdicts, labels, {})
    assert found.agree.n == 3886
    assert found.agree.rate == pytest.approx(0.959, abs=0.0005)
