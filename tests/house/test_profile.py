"""The tests draw as many examples in a whole run as in a run of their own."""

import importlib

from hypothesis import settings


def test_torch_loads_a_profile_of_its_own_and_the_next_test_has_ours() -> None:
    assert settings.get_current_profile_name() in ("wrapperir", "random")
    importlib.import_module("torch.testing._internal.common_utils")


def test_the_profile_is_ours_again() -> None:
    assert settings.get_current_profile_name() in ("wrapperir", "random")
