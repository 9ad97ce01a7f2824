"""Makes programs of operator calls from what the same calls give in eager PyTorch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from attrs import field, frozen

from wrapperir.emit import Value
from wrapperir.ir import (
    Argument,
    BufferRef,
    ComplexLiteral,
    Device,
    DType,
    ExternKernelLine,
    FreeLine,
    OpaqueType,
    Program,
    ScalarType,
    TensorType,
    TorchEnum,
    TupleType,
    ValueType,
)
from wrapperir.ir.builder import NamedValue, ProgramBuilder

DTYPES = {
    torch.float32: DType.F32,
    torch.float64: DType.F64,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.int64: DType.I64,
    torch.int32: DType.I32,
    torch.uint8: DType.U8,
    torch.bool: DType.BOOL,
    torch.complex64: DType.C64,
    torch.complex128: DType.C128,
}


@contextmanager
def operators(namespace: str, **schemas: tuple[str, Callable[..., Any]]) -> Iterator[None]:
    """Have operators of a schema and a function of Python's."""
    library = torch.library.Library(namespace, "DEF")  # type: ignore[no-untyped-call]
    for name, (schema, function) in schemas.items():
        library.define(f"{name}{' '.join(schema.split())}")  # type: ignore[no-untyped-call]
        library.impl(name, function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    yield
    library._destroy()  # type: ignore[no-untyped-call]


@frozen
class Call:
    """A call of an operator with tensors and other values of Python's."""

    operator: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(factory=dict)

    def run(self) -> Any:
        """Return what eager PyTorch returns, on copies of the tensors."""
        namespace, name, overload = self.operator.split(".")
        function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        arguments = copied(list(self.arguments))
        keywords = {key: copied(value) for key, value in self.keywords.items()}
        with torch.no_grad():
            return function(*arguments, **keywords)


def program_of(calls: Sequence[Call]) -> tuple[Program, list[torch.Tensor], list[Value]]:
    """Return a program that makes the calls, its inputs, and the outputs they give."""
    builder = ProgramBuilder()
    inputs: list[torch.Tensor] = []
    outputs: list[NamedValue] = []
    wanted: list[Value] = []
    for number, call in enumerate(calls):
        arguments = tuple(_argument(builder, inputs, a) for a in call.arguments)
        keywords = tuple(
            (key, _argument(builder, inputs, value)) for key, value in call.keywords.items()
        )
        used = [name for a in (*arguments, *(v for _, v in keywords)) for name in _names(a)]
        result = call.run()
        type = type_of(result)
        builder.append(
            ExternKernelLine(
                result=f"result{number}",
                type=type,
                operator=call.operator,
                arguments=arguments,
                keywords=keywords,
                writes=tuple(used),
                aliases=tuple(used),
            )
        )
        name = NamedValue(f"result{number}", type)
        if isinstance(type, TupleType):
            for indices, leaf, value in _leaves(type, result):
                outputs.append(builder.multi_output(name, *indices, type=leaf))
                wanted.append(value)
            builder.append(FreeLine(buffer=name.name))
        elif isinstance(type, OpaqueType):
            builder.append(FreeLine(buffer=name.name))
        else:
            outputs.append(name)
            wanted.append(result)
    return builder.build(*outputs), inputs, wanted


def type_of(value: Any) -> ValueType:
    """Return the type of what an operator returned."""
    match value:
        case torch.Tensor():
            size, stride = tuple(value.shape), tuple(value.stride())
            return TensorType(dtype=DTYPES[value.dtype], size=size, stride=stride)
        case bool():
            return ScalarType(DType.BOOL)
        case int():
            return ScalarType(DType.I64)
        case float():
            return ScalarType(DType.F64)
        case None:
            return OpaqueType("none")
        case _:
            return TupleType(tuple(type_of(item) for item in value))


def copied(value: Any) -> Any:
    """Return a copy of a tensor, and of those in lists, with the same strides."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        return copy.copy_(value)
    return [copied(item) for item in value] if isinstance(value, list | tuple) else value


def _leaves(
    type: ValueType, value: Any
) -> Iterator[tuple[tuple[int, ...], ValueType, Any]]:
    if isinstance(type, TupleType):
        for index, (element, part) in enumerate(zip(type.elements, value, strict=True)):
            for indices, leaf, found in _leaves(element, part):
                yield (index, *indices), leaf, found
    elif not isinstance(type, OpaqueType):
        yield (), type, value


def _argument(builder: ProgramBuilder, inputs: list[torch.Tensor], value: Any) -> Argument:
    match value:
        case torch.Tensor():
            inputs.append(copied(value))
            given = builder.input(type_of(value), mutated=True)
            return BufferRef(given.name)
        case list() | tuple():
            return tuple(_argument(builder, inputs, item) for item in value)
        case torch.dtype():
            return DTYPES[value]
        case torch.device():
            return Device(value.type, value.index)
        case torch.layout():
            return TorchEnum("layout", str(value).removeprefix("torch."))
        case torch.memory_format():
            return TorchEnum("memory_format", str(value).removeprefix("torch."))
        case complex():
            return ComplexLiteral(value.real, value.imag)
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(type(value))


def _names(argument: Argument) -> list[str]:
    if isinstance(argument, BufferRef):
        return [argument.name]
    if isinstance(argument, tuple):
        return [name for item in argument for name in _names(item)]
    return []
