"""A program: inputs, constants, symbols, groups, kernel definitions, lines and outputs."""

from attrs import frozen

from wrapperir.ir.arguments import Argument
from wrapperir.ir.collective import ProcessGroup
from wrapperir.ir.definition import DefinitionLine
from wrapperir.ir.line import BodyLine, SymbolDefinitionLine
from wrapperir.ir.provenance import NodeOrigin, Provenance, SourcePlace
from wrapperir.ir.types import TensorType, ValueType

SCHEMA_VERSION = 1


@frozen(kw_only=True)
class Input:
    """A value the caller passes.

    ``mutated`` says that the program may write to it, for the caller to see.  A
    ``donated`` tensor is the program's own: the caller does not use it again.  ``path``
    is the one by which the user's model holds the value, such as ``layers.0.fc.weight``,
    and ``tied`` are others of the same tensor; they are only shown.  ``provenance`` names
    the node of another graph that made it, as a forward pass does for its backward.
    """

    name: str
    type: ValueType
    mutated: bool = False
    donated: bool = False
    path: str | None = None
    tied: tuple[str, ...] = ()
    provenance: Provenance | None = None


@frozen(kw_only=True)
class ConstantInput:
    """A parameter or constant, kept outside the program under the name ``key``.

    It is borrowed, and read only unless ``mutated``.  ``tied`` are other keys by which the
    user's model holds the same tensor; they are only shown.
    """

    name: str
    type: TensorType
    key: str
    mutated: bool = False
    tied: tuple[str, ...] = ()


@frozen(kw_only=True)
class Program:
    """Inputs, symbols, constants, groups, kernel definitions, lines and outputs.

    ``symbols`` are known on entry; their sources are inputs and earlier symbols.
    Outputs are names, scalar expressions or ``None``.  ``origins`` are what lines came
    from, and ``places`` those of the user's source that origins came from.
    """

    name: str = "main"
    inputs: tuple[Input, ...] = ()
    symbols: tuple[SymbolDefinitionLine, ...] = ()
    constants: tuple[ConstantInput, ...] = ()
    groups: tuple[ProcessGroup, ...] = ()
    definitions: tuple[DefinitionLine, ...] = ()
    lines: tuple[BodyLine, ...] = ()
    outputs: tuple[Argument, ...] = ()
    places: tuple[SourcePlace, ...] = ()
    origins: tuple[NodeOrigin, ...] = ()
