"""The report: figures by a third route, one page that is the same for the same input and safe whatever a model said."""

import csv
import html
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dyknow import analysis, results
from dyknow.analysis import Mass
from dyknow.beliefs import find_holders
from dyknow.cli import cli
from dyknow.comparison import flips
from dyknow.named import import_named
from dyknow.report import drawing, formats, page
from dyknow.report.changes import changes
from dyknow.report.data import (
    Answer,
    Cover,
    Data,
    Fact,
    History,
    Holder,
    Known,
    Model,
    Named,
    Rows,
    Source,
    Spread,
    Step,
)
from dyknow.report.days import in_words, stops
from dyknow.report.gather import gather, tables
from dyknow.report.rates import Figures
from dyknow.timeline import sweep
from kg.errors import UsageError
from kg.snapshot import find_snapshots
from tests.browser import Browser
from tests.browser import found as found_browser
from tests.journals import write_likelihoods, write_run

PUBLISHED = Path(__file__).parents[1] / "examples" / "published"
NASTY = "</script><script>alert(1)</script><!-- \u2028 \"&' \x1b[31m\n</td>"
DAYS = ("2023-12-18", "2025-11-30")


# A small report by hand: one fact, held by A until the end of 2022 and by B since


def _history(day: int, handed_over: int) -> History:
    old = (
        Step(-99999999, 20150101, "later", True, 20150101, None, "urn:dyknow:statement:a"),
        Step(20150101, handed_over, "up-to-date", True, 20150101, handed_over, "urn:dyknow:statement:a"),
        Step(handed_over, None, "outdated", True, 20150101, handed_over, "urn:dyknow:statement:a"),
    )
    new = (
        Step(-99999999, handed_over, "later", True, handed_over, None, "urn:dyknow:statement:b"),
        Step(handed_over, None, "up-to-date", False, handed_over, None, "urn:dyknow:statement:b"),
    )
    cover = (Cover(-99999999, 20150101, "before the first record"), Cover(20150101, None, "answered"))
    text = f"{day // 10000}-{day // 100 % 100:02}-{day % 100:02}"
    source = Source(text, day, "ab" * 32, f"a source {NASTY}")
    return History(source, ((Holder("A", f"Ann {NASTY}", old), Holder("B", "Bob", new)),), (cover,), (True,))


def _answer(run: int, phrasing: str, entity: str | None) -> Answer:
    name = Named(entity, entity, "matched" if entity else "refusal", entity or "", entity or "", "label", 100.0)
    prompt = "Who?"
    return Answer(run, 0, f"Q1/P6#{phrasing}", phrasing, True, 0, "ok", prompt, f"{prompt} {NASTY}", (name, name))


def small(**changed: Any) -> Data:  # noqa: ANN401 -- any field of Data
    models = (
        Model(
            "one", "One", 2020, False, "asked", "2021-06-01", "day", "its maker", Known(*["2021-01-01"] * 3), "One 2020"
        ),
        Model("two", f"Two {NASTY}", None, True, name=f"Two* {NASTY}", info={"seed": NASTY}),
    )
    data = Data(
        models=models,
        facts=(Fact("Q1/P6", "countries", f"Land {NASTY}", "Prime Minister"),),
        answers=(_answer(0, "1", "A"), _answer(0, "2", "A"), _answer(1, "1", "B"), _answer(1, "2", None)),
        histories=(_history(20231218, 20230101), _history(20251130, 20220101)),
        days=("2022-06-01", "2025-11-30"),
        stops=("2021-01-01", "2022-06-01", "2023-12-18", "2025-11-30"),
        masses={"2025-11-30": [Mass("one", "all", 1, 10.0, 80.0, 10.0, 0.0, 100.0)]},
        spreads=(Spread("one", 2, 2015, 2015, 2015, 2015, 2015),),
        alignment=Rows(("model", "efficacy"), ((NASTY, 50.0),)),
    )
    return replace(data, **changed)


@pytest.fixture(scope="module")
def drawn() -> str:
    data = small()
    return page.render(data, tables(data), "window.vegaEmbed = null;")


