"""What is installed with the extras of this package."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from wrapperir.diagnostics import Code


def importing_pygls() -> AbstractContextManager[None]:
    """Import what needs pygls in the block.

    Raises:
        DiagnosticError: WIR916, it is not installed.
    """
    return _importing(("pygls", "lsprotocol"), "pygls", "editor", Code.MISSING_PYGLS)


def importing_hypothesis() -> AbstractContextManager[None]:
    """Import what needs Hypothesis in the block.

    Raises:
        DiagnosticError: WIR912, it is not installed.
    """
    return _importing(("hypothesis",), "Hypothesis", "testing", Code.MISSING_HYPOTHESIS)


@contextmanager
def _importing(
    packages: tuple[str, ...], shown: str, extra: str, code: Code
) -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise code.error(
            f"this needs {shown}, which is not installed",
            hint=f"pip install 'wrapperir[{extra}]'",
        ) from None
