"""Run Triton kernels on CPU tensors, with no GPU, through Triton's interpreter.

Importing, loading and running leave Triton unchanged: replacements for Triton's interpreter
are made only while a kernel runs.
"""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

import ast
import inspect
import textwrap
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import attrs
import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction, KernelInterface

from wrapperir.diagnostics import FaultError
from wrapperir.kernels.triton_builder import CpuBuilder, MemoryWatch
from wrapperir.kernels.triton_libdevice import STAND_INS, missing
from wrapperir.kernels.triton_reduce import associative_scan, reduce, sort_with_index

_ABSENT = object()
_FACTORY = "__wrapperir_factory__"
_TO_TENSOR = "__wrapperir_to_tensor__"

_LOCK = threading.RLock()  # Triton's interpreter keeps its state in module globals
_BUILDER = CpuBuilder()


@attrs.define
class _Replaced:
    """Replaces attributes, and restores them at the end."""

    new: list[tuple[Any, str, Any]]
    old: list[tuple[Any, str, Any]] = attrs.field(factory=list)

    def __enter__(self) -> None:
        for owner, name, value in self.new:
            self.old.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)

    def __exit__(self, *_: object) -> None:
        while self.old:
            owner, name, value = self.old.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextmanager
def interpreted_triton() -> Generator[None]:
    """Make ``@triton.jit`` define kernels that run on CPU tensors.

    Execute a module inside; its kernels, launched as ``kernel[grid](...)`` at any later
    time, are interpreted.  Outside, ``@triton.jit`` is as before.
    """
    kernel_class = [(interpreter, "InterpretedFunction", _jitted)]
    with _LOCK, _interpret_knob(), _Replaced(kernel_class):
        yield


def _jitted(fn: Callable[..., Any], **options: Any) -> Any:
    """Return the kernel that ``@triton.jit`` makes while a module is executed.

    Functions of libraries that the module imports first are not interpreted.
    """
    module = fn.__module__ or ""  # of code that is executed without a module
    is_library = module == _HELPERS or module.startswith("triton.")
    return (JITFunction if is_library else InterpretedKernel)(fn, **options)


@contextmanager
def _interpret_knob() -> Generator[None]:
    # Setting the knob would set the environment variable too.
    knobs = vars(triton.knobs.runtime)
    before = knobs.get("interpret", _ABSENT)
    knobs["interpret"] = True
    try:
        yield
    finally:
        if before is _ABSENT:
            del knobs["interpret"]
        else:
            knobs["interpret"] = before


