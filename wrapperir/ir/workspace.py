"""Zero modes of workspaces, and the needs of kernels that use one."""

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
    """The need of a multi-kernel's choice for a workspace.

    ``parameter`` is the position of the workspace among the multi-kernel's parameters.
    ``count`` is how many elements the choice uses, over the multi-kernel's scalar
    parameters and sizes; ``mode`` is how they must begin.
    """

    parameter: int
    count: Expr
    mode: ZeroMode


def combined_mode(left: ZeroMode, right: ZeroMode) -> ZeroMode | None:
    """Return a zero mode that meets both needs; ``None`` if there is none.

    Zeroed memory also suits a kernel that takes any bytes.  A kernel that must find zeros
    from its earlier call cannot share the workspace with a kernel that leaves other bytes.
    """
    if left is right:
        return left
    if ZeroMode.ZERO_PER_PROGRAM in (left, right):
        return None
    return ZeroMode.ZERO_ON_CALL
