"""Concrete inputs and constants for a program, chosen by a seed, and runs on them.

Values are small whole numbers, so that sums of them are exact in every dtype.
"""

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from wrapperir import ir as wir

if TYPE_CHECKING:
    import torch

    from wrapperir.emit import Value

SMALLEST_NUMBER = -3
"""The smallest element of an input that no symbol is read from."""
_LARGEST = 3
_FURTHER = 5
"""Elements by which an offset in a caller's storage differs from that of the type."""
_UNBOUNDED_RANGE = 4
"""Values above its lower bound of a symbol without an upper bound."""


def example_inputs(
    program: wir.Program, seed: int = 0, *, smallest: int = SMALLEST_NUMBER
) -> "list[Value]":
    """Return inputs that fit the program's types and the ranges of its symbols.

    Elements are whole numbers from ``smallest`` to 3; from 0, they may index tensors.

    A symbol read from the size or offset of an input gets a value in its range; a
    one-element tensor or a scalar that a symbol is read from holds one, too.  Where the
    offset of a type is a number, the tensor lies further back in its storage, as it may.

    Raises:
        ValueError: a size of an input follows from no symbol with a value.
    """
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    values = _symbol_values(program, rng)
    ranges = _item_ranges((*program.symbols, *program.lines))
    read = {
        line.source.name: values[line.symbol]
        for line in reversed(program.symbols)
        if isinstance(line.source, wir.ValueOf)
    }
    inputs: list[Value] = []
    for item in program.inputs:
        type = item.type
        if isinstance(type, wir.TensorType):
            inputs.append(_tensor(type, values, rng, ranges.get(item.name), smallest))
        elif isinstance(type, wir.ScalarType):
            known = read.get(item.name)
            drawn = _number(type.dtype, rng, smallest)
            inputs.append(drawn if known is None else known)
        else:
            inputs.append(None)
    return inputs


def example_constants(program: wir.Program, seed: int = 0) -> "dict[str, torch.Tensor]":
    """Return a tensor for the key of each constant.

    Raises:
        ValueError: a size of a constant follows from no symbol with a value.
    """
    values = _symbol_values(program, random.Random(seed))  # noqa: S311 - repeatable
    rng = random.Random(~seed)  # noqa: S311 - so that they are unlike the inputs
    return {
        c.key: _tensor(c.type, values, rng, None, SMALLEST_NUMBER)
        for c in program.constants
    }


def example_symbols(program: wir.Program, seed: int = 0) -> dict[str, wir.Number]:
    """Return the values of symbols when a program runs on the example inputs of ``seed``.

    Symbols of nested blocks are left out.  This executes the program's kernels.

    Raises:
        DiagnosticError: the program faults.
        ValueError: as :func:`example_inputs`.
    """
    return run_example(program, seed).symbols


@frozen(eq=False)
class ExampleRun:
    """A run on example inputs: its outputs, and the inputs and constants afterwards.

    Donated inputs are left out: nothing is known of their contents afterwards.
    ``symbols`` are the values of the symbols outside of nested blocks.
    """

    outputs: "tuple[Value, ...]"
    inputs: "list[Value]"
    constants: "dict[str, torch.Tensor]"
    symbols: dict[str, wir.Number]


def run_example(
    program: wir.Program, seed: int, *, smallest: int = SMALLEST_NUMBER
) -> ExampleRun:
    """Run a program on the example inputs of ``seed``, kernels included.

    Raises:
        DiagnosticError: the program faults.
        ValueError: as :func:`example_inputs`.
    """
    from wrapperir.interp import interpret

    lines = (*program.symbols, *program.lines)
    names = [line.symbol for line in lines if isinstance(line, wir.SymbolDefinitionLine)]
    outputs = (*program.outputs, *(wir.Symbol(name) for name in names))
    inputs = example_inputs(program, seed, smallest=smallest)
    constants = example_constants(program, seed)
    returned = interpret(evolve(program, outputs=outputs), inputs, constants)
    count = len(program.outputs)
    named = zip(names, returned[count:], strict=True)
    symbols = {name: value for name, value in named if isinstance(value, int | float)}
    given = zip(program.inputs, inputs, strict=True)
    kept = [value for item, value in given if not item.donated]
    return ExampleRun(returned[:count], kept, constants, symbols)


