"""Inputs, symbols and constants of a run, checked against their types."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import torch
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError, did_you_mean
from wrapperir.emit import Value
from wrapperir.emit.input_check import (
    InputError,
    check_bool,
    check_count,
    check_float,
    check_int,
    check_layout,
    check_tensor,
)
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.interp.fault import placed, value_fault
from wrapperir.interp.frame import Frame, define_symbol
from wrapperir.interp.layout import layout_of, number_as, same_elements
from wrapperir.interp.pool import Pool, pool_bytes
from wrapperir.interp.storage import Owner, require_cpu
from wrapperir.interp.streams import Event
from wrapperir.interp.values import OpaqueValue, RunValue, TensorValue, adopt
from wrapperir.ir.mentions import type_symbols


def enter(
    program: wir.Program, inputs: Sequence[Value], constants: Mapping[str, torch.Tensor]
) -> Frame:
    """Return the frame that a program's lines begin with.

    Raises:
        DiagnosticError: an input, symbol or constant is not as the program declares it.
    """
    frame = _lend_inputs(program, inputs)
    for index, input in enumerate(program.inputs):
        if isinstance(input.type, wir.TensorType):
            with placed(("inputs", index)):
                require_cpu(input.type.device)
    bound: dict[str, RunValue] = {}
    for index, constant in enumerate(program.constants):
        with placed(("constants", index)):
            if constant.name in bound or constant.name in frame.values:
                problem = "is already defined"
                raise value_fault(Code.RUN_REDEFINED_NAME, constant.name, problem)
            bound[constant.name] = _constant_value(constant, constants, frame.symbols)
    frame.constants = bound
    return frame


def check_inputs(program: wir.Program, inputs: Sequence[Value]) -> None:
    """Hold inputs, on any device, against the types that a program declares for them.

    Raises:
        DiagnosticError: their number is wrong, or one has another kind, dtype, size,
            stride or device, or a symbol that is read from them is outside its range.
    """
    _lend_inputs(program, inputs)


def _lend_inputs(program: wir.Program, inputs: Sequence[Value]) -> Frame:
    """Return a frame with the inputs and symbols, which are as their types say."""
    with placed(("inputs",)), _refusals(None):
        given = inputs if isinstance(inputs, torch.Tensor) else list(inputs)
        check_count(given, len(program.inputs))
    frame = Frame(constants={}, symbols={})
    for index, (input, value) in enumerate(zip(program.inputs, inputs, strict=True)):
        with placed(("inputs", index)):
            with _refusals(input):
                lent = _input_value(input, value)
            if input.donated:
                frame.define(input.name, lent, ("inputs", index))
            else:
                frame.lend(input.name, lent)
    for index, line in enumerate(program.symbols):
        with placed(("symbols", index)):
            define_symbol(frame, line)
    for index, input in enumerate(program.inputs):
        with placed(("inputs", index)):
            _check_input(input, frame)
    return frame


def _input_value(input: wir.Input, value: Value) -> RunValue:
    match input.type:
        case wir.TensorType(offset=offset):
            check_tensor(
                *(value, f"%{input.name}", torch_dtype(input.type.dtype)),
                *(torch_device(input.type.device), len(input.type.size)),
                mutated=input.mutated,
            )
            assert isinstance(value, torch.Tensor)
            shift = offset if isinstance(offset, int) else int(value.storage_offset())
            owner = Owner.DONATED if input.donated else Owner.INPUT
            writable = input.mutated or input.donated
            lent = adopt(value, input.type, shift, owner, writable=writable)
            if input.donated:  # what lies behind its last element is not its own
                lent.storage.nbytes = min(lent.storage.nbytes, lent.layout.nbytes)
            return lent
        case wir.ScalarType(dtype):
            number = number_as(dtype, _CHECKS[kind_of(dtype)](value, f"%{input.name}"))
            assert number is not None  # only a float may not be whole
            return number
        case wir.OpaqueType():
            return OpaqueValue(value)
        case wir.TupleType() | wir.PoolType() | wir.EventType():
            problem = "cannot be a tuple, pool or event"
            raise value_fault(Code.RUN_INPUT_MISMATCH, input.name, problem)


_CHECKS: Mapping[wir.SymbolKind, Callable[[object, str], wir.Number]] = {
    wir.SymbolKind.INT: check_int,
    wir.SymbolKind.FLOAT: check_float,
    wir.SymbolKind.BOOL: check_bool,
}


@contextmanager
def _refusals(input: wir.Input | None) -> Generator[None]:
    """Turn an input's refusal, whose message emitted code shares, into a fault."""
    try:
        yield
    except InputError as error:
        if input is None:
            raise FaultError(Code.RUN_INPUT_COUNT, error.message) from None
        code, subject = Code.RUN_INPUT_MISMATCH, f"%{input.name}"
        raise FaultError(code, error.message, subject=subject) from None


