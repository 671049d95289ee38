"""The benchmark: ask models, match their texts to entities, judge them for any date.

Modules import only those named before them: ``tomlfile
prompts benchmark resolve models journal provenance run paraphrase verify beliefs names scaffold clauses candidates
match published named outputs exports matching judges results analysis tables report commands cli docs``.

The doors for a program; each loads what it needs when it is called:

>>> import dyknow
>>> [poland] = dyknow.answers("2023-12-18", subject="Poland", property="P6")
>>> [holder.label for holder in poland.up_to_date], poland.snapshot
(['Donald Tusk'], '2023-12-18')
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dyknow.analysis import Scores
    from dyknow.journal import RunInfo
    from kg.answers import AnswerSet

__all__ = ["answers", "ask", "evaluate", "score"]


def answers(
    as_of: str,
    *,
    subject: str | None = None,
    property: str | None = None,
    known_at: str | None = None,
    rule: str = "latest",
    snapshots: Path | None = None,
) -> "list[AnswerSet]":
    """Return who holds what on a day: one answer set a fact.

    Args:
        as_of: The day, ISO.
        subject: Only this subject: its label in any case, or its Q-id.
        property: Only this property, e.g. "P6".
        known_at: The snapshot to believe; None: the oldest one not before ``as_of``, else the newest.
        rule: "latest", or "study".
        snapshots: The folder of one's own snapshots; None: ``$DYKNOW_SNAPSHOTS``, else ``snapshots``.

    Raises:
        UsageError: the date is none, or there is no such snapshot.
    """
    from kg import answers as answer_sets
    from kg import identity
    from kg.dates import parse_day
    from kg.snapshot import find
    from kg.store import open_store
    from kg.terms import Rule

    day = parse_day(as_of)
    chosen = find(snapshots, day, known_at)
    store, same = open_store(chosen), identity.with_redirects(identity.load(), [chosen])
    wanted = [
        fact.fact
        for fact in answer_sets.facts(store, same).values()
        if (property in (None, fact.property))
        and (subject is None or subject.casefold() in (fact.subject.casefold(), fact.fact.rsplit("/", 1)[0].casefold()))
    ]
    return answer_sets.answers(store, same, day, wanted, Rule(rule))


def ask(
    model: Any,  # noqa: ANN401 -- a name, or any model of dyknow.models
    *,
    runs: Path = Path("runs"),
    benchmark: Path | None = None,
    run_id: str | None = None,
    prefix: bool = False,
    batch_size: int = 32,
    limit: int | None = None,
) -> "RunInfo":
    """Ask a model all questions it has not answered yet, and return the run.

    Args:
        model: A name as on the command line ("smollm2", "scripted:answers.toml"), or a model.
        runs: The folder of the runs.
        benchmark: A TOML file; None: the study's.
        run_id: The run's name; None: made of model and settings.
        prefix: Begin each question with "Answer with the name only".
        batch_size: Questions at once.
        limit: Ask the first questions only.

    Raises:
        ModelError: the model cannot be loaded or asked.
        RunError: a run of that name was made with other settings, or is being written.
    """
    from datetime import UTC, datetime

    from dyknow.benchmark import load
    from dyknow.models import load_model
    from dyknow.run import run_model

    chosen = load(benchmark)
    return run_model(
        load_model(model) if isinstance(model, str) else model,
        chosen.questions(prefix)[:limit],
        runs,
        benchmark=chosen,
        clock=lambda: datetime.now(tz=UTC),
        run_id=run_id,
        batch_size=batch_size,
    )


def score(
    as_of: str,
    *,
    runs: Path = Path("runs"),
    only: Sequence[str] | None = None,
    known_at: str | None = None,
    judge: str = "match",
    rule: str = "latest",
    snapshots: Path | None = None,
    database: Path = Path("results.duckdb"),
) -> "Scores":
    """Return the study's Tables 1, 5 and 2 for a date.

    Args:
        as_of: The day, ISO.
        runs: The folder of the runs.
        only: Names of runs; None: all.
        known_at: As for `answers`.
        judge: "match" or "published".
        rule: As for `answers`.
        snapshots: As for `answers`.
        database: The DuckDB file, made or made anew where it is stale.

    Raises:
        UsageError: there is no such run or snapshot.
    """
    from dyknow import analysis, results
    from kg.snapshot import find_snapshots

    with results.connect(runs, find_snapshots(snapshots), database) as connection:
        return analysis.score(connection, as_of, known_at, judge=judge, rule=rule, runs=only)


def evaluate(
    model: Any,  # noqa: ANN401 -- a name, or a transformers model
    tokenizer: Any = None,  # noqa: ANN401 -- its tokenizer
    *,
    as_of: str,
    name: str = "model",
    runs: Path = Path("runs"),
    database: Path = Path("results.duckdb"),
    benchmark: Path | None = None,
    batch_size: int = 32,
    limit: int | None = None,
) -> "Scores":
    """Ask a model and return the study's tables for a date.

    Args:
        model: A name as on the command line, or a causal model already in memory, with its tokenizer.
        tokenizer: Of a model in memory.
        as_of: The day, ISO.
        name: What to call a model in memory. It stands for the weights: give changed weights another name.
        runs: The folder of the runs.
        database: The DuckDB file.
        benchmark: A TOML file; None: the study's.
        batch_size: Questions at once.
        limit: Ask the first questions only.

    Raises:
        ModelError: the model cannot be loaded or asked.
    """
    if tokenizer is not None:
        from dyknow.models import Options
        from dyknow.models.local import Local

        model = Local(model, tokenizer, name, Options())
    info = ask(model, runs=runs, benchmark=benchmark, batch_size=batch_size, limit=limit)
    return score(as_of, runs=runs, only=[info.id], database=database)
