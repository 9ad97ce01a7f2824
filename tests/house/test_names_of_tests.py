"""Each process of a run collects the same tests."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_itemcollected


def test_a_name_with_an_address_is_refused() -> None:
    good: Any = SimpleNamespace(nodeid="tests/test_x.py::test_y[a function]")
    pytest_itemcollected(good)
    bad: Any = SimpleNamespace(nodeid=f"tests/test_x.py::test_y[{object()!r}]")
    with pytest.raises(pytest.UsageError, match="give the cases of this test ids"):
        pytest_itemcollected(bad)
