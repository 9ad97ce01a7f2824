"""The names of a block while it runs, for those who watch a run."""

import torch
from attrs import frozen

from wrapperir.interp.frame import Frame
from wrapperir.interp.values import TensorValue
from wrapperir.ir import Number


@frozen(eq=False)
class WrittenValue:
    """A tensor, or a number, and a mask of the elements that were written.

    Without a mask all elements were.  The tensor is the program's own, which later lines
    change.
    """

    value: torch.Tensor | Number
    written: torch.Tensor | None = None


@frozen(eq=False)
class LineNames:
    """The values and symbols that a line could name."""

    _frame: Frame

    def value(self, name: str) -> WrittenValue | None:
        """Return a tensor or number; ``None`` for a value of another kind.

        Raises:
            FaultError: it is not defined, or was dropped.
        """
        value = self._frame.value(name)
        if isinstance(value, TensorValue):
            return WrittenValue(value.tensor, value.written_elements())
        return WrittenValue(value) if isinstance(value, int | float) else None

    def symbol(self, name: str) -> Number:
        """Return the value of a symbol; a :class:`KeyError` if it has none."""
        return self._frame.symbols[name]
