"""Dated, immutable copies of the graph: taken, found, chosen, verified, compared.

A snapshot is a folder ``DATE/`` with ``statements.nt.gz`` (sorted N-Triples; the same facts give the same bytes) and
``manifest.json``. It is written beside and renamed, and never overwritten.

Inside, again upward only: ``triples`` (rows to N-Triples), ``reading`` (N-Triples to statements), ``manifest``,
``files`` (folders), ``compare`` (diff).
"""

from kg.snapshot.compare import By, Change, ChangeKind, Clock, IdFate, diff, tally
from kg.snapshot.files import Snapshot, choose, find_snapshots, load, local_folder, take, take_in_parts, verify
from kg.snapshot.reading import Statement

__all__ = [
    "By",
    "Change",
    "ChangeKind",
    "Clock",
    "IdFate",
    "Snapshot",
    "Statement",
    "choose",
    "diff",
    "find_snapshots",
    "load",
    "local_folder",
    "take",
    "take_in_parts",
    "tally",
    "verify",
]
