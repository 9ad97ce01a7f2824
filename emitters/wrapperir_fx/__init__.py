"""The FX emitter: a program as a graph that any compiler of PyTorch's can take further."""
