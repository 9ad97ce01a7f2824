"""Costs that fusion compares: bytes of memory traffic, and operations in the same unit."""

from collections.abc import Iterable

from attrs import define, field, frozen

from wrapperir.ir import EvaluationError, Expr, TensorType, evaluate, product
from wrapperir.lowering.kernel import SizeSymbol, SizeSymbols
from wrapperir.lowering.loops import Apply, Axis, Instruction
from wrapperir.lowering.scalar_op import ScalarOp

SLOW = frozenset(
    {
        *(ScalarOp.EXP, ScalarOp.EXP2, ScalarOp.EXPM1, ScalarOp.LOG, ScalarOp.LOG2),
        *(ScalarOp.LOG10, ScalarOp.LOG1P, ScalarOp.SIN, ScalarOp.COS, ScalarOp.TAN),
        *(ScalarOp.ASIN, ScalarOp.ACOS, ScalarOp.ATAN, ScalarOp.SINH, ScalarOp.COSH),
        *(ScalarOp.TANH, ScalarOp.ASINH, ScalarOp.ACOSH, ScalarOp.ATANH, ScalarOp.ATAN2),
        *(ScalarOp.HYPOT, ScalarOp.ERF, ScalarOp.ERFC, ScalarOp.LGAMMA, ScalarOp.POW),
        *(ScalarOp.DIV, ScalarOp.FLOORDIV, ScalarOp.REMAINDER, ScalarOp.FMOD),
        *(ScalarOp.SQRT, ScalarOp.RSQRT),
    }
)
"""Operators that take many times as long as a sum."""

_FREE = frozenset({ScalarOp.CAST, ScalarOp.BITCAST})


@frozen(kw_only=True)
class DeviceCosts:
    """Costs on one kind of device, in bytes of memory traffic that take as long.

    ``operation`` and ``slow_operation`` are for one element; ``launch`` for a kernel.
    ``parallel_points`` are the points that keep the device busy, unless they have rows of
    at most ``short_row`` bytes; a row of an inner loop is read once while it is at most
    ``cached_row`` bytes.  ``walks_rows`` says that an inner loop across memory walks it a
    cache line at a time.  ``multiplies_matrices``: it has instructions that multiply
    matrices of half types.
    """

    operation: float
    slow_operation: float
    launch: int
    parallel_points: int
    short_row: int
    cached_row: int
    walks_rows: bool
    multiplies_matrices: bool


CPU_COSTS = DeviceCosts(
    operation=0.05,
    slow_operation=1.0,
    launch=16 << 10,
    parallel_points=4,
    short_row=1 << 16,
    cached_row=1 << 20,
    walks_rows=True,
    multiplies_matrices=False,
)
"""One core: 10 GB/s, 0.1 ns a transcendental operation, 1.5 us a call.

Plain operations run while memory is waited for, and cost a fifth of what they take alone.
"""

GPU_COSTS = DeviceCosts(
    operation=0.02,
    slow_operation=0.3,
    launch=4 << 20,
    parallel_points=264,
    short_row=1 << 14,
    cached_row=1 << 18,
    walks_rows=False,
    multiplies_matrices=True,
)
"""An H100: 3 TB/s, 30 T operations a second, 1.5 us a kernel; two blocks for each SM."""


def device_costs(kind: str) -> DeviceCosts:
    """Return the costs of a kind of device; unknown kinds are taken for GPUs."""
    return CPU_COSTS if kind == "cpu" else GPU_COSTS


@define
class TypicalSizes:
    """Typical values of extents and bytes; symbols take their hints."""

    symbols: SizeSymbols
    _hints: dict[str, int] = field(init=False, factory=dict[str, int])
    _bytes: dict[int, tuple[TensorType, int]] = field(
        init=False, factory=dict[int, tuple[TensorType, int]]
    )

    def __attrs_post_init__(self) -> None:
        """Take the symbols' hints."""
        self._hints = {name: symbol.hint for name, symbol in self.symbols.items()}

    def value(self, expr: Expr) -> int:
        """Return the typical value of an extent."""
        if isinstance(expr, int):
            return expr
        try:
            return max(int(evaluate(expr, self._hints)), 0)
        except EvaluationError:
            return SizeSymbol().hint

    def points(self, axes: Iterable[Axis]) -> int:
        """Return how many points axes have."""
        result = 1
        for axis in axes:
            result *= self.value(axis.extent)
        return result

    def bytes(self, type: TensorType) -> int:
        """Return the bytes of a buffer's elements."""
        found = self._bytes.get(id(type))
        if found is None:
            count = self.value(product(type.size)) * type.dtype.itemsize
            found = self._bytes[id(type)] = (type, count)
        return found[1]


def operation_cost(code: Iterable[Instruction], costs: DeviceCosts) -> float:
    """Return the cost of the operators among instructions, for one point."""
    total = 0.0
    for each in code:
        if isinstance(each, Apply) and each.op not in _FREE:
            total += costs.slow_operation if each.op in SLOW else costs.operation
    return total
