"""Draw graphs of PyTorch's operators: elements, views, reductions, positions."""

from collections.abc import Mapping, Sequence

import torch
from hypothesis import strategies as st

from tests.frontend_lowering.graph_maker import (
    DTYPES,
    Function,
    GraphMaker,
    GraphValue,
    OperatorGraph,
    greatest,
)

_ROUNDED: Mapping[str, tuple[Function, float]] = {
    "exp": (torch.exp, 5),
    "expm1": (torch.expm1, 5),
    "sigmoid": (torch.sigmoid, 1e3),
    "tanh": (torch.tanh, 1e3),
    "sin": (torch.sin, 20),
    "erf": (torch.erf, 1e3),
    "gelu": (torch.nn.functional.gelu, 20),
    "silu": (torch.nn.functional.silu, 20),
    "softplus": (torch.nn.functional.softplus, 15),
    "square": (torch.square, 20),
    "sqrt": (lambda x: torch.sqrt(x.abs() + 1), 1e3),
    "rsqrt": (lambda x: torch.rsqrt(x.abs() + 1), 1e3),
    "log1p": (lambda x: torch.log1p(x.abs()), 1e3),
    "reciprocal": (lambda x: torch.reciprocal(x.abs() + 1), 1e3),
}
"""Functions, and the greatest scale of what they are given."""
_STEEP = ("exp", "expm1", "square")
_SMOOTH = ("abs", "neg", "relu", "clone")
_OF_NUMBERS = ("abs", "neg", "relu", "sign")
_OF_ANY = ("clone", "isnan", "logical_not")


def _is_any(value: GraphValue) -> bool:
    return True


def _is_exact(value: GraphValue) -> bool:
    return not value.precision


def _is_bool(value: GraphValue) -> bool:
    return value.tensor.dtype is torch.bool


def _is_number(value: GraphValue) -> bool:
    return value.tensor.dtype is not torch.bool


def _is_float(value: GraphValue) -> bool:
    return value.tensor.dtype.is_floating_point


def _is_whole(value: GraphValue) -> bool:
    return not value.tensor.dtype.is_floating_point


def _has_dimensions(value: GraphValue) -> bool:
    return value.tensor.dim() > 0


