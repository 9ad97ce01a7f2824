"""Operators that a device cannot record, compared with what PyTorch says of them."""

from collections.abc import Iterator

import pytest
import torch

from tests.torch_release import BEFORE_2_13
from wrapperir.ir import BufferRef, ExternKernelLine, ScalarType, tensor
from wrapperir.ir.recordable_operators import (
    DROPOUT_POSITIONS,
    RANDOM_OPERATORS,
    recording_obstacle,
)
from wrapperir.ir.types import DType
from wrapperir.text import parse_program

TYPES = {
    "x": tensor("f32", (8,)),
    "mask": tensor("bool", (8,)),
    "places": tensor("i64", (8,)),
    "several": tensor("i64", (8,)),
}


def obstacle(call: str) -> str | None:
    text = f"wrapperir 1\n\nprogram @p() {{\n  extern_kernel {call}\n  return\n}}\n"
    (line,) = parse_program(text).lines
    assert isinstance(line, ExternKernelLine)
    return recording_obstacle(line, TYPES)


def tagged(tag: torch.Tag) -> Iterator[tuple[str, str]]:
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace == "aten":
            packet = getattr(torch.ops.aten, name)
            if tag in getattr(packet, overload or "default").tags:
                yield name, overload or "default"


def test_operators_that_draw_numbers_are_known() -> None:
    names = {name for name, _ in tagged(torch.Tag.nondeterministic_seeded)}
    assert names <= RANDOM_OPERATORS


@pytest.mark.parametrize("name", DROPOUT_POSITIONS)
def test_dropout_is_where_the_schema_has_it(name: str) -> None:
    if BEFORE_2_13 and not hasattr(torch.ops.aten, name):
        pytest.skip("torch 2.11 does not have the operator")
    schema = getattr(torch.ops.aten, name).default._schema
    assert schema.arguments[DROPOUT_POSITIONS[name]].name == "dropout_p"


def test_operators_whose_results_depend_on_data_are_refused() -> None:
    tags = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
    found = {f"aten.{name}.{overload}" for tag in tags for name, overload in tagged(tag)}
    accepted = {
        name
        for name in found
        if recording_obstacle(ExternKernelLine(operator=name), {}) is None
    }
    assert accepted == {"aten.index.Tensor"}  # only if an index is a mask


@pytest.mark.parametrize(
    "call",
    [
        "aten.mm.out(%x, %x, out = %x) writes(%x)",
        "aten.add.Tensor(%x, %x)",
        "aten.convolution.default(%x, %x, none, [1, 1])",
        "aten._scaled_dot_product_flash_attention.default(%x, %x, %x)",
        "aten._scaled_dot_product_flash_attention.default(%x, %x, %x, 0.0, true)",
        "aten._scaled_dot_product_efficient_attention.default(%x, %x, %x, none, false)",
        "aten.index.Tensor(%x, [%places])",
        "aten.index_put_.default(%x, [none, %places], %x) writes(%x)",
        "aten.repeat_interleave.Tensor(%several, output_size = 16)",
        "aten.linalg_vector_norm.default(%x)",
        "aten.native_batch_norm.default(%x, none, none, none, none, true, 0.1, 0.1)",
        "aten.copy_.default(%x, %x) writes(%x)",
        "mylib.custom.default(%x)",
    ],
)
def test_these_calls_are_recorded(call: str) -> None:
    assert obstacle(call) is None


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("aten.rand.default([8])", "random"),
        ("aten.randint.low_out(0, 9, [8], out = %x) writes(%x)", "random"),
        ("aten._scaled_dot_product_flash_attention.default(%x, %x, %x, 0.5)", "random"),
        (
            "aten._scaled_dot_product_flash_attention.quantized(%x, %x, %x, none, none,"
            " none, 0.0)",
            "random",
        ),
        ("aten.bernoulli_.float(%x, 0.5) writes(%x)", "random"),
        ("aten._local_scalar_dense.default(%x)", "host"),
        ("aten.nonzero.default(%x)", "size depends on data"),
        ("aten.repeat_interleave.Tensor(%several)", "size depends on data"),
        ("aten.index.Tensor(%x, [%mask])", "mask"),
        ("aten.index_put_.default(%x, [none, %mask], %x) writes(%x)", "mask"),
        ("aten.linalg_inv.default(%x)", "host"),
        ("aten.resize_.default(%x, [9]) writes(%x)", "storage"),
        ("aten.t_.default(%x) writes(%x)", "layout"),
    ],
)
def test_these_calls_are_not(call: str, why: str) -> None:
    found = obstacle(call)
    assert found is not None
    assert why in found


def test_a_number_is_read_by_the_host() -> None:
    line = ExternKernelLine(
        result="n",
        type=ScalarType(DType.I64),
        operator="aten.sum.default",
        arguments=(BufferRef("x"),),
    )
    assert recording_obstacle(line, TYPES) is not None
