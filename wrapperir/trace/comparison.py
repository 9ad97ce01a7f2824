"""Comparison of two values within a tolerance."""

from collections.abc import Mapping

import torch
from attrs import frozen

from wrapperir.ir import Number

_TOLERANCES: Mapping[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}
"""For sums in another order; elements of other types must be equal."""


def tolerance_of(dtype: torch.dtype) -> float:
    """Return the tolerance for elements of a type, unless the user gives one."""
    return _TOLERANCES.get(dtype, 0.0)


@frozen
class Comparison:
    """How the elements of one value differ from those of another.

    ``count`` elements of ``total`` differ, the one at ``place`` the most: it is ``wanted``
    in the first and ``found`` in the second.
    """

    count: int
    total: int
    place: tuple[int, ...]
    wanted: object
    found: object

    def __str__(self) -> str:
        """Return the difference in words."""
        values = f"{_shown(self.found)} for {_shown(self.wanted)}"
        if not self.place:
            return values
        at = f"[{', '.join(map(str, self.place))}]"
        return f"{self.count} of {self.total} elements, the most at {at}: {values}"


def compare(
    first: torch.Tensor | Number,
    second: torch.Tensor | Number,
    tolerance: float | None = None,
    written: torch.Tensor | None = None,
) -> Comparison | str | None:
    """Return how the second value differs; ``None`` if it does not.

    An element differs if it is further from the other than ``tolerance`` times the greatest
    finite magnitude in both, or if one of them is a NaN or another infinity.  Tensors of
    other dtypes or sizes differ in words.  ``written`` is a mask of the elements that
    count.  By default the tolerance is that of :func:`tolerance_of`; with 0 all elements
    must be equal.
    """
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        if type(first) is type(second) and repr(first) == repr(second):
            return None
        return Comparison(1, 1, (), first, second)
    if first.dtype != second.dtype or first.shape != second.shape:
        return f"{_kind(second)} for {_kind(first)}"
    if first.dtype is torch.float4_e2m1fn_x2:
        first, second = first.view(torch.uint8), second.view(torch.uint8)
    if tolerance is None:
        tolerance = tolerance_of(first.dtype)
    wanted, found = first.detach().cpu(), second.detach().cpu()
    off = _distances(wanted, found)
    if written is not None:
        off = torch.where(written.cpu(), off, 0.0)
    if not tolerance:
        wrong = off > 0
    else:
        magnitudes = torch.cat([_wide(x).abs().reshape(-1) for x in (wanted, found)])
        finite = magnitudes[torch.isfinite(magnitudes)]
        scale = float(finite.max().item()) if finite.numel() else 0.0
        wrong = off > tolerance * scale
    count = int(wrong.sum().item())
    if not count:
        return None
    index = int(torch.argmax(torch.where(wrong, off, -1.0)).item())
    place = tuple(int(x) for x in torch.unravel_index(torch.tensor(index), off.shape))
    total = off.numel() if written is None else int(written.sum().item())
    return Comparison(count, total, place, wanted[place].item(), found[place].item())


def _distances(wanted: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Return the distance of each element from the other, which may be infinite."""
    left, right = _wide(wanted), _wide(found)
    off = (left - right).abs()
    off = torch.where(torch.isfinite(off), off, torch.inf)
    if wanted.is_floating_point() or wanted.is_complex():
        same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    else:
        same, off = wanted == found, off.clamp(min=0.5)  # exact beyond 2**53
    return torch.where(same, 0.0, off)


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.complex128) if value.is_complex() else value.double()


def _kind(value: torch.Tensor) -> str:
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, value.shape))}]"


def _shown(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else repr(value)
