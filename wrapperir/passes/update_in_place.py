"""Have operators write their results over arguments that nothing needs any more."""

from attrs import define

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.renaming import rename_values
from wrapperir.operators import is_pointwise
from wrapperir.passes.given_memory import GivenMemory
from wrapperir.passes.reuse_choice import reuse_line

_ROUNDED_OTHERWISE = frozenset({wir.DType.C32, wir.DType.C64, wir.DType.C128})
"""Complex numbers: compilers round their products differently for shared memory."""


def update_in_place(program: wir.Program) -> wir.Program:
    """Return the program with pointwise results in the memory of an argument.

    Before::

        program @main(%x: f32[8], %y: f32[8]) {
          %buf0 = allocate f32[8]
          extern_kernel aten.add.out(%x, %y, out = %buf0) writes(%buf0)
          %buf1 = allocate f32[8]
          extern_kernel aten.tanh.out(%buf0, out = %buf1) writes(%buf1)
          free %buf0
          return %buf1
        }

    After::

        program @main(%x: f32[8], %y: f32[8]) {
          %buf0 = allocate f32[8]
          extern_kernel aten.add.out(%x, %y, out = %buf0) writes(%buf0)
          %buf1 = reuse %buf0 as f32[8]
          extern_kernel aten.tanh.out(%buf1, out = %buf1) writes(%buf1)
          return %buf1
        }

    An argument gives its memory if it is a buffer of the block, or a dense donated input,
    that no later line uses, of the result's type, not complex, and no other argument is a
    view of it: then each element is read before it is written.  On several streams all
    earlier uses must be ordered before the call.
    """
    effects = LineEffects.of_program(program)
    return rewrite_bodies(program, lambda body: _updated(body, effects))


def _updated(body: Body, effects: LineEffects) -> list[wir.BodyLine]:
    """Return the lines of a body with its operators in place where they may be."""
    lines = body.lines
    given = GivenMemory.of(body, effects)
    reuses: dict[int, wir.ReuseLine] = {}
    gone: set[int] = set()
    for index, line in enumerate(lines):
        if isinstance(line, wir.ExternKernelLine) and len(line.writes) == 1:
            call = _Call(index, line, line.writes[0], given)
            source = call.source()
            if source is not None:
                begun = given.names.allocated[call.target]
                reuses[index] = reuse_line(lines[begun], source)
                gone |= {begun, given.names.freed[source]}
    changed: list[wir.BodyLine] = []
    for index, line in enumerate(lines):
        if index in reuses:
            changed += [reuses[index], _in_place(line, reuses[index])]
        elif index not in gone:
            changed.append(line)
    return changed


def _in_place(line: wir.BodyLine, reuse: wir.ReuseLine) -> wir.BodyLine:
    """Return a call that reads the result's name where it read the source's."""
    source, result = reuse.source, reuse.result
    return rename_values(line, lambda name: result if name == source else name)


@define
class _Call:
    """A call that writes one buffer."""

    index: int
    line: wir.ExternKernelLine
    target: str
    given: GivenMemory

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that the call uses, repeats included."""
        return self.given.found.effects[self.index].uses

    def source(self) -> str | None:
        """Return the argument whose memory the result may take, if there is one."""
        names = self.given.names
        values = (*self.line.arguments, *(value for _, value in self.line.keywords))
        read = [value.name for value in values if isinstance(value, wir.BufferRef)]
        if (
            self.target not in names.allocated
            or len(read) != len(self.uses)
            or names.first[self.target] != self.index
            or read.count(self.target) != 1
            or not is_pointwise(self.line.operator, self.line.device.kind)
        ):
            return None
        return next((name for name in read if self._may_give(name)), None)

    def _may_give(self, name: str) -> bool:
        """Say whether the memory of ``name`` may become the result's."""
        target = self.given.names.types[self.target]
        if name == self.target or not isinstance(target, wir.TensorType):
            return False
        if target.dtype in _ROUNDED_OTHERWISE:
            return False
        storage = self.given.of_argument(name, target, self.index, self.line)
        of_name = self.given.found.of_name
        return storage is not None and not any(
            storage in of_name[n] for n in self.uses if n != name
        )
