// Tensor descriptors: checked, encoded by the driver, or passed in parts.
#include "triton_descriptors.h"

#include "cuda_driver.h"

namespace wrapperir {
namespace {

constexpr int64_t alignment = 16;
constexpr int64_t largest_size = (int64_t{1} << 31) - 1;
constexpr int promotion_of_128_bytes = 2;
// Up to this driver, small tensors need a bit of the descriptor cleared.
constexpr int last_driver_with_bit = 13010;
constexpr uint64_t small_tensor_bytes = 128 * 1024;
constexpr uint64_t small_tensor_bit = uint64_t{1} << 21;

void check_descriptor(const Descriptor& given, const char* name, int line) {
  if (reinterpret_cast<uintptr_t>(given.base) % alignment)
    fail(line, "%s: the address of a tensor descriptor is no multiple of 16", name);
  for (int64_t i = 0; i < given.rank; ++i) {
    if (given.sizes[i] < 1 || given.sizes[i] > largest_size)
      fail(
          line, "%s: a tensor descriptor has no size of %lld", name,
          static_cast<long long>(given.sizes[i]));
    if (i + 1 < given.rank && given.strides[i] * given.item_bytes % alignment)
      fail(
          line, "%s: a stride of a tensor descriptor is no multiple of 16 bytes: %lld", name,
          static_cast<long long>(given.strides[i]));
  }
  if (given.strides[given.rank - 1] != 1)
    fail(line, "%s: the last stride of a tensor descriptor is not 1", name);
}

void encode(const Descriptor& given, const TensorMap& map, uint64_t* result, int line) {
  const Driver& driver = cuda_driver(line);
  if (!driver.cuTensorMapEncodeTiled)
    fail(line, "the CUDA driver is too old for tensor descriptors");
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
  check_cuda(
      driver.cuTensorMapEncodeTiled(
          result, map.type, static_cast<uint32_t>(rank), given.base, sizes, strides, block,
          steps, 0, map.swizzle, promotion_of_128_bytes, 0),
      line, "encoding a tensor descriptor");
  int version = 0;
  check_cuda(driver.cuDriverGetVersion(&version), line, "asking for the driver's version");
  if (version <= last_driver_with_bit && reach + 1 < small_tensor_bytes)
    result[1] &= ~small_tensor_bit;
}

}  // namespace

Descriptor describe(
    char* base, int64_t item_bytes, const Ints& sizes, const Ints& strides) {
  Descriptor made = {base, item_bytes, sizes.count, {}, {}};
  for (int64_t i = 0; i < sizes.count; ++i) {
    made.sizes[i] = sizes.data[i];
    made.strides[i] = strides.data[i];
  }
  return made;
}

void expand_descriptors(
    const TritonKernel& kernel, const TritonBinary& binary, void** parameters, int count,
    std::vector<DescriptorParts>& parts, std::vector<void*>& expanded, int line) {
  parts.resize(__builtin_popcountll(kernel.descriptors));
  size_t number = 0;
  for (int i = 0; i < count + 2; ++i) {
    if (i >= count || !(kernel.descriptors >> i & 1)) {
      expanded.push_back(parameters[i]);
      continue;
    }
    const auto& given = *static_cast<const Descriptor*>(parameters[i]);
    const TensorMap* map = binary.maps ? &binary.maps[number] : nullptr;
    DescriptorParts& part = parts[number++];
    check_descriptor(given, kernel.name, line);
    part.flag = false;
    if (map) {
      encode(given, *map, part.map, line);
      expanded.push_back(part.map);
    } else {
      part.base = given.base;
      expanded.push_back(&part.base);
    }
    for (int64_t j = 0; j < given.rank; ++j) {
      part.sizes[j] = given.sizes[j];
      part.strides[j] = given.strides[j];
      part.short_sizes[j] = static_cast<int32_t>(given.sizes[j]);
    }
    if (!map) {
      for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.sizes[j]);
      for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.strides[j]);
      for (int32_t j = 0; j < binary.flags; ++j) expanded.push_back(&part.flag);
    }
    for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.short_sizes[j]);
    for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.strides[j]);
  }
}

}  // namespace wrapperir
