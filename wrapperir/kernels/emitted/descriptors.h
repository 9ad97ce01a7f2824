// Tensors behind descriptors, which Triton kernels take blocks of.
#pragma once

#include <stdint.h>

namespace wrapperir {

constexpr int most_dimensions = 5;

// The blocks of a tensor behind a descriptor, from Triton.
struct TensorMap {
  int32_t swizzle;
  int32_t item_bytes;
  int32_t type;
  uint32_t block[most_dimensions];
};

// A tensor behind a descriptor, as an argument.
struct Descriptor {
  char* base;
  int64_t item_bytes;
  int64_t rank;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];
};

}  // namespace wrapperir
