"""Compiled programs that PyTorch keeps, and that later compilations load."""

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

from tests.backend.program_calls import Calls, compiled_anew
from tests.forked_processes import ProcessServer
from wrapperir.diagnostics import Code
from wrapperir.emit import compilation_key
from wrapperir.frontend import donation, kept_programs
from wrapperir.frontend.inductor.program_cache import format_module
from wrapperir.frontend.kept_programs import (
    SETTING,
    KeptProgram,
    format_kept,
    parse_kept,
)
from wrapperir.frontend.lowering.program_cache import program_cache
from wrapperir.ir import Program
from wrapperir_python.emitter import PythonEmitter

pytestmark = pytest.mark.usefixtures("calls")

EMITTERS = ("python", "cpp", "fx")
BOTH = pytest.mark.parametrize("calls", ["inductor", "lowering"], indirect=True)
LAYER = torch.nn.Linear(8, 8)


def function(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = LAYER(x).sin()
    return result


def products(x: torch.Tensor) -> torch.Tensor:
    """Return a result that takes no kernel."""
    return x @ x @ x


@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_program_is_built_once(emitter: str, calls: Calls) -> None:
    x = torch.randn(4, 8)
    with torch.no_grad():
        first = compiled_anew(function, emitter=emitter)(x)
        assert (calls.built, calls.loaded) == (1, 0)
        second = compiled_anew(function, emitter=emitter)(x)
    assert (calls.built, calls.loaded) == (1, 1)
    assert torch.equal(first, second)
    torch.testing.assert_close(second, function(x))
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_training_loads_both_programs(emitter: str, calls: Calls) -> None:
    x = torch.randn(4, 8)
    gradients = []
    for _ in range(2):
        LAYER.zero_grad()
        loss: Any = compiled_anew(function, emitter=emitter)(x).sum()
        loss.backward()
        assert LAYER.weight.grad is not None
        gradients.append(LAYER.weight.grad)
    assert (calls.built, calls.loaded) == (2, 2)
    assert torch.equal(*gradients)


@BOTH
def test_a_program_is_not_loaded_under_another_name(calls: Calls) -> None:
    def another(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = LAYER(x).sin()
        return result

    x = torch.randn(4, 8)
    with torch.no_grad():
        for called in (function, another, function, another):
            _, (code,) = run_and_get_code(compiled_anew(called), x)
            assert f"Program {called.__name__};" in code
    assert (calls.built, calls.loads) == (2, 2)


@BOTH
def test_a_backward_that_was_loaded_may_run_twice(calls: Calls) -> None:
    x = torch.randn(4, 8)
    compiled_anew(function)(x).sum().backward()
    loss: Any = compiled_anew(function)(x).sum()
    LAYER.zero_grad()
    loss.backward(retain_graph=True)
    assert LAYER.weight.grad is not None
    once = LAYER.weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(LAYER.weight.grad, 2 * once)
    assert calls.built == 2


@BOTH
def test_a_forward_is_loaded_without_a_backward(calls: Calls) -> None:
    x = torch.randn(4, 8)
    compiled_anew(function)(x)  # the backward is never compiled
    assert calls.built == 1
    LAYER.zero_grad()
    compiled_anew(function)(x).sum().backward()
    assert (calls.built, calls.loaded) == (2, 1)
    assert LAYER.weight.grad is not None
    loaded = LAYER.weight.grad.clone()
    LAYER.zero_grad()
    expected: Any = function(x).sum()
    expected.backward()
    torch.testing.assert_close(LAYER.weight.grad, loaded)


def test_a_loaded_forward_donates_no_more_than_a_built_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    donated = [2, 3, 5]

    class Metadata:
        bw_donated_idxs = donated

    monkeypatch.setattr(donation, "_metadata", Metadata)
    monkeypatch.setattr(kept_programs, "load_stored", lambda *_: None)
    evolve(EMPTY, not_donated=(3, 5)).load({})
    assert donated == [2]


@BOTH
@pytest.mark.parametrize(
    "changed",
    [{"passes": ()}, {"emitter": "fx"}, {"check_memory": True}, {"graphs": True}],
    ids=str,
)
def test_other_options_are_other_programs(changed: dict[str, Any], calls: Calls) -> None:
    x = torch.randn(4, 4)
    with torch.no_grad():
        compiled_anew(products)(x)
        result = compiled_anew(products, **changed)(x)
    torch.testing.assert_close(result, products(x))
    assert calls.built == 2


def renamed(program: Program) -> Program:
    return evolve(program, name="renamed")


@BOTH
@pytest.mark.parametrize(
    ("passes", "built"),
    [
        (["memory"], 1),
        ("memory, plan_memory(planned = 'both')".replace("'", '"'), 1),
        (["memory", renamed], 2),
    ],
    ids=["a name", "an argument", "a function"],
)
def test_a_program_is_kept_unless_a_function_is_a_pass(
    passes: object, built: int, calls: Calls
) -> None:
    x = torch.randn(4, 4)
    with torch.no_grad():
        for _ in range(2):
            result = compiled_anew(products, passes=passes)(x)
            torch.testing.assert_close(result, products(x))
    assert calls.built == built


@BOTH
def test_other_sources_are_other_programs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 4)
    digest = compilation_key._package_digest
    for package in ("none", "wrapperir", "wrapperir_python"):
        changed = {package: "changed"}
        monkeypatch.setattr(
            compilation_key,
            "_package_digest",
            lambda name, changed=changed: changed.get(name) or digest(name),
        )
        compiled_anew(products)(x)
    assert calls.built == 3


@BOTH
def test_other_facts_of_an_emitter_are_other_programs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 4)
    for facts in ("", "compiler 2", "compiler 2", None, None):
        monkeypatch.setattr(PythonEmitter, "cache_facts", lambda _, facts=facts: facts)
        compiled_anew(products)(x)
    assert calls.built == 4


