"""Faults that are planted in captured programs, each with the line that is to be named.

Some are faults of passes: the program differs.  The others are faults of emitters: the
program is right, and the code of another one runs.
"""

import re
from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Artifact, Emitter
from wrapperir.trace import RunSide
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import ENTRY, PythonEmitter

Change = Callable[[wir.Program], wir.Program]


@frozen(kw_only=True)
class Planted:
    """A fault in a program of ``tests.trace.captured``; ``is_guilty`` finds its line."""

    kind: str
    is_guilty: Callable[[wir.Line], bool]
    by_pass: Change | None = None
    emitter: Emitter | None = None

    def sides(self, program: wir.Program) -> tuple[RunSide, RunSide]:
        """Return the interpreter on the program, and the run with the fault."""
        changed = program if self.by_pass is None else self.by_pass(program)
        assert self.by_pass is None or changed != program
        title = "the second" if self.emitter is None else self.emitter.name
        return RunSide("the interpreter", program), RunSide(title, changed, self.emitter)

    def path(self, program: wir.Program) -> LinePath:
        """Return the place of the first guilty line."""
        guilty = (i for i, line in enumerate(program.lines) if self.is_guilty(line))
        return ("lines", next(guilty))


def defines(name: str) -> Callable[[wir.Line], bool]:
    return lambda line: getattr(line, "result", None) == name


def calls(kernel: str) -> Callable[[wir.Line], bool]:
    return lambda line: isinstance(line, wir.KernelCallLine) and line.kernel == kernel


def lines(change: Callable[[wir.BodyLine], wir.BodyLine | None]) -> Change:
    """Return the change of each line of a program; ``None`` leaves one out."""

    def changed(program: wir.Program) -> wir.Program:
        made = [new for line in program.lines if (new := change(line)) is not None]
        return evolve(program, lines=tuple(made))

    return changed


def where(
    is_guilty: Callable[[wir.Line], bool],
    change: Callable[[wir.BodyLine], wir.BodyLine | None],
) -> Change:
    return lines(lambda line: change(line) if is_guilty(line) else line)


def source(kernel: str, pattern: str, replacement: str) -> Change:
    """Return the change of a kernel's source, which must have the pattern."""

    def change(line: wir.DefinitionLine) -> wir.DefinitionLine:
        if not isinstance(line, wir.KernelDefinitionLine) or line.name != kernel:
            return line
        text, count = re.subn(pattern, replacement, line.source)
        assert count
        return evolve(line, source=text)

    return lambda program: evolve(
        program, definitions=tuple(map(change, program.definitions))
    )


def emitting(change: Change, base: type[Emitter] = PythonEmitter) -> Emitter:
    """Return an emitter that emits a changed program."""

    class Wrong(base):  # type: ignore[valid-type,misc]
        def emit(self, program: wir.Program) -> Artifact:
            artifact = super().emit(change(program))
            assert isinstance(artifact, Artifact)
            return artifact

    return Wrong()


def text(pattern: str, replacement: str) -> Emitter:
    """Return an emitter of Python with some text replaced, once."""

    class Wrong(PythonEmitter):
        def emit(self, program: wir.Program) -> Artifact:
            artifact = super().emit(program)
            before = artifact.files[ENTRY]
            assert isinstance(before, str)
            after, count = re.subn(pattern, replacement, before, count=1, flags=re.M)
            assert count
            return evolve(artifact, files={**artifact.files, ENTRY: after})

    return Wrong()


def swapped(line: wir.BodyLine) -> wir.BodyLine:
    assert isinstance(line, wir.ExternKernelLine)
    first, second, *rest = line.arguments
    return evolve(line, arguments=(second, first, *rest))


def moved(line: wir.BodyLine) -> wir.BodyLine:
    assert isinstance(line, wir.ReinterpretLine)
    assert isinstance(line.type.offset, int)
    return evolve(line, type=evolve(line.type, offset=line.type.offset - 16))


