"""The releases of PyTorch whose Inductor the adapter supports; importing it checks."""

import torch

from wrapperir.diagnostics import Code

OLDEST, NEWEST = (2, 11), (2, 13)
"""Major and minor number; in each release Inductor's private interfaces differ."""


def check_release(version: str) -> None:
    """Check that a release of PyTorch is one that the adapter supports.

    Raises:
        DiagnosticError: WIR656, it is older or newer.
    """
    major, minor, *_ = version.split(".")
    release = int(major), int(minor)
    if OLDEST <= release <= NEWEST:
        return
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    is_old = release < OLDEST
    raise Code.UNSUPPORTED_RELEASE.error(
        f"PyTorch {version} is {'older' if is_old else 'newer'} than the releases whose "
        f"Inductor is supported, {oldest} to {newest}",
        hint=f"pip install 'torch>={oldest}'"
        if is_old
        else f"upgrade wrapperir, or pip install 'torch=={newest}.*'",
    )


check_release(torch.__version__)
