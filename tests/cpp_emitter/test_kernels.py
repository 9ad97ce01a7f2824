"""C++ kernels: how they are declared, adapted, joined and compiled."""

from pathlib import Path

import pytest
import torch
from attrs import evolve

from tests.cpp_emitter.running import assert_same, load
from tests.python_emitter.kernel_programs import C_NUMBERS, cpp, program_of
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import DType, KernelDefinitionLine, Program, ScalarParameter, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import Compiler, build_kernels
from wrapperir.kernels.emitted import kernel_flags
from wrapperir_cpp.build import kernel_sources
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.kernels import declare_kernel
from wrapperir_cpp.module_text import CppModule, source_writer


def files_of(*definitions: KernelDefinitionLine) -> dict[str, str | bytes]:
    module = CppModule()
    for definition in definitions:
        declare_kernel(module, definition)
    return module.files


def renamed(definition: KernelDefinitionLine, name: str) -> KernelDefinitionLine:
    return evolve(definition, name=name)


def calling(*definitions: KernelDefinitionLine) -> Program:
    """Call each on one f32 buffer of 16, in order."""
    builder = ProgramBuilder()
    x = builder.input(tensor("f32", (16,)), name="x", mutated=True)
    for definition in definitions:
        builder.call(builder.kernel(definition), x)
    return builder.build()


def assert_runs_as_interpreted(program: Program) -> torch.Tensor:
    inputs = [torch.arange(16.0), torch.arange(16.0)]
    interpret(program, [inputs[0]], {})
    load(program, {})([inputs[1]])
    assert_same(inputs[1:], inputs[:1])
    return inputs[0]


NUMBERS: list[tuple[DType, str, int | float]] = [
    *C_NUMBERS,
    *((DType.F16, "c10::Half", value) for value in (0.1, 3, 70000)),
    *((DType.BF16, "c10::BFloat16", value) for value in (0.1, 3, 70000)),
]


def test_kernels_take_numbers_of_any_type() -> None:
    body = (
        "double v = double(a); p[0] = float(v); p[1] = float((v - p[0]) * 1e12); p[2] = b;"
    )
    builder = ProgramBuilder()
    for index, (dtype, c_type, value) in enumerate(NUMBERS):
        # Another number behind it shows how many bytes it takes.
        parameters = ScalarParameter("a", dtype), ScalarParameter("b", DType.F32)
        kernel = cpp(body, *parameters, types=f", {c_type} a, float b")
        x = builder.input(tensor("f32", (16,)), name=f"x{index}", mutated=True)
        builder.call(builder.kernel(renamed(kernel, f"k{index}")), x, value, index)
    inputs, mine = ([torch.arange(16.0) for _ in NUMBERS] for _ in range(2))
    program = builder.build()
    interpret(program, inputs, {})
    load(program, {})(list(mine))
    for number, left, right in zip(NUMBERS, mine, inputs, strict=True):
        torch.testing.assert_close(
            left, right, rtol=0, atol=0, equal_nan=True, msg=f"passing {number}"
        )


def test_a_complex_number_is_refused() -> None:
    kernel = cpp("", ScalarParameter("a", DType.C64), types=", int a")
    with pytest.raises(DiagnosticError, match="c64 cannot be passed") as caught:
        files_of(kernel)
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE


def test_an_entry_may_have_any_name() -> None:
    kernel = cpp("p[0] = 3;", entry="add_things")
    assert assert_runs_as_interpreted(program_of(kernel))[0] == 3


