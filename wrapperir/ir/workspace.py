"""Workspaces: how their bytes begin, and what a kernel that uses one needs of it."""

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

    A kernel that needs no particular bytes takes any.  One that leaves its workspace
    dirty cannot share it with one that must find it as it left it.
    """
    if left is right or right is ZeroMode.UNINITIALIZED:
        return left
    return right if left is ZeroMode.UNINITIALIZED else None
