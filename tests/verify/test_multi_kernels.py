"""Multi-kernels: what they pick by and what their choices need, and what calls give."""

import pytest

from tests.verify.multi_kernel_text import (
    BOTH,
    CALL,
    KERNELS,
    PARAMETERS,
    PLAIN,
    SIZES,
    codes,
    found,
    kernel,
)
from wrapperir.diagnostics import Code, Diagnostic, Severity
from wrapperir.text import parse_program
from wrapperir.verify import verify


@pytest.mark.parametrize(
    "select",
    [
        "first",
        "benchmark",
        "forced(1)",
        "recorded(1)",
        'recorded(0) microseconds(1.5, none) on "cpu"',
        "recorded(0) microseconds(0, 3)",
        "nearest_shape(0: (64, 64), 1: (0, 4096))",
        "nearest_shape(1: (64, 64))",
        f"nearest_shape(1: (64, {2**63 - 1}))",
        "computed(1)",
        "computed(where(M * N < n and t < 0.5, where(M == 2, 0, 1), 0))",
    ],
)
def test_selections_that_are_sound(select: str) -> None:
    assert codes(SIZES + BOTH, select=select) == []


@pytest.mark.parametrize(
    ("select", "code"),
    [
        ("forced(2)", Code.CHOICE_INDEX),
        ("recorded(-1)", Code.CHOICE_INDEX),
        ("nearest_shape(2: (64, 64))", Code.CHOICE_INDEX),
        ("computed(2)", Code.CHOICE_INDEX),
        ("computed(where(M < 3, 0, where(M < 9, 1, 2)))", Code.CHOICE_INDEX),
        ("nearest_shape()", Code.INVALID_HINT),
        ("nearest_shape(0: (64, 64), 1: (64))", Code.INVALID_HINT),
        ("nearest_shape(0: (64, 64, 64))", Code.INVALID_HINT),
        ("nearest_shape(0: (64, -1))", Code.INVALID_HINT),
        (f"nearest_shape(0: (64, {2**63}))", Code.INVALID_HINT),
        (f"nearest_shape(0: (64, {10**299}))", Code.INVALID_HINT),
        ("computed(M)", Code.INVALID_TREE),
        ("computed(1.0)", Code.INVALID_TREE),
        ("computed(0 + 1)", Code.INVALID_TREE),
        ("computed(M < 3)", Code.INVALID_TREE),
        ("computed(where(M < 3, M, 0))", Code.INVALID_TREE),
        ("computed(where(s0 < 3, 1, 0))", Code.INVALID_TREE),
        ("computed(where(x < 3, 1, 0))", Code.INVALID_TREE),
        ("recorded(0) microseconds(1.0)", Code.RECORDED_TIMES),
        ("recorded(0) microseconds(1.0, 2.0, 3.0)", Code.RECORDED_TIMES),
    ],
)
def test_selections_that_are_not(select: str, code: Code) -> None:
    (diagnostic,) = found(SIZES + BOTH, select=select)
    assert diagnostic.code is code
    assert diagnostic.path == ("definitions", 4, "selection")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("size M = size(x, 0)", []),
        ("size M = size(out, 7)", []),  # a call says what dimensions there are
        ("size M = size(n, 0)", [Code.SIZE_OF_NOTHING]),
        ("size M = size(x, -1)", [Code.SIZE_OF_NOTHING]),
        ("size M = size(5, 0)", [Code.SIZE_OF_NOTHING]),
        ("size M = size(-1, 0)", [Code.SIZE_OF_NOTHING]),
        ("size n = size(x, 0)", [Code.DUPLICATE_NAME]),
        ("size M = size(x, 0)\n  size M = size(x, 1)", [Code.DUPLICATE_NAME]),
    ],
)
def test_sizes(sizes: str, expected: list[Code]) -> None:
    diagnostics = found(f"  {sizes}\n{BOTH}")
    assert [d.code for d in diagnostics] == expected
    last = sizes.count("\n")
    assert all(d.path == ("definitions", 4, "sizes", last) for d in diagnostics)


def test_a_call_gives_each_dimension_that_is_picked_by() -> None:
    body = f"  size A = size(x, 1)\n  size B = size(out, 2)\n{PLAIN}"
    give = "  kernel_call @any(%v, %w, %y, 8, 0)"
    first, second = found(body, give)
    assert first.code is second.code is Code.SIZE_DIMENSION
    assert (first.subject, second.subject) == ("%v", "%y")
    assert first.path == second.path == ("lines", 0)
    assert (
        codes(f"  size A = size(x, 1)\n{PLAIN}", "  kernel_call @any(%x, %w, %y, 8, 0)")
        == []
    )


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (BOTH, []),
        # the same kernel with arguments in another order is another choice
        ("  choice @reads(0, 1, 2, 3)\n  choice @reads(1, 0, 2, 3)", []),
        (f"{BOTH}\n{PLAIN}", [Code.REPEATED_CHOICE]),
        (f"{PLAIN}\n{BOTH}\n{PLAIN}", [Code.REPEATED_CHOICE] * 2),
    ],
)
def test_choices_are_each_there_once(choices: str, expected: list[Code]) -> None:
    assert codes(choices) == expected


