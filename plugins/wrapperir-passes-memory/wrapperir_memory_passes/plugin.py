"""The plugin: it names the passes for pipelines."""

from collections.abc import Mapping

from wrapperir.passes import PassFunction
from wrapperir.plugin import hookimpl
from wrapperir_memory_passes.delay_frees import delay_frees
from wrapperir_memory_passes.place_in_space import place_in_space


@hookimpl
def wrapperir_passes() -> Mapping[str, PassFunction]:
    """Return the passes of this plugin."""
    return {"place_in_space": place_in_space, "delay_frees": delay_frees}
