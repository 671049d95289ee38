"""What draws figures: Altair makes them, vl-convert turns them into scripts, SVG and PNG without a browser.

Both come with the extra "plots"; the page is written without them too, with tables and without charts.
"""

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kg.errors import UsageError

_PACKAGES: Final = {"altair": "altair", "vl_convert": "vl-convert-python"}


def there() -> bool:
    """Tell whether figures can be drawn."""
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


def need(name: str) -> Any:  # noqa: ANN401 -- a module without types
    """Import a package of the extra "plots", which takes a moment and which not every report needs.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = 'Install it: pip install "dyknow[plots]"'
        raise UsageError(f"Figures need the package {_PACKAGES[name]}, which is not installed.", hint=hint) from error


def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets ``vegaEmbed``; it asks nothing of the network."""
    made: str = need("vl_convert").javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return made


Datasets = Mapping[str, Sequence[Mapping[str, Any]]]


def filled(spec: Mapping[str, Any], datasets: Datasets) -> dict[str, Any]:
    """Return a specification with its rows."""
    return {**spec, "datasets": {name: list(rows) for name, rows in datasets.items()}}


def svg(spec: Mapping[str, Any], datasets: Datasets) -> str:
    """Return a figure as SVG."""
    made: str = need("vl_convert").vegalite_to_svg(json.dumps(filled(spec, datasets)))
    return made


def png(spec: Mapping[str, Any], datasets: Datasets) -> bytes:
    """Return a figure as PNG, at twice the size for sharp screens."""
    made: bytes = need("vl_convert").vegalite_to_png(json.dumps(filled(spec, datasets)), scale=2)
    return made