WRITERS = (
    kernel("writes", "x: read f32*, out: write f32*")
    + kernel("adds", "x: read f32*, out: read_write f32*")
    + kernel("nothing", "x: read f32*")
)


def written_by(access: str, *choices: str) -> list[Diagnostic]:
    shown = "\n".join(f"  choice @{choice}" for choice in choices)
    text = f"""wrapperir 1
{WRITERS}
multi_kernel @any(x: read f32*, out: {access} f32*) {{
{shown}
  select first
}}

program @main(%x: f32[8]) {{
  return
}}
"""
    return list(verify(parse_program(text)))


@pytest.mark.parametrize(
    ("access", "choices", "leaving"),
    [
        ("write", ["writes(0, 1)"], None),
        ("write", ["writes(0, 1)", "nothing(0)"], 1),
        ("write", ["nothing(0)", "writes(0, 1)"], 0),
        # what no choice takes may be the workspace of one that was dropped
        ("write", ["nothing(0)"], None),
        # a workspace, of which each choice takes what it likes
        ("write", ["writes(0, 1) workspace(out, 4, uninitialized)", "nothing(0)"], None),
        # calls give what was written before
        ("read_write", ["adds(0, 1)", "nothing(0)"], None),
        ("read_write", ["writes(0, 1)", "nothing(0)"], None),
    ],
)
def test_every_choice_writes_what_the_multi_kernel_writes(
    access: str, choices: list[str], leaving: int | None
) -> None:
    diagnostics = written_by(access, *choices)
    assert len(diagnostics) == (leaving is not None)
    for diagnostic in diagnostics:
        assert diagnostic.code is Code.CHOICE_MISMATCH
        assert diagnostic.path == ("definitions", 3, "choices", leaving)
        assert "@nothing does not write the multi-kernel's out" in diagnostic.message


ON_SPLIT = "  choice @split(0, 1, 2, 3)"


@pytest.mark.parametrize(
    ("body", "select", "message", "hint", "subject"),
    [
        (
            BOTH,
            "forced(2)",
            "there is no choice 2: the multi-kernel has 2",
            "choices count from 0: the last is 1",
            "2",
        ),
        (
            PLAIN,
            "forced(1)",
            "there is no choice 1: the multi-kernel has 1",
            "choices count from 0: the only one is 0",
            "1",
        ),
        (
            SIZES + BOTH,
            "nearest_shape(0: (64, 64), 2: (8, 8))",
            "there is no choice 2: the multi-kernel has 2",
            "choices count from 0: the last is 1",
            "2: (8, 8)",
        ),
        (
            SIZES + BOTH,
            "nearest_shape(0: (64, 64), 1: (8))",
            "hint 1, counted from 0, has 1 sizes, and the multi-kernel names 2",
            "give a hint one size for each `size` line, of 0 to 2**63 - 1",
            "1: (8)",
        ),
        (
            "  choice @plain(0, 2, 5)",
            "first",
            "the choice @plain is given position 5, and the multi-kernel has 5 parameters",
            "multi-kernel's parameters, which count from 0",
            "5",
        ),
        (
            "  choice @plain(0, 2)",
            "first",
            "the choice @plain takes 3 arguments and is given 2 positions",
            "multi-kernel's parameters, which count from 0",
            "@plain",
        ),
        (
            f"  size M = size(n, 0)\n{PLAIN}",
            "first",
            "M is the size of nothing: n is a scalar",
            "name a tensor parameter, and a dimension of it, counted from 0",
            "M",
        ),
        (
            f"{ON_SPLIT} workspace(x, 4, uninitialized)",
            "first",
            "@split needs the workspace x, and does not write it",
            "a workspace is a buffer that the choice is given and writes",
            "@split",
        ),
        (
            f"{ON_SPLIT} workspace(ws, 4, uninitialized) workspace(ws, 4, uninitialized)",
            "first",
            "@split needs the workspace ws twice",
            "say once what a choice needs of a workspace",
            "@split",
        ),
        (
            f"{ON_SPLIT} workspace(out, 4, zero_on_call)",
            "first",
            "@split needs the workspace out zero_on_call, and does not read it",
            "declare it read_write, or need it uninitialized",
            "@split",
        ),
    ],
)
def test_messages_say_what_is_wrong_and_what_to_do(
    body: str, select: str, message: str, hint: str, subject: str
) -> None:
    (diagnostic,) = found(body, select=select)
    assert diagnostic.message == message
    assert diagnostic.hint is not None
    assert diagnostic.hint.endswith(hint)
    assert diagnostic.subject == subject


def multi(name: str, *choices: str, select: str) -> str:
    body = "\n".join(choices)
    return f"multi_kernel @{name}({PARAMETERS}) {{\n{SIZES}{body}\n  select {select}\n}}\n"


