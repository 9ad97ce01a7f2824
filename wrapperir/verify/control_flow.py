"""Checks of lines with nested blocks: operands, parameters, results and ownership."""

from collections.abc import Sequence
from typing import TypeAlias

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, LinePath
from wrapperir.verify.accesses import check_read
from wrapperir.verify.comparison import any_differ, difference, kind_of
from wrapperir.verify.lifetimes import check_leaks
from wrapperir.verify.names import (
    define,
    define_result,
    report_resource,
    use,
    use_expression,
)
from wrapperir.verify.regions import check_region
from wrapperir.verify.state import (
    DOES_FOR_ANY,
    MAX_NESTING,
    LineScope,
    Role,
    State,
    StorageFacts,
    ValueFacts,
)
from wrapperir.verify.symbols import check_one_element, check_stream


def use_result(state: State, argument: wir.Argument) -> ValueFacts | None:
    """Check a result of a block; return its value if it is a live name."""
    if isinstance(argument, wir.BufferRef):
        value = use(state, argument.name)
        if value is None:
            return None
        if isinstance(value.type, wir.PoolType | wir.EventType):
            report_resource(state, value, "a result")
            return None
        placement = value.storage.placement
        if value.storage.lender is not None:
            _report_borrowed(state, value, value.storage.lender)
            if value.storage.perhaps_in:
                value.poison()
        elif placement is not None and placement.lender is not None:
            lender = placement.lender
            state.report_value(
                value,
                Code.BORROWED_RESULT,
                f"%{value.name} lies in the pool %{lender.name}, which the block does not "
                "own",
                lender,
                hint="return a copy, or write the result to a buffer that is an operand",
            )
            value.poison()
        return value
    check_plain_result(state, argument)
    return None


def check_plain_result(state: State, argument: wir.Argument) -> None:
    """Check an output that is not a name: a scalar expression or none."""
    if argument is None or isinstance(argument, bool):
        return
    if isinstance(argument, int | float | wir.Symbol | wir.Operation):
        use_expression(state, argument)
        return
    state.report(
        Code.INVALID_RESULT,
        f"{argument!r} is neither a value, a scalar nor none",
        hint="return the parts of a tuple one by one",
    )


def _report_borrowed(state: State, value: ValueFacts, lender: ValueFacts) -> None:
    if lender.role is Role.PROGRAM_WORKSPACE:
        report_returned_workspace(state, value, lender)
        return
    what = "a parameter" if lender.role is Role.PARAMETER else "a constant"
    how = f"is {what}" if lender is value else f"is a view of {what}, %{lender.name}"
    if not value.storage.certain and lender is not value:
        how = f"is perhaps a view of {what}, %{lender.name}"
    state.report_value(
        value,
        Code.BORROWED_RESULT,
        f"%{value.name} {how}, which the block does not own",
        lender,
        hint="return a copy",
    )


def report_returned_workspace(state: State, value: ValueFacts, lender: ValueFacts) -> None:
    """Report that memory which the program keeps is given away."""
    state.report_value(
        value,
        Code.PROGRAM_WORKSPACE_DROPPED,
        f"%{value.name} is memory of %{lender.name}, which the program keeps between calls",
        lender,
    )


_Item: TypeAlias = tuple[wir.Argument, ValueFacts | None]
"""An operand or result of a block, and its value if it is a live name."""


def check_conditional(state: State, line: wir.ConditionalLine) -> None:
    """Check a conditional and both of its blocks."""
    _check_predicate(state, line.predicate)
    operands = _operands(state, line.operands)
    for attribute, block in (("on_true", line.on_true), ("on_false", line.on_false)):
        returned = _check_block(state, block, attribute, operands)
        _check_results(state, returned, line.results, attribute)
    _define_results(state, line.results)


def check_while_loop(state: State, line: wir.WhileLoopLine) -> None:
    """Check a loop, its condition and its body."""
    operands = _operands(state, (*line.carried, *line.invariant))
    count = len(line.carried)
    carried, last = operands[:count], line.results[:count]
    wanted = 2 * count if line.stacked else count
    if len(line.results) != wanted:
        state.report(
            Code.CARRIED_TYPES,
            f"the loop carries {count} values and defines {len(line.results)}"
            + (f", not {wanted} with their stacks" if line.stacked else ""),
        )
    for operand, result in zip(carried, last, strict=False):
        found = _difference(state, operand, result.type)
        if found is not None:
            state.report(
                Code.CARRIED_TYPES,
                f"%{result.name} is declared otherwise than what the loop carries: {found}",
                f"%{result.name}",
            )
    if line.stacked:
        for result, stack in zip(last, line.results[count:], strict=False):
            _check_stack(state, result, stack)
    kept = count if line.stacked else 0
    returned = _check_block(state, line.condition, "condition", operands, kept=kept)
    _check_condition(state, returned)
    returned = _check_block(state, line.body, "body", operands, kept=kept)
    if len(line.results) == wanted:
        _check_results(state, returned, last, "body")
    _define_results(state, line.results)


