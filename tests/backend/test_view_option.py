"""Pages of what ``torch.compile`` compiles."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from wrapperir.backend import cache_key, read_options
from wrapperir.backend.program_page import PageNames
from wrapperir.diagnostics import Code


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2 + x


def data_of(page: Path) -> Any:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text()
    )
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_each_program_has_a_page(frontend: str, tmp_path: Path) -> None:
    options: Any = {"view": tmp_path / "new" / "out.html", "frontend": frontend}
    compiled = torch.compile(model, backend="wrapperir", options=options)
    x = torch.randn(8, 8, requires_grad=True)
    result: Any = compiled(x)
    result.sum().backward()
    torch.testing.assert_close(result, model(x))
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["out-backward-1.html", "out.html"]
    forward = data_of(tmp_path / "new" / "out.html")
    emitters = [code["emitter"] for code in forward["codes"]]
    assert emitters[frontend == "lowering"] == "python"
    assert {code["emitter"] for code in forward["codes"]} >= {"python", "cpp", "fx"}
    assert [step["call"] for step in forward["steps"]]
    files = [file["path"] for file in forward["files"]]
    assert __file__ in files
    assert forward["kernels"]["name"]
    loops = [code for code in forward["codes"] if code["emitter"] == "loops"]
    assert bool(loops) == (frontend == "lowering")
    for file in (file for code in loops for file in code["files"]):
        assert file["ranges"]


def test_the_code_of_the_emitter_that_runs_comes_first(tmp_path: Path) -> None:
    options: Any = {"view": str(tmp_path / "out.html"), "emitter": "fx", "passes": ()}
    torch.compile(model, backend="wrapperir", options=options)(torch.randn(4))
    data = data_of(tmp_path / "out.html")
    assert [code["emitter"] for code in data["codes"]].count("fx") == 1
    assert data["codes"][0]["emitter"] == "fx"
    assert data["steps"] == []


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options: Any = {"view": tmp_path / "file" / "out.html"}
    compiled = torch.compile(lambda x: x + 3, backend="wrapperir", options=options)
    with pytest.raises(Exception, match=r"option 'view': .*cannot be written") as error:
        compiled(torch.randn(4))
    assert Code.INVALID_OPTION in str(error.value)


def test_programs_with_pages_are_not_kept(tmp_path: Path) -> None:
    assert cache_key(read_options({})) is not None
    assert cache_key(read_options({"view": tmp_path / "out.html"})) is None


def test_names_of_pages_count_for_each_file() -> None:
    names, first, second = PageNames(), Path("a.html"), Path("b/c.html")
    assert [names.new_name(first, "forward") for _ in range(2)] == [
        Path("a.html"),
        Path("a-forward-1.html"),
    ]
    assert names.new_name(second, "forward") == second
    assert names.new_name(second, "backward") == Path("b/c-backward-1.html")
