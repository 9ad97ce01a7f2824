import json
import os
import shlex
import stat
from pathlib import Path

import click
import pytest
import torch

from tests.cli.files import ADD, broken, invoke
from tests.torch_release import BEFORE_2_12
from wrapperir.cli.main import main
from wrapperir.diagnostics import Code
from wrapperir.ir import OriginTable
from wrapperir.passes import MEMORY_PASSES, PASSES, format_parameter, parameters_of
from wrapperir.pipelines import run_passes
from wrapperir.text import format_program, parse_json, parse_program


def test_print_normalises_and_round_trips(folder: Path) -> None:
    as_text = invoke("print", "add.wir")
    assert (as_text.exit_code, as_text.stdout) == (0, format_program(parse_program(ADD)))
    assert invoke("print", "add.json").stdout == as_text.stdout
    as_json = invoke("print", "--format", "json", "-", input=ADD)
    assert parse_json(as_json.stdout) == parse_program(ADD)
    assert as_json.stdout == invoke("print", "--format", "json", "add.json").stdout


def test_verify_says_what_is_wrong_and_where(folder: Path) -> None:
    good = invoke("verify", "add.wir")
    assert (good.exit_code, good.stdout) == (0, "add.wir: no errors\n")
    bad = invoke("verify", "-", input=broken())
    assert bad.exit_code == 1
    assert "<stdin>:9:8: error WIR103: nothing defines %missing" in bad.stdout
    assert "free %missing" in bad.stdout


def test_verify_json_is_for_tools(folder: Path) -> None:
    assert json.loads(invoke("verify", "--format", "json", "add.wir").stdout) == []
    result = invoke("verify", "--format", "json", "-", input=broken())
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found[0]["code"] == Code.UNDEFINED_NAME
    assert found[0]["position"] == {"line": 9, "column": 8, "length": 8}
    malformed = invoke("verify", "--format", "json", "-", input="wrapperir 1\nnonsense\n")
    assert malformed.exit_code == 1
    assert json.loads(malformed.stdout)[0]["code"].startswith("WIR0")


def test_print_writes_a_graph(folder: Path) -> None:
    found = invoke("print", "--format", "dot", "add.wir")
    assert found.exit_code == 0
    assert found.stdout.startswith('digraph "main" {')
    assert 'label="input %x"' in found.stdout


def test_verify_sarif_is_a_log_of_all_programs(folder: Path) -> None:
    (folder / "broken.wir").write_text(broken())
    found = invoke("verify", "--ranks", "--format", "sarif", "add.wir", "broken.wir")
    assert found.exit_code == 1
    (run,) = json.loads(found.stdout)["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == Code.UNDEFINED_NAME
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "broken.wir"
    assert place["physicalLocation"]["region"]["startLine"] == 9
    assert len(run["artifacts"]) == 2


def test_verify_json_is_an_array_of_all_programs(folder: Path) -> None:
    (folder / "broken.wir").write_text(broken())
    found = invoke("verify", "--ranks", "--format", "json", "add.wir", "broken.wir")
    assert found.exit_code == 1
    (row,) = json.loads(found.stdout)
    assert (row["file"], row["code"]) == ("broken.wir", Code.UNDEFINED_NAME)
    sound = invoke("verify", "--ranks", "--format", "json", "add.wir", "add.wir")
    assert (sound.exit_code, json.loads(sound.stdout)) == (0, [])


def test_verify_ranks_shows_the_line_of_the_other_rank(folder: Path) -> None:
    text = """wrapperir 1

program @main(%x: mutated f32[4]) {
  group "tp" size 2

  %w = collective all_reduce(sum) "tp" reads(%x) writes(%x)
  wait_collective %w reads(%x) writes(%x)
  return %x
}
"""
    (folder / "one.wir").write_text(text)
    (folder / "two.wir").write_text(text.replace("(sum)", "(max)").replace("%x", "%longer"))
    pair = ("verify", "--ranks", "one.wir", "two.wir")
    found = invoke(*pair)
    assert found.exit_code == 1
    start = found.stdout.index("two.wir:6:3: error WIR451")
    assert "one.wir:6:3: note: rank 0 starts this\n   6 |   %w = " in found.stdout[start:]
    (row,) = json.loads(invoke(*pair, "--format", "json").stdout)
    assert row["file"] == "two.wir"
    (note,) = row["notes"]
    assert (note["file"], note["position"]["line"]) == ("one.wir", 6)
    (run,) = json.loads(invoke(*pair, "--format", "sarif").stdout)["runs"]
    (result,) = run["results"]
    (place,) = result["relatedLocations"]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "one.wir", "index": 0}


