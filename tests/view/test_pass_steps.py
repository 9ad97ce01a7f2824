"""What passes changed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.view.small_program import PROGRAM
from wrapperir.ir import Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import find_passes, run_passes
from wrapperir.report import choose_values
from wrapperir.testing import programs
from wrapperir.text import parse_program
from wrapperir.view.pass_steps import CONTEXT, DiffRow, diff_rows, run_steps

texts = st.lists(st.sampled_from("abcd"), max_size=40)


@settings(max_examples=draws(100, fuzz=1000))
@given(texts, texts)
def test_a_difference_turns_the_old_text_into_the_new(
    old: list[str], new: list[str]
) -> None:
    rows = [row for row in diff_rows(old, new) if row != DiffRow()]
    for row in rows:
        assert row.old is None or old[row.old - 1] == row.text
        assert row.new is None or new[row.new - 1] == row.text
    removed = {row.old for row in rows if row.new is None}
    added = {row.new for row in rows if row.old is None}
    kept = [text for number, text in enumerate(old, 1) if number not in removed]
    assert kept == [text for number, text in enumerate(new, 1) if number not in added]
    assert bool(rows) == (old != new)


def test_unchanged_lines_are_shown_around_a_change() -> None:
    old = [str(number) for number in range(100)]
    rows = list(diff_rows(old, [*old[:50], "new", *old[50:]]))
    assert rows[0] == DiffRow()
    assert rows[CONTEXT + 1] == DiffRow(new=51, text="new")
    assert len(rows) == 2 * CONTEXT + 2


def test_a_step_has_the_call_and_what_it_changed() -> None:
    unused = "  %unused = allocate f32[8, 8]\n  free %unused\n"
    program = parse_program(PROGRAM.replace("  %z = alloc", f"{unused}  %z = alloc"))
    passes = find_passes("insert_frees, remove_dead_lines")
    result, (first, second) = run_steps(program, passes, {})
    assert result == run_passes(program, passes)
    assert (first.call, first.rows, first.lines) == ("insert_frees", (), 8)
    assert (second.call, second.lines) == ("remove_dead_lines", 6)
    assert (second.added, second.removed) == (0, 2)
    gone = [row.text for row in second.rows if row.old and row.new is None]
    assert gone == unused.splitlines()
    assert dict(first.peaks) == {"cpu": 512}


def test_provenance_alone_is_no_change_and_source_of_kernels_is_kept() -> None:
    text = PROGRAM.replace("    | extern", "    | // came from(here)\n    | extern")
    program = parse_program(text)
    (step,) = run_steps(program, find_passes("reuse_buffers"), {})[1]
    assert step.rows == ()
    renamed = text.replace("// came from(here)", "// came")
    _, steps = run_steps(program, find_passes([lambda _: parse_program(renamed)]), {})
    assert [row.text for row in steps[0].rows if row.new is None and row.old] == [
        "    | // came from(here)"
    ]


def test_a_program_that_a_pass_mends_has_no_peak_before() -> None:
    program = parse_program(PROGRAM.replace("  free %y\n", ""))
    _, steps = run_steps(program, find_passes("reuse_buffers, insert_frees"), {})
    assert [bool(step.peaks) for step in steps] == [False, True]


@settings(max_examples=draws(20, fuzz=200), deadline=None)
@given(programs())
def test_steps_of_any_program_count_their_rows(program: Program) -> None:
    values = {symbol.name: symbol.value for symbol in choose_values(program, {})}
    result, steps = run_steps(program, find_passes(MEMORY_PASSES), values)
    assert result == run_passes(program, MEMORY_PASSES)
    assert len(steps) == len(MEMORY_PASSES)
    for step in steps:
        assert bool(step.rows) == bool(step.added or step.removed)
