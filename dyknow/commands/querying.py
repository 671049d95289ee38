"""The command that asks the results anything in SQL: one statement, a file of them, or a prompt."""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click
import duckdb

from dyknow import catalogue, resultsfile
from dyknow.commands.common import Places, colour, command, emit, example, format_option, nearest, note, places
from dyknow.commands.judging import results_of
from dyknow.fitting import ROWS, fit, render
from dyknow.resultsfile import Table
from dyknow.tables import WIDTH, Format
from kg.errors import DataError, DyknowError, QueryError, UsageError
from kg.store import cache_folder

PROMPT: Final = "dyknow> "
MORE: Final = "   ...> "

_HELP: Final = """\
A statement ends with a semicolon and may go over several lines.
  .tables       tables, views and macros
  .help NAME    what one of them is, what it takes and gives, and an example
  .examples     questions that people have, each with the statement that answers it
  .quit         end; so does Ctrl-D. Ctrl-C stops a statement, or forgets what was typed.
"""


@command(
    epilog=example(
        "dyknow sql \"FROM table1('2023-12-18')\"",
        "dyknow sql 'FROM readings WHERE run = $run' --param run=gpt2-xl",
        'dyknow sql "DESCRIBE responses" --format csv',
        "dyknow sql --file questions.sql",
        "dyknow sql .examples",
        "dyknow sql",
    )
)
@click.argument("statement", required=False)
@click.option(
    "--file", type=click.Path(path_type=Path), metavar="FILE", help="Run the statements of this file; - is the input."
)
@click.option(
    "--param",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of $NAME in a statement, as text: `CAST($NAME AS INTEGER)` makes it a number. Give it again for "
    "further ones.",
)
@click.option("--all", "every", is_flag=True, help=f"Show every row; without it a table ends after {ROWS}.")
@click.option("--wide", is_flag=True, help="Show every column and cell whole, however wide the table becomes.")
@format_option
@places("snapshots", "runs", "database")
def sql(
    statement: str | None,
    file: Path | None,
    given: tuple[str, ...],
    every: bool,
    wide: bool,
    form: Format,
    places: Places,
) -> None:
    """Ask the results anything in DuckDB's SQL: one STATEMENT, a file of them, or at a prompt.

    Without a statement a prompt opens; `-` reads standard input. Several statements are separated by semicolons, and
    each gives a table of its own. Nothing can be written, and no other file can be read.

    `dyknow sql .tables` lists tables, views and macros, `dyknow sql ".help table1"` describes one, and `.examples`
    shows what people ask; docs/sql.md has it all. The macros that judge take (as_of, known_at := NULL, judge :=
    'match', rule := 'latest'); an as_of of 'release' is for each run the day its model came out.
    """
    if statement is not None and file is not None:
        raise UsageError("A statement and --file are two.", hint="Give one of them.")
    if statement is not None and statement.startswith("."):
        _dot(statement)
        return
    values = _values(given)
    text = _text(statement, file)
    results_of(places).close()
    with resultsfile.open_readonly(places.database, places.limits) as connection:
        session = _Session(connection, values, form, every, wide)
        if text is None:
            if not session.converse():
                raise click.exceptions.Exit(1)
            return
        try:
            session.run(text, strict=True)
        except KeyboardInterrupt:
            note("Stopped.")
            raise click.exceptions.Exit(130) from None
        note(f"From {places.database}; snapshots {', '.join(one.id for one in places.find())}.")


def _values(given: Sequence[str]) -> dict[str, str]:
    """Return parameters by name.

    Raises:
        UsageError: one of them has no name.
    """
    values = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--param {one!r} is no NAME=VALUE.", hint="For $run: --param run=gpt2-xl")
        values[name] = value
    return values


def _text(statement: str | None, file: Path | None) -> str | None:
    """Return the statements to run; None where they are to be typed."""
    if "-" in (statement, str(file)):
        return sys.stdin.read()
    if file is None:
        return statement
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no text in UTF-8.") from error
    except OSError as error:
        hint = "Name a file of statements, or - for standard input."
        raise DataError(f"{file} cannot be read: {error.strerror}.", hint=hint) from error


