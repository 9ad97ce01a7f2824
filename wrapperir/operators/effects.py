"""Effects of operators that their schemas do not say."""

REMOVABLE_NAMESPACES = frozenset({"aten", "prims"})
"""Operators of other namespaces may do anything, so they stay."""

# Advance a random generator: leaving one out changes later numbers.
_GENERATE_RANDOM = """
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

# Check something, or order such checks, and return a token.
_CHECK = """
_functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
_functional_sym_constrain_range_for_size _make_dep_token _make_token
"""

UPDATE_STATISTICS = frozenset(
    [
        "_batch_norm_impl_index",
        "batch_norm",
        "cudnn_batch_norm",
        "instance_norm",
        "miopen_batch_norm",
        "native_batch_norm",
    ]
)
"""Operators of aten that, in training, change running statistics that are arguments."""

_STAY = frozenset((_GENERATE_RANDOM + _CHECK).split()) | UPDATE_STATISTICS


def may_leave_out(operator: str) -> bool:
    """Say whether a call whose result nothing uses may be left out.

    ``operator`` is a name with or without overload, such as ``aten.mm.default``.  The
    call is one that declares no writes and has a result.
    """
    namespace, _, name = operator.partition(".")
    return namespace in REMOVABLE_NAMESPACES and name.partition(".")[0] not in _STAY
