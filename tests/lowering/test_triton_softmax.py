"""The maximum and the sum of a softmax become one reduction, where that is the same."""

import torch
from attrs import evolve

from tests.lowering.triton_kernels import run
from tests.lowering.triton_nests import (
    I0,
    R0,
    R1,
    apply,
    inner,
    load,
    nest,
    reduce,
    softmax,
    store,
)
from wrapperir.lowering.loops import InnerLoop, Nest, Reduce, Step
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import instructions
from wrapperir.lowering.triton.online_softmax import join_softmax


def _reductions(nest: Nest) -> list[ReduceOp]:
    return [step.op for step in instructions(nest.body) if isinstance(step, Reduce)]


def _replaced(nest: Nest, number: int, step: int, new: Step) -> Nest:
    """Return a nest with one instruction of one loop replaced."""
    body = list(nest.body)
    loop = body[number]
    assert isinstance(loop, InnerLoop)
    assert not isinstance(new, InnerLoop)
    steps = (*loop.body[:step], new, *loop.body[step + 1 :])
    body[number] = evolve(loop, body=steps)
    return evolve(nest, body=tuple(body))


def test_a_softmax_is_joined() -> None:
    joined = join_softmax(softmax(4, 3000))
    assert _reductions(joined) == [ReduceOp.ONLINE_SOFTMAX]
    assert len(joined.body) == 2


def test_a_logarithm_of_a_sum_is_joined() -> None:
    body = (
        inner("r0", 3000, load("v0", "in0", I0, R0), reduce("v1", ReduceOp.MAX, "v0")),
        inner(
            "r1",
            3000,
            load("v2", "in0", I0, R1),
            apply("v3", ScalarOp.SUB, "v2", "v1"),
            apply("v4", ScalarOp.EXP, "v3"),
            reduce("v5", ReduceOp.SUM, "v4"),
        ),
        apply("v6", ScalarOp.LOG, "v5"),
        apply("v7", ScalarOp.ADD, "v6", "v1"),
        store("out0", "v7", I0),
    )
    x, out = torch.randn(5, 3000), torch.empty(5)
    source = run(nest("logsumexp", (5,), *body), {"in0": x, "out0": out}).source
    assert source.count("for roffset") == 1
    torch.testing.assert_close(out, x.logsumexp(1))


def test_what_the_second_loop_stores_is_kept() -> None:
    given = softmax(4, 3000)
    second = given.body[1]
    assert isinstance(second, InnerLoop)
    steps = (*second.body, store("out1", "v4", I0, R1))
    given = evolve(given, body=(given.body[0], evolve(second, body=steps), given.body[2]))
    x, out, powers = torch.randn(4, 3000), torch.empty(4, 3000), torch.empty(4, 3000)
    assert _reductions(join_softmax(given)) == [ReduceOp.ONLINE_SOFTMAX]
    run(given, {"in0": x, "out0": out, "out1": powers})
    torch.testing.assert_close(out, x.softmax(1))
    torch.testing.assert_close(powers, (x - x.amax(1, keepdim=True)).exp())


def test_other_values_and_other_rows_are_not_joined() -> None:
    given = softmax(4, 3000)
    pair = [ReduceOp.MAX, ReduceOp.SUM]
    other = _replaced(given, 1, 0, load("v2", "in1", I0, R1))
    assert _reductions(join_softmax(other)) == pair
    shifted = _replaced(given, 1, 0, load("v2", "in0", I0 + 1, R1))
    assert _reductions(join_softmax(shifted)) == pair
    swapped = _replaced(given, 1, 1, apply("v3", ScalarOp.SUB, "v1", "v2"))
    assert _reductions(join_softmax(swapped)) == pair
    least = _replaced(given, 0, 1, reduce("v1", ReduceOp.MIN, "v0"))
    assert _reductions(join_softmax(least)) == [ReduceOp.MIN, ReduceOp.SUM]
    in_place = _replaced(given, 2, 4, store("in0", "v9", I0, R1))
    assert _reductions(join_softmax(in_place)) == pair
