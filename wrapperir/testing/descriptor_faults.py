"""Faults of tensor descriptors."""

import random
from collections.abc import Iterator

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocateLine,
    BodyLine,
    BufferRef,
    DescriptorParameter,
    FreeLine,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    Program,
    ReinterpretLine,
    TensorParameter,
    ZeroMode,
    runtime_parameters,
    tensor,
)
from wrapperir.testing.injection import Faulty, at_line, choose, with_lines


def _kernels(
    program: Program,
) -> Iterator[tuple[int, KernelDefinitionLine, DescriptorParameter]]:
    for index, line in enumerate(program.definitions):
        if isinstance(line, KernelDefinitionLine):
            for parameter in line.parameters:
                if isinstance(parameter, DescriptorParameter):
                    yield index, line, parameter


def odd_descriptor(program: Program, rng: random.Random) -> Faulty | None:
    """Give a descriptor blocks of three rows."""
    found = choose(_kernels(program), rng)
    if found is None:
        return None
    index, line, parameter = found
    odd = evolve(parameter, block=(3, *parameter.block[1:]))
    parameters = tuple(odd if p is parameter else p for p in line.parameters)
    definitions = list(program.definitions)
    definitions[index] = evolve(line, parameters=parameters)
    changed = evolve(program, definitions=tuple(definitions))
    return Faulty(changed, Code.INVALID_DESCRIPTOR, ("definitions", index))


def misaligned_descriptor(program: Program, rng: random.Random) -> Faulty | None:
    """Launch a kernel with a tensor behind a descriptor that begins one element late."""
    found = choose(_kernels(program), rng)
    if found is None:
        return None
    _, kernel, guilty = found
    lines: list[BodyLine] = []
    arguments: list[KernelArgument] = []
    for number, parameter in enumerate(runtime_parameters(kernel.parameters)):
        if not isinstance(parameter, TensorParameter):
            arguments.append(1)
            continue
        name = f"zeros_{number}"
        type = tensor(parameter.dtype, (8, 16), alignment=16)
        zeroed = ZeroMode.ZERO_ON_CALL
        lines.append(AllocateLine(result=name, type=type, workspace=zeroed))
        if parameter is guilty:
            late = tensor(parameter.dtype, (4, 16), offset=1)
            name = "one_late"
            lines.append(ReinterpretLine(result=name, source=f"zeros_{number}", type=late))
        arguments.append(BufferRef(name))
    index = len(lines)
    lines.append(KernelCallLine(kernel=kernel.name, arguments=tuple(arguments)))
    names = [ln.result for ln in lines if isinstance(ln, AllocateLine | ReinterpretLine)]
    lines += [FreeLine(buffer=name) for name in names]
    changed = with_lines(program, 0, *lines, replacing=0)
    return at_line(changed, Code.DESCRIPTOR_ARGUMENT, index)
