"""Launches of kernels."""

from wrapperir import ir as wir
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.c.expressions import format_int
from wrapperir.emit.number_kinds import as_parameter, kind_of
from wrapperir_opencl.context import DEVICE, OpenclContext
from wrapperir_opencl.element_types import number_type

LANGUAGE: tuple[str, wir.Constant] = ("opencl.language", "C 1.2")
"""Metadata of every kernel that this emitter takes: its source is OpenCL C."""
FAULT: tuple[str, wir.Constant] = ("opencl.fault", True)
"""Metadata of a kernel with two more arguments: where to write a number, and the number.

The kernel writes the number to a ``global int *`` if a check in it fails.
"""


def check_kernel(context: OpenclContext, kernel: wir.KernelDefinitionLine) -> None:
    """Refuse a kernel that is not in OpenCL C, or has parameters that it cannot have."""
    context.check_source(kernel)
    if LANGUAGE not in kernel.metadata:
        context.report(
            f"metadata does not say {LANGUAGE[0]} = {LANGUAGE[1]!r}", kernel.name
        )
    if "\0" in kernel.source or "\0" in kernel.entry:
        context.report("the source of a kernel has a null character", kernel.name)
    for parameter in kernel.parameters:
        if isinstance(parameter, wir.ConstexprParameter):
            context.report(f"parameter {parameter.name} is a constexpr", kernel.name)
        elif isinstance(parameter, wir.ScalarParameter) and not number_type(
            parameter.dtype
        ):
            dtype = parameter.dtype.value
            context.report(f"parameter {parameter.name} is a {dtype}", kernel.name)


def emit_launch(context: OpenclContext, line: wir.KernelCallLine) -> None:
    """Append the steps that set a kernel's arguments and launch it on its stream."""
    if line.device.kind != DEVICE:
        context.report(f"kernels run on {DEVICE} only", str(line.device))
    (candidate,) = context.facts.runnable(line).kernels.values()
    kernel = candidate.kernel
    number = Fragment(str(context.kernels[kernel.name]))
    position = 0
    numbers: dict[str, wir.Expr] = {}
    parameters = wir.runtime_parameters(kernel.parameters)
    for parameter, argument in zip(parameters, line.arguments, strict=True):
        at = Fragment(str(position))
        if isinstance(parameter, wir.ScalarParameter):
            assert not isinstance(argument, wir.BufferRef)  # verified
            numbers[parameter.name] = argument
            value = _format_number(context, parameter, argument)
            context.emit_step("wir_give(r, {}, {}, {})", number, at, value)
            position += 1
        else:
            assert isinstance(argument, wir.BufferRef)  # verified
            tensor = context.values[argument.name]
            item = format_int(parameter.dtype.itemsize)
            step = "wir_give_buffer(r, {}, {}, &{}, {})"
            context.emit_step(step, number, at, tensor, item)
            position += 2
    if FAULT in kernel.metadata:
        context.emit_step("wir_give_fault(r, {}, {})", number, Fragment(str(position)))
    queue = Fragment(str(context.queues[line.stream]))
    grid = context.expressions.format_array(
        [wir.substitute(extent, numbers) for extent in kernel.grid]
    )
    rank = Fragment(str(len(kernel.grid)))
    context.emit_step("wir_launch(r, {}, {}, {}, {})", number, queue, rank, grid)


def _format_number(
    context: OpenclContext, parameter: wir.ScalarParameter, argument: wir.Expr
) -> Fragment:
    """Return the size and address of a number of a parameter's type."""
    expr = as_parameter(argument, parameter, context.facts.kinds)
    value = context.expressions.format_number(expr, kind_of(parameter.dtype))
    spelled = number_type(parameter.dtype)
    if spelled is None:
        return fragment("0, NULL")  # refused at the definition
    if not parameter.dtype.is_float:
        limits = joined(", ", map(format_int, _limits(parameter.dtype)))
        value = fragment("wir_fits(r, {}, {})", value, limits)
    return fragment("sizeof({}), &({}){{{}}}", spelled, spelled, value)


def _limits(dtype: wir.DType) -> tuple[int, int]:
    """Return the least and the greatest whole number of a dtype that the host has."""
    if dtype is wir.DType.BOOL:
        return 0, 1
    half = 1 << (8 * dtype.itemsize - 1)
    return (-half, half - 1) if dtype.value[0] == "i" else (0, min(2 * half, 2**63) - 1)


COPY = "aten.copy_.default"
"""The one operator: it copies between tensors of one size and element type."""


def emit_copy(context: OpenclContext, line: wir.ExternKernelLine) -> None:
    """Append a copy, within the device or between it and the host."""
    arguments = [
        context.facts.types.get(x.name)
        for x in line.arguments
        if isinstance(x, wir.BufferRef)
    ]
    match line.operator, line.result, line.keywords, arguments:
        case "aten.copy_.default", None, (), [
            wir.TensorType() as to,
            wir.TensorType() as source,
        ]:
            pass
        case _:
            context.report(f"{COPY} is the only operator", line.operator)
            return
    if to.dtype is not source.dtype or to.size != source.size or len(line.arguments) > 2:
        context.report("copies are of one size and element type", line.operator)
    names = [context.values[x.name] for x in line.arguments if isinstance(x, wir.BufferRef)]
    item, rank = format_int(to.dtype.itemsize), Fragment(str(len(to.size)))
    arrays = map(context.expressions.format_array, (to.size, to.stride, source.stride))
    parts = (*names, item, rank, joined(", ", arrays))
    context.emit_step("wir_copy(r, &{}, &{}, {}, {}, {})", *parts)
