"""The live names of a block, and the storages that they share, line by line."""

from collections.abc import Iterator, Sequence

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.ir.effects import Effects, Origin


@define(eq=False)
class NamedStorage:
    """The live names of one storage, the oldest first, and whether it holds anything.

    ``written_by`` is the number of the last line that may have written it, ``None`` if none
    of the block did.
    """

    names: dict[str, None]
    written: bool
    written_by: int | None = None


@define(eq=False)
class BlockNames:
    """The live names of a block; ``begun`` is the line that defined each of them."""

    types: dict[str, wir.ValueType] = field(factory=dict[str, wir.ValueType])
    storages: dict[str, NamedStorage] = field(factory=dict[str, NamedStorage])
    begun: dict[str, int] = field(factory=dict[str, int])

    @classmethod
    def of_program(cls, program: wir.Program) -> "BlockNames":
        """Return the inputs and constants of a program."""
        names = cls()
        for given in program.inputs:
            names.begin(given.name, given.type, written=True)
        for constant in program.constants:
            names.begin(constant.name, constant.type, written=True)
        return names

    @classmethod
    def of_block(
        cls, block: wir.Block, constants: Sequence[wir.ConstantInput]
    ) -> "BlockNames":
        """Return the parameters of a block, and the constants that it sees."""
        names = cls()
        for constant in constants:
            names.begin(constant.name, constant.type, written=True)
        for parameter in block.parameters:
            names.begin(parameter.name, parameter.type, written=True)
        return names

    def begin(self, name: str, type: wir.ValueType, *, written: bool) -> None:
        """Begin a storage."""
        self.types[name] = type
        self.storages[name] = NamedStorage({name: None}, written)

    def enter(self, line: int, effects: Effects) -> Iterator[str]:
        """Take the names of a line; yield those of views of what holds something."""
        for made in effects.definitions:
            self.begun[made.name] = line
            match made.origin:
                case Origin.VIEW | Origin.ELEMENT:
                    assert made.source is not None
                    self._join(made.name, made.type, made.source)
                    if self.storages[made.name].written:
                        yield made.name
                case Origin.MOVED:
                    assert made.source is not None
                    self._join(made.name, made.type, made.source)
                    # What the memory held is of no interest under its new name.
                    self.storages[made.name].written = False
                case Origin.OPERATOR if made.may_alias:
                    self._join(made.name, made.type, made.may_alias[0])
                    yield made.name
                case Origin.OPERATOR | Origin.BLOCK | Origin.PROGRAM:
                    self.begin(made.name, made.type, written=True)
                case Origin.ALLOCATED | Origin.POOL | Origin.PLACED | Origin.NONE:
                    self.begin(made.name, made.type, written=False)
        if effects.drops is not None and effects.drops in self.storages:
            self.storages[effects.drops].names.pop(effects.drops, None)
        for access in effects.accesses:
            if access.writes and (storage := self.storages.get(access.name)) is not None:
                storage.written = True
                storage.written_by = line

    def _join(self, name: str, type: wir.ValueType, source: str) -> None:
        self.types[name] = type
        storage = self.storages.get(source) or NamedStorage({}, written=True)
        storage.names[name] = None
        self.storages[name] = storage

    def tensor(self, name: str) -> wir.TensorType | None:
        """Return the type of a strided tensor; ``None`` for other values."""
        type = self.types.get(name)
        if isinstance(type, wir.TensorType) and type.layout is None:
            return type
        return None
