"""Calls of multi-kernels: each policy, in one library that is built once."""

import threading
from typing import Any, cast

import pytest
import torch
from attrs import define
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cpp_emitter.multi_kernel_library import (
    CALLS,
    IN_BRANCH,
    IN_LOOP,
    kernel,
    library,
)
from wrapperir.emit import Artifact, Loaded
from wrapperir.ir import ComputedChoice, MultiKernelLine, NearestChoice, choose
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

PROGRAM = library()
MULTI = {
    line.name: line for line in PROGRAM.definitions if isinstance(line, MultiKernelLine)
}
OUT = {
    name: index for index, name in enumerate(name for name in CALLS if name != "counting")
}
THREADS = 4
MARKS = "mark_0", "mark_1"


@define
class Run:
    """The inputs of a call by their names, and what it returned."""

    inputs: dict[str, torch.Tensor]
    out: torch.Tensor
    g_out: torch.Tensor
    looped: torch.Tensor

    def number(self, name: str) -> int:
        """Return the number of the kernel that one of the calls ran."""
        return int(self.out[OUT[name]])


def inputs(rows: int = 3, columns: int = 5, sometimes: int = 0) -> dict[str, torch.Tensor]:
    strided = torch.arange(40.0).as_strided((4, 4), (10, 2))
    made = {
        **{name: torch.arange(8.0) for name in "abcde"},
        "f": torch.arange(16.0),
        "g": torch.arange(8.0).expand(2, 8),
        "strided": strided,
        "h": torch.arange(8.0),
        "none": torch.empty(0, 3),
        "counts": torch.zeros(1, dtype=torch.int64),
        "s": torch.empty(rows, columns, dtype=torch.uint8),
        "s_wide": torch.empty(rows, 100, dtype=torch.uint8),
        "s_known": torch.empty(3000, 2500, dtype=torch.uint8),
        "sometimes": torch.zeros(sometimes),
    }
    assert list(made) == [given.name for given in PROGRAM.inputs]
    return made


def run(call: Loaded, rows: int = 3, columns: int = 5, sometimes: int = 0) -> Run:
    made = inputs(rows, columns, sometimes)
    found = cast(tuple[torch.Tensor, ...], call(list(made.values())))
    return Run(made, *found)


@define
class Library:
    """The built program, and what it returned to threads that began at once."""

    artifact: Artifact
    call: Loaded
    first: list[Run]


# Once in a process, which keeps the choices of a library.
@pytest.fixture(scope="session")
def built() -> Library:
    emitter = CppEmitter()
    artifact = emitter.emit(PROGRAM)
    call = emitter.load(artifact, {})
    assert {chosen for _, chosen in cast(Any, call).timed_choices} == {None}
    ready, first = threading.Barrier(THREADS), list[Run]()

    def begin() -> None:
        ready.wait()
        first.append(run(call))  # one that fails is missed

    threads = [threading.Thread(target=begin) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Library(artifact, call, first)


def assert_each_ran_once(found: Run) -> None:
    """Assert what all calls leave, whichever kernels they ran."""
    numbers, given = torch.arange(8.0), found.inputs
    assert torch.equal(given["a"], numbers + 2)  # in the branch, too
    for name in "bcd":
        assert torch.equal(given[name], numbers + 1)
    assert torch.equal(given["e"], 2 * numbers + 1)
    overlapping = torch.arange(16.0)
    for index in range(8):
        overlapping[index + 4] = 2 * overlapping[index] + 1
    assert torch.equal(given["f"], overlapping)
    assert torch.equal(given["g"], numbers.expand(2, 8))
    assert torch.equal(found.g_out, 2 * numbers + 1)
    around = torch.arange(40.0)
    around[:37] += 1
    assert torch.equal(given["strided"].as_strided((40,), (1,)), around)
    assert torch.equal(given["h"], numbers + 1)
    assert torch.equal(found.looped, 4 * (numbers + 1) + 3)


def test_the_program_is_valid() -> None:
    assert verify(PROGRAM) == ()


def test_threads_that_begin_at_once_compute_the_same(built: Library) -> None:
    assert len(built.first) == THREADS
    for found in built.first:
        assert_each_ran_once(found)
        assert {found.number(name) for name in ("last", "first", "middle")} <= {0, 1, 2, 3}


def test_arguments_are_changed_by_one_kernel_alone(built: Library) -> None:
    assert_each_ran_once(run(built.call))


@pytest.mark.parametrize(
    ("name", "fastest"),
    [
        ("last", 2),
        ("first", 2),
        ("middle", 2),
        ("failing", 2),
        ("twice", 1),
        ("overlapping", 1),
        ("expanded", 1),
        ("strided", 2),
        ("subset", 1),
        ("starting", 1),
        ("aligned", 1),
    ],
)
def test_the_fastest_wins_wherever_it_stands(
    built: Library, name: str, fastest: int
) -> None:
    assert run(built.call).number(name) == fastest


def test_calls_in_blocks_choose(built: Library) -> None:
    found = run(built.call)
    assert int(found.out[IN_LOOP]) == 1
    assert int(found.out[IN_BRANCH]) == 2
    assert int(run(built.call, 4000, 10).out[IN_BRANCH]) == 1


def test_later_calls_time_nothing(built: Library) -> None:
    counts = [int(run(built.call).inputs["counts"][0]) for _ in range(3)]
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]


