"""Dated, immutable copies of the graph: taken, found, chosen, verified, compared.

A snapshot is a folder ``DATE/`` with ``statements.nt.gz`` (sorted N-Triples; the same facts give the same bytes) and
``manifest.json``. It is written beside and renamed, and never overwritten. Many of one graph can share a ``series/``,
where each line stands once; they are found and read like the others.

Inside, again upward only: ``triples`` (rows to N-Triples), ``reading`` (N-Triples to statements), ``manifest``,
``segments``, ``series``, ``appending`` (many snapshots stored once), ``beside``, ``files`` and ``tidying`` (folders),
``verifying``, ``changed`` and ``compare`` (diff).
"""

from kg.snapshot.compare import By, Change, ChangeKind, Clock, IdFate, diff, tally
from kg.snapshot.files import (
    Damaged,
    Packed,
    Snapshot,
    Survey,
    by_day,
    choose,
    drop,
    find_snapshots,
    load,
    local_folder,
    pack,
    packed,
    survey,
    survey_packed,
    take,
    take_in_parts,
    unpack,
    whereabouts,
)
from kg.snapshot.reading import Statement
from kg.snapshot.tidying import tidy, untidy
from kg.snapshot.verifying import verify

__all__ = [
    "By",
    "Change",
    "ChangeKind",
    "Clock",
    "Damaged",
    "IdFate",
    "Packed",
    "Snapshot",
    "Statement",
    "Survey",
    "by_day",
    "choose",
    "diff",
    "drop",
    "find_snapshots",
    "load",
    "local_folder",
    "pack",
    "packed",
    "survey",
    "survey_packed",
    "take",
    "take_in_parts",
    "tally",
    "tidy",
    "unpack",
    "untidy",
    "verify",
    "whereabouts",
]
