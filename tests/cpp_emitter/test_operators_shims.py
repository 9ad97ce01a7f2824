"""PyTorch's C functions: which call is given to one, and which loses something there."""

from typing import Any

import pytest
import torch

from tests.cpp_emitter.operator_calls import Call, program_of
from tests.cpp_emitter.running import parsed
from wrapperir.operators import Kind, SchemaType, find_schema
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import PROGRAM
from wrapperir_cpp.shims import declared_shims, parse_declarations, signature_of

HEADER = """
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_cpu_one(AtenTensorHandle self,
    const int64_t** dim, int64_t dim_len_, AtenTensorHandle* ret0);
#endif // TORCH_FEATURE_VERSION
// AOTI_TORCH_EXPORT AOTITorchError aoti_torch_cpu_gone(AtenTensorHandle self);
AOTI_TORCH_EXPORT int32_t aoti_torch_device_type_cpu();
"""


def test_declarations_are_read_from_headers() -> None:
    assert parse_declarations(HEADER) == {
        "aoti_torch_cpu_one": (
            ("AtenTensorHandle", "self"),
            ("const int64_t**", "dim"),
            ("int64_t", "dim_len_"),
            ("AtenTensorHandle*", "ret0"),
        )
    }


def test_schemas_give_the_parameters_that_headers_declare() -> None:
    """Of all C functions; those that take fewer arguments than the schema are not used."""
    matching, others = set[str](), set[str]()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten":
            continue
        suffix = f"_{schema.overload_name}" if schema.overload_name else ""
        names = {f"aoti_torch_{kind}_{name}{suffix}" for kind in ("cpu", "cuda", "aten")}
        declared = names & declared_shims().keys()
        if declared:
            operator = find_schema(f"aten.{name}.{schema.overload_name or 'default'}")
            signature = signature_of(operator)
            assert signature is not None
            for function in declared:
                same = declared_shims()[function] == signature
                (matching if same else others).add(function)
    assert len(matching) > 250
    assert all("_flash_attention_" in function for function in others)


def test_schemas_are_read_with_what_they_return() -> None:
    operator = find_schema("aten.max.dim_max")
    assert (operator.name, operator.overload) == ("aten::max", "dim_max")
    assert operator.returned == ("max", "max_values")
    assert [p.name for p in operator.parameters if p.is_out] == ["max", "max_values"]
    indices = find_schema("aten.index_put_.default").parameters[1]
    optional = SchemaType(Kind.OPTIONAL, SchemaType(Kind.TENSOR))
    assert indices.type == SchemaType(Kind.LIST, optional)
    kernel = find_schema("aten.avg_pool2d.default").parameters[1]
    assert kernel.type.length == 2


X, INTS, COMPLEX = torch.ones(2, 3), torch.arange(3), torch.ones(2, dtype=torch.complex64)
LOSSY: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "an int would be a float": ("aten.add.Scalar", (INTS, 2), {}),
    "alpha would be a float": ("aten.add.Tensor", (INTS, INTS), {"alpha": 2}),
    "an int decides the dtype": ("aten.full.default", ([2], 7), {}),
    "a bool is no float": ("aten.mul.Scalar", (X, True), {}),
    "an int beyond floats": ("aten.add.Scalar", (X, 2**53 + 1), {}),
    "a number as a tensor": ("aten.mul.Tensor", (X, 2), {}),
    "a complex number": ("aten.mul.Scalar", (X, 1j), {}),
    "a conjugate may be written": ("aten.resize_.default", (COMPLEX, [2]), {}),
}


@pytest.mark.parametrize("why", LOSSY)
def test_calls_that_would_lose_something_go_through_the_dispatcher(why: str) -> None:
    operator, arguments, keywords = LOSSY[why]
    program, _, _ = program_of([Call(operator, arguments, keywords)])
    text = str(CppEmitter().emit(program).files[PROGRAM])
    assert text.count("op::call") == 1
    assert "check(aoti_torch_" not in text


def test_tensors_on_gpus_are_given_to_the_functions_for_those() -> None:
    program = parsed(
        """
        program @main(%x: f32[4, 4]@cuda:0, %y: f32[]) {
          %a = extern_kernel aten.cumsum.default(%x, 0) @cuda:0 : f32[4, 4]@cuda:0
          %b = extern_kernel aten.mul.Tensor(%x, %y) @cuda:0 : f32[4, 4]@cuda:0
          %c = extern_kernel aten.mm.default(%a, %x) @cuda:0 : f32[4, 4]@cuda:0
          return %a, %b, %c
        }
        """
    )
    text = str(CppEmitter().emit(program).files[PROGRAM])
    assert "check(aoti_torch_cuda_cumsum(" in text
    assert "check(aoti_torch_cuda_mm_out(" in text
    assert 'op::call(op::Operator{"aten::mul", "Tensor"}' in text  # on two devices
    assert "op::gemm(" not in text
