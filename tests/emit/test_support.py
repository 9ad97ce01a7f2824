import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Support, check_support, compile_program
from wrapperir.emit.pipeline import find_emitter
from wrapperir.emit.runnable_kernels import resolve_multi_kernels
from wrapperir.ir import (
    CPU,
    LINES,
    AllocatePoolLine,
    CommentLine,
    Device,
    KernelDefinitionLine,
    Language,
    PlaceLine,
    PoolType,
    Program,
    RecordEventLine,
    WaitEventLine,
    WhileLoopLine,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand, ProgramBuilder
from wrapperir.testing.kernels import descriptor_kernel
from wrapperir.text import parse_program
from wrapperir.verify import verify

CUDA = Device("cuda", 0)


def nested_program(depth: int) -> Program:
    """A comment inside ``depth`` subgraphs, on a CUDA device."""

    def fill(remaining: int) -> object:
        def body(block: BlockBuilder, x: NamedValue) -> list[Operand]:
            if remaining:
                inner = fill(remaining - 1)
                block.subgraph_call("inner", [x], inner, results=[])  # type: ignore[arg-type]
            block.comment("here")
            return []

        return body

    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (2,), device=CUDA))
    builder.subgraph_call("outer", [x], fill(depth - 1), results=[])  # type: ignore[arg-type]
    return builder.build(x)


CHOICES = """wrapperir 1

kernel_definition @plain cpp(p: write f32*) {
  entry = kernel
  source {
    | extern "C" void kernel(float* p) { p[0] = 1; }
  }
}

kernel_definition @odd opaque(p: write f32*) {
  entry = odd
  source {
    | p[0] = 1
  }
}

multi_kernel @many(p: write f32*) {
  size M = size(p, 0)
  choice @plain(0)
  choice @odd(0)
  select SELECT
}

program @main(%p: mutated f32[8]) {
  kernel_call @many(%p)
  return
}
"""


def test_what_is_supported_gives_no_diagnostic() -> None:
    assert check_support(nested_program(3), "x", Support()) == ()


def test_line_kinds_are_refused_in_nested_blocks_too() -> None:
    support = Support(lines=frozenset(LINES) - {CommentLine})
    (found,) = check_support(nested_program(1), "tiny", support)
    assert found.code is Code.UNSUPPORTED_LINE
    assert found.path == ("lines", 0, "body", "lines", 0)
    assert found.message == "the tiny emitter has no support for comment lines"
    assert found.hint == "use another emitter"


def test_a_line_kind_is_refused_once_with_its_first_place() -> None:
    support = Support(lines=frozenset(LINES) - {CommentLine})
    (found,) = check_support(nested_program(200), "tiny", support)
    assert found.path == ("lines", 0, *("body", "lines", 0) * 200)
    assert found.message == (
        "the tiny emitter has no support for comment lines: "
        "there are 200, and this is the first"
    )


def test_languages_are_refused() -> None:
    builder = ProgramBuilder()
    for language in Language:
        builder.kernel(
            KernelDefinitionLine(
                name=language.value, language=language, parameters=(), entry="k", source=""
            )
        )
    found = check_support(builder.build(), "x", Support())
    assert [(d.code, d.path) for d in found] == [
        (Code.UNSUPPORTED_LANGUAGE, ("definitions", list(Language).index(Language.OPAQUE)))
    ]
    none = Support(lines=frozenset())
    (lines,) = check_support(builder.build(), "x", none)
    assert (lines.code, lines.path) == (Code.UNSUPPORTED_LINE, ("definitions", 0))
    assert "there are 3" in lines.message


@pytest.mark.parametrize(
    ("select", "refused"),
    [
        ("forced(0)", []),
        ("nearest_shape(0: (8))", []),
        ("nearest_shape(0: (8), 1: (1))", []),
        ("nearest_shape(0: (4), 1: (8))", ["odd"]),
        ("forced(1)", ["odd"]),
        ("benchmark", ["odd"]),
    ],
)
def test_a_language_that_no_call_runs_is_not_refused(
    select: str, refused: list[str]
) -> None:
    program = parse_program(CHOICES.replace("SELECT", select))
    assert verify(program) == ()
    found = check_support(program, "x", Support(choosing=True))
    assert [(d.code, d.subject) for d in found] == [
        (Code.UNSUPPORTED_LANGUAGE, name) for name in refused
    ]


def test_what_is_left_of_choices_has_no_kernel_that_no_call_runs() -> None:
    for select in ("forced(0)", "benchmark"):
        program = parse_program(CHOICES.replace("SELECT", select))
        assert check_support(resolve_multi_kernels(program), "x", Support()) == ()


