"""C++ kernels: how they are defined, compiled, joined and called."""

import ast
from collections.abc import Sequence

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python_emitter.kernel_programs import BUFFER, C_NUMBERS, cpp, program_of
from tests.python_emitter.running import assert_runs_as_interpreted
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import compile_program
from wrapperir.ir import (
    VECTORS,
    Constant,
    DType,
    KernelDefinitionLine,
    Language,
    Program,
    ScalarParameter,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter


def test_a_cpp_kernel_takes_numbers_of_any_type() -> None:
    numbers: list[tuple[DType, str, int | float]] = [
        *C_NUMBERS,
        (DType.U8, "uint8_t", 7.0),
        (DType.BOOL, "bool", 0.5),
    ]
    # One kernel takes them all: compiling one for each takes seconds.
    kernel = cpp(
        "".join(
            f"{{ double v = double(a{i}); p[{2 * i}] = float(v);"
            f" p[{2 * i + 1}] = float((v - p[{2 * i}]) * 1e12); }}\n"
            for i in range(len(numbers))
        ),
        *(ScalarParameter(f"a{i}", dtype) for i, (dtype, _, _) in enumerate(numbers)),
        types="".join(f", {c_type} a{i}" for i, (_, c_type, _) in enumerate(numbers)),
    )
    values = (value for _, _, value in numbers)
    assert_runs_as_interpreted(program_of(kernel, *values, length=2 * len(numbers)))


@pytest.mark.parametrize("name", ["Half", "BFloat16"])
@pytest.mark.parametrize("value", [0.1, 3, 70000])
def test_a_cpp_kernel_takes_numbers_of_16_bits(name: str, value: int | float) -> None:
    source = f"""
    #include <c10/util/{name}.h>
    extern "C" void kernel(float* p, c10::{name} a, float b) {{ p[0] = a; p[1] = b; }}
    """
    dtype = DType.F16 if name == "Half" else DType.BF16
    definition = KernelDefinitionLine(
        name="k",
        language=Language.CPP,
        parameters=(BUFFER, ScalarParameter("a", dtype), ScalarParameter("b", DType.F32)),
        entry="kernel",
        source=source,
    )
    assert_runs_as_interpreted(program_of(definition, value, 2))


def test_a_double_loses_nothing() -> None:
    body = "p[0] = a == 0.1; p[1] = a == double(0.1f);"
    kernel = cpp(body, ScalarParameter("a", DType.F64), types=", double a")
    x = torch.zeros(16)
    compile_program(program_of(kernel, 0.1))([x])
    assert x[:2].tolist() == [1, 0]


def test_an_entry_may_have_any_name() -> None:
    assert_runs_as_interpreted(program_of(cpp("p[0] = 3;", entry="add_things")))


def test_an_entry_may_stand_beside_a_function_named_kernel() -> None:
    source = """
    static float kernel(float x) { return x + 1; }
    extern "C" void entry(float* p) { p[0] = kernel(p[1]); }
    """
    definition = KernelDefinitionLine(
        name="k", language=Language.CPP, parameters=(BUFFER,), entry="entry", source=source
    )
    assert_runs_as_interpreted(program_of(definition))


@pytest.mark.parametrize(
    "remark",
    [
        "'''",
        '"""',
        "\\",
        "\\'''",
        "é",
        "\u2028",
        "\r\n",
        "\x00",
        "{}{0}%s",
        "\t",
        "'",
        ')R"(',
        "#include \\",
        "\x0c",
    ],
)
def test_any_cpp_source_is_kept_as_it_is(remark: str) -> None:
    definition = cpp(f"p[0] = 3; /* {remark} */")
    text = PythonEmitter().emit(program_of(definition)).files["program.py"]
    strings = {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert definition.source in strings


def test_a_kernel_that_does_not_compile_is_a_diagnostic() -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_program(program_of(cpp("this is no C++;")))
    (found,) = caught.value.diagnostics
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert found.message.startswith("@k does not compile: error: ")
    assert len(found.message) < 2100


def test_of_several_kernels_the_one_that_does_not_compile_is_named() -> None:
    text = """wrapperir 1

kernel_definition @good cpp(p: read_write f32*) {
  entry = good
  source {
    | extern "C" void good(float* p) { p[0] = 1; }
  }
}

kernel_definition @bad cpp(p: read_write f32*) {
  entry = bad
  source {
    | extern "C" void bad(float* p) { p[0] = missing; }
  }
}

program @main(%x: mutated f32[2]) {
  kernel_call @good(%x)
  kernel_call @bad(%x)
  return
}
"""
    for emitter in ("python", "fx"):
        with pytest.raises(DiagnosticError) as caught:
            compile_program(parse_program(text), emitter=emitter)
        (found,) = caught.value.diagnostics
        assert found.message.startswith("@bad does not compile: error: ")
        assert "missing" in found.message


HEADERS = ("", "#include <torch/csrc/inductor/cpp_prefix.h>\n", "#include <map>\n")


def called_kernels(sources: Sequence[str]) -> Program:
    """Return a program that calls kernels of these sources on one buffer."""
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), name="x", mutated=True)
    for index, source in enumerate(sources):
        kernel = evolve(cpp(""), name=f"k{index}", source=source)
        builder.call(builder.kernel(kernel), x)
    return builder.build()


