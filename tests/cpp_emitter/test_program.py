"""Calls of a program: what it takes and gives, threads, failures, memory."""

import os
import re
import threading
from pathlib import Path

import pytest
import torch

import wrapperir_cpp
from tests.cpp_emitter.running import assert_same, load, parsed
from wrapperir.emit import Value
from wrapperir.interp import interpret

MIXED = """
program @main(%x: f32[s0, 4] {align = 8}, %n: i64, %f: f64, %b: bool) {
  symbol s0: int 1.. = size(%x, 0)
  return %n, %f, %b
}
"""
X = torch.zeros(2, 4)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "4 inputs needed, 0 given"),
        ([X, 1, 1.0, True, 2], "4 inputs needed, 5 given"),
        ([1, 1, 1.0, True], "x needs a tensor, not an int"),
        ([None, 1, 1.0, True], "x needs a tensor, not nothing"),
        ([X.double(), 1, 1.0, True], "x needs elements of f32, not f64"),
        ([X.to("meta"), 1, 1.0, True], "x needs to be on cpu, not on meta"),
        ([X[0], 1, 1.0, True], "x needs 2 dimensions, not 1"),
        ([torch.zeros(2, 5), 1, 1.0, True], r"x needs size \[\?, 4\], not \[2, 5\]"),
        ([torch.zeros(4, 2).t(), 1, 1.0, True], r"x needs stride \[4, 1\], not \[1, 2\]"),
        ([torch.zeros(9)[1:].view(2, 4), 1, 1.0, True], "a multiple of 8"),
        ([X[:0], 1, 1.0, True], "s0"),
        ([X, X, 1.0, True], "n needs an int, not a tensor"),
        ([X, 1.0, 1.0, True], "n needs an int, not a float"),
        ([X, None, 1.0, True], "n needs an int, not nothing"),
        ([X, 1, X, True], "f needs a float, not a tensor"),
        ([X, 1, 1.0, 1.0], "b needs a bool, not a float"),
    ],
)
def test_what_is_not_as_declared_is_refused(inputs: list[Value], message: str) -> None:
    call = load(parsed(MIXED), {})
    with pytest.raises(RuntimeError, match=f"main: .*{message}"):
        call(list(inputs))
    assert call([X, 2, 3.0, False]) == (2, 3.0, False)


def test_whole_numbers_and_bools_become_what_is_declared() -> None:
    outputs = load(parsed(MIXED), {})([X, True, 3, 2])
    assert outputs == (1, 3.0, True)
    assert list(map(type, outputs)) == [int, float, bool]


def test_sizes_that_symbols_say_are_checked() -> None:
    call = load(
        parsed(
            """
            program @main(%x: f32[s0], %y: f32[s0 * 2, s0; stride s0, 1]) {
              symbol s0: int = size(%x, 0)
              return s0
            }
            """
        ),
        {},
    )
    assert call([torch.zeros(3), torch.zeros(6, 3)]) == (3,)
    with pytest.raises(RuntimeError, match=r"y needs size \[6, 3\], not \[6, 4\]"):
        call([torch.zeros(3), torch.zeros(6, 4)])
    with pytest.raises(RuntimeError, match=r"y needs stride \[3, 1\], not \[4, 1\]"):
        call([torch.zeros(3), torch.zeros(6, 4)[:, :3]])
    with pytest.raises(RuntimeError, match=r"y needs stride \[\?, 1\], not \[1, 6\]"):
        call([torch.zeros(3), torch.zeros(3, 6).t()])


def test_outputs_share_what_they_name() -> None:
    call = load(
        parsed(
            """
            program @main(%x: f32[4]) {
              constant %w: f32[4] = "w"
              %a = extern_kernel aten.neg.default(%x) : f32[4]
              %v = reinterpret %a as f32[2; offset 2]
              return %x, %w, %a, %v, %a
            }
            """
        ),
        {"w": (w := torch.ones(4))},
    )
    x = torch.arange(4.0).requires_grad_()
    given, constant, a, v, b = (t for t in call([x]) if isinstance(t, torch.Tensor))
    assert given.data_ptr() == x.data_ptr()
    assert constant.data_ptr() == w.data_ptr()
    assert a.data_ptr() == b.data_ptr() == v.data_ptr() - 8
    assert not a.requires_grad
    assert torch.is_grad_enabled()
    (_, _, other, *_) = call([x])
    assert isinstance(other, torch.Tensor)
    assert other.data_ptr() != a.data_ptr()