def test_other_settings_of_inductor_are_other_programs(calls: Calls) -> None:
    x = torch.randn(4, 4)
    for settings in ({}, {"size_asserts": False}, {"alignment_asserts": False}):
        with config.patch(settings):
            compiled_anew(products)(x)
    assert calls.built == 3


@BOTH
def test_objects_and_programs_whose_files_stay_are_not_kept(
    calls: Calls, tmp_path: Path
) -> None:
    x = torch.randn(4, 4)
    for _ in range(2):
        compiled_anew(products, emitter=PythonEmitter())(x)
        compiled_anew(products, dump_dir=tmp_path)(x)
        compiled_anew(products, debug_info="code")(x)
    assert calls.built == 6


@pytest.mark.parametrize(
    "turned_off",
    [
        lambda: config.patch(fx_graph_cache=False),
        lambda: config.patch(force_disable_caches=True),
    ],
)
def test_settings_of_pytorch_turn_it_off(turned_off: Any, calls: Calls) -> None:
    x = torch.randn(4, 4)
    with turned_off():
        for _ in range(2):
            compiled_anew(products)(x)
    assert calls.built == 2


@BOTH
def test_sizes_outside_of_what_was_known_are_compiled_anew(calls: Calls) -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x @ x.t()

    def run(rows: int, **bounds: int) -> None:
        x = torch.randn(rows, 4)
        torch._dynamo.mark_dynamic(x, 0, **bounds)
        torch.testing.assert_close(compiled_anew(doubled)(x), doubled(x))

    run(8, min=4, max=16)
    run(8, min=4, max=16)
    assert calls.built == 1
    run(9, min=4, max=16)
    built = calls.built
    run(64)
    assert calls.built == built + 1


@pytest.mark.usefixtures("triton_on_cpu")
@BOTH
def test_a_loaded_program_has_its_guards(calls: Calls) -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]).view(-1, 4) @ torch.ones(4, 4)

    built = []
    for _ in range(2):
        called = compiled_anew(padded, dynamic=True)
        for rows in (4, 6, 1):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(called(x), padded(x))
        built.append(calls.built)
    assert built[0] == built[1] > 1  # of one row, and of more
    assert calls.loaded == built[0]


