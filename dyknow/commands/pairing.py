"""The command that compares: two runs, many runs in pairs, one run by two judges or on two days."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click
import duckdb

from dyknow.analysis import whole_runs
from dyknow.commands.common import (
    DAY,
    Places,
    colour,
    command,
    day_text,
    emit,
    example,
    format_option,
    note,
    places,
    rule_option,
    show,
    split_option,
    width,
)
from dyknow.commands.judging import known_runs, note_older, results_of
from dyknow.tables import Format, Listing, as_json, bounds, printable, rounded, whole
from kg import identity
from kg.dates import Day, format_day
from kg.errors import UsageError

if TYPE_CHECKING:
    from dyknow.comparison import Comparison, Flip, Flips, Paired, Right

SHOWN: Final = 20
"""Facts listed below a comparison, unless all are asked for."""


@command(
    epilog=example(
        "dyknow compare gpt2-xl gpt-j-6B --as-of 2023-12-18",
        "dyknow compare gpt2-xl gpt-j-6B falcon-7b --as-of today",
        "dyknow compare --all-runs --as-of 2023-12-18 --format csv",
        "dyknow compare gpt2-xl --as-of 2023-12-18 2025-11-30",
        "dyknow compare gpt2-xl --judge match --judge published --as-of 2023-12-18",
    )
)
@click.argument("names", metavar="RUN... [DATE]", nargs=-1)
@click.option(
    "--as-of",
    "days",
    type=DAY,
    required=True,
    multiple=True,
    metavar="DATE",
    help="The day of the world to ask about, as 2023-12-18, or `today`. With a second one, as `--as-of A B` or given "
    "again, one run is compared on both.",
)
@click.option(
    "--known-at",
    "known",
    multiple=True,
    metavar="SNAPSHOT",
    help="The snapshot to believe, by its date; of two days give it twice, or once for both. Without it: the oldest "
    "one that is not before the day, else the newest.",
)
@click.option(
    "--judge",
    "judges",
    multiple=True,
    default=("match",),
    metavar="NAME",
    show_default="match",
    help="Who reads the answers: `match`, our own reading, `published`, or a person or model. Given twice, the first "
    "run is judged by the first and the second run, or the same one, by the second.",
)
@rule_option
@click.option("--all-runs", is_flag=True, help="Compare every run with every other one.")
@split_option(
    "domain",
    "Compare two runs in each of these parts too: `popularity`, `property`, `region` or `stratum` of the facts.",
)
@click.option("--facts", "only_facts", is_flag=True, help="List the facts alone on which two runs differ, all of them.")
@click.option("--all", "everything", is_flag=True, help=f"List all facts that differ, not {SHOWN} alone.")
@format_option
@places("snapshots", "runs", "database")
def compare(
    names: tuple[str, ...],
    days: tuple[Day, ...],
    known: tuple[str, ...],
    judges: tuple[str, ...],
    rule: str,
    all_runs: bool,
    split: str,
    only_facts: bool,
    everything: bool,
    form: Format,
    places: Places,
) -> None:
    """Compare runs, and say whether they differ by more than chance.

    Two runs stand side by side on the facts that are covered and complete in both: rates, their difference with a 95 %
    interval (bootstrap over facts), and McNemar's exact test by fact. Of more than two, all pairs, with Holm's
    correction for their number. One run on two days: which verdicts changed because the world did, and which because
    Wikidata was corrected. An argument that is a date is a further --as-of.
    """
    runs, dates = _sorted_out(names, days)
    chosen = known_runs(places, tuple(runs)) or []
    for name in known:
        places.named(name)
    if len(dates) > 2 or len(known) > len(dates) or len(judges) > 2:
        raise UsageError("Too many days, snapshots or judges.", hint="dyknow compare --help")
    with results_of(places, chosen or None) as connection:
        if all_runs:
            chosen = whole_runs(connection)
        if split != "domain" and (len(dates) == 2 or len(chosen) > 2):
            raise UsageError("Parts are compared of two runs on one day.", hint="Leave out --by, or name two runs.")
        if len(dates) == 2:
            _two_days(connection, chosen, dates, known, judges, rule, everything, form, places)
        elif len(chosen) > 2:
            _pairs(connection, chosen, dates[0], known, judges, rule, form)
        else:
            _two_runs(connection, chosen, dates[0], known, judges, rule, everything, only_facts, form, split)


def _sorted_out(names: Sequence[str], days: Sequence[Day]) -> tuple[list[str], list[str]]:
    """Return runs and days, each once; a name that is a date is a day."""
    dates = [name for name in names if re.fullmatch(r"\d{4}-\d\d-\d\d|today", name)]
    runs = [name for name in names if name not in dates]
    given = [*days, *(DAY.convert(name, None, None) for name in dates)]
    return list(dict.fromkeys(runs)), sorted({format_day(day) for day in given})


# Two runs


def _two_runs(
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[str],
    as_of: str,
    known: Sequence[str],
    judges: Sequence[str],
    rule: str,
    everything: bool,
    only_facts: bool,
    form: Format,
    split: str,
) -> None:
    from dyknow import comparison  # noqa: PLC0415 -- numpy takes a tenth of a second, which other commands need not wait

    if len(runs) * len(judges) < 2:
        raise UsageError(
            "There is nothing to compare.", hint="Give a second run, a second --as-of or a second --judge."
        )
    found = comparison.compare(
        connection,
        runs[0],
        runs[-1],
        as_of,
        known[0] if known else None,
        judge=judges[0],
        second_judge=judges[-1],
        rule=rule,
        split=split,
    )
    note_older(as_of, found.snapshot)
    if only_facts or form == "csv":
        note(_about(found))
        show(_facts(found) if only_facts else _rates_csv(found), form)
    elif form == "json":
        emit(as_json(_json(found)))
    else:
        _show(found, everything)


def _about(found: "Comparison") -> str:
    n = found.rates[0].n
    by = found.first_judge if found.first_judge == found.second_judge else f"{found.first_judge}, {found.second_judge}"
    left = f"; {found.left_out} left out, not covered or not complete in both" if found.left_out else ""
    return f"As of {found.as_of} (snapshot {found.snapshot}, judge {by}, rule {found.rule}): {n} facts in both{left}."


def _sides(found: "Comparison") -> tuple[str, str]:
    if found.first == found.second:
        return found.first_judge, found.second_judge
    return found.first, found.second


_WORDS: Final = {"up_to_date": "up to date", "outdated": "out of date", "irrelevant": "irrelevant"}


def _show(found: "Comparison", everything: bool) -> None:
    first, second = _sides(found)
    rows = [_rate_row(row) for row in found.rates if row.measure == "up_to_date" or row.domain == "all"]
    columns = ("per cent", "first", "second", "second − first", "only 1st", "only 2nd", "p", "n")
    emit(f"first: {first}   second: {second}\n" + Listing(columns, rows).text("table", width(), colour()))
    note(_about(found))
    note("20 14–28: a rate or difference and its 95 % interval. only 1st, only 2nd: facts; p: McNemar's exact test.")
    shown = found.facts if everything else found.facts[:SHOWN]
    if shown:
        title = f"\nFacts with different verdicts: {len(found.facts)}"
        head = ("fact", f"first: {first}", f"second: {second}")
        emit(Listing(head, [_fact_row(row) for row in shown], title).text("table", width(), colour()))
    if len(shown) < len(found.facts):
        note(f"{len(found.facts) - len(shown)} more: --all lists them.")


def _rate_row(row: "Paired") -> tuple[object, ...]:
    label = _WORDS[row.measure] if row.domain == "all" else f"· {row.domain}"
    sides = [
        f"{whole(rate)} {whole(bound[0])}–{whole(bound[1])}" if bound else whole(rate)
        for rate, bound in ((row.first, row.first_interval), (row.second, row.second_interval))
    ]
    return (
        label,
        *sides,
        _points(row.difference, row.difference_interval),
        row.only_first,
        row.only_second,
        p_text(row.p),
        row.n,
    )


def _points(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None or interval is None:
        return "–"
    return f"{value:+.1f} [{interval[0]:.1f}, {interval[1]:.1f}]".replace("-", "\N{MINUS SIGN}")


def p_text(p: float) -> str:
    """Return a p-value as papers print it.

    >>> p_text(0.00004), p_text(0.0312), p_text(1)
    ('<0.001', '0.031', '1.000')
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _fact_row(row: Any) -> tuple[str, str, str]:  # noqa: ANN401 -- Differing
    return (
        ", ".join(filter(None, (row.subject, row.office))),
        f"{row.first_verdict}: {_short(row.first_answer)}",
        f"{row.second_verdict}: {_short(row.second_answer)}",
    )


