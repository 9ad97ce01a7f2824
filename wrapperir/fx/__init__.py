"""The FX dialect: functions, attributes and metadata of graphs of programs.

The FX emitter writes these graphs and :mod:`wrapperir.frontend.fx` reads them.
"""
