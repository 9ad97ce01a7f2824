"""Triton kernels: plain ``@triton.jit`` source, with grid and configs as data."""

from torch._inductor.codegen.wrapper import KernelCallLine

from wrapperir.ir.line import KernelDefinitionLine


def lower_triton_kernel(
    name: str, source: str, call: KernelCallLine
) -> KernelDefinitionLine:
    raise NotImplementedError
