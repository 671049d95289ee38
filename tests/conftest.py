"""What several test files share."""

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of handed data; skip where it is absent."""
    folder = Path(os.environ.get("DYKNOW_SHARED", REPO.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("the handed data (../shared/data or $DYKNOW_SHARED) is not here")
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a few small runs and their results.duckdb; to be read only."""
    from tests.small import make  # noqa: PLC0415 -- a test that does not ask for it need not pay for it

    return make(tmp_path_factory.mktemp("small"))
