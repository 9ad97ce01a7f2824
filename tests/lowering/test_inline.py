"""What is computed again is for the nodes of the buffer that is read."""

from wrapperir.ir import DType, NodeOrigin, Symbol, TensorType
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.inline import producer_of
from wrapperir.lowering.loops import Apply, Axis, Load, Store
from wrapperir.lowering.scalar_op import ScalarOp

SIN, COS, VIEW = (NodeOrigin(name=name) for name in ("sin", "cos", "view"))
F32 = TensorType(dtype=DType.F32, size=(8,), stride=(1,))
AT = (Symbol("i"),)


def apply(result: str, op: ScalarOp, origin: NodeOrigin) -> Apply:
    return Apply(result=result, dtype=DType.F32, op=op, operands=("v",), origins=(origin,))


def test_a_value_that_is_computed_again_has_the_nodes_of_its_buffer_only() -> None:
    load = Load(result="v", dtype=DType.F32, buffer="x", index=AT, origins=(COS, SIN, VIEW))
    flat = FlatNest(
        parallel=(Axis("i", 8),),
        inner=(),
        code=(
            load,
            apply("c", ScalarOp.COS, COS),
            Store(buffer="cosine", index=AT, value="c", origins=(COS,)),
            apply("s", ScalarOp.SIN, SIN),
            Store(buffer="sine", index=AT, value="s", origins=(SIN,)),
        ),
        deep=(False,) * 5,
        origins=(COS, SIN),
        stored={"cosine": (COS,), "sine": (SIN,)},
    )
    producer = producer_of(flat, "sine", F32, {})
    assert producer is not None
    assert [each.origins for each in producer.code] == [(SIN, VIEW), (SIN,)]
    assert producer.origins == (SIN,)
