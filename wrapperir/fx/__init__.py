"""The FX dialect: what graphs of programs call, hold and note beside what PyTorch has.

The FX emitter writes these graphs and :mod:`wrapperir.frontend.fx` reads them.
"""
