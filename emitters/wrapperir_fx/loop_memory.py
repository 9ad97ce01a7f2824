"""Which memory the values that a loop carries may have, in any of its iterations."""

from collections.abc import Sequence

from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.effects import definitions, uses
from wrapperir.ir.line import (
    Block,
    BodyLine,
    BufferRef,
    ExternKernelLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
)

Roots = frozenset[str]


def carried_roots(body: Block, given: Sequence[Roots]) -> list[Roots]:
    """Return the roots of the memory that each parameter of a loop's body may have.

    ``given`` are those of what the first iteration is given.  A value of one iteration
    may be a parameter of the next.
    """
    places = {item.name: place for place, item in enumerate(body.parameters)}
    returned = [
        _sources(body)[item.name] if isinstance(item, BufferRef) else Roots()
        for item in body.results
    ]
    made = {name for line in body.lines for name, _ in definitions(line)}
    found, before = list(given), None
    while found != before:
        before = list(found)
        for place, names in enumerate(returned):
            for name in names:
                if name in places:
                    found[place] |= found[places[name]]
                else:  # of this iteration it is other memory, or a constant
                    found[place] |= {f"{name} before" if name in made else name}
    return found


class _Sources(dict[str, Roots]):
    """What each value may view; a name that a block does not define views itself."""

    def __missing__(self, name: str) -> Roots:
        return Roots((name,))


def _sources(block: Block) -> _Sources:
    found = _Sources()
    for line in block.lines:
        names = [name for name, _ in definitions(line)]
        viewed = Roots().union(*(found[name] for name in _viewed(line)))
        if blocks_of(line):
            viewed |= {*names[:1]}  # all may be views of what a block made
        for name in names:
            found[name] = viewed or Roots((name,))
    return found


def _viewed(line: BodyLine) -> Sequence[str]:
    """Return the values that those which a line defines may be views of."""
    match line:
        case ReinterpretLine() | ReuseLine() | MultiOutputLine():
            return (line.source,)
        case PlaceLine():
            return (line.pool,)
        case ExternKernelLine():
            return line.aliases
        case _:
            return tuple(uses(line)) if blocks_of(line) else ()
