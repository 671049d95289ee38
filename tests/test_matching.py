"""Many texts at once: rows in their order from any number of processes, and work that grows with what is read."""

import csv
import gc
import random
import shutil
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks import matching_growth as growth
from dyknow import candidates as compiling
from dyknow import matching, results
from dyknow.candidates import Asked, Candidate, Shelf, candidates_digest, compiled
from dyknow.journal import find_runs, responses
from dyknow.match import MATCHER_VERSION, PARAMETERS, Match, Reason, match
from dyknow.matching import Pair, match_rows
from dyknow.names import Form, Named, Rule, forms, key_of, spellings, words
from dyknow.published import import_published
from dyknow.rows import asked_of
from kg import identity, processes
from kg.answers import facts, names
from kg.errors import DyknowError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from tests.journals import write_run

CASES = Path(__file__).parent / "cases" / "match"
LABELS = ("Jens Stoltenberg", "Mette Frederiksen", "Łukasz Żółć", "Harald V of Atlantis", "José María Aznar López")


def asked(fact: str, *labels: str) -> Asked:
    """Return a fact whose holders bear these names, in the order of their terms."""
    holders = tuple(Candidate(f"{fact}-{at}", (label,), 20000101 + at) for at, label in enumerate(labels))
    return Asked(fact, "Atlantis", "P6", "Prime Minister of Atlantis", True, holders, candidates_digest(holders))


ATLANTIS = asked("Q1/P6", *LABELS)

