"""What is installed with the extras of this package."""

from collections.abc import Generator
from contextlib import contextmanager

from wrapperir.diagnostics import Code


@contextmanager
def importing_pygls() -> Generator[None]:
    """Import what needs pygls in the block.

    Raises:
        DiagnosticError: WIR916, it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Code.MISSING_PYGLS.error(
            "this needs pygls, which is not installed",
            hint="pip install 'wrapperir[editor]'",
        ) from None


@contextmanager
def importing_hypothesis() -> Generator[None]:
    """Import what needs Hypothesis in the block.

    Raises:
        DiagnosticError: WIR912, it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise Code.MISSING_HYPOTHESIS.error(
            "this needs Hypothesis, which is not installed",
            hint="pip install 'wrapperir[testing]'",
        ) from None
