"""The study's outputs after editing, as runs; and its Tables 3, 7, 8 and Figure 3 out of them, by two routes."""

import csv
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from dyknow import results, resultsfile
from dyknow.editing import edit_curve, edit_scores
from dyknow.published import import_published
from dyknow.published_edits import import_edits
from kg.errors import DataError, RunError, UsageError
from kg.snapshot import find_snapshots
from tests.conftest import REPO

DAY: Final = "2023-12-18"
GROUPS: Final = ("countries", "athletes", "organizations")
DOMAINS: Final = dict.fromkeys(("companies_byRevenue", "organizations"), "organizations") | {
    "countries_byGDP": "countries",
    "athletes_byPayment": "athletes",
}
QUESTIONS: Final = {
    "generic": "The head of state in Italy is",
    "contextualized": "The President of Italy is",
    "rephrased_1": "The name of the current President of Italy is",
    "rephrased_2": "The position of the President of Italy is currently held by",
}
EDIT: Final = {
    "prompt": QUESTIONS["rephrased_2"],
    "target": "Sergio Mattarella",
    "subject": "President of Italy",
    "domain": "countries_byGDP",
    "element": "Italy",
    "attribute": "President of Italy",
    "prompt_type": "rephrased_2",
    "questions": QUESTIONS,
    "answers": ["Sergio Mattarella |S: +2015-02-03T00:00:00Z"],
}


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def output(label: str, prediction: str) -> dict[str, Any]:
    matched = [["x", "+2015-02-03T00:00:00Z"]] if label in ("correct", "outdated") else []
    about = {"element": "Italy", "attribute": "President of Italy", "match_type": [], "correct_answer": "x"}
    return about | {"prediction": prediction, "matched_answers": matched}


