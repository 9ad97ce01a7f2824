"""Making types by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import DType, Symbol, tensor

SIZES = st.lists(st.integers(0, 9) | st.just(Symbol("s0")), max_size=4).map(tuple)


@given(st.sampled_from(DType), SIZES)
def test_an_element_type_may_be_given_by_its_name(dtype: DType, size: Any) -> None:
    assert tensor(dtype.value, size) == tensor(dtype, size)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("float32", "f32"),
        ("torch.float32", "f32"),
        ("bfloat16", "bf16"),
        ("float8_e4m3fn", "f8e4m3fn"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("complex64", "c64"),
        ("fp33", None),
        ("", None),
    ],
)
def test_an_unknown_element_type_is_told_with_the_known_ones(
    name: str, meant: str | None
) -> None:
    with pytest.raises(ValueError, match="is not an element type") as raised:
        tensor(name, (8,))
    message = str(raised.value)
    assert repr(name) in message
    assert (f"did you mean {meant!r}?" in message) == (meant is not None)
    assert all(dtype.value in message for dtype in DType)


@pytest.mark.parametrize("size", [8, [8, 8], "8", None])
def test_a_size_that_is_no_tuple_is_a_type_error(size: Any) -> None:
    with pytest.raises(TypeError, match=r"size of a tensor is a tuple such as \(8,\)"):
        tensor("f32", size)


def test_a_stride_that_is_no_tuple_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="stride of a tensor is a tuple"):
        tensor("f32", (8,), 1)  # type: ignore[arg-type]
