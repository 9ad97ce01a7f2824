"""Lines with nested blocks in C++: written in place, as names are unique."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir.expr import Operation, Symbol
from wrapperir.ir.line import (
    Argument,
    Block,
    BlockParameter,
    BufferRef,
    ConditionalLine,
    KernelArgument,
    Result,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.types import CPU, ScalarType, TensorType
from wrapperir_cpp.arena import own_device
from wrapperir_cpp.homes import Indices, leaves
from wrapperir_cpp.numbers import format_converted

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines

MAX_NESTING = 16
"""Blocks inside blocks: as many as other emitters take."""


def emit_conditional(lines: "CppLines", line: ConditionalLine) -> None:
    """Append ``if`` and ``else`` with the lines of both blocks."""
    if _too_deep(lines, line.results):
        return
    writer, path = lines.writer, lines.path
    if isinstance(line.predicate, BufferRef):
        test = _format_truth(lines, line.predicate.name)
    else:
        test = lines.expressions.format_condition(line.predicate)
    targets = _define_results(lines, line.results)
    writer.emit_line("if ({}) {{", test)
    for name, block in (("on_true", line.on_true), ("on_false", line.on_false)):
        if name == "on_false":
            writer.emit_line("}} else {{")
        with writer.indented():
            lines.homes.enter()
            _bind_parameters(lines, block.parameters, line.operands)
            lines.emit_lines(block.lines, (*path, name, "lines"))
            _emit_results(lines, line.results, targets, block.results)
            lines.homes.leave()
    writer.emit_line("}}")


def emit_subgraph(lines: "CppLines", line: SubgraphCallLine) -> None:
    """Append the lines of the block."""
    if _too_deep(lines, line.results):
        return
    lines.writer.emit_comment(f"subgraph {line.name}")
    targets = _define_results(lines, line.results)
    lines.homes.enter()
    _bind_parameters(lines, line.body.parameters, line.operands)
    lines.emit_lines(line.body.lines, (*lines.path, "body", "lines"))
    _emit_results(lines, line.results, targets, line.body.results)
    lines.homes.leave()


def emit_while_loop(lines: "CppLines", line: WhileLoopLine) -> None:
    """Append a loop; the results are the loop's variables until it ends.

    What an iteration produced is dropped when the next has replaced it.  With no
    iteration, the results are copies of what was carried in.
    """
    if _too_deep(lines, line.results):
        return
    writer, path = lines.writer, lines.path
    given = _format_values(lines, line.carried, line.results, keeps=True)
    targets = _define_results(lines, line.results)
    _emit_assignments(lines, line.results, targets, given)
    count = len(line.results)
    first = lines.module.names.claim("first")
    writer.emit_line("bool {} = true;", first)
    writer.emit_line("while (true) {{")
    with writer.indented():
        for block in (line.condition, line.body):
            for parameter, result in zip(block.parameters, line.results, strict=False):
                _lend(lines, parameter, result.name)
        lines.homes.enter()
        _bind_parameters(lines, line.condition.parameters[count:], line.invariant)
        lines.emit_lines(line.condition.lines, (*path, "condition", "lines"))
        _emit_exit(lines, line.condition)
        lines.homes.enter()
        _bind_parameters(lines, line.body.parameters[count:], line.invariant)
        lines.emit_lines(line.body.lines, (*path, "body", "lines"))
        _emit_results(lines, line.results, targets, line.body.results, at_once=True)
        lines.homes.leave()
        writer.emit_line("{} = false;", first)
    writer.emit_line("}}")
    _emit_copies(lines, line, targets, first)


def _emit_copies(
    lines: "CppLines", line: WhileLoopLine, targets: Sequence[Fragment], first: Fragment
) -> None:
    tensors = [
        (target, result.type)
        for result, target in zip(line.results, targets, strict=False)
        if isinstance(result.type, TensorType)
    ]
    if not tensors:
        return
    lines.writer.emit_line("if ({}) {{", first)
    with lines.writer.indented():
        for slot, type in tensors:
            lines.memory.emit_copy(slot, type)
    lines.writer.emit_line("}}")


def _emit_exit(lines: "CppLines", condition: Block) -> None:
    (result,) = condition.results
    if not isinstance(result, BufferRef):
        lines.homes.leave()
        assert isinstance(result, int | float | Symbol | Operation)  # verified
        test = lines.expressions.format_condition(result)
        lines.writer.emit_line("if (!({})) break;", test)
        return
    go_on = lines.module.names.claim("go_on")
    lines.writer.emit_line("bool {} = {};", go_on, _format_truth(lines, result.name))
    borrowed = {parameter.name for parameter in condition.parameters}
    if result.name not in borrowed | lines.survey.constants:
        lines.homes.drop(result.name)
    lines.homes.leave()
    lines.writer.emit_line("if (!{}) break;", go_on)


def _format_truth(lines: "CppLines", name: str) -> Fragment:
    """Return the truth of a number or of the one element of a bool tensor."""
    type = lines.types[name]
    if isinstance(type, ScalarType):
        return lines.scalar(name)
    if isinstance(type, TensorType) and own_device(type.device) == CPU:
        return fragment("*at<bool>({})", lines.address(name))
    return fragment("item_bool({}, {})", lines.handle(name), lines.line_number())


def _bind_parameters(
    lines: "CppLines",
    parameters: Sequence[BlockParameter],
    operands: Sequence[KernelArgument],
) -> None:
    """Let parameters stand for their operands: they are borrowed, never dropped."""
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(parameter.type, ScalarType) and not _is_same(
            lines, operand, parameter.type
        ):
            number = _format_number(lines, operand, parameter.type)
            target = lines.define_scalar(parameter.name, kind_of(parameter.type.dtype))
            lines.types[parameter.name] = parameter.type
            lines.writer.emit_line("{} = {};", target, number)
        else:
            assert isinstance(operand, BufferRef)  # verified
            _lend(lines, parameter, operand.name)


def _is_same(lines: "CppLines", operand: KernelArgument, type: ScalarType) -> bool:
    """Say whether an operand is a number by name that needs no conversion."""
    if not isinstance(operand, BufferRef):
        return False
    given = lines.types[operand.name]
    return isinstance(given, ScalarType) and kind_of(given.dtype) is kind_of(type.dtype)


def _lend(lines: "CppLines", parameter: BlockParameter, operand: str) -> None:
    lines.types[parameter.name] = parameter.type
    if isinstance(parameter.type, ScalarType):
        lines.homes.put_scalar(parameter.name, lines.scalar(operand))
    else:
        lines.homes.lend(parameter.name, operand)


def _define_results(lines: "CppLines", results: Sequence[Result]) -> list[Fragment]:
    """Return the lvalues of results, one for each part of a tuple."""
    targets: list[Fragment] = []
    for result in results:
        lines.types[result.name] = result.type
        targets += [
            lines.define_scalar(result.name, kind_of(part.dtype), indices)
            if isinstance(part, ScalarType)
            else lines.memory.add_slot(result.name, part, indices)
            for indices, part in leaves(result.type)
        ]
    return targets


def _emit_results(
    lines: "CppLines",
    results: Sequence[Result],
    targets: Sequence[Fragment],
    values: Sequence[Argument],
    *,
    at_once: bool = False,
) -> None:
    """Append the moves of a block's results to those of its line.

    ``at_once`` says that a value may read a target.
    """
    given = _format_values(lines, values, results, keeps=False)
    _emit_assignments(lines, results, targets, given, at_once=at_once)
    for name in dict.fromkeys(v.name for v in values if isinstance(v, BufferRef)):
        lines.homes.drop(name)


def _format_values(
    lines: "CppLines",
    values: Sequence[Argument],
    results: Sequence[Result],
    *,
    keeps: bool,
) -> list[Fragment]:
    """Return numbers, and handles to be owned, one for each part of a tuple.

    With ``keeps`` they are further handles, otherwise moved where no other has them.
    """
    given: list[Fragment] = []
    handles: dict[int, Fragment] = {}
    for value, result in zip(values, results, strict=True):
        for indices, part in leaves(result.type):
            if isinstance(part, ScalarType):
                given.append(_format_number(lines, value, part, indices))
            else:
                assert isinstance(value, BufferRef)  # verified
                handle = lines.memory.handle(
                    lines.homes.element(value.name, indices), value.name
                )
                handles[len(given)] = handle
                given.append(handle)
    owned = lines.memory.format_owned(list(handles.values()), keeps=keeps)
    for index, handle in zip(handles, owned, strict=True):
        given[index] = handle
    return given


def _emit_assignments(
    lines: "CppLines",
    results: Sequence[Result],
    targets: Sequence[Fragment],
    values: Sequence[Fragment],
    *,
    at_once: bool = False,
) -> None:
    parts = [part for result in results for _, part in leaves(result.type)]
    numbers = sum(isinstance(part, ScalarType) for part in parts)
    late: list[tuple[Fragment, Fragment]] = []
    for part, target, value in zip(parts, targets, values, strict=True):
        if not isinstance(part, ScalarType):
            lines.writer.emit_line("{}.reset({});", target, value)
        elif at_once and numbers > 1:
            next = lines.module.names.claim("next")
            lines.writer.emit_line("const auto {} = {};", next, value)
            late.append((target, next))
        else:
            lines.writer.emit_line("{} = {};", target, value)
    for target, value in late:
        lines.writer.emit_line("{} = {};", target, value)


def _format_number(
    lines: "CppLines", value: Argument, type: ScalarType, indices: Indices = ()
) -> Fragment:
    """Return a number as one of a type."""
    kind = kind_of(type.dtype)
    if isinstance(value, int | float | Symbol | Operation):
        return lines.expressions.format_number(value, kind)
    assert isinstance(value, BufferRef)  # verified
    number = lines.homes.scalar(value.name, indices)
    given = dict(leaves(lines.types[value.name]))[indices]
    assert isinstance(given, ScalarType)
    return format_converted(number, kind_of(given.dtype), kind)


def _too_deep(lines: "CppLines", results: Sequence[Result]) -> bool:
    deep = sum(part == "lines" for part in lines.path) > MAX_NESTING
    if deep:
        lines.report(f"blocks are nested deeper than {MAX_NESTING}")
        _define_results(lines, results)
    return deep
