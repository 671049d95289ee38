"""Commands that judge: scores, one verdict explained, SQL."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import click
import duckdb

from dyknow import analysis, results, resultsfile
from dyknow.analysis import RELEASE, Explanation, Moment
from dyknow.commands.common import (
    Places,
    as_of_or_release_option,
    colour,
    command,
    day_text,
    emit,
    end_with,
    example,
    format_option,
    judge_option,
    known_at_option,
    nearest,
    note,
    note_smaller,
    places,
    rule_option,
    show,
    split_option,
    width,
)
from dyknow.commands.edit_scores import show_edits
from dyknow.damage import Damaged, survey
from dyknow.journal import RunInfo
from dyknow.tables import (
    Format,
    Listing,
    as_json,
    beliefs,
    printable,
    score_csv,
    score_json,
    score_text,
    since_release,
)
from dyknow.tabulation import by_runs
from dyknow.trends import trends_of
from dyknow.trendtables import trend_csv, trend_text, with_trends
from kg.dates import Day, format_day, parse_day
from kg.errors import RunError, UsageError
from kg.resources import query


def results_of(places: Places, chosen: Sequence[str] | None = None) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection to the judged runs; say which parts of runs are not among them.

    Where a run is damaged, the others are judged. The command then ends with that error, unless it is about others.

    Args:
        places: Where everything is.
        chosen: Names of the runs that the command is about; None: all.

    Raises:
        RunError: one of those chosen is damaged.
        UsageError: there is no run to judge.
    """
    found = survey(places.runs)
    runs = found.runs
    unmerged = _unmerged(runs)
    if not runs and not found.damaged:
        raise UsageError(
            f"There is no run in {places.runs}.",
            hint="Ask a model (dyknow run smollm2), or take what others published (dyknow import examples/published).",
        )
    if unmerged and all(run.part for run in runs):
        message = f"There are only parts of runs in {places.runs}."
        raise UsageError(message, hint=f"Join them: dyknow runs merge {unmerged[0]}")
    for name in unmerged:
        note(f"The parts of {name} are left out: dyknow runs merge {name} joins them.")

    def left_out(damaged: Damaged) -> None:
        if chosen is None:
            end_with(without(damaged))
        elif damaged.id in chosen:
            raise damaged.error
        else:
            note(without(damaged).message)

    return results.connect(places.runs, places.find(), places.database, note, places.limits, left_out=left_out)


def without(damaged: Damaged) -> RunError:
    """Return what to say of a damaged run that is left out."""
    return RunError(f"The run {damaged.id} is left out: {damaged.error.message}", hint=damaged.error.hint)


def _unmerged(runs: Sequence[RunInfo]) -> list[str]:
    """Return the runs of which there are only parts."""
    there = {run.id for run in runs}
    return sorted({run.info["shard"]["run"] for run in runs if run.part} - there)


def known_runs(places: Places, names: tuple[str, ...]) -> list[str] | None:
    """Return the names of the runs asked for; None stands for all.

    Raises:
        RunError: the record of one of them is damaged.
        UsageError: one of them is not there, or is a part of a run.
    """
    there = survey(places.runs)
    for damaged in there.damaged:
        if damaged.id in names:
            raise damaged.error
    found = {one.id: one for one in there.runs}
    known = [name for name, one in found.items() if not one.part]
    for name in names:
        if name in found and name not in known:
            hint = f"Join the parts: dyknow runs merge {found[name].info['shard']['run']}"
            raise UsageError(f"{name} is part {found[name].part} of a run, and tables are of whole ones.", hint=hint)
        if name not in known:
            raise UsageError(
                f"There is no run {name!r} in {places.runs}.", hint=nearest(name, known, "dyknow runs list")
            )
    return list(names) or None


