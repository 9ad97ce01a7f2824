"""Whether a tensor can be behind a tensor descriptor."""

from wrapperir.interp.values import TensorValue
from wrapperir.ir.descriptors import DESCRIPTOR_ALIGNMENT, block_fault, layout_fault
from wrapperir.ir.kernel import DescriptorParameter, Language


def descriptor_problem(
    language: Language, parameter: DescriptorParameter, value: TensorValue
) -> str | None:
    """Return why a kernel cannot take a tensor behind a descriptor, if that is so."""
    if language is not Language.TRITON:
        return f"is a descriptor, which no kernel in {language.value} takes"
    fault = block_fault(parameter)
    if fault is not None:
        return f"has a block that no descriptor has: {fault}"
    fault = layout_fault(parameter, value.layout.size, value.layout.stride)
    if fault is not None:
        return f"is given a tensor that {fault}"
    if value.tensor.data_ptr() % DESCRIPTOR_ALIGNMENT:
        return f"is given a tensor whose address is no multiple of {DESCRIPTOR_ALIGNMENT}"
    placed = value.storage.alignment
    if placed is not None and placed % DESCRIPTOR_ALIGNMENT:
        return (
            f"is given a tensor whose place in a pool is aligned to {placed} bytes, "
            f"not {DESCRIPTOR_ALIGNMENT}"
        )
    return None
