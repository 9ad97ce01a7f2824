"""The parameters, buffers and constants of the user's model that a program is given."""

from attrs import frozen

from wrapperir.ir import Program, ValueType


@frozen
class ModelParameter:
    """A value that the user's model holds: its name in the program, and its dotted path.

    ``tied`` are other paths of the same value.
    """

    name: str
    path: str
    type: ValueType
    mutated: bool
    tied: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the value."""
        return (self.path, *self.tied)

    def is_within(self, module: str) -> bool:
        """Say whether a module, or one within it, holds the value."""
        return any(path.startswith(f"{module}.") for path in self.paths)


def model_parameters(program: Program) -> tuple[ModelParameter, ...]:
    """Return the inputs that have a path in the model, and the constants by their keys."""
    inputs = [
        ModelParameter(each.name, each.path, each.type, each.mutated, each.tied)
        for each in program.inputs
        if each.path is not None
    ]
    constants = [
        ModelParameter(each.name, each.key, each.type, each.mutated, each.tied)
        for each in program.constants
    ]
    return (*inputs, *constants)
