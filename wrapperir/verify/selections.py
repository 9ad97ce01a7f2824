"""How multi-kernels pick: indices, hints, trees and records."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from wrapperir.diagnostics import Code
from wrapperir.ir.expr import Expr, ExprOp, Operation, Symbol
from wrapperir.ir.kernel import ScalarParameter
from wrapperir.ir.line import MultiKernelLine
from wrapperir.ir.selection import (
    SELECTIONS,
    ComputedChoice,
    ForcedChoice,
    Hint,
    NearestChoice,
    RecordedChoice,
)
from wrapperir.ir.types import DType
from wrapperir.verify.kernels import part_of
from wrapperir.verify.malformed import expect
from wrapperir.verify.state import State

Known: TypeAlias = Mapping[str, DType]
"""The names that expressions of a multi-kernel may use: scalar parameters and sizes."""


def known_names(line: MultiKernelLine) -> Known:
    """Return the names that expressions of a multi-kernel may use."""
    scalars = {p.name: p.dtype for p in line.parameters if isinstance(p, ScalarParameter)}
    return {**{size.name: DType.I64 for size in line.sizes}, **scalars}


def check_selection(state: State, line: MultiKernelLine, known: Known) -> None:
    """Check how a multi-kernel picks."""
    selection = line.selection
    expect(selection, SELECTIONS, "a selection")
    here, state.here = state.here, part_of(state, "selection")
    match selection:
        case ForcedChoice(index):
            _check_index(state, line, index)
        case RecordedChoice(index, times, device):
            expect(device, str, "the name of a device")
            _check_index(state, line, index)
            _check_times(state, line, times)
        case NearestChoice(hints):
            _check_hints(state, line, hints)
        case ComputedChoice(index, device):
            expect(device, str, "the name of a device")
            _check_tree(state, line, index, known)
        case _:
            pass
    state.here = here


def _check_index(state: State, line: MultiKernelLine, index: int) -> bool:
    """Report an index that no choice has; say whether one has it."""
    expect(index, int, "the index of a choice")
    if 0 <= index < len(line.choices):
        return True
    if line.choices:
        state.report(
            Code.CHOICE_INDEX,
            f"choice {index} is selected, but there are {len(line.choices)}",
            str(index),
        )
    return False


def _check_times(
    state: State, line: MultiKernelLine, times: tuple[float | None, ...]
) -> None:
    expect(times, tuple, "the times of choices")
    found = None
    if times and line.choices and len(times) != len(line.choices):
        found = f"there are {len(times)} times and {len(line.choices)} choices"
    for time in times:
        expect(time, (int, float, type(None)), "a time")
        if time is not None and not (math.isfinite(time) and time >= 0):
            found = found or f"{time} is no time"
    if found is not None:
        state.report(
            Code.RECORDED_TIMES,
            f"the times of the choices are not one for each: {found}",
            hint="give none, or one for each choice: microseconds, or none if it failed",
        )


def _check_hints(state: State, line: MultiKernelLine, hints: tuple[Hint, ...]) -> None:
    expect(hints, tuple, "hints")
    if not hints:
        state.report(
            Code.INVALID_HINT,
            "there is no hint, so that no choice is nearest",
            hint="give the sizes that a choice was made for, or write `select first`",
        )
    for number, hint in enumerate(hints):
        expect(hint, Hint, "a hint")
        for size in hint.sizes:
            expect(size, int, "a size")
        if not _check_index(state, line, hint.choice):
            return
        wanted, given = len(line.sizes), len(hint.sizes)
        found = None
        if given != wanted:
            found = f"has {given} sizes, and the multi-kernel names {wanted}"
        elif any(size < 0 for size in hint.sizes):
            found = f"has the size {min(hint.sizes)}"
        if found is not None:
            state.report(
                Code.INVALID_HINT,
                f"hint {number} {found}",
                hint="give a hint one size for each `size` line, none negative",
            )
            return


def _check_tree(state: State, line: MultiKernelLine, index: Expr, known: Known) -> None:
    """Check a decision tree; the first fault of a kind is reported."""
    names: tuple[str, ...] = ()
    if isinstance(index, Operation):
        facts = state.layouts.expressions.of(index)
        if facts.fault is not None:
            state.report_fault(facts.fault)
            return
        names = facts.symbols
    waiting, seen = [index], set[int]()
    while waiting:
        tree = waiting.pop()
        if type(tree) is int:
            if not _check_index(state, line, tree):
                return
        elif not isinstance(tree, Operation) or tree.op is not ExprOp.WHERE:
            expect(tree, (int, float, Symbol, Operation), "a decision tree")
            state.report(
                Code.INVALID_TREE,
                "a decision tree is a choice, or `where` of a condition and two such trees",
                hint="write the index of a choice where a branch ends",
            )
            return
        elif id(tree) not in seen:
            seen.add(id(tree))
            waiting += reversed(tree.args[1:])
    for name in names:
        if name not in known:
            state.report(
                Code.INVALID_TREE,
                f"the decision tree mentions {name}, which no call gives",
                name,
                hint="a tree sees the scalar parameters and sizes of its multi-kernel",
            )
