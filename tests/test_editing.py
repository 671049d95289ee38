"""Edited runs: what stands beside a run about its edits, and the figures of Tables 3, 7, 8 and Figure 3 out of verdicts."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import orjson
import pytest

from dyknow import analysis, editing, results, resultsfile
from dyknow.align.base import EditRequest, Operation, Wording
from dyknow.editing import edit_curve, edit_scores, write_edits
from dyknow.prompts import Span
from dyknow.report.data import Source
from dyknow.report.formats import markdown
from dyknow.report.gather import gather, tables
from kg.errors import RunError, UsageError
from kg.snapshot import Snapshot, find_snapshots
from tests.journals import write_judgments, write_run

DAY = "2023-12-18"
TEXTS: dict[str, str | None] = {
    # Italy's prime minister: the edited question right, one of the others too.
    "Q38/P6#1": "Giorgia Meloni",
    "Q38/P6#2": "Giorgia Meloni",
    "Q38/P6#3": "Mario Draghi",
    # Poland's: another question right, the edited one not.
    "Q36/P6#1": "Mateusz Morawiecki",
    "Q36/P6#2": "Donald Tusk",
    "Q36/P6#3": "a very good question",
    # Deleted: nobody should be named.
    "Q11571/P54#1": "I do not know.",
    "Q11571/P54#2": "Al-Nassr",
    "Q11571/P54#3": "I do not know.",
}


def request(fact: str, domain: str, target: str, operation: Operation = "update") -> EditRequest:
    def wording(phrasing: int) -> Wording:
        return Wording(f"{fact}#{phrasing}", "who", Span(0, 3))

    return EditRequest(
        fact,
        domain,
        "subject",
        operation,
        wording(1),
        (wording(2), wording(3)),
        target,
        None,
        (target,),
        "before",
        "Q1",
    )


REQUESTS = [
    request("Q36/P6", "countries", "Donald Tusk"),
    request("Q38/P6", "countries", "Giorgia Meloni"),
    request("Q11571/P54", "athletes", "unknown", "delete"),
]


def write_edited(
    runs: Path, name: str, texts: dict[str, str | None], requests: list[EditRequest], **align: object
) -> Path:
    folder = write_run(runs, name, texts, {question: "error" for question, text in texts.items() if text is None})
    write_edits(folder, requests)
    info = orjson.loads((folder / "run.json").read_bytes())
    about = {"method": "rome", "mode": "sequential", "preset": "paper", "model": "m", "base_run": "base", "seed": 7}
    info["align"] = about | {"as_of": DAY, "edits": len(requests), "of": 3} | align
    (folder / "run.json").write_bytes(orjson.dumps(info))
    return folder


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    return [s for s in find_snapshots() if s.id == DAY]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder, "base", TEXTS)
    judged = write_edited(folder, "edited", TEXTS, REQUESTS)
    write_judgments(judged, {"Q36/P6#1": "up-to-date", "Q36/P6#2": "outdated", "Q36/P6#3": "irrelevant"})
    write_edited(folder, "edited-1", TEXTS, REQUESTS[1:2])
    write_edited(folder, "failed", TEXTS | {"Q38/P6#3": None}, REQUESTS[1:2], seed=None)
    return folder


@pytest.fixture(scope="module")
def connection(
    runs: Path, snapshots: list[Snapshot], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    with results.connect(runs, snapshots, tmp_path_factory.mktemp("db") / "results.duckdb") as opened:
        yield opened


def test_edits_are_rows_in_their_order(connection: duckdb.DuckDBPyConnection) -> None:
    rows = resultsfile.run_sql(connection, "FROM edits WHERE run = 'edited' ORDER BY position").rows
    assert [row[1:4] for row in rows] == [
        ("Q36/P6", "countries", 0),
        ("Q38/P6", "countries", 1),
        ("Q11571/P54", "athletes", 2),
    ]
    assert rows[2][4:] == (
        "delete", "Q11571/P54#1", ["Q11571/P54#2", "Q11571/P54#3"], "unknown", None, "before", "Q1",
    )  # fmt: skip
    columns = "method, edit_mode, edit_preset, base_run, edit_count, edits_of, edit_seed"
    [run, base] = resultsfile.run_sql(
        connection, f"SELECT {columns} FROM runs WHERE run IN ('edited', 'base') ORDER BY run DESC"
    ).rows
    assert run == ("rome", "sequential", "paper", "base", 3, 3, 7)
    assert base == (None,) * 7


def test_scores_by_domain_and_pooled(connection: duckdb.DuckDBPyConnection) -> None:
    scores = {(s.run, s.domain): s for s in edit_scores(connection, DAY)}
    athletes, countries, pooled = (scores["edited", domain] for domain in ("athletes", "countries", "all"))
    assert (athletes.n, athletes.efficacy, athletes.paraphrase, athletes.soft) == (1, 100, 50, 100)
    assert (countries.n, countries.efficacy, countries.paraphrase, countries.harmonic_mean) == (2, 50, 50, 50)
    assert (countries.soft, countries.mark, countries.soft_mark) == (100, "", "‡")
    assert pooled.efficacy == pytest.approx(200 / 3)
    assert pooled.paraphrase == 50
    assert pooled.harmonic_mean == pytest.approx(2 * 50 * 200 / 3 / (50 + 200 / 3))
    assert pooled.arithmetic_mean == pytest.approx((50 + 200 / 3) / 2)
    assert not [run for run, _ in scores if run == "base"]


def test_a_fact_with_a_question_unanswered_is_in_no_n(connection: duckdb.DuckDBPyConnection) -> None:
    found = edit_scores(connection, DAY, runs=["edited", "failed"])
    assert {score.run for score in found} == {"edited"}, "of the other nothing is left to count"


def test_another_judge_counts_only_what_it_judged(connection: duckdb.DuckDBPyConnection) -> None:
    (countries, pooled) = sorted(edit_scores(connection, DAY, judge="published"), key=lambda s: s.domain, reverse=True)[
        :2
    ]
    assert (countries.facts, countries.n, countries.efficacy, countries.paraphrase) == (2, 1, 100, 0)
    assert (countries.harmonic_mean, countries.arithmetic_mean) == (0, 50)
    assert pooled.n is not None
    with pytest.raises(UsageError, match="Judge nobody has judged no edited run"):
        edit_scores(connection, DAY, judge="nobody")


def test_the_curve_has_the_series_of_several_numbers_of_edits(connection: duckdb.DuckDBPyConnection) -> None:
    points = edit_curve(connection, DAY)
    assert [(point.run, point.edits, point.n) for point in points] == [("edited-1", 1, 1), ("edited", 3, 3)]
    assert points[0].share == pytest.approx(100 / 3)
    with pytest.raises(UsageError, match="No run is of an edited model"):
        edit_curve(connection, DAY, runs=["base"])


def test_a_fact_edited_twice_and_a_damaged_line_are_refused(
    tmp_path: Path, snapshots: list[Snapshot], connection: duckdb.DuckDBPyConnection
) -> None:
    folder = write_run(tmp_path, "twice", TEXTS)
    with pytest.raises(UsageError, match="Q36/P6 is edited twice"):
        write_edits(folder, [REQUESTS[0], REQUESTS[0]])
    assert not (folder / "edits.jsonl").exists()
    assert write_edits(folder, REQUESTS) == 3
    (folder / "edits.jsonl").write_bytes(b'{"fact": 1}\n')
    with pytest.raises(RunError, match=r"edits\.jsonl, line 1 is damaged"):
        results.connect(tmp_path, snapshots, tmp_path / "results.duckdb")


def test_the_rows_are_the_macros_columns(connection: duckdb.DuckDBPyConnection) -> None:
    for macro, row in (("edit_scores", editing.EditScore), ("edit_curve", editing.CurvePoint)):
        columns = resultsfile.run_sql(connection, f"FROM {macro}('{DAY}')").columns
        assert [{"of_edits": "of"}.get(column, column) for column in columns] == list(row._fields)


def test_a_run_of_edited_facts_alone_stands_in_no_table_of_all(connection: duckdb.DuckDBPyConnection) -> None:
    # By the journals: "edited" was asked its three facts and had them all edited.
    assert analysis.whole_runs(connection) == ["base", "edited-1", "failed"]
    assert {rate.run for rate in analysis.score(connection, DAY).table1} == {"base", "edited-1", "failed"}
    assert {rate.run for rate in analysis.score(connection, DAY, runs=["edited"]).table1} == {"edited"}


def test_the_report_keeps_edited_runs_in_their_own_section(
    connection: duckdb.DuckDBPyConnection, snapshots: list[Snapshot]
) -> None:
    sources = [Source(one.id, one.date, one.digest, "", one.known) for one in snapshots]
    data = gather(connection, sources, [DAY], None)
    assert [model.run for model in data.models] == ["base", "edited-1", "failed"]
    assert data.alignment is not None
    text = markdown(data, tables(data))
    assert "**What editing and retrieval did about it**" in text
    assert "| Edited | rome | sequential | 3 | all |" in text
