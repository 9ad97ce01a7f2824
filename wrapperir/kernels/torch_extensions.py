"""Extensions of PyTorch in C++, and the device that one adds to PyTorch as PrivateUse1."""

import ctypes
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapperir.kernels.compiler import (
    compile_object,
    find_compiler,
    link_library,
    torch_facts,
)

# Imported late: PyTorch may be importing this, for a device that it loads by itself.
if TYPE_CHECKING:
    import torch

TORCH_LIBRARIES = ("libtorch_cpu.so", "libc10.so")
_PRIVATE_DEVICE = Path(__file__).parent / "extension" / "private_device.cpp"
_FLAGS = (
    *("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-w"),
    "-DAT_PER_OPERATOR_HEADERS",  # the headers of all operators take long to read
)


def compile_with_torch(
    path: str, text: str, headers: Mapping[str, str], flags: Sequence[str] = ()
) -> Path:
    """Return the object of a source that includes PyTorch's headers, in the user's cache.

    Arguments and errors are those of :func:`~wrapperir.kernels.compile_object`; ``flags``
    are further ones.
    """
    _, folder = torch_facts()
    given = (*_FLAGS, *flags, "-isystem", f"{folder}/include")
    return compile_object(find_compiler(), path, text, headers, given)


def build_device(folder: Path, exported: Sequence[str] = ()) -> Path:
    """Return the library of a PrivateUse1 backend, in the user's cache.

    Its sources are the ``.cpp`` and ``.h`` files of a folder, which may include PyTorch's
    headers.  The first one also includes ``private_device.cpp``, which says what they have
    to register.  ``exported`` are patterns of the symbols that other libraries use.

    Raises:
        DiagnosticError: WIR709, there is no compiler, or it does not build; WIR710, it
            cannot be kept.
    """
    headers = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.h"))}
    headers[_PRIVATE_DEVICE.name] = _PRIVATE_DEVICE.read_text("utf-8")
    sources = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.cpp"))}
    first = next(iter(sources), "device.cpp")
    # Included, since PyTorch's headers take long to read.
    included = f'#include "{_PRIVATE_DEVICE.name}"\n#line 1 "{first}"\n'
    sources[first] = included + sources.get(first, "")
    # One by one: other threads would wait for PyTorch, which may be importing this.
    objects = [compile_with_torch(path, text, headers) for path, text in sources.items()]
    return link_library(find_compiler(), folder.name, objects, TORCH_LIBRARIES, exported)


def add_device(name: str, library: Path, count: int = 1) -> None:
    """Load the library of a PrivateUse1 backend, and call its device ``name``.

    There are ``count`` devices.  Libraries that are loaded later find the functions that
    this one exports.  The second time for a name, nothing is done.

    Raises:
        OSError: the library does not load.
        RuntimeError: the process has another such device: there can be one.
    """
    import torch
    from torch.utils import backend_registration

    known: Any = torch
    if known._C._get_privateuse1_backend_name() == name:
        return
    backend_registration.rename_privateuse1_backend(name)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    known._register_device_module(name, _DeviceModule(name, count))
    backend_registration.generate_methods_for_privateuse1_backend()


class _DeviceModule(types.ModuleType):
    """The functions of ``torch.<name>`` that PyTorch itself calls."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self._count = count

    def is_available(self) -> bool:
        return self._count > 0

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return self._count

    def current_device(self) -> int:
        import torch

        return torch.accelerator.current_device_index()

    def set_device(self, device: "torch.types.Device") -> None:
        import torch

        torch.accelerator.set_device_index(device)

    def synchronize(self, device: "torch.types.Device" = None) -> None:
        import torch

        torch.accelerator.synchronize(device)

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: random numbers of fallbacks are the CPU's."""
