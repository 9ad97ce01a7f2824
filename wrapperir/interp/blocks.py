"""Operands, parameters, results and leaks of nested blocks."""

from collections.abc import Mapping, Sequence

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, FaultError
from wrapperir.interp.entry import mismatch, result_mismatch
from wrapperir.interp.fault import value_fault
from wrapperir.interp.frame import Frame, item_of
from wrapperir.interp.layout import number_as, value_of
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import Owner
from wrapperir.interp.streams import Event
from wrapperir.interp.values import OpaqueValue, RunValue, TensorValue, storages_of


def operand(argument: wir.KernelArgument, frame: Frame) -> RunValue:
    """Return the value of a name or expression.

    Raises:
        FaultError: it has none.
    """
    if not isinstance(argument, wir.BufferRef):
        return value_of(argument, frame.symbols)
    value = frame.value(argument.name)
    if isinstance(value, Event):
        problem = "is an event: it cannot be passed on"
        raise value_fault(Code.RUN_VALUE_KIND, argument.name, problem)
    return value


def result(argument: wir.Argument, frame: Frame) -> RunValue:
    """Return the value of a block's result or a program's output.

    Raises:
        FaultError: it has none, is a kind of argument that no result can be, or belongs to
            the program (a ``zero_per_program`` workspace).
    """
    match argument:
        case wir.BufferRef(name):
            value = frame.value(name)
            if isinstance(value, Pool | Event):
                kind = "a pool" if isinstance(value, Pool) else "an event"
                problem = f"is {kind}: it cannot be returned"
                raise value_fault(Code.RUN_VALUE_KIND, name, problem)
            if any(storage.owner is Owner.PROGRAM for storage in storages_of(value)):
                problem = "is the program's workspace: it cannot be returned"
                raise value_fault(Code.RUN_BORROWED, name, problem)
            return value
        case None:
            return OpaqueValue(None)
        case bool():
            return argument
        case int() | float() | wir.Symbol() | wir.Operation():
            return value_of(argument, frame.symbols)
        case str() | tuple() | wir.Device() | wir.TorchEnum() | wir.ComplexLiteral():
            message = f"a {type(argument).__name__} cannot be returned"
            raise FaultError(Code.RUN_VALUE_KIND, message)


def holds(argument: wir.KernelArgument | wir.Argument, frame: Frame) -> bool:
    """Return the truth of a predicate: a one-element bool tensor or a condition.

    Raises:
        FaultError: it is neither.
    """
    value = result(argument, frame)
    if isinstance(value, int | float):
        return bool(value)
    boolean = isinstance(value, TensorValue) and value.layout.dtype is wir.DType.BOOL
    if boolean and isinstance(argument, wir.BufferRef):
        return bool(item_of(frame.tensor(argument.name), argument.name))
    raise FaultError(Code.RUN_VALUE_KIND, "a predicate is a bool tensor or a condition")


def enter_block(
    block: wir.Block,
    arguments: Sequence[RunValue],
    constants: Mapping[str, RunValue],
    symbols: Mapping[str, wir.Number],
) -> Frame:
    """Return the frame that a block's lines begin with; its parameters are borrowed.

    Raises:
        FaultError: the arguments do not fit the parameters.
    """
    if len(arguments) != len(block.parameters):
        message = f"a block of {len(block.parameters)} parameters gets {len(arguments)}"
        raise FaultError(Code.RUN_BLOCK, message)
    frame = Frame(constants=constants, symbols=dict(symbols))
    for parameter, argument in zip(block.parameters, arguments, strict=True):
        value = _typed(parameter, argument)
        problem = mismatch(parameter.type, value, symbols)
        if problem is not None:
            raise value_fault(Code.RUN_BLOCK, parameter.name, problem)
        frame.borrow(parameter.name, value)
    return frame


def block_results(block: wir.Block, frame: Frame) -> tuple[RunValue, ...]:
    """Return the values of a block's results once its lines have run.

    Raises:
        FaultError: a result is not the block's own.
    """
    values = tuple(result(argument, frame) for argument in block.results)
    borrowed = frozenset(frame.borrowed_storages())
    for argument, value in zip(block.results, values, strict=True):
        if any(storage.within(borrowed) for storage in storages_of(value)):
            assert isinstance(argument, wir.BufferRef)
            problem = "is memory that the block was lent"
            raise value_fault(Code.RUN_BORROWED, argument.name, problem)
    return values


def typed_results(
    results: Sequence[wir.Result],
    values: Sequence[RunValue],
    symbols: Mapping[str, wir.Number],
) -> list[RunValue]:
    """Return a block's values as the results of its line, numbers in their types.

    Raises:
        FaultError: a value does not fit.
    """
    if len(values) != len(results):
        message = f"a block returns {len(values)} values for {len(results)} results"
        raise FaultError(Code.RUN_BLOCK, message)
    typed = list(map(_typed, results, values))
    for named, value in zip(results, typed, strict=True):
        problem = result_mismatch(named.type, value, symbols)
        if isinstance(value, Pool):
            problem = "cannot be a pool"
        if problem is not None:
            raise value_fault(Code.RUN_BLOCK, named.name, problem)
    return typed


def _typed(named: wir.BlockParameter | wir.Result, value: RunValue) -> RunValue:
    if not isinstance(named.type, wir.ScalarType) or not isinstance(value, int | float):
        return value
    number = number_as(named.type.dtype, value)
    if number is None:
        problem = f"needs a whole number, not {value}"
        raise value_fault(Code.RUN_BLOCK, named.name, problem)
    return number


def check_leaks(frame: Frame, returned: Sequence[wir.Argument]) -> None:
    """Check that every name that a block defined was dropped or is returned.

    Raises:
        DiagnosticError: a diagnostic for each leaked name, at the line that defined it.
    """
    names = frozenset(r.name for r in returned if isinstance(r, wir.BufferRef))
    leaks = [
        Diagnostic(
            Code.RUN_LEAK,
            f"%{name} is neither freed, reused nor returned",
            path=path,
            subject=f"%{name}",
        )
        for name, path in frame.leaks(names)
    ]
    if leaks:
        raise DiagnosticError(*leaks)
