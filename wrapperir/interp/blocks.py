"""Operands, parameters, results and leaks of nested blocks."""

from collections.abc import Mapping, Sequence

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, LinePath
from wrapperir.interp.entry import mismatch, result_mismatch
from wrapperir.interp.fault import FaultError
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import number_as, value_of
from wrapperir.interp.pool import Pool
from wrapperir.interp.storage import Owner
from wrapperir.interp.streams import Event
from wrapperir.interp.symbols import item_of
from wrapperir.interp.values import OpaqueValue, RunValue, TensorValue, storages_of
from wrapperir.ir import (
    Argument,
    Block,
    BlockParameter,
    BufferRef,
    DType,
    KernelArgument,
    Number,
    Operation,
    Result,
    ScalarType,
    Symbol,
)


def operand(argument: KernelArgument, frame: Frame) -> RunValue:
    """Return the value of a name or expression.

    Raises:
        FaultError: it has none.
    """
    if not isinstance(argument, BufferRef):
        return value_of(argument, frame.symbols)
    value = frame.value(argument.name)
    if isinstance(value, Event):
        message = f"%{argument.name} is an event: it cannot be passed on"
        raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{argument.name}")
    return value


def result(argument: Argument, frame: Frame) -> RunValue:
    """Return the value of a block's result or a program's output.

    Raises:
        FaultError: it has none, is a kind of argument that no result can be, or belongs to
            the program (a ``zero_per_program`` workspace).
    """
    match argument:
        case BufferRef(name):
            value = frame.value(name)
            if isinstance(value, Pool | Event):
                kind = "a pool" if isinstance(value, Pool) else "an event"
                message = f"%{name} is {kind}: it cannot be returned"
                raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{name}")
            if any(storage.owner is Owner.PROGRAM for storage in storages_of(value)):
                message = f"%{name} is the program's workspace: it cannot be returned"
                raise FaultError(Code.RUN_BORROWED, message, subject=f"%{name}")
            return value
        case None:
            return OpaqueValue(None)
        case bool():
            return argument
        case int() | float() | Symbol() | Operation():
            return value_of(argument, frame.symbols)
        case _:
            message = f"a {type(argument).__name__} cannot be returned"
            raise FaultError(Code.RUN_VALUE_KIND, message)


def holds(argument: KernelArgument | Argument, frame: Frame) -> bool:
    """Return the truth of a predicate: a one-element bool tensor or a condition.

    Raises:
        FaultError: it is neither.
    """
    value = result(argument, frame)
    if isinstance(value, int | float):
        return bool(value)
    boolean = isinstance(value, TensorValue) and value.layout.dtype is DType.BOOL
    if boolean and isinstance(argument, BufferRef):
        return bool(item_of(frame.tensor(argument.name), argument.name))
    message = "a predicate is a bool tensor or a condition"
    raise FaultError(Code.RUN_VALUE_KIND, message)


def enter_block(
    block: Block,
    arguments: Sequence[RunValue],
    constants: Mapping[str, RunValue],
    symbols: Mapping[str, Number],
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
            message = f"%{parameter.name} {problem}"
            raise FaultError(Code.RUN_BLOCK, message, subject=f"%{parameter.name}")
        frame.borrow(parameter.name, value)
    return frame


def block_results(block: Block, frame: Frame) -> tuple[RunValue, ...]:
    """Return the values of a block's results once its lines have run.

    Raises:
        FaultError: a result is not the block's own.
    """
    values = tuple(result(argument, frame) for argument in block.results)
    borrowed = frozenset(frame.borrowed_storages())
    for argument, value in zip(block.results, values, strict=True):
        if any(storage.within(borrowed) for storage in storages_of(value)):
            assert isinstance(argument, BufferRef)
            message = f"%{argument.name} is memory that the block was lent"
            raise FaultError(Code.RUN_BORROWED, message, subject=f"%{argument.name}")
    return values


def typed_results(
    results: Sequence[Result], values: Sequence[RunValue], symbols: Mapping[str, Number]
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
            message = f"%{named.name} {problem}"
            raise FaultError(Code.RUN_BLOCK, message, subject=f"%{named.name}")
    return typed


def _typed(named: BlockParameter | Result, value: RunValue) -> RunValue:
    if not isinstance(named.type, ScalarType) or not isinstance(value, int | float):
        return value
    number = number_as(named.type.dtype, value)
    if number is None:
        message = f"%{named.name} needs a whole number, not {value}"
        raise FaultError(Code.RUN_BLOCK, message, subject=f"%{named.name}")
    return number


def check_leaks(frame: Frame, returned: Sequence[Argument]) -> None:
    """Check that every name that a block defined was dropped or is returned.

    Raises:
        DiagnosticError: a diagnostic for each leaked name, at the line that defined it.
    """
    names = frozenset(r.name for r in returned if isinstance(r, BufferRef))
    leaks = [_leak(name, path) for name, path in frame.leaks(names)]
    if leaks:
        raise DiagnosticError(*leaks)


def _leak(name: str, path: LinePath) -> Diagnostic:
    return Diagnostic(
        Code.RUN_LEAK,
        f"%{name} is neither freed, reused nor returned",
        path=path,
        subject=f"%{name}",
    )
