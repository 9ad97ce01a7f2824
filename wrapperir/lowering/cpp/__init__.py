"""The renderer of C++ kernels for CPUs."""

from wrapperir.lowering.cpp.renderer import CppRenderer as CppRenderer
