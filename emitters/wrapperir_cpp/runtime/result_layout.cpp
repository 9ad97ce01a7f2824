// Layouts of results, and new tensors of them.
#include "result_layout.h"

extern "C" {
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);
size_t aoti_torch_dtype_element_size(int32_t);
}

namespace wrapperir {
ResultLayout layout_of(AtenTensorHandle tensor, int line) {
  ResultLayout made;
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  check(aoti_torch_get_dim(tensor, &rank), line);
  check(aoti_torch_get_dtype(tensor, &made.dtype), line);
  check(aoti_torch_get_sizes(tensor, &sizes), line);
  check(aoti_torch_get_strides(tensor, &strides), line);
  made.sizes.assign(sizes, sizes + rank);
  made.strides.assign(strides, strides + rank);
  int64_t last = 0;
  bool is_empty = false;
  for (int64_t i = 0; i < rank; ++i) {
    last += (sizes[i] - 1) * strides[i];
    is_empty = is_empty || !sizes[i];
  }
  const auto item = static_cast<int64_t>(aoti_torch_dtype_element_size(made.dtype));
  made.bytes = is_empty ? 0 : (last + 1) * item;
  return made;
}

void ResultLayout::make(Tensor& result, Device device, int32_t index, int line) const {
  check(
      aoti_torch_empty_strided(
          static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
          torch_device(device), index, result.out()),
      line);
}

}  // namespace wrapperir
