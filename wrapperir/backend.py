"""The ``torch.compile`` backend: ``torch.compile(model, backend="wrapperir")``."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrs import Factory, evolve, fields_dict, frozen

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import ComingPrograms, Emitter, GraphCompiler, OutputCode
from wrapperir.emit.artifact import dump_folder

if TYPE_CHECKING:
    import torch

    from wrapperir.emit import Loaded
    from wrapperir.frontend import Lowered
    from wrapperir.pipelines import PassLike


@frozen(kw_only=True)
class BackendOptions:
    """The options of ``torch.compile(..., options={...})``.

    ``passes``, texts of pipelines and functions, run in this order on each program;
    ``None`` stands for the passes that plan
    its memory with lines that the emitter supports.  With ``graphs``, ``capture_graphs`` is
    one of them, or runs before those that are named.  In ``dump_dir``, each program and its
    emitted files are written to a folder of their own.  With ``check_memory``,
    emitted code checks its memory as it runs.  ``compile_graph`` compiles the graph that
    the emitter builds of each program.  With the ``fallback`` ``"inductor"``, Inductor
    compiles the graphs that cannot be compiled here.  ``settings`` are the options that are
    Inductor's, by their names in ``torch._inductor.config``.  With the ``frontend``
    ``"lowering"``, graphs become kernels without Inductor, of whose settings it knows
    ``max_autotune``, which has several configs of kernels timed; ``rounding`` says where
    values of half types are rounded then: ``"fused"``, where they are stored, or
    ``"eager"``, after each operator.
    """

    emitter: str | Emitter = "python"
    passes: "tuple[PassLike, ...] | None" = None
    graphs: bool = False
    dump_dir: Path | None = None
    check_memory: bool = False
    compile_graph: GraphCompiler | None = None
    fallback: str | None = None
    frontend: str = "inductor"
    rounding: str = "fused"
    settings: Mapping[str, object] = Factory(dict[str, object])


OPTIONS = tuple(name for name in fields_dict(BackendOptions) if name != "settings")


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
    given = dict(options or {})
    if given.get("frontend") == "lowering":
        return _compile_by_lowering(graph, example_inputs, mode, given)
    from wrapperir.frontend.inductor import compile_graph
    from wrapperir.frontend.inductor.settings import mode_settings

    implied = mode_settings("default" if mode is None else mode)
    chosen = read_options({**implied, **given})

    prepare = preparing(chosen, example_inputs)
    prepare(is_new=False)

    def compile(
        lowered: "Lowered", backward: bool, show: Callable[[OutputCode], None]
    ) -> "Loaded":
        return compile_lowered(lowered, chosen, "backward" if backward else "forward", show)

    return compile_graph(
        graph,
        example_inputs,
        compile,
        cache_key(chosen),
        settings=chosen.settings,
        falls_back=chosen.fallback is not None,
        begin=lambda: prepare(is_new=True),
    )


def _compile_by_lowering(
    graph: "torch.fx.GraphModule",
    example_inputs: Sequence[Any],
    mode: str | None,
    options: Mapping[str, object],
) -> Callable[..., Any]:
    """Compile a graph without Inductor, as :func:`wrapperir_backend` does with it."""
    from wrapperir.frontend.lowering.compile import LoweringSettings, compile_graph

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
    prepare(is_new=False)

    def compile(
        lowered: "Lowered", backward: bool, show: Callable[[OutputCode], None]
    ) -> "Loaded":
        return compile_lowered(lowered, chosen, "backward" if backward else "forward", show)

    def fall_back(
        traced: "torch.fx.GraphModule", inputs: Sequence[Any], backward: bool
    ) -> Any:
        from wrapperir.frontend.inductor.capture import compile_traced

        return compile_traced(traced, inputs, is_backward=backward)

    return compile_graph(
        graph,
        example_inputs,
        compile,
        LoweringSettings(
            rounding=chosen.rounding,
            times_configs=times_configs,
            cache_key=cache_key(chosen),
            fall_back=None if chosen.fallback is None else fall_back,
        ),
        begin=lambda: prepare(is_new=True),
    )


_REPLAYING = ("reduce-overhead", "max-autotune")
"""Modes of ``torch.compile`` that replay graphs."""


def preparing(options: BackendOptions, inputs: Sequence[Any]) -> Callable[..., None]:
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

    Programs are not kept if they are dumped, if a function of the user's compiles the
    emitted graph or is a pass, or if the emitter is an object, which may have settings of
    its own.
    """
    import torch

    from wrapperir.emit.compilation_key import compilation_key
    from wrapperir.emit.default_passes import can_tile, installed_passes
    from wrapperir.emit.pipeline import find_emitter
    from wrapperir.plugin import plugin_manager

    named = options.emitter
    other = options.dump_dir is not None or options.compile_graph is not None
    if other or not isinstance(named, str):
        return None
    try:
        emitter = find_emitter(named)
        passes = installed_passes(options.passes) if options.passes else ()
    except DiagnosticError:
        return None  # it is raised when the first program is compiled
    if passes is None:
        return None
    settings = {
        "passes": None if options.passes is None else [text for text, _ in passes],
        "graphs": options.graphs,
        "check_memory": options.check_memory,
        "tiles": torch.cuda.is_available() and can_tile(emitter),
    }
    renderers: list[object] = []
    if options.frontend == "lowering":
        for device in ("cpu", "cuda"):
            renderers += plugin_manager().renderers(device)
    return compilation_key(emitter, settings, renderers, {package for _, package in passes})


