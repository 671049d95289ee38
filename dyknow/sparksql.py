"""The macros of the results for Spark: the same statements, where the two dialects differ rewritten word by word.

Spark 4 has functions that return tables, which are what DuckDB calls table macros. The statements are those of
``queries/dyknow``; what is rewritten: the head, named arguments (``=>``), the type of texts, how an error is raised,
decimal constants, which are exact numbers in Spark, and the parameters, which Spark finds last and so need their
function's name before them.
"""

import re
from collections.abc import Collection
from typing import Final

from kg.errors import QueryError
from kg.resources import query

FUNCTIONS: Final = ("part_of", "moments", "verdicts", "soft", "table1", "table5", "table2")
"""Macros that Spark is given, each after those it asks."""

NAME: Final = "spark.sql"
"""File of an export that holds the script."""

FOLDER: Final = "dyknow.folder"
"""The setting of Spark that says where the export is; Spark itself puts it into the script."""

_HEAD: Final = re.compile(r"CREATE OR REPLACE MACRO (\w+)\(([^)]*)\) AS( TABLE)?\s+(.*?);?\s*", re.DOTALL)
_TYPES: Final = {"sample": "INT"}  # of parameters; all others are texts


def script(tables: Collection[str]) -> str:
    """Return statements that give Spark an export as views, and the study's tables as functions; blank lines part them.

    Args:
        tables: the names of its folders.
    """
    statements = [
        "SET spark.sql.sources.partitionColumnTypeInference.enabled = false",
        *(view(table) for table in tables),
        *(function(name) for name in FUNCTIONS),
    ]
    return ";\n\n".join(statements) + ";\n"


def view(table: str) -> str:
    """Return the statement that shows Spark a table of an export."""
    return f"CREATE OR REPLACE TEMPORARY VIEW {table} USING parquet OPTIONS (path '${{{FOLDER}}}/{table}')"


def function(name: str) -> str:
    """Return the statement that makes a macro of ours a function of Spark.

    Raises:
        QueryError: the file holds no macro.
    """
    text = re.sub(r"^--.*\n", "", query(f"dyknow/{name}.sql"), flags=re.MULTILINE)
    head = _HEAD.fullmatch(text)
    if head is None:
        raise QueryError(f"queries/dyknow/{name}.sql is no macro.")
    parameters = [part.strip().partition(" := ")[::2] for part in head[2].split(",")]
    declared = ", ".join(_parameter(*parameter) for parameter in parameters)
    returns = "TABLE" if head[3] else "STRING"
    body = _body(head[1], [parameter for parameter, _ in parameters], head[4])
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {head[1]}({declared})\nRETURNS {returns}\nRETURN\n{body}"


def _parameter(name: str, default: str) -> str:
    return f"{name} {_TYPES.get(name, 'STRING')}" + (f" DEFAULT {default}" if default else "")


def _body(name: str, parameters: Collection[str], text: str) -> str:
    own = rf"(?<![\w.])(?<!AS )({'|'.join(map(re.escape, parameters))})\b(?! :=|\()"
    parts = re.split(r"('(?:[^']|'')*')", text)  # every second one is a text, in which nothing is a name
    parts[::2] = [_words(re.sub(own, rf"{name}.\1", part)) for part in parts[::2]]
    return "".join(parts)


def _words(text: str) -> str:
    text = text.replace(" := ", " => ").replace(" AS VARCHAR)", " AS STRING)")
    text = re.sub(r"\berror\(", "raise_error(", text)
    return re.sub(r"\b(\d+\.\d+)\b", r"\1D", text)
