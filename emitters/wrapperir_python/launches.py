"""The function that each kernel call calls: a kernel, or what picks one."""

from wrapperir.emit.runnable_kernels import Runnable, taken_arguments
from wrapperir.ir import (
    BufferRef,
    DefinitionLine,
    DType,
    Expr,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    ScalarParameter,
    runtime_parameters,
)
from wrapperir_python.choices import format_choice
from wrapperir_python.context import Callee, PythonContext


def find_callee(context: PythonContext, line: KernelCallLine) -> Callee:
    """Return the function that a call calls; all calls of a kernel share one."""
    callee = context.callees.get(line.kernel)
    if callee is None:
        callee = _make_callee(context, line)
        if isinstance(context.facts.definitions[line.kernel], KernelDefinitionLine):
            context.callees[line.kernel] = callee
    return callee


def _make_callee(context: PythonContext, line: KernelCallLine) -> Callee:
    runnable = context.facts.runnable(line)
    for candidate in runnable.kernels.values():
        context.check_kernel(candidate.kernel, line.device)
    definition = context.facts.definitions[line.kernel]
    if isinstance(definition, MultiKernelLine) and len(runnable.kernels) > 1:
        function = format_choice(context, definition, runnable)
        scalars = _scalars_of_choices(context, line, definition, runnable)
        return Callee(function, definition, None, scalars)
    (chosen,) = runnable.kernels.values()
    function = context.module.kernels[chosen.kernel.name]
    return Callee(function, chosen.kernel, chosen.positions, _scalars(chosen.kernel))


def _scalars(definition: DefinitionLine) -> tuple[DType | None, ...]:
    return tuple(
        parameter.dtype if isinstance(parameter, ScalarParameter) else None
        for parameter in runtime_parameters(definition.parameters)
    )


def _scalars_of_choices(
    context: PythonContext,
    line: KernelCallLine,
    definition: MultiKernelLine,
    runnable: Runnable,
) -> tuple[DType | None, ...]:
    """Return the dtypes of the numbers that a choice of a multi-kernel may take.

    Other numbers keep their own dtype, so that one that is not whole is not an error.
    """
    taken = taken_arguments(runnable, len(line.arguments))
    return tuple(
        dtype
        if dtype is None or position in taken or isinstance(argument, BufferRef)
        else _own_dtype(context, argument)
        for position, (dtype, argument) in enumerate(
            zip(_scalars(definition), line.arguments, strict=True)
        )
    )


def _own_dtype(context: PythonContext, number: Expr) -> DType:
    kinds = context.facts.kinds
    if kinds.may_be_float(number):
        return DType.F64
    return DType.BOOL if kinds.is_bool(number) else DType.I64
