"""Multi-kernels: what they pick by and what their choices need, and what calls give."""

import pytest

from wrapperir.diagnostics import Code, Diagnostic, Severity
from wrapperir.ir import ZeroMode
from wrapperir.text import parse_program
from wrapperir.verify import verify

PARAMETERS = "x: read f32*, ws: read_write f32*, out: write f32*, n: i64, t: f64"


def kernel(name: str, parameters: str, language: str = "cpp") -> str:
    grid = "" if language == "cpp" else "  grid = (1)\n"
    return f"""
kernel_definition @{name} {language}({parameters}) {{
{grid}  entry = {name}
  source {{
    | ...
  }}
}}
"""


KERNELS = (
    kernel("plain", "x: read f32*, out: write f32*, n: i64")
    + kernel("split", "x: read f32*, ws: read_write f32*, out: write f32*, n: i64")
    + kernel("other", "x: read f32*, ws: read_write f32*, out: write f32*, n: i64")
    + kernel("reads", "x: read f32*, ws: read f32*, out: write f32*, n: i64")
)


def found(body: str, lines: str = "", select: str = "benchmark") -> tuple[Diagnostic, ...]:
    text = f"""wrapperir 1
{KERNELS}
multi_kernel @any({PARAMETERS}) {{
{body}
  select {select}
}}

program @main(%x: f32[s0, 8], %y: mutated f32[s0, 8], %v: f32[64], %w: mutated f32[64]) {{
  symbol s0: int 2..100 = size(%x, 0)

{lines}
  return
}}
"""
    return verify(parse_program(text))


def codes(body: str, lines: str = "", select: str = "benchmark") -> list[Code]:
    return [diagnostic.code for diagnostic in found(body, lines, select)]


PLAIN = "  choice @plain(0, 2, 3)"
BOTH = f"{PLAIN}\n  choice @split(0, 1, 2, 3)"
SIZES = "  size M = size(x, 0)\n  size N = size(x, 1)\n"


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


def choice(*needs: str) -> str:
    return "  choice @split(0, 1, 2, 3) " + " ".join(f"workspace({n})" for n in needs)


@pytest.mark.parametrize(
    "need",
    [
        "ws, 0, uninitialized",
        "ws, n * 4, zero_on_call",
        "ws, max(M, 64), zero_per_program",
        "out, 4, uninitialized",
        "ws, ceil(t) * 0 + n, uninitialized",
    ],
)
def test_needs_that_are_sound(need: str) -> None:
    is_mixed = "ceil(t)" in need
    assert codes(SIZES + choice(need)) == ([Code.WORKSPACE_NEED] if is_mixed else [])


@pytest.mark.parametrize(
    "needs",
    [
        ("x, 4, uninitialized",),  # it is read
        ("n, 4, uninitialized",),
        ("9, 4, uninitialized",),
        ("-1, 4, uninitialized",),
        ("ws, 4, uninitialized", "ws, 8, uninitialized"),
        ("out, 4, zero_on_call",),  # it is not read
        ("out, 4, zero_per_program",),
        ("ws, -4, uninitialized",),
        ("ws, 4.0, uninitialized",),
        ("ws, t, uninitialized",),
        ("ws, s0 * 4, uninitialized",),
        ("ws, x, uninitialized",),
    ],
)
def test_needs_that_are_not(needs: tuple[str, ...]) -> None:
    (diagnostic,) = found(choice(*needs))
    assert diagnostic.code is Code.WORKSPACE_NEED
    assert diagnostic.path == ("definitions", 4, "choices", 0)


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


def test_a_choice_needs_nothing_of_what_it_does_not_take() -> None:
    assert codes("  choice @plain(0, 2, 3) workspace(ws, 4, uninitialized)") == [
        Code.WORKSPACE_NEED
    ]


MODES = [mode.value for mode in ZeroMode]


@pytest.mark.parametrize("left", MODES)
@pytest.mark.parametrize("right", MODES)
def test_modes_combine_or_both_choices_are_named(left: str, right: str) -> None:
    other = f"  choice @other(0, 1, 2, 3) workspace(ws, 8, {right})"
    diagnostics = found(f"{choice(f'ws, 4, {left}')}\n{other}")
    refused = left != right and "zero_per_program" in (left, right)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_MODES] * refused
    for diagnostic in diagnostics:
        assert "workspace ws" in diagnostic.message
        assert left in diagnostic.message
        assert right in diagnostic.message
        assert diagnostic.path == ("definitions", 4, "choices", 1)


# What choices need, how the argument begins, and whether the one does for the other.
DOES = [
    ("uninitialized", None, True),  # as passes make of a workspace
    ("uninitialized", "uninitialized", True),
    ("uninitialized", "zero_on_call", True),
    ("uninitialized", "zero_per_program", False),
    ("zero_on_call", None, False),
    ("zero_on_call", "uninitialized", False),
    ("zero_on_call", "zero_on_call", True),
    ("zero_on_call", "zero_per_program", False),
    ("zero_per_program", None, False),
    ("zero_per_program", "uninitialized", False),
    ("zero_per_program", "zero_on_call", True),
    ("zero_per_program", "zero_per_program", True),
]
CALL = "  kernel_call @any(%x, %ws, %y, 8, 0)"


def allocate(mode: str | None, size: str = "64") -> str:
    workspace = "" if mode is None else f" workspace({mode})"
    lines = f"  %ws = allocate f32[{size}]{workspace}\n"
    if mode in (None, "uninitialized"):
        lines += "  extern_kernel aten.zero_.default(%ws) writes(%ws)\n"
    return lines


