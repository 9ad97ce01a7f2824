"""Lines with nested blocks in C++: written in place, as names are unique."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.arena import plain_device
from wrapperir.emit.number_kinds import kind_of
from wrapperir.ir import (
    CPU,
    Argument,
    Block,
    BlockParameter,
    BodyLine,
    BufferRef,
    ConditionalLine,
    KernelArgument,
    Operation,
    Result,
    ScalarType,
    SubgraphCallLine,
    Symbol,
    TensorType,
    WhileLoopLine,
)
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_converted
from wrapperir_cpp.memory import (
    add_slot,
    define_scalar,
    emit_copy,
    format_owned,
    tensor_address,
    tensor_handle,
)
from wrapperir_cpp.value_storage import Indices, leaves

EmitLines: TypeAlias = Callable[[Sequence[BodyLine], LinePath], None]
"""Appends the lines of a block; the path is their place in the program."""
MAX_NESTING = 16
"""Blocks inside blocks: as many as other emitters take."""


def emit_conditional(
    context: Context, line: ConditionalLine, emit_lines: EmitLines
) -> None:
    """Append ``if`` and ``else`` with the lines of both blocks."""
    if _too_deep(context, line.results):
        return
    writer, path = context.writer, context.path
    if isinstance(line.predicate, BufferRef):
        test = _format_truth(context, line.predicate.name)
    else:
        test = context.expressions.format_condition(line.predicate)
    targets = _define_results(context, line.results)
    writer.emit_line("if ({}) {{", test)
    for name, block in (("on_true", line.on_true), ("on_false", line.on_false)):
        if name == "on_false":
            writer.emit_line("}} else {{")
        with writer.indented():
            context.values.enter()
            _bind_parameters(context, block.parameters, line.operands)
            emit_lines(block.lines, (*path, name, "lines"))
            _emit_results(context, line.results, targets, block.results)
            context.values.leave()
    writer.emit_line("}}")


def emit_subgraph(context: Context, line: SubgraphCallLine, emit_lines: EmitLines) -> None:
    """Append the lines of the block."""
    if _too_deep(context, line.results):
        return
    context.writer.emit_comment(f"subgraph {line.name}")
    targets = _define_results(context, line.results)
    context.values.enter()
    _bind_parameters(context, line.body.parameters, line.operands)
    emit_lines(line.body.lines, (*context.path, "body", "lines"))
    _emit_results(context, line.results, targets, line.body.results)
    context.values.leave()


def emit_while_loop(context: Context, line: WhileLoopLine, emit_lines: EmitLines) -> None:
    """Append a loop; the results are the loop's variables until it ends.

    What an iteration produced is dropped when the next has replaced it.  With no
    iteration, the results are copies of what was carried in.
    """
    if _too_deep(context, line.results):
        return
    writer, path = context.writer, context.path
    given = _format_values(context, line.carried, line.results, keeps=True)
    targets = _define_results(context, line.results)
    _emit_assignments(context, line.results, targets, given)
    count = len(line.results)
    first = context.module.names.claim("first")
    writer.emit_line("bool {} = true;", first)
    writer.emit_line("while (true) {{")
    with writer.indented():
        for block in (line.condition, line.body):
            for parameter, result in zip(block.parameters, line.results, strict=False):
                _lend(context, parameter, result.name)
        context.values.enter()
        _bind_parameters(context, line.condition.parameters[count:], line.invariant)
        emit_lines(line.condition.lines, (*path, "condition", "lines"))
        _emit_exit(context, line.condition)
        context.values.enter()
        _bind_parameters(context, line.body.parameters[count:], line.invariant)
        emit_lines(line.body.lines, (*path, "body", "lines"))
        _emit_results(context, line.results, targets, line.body.results, at_once=True)
        context.values.leave()
        writer.emit_line("{} = false;", first)
    writer.emit_line("}}")
    _emit_copies(context, line, targets, first)


def _emit_copies(
    context: Context, line: WhileLoopLine, targets: Sequence[Fragment], first: Fragment
) -> None:
    tensors = [
        (target, result.type)
        for result, target in zip(line.results, targets, strict=False)
        if isinstance(result.type, TensorType)
    ]
    if not tensors:
        return
    context.writer.emit_line("if ({}) {{", first)
    with context.writer.indented():
        for slot, type in tensors:
            emit_copy(context, slot, type)
    context.writer.emit_line("}}")


def _emit_exit(context: Context, condition: Block) -> None:
    (result,) = condition.results
    if not isinstance(result, BufferRef):
        context.values.leave()
        assert isinstance(result, int | float | Symbol | Operation)  # verified
        test = context.expressions.format_condition(result)
        context.writer.emit_line("if (!({})) break;", test)
        return
    go_on = context.module.names.claim("go_on")
    context.writer.emit_line("bool {} = {};", go_on, _format_truth(context, result.name))
    borrowed = {parameter.name for parameter in condition.parameters}
    if result.name not in borrowed | context.facts.constants:
        context.values.drop(result.name)
    context.values.leave()
    context.writer.emit_line("if (!{}) break;", go_on)


def _format_truth(context: Context, name: str) -> Fragment:
    """Return the truth of a number or of the one element of a bool tensor."""
    type = context.facts.types[name]
    if isinstance(type, ScalarType):
        return context.values.scalar(name)
    if isinstance(type, TensorType) and plain_device(type.device) == CPU:
        return fragment("*at<bool>({})", tensor_address(context, name))
    return fragment(
        "item_bool({}, {})", tensor_handle(context, name), context.line_number()
    )


def _bind_parameters(
    context: Context,
    parameters: Sequence[BlockParameter],
    operands: Sequence[KernelArgument],
) -> None:
    """Let parameters stand for their operands: they are borrowed, never dropped."""
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(parameter.type, ScalarType) and not _is_same(
            context, operand, parameter.type
        ):
            number = _format_number(context, operand, parameter.type)
            target = define_scalar(context, parameter.name, kind_of(parameter.type.dtype))
            context.writer.emit_line("{} = {};", target, number)
        else:
            assert isinstance(operand, BufferRef)  # verified
            _lend(context, parameter, operand.name)


def _is_same(context: Context, operand: KernelArgument, type: ScalarType) -> bool:
    """Say whether an operand is a number by name that needs no conversion."""
    if not isinstance(operand, BufferRef):
        return False
    given = context.facts.types[operand.name]
    return isinstance(given, ScalarType) and kind_of(given.dtype) is kind_of(type.dtype)


def _lend(context: Context, parameter: BlockParameter, operand: str) -> None:
    if isinstance(parameter.type, ScalarType):
        context.values.put_scalar(parameter.name, context.values.scalar(operand))
    else:
        context.values.lend(parameter.name, operand)


def _define_results(context: Context, results: Sequence[Result]) -> list[Fragment]:
    """Return the lvalues of results, one for each part of a tuple."""
    targets: list[Fragment] = []
    for result in results:
        targets += [
            define_scalar(context, result.name, kind_of(part.dtype), indices)
            if isinstance(part, ScalarType)
            else add_slot(context, result.name, part, indices)
            for indices, part in leaves(result.type)
        ]
    return targets


def _emit_results(
    context: Context,
    results: Sequence[Result],
    targets: Sequence[Fragment],
    values: Sequence[Argument],
    *,
    at_once: bool = False,
) -> None:
    """Append the moves of a block's results to those of its line.

    ``at_once`` says that a value may read a target.
    """
    given = _format_values(context, values, results, keeps=False)
    _emit_assignments(context, results, targets, given, at_once=at_once)
    for name in dict.fromkeys(v.name for v in values if isinstance(v, BufferRef)):
        context.values.drop(name)


def _format_values(
    context: Context,
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
                given.append(_format_number(context, value, part, indices))
            else:
                assert isinstance(value, BufferRef)  # verified
                handle = tensor_handle(context, value.name, indices)
                handles[len(given)] = handle
                given.append(handle)
    owned = format_owned(context, list(handles.values()), keeps=keeps)
    for index, handle in zip(handles, owned, strict=True):
        given[index] = handle
    return given


def _emit_assignments(
    context: Context,
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
            context.writer.emit_line("{}.reset({});", target, value)
        elif at_once and numbers > 1:
            next = context.module.names.claim("next")
            context.writer.emit_line("const auto {} = {};", next, value)
            late.append((target, next))
        else:
            context.writer.emit_line("{} = {};", target, value)
    for target, value in late:
        context.writer.emit_line("{} = {};", target, value)


def _format_number(
    context: Context, value: Argument, type: ScalarType, indices: Indices = ()
) -> Fragment:
    """Return a number as one of a type."""
    kind = kind_of(type.dtype)
    if isinstance(value, int | float | Symbol | Operation):
        return context.expressions.format_number(value, kind)
    assert isinstance(value, BufferRef)  # verified
    number = context.values.scalar(value.name, indices)
    given = dict(leaves(context.facts.types[value.name]))[indices]
    assert isinstance(given, ScalarType)
    return format_converted(number, kind_of(given.dtype), kind)


def _too_deep(context: Context, results: Sequence[Result]) -> bool:
    deep = sum(part == "lines" for part in context.path) > MAX_NESTING
    if deep:
        context.report(f"blocks are nested deeper than {MAX_NESTING}")
        _define_results(context, results)
    return deep
