"""Operators that a device cannot record and replay, and why.

The verifier's rules for graph regions and the passes that make regions share
:func:`recording_obstacle`.  It is data about operators of PyTorch and imports none of it.
An operator of another library is taken to be recordable.
"""

from collections.abc import Iterable, Mapping

from wrapperir.ir.arguments import Argument, BufferRef
from wrapperir.ir.line import ExternKernelLine
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.storage_operators import changes_layout, is_sized_by_data, may_keep
from wrapperir.ir.types import DType, ScalarType, TensorType, ValueType

_RANDOM = """
_cudnn_attention_backward _cudnn_attention_forward _cudnn_init_dropout_state _cudnn_rnn
_efficient_attention_forward _fill_mem_eff_dropout_mask_ _flash_attention_forward
_flash_attention_forward_no_dropout_inplace _fused_dropout _fused_sdp_choice _lstm_mps
_nested_tensor_softmax_with_shape _sample_dirichlet _scaled_dot_product_attention_math
_scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention
_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_fused_attention_overrideable _standard_gamma
_triton_scaled_dot_attention alpha_dropout alpha_dropout_ bernoulli bernoulli_ binomial
cauchy cauchy_ dropout dropout_ exponential exponential_ feature_alpha_dropout
feature_alpha_dropout_ feature_dropout feature_dropout_ geometric geometric_ gru
inductor_rand_eager_offset inductor_rand_eager_offsets inductor_randint inductor_random
inductor_seed inductor_seeds
log_normal log_normal_ lstm miopen_rnn multinomial native_dropout normal normal_
normal_functional poisson rand rand_like randint randint_like randn randn_like random
random_ randperm rnn_relu rnn_tanh rrelu rrelu_ rrelu_with_noise rrelu_with_noise_
rrelu_with_noise_functional scaled_dot_product_attention uniform uniform_
"""
RANDOM_OPERATORS = frozenset(_RANDOM.split())
"""Names, without namespace and overload, of operators that advance a random generator."""

DROPOUT_POSITIONS: Mapping[str, int] = {
    "_cudnn_attention_backward": 13,
    "_cudnn_attention_forward": 9,
    "_efficient_attention_forward": 8,
    "_flash_attention_forward": 7,
    "_flash_attention_forward_no_dropout_inplace": 8,
    "_scaled_dot_product_attention_math": 4,
    "_scaled_dot_product_cudnn_attention": 5,
    "_scaled_dot_product_cudnn_attention_backward": 13,
    "_scaled_dot_product_efficient_attention": 5,
    "_scaled_dot_product_efficient_attention_backward": 9,
    "_scaled_dot_product_flash_attention": 3,
    "_scaled_dot_product_flash_attention_for_cpu": 3,
    "_scaled_dot_product_fused_attention_overrideable": 4,
    "scaled_dot_product_attention": 4,
}
"""Attention draws random numbers only if this argument, ``dropout_p``, is not 0.

The positions are those of the ``default`` overload.
"""

_READ_BY_HOST = """
_assert_scalar _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional
_local_scalar_dense _pin_memory allclose cholesky cholesky_inverse cholesky_solve equal
geqrf histc histogram is_nonzero item lu_solve lu_unpack masked_scatter_backward orgqr
ormqr pin_memory qr svd
"""
_DEVICE_LINALG = frozenset(["linalg_cross", "linalg_vecdot", "linalg_vector_norm"])
"""Linear algebra without checks by the host."""

_PACKED = frozenset(["_chunk_cat", "split_with_sizes_copy"])
"""Operators that give a kernel the addresses of many tensors in memory of the host."""

_MASKED = """
_index_put_impl_ _unsafe_index _unsafe_index_put index index_put index_put_
"""
"""Operators whose indices may be masks: the host then reads how many elements are set."""

_OF_STREAMS = frozenset(["streams", "wrapperir_streams"])
"""Namespaces of operators on streams and events that the program does not own."""

_OF_RANKS = frozenset(["_c10d_functional", "_c10d_functional_autograd", "c10d"])
"""Namespaces of operators on process groups."""

_HOST_READERS = frozenset(_READ_BY_HOST.split())
_MASKABLE = frozenset(_MASKED.split())


def works_with_ranks(operator: str) -> bool:
    """Say whether an operator works with other ranks of a group, or waits for them."""
    return operator.partition(".")[0] in _OF_RANKS


def recording_obstacle(
    line: ExternKernelLine, types: Mapping[str, ValueType]
) -> str | None:
    """Return why the work of an operator call cannot be recorded; ``None`` if it can.

    ``types`` has the types of the values that the call is given, as far as they are known.
    The text completes a sentence about the operator: "draws random numbers".
    """
    namespace, _, rest = line.operator.partition(".")
    if namespace in _OF_STREAMS:
        return "waits for streams or events of the caller, or has these wait"
    if may_keep(line.operator):
        return None
    name, _, overload = rest.partition(".")
    if isinstance(line.type, ScalarType):
        return "returns a number, which the host reads"
    if name in RANDOM_OPERATORS and not _is_without_dropout(line, name, overload):
        return "draws random numbers"
    if changes_layout(line.operator):
        return "changes the layout or the storage of an argument, which a replay does not"
    if name in _PACKED:
        return "copies addresses from the host"
    is_linalg = name.lstrip("_").startswith("linalg_") and name not in _DEVICE_LINALG
    if name in _HOST_READERS or is_linalg:
        return "has the host read a value"
    if name in _MASKABLE:
        return (
            "has the host count the elements of a mask"
            if any(_is_mask(types.get(n)) for n in _indices(line))
            else None
        )
    if is_sized_by_data(line.operator) and not _has_output_size(line):
        return "returns a tensor whose size depends on data"
    return None


def _is_without_dropout(line: ExternKernelLine, name: str, overload: str) -> bool:
    position = DROPOUT_POSITIONS.get(name)
    if position is None or overload != "default":
        return False
    keywords = dict(line.keywords)
    default: Argument = 0.0
    if position < len(line.arguments):
        default = line.arguments[position]
    given = keywords.get("dropout_p", default)
    return isinstance(given, int | float) and given == 0


def _indices(line: ExternKernelLine) -> Iterable[str]:
    keywords = dict(line.keywords)
    return buffers_in((*line.arguments[1:2], keywords.get("indices")))


def _is_mask(type: ValueType | None) -> bool:
    return isinstance(type, TensorType) and type.dtype in (DType.BOOL, DType.U8)


def _has_output_size(line: ExternKernelLine) -> bool:
    """Whether the call says how large its result is, as ``repeat_interleave`` can."""
    size = dict(line.keywords).get("output_size")
    return size is not None and not isinstance(size, BufferRef)