def test_the_fastest_can_be_asked_for(built: Library) -> None:
    run(built.call)
    chosen = cast(list[tuple[str, str]], cast(Any, built.call).timed_choices)
    apart = "last", "emptied"
    assert {name: kernel for name, kernel in chosen if name not in apart} == {
        "first": "add_quick",
        "middle": "add_quick",
        "failing": "add_quick",
        "reading": "read_quick",
        "working": "work_quick",
        "counting": "count_1",
        "starting": "add_starting",
        "aligned": "add_aligned",
    }
    assert "add_quick" in {kernel for name, kernel in chosen if name == "last"}


def test_a_call_without_elements_decides_nothing(built: Library) -> None:
    for sometimes, fastest in ((0, None), (0, None), (8, "add_quick"), (0, "add_quick")):
        found = run(built.call, sometimes=sometimes)
        expected = torch.ones(sometimes)
        assert torch.equal(found.inputs["sometimes"], expected)
        assert found.number("emptied") == (2 if fastest else 3)
        assert dict(cast(Any, built.call).timed_choices)["emptied"] == fastest


def test_what_is_settled_is_called_directly(built: Library) -> None:
    found = run(built.call)
    for name in ("by force", "by record", "by size"):
        assert found.number(name) == 1
    text = str(built.artifact.files["program.cpp"])
    for place in (16, 17, 18):
        assert f"\n  cpp_mark_1(c.p[out], {place});\n" in text
    assert "cpp_unbuilt" not in text
    assert not [path for path in built.artifact.files if "unbuilt" in path]
    assert found.number("near, all known") == wanted("near", 3000, 2500)
    number = found.number("near, all known")
    assert f"\n  cpp_mark_{number}(c.p[out], 13);\n" in text


def wanted(name: str, rows: int, columns: int, k: float = 0) -> int:
    line = MULTI[name]
    sizes = (rows, columns)[: len(line.sizes)]
    assert isinstance(line.selection, NearestChoice | ComputedChoice)
    return choose(line.selection, sizes, {"M": rows, "N": columns, "k": k})


SIZES = st.one_of(
    st.integers(0, 9000),
    st.sampled_from([0, 1, 4, 7, 16, 32, 64, 80, 100, 256, 512, 2000, 4096]),
    st.integers(0, 13).flatmap(lambda bits: st.integers(2**bits - 1, 2**bits + 1)),
)