def read_options(options: Mapping[str, object]) -> BackendOptions:
    """Return the options, checked; ``triton.cudagraphs`` of Inductor is ``graphs``.

    Raises:
        DiagnosticError: WIR660 names an unknown option, WIR661 one of the wrong type.
    """
    settings = _read_settings({n: v for n, v in options.items() if n not in OPTIONS})
    emitter = options.get("emitter", "python")
    if not isinstance(emitter, str | Emitter):
        raise _mistyped("emitter", "an emitter, or the name of one", emitter)
    passes = options.get("passes")
    given = None if passes is None else _read_passes(passes)
    graphs = options.get("graphs", settings.pop("triton.cudagraphs", False))
    if not isinstance(graphs, bool):
        raise _mistyped("graphs", "true or false", graphs)
    dump_dir = options.get("dump_dir")
    if dump_dir is not None and not isinstance(dump_dir, str | os.PathLike):
        raise _mistyped("dump_dir", "a path", dump_dir)
    check_memory = options.get("check_memory", False)
    if not isinstance(check_memory, bool):
        raise _mistyped("check_memory", "true or false", check_memory)
    compile_graph = options.get("compile_graph")
    if compile_graph is not None and not callable(compile_graph):
        wanted = "a function that takes a torch.fx.GraphModule and returns a callable"
        raise _mistyped("compile_graph", wanted, compile_graph)
    fallback = options.get("fallback")
    if fallback not in (None, "inductor"):
        message = f"option 'fallback' is 'inductor' or None, not {fallback!r:.80}"
        raise Code.INVALID_OPTION.error(message)
    return BackendOptions(
        emitter=emitter,
        passes=given,
        graphs=graphs,
        dump_dir=None if dump_dir is None else Path(os.fspath(dump_dir)),
        check_memory=check_memory,
        compile_graph=cast(GraphCompiler | None, compile_graph),
        fallback=None if fallback is None else "inductor",
        frontend=_one_of("frontend", options, "inductor", "lowering"),
        rounding=_one_of("rounding", options, "fused", "eager"),
        settings=settings,
    )


def _one_of(name: str, options: Mapping[str, object], *choices: str) -> str:
    """Return the choice that an option is, by default the first."""
    value = options.get(name, choices[0])
    if not isinstance(value, str) or value not in choices:
        wanted = " or ".join(map(repr, choices))
        raise Code.INVALID_OPTION.error(f"option {name!r} is {wanted}, not {value!r:.80}")
    return value


def _read_settings(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are Inductor's, checked, by the names of its settings."""
    if not options:
        return {}
    from wrapperir.frontend.inductor.settings import check_setting, setting_names

    known = setting_names()
    settings = {name.replace("-", "_"): value for name, value in options.items()}
    unknown = [name for name in options if name.replace("-", "_") not in known]
    if unknown:
        raise DiagnosticError(*[_unknown(name, known) for name in unknown])
    for name, value in options.items():
        check_setting(name, value)
    return settings


def _unknown(name: str, settings: Iterable[str]) -> Diagnostic:
    near = difflib.get_close_matches(name, [*OPTIONS, *settings])
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return Diagnostic(
        Code.UNKNOWN_OPTION,
        f"backend wrapperir has no option {name!r}",
        hint=f"{guess}the options are {', '.join(OPTIONS)},"
        " and the settings of torch._inductor.config",
    )


def _read_passes(value: object) -> "tuple[PassLike, ...]":
    """Return a pipeline's text, or a list or tuple of texts and functions, as a tuple.

    Raises:
        DiagnosticError: WIR661, it is something else.
    """
    items = (value,) if isinstance(value, str) else _items(value)
    if items is None or not all(isinstance(item, str) or callable(item) for item in items):
        wanted = "the text of a pipeline, or a sequence of names of passes and functions"
        raise _mistyped("passes", wanted, value)
    return cast("tuple[PassLike, ...]", tuple(items))


def _items(value: object) -> Sequence[object] | None:
    """Return a list or tuple, and ``None`` for anything else."""
    return cast(Sequence[object], value) if isinstance(value, list | tuple) else None


def _mistyped(name: str, wanted: str, value: object) -> DiagnosticError:
    message = f"option {name!r} is {wanted}, not {type(value).__name__}"
    return Code.INVALID_OPTION.error(message)


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
            ``dump_dir`` cannot be written; WIR705, the emitter makes no graphs for
            ``compile_graph``.
    """
    from wrapperir.emit import compile_program
    from wrapperir.emit.default_passes import passes_to_run
    from wrapperir.emit.pipeline import find_emitter

    emitter = options.emitter
    chosen = find_emitter(emitter) if isinstance(emitter, str) else emitter
    chosen = chosen.trusting_inputs()  # the guards of torch.compile check them
    if options.compile_graph is not None:
        chosen = chosen.compiling_graphs(options.compile_graph)
    passes = passes_to_run(options.passes, chosen, graphs=options.graphs)
    root = options.dump_dir
    try:
        folder = None if root is None else dump_folder(root, role)
    except OSError as error:
        raise Code.INVALID_OPTION.error(
            f"option 'dump_dir': {str(root)!r} cannot be written: {error.strerror}"
        ) from error
    return compile_program(
        lowered.program,
        emitter=chosen,
        passes=passes,
        constants=lowered.constants,
        dump_dir=folder,
        check_memory=options.check_memory,
        show=show,
    )