@command(
    epilog=example(
        "dyknow score --as-of 2023-12-18",
        "dyknow score --as-of today --format csv",
        "dyknow score --as-of release",
        "dyknow score --as-of 2025-11-30 --by popularity --intervals",
        "dyknow score --as-of 2025-11-30 --table since-release",
        "dyknow score --as-of 2023-12-18 --table samples --run gpt2-xl",
        "dyknow score --as-of 2023-12-18 --table beliefs",
        "dyknow score --as-of 2023-12-18 --table edits --judge published",
    )
)
@as_of_or_release_option
@known_at_option
@judge_option
@rule_option
@click.option("--run", "names", metavar="RUN", multiple=True, help="Only this run. Give it again for further ones.")
@click.option(
    "--table",
    "which",
    type=click.Choice(["study", "samples", "beliefs", "since-release", "edits", "curve"]),
    default="study",
    show_default=True,
    help="`study`: Tables 1, 5 and 2. `samples`: of runs with several answers to a question, how often each fact's are "
    "up to date, out of date or other, and how far the model agrees with itself. `beliefs`: of runs whose holders were "
    "scored by likelihood, how probable up-to-date and outdated ones are held. `since-release`: how many facts were "
    "outdated when the model came out, and how many were right then and have become outdated until --as-of. `edits`: "
    "of edited models, how many of the facts edited are right (Tables 3, 7 and 8). `curve`: the same against the "
    "number of edits (Figure 3).",
)
@split_option(
    "domain",
    "What the tables are split by (all but `samples` and `curve`): `popularity` in bins of sitelinks, `property`, "
    "`region`, or `stratum`, which a generated benchmark tells of its facts.",
)
@click.option("--intervals", is_flag=True, help="Show the 95 % intervals of the rates. JSON and CSV always have them.")
@format_option
@places("snapshots", "runs", "database")
def score(
    as_of: str,
    known_at: str | None,
    judge: str,
    rule: str,
    names: tuple[str, ...],
    which: str,
    split: str,
    intervals: bool,
    form: Format,
    places: Places,
) -> None:
    """Print the study's tables for any date: how much of what a model says is up to date.

    Table 1 (with 4) takes the best of a fact's phrasings: up to date, else out of date, else irrelevant. Table 5 is the
    average over the phrasings; Table 2 says how often a fact's phrasings get different answers. Of several answers to a
    question the first is taken, and in Table 5 the average. Nothing is asked anew. As of `release` each model is judged
    by what was so on the day it came out, which its run or preset tells; where only the year is known, its last day.
    """
    chosen = known_runs(places, names)
    if known_at is not None:
        places.named(known_at)
    if split != "domain" and which in _WHOLE:
        raise UsageError(f"The table {which} is not split by {split}: {_WHOLE[which]}.", hint="Leave out --by.")
    if which in ("edits", "curve"):
        with results_of(places, chosen) as connection:
            show_edits(connection, which, as_of, known_at, judge, rule, chosen, form, split)
        return
    if which == "since-release":
        _show_since(as_of, known_at, judge, rule, chosen, intervals, form, places, split)
        return
    if which != "study":
        _show_beside(which, as_of, known_at, judge, rule, chosen, intervals, form, places, split)
        return
    with results_of(places, chosen) as connection:
        wanted = intervals or form != "table"
        how: dict[str, Any] = {"judge": judge, "rule": rule, "runs": chosen, "intervals": wanted, "split": split}
        scores = analysis.score(connection, as_of, known_at, **how)
        found = trends_of(connection, scores, known_at)
        _note_snapshot(as_of, scores.snapshot, known_at, places)
        if as_of == RELEASE:
            _note_releases(connection, known_at, chosen)
        _note_uncovered(connection, scores)
        if judge != "match":
            _note_unjudged(connection, scores, known_at)
    if form == "table":
        below = trend_text(found, scores, width(), colour())
        emit(score_text(scores, width(), colour(), intervals, below=below))
        return
    note(f"As of {scores.as_of}, snapshot {scores.snapshot}, judge {judge}, rule {rule}.")
    if form == "json":
        emit(as_json(with_trends(score_json(scores), found)))
    else:
        emit(score_csv([scores]) + trend_csv(found, scores))


_WHOLE: Final = {"samples": "it has a line for each fact", "curve": "it is of all facts that were edited"}
"""Tables that are not split."""


def _note_uncovered(connection: duckdb.DuckDBPyConnection, scores: analysis.Scores) -> None:
    """Where no fact counts, say so, and which snapshot knows the facts: tables of dashes tell nobody why."""
    if any(row.n for row in scores.table1):
        return
    runs = sorted({row.run for row in scores.table1})
    found = resultsfile.run_sql(connection, query("dyknow/covering.sql"), {"runs": runs}).rows
    known = f" Most, {found[0][1]}, are in the snapshot {found[0][0]}: --known-at {found[0][0]}" if found else ""
    note(f"No fact of these runs counts on that day by snapshot {scores.snapshot}.{known}")


