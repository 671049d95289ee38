"""SQL for people: statements, files and a prompt, what fits a terminal, and that nothing leaves the sandbox."""

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from dyknow import catalogue, results, resultsfile
from dyknow.cli import cli
from dyknow.commands.querying import _complete, _interruptible
from dyknow.fitting import fit, render
from dyknow.resultsfile import Table
from kg.errors import QueryError

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def here(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DYKNOW_SNAPSHOTS", "DYKNOW_RUNS", "DYKNOW_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(small)
    return small


def call(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["sql", *words], prog_name="dyknow", input=typed)


# The page


def test_the_page_shows_every_table_view_macro_and_example() -> None:
    assert len(SHOWN) == len(results.MACROS) + len(results.VIEWS) + len(catalogue.EXAMPLES)
    assert len(catalogue.EXAMPLES) >= 10
    for entry in (*catalogue.views(), *catalogue.macros()):
        assert f"\n### {entry.name}\n" in PAGE
        assert entry.signature in PAGE
        assert {"In", "Out"} <= {line.split(":")[0] for line in entry.about.splitlines()}
    files = {path.stem for path in (REPO / "queries" / "dyknow" / "examples").glob("*.sql")}
    assert files == set(catalogue.EXAMPLES)


@pytest.mark.parametrize("statement", SHOWN, ids=[text.splitlines()[0][:60] for text in SHOWN])
def test_every_example_of_the_page_runs_and_finds_something(small: Path, statement: str) -> None:
    assert resultsfile.query_readonly(small / "results.duckdb", statement).rows


def test_an_old_client_runs_every_example(small: Path) -> None:
    python = REPO / ".venv-duckdb1" / "bin" / "python"
    if not python.is_file():
        pytest.skip("no DuckDB 1.x here; make test sets it up")
    code = (
        "import duckdb, json, sys; c = duckdb.connect(sys.argv[1], read_only=True);"
        "print(json.dumps([len(c.execute(one).fetchall()) for one in json.load(sys.stdin)]))"
    )
    words = [str(python), "-c", code, str(small / "results.duckdb")]
    done = subprocess.run(words, input=json.dumps(SHOWN), capture_output=True, text=True, check=False)
    assert done.stderr == ""
    ours = [len(resultsfile.query_readonly(small / "results.duckdb", one).rows) for one in SHOWN]
    assert json.loads(done.stdout.splitlines()[-1]) == ours


def test_views_by_a_second_route(small: Path) -> None:
    """Reads the stored tables one by one and joins in Python."""

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return resultsfile.query_readonly(small / "results.duckdb", statement).rows

    snapshot, newest = max(rows("SELECT snapshot, day FROM snapshots"))  # names are dates
    labels = {row[:3]: row[3] for row in rows("SELECT snapshot, fact, entity, label FROM labels")}
    standings = rows("SELECT snapshot, fact, entity, rule, standing, from_day, to_day FROM standings")
    holding = {
        (fact, labels[snapshot, fact, entity])
        for of, fact, entity, rule, standing, first, last in standings
        if (of, rule, standing) == (snapshot, "latest", "up-to-date")
        if first <= newest and (last is None or newest < last)
    }
    found = rows("SELECT fact, label FROM current_holders")
    assert set(found) == holding
    assert len(found) == len(holding) > 100
    [(base,)] = rows("SELECT snapshot FROM spanning()")
    digests = {row[0]: row[1] for row in rows(f"SELECT fact, candidates_digest FROM facts WHERE snapshot = '{base}'")}
    matched = {row[:3]: row[3] for row in rows("SELECT response_digest, fact, candidates_digest, entity FROM matches")}
    expected = {
        (run, question, sample): labels.get((base, fact, matched.get((digest, fact, digests[fact]))))
        for run, question, sample, fact, digest in rows(
            "SELECT run, question, sample, fact, response_digest FROM responses"
        )
    }
    assert {row[:3]: row[3] for row in rows("SELECT run, question, sample, label FROM readings")} == expected
    assert sum(label is not None for label in expected.values()) > 20
    day = f"{newest // 10000}-{newest // 100 % 100:02d}-{newest % 100:02d}"
    assert rows("FROM latest_verdicts ORDER BY ALL") == rows(f"FROM verdicts('{day}') ORDER BY ALL")
    assert rows("FROM release_verdicts ORDER BY ALL") == rows("FROM verdicts('release') ORDER BY ALL")


# One statement, several, a file


def test_a_statement_gives_json_and_csv_that_programs_read(here: Path) -> None:
    statement = "SELECT paraphrases, released, 1.50 AS d, NULL AS nothing FROM edits JOIN runs USING (run) ORDER BY ALL"
    [row, *_] = json.loads(call(statement, "--format", "json").stdout)
    assert row == {"paraphrases": ["Q11571/P54#2", "Q11571/P54#3"], "released": "2023-12-31", "d": 1.5, "nothing": None}
    [first, *_] = csv.DictReader(io.StringIO(call(statement, "--format", "csv").stdout))
    assert first == {
        "paraphrases": '["Q11571/P54#2", "Q11571/P54#3"]', "released": "2023-12-31", "d": "1.50", "nothing": "",
    }  # fmt: skip


def test_statements_of_a_file_and_of_the_input_are_told_apart_by_duckdb(here: Path, tmp_path: Path) -> None:
    text = "SELECT 'a;b' AS x; -- no; statement\nSELECT /* ; */ $$c;d$$ AS y"
    (tmp_path / "two.sql").write_text(text, encoding="utf-8")
    by_file = call("--file", str(tmp_path / "two.sql"))
    assert by_file.exit_code == 0
    assert by_file.stdout == "x\na;b\n\ny\nc;d\n"
    assert call("-", typed=text).stdout == call("--file", "-", typed=text).stdout == by_file.stdout
    assert [json.loads(one) for one in re.split(r"(?<=\])\n", call("-", "--format", "json", typed=text).stdout) if one] == [
        [{"x": "a;b"}], [{"y": "c;d"}],
    ]  # fmt: skip


def test_a_malformed_statement_stops_all_of_them_before_the_first(here: Path) -> None:
    done = call("SELECT 1; SELEC 2")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "SELEC" in done.stderr
    assert "Traceback" not in done.output


def test_parameters_are_bound(here: Path) -> None:
    statement = "SELECT DISTINCT run FROM readings WHERE run = $run"
    assert call(statement, "--param", "run=several").stdout == "run\nseveral\n"
    assert call(statement, "--param", "run=' OR true --").stdout == "run\n"
    assert call("SELECT count(*) > 0 AS ok FROM verdicts($day)", "--param", "day=2023-12-18").stdout == "ok\ntrue\n"
    assert call("SELECT CAST($n AS INTEGER) + 1 AS m", "--param", "n=41").stdout.split() == ["m", "42"]
    assert call("SELECT $a AS a; SELECT $b AS b", "--param", "a=x=y", "--param", "b=").stdout == "a\nx=y\n\nb\n\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("SELECT $run",), "no value for $run"),
        (("SELECT $run", "--param", "run=1", "--param", "rum=2"), "Did you mean 'run'?"),
        (("SELECT $run", "--param", "run"), "no NAME=VALUE"),
        (("SELECT 1", "--file", "x.sql"), "Give one of them"),
        ((".table",), "Did you mean '.tables'?"),
        ((".help tabel1",), "Did you mean 'table1'?"),
    ],
)
def test_a_wrong_call_says_what_to_do(here: Path, words: tuple[str, ...], said: str) -> None:
    done = call(*words)
    assert done.exit_code == 2, done.output
    assert said in done.stderr