def freed(mode: str | None) -> str:
    return "" if mode == "zero_per_program" else "\n  free %ws"


@pytest.mark.parametrize(("need", "mode", "does"), DOES)
def test_a_workspace_begins_as_choices_need_it(
    need: str, mode: str | None, does: bool
) -> None:
    lines = allocate(mode) + CALL + freed(mode)
    diagnostics = found(choice(f"ws, 64, {need}"), lines)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_ARGUMENT] * (not does)
    assert all(d.subject == "%ws" for d in diagnostics)


@pytest.mark.parametrize(("need", "mode", "does"), DOES)
def test_a_block_is_lent_workspaces(need: str, mode: str | None, does: bool) -> None:
    inside = CALL.replace("%ws", "%p").replace("%x", "%q").replace("%y", "%r")
    lines = f"""{allocate(mode)}  subgraph_call @f (%ws, %x, %y) {{
    body (%p: f32[64], %q: f32[s0, 8], %r: f32[s0, 8]) {{
    {inside}
      return
    }}
  }}{freed(mode)}"""
    assert codes(choice(f"ws, 64, {need}"), lines) == [Code.WORKSPACE_ARGUMENT] * (not does)


def test_workspaces_of_pools_and_views_count() -> None:
    placed = """  %pool = allocate_pool pool[256]
  %ws = place f32[64] in %pool at 0 workspace(zero_on_call)
"""
    need = choice("ws, 64, zero_on_call")
    assert codes(need, f"{placed}{CALL}\n  free %ws\n  free %pool") == []
    view = "  %v2 = reinterpret %ws as f32[8, 8]\n"
    call = CALL.replace("%ws", "%v2")
    assert codes(need, f"{placed}{view}{call}\n  free %v2\n  free %ws\n  free %pool") == []
    again = "  %v2 = reuse %ws as f32[64]\n"  # it begins with what was there
    assert codes(need, f"{placed}{again}{call}\n  free %v2\n  free %pool") == [
        Code.WORKSPACE_ARGUMENT
    ]


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        ("64", "64", True),
        ("65", "64", False),
        ("64", "8, 8", True),
        ("65", "8, 8", False),
        ("n", "8", True),  # the call gives 8
        ("n + 1", "8", False),
        ("M * N", "s0 * 8", True),
        ("M * N", "8, s0", True),
        ("M * N + 1", "s0 * 8", False),
        ("M * N", "15", False),  # s0 is 2 or more
        ("M * N", "16", True),  # perhaps
        ("M * N", "799", True),  # perhaps
        ("max(M, 64)", "64", True),
        ("max(M, 64)", "63", False),
        ("ceildiv(M, 2) * 2", "s0", True),  # where s0 is even
        ("where(M < 3, 64, 32)", "31", False),
        ("where(M < 3, 64, 32)", "32", True),
        ("M + 0.5", "1", True),  # what is no whole number is not reckoned with
    ],
)
def test_a_workspace_is_large_enough(count: str, size: str, expected: bool) -> None:
    mode = "zero_on_call"
    lines = allocate(mode, size) + CALL + freed(mode)
    small = f"  choice @other(0, 1, 2, 3) workspace(ws, 1, {mode})"
    body = f"{SIZES}{small}\n{choice(f'ws, {count}, {mode}')}"
    diagnostics = found(body, lines)
    assert [d.code for d in diagnostics] == [Code.WORKSPACE_ARGUMENT] * (not expected)
    assert all("@split" in d.message for d in diagnostics)


@pytest.mark.parametrize(
    ("count", "size", "amounts"),
    [
        ("65", "64", "65 elements of %ws, which has 64"),
        ("65", "8, 8", "65 elements of %ws, which has 64"),
        ("n * 2 + 1", "8", "n * 2 + 1 = 17 elements of %ws, which has 8"),
        ("M * N + 1", "s0 * 8", "M * N + 1 elements of %ws, which has s0 * 8"),
        ("M * N + 1", "8, s0", "M * N + 1 elements of %ws, which has 8 * s0"),
        ("M * N", "s0 - 1", "M * N elements of %ws, which has s0 - 1"),
        ("M * N", "s0 - 1, 2", "M * N elements of %ws, which has (s0 - 1) * 2"),
        (" + ".join("M" * 40), "s0", "another number of elements of %ws, which has s0"),
        (" + ".join("n" * 40), "s0", "320 elements of %ws, which has s0"),
    ],
)
def test_a_small_workspace_is_told_with_what_is_needed(
    count: str, size: str, amounts: str
) -> None:
    lines = allocate("zero_on_call", size) + CALL + freed("zero_on_call")
    (diagnostic,) = found(f"{SIZES}{choice(f'ws, {count}, zero_on_call')}", lines)
    assert diagnostic.message == f"the choice @split needs {amounts}"


def test_what_a_call_is_given_wrongly_is_reported_once() -> None:
    body = f"{SIZES}{choice('ws, n, zero_on_call')}"
    assert codes(body, CALL) == [Code.UNDEFINED_NAME]
    assert codes(body, "  kernel_call @any(8, %w, %y, 8, 0)")[0] is Code.ARGUMENT_KIND
    wrong = "  kernel_call @any(%x, 8, %y, 8, 0)"
    assert codes(body, wrong) == [Code.ARGUMENT_KIND]
    block = """  subgraph_call @f (%nothing) {
    body (%p: f32[64]) {
      return
    }
  }"""
    assert codes(body, block) == [Code.UNDEFINED_NAME]


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
