"""Faults of values and kernels, and the place of the line that runs."""

from collections.abc import Generator
from contextlib import contextmanager

from wrapperir.diagnostics import Code, FaultError, LinePath, Note


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


def value_fault(code: Code, name: str, problem: str, *notes: Note) -> FaultError:
    """Return the fault of a value; ``problem`` follows its name in the message."""
    return FaultError(code, f"%{name} {problem}", subject=f"%{name}", notes=notes)


def kernel_fault(code: Code, name: str, problem: str) -> FaultError:
    """Return the fault of a kernel; ``problem`` follows its name in the message."""
    return FaultError(code, f"@{name} {problem}", subject=f"@{name}")
