"""The notebook of the examples: a valid one, without outputs, whose cells run in order on published results."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dyknow import results, tablefiles
from dyknow.named import import_named
from dyknow.tablefiles import Wanted
from kg.snapshot import find_snapshots

REPO = Path(__file__).resolve().parents[1]
NOTEBOOK: dict[str, Any] = json.loads((REPO / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
RUNS = ("gpt2-xl", "gpt-j-6B", "gpt-3.5-turbo-1106")
FACTS = 40

# Runs the cells as a kernel does, in one namespace, and says what they made.
KERNEL = """
import json, sys
made = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), made)
chart = made["chart"]
print(json.dumps({
    "table1": made["table1"].fetchall(),
    "points": [(run, day.isoformat(), *rest) for run, day, *rest in made["points"]],
    "compared": made["compared"].fetchall(),
    "pair": [made["first"], made["second"]],
    "verdicts": made["verdicts"].fetchall(),
    "chart": None if chart is None else chart.to_dict(),
}))
"""


@pytest.fixture(scope="module")
def folder(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a part of the published results, judged and exported."""
    folder = tmp_path_factory.mktemp("notebook")
    with (REPO / "examples" / "published" / "named.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] in RUNS]
    facts = sorted({row["fact"] for row in rows})[:: len({row["fact"] for row in rows}) // FACTS]
    with (folder / "named.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if row["fact"] in facts)
    import_named(folder / "named.csv", folder / "runs")
    shutil.copy(small / "results.duckdb", folder / "results.duckdb")  # its standings need not be made again
    with results.connect(folder / "runs", find_snapshots(folder), folder / "results.duckdb") as connection:
        tablefiles.write(connection, folder / "tables", "parquet", Wanted(days=("2023-12-18",)))
    return folder


def test_the_notebook_is_one_of_version_4_without_outputs() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert NOTEBOOK["metadata"]["kernelspec"]["language"] == "python"
    names = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(names)) == len(names)
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            assert set(cell) == {"cell_type", "id", "metadata", "source", "outputs", "execution_count"}
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
        else:
            assert set(cell) == {"cell_type", "id", "metadata", "source"}


def test_its_cells_run_in_order_and_show_what_the_macros_say(folder: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DYKNOW_")}
    done = subprocess.run(
        [sys.executable, "-c", KERNEL, str(REPO / "examples" / "notebook.ipynb")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    with duckdb.connect(str(folder / "results.duckdb"), read_only=True) as connection:

        def rows(statement: str) -> list[list[Any]]:
            return [list(row) for row in connection.execute(statement).fetchall()]

        rates = rows("SELECT run, n, up_to_date FROM table1('2023-12-18') WHERE domain = 'all'")
        assert {run: (n, pytest.approx(up, abs=0.051)) for run, n, up in rates} == {
            run: (n, up) for run, n, up, *_ in made["table1"]
        }
        assert len(rates) == len(RUNS)
        counts = rows(
            "SELECT run, verdict, count(*) FROM verdicts('2023-12-18') WHERE counted GROUP BY ALL ORDER BY ALL"
        )
        assert made["verdicts"] == counts
        shared = rows("SELECT count(*) FROM asked_facts")
    assert [[sum(facts for *_, facts in made["compared"])]] == shared
    assert made["pair"] == [made["table1"][0][0], made["table1"][-1][0]]
    assert {run for run, *_ in made["points"]} == set(RUNS)
    if made["chart"] is not None:
        shown = made["chart"]["data"]["values"]
        assert [(row["run"], row["day"]) for row in shown] == [(run, day) for run, day, *_ in made["points"]]
