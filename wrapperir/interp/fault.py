"""Adds the place of the running line to a fault."""

from collections.abc import Generator
from contextlib import contextmanager

from wrapperir.diagnostics import Code, LinePath
from wrapperir.diagnostics import FaultError as FaultError
from wrapperir.diagnostics import first_line as first_line


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
