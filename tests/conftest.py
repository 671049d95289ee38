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
