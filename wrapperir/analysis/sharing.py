"""Names of a program that may share storage, in nested blocks and around them."""

from collections.abc import Iterable, Sequence

from attrs import define, field

from wrapperir.ir import Argument, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in


@define
class Sharing:
    """Groups of names that may share storage: each leads to another of its group."""

    _leads: dict[str, str] = field(factory=dict[str, str])

    def join(self, one: str, others: Iterable[str]) -> None:
        """Put names into one group."""
        for other in others:
            first, second = self._last(one), self._last(other)
            if first != second:
                self._leads[first] = second

    def group(self, name: str) -> str:
        """Return the same name for all names of a group."""
        return self._last(name)

    def names_with(self, names: Iterable[str]) -> frozenset[str]:
        """Return all names that are in a group with one of ``names``."""
        wanted = set(names)
        last = {self._last(name) for name in wanted}
        return frozenset(wanted | last | {n for n in self._leads if self._last(n) in last})

    def _last(self, name: str) -> str:
        while (next := self._leads.get(name)) is not None:
            further = self._leads.get(next)
            if further is not None:
                self._leads[name] = further
            name = next
        return name


def find_sharing(program: Program) -> Sharing:
    """Return the groups of a program's names, in nested blocks and around them."""
    sharing = Sharing()
    effects = LineEffects(None)

    def join(names: Sequence[str], values: Sequence[Argument]) -> None:
        for name, value in zip(names, values, strict=False):
            sharing.join(name, buffers_in(value))

    for line in walk_lines(program.lines):
        found = effects.visit(line)
        results = [made.name for made in found.definitions]
        for made in found.definitions:
            sharing.join(made.name, made.may_alias)
            if made.source is not None:
                sharing.join(made.source, (made.name,))
        for nested in found.blocks:
            join([p.name for p in nested.block.parameters], nested.operands)
            if nested.returns:
                join(results, nested.block.results)
            if nested.repeats:
                join(results, nested.operands[: len(nested.block.results)])
    return sharing
