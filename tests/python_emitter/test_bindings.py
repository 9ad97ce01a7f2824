"""PyTorch's C functions for operators: the same bits and aliases as the operators'."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from attrs import frozen
from torch._ops import OpOverloadPacket
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.torch_release import BEFORE_2_13
from wrapperir_python.emitted.bindings import find

aten = torch.ops.aten
C: Any = torch._C
OPERATORS: Any = op_db


FOUND: list[tuple[Any, int, Sequence[str], object]] = [
        (aten.mm.default, 2, (), torch.mm),
        (aten.mm.out, 2, ("out",), torch.mm),
        (aten.addmm.out, 3, ("beta", "out"), torch.addmm),
        (aten.convolution.default, 9, (), torch.convolution),
        (aten.convolution.default, 2, ("stride", "padding", "dilation", "transposed",
          "output_padding", "groups", "bias"), torch.convolution),
        # Another overload of torch 2.11 takes these arguments too.
        (aten.sum.dim_IntList, 2, (), None if BEFORE_2_13 else torch.sum),
        (aten.acos.default, 1, (), torch.acos),  # others are for numbers
        (aten.avg_pool2d.default, 3, (), C._nn.avg_pool2d),
        (aten.linalg_inv_ex.default, 1, (), C._linalg.linalg_inv_ex),
        (aten.fft_fft.default, 1, (), C._fft.fft_fft),
        (aten.special_i0e.default, 1, (), C._special.special_i0e),
        (aten.max.dim, 2, (), None),  # max.other takes two, too
        (aten.add.Tensor, 2, (), None),
        (aten.where.self_out, 1, ("self", "other", "out"), None),  # the function's is input
    (aten.sort.Tensor, 1, ("reverse",), None),  # of TorchScript
    (aten.sparse_coo_tensor.indices, 2, ("dtype", "layout"), None),
    (aten.relu.out, 1, ("out",), None),  # generated, without a binding
        (aten.sum.IntList_out, 2, ("out",), None if BEFORE_2_13 else torch.sum),
        (aten.full.default, 2, (), None),  # heeds the default device
        (aten.convolution_backward.default, 11, (), None),
        (torch.ops.prims.sin.default, 1, (), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "positional", "keywords", "function"),
    FOUND,
    ids=[str(operator) for operator, *_ in FOUND],
)
def test_a_function_is_found_where_no_other_overload_takes_the_call(
    operator: Any, positional: int, keywords: Sequence[str], function: object
) -> None:
    found = find(operator, positional, *keywords)
    assert found is (operator if function is None else function)


def aten_overloads() -> Iterator[Any]:
    for schema in C._jit_get_all_schemas():
        packet = getattr(aten, schema.name.removeprefix("aten::"), None)
        if schema.name.startswith("aten::") and isinstance(packet, OpOverloadPacket):
            yield getattr(packet, schema.overload_name or "default")


def test_functions_take_the_results_as_one_argument() -> None:
    """``torch.topk`` takes ``out``, not ``values`` and ``indices``."""
    compared = 0
    for operator in aten_overloads():
        parameters = operator._schema.arguments
        outs = [p.name for p in parameters if p.is_out]
        keywords = [p.name for p in parameters if p.kwarg_only]
        if outs and outs != ["out"]:
            compared += 1
            assert find(operator, len(parameters) - len(keywords), *keywords) is operator
    assert compared > 100


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(TypeError, match="is not an operator"):
        find(aten.mm.overloads, 2)


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Compares each call of an operator with the function that is found for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[tuple[object, ...]] = set()
        self.compared: set[str] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        key = func, len(args), *given
        if key not in self.seen:
            self.seen.add(key)
            function = find(func, len(args), *given)
            if function is not func and "empty" not in str(func):
                self.compared.add(str(func))
                assert_same_calls(func, function, args, given)
            self.compare_out(func, args, given)
        return func(*args, **given)

    def compare_out(self, func: Any, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Compare the overloads that write the results to given memory."""
        names = [p.name for p in func._schema.arguments]
        for name in func.overloadpacket.overloads():
            operator = getattr(func.overloadpacket, name)
            outs = [p.name for p in operator._schema.arguments if p.is_out]
            if not outs or [p.name for p in operator._schema.arguments] != names + outs:
                continue
            function = find(operator, len(args), *given, *outs)
            if function is operator:
                continue
            copy = copied((list(args), dict(given)))
            result = func(*copy[0], **copy[1])
            # ``out`` is a list where the result is one.
            memory = pytree.tree_map(torch.zeros_like, result)
            self.compared.add(str(operator))
            keywords = {**given, outs[0]: memory}
            assert_same_calls(operator, function, args, keywords)


def assert_same_calls(
    operator: Callable[..., Any],
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    wanted, actual = (_outcome(call, args, keywords) for call in (operator, function))
    assert wanted.error is actual.error, operator
    assert wanted.shared == actual.shared, operator
    for left, right in zip(wanted.tensors, actual.tensors, strict=True):
        assert same(left, right), operator


@frozen
class Outcome:
    """The error of a call; or its results and inputs, and which share memory."""

    error: type[Exception] | None = None
    tensors: Sequence[torch.Tensor] = ()
    shared: Sequence[Sequence[tuple[bool, bool]]] = ()


def _outcome(
    call: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Outcome:
    given = copied((list(args), dict(keywords)))
    torch.manual_seed(0)
    try:
        result = call(*given[0], **given[1])
    except (RuntimeError, ValueError, IndexError) as error:
        return Outcome(type(error))
    inputs, results = tensors_in(given), tensors_in(result)
    shared = [[aliases(r, i) for i in inputs] for r in results]
    return Outcome(None, [*results, *inputs], shared)


def tensors_in(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def copied(value: Any) -> Any:
    """Return the arguments with tensors of their own; tensors that are one stay one."""
    made: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = leaf.detach().clone()
        return made[id(leaf)]

    return pytree.tree_map(copy, value)


def aliases(left: torch.Tensor, right: torch.Tensor) -> tuple[bool, bool]:
    shares = left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
    return left is right, shares and left.numel() > 0


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if (left.dtype, left.shape, left.stride()) != (
        right.dtype,
        right.shape,
        right.stride(),
    ):
        return False
    torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
    return True


def test_functions_compute_the_bits_and_aliases_of_their_operators() -> None:
    recording = Recording()
    for info in OPERATORS:
        dtypes = info.supported_dtypes("cpu")
        dtype = next((d for d in (torch.float32, torch.int64) if d in dtypes), None)
        if dtype is None or info.name.startswith(("jiterator", "nested", "sparse")):
            continue
        samples = info.sample_inputs_func(info, torch.device("cpu"), dtype, False)
        for sample in islice(samples, 2):
            with recording, contextlib.suppress(RuntimeError, NotImplementedError):
                info.op(sample.input, *sample.args, **sample.kwargs)
    assert len(recording.compared) > 200
