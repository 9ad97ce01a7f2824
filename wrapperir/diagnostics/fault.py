"""An error of a running program or kernel whose place in the program is not yet known."""

from wrapperir.diagnostics.codes import Code
from wrapperir.diagnostics.diagnostic import Diagnostic, DiagnosticError, LinePath, Note


class FaultError(Exception):
    """A fault of a running program without its place, which the executor adds."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        subject: str | None = None,
        notes: tuple[Note, ...] = (),
        hint: str | None = None,
    ) -> None:
        """Keep the parts of the diagnostic to be."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.subject = subject
        self.notes = notes
        self.hint = hint

    def at(self, path: LinePath) -> DiagnosticError:
        """Return the error that reports this fault at ``path``."""
        return DiagnosticError(
            Diagnostic(
                code=self.code,
                message=self.message,
                path=path,
                subject=self.subject,
                notes=self.notes,
                hint=self.hint,
            )
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
