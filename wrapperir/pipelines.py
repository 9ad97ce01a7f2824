"""Running passes: built-in ones, those of plugins, pipelines as text, and functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from attrs import evolve, field, frozen

from wrapperir.diagnostics import (
    TRACEBACKS,
    Code,
    Diagnostic,
    DiagnosticError,
    Note,
    Severity,
    describe_failure,
    did_you_mean,
)
from wrapperir.ir import Program
from wrapperir.passes import (
    BUILT_IN_PASSES,
    Captured,
    CaptureReport,
    InstalledPass,
    InstalledPipeline,
    Pass,
    PassArgument,
    PassCall,
    bind_arguments,
    capture_graphs,
    capture_named,
    format_call,
    parse_pipeline,
    record_pass,
)


@frozen
class ChosenPass:
    """A pass to run, with the call that names it.

    ``arguments`` have the types that the pass declares.  A function that was given instead
    of a name has no ``installed``.
    """

    call: PassCall
    run: Callable[..., Program]
    arguments: Mapping[str, PassArgument] = field(factory=dict[str, PassArgument])
    installed: InstalledPass | None = None

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.call.name

    @property
    def is_built_in(self) -> bool:
        """Whether the pass is one of wrapperir's own."""
        return self.installed is not None and self.installed is BUILT_IN_PASSES.get(
            self.name
        )

    def __str__(self) -> str:
        """Return the pass with its arguments and origin, for messages."""
        if self.installed is not None:
            origin = self.installed.origin
        else:
            origin = getattr(self.run, "__module__", None) or type(self.run).__module__
        return f"`{format_call(self.call)}` of {origin}"


PassLike: TypeAlias = str | Pass | ChosenPass
"""The text of a pipeline, such as a name; a function; or a pass that was found."""

PassObserver: TypeAlias = Callable[[ChosenPass, Program, Program], None]
"""Is given a pass that ran, and the programs before and after it."""


class InvalidResultError(DiagnosticError):
    """The errors of the ``program`` that a pass made."""

    def __init__(self, program: Program, *diagnostics: Diagnostic) -> None:
        """Keep the program to which the places of the diagnostics refer."""
        super().__init__(*diagnostics)
        self.program = program


def find_passes(passes: str | Sequence[PassLike]) -> tuple[ChosenPass, ...]:
    """Return the passes to run, in order; pipelines are replaced by their passes.

    Plugins are loaded only if a name is not that of a built-in pass or pipeline.

    Raises:
        DiagnosticError: WIR740 to WIR742 and WIR744, for each text and name that is wrong.
    """
    chosen: list[ChosenPass] = []
    wrong: list[Diagnostic] = []
    for given in (passes,) if isinstance(passes, str) else passes:
        if isinstance(given, ChosenPass):
            chosen.append(given)
        elif not isinstance(given, str):
            name = getattr(given, "__name__", None) or type(given).__name__
            chosen.append(ChosenPass(PassCall(name), given))
        else:
            try:
                chosen += _chosen(parse_pipeline(given), ())
            except DiagnosticError as error:
                wrong += error.diagnostics
    if wrong:
        raise DiagnosticError(*dict.fromkeys(wrong))
    return tuple(chosen)


def run_passes(
    program: Program,
    passes: str | Sequence[PassLike],
    on_capture: Callable[[CaptureReport], None] = lambda report: None,
    after: PassObserver = lambda ran, old, new: None,
) -> Program:
    """Return the program after passes, in the given order.

    ``passes`` is a pipeline as text, or a sequence of such texts, names among them, and of
    functions from program to program.  What a function or a pass of a plugin returns is
    verified.  Lines that a pass made, changed or moved have its name in their provenance.
    ``on_capture`` is given the report of each ``capture_graphs``, and ``after`` each pass
    with the programs before and after it.

    Raises:
        DiagnosticError: as :func:`find_passes`, before any pass runs; WIR743, a function or
            a pass of a plugin fails; or the errors of the program that it returns, if the
            program before had none.
    """
    capture: Callable[..., Captured] = capture_named
    for chosen in find_passes(passes):
        if chosen.run is capture_graphs:
            captured = capture(program, **chosen.arguments)
            on_capture(captured.report)
            result = captured.program
        elif chosen.is_built_in:
            result = chosen.run(program, **chosen.arguments)
        else:
            result = _run_checked(chosen, program)
        result = record_pass(program, result, chosen.name)
        after(chosen, program, result)
        program = result
    return program