def test_verify_sarif_of_a_sound_program_has_no_results(folder: Path) -> None:
    found = invoke("verify", "--format", "sarif", "add.wir")
    assert found.exit_code == 0
    (run,) = json.loads(found.stdout)["runs"]
    assert run["results"] == []


def test_sarif_of_a_json_program_has_no_lines(folder: Path) -> None:
    text = json.dumps(json.loads((folder / "add.json").read_text()))
    (folder / "nope.json").write_text(text.replace('"buffer": "x"', '"buffer": "nope"'))
    found = invoke("verify", "--format", "sarif", "nope.json")
    (run,) = json.loads(found.stdout)["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places
    assert all(set(place) == {"artifactLocation"} for place in places)


def test_faults_of_a_json_program_are_shown_in_its_text(folder: Path) -> None:
    text = json.dumps(json.loads((folder / "add.json").read_text()))
    result = invoke("verify", "-", input=text.replace('"buffer": "x"', '"buffer": "nope"'))
    assert result.exit_code == 1
    assert "(as text)" in result.stdout
    assert "size(%nope, 0)" in result.stdout


def test_opt_runs_passes_in_order_and_shows_changes(folder: Path) -> None:
    names = ["simplify_expressions", "remove_dead_lines"]
    options = [part for name in names for part in ("--pass", name)]
    result = invoke("opt", *options, "--print-after", "all", "add.wir")
    assert result.exit_code == 0
    assert result.stdout == format_program(run_passes(parse_program(ADD), names))
    assert "-  %unused = allocate f32[2 * 32]" in result.stderr
    assert "+  %unused = allocate f32[64]" in result.stderr
    again = invoke("opt", *options, "--print-after", "all", "-", input=result.stdout)
    assert "remove_dead_lines: nothing changed" in again.stderr


def test_opt_in_place(folder: Path) -> None:
    result = invoke("opt", "--pass", "remove_dead_lines", "add.wir", "-o", "add.wir")
    assert result.exit_code == 0
    assert "unused" not in (folder / "add.wir").read_text()


def test_an_unknown_pass_lists_the_passes(folder: Path) -> None:
    result = invoke("opt", "--pass", "no_such", "add.wir")
    assert result.exit_code == 1
    assert "WIR740" in result.stderr
    assert "remove_dead_lines" in result.stderr
    assert "did you mean" not in result.stderr
    assert result.stdout == ""
    meant = invoke("opt", "--pass", "no_such, planmemory", "add.wir")
    assert meant.stderr.count("WIR740") == 2
    assert meant.stderr.count("did you mean") == 1
    assert "hint: did you mean `plan_memory`? passes are " in meant.stderr


def test_the_help_of_opt_lists_the_passes(folder: Path) -> None:
    listed = invoke("opt", "--help").stdout.partition("Passes of wrapperir:\n")[2]
    words = " ".join(listed.split())
    for name, run in PASSES.items():
        summary = (run.__doc__ or "").partition("\n")[0].replace("``", "")
        declared = ", ".join(map(format_parameter, parameters_of(run)))
        assert f"{name}{f'({declared})' if declared else ''} {summary}" in words
    assert f"Pipelines of wrapperir: memory {', '.join(MEMORY_PASSES)}" in words


def test_a_pipeline_is_given_as_text(folder: Path) -> None:
    text = 'memory, plan_memory(planned = "outputs"), remove_dead_lines'
    result = invoke("opt", "--pass", text, "add.wir")
    assert result.exit_code == 0
    assert result.stdout == format_program(run_passes(parse_program(ADD), text))


@pytest.mark.parametrize(
    "command", ["opt", "emit", "run", "memory", "graphs", "overlap", "tune"]
)
def test_a_wrong_pipeline_is_shown_at_its_place(folder: Path, command: str) -> None:
    result = invoke(command, "--pass", "insert_frees", "--pass", "free_early, 3", "add.wir")
    assert result.exit_code == 1
    assert "--pass:1:13: error WIR741: expected the name of a pass" in result.stderr
    assert "   1 | free_early, 3\n     |             ^\n" in result.stderr


def test_the_passes_whose_changes_are_shown_must_run(folder: Path) -> None:
    shown = ("--print-after", "remove_dead_lines", "--print-after", "free_early")
    options = ("--pass", "memory, remove_dead_lines", *shown)
    result = invoke("opt", *options, "add.wir")
    assert result.exit_code == 0
    assert "before remove_dead_lines" in result.stderr
    assert "before plan_memory" not in result.stderr
    wrong = invoke("opt", *options, "--print-after", "free_earl", "add.wir")
    assert wrong.exit_code == 2
    assert "did you mean `free_early`? these passes run: insert_frees, " in wrong.stderr
    nothing = invoke("opt", "--print-after", "free_early", "add.wir")
    assert "--print-after free_early: these passes run: none" in nothing.stderr


def test_compile_shows_what_passes_change(folder: Path) -> None:
    options = ("--pass", "remove_dead_lines", "--print-after", "all", "-o", "out")
    result = invoke("compile", "add.wir", "--constants", "weights.pt", *options)
    assert result.exit_code == 0
    assert "-  %unused = allocate f32[2 * 32]" in result.stderr


def test_emit_writes_one_file_or_a_directory(folder: Path) -> None:
    text = invoke("emit", "add.wir")
    assert text.exit_code == 0
    assert "def call(args):" in text.stdout
    result = invoke("emit", "add.wir", "-o", "out")
    assert result.exit_code == 0
    assert (folder / "out" / "manifest.json").exists()
    assert invoke("emit", "add.wir", "-o", "out").exit_code == 0
    refused = invoke("emit", "--emitter", "nope", "add.wir")
    assert refused.exit_code == 1
    assert "there are: " in refused.stderr
    assert invoke("emit", "-", input=broken()).exit_code == 1


def test_run_is_the_same_in_interpreter_and_emitter(folder: Path) -> None:
    interpreted = invoke("run", "add.wir", "--seed", "3")
    emitted = invoke("run", "add.wir", "--seed", "3", "--emitter", "python")
    assert interpreted.exit_code == emitted.exit_code == 0
    assert interpreted.stdout == emitted.stdout != ""
    assert interpreted.stdout != invoke("run", "add.wir", "--seed", "4").stdout
    assert "run executes the code" in interpreted.stderr
    assert "constants are random" in interpreted.stderr


def test_run_on_files(folder: Path) -> None:
    result = invoke("run", "--inputs", "inputs.pt", "--constants", "weights.pt", "add.wir")
    assert result.exit_code == 0
    assert result.stdout == "output 0: float32[3, 4] min 1, max 4, mean 2.5\n"
    torch.save({"x": torch.zeros(1, 4)}, "named.pt")
    result = invoke("run", "--inputs", "named.pt", "--constants", "weights.pt", "add.wir")
    assert result.stdout == "output 0: float32[1, 4] min 0, max 3, mean 1.5\n"


def test_run_on_safetensors(folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.ones(3, 4)}, "x.safetensors")
    save_file({"w": torch.arange(4.0)}, "w.safetensors")
    files = ("--inputs", "x.safetensors", "--constants", "w.safetensors")
    result = invoke("run", *files, "add.wir")
    assert result.stdout == "output 0: float32[3, 4] min 1, max 4, mean 2.5\n"