# Tables on a terminal


def wide_table() -> Table:
    columns = ("run", "n", "share", "text", "more", "note", "further", "another", "the_last")
    row = ("gpt2-xl", 1234567890123456789, 100 / 3, "long " * 60, "x" * 30, "y" * 30, "z" * 30, "a" * 30, "b" * 30)
    return Table(columns, [row] * 41)


def test_a_table_fits_80_columns_and_says_what_was_cut() -> None:
    fitted = fit(wide_table())
    lines = fitted.text.splitlines()
    assert len(lines) == 41
    assert max(map(len, lines)) <= 80
    assert "1234567890123456789" in lines[1], "a number is never cut"
    assert "…" in lines[1]
    assert fitted.cuts[0] == "1 of 41 rows are not shown; --all shows them."
    assert re.match(r"[1-9] of 9 columns are not shown \(.*the_last\); --wide shows them\.", fitted.cuts[1])
    assert "Longer cells are cut" in fitted.cuts[2]
    whole = fit(wide_table(), None, None)
    assert whole.cuts == []
    assert "b" * 30 in whole.text
    assert len(whole.text.splitlines()) == 42


def test_numbers_stand_right_and_text_left() -> None:
    text = fit(Table(("name", "n", "rate"), [("a", 5, 99.5), ("long name", 1234, None), ("b", None, 1.25)])).text
    assert text.splitlines() == [
        "name          n   rate",
        "a             5  99.50",
        "long name  1234",
        "b                 1.25",
    ]


