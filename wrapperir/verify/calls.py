"""Checks of kernel calls: arity, dtype, device, descriptors, reads and writes."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    DESCRIPTOR_ALIGNMENT,
    Access,
    BufferRef,
    DescriptorParameter,
    KernelArgument,
    KernelCallLine,
    Language,
    RuntimeParameter,
    ScalarParameter,
    TensorParameter,
    TensorType,
    block_fault,
    layout_fault,
)
from wrapperir.verify.accesses import (
    check_overlaps,
    check_writable,
    is_unwritten,
    note_unknown_write,
    note_write,
)
from wrapperir.verify.comparison import same_device
from wrapperir.verify.names import use, use_expression
from wrapperir.verify.state import (
    KernelSignature,
    State,
    ValueFacts,
    defined_note,
)
from wrapperir.verify.symbols import check_stream
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
        signature = state.kernels[line.kernel] = KernelSignature(None)
    parameters = signature.parameters
    if parameters is None:
        _use_all(state, arguments)
        return
    if len(arguments) != len(parameters):
        state.report(
            Code.CALL_ARITY,
            f"@{line.kernel} takes {len(parameters)} arguments, not {len(arguments)}",
            f"@{line.kernel}",
            notes=signature.notes(line.kernel),
        )
        _use_all(state, arguments)
        return
    buffers: list[tuple[ValueFacts, TensorParameter]] = []
    storages: set[int] = set()
    is_plain = True
    for argument, parameter in zip(arguments, parameters, strict=True):
        if isinstance(argument, BufferRef):
            value = use(state, argument.name)
            if value is None:
                continue
            type = value.type
            if not isinstance(type, TensorType) or isinstance(parameter, ScalarParameter):
                _report_kind(state, argument, parameter, value)
                continue
            if type.dtype is not parameter.dtype:
                state.report_value(
                    value,
                    Code.ARGUMENT_DTYPE,
                    f"parameter {parameter.name} is {parameter.dtype.value}, and "
                    f"%{value.name} {type.dtype.value}",
                )
            elif type.device is not device and not same_device(type.device, device):
                state.report_value(
                    value,
                    Code.DEVICE_MISMATCH,
                    f"the kernel runs on {device}, and %{value.name} is on {type.device}",
                )
            elif isinstance(parameter, DescriptorParameter):
                check_descriptor_argument(state, parameter, value, type)
            storage = value.storage
            buffers.append((value, parameter))
            storages.add(id(storage))
            if (
                not storage.written
                or storage.unwritten is not None
                or (storage.read_only is not None and parameter.access.writes)
            ):
                is_plain = False
        else:
            use_expression(state, argument)
            if not isinstance(parameter, ScalarParameter):
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
    if not is_plain:
        _access(state, buffers, signature)
    if len(storages) < len(buffers) and not signature.in_order:
        check_overlaps(state, [(value, p.access.writes) for value, p in buffers])


def _access(
    state: State,
    buffers: list[tuple[ValueFacts, TensorParameter]],
    signature: KernelSignature,
) -> None:
    """Check the reads of a call, then its writes.

    A kernel that runs in order may read what it wrote through another argument.
    """
    own: set[int] = set()
    if signature.in_order:
        own = {id(value.storage) for value, p in buffers if p.access is Access.WRITE}
    for value, parameter in buffers:
        storage = value.storage
        if (
            parameter.access.reads
            and (not storage.written or storage.unwritten is not None)
            and id(storage) not in own
            and _reads_nothing_written(state, value, signature)
        ):
            note_unknown_write(storage)
            state.report_value(
                value,
                Code.UNINITIALIZED_READ,
                f"the kernel reads %{value.name}, which nothing has written",
                hint="write it first; or, if the kernel only writes it, declare it `write`",
            )
    for value, parameter in buffers:
        if parameter.access.writes:
            storage = value.storage
            if not storage.written or storage.unwritten is not None:
                _note_kernel_write(state, value, parameter, signature)
            if storage.read_only is not None:
                check_writable(state, value)


def _reads_nothing_written(
    state: State, value: ValueFacts, signature: KernelSignature
) -> bool:
    """Say whether nothing has written any byte that a kernel may read through a value.

    A kernel that does not run in order (Triton) may read anywhere in the storage, and a
    choice of a multi-kernel may leave the argument out: so the whole storage counts.
    """
    if signature.in_order and not signature.is_multi:
        return is_unwritten(state, value)
    return not value.storage.written and is_unwritten(state, value)


def _note_kernel_write(
    state: State, value: ValueFacts, parameter: TensorParameter, signature: KernelSignature
) -> None:
    """Note the bytes that a kernel may write, as the interpreter counts them.

    Through a descriptor, these are the elements of the tensor.  A kernel that runs in
    order (C++) counts as writing all bytes from the first element to the last.  Any other
    kernel may write anywhere in the storage.
    """
    if isinstance(parameter, DescriptorParameter):
        note_write(state, value)
    elif signature.in_order:
        note_write(state, value, gaps_too=True)
    else:
        note_unknown_write(value.storage)


def _use_all(state: State, arguments: tuple[KernelArgument, ...]) -> None:
    """Use the arguments of a call that cannot be checked; all of them count as written."""
    for argument in arguments:
        if isinstance(argument, BufferRef):
            value = use(state, argument.name)
            if value is not None:
                note_unknown_write(value.storage)
        else:
            use_expression(state, argument)


def _report_kind(
    state: State,
    argument: KernelArgument,
    parameter: RuntimeParameter,
    value: ValueFacts | None,
) -> None:
    state.report(
        Code.ARGUMENT_KIND,
        f"parameter {parameter.name} takes "
        + ("a scalar expression" if isinstance(parameter, ScalarParameter) else "a tensor")
        + (f", and %{value.name} is not one" if value else ", not a scalar"),
        f"%{value.name}" if value else str(argument) if isinstance(argument, int) else None,
        notes=(defined_note(value),) if value else (),
    )
    if value is not None:
        note_unknown_write(value.storage)


def check_descriptor_parameter(
    state: State, parameter: DescriptorParameter, language: Language
) -> None:
    """Report a descriptor parameter that Triton does not support."""
    fault = block_fault(parameter)
    if fault is not None:
        found = f"the descriptor {parameter.name} has a block that none has: {fault}"
    elif language is not Language.TRITON:
        found = (
            f"{parameter.name} is a descriptor, which only Triton kernels take, "
            f"and the kernel is in {language.value}"
        )
    else:
        return
    state.report(Code.INVALID_DESCRIPTOR, found, parameter.name)


def check_descriptor_argument(
    state: State, parameter: DescriptorParameter, value: ValueFacts, type: TensorType
) -> None:
    """Report a tensor that certainly does not fit a descriptor parameter."""
    if value.facts.faults or block_fault(parameter) is not None:
        return  # that was reported
    fault = layout_fault(parameter, type.size, type.stride) or _misalignment(value, type)
    if fault is not None:
        state.report_value(
            value,
            Code.DESCRIPTOR_ARGUMENT,
            f"%{value.name} cannot be behind the descriptor {parameter.name}: it {fault}",
        )


def _misalignment(value: ValueFacts, type: TensorType) -> str | None:
    """Return why the address is certainly not aligned, or ``None``."""
    placement = value.storage.placement
    if placement is not None:
        if placement.alignment is None:
            return None
        if placement.alignment % DESCRIPTOR_ALIGNMENT:
            return (
                f"is placed where a pool aligns to {placement.alignment} bytes, "
                f"not {DESCRIPTOR_ALIGNMENT}"
            )
    elif not value.storage.exact:
        return None  # only what is allocated is known to begin aligned
    if isinstance(type.offset, int):
        begin = type.offset * type.dtype.itemsize
        if begin % DESCRIPTOR_ALIGNMENT:
            return (
                f"begins at byte {begin} of its storage, which is not a multiple of "
                f"{DESCRIPTOR_ALIGNMENT}"
            )
    return None