def held(text: str) -> dict[str, Any]:
    """Return the data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def test_whatever_a_model_said_is_text(drawn: str) -> None:
    pytest.importorskip("altair")
    assert "<script>alert" not in drawn
    assert drawn.count("<script") == drawn.count("</script") == 3  # data, charts, our own
    assert "<!--" not in drawn.replace("<!doctype", "")
    assert "\u2028" not in drawn[drawn.index("<script") :]
    assert "\x1b" not in drawn
    # Word for word, in the data.
    assert [answer[6] for answer in held(drawn)["models"][0]["answers"]] == [["", f" {NASTY}"]] * 2


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing_else(drawn: str) -> None:
    body = drawn.replace("http://www.wikidata.org/entity/statement/", "")
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", body)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', drawn)
    assert policy
    assert policy[1].startswith("default-src 'none'")
    scripts = re.search(r"script-src ([^;]*);", policy[1])
    assert scripts
    assert "unsafe" not in scripts[1]
    assert scripts[1].count("'sha256-") == 2


def test_equal_inputs_give_equal_pages(drawn: str) -> None:
    data = small()
    assert page.render(data, tables(data), "window.vegaEmbed = null;") == drawn


def test_every_section_is_there(drawn: str) -> None:
    assert re.findall(r"<section id=(\w+)>", drawn) == [
        "bars", "table1", "timeline", "changed", "heatmap", "lanes", "years", "table5", "table2", "beliefs", "alignment",
        "provenance",
    ]  # fmt: skip
    bare = small(spreads=(), masses={}, alignment=None)
    text = page.render(bare, tables(bare), None)
    assert re.findall(r"<section id=(\w+)>", text) == ["table1", "changed", "heatmap", "table5", "table2", "provenance"]
    assert "pip install" in text
    assert text.count("<script") == 2


def test_the_page_of_a_small_report_is_the_one_reviewed() -> None:
    """Written anew, after looking at it, by: DYKNOW_REVIEWED=1 pytest tests/test_report.py."""
    reviewed = Path(__file__).parent / "cases" / "report" / "small.html"
    data = small()
    text = page.render(data, tables(data), None)
    body = (
        text[text.index("<header>") : text.index("<script")].replace("<section", "\n<section").replace("<tr", "\n<tr")
    )
    if os.environ.get("DYKNOW_REVIEWED"):
        reviewed.write_text(body, encoding="utf-8")
    assert body == reviewed.read_text(encoding="utf-8")


def test_it_says_what_changed_and_whose_doing_it_was() -> None:
    # By the older snapshot A held it until 2023, by the newer one until 2022: the record was corrected.
    data = small()
    [one, two] = changes(data, "2022-06-01", "2023-12-18")
    assert (one.run, one.went_stale, one.cause) == (0, True, "world")
    assert (two.run, two.came_true, two.cause) == (1, True, "world")
    assert {change.cause for change in changes(data, "2022-06-01", "2025-11-30")} == {"wikidata"}
    same = small(known_at="2025-11-30", histories=data.histories[1:])
    assert changes(same, "2022-06-01", "2025-11-30") == []


def test_the_headline_tells_the_point(drawn: str) -> None:
    head = html.unescape(drawn[drawn.index("<header") : drawn.index("</header")])
    assert "On 30 November 2025 the best of 2 models" in head
    assert "were right on 1 June 2022 and out of date by 30 November 2025" in head


def test_markdown_has_no_sign_that_takes_effect() -> None:
    data = small()
    text = formats.markdown(data, tables(data))
    assert "<script>" not in text
    assert "## As of 1 June 2022 (snapshot 2023-12-18)" in text
    assert "| One 2020 | 100 (" in text
    widths = {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| One 2020")}
    assert widths == {1 + 9, 1 + 3, 1 + 7}  # rates, inconsistency, changes


def test_stops_are_months_and_days_of_interest() -> None:
    models = [
        Model("one", "One", 2020, False, released="2021-06-04", known=Known("2020-02-03", "2020-01-01", "2020-03-01"))
    ]
    found = stops(models, ["2023-12-18"], ["2023-12-18"])
    assert found[0] == "2017-01-01"
    assert found[-1] == "2023-12-18"
    assert {"2021-06-04", "2020-02-03", "2019-07-01"} <= set(found)
    assert list(found) == sorted(set(found))


# The ten published models


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("report")
    import_named(PUBLISHED, folder / "runs")
    with results.connect(folder / "runs", _snapshots(), folder / "results.duckdb") as opened:
        yield opened


def _snapshots() -> list[Any]:
    return [snapshot for snapshot in find_snapshots() if snapshot.id in DAYS]


def _sources() -> list[Source]:
    return [Source(one.id, one.date, one.digest) for one in _snapshots()]


@pytest.fixture(scope="module")
def ten(connection: duckdb.DuckDBPyConnection) -> tuple[Data, list[Figures]]:
    data = gather(connection, _sources(), DAYS)
    few = replace(data, stops=tuple(sorted({*data.stops[::30], *DAYS})))
    return few, tables(few)


def test_the_rates_are_those_of_the_tables(
    connection: duckdb.DuckDBPyConnection, ten: tuple[Data, list[Figures]]
) -> None:
    data, figures = ten
    compared = 0
    for stop, day in enumerate(data.stops[-3:], len(data.stops) - 3):
        scores = analysis.score(connection, day)
        found = figures[data.history(day)]
        assert scores.snapshot == data.histories[data.history(day)].source.id
        runs = [model.run for model in data.models]
        for table, rows in enumerate((scores.table1, scores.table5)):
            for row in rows:
                rate = found.rate(table, row.domain, runs.index(row.run), stop)
                shares = (row.up_to_date, row.outdated, row.irrelevant, row.up_to_date_lower)
                assert rate.n == row.n
                assert (rate.up_to_date, rate.outdated, rate.irrelevant, rate.lower) == pytest.approx(shares)
                assert rate.intervals[0] == pytest.approx(tuple(row.up_to_date_interval or ()))
                compared += 1
        for own in scores.table2:
            split = found.inconsistency(runs.index(own.run), stop)
            assert split.n == own.n
            expected = (own.value, *(own.interval or ()))
            assert (split.value, *(split.interval or ())) == pytest.approx(expected)
    assert compared == 3 * 2 * 4 * len(data.models)


def test_changes_are_those_of_the_comparison(
    connection: duckdb.DuckDBPyConnection, ten: tuple[Data, list[Figures]]
) -> None:
    data, _ = ten
    words = {"world": "world", "wikidata": "wikidata", "both": "both", "unknown": "not covered"}
    causes = set()
    for run, model in enumerate(data.models[:3]):
        found = {data.facts[one.fact].id: words[one.cause] for one in changes(data, *DAYS) if one.run == run}
        compared = flips(connection, model.run, *DAYS).flips
        assert found == {one.fact: str(one.cause) for one in compared if one.then != one.now}
        causes |= set(found.values())
    assert causes >= {"world", "wikidata", "not covered"}


def test_csv_has_every_date_once(ten: tuple[Data, list[Figures]]) -> None:
    rows = list(csv.DictReader(io.StringIO(formats.csv(*ten))))
    keys = {(row["as_of"], row["table"], row["run"], row["domain"], row["measure"]) for row in rows}
    assert len(keys) == len(rows) == len(ten[0].stops) * len(ten[0].models) * (2 * 4 * 5 + 1)
    assert {row["snapshot"] for row in rows} == set(DAYS)


def test_figures_are_drawn_without_a_browser(ten: tuple[Data, list[Figures]]) -> None:
    pytest.importorskip("vl_convert")
    data, figures = ten
    assert [box.run for box in data.spreads] == [model.run for model in data.models]
    for name in formats.FIGURES[:3] + formats.FIGURES[4:]:  # the heat map is drawn like these, and slowly
        drawn = formats.picture(name, "svg", data, figures).decode()
        assert drawn.startswith("<svg")
        assert "GPT-J" in drawn, name
        assert "var(" not in drawn
    assert formats.picture("bars", "png", data, figures).startswith(b"\x89PNG")


def test_an_unknown_snapshot_is_refused(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="no snapshot"):
        gather(connection, _sources(), DAYS, "1999-01-01")


def test_the_shares_are_those_of_the_sweep(
    connection: duckdb.DuckDBPyConnection, ten: tuple[Data, list[Figures]]
) -> None:
    data, figures = ten
    days = [int(stop.replace("-", "")) for stop in data.stops]
    places = {model.run: place for place, model in enumerate(data.models)}
    for place, history in enumerate(data.histories):
        points = sweep(connection, days, history.source.id)
        assert len(points) == len(days) * len(places) * 4
        for point in points:
            rate = figures[place].rate(0, point.domain, places[point.run], days.index(point.day))
            expected = (point.up_to_date, point.up_to_date_lower, point.up_to_date_upper)
            assert (rate.up_to_date, rate.lower, rate.upper) == pytest.approx(expected)


# The command


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a small run in it, and stand there."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs", "one", {"Q36/P6#1": "Mateusz Morawiecki", "Q36/P6#2": "Donald Tusk"})
    return tmp_path


def test_a_report_is_written_in_every_format(elsewhere: Path) -> None:
    pytest.importorskip("vl_convert")
    run = CliRunner().invoke
    words = ["report", "--as-of", "2023-12-12", "--as-of", "2023-12-18", "--known-at", "2023-12-18"]
    assert run(cli, words).stdout == "report.html\n"
    text = (elsewhere / "report.html").read_text(encoding="utf-8")
    assert "Mateusz Morawiecki" in text
    assert len(text.encode()) < 3_000_000
    assert "## As of 12 December 2023" in run(cli, [*words, "--format", "md"]).stdout
    rows = list(csv.DictReader(io.StringIO(run(cli, [*words, "--format", "csv"]).stdout)))
    assert {row["as_of"] for row in rows} >= {"2023-12-12", "2023-12-18"}
    alone = run(cli, [*words, "--format", "svg", "--figure", "bars", "-o", "bars.svg"])
    assert alone.stdout == "bars.svg\n"
    assert (elsewhere / "bars.svg").read_text(encoding="utf-8").startswith("<svg")
    refused = run(cli, [*words, "--figure", "bars"])
    assert refused.exit_code == 2
    assert "--format svg" in refused.output


def test_a_run_without_an_answer_is_in_no_rate_and_said_so(elsewhere: Path) -> None:
    held_by = find_holders(find_snapshots(), {"Q36/P6"})["Q36/P6"]
    scores = {(one.entity, one.label): (-3.0 - place, 2) for place, one in enumerate(held_by)}
    write_likelihoods(write_run(elsewhere / "runs", "scored", {}), {"Q36/P6#1": scores})
    run = CliRunner().invoke
    words = ["report", "--as-of", "2023-12-12", "--known-at", "2023-12-18"]
    done = run(cli, words)
    assert "Without an answer, and so in no rate: Scored 2023.\n" in done.stderr
    text = (elsewhere / "report.html").read_text(encoding="utf-8")
    assert [model["run"] for model in held(text)["models"]] == ["one"]
    assert "in no rate: Scored 2023." in text
    beliefs = re.search("<section id=beliefs>(.*?)</section>", text, re.DOTALL)
    assert beliefs
    assert "Scored 2023" in beliefs[1]
    heat = re.search("<section id=heatmap>(.*?)</section>", text, re.DOTALL)
    assert heat
    assert "Scored" not in heat[1]
    alone = run(cli, [*words, "--run", "scored"])
    assert alone.exit_code == 2
    assert "--table beliefs" in alone.stderr


@pytest.mark.slow
def test_a_page_of_ten_runs_with_their_texts_is_under_three_megabytes(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert run(cli, ["import", str(shared / "published")]).exit_code == 0
    assert run(cli, ["report"]).exit_code == 0
    size = (tmp_path / "report.html").stat().st_size
    assert 1_000_000 < size < 3_000_000
    assert len(held((tmp_path / "report.html").read_text(encoding="utf-8"))["models"]) == 10
    labelled = run(cli, ["report", "--judge", "published", "--format", "md"])
    assert "As of 18 December 2023" in labelled.stdout


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = found_browser()
    if program is None:
        pytest.skip("there is no Chromium on the path or in $CHROMIUM")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def opened(ten: tuple[Data, list[Figures]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page.render(*ten, drawing.bundle()), encoding="utf-8")
    return path


def cells(text: str, section: str) -> list[str]:
    """Return what the cells of a section's table say."""
    body = re.search(f"<section id={section}>.*?<tbody>(.*?)</tbody>", text, re.DOTALL)
    assert body
    found = re.findall(r"<td[^>]*>(.*?)</td>", body[1], re.DOTALL)
    return [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in found]


