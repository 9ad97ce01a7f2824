"""The ``torch.compile`` backend: ``torch.compile(model, backend="wrapperir")``."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from wrapperir.backend.failure_reports import FailureReports
from wrapperir.backend.options import OPTIONS, BackendOptions, read_options
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import ComingPrograms, Emitter, OutputCode, drop_recordings
from wrapperir.emit.artifact import dump_folder
from wrapperir.emit.compilation_key import begin_digest, compilation_key

if TYPE_CHECKING:
    import torch

    from wrapperir.backend.program_page import ProgramPage
    from wrapperir.emit import Loaded
    from wrapperir.emit.partition import PartitioningEmitter
    from wrapperir.frontend import Lowered
    from wrapperir.frontend.preparation import Prepare
    from wrapperir.pipelines import PassLike

__all__ = [
    "OPTIONS",
    "BackendOptions",
    "cache_key",
    "chosen_emitters",
    "compile_lowered",
    "preparing",
    "read_options",
    "wrapperir_backend",
]

_logger = logging.getLogger("wrapperir.partition")


def wrapperir_backend(
    graph: "torch.fx.GraphModule",
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced, through a verified program.

    ``mode`` is a mode of ``torch.compile``, and stands for the same settings of Inductor.

    Raises:
        DiagnosticError: WIR660 or WIR661 for the options or the mode; the first operation
            that the program cannot express; all errors of the verifier; or WIR655, PyTorch
            or the lowering failed.
    """
    begin_digest("wrapperir")  # while the frontend is imported
    given = dict(options or {})
    if given.get("frontend") == "lowering":
        return _compile_by_lowering(graph, example_inputs, mode, given)
    from wrapperir.frontend.inductor import compile_graph
    from wrapperir.frontend.inductor.settings import mode_settings

    implied = mode_settings("default" if mode is None else mode)
    chosen = read_options({**implied, **given})

    prepare = preparing(chosen, example_inputs)
    reports = FailureReports.of(chosen, given, mode, graph, example_inputs)

    return compile_graph(
        graph,
        example_inputs,
        _compiling(chosen, reports),
        cache_key(chosen),
        settings=chosen.settings,
        falls_back=chosen.fallback is not None,
        prepare=prepare,
        report=reports.write,
    )


# `torch.compiler.reset` calls it.
vars(wrapperir_backend)["reset"] = drop_recordings


def _compile_by_lowering(
    graph: "torch.fx.GraphModule",
    example_inputs: Sequence[Any],
    mode: str | None,
    options: Mapping[str, object],
) -> Callable[..., Any]:
    """Compile a graph without Inductor, as :func:`wrapperir_backend` does with it."""
    from wrapperir.frontend.lowering.compile import LoweringSettings, compile_graph
    from wrapperir.plugin import plugin_manager

    implied = {"graphs": mode in _REPLAYING}
    if mode not in (None, "default", *_REPLAYING):
        from wrapperir.frontend.inductor.settings import mode_settings

        mode_settings(mode)  # there may be no such mode
    chosen = read_options({**implied, **options})
    settings = dict(chosen.settings)
    times_configs = bool(settings.pop("max_autotune", (mode or "").startswith("max-")))
    if settings:
        raise Code.INVALID_OPTION.error(
            f"option {next(iter(settings))!r} is for the frontend 'inductor'",
            hint="leave it out, or leave out the option 'frontend'",
        )
    prepare = preparing(chosen, example_inputs)
    kernel_device = None
    with suppress(DiagnosticError):  # it is raised when the first program is compiled
        kernel_device = plugin_manager().kernel_device(_found(chosen.emitter))
    reports = FailureReports.of(chosen, options, mode, graph, example_inputs)

    def fall_back(
        traced: "torch.fx.GraphModule", inputs: Sequence[Any], backward: bool
    ) -> Any:
        from wrapperir.frontend.inductor.compilation import compile_traced

        return compile_traced(traced, inputs, is_backward=backward)

    key = cache_key(chosen)
    keeper = None
    if key is not None:
        from wrapperir.frontend.inductor.kept_code import graph_keeper

        keeper = graph_keeper()
    return compile_graph(
        graph,
        example_inputs,
        _compiling(chosen, reports),
        LoweringSettings(
            rounding=chosen.rounding,
            times_configs=times_configs,
            cache_key=key,
            keeper=keeper,
            fall_back=None if chosen.fallback is None else fall_back,
            kernel_device=kernel_device,
            report=reports.write,
        ),
        prepare,
    )


