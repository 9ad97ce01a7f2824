"""The scope in which Inductor generates programs: what it patches, it restores."""

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from torch._inductor import config
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from wrapperir.frontend.inductor.cpu_triton import triton_for_cpu
from wrapperir.frontend.inductor.session import Session
from wrapperir.frontend.inductor.storage_offsets import offsets_from_the_storage
from wrapperir.frontend.inductor.wrapper import CaptureFactory

# Inductor's registry is one for the process: one capture at a time.
_LOCK = threading.RLock()

_CONFIG: dict[str, Any] = {
    # A program is made anew each time; Inductor's caches hold its own output code.
    "fx_graph_cache": False,
    # Reuse, pools, partitions and graphs that are ours to make, as passes or not at all.
    "allow_buffer_reuse": False,
    "memory_planning": False,
    "graph_partition": False,
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "triton.cudagraphs": False,
    # A benchmark of its own in each kernel's text.
    "benchmark_kernel": False,
    # Its last step is written as text over a slice of a workspace.
    "triton.mix_order_reduction": False,
}


def own_settings() -> contextlib.AbstractContextManager[None]:
    """Have Inductor not do what a program leaves to passes or emitters.

    ``compile_fx`` reads some of these before it hands a graph on for compilation.
    """
    settings: contextlib.AbstractContextManager[None] = config.patch(_CONFIG)
    return settings


@contextlib.contextmanager
def capturing(session: Session) -> Generator[None]:
    """Have Inductor, in this thread, generate for ``session``.

    The registry and the configuration are as before when the context is left, also by
    an exception.  Other threads wait to enter; those that compile with Inductor itself
    meanwhile get its own wrapper.
    """
    with _LOCK:
        common.init_backend_registration()
        stock = dict(common.device_codegens)
        try:
            for device, codegen in stock.items():
                if codegen.wrapper_codegen is not PythonWrapperCodegen:
                    continue
                factory: Any = CaptureFactory(
                    session, codegen.wrapper_codegen, threading.get_ident()
                )
                common.device_codegens[device] = common.DeviceCodegen(
                    codegen.scheduling, factory, factory, factory
                )
            # Alignment is asserted by lines, which the session makes.
            asserts = config.patch("alignment_asserts", False)
            with own_settings(), asserts, triton_for_cpu(), offsets_from_the_storage():
                yield
        finally:
            for device, codegen in stock.items():
                common.device_codegens[device] = codegen
