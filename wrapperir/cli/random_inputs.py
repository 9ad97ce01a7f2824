"""Random values for a program's inputs and constants, by their declared types."""

import random
from collections.abc import Mapping, Sequence

import torch
from attrs import define, field

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Value
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.interp import TORCH_DTYPES
from wrapperir.ir import (
    ItemOf,
    Number,
    OpaqueType,
    Program,
    ScalarType,
    SymbolDefinitionLine,
    SymbolKind,
    TensorType,
    ValueOf,
    evaluate_int,
    storage_extent,
)
from wrapperir.ir.mentions import type_symbols

_SIZES = 8
"""The number of values from which a size without upper bound is drawn."""

_INDICES = 4
"""Integers are drawn below this, so that they may index small tensors."""


def random_inputs(program: Program, seed: int) -> list[Value]:
    """Return a value for each input.

    Symbols in the inputs' types are drawn within their ranges first; tensors then have
    just the size, stride and offset of their types.

    Raises:
        DiagnosticError: WIR905 for each input that cannot be drawn.
    """
    draw = _Draw.of(program, seed)
    return draw.all([(input.name, input.type, "inputs") for input in program.inputs])


def random_constants(program: Program, seed: int) -> dict[str, torch.Tensor]:
    """Return a tensor for each constant, by its key.

    Raises:
        DiagnosticError: WIR905 for each constant that cannot be drawn.
    """
    draw = _Draw.of(program, seed + 1)
    constants = program.constants
    drawn = draw.all(
        [(constant.name, constant.type, "constants") for constant in constants]
    )
    return {
        constant.key: value
        for constant, value in zip(constants, drawn, strict=True)
        if isinstance(value, torch.Tensor)
    }


@define
class _Draw:
    generator: torch.Generator
    symbols: Mapping[str, Number]
    known: dict[str, Number] = field(factory=dict[str, Number])
    """The numbers that inputs must hold for the symbols read from them."""

    @classmethod
    def of(cls, program: Program, seed: int) -> "_Draw":
        numbers = random.Random(seed)  # noqa: S311
        used = {name for input in program.inputs for name in type_symbols(input.type)}
        symbols: dict[str, Number] = {}
        known: dict[str, Number] = {}
        for line in program.symbols:
            read = line.source.buffer if isinstance(line.source, ItemOf) else None
            read = line.source.name if isinstance(line.source, ValueOf) else read
            if read is not None or line.symbol in used:
                symbols[line.symbol] = _number(line, numbers)
            if read is not None:
                known[read] = symbols[line.symbol]
        return cls(torch.Generator().manual_seed(seed), symbols, known)

    def all(self, wanted: Sequence[tuple[str, object, str]]) -> list[Value]:
        values: list[Value] = []
        failed: list[Diagnostic] = []
        for index, (name, type, part) in enumerate(wanted):
            try:
                values.append(self._value(name, type))
            except (ValueError, RuntimeError, MemoryError, AssertionError) as error:
                lines = str(error).splitlines() or [error.__class__.__name__]
                failed.append(
                    Diagnostic(
                        Code.UNDRAWABLE_INPUT,
                        f"%{name} cannot be drawn: {lines[0]}",
                        path=(part, index),
                        subject=f"%{name}",
                        hint="give a file of inputs",
                    )
                )
        if failed:
            raise DiagnosticError(*failed)
        return values

    def _value(self, name: str, type: object) -> Value:
        match type:
            case TensorType():
                return self._tensor(type, self.known.get(name))
            case ScalarType(dtype):
                if name in self.known:
                    return self.known[name]
                value = torch.rand((), generator=self.generator).item()
                return value if dtype.is_float else int(value * _INDICES)
            case OpaqueType():
                return None
            case _:
                raise ValueError("it is a tuple")

    def _tensor(self, type: TensorType, value: Number | None) -> torch.Tensor:
        size, stride = (
            [evaluate_int(expr, self.symbols) for expr in exprs]
            for exprs in (type.size, type.stride)
        )
        offset = evaluate_int(type.offset, self.symbols)
        extent = evaluate_int(storage_extent(type), self.symbols)
        if min([extent, offset, *size, *stride]) < 0:
            raise ValueError("a size is negative")
        if 0 in size:
            extent = 0
        elements = self._elements(TORCH_DTYPES[type.dtype], offset + extent)
        if value is not None:
            elements.fill_(value)
        memory = elements.to(torch_device(type.device))
        if type.pinned:
            memory = memory.pin_memory()
        return memory.as_strided(size, stride, offset)

    def _elements(self, dtype: torch.dtype, count: int) -> torch.Tensor:
        if dtype is torch.bool:
            return torch.rand(count, generator=self.generator) < 0.5
        if dtype.is_complex or dtype.is_floating_point:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            exact = dtype in (torch.float64, torch.complex128)
            drawn = torch.randn(
                count, generator=self.generator, dtype=dtype if exact else wide
            )
            if dtype is torch.float4_e2m1fn_x2:
                return torch.zeros(count, dtype=torch.uint8).view(dtype)
            return drawn.to(dtype)
        return torch.randint(_INDICES, (count,), generator=self.generator).to(dtype)


def _number(line: SymbolDefinitionLine, numbers: random.Random) -> Number:
    if line.kind is SymbolKind.FLOAT:
        return numbers.random()
    if line.kind is SymbolKind.BOOL:
        return numbers.randrange(2)
    lower = line.lower
    if lower is None:
        lower = min(1, line.upper) if line.upper is not None else 1
    # A size of 0 or 1 is a special case of many operators; it is drawn only if it must be.
    least = max(lower, 2) if line.upper is None or line.upper >= 2 else lower
    most = least + _SIZES - 1
    return numbers.randint(least, most if line.upper is None else min(line.upper, most))
