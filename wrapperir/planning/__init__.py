"""Solvers that place buffers in a pool."""