SPLIT = "  choice @split(0, 1, 2, 3) workspace(ws, n, uninitialized)"
MORE = SPLIT.replace("n,", "M,")
READS = "  choice @reads(0, 1, 2, 3)"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((PLAIN, SPLIT, "benchmark"), (PLAIN, SPLIT, "benchmark"), True),
        ((PLAIN, SPLIT, "benchmark"), (SPLIT, PLAIN, "benchmark"), True),
        ((PLAIN, SPLIT, "forced(0)"), (SPLIT, PLAIN, "forced(1)"), True),
        ((PLAIN, SPLIT, "computed(0)"), (PLAIN, SPLIT, "computed(0)"), True),
        (
            (PLAIN, SPLIT, "nearest_shape(0: (1, 1), 1: (2, 2))"),
            (SPLIT, PLAIN, "nearest_shape(1: (1, 1), 0: (2, 2))"),
            True,
        ),
        (
            (PLAIN, SPLIT, "recorded(0) microseconds(1.0, 2.0)"),
            (SPLIT, PLAIN, "recorded(1) microseconds(2.0, 1.0)"),
            True,
        ),
        ((PLAIN, SPLIT, "first"), (SPLIT, PLAIN, "first"), False),
        ((PLAIN, SPLIT, "forced(0)"), (PLAIN, SPLIT, "forced(1)"), False),
        ((PLAIN, SPLIT, "first"), (PLAIN, SPLIT, "benchmark"), False),
        (
            (PLAIN, SPLIT, "benchmark"),
            (PLAIN, "  choice @reads(0, 1, 2, 3)", "benchmark"),
            False,
        ),
        (
            (PLAIN, SPLIT, "benchmark"),
            (PLAIN, SPLIT.replace("n,", "M,"), "benchmark"),
            False,
        ),
        (
            (PLAIN, SPLIT, "computed(where(M < 3, 0, 1))"),
            (PLAIN, SPLIT, "computed(where(M < 4, 0, 1))"),
            False,
        ),
    ],
)
def test_two_that_are_one_are_warned_of(
    left: tuple[str, str, str], right: tuple[str, str, str], same: bool
) -> None:
    text = "wrapperir 1\n" + KERNELS
    text += multi("one", *left[:2], select=left[2])
    text += multi("two", *right[:2], select=right[2])
    diagnostics = verify(parse_program(text + "program @main() {\n  return\n}\n"))
    assert [d.code for d in diagnostics] == [Code.SAME_MULTI_KERNEL] * same
    for diagnostic in diagnostics:
        assert diagnostic.severity is Severity.WARNING
        assert "@one" in diagnostic.message


def overlapping(*languages: str) -> list[Code]:
    """Call a multi-kernel whose kernels read and write parts of one buffer."""
    kernels = "".join(
        kernel(f"k{i}", "x: read f32*, out: write f32*", language)
        for i, language in enumerate(languages)
    )
    choices = "".join(f"  choice @k{i}(0, 1)\n" for i in range(len(languages)))
    text = f"""wrapperir 1
{kernels}
multi_kernel @any(x: read f32*, out: write f32*) {{
{choices}  select benchmark
}}

program @main(%a: mutated f32[8]) {{
  %v = reinterpret %a as f32[4]
  %w = reinterpret %a as f32[4; offset 2]
  kernel_call @any(%v, %w)
  free %v
  free %w
  return
}}
"""
    return [diagnostic.code for diagnostic in verify(parse_program(text))]


def test_overlaps_are_defined_where_each_choice_runs_in_order() -> None:
    assert overlapping("cpp", "cpp") == []
    assert overlapping("cpp", "triton") == [Code.PARTIAL_OVERLAP]
    assert overlapping("triton", "cpp") == [Code.PARTIAL_OVERLAP]


def test_calls_read_and_write_what_any_choice_does() -> None:
    # @plain, the first, does not take what @split reads
    call = "  %ws = allocate f32[8]\n" + CALL + "\n  free %ws"
    assert codes(BOTH, call, "first") == [Code.UNINITIALIZED_READ]
    read_only = "  kernel_call @any(%x, %w, %v, 8, 0)"  # %v is not mutated
    assert codes(BOTH, read_only, "first") == [Code.FORBIDDEN_WRITE]
    other = """  kernel_call @any(%x, %w, %y, 8, 0) stream(1)
  extern_kernel aten.zero_.default(%w) writes(%w)"""
    assert codes(BOTH, other, "first") == [Code.UNORDERED_USE]


def test_two_that_pick_the_same_of_reordered_choices_are_one() -> None:
    text = f"""wrapperir 1
{KERNELS}
multi_kernel @one({PARAMETERS}) {{
{SIZES}  choice @split(0, 1, 2, 3)
  choice @other(0, 1, 2, 3)
  select computed(where(M < 3, 0, 1))
}}

multi_kernel @two({PARAMETERS}) {{
{SIZES}  choice @other(0, 1, 2, 3)
  choice @split(0, 1, 2, 3)
  select computed(where(M < 3, TREE))
}}

program @main(%x: f32[8]) {{
  return
}}
"""
    same, differs = (
        verify(parse_program(text.replace("TREE", t))) for t in ("1, 0", "0, 1")
    )
    assert [d.code for d in same] == [Code.SAME_MULTI_KERNEL]
    assert differs == ()
