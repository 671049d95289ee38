"""Runs of a benchmark that was drawn, whose facts have a popularity, a region and a stratum, and of one that tells nothing."""

import csv
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import orjson
from click.testing import CliRunner

from dyknow import benchmark, benchmarkfiles, generate, phrasings, results, strata
from dyknow.beliefs import find_holders
from dyknow.cli import cli
from dyknow.editing import write_edits
from kg import identity
from kg.answers import facts
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from tests.test_editing import request


def write(place: Path) -> None:
    """Write the runs told, other and edited, of the drawn benchmark told, and plain, of a plain one; and their results.

    Half of the answers name a holder of their fact. told came out in 2021 and has beliefs too.
    """
    chance, snapshot = random.Random(7), find_snapshots()[0]
    found = generate.candidates(open_store(snapshot), identity.load(), snapshot.date)
    known = [
        one._replace(sitelinks=min(int(chance.paretovariate(0.35)), 400) if chance.random() > 0.1 else None,
                     region=chance.choice([None, "North", "South"]))
        for one in found
    ]  # fmt: skip
    bench = generate.build("b", generate.draw(known, generate.Plan(by=generate.DIVISIONS)), phrasings.load())
    plain = tuple(replace(f, sitelinks=None, popularity=None, region=None, stratum=None) for f in bench.facts)
    for name, asked in (("told", bench), ("plain", benchmark.make("p", plain, bench.phrasings))):
        benchmarkfiles.write(asked, place / f"{name}.parquet", "made up")
    for name, of in (("told", "told"), ("plain", "plain"), ("other", "told"), ("edited", "told")):
        _answer(place, name, of, snapshot, chance)
    _believe(place / "runs" / "told", snapshot, chance)
    _edit(place / "runs" / "edited", chance)
    results.connect(place / "runs", [snapshot], place / "results.duckdb").close()


def parts(folder: Path, run: str, split: str) -> dict[str, str]:
    """Return the part of each fact, from the benchmark's file."""
    found = {}
    for fact in benchmark.load(folder / f"{run}.parquet").facts:
        own = {"property": fact.id.rpartition("/")[2], "popularity": fact.popularity, "region": fact.region}
        found[fact.id] = (own | {"stratum": fact.stratum, "domain": fact.domain})[split] or strata.UNKNOWN
    return found


def _answer(place: Path, name: str, asked: str, snapshot: Snapshot, chance: random.Random) -> None:
    names = defaultdict(list)
    for statement in snapshot.statements():
        names[statement.fact].append(statement.name)
    iris = {fact.fact: fact.iri for fact in facts(open_store(snapshot), identity.load()).values()}
    with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("question", "text"))
        for question in benchmark.load(place / f"{asked}.parquet").questions():
            rows.writerow((question.id, chance.choice([*names[iris[question.fact.id]], "nobody I know"])))
    called = ["import", str(place / f"{name}.csv"), "--benchmark", str(place / f"{asked}.parquet"), "--run-id", name]
    done = CliRunner().invoke(cli, [*called, "--runs", str(place / "runs")])
    assert done.exit_code == 0, done.output


def _believe(folder: Path, snapshot: Snapshot, chance: random.Random) -> None:
    """Write the release of a run, and how likely holders are held to be: of two phrasings of every third fact."""
    _add(folder, {"release_year": 2021})
    questions = [orjson.loads(line) for line in (folder / "questions.jsonl").read_bytes().splitlines()]
    held = find_holders([snapshot], {row["fact"] for row in questions})
    lines = []
    for row in questions:
        if row["phrasing"] in "12" and sorted(held).index(row["fact"]) % 3 == 0:
            scores = [
                {"entity": one.entity, "label": one.label, "logprob": -9 * chance.random(), "tokens": 2}
                for one in held[row["fact"]]
            ]
            lines.append(row | {"prompt": "", "holders_digest": "", "scores": scores})
    (folder / "likelihoods.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def _edit(folder: Path, chance: random.Random) -> None:
    """Write that every second fact of a run was edited."""
    questions = [orjson.loads(line) for line in (folder / "questions.jsonl").read_bytes().splitlines()]
    domains = {row["fact"]: row["domain"] for row in questions}
    write_edits(folder, [request(fact, domain, "X") for fact, domain in domains.items() if chance.random() < 0.5])
    about = {"method": "rome", "mode": "sequential", "preset": "paper", "model": "m", "base_run": "told", "seed": 7}
    _add(folder, {"align": about | {"as_of": snapshot_day(), "edits": 2, "of": 2}})


def snapshot_day() -> str:
    """Return the day of the snapshot that the results hold."""
    return find_snapshots()[0].id


def _add(folder: Path, more: dict[str, object]) -> None:
    info = orjson.loads((folder / "run.json").read_bytes())
    (folder / "run.json").write_bytes(orjson.dumps(info | more))
