"""The parameters, buffers and constants of the user's model that a program is given."""

from attrs import frozen

from wrapperir.ir import Program, ValueType


@frozen
class ModelParameter:
    """A value that the user's model holds: its name in the program, and its dotted path."""

    name: str
    path: str
    type: ValueType
    mutated: bool

    def is_within(self, module: str) -> bool:
        """Say whether a module, or one within it, holds the value."""
        return self.path.startswith(f"{module}.")


def model_parameters(program: Program) -> tuple[ModelParameter, ...]:
    """Return the inputs that have a path in the model, and the constants by their keys."""
    inputs = [
        ModelParameter(each.name, each.path, each.type, each.mutated)
        for each in program.inputs
        if each.path is not None
    ]
    constants = [
        ModelParameter(each.name, each.key, each.type, each.mutated)
        for each in program.constants
    ]
    return (*inputs, *constants)