@pytest.mark.slow
@given(drawn=st.data())
@settings(max_examples=4, deadline=None)
def test_helpers_of_one_name_stand_side_by_side(drawn: st.DataObject) -> None:
    parts = st.tuples(
        st.sampled_from(HEADERS),
        st.sampled_from(["", "static ", "inline ", 'extern "C" ']),
        st.integers(2, 9),
    )
    kernels = drawn.draw(st.lists(parts, min_size=2, max_size=5))
    sources = [
        f"{header}{before}float stepped(float x) {{ return x * {factor} + 1; }}\n"
        'extern "C" void kernel(float* p) { for (int i = 0; i < 4; ++i)'
        " p[i] = stepped(p[i]); }"
        for header, before, factor in kernels
    ]
    assert_runs_as_interpreted(called_kernels(sources))


@pytest.mark.parametrize("before", ["", "#define ALONE 1\n"])
def test_variables_of_one_name_are_a_kernel_s_own(before: str) -> None:
    helper = "template <class T> T counted() {{ static T n = {0}; return n += 1; }}\n"
    programs = [
        called_kernels(
            [
                f"{before}{helper.format(start)}"
                f'extern "C" void kernel(float* p) {{ p[{i}] = counted<float>(); }}'
                for i, start in enumerate((first, first + 10, first + 20))
            ]
        )
        for first in (0, 5)
    ]
    x = torch.zeros(16)
    calls = [compile_program(program) for program in programs]
    for step in (1, 2):
        for first, call in zip((0, 5), calls, strict=True):
            call([x])
            assert x[:3].tolist() == [first + start + step for start in (0, 10, 20)]


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_what_a_kernel_throws_is_an_error(emitter: str) -> None:
    kernel = evolve(
        cpp(""),
        source='#include <stdexcept>\nextern "C" void kernel(float* p) {\n'
        '  if (p[0] == 0) throw std::runtime_error("index 7 is out of bounds");\n'
        "  if (p[0] == 1) throw 1;\n  p[0] = 3;\n}",
    )
    call = compile_program(program_of(kernel), emitter=emitter)
    with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
        call([torch.zeros(16)])
    with pytest.raises(RuntimeError, match="the kernel failed"):
        call([torch.ones(16)])
    x = torch.full((16,), 2.0)
    call([x])
    assert x[0] == 3


@pytest.mark.slow
def test_vectors_are_as_wide_as_the_kernel_says() -> None:
    body = """\
    float found[16];
    at::vec::Vectorized<float>(2).store(found);
    p[0] = at::vec::Vectorized<float>::size();
    p[1] = found[at::vec::Vectorized<float>::size() - 1];"""
    kernel = evolve(cpp(body), source=f"{HEADERS[1]}{cpp(body).source}")
    for name in ("AVX2", "AVX512"):
        if torch.backends.cpu.get_cpu_capability() not in (name, "AVX512"):
            continue  # this processor lacks them
        written = evolve(kernel, metadata=((VECTORS, name),))
        for emitter in ("python", "cpp", "fx"):
            x = torch.zeros(16)
            compile_program(program_of(written), emitter=emitter)([x])
            assert x[:2].tolist() == [8 if name == "AVX2" else 16, 2]
        assert_runs_as_interpreted(program_of(written))


@pytest.mark.parametrize("name", ["AVX9", "AVX2 -fplugin=x", 7])
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_unknown_vector_instructions_are_refused(name: Constant, emitter: str) -> None:
    kernel = evolve(cpp("p[0] = 1;"), metadata=((VECTORS, name),))
    with pytest.raises(DiagnosticError) as caught:
        compile_program(program_of(kernel), emitter=emitter)
    (found,) = caught.value.diagnostics
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert f"'{name}' names no vector instructions" in found.message