def _compiling(
    options: BackendOptions, reports: FailureReports
) -> "Callable[[Lowered, bool, Callable[[OutputCode], None]], Loaded]":
    """Return a function that compiles a program, and has its failures reported."""

    def compile(
        lowered: "Lowered", backward: bool, show: Callable[[OutputCode], None]
    ) -> "Loaded":
        role = "backward" if backward else "forward"
        with reports.of_program(lowered.program):
            loaded = compile_lowered(lowered, options, role, show)
        return reports.watching(loaded, lowered.program)

    return compile


_REPLAYING = ("reduce-overhead", "max-autotune")
"""Modes of ``torch.compile`` that replay graphs."""


def preparing(options: BackendOptions, inputs: Sequence[Any]) -> "Prepare":
    """Return a function that begins, in the background, what loading programs needs.

    It takes ``is_new`` of :class:`~wrapperir.emit.ComingPrograms`.
    """
    import torch

    from wrapperir.emit.default_passes import captures_graphs
    from wrapperir.emit.pipeline import find_emitter
    from wrapperir.emit.preparation import prepare

    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    coming = ComingPrograms(
        devices=frozenset(tensor.device.type for tensor in tensors),
        is_new=False,
        graphs=bool(options.graphs) or captures_graphs(options.passes or ()),
        own_kernels=options.frontend == "lowering",
    )

    def begin(*, is_new: bool) -> None:
        named = options.emitter
        with suppress(DiagnosticError):  # it is raised when the first program is compiled
            emitter = find_emitter(named) if isinstance(named, str) else named
            prepare(emitter, evolve(coming, is_new=is_new))

    return begin


def cache_key(options: BackendOptions) -> str | None:
    """Return the key of how programs are compiled; ``None`` if they are not to be kept.

    Programs are not kept if they are dumped, or reports, profiles or pages are asked for,
    if a function of the user's compiles the emitted graph or is a pass, or if the emitter
    is an object, which may have settings of its own.
    """
    import torch

    from wrapperir.emit.default_passes import can_tile, installed_passes
    from wrapperir.plugin import plugin_manager

    paths = (options.dump_dir, options.bug_report, options.profile, options.view)
    other = any([*paths, options.debug_info]) or options.compile_graph is not None
    named = isinstance(options.emitter, str)
    if other or not named or not isinstance(options.fallback_emitter, str | None):
        return None
    try:
        emitter, partitioning = chosen_emitters(options)
        passes = installed_passes(options.passes) if options.passes else ()
    except DiagnosticError:
        return None  # it is raised when the first program is compiled
    if passes is None:
        return None
    settings = {
        "passes": None if options.passes is None else [text for text, _ in passes],
        "graphs": options.graphs,
        "graph_collectives": options.graph_collectives,
        "check_memory": options.check_memory,
        "tiles": torch.cuda.is_available() and can_tile(emitter),
    }
    parts: list[object] = []
    if partitioning is not None:
        parts += [partitioning.chosen, partitioning.fallback]
    if options.frontend == "lowering":
        support = emitter.support
        own = support.hosted | (support.devices or frozenset())
        for device in ("cpu", "cuda", *sorted(own - {"cpu", "cuda"})):
            parts += plugin_manager().renderers(device)
    packages = {package for _, defining in passes for package in defining}
    return compilation_key(partitioning or emitter, settings, parts, packages)