def _broadcast(value: GraphValue, size: Sequence[int]) -> bool:
    """Say whether a tensor and one of a size have a size in common."""
    pairs = zip(reversed(value.tensor.shape), reversed(size), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _unary(maker: GraphMaker) -> None:
    name = maker.one_of(*_OF_NUMBERS, *_OF_ANY, "floor", "trunc", "bitwise_not")
    suits = _is_number if name in _OF_NUMBERS else _is_float
    suits = _is_any if name in _OF_ANY else suits
    suits = _is_whole if name == "bitwise_not" else suits
    place = maker.pick(lambda v: suits(v) and (name in _SMOOTH or _is_exact(v)))
    maker.add(name, getattr(torch, name), place, has_signs=name != "relu")


def _rounded(maker: GraphMaker) -> None:
    name = maker.one_of(*_ROUNDED)
    function, most = _ROUNDED[name]

    def suits(value: GraphValue) -> bool:
        # Eager's gelu of an infinity depends on how many elements there are.
        suits_infinities = name != "gelu" or value.is_finite
        return _is_float(value) and value.scale <= most and suits_infinities

    place = maker.pick(suits)
    growth = 1.0
    if place is not None and name in _STEEP:
        tensor = maker.values[place].tensor
        growth = 1 + greatest(function(tensor)) + 2 * greatest(tensor)
    maker.add(name, function, place, rounds=name != "square", growth=growth)


def _cast(maker: GraphMaker) -> None:
    dtype = maker.one_of(*DTYPES)

    def suits(value: GraphValue) -> bool:
        if dtype is torch.uint8 and bool((value.tensor < 0).any()):
            return False
        if not (dtype.is_floating_point or dtype is torch.bool or value.is_finite):
            return False  # PyTorch's own kernels differ
        return (dtype.is_floating_point or _is_exact(value)) and value.scale <= 100

    maker.add(f"to {dtype}", lambda x: x.to(dtype), maker.pick(suits))


def _with_scalar(maker: GraphMaker) -> None:
    number = maker.one_of(-2, -1, 0, 1, 3, 0.5, -1.5)
    functions: dict[str, Function] = {
        "add": lambda x: x + number,
        "sub": lambda x: x - number,
        "mul": lambda x: x * number,
        "maximum": lambda x: torch.clamp(x, min=number),
        "rsub": lambda x: number - x,
    }
    name = maker.one_of(*functions)
    place = maker.pick(_is_number)
    growth, signs = 1 + abs(number), name != "maximum"
    maker.add(f"{name} {number}", functions[name], place, growth=growth, has_signs=signs)


def _divided(maker: GraphMaker) -> None:
    number = maker.one_of(-3, 2, 3, 5)
    functions: dict[str, Function] = {
        "div": lambda x: x / number,
        "floor_divide": lambda x: torch.div(x, number, rounding_mode="floor"),
        "trunc_divide": lambda x: torch.div(x, number, rounding_mode="trunc"),
        "remainder": lambda x: torch.remainder(x, number),
        "fmod": lambda x: torch.fmod(x, number),
    }
    name = maker.one_of(*functions)

    def suits(value: GraphValue) -> bool:
        # PyTorch takes a negative divisor of unsigned numbers for another number.
        signed = value.tensor.dtype is not torch.uint8
        return _is_number(value) and signed and (name == "div" or _is_exact(value))

    place = maker.pick(suits)
    maker.add(f"{name} {number}", functions[name], place, rounds=name == "div")


def _binary(maker: GraphMaker) -> None:
    name = maker.one_of("add", "sub", "mul", "maximum", "minimum", "where", "atan2")
    first = maker.pick(_is_number)
    if first is None:
        return
    a = maker.values[first]
    second = maker.pick(lambda v: _is_number(v) and _broadcast(v, a.tensor.shape))
    if second is None:
        return
    b = maker.values[second]
    if name == "where":
        size = (a.tensor + b.tensor).shape
        condition = maker.pick(lambda v: _is_bool(v) and _broadcast(v, size))
        maker.add(name, torch.where, condition, first, second)
    elif name == "atan2":
        away = "atan2 away from 0"
        maker.add(
            away, lambda x, y: torch.atan2(x, y.abs() + 1), first, second, rounds=True
        )
    else:
        growth = 2.0 + (a.scale + b.scale if name == "mul" else 0)
        signs = name not in ("maximum", "minimum")
        function = getattr(torch, name)
        maker.add(name, function, first, second, growth=growth, has_signs=signs)


def _compared(maker: GraphMaker) -> None:
    name = maker.one_of("eq", "lt", "ge", "logical_and", "bitwise_xor", "bitwise_and")
    suits = _is_whole if name.startswith("bitwise") else _is_exact
    first = maker.pick(suits)
    if first is None:
        return
    size = maker.values[first].tensor.shape
    second = maker.pick(lambda v: suits(v) and _broadcast(v, size))
    maker.add(name, getattr(torch, name), first, second)


def _viewed(maker: GraphMaker) -> None:
    place = maker.pick(_has_dimensions)
    if place is None:
        return
    x = maker.values[place].tensor
    rank = x.dim()
    dim = maker.draw(st.integers(-rank, rank - 1))
    extent = x.shape[dim]
    order = maker.draw(st.permutations(range(rank)))
    shift = maker.draw(st.integers(-3, 3))
    wide = [3 if d == dim % (rank + 1) else -1 for d in range(rank + 1)]
    views: dict[str, Function] = {
        f"permute {order}": lambda x: x.permute(order),
        f"flip {dim}": lambda x: x.flip(dim),
        f"unsqueeze {dim}": lambda x: x.unsqueeze(dim),
        f"roll {shift} of {dim}": lambda x: x.roll(shift, dim),
        f"flatten from {dim}": lambda x: x.flatten(dim),
        "repeat 2": lambda x: x.repeat([2] + [1] * (rank - 1)),
        f"expand {wide}": lambda x: x.unsqueeze(dim).expand(wide),
        "pad (1, 2)": lambda x: torch.nn.functional.pad(x, (1, 2), value=1),
    }
    if extent:
        start = maker.draw(st.integers(0, extent - 1))
        step = maker.one_of(1, 1, 2, 3)
        index = (*[slice(None)] * (dim % rank), slice(start, None, step))
        views |= {
            f"slice {start}::{step} of {dim}": lambda x: x[index],
            f"select {start} of {dim}": lambda x: x.select(dim, start),
        }
    if extent >= 2:
        views[f"unfold {dim}"] = lambda x: x.unfold(dim, 2, 1)
    if extent and extent % 2 == 0:
        views[f"unflatten {dim}"] = lambda x: x.unflatten(dim, (2, -1))
    if rank >= 2:
        views |= {
            "diagonal": lambda x: x.diagonal(dim1=0, dim2=-1),
            "tril": torch.tril,
        }
    name = maker.one_of(*views)
    maker.add(name, views[name], place)


def _joined(maker: GraphMaker) -> None:
    first = maker.pick(_has_dimensions)
    if first is None:
        return
    x = maker.values[first].tensor
    dim = maker.draw(st.integers(0, x.dim() - 1))
    stacks = maker.draw(st.booleans())

    def suits(value: GraphValue) -> bool:
        y = value.tensor
        if stacks or y.dim() != x.dim():
            return y.shape == x.shape
        return all(n == y.shape[d] for d, n in enumerate(x.shape) if d != dim)

    second = maker.pick(suits)
    if stacks:
        maker.add(f"stack {dim}", lambda x, y: torch.stack([x, y], dim), first, second)
    else:
        maker.add(f"cat {dim}", lambda x, y: torch.cat([x, y], dim), first, second)


def _summed(maker: GraphMaker) -> None:
    place = maker.pick(_has_dimensions)
    if place is None:
        return
    value = maker.values[place]
    x = value.tensor
    dim = maker.draw(st.integers(-x.dim(), x.dim() - 1))
    keep = maker.draw(st.booleans())
    functions: dict[str, Function] = {
        f"sum of {dim} {keep}": lambda x: x.sum(dim, keepdim=keep),
        "sum of all": lambda x: x.sum(),
        f"cumsum of {dim}": lambda x: x.cumsum(dim),
    }
    name = maker.one_of(*functions)
    total = float(x[x.isfinite()].double().abs().sum())
    growth = float(max(x.numel(), 1))
    maker.add(name, functions[name], place, growth=growth, bound=total, has_signs=False)
    most = max(value.scale, 1.0) ** min(x.shape[dim], 99)
    if maker.draw(st.booleans()):
        functions["prod"] = lambda x: x.prod(dim, keepdim=keep)
        text = f"prod of {dim} {keep}"
        maker.add(text, functions["prod"], place, growth=most, bound=most, has_signs=False)


def _searched(maker: GraphMaker) -> None:
    dims = maker.draw(st.integers(0, 2))
    keep = maker.draw(st.booleans())
    functions: dict[str, Function] = {
        "amax": lambda x: x.amax(dims, keepdim=keep),
        "amin": lambda x: x.amin(dims, keepdim=keep),
        "argmax": lambda x: x.argmax(dims, keepdim=keep),
        "argmin": lambda x: x.argmin(dims, keepdim=keep),
        "cummax": lambda x: x.cummax(dims)[1],
        "any": lambda x: x.any(dims, keepdim=keep),
        "all": lambda x: x.all(dims, keepdim=keep),
    }
    name = maker.one_of(*functions)

    def suits(value: GraphValue) -> bool:
        x = value.tensor
        if x.dim() <= dims:
            return False
        if name in ("any", "all"):
            return _is_exact(value)
        exact = name in ("amax", "amin") or _is_exact(value)
        return exact and x.shape[dims] > 0 and _is_number(value)

    place = maker.pick(suits)
    maker.add(f"{name} of {dims} {keep}", functions[name], place, has_signs=False)


def _normalized(maker: GraphMaker) -> None:
    keep = maker.draw(st.booleans())
    dim = maker.draw(st.sampled_from([-1, 0]))

    def suits(value: GraphValue) -> bool:
        x = value.tensor
        return _is_float(value) and x.dim() > 0 and x.shape[dim] > 1 and value.scale <= 20

    place = maker.pick(suits)
    if place is None:
        return
    value = maker.values[place]
    last = value.tensor.shape[-1:]
    functions: dict[str, Function] = {
        f"mean of {dim} {keep}": lambda x: x.mean(dim, keepdim=keep),
        f"softmax of {dim}": lambda x: x.softmax(dim),
        f"log_softmax of {dim}": lambda x: x.log_softmax(dim),
        f"logsumexp of {dim} {keep}": lambda x: x.logsumexp(dim, keepdim=keep),
        f"var of {dim} {keep}": lambda x: x.var(dim, keepdim=keep),
        # A variance of nearly 0 has a steep root.
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, last, eps=1.0),
    }
    name = maker.one_of(*functions)
    growth = 4.0 * (1 + value.scale)
    maker.add(name, functions[name], place, rounds=True, growth=growth)


