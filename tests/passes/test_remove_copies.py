import pytest
import torch
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.passes.changed_lines import lines_after
from wrapperir import ir as wir
from wrapperir.interp import interpret
from wrapperir.ir.line_effects import definitions, value_names
from wrapperir.ir.types import contiguous_stride
from wrapperir.passes import insert_frees, remove_copies, use_out_variants
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

GROUP = '  group "0" size 2\n'


def after(body: str, head: str = "%x: f32[16]") -> str:
    """Return the lines of the program after the pass, which must be valid."""
    return lines_after(remove_copies, body, head, GROUP)


START = """\
  %a = allocate f32[16]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
"""
COPY = "  %b = extern_kernel aten.clone.default(%a) : f32[16]\n"
WRITE = "  extern_kernel aten.exp_.default(%b) writes(%b)\n"


def test_a_copy_takes_the_memory_of_what_it_copies() -> None:
    assert (
        after(f"{START}{COPY}{WRITE}  free %a\n  return %b\n")
        == f"{START}  %b = reuse %a as f32[16]\n{WRITE}  return %b\n"
    )


def test_a_copy_of_a_copy() -> None:
    second = "  %c = extern_kernel aten.clone.default(%b) : f32[16]\n"
    assert (
        after(f"{START}{COPY}  free %a\n{WRITE}{second}  free %b\n  return %c\n")
        == f"{START}  %b = reuse %a as f32[16]\n{WRITE}  %c = reuse %b as f32[16]\n"
        "  return %c\n"
    )


def test_a_view_of_the_whole_buffer() -> None:
    view = "  %v = reinterpret %a as f32[4, 4]\n  free %a\n"
    copy = "  %b = extern_kernel aten.clone.default(%v) : f32[4, 4]\n  free %v\n"
    expected = f"{START}{view}  %b = reuse %v as f32[4, 4]\n{WRITE}  return %b\n"
    assert after(f"{START}{view}{copy}{WRITE}  return %b\n") == expected


def test_a_sum_over_ranks_is_in_the_memory_of_what_is_summed() -> None:
    sum = """\
  %work = collective all_reduce(sum) "0" reads(%b) writes(%b)
  wait_collective %work reads(%b) writes(%b)
  free %work
  return %b
"""
    found = after(f"{START}{COPY}  free %a\n{sum}")
    assert found == f"{START}  %b = reuse %a as f32[16]\n{sum}"


FLIGHT = (
    '  %work = collective all_gather "0" reads(%a) writes(%g)\n',
    "  wait_collective %work reads(%a) writes(%g)\n  free %work\n  free %g\n",
)
STAYS = {
    "used later": f"{START}{COPY}{WRITE}"
    "  extern_kernel aten.neg_.default(%a) writes(%a)\n  free %a\n  return %b\n",
    "a view used later": f"{START}  %v = reinterpret %a as f32[4]\n{COPY}"
    "  free %a\n  extern_kernel aten.neg_.default(%v) writes(%v)\n  free %v\n  return %b\n",
    "returned": f"{START}{COPY}{WRITE}  return %a, %b\n",
    "an input": f"{COPY.replace('%a', '%x')}{WRITE}  free %x\n  return %b\n",
    "in larger memory": """\
  %whole = allocate f32[32]
  extern_kernel aten.fill_.Scalar(%whole, 1) writes(%whole)
  %a = reinterpret %whole as f32[16]
  free %whole
"""
    f"{COPY}  free %a\n  return %b\n",
    "in flight": f"{START}  %g = allocate f32[32]\n{FLIGHT[0]}{COPY}{WRITE}{FLIGHT[1]}"
    "  free %a\n  return %b\n",
    "another layout": f"{START}  %v = reinterpret %a as f32[4, 4; stride 1, 4]\n  free %a\n"
    "  %b = extern_kernel aten.clone.default(%v, memory_format = "
    "memory_format(contiguous_format)) : f32[4, 4]\n  free %v\n  return %b\n",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_what_stays(body: str) -> None:
    assert after(body) == body


def test_streams_that_do_not_meet() -> None:
    other = "  %y = extern_kernel aten.exp.default(%a) stream(1) : f32[16]\n"
    wait = "  %e = record_event\n  wait_event %e stream(1)\n"
    end = "  free %a\n  return %b, %y\n"
    body = f"{START}{wait}{other}{COPY}{WRITE}{end}"
    assert after(body) == body
    met = f"{wait}{other}  %f = record_event stream(1)\n  wait_event %f\n"
    assert "%b = reuse %a" in after(f"{START}{met}{COPY}{WRITE}{end}")


def with_copies(program: wir.Program, written: set[int]) -> wir.Program:
    """Return the program with copies of its outputs, and of buffers where they are freed.

    The latter are overwritten, which shows if they have the memory of something else.
    """
    names = wir.FreshNames(value_names(program))
    types: dict[str, wir.ValueType] = {}
    lines: list[wir.BodyLine] = []

    def copy(name: str) -> str | None:
        type = types.get(name)
        if not isinstance(type, wir.TensorType) or type.layout is not None:
            return None
        if type.offset or type.stride != contiguous_stride(type.size):
            return None  # the copy would have other strides
        made = wir.ExternKernelLine(
            operator="aten.clone.default",
            arguments=(wir.BufferRef(name),),
            result=names.new(None, "copy"),
            type=evolve(type, alignment=None),
            device=type.device,
        )
        lines.append(made)
        return made.result

    for index, line in enumerate(program.lines):
        if isinstance(line, wir.FreeLine) and index in written:
            made = copy(line.buffer)
            if made is not None:
                lines.append(
                    wir.ExternKernelLine(
                        operator="aten.zero_.default",
                        arguments=(wir.BufferRef(made),),
                        writes=(made,),
                    )
                )
                lines.append(wir.FreeLine(buffer=made))
        lines.append(line)
        types.update(definitions(line))
    outputs: list[wir.Argument] = []
    for output in program.outputs:
        held = output.name if isinstance(output, wir.BufferRef) else None
        made = copy(held) if held is not None else None
        outputs.append(output if made is None else wir.BufferRef(made))
    return evolve(program, lines=tuple(lines), outputs=tuple(outputs))


@settings(max_examples=draws(60, fuzz=300), deadline=None)
@given(
    program=programs(languages=(), collectives=True), written=st.sets(st.integers(0, 40))
)
def test_results_stay_the_same(program: wir.Program, written: set[int]) -> None:
    before = insert_frees(with_copies(use_out_variants(insert_frees(program)), written))
    assume(verify(before) == ())  # a copy may be on another stream than what it copies
    changed = remove_copies(before)
    assert verify(changed) == ()
    assert remove_copies(changed) == changed
    for old, new in zip(results(before), results(changed), strict=True):
        if isinstance(old, torch.Tensor):
            assert isinstance(new, torch.Tensor)
            assert torch.equal(old.nan_to_num(), new.nan_to_num())
        else:
            assert old == new


def results(program: wir.Program) -> list[object]:
    """Return the outputs of a program."""
    given = [
        x.clone() if isinstance(x, torch.Tensor) else x for x in example_inputs(program)
    ]
    return list(interpret(program, given, example_constants(program)))
