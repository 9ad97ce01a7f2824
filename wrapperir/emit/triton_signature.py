"""Signatures of Triton kernels: the arguments of a launch, and the facts to compile by."""

import ast
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd

from attrs import frozen

from wrapperir.ir import (
    BufferParameter,
    ConfigValue,
    Constant,
    DescriptorParameter,
    KernelDefinitionLine,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
)

KERNEL_FACTS = ".triton.json"
"""Ending of the file with the facts to compile a kernel by."""
_VECTOR = 16
"""Bytes, or units of a number, that Triton asks to be divisible by."""
MOST_CHECKED = 64
"""Arguments, the first, that a launch can look at to pick a variant."""


@frozen
class ArgumentFacts:
    """A divisor of an argument's address or number, and the number if constant."""

    divisor: int
    value: int | float | None = None

    def joined(self, other: "ArgumentFacts") -> "ArgumentFacts":
        """Return what holds for both."""
        same = self.value == other.value and type(self.value) is type(other.value)
        return ArgumentFacts(gcd(self.divisor, other.divisor), self.value if same else None)


def bound_values(line: KernelDefinitionLine) -> dict[str, ConfigValue | Constant]:
    """Return constants and the values of the first config, which is the one launched."""
    values: dict[str, ConfigValue | Constant] = dict(line.constants)
    if line.configs:
        values.update(line.configs[0].values)
    return values


def passed_parameters(line: KernelDefinitionLine) -> list[tuple[str, RuntimeParameter]]:
    """Return the parameters that a launch passes, in the order that the source has."""
    parameters = {p.name: p for p in runtime_parameters(line.parameters)}
    entry, constants = _entry(line.source, line.entry)
    # Parameters that the source does not show are checked when it is compiled.
    names = [*entry, *(name for name in parameters if name not in entry)]
    return [
        (name, parameters[name])
        for name in names
        if name in parameters and name not in constants
    ]


@lru_cache(maxsize=1024)
def _entry(source: str, entry: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the parameters of a kernel's entry in its source, and the constant ones."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return (), frozenset()
    # The last of that name is the one that the module keeps.
    for node in reversed(module.body):
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            constants = (a.arg for a in arguments if _is_constexpr(a.annotation))
            return tuple([a.arg for a in arguments]), frozenset(constants)
    return (), frozenset()


def _is_constexpr(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Name(id="constexpr") | ast.Attribute(attr="constexpr"):
            return True
        case ast.Constant(value=str(text)):
            return text.endswith("constexpr")
        case _:
            return False


def compilation_facts(
    line: KernelDefinitionLine, source: str, facts: Sequence[ArgumentFacts]
) -> dict[str, object]:
    """Return how a kernel is compiled; see :data:`~wrapperir.kernels.CompileFacts`.

    ``source`` is the path of its source, ``facts`` are about its runtime parameters.
    """
    passed = passed_parameters(line)
    by_name = dict(
        zip((p.name for p in runtime_parameters(line.parameters)), facts, strict=True)
    )
    given = {name for name, _ in passed}
    constants = {name: f.value for name, f in by_name.items() if name not in given}
    aligned: list[int] = []
    checked: list[int] = []
    descriptors: list[int] = []
    for position, (name, parameter) in enumerate(passed):
        if isinstance(parameter, DescriptorParameter):
            descriptors.append(position)
            continue
        if isinstance(parameter, ScalarParameter) and parameter.dtype.is_float:
            continue
        if by_name[name].divisor % _VECTOR == 0:
            aligned.append(position)
        elif isinstance(parameter, BufferParameter) and position < MOST_CHECKED:
            checked.append(position)
    return {
        "name": line.name,
        "source": source,
        "entry": line.entry,
        "signature": [[name, _triton_type(p)] for name, p in passed],
        "values": {**bound_values(line), **constants},
        "aligned": aligned,
        "checked": checked,
        "descriptors": descriptors,
    }


def format_facts(facts: Mapping[str, object]) -> str:
    """Return facts as JSON, a fact a line."""
    rows = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _triton_type(parameter: RuntimeParameter) -> str:
    spelled = parameter.dtype.triton_name
    assert spelled is not None  # a kernel is declared with types that Triton has
    match parameter:
        case ScalarParameter():
            return spelled
        case BufferParameter():
            return f"*{spelled}"
        case DescriptorParameter():
            return f"tensordesc<{spelled}[{', '.join(map(str, parameter.block))}]>"
