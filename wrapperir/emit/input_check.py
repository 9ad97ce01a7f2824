"""Checks of the inputs of emitted programs.

This file imports torch only: it is copied beside emitted Python.  What runs programs in
this process imports it, so every emitter and the interpreter give the same messages.
"""

import operator
import re
from collections.abc import Sequence
from typing import NoReturn, SupportsFloat, SupportsIndex

import torch

_STRIDED = torch.strided
_DISPATCH = "__torch_dispatch__"  # a class that has its own may have no memory
_DTYPE = re.compile(r"(f|bf|i|u|c)(?:loat|nt|int|omplex)(\d+)_?(\w*)")


class InputError(RuntimeError):
    """An input is not as the program declares it; ``code`` is ``WIR800`` or ``WIR801``."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the code and the message."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def check_count(inputs: Sequence[object], count: int) -> None:
    """Refuse what is not a list, and another number of inputs.

    Raises:
        InputError: it is a tensor or a tuple, or there are more or fewer inputs.
    """
    if not isinstance(inputs, list):
        raise InputError("WIR800", "a program takes one list, of its inputs")
    if len(inputs) != count:
        message = f"{count} input{'s'[: count != 1]} needed, {len(inputs)} given"
        raise InputError("WIR800", message)


def check_tensor(
    value: object,
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    ndim: int,
    *,
    alignment: int = 1,
    mutated: bool = False,
) -> torch.Tensor:
    """Return an input as a tensor whose memory holds its values and records no gradient.

    A tensor that is conjugated or negated lazily is copied, unless it is ``mutated``.

    Raises:
        InputError: it is not a plain tensor of this dtype, device and number of
            dimensions, or its memory is missing or not aligned.
    """
    if (
        type(value) is torch.Tensor
        and value.dtype is dtype
        and value.device == device
        and value.layout is _STRIDED
        and value.ndim == ndim
        and value.data_ptr()
        and not value.requires_grad
        and not value.is_neg()
        and not (dtype.is_complex and value.is_conj())
        and alignment == 1
    ):
        return value
    if not isinstance(value, torch.Tensor):
        _refuse(name, f"a tensor, not {_kind_name(value)}")
    if getattr(type(value), _DISPATCH) is not getattr(torch.Tensor, _DISPATCH):
        _refuse(name, f"a plain tensor, not a {type(value).__name__}")
    if value.layout is not _STRIDED:
        layout = str(value.layout).removeprefix("torch.")
        _refuse(name, f"a tensor with strides, not {layout}")
    if value.dtype is not dtype:
        _refuse(name, f"elements of {dtype_name(dtype)}, not {dtype_name(value.dtype)}")
    actual = value.device
    if actual.type != device.type or (actual.index or 0) != (device.index or 0):
        _refuse(name, f"to be on {device}, not on {actual}")
    if value.dim() != ndim:
        _refuse(name, f"{ndim} dimensions, not {value.dim()}")
    if value.is_neg() or value.is_conj():
        if mutated:
            needed = "memory that holds its values: it is conjugated or negated lazily"
            _refuse(name, f"{needed}, and the program writes to it; pass its clone")
        value = value.resolve_conj().resolve_neg()
    address = value.data_ptr()
    if not address and value.numel():
        _refuse(name, "memory for its elements, and has none")
    if address % alignment:
        _refuse(name, f"an address that is a multiple of {alignment}")
    return value.detach() if value.requires_grad else value


def check_layout(
    value: torch.Tensor,
    name: str,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int = 0,
) -> None:
    """Refuse a tensor of another size or stride.

    A dimension of size 1 may have any stride; without elements, all may.  ``offset`` is the
    number of elements before the first one that the program may use.

    Raises:
        InputError: the size or stride differs, or the offset is smaller.
    """
    if offset and value.storage_offset() < offset:
        _refuse(name, f"offset {offset} or more, not {value.storage_offset()}")
    shape, steps = value.shape, value.stride()
    if shape == size and steps == stride:
        return
    if shape != size:
        _refuse(name, f"size {list(size)}, not {list(shape)}")
    differs = any(
        n != 1 and found != wanted
        for n, found, wanted in zip(size, steps, stride, strict=True)
    )
    if differs and 0 not in size:
        _refuse(name, f"stride {list(stride)}, not {list(steps)}")


def check_int(value: object, name: str) -> int:
    """Return an input as an int; a float is never an int.

    Raises:
        InputError: it is another kind of value.
    """
    if type(value) is int:
        return value
    return _whole(value, name, "an int")


def check_bool(value: object, name: str) -> bool:
    """Return an input as a bool: whether an int is not zero.

    Raises:
        InputError: it is another kind of value.
    """
    if type(value) is bool:
        return value
    return bool(_whole(value, name, "a bool"))


def check_float(value: object, name: str) -> float:
    """Return an input as a float.

    Raises:
        InputError: it is another kind of value.
    """
    if type(value) is float:
        return value
    if _is_number(value) and isinstance(value, SupportsFloat | SupportsIndex):
        return float(value)
    _refuse(name, f"a float, not {_kind_name(value)}")


def _whole(value: object, name: str, wanted: str) -> int:
    if _is_number(value) and isinstance(value, SupportsIndex):
        return operator.index(value)
    _refuse(name, f"{wanted}, not {_kind_name(value)}")


def _is_number(value: object) -> bool:
    # Tensors and arrays convert too, if they have one element.
    return not hasattr(value, "shape")


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a ``torch.dtype`` in programs, such as ``f32``."""
    name = str(dtype).removeprefix("torch.")
    found = _DTYPE.fullmatch(name)
    return "".join(found.groups()) if found else name


def _kind_name(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _refuse(name: str, problem: str) -> NoReturn:
    raise InputError("WIR801", f"{name} needs {problem}")
