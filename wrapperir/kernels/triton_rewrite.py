"""Turn the source of a Triton function into Python that runs on interpreted values."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_FACTORY = "__wrapperir_factory__"
_TO_TENSOR = "__wrapperir_to_tensor__"


class _AssignTensors(ast.NodeTransformer):
    """``x = value`` becomes ``x = to_tensor(value)``: numbers turn into Triton scalars."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        function = ast.Name(id=_TO_TENSOR, ctx=ast.Load())
        node.value = ast.Call(func=function, args=[node.value], keywords=[])
        return node


def rewrite(fn: Callable[..., Any], to_tensor: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return ``fn`` with each assigned value passed through ``to_tensor``.

    Where there is no source, ``fn`` itself.  The result sees the globals of ``fn``, which
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
    """Remove what would be evaluated again; defaults keep their number."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    function.returns = None
    arguments.defaults = [ast.Constant(value=None) for _ in arguments.defaults]
    arguments.kw_defaults = [
        None if default is None else ast.Constant(value=None)
        for default in arguments.kw_defaults
    ]
