"""What an operator is given from C++: all that a program can say, unchanged."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpp_emitter.operator_calls import Call, copied, operators, program_of
from tests.cpp_emitter.running import load, parsed, run_both
from tests.torch_release import NEEDS_MESSAGES
from wrapperir.diagnostics import DiagnosticError
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import BRIDGE_SOURCE

_PLAIN = """(Tensor x, Tensor? t, Tensor[] ts, Tensor?[] os, int i, int? oi, int[] li,
int[]? oli, int[2] pair, float f, float? of, float[] lf, bool b, bool[] lb, str s, str? z,
str[] ls, ScalarType d, ScalarType? od, Layout l, MemoryFormat? m, Device v) -> ()"""
_NUMBERS = """(Tensor x, Tensor t, Scalar s, Scalar? o, Scalar[] ls, complex c,
Tensor?[] os, int i, str z) -> ()"""

given_to_operators: list[list[Any]] = []


def note(*arguments: Any) -> None:
    given_to_operators.append(copied(list(arguments)))


@pytest.fixture(scope="module", autouse=True)
def recording_operators() -> Iterator[None]:
    """Register operators that note what they are given."""
    with operators("wrapperir_arguments", plain=(_PLAIN, note), numbers=(_NUMBERS, note)):
        yield


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and left.dtype == right.dtype
            and left.stride() == right.stride()
            and bool(torch.equal(left, right))
        )
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left != right))


def assert_given_alike(calls: list[Call], *, bridge: bool) -> None:
    given_to_operators.clear()
    program, inputs, _ = program_of(calls)
    wanted = list(given_to_operators)
    assert len(wanted) == len(calls)
    given_to_operators.clear()
    emitter = CppEmitter()
    artifact = emitter.emit(program)
    assert (BRIDGE_SOURCE in artifact.files) is bridge
    assert emitter.load(artifact, {})(list(inputs)) == ()
    assert same(given_to_operators, wanted)


INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats()
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DTYPES = st.sampled_from([torch.float32, torch.bool, torch.int64, torch.complex64])
DEVICES = st.sampled_from([torch.device("cpu"), torch.device("cpu", 0)])
FORMATS = st.sampled_from(
    [
        *(torch.contiguous_format, torch.preserve_format),
        *(torch.channels_last, torch.channels_last_3d),
    ]
)
LAYOUTS = st.sampled_from([torch.strided, torch.sparse_coo, torch.sparse_bsc])


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    size = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from([torch.float32, torch.int64, torch.complex64]))
    found = torch.arange(torch.Size(size).numel()).reshape(size).to(dtype)
    return found.t() if len(size) == 2 and draw(st.booleans()) else found


def short(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=3)


PLAIN_CALLS = st.builds(
    lambda *arguments: Call("wrapperir_arguments.plain.default", arguments),
    tensors(),
    st.none() | tensors(),
    short(tensors()),
    short(st.none() | tensors()),
    INTS,
    st.none() | INTS,
    short(INTS),
    st.none() | short(INTS),
    INTS | st.lists(INTS, min_size=2, max_size=2),
    FLOATS | st.integers(-9, 9),
    st.none() | FLOATS,
    short(FLOATS),
    st.booleans(),
    short(st.booleans()),
    STRINGS,
    st.none() | STRINGS,
    short(STRINGS),
    DTYPES,
    st.none() | DTYPES,
    LAYOUTS,
    st.none() | FORMATS,
    DEVICES,
)
COMPLEX = st.complex_numbers(allow_nan=False)
SCALARS = INTS | FLOATS | st.booleans() | COMPLEX
NUMBER_CALLS = st.builds(
    lambda *arguments: Call("wrapperir_arguments.numbers.default", arguments),
    tensors(),
    tensors(),
    SCALARS,
    st.none() | SCALARS,
    short(SCALARS),
    COMPLEX,
    short(st.none() | tensors()),
    INTS,
    STRINGS,
)


@settings(max_examples=3)
@given(st.lists(PLAIN_CALLS, min_size=12, max_size=12))
def test_values_that_the_stable_interface_carries(calls: list[Call]) -> None:
    assert_given_alike(calls, bridge=False)


@settings(max_examples=3)
@given(st.lists(NUMBER_CALLS, min_size=12, max_size=12))
def test_values_that_need_the_bridge(calls: list[Call]) -> None:
    assert_given_alike(calls, bridge=True)


def test_numbers_that_the_run_decides() -> None:
    run_both(
        """
        program @main(%x: f32[s0, 3], %i: i64, %f: f64, %b: bool) {
          symbol s0: int 0..9 = size(%x, 0)
          symbol i: int = value(%i)
          symbol f: float = value(%f)
          symbol b: bool = value(%b)
          %r0 = extern_kernel aten.full.default([s0, 2], i) : i64[s0, 2]
          %r1 = extern_kernel aten.full.default([s0, 2], f) : f32[s0, 2]
          %r2 = extern_kernel aten.full.default([s0, 2], b) : bool[s0, 2]
          %r3 = extern_kernel aten.full.default([s0], where(b, i, f)) : f32[s0]
          %r4 = extern_kernel aten.add.Scalar(%x, i * 2, f) : f32[s0, 3]
          %r5 = extern_kernel aten.mul.Tensor(%x, f) : f32[s0, 3]
          %r6 = extern_kernel aten.narrow_copy.default(%x, 1, i - 2, 1) : f32[s0, 1]
          %r7 = extern_kernel aten.cumsum.default(%x, i - 3) : f32[s0, 3]
          %r8 = extern_kernel aten.sum.dim_IntList(%x, [i - 3, 1], i > 2) : f32[1, 1]
          %r9 = extern_kernel aten.pow.Tensor_Scalar(%x, f) : f32[s0, 3]
          %r10 = extern_kernel aten.add.Scalar(%x, %i) : f32[s0, 3]
          return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10
        }
        """,
        torch.randn(4, 3),
        3,
        2.5,
        False,
    )


def test_parts_of_tuples_and_names_of_tuples_are_arguments() -> None:
    run_both(
        """
        program @main(%x: f32[4, 3]) {
          %t = extern_kernel aten.split.Tensor(%x, 2) aliases(%x) : (f32[2, 3], f32[2, 3])
          %r0 = extern_kernel aten.cat.default(%t, 1) : f32[2, 6]
          %a = multi_output %t[1] : f32[2, 3]
          %r1 = extern_kernel aten.cat.default([%a, %x]) : f32[6, 3]
          free %a
          free %t
          return %r0, %r1
        }
        """,
        torch.randn(4, 3),
    )


def test_none_results_are_arguments() -> None:
    outputs = run_both(
        f"""
        program @main(%g: f32[1, 2, 6, 6], %x: f32[1, 3, 8, 8], %w: f32[2, 3, 3, 3]) {{
          %t = extern_kernel aten.convolution_backward.default({_BACKWARD}) : {_GRADIENTS}
          %n = multi_output %t[0] : opaque("none")
          %d = multi_output %t[1] : f32[2, 3, 3, 3]
          %y = extern_kernel aten.convolution.default({_FORWARD}) : f32[1, 2, 6, 6]
          free %t
          free %n
          free %d
          return %y
        }}
        """,
        *(torch.randn(1, 2, 6, 6), torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)),
    )
    assert len(outputs) == 1


_BACKWARD = "%g, %x, %w, [2], [1], [0], [1], false, [0], 1, [false, true, false]"
_GRADIENTS = 'opaque("none"), f32[2, 3, 3, 3], opaque("none")'.join("()")
_FORWARD = "%x, %d, %n, [1], [0], [1], false, [0], 1"


REFUSED = {
    "aten.mm.default(%x)": "needs an argument 'mat2'",
    "aten.mm.default(%x, %x, %x)": "takes 2 arguments by position",
    "aten.mm.default(%x, mat2 = %x, other = %x)": "has no argument 'other'",
    "aten.mm.default(%x, %x, self = %x)": "is given 'self' twice",
    "aten.relu.default([%x])": "takes no list (its type is Tensor)",
    "aten.cumsum.default(%x, 0.5)": "takes no float (its type is int)",
    "aten.cumsum.default(%x, %x)": "takes no tensor (its type is int)",
    'aten.cumsum.default(%x, "0")': "takes no string (its type is int)",
    "aten.cat.default([%x, none], 0, 1)": "takes 2 arguments by position",
    "aten.clone.default(%x, memory_format = memory_format(odd))": "format' named 'odd'",
    "aten.absent.default(%x)": "PyTorch has no operator aten.absent",
    "aten.relu.absent(%x)": "aten.relu has no overload absent",
    "absent.relu.default(%x)": "PyTorch has no operator absent.relu",
}


@pytest.mark.parametrize("call", REFUSED)
def test_calls_that_no_operator_takes_are_refused_at_their_line(call: str) -> None:
    program = parsed(
        f"""
        program @main(%x: f32[2, 2]) {{
          %y = extern_kernel aten.relu.default(%x) : f32[2, 2]
          %z = extern_kernel {call} : f32[2, 2]
          free %y
          return %z
        }}
        """
    )
    with pytest.raises(DiagnosticError) as caught:
        CppEmitter().emit(program)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.value == "WIR705"
    assert REFUSED[call] in diagnostic.message
    assert diagnostic.path == ("lines", 1)


@NEEDS_MESSAGES
def test_an_operator_that_is_gone_is_a_failure_of_the_line() -> None:
    program = """
        program @main(%x: f32[2]) {
          %y = extern_kernel wrapperir_gone.op.default(%x) : f32[2]
          return %y
        }
        """
    with operators("wrapperir_gone", op=("(Tensor x) -> Tensor", torch.neg)):
        call = load(parsed(program), {})
        (result,) = call([torch.ones(2)])
        assert isinstance(result, torch.Tensor)
        assert result.tolist() == [-1, -1]
    with pytest.raises(
        RuntimeError, match=r"program.wir:4, .*wrapperir_gone::op.*; import or load"
    ):
        call([torch.ones(2)])


def test_a_device_that_only_an_argument_names() -> None:
    program = parsed(
        """
        program @main(%x: f32[2]) {
          %y = extern_kernel aten.ones_like.default(%x, device = device(meta)) : f32[2]@meta
          %n = extern_kernel aten.sym_numel.default(%y) : i64
          free %y
          return %n
        }
        """
    )
    assert load(program, {})([torch.ones(2)]) == (2,)