def compile_lowered(
    lowered: "Lowered",
    options: BackendOptions,
    role: str,
    show: Callable[[OutputCode], None] | None = None,
) -> "Loaded":
    """Return the callable for one program; dump the program if the options say so.

    ``show`` is given the emitted code before it is loaded.

    Raises:
        DiagnosticError: as :func:`wrapperir.emit.compile_program`; WIR661, the
            ``dump_dir``, ``profile`` or ``view`` cannot be written; WIR705, the emitter
            makes no graphs for ``compile_graph``.
    """
    from wrapperir.emit import compile_program
    from wrapperir.emit.default_passes import passes_to_run

    root = options.dump_dir
    with _naming("dump_dir"):
        folder = None if root is None else dump_folder(root, role)
    with _naming("profile"):
        if options.profile is not None:
            options.profile.mkdir(parents=True, exist_ok=True)

    def compile(emitter: Emitter, passes: "Sequence[PassLike]") -> "Loaded":
        compiled: list[OutputCode] = []

        def note(code: OutputCode) -> None:
            compiled.append(code)
            if show is not None:
                show(code)

        page = _page_of(lowered, options, role)
        loaded = compile_program(
            lowered.program,
            emitter=emitter,
            passes=passes,
            constants=lowered.constants,
            dump_dir=folder,
            check_memory=options.check_memory,
            debug_info=options.debug_info,
            show=show if options.profile is None and page is None else note,
            after=None if page is None else page.steps,
        )
        if page is not None:
            with _naming("view"):
                page.write(compiled[-1].program, emitter)
        if options.profile is None:
            return loaded
        from wrapperir.backend.profiled_program import ProfiledProgram

        program, constants = compiled[-1].program, lowered.constants
        return ProfiledProgram(program, emitter, constants, loaded, options.profile, role)

    alone, partitioning = chosen_emitters(options)
    _report_missing_kernels(lowered, alone, options, falls_back=partitioning is not None)
    passes = passes_to_run(
        options.passes,
        alone,
        graphs=options.graphs,
        graph_collectives=options.graph_collectives,
    )
    if partitioning is None:
        return compile(alone, passes)
    # Imported late: it takes as long as emitting a small program.
    from wrapperir.emit.partition import is_refusal, lacks_something

    if not lacks_something(lowered.program, alone):
        try:
            return compile(alone, passes)
        except DiagnosticError as error:
            if not is_refusal(error):
                raise
    return compile(partitioning, ())


def _page_of(
    lowered: "Lowered", options: BackendOptions, role: str
) -> "ProgramPage | None":
    """Return the page of a program, if the options ask for one."""
    if options.view is None:
        return None
    from wrapperir.backend.program_page import ProgramPage

    return ProgramPage(lowered, options.view, role)


@contextmanager
def _naming(option: str) -> Generator[None]:
    """Turn an error of a file into WIR661, which names the option that the file is for."""
    try:
        yield
    except OSError as error:
        raise Code.INVALID_OPTION.error(
            f"option {option!r}: {error.filename!r} cannot be written: {error.strerror}"
        ) from error


def _report_missing_kernels(
    lowered: "Lowered", emitter: Emitter, options: BackendOptions, *, falls_back: bool
) -> None:
    """Say why a program is not for the emitter's device, if the emitter lacks something.

    Raises:
        DiagnosticError: WIR704, there is no emitter to fall back to.
    """
    if not emitter.support.hosted:
        return
    from wrapperir.emit.partition import lacks_something
    from wrapperir.plugin import plugin_manager

    missing = plugin_manager().missing_kernels(emitter, options.frontend)
    if missing is None or not lacks_something(lowered.program, emitter):
        return
    if not falls_back:
        raise DiagnosticError(missing)
    _logger.warning("%s (%s)", missing.message, missing.hint)


def chosen_emitters(
    options: BackendOptions,
) -> "tuple[Emitter, PartitioningEmitter | None]":
    """Return the emitter of the options, and one that falls back for what it lacks.

    Raises:
        DiagnosticError: WIR700, there is no emitter of a name; WIR705, it makes no graphs
            for ``compile_graph``.
    """
    chosen = _found(options.emitter).trusting_inputs()  # guards of torch.compile check them
    if options.compile_graph is not None:
        chosen = chosen.compiling_graphs(options.compile_graph)
    named = options.fallback_emitter
    fallback = None if named is None else _found(named).trusting_inputs()
    is_pair = "+" in chosen.name
    if not is_pair and (fallback is None or fallback.name == chosen.name):
        return chosen, None
    # Imported late: most programs that a cache has need none of it.
    from wrapperir.emit.default_passes import passes_to_run
    from wrapperir.emit.partition import PartitioningEmitter

    passes = partial(
        passes_to_run,
        options.passes,
        graphs=options.graphs,
        graph_collectives=options.graph_collectives,
    )
    if isinstance(chosen, PartitioningEmitter):
        return chosen.chosen, evolve(chosen, passes=passes)
    assert fallback is not None
    return chosen, PartitioningEmitter(chosen, fallback, passes, checks_inputs=False)


def _found(emitter: str | Emitter) -> Emitter:
    from wrapperir.emit.pipeline import find_emitter

    return find_emitter(emitter) if isinstance(emitter, str) else emitter
