"""Graphs of PyTorch's operators, made step by step with what eager computes.

A value that operators have rounded may differ by a few units in the last place from what a
kernel computes.  No comparison, cast to integers or search is given such a value, so that
its error stays in proportion to the greatest number that it was computed from.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from attrs import define, field, frozen
from hypothesis import strategies as st

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)
DTYPES = (*FLOATS, *INTS, torch.bool)

MOST_ELEMENTS = 600
MOST = {torch.float16: 1e3, torch.bfloat16: 1e4, torch.float32: 1e6, torch.float64: 1e6}
"""The greatest absolute value of a float."""
WHOLE = {
    torch.float16: 2.0**11,
    torch.bfloat16: 2.0**8,
    torch.float32: 2.0**24,
    torch.float64: 2.0**53,
}
"""Whole numbers up to these are exact."""

Function = Callable[..., torch.Tensor]
T = TypeVar("T")


@frozen
class OperatorStep:
    """A call of a function with values by their numbers; ``text`` shows it."""

    text: str
    function: Function = field(repr=False)
    operands: tuple[int, ...]


@frozen
class GraphValue:
    """A tensor of eager's.

    ``precision`` is 0 for an exact value, else the relative precision of the coarsest dtype
    that it was rounded in; ``scale`` is the greatest number that it was computed from.
    ``has_signs`` says whether its zeros have signs that eager gives in all its kernels.
    """

    tensor: torch.Tensor
    precision: float
    scale: float
    has_signs: bool = True

    @property
    def is_finite(self) -> bool:
        """Whether all elements are finite."""
        return bool(self.tensor.isfinite().all())

    @property
    def allowed(self) -> float:
        """The greatest difference that rounding may make."""
        return 64 * self.precision * self.scale


@frozen
class OperatorGraph:
    """Inputs, steps over them and the values before, and the numbers of the results."""

    inputs: tuple[torch.Tensor, ...]
    steps: tuple[OperatorStep, ...]
    results: tuple[int, ...]
    values: tuple[GraphValue, ...] = field(repr=False)

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Compute the results from inputs."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.function(*[values[place] for place in step.operands]))
        return [values[place] for place in self.results]

    @property
    def expected(self) -> list[GraphValue]:
        """The results that eager computes."""
        return [self.values[place] for place in self.results]

    def __str__(self) -> str:
        """Show the inputs and a line for each step."""
        lines = [
            f"v{place} = {x.dtype} {tuple(x.shape)} strides {x.stride()}"
            for place, x in enumerate(self.inputs)
        ]
        for place, step in enumerate(self.steps, start=len(self.inputs)):
            names = ", ".join(f"v{operand}" for operand in step.operands)
            lines.append(f"v{place} = {step.text}({names})")
        return "\n".join([*lines, f"return {', '.join(f'v{r}' for r in self.results)}"])


def greatest(tensor: torch.Tensor) -> float:
    """Return the greatest absolute value of the finite elements, 0 without any."""
    finite = tensor[tensor.isfinite()]
    return float(finite.double().abs().max()) if finite.numel() else 0.0


@define
class GraphMaker:
    """Adds inputs and steps to a graph."""

    draw: st.DrawFn
    inputs: list[torch.Tensor] = field(factory=list[torch.Tensor])
    values: list[GraphValue] = field(factory=list[GraphValue])
    steps: list[OperatorStep] = field(factory=list[OperatorStep])

    def one_of(self, *choices: T) -> T:
        """Draw one of several choices."""
        return self.draw(st.sampled_from(choices))

    def input(self) -> None:
        """Add an input, perhaps with its dimensions out of order.

        It has small whole numbers, and perhaps NaN, infinities and negative zeros.
        """
        dtype = self.one_of(*DTYPES, torch.float32, torch.float32)
        size = self.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 7, 8]), max_size=3))
        order = self.draw(st.permutations(range(len(size))))
        gap = self.one_of(1, 1, 1, 2)
        seed = self.draw(st.integers(0, 99))
        low = 0 if dtype in (torch.uint8, torch.bool) else -3
        high = 2 if dtype is torch.bool else 4
        generator = torch.Generator().manual_seed(seed)
        shape = [size[place] for place in order]
        if shape:
            shape[-1] *= gap
        memory = torch.randint(low, high, shape, generator=generator).to(dtype)
        if dtype.is_floating_point and self.one_of(False, False, True):
            number = torch.randint(0, 12, shape, generator=generator)
            for place, special in enumerate((math.nan, math.inf, -math.inf, -0.0)):
                memory[number == place] = special
        if shape:
            memory = memory[..., ::gap]
        tensor = memory.permute([order.index(place) for place in range(len(size))])
        self.inputs.append(tensor)
        self.values.append(GraphValue(tensor, 0.0, greatest(tensor)))

    def pick(self, suits: Callable[[GraphValue], bool] = lambda _: True) -> int | None:
        """Return the number of a value that suits, if any does."""
        places = [place for place, each in enumerate(self.values) if suits(each)]
        return self.draw(st.sampled_from(places[::-1])) if places else None

    def add(
        self,
        text: str,
        function: Function,
        *operands: int | None,
        rounds: bool = False,
        growth: float = 1.0,
        bound: float = 0.0,
        has_signs: bool = True,
    ) -> None:
        """Add a step, unless its result would be too large.

        ``growth`` is by how much the step may multiply an error of its operands, and
        ``bound`` the greatest number on the way to its result.  Zeros of the result have
        signs if the step ``has_signs``, and its operands too.
        """
        places = [place for place in operands if place is not None]
        if len(places) < len(operands) or not math.isfinite(growth):
            return
        given = [self.values[place] for place in places]
        tensor = function(*[each.tensor for each in given])
        precision = max((each.precision for each in given), default=0.0)
        most = max(greatest(tensor), bound)
        scale = max(most, growth * max((each.scale for each in given), default=0.0))
        if tensor.dtype.is_floating_point:
            finite = tensor[tensor.isfinite()]
            whole = bool((finite == finite.round()).all())
            if rounds or precision or not whole or most > WHOLE[tensor.dtype]:
                precision = max(precision, torch.finfo(tensor.dtype).eps)
            if scale > MOST[tensor.dtype]:
                return
        elif tensor.dtype.is_complex:
            return
        if tensor.numel() > MOST_ELEMENTS or tensor.dim() > 5:
            return
        signs = has_signs and not precision and all(each.has_signs for each in given)
        self.values.append(GraphValue(tensor, precision, scale, signs))
        self.steps.append(OperatorStep(text, function, tuple(places)))

    def finished(self) -> OperatorGraph:
        """Return the graph; it returns what no step uses, and up to two other values."""
        used = {place for step in self.steps for place in step.operands}
        computed = range(len(self.inputs), len(self.values))
        results = [place for place in computed if place not in used]
        inner = [place for place in computed if place in used]
        results += [place for place in inner if self.draw(st.booleans())][:2]
        return OperatorGraph(
            inputs=tuple(self.inputs),
            steps=tuple(self.steps),
            results=tuple(results),
            values=tuple(self.values),
        )
