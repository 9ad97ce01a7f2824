"""Inductor's settings by name, those of a mode of ``torch.compile``, and our own."""

from collections.abc import Mapping
from typing import Any, get_origin

from torch._inductor import config, list_mode_options

from wrapperir.diagnostics import Code

OWN: dict[str, Any] = {
    # Reuse, pools, partitions and graphs that are ours to make, as passes or not at all.
    "allow_buffer_reuse": False,
    "memory_planning": False,
    "graph_partition": False,
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "triton.cudagraphs": False,
    # A benchmark of its own in each kernel's text.
    "benchmark_kernel": False,
}
"""Settings of Inductor with which graphs are captured, whatever the user's are."""

OF_HOSTS = {"cpp_wrapper", "fx_wrapper", "triton.cudagraphs"}
"""Settings that ``compile_fx`` has acted on before it hands a graph on."""


def mode_settings(mode: str) -> Mapping[str, object]:
    """Return the settings that a mode of ``torch.compile`` changes.

    Raises:
        DiagnosticError: WIR661, ``torch.compile`` has no such mode.
    """
    modes: dict[str, Mapping[str, object]] = list_mode_options()
    if mode not in modes:
        raise Code.INVALID_OPTION.error(
            f"torch.compile has no mode {mode!r}", hint=f"the modes are {', '.join(modes)}"
        )
    return modes[mode]


def setting_names() -> frozenset[str]:
    """Return the names of Inductor's settings, as in ``triton.cudagraphs``."""
    names: dict[str, Any] = config.get_config_copy()
    return frozenset(names)


def check_setting(name: str, value: object) -> None:
    """Refuse a value of another type than the setting has; ``-`` in its name is ``_``.

    Raises:
        DiagnosticError: WIR661, it has another type.
    """
    settings: Any = config
    wanted: Any = settings.get_type(name.replace("-", "_"))
    # Inductor does not check generic types either.
    if get_origin(wanted) is None and not isinstance(value, wanted):
        raise Code.INVALID_OPTION.error(
            f"option {name!r} of Inductor is of type {getattr(wanted, '__name__', wanted)},"
            f" not {type(value).__name__}"
        )