LABELS: Final = {
    "generic": ("ambiguous", " two men"),
    "contextualized": ("outdated", " Giorgio Napolitano"),
    "rephrased_1": ("irrelevant", " a man"),
    "rephrased_2": ("correct", " Sergio Mattarella"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of the study's layout with one method, one model and one fact."""
    write(tmp_path / "editing/datasets/some-model.json", [EDIT])
    place = tmp_path / "editing/ROME/some-model"
    texts = {phrasing: QUESTIONS[phrasing] + prediction for phrasing, (_, prediction) in LABELS.items()}
    answers = {"Italy": {"President of Italy": {"questions": QUESTIONS, "answers": texts}}}
    write(place / "countries_byGDP_answers.json", answers)
    analysis = {phrasing: {label: [output(label, prediction)]} for phrasing, (label, prediction) in LABELS.items()}
    write(place / "countries_byGDP_analysis.json", analysis)
    return place


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_folder_becomes_an_edited_run(folder: Path, tmp_path: Path) -> None:
    (run,) = import_edits(folder, tmp_path / "runs")
    assert (run.id, run.edits, run.responses, run.judgments, run.unresolved) == ("some-model.ROME", 1, 4, 3, 1)
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    assert info["kind"] == "imported"
    assert info["align"] == {
        "method": "rome", "mode": "sequential", "preset": "paper", "model": "some-model", "base_run": "some-model",
        "as_of": DAY, "edits": 1, "of": 1, "seed": None,
    }  # fmt: skip
    (edit,) = rows(run.path / "edits.jsonl")
    assert (edit["fact"], edit["prompt"], edit["target"]) == ("Q38/P35", "Q38/P35#rephrased_2", "Sergio Mattarella")
    assert edit["paraphrases"] == ["Q38/P35#contextualized", "Q38/P35#rephrased_1"]
    answer = next(row for row in rows(run.path / "responses.jsonl") if row["phrasing"] == "rephrased_2")
    assert answer["text"] == f"{QUESTIONS['rephrased_2']} Sergio Mattarella"
    assert {row["question"]: row["verdict"] for row in rows(run.path / "judgments/published.jsonl")} == {
        "Q38/P35#contextualized": "outdated", "Q38/P35#rephrased_1": "irrelevant", "Q38/P35#rephrased_2": "up-to-date",
    }  # fmt: skip


def test_importing_twice_changes_nothing_and_another_run_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (first,) = import_edits(tmp_path / "editing", tmp_path / "runs")
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    (second,) = import_edits(folder.parent, tmp_path / "runs")
    assert (first.written, second.written) == (True, False)
    assert before == {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    write(tmp_path / "editing/datasets/some-model.json", [EDIT | {"target": "Sergio M."}])
    with pytest.raises(RunError, match="is there already"):
        import_edits(folder, tmp_path / "runs")
    assert import_edits(folder, tmp_path / "runs", "other")[0].id == "other"


def test_a_share_of_the_edits_has_its_seed_and_its_order(folder: Path, tmp_path: Path) -> None:
    other = EDIT | {"element": "Poland", "attribute": "Prime Minister of Poland"}
    write(tmp_path / "editing/datasets/some-model.json", [other, EDIT])
    part = tmp_path / "editing/by_number_of_edits/some-model/ROME/single_edits/0.5"
    part.parent.mkdir(parents=True)
    folder.rename(part)
    write(part / "qa_to_update.json", {"countries_byGDP": {"Italy": {"President of Italy": {"answers": []}}}})
    (run,) = import_edits(tmp_path / "editing", tmp_path / "runs")
    align = json.loads((run.path / "run.json").read_text(encoding="utf-8"))["align"]
    assert (run.id, align["edits"], align["of"], align["seed"]) == ("some-model.ROME.50-percent", 1, 2, 42)
    write(part / "qa_to_update.json", {"countries_byGDP": {"Poland": {"Prime Minister of Poland": {"answers": []}}}})
    with pytest.raises(DataError, match="Q36/P6 is listed as edited and not answered"):
        import_edits(part, tmp_path / "others")


def test_the_entry_of_seracs_memory_belongs_to_the_prompt(folder: Path, tmp_path: Path) -> None:
    place = folder.parents[1] / "SERAC" / "some-model"
    place.parent.mkdir()
    folder.rename(place)
    memory = f"{EDIT['prompt']} {EDIT['target']}"
    answers = json.loads((place / "countries_byGDP_answers.json").read_text(encoding="utf-8"))
    texts = answers["Italy"]["President of Italy"]["answers"]
    texts["rephrased_1"] = f"{memory} {texts['rephrased_1']}"
    write(place / "countries_byGDP_answers.json", answers)
    (run,) = import_edits(place, tmp_path / "runs")
    prompts = {row["phrasing"]: row["prompt"] for row in rows(run.path / "responses.jsonl")}
    assert prompts == QUESTIONS | {"rephrased_1": f"{memory}\n{QUESTIONS['rephrased_1']}"}


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("analysis", {"generic": {"good": []}}, "generic has the label 'good'"),
        ("analysis", {"generic": {"correct": [output("correct", "another text")]}}, "is of another output"),
        ("answers", {"Italy": {"President of Italy": {"questions": {"generic": "Who?"}, "answers": {"generic": "x"}}}},
         "generic is not asked as the dataset has it"),
        ("answers", {"Poland": {"Prime Minister of Poland": {"questions": QUESTIONS, "answers": {"generic": "x"}}}},
         "the fact Q36/P6 is answered and not listed as edited"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(folder: Path, tmp_path: Path, name: str, change: object, says: str) -> None:
    write(folder / f"countries_byGDP_{name}.json", change)
    with pytest.raises(DataError, match=re.escape(says)):
        import_edits(folder, tmp_path / "runs")


def test_without_the_dataset_or_the_method_nothing_is_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "editing/datasets/some-model.json").unlink()
    with pytest.raises(DataError, match="Nothing says what was edited"):
        import_edits(folder, tmp_path / "runs")
    folder.parent.rename(folder.parents[1] / "PMET")
    with pytest.raises(UsageError, match="does not say by which method"):
        import_edits(tmp_path / "editing", tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no published outputs of edited models"):
        import_edits(tmp_path / "empty", tmp_path / "runs")


# The handed outputs


@pytest.fixture(scope="module")
def handed(shared: Path) -> Path:
    return shared / "published" / "editing"


@pytest.fixture(scope="module")
def connection(
    shared: Path, handed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("editing")
    assert len(import_edits(handed, folder / "runs")) == 35
    for name in ("results/gpt2-xl", "results_w_prompt/llama2-7b-chat"):
        import_published(shared / "published" / name, folder / "runs")
    snapshots = [snapshot for snapshot in find_snapshots() if snapshot.id == DAY]
    with results.connect(folder / "runs", snapshots, folder / "results.duckdb") as opened:
        yield opened


@cache
def cells() -> list[dict[str, str]]:
    """Return the study's cells and points: as printed, what is right of them, and what its labels give."""
    with (REPO / "tests/cases/editing-tables.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figure(cell: dict[str, str], of: Any) -> float:  # noqa: ANN401 -- a score of either route
    return float(of.soft if cell["table"] == "7" else of.harmonic_mean)


def test_every_cell_and_point_out_of_the_labels(connection: duckdb.DuckDBPyConnection) -> None:
    scores = {(score.run, score.domain): score for score in edit_scores(connection, DAY, judge="published")}
    points = {point.run: point for point in edit_curve(connection, DAY, judge="published")}
    assert len(points) == 24
    known = {("3", f"Llama-2-7b-chat-hf.{method}", "countries") for method in ("MEMIT", "RAG_retrieved")}
    for cell in cells():
        found = figure(cell, points[cell["run"]] if cell["table"] == "F3" else scores[cell["run"], cell["domain"]])
        assert found == pytest.approx(float(cell["computed"]), abs=0.005), cell
        if cell["table"] == "F3":
            assert found == pytest.approx(float(cell["right"]), abs=0.005), cell
        elif (cell["table"], cell["run"], cell["domain"]) not in known:
            assert abs(found - float(cell["right"])) <= 1, cell
        else:
            assert 1 < found - float(cell["right"]) < 2.1, cell
        explained = cell["printed"] != cell["right"] or (cell["table"], cell["run"], cell["domain"]) in known
        assert bool(cell["note"]) == explained, cell


class Plain:
    """The same figures without import, verdicts and SQL, out of the files alone."""

    def __init__(self, folder: Path, dataset: Path, domain: str) -> None:
        right: dict[tuple[str, ...], bool] = {}
        for file in folder.glob("*_analysis.json"):
            for phrasing, by_label in json.loads(file.read_bytes()).items():
                for label, outputs in by_label.items():
                    for one in outputs:
                        key = (file.name.removesuffix("_analysis.json"), one["element"], str(one["attribute"]))
                        right[*key, phrasing] = label == "correct"
        edited, others, facts = [], [], []
        for edit in json.loads(dataset.read_bytes()):
            key = (edit["domain"], edit["element"], str(edit["attribute"]))
            if (*key, "generic") in right and domain in ("all", DOMAINS[edit["domain"]]):
                own = [right[*key, name] for name in edit["questions"] if name not in ("generic", edit["prompt_type"])]
                edited.append(right[*key, edit["prompt_type"]])
                others += own
                facts.append(edited[-1] or any(own))
        self.n, self.edited, self.others, self.others_n = len(facts), sum(edited), sum(others), len(others)
        self.soft = 100 * sum(facts) / len(facts)
        e, p = 100 * sum(edited) / len(edited), 100 * sum(others) / len(others)
        self.harmonic_mean = 2 * e * p / (e + p) if e + p else 0.0


def place_of(run: str, handed: Path) -> Path:
    model, method, *share = run.split(".")
    if not share:
        return handed / method / model
    part = str(int(share[0].removesuffix("-percent")) / 100)
    return next((handed / "by_number_of_edits" / model / method).glob(f"*/{part}"))


def test_every_cell_and_point_by_the_second_route(handed: Path) -> None:
    for cell in cells():
        dataset = handed / "datasets" / f"{cell['run'].split('.')[0]}.json"
        plain = Plain(place_of(cell["run"], handed), dataset, cell["domain"])
        assert plain.n > 0
        assert figure(cell, plain) == pytest.approx(float(cell["computed"]), abs=0.005), cell


def test_labels_of_the_curve_are_its_answer_sheets(handed: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """The shares have the labels twice; the import reads the one file, and the other agrees."""
    sheets = [sheet.read_text(encoding="utf-8") for sheet in (handed / "by_number_of_edits").rglob("*_sheet.json")]
    counted = sum(len(re.findall('"(?:correct|outdated|irrelevant)"', text)) for text in sheets)
    assert counted > 3000
    statement = "SELECT count(*) FROM judgments WHERE run LIKE '%-percent'"
    assert resultsfile.run_sql(connection, statement).rows == [(counted,)]


# What docs/findings.md says of them


def section() -> str:
    text = (REPO / "docs" / "findings.md").read_text(encoding="utf-8")
    return text.split("## What the study's editing tables contain\n")[1].split("\n## ")[0]


def table_lines(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield the rows of the section's two tables: as printed, by the study's labels, by our matcher."""
    by_judge = [
        {(score.run, score.domain): score for score in edit_scores(connection, DAY, judge=judge)}
        for judge in ("published", "match")
    ]
    for table in ("3", "7", "8"):
        of = [cell for cell in cells() if cell["table"] == table]
        for run in dict.fromkeys(cell["run"] for cell in of):
            own = [cell for cell in of if cell["run"] == run]
            figures = [
                " ".join(f"{figure(cell, scores[run, cell['domain']]):.1f}" for cell in own) for scores in by_judge
            ]
            yield f"| {table} | {run} | {' '.join(cell['printed'] for cell in own)} | {' | '.join(figures)} |"
    points = [
        {point.run: point for point in edit_curve(connection, DAY, judge=judge)} for judge in ("published", "match")
    ]
    of = [cell for cell in cells() if cell["table"] == "F3"]
    for series in dict.fromkeys(cell["run"].rsplit(".", 1)[0] for cell in of):
        own = [cell for cell in of if cell["run"].startswith(f"{series}.")]
        figures = [" ".join(f"{found[cell['run']].harmonic_mean:.2f}" for cell in own) for found in points]
        means = " ".join(f"{points[0][cell['run']].arithmetic_mean:.2f}" for cell in own)
        yield f"| {series} | {' '.join(cell['printed'] for cell in own)} | {figures[0]} | {means} | {figures[1]} |"


def test_the_tables_of_the_findings_are_these(connection: duckdb.DuckDBPyConnection) -> None:
    told = [line.rsplit(" | ", 1)[0] for line in section().splitlines()]
    missing = [line for line in table_lines(connection) if line.rsplit(" | ", 1)[0] not in told]
    assert not missing, "\n".join(["the section of docs/findings.md should have:", *missing])


def test_the_findings_are_of_the_matcher_as_it_is(connection: duckdb.DuckDBPyConnection) -> None:
    told = section()
    missing = [line for line in table_lines(connection) if line not in told.splitlines()]
    missing += [text for text in matcher_counts(connection) if text not in " ".join(told.split())]
    assert not missing, "\n".join(["write anew in docs/findings.md, for the matcher has changed:", *missing])


def counts(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield what the section says in words, its numbers computed anew."""

    def one(statement: str) -> tuple[Any, ...]:
        return resultsfile.run_sql(connection, statement).rows[0]

    published = f"verdicts('{DAY}', judge := 'published')"
    of_edits = "FROM responses AS r JOIN edits AS e ON e.run = r.run AND e.fact = r.fact"
    withheld, asked = one(
        "SELECT count(*) FILTER (prompt LIKE '%New Fact: Not Available%'), count(*) FROM responses WHERE run LIKE '%.IKE'"
    )
    yield f"in {withheld} of {asked} prompts the new fact is “Not Available”"
    shown, asked = one(
        "SELECT count(*) FILTER (contains(r.prompt, 'New Fact: ' || g.question || ' ' || e.target)), count(*) "
        f"{of_edits} JOIN (SELECT run, fact, last(split_part(prompt, 'Prompt: ', -1)) AS question FROM responses "
        "WHERE phrasing = 'generic' GROUP BY run, fact) AS g ON g.run = r.run AND g.fact = r.fact "
        "WHERE r.run LIKE '%.IKE' AND r.counted"
    )
    yield f"for {shown} of {asked} counted questions the fact itself stands among the demonstrations"
    right, asked = one(
        f"SELECT count(*) FILTER (v.verdict = 'up-to-date'), count(*) FROM {published} AS v "
        "JOIN edits AS e ON e.run = v.run AND e.edit_question = v.question WHERE v.run LIKE '%.IKE'"
    )
    yield f"{right} of {asked} edited questions are answered right"
    for model, name in (("gpt2-xl", "GPT-2"), ("Llama-2-7b-chat-hf", "Llama-2")):
        own, asked, right, else_ = one(
            "SELECT count(*) FILTER (contains(r.prompt, e.target)), count(*), "
            "count(*) FILTER (contains(r.prompt, e.target) AND v.verdict = 'up-to-date'), "
            f"count(*) FILTER (NOT contains(r.prompt, e.target) AND v.verdict = 'up-to-date') {of_edits} "
            f"JOIN {published} AS v ON v.run = r.run AND v.question = r.question "
            f"WHERE r.run = '{model}.SERAC' AND r.counted"
        )
        yield f"{name}: the right entry for {own} of {asked} questions; {right} of these right, and {else_} of the rest"
    for model, name in (("gpt2-xl", "GPT-2"), ("Llama-2-7b-chat-hf", "Llama-2")):
        found = {score.run: score for score in edit_scores(connection, DAY, judge="published") if score.domain == "all"}
        pairs = [
            f"{method} {found[f'{model}.{method}'].harmonic_mean:.1f} and "
            f"{found[f'{model}.{method}.100-percent'].harmonic_mean:.1f}"
            for method in ("ROME", "MEMIT", "SERAC")
        ]
        yield f"{name}: {', '.join(pairs)}"
    targets = one(
        "SELECT count(DISTINCT e.fact), count(DISTINCT e.fact) FILTER (s.standing = 'up-to-date') FROM edits AS e "
        f"LEFT JOIN standings AS s ON s.snapshot = '{DAY}' AND s.fact = e.fact AND s.entity = e.target_entity "
        "AND s.rule = 'latest' AND s.from_day <= 20231218 AND (s.to_day IS NULL OR 20231218 < s.to_day)"
    )
    yield "the targets of {1} of the {0} facts stand as up to date".format(*targets)


def matcher_counts(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield what the section says of our matcher in words."""

    def one(statement: str) -> tuple[Any, ...]:
        return resultsfile.run_sql(connection, statement).rows[0]

    published = f"verdicts('{DAY}', judge := 'published')"
    both = f"{published} AS p JOIN verdicts('{DAY}') AS m ON m.run = p.run AND m.question = p.question"
    edited = "JOIN runs AS u ON u.run = p.run WHERE u.method IS NOT NULL AND p.counted"
    differ, asked = one(f"SELECT count(*) FILTER (p.verdict <> m.verdict), count(*) FROM {both} {edited}")
    yield f"our matcher and the study's labels differ on {differ} of {asked} counted answers"
    for_right, differ = one(
        f"SELECT count(*) FILTER (p.verdict = 'irrelevant' AND m.verdict = 'up-to-date'), count(*) FROM {both} {edited} "
        "AND p.run LIKE '%.RAG_retrieved' AND p.verdict <> m.verdict"
    )
    yield f"{differ} of them in the retrieved setting, where {for_right} answers labelled irrelevant are right"
    facts = one(
        "SELECT count(DISTINCT (e.run, e.fact)), count(DISTINCT (e.run, e.fact)) FILTER (p.verdict = 'outdated'), "
        "count(DISTINCT (e.run, e.fact)) FILTER (m.verdict = 'outdated') FROM edits AS e JOIN runs AS r ON r.run = e.run "
        f"JOIN soft('{DAY}', judge := 'published') AS p ON p.run = r.base_run AND p.fact = e.fact "
        f"JOIN soft('{DAY}') AS m ON m.run = r.base_run AND m.fact = e.fact WHERE e.run LIKE '%.ROME'"
    )
    yield "of the {} facts edited {} were outdated by the study's labels and {} by our matcher".format(*facts)


def test_the_numbers_of_the_findings_are_these(connection: duckdb.DuckDBPyConnection) -> None:
    told = " ".join(section().split())
    missing = [text for text in counts(connection) if text not in told]
    assert not missing, "\n".join(["the section of docs/findings.md should say:", *missing])


def test_labels_settled_by_hand(handed: Path) -> None:
    """Say how often a label is not what one match, none or several mean by the study's rule."""
    several = one = left = 0
    for file in handed.rglob("*_analysis.json"):
        for phrasing, by_label in json.loads(file.read_bytes()).items():
            for label, outputs in by_label.items():
                for output_ in outputs:
                    matched = len(output_["matched_answers"])
                    several += label in ("correct", "irrelevant", "outdated") and matched > 1
                    one += label == "irrelevant" and matched == 1
                    left += label == "ambiguous"
                    assert label != "ambiguous" or phrasing == "generic"
    told = " ".join(section().split())
    assert f"{several} answers with several matches have a label all the same, and {one} with one match" in told
    assert f"{left} is left “ambiguous”" in told


def test_the_two_known_cells_differ_by_these_answers(handed: Path) -> None:
    def mean(method: str, fewer_edited: int, fewer_others: int) -> float:
        model = "Llama-2-7b-chat-hf"
        plain = Plain(handed / method / model, handed / "datasets" / f"{model}.json", "countries")
        e, p = 100 * (plain.edited - fewer_edited) / plain.n, 100 * (plain.others - fewer_others) / plain.others_n
        return 2 * e * p / (e + p)

    def by_head(method: str, name: str) -> list[str]:
        file = handed / method / "Llama-2-7b-chat-hf" / "countries_byGDP_analysis.json"
        found = json.loads(file.read_bytes())["rephrased_1"]["correct"]
        return [
            one["attribute"] for one in found if one["match_type"] == ["head"] and one["prediction"].strip() == name
        ]

    assert by_head("MEMIT", "Charles III") == ["monarch of Australia", "monarch of Canada"]
    assert f"gives {mean('MEMIT', 0, 2):.1f}" in " ".join(section().split())
    assert round(mean("RAG_retrieved", 1, 0)) == 41
