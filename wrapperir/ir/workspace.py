"""Workspaces: how their bytes begin, and what kernels that use one need of it."""

from enum import StrEnum

from attrs import frozen

from wrapperir.ir.expr import Expr


class ZeroMode(StrEnum):
    """How the bytes of a workspace begin."""

    UNINITIALIZED = "uninitialized"
    ZERO_ON_CALL = "zero_on_call"
    ZERO_PER_PROGRAM = "zero_per_program"


@frozen
class WorkspaceNeed:
    """What a choice of a multi-kernel needs of a workspace that it is given.

    ``parameter`` is the position of the workspace among the multi-kernel's parameters.
    ``count`` is how many elements the choice uses, over the multi-kernel's scalar
    parameters and sizes; ``mode`` is how they must begin.
    """

    parameter: int
    count: Expr
    mode: ZeroMode


def combined_mode(left: ZeroMode, right: ZeroMode) -> ZeroMode | None:
    """Return the mode of a workspace that does for both; ``None`` where none does.

    What must begin zero does for a kernel that needs no particular bytes.  A kernel that
    must find the workspace as it left it, at an earlier call, can share it with none that
    may leave it otherwise.
    """
    if left is right:
        return left
    if ZeroMode.ZERO_PER_PROGRAM in (left, right):
        return None
    return ZeroMode.ZERO_ON_CALL
