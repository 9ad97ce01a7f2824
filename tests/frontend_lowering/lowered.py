"""Functions through the lowering, beside eager."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from wrapperir.emit import compile_program
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import LoweringStages, lower_to_program
from wrapperir.frontend.profile_marks import marking
from wrapperir.ir import ExternKernelLine
from wrapperir.verify import verify


def compiled(
    function: Callable[..., Any],
    kept: list[LoweringStages],
    *,
    emitter: str = "python",
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    """Return a function compiled through the lowering; ``kept`` gets the stages."""

    def compile(module: torch.fx.GraphModule, _: Sequence[Any]) -> Any:
        lowering = lower_to_program(module)
        kept.append(lowering)
        lowered = lowering.lowered
        assert verify(lowered.program) == ()
        with unset_fake_temporarily():
            loaded = compile_program(
                lowered.program, emitter=emitter, constants=lowered.constants
            )
        return marking(loaded, "")

    backend: Any = aot_autograd(
        fw_compiler=compile, bw_compiler=compile, decompositions=dict(table())
    )
    torch._dynamo.reset()
    result: Callable[..., Any] = torch.compile(function, backend=backend, dynamic=dynamic)
    return result


def check(
    function: Callable[..., Any],
    *inputs: Any,
    calls: int | None = 0,
    dynamic: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[LoweringStages]:
    """Compare a function through the lowering with eager; return the stages.

    ``calls`` is the number of operators that are called, or ``None`` for any number.
    """
    kept: list[LoweringStages] = []
    given = pytree.tree_map(copied, inputs)
    expected = function(*inputs)
    found = compiled(function, kept, dynamic=dynamic)(*given)
    compare(found, expected, rtol, atol)
    compare(given, inputs, rtol, atol)
    if calls is not None:
        assert sum(map(called, kept)) == calls
    return kept


def compare(found: Any, expected: Any, rtol: float | None, atol: float | None) -> None:
    """Compare results in value, dtype and stride."""
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert a.stride() == b.stride() or 0 in b.shape
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if b.dtype.is_floating_point:
            zero = (a == 0) & (b == 0)
            assert torch.equal(a[zero].signbit(), b[zero].signbit()), (
                "zeros have other signs"
            )


def copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    copy.copy_(value.detach())
    return copy.requires_grad_(value.requires_grad)


def called(lowering: LoweringStages) -> int:
    """Return the number of operator calls in a program."""
    lines = lowering.lowered.program.lines
    return sum(isinstance(line, ExternKernelLine) for line in lines)
