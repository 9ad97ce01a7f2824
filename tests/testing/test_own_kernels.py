"""Kernels of the conformance kit in a language of an emitter's own."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

import pytest
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact, Emitter, Support
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.nest_checks import check_nest
from wrapperir.lowering.renderer import LoopKernel, Renderer
from wrapperir.plugin import PluginManager, hookimpl
from wrapperir.testing import CASES, Case
from wrapperir.testing.conformance_kernels import kernel_cases
from wrapperir.testing.inputs import difference, run_example
from wrapperir.testing.kernel_nests import loop_kernel
from wrapperir.testing.suite import CheckSelection, Status, check_emitter, suite_names
from wrapperir.testing.suite.own_kernels import OwnKernels
from wrapperir_python.emitter import PythonEmitter

pytestmark = pytest.mark.usefixtures("inductor_prepared")
RENDERED = OwnKernels(PythonEmitter(), wir.CPU, [CppRenderer()])
IN_CPP = [
    case
    for case in (*CASES, *kernel_cases(wir.Language.CPP))
    if case.name.endswith("_cpp") and not case.faults
]
KERNELS = {
    line.entry: line
    for case in IN_CPP
    for line in case.program.definitions
    if isinstance(line, wir.KernelDefinitionLine)
}


@pytest.mark.parametrize("entry", KERNELS)
def test_each_kernel_of_the_kit_is_a_well_formed_nest(entry: str) -> None:
    kernel = loop_kernel(KERNELS[entry], wir.CPU)
    assert kernel is not None
    buffers = {each.name: each.type for each in kernel.buffers}
    symbols = {s.name: SizeSymbol(dtype=s.dtype, low=1, high=64) for s in kernel.symbols}
    assert check_nest(kernel.nest, buffers, symbols) == ()


@pytest.mark.parametrize("case", IN_CPP, ids=lambda case: case.name)
def test_nests_compute_what_the_kernels_in_cpp_do(case: Case) -> None:
    written = RENDERED.write(case.program)
    assert written.definitions != case.program.definitions
    for seed in case.seeds[:2]:
        found, wanted = run_example(written, seed), run_example(case.program, seed)
        for got, want in zip(found.outputs, wanted.outputs, strict=True):
            assert difference(got, want) is None


class OwnLanguage(PythonEmitter):
    """Takes kernels in a language of its own, which is C++ by another name."""

    name = "own"
    support = Support(
        languages=frozenset({wir.Language.OPAQUE}), devices=frozenset({"cpu"})
    )

    def emit(self, program: wir.Program) -> Artifact:
        return super().emit(changed(program, wir.Language.OPAQUE, wir.Language.CPP))


def changed(program: wir.Program, before: wir.Language, after: wir.Language) -> wir.Program:
    return evolve(
        program,
        definitions=tuple(
            evolve(line, language=after)
            if isinstance(line, wir.KernelDefinitionLine) and line.language is before
            else line
            for line in program.definitions
        ),
    )


class OwnSources(OwnLanguage):
    """Has sources of kernels of the kit."""

    lacking: ClassVar[frozenset[str]] = frozenset({"row_sum"})

    def own_kernel(
        self, kernel: wir.KernelDefinitionLine
    ) -> wir.KernelDefinitionLine | None:
        if kernel.entry in self.lacking:
            return None
        return evolve(kernel, language=wir.Language.OPAQUE)


class WrongSources(OwnSources):
    def own_kernel(
        self, kernel: wir.KernelDefinitionLine
    ) -> wir.KernelDefinitionLine | None:
        own = super().own_kernel(kernel)
        wrong = kernel.source.replace("= -in_ptr0[x]", "= in_ptr0[x]")
        return None if own is None else evolve(own, source=wrong)


def few(*cases: str) -> CheckSelection:
    return CheckSelection(cases=frozenset(cases), examples=3)


def test_an_emitter_gives_kernels_in_its_own_language() -> None:
    report = check_emitter(
        OwnSources(), few("kernel_buffers_own", "kernels_own", "threads", "drawn")
    )
    assert not report.of(Status.FAILED), report.of(Status.FAILED)
    rows = report.rows()
    for feature in ("buffers", "calls at once"):
        assert rows[feature][Status.PASSED] == 1
    # Among the kernels of this case is one that the emitter has no source of.
    (skipped,) = [r for r in report.of(Status.SKIPPED) if r.case == "kernels_own"]
    assert skipped.reason == "not declared: kernels in cpp"
    assert rows["drawn programs"][Status.PASSED]


def test_a_kernel_that_is_wrong_in_its_own_language_is_found() -> None:
    report = check_emitter(WrongSources(), few("kernel_buffers_own"))
    assert [result.case for result in report.of(Status.FAILED)] == ["kernel_buffers_own"]


def test_names_of_cases_say_that_kernels_are_of_the_emitters_own() -> None:
    _, names, _ = suite_names(OwnSources())
    assert "kernel_buffers_own" in names
    assert "kernel_buffers_own" not in suite_names(PythonEmitter())[1]


class OwnRenderer(Renderer):
    """Writes C++ by another name, but no reductions."""

    language: ClassVar[wir.Language] = wir.Language.OPAQUE
    device_kinds: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def refusal(self, nest: Nest) -> str | None:
        return "no reductions" if "reduce" in repr(nest).lower() else None

    def render_kernel(self, kernel: LoopKernel) -> wir.KernelDefinitionLine:
        made = CppRenderer().render_kernel(kernel)
        return evolve(made, language=self.language)


@hookimpl
def wrapperir_renderers() -> Sequence[Renderer]:
    return (OwnRenderer(),)


def test_a_renderer_writes_the_kernels_of_an_emitter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = PluginManager([])
    module = "wrapperir.testing.suite.own_kernels.plugin_manager"
    monkeypatch.setattr(module, lambda: manager)
    lacking = check_emitter(OwnLanguage(), few("kernels_cpp"))
    assert not lacking.of(Status.PASSED)  # nobody writes its kernels
    plugin = SimpleNamespace(wrapperir_renderers=wrapperir_renderers)
    manager.register(plugin, "own")
    cases = ("kernel_buffers_own", "kernel_loop_own", "kernels_own", "threads", "drawn")
    report = check_emitter(OwnLanguage(), few(*cases))
    assert not report.of(Status.FAILED), report.of(Status.FAILED)
    passed = {result.case for result in report.of(Status.PASSED)}
    assert passed == {"kernel_buffers_own", "kernel_loop_own", "threads", "drawn"}


class Refusing(PythonEmitter):
    """Refuses programs that it declares."""

    name = "refusing"
    support = Support(devices=frozenset({"cpu"}))

    def emit(self, program: wir.Program) -> Artifact:
        raise Code.UNSUPPORTED_FEATURE.error("there are no buffers on Mondays")


class Limited(Refusing):
    support = evolve(Refusing.support, limits=("no buffers on Mondays",))


@pytest.mark.parametrize("emitter", [Refusing(), Limited()], ids=lambda x: type(x).__name__)
def test_a_declared_program_is_refused_within_limits_only(emitter: Emitter) -> None:
    report = check_emitter(emitter, few("kernel_mutation_cpp", "threads"))
    wanted = Status.SKIPPED if emitter.support.limits else Status.FAILED
    assert {(r.case, r.status) for r in report.results} == {
        ("kernel_mutation_cpp", wanted),
        ("threads", wanted),
    }
    assert len(report.rows()) == 3  # inputs and constants, wrong inputs, calls at once
    assert all("no buffers on Mondays" in result.reason for result in report.results)
