"""Everything that can go wrong, on one screen.

::

    DyknowError               exit code 1: what was asked for does not hold, or failed
    ├── UsageError            exit code 2: the call itself is wrong (an unknown name, a date that is none)
    ├── DataError             a file cannot be read as what it should be; names file, line and value
    ├── SnapshotError         a snapshot is missing, damaged, or already exists
    ├── QueryError            a SPARQL or SQL statement was refused
    ├── SourceError           Wikidata or a service cannot be reached, or answers wrongly
    ├── RunError              a run's journal is missing, locked or damaged
    └── ModelError            a model cannot be loaded or asked

Every error is one sentence that names the thing and the value, and a ``hint``: the next step.
"""


class DyknowError(Exception):
    """Base of all errors that a user can do something about.

    Attributes:
        message: One sentence naming the thing and the value.
        hint: The next step, or None where the message already says it.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DyknowError):
    """The call is wrong: an unknown name, a malformed date, options that exclude each other."""

    exit_code = 2


class DataError(DyknowError):
    """A file does not hold what it should; the message names the file, the line and the value."""


class SnapshotError(DyknowError):
    """A snapshot is missing, damaged, or would have been overwritten."""


class QueryError(DyknowError):
    """A SPARQL or SQL statement was refused."""


class SourceError(DyknowError):
    """Wikidata or a service cannot be reached, or answers wrongly; the message names the address and what was seen.

    Attributes:
        kind: "unreachable", "busy" (it asks to wait), "time-out", "absent" (there is no such thing there), "offline"
            (it is not in the store of responses), or "wrong" (every other answer that is none).
    """

    def __init__(self, message: str, *, hint: str | None = None, kind: str = "wrong") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class RunError(DyknowError):
    """A run's journal is missing, locked by another process, or damaged."""


class ModelError(DyknowError):
    """A model cannot be loaded or asked."""


class AlignError(DyknowError):
    """A model cannot be aligned: its structure is unknown, a subject is missing, an edit collapsed; it is unchanged."""
