"""The elements that a program wrote, of values that emitted code left partly unwritten."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from attrs import define, field

from wrapperir.diagnostics import DiagnosticError, LinePath
from wrapperir.emit import Value
from wrapperir.interp import Interpreter, LineNames
from wrapperir.ir import BufferRef
from wrapperir.trace.points import Point, PointRole

if TYPE_CHECKING:
    from wrapperir.trace.runs import Observed, TracedProgram


@define(eq=False)
class WrittenElements:
    """Masks of the elements that count where two observed values are compared.

    The interpreter knows what was written.  ``interpret`` runs it on the second program, if
    neither side does, and returns the masks of values that are not written as a whole, or
    ``None`` if it cannot run the program.
    """

    interpret: Callable[[], "dict[tuple[Point, int], torch.Tensor] | None"] | None
    _masks: "dict[tuple[Point, int], torch.Tensor] | None" = field(default=None, init=False)
    _is_asked: bool = field(default=False, init=False)

    def are_known(self, second: "Observed") -> bool:
        """Return whether it is known what of a value was written, or all should be."""
        return self._known() is not None or second.point.role is PointRole.RESULT

    def mask(self, first: "Observed", second: "Observed") -> "torch.Tensor | None":
        """Return the mask of the elements that both programs wrote; ``None`` for all."""
        masks = [each for each in (first.written, second.written) if each is not None]
        known = self._known()
        if not masks and known and (second.point, second.occurrence) in known:
            masks.append(known[second.point, second.occurrence])
        sizes = {each.shape for each in masks}
        if not masks or len(sizes) > 1:
            return None
        return torch.stack(masks).all(dim=0)

    def _known(self) -> "dict[tuple[Point, int], torch.Tensor] | None":
        if self.interpret is None:
            return {}
        if not self._is_asked:
            self._is_asked = True
            self._masks = self.interpret()
        return self._masks


def output_mask(
    first: "TracedProgram", second: "TracedProgram", inputs: Sequence[Value], index: int
) -> torch.Tensor | None:
    """Return the elements that two programs write of an output; ``None`` for all.

    It is ``None``, too, if one of them writes other elements, which is a difference, or if
    the interpreter cannot run them.
    """
    masks = [_written_of_output(traced, inputs, index) for traced in (first, second)]
    if masks[0] is None or masks[1] is None or not torch.equal(masks[0], masks[1]):
        return None
    return masks[0]


def _written_of_output(
    traced: "TracedProgram", inputs: Sequence[Value], index: int
) -> torch.Tensor | None:
    from wrapperir.trace.runs import copy_value

    program, masks = traced.program, list[torch.Tensor | None]()
    output = program.outputs[index]
    last: LinePath = ("lines", len(program.lines) - 1)

    def after_line(path: LinePath, names: LineNames) -> None:
        if path == last and isinstance(output, BufferRef):
            found = names.value(output.name)
            masks.append(None if found is None else found.written)

    constants = {key: value.clone() for key, value in traced.constants.items()}
    given = [copy_value(value) for value in inputs]
    # It refuses outputs that nothing wrote, after the last line.
    with contextlib.suppress(DiagnosticError):
        Interpreter(program, constants).run(given, after_line)
    return masks[0] if masks else None
