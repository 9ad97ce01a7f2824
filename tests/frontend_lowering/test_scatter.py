"""Operators that write elements at positions that tensors have."""

from typing import Any

import pytest
import torch

from tests.frontend_lowering.lowered import check, compiled

Results = tuple[torch.Tensor, ...]
aten: Any = torch.ops.aten


def _along_a_dimension(
    x: torch.Tensor, s: torch.Tensor, order: torch.Tensor, some: torch.Tensor
) -> Results:
    wide, narrow = (x * 7).long(), (s * 7).to(torch.int8)
    scalar, zero = x[0, 0], some[0, 0] * 0
    return (
        x.scatter(1, order, s),
        x.t().scatter(0, order.t(), s.t()),
        x.scatter(1, some.clamp(max=0)[:1], 2.5),
        x.scatter_add(0, some, s),
        x.bfloat16().scatter_add(0, some[:1], s.bfloat16()),
        narrow.scatter_add(0, some, narrow),
        wide.scatter_add(0, some, wide),
        (x > 0).scatter(1, order, s > 0),
        x.scatter(0, some, s, reduce="add"),
        x.scatter(0, some, s, reduce="multiply"),
        scalar.scatter_add(0, zero, scalar),
        scalar.scatter(0, zero.reshape(1), 1.5),
        scalar.reshape(1).scatter(0, zero, 1.5),
        x.scatter_add(0, some[:0], s),
    )


def _reductions(x: torch.Tensor, s: torch.Tensor, some: torch.Tensor) -> Results:
    found: list[torch.Tensor] = []
    for reduce in ("sum", "mean", "prod", "amin", "amax"):
        for own in (True, False):
            for a, b in ((x, s), ((x * 7).long(), (s * 7).long())):
                found.append(a.scatter_reduce(0, some, b, reduce, include_self=own))
            if reduce != "sum":
                found.append(x.index_reduce(0, some[0], s[:3], reduce, include_self=own))
    return tuple(found)


def _with_indices(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, v: torch.Tensor
) -> Results:
    put = aten.index_put
    y, positive = x.permute(3, 2, 1, 0), x > 0
    return (
        *(put(x, (a,), v), put(x, (None, a), v), put(x, (a, b), v)),
        *(put(x, (a, None, b), v), put(x, (a, b), v, True), put(x, (b, b), v, True)),
        *(put(y, (b,), v[:3], True), put(positive, (a,), x[0] < 0, True)),
        *(put(positive, (a[:2],), x[0] < 0), put(x.half(), (a,), v.half())),
        *(put(x, (positive,), v[0]), put(x, (positive,), v[:1], True)),
        *(put(x, (None, positive[0, :, :, 0]), v[:1]),),
        *(x.put(b, v[:2, None]), y.put(b, v[:2, None], True)),
        *(x.index_add(1, a.abs(), x[:, :3], alpha=2), x.index_fill(2, a.abs(), 1.5)),
        *(x.index_copy(1, b[:, 0], x[:, 1:3]), x.index_add(0, a.abs(), x + 1)),
    )


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_updates_are_those_of_eager(dynamic: bool) -> None:
    x, s = torch.randn(4, 5), torch.randn(4, 5)
    order = torch.stack([torch.randperm(5) for _ in range(4)])
    some = torch.tensor([[0, 3, 3], [1, 3, 0]])
    check(_along_a_dimension, x, s, order, some, dynamic=dynamic)
    if not dynamic:
        check(_reductions, x, s, some)
    a, b = torch.tensor([0, -1, 1]), torch.tensor([[1], [2]])
    check(_with_indices, torch.randn(3, 4, 5, 6), a, b, torch.randn(6), dynamic=dynamic)


