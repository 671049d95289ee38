"""Commands of the knowledge graph: answer sets, SPARQL, an endpoint."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click
import pyoxigraph as ox

from dyknow.commands.common import (
    Places,
    as_of_option,
    command,
    day_text,
    describe,
    emit,
    endpoint_option,
    example,
    format_option,
    graph_of,
    known_at_option,
    nearest,
    note,
    note_smaller,
    places,
    rule_option,
    show,
)
from dyknow.commands.mirroring import StepMeter
from dyknow.tables import Format, Listing, as_csv, as_json
from kg import answers as answer_sets
from kg import identity
from kg.answers import AnswerSet, Fact, Holder
from kg.dates import Day, format_day, format_span
from kg.errors import DataError, DyknowError, UsageError
from kg.sources.fetch import Step
from kg.store import Endpoint, open_store
from kg.terms import EndKind, Rule, Standing

# Answer sets


@command(
    epilog=example("dyknow answers --as-of 2023-12-18 --subject Poland", "dyknow answers --as-of today --format csv")
)
@as_of_option()
@known_at_option
@click.option("--subject", metavar="NAME", help="Only this subject: its English label in any case, or its Q-id.")
@rule_option
@click.option(
    "--all", "everyone", is_flag=True, help="In the table, show former and later holders too. JSON and CSV always do."
)
@click.option(
    "--without-acting", is_flag=True, help="Whoever only stands in, as Wikidata says, is no answer; --all lists them."
)
@endpoint_option
@format_option
@places("snapshots")
def answers(
    as_of: Day,
    known_at: str | None,
    subject: str | None,
    rule: str,
    everyone: bool,
    without_acting: bool,
    endpoint: str | None,
    form: Format,
    places: Places,
) -> None:
    """Show who holds each office, team or post on a day.

    An answer set is all holders of a fact with what each of them is on that day: up-to-date (the right answer),
    outdated, or later. It is certain where no choice of days inside the recorded dates would change it. Where nobody
    holds it, the status says why: a vacancy, or a day the snapshot does not cover.
    """
    chosen = places.snapshot(as_of, known_at)
    same = identity.with_redirects(identity.load(), [chosen])
    with graph_of(chosen, endpoint) as graph:
        known = answer_sets.facts(graph, same)
        named = known if subject is None else find_subject(known, subject, chosen.id)
        where = f", asked at {graph.url}" if isinstance(graph, Endpoint) else ""
        note(f"As of {format_day(as_of)}, as snapshot {describe(chosen)} has it{where}.")
        note_smaller(places, chosen.id, as_of, known_at)
        if as_of > chosen.date:
            note(f"{format_day(as_of)} lies after the snapshot: what has changed since {chosen.id} is not in it.")
        wanted = [known[name] for name in named]
        acting = not without_acting
        found = answer_sets.each(graph, same, as_of, wanted, Rule(rule), acting=acting, every=subject is None)
        _print(_metered(found, len(wanted), form), form, everyone)


def _print(found: Iterable[AnswerSet], form: Format, everyone: bool) -> None:
    """Print answer sets; as JSON and CSV some at a time, so that very many are no matter for memory."""
    if form == "table":
        show(_answer_table(found, everyone), form)
        return
    texts = _csv_texts if form == "csv" else _json_texts
    for text in texts(_batches(found)):
        emit(text)


def _batches(found: Iterable[AnswerSet]) -> Iterator[list[AnswerSet]]:
    """Yield answer sets some at a time; at least once, be it none."""
    left = iter(found)
    batch = list(islice(left, _AT_ONCE))
    yield batch
    while batch := list(islice(left, _AT_ONCE)):
        yield batch


_AT_ONCE: Final = 100


def _csv_texts(batches: Iterable[Sequence[AnswerSet]]) -> Iterator[str]:
    """Yield the parts of one CSV text."""
    for place, batch in enumerate(batches):
        text = as_csv(HOLDER_COLUMNS, (row for one in batch for row in _csv_rows(one)))
        yield text.partition("\n")[2] if place else text  # the header once


def _json_texts(batches: Iterable[Sequence[AnswerSet]]) -> Iterator[str]:
    """Yield the parts of one JSON text: a list that is cut between its values."""
    end = "\n]\n"
    for place, batch in enumerate(batches):
        text = as_json([set_json(one) for one in batch])
        if not batch:
            yield text
            return
        yield ("," if place else "[") + text.removeprefix("[").removesuffix(end)
    yield end


def _metered(found: Iterator[AnswerSet], total: int, form: Format) -> Iterator[AnswerSet]:
    """Pass answer sets on; where they are many and the terminal does not show them, it shows how far they have come."""
    shown = total > answer_sets.FACTS_AT_ONCE and (form == "table" or not sys.stdout.isatty())
    meter = StepMeter() if shown else None
    for number, one in enumerate(found, start=1):
        yield one
        if meter is not None:
            meter(Step("answer sets", number, total))


def find_subject(known: dict[str, Fact], subject: str, where: str) -> list[str]:
    """Return the facts of a subject: a label in any case, a Q-id, or one fact's own id.

    Raises:
        UsageError: the snapshot has no such subject.
    """
    word = subject.casefold()
    found = [
        fact.fact
        for fact in known.values()
        if word in (fact.subject.casefold(), fact.fact.casefold(), fact.fact.rsplit("/", 1)[0].casefold())
    ]
    if not found:
        labels = sorted({fact.subject for fact in known.values()})
        raise UsageError(
            f"Snapshot {where} has no subject {subject!r}.", hint=nearest(subject, labels, "dyknow benchmark show")
        )
    return found


def _answer_table(found: Iterable[AnswerSet], everyone: bool) -> Listing:
    columns = ("subject", "office", "holder", "standing", "since", "until", "certain", "class")
    rows: list[tuple[object, ...]] = []
    for one in found:
        shown = [holder for holder in one.holders if everyone or holder.standing is Standing.UP_TO_DATE]
        office = one.office or one.property
        if not one.up_to_date:
            rows.append((one.subject, office, "–", _status(one), None, None, None, None))
        rows += [(one.subject, office, *_holder_cells(holder)) for holder in shown]
    return Listing(columns, rows)


def _status(one: AnswerSet) -> str:
    covered = {"vacancy": "vacancy", "answered": "answered"}
    return covered.get(one.status.value, f"not covered: {one.status.value}")


def _holder_cells(holder: Holder) -> tuple[object, ...]:
    remarks = [word for word, holds in (("superseded", holder.superseded), ("acting", holder.acting)) if holds]
    standing = f"{holder.standing.value} ({', '.join(remarks)})" if remarks else holder.standing.value
    since = None if holder.start is None else format_span(*holder.start)
    return holder.label, standing, since, _until(holder), holder.certain, holder.team_class


def _until(holder: Holder) -> str | None:
    if holder.end is not None:
        return format_span(*holder.end)
    return {EndKind.UNKNOWN: "ended, day unknown", EndKind.NO_VALUE: "no end"}.get(holder.end_kind)


HOLDER_COLUMNS: Final = (
    "fact", "subject", "property", "office", "as_of", "snapshot", "status", "entity", "holder", "standing", "certain",
    "validity", "superseded", "start_earliest", "start_latest", "end_earliest", "end_latest", "end_kind", "class",
    "statement", "acting",
)  # fmt: skip


def _csv_rows(one: AnswerSet) -> Iterator[list[object]]:
    head = set_json(one)
    head.pop("holders")
    head.pop("open_order")
    for holder in one.holders:
        yield [*head.values(), *holder_json(holder).values()]
    if not one.holders:
        yield [*head.values(), *[None] * (len(HOLDER_COLUMNS) - len(head))]


def set_json(one: AnswerSet) -> dict[str, Any]:
    """Return an answer set with stable keys and ISO days."""
    return {
        "fact": one.fact,
        "subject": one.subject,
        "property": one.property,
        "office": one.office,
        "as_of": format_day(one.as_of),
        "snapshot": one.snapshot,
        "status": one.status.value,
        "open_order": one.open_order,
        "holders": [holder_json(holder) for holder in one.holders],
    }


def holder_json(holder: Holder) -> dict[str, Any]:
    """Return a holder with stable keys and ISO days."""
    start, end = holder.start or (None, None), holder.end or (None, None)
    return {
        "entity": holder.entity,
        "holder": holder.label,
        "standing": holder.standing.value,
        "certain": holder.certain,
        "validity": holder.validity.value,
        "superseded": holder.superseded,
        "start_earliest": day_text(start[0]),
        "start_latest": day_text(start[1]),
        "end_earliest": day_text(end[0]),
        "end_latest": day_text(end[1]),
        "end_kind": holder.end_kind.value,
        "class": holder.team_class,
        "statement": holder.statement,
        "acting": holder.acting,
    }


# SPARQL


@command(epilog=example("dyknow sparql 'SELECT (COUNT(*) AS ?triples) WHERE { ?s ?p ?o }'"))
@click.argument("query")
@click.option("--known-at", metavar="SNAPSHOT", help="The snapshot to ask, by its date; without it the newest.")
@endpoint_option
@format_option
@places("snapshots")
def sparql(query: str, known_at: str | None, endpoint: str | None, form: Format, places: Places) -> None:
    """Ask a snapshot any read-only SPARQL query.

    QUERY is the query itself or a file that holds it. SELECT gives rows, ASK true or false, CONSTRUCT and DESCRIBE give
    N-Triples. Nothing can be changed: a snapshot is opened read-only. An endpoint is asked for SELECT only.
    """
    if endpoint is not None:
        with Endpoint(endpoint, known_at or "") as remote:
            rows = list(remote.rows(_query_text(query)))
        names = list(dict.fromkeys(name for row in rows for name in row))
        show(Listing(names, [[row.get(name) for name in names] for row in rows]), form)
        return
    chosen = places.named(known_at) if known_at else places.newest()
    result = open_store(chosen).query(_query_text(query))
    note(f"Asked snapshot {describe(chosen)}.")
    if isinstance(result, ox.QuerySolutions):
        names = [variable.value for variable in result.variables]
        show(Listing(names, [[_term(solution[name]) for name in names] for solution in result]), form)
    elif isinstance(result, ox.QueryBoolean):
        emit(f"{'true' if result else 'false'}\n")
    else:
        emit("".join(f"{triple} .\n" for triple in result))


def _query_text(query: str) -> str:
    """Return the text of a query given outright or as a file's name."""
    if any(sign in query for sign in "{ \n"):
        return query
    path = Path(query)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"{query!r} is neither a query nor a file.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{query} cannot be read: {error}") from error


