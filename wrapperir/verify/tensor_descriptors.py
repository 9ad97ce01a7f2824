"""Checks of descriptor parameters, and of the tensors that calls pass for them."""

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    DESCRIPTOR_ALIGNMENT,
    DescriptorParameter,
    Language,
    TensorType,
    block_fault,
    layout_fault,
)
from wrapperir.verify.state import State, ValueFacts, defined_note


def check_descriptor_parameter(
    state: State, parameter: DescriptorParameter, language: Language
) -> None:
    """Report a descriptor parameter that Triton does not support."""
    fault = block_fault(parameter)
    if fault is not None:
        state.report(
            Code.INVALID_DESCRIPTOR,
            f"the descriptor {parameter.name} has a block that none has: {fault}",
            parameter.name,
        )
    elif language is not Language.TRITON:
        state.report(
            Code.INVALID_DESCRIPTOR,
            f"{parameter.name} is a descriptor, which only Triton kernels take, "
            f"and the kernel is in {language.value}",
            parameter.name,
        )


def check_descriptor_argument(
    state: State, parameter: DescriptorParameter, value: ValueFacts
) -> None:
    """Report a tensor that certainly does not fit a descriptor parameter."""
    type = value.type
    assert isinstance(type, TensorType)
    if value.facts.faults or block_fault(parameter) is not None:
        return  # that was reported
    fault = layout_fault(parameter, type.size, type.stride) or _misalignment(value, type)
    if fault is not None:
        state.report(
            Code.DESCRIPTOR_ARGUMENT,
            f"%{value.name} cannot be behind the descriptor {parameter.name}: it {fault}",
            f"%{value.name}",
            notes=(defined_note(value),),
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
