"""How well and how fast texts are matched to names: ``python -m benchmarks.matching``.

``--cross-validate LABELS`` chooses the cut-offs for misspelt names on corrected labels, and says how the matcher does
on subjects that had no part in the choice. The texts that the labels are about are read from the folder ``published``
that stands beside the labels' own.
"""

import argparse
import gc
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dyknow import benchmark
from dyknow.candidates import Asked
from dyknow.journal import find_runs, responses
from dyknow.judges import UNCLEAR, Label, read_labels
from dyknow.match import CUTOFFS, Candidate, match
from dyknow.names import fold, word_list
from dyknow.published import import_published
from dyknow.rows import asked_of
from dyknow.spans import Cutoffs
from kg import identity
from kg.answers import answers, facts, names
from kg.snapshot import find_snapshots
from kg.store import open_store

AS_OF = 20231218
FOLDS = 5
NAME_CUTOFFS = (80.0, 82.5, 85.0, 87.5, 90.0, 92.5, 95.0)
WORD_CUTOFFS = (65.0, 70.0, 74.0, 78.0, 82.0, 86.0)
OFF = Cutoffs(100.0, 100.0)

Reader = Callable[["Text"], "str | None"]


class Text(NamedTuple):
    """A text, the fact it answers, and what a reader says of it; none where it was made up for measuring speed."""

    asked: Asked
    prompt: str
    text: str
    label: Label | None = None


class Counts(NamedTuple):
    """How a matcher agrees with labels."""

    verdicts: int
    rows: int
    entities: int
    read: int
    invented: int

    def __str__(self) -> str:
        """Return the counts as shares for the reader."""
        return (
            f"verdict {100 * self.verdicts / self.rows:.2f} % of {self.rows}, "
            f"entity {100 * self.entities / self.read:.2f} % of {self.read} read, "
            f"named where the reader saw none {100 * self.invented / self.rows:.2f} %"
        )


# The data


@cache
def known() -> tuple[dict[str, Asked], dict[str, dict[str, str]]]:
    """Return the facts of the first snapshot with their names, and each holder's standing as of the labels' day."""
    store, same = open_store(find_snapshots()[0]), identity.load()
    asked = asked_of(facts(store, same).values(), names(store, same))
    standing = {one.fact: {h.entity: str(h.standing) for h in one.holders} for one in answers(store, same, AS_OF)}
    return asked, standing


def labelled(path: Path) -> list[Text]:
    """Return the texts of a labels file with their labels, unclear ones left out."""
    asked, _ = known()
    labels = [label for label in read_labels(path) if label.verdict != UNCLEAR]
    with tempfile.TemporaryDirectory() as made:
        import_published(path.parents[1] / "published", Path(made))
        said = {(run.id, row["question"]): row for run in find_runs(Path(made)) for row in responses(run.path)}
    rows = ((label, said[label.run, label.question]) for label in labels)
    return [Text(asked[label.fact], row["prompt"] or "", row["text"] or "", label) for label, row in rows]


def right(text: Text, entity: str | None) -> tuple[bool, bool | None, bool]:
    """Tell whether verdict and entity (None: none was read) are the label's, and whether an entity was invented."""
    label = text.label
    assert label is not None
    standing = known()[1][text.asked.fact].get(entity or "", "irrelevant")
    verdict = standing if standing in ("up-to-date", "outdated") else "irrelevant"
    named = {one.labels[0]: one.entity for one in text.asked.candidates}.get(label.named or "")
    same = entity == named if label.read and label.named is not None else None
    return verdict == label.verdict, same, label.named is None and entity is not None


def counted(results: Sequence[tuple[bool, bool | None, bool]]) -> Counts:
    """Add results up."""
    read = [same for _, same, _ in results if same is not None]
    return Counts(
        sum(verdict for verdict, _, _ in results), len(results), sum(read), len(read), sum(inv for _, _, inv in results)
    )


def agreement(texts: Sequence[Text], reader: Reader) -> Counts:
    """Return how a reader agrees with the labels."""
    return counted([right(text, reader(text)) for text in texts])


