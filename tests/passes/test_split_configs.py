"""Configs become choices: of what was called, and of what picked between kernels."""

import pytest
from hypothesis import given, settings

from wrapperir.ir import (
    BenchmarkChoice,
    DefinitionLine,
    KernelCallLine,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Program,
)
from wrapperir.passes import split_configs
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def kernel(name: str, configs: int, parameters: str = "x: read_write f32*, n: i32") -> str:
    lines = "".join(f"  config B = {2 << number}\n" for number in range(configs))
    constant = "" if configs else "  constant B = 8\n"
    return f"""kernel_definition @{name} triton({parameters}, B: constexpr) {{
  grid = (ceildiv(n, B))
{constant}{lines}  entry = {name}
  source {{
    | ...
  }}
}}

"""


def program(definitions: str, *calls: str) -> Program:
    lines = "\n".join(f"  kernel_call @{call}" for call in calls)
    text = f"""wrapperir 1

{definitions}program @main(%x: mutated f32[s0, 8]) {{
  symbol s0: int 1.. = size(%x, 0)

{lines}
  return
}}
"""
    parsed = parse_program(text)
    assert verify(parsed) == ()
    return parsed


def split(before: Program) -> Program:
    after = split_configs(before)
    assert verify(after) == ()
    assert split_configs(after) == after
    return after


def shown(after: Program, name: str) -> list[str]:
    """Return the lines of a multi-kernel between its braces."""
    text = format_program(after)
    return text.split(f"multi_kernel @{name}(")[1].split("}")[0].split("\n  ")[1:]


def multi(name: str, select: str, *choices: str, sizes: bool = True) -> str:
    size = "  size M = size(x, 0)\n" if sizes else ""
    body = "".join(f"  choice @{choice}(0, 1)\n" for choice in choices)
    head = f"multi_kernel @{name}(x: read_write f32*, n: i32) {{\n"
    return f"{head}{size}{body}  select {select}\n}}\n\n"


TWO, THREE, ONE = kernel("two", 2), kernel("three", 3), kernel("one", 1)
ALL = TWO + THREE + ONE


def test_a_kernel_that_is_called() -> None:
    after = split(program(TWO + ONE, "two(%x, 8)", "one(%x, 8)"))
    names = [line.name for line in after.definitions]
    assert names == ["two_config0", "two_config1", "two", "one"]
    kernels = [k for k in after.definitions if isinstance(k, KernelDefinitionLine)]
    assert [len(k.configs) for k in kernels] == [1, 1, 1]
    assert [k.configs[0].values for k in kernels[:2]] == [(("B", 2),), (("B", 4),)]
    line = after.definitions[2]
    assert isinstance(line, MultiKernelLine)
    assert line.selection == BenchmarkChoice()
    assert [p.name for p in line.parameters] == ["x", "n"]


# What picks one of @two, @three and @one, and what that becomes.
PICKED = [
    ("benchmark", "benchmark"),
    (
        "nearest_shape(0: (8), 2: (64), 1: (512))",
        "nearest_shape(0: (8), 5: (64), 2: (512))",
    ),
    (
        'computed(where(M < 8, 0, where(M < n, 1, 2))) on "cpu"',
        'computed(where(M < 8, 0, where(M < n, 2, 5))) on "cpu"',
    ),
    ("forced(2)", "forced(5)"),
    ('recorded(2) microseconds(3.0, 2.0, 1.0) on "cpu"', 'recorded(5) on "cpu"'),
    ("computed(2)", "computed(5)"),
]
EXPANDED = ["two_config0", "two_config1", "three_config0", "three_config1", "three_config2"]


@pytest.mark.parametrize(("select", "selected"), PICKED)
def test_choices_with_configs(select: str, selected: str) -> None:
    definitions = ALL + multi("any", select, "two", "three", "one")
    calls = ("any(%x, 8)", "two(%x, 8)", "three(%x, 8)")
    after = split(program(definitions, *calls))
    assert shown(after, "any") == [
        "size M = size(x, 0)",
        *(f"choice @{name}(0, 1)" for name in (*EXPANDED, "one")),
        f"select {selected}\n",
    ]


@pytest.mark.parametrize(
    "select", ["first", "forced(0)", "recorded(0) microseconds(1.0, 2.0)", "computed(0)"]
)
def test_what_is_always_taken_is_tuned_among_its_own_configs(select: str) -> None:
    after = split(program(TWO + THREE + multi("any", select, "two", "three"), "any(%x, 8)"))
    assert shown(after, "any") == [
        "size M = size(x, 0)",
        "choice @two_config0(0, 1)",
        "choice @two_config1(0, 1)",
        "select benchmark\n",
    ]
    names = [line.name for line in after.definitions]
    assert names == ["two_config0", "two_config1", "three", "any"]


