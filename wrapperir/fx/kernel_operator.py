"""The two operators of ours that run kernels, in ``torch.ops.wrapperir``.

``call_kernel(kernel, written, read, numbers)`` runs a C++ or an opaque kernel:

- ``kernel`` is its key, see :mod:`wrapperir.fx.kernel_keys`;
- ``written`` are the tensors that it may write, and those that may share memory with one
  of these;
- ``read`` are the tensors that it only reads;
- ``numbers`` are the numbers that it is given by value.

``call_multi_kernel(kernel, written, read, numbers, deciding)`` runs one of a multi-kernel's
choices, of any language.  Which one is decided when it runs: by the sizes of the tensors
that it is given, and by ``deciding``, the numbers of the scalar parameters that the policy
names, before they are made numbers of the parameters' types; or by timing the choices.

Each list is in the order of the parameters.  An operator returns nothing, looks the key up
in :mod:`wrapperir.fx.kernel_registry`, and runs what it finds.  Its schema says that it
writes all of ``written`` and nothing else, so PyTorch traces, functionalises, exports and
compiles calls of it as of any operator.  For fake and meta tensors it does nothing.

Importing this module registers them.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from types import FunctionType
from typing import Any, cast

import torch
from torch.library import Library

from wrapperir.fx.kernel_registry import (
    KERNEL_FUNCTIONS,
    MULTI_KERNEL_FUNCTIONS,
    Number,
)

_DYNAMO = cast(Any, torch)._C._dynamo.eval_frame
_SCHEMAS = (
    "call_kernel(str kernel, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers) -> ()",
    "call_multi_kernel(str kernel, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers,"
    " Scalar[] deciding) -> ()",
)


def _run(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
) -> None:
    KERNEL_FUNCTIONS[kernel](written, read, numbers)


def _run_choice(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
    deciding: Sequence[Number],
) -> None:
    MULTI_KERNEL_FUNCTIONS[kernel](written, read, numbers, deciding)


def _pretend(kernel: str, *arguments: object) -> None:
    """Do nothing, which is all there is to see of a call where tensors have no data."""


# An operator lives as long as its library.
_LIBRARY = cast(Any, Library)("wrapperir", "FRAGMENT")  # torch gives it no types


def _register(schema: str, run: FunctionType) -> None:
    # What a compiler made of a graph runs under Dynamo, which would compile this function
    # and the launchers that it calls. Marked so, it passes over all, at no cost a call.
    skip = _DYNAMO._FrameAction.SKIP
    _DYNAMO.set_code_exec_strategy(run.__code__, _DYNAMO._FrameExecStrategy(skip, skip))
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY._register_fake(name, _pretend)


for _schema, _function in zip(_SCHEMAS, (_run, _run_choice), strict=True):
    _register(_schema, cast(FunctionType, _function))

call_kernel = torch.ops.wrapperir.call_kernel.default
"""The operator for a kernel; a graph that runs no program of ours can call it too."""
call_multi_kernel = torch.ops.wrapperir.call_multi_kernel.default
"""The operator for a multi-kernel whose choice only the run knows."""
