"""Verdicts by people: what is given out, what comes back, and what it is worth on any day."""

import csv
import io
import json
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dyknow import adjudication, doubts, results
from dyknow.adjudication import Judgment, Names, read_judgments, record
from dyknow.cli import cli
from dyknow.doubts import Holder
from dyknow.journal import judgments, standing_judgments
from dyknow.judges import Key
from kg import identity
from kg.answers import answers
from kg.dates import parse_day
from kg.errors import DataError, RunError, UsageError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from kg.terms import Rule, Status
from tests.journals import write_judgments, write_run

TEXTS: dict[str, str | None] = {
    "Q38/P6#1": "Giorgia Meloni",
    "Q38/P6#2": "It is Giorgia Meloni.",
    "Q38/P6#3": "Silvio Berlusconi",
    "Q36/P6#1": "=Morawiecki",
    "Q36/P6#2": "Donald Tusk\n(again)",
    "Q36/P6#3": None,
    "Q11571/P54#1": "Portugal national association football team",
    "Q11571/P54#2": "Jan Nobody",
}
MELONI, DRAGHI, TUSK, MORAWIECKI = "Giorgia Meloni", "Mario Draghi", "Donald Tusk", "Mateusz Morawiecki"
BY_ANNA: dict[str, str | None] = {
    "Q38/P6#1": MELONI, "Q38/P6#2": DRAGHI, "Q38/P6#3": None, "Q36/P6#1": MORAWIECKI, "Q36/P6#2": TUSK,
}  # fmt: skip
DAYS = ("0044-03-15", "2022-10-21", "2023-12-12", "2023-12-18", "9999-12-31")


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    return [one for one in find_snapshots() if one.id in {"2023-12-18", "2025-11-30"}]


