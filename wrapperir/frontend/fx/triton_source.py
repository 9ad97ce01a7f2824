"""Self-contained source text of a Triton kernel."""

# Triton carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

import ast
import builtins
import inspect
import textwrap
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.triton_kernel import IMPORTS

_GIVEN = frozenset({"tl", "triton"})
_LIBRARIES = ("triton", "torch")


def stand_alone_source(function: Any) -> str:
    """Return the source of a kernel with the imports, constants and functions it uses.

    Raises:
        DiagnosticError: WIR607, it uses something that has no source text.
    """
    imports: dict[str, None] = {}
    parts: list[str] = []
    _add(function, imports, parts, {})
    text = "\n\n".join(parts)
    return "\n".join([*imports, "", text]) if imports else text


def _add(
    function: Any, imports: dict[str, None], parts: list[str], seen: dict[str, object]
) -> None:
    source = f"@triton.jit\n{textwrap.dedent(function.src).rstrip()}\n"
    seen[function.__name__] = function
    outside = _outside(function)
    for name in _names(source):
        if name not in outside or name in _GIVEN:
            continue
        value = outside[name]
        if name in seen:
            if seen[name] is not value:
                raise _unreadable(function, name, "two values in the functions it calls")
            continue
        seen[name] = value
        if (text := _import(name, value)) is not None:
            imports[text] = None
        elif isinstance(value, JITFunction):
            if value.__name__ != name:
                raise _unreadable(function, name, "another name where it is defined")
            _add(value, imports, parts, seen)
        elif (text := _constant(value)) is not None:
            parts.append(f"{name} = {text}\n")
        else:
            raise _unreadable(function, name, f"a {type(value).__name__}")
    parts.append(source)


def _outside(function: Any) -> dict[str, object]:
    python = function.fn
    closed = inspect.getclosurevars(python).nonlocals
    return {**python.__globals__, **closed}


def _names(source: str) -> list[str]:
    """Return the names that a function uses and does not define, in their order."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    nodes = [node for node in ast.walk(definition) if isinstance(node, ast.Name)]
    local = {arg.arg for arg in ast.walk(definition) if isinstance(arg, ast.arg)}
    local |= {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    own = {definition.name, *dir(builtins)}
    return [name for name in dict.fromkeys(n.id for n in nodes) if name not in local | own]


def _import(name: str, value: object) -> str | None:
    """Return the import statement for a value of Triton or PyTorch."""
    if name in IMPORTS and isinstance(value, ModuleType):
        return IMPORTS[name]
    if isinstance(value, ModuleType):
        if value.__name__.split(".")[0] in _LIBRARIES:
            return f"import {value.__name__} as {name}"
        return None
    module = getattr(value, "__module__", None)
    own = getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(own, str):
        return None
    if module.split(".")[0] not in _LIBRARIES or module.startswith(
        "torch._inductor.runtime.compile_tasks"
    ):
        return None
    return f"from {module} import {own}" + ("" if own == name else f" as {name}")


def _constant(value: object) -> str | None:
    if isinstance(value, tl.constexpr):
        inner = _constant(value.value)
        return None if inner is None else f"tl.constexpr({inner})"
    if isinstance(value, tl.dtype):
        name = str(value)
        names = {str(dtype): key for key, dtype in vars(tl).items() if dtype == value}
        return f"tl.{names[name]}" if name in names else None
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return None


def _unreadable(function: Any, name: str, what: str) -> DiagnosticError:
    return DiagnosticError.of(
        Code.UNKNOWN_KERNEL,
        f"kernel {function.__name__} uses {name}, which is {what}",
        hint="give it to the kernel as a constexpr argument",
    )
