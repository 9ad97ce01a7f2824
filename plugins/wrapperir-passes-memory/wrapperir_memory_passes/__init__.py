"""Two passes over the memory of a device, as a plugin."""

from wrapperir_memory_passes.delay_frees import delay_frees
from wrapperir_memory_passes.place_in_space import place_in_space

__all__ = ["delay_frees", "place_in_space"]
