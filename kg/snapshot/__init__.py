"""Dated, immutable copies of the graph: taken, found, chosen, verified, compared.

A snapshot is a folder ``DATE/`` with ``statements.nt.gz`` (sorted N-Triples; the same facts give the same bytes) and
``manifest.json``. It is written beside and renamed, and never overwritten. Many of one graph can share a ``series/``,
where each line stands once; they are found and read like the others.

Inside, again upward only: ``triples`` (rows to N-Triples), ``reading`` (N-Triples to statements), ``manifest``,
``segments``, ``series``, ``appending`` (many snapshots stored once), ``beside`` and ``files`` (folders), ``packing``,
``tidying``, ``verifying``, ``changed`` and ``compare`` (diff).
"""

from kg.snapshot.compare import By, Change, ChangeKind, Clock, IdFate, diff, tally
from kg.snapshot.files import (
    Damaged,
    Packed,
    Snapshot,
    Survey,
    by_day,
    choose,
    dates,
    find,
    find_snapshots,
    load,
    local_folder,
    packed,
    survey,
    survey_packed,
    take,
    take_in_parts,
    whereabouts,
)
from kg.snapshot.packing import drop, pack, unpack
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
    "dates",
    "diff",
    "drop",
    "find",
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
