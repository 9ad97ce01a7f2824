"""The reference interpreter: runs a program as the reference manual says it means."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import torch

from wrapperir.diagnostics import Code, DiagnosticError, FaultError
from wrapperir.emit import Value
from wrapperir.interp.blocks import check_leaks, result
from wrapperir.interp.collectives import Flights
from wrapperir.interp.entry import enter
from wrapperir.interp.executor import AfterLine, Executor
from wrapperir.interp.fault import placed
from wrapperir.interp.frame import Frame
from wrapperir.interp.kernels import Kernels
from wrapperir.interp.line_names import LineNames
from wrapperir.interp.memory import Workspaces
from wrapperir.interp.pool import Pool
from wrapperir.interp.ranks import RankSession, run_ranks
from wrapperir.interp.streams import Event, History, StreamClocks
from wrapperir.interp.values import OpaqueValue, TensorValue, TupleValue
from wrapperir.ir import Argument, BufferRef, Program
from wrapperir.ir.blocks import called_names
from wrapperir.ir.line_effects import LineEffects


def interpret(
    program: Program, inputs: Sequence[Value], constants: Mapping[str, torch.Tensor]
) -> tuple[Value, ...]:
    """Run a program once and return its outputs.

    ``constants`` maps each constant's key to its tensor.  This executes the program's
    kernels.

    Raises:
        DiagnosticError: the program faulted, or an input or constant does not fit its type.
    """
    return Interpreter(program, constants).run(inputs)


def interpret_ranks(
    programs: Sequence[Program],
    inputs: Sequence[Sequence[Value]],
    constants: Sequence[Mapping[str, torch.Tensor]],
) -> tuple[tuple[Value, ...], ...]:
    """Run programs together, one for each rank, and return the outputs of each.

    The members of a group are the programs that declare it.  A group that does not say
    its rank has the ranks of its members in their order.  Programs take turns in one
    process, and their collectives meet there.

    Raises:
        DiagnosticError: a program faulted, ranks start different collectives (WIR848), or
            all that are left wait (WIR849).  Messages name the program by its position.
    """

    def run(index: int, session: RankSession) -> tuple[Value, ...]:
        return Interpreter(programs[index], constants[index], session).run(inputs[index])

    return run_ranks(programs, [partial(run, index) for index in range(len(programs))])


class Interpreter:
    """Runs one program any number of times, keeping its ``zero_per_program`` workspaces.

    Kernels are built on the first run that calls them.
    """

    def __init__(
        self,
        program: Program,
        constants: Mapping[str, torch.Tensor],
        ranks: RankSession | None = None,
    ) -> None:
        """Take the program; nothing of it is executed yet.

        With ``ranks``, it is one of several that run together.
        """
        self._program = program
        self._constants = constants
        self._kernels = Kernels(program.definitions)
        self._workspaces: Workspaces = {}
        self._ranks = RankSession.alone(program) if ranks is None else ranks
        self._effects = LineEffects.of_program(program)

    def run(
        self, inputs: Sequence[Value], after_line: AfterLine | None = None
    ) -> tuple[Value, ...]:
        """Run the program and return its outputs; ``after_line`` is called after each line.

        Raises:
            DiagnosticError: the program faulted, or an input or constant does not fit its
                type; the next run then zeroes the workspaces again.
        """
        try:
            return self._run(inputs, after_line)
        except DiagnosticError:
            self._workspaces.clear()
            raise

    def _run(
        self, inputs: Sequence[Value], after_line: AfterLine | None
    ) -> tuple[Value, ...]:
        program = self._program
        with placed(("lines",)):
            self._kernels.build_cpp(called_names(program))
        frame = enter(program, inputs, self._constants)
        for workspace in self._workspaces.values():
            workspace.storage.history = History()  # no use of an earlier run is left
        executor = Executor(
            kernels=self._kernels,
            flights=Flights(self._ranks, self._effects),
            workspaces=self._workspaces,
            streams=StreamClocks(),
            frame=frame,
            after_line=after_line,
        )
        if after_line is not None:
            after_line((), LineNames(frame))
        executor.run(program.lines, ())
        outputs = tuple(
            _output(argument, frame, index)
            for index, argument in enumerate(program.outputs)
        )
        check_leaks(frame, program.outputs)
        for path, workspace in self._workspaces.items():
            with placed(path):
                if bool(workspace.storage.bytes().any()):
                    message = "the workspace is not zero when the program ends"
                    raise FaultError(Code.RUN_WORKSPACE_NOT_ZERO, message)
        return outputs


def _output(argument: Argument, frame: Frame, index: int) -> Value:
    with placed(("outputs", index)):
        match result(argument, frame):
            case TensorValue() as value:
                assert isinstance(argument, BufferRef)
                value.require_written(argument.name)
                return value.tensor
            case OpaqueValue(inner):
                return cast(Value, inner)
            case int() | float() as number:
                return number
            case TupleValue() | Pool() | Event():  # of these, only a tuple is returned
                raise FaultError(Code.RUN_VALUE_KIND, "a tuple cannot be an output")
