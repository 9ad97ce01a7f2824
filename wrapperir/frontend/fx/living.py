"""Which parts of pools live, so that a view of such a part is not taken for a new one."""

from collections.abc import Iterable, Sequence

from attrs import define, field

from wrapperir.ir.effects import uses
from wrapperir.ir.expr import Expr, mul, product
from wrapperir.ir.line import Argument, BodyLine, FreeLine
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.types import TensorType, contiguous_stride, storage_extent


@define(eq=False)
class _Part:
    pool: str
    begin: Expr
    bytes: Expr
    names: list[str]
    freed: bool = False


@define(eq=False)
class Living:
    """The parts of pools that a list of lines has placed so far.

    A graph that reuses memory views it again, without a free between.
    """

    last: dict[str, int]
    """The last line, by number, that uses or frees a name."""
    _parts: dict[str, _Part] = field(factory=dict[str, _Part])

    @classmethod
    def of(cls, lines: Sequence[BodyLine], results: Iterable[Argument]) -> "Living":
        """Return what nothing is placed in yet."""
        last = {name: at for at, line in enumerate(lines) for name in uses(line)}
        last.update((n, len(lines)) for result in results for n in buffers_in(result))
        return cls(last)

    def place(self, name: str, pool: str, type: TensorType, begin: Expr) -> None:
        """Add what was placed ``begin`` bytes into an outermost pool."""
        self._parts[name] = _Part(pool, begin, _bytes(type), [name])

    def see(self, name: str, source: str) -> None:
        """Add a view of a part, which keeps it alive."""
        part = self._parts.get(source)
        if part is not None:
            part.names.append(name)
            self._parts[name] = part

    def free(self, line: FreeLine) -> None:
        """Note a free."""
        part = self._parts.get(line.buffer)
        if part is not None:
            part.freed = True

    def holding(self, pool: str, type: TensorType, begin: Expr, at: int) -> str | None:
        """Return what lives at a line and has all bytes of a view, if anything has."""
        size = _bytes(type)
        for name, part in reversed(self._parts.items()):
            if part.pool == pool and name == part.names[0] and self._lives(part, at):
                same = part.begin == begin and part.bytes == size
                if same or _is_within(begin, size, part):
                    return name
        return None

    def _lives(self, part: _Part, at: int) -> bool:
        used = any(self.last.get(name, -1) > at for name in part.names)
        return used or not part.freed


def _bytes(type: TensorType) -> Expr:
    if type.stride == contiguous_stride(type.size):  # one product, which others may equal
        return mul(product(type.size), type.dtype.itemsize)
    return mul(storage_extent(type), type.dtype.itemsize)


def _is_within(begin: Expr, size: Expr, part: _Part) -> bool:
    first, count = part.begin, part.bytes
    if not (isinstance(begin, int) and isinstance(first, int)):
        return False
    if not (isinstance(size, int) and isinstance(count, int)):
        return False
    return first <= begin and begin + size <= first + count
