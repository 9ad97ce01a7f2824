"""``wrapperir view``."""

from pathlib import Path

from tests.cli.files import FREED, invoke
from wrapperir.diagnostics import Code


def test_a_page_has_the_code_of_each_emitter(folder: Path) -> None:
    result = invoke("view", "add.wir", "-o", "add.html")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    page = (folder / "add.html").read_text()
    for name in ("python", "cpp", "fx"):
        assert f'"emitter":"{name}"' in page
    assert page == invoke("view", "add.wir").stdout


def test_only_the_named_emitters_are_shown(folder: Path) -> None:
    page = invoke("view", "--emitter", "cpp", "--emitter", "cpp", "add.wir").stdout
    assert page.count('"emitter":') == 1
    result = invoke("view", "--emitter", "gone", "add.wir")
    assert result.exit_code == 1
    assert Code.UNKNOWN_EMITTER in result.stderr


def test_a_program_with_errors_has_no_page(folder: Path) -> None:
    (folder / "freed.wir").write_text(FREED)
    result = invoke("view", "freed.wir", "-o", "freed.html")
    assert result.exit_code == 1
    assert "WIR" in result.stderr
    assert not (folder / "freed.html").exists()


def test_sizes_are_those_of_the_options(folder: Path) -> None:
    small = invoke("view", "--size", "s0=2", "add.wir").stdout
    assert small != invoke("view", "--size", "s0=64", "add.wir").stdout
    assert invoke("view", "--size", "s0=65", "add.wir").exit_code == 2


def test_a_place_that_cannot_be_written_is_reported_first(folder: Path) -> None:
    assert invoke("view", "add.wir", "-o", "gone/add.html").exit_code == 3


def test_passes_run_before_and_each_is_a_step(folder: Path) -> None:
    page = invoke("view", "--pass", "insert_frees, reuse_buffers", "add.wir").stdout
    assert page.count('"call":') == 2
    assert invoke("view", "--pass", "gone", "add.wir").exit_code == 1


def test_the_page_of_a_function_has_its_loops_and_decisions(folder: Path) -> None:
    result = invoke("view", "--emitter", "python", "model.py:scale", "-o", "scale.html")
    assert result.exit_code == 0, result.output
    assert "view executes the code in model.py" in result.stderr
    page = (folder / "scale.html").read_text()
    assert '"emitter":"loops"' in page
    assert invoke("view", "model.py:gone").exit_code == 1


def test_the_frontend_makes_the_program_of_a_function(folder: Path) -> None:
    made = {
        name: invoke("view", "--emitter", "fx", "--frontend", name, "model.py:scale")
        for name in ("export", "inductor", "lowering")
    }
    for name, result in made.items():
        assert result.exit_code == 0, result.output
        assert ('"emitter":"loops"' in result.stdout) == (name == "lowering")
        assert ('"language":["cpp"' in result.stdout) == (name != "export")
    wrong = invoke("view", "--frontend", "export", "add.wir")
    assert wrong.exit_code == 2
    assert "--frontend is for FILE.py:NAME or a .pt2 file" in wrong.stderr


def test_times_come_from_a_profile_of_the_same_program(folder: Path) -> None:
    made = invoke("profile", "--format", "json", "-o", "add.profile.json", "add.wir")
    assert made.exit_code == 0, made.output
    shown = invoke(
        "view", "--emitter", "python", "--profile", "add.profile.json", "add.wir"
    )
    assert shown.exit_code == 0, shown.output
    assert shown.stdout != invoke("view", "--emitter", "python", "add.wir").stdout
    wrong = invoke("view", "--profile", "add.profile.json", "mlp.wir")
    assert wrong.exit_code == 2
    assert "--profile add.profile.json: the program has no line" in wrong.stderr
    assert invoke("view", "--profile", "gone.json", "add.wir").exit_code == 3
