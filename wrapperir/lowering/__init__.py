"""Our own lowering: loop nests, their schedule, and their rendering as kernels."""
