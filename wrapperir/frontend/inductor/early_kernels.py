"""Kernels that Triton compiles while Inductor writes the next ones.

Inductor's own processes do so too.  What a kernel is compiled for is then what Inductor
says of its arguments; the program may know more or less, and then compiles it again.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch._inductor.codegen.wrapper import KernelCallLine

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.early_kernels import compile_early
from wrapperir.ir import KernelDefinitionLine


def begin_compiling(definition: KernelDefinitionLine, call: KernelCallLine) -> None:
    """Begin to compile a Triton kernel that a GPU runs, with the numbers of a call."""
    if call.device.type == "cuda" and torch.version.hip is None:
        with suppress(DiagnosticError):  # emitting it says more
            compile_early(definition, multiples_of(call.triton_meta))


def multiples_of(triton_meta: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters that Inductor has found to be multiples of 16."""
    names = list(triton_meta["signature"])
    attributes: list[Mapping[tuple[int, ...], Any]] = triton_meta.get("configs") or [{}]
    return frozenset(names[position] for (position,) in attributes[0])
