"""dyknow timeline: peaks, rates of every date, years and knowledge dates as people and programs read them."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dyknow.cli import cli
from dyknow.named import import_named
from dyknow.timeline import grid
from dyknow.timetables import SPARK, spark
from kg.dates import parse_day

FIGURES = Path(__file__).parents[1] / "examples" / "published" / "named.csv"
GPT, LLAMA = "gpt-3.5-turbo-1106", "Meta-Llama-3-8B-Instruct"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("timing")
    import_named(FIGURES.parent, made / "runs")
    return made


def call(folder: Path, *words: str) -> Result:
    places = ("--runs", str(folder / "runs"), "--database", str(folder / "results.duckdb"))
    return CliRunner().invoke(cli, ["timeline", *words, *places, "--snapshots", str(folder / "none")])


def test_a_person_sees_peak_knowledge_date_and_picture(folder: Path) -> None:
    done = call(folder)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    blocks = [block for block in done.stdout.split("\n\n") if "answers from" in block]
    assert len(blocks) == 10
    [gpt] = [block for block in blocks if block.startswith("ChatGPT")]
    assert "released 2023-11-06" in gpt
    assert "2021-08-27 to 2021-10-03" in gpt
    assert "snapshot 2023-12-18" in done.stdout
    assert "█" in gpt


def test_one_run_in_json(folder: Path) -> None:
    done = call(folder, "--run", LLAMA, "--from", "2022", "--to", "2023-06", "--every", "quarter", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    [run] = found["runs"]
    assert (found["snapshot"], found["domain"], run["released"]) == ("2023-12-18", "all", "2024-04-18")
    [first, last] = run["peaks"]["up_to_date_upper"]["spans"][0]
    assert "2023-03-01" <= first <= last <= "2023-04-30"
    assert run["knowledge"]["lower"] <= "2023-03-31" <= run["knowledge"]["upper"]
    assert [point["day"] for point in run["points"]] == [
        f"{str(day)[:4]}-{str(day)[4:6]}-01" for day in grid(20220101, 20230630, "quarter")
    ]


def test_shares_of_every_date_as_csv(folder: Path) -> None:
    done = call(folder, "--table", "share", "--run", GPT, "--from", "2021-07-15", "--to", "2021-12", "--format", "csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 5 * 4  # August to December; three domains and all
    whole = {row["day"]: float(row["up_to_date"]) for row in rows if row["domain"] == "all"}
    assert max(whole, key=lambda day: whole[day]) == "2021-09-01"
    daily = call(
        folder, "--table", "share", "--run", GPT, "--from", "2021-09-01", "--to", "2021-09-03", "--every", "day"
    )
    assert daily.stdout.count("2021-09-0") == 3


def test_years_by_the_studys_rule_and_ours(folder: Path) -> None:
    def boxes(*words: str) -> dict[tuple[str, str], dict[str, str]]:
        done = call(folder, "--table", "years", "--format", "csv", *words)
        assert done.exit_code == 0, done.output
        return {(row["run"], row["domain"]): row for row in csv.DictReader(io.StringIO(done.stdout))}

    ours, study = boxes(), boxes("--repeat", "study")
    assert len(ours) == 40
    # Netanyahu's term of December 2022 is none that a model of 2019 could have meant.
    assert (ours["gpt2-xl", "all"]["maximum"], study["gpt2-xl", "all"]["maximum"]) == ("2018", "2022")
    assert ours[GPT, "all"]["maximum"] == study[GPT, "all"]["maximum"] == "2021"
    told = call(folder, "--table", "years").stdout
    assert "25 %" in told
    assert max(map(len, told.splitlines())) <= 80


def test_knowledge_dates_alone(folder: Path) -> None:
    done = call(folder, "--table", "knowledge", "--format", "csv")
    rows = {row["run"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert len(rows) == 10
    assert rows[GPT]["lower"] <= "2021-09-30" <= rows[GPT]["upper"]
    assert parse_day(rows[GPT]["day"]) // 100 in {202109, 202110}
    told = call(folder, "--table", "knowledge", "--domain", "countries")
    assert "answers from" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80
    overview = call(folder, "--format", "csv")
    assert next(csv.DictReader(io.StringIO(overview.stdout)))["knowledge"] != ""


def test_wrong_use_is_said(folder: Path) -> None:
    assert "lies after" in call(folder, "--from", "2023", "--to", "2020").stderr
    assert call(folder, "--from", "2023", "--to", "2020").exit_code == 2
    assert "no snapshot" in call(folder, "--known-at", "1999-01-01").stderr
    assert "names nobody" in call(folder, "--judge", "nobody").stderr
    assert "is not a date" in call(folder, "--from", "soon").stderr
    assert "try day" in call(folder, "--from", "2023-02-02", "--to", "2023-02-03").stderr
    assert "does not know" in call(folder, "--to", "2025", "--run", GPT).stderr


@pytest.mark.parametrize("table", ["overview", "share", "years", "knowledge"])
def test_an_unknown_domain_is_named_with_those_there_are(folder: Path, table: str) -> None:
    refused = call(folder, "--domain", "nope", "--table", table)
    assert refused.exit_code == 2
    assert "domain 'nope'" in refused.stderr
    assert "There are: athletes, countries, organizations, all." in refused.stderr
    assert not refused.stdout


def test_two_runs_of_one_model_are_told_apart(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    again = shutil.copytree(tmp_path / "runs" / GPT, tmp_path / "runs" / f"{GPT}-again") / "run.json"
    again.write_text(again.read_text(encoding="utf-8").replace(f'"{GPT}"', f'"{GPT}-again"'), encoding="utf-8")
    done = call(tmp_path, "--run", GPT, "--run", f"{GPT}-again")
    heads = [line.split("  ")[0] for line in done.stdout.splitlines() if line.startswith("ChatGPT")]
    assert len(set(heads)) == len(heads) == 2
    shares = call(tmp_path, "--table", "knowledge", "--run", GPT, "--run", f"{GPT}-again").stdout
    assert all(head.removesuffix(" ") in shares for head in heads)


def test_a_line_of_blocks_fits() -> None:
    assert len(spark([float(n) for n in range(500)])) == SPARK
    assert spark([None, None]) == "  "
    assert spark([]) == ""
    assert spark([3.0, 3.0]) == "▁▁"
