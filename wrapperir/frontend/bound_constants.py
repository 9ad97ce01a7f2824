"""Inputs that always are the same tensors, as constants."""

from collections.abc import Mapping

from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import (
    AssertSizeStrideLine,
    ConstantInput,
    Expr,
    FreeLine,
    Input,
    Operation,
    Program,
    Symbol,
    SymbolDefinitionLine,
    TensorType,
    substitute,
)
from wrapperir.ir.mentions import source_buffer
from wrapperir.passes.rewrite_expressions import rewrite_expressions

_FOR_INPUTS = (FreeLine, AssertSizeStrideLine)


def bind_constants(program: Program, keys: Mapping[str, str]) -> Program:
    """Return the program with the inputs that ``keys`` names as constants of those keys.

    They are constants in the order of ``keys``, before those that the program has.  An
    input that is written is a constant that is.  Lines that free them go, and those that
    check their size and stride: constants are checked where they are loaded.

    Raises:
        DiagnosticError: WIR605, a size or place of such an input is not fixed.
    """
    inputs = {input.name: input for input in program.inputs}
    fixed = {
        line.symbol: _fixed(line)
        for line in program.symbols
        if source_buffer(line.source) in keys
    }

    def put_in(expr: Symbol | Operation) -> Expr:
        return substitute(expr, fixed)

    bound = evolve(
        program,
        inputs=tuple(input for input in program.inputs if input.name not in keys),
        symbols=tuple(line for line in program.symbols if line.symbol not in fixed),
        constants=(
            *(_constant(inputs[name], key) for name, key in keys.items()),
            *program.constants,
        ),
        lines=tuple(
            line
            for line in program.lines
            if not (isinstance(line, _FOR_INPUTS) and line.buffer in keys)
        ),
    )
    return rewrite_expressions(bound, put_in) if fixed else bound


def _constant(input: Input, key: str) -> ConstantInput:
    if not isinstance(input.type, TensorType):
        raise _not_fixed(f"%{input.name} is not a tensor")
    return ConstantInput(name=input.name, type=input.type, key=key, mutated=input.mutated)


def _fixed(line: SymbolDefinitionLine) -> int:
    if line.lower is None or line.lower != line.upper:
        raise _not_fixed(f"{line.symbol} is not the same in each call")
    return line.lower


def _not_fixed(what: str) -> DiagnosticError:
    return Code.UNSUPPORTED_SIGNATURE.error(
        f"{what}, so a tensor kept outside the program cannot be bound to it"
    )
