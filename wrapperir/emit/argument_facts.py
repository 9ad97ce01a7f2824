"""Facts that all calls of a kernel share about its arguments.

A kernel is compiled once for all its calls, so it may rely on nothing else.
"""

from collections.abc import Container, Mapping
from math import gcd

from wrapperir.analysis import program_entry
from wrapperir.emit.context import ALLOCATIONS, DERIVATIONS, ProgramFacts
from wrapperir.emit.runnable_kernels import Candidate
from wrapperir.emit.triton_signature import ArgumentFacts
from wrapperir.ir import (
    POOL_ALIGNMENT,
    BufferRef,
    Expr,
    ExprOp,
    KernelArgument,
    KernelCallLine,
    Operation,
    TensorType,
    ValueType,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import NestedBlock

_DEEPEST = 40


def survey_arguments(facts: ProgramFacts) -> dict[str, tuple[ArgumentFacts, ...]]:
    """Return facts of the runtime arguments of each kernel that is called."""
    program = facts.program
    # Names whose types' alignment holds: inputs, constants, and what lines make of memory.
    typed = {name for name, _, _ in program_entry(program)}
    # For names in memory of the program's own: a divisor of the address it begins at.
    starts: dict[str, int] = {}
    found: dict[str, tuple[ArgumentFacts, ...]] = {}
    for line, done in zip(walk_lines(program.lines), facts.effects, strict=True):
        for made in done.definitions:
            if made.origin in ALLOCATIONS:
                starts[made.name] = POOL_ALIGNMENT
            elif made.origin in DERIVATIONS and made.source in starts:
                starts[made.name] = gcd(starts[made.source], divisor_of(made.offset))
            if made.origin in ALLOCATIONS | DERIVATIONS:
                typed.add(made.name)
        for nested in done.blocks:
            if not nested.repeats:  # a loop's parameters change
                _take_parameters(nested, facts.types, typed, starts)
        if isinstance(line, KernelCallLine):
            given = tuple(
                _facts(value, facts.types, typed, starts) for value in line.arguments
            )
            for candidate in facts.runnable(line).kernels.values():
                _join(found, candidate, given)
    return found


def _take_parameters(
    nested: NestedBlock,
    types: Mapping[str, ValueType],
    typed: set[str],
    starts: dict[str, int],
) -> None:
    """Add what is known of operands to the parameters that have the same type."""
    for parameter, operand in zip(nested.block.parameters, nested.operands, strict=True):
        if not isinstance(operand, BufferRef) or operand.name not in typed:
            continue
        if parameter.type == types[operand.name]:
            typed.add(parameter.name)
            if operand.name in starts:
                starts[parameter.name] = starts[operand.name]


def _join(
    found: dict[str, tuple[ArgumentFacts, ...]],
    candidate: Candidate,
    given: tuple[ArgumentFacts, ...],
) -> None:
    name, facts = candidate.kernel.name, candidate.take(given)
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
    argument: KernelArgument,
    types: Mapping[str, ValueType],
    typed: Container[str],
    starts: Mapping[str, int],
) -> ArgumentFacts:
    if not isinstance(argument, BufferRef):
        if isinstance(argument, int | float):
            return ArgumentFacts(divisor_of(argument), argument)
        return ArgumentFacts(divisor_of(argument))
    type = types[argument.name]
    if argument.name not in typed or not isinstance(type, TensorType):
        return ArgumentFacts(1)
    if argument.name in starts:
        before = divisor_of(type.offset) * type.dtype.itemsize
        return ArgumentFacts(gcd(starts[argument.name], before))
    return ArgumentFacts(type.alignment or 1)