def _check_stack(state: State, result: wir.Result, stack: wir.Result) -> None:
    """Check the stack of the values that ``result`` has after each iteration."""
    type, whole = result.type, stack.type
    found: str | None = "only tensors are stacked"
    if isinstance(type, wir.TensorType) and isinstance(whole, wir.TensorType):
        count = whole.size[0] if whole.size else 0
        wanted = wir.tensor(type.dtype, (count, *type.size), device=type.device)
        found = difference(state.layouts, wanted, whole)
        if found is None and any_differ(state.layouts, wanted.stride, whole.stride):
            found = "it is not row-major"
        if not isinstance(count, wir.Symbol) or count.name in state.symbols:
            found = "its first size is the number of iterations: a symbol of its own"
    if found is not None:
        state.report(
            Code.CARRIED_TYPES,
            f"%{stack.name} is declared otherwise than a stack of %{result.name}: {found}",
            f"%{stack.name}",
            hint="define the symbol in the next line, as `size` of the stack",
        )


def check_subgraph_call(state: State, line: wir.SubgraphCallLine) -> None:
    """Check a call of a named block."""
    _check_named_block(state, line)


def check_graph_region(state: State, line: wir.GraphRegionLine) -> None:
    """Check a graph region as a call of its block, then by its own rules."""
    check_stream(state, line.device, line.stream)
    _check_named_block(state, line, any_stream=True)
    check_region(state, line)


def _check_named_block(
    state: State,
    line: wir.SubgraphCallLine | wir.GraphRegionLine,
    *,
    any_stream: bool = False,
) -> None:
    state.check_identifier("the name", line.name, "@")
    operands = _operands(state, line.operands)
    returned = _check_block(state, line.body, "body", operands, any_stream=any_stream)
    _check_results(state, returned, line.results, "body")
    _define_results(state, line.results)


def _check_predicate(state: State, predicate: wir.KernelArgument) -> None:
    if not isinstance(predicate, wir.BufferRef):
        use_expression(state, predicate)
        return
    value = use(state, predicate.name)
    if value is not None:
        _check_truth(state, value)


def _check_truth(state: State, value: ValueFacts) -> None:
    """Check a tensor that the host reads a condition from."""
    type = value.type
    if not isinstance(type, wir.TensorType) or type.dtype is not wir.DType.BOOL:
        state.report_value(
            value,
            Code.INVALID_PREDICATE,
            f"%{value.name} is neither a bool tensor nor a condition",
        )
    else:
        check_one_element(state, value)
        check_read(state, value, "the condition reads")


def _operands(state: State, arguments: Sequence[wir.KernelArgument]) -> list[_Item]:
    operands: list[_Item] = []
    for argument in arguments:
        value = None
        if isinstance(argument, wir.BufferRef):
            value = use(state, argument.name)
            if value is not None and isinstance(value.type, wir.EventType):
                report_resource(state, value, "an operand of a block")
                value = None
        else:
            use_expression(state, argument)
        operands.append((argument, value))
    return operands


def _difference(state: State, item: _Item, type: wir.ValueType) -> str | None:
    """Return how an operand or result certainly differs from its declared type."""
    argument, value = item
    if value is not None:
        return difference(state.layouts, value.type, type)
    if argument is None:
        return None if isinstance(type, wir.OpaqueType) else f"none and {kind_of(type)}"
    is_scalar = isinstance(argument, int | float | wir.Symbol | wir.Operation)
    if is_scalar and not isinstance(type, wir.ScalarType):
        return f"a scalar and {kind_of(type)}"
    return None


