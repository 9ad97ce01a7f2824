"""Summaries of values: shape, a digest of the bits, and statistics of the elements."""

import hashlib
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    import torch

    from wrapperir.emit import Value


@frozen(kw_only=True)
class ValueSummary:
    """A value without its elements.

    ``dtype`` and ``size`` are those of a tensor, the type's name and ``None`` of another
    value.  ``digest`` is that of the bits of all elements in row-major order.  ``minimum``,
    ``maximum`` and ``mean`` are of finite elements, magnitudes for complex ones, and
    ``None`` if there are none.  ``unwritten`` elements are in none of these figures.
    """

    dtype: str
    size: tuple[int, ...] | None = None
    device: str = "cpu"
    digest: str = ""
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    nans: int = 0
    infinities: int = 0
    unwritten: int = 0
    number: object = None

    def __str__(self) -> str:
        """Return the summary in a line, without the digest."""
        if self.size is None:
            return repr(self.number)
        shape = f"{self.dtype}[{', '.join(map(str, self.size))}]"
        if self.device != "cpu":
            shape += f"@{self.device}"
        if 0 in self.size:
            return f"{shape} no elements"
        parts: list[str] = []
        if self.number is not None:
            parts.append(str(self.number))
        elif self.mean is not None:
            parts.append(f"min {self.minimum:.6g}")
            parts += [f"max {self.maximum:.6g}", f"mean {self.mean:.6g}"]
        if self.number is None:
            parts += [f"{self.nans} NaN"] if self.nans else []
            parts += [f"{self.infinities} inf"] if self.infinities else []
        parts += [f"{self.unwritten} not written"] if self.unwritten else []
        return f"{shape} {', '.join(parts)}"


def summarize(
    value: "Value | object", written: "torch.Tensor | None" = None
) -> ValueSummary:
    """Return the summary of a value; ``written`` is a mask of the elements that count."""
    import torch

    if not isinstance(value, torch.Tensor):
        text = repr(value)
        return ValueSummary(dtype=type(value).__name__, digest=text, number=value)
    tensor = _plain(value)
    kept = tensor if written is None else tensor[written]
    unwritten = tensor.numel() - kept.numel()
    minimum = maximum = mean = None
    nans = infinities = 0
    if kept.numel():
        numbers = _numbers(kept)
        nans = int(torch.isnan(numbers).sum().item())
        infinities = int(torch.isinf(numbers).sum().item())
        finite = numbers[torch.isfinite(numbers)] if nans or infinities else numbers
        if finite.numel():
            minimum, maximum = float(finite.min().item()), float(finite.max().item())
            mean = float(finite.mean().item())
    return ValueSummary(
        dtype=str(value.dtype).removeprefix("torch."),
        size=tuple(tensor.shape),
        device=str(tensor.device),
        digest=digest_of(kept),
        minimum=minimum,
        maximum=maximum,
        mean=mean,
        nans=nans,
        infinities=infinities,
        unwritten=unwritten,
        number=kept.item() if tensor.numel() == 1 and kept.numel() else None,
    )


def digest_of(value: "torch.Tensor") -> str:
    """Return 16 hexadecimal digits that follow from the bits of a tensor's elements."""
    import torch

    value = value.detach().resolve_conj().resolve_neg()
    bits = value.cpu().contiguous().reshape(-1)
    data = bits.view(torch.uint8).numpy().tobytes() if bits.numel() else b""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _plain(value: "torch.Tensor") -> "torch.Tensor":
    """Return a tensor whose elements can be selected: packed formats as bytes."""
    import torch

    value = value.detach()
    return value.view(torch.uint8) if value.dtype is torch.float4_e2m1fn_x2 else value


def _numbers(value: "torch.Tensor") -> "torch.Tensor":
    """Return the elements in double precision, magnitudes of complex ones."""
    return (value.abs() if value.is_complex() else value).double()