def ours(text: Text, cutoffs: Cutoffs = CUTOFFS, *, aliases: bool = True) -> str | None:
    """Return the entity that our matcher finds."""
    asked = text.asked
    options = {"cutoffs": cutoffs, "aliases": aliases}
    return match(text.text, text.prompt, asked.candidates, asked.subject, asked.office, **options).entity  # type: ignore[arg-type]


# The study's way


@cache
def _patterns(candidate: Candidate) -> tuple[str, ...]:
    """Return a name, the name without what says that it is a club, and its head word, as the study searches them."""
    label = candidate.labels[0]
    bare = " ".join(part for part in label.split() if fold(part) not in word_list("designators")) or label
    head = label.split(" of ")[0] if re.search(r"\b[IVX]+\b", label) else bare.split()[-1]
    return tuple(rf"(?:^|\W){re.escape(form)}(?:\W|$)" for form in dict.fromkeys((label, bare, head)))


def study(text: Text) -> str | None:
    """Search each candidate in turn, as the study's script does: the earliest match wins, of several the last one."""
    answer = text.text.rpartition(text.prompt)[2] if text.prompt else text.text
    best: tuple[int, int] | None = None
    found = None
    for candidate in text.asked.candidates:
        for pattern in _patterns(candidate):
            place = re.search(pattern, answer, re.IGNORECASE)
            if place is not None:
                key = (place.start(), -(candidate.first_day or 0))
                if best is None or key < best:
                    best, found = key, candidate.entity
                break
    return found


# Speed

_SHAPES = (
    "{prompt} {name}.",
    "{name}",
    "{prompt} {name}. He was born on {number} May 1961 in a small town and has held many posts since.",
    "As of my last update in 2021, the answer is {name}. Please check a source of today, such as no. {number}.",
    "{prompt} a member of the party of the people, which has {number} seats.",
    "{prompt} {name}, who took office in 2019 after {other} stepped down; file {number}.",
    "I'm sorry, I cannot say that with certainty ({number}).",
    "{prompt} {other}. Sorry, I meant {name}, of course, as source {number} has it.",
)


