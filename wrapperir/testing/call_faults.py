"""Faults of calls, kernels, tensor descriptors, symbols and blocks."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.blocks import nested_blocks
from wrapperir.testing.injection import (
    Faulty,
    Injector,
    added_definition,
    at_line,
    at_start,
    choose,
    definition_fault,
    definitions_of,
    line_fault,
    places_of,
    with_definition,
    with_lines,
)


def _swapped(line: wir.KernelCallLine, rng: Random) -> Sequence[wir.BodyLine]:
    arguments = list(line.arguments)
    buffers = [i for i, a in enumerate(arguments) if isinstance(a, wir.BufferRef)]
    scalars = [i for i, a in enumerate(arguments) if not isinstance(a, wir.BufferRef)]
    i, j = rng.choice(buffers), rng.choice(scalars)
    arguments[i], arguments[j] = arguments[j], arguments[i]
    return [evolve(line, arguments=tuple(arguments))]


swap_arguments = line_fault(wir.KernelCallLine, Code.ARGUMENT_KIND, _swapped)
"""Swap a buffer and a scalar of a kernel call."""

missing_argument = line_fault(
    wir.KernelCallLine,
    Code.CALL_ARITY,
    lambda line, _: [evolve(line, arguments=line.arguments[:-1])],
)
"""Drop the last argument of a kernel call."""

wrong_device = line_fault(
    wir.KernelCallLine,
    Code.DEVICE_MISMATCH,
    lambda line, _: [evolve(line, device=wir.Device("cuda", 0))],
)
"""Launch a kernel on another device than its buffers'."""

undefined_kernel = line_fault(
    wir.KernelCallLine,
    Code.UNDEFINED_KERNEL,
    lambda line, _: [evolve(line, kernel="missing")],
)
"""Launch a kernel that is not defined."""

out_not_written = line_fault(
    wir.ExternKernelLine,
    Code.OUT_NOT_WRITTEN,
    lambda line, _: [evolve(line, writes=())],
    where=lambda line: any(keyword == "out" for keyword, _ in line.keywords),
)
"""Drop the writes of a call with an ``out``."""

bad_operator = line_fault(
    wir.ExternKernelLine,
    Code.INVALID_OPERATOR,
    lambda line, _: [evolve(line, operator="add; rm -rf")],
)
"""Call an operator by a text that is not a name."""

tuple_index = line_fault(
    wir.MultiOutputLine, Code.TUPLE_INDEX, lambda line, _: [evolve(line, indices=(99,))]
)
"""Take an element that a tuple does not have."""


def _by_missing_symbol(line: wir.AllocateLine, _: Random) -> Sequence[wir.BodyLine]:
    size = (wir.Symbol("missing"), *line.type.size[1:])
    return [evolve(line, type=evolve(line.type, size=size))]


undefined_symbol = line_fault(
    wir.AllocateLine,
    Code.UNKNOWN_SYMBOL,
    _by_missing_symbol,
    where=lambda line: (
        bool(line.type.size) and line.workspace is not wir.ZeroMode.ZERO_PER_PROGRAM
    ),
)
"""Allocate by a symbol that is not defined."""

empty_range = line_fault(
    wir.SymbolDefinitionLine,
    Code.EMPTY_RANGE,
    lambda line, _: [evolve(line, lower=9, upper=3)],
)
"""Give a symbol a range without a number."""

unbound_constexpr = definition_fault(
    wir.KernelDefinitionLine,
    Code.UNBOUND_CONSTEXPR,
    lambda line: evolve(line, configs=(), grid=(1,)),
    where=lambda line: bool(line.configs),
)
"""Drop a kernel's configs."""


@Injector
def duplicate_kernel(program: wir.Program, rng: Random) -> Faulty:
    """Define a kernel twice."""
    line = choose(program.definitions, rng)
    return added_definition(program, Code.REDEFINITION, line)


@Injector
def wrong_dtype(program: wir.Program, rng: Random) -> Faulty:
    """Give a buffer another dtype of the same width, where a kernel is given it."""
    calls = {
        argument.name: index
        for index, line in reversed(list(places_of(program, wir.KernelCallLine)))
        for argument in line.arguments
        if isinstance(argument, wir.BufferRef)
    }
    allocations = places_of(program, wir.AllocateLine)
    index, line = choose(((i, ln) for i, ln in allocations if ln.result in calls), rng)
    changed = evolve(line, type=evolve(line.type, dtype=wir.DType.I32))
    return at_line(
        with_lines(program, index, changed), Code.ARGUMENT_DTYPE, calls[line.result]
    )