@given(rows=SIZES, columns=SIZES)
@example(rows=4095, columns=5)
def test_choices_by_size_are_those_of_the_rule(
    built: Library, rows: int, columns: int
) -> None:
    for _ in range(2):  # then from the frame
        found = run(built.call, rows, columns)
        assert {
            name: found.number(name)
            for name in (
                *("near_rows", "near", "near, one size known"),
                *("computed", "computed, one size known"),
                *("exact", "exact, in floats"),
            )
        } == {
            "near_rows": wanted("near_rows", rows, columns),
            "near": wanted("near", rows, columns),
            "near, one size known": wanted("near", rows, 100),
            "computed": wanted("computed", rows, columns, rows - columns),
            "computed, one size known": wanted("computed", rows, 100, 4),
            "exact": wanted("exact", rows, columns, 2),
            "exact, in floats": wanted("exact", rows, columns, 2.0),
        }


def test_a_choice_by_size_reads_well(built: Library) -> None:
    text = str(built.artifact.files["program.cpp"])
    assert (
        """
int32_t choose_computed(const Call& c) {
  if (num::mul(c.s0, c.s1) <= 65536) {
    if (c.s0 < c.s1) return 0;
    if (c.k > 3) return 1;
    return 2;
  }
  if (num::mod(c.s1, 2) == 0) return 3;
  return 0;
}
"""
        in text
    )
    assert (
        """
// The sizes that each choice of near is for.
constexpr Hint<2> hints_near[] = {
  {3, {0.5, 7.0}},
"""
        in text
    )
    assert (
        """
  switch (nearest(hints_near, {c.s0, c.s1}, c.recent + 2)) {
    case 0: cpp_mark_0(c.p[out], 11); break;
    case 1: cpp_mark_1(c.p[out], 11); break;
    case 2: cpp_mark_2(c.p[out], 11); break;
    default: cpp_mark_3(c.p[out], 11);  // 3
  }
"""
        in text
    )


def test_calls_share_their_fastest_where_arguments_are_of_the_same_type() -> None:
    signature, types = "out: write i64*, at: f64", "int64_t* out, double at"
    kernels = [kernel(name, signature, types, f"*out = {name[-1]};") for name in MARKS]
    choices = "".join(f"  choice @{name}(0, 1)\n" for name in MARKS)
    numbers = ("2", "2.0", "2", "2.0", "1", "true")
    calls = "".join(f"  kernel_call @mark(%out, {number})\n" for number in numbers)
    program = parse_program(
        f"wrapperir 1\n\n{''.join(kernels)}"
        f"multi_kernel @mark({signature}) {{\n{choices}  select benchmark\n}}\n"
        f"program @main() {{\n  %out = allocate i64[1]\n{calls}  return %out\n}}\n"
    )
    text = str(CppEmitter().emit(program).files["program.cpp"])
    assert text.count("\nFastest fastest_mark") == 4


def test_what_times_choices_reads_well(built: Library) -> None:
    text = str(built.artifact.files["program.cpp"])
    assert (
        """
constexpr const char* names_working[] = {"add_slow", "work_quick"};
Fastest fastest_working = {"working", 2, names_working};
"""
        in text
    )
    assert (
        """
// Times the choices of working for one kind of call.
[[gnu::cold, gnu::noinline]] int32_t time_working(Call& c) {
  const Argument given[] = {
    {c.p[h], 32, Use::read_write},
    {c.arena, 32, Use::read_write},
    {c.p[out], 208, Use::write},
  };
  auto run_choice = [&](int32_t choice, char* const* p) {
    switch (choice) {
      case 0: cpp_add_slow(p[0], p[2], 8, 8); break;
      default: cpp_work_quick(p[0], p[1], p[2], 8);  // 1
    }
  };
  return time_choices(fastest_working, given, run_choice);
}
"""
        in text
    )
    assert "{c.p[strided], 148, Use::read_write}" in text
    assert "{c.p[g], 32, Use::read}" in text
