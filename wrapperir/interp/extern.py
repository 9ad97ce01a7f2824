"""Operator calls: arguments to Python, results to values with the storage they share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError, first_line
from wrapperir.emit.torch_dtypes import element_type, torch_device, torch_dtype
from wrapperir.interp.entry import result_mismatch
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import integer_of
from wrapperir.interp.storage import Owner, ShadowStorage, require_cpu
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import (
    OpaqueValue,
    RunValue,
    TensorValue,
    TupleValue,
    adopt,
    layout_in,
    python_of,
    storages_of,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.storage_operators import reads_elements
from wrapperir.operators import (
    UnknownOperatorError,
    find_overload,
    given_arguments,
    schema_of,
)

if TYPE_CHECKING:
    from wrapperir.operators.schema import Operator

_Known = dict[int, tuple[str | None, ShadowStorage]]
"""Storages that a result may be in, and the arguments they are of, by address."""


def call_operator(
    line: wir.ExternKernelLine, frame: Frame, launch: Launch
) -> RunValue | None:
    """Run an operator call and return its result; ``None`` where it names none.

    Raises:
        FaultError: the operator is unknown or raised an error, read bytes that
            nothing wrote, its result or effects are not what the line declares, or it is
            not ordered after another use of its arguments' memory.
    """
    require_cpu(line.device)
    try:
        operator = find_overload(line.operator)
    except UnknownOperatorError as error:
        code = Code.RUN_UNKNOWN_OPERATOR
        raise FaultError(code, str(error), subject=line.operator) from None
    _check_memory(line, operator, frame)
    _check_order(line, frame, launch)
    result = _call(line, operator, frame)
    for name in line.writes:
        for value in _tensors_of(frame.value(name)):
            value.storage.mark(value.layout)
    if line.result is None or line.type is None:
        return None
    known = _known_storages(line, frame)
    before = frozenset(storage for _, storage in known.values())
    returned = _value_of(line, line.type, result, known, frame.symbols)
    for storage in storages_of(returned):
        if storage not in before:
            launch.write(storage.history, f"%{line.result}")
    return returned


def _check_memory(line: wir.ExternKernelLine, operator: "Operator", frame: Frame) -> None:
    for name in line.writes:
        if any(not storage.writable for storage in storages_of(frame.value(name))):
            message = f"{line.operator} writes %{name}, which is read-only"
            raise FaultError(Code.RUN_READ_ONLY, message, subject=f"%{name}")
    given = given_arguments(schema_of(operator), line.arguments, dict(line.keywords))
    written = (argument for parameter, argument in given if parameter.is_written)
    for name in (name for argument in written for name in buffers_in(argument)):
        if name not in line.writes:
            message = f"{line.operator} writes %{name}, which writes(...) lacks"
            raise FaultError(Code.RUN_UNDECLARED_WRITE, message, subject=f"%{name}")
    for name in _names_read(line):
        for value in _tensors_of(frame.value(name)):
            value.require_written(name)


def _names_of(line: wir.ExternKernelLine) -> list[str]:
    values = (*line.arguments, *(value for _, value in line.keywords))
    return [name for value in values for name in buffers_in(value)]


def _names_read(line: wir.ExternKernelLine) -> tuple[str, ...]:
    """Return the names whose bytes the call certainly reads.

    An argument may be written without being read (``out``), or only viewed where the
    result may alias it; some operators look at sizes alone.
    """
    if not reads_elements(line.operator):
        return ()
    spared = {*line.writes, *line.aliases}
    return tuple(dict.fromkeys(name for name in _names_of(line) if name not in spared))


def _check_order(line: wir.ExternKernelLine, frame: Frame, launch: Launch) -> None:
    """Note the reads and writes of the call on its stream.

    An argument that the result may alias counts as read, because the operator may copy it.
    """
    for name in dict.fromkeys((*_names_read(line), *line.aliases)):
        for storage in storages_of(frame.value(name)):
            launch.read(storage.history, f"%{name}")
    for name in line.writes:
        for storage in storages_of(frame.value(name)):
            launch.write(storage.history, f"%{name}")


def _call(line: wir.ExternKernelLine, operator: "Operator", frame: Frame) -> object:
    def value_of(name: str) -> object:
        return python_of(frame.value(name))

    try:
        arguments = [python_value(a, frame.symbols, value_of) for a in line.arguments]
        keywords = {k: python_value(a, frame.symbols, value_of) for k, a in line.keywords}
    except wir.EvaluationError as error:
        raise FaultError(Code.RUN_EVALUATION, str(error), subject=line.operator) from None
    except ValueError as error:
        raise FaultError(Code.RUN_VALUE_KIND, str(error), subject=line.operator) from None
    try:
        with torch.no_grad():
            return operator(*arguments, **keywords)
    except FaultError:
        raise
    except Exception as error:
        message = f"{line.operator} failed: {first_line(error)}"
        code = Code.RUN_OPERATOR_FAILED
        raise FaultError(code, message, subject=line.operator) from error


def python_value(
    argument: wir.Argument,
    symbols: Mapping[str, wir.Number],
    value_of: Callable[[str], object],
) -> object:
    """Return the Python object that an operator is given for ``argument``.

    Names go through ``value_of``; expressions become numbers, tuples lists.

    Raises:
        EvaluationError: an expression has no value.
        ValueError: a device or enum is unknown to PyTorch.
    """
    match argument:
        case wir.BufferRef(name):
            return value_of(name)
        case tuple():
            return [python_value(item, symbols, value_of) for item in argument]
        case wir.DType():  # before str, of which it is a subclass
            return torch_dtype(argument)
        case wir.Device():
            return torch_device(argument)
        case wir.TorchEnum(kind, name):
            if name not in wir.TORCH_ENUM_NAMES.get(kind, ()):
                raise ValueError(f"torch has no {kind} {name}")
            value: object = getattr(torch, name)
            return value
        case wir.ComplexLiteral(real, imaginary):
            return complex(real, imaginary)
        case wir.Symbol() | wir.Operation():
            return wir.evaluate(argument, symbols)
        case None | bool() | int() | float() | str():
            return argument


def _known_storages(line: wir.ExternKernelLine, frame: Frame) -> _Known:
    """Return the storages of the call's arguments by the address of PyTorch's own.

    Arguments that the result may alias come last, so that they win.
    """
    known: _Known = {}
    for name in sorted(_names_of(line), key=lambda name: name in line.aliases):
        for storage in storages_of(frame.value(name)):
            if storage.nbytes:  # storages without bytes share their address
                known[storage.memory.data_ptr()] = (name, storage)
    return known


def _value_of(
    line: wir.ExternKernelLine,
    type: wir.ValueType,
    result: object,
    known: _Known,
    symbols: Mapping[str, wir.Number],
) -> RunValue:
    match type:
        case wir.TensorType():
            if not isinstance(result, torch.Tensor):
                raise _unexpected(line, f"a {_kind(result)}, not a tensor")
            value: RunValue = _tensor_value(line, type, result, known, symbols)
        case wir.ScalarType():
            if not isinstance(result, int | float):
                raise _unexpected(line, f"a {_kind(result)}, not a number")
            return result
        case wir.TupleType(elements):
            found = _sequence(result)
            if found is None or len(found) != len(elements):
                raise _unexpected(line, f"{_kind(result)}, not a tuple of {len(elements)}")
            parts = zip(elements, found, strict=True)
            return TupleValue(
                tuple(_value_of(line, t, part, known, symbols) for t, part in parts)
            )
        case wir.OpaqueType():
            return OpaqueValue(result)
        case wir.PoolType() | wir.EventType():
            raise _unexpected(line, "a value that no operator returns")
    problem = result_mismatch(type, value, symbols)
    if problem is not None:
        raise _unexpected(line, f"a result that {problem}")
    return value


def _tensor_value(
    line: wir.ExternKernelLine,
    type: wir.TensorType,
    tensor: torch.Tensor,
    known: _Known,
    symbols: Mapping[str, wir.Number],
) -> TensorValue:
    if tensor.layout is torch.strided:
        found = known.get(tensor.untyped_storage().data_ptr())
        if found is not None:
            name, storage = found
            if name is not None and name not in line.aliases:
                message = f"the result shares memory with %{name}, which aliases(...) lacks"
                raise FaultError(Code.RUN_UNDECLARED_ALIAS, message, subject=f"%{name}")
            return _placed(type, tensor, storage, symbols)
    require_cpu(wir.Device(tensor.device.type, tensor.device.index))
    offset = int(tensor.storage_offset())
    storage = adopt(tensor, type, offset, Owner.BLOCK, writable=True).storage
    if storage.nbytes:
        known[storage.memory.data_ptr()] = (None, storage)  # later results may share it
    return _placed(type, tensor, storage, symbols)


def _placed(
    type: wir.TensorType,
    tensor: torch.Tensor,
    storage: ShadowStorage,
    symbols: Mapping[str, wir.Number],
) -> TensorValue:
    """Return a result whose storage begins its type's offset before its first element."""
    dtype = element_type(tensor.dtype)
    assert dtype is not None  # otherwise it would not have been adopted
    layout = layout_in(tensor, dtype, storage)
    if any(name not in symbols for name in wir.symbols_in(type.offset)):
        # The lines after ask for the offset, which is that in PyTorch's storage.
        return TensorValue(tensor, layout, storage, -storage.base)
    before = layout.offset - integer_of(type.offset, symbols)
    return TensorValue(tensor, layout, storage, max(before, 0) * layout.dtype.itemsize)


def _sequence(result: object) -> Sequence[object] | None:
    return cast(Sequence[object], result) if isinstance(result, tuple | list) else None


def _kind(result: object) -> str:
    found = _sequence(result)
    kind = type(result).__name__
    return kind if found is None else f"{kind} of {len(found)}"


def _unexpected(line: wir.ExternKernelLine, what: str) -> FaultError:
    message = f"{line.operator} returned {what}"
    return FaultError(Code.RUN_RESULT_MISMATCH, message, subject=f"%{line.result}")


def _tensors_of(value: RunValue) -> Iterator[TensorValue]:
    if isinstance(value, TensorValue):
        yield value
    elif isinstance(value, TupleValue):
        for element in value.elements:
            yield from _tensors_of(element)
