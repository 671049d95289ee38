"""What a source says, as Parquet: a table of its statements, partitioned by property, and one of its subjects.

``FOLDER/property=P6/…`` holds the statements, ``FOLDER/_subjects/…`` the subjects: what begins with an underscore is no
part of the table in FOLDER for Spark, Hive and Arrow. The driver has the rows, so it writes them, wherever tasks ran.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyoxigraph as ox

from kg.dates import Time
from kg.errors import DataError, DyknowError, UsageError
from kg.sources import Row, Source, Triple
from kg.sources.spark import install
from kg.terms import RDFS_LABEL, WD, WDT, WIKIBASE

if TYPE_CHECKING:
    import pyarrow as pa

SUBJECTS: Final = "_subjects"
"""The folder of the subjects, within that of the statements."""

_PYARROW: Final = "pyarrow>=18"
_RECORDS: Final = 1_000_000  # rows of a file
_LABEL: Final = f"<{RDFS_LABEL}>"
_SITELINKS: Final = f"<{WIKIBASE}sitelinks>"
_CLASS: Final = f"<{WDT}P31>"
_REGIONS: Final[Mapping[str, str]] = {"countries": f"<{WDT}P17>", "citizenships": f"<{WDT}P27>"}


def ready(folder: Path) -> None:
    """Make sure that Parquet files can be written into a folder.

    Raises:
        DyknowError: pyarrow is missing; the hint tells how to get it.
        UsageError: there is something in the folder.
    """
    if find_spec("pyarrow") is None:
        raise DyknowError("Parquet needs pyarrow, which is not installed.", hint=f"Install it: {install(_PYARROW)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder.", hint="Give another one with --parquet.")


def write(source: Source, folder: Path) -> None:
    """Write what a source says as Parquet files, whole or not at all.

    The statements are partitioned by property and sorted by subject, the subjects sorted by id; for the columns see
    `statements` and `subjects`.

    Args:
        source: of a dump.
        folder: where to; it must be absent or empty.

    Raises:
        DataError: it cannot be written.
    """
    import pyarrow as pa  # noqa: PLC0415 -- a part of the extra
    import pyarrow.dataset as ds  # noqa: PLC0415 -- likewise
    import pyarrow.parquet as pq  # noqa: PLC0415 -- likewise

    ready(folder)
    order = [(name, "ascending") for name in ("property", "subject_id", "statement")]
    try:
        with _within(folder) as part:
            table = statements(source.rows).sort_by(order)
            ds.write_dataset(
                table,
                part,
                format="parquet",
                file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
                partitioning=ds.partitioning(pa.schema([table.schema.field("property")]), flavor="hive"),
                max_partitions=len(table) + 1,
                max_rows_per_file=_RECORDS,
                max_rows_per_group=_RECORDS // 10,
                use_threads=False,  # which would leave no order
            )
            (part / SUBJECTS).mkdir()
            pq.write_table(subjects(source), part / SUBJECTS / "part-0.parquet", compression="zstd")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{folder} cannot be written: {str(error).rstrip('.')}.") from error


@contextmanager
def _within(folder: Path) -> Iterator[Path]:
    """Give a folder whose files move up into the one it lies in when all went well, and vanish otherwise."""
    is_new, part = not folder.exists(), folder / ".part"
    part.mkdir(parents=True)
    try:
        yield part
        for child in sorted(part.iterdir()):
            child.rename(folder / child.name)
        part.rmdir()
    except BaseException:
        shutil.rmtree(folder if is_new else part, ignore_errors=True)
        raise


# Statements


def statements(rows: Iterable[Row]) -> "pa.Table":
    """Return statements as an Arrow table, one row each.

    The columns: those of a row, with the bounds of its days as integers YYYYMMDD, and Wikidata's own triples of it as
    lines of N-Triples.
    """
    import pyarrow as pa  # noqa: PLC0415 -- a part of the extra

    text, day, truth = pa.string(), pa.int64(), pa.bool_()  # days of the first galaxies need 64 bits
    times = [
        (f"{name}{part}", kind)
        for name in ("start", "end", "point")
        for part, kind in (("", text), ("_precision", day), ("_earliest", day), ("_latest", day))
    ]
    fields: list[tuple[str, Any]] = [
        *((name, text) for name in ("property", "property_label", "subject_id", "subject", "statement", "rank")),
        *(("holder_id", text), ("holder", text), ("holder_unknown", truth), ("office", text), ("team_class", text)),
        *times,
        *(("start_unknown", truth), ("end_kind", text), ("acting", truth), ("triples", pa.list_(text))),
    ]
    return pa.Table.from_pylist([_record(row) for row in rows], schema=pa.schema(fields))


def _record(row: Row) -> dict[str, Any]:
    plain = (
        *("property", "property_label", "subject_id", "subject", "statement", "rank", "holder_id", "holder"),
        *("holder_unknown", "office", "team_class", "start_unknown", "acting"),
    )
    found: dict[str, Any] = {name: getattr(row, name) for name in plain}
    found["end_kind"] = row.end_kind.value
    for name in ("start", "end", "point"):
        time: Time | None = getattr(row, name)
        if time is not None:
            first, last = time.span
            found |= {name: time.text, f"{name}_precision": int(time.precision)}
            found |= {f"{name}_earliest": first, f"{name}_latest": last}
    found["triples"] = _lines(row.triples)
    return found


def _lines(triples: Iterable[Triple]) -> list[str]:
    return [f"{subject} {predicate} {value} ." for subject, predicate, value in triples]


# Subjects


def subjects(source: Source) -> "pa.Table":
    """Return what a source says of its subjects by themselves as an Arrow table, one row each, sorted by id.

    The columns: id, label and its language, revision, number of sitelinks, classes (P31), countries (P17) and
    citizenships (P27) with their labels, and the triples that say so as lines of N-Triples.
    """
    import pyarrow as pa  # noqa: PLC0415 -- a part of the extra

    text = pa.string()
    regions = pa.list_(pa.struct([("id", text), ("label", text)]))
    fields: list[tuple[str, Any]] = [
        *(("subject_id", text), ("subject", text), ("language", text), ("revision", pa.int64())),
        *(("sitelinks", pa.int32()), ("classes", pa.list_(text))),
        *((name, regions) for name in _REGIONS),
        ("triples", pa.list_(text)),
    ]
    labels = {triple[0]: triple for triple in (*source.triples, *_labels(source.rows)) if triple[1] == _LABEL}
    revisions = source.provenance.get("entities", {})
    records = [
        _subject(node, own, labels) | {"revision": revisions.get(_id(node), {}).get("revision")}
        for node, own in sorted(_said(source).items(), key=lambda one: _id(one[0]))
    ]
    return pa.Table.from_pylist(records, schema=pa.schema(fields))


def _labels(rows: Iterable[Row]) -> Iterator[Triple]:
    """Yield the label of each row's subject."""
    for row in rows:
        node = f"<{WD}{row.subject_id}>"
        yield from (triple for triple in row.triples if triple[0] == node and triple[1] == _LABEL)


