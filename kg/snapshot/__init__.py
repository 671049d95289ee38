"""Dated, immutable copies of the graph: taken, found, chosen, verified, compared.

A snapshot is a folder ``DATE/`` with ``statements.nt.gz`` (sorted N-Triples; the same facts give the same bytes) and
``manifest.json``. It is written beside and renamed, and never overwritten. Many of one graph can share a ``series/``,
where each line stands once; they are found and read like the others.

Inside, again upward only: ``triples`` (rows to N-Triples), ``reading`` (N-Triples to statements), ``manifest``,
``segments`` and ``series`` (many snapshots stored once), ``files`` (folders), ``verifying``, ``compare`` (diff).
"""

from kg.snapshot.compare import By, Change, ChangeKind, Clock, IdFate, diff, tally
from kg.snapshot.files import (
    Packed,
    Snapshot,
    choose,
    drop,
    find_snapshots,
    load,
    local_folder,
    pack,
    packed,
    take,
    take_in_parts,
    unpack,
    whereabouts,
)
from kg.snapshot.reading import Statement
from kg.snapshot.verifying import verify

__all__ = [
    "By",
    "Change",
    "ChangeKind",
    "Clock",
    "IdFate",
    "Packed",
    "Snapshot",
    "Statement",
    "choose",
    "diff",
    "drop",
    "find_snapshots",
    "load",
    "local_folder",
    "pack",
    "packed",
    "take",
    "take_in_parts",
    "tally",
    "unpack",
    "verify",
    "whereabouts",
]
