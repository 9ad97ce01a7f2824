"""Definitions and launches of Triton kernels in C++.

A kernel is compiled once for all its calls: for what holds of the arguments of all of them.
Where it is not known before the run whether addresses are multiples of 16, there are two
variants, and the launch takes the one that the addresses allow.
"""

import json
from collections.abc import Mapping, Sequence
from typing import LiteralString

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.ir import (
    BufferRef,
    DescriptorParameter,
    DType,
    Expr,
    KernelCallLine,
    KernelDefinitionLine,
    RuntimeParameter,
    runtime_parameters,
    settled_where,
    substitute,
)
from wrapperir.kernels.triton_signature import (
    bound_values,
    compilation_facts,
    format_kernel_source,
    passed_parameters,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.kernel_language import KernelLanguage, LaunchArgument
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.streams import format_stream

KERNEL_FACTS = ".triton.json"
"""How the file ends that says how a kernel is compiled."""
_PREFIX = "triton_"
"""What the kernels' names begin with; no function of the C library's does."""
_LONGEST_NAME = 180

# A float as the argument that a kernel declares.
_REAL: Mapping[DType, LiteralString] = {
    DType.F64: "double({})",
    DType.F32: "float({})",
    DType.F16: "half_bits({})",
    DType.BF16: "bfloat16_bits({})",
}


def declare_triton_kernel(context: Context, line: KernelDefinitionLine) -> None:
    """Add the declaration of a Triton kernel, its source and the facts to compile it by."""
    module = context.module
    facts = context.arguments[line.name]
    given = [item[0] for item in passed_parameters(line)]
    for parameter, fact in zip(runtime_parameters(line.parameters), facts, strict=True):
        if parameter.dtype.triton_name is None:
            context.report(f"Triton has no {parameter.dtype.value}", line.name)
            return
        if parameter.name not in given and fact.value is None:
            context.report(
                f"{parameter.name} is a constant of {line.entry}, and calls give it"
                " what is known only when they run, or different values",
                line.name,
            )
            return
    if any("\ud800" <= character <= "\udfff" for character in line.source):
        context.report("the source of a kernel is no Unicode text", line.name)
        return
    name = line.name.removeprefix(_PREFIX)[:_LONGEST_NAME]
    symbol = module.kernels[line.name] = module.names.claim(f"{_PREFIX}{name}")
    module.declare(fragment("extern TritonKernel {}", symbol))
    source = f"{KERNELS}{symbol}.py"
    module.files[source] = format_kernel_source(line)
    module.files[f"{KERNELS}{symbol}{KERNEL_FACTS}"] = _json(
        compilation_facts(line, source, facts)
    )


def format_triton_launch(
    context: Context,
    line: KernelCallLine,
    kernel: KernelDefinitionLine,
    arguments: Sequence[LaunchArgument],
) -> Fragment:
    """Return ``launch(3, triton_add, c.cuda0, 0, {4, 1, 1}, c.buf0, int32_t{64})``.

    ``arguments`` are one for each runtime parameter of ``kernel``.
    """
    runtime = runtime_parameters(kernel.parameters)
    values = dict(zip((parameter.name for parameter in runtime), arguments, strict=True))
    given = [
        _format_argument(context, parameter, values[name])
        for name, parameter in passed_parameters(kernel)
    ]
    parts = [
        context.line_number(),
        context.module.kernels[kernel.name],
        *format_stream(context, line),
        _format_grid(context, kernel, values),
        *given,
    ]
    return fragment("launch({})", joined(", ", parts))


def _json(facts: Mapping[str, object]) -> str:
    rows = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _format_argument(
    context: Context, parameter: RuntimeParameter, argument: LaunchArgument
) -> Fragment:
    value, address = argument.value, argument.address
    if isinstance(value, BufferRef):
        assert address is not None  # it is a tensor
        if not isinstance(parameter, DescriptorParameter):
            return address
        type = context.facts.tensor_type(value.name)
        sizes, strides = map(context.format_ints, (type.size, type.stride))
        item = format_int(parameter.dtype.itemsize)
        return fragment("describe({}, {}, {}, {})", address, item, sizes, strides)
    dtype = parameter.dtype
    expressions = context.expressions
    if dtype is DType.BOOL:
        return fragment("int8_t({})", expressions.format_bool(value))
    if dtype in _REAL:
        return fragment(_REAL[dtype], expressions.format_real(value))
    c_type = fragment(dtype.cpp_type)
    number = expressions.format_index(value)
    constant = expressions.constant(value)
    if isinstance(constant, int) and _fits(constant, dtype):
        return fragment("{}{{{}}}", c_type, number)
    if dtype in (DType.I64, DType.U64):
        return fragment("{}({})", c_type, number)
    return fragment("narrow<{}>({}, {})", c_type, number, context.line_number())


def _fits(value: int, dtype: DType) -> bool:
    bits = dtype.itemsize * 8
    if dtype.value.startswith("u"):
        return value >= 0 and value.bit_length() <= bits
    return (value if value >= 0 else ~value).bit_length() < bits


def _format_grid(
    context: Context, kernel: KernelDefinitionLine, values: Mapping[str, LaunchArgument]
) -> Fragment:
    numbers: dict[str, Expr] = {
        key: value
        for key, value in bound_values(kernel).items()
        if isinstance(value, int | float)
    }
    for name, argument in values.items():
        if not isinstance(argument.value, BufferRef):
            numbers[name] = argument.value
    extents = [
        context.expressions.format_index(settled_where(substitute(extent, numbers)))
        for extent in kernel.grid or (1,)
    ]
    return fragment("{{{}}}", joined(", ", extents))


TRITON_KERNELS = KernelLanguage(declare_triton_kernel, format_triton_launch)
"""Triton kernels, launched through the CUDA driver."""
