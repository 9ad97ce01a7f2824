"""Operators of ours, in ``torch.ops.wrapperir``; importing this module registers them.

``call_kernel(kernel, written, read, numbers)`` runs a C++ or an opaque kernel:

- ``kernel`` is its key, see :mod:`wrapperir.fx.kernel_keys`;
- ``written`` are the tensors that it may write, and tensors that may share memory with
  them;
- ``read`` are the tensors that it only reads;
- ``numbers`` are the numbers that it is given by value.

``call_multi_kernel(kernel, written, read, numbers, deciding)`` runs one of a multi-kernel's
choices, of any language.  The choice is made at run time: by the sizes of the tensors and
by ``deciding``, the numbers of the scalar parameters that the policy names, before they are
converted to the parameters' types; or by timing the choices.

Each list is in the order of the parameters.  Both return nothing, look the key up in
:mod:`wrapperir.fx.kernel_registry` and run what they find.  Their schemas say that they
write all of ``written`` and nothing else, so PyTorch traces, functionalises, exports and
compiles calls of them as of any operator.

``assert_alignment(tensor, bytes, message)`` checks an address.  For fake and meta tensors,
which have no memory, all three do nothing.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# pyright: reportUnknownVariableType=false

from collections.abc import Sequence
from types import FunctionType
from typing import Any, cast

import torch
from torch.fx.node import has_side_effect
from torch.library import Library

from wrapperir.fx.kernel_registry import KERNEL_FUNCTIONS, MULTI_KERNEL_FUNCTIONS
from wrapperir.ir import Number

_DYNAMO = cast(Any, torch)._C._dynamo.eval_frame
_PROFILER = cast(Any, torch).autograd.profiler
_RECORD = cast(Any, torch)._C._profiler._RecordFunctionFast


def _call_kernel(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
) -> None:
    if _PROFILER._is_profiler_enabled:
        with _RECORD(kernel.partition(":")[0]):
            KERNEL_FUNCTIONS[kernel](written, read, numbers)
        return
    KERNEL_FUNCTIONS[kernel](written, read, numbers)


def _call_multi_kernel(
    kernel: str,
    written: Sequence[torch.Tensor],
    read: Sequence[torch.Tensor],
    numbers: Sequence[Number],
    deciding: Sequence[Number],
) -> None:
    if _PROFILER._is_profiler_enabled:
        with _RECORD(kernel.partition(":")[0]):
            MULTI_KERNEL_FUNCTIONS[kernel](written, read, numbers, deciding)
        return
    MULTI_KERNEL_FUNCTIONS[kernel](written, read, numbers, deciding)


def _assert_alignment(tensor: torch.Tensor, bytes: int, message: str) -> None:
    if tensor.data_ptr() % bytes:
        raise AssertionError(message)


def _do_nothing(*_: object) -> None:
    """Stand for a call where tensors have no memory."""


_OPERATORS = {
    "call_kernel(str kernel, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers)"
    " -> ()": _call_kernel,
    "call_multi_kernel(str kernel, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers,"
    " Scalar[] deciding) -> ()": _call_multi_kernel,
    "assert_alignment(Tensor tensor, int bytes, str message) -> ()": _assert_alignment,
}
# An operator lives as long as its library.
_LIBRARY = cast(Any, Library)("wrapperir", "FRAGMENT")  # torch gives it no types


def _register(schema: str, run: FunctionType) -> None:
    # A compiled graph runs under Dynamo, which would compile this function
    # and the launchers that it calls. Marked so, it passes over all, at no cost a call.
    skip = _DYNAMO._FrameAction.SKIP
    _DYNAMO.set_code_exec_strategy(run.__code__, _DYNAMO._FrameExecStrategy(skip, skip))
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY._register_fake(name, _do_nothing)


for _schema, _function in _OPERATORS.items():
    _register(_schema, cast(FunctionType, _function))

call_kernel = torch.ops.wrapperir.call_kernel.default
"""The operator for a kernel; a graph that runs no program of ours can call it too."""
call_multi_kernel = torch.ops.wrapperir.call_multi_kernel.default
"""The operator for a multi-kernel whose choice is made at run time."""
assert_alignment = torch.ops.wrapperir.assert_alignment.default
"""The operator that checks an address; it has no result, so it must not be dead code."""
has_side_effect(assert_alignment)
