"""The checks that the inputs of a program need, and a callable that makes them."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from wrapperir import ir as wir
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype

if TYPE_CHECKING:
    import torch

    from wrapperir.emit.contract import Value


def needs_layout_check(program: wir.Program, name: str, type: wir.TensorType) -> bool:
    """Return whether a layout is more than symbols that are read from the tensor."""
    return type.offset != 0 or bool(unread_numbers(program, name, type))


def unread_numbers(program: wir.Program, name: str, type: wir.TensorType) -> list[wir.Expr]:
    """Return the sizes and strides of a tensor that are not symbols read from it."""
    sources: dict[wir.Expr, wir.SymbolSource] = {
        wir.Symbol(line.symbol): line.source for line in program.symbols
    }
    sizes = [n for i, n in enumerate(type.size) if sources.get(n) != wir.SizeOf(name, i)]
    steps = [
        n for i, n in enumerate(type.stride) if sources.get(n) != wir.StrideOf(name, i)
    ]
    return sizes + steps


def input_checker(
    program: wir.Program, constants: Mapping[str, "torch.Tensor"]
) -> Callable[[list["Value"]], None]:
    """Return a function that checks a list of inputs and converts them in place.

    Numbers are converted to their declared types.  Tensors that are conjugated or negated
    lazily are copied.  The function raises ``InputError`` of
    :mod:`wrapperir.emit.input_check`.
    """
    from wrapperir.emit.input_check import check_count, check_layout  # it imports torch

    converters = [_converter(program, index) for index in range(len(program.inputs))]
    layouts = [
        (index, f"%{given.name}", given.type)
        for index, given in enumerate(program.inputs)
        if isinstance(given.type, wir.TensorType)
        and needs_layout_check(program, given.name, given.type)
    ]
    tensors = {constant.name: constants[constant.key] for constant in program.constants}
    names = [given.name for given in program.inputs]

    def check(inputs: list["Value"]) -> None:
        check_count(inputs, len(names))
        for index, convert in enumerate(converters):
            inputs[index] = convert(inputs[index])
        values: dict[str, object] = {**tensors, **dict(zip(names, inputs, strict=True))}
        symbols: dict[str, wir.Number] = {}
        for line in program.symbols:
            symbols[line.symbol] = _symbol_value(line, values, symbols)
        for index, name, type in layouts:
            size = tuple([wir.evaluate_int(n, symbols) for n in type.size])
            stride = tuple([wir.evaluate_int(n, symbols) for n in type.stride])
            tensor = _tensor(values[names[index]])
            check_layout(tensor, name, size, stride, wir.evaluate_int(type.offset, symbols))

    return check


def sharing_checker(
    program: wir.Program, hosted: frozenset[str], constants: Mapping[str, "torch.Tensor"]
) -> Callable[[Sequence["Value"]], None]:
    """Return a function that refuses inputs which share memory with one that is written.

    Tensors on ``hosted`` devices are copies of the caller's: a write to one would not be
    seen through another.  Tensors share memory if one begins between the first and the last
    element of the other.  The function raises ``InputError`` of
    :mod:`wrapperir.emit.input_check`.
    """
    from wrapperir.emit.input_check import InputError  # it imports torch

    held = [constants[constant.key] for constant in program.constants]
    items: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    types = [item.type for item in items]
    kinds = [x.device.kind if isinstance(x, wir.TensorType) else None for x in types]
    pairs = [
        (written, other)
        for written, item in enumerate(items)
        for other in range(len(items))
        if item.mutated
        and written != other
        and not hosted.isdisjoint({kinds[written], kinds[other]})
    ]

    def check(inputs: Sequence["Value"]) -> None:
        spans = [_span(value) for value in (*inputs, *held)]
        for written, other in pairs:
            (begin, end), (first, last) = spans[written], spans[other]
            if begin < last and first < end:
                names = f"%{items[written].name} is written and", items[other].name
                raise InputError("WIR801", f"{names[0]} shares memory with %{names[1]}")

    return check


def _span(value: object) -> tuple[int, int]:
    """Return where the memory of a tensor begins and ends; nothing is in none."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.numel():
        return 0, 0
    steps = zip(value.shape, value.stride(), strict=True)
    count = 1 + sum((size - 1) * step for size, step in steps)
    return value.data_ptr(), value.data_ptr() + count * value.element_size()


def indexed_device(device: wir.Device) -> wir.Device:
    """Return the device as tensors name it: ``cuda`` is ``cuda:0``."""
    return wir.Device("cuda", device.index or 0) if device.kind == "cuda" else device


def _converter(program: wir.Program, index: int) -> Callable[["Value"], "Value"]:
    from wrapperir.emit.input_check import (
        check_bool,
        check_float,
        check_int,
        check_tensor,
    )

    given = program.inputs[index]
    type, name = given.type, f"%{given.name}"
    if isinstance(type, wir.TensorType):
        return functools.partial(
            check_tensor,
            name=name,
            dtype=torch_dtype(type.dtype),
            device=torch_device(indexed_device(type.device)),
            ndim=len(type.size),
            alignment=type.alignment or 1,
            mutated=given.mutated,
        )
    if not isinstance(type, wir.ScalarType):
        return lambda value: value
    match kind_of(type.dtype):
        case wir.SymbolKind.INT:
            return functools.partial(check_int, name=name)
        case wir.SymbolKind.BOOL:
            return functools.partial(check_bool, name=name)
        case wir.SymbolKind.FLOAT:
            return functools.partial(check_float, name=name)


def _symbol_value(
    line: wir.SymbolDefinitionLine,
    values: Mapping[str, object],
    symbols: Mapping[str, wir.Number],
) -> wir.Number:
    match line.source:
        case wir.SizeOf(name, dim):
            return _tensor(values[name]).size(dim)
        case wir.StrideOf(name, dim):
            return _tensor(values[name]).stride(dim)
        case wir.OffsetOf(name):
            return int(_tensor(values[name]).storage_offset())
        case wir.ItemOf(name):
            return _tensor(values[name]).item()
        case wir.ValueOf(name):
            value = values[name]
            assert isinstance(value, int | float)
            return value
        case int() | float() | wir.Symbol() | wir.Operation() as source:
            return wir.evaluate(source, symbols)


def _tensor(value: object) -> "torch.Tensor":
    import torch

    assert isinstance(value, torch.Tensor)
    return value
