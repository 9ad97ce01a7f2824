"""State that all graphs of a program share while an FX graph is lowered."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.scope import GraphScope, Shared, take
from wrapperir.fx import MultiKernelDefinition, definition_key, multi_kernel_key


@define(eq=False)
class FxShared(Shared):
    """Shared state of all graphs, with kernels, constants and streams.

    Attributes:
        known: definitions from the graph's metadata, by name.
        keys: keys of constants, by the attribute that holds them.
        definitions: kernels that calls have named so far.
        inferred: kernels whose access modes were inferred from their code alone.
        held: name of each constant, by the identity of its tensor.
        streams: stream of each node that stands for one.
        current: entered streams, innermost last.
    """

    known: Mapping[str, wir.DefinitionLine] = field(factory=dict[str, wir.DefinitionLine])
    keys: Mapping[str, str] = field(factory=dict[str, str])
    definitions: dict[str, wir.DefinitionLine] = field(
        factory=dict[str, wir.DefinitionLine]
    )
    kernel_names: set[str] = field(factory=set[str])
    _names: dict[wir.DefinitionLine, str] = field(
        factory=dict[wir.DefinitionLine, str], init=False
    )
    inferred: set[str] = field(factory=set[str])
    held: dict[int, str] = field(factory=dict[int, str])
    streams: dict[torch.fx.Node, wir.Stream] = field(
        factory=dict[torch.fx.Node, wir.Stream]
    )
    current: list[wir.Stream] = field(factory=list[wir.Stream])

    @cached_property
    def known_kernels(self) -> Mapping[str, wir.KernelDefinitionLine]:
        """Kernels from the graph's metadata, by their keys in calls."""
        return {
            definition_key(line): line
            for line in self.known.values()
            if isinstance(line, wir.KernelDefinitionLine)
        }

    @cached_property
    def known_multi_kernels(self) -> Mapping[str, MultiKernelDefinition]:
        """Multi-kernels from the graph's metadata, by their keys in calls."""
        found = [
            MultiKernelDefinition.of(line, self.known)
            for line in self.known.values()
            if isinstance(line, wir.MultiKernelLine)
        ]
        return {multi_kernel_key(definition): definition for definition in found}

    @cached_property
    def graph_symbols(self) -> frozenset[str]:
        """The names of all symbols that the graph's examples may mention."""
        return frozenset(symbol.name for symbol in self.ranges)

    def define(self, definition: wir.KernelDefinitionLine, *, inferred: bool) -> str:
        """Add a kernel, under a name that no other has; return that name."""
        known = len(self.definitions)
        name = self._define(definition)
        if inferred and len(self.definitions) > known:
            self.inferred.add(name)
        return name

    def define_multi_kernel(self, definition: MultiKernelDefinition) -> str:
        """Add a multi-kernel and the kernels of its choices; return its name."""
        line = definition.line
        choices = tuple(
            evolve(choice, kernel=self._define(kernel))
            for choice, kernel in zip(line.choices, definition.kernels, strict=True)
        )
        return self._define(evolve(line, choices=choices))

    def _define(self, definition: wir.DefinitionLine) -> str:
        name = self._names.get(definition)
        if name is None:
            name = self._names[definition] = take(self.kernel_names, definition.name)
            self.definitions[name] = evolve(definition, name=name)
        return name


def shared_of(scope: GraphScope) -> FxShared:
    """Return the state that the scope shares with other graphs."""
    assert isinstance(scope.shared, FxShared)
    return scope.shared


def example_of(node: torch.fx.Node) -> Any:
    """Return the example value of a node.

    Raises:
        DiagnosticError: WIR606, the node has none.
    """
    if "val" not in node.meta:
        raise Code.MISSING_EXAMPLE.error(
            f'%{node.name} has no meta["val"], so its type is not known',
            hint="set it, or run torch.fx.passes.fake_tensor_prop.FakeTensorProp on the"
            " module, with a FakeTensorMode that has allow_non_fake_inputs=True",
        )
    return node.meta["val"]
