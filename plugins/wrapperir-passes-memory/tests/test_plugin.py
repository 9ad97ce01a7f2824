"""The passes have names in pipelines."""

from attrs import evolve

from test_place_in_space import SPILLED
from wrapperir import parse_program, run_passes
from wrapperir.plugin import plugin_manager
from wrapperir_memory_passes import delay_frees, place_in_space


def test_a_pipeline_names_the_passes() -> None:
    (plugin,) = [p for p in plugin_manager().plugins if p.name == "memory_passes"]
    assert plugin.distribution == "wrapperir-passes-memory"
    program = parse_program(SPILLED)
    wanted = place_in_space(program, device="cpu", space="lx", capacity=512)
    arguments = 'device = "cpu", space = "lx", capacity = 512'
    found = run_passes(program, f"place_in_space({arguments}), delay_frees")
    passes = [line.provenance.passes for line in found.lines if line.provenance]
    assert passes
    assert {*passes} == {("place_in_space",)}
    bare = tuple(evolve(line, provenance=None) for line in found.lines)
    assert evolve(found, lines=bare) == wanted
    assert delay_frees(wanted) == wanted != program