class InterpretedKernel(KernelInterface):  # type: ignore[misc]
    """A function under ``@triton.jit`` whose launches are interpreted.

    Grid programs run one after the other, x outermost.
    """

    def __init__(self, fn: Callable[..., Any], **_: Any) -> None:
        """Wrap ``fn``; the options of ``triton.jit`` make no difference here."""
        self.fn = fn
        self._rewritten: Callable[..., Any] | None = None
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        self.constexprs = frozenset(
            name
            for name, parameter in self.signature.parameters.items()
            if _is_constexpr(parameter.annotation)
        )

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        """Launch; keywords that are not parameters, such as ``num_warps``, are ignored.

        Raises:
            InterpreterError: the kernel raised an error.
        """
        if not warmup:
            known = {k: v for k, v in kwargs.items() if k in self.signature.parameters}
            self.launch(self.signature.bind(*args, **known), grid, None)

    def launch(
        self, bound: inspect.BoundArguments, grid: Any, watch: MemoryWatch | None
    ) -> None:
        """Launch with bound arguments; ``watch`` is told of each access to memory.

        Raises:
            InterpreterError: the kernel raised an error.
            FaultError: ``watch`` raised it.
        """
        bound.apply_defaults()
        with _execution(watch):
            values = {
                name: value
                if name in self.constexprs
                else _argument(value, self.signature.parameters[name].annotation)
                for name, value in bound.arguments.items()
            }
            function = self._function()
            x, y, z = _dimensions(grid(values) if callable(grid) else grid)
            _BUILDER.set_grid_dim(x, y, z)
            try:
                for index in np.ndindex(x, y, z):
                    _BUILDER.set_grid_idx(*index)
                    function(**values)
            except (FaultError, InterpreterError):
                raise
            except Exception as error:
                raise InterpreterError(_describe(error, self.fn)) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call as a function of a running kernel."""
        return self._function()(*args, **kwargs)

    def _function(self) -> Callable[..., Any]:
        if self._rewritten is None:
            self._rewritten = _rewrite(self.fn, _to_tensor)
        return self._rewritten


def _to_tensor(value: Any) -> Any:
    return interpreter.interpreter_semantic.to_tensor(value, False)


def _is_constexpr(annotation: Any) -> bool:
    return annotation is tl.constexpr or "constexpr" in str(annotation)


def _dimensions(grid: Any) -> tuple[int, int, int]:
    given = tuple(int(extent) for extent in (grid if isinstance(grid, tuple) else (grid,)))
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def _argument(value: Any, annotation: Any) -> Any:
    if isinstance(value, bool):
        return scalar(value, tl.int1)
    # As when compiled: an annotated number has that type, others one that holds the value.
    if isinstance(value, int | float) and annotation in _ANNOTATED:
        return scalar(value, _ANNOTATED[annotation])
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        raise InterpreterError(f"a kernel argument is on {value.device}, not on the CPU")
    return interpreter._implicit_cvt(value)


_ANNOTATED: Mapping[Any, tl.dtype] = {
    str(dtype): dtype
    for dtype in (
        *(tl.int8, tl.int16, tl.int32, tl.int64),
        *(tl.uint8, tl.uint16, tl.uint32, tl.uint64),
        *(tl.float16, tl.bfloat16, tl.float32, tl.float64),
    )
}


def scalar(value: float, dtype: tl.dtype) -> tl.tensor:
    """Return a number as a kernel argument of exactly this type."""
    data = np.array([value], dtype=interpreter._get_np_dtype(dtype))
    return tl.tensor(interpreter.TensorHandle(data, dtype), dtype)


def _describe(error: Exception, fn: Callable[..., Any]) -> str:
    """Return the error with the line of the kernel that raised it."""
    message = str(error).strip() or type(error).__name__
    traceback = error.__traceback__
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == fn.__code__.co_filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    place = f" at line {line} of {fn.__name__}" if line is not None else ""
    return f"{type(error).__name__}: {message}{place}"


@contextmanager
def _execution(watch: MemoryWatch | None) -> Generator[None]:
    with _LOCK, _interpret_knob(), _Replaced(_replacements()), np.errstate(all="ignore"):
        before = _BUILDER.watch
        _BUILDER.watch = watch
        try:
            yield
        finally:
            _BUILDER.watch = before


_CACHED: list[tuple[Any, str, Any]] = []


def _replacements() -> list[tuple[Any, str, Any]]:
    """Return the replacements that are made while a kernel runs."""
    if not _CACHED:
        _CACHED.extend(_find_replacements())
    return _CACHED


def _find_replacements() -> list[tuple[Any, str, Any]]:
    own: list[tuple[Any, str, Any]] = [
        (interpreter, "interpreter_builder", _BUILDER),
        (interpreter.interpreter_semantic, "builder", _BUILDER),
        # Triton's own library (tl.sum, tl.zeros …) was defined to be compiled.
        (JITFunction, "__call__", lambda self, *a, **k: _device_call(self, a, k)),
        (JITFunction, "__get__", _bind_method),
    ]
    with _Replaced(own):
        # Its own patches, for both modules that kernels and its library go through.
        scope = interpreter._patch_lang(
            SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
        )
        patched = [(owner, name, vars(owner)[name]) for owner, name, _ in scope._changes]
        changes = list(scope._changes)
        scope.restore()
    for owner, name, value in changes:  # restoring leaves copies of inherited methods
        if isinstance(owner, type) and getattr(super(owner, owner), name, None) is value:
            delattr(owner, name)
    reductions = [
        (module, function.__name__, function)
        for module in (tl, tl.core)
        for function in (reduce, associative_scan)
    ]
    functions = [
        (libdevice, name, STAND_INS.get(name) or missing(name))
        for name, value in vars(libdevice).items()
        if inspect.isfunction(value)
    ]
    # Triton 3.6 fails here under numpy 2.4.
    index = (tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
    return [*own, *patched, index, *reductions, *functions]


def _bind_method(self: Any, instance: Any, owner: Any = None) -> Any:
    """Make ``x.sum()`` pass ``x``; a jitted function is an attribute of the class."""
    if not isinstance(instance, tl.tensor):
        return self
    return lambda *args, **kwargs: self(instance, *args, **kwargs)


def _device_call(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    found = _LIBRARY.get(function.fn)
    if found is None:
        name = function.fn.__name__
        ours = _INDUCTOR.get(name) if function.fn.__module__ == _HELPERS else None
        found = _LIBRARY[function.fn] = ours or _rewrite(function.fn, _to_tensor)
    return found(*args, **kwargs)


def _x_grid_barrier(sem: object) -> None:
    if _BUILDER.grid_dim[0] > 1:
        # Programs run one after the other, so the first would wait for ever.
        raise NotImplementedError("a kernel whose programs wait for each other")


_HELPERS = "torch._inductor.runtime.triton_helpers"
_INDUCTOR: Mapping[str, Callable[..., Any]] = {
    "sort_with_index": sort_with_index,
    "x_grid_barrier": _x_grid_barrier,
}
"""Stand-ins for functions of Inductor's own library, by name."""


