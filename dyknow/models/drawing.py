"""Which token comes next: the likeliest, or one drawn so that no other question in the batch has a say in it."""

import hashlib
from collections.abc import Sequence
from typing import Any

from dyknow.models.extras import need


def seed_of(seed: int, sample: int, question: str) -> int:
    """Return where the random draws of one answer begin."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{sample}/{question}".encode()).digest()[:8], "big") >> 1


class Drawing:
    """A logits processor that chooses each row's next token itself and keeps the token's log-probability.

    Drawn by the Gumbel-max rule with a generator of its own for each row, always on the CPU: the largest of logits plus
    noise is a draw from their softmax, and the noise depends on neither the batch nor the device.

    Args:
        temperature: 0 takes the likeliest token.
        top_p: Draw from the likeliest tokens that together have this probability; None: from all.
        seeds: Where each row's draws begin.
    """

    def __init__(self, temperature: float, top_p: float | None, seeds: Sequence[int]) -> None:
        torch = need("torch")
        self._temperature = temperature
        self._top_p = top_p
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds] if temperature else []
        self._steps: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401
        """Return scores whose largest is the chosen token; scores are (rows, vocabulary)."""
        torch = need("torch")
        chosen = self._draw(scores) if self._temperature else scores.argmax(-1, keepdim=True)
        self._steps.append((scores.gather(-1, chosen).squeeze(-1) - scores.logsumexp(-1)).cpu())
        if not self._temperature:
            return scores
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen, 0.0)

    def logprobs(self) -> list[list[float]]:
        """Return, by row, the log-probability of each token under the model itself, before temperature and top-p."""
        found: list[list[float]] = need("torch").stack(self._steps, dim=1).tolist()
        return found

    def _draw(self, scores: Any) -> Any:  # noqa: ANN401
        torch = need("torch")
        scaled = scores / self._temperature
        if self._top_p is not None and self._top_p < 1:
            scaled = _nucleus(scaled, self._top_p)
        width = scores.shape[-1]
        noise = torch.stack([torch.empty(width).exponential_(generator=each) for each in self._generators])
        noise = noise.clamp_min(torch.finfo(noise.dtype).tiny)  # its logarithm must be a number
        return (scaled - noise.to(scores.device).log()).argmax(-1, keepdim=True)


def _nucleus(scores: Any, top_p: float) -> Any:  # noqa: ANN401
    """Rule out all but the likeliest tokens that together have the probability; the likeliest always stays."""
    torch = need("torch")
    ordered, places = scores.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    kept = ordered.masked_fill(before >= top_p, -torch.inf)
    return torch.full_like(scores, -torch.inf).scatter(-1, places, kept)
