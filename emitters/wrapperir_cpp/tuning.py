"""The configs that Triton kernels are launched with: the fastest where they could be timed.

A kernel with several configs is timed with each, on arguments as the program calls it with:
sizes are those of its types, with typical values for symbols.  The choice is put first in
the kernel's definition, and a record of it goes with the artifact.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from attrs import evolve, field, frozen

from wrapperir.emit.walking import chosen_kernel, walk_lines
from wrapperir.ir.expr import EvaluationError, Expr, Number, evaluate, evaluate_int
from wrapperir.ir.kernel import (
    DescriptorParameter,
    KernelConfig,
    Language,
    ScalarParameter,
    runtime_parameters,
)
from wrapperir.ir.line import (
    AllocateLine,
    BufferRef,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    KernelDefinitionLine,
    MultiOutputLine,
    OffsetOf,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
    SizeOf,
    StrideOf,
    SubgraphCallLine,
    SymbolDefinitionLine,
    ValueOf,
    WhileLoopLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import DType, TensorType, ValueType, storage_extent
from wrapperir.ir.uses import blocks_of

RECORD = "tuning.json"
"""The artifact's file that says what was timed and chosen."""
_TYPICAL = 256
"""What a symbol is taken for where its range allows it."""
_MOST_CASES = 3
_LARGEST_BYTES = 2**32


@frozen
class Buffer:
    """A buffer that a kernel is timed with."""

    dtype: DType
    elements: int


@frozen
class Case:
    """A call of a kernel, with numbers for all that is known when it runs."""

    kernel: KernelDefinitionLine
    arguments: tuple[Buffer | Number, ...]

    def grid(self, config: KernelConfig) -> tuple[int, ...]:
        """Return the programs along each axis.

        Raises:
            EvaluationError: the grid has no value.
        """
        names = (parameter.name for parameter in runtime_parameters(self.kernel.parameters))
        given = {
            name: value
            for name, value in zip(names, self.arguments, strict=True)
            if not isinstance(value, Buffer)
        }
        bound = {
            key: value
            for key, value in (*self.kernel.constants, *config.values)
            if isinstance(value, int | float)
        }
        grid = self.kernel.grid or (1,)
        return tuple(evaluate_int(extent, {**given, **bound}) for extent in grid)


Timer: TypeAlias = Callable[[Case, KernelConfig], float | None]
"""Returns the microseconds of a launch; ``None`` where it fails."""


@frozen
class Tuning:
    """The microseconds of each config of each kernel, in all its cases, and on what."""

    facts: Mapping[str, str]
    times: Mapping[str, tuple[tuple[KernelConfig, float | None], ...]] = field(
        factory=dict[str, tuple[tuple[KernelConfig, float | None], ...]]
    )

    def best(self, kernel: str) -> KernelConfig | None:
        """Return the fastest config; the first of several, ``None`` where none ran."""
        timed = [(time, config) for config, time in self.times[kernel] if time is not None]
        return min(timed, key=lambda pair: pair[0])[1] if timed else None


def tune(
    program: Program, time: Timer, facts: Mapping[str, str], known: Tuning | None = None
) -> Tuning:
    """Return the times of all configs that there is a choice of.

    Those that ``known`` has, from the same ``facts`` and of the same configs, are kept.
    """
    times: dict[str, tuple[tuple[KernelConfig, float | None], ...]] = {}
    for name, cases in _cases(program).items():
        configs = cases[0].kernel.configs
        old = known.times.get(name) if known is not None and known.facts == facts else None
        if old is not None and {config for config, _ in old} == set(configs):
            times[name] = old
        else:
            times[name] = tuple((config, _total(cases, config, time)) for config in configs)
    return Tuning(dict(facts), times)


def apply_tuning(program: Program, tuning: Tuning) -> Program:
    """Return the program with the fastest config of each kernel first."""
    definitions: list[DefinitionLine] = []
    for line in program.definitions:
        best = tuning.best(line.name) if line.name in tuning.times else None
        if isinstance(line, KernelDefinitionLine) and best in line.configs:
            assert best is not None
            others = tuple(config for config in line.configs if config != best)
            definitions.append(evolve(line, configs=(best, *others)))
        else:
            definitions.append(line)
    return evolve(program, definitions=tuple(definitions))


def needs_tuning(program: Program) -> bool:
    """Say whether there is a kernel with a choice of configs."""
    return bool(_cases(program))


