"""Inputs and constants of a run: from files of ``torch.save`` or safetensors, or random."""

import random
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from attrs import define, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, did_you_mean
from wrapperir.emit import Value
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.ir.mentions import type_symbols

_REFUSED = re.compile(r"GLOBAL ([\w.]{1,200})", re.ASCII)
"""Matches the name of an object that torch refuses because loading may execute code."""


def load_inputs(path: str, program: wir.Program) -> list[Value]:
    """Return the inputs of a program: a file's list in order, or its dict by name.

    Raises:
        DiagnosticError: WIR904, the file has another form or lacks an input.
        OSError: the file cannot be read.
    """
    found = load_tensors(path)
    if isinstance(found, torch.Tensor):
        found = [found]
    if isinstance(found, list | tuple):
        values = list(cast(Sequence[object], found))
        if len(values) != len(program.inputs):
            raise _bad(path, f"holds {len(values)} values for {len(program.inputs)} inputs")
        named = zip((input.name for input in program.inputs), values, strict=True)
        return [_value(path, name, value) for name, value in named]
    if isinstance(found, Mapping):
        by_name = cast(Mapping[object, object], found)
        missing = [i.name for i in program.inputs if i.name not in by_name]
        if missing:
            hint = did_you_mean(
                missing[0], (key for key in by_name if isinstance(key, str))
            )
            raise _bad(path, f"lacks the inputs {', '.join(missing)}", hint)
        return [_value(path, i.name, by_name[i.name]) for i in program.inputs]
    raise _bad(path, f"holds a {type(found).__name__}, neither a list nor a dict")


def load_constants(path: str) -> dict[str, torch.Tensor]:
    """Return tensors by key.

    Raises:
        DiagnosticError: WIR904, the file is not a dict of tensors.
        OSError: the file cannot be read.
    """
    found = load_tensors(path)
    if not isinstance(found, Mapping):
        raise _bad(path, f"holds a {type(found).__name__}, not a dict of tensors")
    tensors: dict[str, torch.Tensor] = {}
    for key, value in cast(Mapping[object, object], found).items():
        if not isinstance(value, torch.Tensor):
            raise _bad(path, f"holds a {type(value).__name__} for {key!r:.80}")
        tensors[str(key)] = value
    return tensors


def load_tensors(path: str) -> Any:
    """Return what ``torch.save`` or safetensors wrote; nothing in the file is executed.

    Raises:
        DiagnosticError: WIR904, it is another file.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        head = file.read(9)
    if not zipfile.is_zipfile(path) and head[8:9] == b"{":
        return _load_safetensors(path)
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # an unpickler raises anything at a file that is not its own
        named = _REFUSED.search(str(error))
        if named is not None:
            what = f"holds {named[1]}, which is neither tensor nor number"
        else:
            what = "is not a file that torch.save or safetensors wrote"
        # torch's own message tells how to execute code in the file.
        raise _bad(path, what) from None


def _load_safetensors(path: str) -> Any:
    try:
        from safetensors.torch import load_file  # pyright: ignore
    except ImportError:
        raise _bad(path, "needs the package safetensors to be read") from None
    try:
        return load_file(path)
    except OSError:
        raise
    except Exception as error:  # its own exception type is not public
        raise _bad(path, f"is not a safetensors file: {error}") from None


def _value(path: str, name: str, value: object) -> Value:
    if value is None or isinstance(value, torch.Tensor | int | float | bool):
        return value
    raise _bad(path, f"holds a {type(value).__name__} for input {name}")


def _bad(path: str, what: str, hint: str | None = None) -> DiagnosticError:
    return Code.VALUES_FILE.error(f"{path} {what}"[:500], hint=hint)


_SIZES = 8
"""The number of values from which a size without upper bound is drawn."""

_INDICES = 4
"""Integers are drawn below this, so that they may index small tensors."""


def random_inputs(program: wir.Program, seed: int) -> list[Value]:
    """Return a value for each input.

    Symbols in the inputs' types are drawn within their ranges first; tensors then have
    just the size, stride and offset of their types.

    Raises:
        DiagnosticError: WIR905 for each input that cannot be drawn.
    """
    draw = _Draw.of(program, seed)
    return draw.all([(input.name, input.type, "inputs") for input in program.inputs])


def random_constants(program: wir.Program, seed: int) -> dict[str, torch.Tensor]:
    """Return a tensor for each constant, by its key.

    Raises:
        DiagnosticError: WIR905 for each constant that cannot be drawn.
    """
    wanted = [(c.name, c.type, "constants") for c in program.constants]
    drawn = _Draw.of(program, seed + 1).all(wanted)
    keys = [constant.key for constant in program.constants]
    pairs = zip(keys, drawn, strict=True)
    return {key: value for key, value in pairs if isinstance(value, torch.Tensor)}


@define
class _Draw:
    generator: torch.Generator
    symbols: Mapping[str, wir.Number]
    known: dict[str, wir.Number] = field(factory=dict[str, wir.Number])
    """The numbers that inputs must hold for the symbols read from them."""

    @classmethod
    def of(cls, program: wir.Program, seed: int) -> "_Draw":
        numbers = random.Random(seed)  # noqa: S311
        used = {name for input in program.inputs for name in type_symbols(input.type)}
        symbols: dict[str, wir.Number] = {}
        known: dict[str, wir.Number] = {}
        for line in program.symbols:
            read = line.source.buffer if isinstance(line.source, wir.ItemOf) else None
            read = line.source.name if isinstance(line.source, wir.ValueOf) else read
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
            case wir.TensorType():
                return self._tensor(type, self.known.get(name))
            case wir.ScalarType(dtype):
                if name in self.known:
                    return self.known[name]
                value = torch.rand((), generator=self.generator).item()
                return value if dtype.is_float else int(value * _INDICES)
            case wir.OpaqueType():
                return None
            case _:
                raise ValueError("it is a tuple")

    def _tensor(self, type: wir.TensorType, value: wir.Number | None) -> torch.Tensor:
        size, stride = (
            [wir.evaluate_int(expr, self.symbols) for expr in exprs]
            for exprs in (type.size, type.stride)
        )
        offset = wir.evaluate_int(type.offset, self.symbols)
        extent = wir.evaluate_int(wir.storage_extent(type), self.symbols)
        if min([extent, offset, *size, *stride]) < 0:
            raise ValueError("a size is negative")
        if 0 in size:
            extent = 0
        elements = self._elements(torch_dtype(type.dtype), offset + extent)
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


def _number(line: wir.SymbolDefinitionLine, numbers: random.Random) -> wir.Number:
    if line.kind is wir.SymbolKind.FLOAT:
        return numbers.random()
    if line.kind is wir.SymbolKind.BOOL:
        return numbers.randrange(2)
    lower = line.lower
    if lower is None:
        lower = min(1, line.upper) if line.upper is not None else 1
    # A size of 0 or 1 is a special case of many operators; it is drawn only if it must be.
    least = max(lower, 2) if line.upper is None or line.upper >= 2 else lower
    most = least + _SIZES - 1
    return numbers.randint(least, most if line.upper is None else min(line.upper, most))
