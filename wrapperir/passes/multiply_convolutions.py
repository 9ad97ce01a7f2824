"""Compute pointwise convolutions as matrix products."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import value_types
from wrapperir.ir.mentions import type_symbols

_PARAMETERS = (
    *("input", "weight", "bias", "stride", "padding", "dilation", "transposed"),
    *("output_padding", "groups"),
)
_CONVOLUTION = "aten.convolution.default"
_DTYPES = frozenset({wir.DType.F16, wir.DType.BF16})
"""Convolutions of f32 may use TF32 where products may not."""


def multiply_convolutions(program: wir.Program) -> wir.Program:
    """Return the program with 1×1 convolutions on GPUs as matrix products.

    Before::

        program @main(%x: f16[1, 64, 7, 7; stride 3136, 1, 448, 64]@cuda, \
%w: f16[256, 64, 1, 1]@cuda) {
          %y = extern_kernel aten.convolution.default(%x, %w, none, [1, 1], [0, 0], \
[1, 1], false, [0, 0], 1) @cuda : f16[1, 256, 7, 7; stride 12544, 1, 1792, 256]@cuda
          return %y
        }

    After::

        program @main(%x: f16[1, 64, 7, 7; stride 3136, 1, 448, 64]@cuda, \
%w: f16[256, 64, 1, 1]@cuda) {
          %y = allocate f16[1, 256, 7, 7; stride 12544, 1, 1792, 256]@cuda
          %view0 = reinterpret %x as f16[49, 64]@cuda
          %view1 = reinterpret %w as f16[64, 256; stride 1, 64]@cuda
          %view2 = reinterpret %y as f16[49, 256]@cuda
          extern_kernel aten.mm.out(%view0, %view1, out = %view2) writes(%view2) @cuda
          free %view0
          free %view1
          free %view2
          return %y
        }

    A call of cuDNN takes the host several times as long as one of cuBLAS, and its result is
    never in a pool.  The convolution has step 1, no padding and one group; its images are
    dense and channels last; all tensors are f16 or all bf16.  Sums may be rounded
    otherwise, as PyTorch's settings for matrix products allow.
    """
    convolves = any(
        isinstance(line, wir.ExternKernelLine) and line.operator == _CONVOLUTION
        for line in walk_lines(program.lines)
    )
    if not convolves:
        return program
    types = value_types(program)
    names = wir.FreshNames(types)

    def multiplied(body: Body) -> Iterator[wir.BodyLine]:
        for line in body.lines:
            convolution = _find_pointwise(line, types)
            if convolution is None:
                yield line
            else:
                yield from _product_lines(convolution, names)

    return rewrite_bodies(program, multiplied)


@frozen
class _Pointwise:
    """A convolution that is a product: its tensors with their types."""

    line: wir.ExternKernelLine
    images: tuple[str, wir.TensorType]
    weight: tuple[str, wir.TensorType]
    result: tuple[str, wir.TensorType]
    bias: wir.BufferRef | None


def _find_pointwise(
    line: wir.BodyLine, types: Mapping[str, wir.ValueType]
) -> _Pointwise | None:
    """Return the convolution of a line if it is a product of plain matrices."""
    if not isinstance(line, wir.ExternKernelLine) or line.operator != _CONVOLUTION:
        return None
    given = dict(zip(_PARAMETERS, line.arguments, strict=False)) | dict(line.keywords)
    images, weight, bias = (given.get(name) for name in _PARAMETERS[:3])
    if not isinstance(images, wir.BufferRef) or not isinstance(weight, wir.BufferRef):
        return None
    named = [types[images.name], types[weight.name], line.type]
    if bias is not None:
        named.append(types[bias.name] if isinstance(bias, wir.BufferRef) else None)
    found = [type for type in named if isinstance(type, wir.TensorType)]
    if len(found) != len(named) or not all(_suits(type, found[0], line) for type in found):
        return None
    of_images, of_weight, of_result = found[:3]
    steps = [given.get(name) for name in _PARAMETERS[3:]]
    spatial = len(of_images.size) - 2
    ones, zeros = (1,) * spatial, (0,) * spatial
    if spatial < 1 or steps != [ones, zeros, ones, False, zeros, 1]:
        return None
    if of_weight.size[2:] != ones or of_result.offset != 0 or line.result is None:
        return None
    if not (_is_channels_last(of_images) and _is_channels_last(of_result)):
        return None
    if not _has_strides(of_weight, (of_weight.size[1], 1, *zeros)):
        return None
    if bias is not None and not _has_strides(found[3], (1,)):
        return None
    known = {s for type in (of_images, of_weight) for s in type_symbols(type)}
    if not known.issuperset(type_symbols(of_result)):
        return None
    return _Pointwise(
        line,
        (images.name, of_images),
        (weight.name, of_weight),
        (line.result, of_result),
        bias if isinstance(bias, wir.BufferRef) else None,
    )


def _suits(type: wir.TensorType, first: wir.TensorType, line: wir.ExternKernelLine) -> bool:
    return (
        type.dtype in _DTYPES
        and type.dtype is first.dtype
        and type.device == line.device
        and type.device.kind == "cuda"
        and type.space == wir.DEFAULT_SPACE
        and type.layout is None
        and 0 not in type.size
    )


def _is_channels_last(type: wir.TensorType) -> bool:
    batch, channels, *spatial = type.size
    step, *others, last = wir.contiguous_stride((batch, *spatial, channels))
    return _has_strides(type, (step, last, *others))


def _has_strides(type: wir.TensorType, strides: Sequence[wir.Expr]) -> bool:
    """Return whether a tensor has these strides, but for dimensions of size 1."""
    return len(type.size) == len(strides) and all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(type.size, type.stride, strides, strict=True)
    )


def _product_lines(convolution: _Pointwise, names: wir.FreshNames) -> list[wir.BodyLine]:
    """Return the lines that multiply a matrix of all pixels by the filters."""
    line = convolution.line
    (name, type), (filters, channels, *_) = convolution.result, convolution.weight[1].size
    batch, _, *spatial = type.size
    rows = wir.mul(batch, wir.product(tuple(spatial)))
    views = [
        (*convolution.images, (rows, channels), (channels, 1)),
        (*convolution.weight, (channels, filters), (1, channels)),
        (*convolution.result, (rows, filters), (filters, 1)),
    ]
    made = [names.new(None, "view") for _ in views]
    images, weight, result = map(wir.BufferRef, made)
    bias = () if convolution.bias is None else (convolution.bias,)
    product = evolve(
        line,
        operator="aten.addmm.out" if bias else "aten.mm.out",
        arguments=(*bias, images, weight),
        keywords=(("out", result),),
        writes=(result.name,),
        result=None,
        type=None,
    )
    return [
        wir.AllocateLine(result=name, type=type, provenance=line.provenance),
        *(
            wir.ReinterpretLine(
                result=view,
                source=source,
                type=evolve(old, size=size, stride=stride, alignment=None),
            )
            for view, (source, old, size, stride) in zip(made, views, strict=True)
        ),
        product,
        *(wir.FreeLine(buffer=view) for view in made),
    ]
