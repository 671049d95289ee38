"""What edits achieved, as `dyknow score --table edits` and `--table curve` show it."""

import duckdb

from dyknow.analysis import snapshot_for
from dyknow.commands.common import colour, emit, width
from dyknow.edit_tables import curve_text, scores_text
from dyknow.editing import edit_curve, edit_scores
from dyknow.tables import Format


def show_edits(
    connection: duckdb.DuckDBPyConnection,
    which: str,
    as_of: str,
    known_at: str | None,
    judge: str,
    rule: str,
    runs: list[str] | None,
    form: Format,
    split: str = "domain",
) -> None:
    """Show Tables 3, 7 and 8 ("edits"), or the points of Figure 3 ("curve")."""
    snapshot = snapshot_for(connection, as_of, known_at)
    made_of = f"as of {as_of} (snapshot {snapshot}, judge {judge}{'' if rule == 'latest' else f', rule {rule}'})"
    if which == "edits":
        scores = edit_scores(connection, as_of, known_at, judge=judge, rule=rule, runs=runs, split=split)
        emit(scores_text(scores, f"Edits (Tables 3, 7, 8)  {made_of}", form, width(), colour(), split=split))
    else:
        points = edit_curve(connection, as_of, known_at, judge=judge, rule=rule, runs=runs)
        emit(curve_text(points, f"By number of edits (Figure 3)  {made_of}", form, width(), colour()))
