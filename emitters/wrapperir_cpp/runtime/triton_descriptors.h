// Tensor descriptors as Triton passes them to kernels.
#pragma once

#include <vector>

#include "cuda.h"

namespace wrapperir {

// What stands for one descriptor among a launch's parameters.
struct DescriptorParts {
  alignas(64) uint64_t map[16];
  char* base;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];
  int32_t short_sizes[most_dimensions];
  bool flag;
};

// Put the parts of descriptors in their place among parameters, of which there are `count`
// and two after them.
void expand_descriptors(
    const TritonKernel& kernel, const TritonBinary& binary, void** parameters, int count,
    std::vector<DescriptorParts>& parts, std::vector<void*>& expanded, int line);

}  // namespace wrapperir