def _short(text: str | None) -> str:
    line = printable(text or "–")
    return line if len(line) <= 40 else f"{line[:39]}…"


def _facts(found: "Comparison") -> Listing:
    from dyknow.comparison import Differing  # noqa: PLC0415 -- numpy, as above

    return Listing(Differing._fields, found.facts)


def _rates_csv(found: "Comparison") -> Listing:
    sides = (f"{side}{bound}" for side in ("first", "second", "difference") for bound in ("", "_lower", "_upper"))
    columns = ("measure", "domain", "n", *sides, "only_first", "only_second", "p")
    return Listing(columns, [_flat(row) for row in found.rates])


def _flat(row: Any) -> list[object]:  # noqa: ANN401 -- Paired or Pair
    """Return a row for CSV: figures rounded, each interval as two values."""
    flat: list[object] = []
    for name, value in _plain(row).items():
        if name.endswith("_interval"):
            flat += value if isinstance(value, list) else (None, None)
        else:
            flat.append(value)
    return flat


def _plain(row: Any) -> dict[str, object]:  # noqa: ANN401 -- Paired or Pair
    """Return a row for JSON: rates with one decimal, p with six digits that count: a small one is not 0."""
    return {name: _rounded(name, value) for name, value in row._asdict().items()}


def _rounded(name: str, value: Any) -> object:  # noqa: ANN401 -- what a row may hold
    if name.endswith("_interval"):
        return bounds(value)
    if name in ("p", "p_holm"):
        return float(f"{value:.6g}")
    return rounded(value) if isinstance(value, float) else value