RUNTIME = Path(wrapperir_cpp.__file__).with_name("runtime")


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.sweep)])
def test_programs_may_use_names_that_the_runtime_has(first: int) -> None:
    # Every other name is a tensor's, the rest are numbers'; the sweep has the others.
    kinds = "f32[1]", "i64"
    text = "".join(path.read_text() for path in RUNTIME.glob("*.h"))
    words = {*re.findall(r"[A-Za-z_]\w*", text), "__x86_64__", "linux", "NULL", "first"}
    words |= {"aoti_torch_cpu_neg_out", "copy", "next", "go_on", "ints_1", "chunk_0"}
    names = sorted(words - {"double", "new", "zero"})
    inputs = [(name, kinds[(first + n) % 2]) for n, name in enumerate(names)]
    given = ", ".join(f"%{name}: {kind}" for name, kind in inputs)
    returned = ", ".join(f"%{name}" for name in names)
    call = load(
        parsed(
            f"""
            program @main({given}) {{
              %new = extern_kernel aten.ones.default([1]) : f32[1]
              %zero = allocate f32[1] workspace(zero_on_call)
              extern_kernel aten.neg.out(%new, out = %zero) writes(%zero)
              %double = extern_kernel aten.add.Tensor(%zero, %new) : f32[1]
              free %new
              free %zero
              return {returned}, %double
            }}
            """
        ),
        {},
    )
    values: list[Value] = [
        torch.full((1,), float(n)) if kind == "f32[1]" else n
        for n, (_, kind) in enumerate(inputs)
    ]
    outputs = call(list(values))
    assert [float(value or 0) for value in outputs] == [*range(len(names)), 0]


def test_names_may_be_as_long_as_names_are() -> None:
    names = ["a" * 255, "a" * 254 + "b", "_" * 255, "A" * 255]
    given = ", ".join(f"%{name}: f32[4]" for name in names)
    parts, halves = "r" * 255, "(f32[2], f32[2; offset 2])"
    split = f"aten.split.Tensor(%{names[0]}, 2) aliases(%{names[0]}) : {halves}"
    call = load(
        parsed(
            f"""
            program @main({given}) {{
              %{parts} = extern_kernel {split}
              %s = multi_output %{parts}[1] : f32[2; offset 2]
              free %{parts}
              return %s, %{", %".join(names)}
            }}
            """
        ),
        {},
    )
    x = torch.arange(4.0)
    outputs = call([x, x + 1, x + 2, x + 3])
    assert_same(outputs, (x[2:], x, x + 1, x + 2, x + 3))


def test_views_count_from_where_a_given_tensor_begins() -> None:
    whole = torch.arange(32.0)
    weight = torch.arange(32.0)
    text = """
    program @main(%x: mutated f32[8; offset 4]) {
      constant %w: f32[8; offset 4] = "w"
      %a = reinterpret %x as f32[2; offset 10]
      %b = reinterpret %x as i32[4; stride 2; offset 2]
      %c = reinterpret %a as u8[8; offset 20]
      %d = reinterpret %w as i16[4; offset 8]
      %e = reinterpret %w as f32[2; offset 6]
      extern_kernel aten.fill_.Scalar(%a, 7.0) writes(%a)
      %f = extern_kernel aten.clone.default(%d) : i16[4]
      %g = extern_kernel aten.clone.default(%e) : f32[2]
      free %d
      free %e
      return %a, %b, %c, %f, %g
    }
    """
    program = parsed(text)
    wanted = interpret(program, [whole.clone()[11:19]], {"w": weight[5:13]})
    outputs = load(program, {"w": weight[5:13]})([whole[11:19]])
    assert_same(outputs, wanted)
    assert torch.equal(whole[17:19], torch.full((2,), 7.0))


POLYNOMIAL = """
program @main(%x: f32[64]) {
  %a = allocate f32[64]
  extern_kernel aten.mul.out(%x, %x, out = %a) writes(%a)
  %b = allocate f32[64]
  extern_kernel aten.add.out(%a, %x, out = %b) writes(%b)
  free %a
  %c = extern_kernel aten.add.Tensor(%b, %b) : f32[64]
  free %b
  return %c
}
"""


def test_threads_have_frames_of_their_own() -> None:
    call = load(parsed(POLYNOMIAL), {})
    wrong: list[int] = []

    def work(number: int) -> None:
        x = torch.full((64,), float(number))
        for _ in range(300):
            (y,) = call([x])
            if not isinstance(y, torch.Tensor) or (y != 2 * (x * x + x)).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


COUNTER = """
kernel_definition @count cpp(p: read_write i64*) {
  entry = count
  source {
    | #include <cstdint>
    | extern "C" void count(int64_t* p) { p[0] += 1; }
  }
}
kernel_definition @reset cpp(p: read_write i64*) {
  entry = reset
  source {
    | #include <cstdint>
    | extern "C" void reset(int64_t* p) { p[0] = 0; }
  }
}
program @main(%n: i64) {
  symbol n: int = value(%n)
  %w = allocate i64[1] workspace(zero_per_program)
  kernel_call @count(%w)
  %r = extern_kernel aten.clone.default(%w) : i64[1]
  assert_scalar n > 0 "too small"
  kernel_call @reset(%w)
  return %r
}
"""