@pytest.fixture(scope="module")
def made(snapshots: list[Snapshot], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, and its results, that nobody but our matcher has judged."""
    folder = tmp_path_factory.mktemp("adjudication")
    write_run(folder / "runs", "alpha", TEXTS, {"Q36/P6#3": "error"})
    results.connect(folder / "runs", snapshots, folder / "results.duckdb").close()
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "place"))


@pytest.fixture(scope="module")
def holders(made: Path) -> dict[str, tuple[Holder, ...]]:
    with duckdb.connect(str(made / "results.duckdb"), read_only=True) as connection:
        return doubts.holders(connection)


KNOWN: dict[Key, str | None] = {("alpha", question, 0): text for question, text in TEXTS.items()}


def dyknow(place: Path, *arguments: str, given: str | None = None) -> Result:
    where = ("--runs", str(place / "runs"), "--database", str(place / "results.duckdb"))
    return CliRunner().invoke(cli, [*arguments, *where], input=given)


def entity(holders: dict[str, tuple[Holder, ...]], question: str, label: str | None) -> str | None:
    fact = question.partition("#")[0]
    return next((one.entity for one in holders[fact] if one.label == label), None)


def by_anna(
    place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot]
) -> duckdb.DuckDBPyConnection:
    """Let anna judge five answers and leave one unclear, and bert give two verdicts for a day."""
    said = [
        Judgment(("alpha", question, 0), named=True, entity=entity(holders, question, label), label=label)
        for question, label in BY_ANNA.items()
    ]
    assert [one.entity is None for one in said] == [label is None for label in BY_ANNA.values()]
    record(place / "runs", "anna", [*said, Judgment(("alpha", "Q11571/P54#1", 0), reason="unclear")])
    mixed = [said[0], Judgment(("alpha", "Q38/P6#2", 0), verdict="outdated", as_of="2023-12-18", reason="verdict only")]
    record(place / "runs", "mixed", mixed)
    write_judgments(place / "runs" / "alpha", {"Q38/P6#1": "up-to-date", "Q36/P6#1": "irrelevant"})
    return results.connect(place / "runs", snapshots, place / "results.duckdb")


def verdicts(connection: duckdb.DuckDBPyConnection, day: str, judge: str) -> dict[str, str]:
    rows = connection.execute("SELECT question, verdict FROM verdicts(?, judge := ?)", [day, judge]).fetchall()
    return dict(rows)


# What judgments are worth


@pytest.mark.parametrize("rule", list(Rule))
def test_whom_a_person_saw_named_is_judged_for_any_day_by_a_second_route(
    place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot], rule: Rule
) -> None:
    """Asks the graph itself who stood how on each day."""
    seen = set()
    with by_anna(place, holders, snapshots) as connection:
        for snapshot in snapshots:
            for day in DAYS:
                sets = {a.fact: a for a in answers(open_store(snapshot), identity.load(), parse_day(day), rule=rule)}
                rows = connection.execute(
                    "SELECT question, verdict, certain FROM verdicts(?, known_at := ?, judge := 'anna', rule := ?)",
                    [day, snapshot.id, rule],
                ).fetchall()
                assert len(rows) == len(TEXTS)
                for question, verdict, certain in rows:
                    own = sets[question.partition("#")[0]]
                    held = {holder.entity: holder for holder in own.holders}
                    whom = held.get(entity(holders, question, BY_ANNA.get(question)) or "")
                    expected = "unjudged"
                    if own.status in {Status.BEFORE_FIRST_RECORD, Status.NOT_IN_SNAPSHOT}:
                        expected = "not covered"
                    elif TEXTS[question] is None:
                        expected = "error"
                    elif question in BY_ANNA:
                        expected = whom.standing.value if whom else "irrelevant"
                        assert certain == (whom.certain if whom else True)
                    assert verdict == expected, (snapshot.id, day, question)
                    seen.add(verdict)
    assert seen == {"up-to-date", "outdated", "later", "irrelevant", "unjudged", "error", "not covered"}


def test_a_verdict_alone_is_for_its_day(
    place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot]
) -> None:
    with by_anna(place, holders, snapshots) as connection:
        on_day, later = verdicts(connection, "2023-12-18", "mixed"), verdicts(connection, "2022-01-01", "mixed")
        assert (on_day["Q38/P6#1"], on_day["Q38/P6#2"], on_day["Q38/P6#3"]) == ("up-to-date", "outdated", "unjudged")
        assert (later["Q38/P6#1"], later["Q38/P6#2"]) == (
            "later",
            "unjudged",
        )  # a judge who names people can say so much
        with pytest.raises(duckdb.Error, match="judged for 2023-12-18 only, not for 2022-01-01"):
            verdicts(connection, "2022-01-01", "published")
        assert set(verdicts(connection, "2022-01-01", "nobody").values()) == {"unjudged", "error"}


def test_tables_of_a_person(place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot]) -> None:
    with by_anna(place, holders, snapshots) as connection:
        rows = connection.execute("SELECT fact, verdict FROM soft('2023-12-18', judge := 'anna')").fetchall()
        assert dict(rows) == {"Q38/P6": "up-to-date", "Q36/P6": "up-to-date", "Q11571/P54": "incomplete"}
        [(n, up)] = connection.execute(
            "SELECT n, up_to_date FROM table1('2022-12-01', judge := 'anna') WHERE domain = 'all'"
        ).fetchall()
        assert (n, up) == (2, 100.0)  # the footballer is without a judgment


# In


def read(tmp_path: Path, holders: dict[str, tuple[Holder, ...]], *lines: str, lenient: bool = False) -> list[Judgment]:
    file = tmp_path / "file.csv"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return list(read_judgments(file, KNOWN, holders, lenient=lenient).judgments)


HEAD = "run,question,entity,verdict,as_of,note"


def test_names_ids_none_and_verdicts_are_read(tmp_path: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    meloni = entity(holders, "Q38/P6", MELONI)
    found = read(
        tmp_path,
        holders,
        HEAD,
        "alpha,Q38/P6#1,giorgia  meloni,,,sure",
        f"alpha,Q38/P6#2,{meloni},outdated,,",
        "alpha,Q38/P6#3,none,,,",
        "alpha,Q36/P6#1,,Irrelevant,2023-12-18,",
        "alpha,Q36/P6#2,?,,,",
        "alpha,Q11571/P54#1,,,,looked at it",
    )
    first = Judgment(("alpha", "Q38/P6#1", 0), named=True, entity=meloni, label=MELONI, note="sure")
    assert found == [
        first,
        first._replace(key=("alpha", "Q38/P6#2", 0), note=None),  # the name counts
        Judgment(("alpha", "Q38/P6#3", 0), named=True, reason="none"),
        Judgment(("alpha", "Q36/P6#1", 0), verdict="irrelevant", as_of="2023-12-18", reason="verdict only"),
        Judgment(("alpha", "Q36/P6#2", 0), reason="unclear"),
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("alpha,Q38/P6#1,Giorgia Melony,,,", r"line 2: 'Giorgia Melony' is no holder of Q38/P6"),
        ("alpha,Q38/P6#1,,good,,", r"line 2: the verdict is 'good'"),
        ("alpha,Q38/P6#1,,outdated,,", r"line 2: the verdict 'outdated' is for one day, and none is given"),
        ("alpha,Q38/P6#1,,outdated,18.12.2023,", r"line 2: .*18\.12\.2023"),
        ("alpha,Q38/P6#9,none,,,", r"line 2: the run alpha has no answer to Q38/P6#9"),
        ("alfa,Q38/P6#1,none,,,", r"line 2: there is no run 'alfa'"),
        ("alpha,Q38/P6#1,none,,", r"line 2: the row has not as many cells"),
        ("alpha,Q38/P6#1,none,,,,", r"line 2: the row has not as many cells"),
    ],
)
def test_an_error_names_file_line_and_value(
    tmp_path: Path, holders: dict[str, tuple[Holder, ...]], row: str, says: str
) -> None:
    with pytest.raises(DataError, match=f"file.csv, {says}"):
        read(tmp_path, holders, HEAD, row)


def test_an_unknown_name_gets_a_suggestion_or_is_left_out(
    tmp_path: Path, holders: dict[str, tuple[Holder, ...]]
) -> None:
    with pytest.raises(DataError) as error:
        read(tmp_path, holders, HEAD, "alpha,Q38/P6#1,Giorgia Melony,,,")
    assert error.value.hint is not None
    assert "Did you mean 'Giorgia Meloni'?" in error.value.hint
    rows = ("alpha,Q38/P6#1,Giorgia Melony,,,", "alpha,Q38/P6#2,Somebody,outdated,2023-12-18,")
    found = read(tmp_path, holders, HEAD, *rows, lenient=True)
    assert [(one.key[1], one.verdict, one.named) for one in found] == [("Q38/P6#2", "outdated", False)]


@pytest.mark.parametrize("line", ['{"run": "alpha", "question": "Q38/P6#1", "note": "\\ud800"}', "[" * 100_000])
def test_what_no_journal_can_hold_is_no_json(tmp_path: Path, holders: dict[str, tuple[Holder, ...]], line: str) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"file.jsonl, line 1 is not JSON"):
        read_judgments(file, {("alpha", "Q38/P6#1", 0): None}, holders)


def test_two_columns_of_one_name_are_refused(tmp_path: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    with pytest.raises(DataError, match="line 1: there are two columns 'entity'"):
        read(tmp_path, holders, "run,question,entity,entity", f"alpha,Q38/P6#1,none,{MELONI}")


def test_a_cell_may_be_long(tmp_path: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    note = "n" * 200_000
    assert [one.note for one in read(tmp_path, holders, HEAD, f"alpha,Q38/P6#1,none,,,{note}")] == [note]


def test_a_filled_in_table_is_not_written_over(place: Path) -> None:
    file = place / "table.csv"
    file.write_text("hours of work", encoding="utf-8")
    out = dyknow(place, "judge", "export", "--all", "--out", str(file))
    assert out.exit_code == 2
    assert "There is a file" in out.output
    assert file.read_text(encoding="utf-8") == "hours of work"


def test_a_name_of_two_wants_an_id() -> None:
    names = Names(
        [Holder("Q1", "Ferdinand Marcos", 19651230, 19860225), Holder("Q2", "Ferdinand Marcos", 20220630, None)]
    )
    with pytest.raises(DataError, match="is the name of several") as error:
        names.find("Ferdinand Marcos")
    assert error.value.hint == "Write whom you mean: Q1 or Q2."
    for said in ("Q2", "Ferdinand Marcos (Q2)"):
        found = names.find(said)
        assert found is not None
        assert found.entity == "Q2"


def test_a_label_of_any_snapshot_is_a_name(holders: dict[str, tuple[Holder, ...]]) -> None:
    names = Names(holders["Q1912/P54"])
    found = {name: names.find(name) for name in ("Real Madrid CF", "Real Madrid Club de Fútbol")}
    assert len({one.entity for one in found.values() if one}) == 1, found


def test_a_judgment_is_of_one_text(tmp_path: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    head = "run,question,sample,text,entity"
    assert len(read(tmp_path, holders, head, 'alpha,Q36/P6#2,0,"Donald Tusk\r\n(again)",Donald Tusk')) == 1
    assert len(read(tmp_path, holders, head, "alpha,Q36/P6#1,0,'=Morawiecki,none")) == 1
    with pytest.raises(DataError, match="answers Q36/P6#2 with another text than 'Lech"):
        read(tmp_path, holders, head, "alpha,Q36/P6#2,0,Lech Wałęsa,none")
    with pytest.raises(DataError, match="line 1: there is no column 'question'"):
        read(tmp_path, holders, "run,entity", "alpha,none")


def test_json_lines_and_labels(tmp_path: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    file = tmp_path / "said.jsonl"
    label = {
        "model": "alpha", "domain": "countries_byGDP", "subject": "Italy", "attribute": "Prime Minister of Italy",
        "label": "correct", "entity": MELONI, "read": True,
    }  # fmt: skip
    rows = [
        {"run": "alpha", "question": "Q36/P6#1", "entity": MORAWIECKI, "by": "Anna", "verdict": None},
        {"run": "alpha", "question": "Q36/P6#2", "sample": 0, "named": True, "entity": None},
        label | {"template": "1"},
        label | {"template": "2", "label": "outdated", "entity": DRAGHI, "read": False},
        label | {"template": "3", "label": "irrelevant", "entity": None},
        label | {"template": "1", "label": "unclear"},
        label | {"template": "1", "model": "omega"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = read_judgments(file, KNOWN, holders)
    said = [(one.key[1], one.named, one.label, one.verdict, one.as_of, one.reason) for one in found.judgments]
    assert said == [
        ("Q36/P6#1", True, MORAWIECKI, None, None, "named"),
        ("Q36/P6#2", True, None, None, None, "none"),
        ("Q38/P6#1", True, MELONI, None, None, "named"),
        ("Q38/P6#2", False, None, "outdated", "2023-12-18", "verdict only"),
        ("Q38/P6#3", True, None, None, None, "none"),
        ("Q38/P6#1", False, None, None, None, "unclear"),
    ]
    assert (found.blank, found.elsewhere, found.lenient) == (0, 1, 0)


def test_the_later_judgment_wins_and_an_equal_one_is_not_written_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "alpha", TEXTS)
    one = Judgment(("alpha", "Q38/P6#1", 0), named=True, entity="Q1", label="A")
    file = folder / "judgments" / "anna.jsonl"
    assert record(tmp_path, "anna", [one], "2024-01-01T00:00:00Z").new == 1
    before = file.read_bytes()
    assert record(tmp_path, "anna", [one], "2024-01-02T00:00:00Z").new == 0
    assert file.read_bytes() == before
    file.write_bytes(before + b'{"judge": "an')  # a killed process
    assert record(tmp_path, "anna", [one._replace(entity="Q2", label="B"), one, one]).new == 2
    assert file.read_bytes().startswith(before)
    rows = judgments(folder)
    assert [row["entity"] for row in rows] == ["Q1", "Q2", "Q1"]
    assert [row["entity"] for row in standing_judgments(rows)] == ["Q1"]


def test_one_process_writes_a_judge_at_a_time(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "alpha", TEXTS)
    one = Judgment(("alpha", "Q38/P6#1", 0), reason="unclear")
    with adjudication.writing(folder, "anna"):
        with pytest.raises(RunError, match="The judge anna of the run alpha is being written by process"):
            record(tmp_path, "anna", [one])
        assert record(tmp_path, "bert", [one]).new == 1


@pytest.mark.parametrize("name", ["match", "published", "", "../x", "a b"])
def test_names_no_judge_can_have(name: str) -> None:
    with pytest.raises(UsageError):
        adjudication.judge_name(name)


# Out


def test_the_doubtful_come_first_and_say_why(
    place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot]
) -> None:
    with by_anna(place, holders, snapshots) as connection:
        alone = doubts.responses(connection, "2023-12-18", leave_out=("anna", "mixed", "published"))
        beside = doubts.responses(connection, "2023-12-18")
    assert [one.doubt for one in alone] == sorted((one.doubt for one in alone), reverse=True)
    assert "Q36/P6#3" not in {one.question for one in alone}  # it has no text
    found = {one.question: one for one in alone}
    assert (found["Q38/P6#1"].doubt, found["Q38/P6#1"].why) == (0.0, ())
    assert found["Q36/P6#1"].why[0] == "read by surname"
    assert found["Q11571/P54#2"].why == ("unknown name",)
    assert found["Q11571/P54#2"].doubt == 0.4
    assert found["Q38/P6#3"].why == ("most other phrasings: Giorgia Meloni",)
    assert "judge anna: none" in next(one for one in beside if one.question == "Q38/P6#3").why
    assert "judge published: irrelevant" in next(one for one in beside if one.question == "Q36/P6#1").why


def test_the_table_goes_out_and_comes_back(place: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    file = place / "table.csv"
    out = dyknow(place, "judge", "export", "--all", "--judge", "anna", "--out", str(file))
    assert out.exit_code == 0, out.output
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))
    assert len(rows) == 7
    assert tuple(rows[0]) == adjudication.COLUMNS
    by_question = {row["question"]: row for row in rows}
    assert by_question["Q36/P6#1"]["text"] == "'=Morawiecki"  # no formula for a spreadsheet
    named = by_question["Q38/P6#1"]["candidates"].split(" | ")
    assert named.index(DRAGHI) < named.index(MELONI)
    for question, label in BY_ANNA.items():
        by_question[question]["entity"] = label or "none"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, adjudication.COLUMNS, delimiter=";")  # as some spreadsheet programs save it
        writer.writeheader()
        writer.writerows(rows)
    back = dyknow(place, "judge", "import", str(file), "--judge", "anna", "--by", "Anna B.")
    assert (back.exit_code, back.stdout) == (0, "5 judgments of anna added, 0 known already.\n")
    assert "2 rows say nothing yet." in back.stderr
    kept = {row["question"]: row["entity"] for row in judgments(place / "runs" / "alpha")}
    assert kept == {question: entity(holders, question, label) for question, label in BY_ANNA.items()}
    again = dyknow(place, "judge", "import", str(file), "--judge", "anna", "--by", "Anna B.")
    assert again.stdout == "0 judgments of anna added, 5 known already.\n"
    rest = dyknow(place, "judge", "export", "--all", "--judge", "anna")
    assert [row["question"] for row in csv.DictReader(io.StringIO(rest.stdout))] == ["Q11571/P54#2", "Q11571/P54#1"]
    scored = dyknow(place, "score", "--as-of", "2022-12-01", "--judge", "anna", "--format", "csv")
    assert "1,alpha,countries,up_to_date,2,100.0" in scored.stdout
    assert "anna leaves 2 of 8 answers unjudged on that day." in scored.stderr


def test_nothing_is_written_where_one_row_is_wrong(place: Path) -> None:
    file = place / "table.csv"
    file.write_text("run,question,entity\nalpha,Q38/P6#1,none\nalpha,Q38/P6#2,Nobody Known\n", encoding="utf-8")
    out = dyknow(place, "judge", "import", str(file), "--judge", "anna")
    assert out.exit_code == 1
    assert "table.csv, line 3: 'Nobody Known' is no holder of Q38/P6." in out.stderr
    assert judgments(place / "runs" / "alpha") == []


# The form


def questions_asked(out: Result) -> list[str]:
    return [line.split()[-1] for line in out.stdout.splitlines() if "   alpha   " in line]


def test_the_form_keeps_each_answer_at_once_and_goes_on(place: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    form = ("judge", "export", "--all", "--judge", "anna", "--form", "--by", "Anna")
    out = dyknow(place, *form, given="n\nb\nu\nmaybe\n1\n")  # and then the input ends
    assert out.exit_code == 0, out.output
    asked = questions_asked(out)
    assert [asked[0], asked[1]] == [asked[2], asked[3]]
    assert "'maybe' is neither a key nor one of the names." in out.stdout
    assert "3 of 7 judged." in out.stderr
    rows = judgments(place / "runs" / "alpha")
    assert [(row["question"], row["reason"]) for row in rows] == [
        (asked[0], "none"), (asked[0], "unclear"), (asked[1], "named"),
    ]  # fmt: skip
    assert rows[2]["entity"] == holders[asked[1].partition("#")[0]][0].entity
    assert {row["by"] for row in rows} == {"Anna"}
    again = dyknow(place, *form, given="s\nq\n")
    assert questions_asked(again)[0] == asked[4]
    assert "0 of 5 judged" in again.stderr


def test_the_form_takes_names(place: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    form = ("judge", "export", "--all", "--run", "alpha", "--judge", "anna", "--form")
    out = dyknow(place, *form, given="giorgia meloni\ns\n" * 7)
    assert "Asked:" in out.stdout
    [row, *_] = judgments(place / "runs" / "alpha")
    assert row["entity"] == entity(holders, "Q38/P6", MELONI)


def test_a_form_wants_a_name(place: Path) -> None:
    out = dyknow(place, "judge", "export", "--form")
    assert out.exit_code == 2
    assert "A form is filled in under a name." in out.stderr


# Side by side


def test_judges_are_listed_and_compared(
    place: Path, holders: dict[str, tuple[Holder, ...]], snapshots: list[Snapshot]
) -> None:
    by_anna(place, holders, snapshots).close()
    out = dyknow(place, "judge", "list", "--format", "json")
    assert {(row["judge"], row["named"], row["verdicts"], row["open"], row["day"]) for row in json.loads(out.stdout)} == {
        ("anna", 5, 0, 1, "any"), ("mixed", 1, 1, 0, "any, 2023-12-18"), ("published", 0, 2, 0, "2023-12-18"),
    }  # fmt: skip
    out = dyknow(place, "judge", "agreement", "match", "anna", "--as-of", "2023-12-12", "--format", "json")
    found = json.loads(out.stdout)
    # We read all but two as she does: Meloni where she reads Draghi, and Berlusconi where she reads nobody.
    assert (found["agree"]["part"], found["agree"]["n"]) == (3, 5)
    assert (found["entities"]["part"], found["entities"]["n"]) == (3, 4)
    assert found["invented"]["part"] == 1
    pairs = dyknow(place, "judge", "agreement", "match", "anna", "published", "--format", "csv")
    assert [line.split(",")[:3] for line in pairs.stdout.splitlines()[1:]] == [
        ["match", "anna", "5"], ["match", "published", "2"], ["anna", "published", "2"],
    ]  # fmt: skip
    out = dyknow(place, "judge", "agreement", "match", "published", "--disagreements", "--format", "csv")
    assert "alpha,Q36/P6#1,0,irrelevant,outdated,,Mateusz Morawiecki,surname,=Morawiecki" in out.stdout
    refused = dyknow(place, "judge", "agreement", "match", "published", "--as-of", "2020-01-01")
    assert refused.exit_code == 1
    nobody = dyknow(place, "judge", "agreement", "match", "bert")
    assert (nobody.exit_code, "Nobody of the name bert" in nobody.stderr) == (2, True)
    assert "Judges: match, anna, mixed, published." in nobody.stderr


def test_a_model_is_asked_and_stands_beside_the_others(place: Path, holders: dict[str, tuple[Holder, ...]]) -> None:
    script = place / "robot.toml"
    script.write_text('default = "0"\n[answers]\n"Q38/P6" = "1"\n"Q11571/P54" = "who knows"\n', encoding="utf-8")
    ask = ("judge", "ask", f"scripted:{script}", "--run", "alpha")
    out = dyknow(place, *ask, "--limit", "3")
    assert (out.exit_code, out.stdout) == (0, "robot: 3 answers judged, 0 were before.\n"), out.output
    out = dyknow(place, *ask)
    assert out.stdout == "robot: 4 answers judged, 3 were before.\n"
    assert "of them are unjudged: what robot said is no number of the list." in out.stderr
    rows = {row["question"]: row for row in judgments(place / "runs" / "alpha")}
    first = min(holders["Q38/P6"], key=lambda one: one.label.casefold())
    assert {row["entity"] for question, row in rows.items() if question.startswith("Q38")} == {first.entity}
    listed = dyknow(place, "judge", "list", "--format", "csv")
    assert "alpha,robot,5,0,2,any" in listed.stdout
    why = dyknow(place, "why", "alpha", "Q38/P6#1", "--as-of", "release", "--judge", "robot", "--format", "json")
    assert json.loads(why.stdout)["entity"] == first.entity
    assert json.loads(why.stdout)["as_of"] == "2023-12-31"