@Injector
def uninitialized_read(program: wir.Program, rng: Random) -> Faulty:
    """Launch a kernel on buffers that nothing has written."""
    _, kernel = choose(definitions_of(program, wir.KernelDefinitionLine), rng)

    def allocated(parameter: wir.TensorParameter, name: str) -> list[wir.AllocateLine]:
        size = parameter.block if isinstance(parameter, wir.DescriptorParameter) else (4,)
        return [wir.AllocateLine(result=name, type=wir.tensor(parameter.dtype, size))]

    return _launched(program, kernel, Code.UNINITIALIZED_READ, allocated)


def _launched(
    program: wir.Program,
    kernel: wir.KernelDefinitionLine,
    code: Code,
    make: Callable[
        [wir.TensorParameter, str], Sequence[wir.AllocateLine | wir.ReinterpretLine]
    ],
) -> Faulty:
    """Launch a kernel, which is a fault; ``make`` returns the lines of each tensor."""
    lines: list[wir.AllocateLine | wir.ReinterpretLine] = []
    arguments: list[wir.KernelArgument] = []
    for number, parameter in enumerate(wir.runtime_parameters(kernel.parameters)):
        if isinstance(parameter, wir.TensorParameter):
            lines += make(parameter, f"faulty_{number}")
            arguments.append(wir.BufferRef(lines[-1].result))
        else:
            arguments.append(1)
    call = wir.KernelCallLine(kernel=kernel.name, arguments=tuple(arguments))
    return at_start(program, code, *lines, call)


def _descriptors(
    program: wir.Program,
) -> Iterator[tuple[int, wir.KernelDefinitionLine, wir.DescriptorParameter]]:
    for index, line in definitions_of(program, wir.KernelDefinitionLine):
        for parameter in line.parameters:
            if isinstance(parameter, wir.DescriptorParameter):
                yield index, line, parameter


@Injector
def odd_descriptor(program: wir.Program, rng: Random) -> Faulty:
    """Give a descriptor blocks of three rows."""
    index, line, parameter = choose(_descriptors(program), rng)
    odd = evolve(parameter, block=(3, *parameter.block[1:]))
    parameters = tuple(odd if p is parameter else p for p in line.parameters)
    changed = with_definition(program, index, evolve(line, parameters=parameters))
    return Faulty(changed, Code.INVALID_DESCRIPTOR, ("definitions", index))


@Injector
def misaligned_descriptor(program: wir.Program, rng: Random) -> Faulty:
    """Launch a kernel with a tensor behind a descriptor that begins one element late."""
    _, kernel, guilty = choose(_descriptors(program), rng)

    def zeroed(
        parameter: wir.TensorParameter, name: str
    ) -> list[wir.AllocateLine | wir.ReinterpretLine]:
        type = wir.tensor(parameter.dtype, (8, 16), alignment=16)
        zeros = wir.AllocateLine(
            result=name, type=type, workspace=wir.ZeroMode.ZERO_ON_CALL
        )
        late = wir.tensor(parameter.dtype, (4, 16), offset=1)
        view = wir.ReinterpretLine(result=f"{name}_late", source=name, type=late)
        return [zeros, view] if parameter is guilty else [zeros]

    return _launched(program, kernel, Code.DESCRIPTOR_ARGUMENT, zeroed)


@Injector
def outer_name(program: wir.Program, rng: Random) -> Faulty:
    """Use an input in a block that was not given it."""
    kinds = (wir.ConditionalLine, wir.SubgraphCallLine)
    places = ((i, ln) for i, ln in enumerate(program.lines) if isinstance(ln, kinds))
    index, line = choose(places, rng)
    inputs = (item.name for item in program.inputs if isinstance(item.type, wir.TensorType))
    use = wir.AssertNotNanLine(buffer=choose(inputs, rng))
    field, block = nested_blocks(line)[-1]
    changed: dict[str, Any] = {field: evolve(block, lines=(use, *block.lines))}
    path = ("lines", index, field, "lines", 0)
    changed_program = with_lines(program, index, evolve(line, **changed))
    return Faulty(changed_program, Code.OUTER_NAME, path)
