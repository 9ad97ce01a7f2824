"""Kernels of the conformance kit that count, compare and store numbers.

A *cell* is a tensor without dimensions.  With these kernels, loops and conditions need no
operators.
"""

from wrapperir import ir as wir

_COUNTED = wir.BufferParameter("in_ptr0", wir.DType.I64, wir.Access.READ)


def count_kernel(language: wir.Language) -> wir.KernelDefinitionLine:
    """Return ``out = in + step``, of i64 cells.

    Raises:
        ValueError: there is none in ``language``.
    """
    parameters = (
        _COUNTED,
        wir.BufferParameter("out_ptr0", wir.DType.I64, wir.Access.WRITE),
        wir.ScalarParameter("step", wir.DType.I64),
    )
    return _cell_kernel("count", language, parameters, "{} + step")


def below_kernel(language: wir.Language) -> wir.KernelDefinitionLine:
    """Return ``out = in < limit``, a bool cell of an i64 cell.

    Raises:
        ValueError: there is none in ``language``.
    """
    parameters = (
        _COUNTED,
        wir.BufferParameter("out_ptr0", wir.DType.BOOL, wir.Access.WRITE),
        wir.ScalarParameter("limit", wir.DType.I64),
    )
    return _cell_kernel("below", language, parameters, "{} < limit")


def _cell_kernel(
    name: str, language: wir.Language, parameters: tuple[wir.Parameter, ...], result: str
) -> wir.KernelDefinitionLine:
    _, out, scalar = parameters
    if language is wir.Language.CPP:
        assert isinstance(out, wir.BufferParameter)
        taken = f"const long* in_ptr0, {_CPP_TYPES[out.dtype]}* out_ptr0"
        source = f'extern "C" void {name}({taken}, long {scalar.name}) {{\n'
        source += f"    out_ptr0[0] = {result.format('in_ptr0[0]')};\n}}\n"
    elif language is wir.Language.TRITON:
        source = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        source += f"def {name}(in_ptr0, out_ptr0, {scalar.name}):\n"
        source += f"    tl.store(out_ptr0, {result.format('tl.load(in_ptr0)')})\n"
    else:
        raise ValueError(f"no kernels in {language.value}")
    is_cpp = language is wir.Language.CPP
    return wir.KernelDefinitionLine(
        name=f"{language.value}_{name}",
        language=language,
        parameters=parameters,
        grid=() if is_cpp else (1, 1, 1),
        entry=name,
        metadata=(wir.NO_HEADERS,) if is_cpp else (),
        source=source,
    )


_CPP_TYPES = {wir.DType.I64: "long", wir.DType.BOOL: "bool"}

_NUMBERS = (
    *(("a", wir.DType.F64, "double"), ("b", wir.DType.F32, "float")),
    *(("c", wir.DType.I64, "long"), ("d", wir.DType.I32, "int")),
    ("e", wir.DType.BOOL, "bool"),
)
NUMBER_COUNT = len(_NUMBERS)
"""The number of scalars that :func:`numbers_kernel` takes."""


def numbers_kernel() -> wir.KernelDefinitionLine:
    """Return the C++ kernel that stores scalars of five types as f64, in order."""
    taken = ", ".join(f"{spelled} {name}" for name, _, spelled in _NUMBERS)
    stores = "".join(f"    out[{i}] = {name};\n" for i, (name, *_) in enumerate(_NUMBERS))
    return wir.KernelDefinitionLine(
        name="cpp_numbers",
        language=wir.Language.CPP,
        parameters=(
            wir.BufferParameter("out", wir.DType.F64, wir.Access.WRITE),
            *(wir.ScalarParameter(name, dtype) for name, dtype, _ in _NUMBERS),
        ),
        entry="numbers",
        metadata=(wir.NO_HEADERS,),
        source=f'extern "C" void numbers(double* out, {taken}) {{\n{stores}}}\n',
    )
