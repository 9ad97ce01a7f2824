"""Functions that an emitted module defines where it uses them."""

from collections.abc import Mapping
from typing import LiteralString

from attrs import frozen

IMPORTS: Mapping[str, LiteralString] = {
    "importlib": "import importlib.util",
    "math": "import math",
    "pathlib": "import pathlib",
    "torch": "import torch",
    "AsyncCompile": "from torch._inductor.async_compile import AsyncCompile",
    "TensorDescriptor": "from triton.tools.tensor_descriptor import TensorDescriptor",
}
"""Import statements by the name they bind, in the order they are written."""


@frozen
class SupportFunction:
    """The text of a function and what else it needs."""

    text: LiteralString
    needs: tuple[LiteralString, ...] = ()


SUPPORT_FUNCTIONS: Mapping[str, SupportFunction] = {
    "ceildiv": SupportFunction(
        '''\
def ceildiv(a, b):
    """Return a / b rounded up."""
    return -(-a // b)'''
    ),
    "whole": SupportFunction(
        '''\
def whole(value):
    """Return a whole number as an int."""
    if value != int(value):
        raise ValueError(f"{{value}} is not a whole number")
    return int(value)'''
    ),
    "refuse_layout": SupportFunction(
        '''\
def refuse_layout(tensor, size, stride, subject):
    """Raise an error for a tensor that has another size or stride."""
    found = f"size {{[*tensor.shape]}} and stride {{[*tensor.stride()]}}"
    message = f"{{subject}} has {{found}}, not {{[*size]}} and {{[*stride]}}"
    raise AssertionError(message) from None'''
    ),
    "view_bytes": SupportFunction(
        '''\
def view_bytes(tensor, size, stride, dtype, step):
    """View a tensor's memory as another dtype, from step bytes after its first."""
    offset = tensor.storage_offset() * tensor.itemsize + step
    if offset % dtype.itemsize:
        raise ValueError(f"byte {{offset}} is not aligned for {{dtype}}")
    view = torch.empty(0, dtype=dtype, device=tensor.device)
    return view.set_(tensor.untyped_storage(), offset // dtype.itemsize, size, stride)'''
    ),
    "empty_aligned": SupportFunction(
        '''\
def empty_aligned(size, stride, dtype, extent, device, alignment):
    """Allocate a tensor whose first element's address is a multiple of alignment."""
    length = extent * dtype.itemsize + alignment
    room = torch.empty(length, dtype=torch.uint8, device=device)
    return view_bytes(room, size, stride, dtype, -room.data_ptr() % alignment)''',
        needs=("view_bytes",),
    ),
    "import_file": SupportFunction(
        '''\
def import_file(path):
    """Import a file that stands beside this one."""
    name = path.removesuffix(".py").replace("/", ".")
    file = pathlib.Path(__file__).parent / path
    spec = importlib.util.spec_from_file_location(f"{{__name__}}.{{name}}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module''',
        needs=("importlib", "pathlib"),
    ),
}
"""Support functions by name; braces are doubled, as in every template."""
