"""Workspaces: how their bytes begin, and what kernels that use one need of it."""

from collections.abc import Iterable
from enum import StrEnum

from attrs import evolve, frozen

from wrapperir.ir.expr import Expr, ExprOp, Operation
from wrapperir.ir.types import Device, DType


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


def largest_count(counts: Iterable[Expr]) -> Expr:
    """Return the largest of some counts: a number, or a ``max`` with each of them once."""
    numbers: list[int] = []
    others: dict[Expr, None] = {}
    for count in counts:
        is_max = isinstance(count, Operation) and count.op is ExprOp.MAX
        for part in count.args if isinstance(count, Operation) and is_max else (count,):
            if isinstance(part, int):
                numbers.append(part)
            else:
                others[part] = None
    parts = (*others, *([max(numbers)] if numbers else []))
    return parts[0] if len(parts) == 1 else Operation(ExprOp.MAX, parts)


@frozen
class Workspace:
    """A workspace that a kernel asks for by a name: ``count`` elements of ``dtype``."""

    name: str
    count: Expr
    mode: ZeroMode
    dtype: DType
    device: Device


def merged_workspaces(wanted: Iterable[tuple[str, Workspace]]) -> tuple[Workspace, ...]:
    """Return one workspace for each name, which does for all choices that ask for it.

    ``wanted`` has the kernel of a choice and a workspace that it asks for.  The largest
    count is taken, and the mode that :func:`combined_mode` gives.

    Raises:
        ValueError: two choices ask for one of different element types or devices, or in
            modes that do not combine.
    """
    merged: dict[str, Workspace] = {}
    askers: dict[str, str] = {}
    counts: dict[str, list[Expr]] = {}
    for choice, workspace in wanted:
        name = workspace.name
        known = merged.setdefault(name, workspace)
        asker = askers.setdefault(name, choice)
        mode = combined_mode(known.mode, workspace.mode)
        for what, left, right in (
            ("of", known.dtype.value, workspace.dtype.value),
            ("on", str(known.device), str(workspace.device)),
            ("in mode", known.mode.value, None if mode else workspace.mode.value),
        ):
            if right is not None and left != right:
                raise ValueError(
                    f"the choices @{asker} and @{choice} cannot share the workspace "
                    f"{name}: it is {what} {left} for the one and {right} for the other"
                )
        assert mode is not None
        if mode is not known.mode:
            merged[name], askers[name] = evolve(known, mode=mode), choice
        counts.setdefault(name, []).append(workspace.count)
    return tuple(
        evolve(workspace, count=largest_count(counts[name]))
        for name, workspace in merged.items()
    )