def _written_often(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return x.index_put((at,), torch.arange(300.0))


def test_the_last_of_several_writes_wins() -> None:
    check(_written_often, torch.randn(10), torch.randint(0, 10, (300,)))


def test_gradients_of_an_embedding_leave_its_padding() -> None:
    g, at = torch.randn(3, 4, 5), torch.randint(0, 7, (3, 4))

    def gradients(g: torch.Tensor, at: torch.Tensor) -> Results:
        backward = aten.embedding_dense_backward
        return backward(g, at, 7, 2, False), backward(g.double()[0], at[0], 9, -1, False)

    def of_half(g: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = aten.embedding_dense_backward(g, at, 7, -1, False)
        return found

    check(gradients, g, at)
    check(of_half, g.bfloat16(), at, rtol=0.05, atol=0.05)


def _written_columns(
    cache: torch.Tensor, at: torch.Tensor, row: torch.Tensor
) -> torch.Tensor:
    old = cache[0] + 1
    cache[:, at] = row
    cache.index_put_((at,), row[:1, :1])
    return old + cache[1]


def _read_while_written(
    cache: torch.Tensor, at: torch.Tensor, row: torch.Tensor
) -> Results:
    old = cache.clone()
    cache[:, at] = row
    cache[at] = cache[at + 1]
    return old, cache * 2


def _kept_and_written(cache: torch.Tensor, at: torch.Tensor, row: torch.Tensor) -> Results:
    new = torch.index_put(cache, (at,), row.t())
    cache.copy_(new)
    return new.t(), new[0] * 2


@pytest.mark.parametrize(
    ("function", "nests"),
    [(_written_columns, 5), (_read_while_written, None), (_kept_and_written, None)],
)
def test_later_writes_need_no_copy(function: Any, nests: int | None) -> None:
    cache, at, row = torch.randn(5, 5), torch.tensor([1, 3]), torch.randn(5, 2)
    (lowering,) = check(function, cache, at, row)
    if nests is not None:
        assert len(lowering.loops.items) == nests


def _read_as_bits(x: torch.Tensor, at: torch.Tensor, row: torch.Tensor) -> Results:
    x = x * 2
    bits = x.view(torch.int32)
    written = x.index_put((at,), row[0, 0])
    return bits + 0, written, bits.index_put((at,), at[0].int()), x.t() + 1


def test_views_that_calls_return_keep_their_contents() -> None:
    at = torch.tensor([1, 3])
    check(_read_as_bits, torch.randn(5, 5), at, torch.randn(5, 2), calls=None)


def _masked(x: torch.Tensor, mask: torch.Tensor, v: torch.Tensor) -> Results:
    put = aten.index_put
    return (
        x.masked_scatter(x > 0, v),
        x.half().masked_scatter(mask, v.half()),
        x.masked_scatter(mask & (x[0] > 9), v[:0]),
        put(x, (None, mask), v[:3]),
        put(x, (None, mask), v[:1]),
        put(x.t(), (mask,), v[:12].reshape(3, 4), True),
        put(x.t(), (mask,), v[:4]),
        put(x, (mask.expand(4, 5),), v[:12]),
        put(x[:0], (mask.expand(4, 5)[:0],), v[:0]),
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_masked_elements_get_the_updates_in_order(dynamic: bool) -> None:
    mask = torch.tensor([True, False, True, True, False])
    check(_masked, torch.randn(4, 5), mask, torch.randn(20), dynamic=dynamic)


def test_as_many_updates_as_masked_elements_are_needed() -> None:
    mask = torch.arange(5) > 1
    run = compiled(_put_at, [])
    for count in (2, 4):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            run(torch.randn(5), mask, torch.randn(count))
    with pytest.raises(RuntimeError, match="number of elements of source"):
        compiled(torch.masked_scatter, [])(torch.randn(5), mask, torch.randn(2))


def _put_at(x: torch.Tensor, mask: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = aten.index_put(x, (mask,), v)
    return found


def test_elements_at_steps_of_memory_are_replaced() -> None:
    def function(x: torch.Tensor, s: torch.Tensor) -> Results:
        y = x.t() * 2
        return (
            torch.as_strided_scatter(x, s, (2, 3), (5, 1), 3),
            torch.as_strided_scatter(x, s, (2, 3), (1, 7)),
            torch.as_strided_scatter(y, s.t(), (3, 2), (4, 2), 1),
        )

    check(function, torch.randn(4, 6), torch.randn(2, 3))


def test_positions_of_elements_that_are_not_zero() -> None:
    def function(x: torch.Tensor, mask: torch.Tensor) -> Results:
        return (
            torch.nonzero_static(x, size=4),
            torch.nonzero_static(x.t(), size=20, fill_value=-7),
            torch.nonzero_static(mask, size=3),
            torch.nonzero_static(mask[0, 0], size=2),
            torch.nonzero_static(x[:0], size=2),
            torch.nonzero_static(x, size=0),
        )

    x = torch.randn(4, 5) * torch.tensor([0.0, 1, 0, 1, 1])
    check(function, x, x > 0)
