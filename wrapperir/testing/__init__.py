"""What tests of compilers and emitters need: programs, faults, inputs, conformance.

The modules need ``hypothesis`` (the ``testing`` extra) and, to run programs, torch:

- :mod:`wrapperir.testing.programs`: strategies for valid programs;
- :mod:`wrapperir.testing.inputs`: inputs and constants for a program;
- :mod:`wrapperir.testing.faults`: faults put into valid programs;
- :mod:`wrapperir.testing.conformance`: a fixed set of programs that every emitter must run
  as the interpreter does;
- :mod:`wrapperir.testing.arbitrary`: programs of any content, valid or not.
"""