def _check_block(
    state: State,
    block: wir.Block,
    attribute: str,
    operands: list[_Item],
    *,
    any_stream: bool = False,
    kept: int = 0,
) -> list[_Item] | None:
    """Walk a block in a scope of its own; return its results, ``None`` if not walked.

    It may not write to its first ``kept`` parameters.
    """
    outer = state.scope
    path = (*outer.path, outer.index, attribute)
    if outer.depth >= MAX_NESTING:
        state.report(Code.NESTING, f"blocks are nested more than {MAX_NESTING} deep")
        return None
    if len(block.parameters) != len(operands):
        state.report(
            Code.BLOCK_PARAMETERS,
            f"the {_WORDS[attribute]} block has {len(block.parameters)} parameters for "
            f"{len(operands)} operands",
        )
    scope = LineScope((*path, "lines"), outer.depth + 1, any_stream=any_stream)
    state.scope = scope
    try:
        lent = _define_parameters(state, block.parameters, operands, path, kept)
        state.walk(block.lines)
        returned: list[_Item] = []
        for index, argument in enumerate(block.results):
            state.here = (*path, "results", index)
            returned.append((argument, use_result(state, argument)))
        state.here = None
        names = {value.name for _, value in returned if value is not None}
        check_leaks(state, scope, names)
        for storage, inner in lent:
            storage.written, storage.unwritten = inner.written, inner.unwritten
    finally:
        state.here = None
        for name in scope.symbols:
            state.ended_symbols[name] = state.symbols.pop(name)
        state.scope = outer
    return returned


_WORDS = {"on_true": "true", "on_false": "false", "condition": "condition", "body": "body"}


def _define_parameters(
    state: State,
    parameters: tuple[wir.BlockParameter, ...],
    operands: list[_Item],
    path: LinePath,
    kept: int,
) -> list[tuple[StorageFacts, StorageFacts]]:
    """Define the parameters of a block; return the storage of each operand and its copy.

    Operands that share a storage share the copy, too.
    """
    inner: dict[int, StorageFacts] = {}
    lent: list[tuple[StorageFacts, StorageFacts]] = []
    fits = len(parameters) == len(operands)
    for index, parameter in enumerate(parameters):
        state.here = (*path, "parameters", index)
        operand = operands[index] if fits else (wir.BufferRef(""), None)
        known = operand[1]
        outer = StorageFacts(workspace=DOES_FOR_ANY) if known is None else known.storage
        storage = inner.get(id(outer))
        if storage is None:
            storage = evolve(
                outer, lender=None, read_only=None, placement=None, perhaps_in=()
            )
            inner[id(outer)] = storage
            lent.append((outer, storage))
        value = define(state, parameter.name, parameter.type, Role.PARAMETER, storage)
        if isinstance(parameter.type, wir.EventType):
            report_resource(state, value, "a parameter of a block")
        storage.lender = storage.lender or value
        if outer.read_only is not None or index < kept:
            storage.read_only = storage.read_only or value
        found = _difference(state, operand, parameter.type)
        if found is not None:
            state.report(
                Code.BLOCK_PARAMETERS,
                f"%{parameter.name} is declared otherwise than its operand: {found}",
                f"%{parameter.name}",
            )
    state.here = None
    return lent


def _check_results(
    state: State,
    returned: list[_Item] | None,
    results: tuple[wir.Result, ...],
    attribute: str,
) -> None:
    if returned is None:
        return
    if len(returned) != len(results):
        state.report(
            Code.BLOCK_RESULTS,
            f"the {_WORDS[attribute]} block returns {len(returned)} values, "
            f"the line defines {len(results)}",
        )
        return
    for index, (item, result) in enumerate(zip(returned, results, strict=True)):
        found = _difference(state, item, result.type)
        if found is not None:
            state.report(
                Code.BLOCK_RESULTS,
                f"result {index} of the {_WORDS[attribute]} block is not what "
                f"%{result.name} is declared to be: {found}",
                None if item[1] is None else f"%{item[1].name}",
                path=(*state.place(), attribute, "results", index),
            )


def _check_condition(state: State, returned: list[_Item] | None) -> None:
    if returned is None:
        return
    if len(returned) != 1:
        state.report(
            Code.INVALID_PREDICATE,
            f"a condition block returns one value, not {len(returned)}",
        )
        return
    ((argument, value),) = returned
    path = (*state.place(), "condition", "results", 0)
    if value is not None:
        state.here = path
        _check_truth(state, value)
        state.here = None
    elif argument is None:
        state.report(
            Code.INVALID_PREDICATE,
            "a condition block returns a bool tensor or a condition, not none",
            path=path,
        )


def _define_results(state: State, results: tuple[wir.Result, ...]) -> None:
    for result in results:
        extent = result.type if isinstance(result.type, wir.TensorType) else None
        define_result(state, result.name, result.type, StorageFacts(extent=extent))