SHOWN = "[...document.querySelectorAll('#{} tbody td')].map((cell) => cell.textContent)"


@pytest.mark.browser
def test_the_slider_shows_what_the_page_of_that_day_says(
    browser: Browser, opened: Path, ten: tuple[Data, list[Figures]]
) -> None:
    data, figures = ten
    browser.said.clear()
    browser.size(1280, 900)
    browser.open(opened)
    browser.run("document.getElementById('asof').focus()")
    for key, code, stop in (("Home", 36, 0), ("ArrowRight", 39, 1), ("End", 35, -1), ("ArrowLeft", 37, -2)):
        browser.press(key, code)
        day = data.stops[stop]
        browser.wait(f"document.getElementById('day').textContent === {in_words(day)!r}")
        assert browser.run("document.getElementById('asof').getAttribute('aria-valuetext')") == in_words(day)
        expected = page.render(replace(data, days=(data.days[0], day)), figures, None)
        for section in ("table1", "table5", "table2"):
            shown = browser.run(SHOWN.format(section))
            assert shown == cells(expected, section), (day, section)
            assert any(shown)
        signs = "[...document.querySelectorAll('.heats td[data-run]')].map((cell) => cell.textContent)"
        heat = re.search("<section id=heatmap>.*?<dialog", expected, re.DOTALL)
        assert heat
        assert browser.run(signs) == re.findall(r"<td(?: class=\w)?>([^<]*)</td>(?!<th)", heat[0])
        if day >= data.days[0]:
            assert browser.run(SHOWN.format("changed")) == cells(expected, "changed"), day
    assert browser.said == []


