"""One program of the conformance kit."""

from attrs import frozen

from wrapperir.ir import Program


@frozen
class Case:
    """A program, and the seeds of the inputs to run it on.

    ``faults`` says that running it must end in an error.
    """

    name: str
    program: Program
    seeds: tuple[int, ...] = (0, 1)
    faults: bool = False