def test_after_a_failure_workspaces_begin_anew() -> None:
    call = load(parsed(COUNTER), {})
    for number in (1, 0, 0, 1):
        if number:
            (r,) = call([number])
            assert isinstance(r, torch.Tensor)
            assert r.item() == 1
        else:
            with pytest.raises(
                RuntimeError,
                match=r"main, program.wir:\d+, assert_scalar n > 0 .*: too small",
            ):
                call([number])


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.parametrize("fails", [False, True])
def test_calls_leave_no_memory_behind(fails: bool) -> None:
    call = load(
        parsed(
            """
            program @main(%x: f32[s0], %n: i64) {
              symbol s0: int = size(%x, 0)
              symbol n: int = value(%n)
              %a = allocate f32[s0 * 2]
              %v = reinterpret %a as f32[s0]
              free %a
              extern_kernel aten.neg.out(%x, out = %v) writes(%v)
              free %x
              assert_scalar n > 0
              return %v
            }
            """
        ),
        {},
    )
    x = torch.zeros(1000)

    def run(count: int) -> None:
        for _ in range(count):
            if fails:
                with pytest.raises(RuntimeError):
                    call([x, 0])
            else:
                call([x, 1])

    run(2000)
    before = resident_bytes()
    run(3000)
    assert resident_bytes() - before < 4 * 2**20  # one tensor a call would be 12 MB


@pytest.mark.parametrize("is_first", [True, False])
def test_calls_in_inference_mode_and_others_share_frames(is_first: bool) -> None:
    text = """
    program @main(%x: f32[4]) {
      constant %w: mutated f32[4] = "w"
      %v = reinterpret %w as f32[2, 2]
      extern_kernel aten.add_.Tensor(%v, 1) writes(%v)
      free %v
      %a = allocate f32[4]
      extern_kernel aten.copy_.default(%a, %x) writes(%a)
      extern_kernel aten.add_.Tensor(%a, %w) writes(%a)
      %b = extern_kernel aten.clone.default(%a) : f32[4]
      free %a
      return %b
    }
    """
    w = torch.zeros(4)
    with torch.inference_mode(is_first):
        call = load(parsed(text), {"w": w})
    x = torch.zeros(4)
    for number in range(4):
        with torch.inference_mode((number % 2 == 0) is is_first):
            (y,) = call([x])
            assert isinstance(y, torch.Tensor)
            assert y.tolist() == [number + 1.0] * 4


SIZED = """
program @main(%x: f32[s0]) {
  symbol s0: int = size(%x, 0)
  return s0
}
"""


def test_what_has_no_memory_is_refused() -> None:
    call = load(parsed(SIZED), {})
    emptied = torch.ones(4)
    emptied.untyped_storage().resize_(0)
    for x in (emptied, torch._efficientzerotensor(4)):
        with pytest.raises(RuntimeError, match="%x needs memory for its elements"):
            call([x])
    assert call([torch.empty(0)]) == (0,)


@pytest.mark.parametrize("offset", ["4", "n"])
def test_a_given_storage_begins_where_the_program_counts_from(offset: str) -> None:
    text = f"""
    program @main(%x: f32[4; offset {offset}], %n: i64) {{
      symbol n: int = value(%n)
      %a = reinterpret %x as f32[4]
      %b = extern_kernel aten.clone.default(%a) : f32[4]
      free %a
      return %b
    }}
    """
    call = load(parsed(text), {})
    whole = torch.arange(16.0)
    assert_same(call([whole[5:9], 4]), [whole[1:5]])
    with pytest.raises(RuntimeError, match="x needs offset 4 or more, not 3"):
        call([whole[3:7], 4])


CALLS = 24
MEETINGS = [threading.Barrier(1)]


@torch.library.custom_op("wrapperir_program::meet", mutates_args=())
def meet(x: torch.Tensor) -> torch.Tensor:
    """Wait until all calls are here."""
    MEETINGS[-1].wait()
    return x + 1


def test_frames_of_many_calls_at_once_are_not_kept() -> None:
    text = """
    program @main(%x: f32[4000000], %s: f32[]) {
      %a = allocate f32[4000000]
      extern_kernel aten.neg.out(%x, out = %a) writes(%a)
      %b = extern_kernel wrapperir_program.meet.default(%s) : f32[]
      free %a
      return %b
    }
    """
    call = load(parsed(text), {})
    x, s = torch.zeros(4000000), torch.zeros(())
    call([x, s])
    before = resident_bytes()
    MEETINGS.append(threading.Barrier(CALLS))
    threads = [threading.Thread(target=call, args=([x, s],)) for _ in range(CALLS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    most = max(os.cpu_count() or 1, 8)
    if most >= CALLS / 2:
        pytest.skip("a frame is kept for each processor, and there are many")
    assert resident_bytes() - before < 16_000_000 * (most + CALLS) / 2


@pytest.mark.sweep  # compiling it takes long
def test_many_values_do_not_take_the_stack() -> None:
    count = 2300  # 37 KB
    lines = [f"%b{i} = extern_kernel aten.relu.default(%x) : f32[8]" for i in range(count)]
    lines += [f"free %b{i}" for i in range(1, count)]
    body = "\n".join(lines)
    program = parsed(f"program @main(%x: f32[8]) {{\n{body}\nreturn %b0\n}}\n")
    call = load(program, {})
    found: list[Value] = []
    before = threading.stack_size(32 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.extend(call([torch.ones(8)])))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert_same(found, [torch.ones(8)])