def _note_unjudged(connection: duckdb.DuckDBPyConnection, scores: analysis.Scores, known_at: str | None) -> None:
    """Say how many answers another judge leaves open: what is settled without them leans to what is up to date."""
    statement = (
        "SELECT run, verdict = 'unjudged', count(*) FROM verdicts($as_of, known_at := $known_at, judge := $judge)"
        " WHERE counted GROUP BY ALL"
    )
    values = {"as_of": scores.as_of, "known_at": known_at, "judge": scores.judge}
    runs = {row.run for row in scores.table1}
    some = by_runs(connection, runs, lambda: resultsfile.run_sql(connection, statement, values).rows)
    rows = [*chain.from_iterable(some)]
    judged = {run for run, is_open, _ in rows if not is_open}
    kept = [row for row in rows if row[0] in judged]
    left, total = sum(count for _, is_open, count in kept if is_open), sum(count for *_, count in kept)
    if left:
        note(
            f"{scores.judge} leaves {left} of {total} answers unjudged on that day. A fact with one is incomplete"
            " unless another answer to it is up to date, so Table 1 leans to up to date."
        )


def _note_snapshot(as_of: str, snapshot: str, known_at: str | None, places: Places) -> None:
    """Say what is to be known of the snapshot that verdicts rest on."""
    note_older(as_of, snapshot)
    if as_of != RELEASE:
        note_smaller(places, snapshot, parse_day(as_of), known_at)


def note_older(as_of: str, snapshot: str) -> None:
    """Say so where a day lies after the snapshot that its verdicts rest on."""
    if as_of != RELEASE and parse_day(as_of) > parse_day(snapshot):
        note(f"{as_of} lies after the snapshot: what has changed since {snapshot} is not in it.")


def _note_releases(
    connection: duckdb.DuckDBPyConnection, known_at: str | None, chosen: list[str] | None
) -> list[Moment]:
    """Say when each model came out and by whom, by which snapshot it is judged as of then, and who is left out."""
    found = analysis.moments(connection, known_at, chosen)
    for one in found:
        known = f"{one.day}, the last day of the year, for no day is known" if one.known == "year" else one.day
        note(f"{one.run}: {known} ({one.source}); snapshot {one.snapshot}.")
    named = {one.run for one in found}
    every = chosen or [str(run) for (run,) in resultsfile.run_sql(connection, "SELECT run FROM runs ORDER BY run").rows]
    if missing := [run for run in every if run not in named]:
        note(f"Left out, for nothing says when their models came out: {', '.join(missing)}.")
    return found


def _show_since(
    as_of: str,
    known_at: str | None,
    judge: str,
    rule: str,
    chosen: list[str] | None,
    intervals: bool,
    form: Format,
    places: Places,
    split: str,
) -> None:
    """Show what was outdated at release and what has become so since."""
    if as_of == RELEASE:
        raise UsageError("Nothing becomes outdated from release to release.", hint="Give a later day: --as-of today")
    with results_of(places, chosen) as connection:
        snapshot = analysis.snapshot_for(connection, as_of, known_at)
        _note_snapshot(as_of, snapshot, known_at, places)
        found = analysis.since_release(connection, as_of, known_at, judge=judge, rule=rule, runs=chosen, split=split)
        released = _note_releases(connection, known_at, chosen)
    shown, years = {row.run for row in found}, {one.run for one in released if one.known == "year"}
    if later := [one.run for one in released if one.run not in shown]:
        note(f"Left out, for their models came out after {as_of}, or no fact is covered: {', '.join(later)}.")
    note(f"Since: until {as_of}, snapshot {snapshot}, judge {judge}, rule {rule}; a fact's best phrasing.")
    title = f"Facts outdated at release, and since: right then, outdated by {as_of}"
    show(since_release(found, years, title, form, intervals, split=split), form)


