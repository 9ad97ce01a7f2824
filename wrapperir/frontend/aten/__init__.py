"""Lowering of graphs of ATen operators to lines; shared by the frontends that read them."""