def _check_input(input: wir.Input, frame: Frame) -> None:
    value = frame.values[input.name]
    if isinstance(input.type, wir.TensorType) and isinstance(value, TensorValue):
        declared = layout_of(input.type, frame.symbols)
        with _refusals(input):
            check_layout(value.tensor, f"%{input.name}", declared.size, declared.stride)
        problem = mismatch(input.type, value, frame.symbols)
        if problem is not None:
            raise value_fault(Code.RUN_INPUT_MISMATCH, input.name, problem)


def _constant_value(
    constant: wir.ConstantInput,
    constants: Mapping[str, torch.Tensor],
    symbols: Mapping[str, wir.Number],
) -> RunValue:
    tensor = constants.get(constant.key)
    if tensor is None:
        message = f"there is no constant {constant.key!r} for %{constant.name}"
        hint = did_you_mean(constant.key, constants)
        subject = f"%{constant.name}"
        raise FaultError(Code.RUN_MISSING_CONSTANT, message, subject=subject, hint=hint)
    require_cpu(wir.Device(tensor.device.type, tensor.device.index))
    offset = layout_of(constant.type, symbols).offset
    value = adopt(tensor, constant.type, offset, Owner.CONSTANT, writable=constant.mutated)
    problem = mismatch(constant.type, value, symbols)
    if problem is not None:
        raise value_fault(Code.RUN_CONSTANT_MISMATCH, constant.name, problem)
    return value


def mismatch(
    type: wir.ValueType, value: RunValue, symbols: Mapping[str, wir.Number]
) -> str | None:
    """Return how a value differs from its declared type; ``None`` where it does not."""
    if isinstance(type, wir.ScalarType):
        return None if isinstance(value, int | float) else f"needs a number of {type.dtype}"
    if isinstance(type, wir.PoolType):
        return _pool_mismatch(type, value, symbols)
    if isinstance(value, Pool | Event):
        return "cannot be a pool or an event"
    if not isinstance(type, wir.TensorType):
        return None
    if not isinstance(value, TensorValue):
        return "needs a tensor"
    declared = layout_of(type, symbols)
    if not same_elements(declared, value.own_layout):
        return f"needs {declared}, not {value.own_layout}"
    return _device_mismatch(type, value.tensor)


def _pool_mismatch(
    type: wir.PoolType, value: RunValue, symbols: Mapping[str, wir.Number]
) -> str | None:
    if not isinstance(value, Pool):
        return "needs a pool"
    nbytes, actual = pool_bytes(type, symbols), value.storage.nbytes
    if nbytes != actual:
        return f"needs a pool of {nbytes} bytes, not {actual}"
    if evolve(type, size=0) != evolve(value.type, size=0):
        return "needs another kind of pool"
    return None


def _device_mismatch(type: wir.TensorType, tensor: torch.Tensor) -> str | None:
    actual, wanted = wir.Device(tensor.device.type, tensor.device.index), type.device
    if wanted.kind != actual.kind or (wanted.index or 0) != (actual.index or 0):
        return f"needs to be on {wanted}, not on {actual}"
    return None


def result_mismatch(
    type: wir.ValueType, value: RunValue, symbols: Mapping[str, wir.Number]
) -> str | None:
    """Return :func:`mismatch`; ``None`` while the type awaits symbols.

    The executor compares again once the lines after have defined them.
    """
    return None if awaits_symbols(type, symbols) else mismatch(type, value, symbols)


def awaits_symbols(type: wir.ValueType, symbols: Mapping[str, wir.Number]) -> bool:
    """Say whether a type mentions symbols that are not defined yet."""
    return any(name not in symbols for name in type_symbols(type))
