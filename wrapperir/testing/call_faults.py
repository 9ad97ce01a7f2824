"""Faults of calls, kernels, symbols and blocks."""

import random
from collections.abc import Callable, Iterator

from attrs import evolve

from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir import (
    AllocateLine,
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    DescriptorParameter,
    Device,
    DType,
    ExternKernelLine,
    FreeLine,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiOutputLine,
    Program,
    SubgraphCallLine,
    Symbol,
    SymbolDefinitionLine,
    TensorParameter,
    TensorType,
    ZeroMode,
    runtime_parameters,
    tensor,
)
from wrapperir.testing.injection import Faulty, at_line, choose, places_of, with_lines


def duplicate_kernel(program: Program, rng: random.Random) -> Faulty | None:
    """Define a kernel twice."""
    definition = choose(iter(program.definitions), rng)
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
    found = choose(places_of(program, KernelCallLine), rng)
    if found is None:
        return None
    index, line = found
    return at_line(with_lines(program, index, change(line)), code, index)


def swap_arguments(program: Program, rng: random.Random) -> Faulty | None:
    """Swap a buffer and a scalar of a kernel call."""

    def swap(line: KernelCallLine) -> KernelCallLine:
        arguments = list(line.arguments)
        buffers = [i for i, a in enumerate(arguments) if isinstance(a, BufferRef)]
        scalars = [i for i, a in enumerate(arguments) if not isinstance(a, BufferRef)]
        i, j = rng.choice(buffers), rng.choice(scalars)
        arguments[i], arguments[j] = arguments[j], arguments[i]
        return evolve(line, arguments=tuple(arguments))

    return _change_call(program, rng, Code.ARGUMENT_KIND, swap)


def missing_argument(program: Program, rng: random.Random) -> Faulty | None:
    """Drop the last argument of a kernel call."""
    return _change_call(
        program, rng, Code.CALL_ARITY, lambda ln: evolve(ln, arguments=ln.arguments[:-1])
    )


def wrong_device(program: Program, rng: random.Random) -> Faulty | None:
    """Launch a kernel on another device than its buffers'."""
    return _change_call(
        program,
        rng,
        Code.DEVICE_MISMATCH,
        lambda line: evolve(line, device=Device("cuda", 0)),
    )


def undefined_kernel(program: Program, rng: random.Random) -> Faulty | None:
    """Launch a kernel that is not there."""
    return _change_call(
        program, rng, Code.UNDEFINED_KERNEL, lambda line: evolve(line, kernel="missing")
    )


def wrong_dtype(program: Program, rng: random.Random) -> Faulty | None:
    """Give a buffer another dtype of the same width, where a kernel is given it."""
    calls = {
        argument.name: index
        for index, line in reversed(list(places_of(program, KernelCallLine)))
        for argument in line.arguments
        if isinstance(argument, BufferRef)
    }
    places = ((i, ln) for i, ln in places_of(program, AllocateLine) if ln.result in calls)
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, type=evolve(line.type, dtype=DType.I32))
    return at_line(
        with_lines(program, index, changed), Code.ARGUMENT_DTYPE, calls[line.result]
    )


def _kernels(program: Program) -> Iterator[tuple[int, KernelDefinitionLine]]:
    for index, line in enumerate(program.definitions):
        if isinstance(line, KernelDefinitionLine):
            yield index, line


def unbound_constexpr(program: Program, rng: random.Random) -> Faulty | None:
    """Drop a kernel's configs."""
    found = choose(((i, k) for i, k in _kernels(program) if k.configs), rng)
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


def uninitialized_read(program: Program, rng: random.Random) -> Faulty | None:
    """Launch a kernel on buffers that nothing has written."""
    found = choose(_kernels(program), rng)
    if found is None:
        return None
    lines: list[BodyLine] = []
    arguments: list[KernelArgument] = []
    for number, parameter in enumerate(runtime_parameters(found[1].parameters)):
        if isinstance(parameter, TensorParameter):
            name = f"never_written_{number}"
            lines.append(AllocateLine(result=name, type=_tensor_for(parameter)))
            arguments.append(BufferRef(name))
        else:
            arguments.append(1)
    index = len(lines)
    lines.append(KernelCallLine(kernel=found[1].name, arguments=tuple(arguments)))
    lines += [FreeLine(buffer=a.name) for a in arguments if isinstance(a, BufferRef)]
    changed = with_lines(program, 0, *lines, replacing=0)
    return at_line(changed, Code.UNINITIALIZED_READ, index)


def _tensor_for(parameter: TensorParameter) -> TensorType:
    if isinstance(parameter, DescriptorParameter):
        return tensor(parameter.dtype, parameter.block)
    return tensor(parameter.dtype, (4,))


def out_not_written(program: Program, rng: random.Random) -> Faulty | None:
    """Drop the writes of a call with an ``out``."""
    places = (
        (i, ln)
        for i, ln in places_of(program, ExternKernelLine)
        if any(keyword == "out" for keyword, _ in ln.keywords)
    )
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    return at_line(
        with_lines(program, index, evolve(line, writes=())), Code.OUT_NOT_WRITTEN, index
    )


def bad_operator(program: Program, rng: random.Random) -> Faulty | None:
    """Call an operator whose name is none."""
    found = choose(places_of(program, ExternKernelLine), rng)
    if found is None:
        return None
    index, line = found
    changed = with_lines(program, index, evolve(line, operator="add; rm -rf"))
    return at_line(changed, Code.INVALID_OPERATOR, index)


def tuple_index(program: Program, rng: random.Random) -> Faulty | None:
    """Take an element that a tuple does not have."""
    found = choose(places_of(program, MultiOutputLine), rng)
    if found is None:
        return None
    index, line = found
    changed = with_lines(program, index, evolve(line, indices=(99,)))
    return at_line(changed, Code.TUPLE_INDEX, index)


def undefined_symbol(program: Program, rng: random.Random) -> Faulty | None:
    """Allocate by a symbol that is not there."""
    places = (
        (i, ln)
        for i, ln in places_of(program, AllocateLine)
        if ln.type.size and ln.workspace is not ZeroMode.ZERO_PER_PROGRAM
    )
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    size = (Symbol("missing"), *line.type.size[1:])
    changed = evolve(line, type=evolve(line.type, size=size))
    return at_line(with_lines(program, index, changed), Code.UNKNOWN_SYMBOL, index)


def empty_range(program: Program, rng: random.Random) -> Faulty | None:
    """Give a symbol a range that holds nothing."""
    found = choose(places_of(program, SymbolDefinitionLine), rng)
    if found is None:
        return None
    index, line = found
    changed = evolve(line, lower=9, upper=3)
    return at_line(with_lines(program, index, changed), Code.EMPTY_RANGE, index)


def outer_name(program: Program, rng: random.Random) -> Faulty | None:
    """Use an input in a block that was not given it."""
    kinds = (ConditionalLine, SubgraphCallLine)
    places = ((i, ln) for i, ln in enumerate(program.lines) if isinstance(ln, kinds))
    found = choose(places, rng)
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
    return Faulty(with_lines(program, index, changed), Code.OUTER_NAME, path)
