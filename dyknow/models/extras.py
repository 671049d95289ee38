"""Packages that only some models need, imported when such a model is asked for."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any, Final

from kg.errors import ModelError

# torch and transformers come in through need() alone: without the extra "models" everything else must work, and
# the command line must not wait for them. They are Any to the type checker; transformers ships no types anyway.
INSTALL: Final = 'Install it: pip install "dyknow[models]"'


def need(name: str) -> Any:  # noqa: ANN401
    """Import a package of the extra "models".

    Raises:
        ModelError: it is not installed; the hint says how to.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(f"Models on this machine need {name}, which is not installed.", hint=INSTALL) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the notes and bars of transformers and of the hub's client, and restore what the caller had set."""
    logging, hub = need("transformers").logging, need("huggingface_hub.utils.logging")
    hub_level = hub.get_verbosity()
    hub.set_verbosity_error()
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()


def is_memory_error(error: RuntimeError) -> bool:
    """Say whether an error means that a batch was too large: torch has a class for it on CUDA alone."""
    text = str(error)
    return isinstance(error, need("torch").OutOfMemoryError) or "not enough memory" in text or "out of memory" in text
