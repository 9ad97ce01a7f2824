"""Programs of our own lowering in PyTorch's cache of traced graphs, for later processes.

AOTAutograd keeps, under a digest of the graph that Dynamo traced, what it made of the graph
and the compiled code of both halves, with the guards on symbolic sizes.  A later process
then neither traces nor partitions.  Code that is not Inductor's is in the entry itself.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from wrapperir.frontend.inductor.light_keys import light_keys
from wrapperir.frontend.inductor.program_cache import cached_by, can_keep_programs
from wrapperir.frontend.inductor.shared_patch import SharedPatch
from wrapperir.frontend.kept_programs import KeptProgram, format_kept, parse_kept
from wrapperir.frontend.output_code import is_shown
from wrapperir.frontend.profile_marks import marking


class KeptCode(OutputCode):
    """The compiled code of a graph, which PyTorch writes to a file as a program's text."""

    def __init__(
        self,
        kept: KeptProgram,
        constants: Mapping[str, torch.Tensor],
        call: Callable[[list[Any]], Any],
    ) -> None:
        """Keep a program, whose loaded form ``call`` is, with its constants by name."""
        super().__init__()
        self._boxed_call = True
        self._fx_graph_cache_key = "wrapperir"  # it may be kept
        self.text = format_kept(kept)
        self.constants = dict(constants)
        self.call: Callable[[list[Any]], Any] | None = call

    def __call__(self, inputs: Any) -> Any:
        """Run the program."""
        assert self.call is not None
        return self.call(inputs)

    def prepare_for_serialization(self) -> None:
        """Drop the loaded form, of the copy that PyTorch writes."""
        self.call = None

    def post_compile(
        self, example_inputs: object, constants: object, graph_kwargs: object
    ) -> None:
        """Load the program that was read."""
        with unset_fake_temporarily():  # constants are real tensors
            self.call = marking(parse_kept(self.text).load(self.constants), self.text)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing: emitted files hold their kernels."""


def _is_ours(function: Any) -> bool:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return isinstance(function, KeptCode)


def _with_code_inside(stock: Callable[..., Any]) -> Any:
    """Return what makes the entry of a graph; ours has the code of the graph itself."""

    def make(compiled_fw_func: Any, *arguments: Any, **named: Any) -> Any:
        bundled: Any = functorch_config.patch(bundled_autograd_cache=True)
        with bundled if _is_ours(compiled_fw_func) else contextlib.nullcontext():
            return stock(compiled_fw_func, *arguments, **named)

    return staticmethod(make)


_entries_with_code = SharedPatch(AOTAutogradCache, "make_entry", _with_code_inside)


class AutogradKeeper:
    """What has PyTorch keep graphs that are compiled without Inductor."""

    _is_installed = False

    def __init__(self) -> None:
        """Have PyTorch, in this process, make entries of such graphs.

        It does so when the first backward runs, which no context is entered for.
        """
        if not AutogradKeeper._is_installed:
            AutogradKeeper._is_installed = True
            _entries_with_code.__enter__()

    def compiler(self, compile: Callable[..., Any]) -> Any:
        """Return a compiler for AOTAutograd, which looks a graph up before it traces it."""
        return SerializableAOTDispatchCompiler(OutputCode, compile)

    @contextlib.contextmanager
    def keyed_by(self, key: str) -> Generator[None]:
        """Look graphs up under PyTorch's key and ``key``."""
        with cached_by(key), light_keys():
            yield

    def code(
        self,
        kept: KeptProgram,
        constants: Mapping[str, torch.Tensor],
        call: Callable[[list[Any]], Any],
    ) -> Any:
        """Return the compiled code of a graph, as PyTorch keeps it."""
        return KeptCode(kept, constants, call)


def graph_keeper() -> AutogradKeeper | None:
    """Return what has PyTorch keep graphs; ``None`` if it is to keep none."""
    return AutogradKeeper() if can_keep_programs() and not is_shown() else None
