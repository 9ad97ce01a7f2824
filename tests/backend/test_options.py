"""Options of the backend."""

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from torch._inductor import config
from torch.fx import GraphModule

from tests.forked_processes import ProcessServer
from wrapperir import kernels
from wrapperir.backend import (
    OPTIONS,
    compile_lowered,
    read_options,
    wrapperir_backend,
)
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.emit.artifact import dump_folder
from wrapperir.emit.default_passes import (
    capture_pass,
    captures_graphs,
    passes_to_run,
)
from wrapperir.emit.partition import PartitioningEmitter
from wrapperir.emit.pipeline import find_emitter
from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor.settings import setting_names
from wrapperir.ir import POOL_ALIGNMENT, GraphRegionLine, Language, Program
from wrapperir.passes import MEMORY_PASSES, insert_frees
from wrapperir.text import parse_program
from wrapperir_python.emitter import PythonEmitter


@pytest.fixture(autouse=True)
def without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's GPUs, for which there is a pass more."""
    monkeypatch.setattr(kernels, "present_targets", tuple)


def test_defaults() -> None:
    options = read_options({})
    assert (options.emitter, options.passes, options.dump_dir) == ("python", None, None)


def compiled(graph: GraphModule) -> Callable[..., tuple[Value, ...]]:
    raise NotImplementedError


def test_what_may_be_given(tmp_path: Path) -> None:
    options = read_options(
        {
            "emitter": "cpp",
            "passes": ["simplify_expressions"],
            "dump_dir": str(tmp_path),
            "check_memory": True,
            "debug_info": "program",
            "graphs": True,
            "compile_graph": compiled,
        }
    )
    assert options.check_memory
    assert options.debug_info == "program"
    assert read_options({"debug_info": "code"}).debug_info == "code"
    assert options.graphs
    assert options.compile_graph is compiled
    assert options.passes == ("simplify_expressions",)
    assert options.dump_dir == tmp_path
    assert read_options({"passes": "memory, check_nans"}).passes == ("memory, check_nans",)
    assert read_options({"passes": [insert_frees, "memory"]}).passes == (
        insert_frees,
        "memory",
    )


def _is_unknown(name: str) -> bool:
    return name not in OPTIONS and name.replace("-", "_") not in setting_names()


