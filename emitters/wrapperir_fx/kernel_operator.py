"""The one operator of ours that runs kernels: ``torch.ops.wrapperir.call_kernel``.

``call_kernel(kernel, written, read, numbers)`` runs a C++ or an opaque kernel:

- ``kernel`` is its key, see :mod:`wrapperir_fx.kernel_keys`;
- ``written`` are the tensors that it may write, and those that may share memory with one
  of these;
- ``read`` are the tensors that it only reads;
- ``numbers`` are the numbers that it is given by value.

Each list is in the order of the kernel's parameters.  The operator returns nothing, looks
the key up in :mod:`wrapperir_fx.kernel_registry`, and runs what it finds.  Its schema says
that it writes all of ``written`` and nothing else, so PyTorch traces, functionalises,
exports and compiles calls of it as of any operator.  For fake and meta tensors it does
nothing.

Importing this module registers it.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.library import Library

from wrapperir_fx.kernel_registry import KERNEL_FUNCTIONS, Number

_DYNAMO = cast(Any, torch)._C._dynamo.eval_frame
_SCHEMA = (
    "call_kernel(str kernel, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers) -> ()"
)


def _run(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
) -> None:
    KERNEL_FUNCTIONS[kernel](written, read, numbers)


# What a compiler made of a graph runs under Dynamo, which would compile this function and
# the launchers that it calls. Marked so, it passes over them all, and at no cost a call.
_DYNAMO.set_code_exec_strategy(
    _run.__code__,
    _DYNAMO._FrameExecStrategy(_DYNAMO._FrameAction.SKIP, _DYNAMO._FrameAction.SKIP),
)


def _pretend(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
) -> None:
    """Do nothing, which is all there is to see of a call where tensors have no data."""


# An operator lives as long as its library.
_LIBRARY = cast(Any, Library)("wrapperir", "FRAGMENT")  # torch gives it no types
_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("call_kernel", _run, "CompositeExplicitAutograd")
_LIBRARY._register_fake("call_kernel", _pretend)

call_kernel = torch.ops.wrapperir.call_kernel.default
"""The operator; a graph that runs no program of ours can call it too."""
