import json
from pathlib import Path

import pytest

from dyknow.judges import VERDICTS, Key, Label, Reading, Share, agreement, read_labels, readings
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
        ({"entity": 3}, "line 1: 'entity' is 3"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_labels(written(tmp_path, ROW | change))


def keyed(*verdicts: Reading) -> dict[Key, Reading]:
    return {("m", f"Q{number % 3}/P35#{number}", 0): one for number, one in enumerate(verdicts, 1)}


UP, OUT, IRR = VERDICTS


def test_agreement_by_hand() -> None:
    theirs = keyed(
        Reading(UP, "QA", names=True),
        Reading(UP, "QA", names=True),
        Reading(OUT, "QB", names=True, read=False),
        Reading(IRR, names=False),
        Reading(IRR, names=False),
        Reading("unclear"),
        Reading(IRR, names=False),
        Reading(IRR, names=None),
    )
    ours = keyed(
        Reading(UP, "QA", names=True, kind="label"),
        Reading(IRR, names=False, kind="echo"),
        Reading(OUT, "QB", names=True, kind="surname"),
        Reading(IRR, names=False, kind="echo"),
        Reading(OUT, "QB", names=True, kind="surname"),
        Reading(OUT, "QB", names=True),
        Reading("unjudged"),
        Reading(IRR, names=False, kind="echo"),
    )
    found = agreement(ours, theirs)
    assert found.agree[:2] == (4, 6)
    assert found.confusion == {(UP, UP): 1, (UP, IRR): 1, (OUT, OUT): 1, (IRR, IRR): 2, (IRR, OUT): 1}
    assert found.entities[:2] == (1, 2)  # the third was not read one by one
    assert found.invented[:2] == (1, 5)  # the last does not say whether somebody is named
    assert (found.unclear, found.missing, found.facts) == (1, 1, 3)
    assert [one.key[1] for one in found.disagreements] == ["Q2/P35#2", "Q2/P35#5"]
    groups = {(group.by, group.name): group.agree[:2] for group in found.groups}
    assert groups == {
        ("model", "m"): (4, 6), ("kind", "echo"): (2, 3), ("kind", "label"): (1, 1), ("kind", "surname"): (1, 2),
        ("read", "not read"): (1, 1), ("read", "read one by one"): (3, 5),
    }  # fmt: skip
    # Observed 4/6; by chance (theirs 2, 1, 3; ours 1, 2, 3): (2·1 + 1·2 + 3·3) / 36.
    assert found.kappa.value == pytest.approx((4 / 6 - 13 / 36) / (1 - 13 / 36))


def test_intervals_hold_the_figure_and_hang_on_facts_alone() -> None:
    theirs = keyed(*[Reading((UP, OUT, IRR)[n % 3]) for n in range(60)])
    ours = keyed(*[Reading((UP, OUT, IRR)[(n + (n % 7 == 0)) % 3]) for n in range(60)])
    found = agreement(ours, theirs, draws=500)
    for value, low, high in (found.kappa, (found.agree.rate, *found.agree[2:])):
        assert value is not None
        assert low is not None
        assert high is not None
        assert low <= value <= high
    # Every row ten times over, as ten runs of one model would have it: no more facts, so no narrower.
    many = [
        {(f"{run}{n}", q, s): one for (run, q, s), one in side.items() for n in range(10)} for side in (ours, theirs)
    ]
    again = agreement(many[0], many[1], draws=500)
    assert again.agree.n == 600
    assert again.kappa == pytest.approx(found.kappa)
    assert again.agree[2:] == pytest.approx(found.agree[2:])


def test_nothing_to_compare() -> None:
    found = agreement({}, keyed(Reading(OUT)))
    assert (found.agree, found.kappa.value, found.missing) == (Share(0, 0), None, 1)
    assert found.agree.rate is None
    assert agreement(keyed(Reading(OUT)), keyed(Reading(OUT))).kappa.value is None  # one class: chance agrees fully


def test_a_label_of_nobody_we_know_is_that_of_an_entity() -> None:
    one = Label("m", "Q1/P35#1", UP, "A", read=True)
    assert readings([one], {("Q1/P35", "A"): "QA"}) == {("m", "Q1/P35#1", 0): Reading(UP, "QA", names=True)}
    assert readings([one], {("Q2/P35", "A"): "QA"}) == {("m", "Q1/P35#1", 0): Reading(UP, None, names=True)}


def test_the_published_labels_agree_with_the_corrected_ones_in_nineteen_of_twenty(shared: Path) -> None:
    labels = read_labels(shared / "gold" / "labels.jsonl")
    lines = (shared / "gold" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    words = {"correct": "up-to-date"}
    published = [json.loads(line)["published"] for line in lines]
    verdicts = {
        (row.run, row.question, 0): Reading(words.get(text, text)) for row, text in zip(labels, published, strict=True)
    }
    found = agreement(verdicts, readings(labels, {}))
    assert found.agree.n == 3886
    assert found.agree.rate == pytest.approx(0.959, abs=0.0005)
    assert found.invented.n == 0  # the published labels do not say whom