def format_tuning(tuning: Tuning) -> str:
    """Return the record as JSON."""
    kernels = {
        name: [{"config": dict(config.values), "us": time} for config, time in times]
        for name, times in tuning.times.items()
    }
    return json.dumps({"facts": dict(tuning.facts), "kernels": kernels}, indent=1) + "\n"


def parse_tuning(text: str | bytes) -> Tuning | None:
    """Return a record; ``None`` where it is none."""
    try:
        data = cast(Mapping[str, Any], json.loads(text))
        times = {
            str(name): tuple(
                (KernelConfig(tuple(entry["config"].items())), _time(entry["us"]))
                for entry in entries
            )
            for name, entries in data["kernels"].items()
        }
        return Tuning({str(k): str(v) for k, v in data["facts"].items()}, times)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _time(value: object) -> float | None:
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError("a time is a number")


def _total(cases: Sequence[Case], config: KernelConfig, time: Timer) -> float | None:
    total = 0.0
    for case in cases:
        taken = time(case, config)
        if taken is None:
            return None
        total += taken
    return total


def _cases(program: Program) -> dict[str, tuple[Case, ...]]:
    """Return different calls of each Triton kernel that has a choice of configs."""
    definitions = {line.name: line for line in program.definitions}
    types, symbols = _Types(program), _symbol_values(program)
    found: dict[str, dict[Case, None]] = {}
    for line in walk_lines(program.lines):
        if not isinstance(line, KernelCallLine) or line.device.kind != "cuda":
            continue
        kernel, positions = chosen_kernel(definitions, line.kernel)
        if kernel.language is not Language.TRITON or len(kernel.configs) < 2:
            continue
        if any(isinstance(p, DescriptorParameter) for p in kernel.parameters):
            continue
        cases = found.setdefault(kernel.name, {})
        arguments = line.arguments
        if positions is not None:
            arguments = tuple(arguments[position] for position in positions)
        case = _case(kernel, arguments, types, symbols)
        if case is not None and len(cases) < _MOST_CASES:
            cases[case] = None
    return {name: tuple(cases) for name, cases in found.items() if cases}


def _case(
    kernel: KernelDefinitionLine,
    arguments: Sequence[BufferRef | Expr],
    types: "_Types",
    symbols: Mapping[str, Number],
) -> Case | None:
    values: list[Buffer | Number] = []
    parameters = runtime_parameters(kernel.parameters)
    try:
        for parameter, argument in zip(parameters, arguments, strict=True):
            if not isinstance(argument, BufferRef):
                values.append(_number(parameter.dtype, evaluate(argument, symbols)))
                continue
            type = types.get(argument.name)
            if isinstance(parameter, ScalarParameter) or type is None:
                return None
            elements = max(evaluate_int(storage_extent(type), symbols), 1)
            if elements * type.dtype.itemsize > _LARGEST_BYTES:
                return None
            values.append(Buffer(type.dtype, elements))
    except EvaluationError:
        return None
    return Case(kernel, tuple(values))


def _number(dtype: DType, value: Number) -> Number:
    return float(value) if dtype.is_float else int(value)


class _Types(dict[str, TensorType]):
    """The type of each tensor of a program, by its name."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        for item in program.inputs:
            self._add(item.name, item.type)
        for constant in program.constants:
            self._add(constant.name, constant.type)
        for line in walk_lines(program.lines):
            match line:
                case AllocateLine() | PlaceLine() | ReuseLine() | ReinterpretLine():
                    self._add(line.result, line.type)
                case ExternKernelLine(result=str(name), type=type) if type is not None:
                    self._add(name, type)
                case MultiOutputLine():
                    self._add(line.result, line.type)
                case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                    for result in line.results:
                        self._add(result.name, result.type)
                    for block in blocks_of(line):
                        for parameter in block.parameters:
                            self._add(parameter.name, parameter.type)
                case _:
                    pass

    def _add(self, name: str, type: ValueType) -> None:
        if isinstance(type, TensorType):
            self[name] = type


def _symbol_values(program: Program) -> dict[str, Number]:
    """Return a typical value for each symbol; one that is computed has its own."""
    values: dict[str, Number] = {}
    for line in (*program.symbols, *walk_lines(program.lines)):
        if not isinstance(line, SymbolDefinitionLine):
            continue
        value: Number = _TYPICAL
        if line.upper is not None:
            value = min(value, line.upper)
        if line.lower is not None:
            value = max(value, line.lower)
        if not isinstance(line.source, _READ):
            with suppress(EvaluationError):
                value = evaluate(line.source, values)
        values[line.symbol] = value
    return values


_READ = (SizeOf, StrideOf, OffsetOf, ValueOf, ItemOf)