def difference(got: object, wanted: object, *, any_device: bool = False) -> str | None:
    """Return how two values differ in a bit, dtype, size or stride; else ``None``.

    Their devices must be of one kind, unless they may be on ``any_device``.  Dimensions of
    size 1 may have any stride; without elements all strides may differ.
    """
    import torch

    if not isinstance(wanted, torch.Tensor):
        is_same = type(got) is type(wanted) and repr(got) == repr(wanted)
        return None if is_same else f"is {got!r}, not {wanted!r}"
    if not isinstance(got, torch.Tensor):
        return f"is a {type(got).__name__}, not a tensor"
    facts = [_facts(got), _facts(wanted)]
    if any_device:
        facts = [{**fact, "device": "any"} for fact in facts]
    if facts[0] != facts[1]:
        return f"is {facts[0]}, not {facts[1]}"
    left, right = (t.detach().cpu().contiguous().flatten() for t in (got, wanted))
    is_same = torch.equal(left.view(torch.uint8), right.view(torch.uint8))
    return None if is_same else f"has other values:\n{got}\nnot\n{wanted}"


def _facts(tensor: "torch.Tensor") -> Mapping[str, object]:
    size, steps = tuple(tensor.shape), tensor.stride()
    stride = [step for n, step in zip(size, steps, strict=True) if n != 1]
    return {
        "dtype": tensor.dtype,
        "size": size,
        "stride": [] if 0 in size else stride,
        "device": tensor.device.type,
    }


def _symbol_values(program: wir.Program, rng: random.Random) -> dict[str, wir.Number]:
    """Choose a value in its range for each symbol of an input's size, offset or value."""
    values: dict[str, wir.Number] = {}
    types = {item.name: item.type for item in program.inputs}
    for line in program.symbols:
        if isinstance(line.source, wir.SizeOf | wir.OffsetOf):
            type = types.get(line.source.buffer)
            if _declared(line.source, type) == wir.Symbol(line.symbol):
                values[line.symbol] = _in_range(line, rng)
        elif isinstance(line.source, wir.ValueOf):
            values[line.symbol] = (
                _in_range(line, rng)
                if line.kind is wir.SymbolKind.INT
                else rng.choice((0.5, 1.0, 2.0))
            )
    return values


def _declared(
    source: wir.SizeOf | wir.OffsetOf, type: wir.ValueType | None
) -> wir.Expr | None:
    if not isinstance(type, wir.TensorType):
        return None
    return type.offset if isinstance(source, wir.OffsetOf) else type.size[source.dim]


def _in_range(line: wir.SymbolDefinitionLine, rng: random.Random) -> int:
    lower = 0 if line.lower is None else line.lower
    upper = lower + _UNBOUNDED_RANGE if line.upper is None else line.upper
    return rng.randint(lower, max(lower, min(upper, lower + 8)))


def _item_ranges(
    lines: Iterable[wir.SymbolDefinitionLine | wir.BodyLine],
) -> Mapping[str, wir.SymbolDefinitionLine]:
    return {
        line.source.buffer: line
        for line in lines
        if isinstance(line, wir.SymbolDefinitionLine)
        and isinstance(line.source, wir.ItemOf)
    }


def _number(dtype: wir.DType, rng: random.Random, smallest: int) -> int | float | bool:
    number = rng.randint(smallest, _LARGEST)
    if dtype is wir.DType.BOOL:
        return number > 0
    return float(number) if dtype.is_float else number


def _tensor(
    type: wir.TensorType,
    values: Mapping[str, wir.Number],
    rng: random.Random,
    item: wir.SymbolDefinitionLine | None,
    smallest: int,
) -> "torch.Tensor":
    import torch

    from wrapperir.emit.torch_dtypes import torch_dtype

    try:
        size = [wir.evaluate_int(extent, values) for extent in type.size]
        stride = [wir.evaluate_int(step, values) for step in type.stride]
        offset = wir.evaluate_int(type.offset, values)
    except wir.EvaluationError as error:
        raise ValueError(str(error)) from None
    if isinstance(type.offset, int) and type.offset and type.alignment is None:
        offset += _FURTHER
    dtype = torch_dtype(type.dtype)
    device = str(type.device)
    count = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    numbers = [
        _in_range(item, rng) if item is not None else _number(type.dtype, rng, smallest)
        for _ in range(max(count, 0))
    ]
    memory = torch.tensor(numbers, dtype=torch.float64).to(dtype=dtype, device=device)
    return memory.as_strided(size, stride, offset)