@pytest.mark.parametrize(
    "content", [b"", b"not a file of tensors", b"PK\x03\x04", b"\x80\x04cos\nsystem\n"]
)
def test_run_refuses_other_files(folder: Path, content: bytes) -> None:
    (folder / "bad.pt").write_bytes(content)
    for option in ("--inputs", "--constants"):
        result = invoke("run", option, "bad.pt", "add.wir")
        assert result.exit_code == 1
        assert Code.VALUES_FILE in result.stderr


def test_run_shows_a_fault_where_it_is(folder: Path) -> None:
    torch.save([torch.ones(65, 4)], "large.pt")
    result = invoke("run", "--inputs", "large.pt", "add.wir")
    assert result.exit_code == 1
    assert "add.wir:4" in result.stderr
    assert Code.RUN_SYMBOL_RANGE in result.stderr


@pytest.mark.parametrize("frontend", ["export", "inductor"])
@pytest.mark.parametrize("name", ["Model", "scale"])
def test_compile_writes_what_run_reads(folder: Path, name: str, frontend: str) -> None:
    target = f"model.py:{name}"
    result = invoke("compile", target, "--frontend", frontend, "-o", "out")
    assert result.exit_code == 0, result.output
    assert "compile executes the code in model.py" in result.stderr
    manifest = json.loads((folder / "out/wrapperir.json").read_text())
    (entry,) = manifest["programs"]
    assert (folder / "out" / entry["entry"]).is_file()
    text = (folder / "out/program.wir").read_text()
    assert parse_json((folder / "out/program.json").read_text()) == parse_program(text)
    outputs = [
        invoke("run", "out", *options).stdout for options in ((), ("--emitter", "python"))
    ]
    assert outputs[0] == outputs[1] != ""
    if name == "scale":
        torch.save([torch.ones(2, 8)], "ones.pt")
        output = invoke("run", "--inputs", "ones.pt", "out").stdout
        assert output == "output 0: float32[2, 8] min 3, max 3, mean 3\n"


