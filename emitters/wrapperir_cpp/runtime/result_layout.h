// The dtype, sizes and strides of a region's result; each replay makes a new tensor with them.
#pragma once

#include <vector>

#include "runtime.h"

namespace wrapperir {

struct ResultLayout {
  std::vector<int64_t> sizes, strides;
  int32_t dtype = 0;
  int64_t bytes = 0;  // from the first element on

  void make(Tensor& result, Device device, int32_t index, int line) const;
};

ResultLayout layout_of(AtenTensorHandle tensor, int line);

}  // namespace wrapperir
