"""Whatever is asked, a file, a model made in the test or a server: one pipeline, one set of tables."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dyknow import analysis, benchmark, results
from dyknow.journal import responses
from dyknow.models import Model, Options, load_model
from dyknow.models.api import Remote
from dyknow.models.dialects import DIALECTS
from dyknow.models.local import Local
from dyknow.run import run_model
from kg.snapshot import find_snapshots
from tests import tiny_models
from tests.model_server import ModelServer

STUDY = benchmark.load()
QUESTIONS = STUDY.questions()[:12]
RUNS = ("smollm2", "causal", "t5", "openai", "anthropic")


def models(stack: ExitStack) -> Iterator[tuple[str, Model]]:
    """Yield a model of each kind, by the name of its run."""
    texts = [question.text for question in STUDY.questions()]
    yield "smollm2", load_model("smollm2", Options(style="completion", max_new_tokens=8))
    options = Options(style="completion", max_new_tokens=8)
    yield "causal", Local(tiny_models.causal("Llama"), tiny_models.learnt(texts), "causal", options)
    blanks = tiny_models.learnt(texts, blanks=True)
    yield "t5", Local(tiny_models.t5(), blanks, "t5", Options(style="sentinel", max_new_tokens=8))
    for kind in ("openai", "anthropic"):
        server = stack.enter_context(ModelServer())  # says Sergio Mattarella to everything
        yield kind, Remote(DIALECTS[kind], "m", Options(base_urls=(f"{server.url}/v1",)))


def test_every_kind_of_model_goes_through_one_pipeline_into_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        for name, model in models(stack):
            done = run_model(
                model, QUESTIONS, tmp_path / "runs", benchmark=STUDY, clock=lambda: datetime.now(tz=UTC), run_id=name
            )
            rows = responses(done.path)
            assert [row["status"] for row in rows] == ["ok"] * len(QUESTIONS), name
            assert {row["question"] for row in rows} == {question.id for question in QUESTIONS}
            assert all(row["prompt"] and isinstance(row["text"], str) for row in rows)
    with results.connect(tmp_path / "runs", find_snapshots(), tmp_path / "results.duckdb") as connection:
        rates = connection.execute(
            "SELECT run, n, up_to_date FROM table1('2023-12-18') WHERE domain = 'countries' ORDER BY run"
        ).fetchall()
        scores = analysis.score(connection, "2023-12-18")
    assert [run for run, _, _ in rates] == sorted(RUNS)
    assert {n for _, n, _ in rates} == {4}
    served = {run: rate for run, _, rate in rates if run in ("openai", "anthropic")}
    assert served == {"openai": 25.0, "anthropic": 25.0}  # of four facts Italy's head of state is right
    assert {one.run for one in scores.table1} == set(RUNS)