class _Session:
    """Statements of one call, over one connection."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        values: Mapping[str, str],
        form: Format,
        every: bool,
        wide: bool,
    ) -> None:
        self._connection, self._values = connection, values
        self._form: Format = form
        self._every, self._wide = every, wide

    def run(self, text: str, strict: bool = False) -> None:
        """Run the statements of a text and show what each returns.

        Args:
            text: One statement or more.
            strict: A parameter that no statement names is an error.

        Raises:
            QueryError: one is malformed (none is run then), or DuckDB refused it.
            UsageError: a parameter is missing, or too many.
        """
        statements = _statements(self._connection, text)
        named = {name for one in statements for name in one.named_parameters}
        if missing := sorted(named - self._values.keys()):
            raise UsageError(f"There is no value for ${missing[0]}.", hint=f"--param {missing[0]}=VALUE gives one.")
        if strict and (spare := sorted(self._values.keys() - named)):
            raise UsageError(f"No statement has ${spare[0]}.", hint=nearest(spare[0], named, "dyknow sql --help"))
        for place, one in enumerate(statements):
            own = {name: self._values[name] for name in one.named_parameters}
            table = _interruptible(self._connection, one.query, own)
            if place and self._form != "json":
                emit("\n")
            self._show(table)

    def _show(self, table: Table) -> None:
        if self._form != "table":
            emit(render(table, self._form))
            return
        if table.columns == ("Success",) and not table.rows:
            note("Done.")
            return
        if table.columns == ("explain_key", "explain_value"):  # a drawing of many lines
            emit("".join(f"{drawn.rstrip()}\n" for _, drawn in table.rows))
            return
        fitted = fit(table, None if self._wide else _columns(), None if self._every else ROWS, bold=colour())
        emit(fitted.text)
        note(f"{len(table.rows)} row{'' if len(table.rows) == 1 else 's'}.")
        for cut in fitted.cuts:
            note(cut)

    # The prompt

    def converse(self) -> bool:
        """Read statements and commands until the end of the input; tell whether all went well.

        At a terminal errors are the person's own business, and all is well.
        """
        typed = sys.stdin.isatty()
        if typed:
            note("Ask in SQL, a semicolon at the end. .tables, .examples and .help show what there is; .quit ends.")
        well = True
        with _editing(typed):
            for text in _texts(typed):
                if text in (".quit", ".exit", ".q"):
                    break
                well &= self._attempt(text)
        return well or typed

    def _attempt(self, text: str) -> bool:
        try:
            if text.startswith("."):
                _dot(text)
            else:
                self.run(text)
        except DyknowError as error:
            note(f"Error: {error.message}")
            if error.hint:
                note(error.hint)
            return False
        except KeyboardInterrupt:
            note("Stopped.")
            return False
        return True


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    """Return the statements of a text, told apart by DuckDB's own parser.

    Raises:
        QueryError: one is malformed, or there is none.
    """
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as error:
        raise QueryError(str(error).strip(), hint="dyknow sql .tables lists what there is.") from error
    if not found:
        raise QueryError("There is no statement.", hint="dyknow sql .examples shows some.")
    return found


def _interruptible(connection: duckdb.DuckDBPyConnection, statement: str, values: Mapping[str, str]) -> Table:
    """Run a statement as ``resultsfile.run_sql`` does, and stop it at once on Ctrl-C.

    DuckDB itself looks for Ctrl-C between its tasks only, and one of them may last minutes.

    Raises:
        QueryError: DuckDB refused it.
        KeyboardInterrupt: it was stopped; the connection can be used on.
    """
    outcome: list[Table | Exception] = []
    begun, done, unwanted = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            if not unwanted.is_set():
                outcome.append(resultsfile.run_sql(connection, statement, values))
        except Exception as error:  # noqa: BLE001 -- raised again below
            outcome.append(error)
        finally:
            done.set()

    # Not join() and is_alive(): before Python 3.13 a join that Ctrl-C ends takes the thread for ended, too.
    try:
        threading.Thread(target=work, daemon=True).start()
        while not done.wait(0.1):
            pass
    except KeyboardInterrupt:  # perhaps within start(): then the thread may be about to begin, or never will
        unwanted.set()
        while begun.is_set() and not done.is_set():
            connection.interrupt()  # in vain just before the statement begins, so again
            done.wait(0.1)
        raise
    [found] = outcome
    if isinstance(found, Exception):
        raise found
    return found


def _columns() -> int:
    """Return the columns of the terminal, be it a narrow one; 80 where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def _complete(text: str) -> bool:
    """Tell whether a text ends with the semicolon of a statement, and not inside a string or a comment."""
    if ";" not in text:
        return False
    tokens = [(place, kind) for place, kind in duckdb.tokenize(text) if kind != duckdb.token_type.comment]
    if not tokens or text[tokens[-1][0]] != ";":
        return False
    try:
        duckdb.extract_statements(text)
    except duckdb.Error as error:
        return "unterminated" not in str(error)
    return True


