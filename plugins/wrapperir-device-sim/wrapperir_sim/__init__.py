"""A simulated accelerator, as a device of PyTorch's own, and emitted C++ for it."""

import warnings
from pathlib import Path


def add_sim() -> None:
    """Add the device ``sim`` to PyTorch, which calls this as it is imported.

    Its library is built the first time.  Where that fails, a warning says why.
    """
    from wrapperir.diagnostics import DiagnosticError
    from wrapperir.kernels.torch_extensions import add_device, build_device

    try:
        library = build_device(Path(__file__).parent / "device", ("_ZN3sim*",))
    except DiagnosticError as error:
        warnings.warn(f"there is no device sim: {error}", stacklevel=2)
        return
    add_device("sim", library)