@pytest.mark.usefixtures("triton_on_cpu")
@BOTH
def test_constants_of_subgraphs_are_kept(calls: Calls) -> None:
    @torch.compiler.nested_compile_region
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def both(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = scaled(scaled(x)) @ torch.tensor([[5.0, 6.0], [7.0, 8.0]])
        return result

    x = torch.randn(2, 2)
    for _ in range(2):
        torch.testing.assert_close(compiled_anew(both)(x), both(x))
    assert (calls.built, calls.loaded) == (1, 1)


@pytest.mark.usefixtures("triton_on_cpu")
def test_branches_are_compiled_anew_as_with_inductor(calls: Calls) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(
            x.sum() > 0, lambda x: x @ x, lambda x: x @ x.t(), (x,)
        )
        return result

    for x in (torch.ones(2, 2), -torch.ones(2, 2)):
        torch.testing.assert_close(compiled_anew(chosen)(x), chosen(x))
    assert calls.built == 2


@BOTH
@pytest.mark.parametrize("emitter", EMITTERS)
def test_the_code_of_a_loaded_program_is_what_was_emitted(
    calls: Calls, emitter: str
) -> None:
    x = torch.randn(4, 8)
    with torch.no_grad():
        (code,) = run_and_get_code(compiled_anew(function, emitter=emitter), x)[1]
        (loaded,) = run_and_get_code(compiled_anew(function, emitter=emitter), x)[1]
    assert calls.built == 1
    assert loaded == code


@BOTH
def test_a_program_that_does_not_load_is_built_anew(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 4)
    compiled_anew(products)(x)

    def failing(*_: object) -> None:
        raise Code.INVALID_ARTIFACT.error("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(kept_programs, "load_stored", failing)
        torch.testing.assert_close(compiled_anew(products)(x), products(x))
    assert calls.built == 2


def test_a_directory_that_others_can_write_to_is_not_used(
    calls: Calls,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.randn(4, 4)
    with caplog.at_level(logging.WARNING, "wrapperir.cache"):
        for _ in range(2):
            compiled_anew(products)(x)
    assert calls.built == 2
    assert "can be written by other users" in caplog.text
    assert not (tmp_path / "fxgraph").exists()
    assert not (tmp_path / "aotautograd").exists()


def test_the_users_cache_is_not_used_where_others_can_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert program_cache() is not None
    (tmp_path / "wrapperir" / "programs").chmod(0o777)
    with caplog.at_level(logging.WARNING, "wrapperir.cache"):
        assert program_cache() is None
    assert "can be written by other users" in caplog.text


@BOTH
def test_cache_artifacts_carry_programs(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 4)
    torch.compiler._cache.CacheArtifactManager.clear()

    def move_caches(name: str) -> None:
        (tmp_path / name).mkdir(mode=0o700)
        for variable in ("TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / name))

    move_caches("first")
    compiled_anew(products)(x)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    move_caches("second")
    assert torch.compiler.load_cache_artifacts(saved[0]) is not None
    torch.testing.assert_close(compiled_anew(products)(x), products(x))
    assert calls.built == 1


EMPTY = KeptProgram(
    program="",
    emitter="python",
    entry="program.py",
    files={"program.py": ""},
    metadata={},
    constants={},
    donated=(),
    not_donated=(),
)


@pytest.mark.parametrize(
    "text",
    [
        "def call(args):\n    return 'a\\n'\n",
        '"""text"""\n',
        "\"\"\"text\"\"\" and '''more'''\n",
        "ends in a quote'",
        "ends in a backslash\\",
        "returns\r\nand\rzeros\0\n",
        "wörter \u2028 \ud800\n",
        "",
    ],
)
def test_a_module_says_exactly_what_is_kept(text: str) -> None:
    kept = evolve(
        EMPTY,
        program=text,
        files={"program.py": text, "kernels/a.bin": text.encode("utf-8", "replace")},
        metadata={"key": text},
        constants={"a": "b"},
        donated=(1,),
        not_donated=(2,),
    )
    variables: dict[str, Any] = {}
    source = format_module(kept).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    exec(compile(source, "kept", "exec"), variables)
    assert variables["_wrapperir_program"] == kept
    assert parse_kept(format_kept(kept)) == evolve(
        kept, donated=[1], not_donated=[2], strides=[]
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {"a": {"base64": 3}}}'])
def test_no_other_text_is_read_as_a_program(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_kept(text)


@pytest.mark.slow
def test_another_process_loads_what_one_compiled(
    tmp_path: Path, process_server: ProcessServer
) -> None:
    script = textwrap.dedent(
        """
        import torch
        from torch._dynamo.utils import counters

        torch._inductor.config.cpp.vec_isa_ok = True  # else it tries each set of vectors

        def function(x):
            return x @ x

        x = torch.ones(3, 3)
        assert torch.equal(torch.compile(function, backend="wrapperir")(x), function(x))
        print(counters["aot_autograd"]["autograd_cache_hit"])
        """
    )
    places = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), SETTING: ""}
    environment = {**os.environ, **places, "PYTHONHASHSEED": "1"}
    first = process_server.run("-c", script, env=environment)
    assert first.returncode == 0, first.stderr
    second = subprocess.run(  # its hashes differ from those of the first
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    hits = [first.stdout.strip(), second.stdout.strip()]
    assert hits == ["0", "1"]
