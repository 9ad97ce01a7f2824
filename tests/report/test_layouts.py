"""The layout of what is copied follows from the loops of the copy."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.ir import CopyAxis, DType, TensorType, contiguous_stride
from wrapperir.report.layouts import copied_layout, layout_name


def tensor(*size: int, stride: tuple[int, ...] | None = None) -> TensorType:
    steps = contiguous_stride(size) if stride is None else stride
    return TensorType(dtype=DType.F32, size=size, stride=steps)


def test_a_permuted_slice_has_its_strides() -> None:
    # x.view(2, 32, 32).split(16, -1)[1].transpose(1, 2)
    loops = CopyAxis(2, 512, 1024), CopyAxis(16, 32, 1), CopyAxis(32, 1, 32)
    found = copied_layout(tensor(2, 16, 32), loops)
    assert found == tensor(2, 16, 32, stride=(1024, 1, 32))
    assert layout_name(found) == "stride 1024, 1, 32"


def test_one_loop_may_run_through_several_dimensions() -> None:
    found = copied_layout(tensor(4, 1, 8), [CopyAxis(32, 1, 2)])
    assert found == tensor(4, 1, 8, stride=(16, 8, 2))


def test_what_steps_unevenly_through_a_dimension_has_no_strides() -> None:
    loops = CopyAxis(2, 4, 1), CopyAxis(4, 1, 2)
    assert copied_layout(tensor(8), loops) is None
    assert copied_layout(tensor(2, 4), loops) == tensor(2, 4, stride=(1, 2))


def test_loops_that_do_not_fit_have_no_strides() -> None:
    assert copied_layout(tensor(2, 8), [CopyAxis(4, 1, 2)]) is None
    assert copied_layout(tensor(8), [CopyAxis(8, 1, -1)]) is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
        lambda size: st.tuples(st.permutations(size), st.permutations(range(len(size))))
    )
)
def test_strides_of_permuted_tensors_are_found(
    drawn: tuple[list[int], list[int]],
) -> None:
    size, order = drawn
    source = torch.empty(size).permute(order)
    target = torch.empty(source.shape)
    triples = zip(target.shape, target.stride(), source.stride(), strict=True)
    loops = [CopyAxis(*each) for each in triples if each[0] > 1]
    found = copied_layout(tensor(*target.shape), loops)
    assert found is not None
    dims = zip(found.size, found.stride, source.stride(), strict=True)
    assert all(own == step for extent, own, step in dims if extent != 1)
