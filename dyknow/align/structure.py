"""Where a model keeps what it knows: its blocks and the output projection of each block's MLP.

Found by what the modules are and do, not by their names, and proved on a small forward pass before anything is edited.
A model that does not prove to be what is supposed here is refused with the reason.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from dyknow.align import hooks
from dyknow.align.hooks import Module, Tensor, first
from dyknow.models.base import Model
from dyknow.models.extras import need, quiet
from dyknow.models.local import Local
from kg.errors import AlignError

_TOKENS = 5
_CLOSE = 1e-3
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")


@dataclass(frozen=True)
class Projection:
    """The output projection of a block's MLP, thought of as a matrix [d, d_ff] that maps keys to values.

    Attributes:
        name: The parameter's: "model.layers.5.mlp.down_proj.weight".
        module: The module that holds it.
        transposed: Whether it stores [d_ff, d], as GPT-2's Conv1D does; known by its class, never by its shape.
    """

    name: str
    module: Module
    transposed: bool

    def weight(self) -> Tensor:
        """Return the matrix [d, d_ff]: a view, so that writing into it writes into the model."""
        stored = self.module.weight.detach()
        return stored.T if self.transposed else stored

    def stored(self, matrix: Tensor) -> Tensor:
        """Return a matrix [d, d_ff] in the layout in which the module stores its own."""
        return matrix.T if self.transposed else matrix

    @property
    def width(self) -> int:
        """The length of a key, d_ff."""
        return int(self.weight().shape[1])


@dataclass(frozen=True)
class Structure:
    """A decoder as editing sees it.

    Attributes:
        local: The model and its tokenizer.
        blocks: Its decoder blocks, in order.
        forms: How many things each block returns; None: a tensor alone.
        projections: The MLP output projection of each block.
        additive: Whether what is added to a projection's output arrives unchanged in its block's output; not so where a
            norm stands between them (OLMo 2).
        gated: Whether the MLP multiplies two projections of its input (Llama), or has one (GPT-2).
        parallel: Whether the MLP reads the block's input and not the attention's result (GPT-J, NeoX, Falcon).
        tied: Whether the head shares its matrix with the input embeddings.
        norm: The name of the last norm, before the head.
        head: The module that makes logits.
    """

    local: Local
    blocks: tuple[Module, ...]
    forms: tuple[int | None, ...]
    projections: tuple[Projection, ...]
    additive: bool
    gated: bool
    parallel: bool
    tied: bool
    norm: str | None
    head: Module

    @property
    def model(self) -> Module:
        """The transformers model."""
        return self.local.model

    @property
    def hidden(self) -> int:
        """The length of a hidden state, d."""
        return int(self.projections[0].weight().shape[0])

    def check(self, layers: Sequence[int]) -> None:
        """Check that the model has these blocks.

        Raises:
            AlignError: it has not.
        """
        for layer in layers:
            if not 0 <= layer < len(self.blocks):
                hint = f"Give one from 0 to {len(self.blocks) - 1}."
                raise AlignError(f"{self.local.name} has no block {layer}.", hint=hint)


def find(model: Model) -> Structure:
    """Return the structure of a model, proved on a small forward pass; the model is left as it was.

    Raises:
        AlignError: weights of this model cannot be edited; the message says why.
    """
    local = _dense(model)
    torch = need("torch")
    with torch.no_grad(), hooks.as_asked(local.model), quiet():
        probe = _Probe(local)
        blocks = probe.blocks()
        projections, facts = probe.projections(blocks)
        return Structure(
            local,
            tuple(blocks),
            tuple(probe.form(block) for block in blocks),
            tuple(projections),
            additive=facts["additive"],
            gated=facts["gated"],
            parallel=facts["parallel"],
            tied=probe.head.weight is local.model.get_input_embeddings().weight,
            norm=probe.last_norm(blocks),
            head=probe.head,
        )


def _dense(model: Model) -> Local:
    """Return the model if all its weights lie here as they are."""
    if not isinstance(model, Local):
        hint = "Take a folder, a hub name, a GGUF file or smollm2; or a method that works by text: ike, rag, serac."
        raise AlignError(f"The weights of {model.name} are not on this machine.", hint=hint)
    if model.is_seq2seq:
        _refuse(model, "has an encoder, and the editing methods are made for decoders alone")
    config = model.model.config.get_text_config()
    for key in _EXPERTS:
        if (getattr(config, key, None) or 0) > 1:
            _refuse(model, "is made of experts, of which each token sees but a few: there is no one matrix to edit")
    if any(parameter.device.type == "meta" for parameter in model.model.parameters()):
        _refuse(model, "has weights that are offloaded to memory or disk", hint="Load it whole: --device cpu or cuda.")
    if len({str(parameter.device) for parameter in model.model.parameters()}) > 1:
        _refuse(model, "is spread over several devices", hint="Load it on one: --device cpu or cuda.")
    kinds = {type(module).__module__.split(".")[0] for module in model.model.modules()}
    packed = [p for p in model.model.parameters() if not p.dtype.is_floating_point]
    if packed or kinds & {"bitsandbytes", "gptqmodel", "auto_gptq", "awq", "hqq", "aqlm", "quanto"}:
        _refuse(model, "is quantised and has no dense weights to edit", hint="Load it without --quantised.")
    return model


def _refuse(local: Local, why: str, hint: str | None = None) -> NoReturn:
    fallback = "Take a method that works by text: ike, rag, serac."
    raise AlignError(f"{local.name} {why}.", hint=hint or fallback)


class _Probe:
    """One forward pass of two short rows, with every module's inputs and outputs kept."""

    def __init__(self, local: Local) -> None:
        torch = need("torch")
        self.local, self.model = local, local.model
        self.head = self.model.get_output_embeddings()
        if self.head is None:
            _refuse(local, "has no head that makes logits")
        size = int(self.model.get_input_embeddings().weight.shape[0])
        # Two different rows of tokens that are no special ones in the usual vocabularies, whatever the global seed.
        row = torch.arange(_TOKENS) * 7 + size // 3
        self.ids = (torch.stack([row, row.flip(0) + 3]) % size).to(self.model.device)
        self.inputs: dict[Module, tuple[Any, dict[str, Any]]] = {}
        self.outputs: dict[Module, Any] = {}
        self.order: list[Module] = []
        self.names = {module: name for name, module in self.model.named_modules()}
        self._run()

    def _run(self) -> None:
        torch = need("torch")

        def see(module: Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:  # noqa: ANN401
            self.inputs[module] = (args, kwargs)
            # Falcon adds to its MLP's output in place.
            self.outputs[module] = output.clone() if isinstance(output, torch.Tensor) else output
            self.order.append(module)

        with ExitStack() as stack:
            for module in self.names:
                handle = module.register_forward_hook(see, with_kwargs=True)
                stack.callback(handle.remove)
            self.logits = self.forward()

    def forward(self) -> Tensor:
        """Return the logits of the two rows."""
        return self.model(self.ids, use_cache=False).logits

    def blocks(self) -> list[Module]:
        torch = need("torch")
        count = int(self.model.config.get_text_config().num_hidden_layers)
        lists = [m for m in self.names if isinstance(m, torch.nn.ModuleList) and len(m) == count]
        found = [list(each) for each in lists if self._runs_in_order(list(each))]
        if len(found) != 1:
            _refuse(self.local, f"has no list of {count} blocks that run one after another on the hidden states")
        return found[0]

    def _runs_in_order(self, blocks: list[Module]) -> bool:
        chosen = set(blocks)
        if [module for module in self.order if module in chosen] != blocks:
            return False
        shapes = {tuple(first(self.outputs[block]).shape) for block in blocks}
        # Both rows come out: a hook that took the first of a plain tensor would keep one.
        if len(shapes) != 1 or next(iter(shapes))[:2] != tuple(self.ids.shape):
            return False
        return all(self._is(self._given(b), first(self.outputs[a])) for a, b in pairwise(blocks))

    def form(self, block: Module) -> int | None:
        """Return how many things a block returns; ``trace.adapt`` proves that the model needs the first alone."""
        output = self.outputs[block]
        return None if isinstance(output, need("torch").Tensor) else len(output)

    def projections(self, blocks: Sequence[Module]) -> tuple[list[Projection], dict[str, bool]]:
        """Return each block's projection and what is true of all of them."""
        found = [self._projection(block) for block in blocks]
        facts = [self._facts(block, mlp, projection) for block, (mlp, projection) in zip(blocks, found, strict=True)]
        if any(each != facts[0] for each in facts):
            _refuse(self.local, "has blocks of several kinds")
        holders = [id(parameter) for _, parameter in self.model.named_parameters(remove_duplicate=False)]
        if any(holders.count(id(projection.module.weight)) > 1 for _, projection in found):
            _refuse(self.local, "shares one matrix among several modules: an edit of one would be an edit of all")
        return [projection for _, projection in found], facts[0]

    def _projection(self, block: Module) -> tuple[Module, Projection]:
        """Return the module of a block that treats each position by itself, and its last matrix back to hidden size."""
        hidden = first(self.outputs[block]).shape[-1]
        inside = set(block.modules()) - {block}
        mlps = [m for m in self.order if m in inside and self._is_mlp(m, hidden)]
        if not mlps:
            _refuse(self.local, "has no MLP with an output projection that a module of its own holds")
        if len(mlps) > 1:
            _refuse(self.local, f"has {len(mlps)} MLPs in a block: there is no one matrix to edit")
        children = [m for m in self.order if m in set(mlps[0].children()) and _shape(m) and _shape(m)[0] == hidden]
        module = children[-1]
        projection = Projection(f"{self.names[module]}.weight", module, transposed=_is_conv(module))
        self._prove_matrix(projection)
        return mlps[0], projection

    def _is_mlp(self, module: Module, hidden: int) -> bool:
        """Say whether a module maps hidden states up and back again, each position by itself."""
        children = [child for child in module.children() if _shape(child) and child in self.outputs]
        ups = [child for child in children if _shape(child)[1] == hidden]
        downs = [child for child in children if _shape(child)[0] == hidden]
        if not downs or not any(up is not downs[-1] for up in ups):
            return False
        args, kwargs = self.inputs[module]
        try:
            alone = module(*map(_last, args), **{key: _last(value) for key, value in kwargs.items()})
        except Exception:  # noqa: BLE001 - attention, cut to one position, may fail in any way: it is no MLP
            return False
        return bool(self._is(first(alone), first(self.outputs[module])[:, -1:]))

    def _prove_matrix(self, projection: Projection) -> None:
        """Check that the projection's input times its matrix, in our orientation, is its output."""
        torch = need("torch")
        module = projection.module
        (key, *_), _ = self.inputs[module]
        value = key.double() @ projection.weight().double().T
        if getattr(module, "bias", None) is not None:
            value = value + module.bias.double()
        if not self._is(value, self.outputs[module]) or not isinstance(module.weight, torch.nn.Parameter):
            _refuse(self.local, f"computes something else in {projection.name} than a product with its matrix")

    def _facts(self, block: Module, mlp: Module, projection: Projection) -> dict[str, bool]:
        hidden = first(self.outputs[block]).shape[-1]
        width = projection.width
        ups = [_shape(child)[0] for child in mlp.children() if _shape(child) and _shape(child)[1] == hidden]
        ups = ups if width != hidden else ups[:-1]
        change, moved = self._moved(block, projection)
        elsewhere = moved.clone()
        elsewhere[:, 1] = 0
        if not float(moved[:, 1].abs().max()) > 0 or float(elsewhere.abs().max()) > _CLOSE * float(moved.abs().max()):
            _refuse(self.local, f"does not add the output of {projection.name} to its hidden states")
        return {
            "additive": self._is(moved[:, 1], change.expand_as(moved[:, 1])),
            "gated": sum(ups) == 2 * width,
            "parallel": self._is_parallel(block, mlp),
        }

    def _moved(self, block: Module, projection: Projection) -> tuple[Tensor, Tensor]:
        """Return a change made to a projection's output at position 1, and how the block's output moved by it."""
        torch = need("torch")
        before = first(self.outputs[block])
        change = before.float().std() * torch.linspace(-1, 1, before.shape[-1], device=before.device)
        change = change.to(before.dtype)

        def add(output: Tensor) -> Tensor:
            changed = output.clone()
            changed[:, 1] += change
            return changed

        args, kwargs = self.inputs[block]
        with hooks.hooked(projection.module, add):
            after = first(block(*args, **kwargs))
        return change, after - before

    def _is_parallel(self, block: Module, mlp: Module) -> bool:
        """Say whether the MLP stays as it was when other positions change, which only attention would tell it of."""
        args, kwargs = self.inputs[block]
        given = self._given(block)
        changed = given.clone()
        changed[:, 0] = changed[:, 0].flip(-1)
        seen: list[Tensor] = []
        new = [changed if each is given else each for each in args]
        named = {key: changed if each is given else each for key, each in kwargs.items()}
        with hooks.seen_before(mlp, lambda tensor: seen.append(tensor.clone())):
            block(*new, **named)
        return self._is(seen[0][:, 1:], self.inputs[mlp][0][0][:, 1:])

    def _given(self, block: Module) -> Tensor:
        args, kwargs = self.inputs[block]
        return args[0] if args else kwargs["hidden_states"]

    def last_norm(self, blocks: Sequence[Module]) -> str | None:
        """Return the name of the module between the last block and the head."""
        after = self.order[self.order.index(blocks[-1]) + 1 :]
        shape = tuple(first(self.outputs[blocks[-1]]).shape)
        names = [self.names[m] for m in after if not list(m.children()) and _shape_of(self.outputs[m]) == shape]
        return names[0] if names else None

    def _is(self, a: Tensor, b: Tensor) -> bool:
        """Say whether tensors are equal but for rounding."""
        if a.shape != b.shape:
            return False
        scale = float(b.double().abs().max()) + 1e-12
        room = _CLOSE if b.dtype.itemsize >= 4 else 0.05  # bfloat16 has eight bits
        return float((a.double() - b.double()).abs().max()) <= room * scale


def _is_conv(module: Module) -> bool:
    return isinstance(module, need("transformers").pytorch_utils.Conv1D)


def _shape(module: Module) -> tuple[int, int]:
    """Return (outputs, inputs) of a module that is a matrix, or () of any other."""
    if not (isinstance(module, need("torch").nn.Linear) or _is_conv(module)):
        return ()  # type: ignore[return-value]
    outputs, inputs = module.weight.shape[::-1] if _is_conv(module) else module.weight.shape
    return int(outputs), int(inputs)


def _shape_of(output: Any) -> tuple[int, ...] | None:  # noqa: ANN401
    return tuple(output.shape) if isinstance(output, need("torch").Tensor) else None


def _last(value: Any) -> Any:  # noqa: ANN401
    """Return the last position of hidden states (batch, tokens, hidden); anything else as it is."""
    is_states = isinstance(value, need("torch").Tensor) and value.dim() == 3 and value.shape[1] == _TOKENS
    return value[:, -1:] if is_states else value
