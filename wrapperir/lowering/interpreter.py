"""Run a loop nest on tensors: the oracle for renderers and for what scheduling does.

An instruction runs for all points at once, so that a value is a tensor with a dimension for
each axis, and operators are eager's.  Accesses out of bounds, and accesses of which another
order of the points would give other results, are faults.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from attrs import define, evolve, field

from wrapperir.diagnostics import Code, DiagnosticError, FaultError
from wrapperir.ir import EvaluationError, Expr, evaluate_int, symbols_in
from wrapperir.lowering.eager import (
    apply_operator,
    dtype_in_torch,
    index_values,
    number_tensor,
    reduce_rows,
    scan_rows,
)
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
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
from wrapperir.lowering.point_accesses import PointAccesses

SymbolValues: TypeAlias = Mapping[str, int | float]

_COMBINED = {
    **{StoreMode.ADD: "sum", StoreMode.MUL: "prod"},
    **{StoreMode.MIN: "amin", StoreMode.MAX: "amax"},
}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def run_nest(
    nest: Nest, memory: Mapping[str, torch.Tensor], symbols: SymbolValues | None = None
) -> None:
    """Run a nest on tensors, one for each buffer, of its sizes and strides.

    Raises:
        DiagnosticError: WIR812, an access out of bounds; WIR816, a size has no value;
            WIR820, a check fails; WIR830, eager raised an error; WIR843, a point uses an
            element that another writes.
    """
    run = _NestRun(memory, symbols or {})
    with faults_at():
        run.begin(nest.axes)
    for number, step in enumerate(nest.body if run.has_points else ()):
        with faults_at("body", number):
            if isinstance(step, InnerLoop):
                run.loop(step)
            else:
                run.step(step)


@contextmanager
def faults_at(*path: int | str) -> Generator[None]:
    """Give the faults of what runs inside a place, before the one that they have.

    Raises:
        DiagnosticError: a fault, or an error of eager's as WIR830 or WIR816.
    """
    try:
        yield
    except FaultError as fault:
        raise fault.at(path) from None
    except DiagnosticError as error:
        placed = [evolve(d, path=(*path, *(d.path or ()))) for d in error.diagnostics]
        raise DiagnosticError(*placed) from None
    except EvaluationError as error:
        raise Code.RUN_EVALUATION.error(str(error), path=path) from None
    except (RuntimeError, IndexError) as error:
        message = str(error).partition("\n")[0]
        raise Code.RUN_KERNEL_FAILED.error(message, path=path) from None


@define
class _Space:
    """Axes whose points run at once, the places of their points, and their accesses."""

    shape: tuple[int, ...] = ()
    places: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    accesses: dict[str, PointAccesses] = field(factory=dict[str, PointAccesses])

    def with_axes(self, axes: Sequence[Axis], symbols: SymbolValues) -> "_Space":
        """Return the space with further axes, inside of the others."""
        extents = [evaluate_int(axis.extent, symbols) for axis in axes]
        places = {name: _deeper(place, len(axes)) for name, place in self.places.items()}
        rank = len(self.shape) + len(axes)
        for number, (axis, extent) in enumerate(zip(axes, extents, strict=True)):
            shape = [1] * rank
            shape[len(self.shape) + number] = extent
            places[axis.name] = torch.arange(extent).reshape(shape)
        return _Space((*self.shape, *extents), places)

    def points(self, rank: int) -> torch.Tensor:
        """Return the number of each point, with dimensions for ``rank`` axes."""
        points = torch.arange(torch.Size(self.shape).numel()).reshape(self.shape)
        return _deeper(points, rank - points.ndim)


def _deeper(value: torch.Tensor, axes: int) -> torch.Tensor:
    """Return a value with dimensions for inner axes, unless it is one number."""
    return value.reshape(*value.shape, *[1] * axes) if value.ndim else value


class _NestRun:
    """The values of a nest: tensors that broadcast to the space of their loop."""

    def __init__(self, memory: Mapping[str, torch.Tensor], symbols: SymbolValues) -> None:
        self._memory = memory
        self._symbols = symbols
        self._values: dict[str, torch.Tensor] = {}
        self._spaces: list[_Space] = []

    def begin(self, axes: Sequence[Axis]) -> None:
        self._spaces = [_Space().with_axes(axes, self._symbols)]

    @property
    def has_points(self) -> bool:
        return 0 not in self._spaces[-1].shape

    def loop(self, loop: InnerLoop) -> None:
        outside, outer = self._values, self._spaces[0]
        self._spaces.append(outer.with_axes(loop.axes, self._symbols))
        inner = len(loop.axes)
        self._values = {name: _deeper(value, inner) for name, value in outside.items()}
        reduced: dict[str, torch.Tensor] = {}
        for number, each in enumerate(loop.body):
            with faults_at("body", number):
                if isinstance(each, Reduce):
                    reduced.update(self._reduced(each))
                elif self.has_points:
                    self.step(each)
        self._spaces.pop()
        self._values = {**outside, **reduced}

    def _reduced(self, step: Reduce) -> dict[str, torch.Tensor]:
        outer = self._spaces[0].shape
        if self.has_points:
            rows = [self._at_points(name).reshape(*outer, -1) for name in step.operands]
        else:
            none = torch.empty((*outer, 0), dtype=dtype_in_torch(step.dtype))
            rows = [none] * len(step.operands)
        found = reduce_rows(step.op, step.dtype, rows)
        return dict(zip(step.results, found, strict=True))

    def _at_points(self, name: str) -> torch.Tensor:
        return self._values[name].expand(self._spaces[-1].shape)

    def step(self, step: Instruction) -> None:
        match step:
            case Literal():
                self._values[step.result] = number_tensor(step.value, step.dtype)
            case IndexValue():
                value = self._index(step.expr)
                self._values[step.result] = value.to(dtype_in_torch(step.dtype))
            case Load():
                self._values[step.result] = self._loaded(step)
            case Apply():
                operands = [self._values[name] for name in step.operands]
                self._values[step.result] = apply_operator(step.op, step.dtype, operands)
            case Store():
                self._store(step)
            case Reduce() | Scan():
                rows = [self._at_points(name) for name in step.operands]
                found = scan_rows(step.op, step.dtype, rows)
                self._values.update(zip(step.results, found, strict=True))
            case Check():
                holds = self._values[step.condition] | ~self._mask(step.mask)
                if not bool(holds.all()):
                    raise FaultError(
                        Code.RUN_ASSERT_SCALAR, step.message or "a check fails"
                    )

    def _index(self, expr: Expr) -> torch.Tensor:
        return index_values(expr, self._values | self._spaces[-1].places, self._symbols)

    def _mask(self, name: str | None) -> torch.Tensor:
        return torch.tensor(True) if name is None else self._values[name]

    def _places(self, step: Load | Store) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the elements that a step accesses, by distance in memory, and its mask.

        They have the shape of the index and the mask together.  Masked elements are 0.

        Raises:
            FaultError: WIR812, one is outside of the buffer.
        """
        buffer, mask = self._memory[step.buffer], self._mask(step.mask)
        element = torch.tensor(0)
        dims = zip(step.index, buffer.shape, buffer.stride(), strict=True)
        for dim, (part, size, stride) in enumerate(dims):
            place, inside = _broadcast(self._index(part), mask)
            wrong = place[inside & ((place < 0) | (place >= size))]
            if wrong.numel():
                raise FaultError(
                    Code.RUN_ACCESS_OUT_OF_BOUNDS,
                    f"an index of {step.buffer} is {int(wrong[0])}, and dimension {dim} "
                    f"has {size} elements",
                    subject=step.buffer,
                )
            element = element + place * stride
        element, mask = _broadcast(element, mask)
        return torch.where(mask, element, 0), mask

    def _accessed(
        self, step: Load | Store, element: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Note which points access which elements; return the elements and their mask."""
        shape = self._spaces[-1].shape
        mask, element = mask.expand(shape), element.expand(shape)
        is_indirect = any(
            n in self._values for part in step.index for n in symbols_in(part)
        )
        for space in self._spaces:
            if step.buffer not in space.accesses:
                count = flat_memory(self._memory[step.buffer]).numel()
                space.accesses[step.buffer] = PointAccesses(step.buffer, count)
            accesses = space.accesses[step.buffer]
            points = space.points(len(shape)).expand(shape)
            if isinstance(step, Load):
                note = accesses.read
            elif is_indirect or step.mode is not StoreMode.OVERWRITE:
                # Where values say which elements are written, eager lets any be the last.
                note = accesses.combine
            else:
                note = accesses.write
            note(element[mask], points[mask])
        return element[mask], mask

    def _loaded(self, step: Load) -> torch.Tensor:
        element, mask = self._places(step)
        self._accessed(step, element, mask)
        flat = flat_memory(self._memory[step.buffer])
        other = number_tensor(step.other, step.dtype)
        if not flat.numel():
            return other.expand(element.shape)
        return torch.where(mask, _bits(flat)[element].view(flat.dtype), other)

    def _store(self, step: Store) -> None:
        element, mask = self._accessed(step, *self._places(step))
        value = self._at_points(step.value)[mask]
        flat = flat_memory(self._memory[step.buffer])
        if step.mode is StoreMode.OVERWRITE:
            _bits(flat)[element] = _bits(value)
        elif flat.dtype is torch.bool:
            combined = flat.byte()
            combined.scatter_reduce_(0, element, value.byte(), _COMBINED[step.mode])
            flat.copy_(combined != 0)
        else:
            flat.scatter_reduce_(0, element, value, _COMBINED[step.mode])


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    shape = torch.logical_and(a, b).shape
    return a.expand(shape), b.expand(shape)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as whole numbers: of some dtypes, eager can move nothing else."""
    return tensor if tensor.is_complex() else tensor.view(_BITS[tensor.itemsize])


def flat_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory from a tensor's first element to its last, in one dimension."""
    count = 0
    if tensor.numel():
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        count = 1 + sum((size - 1) * stride for size, stride in pairs)
    return torch.as_strided(tensor, (count,), (1,))
