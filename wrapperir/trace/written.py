"""The elements that a program wrote, of values that emitted code left partly unwritten."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from attrs import define, field

from wrapperir.trace.points import Point, PointRole

if TYPE_CHECKING:
    from wrapperir.trace.runs import Observed


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
