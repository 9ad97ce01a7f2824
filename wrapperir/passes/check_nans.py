"""Check that what kernels read and write is finite."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeAlias

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.passes.open_graph_regions import open_graph_regions


def check_nans(program: wir.Program) -> wir.Program:
    """Return the program with checks around each kernel call that its numbers are finite.

    Before::

        kernel_definition @scale cpp(x: read f32*, y: write f32*, n: i64) {
          entry = scale
          source {
            | extern "C" void scale(const float* x, float* y, const int64_t n);
          }
        }

        program @main(%x: f32[8]) {
          %buf0 = allocate f32[8]
          kernel_call @scale(%x, %buf0, 8)
          return %buf0
        }

    After::

        kernel_definition @scale cpp(x: read f32*, y: write f32*, n: i64) {
          entry = scale
          source {
            | extern "C" void scale(const float* x, float* y, const int64_t n);
          }
        }

        program @main(%x: f32[8]) {
          %buf0 = allocate f32[8]
          assert_not_nan %x "input x of @scale is not finite"
          kernel_call @scale(%x, %buf0, 8)
          assert_not_nan %buf0 "output y of @scale is not finite"
          return %buf0
        }

    Floating-point and complex tensors that a call reads are checked before it, and the
    ones that it writes after it.  A multi-kernel reads and writes what any of its choices
    does.  A tensor is not checked twice next to the same call.  Workspaces are not
    checked: most of their elements hold nothing.  An output is checked as a whole, so a
    kernel that writes only a part of new memory fails the check.  Graph regions are opened,
    as the host cannot check a tensor in a replay.  Linear in the program.
    """
    program = open_graph_regions(program)
    kernels = {line.name: _checks(line) for line in program.definitions}
    return evolve(program, lines=_checked(program.lines, kernels, frozenset()))


_EFFECTS = LineEffects(None)
_Checks: TypeAlias = Sequence[tuple[int, wir.TensorParameter]]
"""The parameters whose arguments are checked, with their positions."""

_ChecksOfKernels: TypeAlias = Mapping[str, _Checks]


def _checks(line: wir.DefinitionLine) -> _Checks:
    choices = line.choices if isinstance(line, wir.MultiKernelLine) else ()
    workspaces = {need.parameter for choice in choices for need in choice.workspaces}
    return tuple(
        (position, parameter)
        for position, parameter in enumerate(wir.runtime_parameters(line.parameters))
        if isinstance(parameter, wir.TensorParameter)
        and _may_hold_nan(parameter.dtype)
        and position not in workspaces
    )


def _may_hold_nan(dtype: wir.DType) -> bool:
    """Say whether elements are numbers that a check can tell from NaN."""
    is_complex = dtype in (wir.DType.C64, wir.DType.C128)
    return is_complex or (dtype.is_float and dtype is not wir.DType.F4E2M1FN_X2)


def _checked(
    lines: Sequence[wir.BodyLine], kernels: _ChecksOfKernels, lent: Iterable[str]
) -> tuple[wir.BodyLine, ...]:
    """Return lines with checks; ``lent`` are the workspaces among a block's parameters."""
    workspaces = set(lent)
    made: list[wir.BodyLine] = []
    just_checked: set[str] = set()
    for index, line in enumerate(lines):
        if isinstance(line, wir.AssertNotNanLine):
            just_checked.add(line.buffer)
            made.append(line)
            continue
        if isinstance(line, wir.KernelCallLine):
            checks = kernels.get(line.kernel, ())
            made += _asserts(line, checks, False, (workspaces, just_checked))
            made.append(line)
            following = _following(lines, index + 1)
            after = _asserts(line, checks, True, (workspaces, following))
            made += after
            just_checked = {check.buffer for check in after}
            continue
        just_checked = set()
        effects = _EFFECTS.visit(line)
        for value in effects.definitions:
            is_view = (
                workspaces
                and value.origin is not Origin.MOVED
                and not workspaces.isdisjoint((value.source, *value.may_alias))
            )
            if value.workspace is not None or is_view:
                workspaces.add(value.name)
        if effects.blocks:
            line = _with_blocks(line, effects, kernels, workspaces)
        made.append(line)
    return tuple(made)


def _following(lines: Sequence[wir.BodyLine], index: int) -> set[str]:
    """Return the names that the asserts from ``index`` on check."""
    found: set[str] = set()
    while index < len(lines):
        line = lines[index]
        if not isinstance(line, wir.AssertNotNanLine):
            break
        found.add(line.buffer)
        index += 1
    return found


def _asserts(
    line: wir.KernelCallLine,
    checks: _Checks,
    outputs: bool,
    without: Sequence[Set[str]],
) -> list[wir.AssertNotNanLine]:
    """Return a check for each name that a call writes, or reads, ``without`` some."""
    made: dict[str, wir.AssertNotNanLine] = {}
    what = "output" if outputs else "input"
    for position, parameter in checks:
        argument, access = line.arguments[position], parameter.access
        if not isinstance(argument, wir.BufferRef):
            continue
        if any(argument.name in names for names in without):
            continue
        if (access.writes if outputs else access.reads) and argument.name not in made:
            made[argument.name] = wir.AssertNotNanLine(
                buffer=argument.name,
                message=f"{what} {parameter.name} of @{line.kernel} is not finite",
                provenance=line.provenance,
            )
    return list(made.values())


def _with_blocks(
    line: wir.BodyLine, effects: Effects, kernels: _ChecksOfKernels, workspaces: set[str]
) -> wir.BodyLine:
    lent = iter(
        [
            parameter.name
            for parameter, operand in zip(
                nested.block.parameters, nested.operands, strict=True
            )
            if isinstance(operand, wir.BufferRef) and operand.name in workspaces
        ]
        for nested in effects.blocks
    )
    return rewrite_blocks(
        line, lambda block: evolve(block, lines=_checked(block.lines, kernels, next(lent)))
    )