@given(st.text().filter(_is_unknown))
def test_an_unknown_option_is_named_with_the_valid_ones(name: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({name: 1})
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code is Code.UNKNOWN_OPTION
    assert repr(name) in diagnostic.message
    assert all(option in (diagnostic.hint or "") for option in OPTIONS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emitter", 3),
        ("passes", 3),
        ("passes", {"fold": 1}),
        ("passes", ["fold", 3]),
        ("dump_dir", 3),
        ("view", 3),
        ("check_memory", 1),
        ("debug_info", True),
        ("graphs", "yes"),
        ("compile_graph", "inductor"),
        ("fallback", "eager"),
        ("max_autotune", "yes"),
        ("epilogue-fusion", "yes"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({name: value})
    assert error.value.diagnostics[0].code is Code.INVALID_OPTION
    assert repr(name) in error.value.diagnostics[0].message


@pytest.mark.parametrize("fallback", ["cpp", PythonEmitter(), None])
def test_a_pair_of_emitters_has_no_other_fallback(fallback: object) -> None:
    pair = PartitioningEmitter(find_emitter("fx"), find_emitter("cpp"))
    for emitter in ("fx+cpp", pair):
        assert read_options({"emitter": emitter}).emitter == emitter
        with pytest.raises(DiagnosticError) as error:
            read_options({"emitter": emitter, "fallback_emitter": fallback})
        (found,) = error.value.diagnostics
        assert found.code is Code.INVALID_OPTION
        assert found.message == (
            "option 'fallback_emitter' is given, and the emitter 'fx+cpp' names its own"
        )
        assert "'emitter': 'fx' with 'fallback_emitter': 'cpp'" in (found.hint or "")


def test_a_user_of_torch_compile_sees_the_options() -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({"dump_dri": "x"})
    expected = (
        "WIR660: backend wrapperir has no option 'dump_dri' (did you mean dump_dir? the"
        " options are emitter, passes, graphs, graph_collectives, dump_dir,"
        " check_memory, debug_info, compile_graph, fallback_emitter, fallback,"
        " frontend, rounding, bug_report, bug_report_data, profile, view, and the"
        " settings of torch._inductor.config)"
    )
    assert str(error.value) == expected


def test_near_matches_are_ours_and_inductors() -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({"max_autotun": True, "graph": True})
    first, second = error.value.diagnostics
    assert (first.hint or "").startswith("did you mean max_autotune or ")
    assert "graphs" in (second.hint or "").partition("?")[0]


def test_options_of_inductor_are_settings() -> None:
    options = read_options({"max-autotune": True, "triton.cudagraphs": True, "passes": ()})
    assert options.settings == {"max_autotune": True}
    assert options.graphs
    assert not read_options({"triton.cudagraphs": True, "graphs": False}).graphs
    assert not set(OPTIONS) & config.get_config_copy().keys()


def test_a_dump_dir_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = read_options({"dump_dir": tmp_path / "file" / "dump"})
    with pytest.raises(DiagnosticError, match=r"WIR661: option 'dump_dir': .*file/dump"):
        compile_lowered(Lowered(Program(), {}), options, "forward")


def test_each_dump_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [dump_folder(tmp_path / "dump", role) for role in ("forward", "backward") * 3]
    assert len(set(folders)) == len(folders)
    assert all(folder.is_dir() for folder in folders)


AFTER_COPIES = MEMORY_PASSES.index("remove_copies") + 1
PLANNING = (
    *MEMORY_PASSES[:AFTER_COPIES],
    "overlap_collectives",
    "split_products",
    *MEMORY_PASSES[AFTER_COPIES:],
)


def test_graphs_are_captured_on_the_devices_that_record_them() -> None:
    python = find_emitter("python")
    assert capture_pass(python.support) == "capture_graphs"
    recording = evolve(
        python.support,
        graphs=frozenset({"xy", "ab"}),
        recorded=frozenset({"aten.mm.out"}),
    )
    wanted = 'capture_graphs(devices = "ab,xy", operators = "aten.mm.out")'
    assert capture_pass(recording) == wanted
    assert captures_graphs((wanted,))
    with_collectives = wanted.replace(")", ", collectives = true)")
    assert capture_pass(recording, collectives=True) == with_collectives
    assert captures_graphs((with_collectives,))


def test_graphs_are_captured_before_memory_is_planned() -> None:
    emitter = find_emitter("python")
    passes = passes_to_run(None, emitter, graphs=True)
    assert set(passes) == {"multiply_convolutions", *PLANNING, "capture_graphs"}
    assert passes.index("use_out_variants") < passes.index("capture_graphs")
    assert passes.index("capture_graphs") < passes.index("plan_memory")
    assert passes_to_run((), emitter, graphs=True) == ("capture_graphs",)
    named = ("insert_frees", "capture_graphs")
    assert passes_to_run(named, emitter, graphs=True) == named
    assert passes_to_run(named, emitter, graphs=False) == named
    found = passes_to_run(None, emitter, graphs=True, graph_collectives=True)
    captures = "capture_graphs(collectives = true)"
    assert found == tuple(captures if p == "capture_graphs" else p for p in passes)
    text = ("insert_frees, capture_graphs(least_gain = 1.0)",)
    assert passes_to_run(text, emitter, graphs=True) == text
    assert passes_to_run((insert_frees,), emitter, graphs=True) == (
        "capture_graphs",
        insert_frees,
    )
    python = PythonEmitter()
    python.support = evolve(python.support, greatest_alignment=POOL_ALIGNMENT // 2)
    assert "plan_memory" not in passes_to_run(None, python, graphs=False)
    default = ("multiply_convolutions", *PLANNING)
    assert passes_to_run(None, emitter, graphs=False) == default
    torch.use_deterministic_algorithms(True)
    try:
        assert passes_to_run(None, emitter, graphs=False) == PLANNING
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("names", "tiles"),
    [
        ((), False),
        (("sm_90", "sm_80"), True),
        (("sm_90", "sm_75"), False),
        (("gfx942",), False),
    ],
)
def test_products_are_tiled_for_gpus_that_can(
    names: tuple[str, ...], tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = tuple(map(kernels.Target, names))
    monkeypatch.setattr(kernels, "present_targets", lambda: targets)
    emitter = PythonEmitter()
    first, *rest = passes_to_run(None, emitter, graphs=False)
    assert first == "multiply_convolutions"
    at = MEMORY_PASSES.index("remove_copies") + 1
    tiling = ["branch_attention", "tile_attention", "tile_products"]
    own = ["split_products", *(tiling if tiles else [])]
    assert rest == [*MEMORY_PASSES[:at], "overlap_collectives", *own, *MEMORY_PASSES[at:]]
    assert passes_to_run(("free_early",), emitter, graphs=False) == ("free_early",)
    emitter.support = evolve(emitter.support, branching=False)
    rest = [name for name in rest if name != "branch_attention"]
    assert passes_to_run(None, emitter, graphs=False) == (first, *rest)
    emitter.support = evolve(emitter.support, languages=frozenset({Language.CPP}))
    assert not {*tiling} & {*passes_to_run(None, emitter, graphs=False)}


def test_an_emitter_without_regions_is_given_none(caplog: pytest.LogCaptureFixture) -> None:
    emitter = PythonEmitter()
    lines = emitter.support.lines - {GraphRegionLine}
    emitter.support = evolve(emitter.support, lines=lines)
    with caplog.at_level(logging.WARNING, "wrapperir.graphs"):
        default = ("multiply_convolutions", *PLANNING)
        assert passes_to_run(None, emitter, graphs=True) == default
        assert passes_to_run((), emitter, graphs=True) == ()
    assert "the python emitter has no graph regions" in caplog.text


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    graph = GraphModule({}, torch.fx.Graph())
    with pytest.raises(DiagnosticError, match=r"WIR661.*no mode 'fast'.*reduce-overhead"):
        wrapperir_backend(graph, (), mode="fast")


@pytest.mark.parametrize(
    "mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
)
def test_a_program_for_the_cpu_runs_without_graphs(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.mm(x), backend="wrapperir", mode=mode)
    x = torch.ones(2, 2)
    with caplog.at_level(logging.WARNING, "wrapperir.graphs"):
        assert torch.equal(compiled(x), x.mm(x))
        assert torch.equal(compiled(x), x.mm(x))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (mode in ("reduce-overhead", "max-autotune"))
    assert all("device without graphs (1)" in message for message in messages)


def test_the_report_is_dumped(tmp_path: Path) -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[2]) {
  %y = extern_kernel aten.neg.default(%x) : f32[2]
  free %x
  return %y
}
""")
    options = read_options({"graphs": True, "dump_dir": tmp_path})
    compile_lowered(Lowered(program, {}), options, "forward")
    report = (tmp_path / "forward-0" / "graphs.txt").read_text()
    assert "there are no graphs for cpu" in report


def test_a_program_is_compiled_without_what_only_others_need(
    process_server: ProcessServer,
) -> None:
    script = """
import sys
from wrapperir.backend import BackendOptions, compile_lowered
from wrapperir.frontend import Lowered
from wrapperir.text import parse_program
program = parse_program("wrapperir 1\\n\\nprogram @main() {\\n  return\\n}\\n")
assert compile_lowered(Lowered(program, {}), BackendOptions(), "forward")([]) == ()
others = ("wrapperir.emit.partition", "wrapperir.report")
found = [name for name in sys.modules if name.startswith(others)]
assert not found, found
"""
    done = process_server.run("-c", script)
    assert done.returncode == 0, done.stderr


def test_a_key_of_programs_imports_no_pass() -> None:
    script = """
import sys
from wrapperir.backend import BackendOptions, cache_key
assert cache_key(BackendOptions()) is not None
found = [name for name in sys.modules if name.startswith("wrapperir.passes")]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)