@pytest.mark.parametrize("frontend", ["export", "inductor"])
@pytest.mark.parametrize(
    ("name", "source"), [("Model", "self.linear(x)"), ("scale", "x * 2")]
)
def test_compile_says_where_in_the_users_file_a_line_comes_from(
    folder: Path, name: str, source: str, frontend: str
) -> None:
    invoke("compile", f"model.py:{name}", "--frontend", frontend, "-o", "out")
    program = parse_program((folder / "out/program.wir").read_text())
    table = OriginTable(program)
    origins = [each for line in program.lines for each in table.of(line.provenance)]
    places = [place for each in origins if (place := table.place(each)) is not None]
    if BEFORE_2_12 and name == "scale":
        assert not places  # its torch.export records methods named forward only
        return
    assert places
    assert {Path(place.file).name for place in places} == {"model.py"}
    written = (folder / "model.py").read_text().splitlines()
    assert source in written[places[0].line - 1]


def test_compile_an_exported_file(folder: Path) -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    torch.export.save(torch.export.export(Scale(), (torch.ones(2, 2),)), "scale.pt2")
    for frontend in ("export", "inductor"):
        compiled = invoke("compile", "scale.pt2", "--frontend", frontend, "-o", "out")
        assert compiled.exit_code == 0, compiled.output
        assert invoke("run", "out").exit_code == 0


@pytest.mark.parametrize(
    ("inputs", "dynamic"),
    [
        ("EXAMPLE_INPUTS = torch.ones(2, 8)", ""),
        ("EXAMPLE_INPUTS = [torch.ones(2, 8)]", ""),
        ("EXAMPLE_INPUTS = {'x': torch.ones(2, 8)}", ""),
        ("EXAMPLE_INPUTS = ((torch.ones(2, 8),), {'shift': torch.ones(4)})", ""),
        (
            "EXAMPLE_INPUTS = torch.ones(2, 8)",
            "DYNAMIC_SHAPES = {'x': {0: torch.export.Dim.DYNAMIC}, 'shift': None}\n",
        ),
    ],
)
def test_forms_of_example_inputs(folder: Path, inputs: str, dynamic: str) -> None:
    text = (folder / "model.py").read_text()
    text = text[: text.index("def example_inputs")]
    if dynamic:
        text = text.replace("x, *, shift=None", "x, shift=None")
        inputs = "EXAMPLE_INPUTS = (torch.ones(2, 8), None)"
    (folder / "model.py").write_text(text + inputs + "\n" + dynamic)
    result = invoke("compile", "model.py:Model", "-o", "out")
    assert result.exit_code == 0, result.output
    assert ("symbol s" in (folder / "out/program.wir").read_text()) == bool(dynamic)


