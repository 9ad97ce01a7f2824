"""Files copied beside emitted programs: compiled extensions and launches of kernels."""
