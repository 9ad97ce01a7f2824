"""Building and running kernels: C++ with the machine's compiler, Triton on the CPU."""

from wrapperir.kernels.compiler import (
    Compiler,
    compile_object,
    failed,
    find_compiler,
    link_library,
)
from wrapperir.kernels.cpp_build import (
    CppBuildError,
    build_kernels,
    build_libraries,
    prepare_header,
    prepare_kernels,
    side_by_side,
)
from wrapperir.kernels.cpp_kernel import CppKernel
from wrapperir.kernels.gpu_targets import (
    Target,
    present_targets,
    targets_to_keep,
    targets_to_run,
)
from wrapperir.kernels.triton_ahead import CompileFacts
from wrapperir.kernels.triton_jobs import TritonJob, compile_triton

__all__ = [
    "CompileFacts",
    "Compiler",
    "CppBuildError",
    "CppKernel",
    "Target",
    "TritonJob",
    "build_kernels",
    "build_libraries",
    "compile_object",
    "compile_triton",
    "failed",
    "find_compiler",
    "link_library",
    "prepare_header",
    "prepare_kernels",
    "present_targets",
    "side_by_side",
    "targets_to_keep",
    "targets_to_run",
]