def test_kernels_may_have_any_name() -> None:
    names = ["memcpy", "run", "wrapperir_run", "class", "kernel"]
    kernels = [
        renamed(cpp(f"p[{index}] = {index + 5};"), name) for index, name in enumerate(names)
    ]
    found = assert_runs_as_interpreted(calling(*kernels))
    assert found[: len(names)].tolist() == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "before",
    ["", "static ", "inline ", 'extern "C" ', "#include <map>\n", "#define HALF 0.5\n"],
)
@pytest.mark.parametrize("processors", [1, 2])
def test_helpers_of_one_name_stand_side_by_side(
    monkeypatch: pytest.MonkeyPatch, before: str, processors: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    sources = [
        "#include <cstdint>\n"
        f"{before}float stepped(float x) {{ return x * {factor} + 1; }}\n"
        'extern "C" void kernel(float* p) {\n'
        "  for (int i = 0; i < 16; ++i) p[i] = stepped(p[i]);\n}"
        for factor in (2, 3, 5)
    ]
    kernels = [
        evolve(cpp(""), name=f"k{index}", source=source)
        for index, source in enumerate(sources)
    ]
    found = torch.arange(16.0)
    load(calling(*kernels), {})([found])
    assert torch.equal(found, ((torch.arange(16.0) * 2 + 1) * 3 + 1) * 5 + 1)


HELPERS = [
    "template <class T> T& counted() {{ static T n = {0}; n += 1; return n; }}",
    "inline float n = {0};\ntemplate <class T> T counted() {{ return n += 1; }}",
    "template <class T> T n = {0};\ntemplate <class T> T counted() {{ return n<T> += 1; }}",
]
OF_C = (
    'extern "C" inline float next() {{ static float n = {0}; return n += 1; }}\n'
    "template <class T> T counted() {{ return next(); }}"
)


# Kernels that are compiled alone are so for any number of processors.
@pytest.mark.parametrize(
    ("before", "processors"), [("", 1), ("", 2), ("#define ALONE 1\n", 2)]
)
# No source can have those of C together, so they would part the others, too.
@pytest.mark.parametrize("helpers", [HELPERS, [OF_C]], ids=["C++", "C"])
def test_variables_of_one_name_are_a_kernel_s_own(
    monkeypatch: pytest.MonkeyPatch, before: str, processors: int, helpers: list[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    pairs = [(start, helper) for start in (0, 10, 20, 30) for helper in helpers]
    kernels = [
        evolve(
            cpp(""),
            name=f"k{index}",
            source=f"// For {processors}.\n{before}{helper.format(start)}\n"
            f'extern "C" void kernel(float* p) {{ p[{index}] = counted<float>(); }}',
        )
        for index, (start, helper) in enumerate(pairs)
    ]
    x = torch.zeros(16)
    call = load(calling(*kernels), {})
    for step in (1, 2):
        call([x])
        assert x[: len(pairs)].tolist() == [start + step for start, _ in pairs]


@pytest.mark.parametrize(
    "source",
    [
        'extern "C" void kernle(float* p) { *p = 1; }',
        'extern "C" void kernel(float* p);',
        "void kernel(float* p) { *p = 1; }",
        "static void kernel(float* p) { *p = 1; }",
        'extern "C" float kernel = 1;',
    ],
)
def test_a_kernel_without_its_entry_is_named(source: str) -> None:
    kernels = [
        renamed(cpp("p[0] = 1;"), "good"),
        evolve(cpp(""), name="bad", source=source),
        renamed(cpp("p[0] = 2;"), "better"),
    ]
    emitter = CppEmitter()
    with pytest.raises(DiagnosticError) as caught:
        emitter.build(emitter.emit(calling(*kernels)), {})
    (found,) = caught.value.diagnostics
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert "kernels/cpp_bad.cpp does not build: it does not define its" in found.message


def test_kernels_are_compiled_anew_for_another_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    artifact = CppEmitter().emit(calling(cpp("p[0] = 1;")))
    first = build_kernels(kernel_sources(artifact.files))
    monkeypatch.setattr(kernel_flags, "machine_facts", lambda: "flags : avx1024")
    assert set(build_kernels(kernel_sources(artifact.files))).isdisjoint(first)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build_kernels(kernel_sources(artifact.files)) == first


def test_a_processor_s_instructions_are_known() -> None:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = {line.strip() for line in file if line.startswith(("flags", "Features"))}
    assert lines
    assert lines <= set(kernel_flags.machine_facts().splitlines())


def test_kernels_may_use_functions_and_variables_of_pytorchs_headers() -> None:
    """Both have the same of them, and the linker may be left with neither or two."""
    sources = [
        "#include <torch/csrc/inductor/cpp_prefix.h>\n"
        'extern "C" void kernel(float* p) {\n'
        '  TORCH_CHECK(p[0] < 1e9, "is ", p[0]);\n'
        f"  for (int i = 0; i < 16; ++i) p[i] += {added};\n}}"
        for added in (1, 2)
    ]
    kernels = [
        evolve(cpp(""), name=f"k{index}", source=source)
        for index, source in enumerate(sources)
    ]
    assert torch.equal(
        assert_runs_as_interpreted(calling(*kernels)), torch.arange(16.0) + 3
    )


def test_kernels_are_compiled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    built: list[str] = []
    run = Compiler.run

    def recorded(self: Compiler, arguments: list[str], folder: Path, what: str) -> None:
        built.append(what)
        run(self, arguments, folder, what)

    monkeypatch.setattr(Compiler, "run", recorded)
    own_header = cpp("p[3] = 1;  // of no other test, so that it is not built yet")
    own_header = evolve(
        own_header, name="own", source="#include <map>\n" + own_header.source
    )
    macro = evolve(
        own_header, name="macro", source="#define ONE 1\n" + cpp("// This one, too.").source
    )
    kernels = [renamed(cpp(f"p[{index}] = 1 + 0;"), f"k{index}") for index in range(3)]
    assert_runs_as_interpreted(calling(*kernels, own_header, macro))
    kernel_units = [what for what in built if "kernels" in what]
    assert sorted(kernel_units) == [
        "kernels.cpp",
        "kernels/cpp_macro.cpp",
        "kernels/cpp_own.cpp",
    ]


def test_a_kernel_that_does_not_compile_is_named() -> None:
    kernels = [
        renamed(cpp("p[0] = 1;"), "good"),
        renamed(cpp("p[0] = nothing_like_it;"), "bad"),
        renamed(cpp("p[0] = 2;"), "better"),
    ]
    emitter = CppEmitter()
    with pytest.raises(DiagnosticError) as caught:
        emitter.load(emitter.emit(calling(*kernels)), {})
    (found,) = caught.value.diagnostics
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert "kernels/cpp_bad.cpp does not build" in found.message
    assert "nothing_like_it" in found.message


def test_the_declaration_and_the_source_are_readable() -> None:
    module = CppModule()
    kernel = cpp("p[0] = a;", ScalarParameter("a", DType.I64), types=", int64_t a")
    declare_kernel(module, kernel)
    writer = source_writer()
    module.emit_declarations(writer)
    assert "void cpp_k(void*, int64_t);" in writer.format_text()
    assert module.kernels["k"] == "cpp_k"
    assert module.files == {
        "kernels/cpp_k.cpp": "#include <cstdint>\n#define kernel cpp_k\n"
        'extern "C" void kernel(float* p, int64_t a) {\np[0] = a;\n}\n#undef kernel\n'
    }


REMARKS = ["'''", '"""', "\\", "é", "\u2028", "\t", ')R"(', "#include \\", "\x0c"]


def test_any_source_is_kept_as_it_is() -> None:
    kernels = [
        renamed(cpp(f"p[{index}] = {index + 3}; /* {remark} */"), f"k{index}")
        for index, remark in enumerate(REMARKS)
    ]
    files = files_of(*kernels)
    for index, remark in enumerate(REMARKS):
        text = files[f"kernels/cpp_k{index}.cpp"]
        assert isinstance(text, str)
        assert f"/* {remark} */" in text
    found = assert_runs_as_interpreted(calling(*kernels))
    assert found[: len(REMARKS)].tolist() == list(range(3, 3 + len(REMARKS)))


def test_results_are_those_of_inductor() -> None:
    from wrapperir.frontend.inductor import capture
    from wrapperir_python.emitter import PythonEmitter

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.nn.functional.gelu(x) * 3, dim=-1).sum(0)

    given = torch.randn(33, 47)
    (found,) = capture(function, (given,))
    python = PythonEmitter()
    expected = python.load(python.emit(found.program), {})([given])
    assert_same(load(found.program, {})([given]), expected)
