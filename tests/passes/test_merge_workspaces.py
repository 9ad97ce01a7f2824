import torch

from wrapperir import format_program, parse_program
from wrapperir.interp import Interpreter
from wrapperir.ir import AllocateLine, Language, ZeroMode, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.passes import merge_workspaces
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.verify import verify

KERNEL = """\
wrapperir 1

kernel_definition @k cpp(x: read f32*, ws0: read_write f32*, ws1: read_write f32*) {
  entry = k
  source {
    | void k(const float* x, float* ws0, float* ws1) {}
    |
  }
}

"""


def after(body: str, head: str = "%x: f32[16]") -> str:
    """Return the lines of the program after the pass, which must be valid."""
    program = parse_program(f"{KERNEL}program @main({head}) {{\n{body}}}\n")
    assert verify(program) == ()
    merged = merge_workspaces(program)
    assert verify(merged) == ()
    assert merge_workspaces(merged) == merged
    return format_program(merged).split(") {\n")[-1][:-2]


def test_the_largest_is_there_from_the_first_use_on() -> None:
    assert (
        after("""\
  comment "before"
  %a = allocate f32[4] workspace(zero_per_program)
  %b = allocate f32[16] workspace(zero_per_program)
  kernel_call @k(%x, %a, %b)
  %c = allocate f32[8] workspace(zero_per_program)
  %d = allocate f32[64] workspace(zero_per_program)
  kernel_call @k(%x, %d, %c)
  %e = allocate f32[16] workspace(zero_per_program)
  kernel_call @k(%x, %e, %a)
  return %x
""")
        == """\
  comment "before"
  %c = allocate f32[8] workspace(zero_per_program)
  %d = allocate f32[64] workspace(zero_per_program)
  kernel_call @k(%x, %c, %d)
  kernel_call @k(%x, %d, %c)
  kernel_call @k(%x, %d, %c)
  return %x
"""
    )


def test_equal_symbolic_sizes() -> None:
    body = """\
  symbol s0: int 1..8 = size(%x, 0)

  %a = allocate f32[s0] workspace(zero_per_program)
  kernel_call @k(%x, %a, %x)
  %b = allocate f32[s0] workspace(zero_per_program)
  kernel_call @k(%x, %b, %x)
  return %x
"""
    merged = after(body, "%x: mutated f32[s0]")
    assert merged.count("allocate") == 1
    other = body.replace("%b = allocate f32[s0]", "%b = allocate f32[2 * s0]")
    assert after(other, "%x: mutated f32[s0]") == other


def two(first: str, second: str, stream: str = "") -> str:
    return f"""\
  %a = allocate {first} workspace(zero_per_program)
  kernel_call @k(%x, %a, %x)
  %b = allocate {second} workspace(zero_per_program)
  kernel_call @k(%x, %b, %x){stream}
  return %x
"""


def test_what_stays_apart() -> None:
    head = "%x: mutated f32[16]"
    assert after(two("f32[8]", "f32[8]"), head).count("allocate") == 1
    for body in (
        two("f32[8]", "f32[8] {align = 16}"),
        two("f32[8]", "f32[8] {pinned}"),
        two("f32[8]", "f32[8] {space = comm}"),
        two("f32[8]", "f32[8] {layout = acme.tiled(4)}"),
        two("f32[8]", "f32[8]")
        .replace("zero_per_program", "zero_on_call", 1)
        .replace("  return", "  free %a\n  return"),
        two("f32[8]", "f32[8]").replace(
            "  return", "  extern_kernel aten.zero_.default(%b) writes(%b)\n  return"
        ),
    ):
        assert after(body, head) == body
    apart = two("f32[8]", "f32[8]", " stream(1)").replace(", %x)", ", %y)", 1)
    head = "%x: f32[16], %y: mutated f32[16], %z: mutated f32[16]"
    apart = apart.replace("%b, %x)", "%b, %z)")
    assert after(apart, head) == apart


def test_calls_find_it_zero() -> None:
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (5,)))
    kernel = builder.kernel(library_kernel(KernelKind.SCRATCH_ADD, Language.CPP))
    outputs = [x]
    for count in (5, 9, 7):
        zero = builder.allocate(
            tensor("f32", (count,)), workspace=ZeroMode.ZERO_PER_PROGRAM
        )
        target = builder.allocate(tensor("f32", (5,)))
        builder.call(kernel, outputs[-1], zero, target, 5)
        outputs.append(target)
    merged = merge_workspaces(builder.build(*outputs[1:]))
    kept = [line for line in merged.lines if isinstance(line, AllocateLine)]
    assert sum(line.workspace is not None for line in kept) == 1
    interpreter = Interpreter(merged, {})
    given = torch.arange(5.0)
    for _ in range(2):
        for result in interpreter.run([given]):
            assert isinstance(result, torch.Tensor)
            assert torch.equal(result, given)


def test_what_a_kernel_takes_behind_a_descriptor_keeps_its_size() -> None:
    program = parse_program("""\
wrapperir 1

kernel_definition @k triton(ws: read_write descriptor f32[4, 4]) {
  grid = (1)
  entry = k
  source {
    | pass
  }
}

program @main() {
  %a = allocate f32[4, 4] workspace(zero_per_program)
  kernel_call @k(%a)
  %b = allocate f32[8, 8] workspace(zero_per_program)
  kernel_call @k(%b)
  return
}
""")
    assert verify(program) == ()
    assert merge_workspaces(program) == program