def _json(found: "Comparison") -> dict[str, object]:
    names = ("first", "second", "first_judge", "second_judge", "as_of", "snapshot", "rule", "left_out")
    head = {name: getattr(found, name) for name in names}
    return {**head, "rates": [_plain(row) for row in found.rates], "facts": [row._asdict() for row in found.facts]}


# All pairs


def _pairs(
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[str],
    as_of: str,
    known: Sequence[str],
    judges: Sequence[str],
    rule: str,
    form: Format,
) -> None:
    from dyknow import comparison  # noqa: PLC0415 -- numpy, as above

    if len(judges) > 1:
        raise UsageError("Many runs are compared by one judge.", hint="Give two runs, or one --judge.")
    found = comparison.compare_all(connection, runs, as_of, known[0] if known else None, judge=judges[0], rule=rule)
    note(f"As of {as_of}, judge {judges[0]}, rule {rule}: per cent of facts up to date, of the n covered and complete.")
    if form == "json":
        emit(as_json([_plain(pair) for pair in found]))
    elif form == "csv":
        columns = ("first", "second", "n", "first_rate", "second_rate", "difference", "difference_lower",
                   "difference_upper", "only_first", "only_second", "p", "p_holm")  # fmt: skip
        show(Listing(columns, [_flat(pair) for pair in found]), form)
    else:
        ordered = sorted(found, key=lambda pair: pair.p)
        rows = [
            (one.first, one.second, whole(one.first_rate), whole(one.second_rate),
             _points(one.difference, one.difference_interval), p_text(one.p), p_text(one.p_holm), one.n)
            for one in ordered
        ]  # fmt: skip
        show(Listing(("first", "second", "1st", "2nd", "second − first", "p", "Holm", "n"), rows), form)
        note("p: McNemar's exact test by fact; Holm: corrected for the number of pairs.")


# One run on two days


