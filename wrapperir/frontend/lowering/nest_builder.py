"""Building of one nest, instruction by instruction."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from attrs import define, evolve, field

from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.ir import DType, Expr, NodeOrigin, Symbol
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
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import (
    ReduceOp,
    ScalarOp,
    reduced_dtypes,
    result_dtype,
    scanned_dtypes,
)
from wrapperir.lowering.substitution import map_steps


@define(eq=False)
class NestBuilder:
    """A nest that is being built, over parallel axes of the extents ``size``.

    Methods return the names of values, as :mod:`wrapperir.lowering.loops` has them.
    """

    size: tuple[Expr, ...]
    _steps: list[Step] = field(factory=list[Step], init=False)
    _inner: list[Instruction] | None = field(default=None, init=False)
    _dtypes: dict[str, DType] = field(factory=dict[str, DType], init=False)
    _axes: int = field(default=0, init=False)

    @property
    def point(self) -> tuple[Expr, ...]:
        """The parallel axes, as expressions."""
        return tuple(Symbol(f"i{number}") for number in range(len(self.size)))

    def dtype(self, name: str) -> DType:
        """Return the dtype of a value."""
        return self._dtypes[name]

    def load(
        self,
        tensor: IndexedTensor,
        point: Sequence[Expr],
        *,
        mask: str | None = None,
        other: int | float | bool = 0,
    ) -> str:
        """Read the element of a tensor at a point; ``other`` where ``mask`` is false."""
        result = self._define(tensor.dtype)
        return self._add(
            Load(
                result=result,
                dtype=tensor.dtype,
                buffer=tensor.buffer,
                index=tensor.at(point),
                mask=mask,
                other=other,
                origins=tensor.views,
            ),
            result,
        )

    def literal(self, value: int | float | bool, dtype: DType) -> str:
        """Define a constant."""
        result = self._define(dtype)
        return self._add(Literal(result=result, dtype=dtype, value=value), result)

    def index_value(self, expr: Expr, dtype: DType) -> str:
        """Define the value of an expression over axes, sizes and whole-number values."""
        if isinstance(expr, int | float):
            return self.literal(expr, dtype)
        is_number = dtype.is_integer or dtype in (DType.F32, DType.F64)
        given = dtype if is_number and dtype is not DType.BOOL else DType.I64
        result = self._define(given)
        self._add(IndexValue(result=result, dtype=given, expr=expr), result)
        return self.cast(result, dtype)

    def apply(self, op: ScalarOp, *operands: str) -> str:
        """Apply an operator other than a cast."""
        dtype = result_dtype(op, [self._dtypes[operand] for operand in operands])
        assert dtype is not None
        result = self._define(dtype)
        return self._add(
            Apply(result=result, dtype=dtype, op=op, operands=operands), result
        )

    def cast(self, value: str, dtype: DType) -> str:
        """Convert a value, unless it has the dtype."""
        if self._dtypes[value] is dtype:
            return value
        result = self._define(dtype)
        step = Apply(result=result, dtype=dtype, op=ScalarOp.CAST, operands=(value,))
        return self._add(step, result)

    def bitcast(self, value: str, dtype: DType) -> str:
        """Return the value of the same bits in another dtype of the same size."""
        result = self._define(dtype)
        step = Apply(result=result, dtype=dtype, op=ScalarOp.BITCAST, operands=(value,))
        return self._add(step, result)

    def store(
        self,
        tensor: IndexedTensor,
        point: Sequence[Expr],
        value: str,
        *,
        mask: str | None = None,
        mode: StoreMode = StoreMode.OVERWRITE,
    ) -> None:
        """Write a value, converted to the dtype of the tensor, to an element of it."""
        value = self.cast(value, tensor.dtype)
        self._append(
            Store(
                buffer=tensor.buffer,
                index=tensor.at(point),
                value=value,
                mask=mask,
                mode=mode,
                origins=tensor.views,
            )
        )

    def check(self, condition: str, message: str, *, mask: str | None = None) -> None:
        """Raise an error with the message if the condition is false."""
        self._append(Check(condition=condition, message=message, mask=mask))

    @contextmanager
    def inner(self, size: Sequence[Expr]) -> Generator[tuple[Expr, ...]]:
        """Put an inner loop around what is added; return its axes.

        Results of reductions are known after it.
        """
        assert self._inner is None
        axes = tuple(
            Axis(f"r{self._axes + number}", extent) for number, extent in enumerate(size)
        )
        self._axes += len(axes)
        self._inner = []
        yield tuple(Symbol(axis.name) for axis in axes)
        self._steps.append(InnerLoop(axes=axes, body=tuple(self._inner)))
        self._inner = None

    def reduce(self, op: ReduceOp, *operands: str) -> tuple[str, ...]:
        """Reduce values over the inner loop; return the results."""
        dtype = self._dtypes[operands[0]]
        results = tuple(map(self._define, reduced_dtypes(op, dtype)))
        self._append(Reduce(results=results, dtype=dtype, op=op, operands=operands))
        return results

    def scan(self, op: ReduceOp, operand: str) -> tuple[str, ...]:
        """Scan values along the last axis of the inner loop; return the results."""
        dtype = self._dtypes[operand]
        results = tuple(map(self._define, scanned_dtypes(op, dtype)))
        self._append(Scan(results=results, dtype=dtype, op=op, operands=(operand,)))
        return results

    def finish(self, name: str, *origins: NodeOrigin) -> Nest:
        """Return the nest; all of it is computed for ``origins``."""
        axes = tuple(Axis(f"i{number}", extent) for number, extent in enumerate(self.size))

        def traced(step: Instruction) -> Instruction:
            both = (*origins, *step.origins) if step.origins else origins
            return evolve(step, origins=both)

        body = map_steps(self._steps, traced)
        return Nest(name=name, axes=axes, body=body, origins=origins)

    def _define(self, dtype: DType) -> str:
        name = f"v{len(self._dtypes)}"
        self._dtypes[name] = dtype
        return name

    def _add(self, step: Instruction, result: str) -> str:
        self._append(step)
        return result

    def _append(self, step: Instruction) -> None:
        (self._steps if self._inner is None else self._inner).append(step)
