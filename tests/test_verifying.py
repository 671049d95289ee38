"""Snapshots checked in pieces find what the statements read as a whole say."""

import gzip
import hashlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kg.snapshot import Snapshot, find_snapshots, verify
from kg.snapshot import manifest as manifests

SHIPPED = find_snapshots()


@pytest.fixture
def copied(tmp_path: Path) -> Snapshot:
    return Snapshot(
        SHIPPED[0].id, Path(shutil.copytree(SHIPPED[0].path, tmp_path / SHIPPED[0].id)), SHIPPED[0].manifest
    )


def rewritten(snapshot: Snapshot, data: bytes, **counts: Any) -> list[str]:  # noqa: ANN401
    """Put other triples into a snapshot, with a manifest whose digests fit, and verify it."""
    packed = gzip.compress(data)
    manifest = {key: value for key, value in snapshot.manifest.items() if key != "checksum"}
    manifest["statements"] = {
        "digest": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "file_digest": hashlib.sha256(packed).hexdigest(),
    }
    manifest["counts"] = {**manifest["counts"], **counts}
    manifest["checksum"] = hashlib.sha256(manifests.render(manifest)).hexdigest()
    snapshot.statements_path.write_bytes(packed)
    (snapshot.path / "manifest.json").write_bytes(manifests.render(manifest))
    return verify(snapshot.path)


def test_what_is_counted_line_by_line_is_what_the_statements_say() -> None:
    for snapshot in SHIPPED:
        assert verify(snapshot) == []
        statements = snapshot.statements()
        assert len(statements) == snapshot.manifest["counts"]["statements"] > 1_000
        assert Counter(one.property for one in statements) == snapshot.manifest["counts"]["properties"]
        whole = {one.fact for one in statements if one.whole}
        coverage = snapshot.manifest["coverage"]
        assert whole == {fact for fact, one in coverage.items() if one["history"] == "full"}


def test_triples_out_of_order_or_twice_are_found(copied: Snapshot) -> None:
    lines = SHIPPED[0].read_statements().splitlines(keepends=True)
    swapped = [*lines[:500], lines[501], lines[500], *lines[502:]]
    assert rewritten(copied, b"".join(lines)) == []
    [problem] = rewritten(copied, b"".join(swapped))
    assert problem.endswith("the triples are not sorted or not distinct.")
    [problem] = rewritten(copied, b"".join([*lines[:500], *lines[499:]]), triples=len(lines) + 1)
    assert problem.endswith("the triples are not sorted or not distinct.")


def test_a_statement_that_is_not_counted_is_named_with_its_fact(copied: Snapshot) -> None:
    data = SHIPPED[0].read_statements()
    fact = max(SHIPPED[0].manifest["coverage"])
    line = next(
        line for line in data.splitlines(keepends=True) if f"<{fact}> <urn:dyknow:vocab:statement>".encode() in line
    )
    problems = rewritten(copied, data.replace(line, b"", 1))
    assert len(problems) == 4  # statements, triples, properties, coverage
    assert any("1151 statements, the triples have 1150" in problem for problem in problems)
    assert any(f"coverage of {fact} is not what" in problem for problem in problems)