def _two_days(
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[str],
    days: Sequence[str],
    known: Sequence[str],
    judges: Sequence[str],
    rule: str,
    everything: bool,
    form: Format,
    places: Places,
) -> None:
    from dyknow import comparison  # noqa: PLC0415 -- numpy, as above

    if len(runs) != 1 or len(judges) != 1:
        raise UsageError("Two days are compared for one run and one judge.", hint="dyknow compare --help")
    believed = (known[0], known[-1]) if known else (None, None)
    snapshots = places.find()
    found = comparison.flips(
        connection, runs[0], days[0], days[1], believed,
        judge=judges[0], rule=rule, snapshots=snapshots, identity=identity.with_redirects(identity.load(), snapshots),
    )  # fmt: skip
    for day, snapshot in ((found.before, found.known_before), (found.after, found.known_after)):
        note_older(day, snapshot)
    note(f"{found.run}: {len(found.flips)} of {found.facts} facts changed their verdict, not a word being asked anew.")
    counts = {cause: sum(flip.cause is cause for flip in found.flips) for cause in comparison.Cause}
    note(", ".join(f"{cause.value} {count}" for cause, count in counts.items()))
    if form == "table":
        _show_flips(found, everything)
    elif form == "json":
        names = ("run", "before", "after", "known_before", "known_after", "judge", "rule", "facts")
        flips = [_flip_json(flip) for flip in found.flips]
        emit(as_json({**{name: getattr(found, name) for name in names}, "flips": flips}))
    else:
        columns = ("cause", "fact", "domain", "subject", "office", "answer", "then", "between", "now",
                   "right_then", "right_between", "right_now", "changes")  # fmt: skip
        show(Listing(columns, [_flip_csv(flip) for flip in found.flips]), form)


_HEADINGS: Final = {
    "world": "The world changed",
    "wikidata": "Wikidata was corrected, or learnt late",
    "both": "Both",
    "not covered": "Cannot be told: a snapshot does not cover the fact, or holds an extract that lacks the answer",
}


def _show_flips(found: "Flips", everything: bool) -> None:
    columns = ("fact", "answer", "verdict", "right")
    parts: list[Any] = []
    for cause, heading in _HEADINGS.items():
        own = [flip for flip in found.flips if flip.cause.value == cause]
        shown = own if everything else own[:SHOWN]
        if own:
            lines = Listing(columns, [_flip_row(flip) for flip in shown], f"{heading}: {len(own)}")
            parts.append(lines.text("table", width(), colour()))
        if len(shown) < len(own):
            note(f"{heading}: {len(own) - len(shown)} more; --all lists them.")
    emit("\n".join(parts))
    note(
        f"verdict, right: on {found.before} by {found.known_before} → on {found.before} by {found.known_after} → on "
        f"{found.after} by {found.known_after}; what does not change stands once."
    )


def _flip_row(flip: "Flip") -> tuple[object, ...]:
    fact = ", ".join(filter(None, (flip.subject, flip.office)))
    sides = (flip.right_then, flip.right_between, flip.right_now)
    rights = ["; ".join(one.label for one in side) or "–" for side in sides]
    return fact, flip.answer, _course((flip.then, flip.between, flip.now)), _course(rights)


def _course(steps: Sequence[str]) -> str:
    """Return steps with arrows between those that differ.

    >>> _course(["a", "a", "b"])
    'a → b'
    """
    return " → ".join(step for step, _ in groupby(steps))


def _right(one: "Right") -> str:
    return f"{one.label} ({day_text(one.first) or ''}–{day_text(one.last) or ''}) {one.statement}"


def _change_text(change: Any) -> str:  # noqa: ANN401 -- a change of the graph
    clock = change.clock.value if change.clock else "no clock"
    before, after = (side.tenure if side else "–" for side in (change.before, change.after))
    return f"{change.kind.value} ({clock}): {change.label} {before} → {after}"


def _flip_csv(flip: "Flip") -> tuple[object, ...]:
    sides = ("; ".join(map(_right, side)) for side in (flip.right_then, flip.right_between, flip.right_now))
    head = (flip.cause.value, flip.fact, flip.domain, flip.subject, flip.office, flip.answer)
    return (*head, flip.then, flip.between, flip.now, *sides, "; ".join(map(_change_text, flip.changes)))


def _flip_json(flip: "Flip") -> dict[str, object]:
    values = {**flip._asdict(), "cause": flip.cause.value}
    for name in ("right_then", "right_between", "right_now"):
        values[name] = [
            {**one._asdict(), "first": day_text(one.first), "last": day_text(one.last)} for one in values[name]
        ]
    values["changes"] = [
        {
            "kind": change.kind.value,
            "clock": change.clock.value if change.clock else None,
            "entity": change.entity,
            "holder": change.label,
            "before": change.before.tenure if change.before else None,
            "before_statement": change.before.iri if change.before else None,
            "after": change.after.tenure if change.after else None,
            "after_statement": change.after.iri if change.after else None,
        }
        for change in flip.changes
    ]
    return values
