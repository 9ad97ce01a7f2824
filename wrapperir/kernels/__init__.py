"""Building and running kernels: C++ with the machine's compiler, Triton on the CPU."""
