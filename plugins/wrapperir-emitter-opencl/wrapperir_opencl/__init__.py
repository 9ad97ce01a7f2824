"""An emitter of C host programs over the OpenCL API, and a renderer of OpenCL C kernels."""
