"""Run the kernels of a schedule, all points of a nest at once, as tensors."""

from collections.abc import Callable, Mapping, Sequence

import torch

from wrapperir.ir import Expr, ExprOp, Operation, Symbol, evaluate_int, storage_extent
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    ExternCall,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.schedule import Schedule


def _floordiv(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.div(left, right, rounding_mode="floor")


_INDEX: Mapping[ExprOp, Callable[..., torch.Tensor]] = {
    ExprOp.ADD: torch.add,
    ExprOp.SUB: torch.sub,
    ExprOp.MUL: torch.mul,
    ExprOp.FLOORDIV: _floordiv,
    ExprOp.MOD: torch.remainder,
    ExprOp.MIN: torch.minimum,
    ExprOp.MAX: torch.maximum,
}
_SCALAR: Mapping[ScalarOp, Callable[..., torch.Tensor]] = {
    ScalarOp.ADD: torch.add,
    ScalarOp.SUB: torch.sub,
    ScalarOp.MUL: torch.mul,
    ScalarOp.NEG: torch.neg,
    ScalarOp.MINIMUM: torch.minimum,
    ScalarOp.MAXIMUM: torch.maximum,
    ScalarOp.LT: torch.lt,
    ScalarOp.GT: torch.gt,
    ScalarOp.ISNAN: torch.isnan,
    ScalarOp.NOT: torch.logical_not,
    ScalarOp.OR: torch.logical_or,
    ScalarOp.GE: torch.ge,
    ScalarOp.AND: torch.logical_and,
    ScalarOp.WHERE: torch.where,
    ScalarOp.EXP: torch.exp,
    ScalarOp.DIV: torch.div,
}


class _Run:
    """The values of a nest: tensors with a dimension for each axis."""

    def __init__(
        self, nest: Nest, memory: Mapping[str, torch.Tensor], symbols: Mapping[str, int]
    ) -> None:
        self.memory = memory
        self.symbols = symbols
        inner = [s for s in nest.body if isinstance(s, InnerLoop)]
        self.rank = len(nest.axes) + max((len(loop.axes) for loop in inner), default=0)
        self.outer = len(nest.axes)
        self.shape = [1] * self.rank
        self.axes: dict[str, torch.Tensor] = {}
        self._add_axes(nest.axes, 0)
        self.values: dict[str, torch.Tensor] = {}
        for step in nest.body:
            if isinstance(step, InnerLoop):
                before, names = list(self.shape), {*self.values}
                self._add_axes(step.axes, self.outer)
                reduced: set[str] = set()
                for each in step.body:
                    self.step(each)
                    reduced |= {*each.results} if isinstance(each, Reduce) else set()
                self.shape = before
                self.values = {
                    name: value
                    for name, value in self.values.items()
                    if name in names or name in reduced
                }
            else:
                self.step(step)

    def _add_axes(self, axes: Sequence[Axis], first: int) -> None:
        for place, axis in enumerate(axes):
            extent = evaluate_int(axis.extent, self.symbols)
            shape = [1] * self.rank
            shape[first + place] = extent
            self.axes[axis.name] = torch.arange(extent).reshape(shape)
            self.shape[first + place] = extent

    def index(self, expr: Expr) -> torch.Tensor:
        if isinstance(expr, Symbol):
            if expr.name in self.axes:
                return self.axes[expr.name]
            if expr.name in self.values:
                return self.values[expr.name]
            return torch.tensor(self.symbols[expr.name])
        if isinstance(expr, Operation):
            result = self.index(expr.args[0])
            for arg in expr.args[1:]:
                result = _INDEX[expr.op](result, self.index(arg))
            return result
        assert isinstance(expr, int)
        return torch.tensor(expr)

    def define(self, name: str, value: torch.Tensor) -> None:
        assert name not in self.values, f"{name} is defined twice"
        self.values[name] = value

    def mask(self, name: str | None) -> torch.Tensor:
        return torch.tensor(True) if name is None else self.values[name]

    def step(self, step: Instruction) -> None:
        match step:
            case Literal():
                kind = getattr(torch, step.dtype.torch_name)
                self.define(step.result, torch.tensor(step.value, dtype=kind))
            case IndexValue():
                kind = getattr(torch, step.dtype.torch_name)
                self.define(step.result, self.index(step.expr).to(kind))
            case Load():
                self._load(step)
            case Store():
                self._store(step)
            case Apply():
                given = [self.values[name] for name in step.operands]
                if step.op is ScalarOp.CAST:
                    result = given[0].to(getattr(torch, step.dtype.torch_name))
                else:
                    result = _SCALAR[step.op](*given)
                self.define(step.result, result)
            case Reduce() | Scan():
                self._reduce(step)
            case Check():
                holds = self.values[step.condition] | ~self.mask(step.mask)
                assert bool(holds.all()), step

    def _load(self, step: Load) -> None:
        (index,) = map(self.index, step.index)
        memory = self.memory[step.buffer]
        mask = self.mask(step.mask) & (index == index)  # of the shape of both
        index = torch.where(mask, index, 0)
        assert bool(((index >= 0) & (index < len(memory))).all()), f"{step} reads outside"
        other = torch.tensor(step.other, dtype=memory.dtype)
        self.define(step.result, torch.where(mask, memory[index], other))

    def _store(self, step: Store) -> None:
        (index,) = map(self.index, step.index)
        shape = torch.Size(self.shape)
        value, mask = self.values[step.value], self.mask(step.mask)
        index, value, mask = (x.expand(shape).reshape(-1) for x in (index, value, mask))
        memory = self.memory[step.buffer]
        index, value = index[mask], value[mask]
        if step.mode is StoreMode.ADD:
            memory.index_put_((index,), value, accumulate=True)
            return
        assert step.mode is StoreMode.OVERWRITE
        written = torch.zeros(len(memory), dtype=torch.int64)
        written.index_put_((index,), torch.tensor(1), accumulate=True)
        assert bool((written <= 1).all()), f"{step} writes an element twice"
        assert bool(((index >= 0) & (index < len(memory))).all())
        memory[index] = value

    def _reduce(self, step: Reduce | Scan) -> None:
        shape = torch.Size(self.shape)
        (value,) = (self.values[name].expand(shape) for name in step.operands)
        if isinstance(step, Scan):
            assert step.op is ReduceOp.SUM
            self.define(step.results[0], value.cumsum(-1))
            return
        flat = value.reshape(*shape[: self.outer], -1)
        if step.op is ReduceOp.SUM:
            result = flat.sum(-1).to(value.dtype)
        elif step.op is ReduceOp.MAX:
            result = flat.amax(-1)
        else:
            assert step.op is ReduceOp.ARGMAX
            result = flat.argmax(-1)
        ones = [1] * (self.rank - self.outer)
        self.define(step.results[0], result.reshape(*result.shape, *ones))


def run_schedule(
    schedule: Schedule,
    inputs: Mapping[str, torch.Tensor],
    symbols: Mapping[str, int] | None = None,
) -> dict[str, torch.Tensor]:
    """Return the memory of each output; a call copies its argument plus 1."""
    symbols = symbols or {}
    memory = {name: tensor.clone() for name, tensor in inputs.items()}
    for name, type in schedule.buffers.items():
        if name not in memory:
            extent = evaluate_int(storage_extent(type), symbols)
            kind = getattr(torch, type.dtype.torch_name)
            memory[name] = torch.full((extent,), 77, dtype=kind)
    for item in schedule.items:
        if isinstance(item, ExternCall):
            ((_, view),) = item.arguments
            (result,) = item.writes
            memory[result].copy_(memory[view.buffer] + 1)
            continue
        assert isinstance(item, KernelLaunch)
        kernel = item.kernel
        given = {
            buffer.name: memory[name]
            for buffer, name in zip(kernel.buffers, item.buffers, strict=True)
        }
        sizes = {
            symbol.name: symbols[name]
            for symbol, name in zip(kernel.symbols, item.symbols, strict=True)
        }
        _Run(kernel.nest, given, sizes)
    return {view.buffer: memory[view.buffer] for _, view in schedule.outputs}