def test_the_answers_of_a_model_do_not_steer_the_terminal(here: Path) -> None:
    statement = "SELECT question, text FROM readings WHERE run = 'gpt2-xl' AND question = 'Q11571/P54#2'"
    shown = call(statement)
    assert "\x1b" not in shown.stdout
    assert "\x1b" in json.loads(call(statement, "--format", "json").stdout)[0]["text"]


def test_wide_characters_count_twice() -> None:
    text = fit(Table(("text", "n"), [("東京都知事" * 10, 1)]), 30).text
    assert "…" in text
    assert len(text.splitlines()[1]) < 30


def test_nothing_found_and_odd_values() -> None:
    assert fit(Table(("a", "b"), [])).text == "a  b\n"
    table = Table(("x",), [(float("nan"),), (float("inf"),), (1e-9,), (None,)])
    assert json.loads(render(table, "json")) == [{"x": None}, {"x": None}, {"x": 1e-9}, {"x": None}]
    assert fit(table).text.split() == ["x", "nan", "inf", "1e-09"]


# The sandbox

REACHING = (
    "COPY runs TO '{folder}/x.csv'",
    "COPY runs FROM '{folder}/x.csv'",
    "COPY (SELECT 1) TO '{folder}' (FORMAT parquet, PARTITION_BY (1))",
    "ATTACH '{folder}/o.duckdb'",
    "ATTACH 'https://127.0.0.1:1/x.duckdb'",
    "EXPORT DATABASE '{folder}/all'",
    "IMPORT DATABASE '{folder}/all'",
    "FROM read_csv('/etc/passwd')",
    "FROM '/etc/passwd'",
    "FROM 'https://127.0.0.1:1/x.parquet'",
    "FROM read_text('/etc/passwd')",
    "FROM read_blob('/etc/passwd')",
    "FROM read_json('/etc/passwd')",
    "FROM read_parquet('{folder}/x.parquet')",
    "FROM read_duckdb('{folder}/other.duckdb')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM glob('/*')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "UPDATE EXTENSIONS",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET allowed_directories = ['/etc']",
    "SET temp_directory = '{folder}/spill'",
    "SET lock_configuration = false",
    "PRAGMA enable_external_access = true",
    "PRAGMA profiling_output = '{folder}/profile'",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/log')",
    "CALL enable_profiling(save_location = '{folder}/profile')",
    "CREATE SECRET (TYPE s3, KEY_ID 'x')",
    "INSERT INTO runs (run) VALUES ('x')",
    "UPDATE runs SET title = 'x'",
    "DROP TABLE runs",
    "CREATE TABLE x (a INT)",
    "FROM a_variable_of_python",
)


@pytest.mark.parametrize("statement", REACHING)
def test_a_statement_reaches_nothing_outside(small: Path, tmp_path: Path, statement: str) -> None:
    a_variable_of_python = duckdb.sql("SELECT 42 AS secret")
    assert a_variable_of_python is not None
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with resultsfile.open_readonly(small / "results.duckdb") as connection:
        for _ in range(2):  # nor does a first attempt open a way for the second
            with pytest.raises(QueryError):
                resultsfile.run_sql(connection, statement.format(folder=tmp_path))
        assert resultsfile.run_sql(connection, "SELECT count(*) FROM runs").rows == [(5,)]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# The prompt


def test_the_prompt_by_a_pipe(here: Path) -> None:
    typed = "SELECT 1\n  AS one;\n\n.tables\n.help verdicts\n.help standings\n.examples\nSELECT 'a;\nb' AS two; SELECT 3 AS three;\n.quit\nSELECT 4 AS four;\n"
    done = call(typed=typed)
    assert done.exit_code == 0, done.output
    for shown in (
        "one\n",
        "Macros\n",
        "In:  as_of",
        "first day no longer",
        "-- How old are the answers",
        "a; b",
        "three\n",
    ):
        assert shown in done.stdout
    assert "four" not in done.stdout


