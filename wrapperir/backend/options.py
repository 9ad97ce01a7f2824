"""The options of the ``torch.compile`` backend, checked."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrs import Factory, fields_dict, frozen

from wrapperir.bug_reports import report_folder
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import DebugSource, Emitter, GraphCompiler

if TYPE_CHECKING:
    from wrapperir.pipelines import PassLike


@frozen(kw_only=True)
class BackendOptions:
    """The options of ``torch.compile(..., options={...})``.

    ``passes``, texts of pipelines and functions, run in this order on each program;
    ``None`` stands for the passes that plan
    its memory with lines that the emitter supports.  With ``graphs``, ``capture_graphs`` is
    one of them, or runs before those that are named.  With ``graph_collectives``, which
    implies ``graphs``, graphs hold collectives too.  In ``dump_dir``, each program and its
    emitted files are written to a folder of their own.  With ``check_memory``,
    emitted code checks its memory as it runs.  With ``debug_info``, debuggers step through
    emitted code or the text of the program, which stay in files.  ``compile_graph``
    compiles the graph that the emitter builds of each program.  The ``fallback_emitter``
    takes the parts of a program that the emitter lacks something for; with ``None`` such a
    program is refused.  With the ``fallback`` ``"inductor"``, Inductor compiles the graphs
    that cannot be compiled here.  ``settings`` are the options that are
    Inductor's, by their names in ``torch._inductor.config``.  With the ``frontend``
    ``"lowering"``, graphs become kernels without Inductor, of whose settings it knows
    ``max_autotune``, which has several configs of kernels timed; ``rounding`` says where
    values of half types are rounded then: ``"fused"``, where they are stored, or
    ``"eager"``, after each operator.  In ``bug_report``, a folder is written for each
    failure; by default it is the one that ``WRAPPERIR_BUG_REPORT`` names.  It holds no
    tensors, except with ``bug_report_data`` the inputs.  In ``profile``, a folder with a
    profile is written for each program, on its first call.  ``view`` is the page of the
    first program that is compiled; those of later ones are beside it.
    """

    emitter: str | Emitter = "python"
    passes: "tuple[PassLike, ...] | None" = None
    graphs: bool = False
    graph_collectives: bool = False
    dump_dir: Path | None = None
    check_memory: bool = False
    debug_info: DebugSource | None = None
    compile_graph: GraphCompiler | None = None
    fallback_emitter: str | Emitter | None = "python"
    fallback: str | None = None
    frontend: str = "inductor"
    rounding: str = "fused"
    bug_report: Path | None = Factory(report_folder)
    bug_report_data: bool = False
    profile: Path | None = None
    view: Path | None = None
    settings: Mapping[str, object] = Factory(dict[str, object])


OPTIONS = tuple(name for name in fields_dict(BackendOptions) if name != "settings")


def read_options(options: Mapping[str, object]) -> BackendOptions:
    """Return the options, checked; ``triton.cudagraphs`` of Inductor is ``graphs``.

    Raises:
        DiagnosticError: WIR660 names an unknown option, WIR661 one of the wrong type.
    """
    settings = _read_settings({n: v for n, v in options.items() if n not in OPTIONS})
    emitter = options.get("emitter", "python")
    if not isinstance(emitter, str | Emitter):
        raise _mistyped("emitter", "an emitter, or the name of one", emitter)
    fallback_emitter = options.get("fallback_emitter", "python")
    if not isinstance(fallback_emitter, str | Emitter | None):
        wanted = "an emitter, the name of one, or None"
        raise _mistyped("fallback_emitter", wanted, fallback_emitter)
    name = emitter if isinstance(emitter, str) else emitter.name
    first, plus, rest = name.partition("+")
    if plus and "fallback_emitter" in options:
        raise Code.INVALID_OPTION.error(
            "option 'fallback_emitter' is given, and the emitter"
            f" {name[:80]!r} names its own",
            hint=f"give one of them: 'emitter': {first[:80]!r} with 'fallback_emitter':"
            f" {rest[:80]!r}, or the emitter {name[:80]!r} alone",
        )
    passes = options.get("passes")
    given = None if passes is None else _read_passes(passes)
    graphs = options.get("graphs", settings.pop("triton.cudagraphs", False))
    if not isinstance(graphs, bool):
        raise _mistyped("graphs", "true or false", graphs)
    graph_collectives = _flag("graph_collectives", options)
    check_memory = _flag("check_memory", options)
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
        graphs=graphs or graph_collectives,
        graph_collectives=graph_collectives,
        dump_dir=_path("dump_dir", options),
        check_memory=check_memory,
        debug_info=_debug_source(options),
        compile_graph=cast(GraphCompiler | None, compile_graph),
        fallback_emitter=fallback_emitter,
        fallback=None if fallback is None else "inductor",
        frontend=_one_of("frontend", options, "inductor", "lowering"),
        rounding=_one_of("rounding", options, "fused", "eager"),
        bug_report=_path("bug_report", options) or report_folder(),
        bug_report_data=_flag("bug_report_data", options),
        profile=_path("profile", options),
        view=_path("view", options),
        settings=settings,
    )


def _debug_source(options: Mapping[str, object]) -> DebugSource | None:
    if options.get("debug_info") is None:
        return None
    chosen = _one_of("debug_info", options, "code", "program")
    return "code" if chosen == "code" else "program"


def _flag(name: str, options: Mapping[str, object]) -> bool:
    """Return an option that is true or false, by default false."""
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise _mistyped(name, "true or false", value)
    return value


def _path(name: str, options: Mapping[str, object]) -> Path | None:
    """Return an option that is a path, by default ``None``."""
    value = options.get(name)
    if value is not None and not isinstance(value, str | os.PathLike):
        raise _mistyped(name, "a path", value)
    return None if value is None else Path(os.fspath(value))


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
