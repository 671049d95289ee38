"""Subjects and properties found by queries, as the study found its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dyknow.cli import cli
from tests.test_queryservice import classes, latest, load, of_document, results
from tests.wikidata_server import FakeWikidata

SUBJECTS = ("Q30", "Q142", "Q16", "Q2283")


@pytest.fixture(scope="module")
def service(shared: Path) -> Iterator[str]:
    triples = [triple for name in SUBJECTS for triple in of_document(latest(shared, name))]
    store = load([*triples, *classes()])
    with FakeWikidata({}, sparql=lambda text: results(store, text)) as server:
        yield f"{server.url}/sparql"


def found(service: str, *words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["benchmark", "discover", *words, "--service", service, "--format", "json"])
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


def test_the_properties_whose_values_have_a_start_and_an_end(service: str) -> None:
    rows = {(row["subject"], row["property"]): row for row in found(service, "properties", "--subject", "Q30,Q2283")}
    assert (rows["Q30", "P6"]["statements"], rows["Q30", "P6"]["dated"]) == (45, 44)
    assert (rows["Q2283", "P169"]["statements"], rows["Q2283", "P169"]["dated"]) == (3, 2)
    assert ("Q30", "P35") not in rows  # one statement, without an end


def test_the_offices_a_country_names(service: str) -> None:
    rows = found(service, "offices", "--subject", "Q16")
    assert [(row["property"], row["office"], row["end_kind"]) for row in rows] == [
        ("P1313", "Q839078", "open"), ("P1906", "Q9134365", "known"), ("P1906", "Q14931511", "no value"),
    ]  # fmt: skip


def test_the_largest_economies_on_a_day(service: str) -> None:
    rows = found(service, "economies", "--class", "Q6256")
    assert [(row["place"], row["item"]) for row in rows] == [(1, "Q30"), (2, "Q142"), (3, "Q16")]
    [first, *_] = found(service, "economies", "--class", "Q6256", "--as-of", "2000-12-31", "--limit", "1")
    assert first["item"] == "Q30" and first["on"] <= "2000-12-31" and float(first["amount"]) < float(rows[0]["amount"])


def test_teams_by_all_they_are_a_kind_of(service: str) -> None:
    assert [row["class"] for row in found(service, "teams", "--subject", "Q1,Q2")] == ["national", None]


def test_what_is_missing_is_said(service: str) -> None:
    result = CliRunner().invoke(cli, ["benchmark", "discover", "teams", "--service", service])
    assert (result.exit_code, "needs --subject" in result.stderr) == (2, True)
