"""Checks of selection policies of multi-kernels."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.verify.kernels import part_of
from wrapperir.verify.state import State

Known: TypeAlias = Mapping[str, wir.DType]
"""The names that expressions of a multi-kernel may use: scalar parameters and sizes."""


def known_names(line: wir.MultiKernelLine) -> Known:
    """Return the names that expressions of a multi-kernel may use."""
    scalars = {
        p.name: p.dtype for p in line.parameters if isinstance(p, wir.ScalarParameter)
    }
    return {**{size.name: wir.DType.I64 for size in line.sizes}, **scalars}


def check_selection(state: State, line: wir.MultiKernelLine, known: Known) -> None:
    """Check the selection policy of a multi-kernel."""
    selection = line.selection
    here, state.here = state.here, part_of(state, "selection")
    match selection:
        case wir.ForcedChoice(index):
            _check_index(state, line, index)
        case wir.RecordedChoice(index, times):
            _check_index(state, line, index)
            _check_times(state, line, times)
        case wir.NearestChoice(hints):
            _check_hints(state, line, hints)
        case wir.ComputedChoice(index):
            _check_tree(state, line, index, known)
        case wir.FirstChoice() | wir.BenchmarkChoice():
            pass
    state.here = here


def _check_index(
    state: State, line: wir.MultiKernelLine, index: int, subject: str | None = None
) -> bool:
    """Report an index that no choice has; say whether a choice has it."""
    if 0 <= index < len(line.choices):
        return True
    if line.choices:
        last = len(line.choices) - 1
        state.report(
            Code.CHOICE_INDEX,
            f"there is no choice {index}: the multi-kernel has {last + 1}",
            subject or str(index),
            hint=f"choices count from 0: the last is {last}"
            if last
            else "choices count from 0: the only one is 0",
        )
    return False


def _check_times(
    state: State, line: wir.MultiKernelLine, times: tuple[float | None, ...]
) -> None:
    found = None
    if times and line.choices and len(times) != len(line.choices):
        found = f"there are {len(times)} times and {len(line.choices)} choices"
    for time in times:
        if time is not None and not _is_time(time):
            found = found or "one is negative, or no finite number in binary64"
    if found is not None:
        state.report(
            Code.RECORDED_TIMES,
            f"the times of the choices are not one for each: {found}",
            hint="give none, or one for each choice: microseconds, or none if it failed",
        )


def _is_time(time: float) -> bool:
    try:
        return math.isfinite(time) and time >= 0
    except OverflowError:  # a whole number that binary64 has no room for
        return False


LARGEST_HINT = 2**63 - 1
"""The largest size that a hint may have: that of a tensor."""


def _check_hints(
    state: State, line: wir.MultiKernelLine, hints: tuple[wir.Hint, ...]
) -> None:
    if not hints:
        state.report(
            Code.INVALID_HINT,
            "there is no hint, so that no choice is nearest",
            hint="give the sizes that a choice was made for, or write `select first`",
        )
    for number, hint in enumerate(hints):
        subject = f"{hint.choice}: ({', '.join(map(str, hint.sizes))})"
        if not _check_index(state, line, hint.choice, subject):
            return
        wanted, given = len(line.sizes), len(hint.sizes)
        found = None
        if given != wanted:
            found = f"has {given} sizes, and the multi-kernel names {wanted}"
        elif any(size < 0 for size in hint.sizes):
            found = f"has the size {min(hint.sizes)}"
        elif any(size > LARGEST_HINT for size in hint.sizes):
            found = "has a size above 2**63 - 1"
        if found is not None:
            state.report(
                Code.INVALID_HINT,
                f"hint {number}, counted from 0, {found}",
                subject,
                hint="give a hint one size for each `size` line, of 0 to 2**63 - 1",
            )
            return


def _check_tree(
    state: State, line: wir.MultiKernelLine, index: wir.Expr, known: Known
) -> None:
    """Check a decision tree; the first fault of a kind is reported."""
    names = state.expression_symbols(index)
    if isinstance(index, wir.Operation) and state.layouts.expressions.of(index).fault:
        return
    waiting, seen = [index], set[int]()
    while waiting:
        tree = waiting.pop()
        if type(tree) is int:
            if not _check_index(state, line, tree):
                return
        elif not isinstance(tree, wir.Operation) or tree.op is not wir.ExprOp.WHERE:
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
