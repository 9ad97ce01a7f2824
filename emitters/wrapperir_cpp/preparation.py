"""What emitted C++ needs whatever the program: runtime, binding, headers, compilers."""

from collections.abc import Callable, Sequence
from functools import partial

from wrapperir.emit import ComingPrograms
from wrapperir.emit.python.extension_modules import build_launches
from wrapperir.kernels import prepare_kernels
from wrapperir.kernels.triton_compile import start_compiler
from wrapperir_cpp.artifact_files import runtime_sources
from wrapperir_cpp.binding import build_binding
from wrapperir_cpp.build import build_object, host_sources
from wrapperir_cpp.device_table import DeviceTable


def preparations(
    tables: Sequence[DeviceTable], coming: ComingPrograms
) -> Sequence[Callable[[], object]]:
    """Return the functions to run in the background, as ``Emitter.preparations`` does."""
    used = [table for table in tables if table.kind in coming.devices]
    has_cuda = any(table.kind == "cuda" for table in used)
    if coming.is_new:
        return (start_compiler,) if has_cuda else ()
    files = runtime_sources([table for table in used if table.functions is not None])
    sources, included = host_sources(files)
    builds = [partial(build_object, path, sources[path], included) for path in sources]
    has_inductors = "cpu" in coming.devices and not coming.own_kernels
    kernels = (prepare_kernels,) if has_inductors else ()
    timing = (build_launches,) if has_cuda else ()  # of choices, by emitted Python
    return [*kernels, *timing, build_binding, *builds]
