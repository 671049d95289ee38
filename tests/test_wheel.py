"""An installed copy finds what travels with it: queries, benchmark, snapshots."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

REPO = Path(__file__).resolve().parents[1]
pytest.importorskip("hatchling", reason="a wheel is built with hatchling (the extra dev)")
pytest.importorskip("build", reason="a wheel is built with build (the extra dev)")


def _python(*words: str, folder: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_finds_queries_benchmark_and_snapshots(tmp_path: Path) -> None:
    _python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(REPO), folder=tmp_path)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with ZipFile(wheel) as packed:
        assert {"dyknow/report/page.js", "dyknow/report/page.css"} <= set(packed.namelist())
    site = tmp_path / "site"
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index", "--target")
    _python(*pip, str(site), str(wheel), folder=tmp_path)
    where = {"PYTHONPATH": str(site), "DYKNOW_CACHE": str(tmp_path / "cache")}
    program = "import dyknow; print(dyknow.__file__)"
    assert _python("-c", program, folder=tmp_path, **where).startswith(str(site))
    shown = _python(
        "-m", "dyknow.cli", "answers", "--as-of", "2023-12-18", "--subject", "Poland", folder=tmp_path, **where
    )
    assert "Donald Tusk" in shown
    assert "130 facts" in _python("-m", "dyknow.cli", "benchmark", "check", folder=tmp_path, **where)
    listed = _python("-m", "dyknow.cli", "snapshot", "list", "--format", "csv", folder=tmp_path, **where)
    assert "2023-12-18" in listed
    assert "2025-11-30" in listed