def _texts(typed: bool) -> Iterator[str]:
    """Yield what is to be run: a command of one line, or statements up to a semicolon at the end of a line."""
    pending = ""
    while True:
        try:
            line = input((MORE if pending else PROMPT) if typed else "")
            text = f"{pending}{line}\n"
            whole = _complete(text) or (not pending and line.startswith("."))
        except EOFError:
            if typed:
                click.echo()
            break
        except KeyboardInterrupt:
            pending = ""
            click.echo()
            continue
        if whole:
            yield text.strip()
        pending = "" if whole or not text.strip() else text
    if pending.strip():
        yield pending


@contextmanager
def _editing(typed: bool) -> Iterator[None]:
    """Let lines be edited, completed with Tab and found again, where Python can do that here."""
    try:
        import readline  # noqa: PLC0415 -- absent on some systems
    except ImportError:
        yield
        return
    if not typed:
        yield
        return
    history = cache_folder() / "sql_history"
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(1000)
    readline.set_completer(_completer())
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in str(readline.__doc__) else "tab: complete")
    try:
        yield
    finally:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _completer() -> Callable[[str, int], str | None]:
    known = sorted(catalogue.names())

    def complete(text: str, state: int) -> str | None:
        found = [name for name in known if name.startswith(text)]
        return found[state] if state < len(found) else None

    return complete


# What is there


def _dot(text: str) -> None:
    """Carry out a command that begins with a dot.

    Raises:
        UsageError: there is none of that name.
    """
    name, *words = text.rstrip("; ").split()
    shown: dict[str, Callable[[], str]] = {".tables": _tables, ".examples": _examples, ".help": lambda: _HELP}
    if name == ".help" and words:
        emit(_described(words[0]))
    elif name in shown:
        emit(shown[name]())
    else:
        raise UsageError(f"There is no command {name!r}.", hint=nearest(name, [*shown, ".quit"], "dyknow sql .help"))


def _tables() -> str:
    views = [(one.signature, one.about.splitlines()[0]) for one in catalogue.views()]
    macros = [(one.signature, one.about.splitlines()[0]) for one in catalogue.macros()]
    parts = [_listed("Tables", catalogue.tables()), _listed("Views", views), _listed("Macros", macros)]
    return "\n".join(parts)


def _listed(title: str, entries: Sequence[tuple[str, str]]) -> str:
    return f"{title}\n" + "".join(f"  {name}\n      {about}\n" for name, about in entries)


def _examples() -> str:
    return "\n".join(f"-- {one.title}\n{one.statement};\n" for one in catalogue.examples())


def _described(name: str) -> str:
    if entry := catalogue.find(name):
        return f"{entry.signature}\n\n{entry.about}\n\nE.g. {entry.example};\n"
    about = dict(catalogue.tables())
    if name not in about:
        hint = nearest(name, catalogue.names(), "dyknow sql .tables")
        raise UsageError(f"There is no {name!r} to describe.", hint=hint)
    rows: list[tuple[Any, ...]] = [column[1:] for column in catalogue.columns() if column[0] == name]
    fitted = fit(Table(("column", "type", "what it says"), rows), None, None)
    return f"{name}: {about[name]}\n\n{fitted.text}"