def _show_beside(
    which: str,
    as_of: str,
    known_at: str | None,
    judge: str,
    rule: str,
    chosen: list[str] | None,
    intervals: bool,
    form: Format,
    places: Places,
    split: str,
) -> None:
    """Show what stands beside the study's tables: samples or beliefs."""
    with results_of(places, chosen) as connection:
        snapshot = analysis.snapshot_for(connection, as_of, known_at)
        _note_snapshot(as_of, snapshot, known_at, places)
        if which == "samples":
            of = f"judge {judge}, rule {rule}; per cent of n answers"
            sampled = analysis.samples(connection, as_of, known_at, judge=judge, rule=rule, runs=chosen)
            listing = Listing(analysis.Sampled._fields, [tuple(map(_one_decimal, row)) for row in sampled])
        else:
            of = f"rule {rule}; per cent, mean over n facts"
            found = analysis.mass(connection, as_of, known_at, rule=rule, runs=chosen, split=split)
            listing = beliefs(found, form, intervals, split)
        if as_of == RELEASE:
            _note_releases(connection, known_at, chosen)
    note(f"As of {as_of}, snapshot {snapshot}, {of}.")
    show(listing, form)


def _one_decimal(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value


@command(
    epilog=example(
        "dyknow why gpt2-xl 'Q38/P35#contextualized' --as-of 2023-12-18",
        "dyknow why gpt2-xl 'Q38/P35#contextualized' --as-of release",
    )
)
@click.argument("run_name", metavar="RUN")
@click.argument("question")
@as_of_or_release_option
@known_at_option
@judge_option
@rule_option
@format_option
@places("snapshots", "runs", "database")
def why(
    run_name: str, question: str, as_of: str, known_at: str | None, judge: str, rule: str, form: Format, places: Places
) -> None:
    """Explain one verdict: what was said, what was read in it, and which statement it rests on.

    QUESTION is a fact and a phrasing, as in Q38/P35#1; `dyknow runs show RUN --answers` lists them.
    """
    known_runs(places, (run_name,))
    with results_of(places, [run_name]) as connection:
        if as_of == RELEASE:
            as_of = _note_releases(connection, known_at, [run_name])[0].day
        found = analysis.why(connection, run_name, question, as_of, known_at, judge=judge, rule=rule)
    if form == "table":
        show(Listing(("what", "value"), _explained(found, as_of)), form)
        return
    values = {name: value for name, value in found._asdict().items()}
    for name in ("from_day", "to_day", "start_day", "end_day"):
        values[name] = day_text(values[name])
    values = {"as_of": as_of, "judge": judge, "rule": rule, **values, "up_to_date": list(found.up_to_date)}
    if form == "json":
        emit(as_json(values))
    else:
        values["up_to_date"] = "; ".join(found.up_to_date)
        show(Listing(tuple(values), [tuple(values.values())]), form)


def _explained(found: Explanation, as_of: str) -> list[tuple[str, object]]:
    certain = "" if found.certain else ", but precision leaves that open"
    rows: list[tuple[str, object]] = [
        ("verdict", f"{found.verdict} as of {as_of}{certain}"),
        ("question", f"{found.question}: {found.subject}, {found.office or ''}".rstrip(", ")),
        ("asked", found.prompt),
        ("answered", found.text),
    ]
    if found.entity:
        how = f", by rule {found.match_rule}" if found.match_rule else ""
        words = f"“{printable(found.matched)}” names " if found.matched else ""
        rows.append(("read as", f"{words}{found.label or found.entity} ({found.entity}){how}"))
    elif found.reason:
        rows.append(("read as", f"nobody we know: {found.reason}"))
    if found.standing:
        first, last = _until(found.from_day, "the first day"), _until(found.to_day, "today and on")
        rows.append(("standing", f"{found.standing} from {first} to {last}"))
        term = f"{day_text(found.start_day) or ''}–{day_text(found.end_day) or ''}"
        rows.append(("statement", f"{found.statement} ({term})"))
    rows.append(("right on that day", "; ".join(found.up_to_date) or "nobody, or not known"))
    rows.append(("snapshot", f"{found.snapshot} ({found.snapshot_digest[:12]})"))
    rows.append(("matcher", found.matcher_version))
    return [(name, value) for name, value in rows if value]


def _until(day: Day | None, else_: str) -> str:
    return else_ if day is None or day < parse_day("0001-01-01") else format_day(day)
