"""Kernel calls: arity, dtype, device, and what the kernel reads and writes."""

from wrapperir.diagnostics import Code, Note
from wrapperir.ir.line import BufferRef, KernelArgument, KernelCallLine
from wrapperir.ir.types import Device, TensorType
from wrapperir.verify.aliasing import check_overlaps, write
from wrapperir.verify.comparison import same_device
from wrapperir.verify.events import check_stream
from wrapperir.verify.names import use, use_expression
from wrapperir.verify.state import ParameterFacts, Signature, State, Value, defined_note
from wrapperir.verify.tensor_descriptors import check_descriptor_argument
from wrapperir.verify.workspace_needs import check_choosing


def check_kernel_call(state: State, line: KernelCallLine) -> None:
    """Check a call against the kernel's signature."""
    signature = state.kernels.get(line.kernel)
    arguments = line.arguments
    device = line.device
    check_stream(state, device, line.stream)
    if signature is None:
        state.report(
            Code.UNDEFINED_KERNEL,
            f"nothing defines the kernel @{line.kernel}",
            f"@{line.kernel}",
        )
        signature = state.kernels[line.kernel] = Signature(None)
    parameters = signature.parameters
    if parameters is None:
        _use_all(state, arguments)
        return
    if len(arguments) != len(parameters):
        state.report(
            Code.CALL_ARITY,
            f"@{line.kernel} takes {len(parameters)} arguments, not {len(arguments)}",
            f"@{line.kernel}",
            notes=(
                Note(message=f"@{line.kernel} is defined here", path=signature.defined),
            ),
        )
        _use_all(state, arguments)
        return
    buffers: list[tuple[Value, ParameterFacts]] = []
    for argument, parameter in zip(arguments, parameters, strict=True):
        if isinstance(argument, BufferRef):
            value = use(state, argument.name)
            if value is None:
                continue
            type = value.type
            if not isinstance(type, TensorType) or not parameter.is_buffer:
                _report_kind(state, argument, parameter, value)
                continue
            if type.dtype is not parameter.dtype:
                _report_dtype(state, value, parameter)
            elif type.device is not device and not same_device(type.device, device):
                _report_device(state, value, device)
            elif parameter.descriptor is not None:
                check_descriptor_argument(state, parameter.descriptor, value)
            buffers.append((value, parameter))
        else:
            use_expression(state, argument)
            if parameter.is_buffer:
                _report_kind(state, argument, parameter, None)
            elif (
                isinstance(argument, float)
                and parameter.dtype.is_integer
                and not argument.is_integer()
            ):
                state.report(
                    Code.ARGUMENT_DTYPE,
                    f"{parameter.name} is {parameter.dtype.value}, not a fraction",
                    str(argument),
                )
    if signature.sizes or signature.workspaces:
        check_choosing(state, signature, arguments)
    _access(state, buffers, signature.in_order)


def _access(
    state: State, buffers: list[tuple[Value, ParameterFacts]], in_order: bool
) -> None:
    """Check reads before writes: both happen in the one launch.

    A kernel that runs in order may read what it wrote through another argument.
    """
    storages: set[int] = set()
    own: set[int] = set()
    if in_order:
        own = {id(value.storage) for value, p in buffers if p.writes and not p.reads}
    for value, parameter in buffers:
        storage = value.storage
        storages.add(id(storage))
        if (
            parameter.reads
            and not storage.written
            and not value.facts.empty
            and id(storage) not in own
        ):
            storage.written = True
            state.report(
                Code.UNINITIALIZED_READ,
                f"the kernel reads %{value.name}, which nothing has written",
                f"%{value.name}",
                notes=(defined_note(value),),
                hint="write it first; or, if the kernel only writes it, declare it `write`",
            )
    for value, parameter in buffers:
        if parameter.writes:
            if value.storage.read_only is None:
                value.storage.written = True
            else:
                write(state, value)
    if len(storages) < len(buffers) and not in_order:
        check_overlaps(state, [(value, parameter.writes) for value, parameter in buffers])


def _use_all(state: State, arguments: tuple[KernelArgument, ...]) -> None:
    """Use the arguments of a call that cannot be checked; it may write them all."""
    for argument in arguments:
        if isinstance(argument, BufferRef):
            value = use(state, argument.name)
            if value is not None:
                value.storage.written = True
        else:
            use_expression(state, argument)


def _report_kind(
    state: State, argument: KernelArgument, parameter: ParameterFacts, value: Value | None
) -> None:
    state.report(
        Code.ARGUMENT_KIND,
        f"parameter {parameter.name} takes "
        + ("a tensor" if parameter.is_buffer else "a scalar expression")
        + (f", and %{value.name} is not one" if value else ", not a scalar"),
        f"%{value.name}" if value else str(argument) if isinstance(argument, int) else None,
        notes=(defined_note(value),) if value else (),
    )
    if value is not None:
        value.storage.written = True


def _report_dtype(state: State, value: Value, parameter: ParameterFacts) -> None:
    type = value.type
    assert isinstance(type, TensorType)
    state.report(
        Code.ARGUMENT_DTYPE,
        f"parameter {parameter.name} is {parameter.dtype.value}, and %{value.name} "
        f"{type.dtype.value}",
        f"%{value.name}",
        notes=(defined_note(value),),
    )


def _report_device(state: State, value: Value, device: Device) -> None:
    type = value.type
    assert isinstance(type, TensorType)
    state.report(
        Code.DEVICE_MISMATCH,
        f"the kernel runs on {device}, and %{value.name} is on {type.device}",
        f"%{value.name}",
        notes=(defined_note(value),),
    )
