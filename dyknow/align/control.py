"""No method: the model as it is, as the control that every method is measured against."""

from collections.abc import Sequence

from dyknow.align import pool
from dyknow.align.base import Aligned, EditReport, EditRequest, Progress, Settings
from dyknow.align.context import TextAligned, Told
from dyknow.models.base import Model


def none(model: Model, requests: Sequence[EditRequest], settings: Settings, progress: Progress) -> Aligned:
    """Return the model as it is.

    Raises:
        AlignError: the requests cannot be worked with.
    """
    pool.check(requests)
    progress(len(requests), len(requests), "nothing to do")
    record = {"method": "none", "preset": settings.preset, "edits": len(requests)}
    reports = tuple(EditReport(request.fact, 0.0) for request in requests)
    return TextAligned(model, record, reports, lambda question: Told(question.text))