def other_constant(line: wir.BodyLine) -> wir.BodyLine:
    assert isinstance(line, wir.ExternKernelLine)
    return evolve(line, arguments=(line.arguments[0], 0.36))


def other_dimension(line: wir.BodyLine) -> wir.BodyLine:
    assert isinstance(line, wir.ExternKernelLine)
    return evolve(line, arguments=(line.arguments[0], -2))


def transposed(line: wir.BodyLine) -> wir.BodyLine:
    assert isinstance(line, wir.ReinterpretLine)
    *outer, row, column = line.type.stride
    return evolve(line, type=evolve(line.type, stride=(*outer, column, row)))


def placed_at(offset: int) -> Callable[[wir.BodyLine], wir.BodyLine]:
    def change(line: wir.BodyLine) -> wir.BodyLine:
        assert isinstance(line, wir.PlaceLine)
        return evolve(line, offset=offset)

    return change


def gone(line: wir.BodyLine) -> None:
    return None


def frees(name: str) -> Callable[[wir.Line], bool]:
    return lambda line: isinstance(line, wir.FreeLine) and line.buffer == name


_SOFTMAX = "reduce_mul_softmax_3_and_1_more_1"
_NORM = "reduce_native_layer_norm_0"
_TRANSPOSED = "map_clone_5"

PLANTED: Mapping[str, Planted] = {
    # The buffer that is never freed is named where it is allocated.
    "dropped_free": Planted(
        kind="kernels", is_guilty=defines("clone_3"), by_pass=where(frees("clone_3"), gone)
    ),
    "wrong_offset": Planted(
        kind="operators",
        is_guilty=defines("transpose_3"),
        by_pass=where(defines("transpose_3"), moved),
    ),
    "swapped_arguments": Planted(
        kind="operators",
        is_guilty=defines("matmul_3"),
        by_pass=where(defines("matmul_3"), swapped),
    ),
    "wrong_constant": Planted(
        kind="operators",
        is_guilty=defines("mul_1"),
        by_pass=where(defines("mul_1"), other_constant),
    ),
    "wrong_dimension": Planted(
        kind="operators",
        is_guilty=defines("softmax_1"),
        emitter=emitting(where(defines("softmax_1"), other_dimension), CppEmitter),
    ),
    "miscompiled_kernel": Planted(
        kind="kernels",
        is_guilty=calls(_SOFTMAX),
        emitter=emitting(source(_SOFTMAX, r"0\.35\w*", "0.36f")),
    ),
    "miscompiled_loop": Planted(
        kind="kernels",
        is_guilty=calls(_TRANSPOSED),
        by_pass=source(_TRANSPOSED, r"< 8;", "< 7;"),
    ),
    "wrong_stride": Planted(
        kind="operators",
        is_guilty=defines("transpose_5"),
        emitter=emitting(where(defines("transpose_5"), transposed)),
    ),
    # The buffer is right when it is written, and another one is then put on top of it.
    "overlapping_buffers": Planted(
        kind="pools",
        is_guilty=calls("map_clone_1_and_1_more_0"),
        emitter=emitting(where(defines("clone_1"), placed_at(3072))),
    ),
    "live_memory_is_reused": Planted(
        kind="pools",
        is_guilty=lambda line: (
            isinstance(line, wir.ExternKernelLine)
            and line.operator == "aten.bmm.out"
            and line.writes == ("bmm",)
        ),
        emitter=emitting(where(defines("bmm"), placed_at(0)), CppEmitter),
    ),
    "call_left_out": Planted(
        kind="kernels",
        is_guilty=calls(_NORM),
        emitter=emitting(where(calls(_NORM), gone)),
    ),
    "free_too_early": Planted(
        kind="operators",
        is_guilty=defines("matmul"),
        by_pass=lambda program: evolve(
            program,
            lines=tuple(
                each
                for line in program.lines
                if not frees("transpose")(line)
                for each in (
                    (line, wir.FreeLine(buffer="transpose"))
                    if defines("transpose_3")(line)
                    else (line,)
                )
            ),
        ),
    ),
}
"""The faults by name."""
