"""What all calls of a kernel have in common in their arguments.

A kernel is compiled once for all its calls, so it may rely on just that.
"""

from collections.abc import Mapping
from math import gcd

from attrs import frozen

from wrapperir.emit.runnable_kernels import Candidate, runnable_kernels, value_types
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.expr import Expr, ExprOp, Operation
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    BufferRef,
    KernelArgument,
    KernelCallLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import POOL_ALIGNMENT, TensorType

_DEEPEST = 40


@frozen
class ArgumentFacts:
    """Of one argument: what divides its address or number, and its number if constant."""

    divisor: int
    value: int | float | None = None

    def joined(self, other: "ArgumentFacts") -> "ArgumentFacts":
        """Return what holds for both."""
        same = self.value == other.value and type(self.value) is type(other.value)
        return ArgumentFacts(gcd(self.divisor, other.divisor), self.value if same else None)


def survey_arguments(program: Program) -> dict[str, tuple[ArgumentFacts, ...]]:
    """Return facts of the runtime arguments of each kernel that is called."""
    definitions = {line.name: line for line in program.definitions}
    all_types = value_types(program)
    types: dict[str, TensorType] = {}
    for name, type in (
        *((item.name, item.type) for item in program.inputs),
        *((item.name, item.type) for item in program.constants),
    ):
        if isinstance(type, TensorType):
            types[name] = type
    # Of a name whose storage begins in memory of our own: what divides where it begins.
    starts: dict[str, int] = {}
    found: dict[str, tuple[ArgumentFacts, ...]] = {}
    for line in walk_lines(program.lines):
        match line:
            case AllocateLine():
                starts[line.result], types[line.result] = POOL_ALIGNMENT, line.type
            case AllocatePoolLine():
                starts[line.result] = POOL_ALIGNMENT
            case PlaceLine():
                pool = starts.get(line.pool, 1)
                starts[line.result] = gcd(pool, divisor_of(line.offset))
                if isinstance(line.type, TensorType):
                    types[line.result] = line.type
            case ReuseLine() | ReinterpretLine():
                if line.source in starts:
                    starts[line.result] = starts[line.source]
                types[line.result] = line.type
            case KernelCallLine():
                given = tuple(_facts(value, types, starts) for value in line.arguments)
                for candidate in runnable_kernels(
                    definitions, line, all_types
                ).kernels.values():
                    _join(found, candidate, given)
            case _:
                pass
    return found


def _join(
    found: dict[str, tuple[ArgumentFacts, ...]],
    candidate: Candidate,
    given: tuple[ArgumentFacts, ...],
) -> None:
    name, positions = candidate.kernel.name, candidate.positions
    facts = given if positions is None else tuple(given[at] for at in positions)
    known = found.get(name)
    if known is not None:
        facts = tuple(a.joined(b) for a, b in zip(known, facts, strict=True))
    found[name] = facts


def divisor_of(expr: Expr, depth: int = 0) -> int:
    """Return a number that divides a whole number's every value; 0 divides just 0."""
    if isinstance(expr, int):
        return abs(expr)
    if not isinstance(expr, Operation) or depth == _DEEPEST:
        return 1
    match expr.op:
        case ExprOp.MUL:
            product = 1
            for factor in expr.args:
                product *= divisor_of(factor, depth + 1)
            return product
        case ExprOp.ADD | ExprOp.SUB | ExprOp.NEG | ExprOp.MIN | ExprOp.MAX | ExprOp.MOD:
            return gcd(*(divisor_of(part, depth + 1) for part in expr.args))
        case _:
            return 1


def _facts(
    argument: KernelArgument, types: Mapping[str, TensorType], starts: Mapping[str, int]
) -> ArgumentFacts:
    if not isinstance(argument, BufferRef):
        if isinstance(argument, int | float):
            return ArgumentFacts(divisor_of(argument), argument)
        return ArgumentFacts(divisor_of(argument))
    type = types.get(argument.name)
    if type is None:
        return ArgumentFacts(1)
    if argument.name in starts:
        before = divisor_of(type.offset) * type.dtype.itemsize
        return ArgumentFacts(gcd(starts[argument.name], before))
    return ArgumentFacts(type.alignment or 1)
