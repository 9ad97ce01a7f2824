import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, Emitter, Loaded, Support
from wrapperir.ir import Program
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.plugin import PluginManager, hookimpl, plugin_manager


class SomeEmitter(Emitter):
    support = Support()

    def __init__(self, name: str) -> None:
        self.name = name

    def emit(self, program: Program) -> Artifact:
        return Artifact(self.name, {"a": program.name}, "a")

    def load(self, artifact: Artifact, constants: Mapping[str, object]) -> Loaded:
        return tuple


def plugin(result: object) -> object:
    @hookimpl
    def wrapperir_emitters() -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    return SimpleNamespace(wrapperir_emitters=wrapperir_emitters)


def manager(**plugins: object) -> PluginManager:
    made = PluginManager([])
    for name, result in plugins.items():
        made.register(plugin(result), name)
    return made


def distribution(
    folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lay out an installed distribution with one module and one entry point."""
    module = name.replace("-", "_")
    folder.mkdir(parents=True)
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[wrapperir]\n{name} = {module}\n")
    monkeypatch.syspath_prepend(str(folder))


GOOD = """
from wrapperir.emit import Emitter, Support
from wrapperir.plugin import hookimpl

class Acme(Emitter):
    name = "acme"
    support = Support()

    def emit(self, program):
        raise NotImplementedError

    def load(self, artifact, constants):
        raise NotImplementedError

@hookimpl
def wrapperir_emitters():
    return [Acme()]
"""


def test_the_built_in_emitter_comes_through_its_entry_point() -> None:
    found = plugin_manager()
    assert found is plugin_manager()
    assert found.emitter("python") is found.emitters["python"]
    (own,) = [p for p in found.plugins if p.name == "python"]
    assert own.distribution == "wrapperir"
    assert own.emitters == ("python",)


def test_emitters_are_listed_by_plugin() -> None:
    found = manager(a=[SomeEmitter("one"), SomeEmitter("two")], b=())
    assert set(found.emitters) == {"one", "two"}
    assert [(p.name, p.emitters) for p in found.plugins] == [
        ("a", ("one", "two")),
        ("b", ()),
    ]


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(DiagnosticError, match="there are: one, two") as caught:
        manager(a=[SomeEmitter("two"), SomeEmitter("one")]).emitter("three")
    assert caught.value.diagnostics[0].code is Code.UNKNOWN_EMITTER


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (RuntimeError("no licence"), "RuntimeError: no licence"),
        (SystemExit(3), "SystemExit: 3"),
        (None, "must return a sequence of emitters, not None"),
        ([SomeEmitter], "must return instances of Emitter"),
        ([SomeEmitter("has space")], "must be a name"),
        ("python", "must return instances of Emitter"),
        ([SomeEmitter("good"), 3], "must return instances of Emitter, not 3"),
    ],
)
def test_a_broken_plugin_is_reported_and_others_work(result: object, said: str) -> None:
    found = manager(bad=result, fine=[SomeEmitter("one")])
    assert set(found.emitters) == {"one"}
    (broken,) = found.broken
    assert (broken.name, broken.hook) == ("bad", "wrapperir_emitters")
    assert said in broken.traceback
    assert [(p.name, p.emitters) for p in found.plugins] == [
        ("bad", ()),
        ("fine", ("one",)),
    ]
    with pytest.raises(DiagnosticError) as caught:
        found.emitter("good")
    assert caught.value.diagnostics[0].hint == "bad of bad failed in wrapperir_emitters"


HOOKS = ("wrapperir_emitters", "wrapperir_renderers", "wrapperir_passes")


def unchanged(program: Program) -> Program:
    return program


@pytest.mark.parametrize("order", [*permutations(HOOKS)])
@pytest.mark.parametrize("failing", [set[str](), *({hook} for hook in HOOKS), set(HOOKS)])
def test_what_works_of_a_broken_plugin_is_kept(
    failing: set[str], order: tuple[str, ...]
) -> None:
    results: dict[str, object] = {
        "wrapperir_emitters": [SomeEmitter("one")],
        "wrapperir_renderers": [CppRenderer()],
        "wrapperir_passes": {"unchanged": unchanged},
    }

    def hook_of(name: str) -> object:
        def hook() -> object:
            if name in failing:
                raise RuntimeError(name)
            return results[name]

        hook.__name__ = name
        made: object = hookimpl(hook)
        return made

    found = PluginManager([])
    found.register(SimpleNamespace(**{name: hook_of(name) for name in HOOKS}), "own")
    provided: dict[str, Callable[[], set[object]]] = {
        "wrapperir_emitters": lambda: set(found.emitters),
        "wrapperir_renderers": lambda: {type(x) for x in found.renderers("cpu")},
        "wrapperir_passes": lambda: set(found.passes),
    }
    wanted = {
        "wrapperir_emitters": {"one"},
        "wrapperir_renderers": {CppRenderer},
        "wrapperir_passes": {"unchanged"},
    }
    for hook in order * 2:
        assert provided[hook]() == (set() if hook in failing else wanted[hook])
    (plugin,) = found.plugins
    assert plugin.failed == failing
    assert {each.hook for each in found.broken} == failing
    assert len(found.broken) == len(failing)


def test_a_hook_of_another_signature_is_reported() -> None:
    @hookimpl
    def wrapperir_emitters(unknown: int) -> Sequence[Emitter]:
        return ()

    found = PluginManager([])
    found.register(SimpleNamespace(wrapperir_emitters=wrapperir_emitters), "bad")
    (broken,) = found.broken
    assert broken.hook is None
    assert broken.problem == "bad of bad did not load"
    assert "unknown" in broken.traceback
    assert found.plugins == ()


def test_two_emitters_of_one_name_are_an_error_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("acme-first", "acme-second"):
        distribution(tmp_path / name, name, GOOD, monkeypatch)
    found = PluginManager()
    assert "acme" not in found.emitters
    assert "python" in found.emitters
    with pytest.raises(DiagnosticError) as caught:
        found.emitter("acme")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code is Code.DUPLICATE_EMITTER
    assert "acme-first" in diagnostic.message
    assert "acme-second" in diagnostic.message
    assert found.conflicts == (diagnostic,)


def test_installed_plugins_are_found_with_their_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path / "good", "acme-good", GOOD, monkeypatch)
    distribution(tmp_path / "bad", "acme-bad", "import no_such_module\n", monkeypatch)
    distribution(tmp_path / "exits", "acme-exits", "raise SystemExit\n", monkeypatch)
    found = PluginManager()
    (own,) = [p for p in found.plugins if p.name == "acme-good"]
    assert (own.distribution, own.version, own.emitters) == ("acme-good", "1.2", ("acme",))
    broken = {b.name: b for b in found.broken}
    assert set(broken) == {"acme-bad", "acme-exits"}
    assert "No module named 'no_such_module'" in broken["acme-bad"].traceback
    assert broken["acme-bad"].distribution == "acme-bad"
    assert found.emitter("acme").name == "acme"


def test_a_plugin_is_loaded_when_first_asked_for() -> None:
    found = PluginManager([EntryPoint("late", "no_such_module_here", "wrapperir")])
    assert "no_such_module_here" not in sys.modules
    assert found.emitters == {}
    assert [b.name for b in found.broken] == ["late"]


def test_finding_an_emitter_imports_neither_lowering_nor_printer() -> None:
    script = """
import sys
from wrapperir.plugin import plugin_manager
plugin_manager().emitter("python")
others = ("wrapperir.lowering", "wrapperir.text")
found = [name for name in sys.modules if name.startswith(others)]
assert not found, found
assert plugin_manager().renderers("cpu")
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_reading_a_program_imports_no_plugin() -> None:
    script = """
import sys
from wrapperir import format_program, parse_program, parse_json, format_json
from wrapperir.verify import verify
program = parse_program("wrapperir 1\\n\\nprogram @main() {\\n  return\\n}\\n")
verify(parse_json(format_json(program)))
format_program(program)
plugins = ("wrapperir_python", "wrapperir.plugin.manager")
found = [name for name in sys.modules if name.startswith(plugins)]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["python+python", "python+" * 3000 + "python"])
def test_an_emitter_is_no_fallback_of_its_own(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        PluginManager().emitter(name)
    (found,) = caught.value.diagnostics
    assert found.code is Code.UNKNOWN_EMITTER
    assert found.message.endswith("names 'python' twice")
