"""Extension modules that are compiled where an emitted program runs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from wrapperir.caching import private_cache
from wrapperir.kernels import emitted
from wrapperir.kernels.emitted import native_module

COUNTER = """\
#include "tensors.h"
namespace wrapperir {
inline int& calls() {
  static int value = 0;
  return value;
}
}  // namespace wrapperir
static PyObject* next(PyObject*, PyObject*) {
  return PyLong_FromLong(++wrapperir::calls());
}
static PyMethodDef methods[] = {{"next", next, METH_NOARGS, nullptr}, {}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_NAME() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the folder of an emitted program."""
    for path in (private_cache.__file__, Path(emitted.__file__).with_name("tensors.h")):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_modules_share_no_variables(program: Path) -> None:
    # One of an older version may have a variable of another type by the same name.
    modules: list[Any] = []
    for name in ("one", "two"):
        (program / f"{name}.cpp").write_text(COUNTER.replace("NAME", name))
        modules.append(native_module.build(program / f"{name}.cpp"))
    assert [module.next() for module in (*modules, *modules)] == [1, 1, 2, 2]


def test_a_text_that_does_not_compile_has_no_module(program: Path) -> None:
    (program / "wrong.cpp").write_text("no C++")
    assert native_module.build(program / "wrong.cpp") is None
    (program / "lacking.cpp").write_text(COUNTER.replace("NAME", "lacking"))
    assert native_module.build(program / "lacking.cpp", "lacking.h") is None


def test_files_are_imported_once_for_equal_texts(tmp_path: Path) -> None:
    texts = {"a": "made = []\n", "b": "made = []\n", "c": "made = [1]\n"}
    found = {}
    for folder, text in texts.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "state.py").write_text(text)
        found[folder] = native_module.import_beside(tmp_path / folder / "x.py", "state")
    assert found["a"] is found["b"]
    assert found["c"].made == [1]