def test_a_function_that_makes_the_model_is_not_compiled(folder: Path) -> None:
    text = (folder / "model.py").read_text() + "\n\ndef make():\n    return Model()\n"
    (folder / "model.py").write_text(text)
    result = invoke("compile", "--pass", "memory", "model.py:make", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2:] == [
        "wrapperir: error WIR903: make cannot be called with the example inputs:"
        " too many positional arguments",
        "  = hint: name a function that takes them, a module, or a module's class",
    ]


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("model.py", Code.TARGET_SPELLING),
        ("model:scale", Code.TARGET_SPELLING),
        ("model.py:a.b", Code.TARGET_SPELLING),
        ("model.py:absent", Code.TARGET_MISSING),
        ("model.py:broken", Code.TARGET_FAILED),
        ("syntax.py:f", Code.TARGET_FAILED),
        ("exits.py:f", Code.TARGET_FAILED),
        ("plain.py:f", Code.EXAMPLE_INPUTS),
        ("words.py:f", Code.EXAMPLE_INPUTS),
        ("bad.pt2", Code.TARGET_FAILED),
    ],
)
def test_what_compile_cannot_use(folder: Path, target: str, code: Code) -> None:
    (folder / "syntax.py").write_text("def f(:\n")
    (folder / "exits.py").write_text("raise SystemExit(0)\n")
    (folder / "plain.py").write_text("def f(x):\n    return x\n")
    (folder / "words.py").write_text("EXAMPLE_INPUTS = 'x'\ndef f(x):\n    return x\n")
    (folder / "bad.pt2").write_text("nothing")
    result = invoke("compile", target, "-o", "out")
    assert result.exit_code == 1
    assert code in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "out").exists()


def test_compile_leaves_a_foreign_directory_alone(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "diary").write_text("dear diary")
    result = invoke("compile", "model.py:scale", "-o", "mine")
    assert result.exit_code == 1
    assert "wrapperir: error WIR710" in result.stderr
    assert "executes the code" not in result.stderr
    assert os.listdir(folder / "mine") == ["diary"]
    emitted = invoke("emit", "add.wir", "-o", "mine")
    assert emitted.exit_code == 1
    assert "wrapperir: error WIR710" in emitted.stderr


def test_plugins_lists_the_built_in_emitter(folder: Path) -> None:
    result = invoke("plugins")
    assert result.exit_code == 0
    assert any(
        line.split()[:2] == ["python", "wrapperir"] for line in result.stdout.splitlines()
    )


@pytest.mark.parametrize("command", ["print", "verify", "run", "emit", "opt"])
def test_a_file_that_is_not_there(folder: Path, command: str) -> None:
    result = invoke(command, "absent.wir")
    assert result.exit_code == 3
    assert "absent.wir: No such file or directory" in result.stderr


@pytest.mark.parametrize("command", ["print", "verify", "run", "emit", "opt"])
def test_bytes_that_are_no_text(folder: Path, command: str) -> None:
    result = invoke(command, "-", input=b"wrapperir 1\n\n  \xff")
    assert result.exit_code == 1
    assert "<stdin>:3:3: error" in result.output


def test_usage_errors_have_their_own_status(folder: Path) -> None:
    for args in (["nonsense"], ["print"], ["verify", "--format", "xml", "add.wir"]):
        assert invoke(*args).exit_code == 2


def test_a_failed_write_leaves_the_old_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    before = sorted(os.listdir(folder))
    result = invoke("print", "--format", "json", "add.wir", "-o", "add.json")
    assert result.exit_code == 3
    assert "No space left on device" in result.stderr
    assert sorted(os.listdir(folder)) == before
    assert parse_json((folder / "add.json").read_text()) == parse_program(ADD)


def test_permissions_and_links_stay(folder: Path) -> None:
    (folder / "add.json").chmod(0o640)
    (folder / "link.json").symlink_to("add.json")
    assert invoke("print", "--format", "json", "add.wir", "-o", "link.json").exit_code == 0
    assert (folder / "link.json").is_symlink()
    assert stat.S_IMODE((folder / "add.json").stat().st_mode) == 0o640


COMMANDS = [
    *("compile", "diff-run", "emit", "explain", "graphs", "lower", "lsp", "memory"),
    *("opt", "overlap", "package", "partition", "plugins", "print", "profile", "reduce"),
    *("run", "tune", "verify", "view"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_each_help_run(folder: Path, command: str) -> None:
    help = invoke(command, "--help").stdout
    examples = [x.strip() for x in help.splitlines() if x.startswith("    wrapperir ")]
    assert examples
    for example in examples:
        output = ""
        for part in example.split(" | "):
            result = invoke(*shlex.split(part)[1:], input=output)
            assert result.exit_code == 0, (part, result.output)
            output = result.stdout


def test_the_help_says_what_executes_code(folder: Path) -> None:
    for command in COMMANDS:
        executes = "This executes code" in invoke(command, "--help").stdout
        wanted = {
            "compile",
            "diff-run",
            "lower",
            "profile",
            "reduce",
            "run",
            "tune",
            "view",
        }
        assert executes == (command in wanted), command
    assert isinstance(main, click.Group)
    assert main.list_commands(click.Context(main)) == COMMANDS
