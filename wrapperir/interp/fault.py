"""A fault of a running program; the line being run gives it its place."""

from collections.abc import Generator
from contextlib import contextmanager

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError, LinePath, Note


class FaultError(Exception):
    """What went wrong, without the place: the executor adds that of the line."""

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


@contextmanager
def placed(path: LinePath) -> Generator[None]:
    """Turn a fault raised inside into a :class:`DiagnosticError` at ``path``."""
    try:
        yield
    except FaultError as fault:
        raise fault.at(path) from fault.__cause__
    except RecursionError:
        message = "nested too deep to run"
        raise FaultError(Code.RUN_NESTING, message).at(path) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
