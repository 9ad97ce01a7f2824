"""Triton kernels in C++: what their compilation is told, and their launches.

A kernel is compiled once for all its calls: for what holds of the arguments of all of them.
Where it is not known before the run whether addresses are multiples of 16, there are two
variants, and the launch takes the one that the addresses allow.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import LiteralString

from attrs import frozen

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.ir import (
    BufferParameter,
    BufferRef,
    ConfigValue,
    Constant,
    DescriptorParameter,
    DType,
    Expr,
    KernelCallLine,
    KernelDefinitionLine,
    RuntimeParameter,
    ScalarParameter,
    TensorType,
    runtime_parameters,
    settled_where,
    substitute,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.kernel_arguments import ArgumentFacts
from wrapperir_cpp.kernel_language import KernelLanguage, LaunchArgument
from wrapperir_cpp.layout import KERNELS
from wrapperir_cpp.literals import format_int
from wrapperir_cpp.streams import format_stream

KERNEL_FACTS = ".triton.json"
"""How the file ends that says how a kernel is compiled."""
_PREFIX = "triton_"
"""What the kernels' names begin with; no function of the C library's does."""
_LONGEST_NAME = 180
_VECTOR = 16
"""Bytes, or units of a number, that Triton asks to be divisible by."""
_MOST_CHECKED = 64

TRITON_TYPES: Mapping[DType, str] = {
    dtype: dtype.triton_name for dtype in DType if dtype.triton_name is not None
}
"""Triton's names of element types and numbers."""

# A number as the argument that a kernel declares.
_WHOLE: Mapping[DType, LiteralString] = {
    DType.I64: "int64_t",
    DType.I32: "int32_t",
    DType.I16: "int16_t",
    DType.I8: "int8_t",
    DType.U64: "uint64_t",
    DType.U32: "uint32_t",
    DType.U16: "uint16_t",
    DType.U8: "uint8_t",
}
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
    given = [item[0] for item in _passed(line)]
    for parameter, fact in zip(runtime_parameters(line.parameters), facts, strict=True):
        if parameter.dtype not in TRITON_TYPES:
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
    module.files[f"{KERNELS}{symbol}{KERNEL_FACTS}"] = _format_facts(line, source, facts)


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
        for name, parameter in _passed(kernel)
    ]
    parts = [
        context.line_number(),
        context.module.kernels[kernel.name],
        *format_stream(context, line),
        _format_grid(context, kernel, values),
        *given,
    ]
    return fragment("launch({})", joined(", ", parts))


def bound_values(line: KernelDefinitionLine) -> dict[str, ConfigValue | Constant]:
    """Return constants and the values of the first config, which is the one launched."""
    values: dict[str, ConfigValue | Constant] = dict(line.constants)
    if line.configs:
        values.update(line.configs[0].values)
    return values


@frozen
class _Entry:
    """The entry's parameters as the source has them, and those that are constants."""

    names: tuple[str, ...]
    constants: frozenset[str]


def _passed(line: KernelDefinitionLine) -> list[tuple[str, RuntimeParameter]]:
    """Return the parameters that a launch passes, in the order that the source has."""
    parameters = {p.name: p for p in runtime_parameters(line.parameters)}
    entry = _entry(line)
    # What the source does not show is found out when it is compiled.
    names = [*entry.names, *(name for name in parameters if name not in entry.names)]
    return [
        (name, parameters[name])
        for name in names
        if name in parameters and name not in entry.constants
    ]


def _entry(line: KernelDefinitionLine) -> _Entry:
    try:
        module = ast.parse(line.source)
    except (SyntaxError, ValueError, RecursionError):
        return _Entry((), frozenset())
    # The last of that name is the one that the module keeps.
    for node in reversed(module.body):
        if isinstance(node, ast.FunctionDef) and node.name == line.entry:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            constants = frozenset(a.arg for a in arguments if _is_constexpr(a.annotation))
            return _Entry(tuple(a.arg for a in arguments), constants)
    return _Entry((), frozenset())


def _is_constexpr(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id="constexpr") | ast.Attribute(attr="constexpr"):
            return True
        case ast.Constant(value=str(text)):
            return text.endswith("constexpr")
        case _:
            return False


def format_kernel_source(line: KernelDefinitionLine) -> str:
    """Return the file that a kernel's source is compiled from."""
    head = (
        "# The source as the program gives it:\nimport triton\nimport triton.language as tl"
    )
    return f"{head}\n\n{line.source.rstrip()}\n"


def _format_facts(
    line: KernelDefinitionLine, source: str, facts: Sequence[ArgumentFacts]
) -> str:
    passed = _passed(line)
    by_name = dict(
        zip((p.name for p in runtime_parameters(line.parameters)), facts, strict=True)
    )
    given = {name for name, _ in passed}
    constants = {name: f.value for name, f in by_name.items() if name not in given}
    aligned: list[int] = []
    checked: list[int] = []
    descriptors: list[int] = []
    for position, (name, parameter) in enumerate(passed):
        if isinstance(parameter, DescriptorParameter):
            descriptors.append(position)
            continue
        if isinstance(parameter, ScalarParameter) and parameter.dtype.is_float:
            continue
        if by_name[name].divisor % _VECTOR == 0:
            aligned.append(position)
        elif isinstance(parameter, BufferParameter) and position < _MOST_CHECKED:
            checked.append(position)
    return _json(
        {
            "name": line.name,
            "source": source,
            "entry": line.entry,
            "signature": [[name, _triton_type(p)] for name, p in passed],
            "values": {**bound_values(line), **constants},
            "aligned": aligned,
            "checked": checked,
            "descriptors": descriptors,
        }
    )


def _json(facts: Mapping[str, object]) -> str:
    rows = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _triton_type(parameter: RuntimeParameter) -> str:
    spelled = TRITON_TYPES[parameter.dtype]
    match parameter:
        case ScalarParameter():
            return spelled
        case BufferParameter():
            return f"*{spelled}"
        case DescriptorParameter():
            return f"tensordesc<{spelled}[{', '.join(map(str, parameter.block))}]>"


def _format_argument(
    context: Context, parameter: RuntimeParameter, argument: LaunchArgument
) -> Fragment:
    value, address = argument.value, argument.address
    if isinstance(value, BufferRef):
        assert address is not None  # it is a tensor
        if not isinstance(parameter, DescriptorParameter):
            return address
        type = context.facts.types[value.name]
        assert isinstance(type, TensorType)  # verified
        sizes, strides = map(context.format_ints, (type.size, type.stride))
        item = format_int(parameter.dtype.itemsize)
        return fragment("describe({}, {}, {}, {})", address, item, sizes, strides)
    dtype = parameter.dtype
    expressions = context.expressions
    if dtype is DType.BOOL:
        return fragment("int8_t({})", expressions.format_bool(value))
    if dtype in _REAL:
        return fragment(_REAL[dtype], expressions.format_real(value))
    c_type = fragment(_WHOLE[dtype])
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
