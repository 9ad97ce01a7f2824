"""Faults put into valid programs, each with the code and place it must be found by.

They try a verifier as mutants try a test suite: what is accepted with a fault in it shows
a check that is missing.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from attrs import evolve, frozen

from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir.expr import Symbol
from wrapperir.ir.kernel import BufferParameter, runtime_parameters
from wrapperir.ir.line import (
    AllocateLine,
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiOutputLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    ZeroMode,
)
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.types import Device, DType, TensorType, tensor
from wrapperir.ir.uses import definitions, uses

L = TypeVar("L")


class FaultKind(StrEnum):
    """What is done to a valid program."""

    DROP_FREE = "drop_free"
    DOUBLE_FREE = "double_free"
    USE_AFTER_FREE = "use_after_free"
    RETURN_AFTER_FREE = "return_after_free"
    FREE_CONSTANT = "free_constant"
    DROP_ALLOCATION = "drop_allocation"
    DUPLICATE_DEFINITION = "duplicate_definition"
    DUPLICATE_KERNEL = "duplicate_kernel"
    SWAP_ARGUMENTS = "swap_arguments"
    MISSING_ARGUMENT = "missing_argument"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_DEVICE = "wrong_device"
    UNDEFINED_KERNEL = "undefined_kernel"
    UNBOUND_CONSTEXPR = "unbound_constexpr"
    UNINITIALIZED_READ = "uninitialized_read"
    INCOMPATIBLE_REUSE = "incompatible_reuse"
    SHRINK_BUFFER = "shrink_buffer"
    VIEW_OUT_OF_BOUNDS = "view_out_of_bounds"
    WRONG_RANK = "wrong_rank"
    FORBIDDEN_WRITE = "forbidden_write"
    OUT_NOT_WRITTEN = "out_not_written"
    BAD_OPERATOR = "bad_operator"
    TUPLE_INDEX = "tuple_index"
    UNDEFINED_SYMBOL = "undefined_symbol"
    EMPTY_RANGE = "empty_range"
    OUTER_NAME = "outer_name"


@frozen
class Faulty:
    """A program with one fault: the code it must be found by, on the line at ``path``."""

    program: Program
    code: Code
    path: LinePath


def inject(program: Program, kind: FaultKind, seed: int = 0) -> Faulty | None:
    """Return the program with a fault, or ``None`` where it has no place for the kind.

    ``seed`` picks the place among those there are.
    """
    return _INJECTORS[kind](program, random.Random(seed))  # noqa: S311 - repeatable


def _places(program: Program, kind: type[L]) -> Iterator[tuple[int, L]]:
    for index, line in enumerate(program.lines):
        if isinstance(line, kind):
            yield index, line


def _choose(places: Iterator[L], rng: random.Random) -> L | None:
    options = list(places)
    return rng.choice(options) if options else None


def _with(program: Program, index: int, *lines: BodyLine, replacing: int = 1) -> Program:
    """Return the program with lines in place of some of its own."""
    before, after = program.lines[:index], program.lines[index + replacing :]
    return evolve(program, lines=(*before, *lines, *after))


def _at(program: Program, code: Code, index: int) -> Faulty:
    return Faulty(program, code, ("lines", index))


def _definition_places(program: Program) -> dict[str, int]:
    return {
        name: index
        for index, line in enumerate(program.lines)
        for name, _ in definitions(line)
    }


def _drop_free(program: Program, rng: random.Random) -> Faulty | None:
    defined = _definition_places(program)
    places = ((i, line) for i, line in _places(program, FreeLine) if line.buffer in defined)
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    return _at(_with(program, index), Code.LEAK, defined[line.buffer])


def _double_free(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, FreeLine), rng)
    if found is None:
        return None
    index, line = found
    return _at(_with(program, index, line, line), Code.DOUBLE_FREE, index + 1)


def _use_after_free(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, FreeLine), rng)
    if found is None:
        return None
    index, line = found
    use = AssertNotNanLine(buffer=line.buffer)
    return _at(_with(program, index, line, use), Code.USE_AFTER_FREE, index + 1)


def _return_after_free(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, FreeLine), rng)
    if found is None:
        return None
    outputs = (*program.outputs, BufferRef(found[1].buffer))
    path = ("outputs", len(program.outputs))
    return Faulty(evolve(program, outputs=outputs), Code.USE_AFTER_FREE, path)


def _free_constant(program: Program, rng: random.Random) -> Faulty | None:
    constant = _choose(iter(program.constants), rng)
    if constant is None:
        return None
    line = FreeLine(buffer=constant.name)
    return _at(_with(program, 0, line, replacing=0), Code.CONSTANT_FREED, 0)


def _drop_allocation(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    for later, user in enumerate(program.lines[index + 1 :], index):
        if line.result in uses(user):
            return _at(_with(program, index), Code.UNDEFINED_NAME, later)
    return None


def _duplicate_definition(program: Program, rng: random.Random) -> Faulty | None:
    kinds = (AllocateLine, ReinterpretLine, MultiOutputLine)
    places = ((i, ln) for i, ln in enumerate(program.lines) if isinstance(ln, kinds))
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    return _at(_with(program, index, line, line), Code.REDEFINITION, index + 1)


def _duplicate_kernel(program: Program, rng: random.Random) -> Faulty | None:
    definition = _choose(iter(program.definitions), rng)
    if definition is None:
        return None
    path = ("definitions", len(program.definitions))
    changed = evolve(program, definitions=(*program.definitions, definition))
    return Faulty(changed, Code.REDEFINITION, path)


def _change_call(
    program: Program,
    rng: random.Random,
    code: Code,
    change: Callable[[KernelCallLine], KernelCallLine],
) -> Faulty | None:
    found = _choose(_places(program, KernelCallLine), rng)
    if found is None:
        return None
    index, line = found
    return _at(_with(program, index, change(line)), code, index)


def _swap_arguments(program: Program, rng: random.Random) -> Faulty | None:
    def swap(line: KernelCallLine) -> KernelCallLine:
        arguments = list(line.arguments)
        buffers = [i for i, a in enumerate(arguments) if isinstance(a, BufferRef)]
        scalars = [i for i, a in enumerate(arguments) if not isinstance(a, BufferRef)]
        i, j = rng.choice(buffers), rng.choice(scalars)
        arguments[i], arguments[j] = arguments[j], arguments[i]
        return evolve(line, arguments=tuple(arguments))

    return _change_call(program, rng, Code.ARGUMENT_KIND, swap)


def _missing_argument(program: Program, rng: random.Random) -> Faulty | None:
    return _change_call(
        program, rng, Code.CALL_ARITY, lambda ln: evolve(ln, arguments=ln.arguments[:-1])
    )


def _wrong_device(program: Program, rng: random.Random) -> Faulty | None:
    return _change_call(
        program,
        rng,
        Code.DEVICE_MISMATCH,
        lambda line: evolve(line, device=Device("cuda", 0)),
    )


def _undefined_kernel(program: Program, rng: random.Random) -> Faulty | None:
    return _change_call(
        program, rng, Code.UNDEFINED_KERNEL, lambda line: evolve(line, kernel="missing")
    )


def _wrong_dtype(program: Program, rng: random.Random) -> Faulty | None:
    """Give a buffer another dtype of the same width, where a kernel is given it."""
    calls = {
        argument.name: index
        for index, line in reversed(list(_places(program, KernelCallLine)))
        for argument in line.arguments
        if isinstance(argument, BufferRef)
    }
    places = ((i, ln) for i, ln in _places(program, AllocateLine) if ln.result in calls)
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, dtype=DType.I32))
    return _at(_with(program, index, changed), Code.ARGUMENT_DTYPE, calls[line.result])


def _kernels(program: Program) -> Iterator[tuple[int, KernelDefinitionLine]]:
    for index, line in enumerate(program.definitions):
        if isinstance(line, KernelDefinitionLine):
            yield index, line


def _unbound_constexpr(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(((i, k) for i, k in _kernels(program) if k.configs), rng)
    if found is None:
        return None
    index, line = found
    changed = list(program.definitions)
    changed[index] = evolve(line, configs=(), grid=(1,))
    return Faulty(
        evolve(program, definitions=tuple(changed)),
        Code.UNBOUND_CONSTEXPR,
        ("definitions", index),
    )


def _uninitialized_read(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_kernels(program), rng)
    if found is None:
        return None
    lines: list[BodyLine] = []
    arguments: list[KernelArgument] = []
    for number, parameter in enumerate(runtime_parameters(found[1].parameters)):
        if isinstance(parameter, BufferParameter):
            name = f"never_written_{number}"
            lines.append(AllocateLine(result=name, type=tensor(parameter.dtype, (4,))))
            arguments.append(BufferRef(name))
        else:
            arguments.append(1)
    index = len(lines)
    lines.append(KernelCallLine(kernel=found[1].name, arguments=tuple(arguments)))
    lines += [FreeLine(buffer=a.name) for a in arguments if isinstance(a, BufferRef)]
    changed = _with(program, 0, *lines, replacing=0)
    return _at(changed, Code.UNINITIALIZED_READ, index)


def _incompatible_reuse(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, ReuseLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, alignment=4096))
    return _at(_with(program, index, changed), Code.REUSE_INCOMPATIBLE, index)


def _shrink_buffer(program: Program, rng: random.Random) -> Faulty | None:
    """Make a buffer one byte long, where its memory is given to a larger one."""
    needed = {
        line.source: (index, line)
        for index, line in enumerate(program.lines)
        if isinstance(line, ReuseLine | ReinterpretLine) and _is_large(line.type)
    }
    places = ((i, ln) for i, ln in _places(program, AllocateLine) if ln.result in needed)
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    later, user = needed[line.result]
    code = Code.REUSE_TOO_SMALL if isinstance(user, ReuseLine) else Code.OUT_OF_BOUNDS
    small = evolve(tensor(DType.I8, (1,)), alignment=line.type.alignment)
    return _at(_with(program, index, evolve(line, type=small)), code, later)


def _is_large(type: TensorType) -> bool:
    return type.dtype.itemsize > 1


def _view_out_of_bounds(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    view = ReinterpretLine(
        result="far_view",
        source=line.result,
        type=evolve(line.type, size=(4,), stride=(1,), offset=1 << 20),
    )
    changed = _with(program, index, line, view, FreeLine(buffer="far_view"))
    return _at(changed, Code.OUT_OF_BOUNDS, index + 1)


def _wrong_rank(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, AllocateLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, stride=(*line.type.stride, 1)))
    return _at(_with(program, index, changed), Code.RANK_MISMATCH, index)


def _forbidden_write(program: Program, rng: random.Random) -> Faulty | None:
    borrowed: list[Input | ConstantInput] = [*program.inputs, *program.constants]
    names = [b.name for b in borrowed if isinstance(b.type, TensorType) and not b.mutated]
    name = _choose(iter(names), rng)
    if name is None:
        return None
    line = ExternKernelLine(
        operator="aten.zero_.default", arguments=(BufferRef(name),), writes=(name,)
    )
    return _at(_with(program, 0, line, replacing=0), Code.FORBIDDEN_WRITE, 0)


def _out_not_written(program: Program, rng: random.Random) -> Faulty | None:
    places = (
        (i, ln)
        for i, ln in _places(program, ExternKernelLine)
        if any(keyword == "out" for keyword, _ in ln.keywords)
    )
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    return _at(_with(program, index, evolve(line, writes=())), Code.OUT_NOT_WRITTEN, index)


def _bad_operator(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, ExternKernelLine), rng)
    if found is None:
        return None
    index, line = found
    changed = _with(program, index, evolve(line, operator="add; rm -rf"))
    return _at(changed, Code.INVALID_OPERATOR, index)


def _tuple_index(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, MultiOutputLine), rng)
    if found is None:
        return None
    index, line = found
    changed = _with(program, index, evolve(line, indices=(99,)))
    return _at(changed, Code.TUPLE_INDEX, index)


def _undefined_symbol(program: Program, rng: random.Random) -> Faulty | None:
    places = (
        (i, ln)
        for i, ln in _places(program, AllocateLine)
        if ln.type.size and ln.workspace is not ZeroMode.ZERO_PER_PROGRAM
    )
    found = _choose(places, rng)
    if found is None:
        return None
    index, line = found
    size = (Symbol("missing"), *line.type.size[1:])
    changed = evolve(line, type=evolve(line.type, size=size))
    return _at(_with(program, index, changed), Code.UNKNOWN_SYMBOL, index)


def _empty_range(program: Program, rng: random.Random) -> Faulty | None:
    found = _choose(_places(program, SymbolDefinitionLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, lower=9, upper=3)
    return _at(_with(program, index, changed), Code.EMPTY_RANGE, index)


def _outer_name(program: Program, rng: random.Random) -> Faulty | None:
    kinds = (ConditionalLine, SubgraphCallLine)
    places = ((i, ln) for i, ln in enumerate(program.lines) if isinstance(ln, kinds))
    found = _choose(places, rng)
    inputs = [item.name for item in program.inputs if isinstance(item.type, TensorType)]
    if found is None or not inputs:
        return None
    index, line = found
    use = AssertNotNanLine(buffer=rng.choice(inputs))
    role = "on_false" if isinstance(line, ConditionalLine) else "body"
    if isinstance(line, ConditionalLine):
        block = line.on_false
        changed: BodyLine = evolve(line, on_false=evolve(block, lines=(use, *block.lines)))
    else:
        block = line.body
        changed = evolve(line, body=evolve(block, lines=(use, *block.lines)))
    path: LinePath = ("lines", index, role, "lines", 0)
    return Faulty(_with(program, index, changed), Code.OUTER_NAME, path)


_INJECTORS: Mapping[FaultKind, Callable[[Program, random.Random], Faulty | None]] = {
    FaultKind.DROP_FREE: _drop_free,
    FaultKind.DOUBLE_FREE: _double_free,
    FaultKind.USE_AFTER_FREE: _use_after_free,
    FaultKind.RETURN_AFTER_FREE: _return_after_free,
    FaultKind.FREE_CONSTANT: _free_constant,
    FaultKind.DROP_ALLOCATION: _drop_allocation,
    FaultKind.DUPLICATE_DEFINITION: _duplicate_definition,
    FaultKind.DUPLICATE_KERNEL: _duplicate_kernel,
    FaultKind.SWAP_ARGUMENTS: _swap_arguments,
    FaultKind.MISSING_ARGUMENT: _missing_argument,
    FaultKind.WRONG_DTYPE: _wrong_dtype,
    FaultKind.WRONG_DEVICE: _wrong_device,
    FaultKind.UNDEFINED_KERNEL: _undefined_kernel,
    FaultKind.UNBOUND_CONSTEXPR: _unbound_constexpr,
    FaultKind.UNINITIALIZED_READ: _uninitialized_read,
    FaultKind.INCOMPATIBLE_REUSE: _incompatible_reuse,
    FaultKind.SHRINK_BUFFER: _shrink_buffer,
    FaultKind.VIEW_OUT_OF_BOUNDS: _view_out_of_bounds,
    FaultKind.WRONG_RANK: _wrong_rank,
    FaultKind.FORBIDDEN_WRITE: _forbidden_write,
    FaultKind.OUT_NOT_WRITTEN: _out_not_written,
    FaultKind.BAD_OPERATOR: _bad_operator,
    FaultKind.TUPLE_INDEX: _tuple_index,
    FaultKind.UNDEFINED_SYMBOL: _undefined_symbol,
    FaultKind.EMPTY_RANGE: _empty_range,
    FaultKind.OUTER_NAME: _outer_name,
}