LONG = 50_000
NAME = "Mette Frederiksen"
HOSTILE = {
    "empty": "",
    "nothing but NUL": "\x00" * LONG,
    "NUL in a name": "Mette\x00Frederiksen",
    "half a surrogate pair": f"\ud800 {NAME} \udfff",
    "lines after a mark of a turn": "user" + "\n" * (4 * LONG) + NAME,
    "empty lines that hold blanks": "model x" + " \n" * (4 * LONG) + NAME,
    "blanks between the years and the name": "He 2010 -" + " " * LONG + f"({NAME})",
    "one line": f"{NAME}, " * (LONG // 19),
    "one word": "M" + "e" * LONG,
    "no word": "?!" * LONG,
    "half a tag, often": "<a<b<" * (LONG // 5),
    "options without end": "a) " + "x " * LONG,
    "turns": "User: a\n" * (LONG // 8),
    "accents": "e\u0301" * LONG,
    "quotes": 'a "b" C ' * (LONG // 8),
    "terms": f"former president {NAME} was until 2010 (1999 - 2010), " * (LONG // 60),
    "Chinese": "习近平是中国国家主席。" * (LONG // 11),
}


def expected(pair: Pair) -> dict[str, Any]:
    """Return a pair's row by the plain matcher, field by field."""
    one = pair.asked
    found = match(pair.text, pair.prompt, one.candidates, one.subject, one.office)
    return {
        "response_digest": pair.response_digest,
        "fact": one.fact,
        "candidates_digest": one.digest,
        "matcher_version": MATCHER_VERSION,
        "matcher_parameters": PARAMETERS,
        "entity": found.entity,
        "reason": found.reason.value,
        "span_start": found.start,
        "span_end": found.end,
        "matched": found.matched,
        "alias": found.alias,
        "match_rule": found.rule,
        "score": found.score,
    }


class Spied(processes.Worker):
    """A process that a test can end."""

    made: list["Spied"] = []  # noqa: RUF012

    def __init__(self, module: str, setup: object, answers: processes.Answers) -> None:
        super().__init__(module, setup, answers)
        self.made.append(self)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Spied]]:
    Spied.made.clear()
    monkeypatch.setattr(processes, "Worker", Spied)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    yield Spied.made
    assert all(worker.process.returncode is not None for worker in Spied.made)


def of_cases() -> Iterator[Pair]:
    """Yield the texts of the matcher's cases."""
    for path in sorted(CASES.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for at, row in enumerate(csv.DictReader(file)):
                labels = [part.rpartition("@")[0].rpartition(":")[2] for part in row["candidates"].split("; ")]
                yield Pair(f"{path.stem} {at}", row["prompt"], row["text"], asked(row["subject"], *labels))


def of_hostile() -> Iterator[Pair]:
    yield from (Pair(why, "", text, ATLANTIS) for why, text in HOSTILE.items())


def test_several_processes_give_the_rows_of_one(workers: list[Spied]) -> None:
    pairs = [*of_cases(), *of_hostile()]
    rows = list(match_rows(iter(pairs), workers=2))
    assert len(workers) == 2
    assert rows == list(match_rows(pairs, workers=1)) == [expected(pair) for pair in pairs]
    assert len(workers) == 2  # as before
    found = {row["response_digest"]: row["entity"] for row in rows}
    assert found["half a surrogate pair"] == found["NUL in a name"] == "Q1/P6-1"
    assert sum(row["entity"] is not None for row in rows) > 400


def test_the_published_runs_give_the_rows_of_one_process(shared: Path, tmp_path: Path, workers: list[Spied]) -> None:
    import_published(shared / "published", tmp_path)
    store, same = open_store(find_snapshots()[0]), identity.load()
    known = asked_of(facts(store, same).values(), names(store, same))
    said = [row for run in find_runs(tmp_path)[::3] for row in responses(run.path) if row["fact"] in known]
    pairs = [Pair(row["question"], row["prompt"] or "", row["text"] or "", known[row["fact"]]) for row in said]
    assert len(pairs) > 1000
    assert list(match_rows(pairs, workers=2)) == [expected(pair) for pair in pairs]
    assert len(workers) == 2


def test_little_work_starts_no_process(workers: list[Spied]) -> None:
    assert [row["entity"] for row in match_rows([Pair("a", "", NAME, ATLANTIS)])] == ["Q1/P6-1"]
    assert list(match_rows([])) == []
    assert workers == []


def test_much_work_goes_on_in_several_processes(workers: list[Spied], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_BATCH", 1e-3)
    pairs = [Pair(str(at), "", f"{LABELS[at % 5]} {at}", ATLANTIS) for at in range(2000)]
    rows = match_rows(pairs)
    first = list(islice(rows, 300))
    assert workers == []
    assert first + list(rows) == [expected(pair) for pair in pairs]
    assert len(workers) == 2


def test_few_pairs_are_drawn_ahead(workers: list[Spied], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_BATCH", 5e-4)  # ten texts
    drawn: list[int] = []

    def pairs() -> Iterator[Pair]:
        for at in range(2000):
            drawn.append(at)
            yield Pair("", "", NAME, ATLANTIS)

    ahead = [len(drawn) - taken for taken, _ in enumerate(match_rows(pairs(), workers=2), 1)]
    assert len(drawn) == len(ahead) == 2000
    assert max(ahead) < 150
    assert len(workers) == 2


def test_a_process_ended_from_outside_ends_the_matching(workers: list[Spied]) -> None:
    def pairs() -> Iterator[Pair]:
        for at in range(10_000):
            if at == 3000:
                workers[0].process.send_signal(signal.SIGKILL)
            yield Pair(str(at), "", NAME, ATLANTIS)

    with pytest.raises(DyknowError, match="A process that matched answers ended by signal 9") as caught:
        list(match_rows(pairs(), workers=2))
    assert caught.value.hint


def test_an_interrupt_ends_the_processes(workers: list[Spied]) -> None:
    def pairs() -> Iterator[Pair]:
        for at in range(10_000):
            if at == 3000:
                raise KeyboardInterrupt
            yield Pair(str(at), "", NAME, ATLANTIS)

    with pytest.raises(KeyboardInterrupt):
        list(match_rows(pairs(), workers=2))
    assert [worker.process.returncode for worker in workers] == [-signal.SIGKILL] * 2


def test_rows_that_nobody_wants_end_the_processes(workers: list[Spied]) -> None:
    rows = match_rows((Pair("", "", NAME, ATLANTIS) for _ in range(10_000)), workers=2)
    next(rows)
    rows.close()
    assert len(workers) == 2


# Into the results


TEXTS: dict[str, str | None] = {
    "Q38/P6#1": "Giorgia Meloni",
    "Q38/P6#2": "Mario\x00Draghi. \U0001f600\u2028\ufffe",
    "Q36/P6#1": "Mateusz Morawiecki " + "x" * 200_000,
    "Q36/P6#3": None,
    "Q11571/P54#2": "\n" * 3000 + "Juventus FC",
}


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    return [one for one in find_snapshots() if one.id == "2023-12-18"]


@pytest.fixture(scope="module")
def made(snapshots: list[Snapshot], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs of the same texts and their results, matched in one process."""
    folder = tmp_path_factory.mktemp("made")
    for run in ("alpha", "beta"):
        write_run(folder / "runs", run, TEXTS)
    results.connect(folder / "runs", snapshots, folder / "results.duckdb").close()
    return folder


def test_results_are_the_same_from_several_processes(
    made: Path, snapshots: list[Snapshot], tmp_path: Path, workers: list[Spied], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Path(shutil.copy(made / "results.duckdb", tmp_path))  # its standings need not be made anew
    monkeypatch.setattr(matching, "_ALONE", 0)
    monkeypatch.setattr(results, "_matcher_digest", lambda: "another")
    results.connect(made / "runs", snapshots, again).close()
    assert len(workers) == 2
    one, two = _matches(made / "results.duckdb"), _matches(again)
    assert one == two
    assert len(one) == len({row[0] for row in one}) == 5  # of two runs, each text once
    assert sum(row[5] is not None for row in one) == 4


def _matches(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute("FROM matches ORDER BY ALL").fetchall()


def test_a_process_that_dies_leaves_the_old_results(
    made: Path, snapshots: list[Snapshot], tmp_path: Path, workers: list[Spied], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(made / "results.duckdb", tmp_path))
    before = path.read_bytes()
    monkeypatch.setattr(matching, "_ALONE", 0)
    monkeypatch.setattr(results, "_matcher_digest", lambda: "another")
    monkeypatch.setattr(processes.Worker, "send", lambda self, _: self.process.kill() or True)
    with pytest.raises(DyknowError, match="ended by signal 9"):
        results.connect(made / "runs", snapshots, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert len(workers) == 2


# Names


def test_a_name_of_very_many_words_is_compiled() -> None:
    law = " ".join(f"Word{letter}" for letter in "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz")
    held = asked("Q2/P1", law, NAME)
    assert len(compiled(held.candidates).forms) < 5000
    assert match(law, "", held.candidates, "Atlantis", None).entity == "Q2/P1-0"
    assert match("Worda Wordz", "", held.candidates, "Atlantis", None).entity == "Q2/P1-0"


def test_the_key_of_a_form_is_its_words_joined() -> None:
    for text in (*LABELS, "A.C. Milan", "Côte d’Ivoire", "Chan-o-cha", "e\u0301 \u0301x", "  ", "Şeyh  El-Hac", "İ ß"):
        assert key_of(text) == "".join(word.key for word in words(text))


def _plainly(named: list[Named]) -> dict[str, Form]:
    """Settle who has each form by sorting all who claim it."""
    claims: dict[str, list[tuple[Rule, int, str, Form]]] = {}
    for one in named:
        for alias, rule, key, size in spellings(one):
            form = Form(key, size, one.entity, alias, rule)
            claims.setdefault(key, []).append((rule, -(one.first_day or 0), one.entity, form))
    found = {}
    for key, all_ in claims.items():
        rule, _, entity, form = sorted(all_, key=lambda claim: claim[:3])[0]
        shared = any(other[0] is rule and other[2] != entity for other in all_)
        if not (shared and rule is Rule.GIVEN):
            found[key] = form
    return found


def test_whoever_has_a_form_by_the_rules_has_it_by_sorting() -> None:
    draw = random.Random(0)
    settled = 0
    for _ in range(40):
        labels = [
            " ".join(draw.choices(("Anna", "Juan", "Carlos", "II", "Lee", "al-Said", "de la Paz", "Rex"), k=3))
            for _ in "abcdefgh"
        ]
        named = [Named(f"Q{draw.randrange(6)}", label, (), None, draw.choice([None, 1, 2])) for label in labels]
        found = forms([(one, spellings(one)) for one in named])
        assert list(found.items()) == list(_plainly(named).items())
        settled += len(found)
    assert settled > 1000


def test_compiling_names_does_the_same_work_for_each_of_ten_times_the_holders() -> None:
    few, many = (growth.holders(count).candidates for count in (200, 2000))
    for held in (few, many):  # words that were read before are known
        compiled(held)
    assert growth.calls(lambda: compiled(many)) < 11.5 * growth.calls(
        lambda: compiled(few)
    )  # one name has more forms than another
    assert gc.isenabled()


def test_names_are_forgotten_beyond_a_bound_and_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Candidate, ...]] = []

    def spied(candidates: tuple[Candidate, ...], aliases: bool) -> compiling.Names:
        made.append(candidates)
        return compiled(candidates, aliases)

    monkeypatch.setattr(compiling, "compiled", spied)
    held = [asked(f"Q{at}/P6", f"Anna{at} Meier{at}").candidates for at in range(10)]
    size = len(compiled(held[0]).forms)
    shelf = Shelf(3 * size)
    for candidates in (held[0], held[0], tuple(list(held[0])), *held[1:3], held[0]):
        assert shelf.get(candidates, aliases=True) == compiled(candidates)
    assert made == held[:3]
    for candidates in held:
        shelf.get(candidates, aliases=True)
    assert made == [*held]
    assert shelf.get(held[0], aliases=True) == compiled(held[0])
    assert made == [*held, held[0]]


def test_a_name_that_is_cut_off_is_found_among_three_thousand() -> None:
    club = asked("Q3/P527", *(f"Player{at} Of{at}number" for at in range(3000)), NAME)
    assert match("It is Mette Frede", "It is", club.candidates, "Club", None)[:2] == ("Q3/P527-3000", Reason.MATCHED)
    nobody = match("It is Player", "It is", club.candidates, "Club", None)
    assert nobody == Match(None, nobody.reason)