def test_an_error_at_the_prompt_does_not_end_it_but_is_told(here: Path) -> None:
    done = call(typed="SELEC 1;\n.nothing\nSELECT 2 AS two\n")  # the last one needs no semicolon
    assert done.stdout.split() == ["two", "2"]
    assert [line[:14] for line in done.stderr.splitlines() if line.startswith("Error: ")] == [
        "Error: Parser ",
        "Error: There i",
    ]
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 'x;' -- ;", False),
        ("SELECT 1; -- done", True),
        ("/* ;", False),
        ("SELECT $$ ;", False),
        ("SELECT $$ ; $$;", True),
        ("SELEC 1;", True),
        (";", True),
    ],
)
def test_a_statement_ends_with_its_semicolon(text: str, whole: bool) -> None:
    assert _complete(text) is whole


@pytest.fixture
def at_a_terminal(here: Path, tmp_path: Path) -> Iterator["Screen"]:
    """Start the prompt at a terminal of its own; history goes below ``tmp_path``."""
    environment = os.environ | {"PYTHONPATH": str(REPO), "DYKNOW_CACHE": str(tmp_path / "cache"), "TERM": "dumb"}
    theirs, ours = pty.openpty()[::-1]
    words = [sys.executable, "-m", "dyknow.cli", "sql"]
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=here, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield Screen(ours, process)
        finally:
            process.kill()
            os.close(ours)


@pytest.fixture
def heeded() -> Iterator[None]:
    """Heed Ctrl-C as a program at a terminal does: whoever starts tests in the background may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_ctrl_c_just_before_a_statement_begins_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run_sql, long = (
        resultsfile.run_sql,
        "SELECT count(*) FROM range(10000000) a, range(100000) b WHERE a.range * b.range = 3",
    )

    def interrupted(*words: Any) -> resultsfile.Table:  # noqa: ANN401
        os.kill(os.getpid(), signal.SIGINT)
        return run_sql(*words)

    with duckdb.connect() as connection:
        late = threading.Timer(120, connection.interrupt)  # so that it fails and does not hang
        late.start()
        for _ in range(5):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(resultsfile, "run_sql", interrupted)
                _interruptible(connection, long, {})  # it would run for hours
            assert _interruptible(connection, "SELECT 42", {}).rows == [(42,)]
        late.cancel()


@pytest.mark.slow  # a terminal and a process of its own
@pytest.mark.usefixtures("heeded")
def test_at_a_terminal_ctrl_c_stops_a_statement_and_lines_are_kept(at_a_terminal: "Screen", tmp_path: Path) -> None:
    screen = at_a_terminal
    screen.until("dyknow> ")
    screen.type("SELECT count(*) FROM range(10000000) a, range(100000) b WHERE a.range * b.range % 7 = 3;\n")
    screen.until("= 3;\r\n")
    screen.process.send_signal(signal.SIGINT)
    screen.until("dyknow> ")  # it would have run for hours
    screen.type("SELECT 6 * 7\nAS answer;\n")
    screen.until("   ...> ")
    screen.until("42")
    screen.until("dyknow> ")
    screen.type("\x04")
    assert screen.process.wait(60) == 0
    assert "SELECT 6 * 7" in (tmp_path / "cache" / "sql_history").read_text(encoding="utf-8")


class Screen:
    """What a program writes to a terminal, read until a text comes."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self.process, self._terminal, self._seen = process, terminal, ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> None:
        while text not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], 300)  # a busy machine is slow
            assert ready, f"{text!r} did not come after {self._seen!r}"
            self._seen += os.read(self._terminal, 4096).decode(errors="replace")
        self._seen = self._seen.split(text, 1)[1]


# The file itself


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE x (a INT)",
        "DELETE FROM runs",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY runs TO '{folder}/stolen.csv'",
        "ATTACH '{folder}/other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_text('http://localhost/x')",
        "SET enable_external_access = true",
        "EXPORT DATABASE '{folder}/all'",
        "SELEC 1",
    ],
)
def test_sql_cannot_write_nor_leave_the_file(small: Path, tmp_path: Path, statement: str) -> None:
    with pytest.raises(QueryError):
        resultsfile.query_readonly(small / "results.duckdb", statement.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("statement", ["", " ; ", "-- a remark"])
def test_sql_without_a_statement_is_refused(small: Path, statement: str) -> None:
    with pytest.raises(QueryError, match="no statement"):
        resultsfile.query_readonly(small / "results.duckdb", statement)


def test_sql_on_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="cannot be read"):
        resultsfile.query_readonly(tmp_path / "absent.duckdb", "SELECT 1")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "broken.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(QueryError, match="cannot be read"):
        resultsfile.query_readonly(tmp_path / "broken.duckdb", "SELECT 1")
