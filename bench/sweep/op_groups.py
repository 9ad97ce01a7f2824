"""The groups of operators whose work kernels should do, without calls of operators."""

from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    OpInfo,
    ReductionOpInfo,
    ShapeFuncInfo,
    UnaryUfuncInfo,
)

_OF_CLASSES = {
    UnaryUfuncInfo: "pointwise",
    BinaryUfuncInfo: "pointwise",
    ReductionOpInfo: "reduction",
    ShapeFuncInfo: "view",
}

_INDEXING = """
__getitem__ _unsafe_masked_index _unsafe_masked_index_put_accumulate argwhere
as_strided_scatter diagonal_scatter gather index_add index_copy index_fill index_put
index_reduce_amax index_reduce_amin index_reduce_mean index_reduce_prod index_select
masked_fill masked_scatter masked_select nn_functional_embedding nonzero nonzero_static put
scatter scatter_add scatter_reduce_amax scatter_reduce_amin scatter_reduce_mean
scatter_reduce_prod scatter_reduce_sum select_scatter slice_scatter take take_along_dim
where
"""

_VIEWS = """
H T alias_copy as_strided as_strided_copy as_strided_partial_views atleast_1d atleast_2d
atleast_3d broadcast_tensors broadcast_to chunk contiguous diag_embed diagonal
diagonal_copy dsplit expand expand_as expand_copy flatten flip fliplr flipud hsplit
linalg_diagonal mH mT meshgrid_list_of_tensors meshgrid_variadic_tensors movedim narrow
narrow_copy nn_functional_channel_shuffle nn_functional_pixel_shuffle
nn_functional_pixel_unshuffle permute permute_copy ravel reshape reshape_as roll rot90
select slice split split_list_args split_with_sizes split_with_sizes_copy squeeze
squeeze_copy squeeze_multiple t t_copy tensor_split transpose transpose_copy unbind
unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split unsqueeze
unsqueeze_copy view view_as view_as_complex view_as_real view_copy vsplit
"""

_LISTED = dict.fromkeys(_INDEXING.split(), "indexing") | dict.fromkeys(
    _VIEWS.split(), "view"
)

GROUPS = ("pointwise", "reduction", "indexing", "view")


def group_of(operator: OpInfo) -> str | None:
    """Return the group of an entry of the database: by its class, or by its name."""
    for kind, group in _OF_CLASSES.items():
        if isinstance(operator, kind):
            return group
    return _LISTED.get(operator.formatted_name)
