"""Flags of C++ kernels that include PyTorch's header, which is precompiled.

Flags decide a kernel's numbers.  They are those that Inductor passes, so the same source
gives the same results bit for bit.
"""

import functools
import platform
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

# Infinities, NaNs and errno are kept, as are sums as written; a later flag overrides an
# earlier one.
_NUMERIC_FLAGS = (
    "-O3",
    *("-fno-trapping-math", "-funsafe-math-optimizations", "-ffinite-math-only"),
    *("-fno-signed-zeros", "-fno-finite-math-only", "-fno-unsafe-math-optimizations"),
    *("-fmath-errno", "-ffp-contract=off"),
)
_GCC_FLAGS = ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
_DEFINITIONS = (
    *("NDEBUG", "STANDALONE_TORCH_HEADER", "C10_USING_CUSTOM_GENERATED_MACROS"),
    *("TORCH_INDUCTOR_CPP_WRAPPER", "TORCH_INDUCTOR_PRECOMPILE_HEADERS"),
)
_SVE = "-DAT_BUILD_ARM_VEC256_WITH_SLEEF -D__ARM_FEATURE_BF16 -march=armv8-a+sve+bf16"
_VECTOR_FLAGS: Mapping[str, Sequence[str]] = {
    **{
        name: ("-march=native", f"-DCPU_CAPABILITY_{name}")
        for name in ("AVX2", "AVX512", "VSX", "ZVECTOR")
    },
    "NEON": (
        *("-march=native", "-DCPU_CAPABILITY_NEON"),
        "-DAT_BUILD_ARM_VEC256_WITH_SLEEF",
    ),
    **{
        f"SVE{bits}": (
            *("-DCPU_CAPABILITY_SVE", f"-DCPU_CAPABILITY_SVE{bits}", *_SVE.split()),
            f"-msve-vector-bits={bits}",
        )
        for bits in (128, 256)
    },
    "none": ("-march=native",),
}
"""Flags by PyTorch's name of vector instructions."""


def machine_vectors() -> str:
    """Return PyTorch's name of the vector instructions that it finds here."""
    found: str = torch.backends.cpu.get_cpu_capability()
    if found in _VECTOR_FLAGS:
        return found
    return "NEON" if platform.machine() in ("aarch64", "arm64") else "none"


def is_gcc(version: str) -> bool:
    """Return whether a compiler's ``--version`` is GNU's."""
    return "Free Software Foundation" in version


def kernel_flags(version: str, vectors: str) -> tuple[str, ...]:
    """Return the flags for a compiler with this ``--version``.

    ``vectors`` names the vector instructions that the kernel is written with.

    Raises:
        ValueError: there are none of this name.
    """
    vector_flags = _VECTOR_FLAGS.get(vectors)
    if vector_flags is None:
        known = ", ".join(_VECTOR_FLAGS)
        raise ValueError(f"{vectors!r} names no vector instructions; known are {known}")
    home = Path(torch.__file__).parent / "include"
    folders = (sysconfig.get_path("include"), home, home / "torch/csrc/api/include")
    return (
        *(*_NUMERIC_FLAGS, *vector_flags, "-std=c++20", "-fPIC", "-fopenmp", "-w"),
        *(_GCC_FLAGS if is_gcc(version) else ()),
        *(f"-D{name}" for name in _DEFINITIONS),
        *(f"-I{folder}" for folder in folders),
    )


@functools.cache
def machine_facts() -> str:
    """Return what ``-march=native`` depends on; other machines may share the cache."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = ("flags", "Features", "model", "model name", "cpu family", "CPU part")
    found = {line for line in lines if line.split(":")[0].strip() in kept}
    return "\n".join(sorted(found))


def compiler_facts(command: Sequence[str], version: str) -> list[object]:
    """Return all that decides how kernels are compiled, for keys of caches."""
    return [list(command), version, machine_facts(), torch.__version__, torch.__file__]


def header_flags(
    header: str,
    version: str,
    run: Callable[[Sequence[str], Path], None],
    built: Callable[[Callable[[Path], None]], Path],
) -> tuple[str, ...]:
    """Return the flags that include a header, which GNU's compiler precompiles.

    ``run`` runs the compiler with arguments in a folder.  ``built`` has a function write
    a file, which is kept, and whose name ends in ``.gch``.
    """
    if not is_gcc(version):
        return ("-include", header)

    def compile_to(output: Path) -> None:
        source = output.parent / "kernels.h"
        source.write_text(f"#include <{header}>\n", encoding="utf-8")
        run(["-xc++-header", source.name, "-o", str(output)], output.parent)

    # The compiler looks for the name of a header with this ending.
    return ("-include", str(built(compile_to).with_suffix("")))