def _run_checked(chosen: ChosenPass, program: Program) -> Program:
    try:
        result = cast(object, chosen.run(program, **chosen.arguments))
    except DiagnosticError:
        raise
    except Exception as error:
        message, note = describe_failure(error)
        raise _fault(chosen, f"failed: {message}", note) from error
    if not isinstance(result, Program):
        raise _fault(chosen, f"returned a {type(result).__name__}, not a Program")
    errors = _errors_of(result)
    if errors and not _errors_of(program):
        named = (evolve(e, message=f"after the pass {chosen}: {e.message}") for e in errors)
        raise InvalidResultError(result, *named)
    return result


def _errors_of(program: Program) -> list[Diagnostic]:
    from wrapperir.verify import verify  # loaded late: built-in passes need it not

    return [each for each in verify(program) if each.severity is Severity.ERROR]


def _fault(chosen: ChosenPass, problem: str, *notes: Note) -> DiagnosticError:
    return Code.PASS_FAILED.error(
        f"the pass {chosen} {problem}",
        notes=notes,
        hint="this is a fault of the pass, not of the program;"
        f" with {TRACEBACKS}=1, the command line shows its traceback",
    )


def _chosen(calls: Sequence[PassCall], within: tuple[str, ...]) -> list[ChosenPass]:
    """Return the passes of calls; ``within`` are the pipelines that contain them."""
    chosen: list[ChosenPass] = []
    wrong: list[Diagnostic] = []
    for call in calls:
        try:
            chosen += _chosen_by(call, within)
        except DiagnosticError as error:
            wrong += error.diagnostics
    if wrong:
        raise DiagnosticError(*wrong)
    return chosen


def _chosen_by(call: PassCall, within: tuple[str, ...]) -> list[ChosenPass]:
    found = _installed(call)
    if isinstance(found, InstalledPass):
        arguments = bind_arguments(call, found.parameters)
        return [ChosenPass(call, found.run, arguments, found)]
    bind_arguments(call, ())
    if call.name in within:
        path = " contains ".join(f"`{name}`" for name in (*within, call.name))
        message = f"a pipeline contains itself: {path}"
        raise Code.BAD_PIPELINE.error(message, position=call.position)
    # The places are those of the text that the user gave.
    calls = [evolve(c, position=call.position) for c in parse_pipeline(found.text)]
    return _chosen(calls, (*within, call.name))


def _installed(call: PassCall) -> InstalledPass | InstalledPipeline:
    built_in = BUILT_IN_PASSES.get(call.name)
    if built_in is not None:
        return built_in
    from wrapperir.plugin import plugin_manager  # plugins are imported late

    manager = plugin_manager()
    try:
        found = manager.find_pass(call.name)
    except DiagnosticError as error:
        raise DiagnosticError(
            *(evolve(each, position=call.position) for each in error.diagnostics)
        ) from None
    if found is None:
        known = {**BUILT_IN_PASSES, **manager.passes}
        listed = f"passes are {', '.join(sorted(known))}"
        listed = "; ".join((listed, *manager.problems_of("wrapperir_passes")))
        hint = " ".join(filter(None, (did_you_mean(call.name, known), listed)))
        message = f"there is no pass {call.name[:80]!r}"
        raise Code.UNKNOWN_PASS.error(message, position=call.position, hint=hint)
    return found