def _term(term: object) -> object:
    if isinstance(term, ox.Literal):
        integer = term.datatype.value.endswith("#integer")
        return int(term.value) if integer else term.value
    return term.value if isinstance(term, ox.NamedNode) else None if term is None else str(term)


# An endpoint


@command(epilog=example("dyknow serve --known-at 2025-11-30 --bind 127.0.0.1:7878"))
@click.option("--known-at", metavar="SNAPSHOT", help="The snapshot to serve, by its date; without it the newest.")
@click.option("--bind", default="127.0.0.1:7878", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@places("snapshots")
def serve(known_at: str | None, bind: str, places: Places) -> None:
    """Serve a snapshot as a read-only SPARQL endpoint on this machine, until Ctrl-C.

    Ask it at http://HOST:PORT/query with any SPARQL client, or open http://HOST:PORT in a browser.
    """
    program = _server()
    chosen = places.named(known_at) if known_at else places.newest()
    store = open_store(chosen)
    note(f"Serving snapshot {describe(chosen)} at http://{bind}/query; Ctrl-C ends it.")
    command = [program, "serve-read-only", "--location", str(store.path), "--bind", bind]
    del store
    try:
        code = subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return
    if code:
        raise DyknowError(f"The server ended with code {code}.", hint="Is the port taken? Choose another with --bind.")


def _server() -> str:
    """Return the path of the server program, which the package ``oxigraph`` puts beside Python."""
    beside = Path(sys.executable).parent / "oxigraph"
    found = str(beside) if beside.is_file() else shutil.which("oxigraph")
    if found is None:
        raise DyknowError("The program oxigraph is not installed.", hint="Install it: pip install oxigraph")
    return found
