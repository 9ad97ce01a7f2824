"""Seconds of lines on a machine: the slower of their operations and their bytes.

This is the roofline model (Williams, Waterman and Patterson, 2009).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis.collective_cost import collective_seconds
from wrapperir.analysis.line_traffic import line_traffic, value_bytes
from wrapperir.analysis.machines import Machine
from wrapperir.analysis.sizes import symbol_ranges
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects, value_types

TYPICAL_SIZE = 32
"""The value of a symbol, as far as its range allows."""


def typical_symbols(program: wir.Program) -> dict[str, wir.Number]:
    """Return a value for each symbol of a program, nested blocks included."""
    values: dict[str, wir.Number] = {}
    for name, (low, high) in symbol_ranges(program).items():
        value = min(max(TYPICAL_SIZE, low), high)
        values[name] = int(value) if math.isfinite(value) else TYPICAL_SIZE
    return values


@define
class LineCosts:
    """The seconds that lines of a program take, where its symbols have typical values.

    ``host_ranks`` are the ranks of a group that a host has; other groups fill hosts.
    """

    machine: Machine
    types: Mapping[str, wir.ValueType]
    symbols: Mapping[str, wir.Number]
    group_sizes: Mapping[str, int]
    effects: LineEffects
    host_ranks: Mapping[str, int] = field(factory=dict[str, int])

    @classmethod
    def of_program(
        cls, program: wir.Program, machine: Machine, host_ranks: Mapping[str, int]
    ) -> "LineCosts":
        """Return the costs of a program's lines."""
        return cls(
            machine,
            value_types(program),
            typical_symbols(program),
            {group.name: group.size for group in program.groups},
            LineEffects.of_program(program),
            host_ranks,
        )

    def collective(self, line: wir.CollectiveLine) -> float:
        """Return the seconds from the start of a collective to its end."""
        return self.collective_of(line, self.collective_bytes(line))

    def collective_of(self, line: wir.CollectiveLine, bytes: int) -> float:
        """Return the seconds that a collective of so many bytes takes."""
        return collective_seconds(
            line.operation,
            bytes,
            self.group_sizes.get(line.group, 1),
            self.machine,
            self.host_ranks.get(line.group),
        )

    def collective_bytes(self, line: wir.CollectiveLine) -> int:
        """Return the bytes of the larger side of a collective: of all ranks' parts."""
        sides = (line.reads, line.writes)
        return max(sum(map(self._bytes, names)) for names in sides)

    def copied(self, bytes: int) -> float:
        """Return the seconds of a copy of so many bytes on the device."""
        machine = self.machine
        return max(2 * bytes / machine.memory / machine.reached, machine.launch)

    def work(self, line: wir.BodyLine, done: Effects | None = None) -> float:
        """Return the seconds that a line keeps a device busy, waits not included."""
        done = self.effects.visit(line) if done is None else done
        if done.starts is not None or done.completes is not None or not done.launches:
            return 0.0
        machine = self.machine
        try:
            traffic = line_traffic(done, self.types, self.symbols)
            operations, rate = self._operations(line)
        except wir.EvaluationError:
            return machine.launch
        moved = (traffic.read + traffic.written) / machine.memory
        if not moved and not operations:
            return 0.0
        return max(
            moved / machine.reached, operations / rate / machine.reached, machine.launch
        )

    def _operations(self, line: wir.BodyLine) -> tuple[float, float]:
        """Return the operations of a product, and how many the machine does a second."""
        machine = self.machine
        if not isinstance(line, wir.ExternKernelLine):
            return 0.0, machine.other_products
        count = _PRODUCTS.get(line.operator.split(".")[1] if "." in line.operator else "")
        given = [
            self.types[value.name]
            for value in line.arguments
            if isinstance(value, wir.BufferRef) and value.name in self.types
        ]
        tensors = [type for type in given if isinstance(type, wir.TensorType)]
        if count is None or len(tensors) < 2:
            return 0.0, machine.other_products
        sizes = [
            [wir.evaluate_int(size, self.symbols) for size in type.size] for type in tensors
        ]
        rate = machine.products.get(tensors[0].dtype, machine.other_products)
        return count(sizes), rate

    def _bytes(self, name: str) -> int:
        try:
            return value_bytes(self.types[name], self.symbols) if name in self.types else 0
        except wir.EvaluationError:
            return 0


_TensorSizes: TypeAlias = Sequence[Sequence[int]]


def _product(sizes: _TensorSizes) -> float:
    """Return the operations of ``[bias,] left, right``."""
    left, right = sizes[-2:] if len(sizes) < 4 else sizes[:2]
    return 2.0 * math.prod(left) * (right[-1] if right else 1)


def _linear(sizes: _TensorSizes) -> float:
    return 2.0 * math.prod(sizes[0]) * (sizes[1][0] if sizes[1] else 1)


def _attention(sizes: _TensorSizes) -> float:
    """Return the operations of two products for each query and key."""
    query, key = sizes[:2]
    return 4.0 * math.prod(query) * (key[-2] if len(key) > 1 else 1)


def _attention_backward(sizes: _TensorSizes) -> float:
    """Return the operations of five products, after the gradient of the result."""
    return 2.5 * _attention(sizes[1:]) if len(sizes) > 2 else 0.0


_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)

_PRODUCTS: Mapping[str, Callable[[_TensorSizes], float]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _product),
    "linear": _linear,
    **dict.fromkeys((*_ATTENTION, "scaled_dot_product_attention"), _attention),
    **dict.fromkeys((f"{name}_backward" for name in _ATTENTION), _attention_backward),
}
"""Operations of products, by the operator's name and the sizes of its tensors."""