def _said(source: Source) -> dict[str, list[Triple]]:
    """Return what is said of each subject, by its node; nothing of some."""
    found: dict[str, list[Triple]] = {f"<{WD}{row.subject_id}>": [] for row in source.rows if row.subject_id}
    for triple in source.triples:
        if triple[1] in (_SITELINKS, _CLASS, *_REGIONS.values()):
            found.setdefault(triple[0], []).append(triple)
    return found


def _subject(node: str, own: Sequence[Triple], labels: Mapping[str, Triple]) -> dict[str, Any]:
    def all_of(predicate: str) -> list[str]:
        return [value for _, told, value in own if told == predicate]

    found: dict[str, Any] = {"subject_id": _id(node), "classes": [_id(value) for value in all_of(_CLASS)]}
    found["subject"], found["language"] = _words(labels.get(node))
    found["sitelinks"] = next((int(value.split('"')[1]) for value in all_of(_SITELINKS)), None)
    for name, predicate in _REGIONS.items():
        found[name] = [{"id": _id(value), "label": _words(labels.get(value))[0]} for value in all_of(predicate)]
    places = [value for predicate in _REGIONS.values() for value in all_of(predicate)]
    named = [labels[one] for one in dict.fromkeys((node, *places)) if one in labels]
    found["triples"] = _lines([*named, *own])
    return found


def _id(node: str) -> str:
    """Return the id of an entity's node."""
    return node[1:-1].removeprefix(WD)


def _words(label: Triple | None) -> tuple[str, str | None] | tuple[None, None]:
    """Return text and language of a label."""
    if label is None:
        return None, None
    [quad] = ox.parse(" ".join((*label, ".")), format=ox.RdfFormat.N_TRIPLES)
    value = quad.object
    return (value.value, value.language) if isinstance(value, ox.Literal) else (None, None)