def made_up(count: int) -> Iterator[Text]:
    """Yield so many different texts about all facts: names, sentences, descriptions, refusals, corrections."""
    asked, _ = known()
    questions = [question for question in benchmark.load().questions() if question.fact.id in asked]
    for number in range(count):
        question = questions[number % len(questions)]
        fact = asked[question.fact.id]
        name, other = (fact.candidates[(number // step) % len(fact.candidates)].labels[0] for step in (1, 7))
        shape = _SHAPES[(number // len(questions)) % len(_SHAPES)]
        text = shape.format(prompt=question.text, name=name, other=other, number=number)
        yield Text(fact, question.text, f"{text}\n{number}")


def seconds(texts: Sequence[Text], reader: Reader) -> float:
    """Return how long a reader takes."""
    start = time.process_time()
    for text in texts:
        reader(text)
    return time.process_time() - start


def speed(count: int, labels: Path | None) -> Iterator[str]:
    """Measure our matcher and the study's loop over the same texts, and how both agree with labels."""
    texts = list(made_up(count))
    assert len({text.text for text in texts}) == count
    gc.freeze()  # the texts themselves are nothing for the collector to walk through, for either
    a, b = seconds(texts, ours), seconds(texts, study)
    gc.unfreeze()
    plain = "a regular expression per candidate"
    yield f"match, {count:,} different texts: {a:.1f} s, {plain} {b:.1f} s, {b / a:.1f} times as fast"
    if labels is not None and labels.is_file():
        rows = labelled(labels)
        yield f"  agreement with the corrected labels: ours {agreement(rows, ours)}"
        yield f"  agreement with the corrected labels: {plain} {agreement(rows, study)}"


# Cut-offs by cross-validation


class Grid(NamedTuple):
    """What each pair of cut-offs makes of the rows that cut-offs matter for."""

    right: Mapping[Cutoffs, list[bool]]  # by row
    false: Mapping[Cutoffs, list[bool]]  # by text that names somebody else
    rows: Sequence[Text]
    others: Sequence[Text]


def grid_of(texts: Sequence[Text]) -> Grid:
    """Try all cut-offs on the labelled texts, and on the names of other facts' holders."""
    every = [Cutoffs(name, word) for name in NAME_CUTOFFS for word in WORD_CUTOFFS]
    loosest = Cutoffs(NAME_CUTOFFS[0], WORD_CUTOFFS[0])
    rows = [text for text in texts if ours(text, loosest) != ours(text, OFF)]
    others = [text for text in _others() if ours(text, loosest) is not None and ours(text, OFF) is None]
    return Grid(
        {one: [_good(text, ours(text, one)) for text in rows] for one in every},
        {one: [ours(text, one) is not None for text in others] for one in every},
        rows,
        others,
    )


def _good(text: Text, entity: str | None) -> bool:
    verdict, same, invented = right(text, entity)
    return verdict and same is not False and not invented


def _others() -> Iterator[Text]:
    """Yield for each fact the names of those who never held it, and of whom no answer may make a holder."""
    asked, _ = known()
    for fact in asked.values():
        own = {label for one in fact.candidates for label in one.labels}
        teams = any(one.team_class for one in fact.candidates)
        for other in asked.values():
            for one in other.candidates:
                if bool(one.team_class) == teams and not own & set(one.labels):
                    yield Text(fact, "", f"{one.labels[0]}.")


def choose(grid: Grid, subjects: frozenset[str]) -> Cutoffs:
    """Return the cut-offs with most rows right, then fewest others' names matched, then the loosest.

    The loosest, because other models misspell other names: what bounds them is the names of other people.
    """
    rows = [at for at, text in enumerate(grid.rows) if text.asked.subject in subjects]
    others = [at for at, text in enumerate(grid.others) if text.asked.subject in subjects]

    def worth(one: Cutoffs) -> tuple[int, int, float, float]:
        right_ones = sum(grid.right[one][at] for at in rows)
        return right_ones, -sum(grid.false[one][at] for at in others), -one.name, -one.word

    return max(grid.right, key=worth)


def folds(texts: Sequence[Text]) -> list[frozenset[str]]:
    """Return the subjects in folds of equal size."""
    subjects = sorted({text.asked.subject for text in texts})
    random.Random(0).shuffle(subjects)
    return [frozenset(subjects[at::FOLDS]) for at in range(FOLDS)]


def cross_validate(labels: Path) -> Iterator[str]:
    """Say what each pair of cut-offs does, what each fold would choose, and how held-out subjects fare."""
    texts = labelled(labels)
    grid = grid_of(texts)
    yield f"On the cut-offs depend {len(grid.rows)} of {len(texts)} labelled rows and {len(grid.others)} others' names."
    yield "rows right / others' names matched, by name cut-off (down) and word cut-off (across)"
    yield "        " + "".join(f"{word:>9g}" for word in WORD_CUTOFFS)
    for name in NAME_CUTOFFS:
        cells = (Cutoffs(name, word) for word in WORD_CUTOFFS)
        yield f"{name:>8g}" + "".join(f"{sum(grid.right[one]):>5}/{sum(grid.false[one]):<3}" for one in cells)
    everyone = frozenset(text.asked.subject for text in texts)
    results: dict[bool, list[tuple[bool, bool | None, bool]]] = {True: [], False: []}
    for number, held_out in enumerate(folds(texts), 1):
        chosen = choose(grid, everyone - held_out)
        yield f"fold {number}, {len(held_out)} subjects held out: the others choose {_said(chosen)}"
        own = [text for text in texts if text.asked.subject in held_out]
        for aliases, found in results.items():
            found += [right(text, ours(text, chosen, aliases=aliases)) for text in own]
    yield f"held-out subjects, with their alias rows: {counted(results[True])}"
    yield f"held-out subjects, without them: {counted(results[False])}"
    chosen = choose(grid, everyone)
    yield f"all subjects choose {_said(chosen)}; in force: {_said(CUTOFFS)}"


def _said(cutoffs: Cutoffs) -> str:
    return f"name {cutoffs.name:g}, word {cutoffs.word:g}"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cross-validate", type=Path, metavar="LABELS", help="choose cut-offs on these labels")
    parser.add_argument("--labels", type=Path, help="print agreement with these labels beside the speed")
    parser.add_argument("--texts", type=int, default=100_000, help="how many to match")
    chosen = parser.parse_args()
    lines = cross_validate(chosen.cross_validate) if chosen.cross_validate else speed(chosen.texts, chosen.labels)
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
