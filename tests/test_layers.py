"""The rooms and their order: a module imports only what stands before it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]

# A name stands for a module or for a package with all that is in it.
ORDER = (
    "kg.errors",
    "kg.processes",
    "kg.resources",
    "kg.terms",
    "kg.dates",
    "kg.sources",
    "kg.snapshot",
    "kg.identity",
    "kg.store",
    "kg.answers",
    "kg.standings",
    "dyknow.tomlfile",
    "dyknow.prompts",
    "dyknow.phrasings",
    "dyknow.strata",
    "dyknow.facttable",
    "dyknow.benchmark",
    "dyknow.benchmarkfiles",
    "dyknow.generate",
    "dyknow.resolve",
    "dyknow.models",
    "dyknow.segments",
    "dyknow.journal",
    "dyknow.damage",
    "dyknow.tally",
    "dyknow.shards",
    "dyknow.provenance",
    "dyknow.run",
    "dyknow.paraphrase",
    "dyknow.verify",
    "dyknow.merging",
    "dyknow.beliefs",
    "dyknow.names",
    "dyknow.scaffold",
    "dyknow.clauses",
    "dyknow.handover",
    "dyknow.candidates",
    "dyknow.spans",
    "dyknow.match",
    "dyknow.published",
    "dyknow.named",
    "dyknow.answerfiles",
    "dyknow.outputs",
    "dyknow.exports",
    "dyknow.matching",
    "dyknow.rows",
    "dyknow.digests",
    "dyknow.resultsfile",
    "dyknow.results",
    "dyknow.parts",
    "dyknow.catalogue",
    "dyknow.sparksql",
    "dyknow.tablefiles",
    "dyknow.statistics",
    "dyknow.rates",
    "dyknow.tabulation",
    "dyknow.judges",
    "dyknow.analysis",
    "dyknow.longrows",
    "dyknow.trends",
    "dyknow.comparison",
    "dyknow.timeline",
    "dyknow.world",
    "dyknow.knowledge",
    "dyknow.doubts",
    "dyknow.adjudication",
    "dyknow.llm_judge",
    "dyknow.editing",
    "dyknow.published_edits",
    "dyknow.named_edits",
    "dyknow.align",
    "dyknow.titles",
    "dyknow.tables",
    "dyknow.timetables",
    "dyknow.trendtables",
    "dyknow.fitting",
    "dyknow.edit_tables",
    "dyknow.report",
    "dyknow.commands",
    "dyknow.cli",
    "dyknow.docs",
    "dyknow",  # the doors for a program, which open every room
)

# Packages whose own modules have an order, too.
INSIDE = {
    "kg.sources": (
        "csvfile",
        "reviewed",
        "table",
        "published",
        "entity",
        "rdfvalues",
        "rdf",
        "canonical",
        "mirror",
        "bodies",
        "responses",
        "web",
        "wikidata",
        "wikipedia",
        "queryservice",
        "dumptext",
        "dumplines",
        "dumpworkers",
        "dumpsplits",
        "dumps",
        "spark",
        "parquet",
        "fetch",
    ),
    "kg.snapshot": (
        "triples",
        "reading",
        "manifest",
        "segments",
        "series",
        "appending",
        "beside",
        "files",
        "packing",
        "tidying",
        "verifying",
        "changed",
        "compare",
        "doubts",
    ),
    "dyknow.align": (
        "base",
        "requests",
        "choices",
        "pool",
        "embedding",
        "documents",
        "verbalise",
        "retrieval",
        "context",
        "control",
        "ike",
        "rag",
        "scope",
        "serac",
        "hooks",
        "structure",
        "trace",
        "tokens",
        "delta",
        "presets",
        "moments",
        "values",
        "weights",
        "rome",
        "memit",
        "finetune",
        "measures",
        "methods",
        "jobs",
    ),
    "dyknow.models": (
        "base",
        "scripted",
        "presets",
        "extras",
        "endings",
        "drawing",
        "prompting",
        "local",
        "loading",
        "likelihood",
        "prices",
        "fleet",
        "wire",
        "dialects",
        "api",
    ),
    "dyknow.report": (
        "popularity",
        "data",
        "days",
        "rates",
        "changes",
        "datasets",
        "words",
        "cells",
        "drawing",
        "figures",
        "payload",
        "page",
        "formats",
        "gather",
    ),
    "dyknow.commands": (
        "targets",
        "common",
        "mirroring",
        "graph",
        "dumping",
        "generating",
        "snapshots",
        "packing",
        "comparing",
        "resolving",
        "discovering",
        "options",
        "paraphrasing",
        "asking",
        "edit_scores",
        "judging",
        "exchange",
        "running",
        "querying",
        "exporting",
        "timing",
        "pairing",
        "form",
        "agreeing",
        "adjudicating",
        "pages",
        "edit_options",
        "edit_jobs",
        "edit_reports",
        "aligning",
    ),
}

HEAVY = (
    "torch",
    "transformers",
    "gguf",
    "altair",
    "vl_convert",
    "sentence_transformers",
    "openai",
    "anthropic",
    "pyspark",
    "pyarrow",
)


def modules() -> dict[str, Path]:
    found = {}
    for package in ("kg", "dyknow"):
        for path in sorted((REPO / package).rglob("*.py")):
            parts = path.relative_to(REPO).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found.pop("kg", None)  # an empty shelf
    return found


MODULES = modules()


def place(module: str) -> int | None:
    """Return where the room of a module stands in the order."""
    if module in ORDER:
        return ORDER.index(module)
    return next((ORDER.index(room) for room in ORDER if room != "dyknow" and module.startswith(f"{room}.")), None)


def imports(path: Path) -> Iterator[str]:
    """Yield every module of ours that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in ("kg", "dyknow"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("kg", "dyknow"):
            for name in node.names:
                deeper = f"{node.module}.{name.name}"
                yield deeper if deeper in MODULES else str(node.module)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_place(module: str) -> None:
    assert place(module) is not None, f"{module} stands nowhere in ORDER: give it a place"


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_to_what_stands_before(module: str) -> None:
    own = place(module)
    for other in imports(MODULES[module]):
        there = place(other)
        assert own is not None and there is not None
        assert there <= own, f"{module} imports {other}, which stands after it"


@pytest.mark.parametrize("package", INSIDE)
def test_the_modules_of_a_package_have_an_order(package: str) -> None:
    order = [name if "." in name else f"{package}.{name}" for name in INSIDE[package]]
    own = [module for module in MODULES if module.startswith(f"{package}.")]
    assert sorted(own) == sorted(order)
    for module in own:
        for other in imports(MODULES[module]):
            if other in order:
                assert order.index(other) < order.index(module), f"{module} imports {other}, which stands after it"


def test_every_place_is_taken() -> None:
    assert [name for name in ORDER if name not in MODULES] == []


def test_the_graph_knows_nothing_of_models() -> None:
    assert [
        m for m in MODULES if m.startswith("kg.") and any(i.startswith("dyknow") for i in imports(MODULES[m]))
    ] == []


def test_relative_imports_are_not_used() -> None:
    # They would slip past the test above.
    for path in MODULES.values():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level], path


def test_the_command_line_starts_without_heavy_packages() -> None:
    code = f"import sys, dyknow, dyknow.cli; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_heavy_packages_are_imported_inside_functions() -> None:
    for module, path in MODULES.items():
        top = ast.parse(path.read_text(encoding="utf-8")).body
        names = {a.name.split(".")[0] for node in top if isinstance(node, ast.Import) for a in node.names}
        names |= {(node.module or "").split(".")[0] for node in top if isinstance(node, ast.ImportFrom)}
        assert not names & set(HEAVY), module
