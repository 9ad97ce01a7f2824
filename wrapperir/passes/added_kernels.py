"""Kernels that a pass adds to a program, each once."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from attrs import define, evolve, field

from wrapperir import ir as wir

Key = TypeVar("Key", bound=Hashable)


@define
class AddedKernels(Generic[Key]):
    """Kernels by what tells them apart; ``make`` defines one under a name.

    Names begin with ``wanted``, and are none of ``names``.
    """

    make: Callable[[str, Key], wir.DefinitionLine]
    wanted: str
    names: wir.FreshNames
    definitions: dict[Key, wir.DefinitionLine] = field(
        factory=dict[Key, wir.DefinitionLine]
    )

    def name(self, key: Key) -> str:
        """Return the name of a kernel, which is added if it is new."""
        if key not in self.definitions:
            name = self.names.new(None, self.wanted)
            self.definitions[key] = self.make(name, key)
        return self.definitions[key].name

    def added_to(self, program: wir.Program) -> wir.Program:
        """Return a program with these kernels."""
        definitions = (*program.definitions, *self.definitions.values())
        return evolve(program, definitions=definitions)


def names_of(program: wir.Program) -> wir.FreshNames:
    """Return names that no kernel of a program has."""
    return wir.FreshNames(line.name for line in program.definitions)
