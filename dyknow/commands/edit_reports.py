"""What edits achieved, what they did beside their aim, and what they cost, as `dyknow align` shows it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dyknow.align.documents import Lengths
from dyknow.analysis import snapshot_for
from dyknow.commands.common import Places, emit, iso, show
from dyknow.commands.judging import results_of
from dyknow.editing import EditScore, SideEffect, edit_scores, side_effects
from dyknow.journal import RunInfo, questions
from dyknow.tables import Format, Listing, as_csv, as_json
from kg.dates import Day

_WORDS: Final = {
    "exact": "unrelated prompts answered word for word as before, %",
    "first_word": "unrelated prompts with the same first word, %",
    "kl": "KL divergence of their next token",
    "fluency_before": "n-gram entropy of their texts before, bits",
    "fluency": "n-gram entropy after, bits",
    "neighbours_exact": "neighbours answered word for word as before, %",
    "neighbours_first_word": "neighbours with the same first word, %",
    "mirrored": "facts asked from the other side",
    "mirrored_right": "of these answered with the subject",
    "nll_before": "target's negative log-likelihood a token before",
    "nll_after": "after",
    "change": "change of the weights, of their norm",
    "seconds_an_edit": "seconds an edit",
    "peak_gib": "peak memory of the process, GiB",
}
_SCOPE: Final = ("threshold", "test", "recall", "false_accepts", "facts", "positives", "negatives")
_SHARES: Final = ("exact", "first_word", "neighbours_exact", "neighbours_first_word")


def report(runs: Sequence[RunInfo], as_of: Day, known_at: str | None, form: Format, places: Places) -> None:
    """Show what edits achieved, what they did beside their aim, and where everything was asked what they broke."""
    day, names = iso([as_of])[0], [run.id for run in runs]
    with results_of(places, names) as connection:
        scores = edit_scores(connection, day, known_at, runs=names)
        effects = {run.id: side_effects(connection, run.id, day, known_at) for run in runs if _whole(run)}
        made_of = f"as of {day} (snapshot {snapshot_for(connection, day, known_at)}, judge match)"
    if form == "json":
        emit(as_json(_document(runs, scores, effects)))
    elif form == "csv":
        emit(as_csv(("table", "run", "group", "measure", "value"), _long(runs, scores, effects)))
    else:
        for listing in _tables(runs, scores, effects, made_of):
            show(listing, form)
            emit("\n")


def _whole(run: RunInfo) -> bool:
    """Tell whether more than the edited facts was asked."""
    return len({row["fact"] for row in questions(run.path)}) > int(run.info["align"]["edits"])


def _measures(run: RunInfo) -> dict[str, Any]:
    found: dict[str, Any] = run.info["align"]["measures"]
    return found


# For programs


def _document(
    runs: Sequence[RunInfo], scores: Sequence[EditScore], effects: dict[str, list[SideEffect]]
) -> dict[str, Any]:
    return {
        "edits": [score._asdict() for score in scores],
        "beside": [{"run": run.id, **_measures(run)} for run in runs],
        "side_effects": [{"run": run, **one._asdict()} for run, own in effects.items() for one in own],
    }


def _long(
    runs: Sequence[RunInfo], scores: Sequence[EditScore], effects: dict[str, list[SideEffect]]
) -> Iterator[tuple[object, ...]]:
    for score in scores:
        for name in ("facts", "n", "efficacy", "paraphrase", "harmonic_mean", "arithmetic_mean", "soft"):
            yield "edits", score.run, score.domain, name, getattr(score, name)
    for run in runs:
        for group, name, value in _leaves(_measures(run)):
            yield "beside", run.id, group, name, value
    for run_id, own in effects.items():
        for one in own:
            group = f"{one.role}: {one.verdict_before} to {one.verdict_after}"
            yield "side effects", run_id, group, "facts", one.facts
            yield "side effects", run_id, group, "same answer", one.same_answer


def _leaves(values: dict[str, Any], group: str = "") -> Iterator[tuple[str, str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{group} {name}".strip())
        else:
            yield group, name, value


# For people


def _tables(
    runs: Sequence[RunInfo], scores: Sequence[EditScore], effects: dict[str, list[SideEffect]], made_of: str
) -> Iterator[Listing]:
    for run in runs:
        own = [score for score in scores if score.run == run.id]
        yield _achieved(own, f"{run.id}\nEdits {made_of}, per cent")
        yield _beside(run)
        yield from _found(run)
        if run.id in effects:
            yield _side_effects(effects[run.id])


def _achieved(scores: Sequence[EditScore], title: str) -> Listing:
    columns = ("facts", "n", "efficacy", "paraphrase", "harmonic mean", "any phrasing")
    rows = []
    for one in sorted(scores, key=lambda score: _last((score.domain, None))):
        means = _marked(one.harmonic_mean, one.mark), _marked(one.soft, one.soft_mark)
        rows.append((one.domain, one.n, one.efficacy, one.paraphrase, *means))
    return Listing(columns, rows, title)


def _marked(value: float | None, mark: str) -> object:
    return f"{value:.1f}{mark}" if value is not None and mark else value


def _beside(run: RunInfo) -> Listing:
    found = _measures(run)
    rows = [(words, _shown(name, found[name])) for name, words in _WORDS.items() if found.get(name) is not None]
    asked = f"{found['probes']} unrelated prompts, {found.get('neighbours', 0)} neighbours"
    return Listing(("beside the aim", "value"), rows, f"Beside the aim: {asked}")


def _shown(name: str, value: Any) -> str:  # noqa: ANN401
    if name in _SHARES:
        return f"{100 * value:.1f}"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _found(run: RunInfo) -> Iterator[Listing]:
    """Yield how well documents are found, how long they are, and what the scope of a memory was tuned to."""
    found = _measures(run)
    if retrieval := found.get("retrieval"):
        at = sorted((name for name in retrieval["all"] if "@" in name), key=lambda name: int(name.partition("@")[2]))
        names = ("questions", *at, "mrr")
        rows = [(group, *_cells(own, names)) for group, own in sorted(retrieval.items(), key=_last)]
        yield Listing(("facts", *names), rows, "Is the gold document found? Recall at k, mean reciprocal rank")
    if lengths := found.get("document_tokens"):
        yield Listing(Lengths._fields, [_cells(lengths, Lengths._fields)], "Length of the documents, tokens (Figure 4)")
    if scope := found.get("scope"):
        yield Listing(_SCOPE, [_cells(scope, _SCOPE)], "Scope, on facts that are not edited")


def _last(row: tuple[str, object]) -> tuple[bool, str]:
    """Sort what is of all domains behind the domains."""
    return row[0] == "all", row[0]


def _cells(values: Mapping[str, Any], names: Sequence[str]) -> tuple[object, ...]:
    found = (values[name] for name in names)
    return tuple(f"{value:.3f}" if isinstance(value, float) else value for value in found)


def _side_effects(effects: Sequence[SideEffect]) -> Listing:
    columns = ("role", "before", "after", "facts", "same answer")
    title = "Side effects: every fact before and after (soft constraint)"
    return Listing(columns, [tuple(one) for one in effects], title)
