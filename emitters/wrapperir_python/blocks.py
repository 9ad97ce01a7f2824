"""Lines with nested blocks in Python: written in place, as names are unique."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wrapperir.emit.fragment import fragment, joined
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
from wrapperir.ir.types import PoolType, TensorType

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines

MAX_NESTING = 16
"""Blocks inside blocks; Python compiles at most 20 nested loops and ``with``."""


def emit_conditional(lines: "PythonLines", line: ConditionalLine) -> None:
    """Append ``if`` and ``else`` with the lines of both blocks."""
    if _too_deep(lines):
        return
    predicate = line.predicate
    if isinstance(predicate, BufferRef):
        test = lines.values[predicate.name]
    else:
        test = lines.expressions.format_condition(predicate)
    path = lines.path
    for keyword, name, block in (
        (fragment("if {}:", test), "on_true", line.on_true),
        (fragment("else:"), "on_false", line.on_false),
    ):
        lines.writer.emit_line("{}", keyword)
        with lines.writer.indented():
            lines.pools.enter()
            _bind_parameters(lines, block.parameters, line.operands)
            lines.emit_lines(block.lines, (*path, name, "lines"))
            _emit_results(lines, line.results, block)
            lines.pools.leave()
            if not line.results:
                lines.writer.emit_line("pass")
    _record_results(lines, line.results)


def emit_subgraph(lines: "PythonLines", line: SubgraphCallLine) -> None:
    """Append the lines of the block."""
    if _too_deep(lines):
        return
    lines.writer.emit_comment(f"subgraph {line.name}")
    lines.pools.enter()
    _bind_parameters(lines, line.body.parameters, line.operands)
    lines.emit_lines(line.body.lines, (*lines.path, "body", "lines"))
    _emit_results(lines, line.results, line.body)
    lines.pools.leave()
    _record_results(lines, line.results)


def emit_while_loop(lines: "PythonLines", line: WhileLoopLine) -> None:
    """Append a loop; the results are the loop's variables until it ends.

    What an iteration produced is dropped when the next has replaced it.  With no
    iteration, the results are copies of what was carried in.
    """
    if _too_deep(lines):
        return
    writer, path = lines.writer, lines.path
    results = [lines.values[result.name] for result in line.results]
    count = len(results)
    _record_results(lines, line.results)
    for given, result, operand in zip(line.results, results, line.carried, strict=True):
        writer.emit_line("{} = {}", result, lines.format_operand(operand, given.type))
    first = lines.module.names.claim("first")
    writer.emit_line("{} = True", first)
    writer.emit_line("while True:")
    with writer.indented():
        for block in (line.condition, line.body):
            for parameter, result in zip(block.parameters[:count], results, strict=True):
                lines.values[parameter.name] = result
                lines.types[parameter.name] = parameter.type
        lines.pools.enter()
        _bind_parameters(lines, line.condition.parameters[count:], line.invariant)
        lines.emit_lines(line.condition.lines, (*path, "condition", "lines"))
        _emit_exit(lines, line.condition)
        lines.pools.enter()
        _bind_parameters(lines, line.body.parameters[count:], line.invariant)
        lines.emit_lines(line.body.lines, (*path, "body", "lines"))
        _emit_results(lines, line.results, line.body)
        lines.pools.leave()
        writer.emit_line("{} = False", first)
    tensors = [
        (result, parameter.type)
        for result, parameter in zip(results, line.body.parameters, strict=False)
        if isinstance(parameter.type, TensorType)
    ]
    if tensors:
        writer.emit_line("if {}:", first)
    with writer.indented():
        for result, type in tensors:
            copy = lines.format_allocation(type)
            writer.emit_line("{} = {}.copy_({})", result, copy, result)


def _emit_exit(lines: "PythonLines", condition: Block) -> None:
    (result,) = condition.results
    if not isinstance(result, BufferRef):
        lines.pools.leave()
        assert isinstance(result, int | float | Symbol | Operation)  # verified
        test = lines.expressions.format_condition(result)
        lines.writer.emit_line("if not ({}): break", test)
        return
    go_on = lines.module.names.claim("go_on")
    lines.writer.emit_line("{} = bool({})", go_on, lines.values[result.name])
    _emit_drops(lines, condition)
    lines.pools.leave()
    lines.writer.emit_line("if not {}: break", go_on)


def _bind_parameters(
    lines: "PythonLines",
    parameters: Sequence[BlockParameter],
    operands: Sequence[KernelArgument],
) -> None:
    """Let parameters stand for their operands: they are borrowed, never dropped."""
    for parameter, operand in zip(parameters, operands, strict=True):
        if isinstance(parameter.type, PoolType):
            assert isinstance(operand, BufferRef)  # verified
            lines.pools.lend(parameter.name, operand.name)
            continue
        lines.types[parameter.name] = parameter.type
        value = lines.format_operand(operand, parameter.type)
        if isinstance(operand, BufferRef) and value == lines.values[operand.name]:
            lines.values[parameter.name] = value
        else:
            lines.writer.emit_line("{} = {}", lines.values[parameter.name], value)


def _emit_results(lines: "PythonLines", results: Sequence[Result], block: Block) -> None:
    """Append the assignment of a block's results, and drop the block's names."""
    if not results:
        return
    targets = [lines.values[result.name] for result in results]
    values = [
        lines.format_operand(value, result.type)
        for value, result in zip(block.results, results, strict=True)
    ]
    lines.writer.emit_line("{} = {}", joined(", ", targets), joined(", ", values))
    _emit_drops(lines, block)


def _emit_drops(lines: "PythonLines", block: Block) -> None:
    borrowed = {parameter.name for parameter in block.parameters} | lines.constants
    names = dict.fromkeys(_names(block.results))
    own = [name for name in names if name not in borrowed]
    lines.emit_moved(own)
    dropped = [lines.values[name] for name in own if name not in lines.pools]
    if dropped:
        lines.writer.emit_line("del {}", joined(", ", dropped))


def _names(results: Sequence[Argument]) -> list[str]:
    return [result.name for result in results if isinstance(result, BufferRef)]


def _record_results(lines: "PythonLines", results: Sequence[Result]) -> None:
    for result in results:
        lines.types[result.name] = result.type


def _too_deep(lines: "PythonLines") -> bool:
    deep = sum(part == "lines" for part in lines.path) > MAX_NESTING
    if deep:
        lines.report(f"blocks are nested deeper than {MAX_NESTING}")
    return deep
