// The parameters of a launch that stand for tensors behind descriptors.
#pragma once

#include <string>
#include <vector>

#include "descriptors.h"
#include "driver_functions.h"

namespace wrapperir {

// Return why a tensor cannot be behind a descriptor; empty if it can.
inline std::string descriptor_problem(const Descriptor& given) {
  constexpr int64_t alignment = 16;
  constexpr int64_t largest_size = (int64_t{1} << 31) - 1;
  if (reinterpret_cast<uintptr_t>(given.base) % alignment)
    return "the address of a tensor descriptor is not a multiple of 16";
  for (int64_t i = 0; i < given.rank; ++i) {
    if (given.sizes[i] < 1 || given.sizes[i] > largest_size)
      return "a tensor descriptor cannot have a size of " + std::to_string(given.sizes[i]);
    if (i + 1 < given.rank && given.strides[i] * given.item_bytes % alignment)
      return "a stride of a tensor descriptor is not a multiple of 16 bytes: " +
             std::to_string(given.strides[i]);
  }
  if (given.strides[given.rank - 1] != 1) return "the last stride of a tensor descriptor is not 1";
  return "";
}

struct DescriptorParts {
  alignas(64) uint64_t map[16];
  char* base;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];
  int32_t short_sizes[most_dimensions];
  bool flag;
};

// Encode a descriptor for the tensor memory accelerator; the driver must have the function.
inline CUresult encode_descriptor(
    const Driver& driver, const Descriptor& given, const TensorMap& map, uint64_t* result) {
  constexpr int promotion_of_128_bytes = 2;
  // Up to this driver, small tensors need a bit of the descriptor cleared.
  constexpr int last_driver_with_bit = 13010;
  constexpr uint64_t small_tensor_bytes = 128 * 1024;
  constexpr uint64_t small_tensor_bit = uint64_t{1} << 21;
  // The driver counts dimensions from the last, and strides in bytes.
  const int64_t rank = given.rank;
  uint64_t sizes[most_dimensions];
  uint64_t strides[most_dimensions];
  uint32_t block[most_dimensions];
  uint64_t reach = 0;
  for (int64_t i = 0; i < rank; ++i) {
    sizes[rank - i - 1] = given.sizes[i];
    block[rank - i - 1] = map.block[i];
    const uint64_t step = i + 1 < rank ? given.strides[i] * map.item_bytes : map.item_bytes;
    if (i + 1 < rank) strides[rank - i - 2] = step;
    reach += (given.sizes[i] - 1) * step;
  }
  strides[rank - 1] = sizes[rank - 1] * (rank == 1 ? map.item_bytes : strides[rank - 2]);
  constexpr uint32_t steps[] = {1, 1, 1, 1, 1};
  CUresult error = driver.cuTensorMapEncodeTiled(
      result, map.type, static_cast<uint32_t>(rank), given.base, sizes, strides, block, steps, 0,
      map.swizzle, promotion_of_128_bytes, 0);
  int version = 0;
  if (!error) error = driver.cuDriverGetVersion(&version);
  if (!error && version <= last_driver_with_bit && reach + 1 < small_tensor_bytes)
    result[1] &= ~small_tensor_bit;
  return error;
}

// Append the addresses of what a kernel takes for a descriptor: encoded with a map, else in parts,
// which `flags` follow.  `part` holds them.
inline CUresult expand_descriptor(
    const Driver& driver, const Descriptor& given, const TensorMap* map, int flags,
    DescriptorParts& part, std::vector<void*>& expanded) {
  part.flag = false;
  part.base = given.base;
  if (map) {
    if (CUresult error = encode_descriptor(driver, given, *map, part.map)) return error;
    expanded.push_back(part.map);
  } else {
    expanded.push_back(&part.base);
  }
  for (int64_t i = 0; i < given.rank; ++i) {
    part.sizes[i] = given.sizes[i];
    part.strides[i] = given.strides[i];
    part.short_sizes[i] = static_cast<int32_t>(given.sizes[i]);
  }
  if (!map) {
    for (int64_t i = 0; i < given.rank; ++i) expanded.push_back(&part.sizes[i]);
    for (int64_t i = 0; i < given.rank; ++i) expanded.push_back(&part.strides[i]);
    for (int i = 0; i < flags; ++i) expanded.push_back(&part.flag);
  }
  for (int64_t i = 0; i < given.rank; ++i) expanded.push_back(&part.short_sizes[i]);
  for (int64_t i = 0; i < given.rank; ++i) expanded.push_back(&part.strides[i]);
  return 0;
}

}  // namespace wrapperir
