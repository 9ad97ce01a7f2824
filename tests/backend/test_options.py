"""Options of the backend."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.fx import GraphModule

from wrapperir.backend import OPTIONS, compile_lowered, dump_folder, read_options
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Value
from wrapperir.frontend import Lowered
from wrapperir.ir import Program


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
            "compile_graph": compiled,
        }
    )
    assert options.check_memory
    assert options.compile_graph is compiled
    assert options.passes == ("simplify_expressions",)
    assert options.dump_dir == tmp_path


@given(st.text().filter(lambda name: name not in OPTIONS))
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
        ("passes", "fold"),
        ("passes", [3]),
        ("dump_dir", 3),
        ("check_memory", 1),
        ("compile_graph", "inductor"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({name: value})
    assert error.value.diagnostics[0].code is Code.INVALID_OPTION
    assert repr(name) in error.value.diagnostics[0].message


def test_a_user_of_torch_compile_sees_the_options() -> None:
    with pytest.raises(DiagnosticError) as error:
        read_options({"dump_dri": "x"})
    expected = (
        "WIR660: backend wrapperir has no option 'dump_dri'"
        " (the options are emitter, passes, dump_dir, check_memory, compile_graph)"
    )
    assert str(error.value) == expected


def test_a_dump_dir_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = read_options({"dump_dir": tmp_path / "file" / "dump"})
    with pytest.raises(DiagnosticError, match=r"WIR661: option 'dump_dir': .*file/dump"):
        compile_lowered(Lowered(Program(), {}), options, "forward")


def test_each_dump_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [dump_folder(tmp_path / "dump", role) for role in ("forward", "backward") * 3]
    assert len(set(folders)) == len(folders)
    assert all(folder.is_dir() for folder in folders)
