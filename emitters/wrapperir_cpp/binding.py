"""The binding of loaded programs to Python, an extension module in C++."""

import importlib.util
import sysconfig
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Protocol, cast

import torch

from wrapperir.emit import Value
from wrapperir.kernels import compile_object, failed, find_compiler, link_library
from wrapperir.kernels.torch_extensions import TORCH_LIBRARIES

HOST_FLAGS = (
    *("-std=c++17", "-O1", "-fPIC"),
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    # Numbers are computed as written, on every machine.
    "-ffp-contract=off",
)
"""Flags of the compiler for code of the host."""
_RUNTIME = Path(__file__).with_name("runtime")


class BoundProgram(Protocol):
    """A program of the binding."""

    def __call__(self, inputs: list[Value], /) -> tuple[Value, ...]:
        """Take the inputs, and return the outputs."""
        ...

    def drop_recordings(self) -> None:
        """Drop what graph regions have recorded; later calls record it again."""
        ...


class Binding(Protocol):
    """The Python module of binding.cpp."""

    def Program(  # noqa: N802
        self, path: Path, constants: dict[str, torch.Tensor]
    ) -> BoundProgram:
        """Open the library of a program."""
        ...


def build_binding() -> Path:
    """Return the library of binding.cpp, in the user's cache.

    Raises:
        DiagnosticError: WIR709, it does not build; WIR710, it cannot be kept.
    """
    compiler = find_compiler()
    names: list[str] = [
        "binding.cpp",
        "binding_errors.h",
        "binding_inputs.h",
        "wrapperir.h",
    ]
    texts = {name: (_RUNTIME / name).read_text("utf-8") for name in names}
    source = texts.pop("binding.cpp")
    flags = [*HOST_FLAGS, f"-I{sysconfig.get_path('include')}"]
    compiled = compile_object(compiler, "binding.cpp", source, texts, flags)
    libraries = ["libtorch_python.so", *TORCH_LIBRARIES]
    return link_library(compiler, "binding", [compiled], libraries, ["PyInit_*"])


@cache
def binding() -> Binding:
    """Return the module; errors as ``build_binding``."""
    loader = ExtensionFileLoader("binding", str(build_binding()))
    spec = importlib.util.spec_from_loader("binding", loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise failed(f"the binding of libraries to Python does not load: {error}") from None
    return cast(Binding, module)
