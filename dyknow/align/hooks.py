"""Looking into a forward pass and reaching into it: what is seen is kept, what is not needed is not computed.

Everything here is undone on leaving, also after an error: hooks, replaced forwards, flags, modes.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from dyknow.models.extras import need

Tensor: TypeAlias = Any
"""A torch.Tensor. torch is an extra and imported inside functions, so to the type checker it is Any."""

Module: TypeAlias = Any
"""A torch.nn.Module."""


class Stopped(Exception):
    """The forward pass has got as far as it was wanted."""


@contextlib.contextmanager
def hooked(module: Module, hook: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    """Show a module's output to a hook, which may return another in its place.

    Where the module returns several things, the first is shown and replaced.
    """

    def see(_module: Module, _args: object, output: Any) -> Any:  # noqa: ANN401
        new = hook(first(output))
        return None if new is None else like(output, new)

    handle = module.register_forward_hook(see)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def seen_before(module: Module, hook: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    """Show a module's first input to a hook before the module runs; it may return another in its place."""

    def see(_module: Module, args: tuple[Any, ...]) -> Any:  # noqa: ANN401
        new = hook(args[0])
        return None if new is None else (new, *args[1:])

    handle = module.register_forward_pre_hook(see)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def skipped(blocks: Sequence[Module], forms: Sequence[int | None], hidden: Tensor) -> Iterator[None]:
    """Put known hidden states in the place of what these blocks would compute.

    Args:
        blocks: The blocks from the first on; none of them runs.
        forms: How many things each returns; None: a tensor alone.
        hidden: What the last of them gives, (batch, tokens, hidden).
    """
    for block, form in zip(blocks, forms, strict=True):
        given = hidden if form is None else (hidden, *[None] * (form - 1))
        # An attribute of the instance, found before the class's own method.
        block.forward = lambda *_args, _given=given, **_kwargs: _given
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


@contextlib.contextmanager
def picked(head: Module, rows: Tensor, columns: Tensor) -> Iterator[None]:
    """Let a head see only some positions: its input (batch, tokens, hidden) becomes (1, picked, hidden).

    The head is a model's largest matrix, and most positions' logits are never looked at. What a model does to logits
    afterwards (scaling, capping) it still does.
    """
    with seen_before(head, lambda hidden: hidden[rows, columns].unsqueeze(0)):
        yield


@contextlib.contextmanager
def as_asked(model: Module) -> Iterator[None]:
    """Freeze the parameters and put all modules into evaluation mode; flags and modes return as they were."""
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    for parameter, _ in flags:
        parameter.requires_grad_(False)
    model.eval()
    try:
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """End quietly where a hook raises ``Stopped``."""
    with contextlib.suppress(Stopped):
        yield


def stop(_tensor: Tensor) -> None:
    """Raise: a hook behind which nothing is computed."""
    raise Stopped


def first(output: Any) -> Tensor:  # noqa: ANN401
    """Return the hidden states of a block's or module's output.

    Blocks return a plain tensor since transformers 5, and ``output[0]`` of a tensor would be its first row.
    """
    return output if isinstance(output, need("torch").Tensor) else output[0]


def like(output: Any, new: Tensor) -> Any:  # noqa: ANN401
    """Return an output with other hidden states in it."""
    return new if isinstance(output, need("torch").Tensor) else (new, *output[1:])
