"""An emitter that lacks what a test says, and is the Python emitter otherwise."""

from attrs import define

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Artifact, Support
from wrapperir.ir import ExternKernelLine, Program
from wrapperir.ir.blocks import walk_places
from wrapperir_python.emitter import PythonEmitter


@define(eq=False, kw_only=True, slots=False)
class PartialEmitter(PythonEmitter):
    """The Python emitter with less support; it refuses some operators when it emits."""

    name = "partial"
    support: Support = PythonEmitter.support
    refused: frozenset[str] = frozenset()

    def emit(self, program: Program) -> Artifact:
        found = [
            Diagnostic(Code.UNSUPPORTED_FEATURE, "no", path=path, subject=line.operator)
            for line, path in walk_places(program.lines)
            if isinstance(line, ExternKernelLine) and line.operator in self.refused
        ]
        if found:
            raise DiagnosticError(*found)
        return super().emit(program)