def test_tensor_descriptors_are_refused_unless_they_are_declared() -> None:
    builder = ProgramBuilder()
    builder.kernel(descriptor_kernel())
    (found,) = check_support(builder.build(), "x", Support())
    assert (found.code, found.path) == (Code.UNSUPPORTED_FEATURE, ("definitions", 0))
    assert "takes left, right, out behind one" in found.message
    assert check_support(builder.build(), "x", Support(descriptors=True)) == ()


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_a_device_that_nobody_knows_is_refused(emitter: str) -> None:
    program = parse_program(
        "wrapperir 1\nprogram @main(%x: f32[2]@frob:0) {\n  return %x\n}\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        compile_program(program, emitter=emitter)
    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == (Code.UNSUPPORTED_DEVICE, ("inputs", 0))


def test_emitted_directly_a_device_that_cpp_lacks_is_refused() -> None:
    program = parse_program(
        "wrapperir 1\nprogram @main(%x: f32[2]@frob:0) {\n  return %x\n}\n"
    )
    with pytest.raises(DiagnosticError, match="WIR704"):
        find_emitter("cpp").emit(program)


def test_devices_are_refused_wherever_they_are() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (2,), device=CUDA))
    c = builder.constant(tensor("f32", (2,), device=CUDA), "c")
    y = builder.allocate(tensor("f32", (2,), device=CUDA))
    builder.extern_out("aten.add.out", x, c, out=y, device=CUDA)
    z = builder.extern("aten.neg.default", x, type=tensor("f32", (2,)))
    found = check_support(builder.build(y, z), "x", Support(devices=frozenset({"cpu"})))
    assert {d.code for d in found} == {Code.UNSUPPORTED_DEVICE}
    assert [d.path for d in found] == [
        ("inputs", 0),
        ("constants", 0),
        ("lines", 0),
        ("lines", 1),
    ]
    assert found[0].hint == "it supports these devices: cpu"


def test_a_loop_is_walked_in_the_order_of_the_text() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("bool", ()))
    builder.while_loop(
        [x],
        lambda b, p: b.comment("condition") and p,
        lambda b, p: b.comment("body") and [p],
    )
    support = Support(lines=frozenset({WhileLoopLine}))
    (found,) = check_support(builder.build(), "x", support)
    assert found.path == ("lines", 0, "condition", "lines", 0)


def stream_program(device: Device) -> Program:
    """Lines on streams: an event of stream 0, a wait and a call of stream 1."""
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (2,), device=device))
    event = builder.record_event(device)
    builder.wait_event(event, device, stream=1)
    y = builder.extern("aten.neg.default", x, type=x.type, device=device, stream=1)
    return builder.build(y)


def test_streams_are_refused_where_their_order_is_not_kept() -> None:
    found = check_support(stream_program(CUDA), "tiny", Support())
    assert [(d.code, d.path) for d in found] == [
        (Code.UNSUPPORTED_FEATURE, ("lines", 1)),
        (Code.UNSUPPORTED_FEATURE, ("lines", 2)),
    ]
    assert found[0].hint == "it supports these devices with streams: cpu"
    keeping = Support(streams=frozenset({"cpu", "cuda"}))
    assert check_support(stream_program(CUDA), "tiny", keeping) == ()


def test_streams_of_the_cpu_run_in_order_anyway() -> None:
    assert check_support(stream_program(CPU), "tiny", Support()) == ()
    none = Support(lines=frozenset(LINES).difference((RecordEventLine, WaitEventLine)))
    found = check_support(stream_program(CPU), "tiny", none)
    assert [(d.code, d.path) for d in found] == [
        (Code.UNSUPPORTED_LINE, ("lines", 0)),
        (Code.UNSUPPORTED_LINE, ("lines", 1)),
    ]


def test_pools_are_refused_by_line_and_by_device() -> None:
    builder = ProgramBuilder()
    pool = builder.allocate_pool(PoolType(size=64, device=CUDA))
    y = builder.place(pool, 0, tensor("f32", (2,), device=CUDA))
    builder.free(pool)
    program = builder.build(y)
    assert check_support(program, "tiny", Support()) == ()
    none = Support(lines=frozenset(LINES).difference((AllocatePoolLine, PlaceLine)))
    found = check_support(program, "tiny", none)
    assert [(d.code, d.subject) for d in found] == [
        (Code.UNSUPPORTED_LINE, "allocate_pool"),
        (Code.UNSUPPORTED_LINE, "place"),
    ]
    for diagnostic in found:
        assert diagnostic.hint == (
            "use another emitter; where passes run, `plan_memory` makes such lines: "
            "leave it out"
        )
    found = check_support(program, "tiny", Support(devices=frozenset({"cpu"})))
    assert [d.code for d in found] == [Code.UNSUPPORTED_DEVICE] * 2


def test_memory_that_is_aligned_to_more_is_refused_where_it_is_allocated() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (32,), device=CUDA, alignment=256))
    pool = builder.allocate_pool(PoolType(size=256, alignment=256))
    y = builder.place(pool, 0, tensor("f32", (32,), alignment=256))
    z = builder.allocate(tensor("f32", (32,), alignment=128))
    builder.free(pool, z)
    program = builder.build(x, y)
    assert check_support(program, "tiny", Support(greatest_alignment=256)) == ()
    (found,) = check_support(program, "tiny", Support(greatest_alignment=128))
    assert (found.code, found.path) == (Code.UNSUPPORTED_FEATURE, ("lines", 0))
    assert "memory that is aligned to 256 bytes" in found.message
    # A tensor of a hosted device is copied to memory of the program.
    hosted = Support(greatest_alignment=128, hosted=frozenset({"cuda"}))
    paths = [d.path for d in check_support(program, "tiny", hosted)]
    assert paths == [("inputs", 0), ("lines", 0)]
