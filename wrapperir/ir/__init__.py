"""The IR: expressions, types, kernels, lines, programs, visitor, builder."""