def _at_positions(maker: GraphMaker) -> None:
    place = maker.pick(lambda v: _has_dimensions(v) and 0 not in v.tensor.shape)
    index = maker.pick(
        lambda v: v.tensor.dtype is torch.int64 and v.tensor.dim() == 1 and _is_exact(v)
    )
    if place is None or index is None:
        return
    value = maker.values[place]
    x = value.tensor
    dim = maker.draw(st.integers(0, x.dim() - 1))
    extent, count = x.shape[dim], maker.values[index].tensor.shape[0]
    along = [-1 if d == dim else 1 for d in range(x.dim())]
    added = [count if d == dim else n for d, n in enumerate(x.shape)]
    at = (slice(None),) * dim
    functions: dict[str, Function] = {
        "index_select": lambda x, i: x.index_select(dim, i % extent),
        "index": lambda x, i: x[(*at, i % extent - extent)],
        "gather": lambda x, i: x.gather(dim, (i % extent).view(along)),
    }
    if _is_number(value) and _is_exact(value):
        functions |= {
            "index_add": lambda x, i: x.index_add(
                dim, i % extent, torch.ones(added, dtype=x.dtype)
            ),
            "scatter_add": lambda x, i: x.scatter_add(
                dim,
                (i % extent).view(along).expand(added),
                torch.ones(added, dtype=x.dtype),
            ),
        }
    name = maker.one_of(*functions)
    bound = value.scale + count
    signs = not name.endswith("add")
    text, function = f"{name} of {dim}", functions[name]
    maker.add(text, function, place, index, bound=bound, has_signs=signs)


_KINDS = (
    *(_unary, _rounded, _cast, _with_scalar, _divided, _binary, _binary, _compared),
    *(_viewed, _viewed, _joined, _summed, _searched, _normalized, _at_positions),
)


@st.composite
def operator_graphs(draw: st.DrawFn, most: int = 16) -> OperatorGraph:
    """Draw a graph of one operator at least, made in at most so many turns."""
    maker = GraphMaker(draw)
    for _ in range(draw(st.integers(1, 3))):
        maker.input()
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(_KINDS))(maker)
    if not maker.steps:
        maker.add("neg", lambda x: -x.to(torch.float32), 0)
    return maker.finished()