def test_what_no_call_may_run_stays() -> None:
    for definitions in (TWO, TWO + multi("any", "benchmark", "two")):
        before = program(definitions + ONE, "one(%x, 8)")
        assert split(before) == before
    settled = program(TWO + ONE + multi("any", "forced(1)", "two", "one"), "any(%x, 8)")
    assert split(settled) == settled


def test_what_is_not_called_follows_what_is() -> None:
    definitions = ALL + multi("any", "forced(1)", "two", "one")
    after = split(program(definitions, "two(%x, 8)"))
    choices = [f"choice @{name}(0, 1)" for name in ("two_config0", "two_config1", "one")]
    assert shown(after, "any") == ["size M = size(x, 0)", *choices, "select forced(2)\n"]


def test_arguments_and_workspaces_of_choices_stay() -> None:
    wide = kernel("wide", 2, "x: read f32*, ws: write f32*, y: write f32*, n: i32")
    before = program(
        wide
        + """multi_kernel @any(n: i32, y: write f32*, ws: write f32*, x: read f32*) {
  choice @wide(3, 2, 1, 0) workspace(ws, n, uninitialized)
  select first
}

"""
    )
    called = """  %ws = allocate f32[8] workspace(uninitialized)
  %y = allocate f32[8]
  kernel_call @any(8, %y, %ws, %x)
  free %ws
  free %y
  return"""
    text = format_program(before).replace("\n  return", "\n" + called)
    choices = [
        f"choice @wide_config{i}(3, 2, 1, 0) workspace(ws, n, uninitialized)"
        for i in (0, 1)
    ]
    after = split(parse_program(text))
    assert shown(after, "any") == [*choices, "select benchmark\n"]


def test_names_are_fresh() -> None:
    taken = kernel("two_config0", 1) + kernel("two_config1_0", 1)
    after = split(program(taken + TWO, "two(%x, 8)", "two_config0(%x, 8)"))
    names = [line.name for line in after.definitions]
    assert len(set(names)) == len(names)
    assert names[2:] == ["two_config0_0", "two_config1", "two"]
    long = "k" * 250
    split(program(kernel(long, 11), f"{long}(%x, 8)"))  # verifies: they are identifiers


def test_multi_kernels_that_become_the_same_are_one() -> None:
    definitions = ALL + multi("any", "first", "two", "one", sizes=False)
    definitions += multi("either", "forced(0)", "two", "three", sizes=False)
    before = program(definitions, "either(%x, 8)", "two(%x, 4)", "any(%x, 2)")
    after = split(before)
    names = [line.name for line in after.definitions]
    assert names == ["two_config0", "two_config1", "two", "three", "one"]
    calls = [line.kernel for line in after.lines if isinstance(line, KernelCallLine)]
    assert calls == ["two", "two", "two"]


def test_calls_in_blocks_count_and_follow() -> None:
    definitions = TWO + ONE + multi("any", "first", "two", "one", sizes=False)
    text = format_program(program(definitions, "two(%x, 8)"))
    block = """  subgraph_call @f (%x) {
    body (%p: f32[s0, 8]) {
      kernel_call @any(%p, 8)
      return
    }
  }
  return"""
    after = split(parse_program(text.replace("  return", block)))
    assert "kernel_call @two(%p, 8)" in format_program(after)
    assert "@any" not in format_program(after)


@settings(max_examples=12)
@given(before=programs(languages=(Language.TRITON,), max_steps=8))
def test_the_meaning_stays(before: Program) -> None:
    after = split(before)
    called = {line.kernel for line in after.lines if isinstance(line, KernelCallLine)}
    assert not [k for k in after.definitions if k.name in called and len(configs(k)) > 1]
    known = behaviour(before)
    assert not pass_faults(known, behaviour(after, known.symbols))


def configs(line: DefinitionLine) -> tuple[KernelConfig, ...]:
    return line.configs if isinstance(line, KernelDefinitionLine) else ()


def test_the_workspace_of_a_choice_that_is_dropped_stays_unwritten() -> None:
    scratch = kernel("scratch", 2, "x: read_write f32*, ws: write f32*, n: i32")
    both = """multi_kernel @both(x: read_write f32*, a: write f32*, b: write f32*, n: i32) {
  choice @scratch(0, 1, 3) workspace(a, n, uninitialized)
  choice @scratch(0, 2, 3) workspace(b, n, uninitialized)
  select forced(1)
}

"""
    after = split(program(scratch + both, "both(%x, %x, %x, 8)"))
    assert shown(after, "both")[:2] == [
        "choice @scratch_config0(0, 2, 3) workspace(b, n, uninitialized)",
        "choice @scratch_config1(0, 2, 3) workspace(b, n, uninitialized)",
    ]
