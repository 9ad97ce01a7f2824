"""Emitted Python reads as what people write."""

import subprocess
import sys

import pytest
import torch

from wrapperir.emit import compile_program
from wrapperir.ir import (
    CPU,
    Access,
    BufferParameter,
    Device,
    DType,
    KernelDefinitionLine,
    Language,
    Program,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir_python.emitter import PythonEmitter

PLAIN = tensor("f32", (4,))


def text_of(program: Program) -> str:
    text = PythonEmitter().emit(program).files["program.py"]
    assert isinstance(text, str)
    return text


def program_of(count: int, *, constants: int = 0) -> Program:
    b = ProgramBuilder()
    inputs = [b.input(PLAIN) for _ in range(count)]
    held = [b.constant(PLAIN, f"key{i}") for i in range(constants)]
    y = b.extern("aten.stack.default", [*inputs, *held], type=tensor("f32", (4, 4)))
    return b.free(*inputs).build(y)


def launching(names: list[str], device: Device = CPU) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4,), device=device), mutated=True)
    for name in names:
        kernel = KernelDefinitionLine(
            name=name,
            language=Language.TRITON,
            parameters=(BufferParameter("p", DType.F32, Access.READ_WRITE),),
            grid=(4, 1, 1),
            entry=name,
            source=f"@triton.jit\ndef {name}(p):\n"
            "    tl.store(p + tl.program_id(0), 1.0)\n",
        )
        b.call(b.kernel(kernel), x, device=device)
    return b.build(x)


@pytest.mark.parametrize(
    ("count", "line"), [(1, "(arg0,) = args"), (2, "arg0, arg1 = args")]
)
def test_inputs_are_unpacked(count: int, line: str) -> None:
    assert f"    {line}\n" in text_of(program_of(count))


def test_only_a_program_with_constants_binds_them() -> None:
    assert "bind_constants" not in text_of(program_of(2))
    assert "def bind_constants(constants):" in text_of(program_of(1, constants=1))
    x = torch.ones(4)
    for constants in ({}, {"unused": x}):
        (y,) = compile_program(program_of(2), constants=constants)([x, x])
        assert torch.equal(y, torch.ones(2, 4))  # type: ignore[arg-type]


def test_a_module_for_tritons_interpreter_says_so() -> None:
    remark = "TRITON_INTERPRET=1"
    assert remark in text_of(launching(["k"])).split("import", 1)[0]
    assert remark not in text_of(launching(["k"], Device("cuda", 0)))
    assert remark not in text_of(program_of(1))


@pytest.mark.parametrize(
    "program",
    [launching(["a", "b", "c"]), program_of(1, constants=1)],
    ids=["launchers", "constants"],
)
def test_blank_lines_are_where_a_linter_wants_them(program: Program) -> None:
    text = text_of(program)
    command = ["ruff", "check", "--isolated", "--preview", "--select", "E30", "-"]
    done = subprocess.run(
        [sys.executable, "-m", *command], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + text