@pytest.mark.browser
def test_charts_are_drawn_and_follow_the_slider(browser: Browser, opened: Path) -> None:
    browser.open(opened, "#2023-12-18")
    for name in ("bars", "timeline", "lanes", "years"):
        assert browser.run(f"document.querySelectorAll('#chart-{name} svg path').length") > 10, name
    before = browser.run("document.querySelector('#chart-bars svg').innerHTML")
    browser.run("document.getElementById('before').click()")
    browser.wait(f"document.querySelector('#chart-bars svg').innerHTML !== {json.dumps(before)}")
    assert browser.run("getComputedStyle(document.querySelector('#chart-bars path[fill]')).fill") != "none"


@pytest.mark.browser
def test_a_cell_tells_why_by_keyboard(browser: Browser, opened: Path) -> None:
    browser.open(opened)
    browser.run("document.querySelector('.heats td[tabindex=\"0\"]').focus()")
    browser.press("ArrowDown", 40)
    browser.press("ArrowRight", 39)
    name = browser.run("document.activeElement.getAttribute('aria-label')")
    browser.press("Enter", 13)
    assert browser.run("document.getElementById('why').open")
    assert name.split(",")[0] in browser.run("document.getElementById('why-head').textContent")
    browser.press("Escape", 27)
    browser.wait("!document.getElementById('why').open")
    assert browser.run("document.activeElement.getAttribute('aria-label')") == name


@pytest.mark.browser
def test_it_fits_a_phone_and_turns_dark(browser: Browser, opened: Path) -> None:
    browser.size(360, 780)
    browser.open(opened)
    assert browser.run("document.documentElement.scrollWidth") == 360
    light = browser.run("getComputedStyle(document.body).backgroundColor")
    browser.media(dark=True)
    assert browser.run("getComputedStyle(document.body).backgroundColor") != light
    browser.media("print", dark=True)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == light
    assert browser.run("getComputedStyle(document.getElementById('controls')).display") == "none"
    browser.media()


@pytest.mark.browser
def test_a_text_never_runs(browser: Browser, tmp_path: Path) -> None:
    data = small()
    path = tmp_path / "nasty.html"
    path.write_text(page.render(data, tables(data), drawing.bundle()), encoding="utf-8")
    browser.said.clear()
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.alert = () => { window.ran = true; };")
    browser.size(1280, 900)
    browser.open(path)
    browser.run("document.querySelector('.heats td[data-run]').click()")
    assert NASTY.split("<!--", maxsplit=1)[0] in browser.run("document.getElementById('why-body').textContent")
    assert browser.run("window.ran === undefined")
    assert browser.said == []