_LIBRARY: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Rewritten functions of modules that were loaded to be compiled, such as Triton's own."""


class _AssignTensors(ast.NodeTransformer):
    """``x = value`` becomes ``x = to_tensor(value)``: numbers turn into Triton scalars."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        function = ast.Name(id=_TO_TENSOR, ctx=ast.Load())
        node.value = ast.Call(func=function, args=[node.value], keywords=[])
        return node


def _rewrite(fn: Callable[..., Any], to_tensor: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return ``fn`` with each assigned value passed through ``to_tensor``.

    Without a source, returns ``fn``.  The result sees the globals of ``fn``, which
    stay as they are: ``to_tensor`` comes as a closure.
    """
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        return fn
    tree = ast.parse(textwrap.dedent("".join(lines)))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    _AssignTensors().visit(function)
    function.decorator_list = []
    _remove_annotations(function)
    ast.increment_lineno(function, first - 1)
    factory = ast.FunctionDef(
        name=_FACTORY,
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=_TO_TENSOR)],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        body=[function, ast.Return(value=ast.Name(id=function.name, ctx=ast.Load()))],
        decorator_list=[],
    )
    module = ast.fix_missing_locations(ast.Module(body=[factory], type_ignores=[]))
    code = compile(module, fn.__code__.co_filename, "exec", dont_inherit=True)
    (body,) = (const for const in code.co_consts if isinstance(const, CodeType))
    rewritten: Any = FunctionType(body, fn.__globals__)(to_tensor)
    rewritten.__defaults__ = fn.__defaults__
    rewritten.__kwdefaults__ = fn.__kwdefaults__
    return rewritten  # type: ignore[no-any-return]


def _remove_annotations(function: ast.FunctionDef) -> None:
    """Remove expressions that would be evaluated again; defaults keep their number."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    function.returns = None
    arguments.defaults = [ast.Constant(value=None) for _ in arguments.defaults]
    arguments.kw_defaults = [
        None if default is None else ast.Constant(value=None)
        for default in arguments.kw_defaults
    ]
